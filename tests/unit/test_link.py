"""The line link: framing at the ends, holding input, output bounds, closing (ST-01..ST-21), on stub transports
that a test drives by hand and on real sockets of both loops."""

import asyncio
import json
import socket

import pytest
from mux_support import Bench, raw

from headrace.errors import ConnectionClosed
from headrace.limits import Limits
from headrace.mux import Mux
from headrace.server.app import Server
from headrace.transports._link import LineLink
from headrace.transports.memory import memory_pair
from headrace.transports.stream import open_lines, serve_lines


class StubTransport:
    """Keeps what is written; `take` is the peer reading. Calls back at once, as a transport may."""

    def __init__(self, link):
        self.link = link
        self.writes = []
        self.queued = 0
        self.blocked = False   # the peer does not read
        self.high = None
        self.full = False
        self.reading = True
        self.closing = False
        self.aborted = False
        link.connection_made(self)

    def set_write_buffer_limits(self, high):
        self.high = high

    def get_write_buffer_size(self):
        return self.queued

    def get_extra_info(self, name, default=None):
        return default

    def write(self, data):
        assert not self.closing
        self.writes.append(data)
        if self.blocked:
            self.queued += len(data)
            if self.queued > self.high and not self.full:
                self.full = True
                self.link.pause_writing()

    def take(self, n=None):
        self.queued -= self.queued if n is None else n
        if self.full and self.queued <= self.high // 4:
            self.full = False
            self.link.resume_writing()

    def pause_reading(self):
        assert self.reading, "paused twice"
        self.reading = False

    def resume_reading(self):
        assert not self.reading, "resumed twice"
        self.reading = True

    def close(self):
        self.closing = True

    def abort(self):
        self.closing = self.aborted = True

    @property
    def lines(self):
        data = b"".join(self.writes)
        assert data == b"" or data.endswith(b"\n")
        return [json.loads(line) for line in data.splitlines()]

    def ids(self):
        return [line.get("id") for line in self.lines]


class Line(Bench):
    """A Bench whose mux belongs to a line link over a StubTransport."""

    def __init__(self, *, serves=True, **limits):
        super().__init__(client=not serves, **limits)
        self.lost = []
        self.link = LineLink(self.mux, self.limits, serves=serves, on_lost=self.lost.append)
        self.transport = StubTransport(self.link)

    def data(self, *frames):
        self.link.data_received(b"".join(f + b"\n" for f in frames))

    def end(self):
        """The transport reports its end, as after close() or a reset."""
        self.link.connection_lost(None)
        return self.at_rest()


def test_replies_of_one_turn_leave_in_one_write():
    line = Line()
    line.data(*(raw(n) for n in range(100)))
    assert len(line.transport.writes) == 1
    assert line.transport.ids() == list(range(100))
    line.data(*(raw(n, "hold") for n in range(50)))
    for n in range(50):
        line.waits[n].set_result(b"{}")
    line.loop.turn()
    assert len(line.transport.writes) == 2
    assert line.end()


def test_b03_b06_b02_blank_lines_a_mark_and_crlf():
    line = Line()
    line.link.data_received(b"\xef\xbb\xbf" + raw(1) + b"\r\n\n\r\n  \t\n" + raw(2) + b"\n")
    assert line.transport.ids() == [1, 2]
    line.link.data_received(b"\xef\xbb\xbf" + raw(3) + b"\n" + raw(4) + b"\n")
    assert line.transport.ids() == [1, 2, None, 4]


def test_b11_a_frame_in_many_pieces_and_many_frames_in_one():
    line = Line()
    for byte in raw(1) + b"\n":
        line.link.data_received(bytes([byte]))
    line.link.data_received(bytearray(raw(2) + b"\n" + raw(3) + b"\n"))
    assert line.transport.ids() == [1, 2, 3]


def test_b10_an_overlong_line_is_one_error_and_the_next_is_served():
    line = Line(max_message_bytes=1000)
    line.link.data_received(b"a" * 1_000_000)
    line.link.data_received(b"a" * 1_000_000 + b"\n" + raw(1) + b"\n")
    assert [a.get("error", {}).get("code") for a in line.transport.lines] == [-32600, None]


def test_b04_b07_bad_lines_are_answered_once_each_by_a_server_and_never_by_a_client():
    server, client = Line(), Line(serves=False)
    for line in (server, client):
        line.data(b"\xff\xfe", b"not json", b'{"jsonrpc":"2.0","error":{"code":1,"message":""}}', raw("z", "ping")
                  .replace(b"z", b'"z"'))
    assert [a.get("error", {}).get("code") for a in server.transport.lines] == [-32700, -32700, None]
    assert client.transport.ids() == ["z"]


# --- holding input --------------------------------------------------------------------------------


def test_one_turn_handles_max_inline_frames():
    line = Line(max_inline_frames=10)
    line.data(*(raw(n) for n in range(35)))
    assert len(line.transport.lines) == 10
    assert not line.transport.reading
    line.link.data_received(raw(35) + b"\n")  # was under way already
    line.loop.turn()
    assert line.transport.ids() == list(range(36))
    assert len(line.transport.writes) == 4
    assert line.transport.reading
    line.data(*(raw(n) for n in range(10)))
    assert line.transport.reading  # exactly one share is no reason to stop


def test_b70_reading_pauses_when_enough_is_parked_and_goes_on():
    line = Line(max_in_flight=2, max_parked=4)
    line.data(*(raw(n, "wait") for n in range(20)))
    assert line.mux.debug_counts()["parked"] == 4
    assert not line.transport.reading
    for n in range(20):
        line.done(n)
    assert line.transport.ids() == list(range(20))
    assert line.transport.reading
    assert line.end()


def test_pause_while_paused_for_another_reason():
    line = Line(max_in_flight=1, max_parked=1, max_output_bytes=100, max_inline_frames=3)
    line.transport.blocked = True
    line.method("big", lambda ex: b'{"t":"%b"}' % (b"x" * 200))
    line.data(raw(0, "wait"), raw(1, "wait"), raw(2, "ping"), raw(3, "big"))
    assert not line.transport.reading
    line.done(0)          # lets the parked one run: held no more
    line.loop.turn()
    line.data(raw(4, "big"))
    line.done(1)
    assert not line.transport.reading  # now the output is full
    line.transport.blocked = False
    line.transport.take()
    line.loop.turn()
    assert line.transport.reading
    assert sorted(line.transport.ids()) == [0, 1, 2, 3, 4]
    assert line.end()


def test_a_full_outbox_stops_a_server_reading():
    line = Line(max_output_bytes=1000)
    line.transport.blocked = True
    line.method("big", lambda ex: b'{"t":"%b"}' % (b"x" * 1500))
    line.data(raw(0, "big"))
    assert not line.transport.reading
    line.link.data_received(raw(1) + b"\n" + raw(2) + b"\n")
    assert line.transport.ids() == [0]
    line.transport.take()
    assert line.transport.ids() == [0, 1, 2]
    assert line.transport.reading


def test_t19_a_full_outbox_does_not_stop_a_client_reading():
    line = Line(serves=False, max_output_bytes=1000)
    line.transport.blocked = True
    calls = [line.mux.call("x", b'{"t":"%b"}' % (b"x" * 900), line.link) for _ in range(2)]
    line.loop.turn()
    assert line.transport.full and line.transport.reading
    line.data(b'{"jsonrpc":"2.0","id":1,"result":{}}', b'{"jsonrpc":"2.0","id":2,"result":{}}')
    assert [c.future.result() for c in calls] == [b"{}", b"{}"]


def test_handlers_that_await_their_progress_wait_for_a_slow_reader():
    line = Line(max_output_bytes=1000)
    line.transport.blocked = True
    steps = []

    async def work(ex):
        for n in range(10):
            waiter = ex.progress(n, message="x" * 600)
            if waiter is not None:
                await waiter
            steps.append(n)
        return b"{}"

    line.method("work", work)
    line.data(raw(1, "work", '{"_meta":{"progressToken":1}}'))
    line.loop.turn()
    assert steps == [0]
    while len(steps) < 10:
        before = len(steps)
        line.transport.take()
        line.loop.turn()
        assert len(steps) > before
    line.transport.take()
    line.loop.turn()
    assert len(line.transport.lines) == 11
    assert line.end()


def test_handlers_that_do_not_wait_lose_progress_instead_of_filling_memory():
    line = Line(max_output_bytes=1000)
    line.transport.blocked = True

    def work(ex):
        for n in range(10_000):
            ex.progress(n, message="x" * 100)
        return b"{}"

    line.method("work", work)
    line.data(raw(1, "work", '{"_meta":{"progressToken":1}}'))
    line.loop.turn()
    assert sum(map(len, line.transport.writes)) < 10_000
    assert line.transport.lines[-1]["id"] == 1


@pytest.mark.parametrize("filled", [True, False], ids=["over the bound", "under the bound"])
def test_a_peer_that_takes_nothing_is_dropped_after_write_timeout(filled):
    line = Line(max_output_bytes=10 if filled else 100_000, write_timeout=5)
    line.transport.blocked = True
    line.data(raw(1))
    line.loop.advance(4)
    assert not line.transport.aborted
    line.loop.advance(8)
    assert line.transport.aborted
    assert line.end()


def test_a_peer_that_reads_slowly_stays_although_more_and_more_is_queued():
    line = Line(max_output_bytes=10, write_timeout=5)
    line.transport.blocked = True
    for n in range(20):
        line.data(raw(n, "hold"))
    for n in range(20):
        line.waits[n].set_result(b'{"t":"%b"}' % (b"x" * 1000))
        line.loop.turn()
        line.transport.take(1)
        line.loop.advance(4.9)
    assert not line.transport.aborted
    line.transport.take()
    line.loop.advance(20)
    assert not line.transport.aborted
    assert [h for _, _, h in line.loop.timers if h.callback] == []


def test_a_peer_that_reads_nothing_after_the_end_is_dropped():
    line = Line(write_timeout=5)
    line.transport.blocked = True
    line.data(raw(1))
    line.link.eof_received()
    assert line.transport.closing and not line.transport.aborted
    line.loop.advance(11)
    assert line.transport.aborted


# --- the end --------------------------------------------------------------------------------------


def test_b12_the_last_line_counts_without_its_newline():
    line = Line()
    line.link.data_received(raw(1) + b"\n" + raw(2))
    assert line.link.eof_received()
    assert line.transport.ids() == [1, 2]
    assert line.transport.closing
    assert line.end()


def test_b12_peer_closes_mid_frame():
    line = Line()
    line.link.data_received(raw(1) + b"\n" + raw(2)[:30])
    line.link.eof_received()
    assert [a.get("id") for a in line.transport.lines] == [1, 2]
    assert "error" in line.transport.lines[1] or line.transport.lines[1]["id"] is None
    line.link.connection_lost(ConnectionResetError("reset"))
    assert str(line.lost[0]) == "the connection broke: reset"
    assert line.at_rest()


def test_second_eof():
    line = Line()
    line.data(raw(1, "wait"))
    assert line.link.eof_received() and line.link.eof_received()
    line.link.data_received(raw(2) + b"\n")
    line.done(1)
    assert line.transport.ids() == [1]
    assert line.transport.closing
    assert line.end()
    assert line.link.eof_received()


def test_st21_requests_in_flight_and_parked_are_answered_after_the_end_of_input():
    line = Line(max_in_flight=1, max_parked=2)
    line.data(*(raw(n, "wait") for n in range(6)))
    assert not line.transport.reading
    line.link.eof_received()
    for n in range(6):
        assert not line.transport.closing
        line.done(n)
    assert line.transport.ids() == list(range(6))
    assert line.transport.closing
    assert line.end()


def test_eof_while_a_share_of_frames_is_due():
    line = Line(max_inline_frames=10)
    line.data(*(raw(n) for n in range(35)))
    line.link.eof_received()
    assert not line.transport.closing
    line.loop.turn()
    assert line.transport.ids() == list(range(35))
    assert line.transport.closing


def test_eof_while_the_output_is_full():
    line = Line(max_output_bytes=100)
    line.transport.blocked = True
    line.method("big", lambda ex: b'{"t":"%b"}' % (b"x" * 200))
    line.data(raw(0, "big"), raw(1), raw(2))
    line.link.eof_received()
    assert not line.transport.closing
    line.transport.take()
    assert line.transport.ids() == [0, 1, 2]
    assert line.transport.closing


def test_st21_after_drain_timeout_what_runs_is_cancelled():
    line = Line(drain_timeout=3)
    line.data(raw(1, "wait"))
    line.link.eof_received()
    line.loop.advance(3.1)
    assert line.log == [("ended", 1)]
    assert line.transport.closing
    assert line.transport.lines == []
    assert line.end()


def test_drain_from_this_side_refuses_what_is_new():
    line = Line()
    line.data(raw(1, "wait"))
    line.link.drain()
    line.link.drain()
    line.data(raw(2), raw(3, "ping"))
    line.done(1)
    assert [(a["id"], "error" in a) for a in line.transport.lines] == [(2, True), (3, False), (1, False)]
    assert line.transport.closing
    assert line.end()


def test_handler_finishing_during_drain_starts_another():
    line = Line()

    async def work(ex):
        await line.wait(ex)
        line.link.data_received(raw(2, "echo") + b"\n")
        return b"{}"

    line.method("work", work)
    line.data(raw(1, "work"))
    line.link.drain()
    line.done(1)
    assert line.transport.closing
    assert line.end()


def test_drain_of_an_idle_link_closes_at_once():
    line = Line()
    line.link.drain()
    assert line.transport.closing
    line.link.close()
    line.link.abort()
    assert line.end()
    line.link.drain()
    line.link.close()
    line.link.abort()


def test_a_client_whose_peer_ends_gets_every_answer_first():
    line = Line(serves=False, max_inline_frames=10)
    calls = [line.mux.call("x", None, line.link) for _ in range(36)]
    line.loop.turn()
    line.data(*(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % c.id for c in calls[:35]))
    assert line.link.eof_received()
    line.loop.turn()
    assert [c.future.result() for c in calls[:35]] == [b"{}"] * 35
    assert isinstance(calls[35].future.exception(), ConnectionClosed)
    assert line.transport.closing
    assert line.end()


def test_b82_a_client_whose_peer_ends_fails_its_calls_at_once():
    line = Line(serves=False)
    call = line.mux.call("x", None, line.link)
    assert line.link.eof_received() is False
    assert str(call.future.exception()) == "the peer closed the connection"
    with pytest.raises(ConnectionClosed):
        line.mux.call("x", None, line.link)


@pytest.mark.parametrize("how", ["close", "abort", "lost", "mux"])
def test_a_handler_ends_the_link_while_frames_are_left(how):
    line = Line()

    def work(ex):
        if how == "close":
            line.link.close()
        elif how == "abort":
            line.link.abort()
        elif how == "mux":
            line.mux.close()
        else:
            line.link.connection_lost(None)
        return b"{}"

    line.method("work", work)
    line.data(raw(1), raw(2, "work"), raw(3), raw(4, "wait"))
    line.loop.turn()
    assert 3 not in line.transport.ids() and 4 not in line.transport.ids()
    line.data(raw(5))
    assert 5 not in line.transport.ids()
    line.link.connection_lost(None)
    line.link.connection_lost(None)
    assert len(line.lost) == 1
    assert line.at_rest()


def test_a_handler_feeds_its_own_link():
    line = Line()

    def work(ex):
        line.link.data_received(raw(2) + b"\n" + raw(3) + b"\n")
        return b'{"w":1}'

    line.method("work", work)
    line.data(raw(1, "work"), raw(4))
    assert sorted(line.transport.ids()) == [1, 2, 3, 4]
    assert len(line.transport.writes) == 1


def test_b112_write_failure_mid_frame_ends_the_connection_once():
    line = Line()
    line.data(raw(1, "wait"), raw(2, "wait"))
    line.link.connection_lost(BrokenPipeError(32, "Broken pipe"))
    line.loop.turn()
    assert line.log == [("ended", 1), ("ended", 2)]
    assert len(line.lost) == 1 and isinstance(line.lost[0], ConnectionClosed)
    assert line.transport.writes == []
    assert line.at_rest()


def test_the_reason_of_a_transport_is_the_reason_of_the_calls():
    line = Line(serves=False)
    call = line.mux.call("x", None, line.link)
    line.link.connection_lost(ConnectionClosed("exited with status 3", exit_code=3))
    assert call.future.exception().exit_code == 3


def test_waiters_for_output_are_released_at_the_end():
    line = Line(max_output_bytes=10)
    line.transport.blocked = True
    line.data(raw(1))
    waiter = line.link.wait_drained()
    assert waiter is not None and not waiter.done()
    line.link.connection_lost(None)
    assert waiter.done()
    assert line.link.wait_drained() is None
    assert line.at_rest()


def test_an_overloaded_client_is_told_so():
    line = Line(serves=False, max_output_bytes=100)
    line.transport.blocked = True
    with pytest.raises(Exception, match="does not read"):
        for _ in range(100):
            line.mux.call("x", b'{"t":"%b"}' % (b"x" * 100), line.link)
            line.loop.turn()
    assert sum(map(len, line.transport.writes)) < 1000


# --- on real loops --------------------------------------------------------------------------------


def pair_app(limits=None):
    app = Server("t", version="1", limits=limits)

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def sleep(ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return "slept"

    return app


META = '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}'


def tool_call(name, arguments):
    return (f'{{"name":"{name}","arguments":{json.dumps(arguments)},{META}}}').encode()


@pytest.mark.parametrize("kind", ["memory", "unix", "tcp"])
def test_10_000_requests_in_flight_on_one_connection(run, kind, tmp_path):
    async def main():
        app = pair_app(Limits(max_in_flight=10_000))
        async with app.running():
            client = Mux(app.runtime, Bench(client=True).gate, Limits())
            if kind == "memory":
                session, mux = app.new_session()
                link = LineLink(client, Limits(), serves=False)
                session.sink = LineLink(mux, app.limits)
                memory_pair(session.sink, link)
            elif kind == "unix":
                listener = await serve_lines(app, unix=str(tmp_path / "s"))
                link = await open_lines(client, Limits(), unix=str(tmp_path / "s"))
            else:
                listener = await serve_lines(app, host="127.0.0.1", port=0)
                host, port = listener.addresses[0].removeprefix("tcp:").rsplit(":", 1)
                link = await open_lines(client, Limits(), host=host, port=int(port))
            calls = [client.call("tools/call", tool_call("sleep", {"ms": 1000}), link) for _ in range(10_000)]
            ping = client.call("ping", None, link)
            assert await asyncio.wait_for(ping.future, 10) == b"{}"
            for call in calls:
                assert b"slept" in await call
            assert client.debug_counts()["pending"] == 0
            link.close()
            if kind != "memory":
                await listener.close()
            await asyncio.sleep(0.05)
            assert app.runtime.in_flight == 0

    run(main)


def test_b112_a_peer_that_goes_away_in_the_middle_of_a_large_answer(run, tmp_path):
    async def main():
        app = pair_app()
        async with app.running():
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            loop = asyncio.get_running_loop()
            for _ in range(5):
                with socket.socket(socket.AF_UNIX) as s:
                    s.setblocking(False)
                    await loop.sock_connect(s, str(tmp_path / "s"))
                    frame = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}\n' % tool_call(
                        "echo", {"text": "x" * 1_000_000})
                    await loop.sock_sendall(s, frame * 3)
                    await loop.sock_recv(s, 10)
            for _ in range(200):
                if listener.connections == 0:
                    break
                await asyncio.sleep(0.02)
            assert listener.connections == 0
            assert app.runtime.in_flight == 0
            await listener.close()

    run(main)


def test_b70_a_peer_that_does_not_read_costs_bounded_memory(run, tmp_path):
    async def main():
        app = pair_app(Limits(max_output_bytes=100_000, write_timeout=0.3))
        async with app.running():
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            loop = asyncio.get_running_loop()
            with socket.socket(socket.AF_UNIX) as s:
                s.setblocking(False)
                await loop.sock_connect(s, str(tmp_path / "s"))
                frame = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":%b}\n' % tool_call(
                    "echo", {"text": "x" * 10_000})
                sent = 0
                with pytest.raises((TimeoutError, OSError)):
                    while sent < 100_000_000:
                        await asyncio.wait_for(loop.sock_sendall(s, frame), 5)
                        sent += len(frame)
                assert sent < 10_000_000
            for _ in range(200):
                if listener.connections == 0:
                    break
                await asyncio.sleep(0.02)
            assert listener.connections == 0
            await listener.close()

    run(main)
