"""Event streams of the HTTP client: resuming, pauses, odd streams, and that nothing becomes a storm (HO-21..HO-25)."""

import asyncio
import json
import time

import pytest
from http_peer import END, call, chunk, connected, event, plain, result_event, sse_head
from http_peer import answer as answered

from headrace.errors import ConnectionClosed, HttpStatusError, RemoteProtocolError, RequestTimeout
from headrace.mux import FunctionHandler, Revision

QUICK = {"reconnect_delay": 0.01}


async def until(condition, seconds=5.0):
    """Waits for `condition()`, bounded."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


class Script:
    """The peer's handler: ``post(request, conn)`` and ``get(request, conn)`` answer; requests are kept."""

    def __init__(self, post=None, get=None):
        self.posts, self.gets, self.others = [], [], []
        self.times = []  # when each GET came
        self.post = post or (lambda request, conn: conn.send(answered(request)))
        self.get = get or (lambda request, conn: conn.send(plain("405 Method Not Allowed")))

    async def __call__(self, conn):
        while (request := await conn.request()) is not None:
            if request.method == "GET":
                self.gets.append(request)
                self.times.append(time.monotonic())
                self.get(request, conn)
            elif request.method == "POST" and "method" in request.body and "id" in request.body:
                self.posts.append(request)
                self.post(request, conn)
            else:
                self.others.append(request)
                conn.send(plain("202 Accepted" if request.method == "POST" else "200 OK"))


# ---------------------------------------------------------------- pauses


@pytest.mark.parametrize("retry", [0, 15, 60, 150])
@pytest.mark.parametrize("end", ["graceful", "drop"])
def test_ho23_retry_is_never_undercut(run, retry, end):
    """MUST wait that long; a graceful close is like a drop; the count starts when the server has closed."""
    closed = []

    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: %d\ndata:\n\n" % retry))
        over(conn)

    def over(conn):
        closed.append(time.monotonic())
        if end == "graceful":
            conn.send(END)
        else:
            conn.close()

    def get(request, conn):
        if len(script.gets) < 3:
            conn.send(sse_head() + chunk(b"id: a%d\ndata:\n\n" % len(script.gets)))
            over(conn)
        else:
            conn.send(sse_head() + event({"jsonrpc": "2.0", "id": 1, "result": {"n": 3}}) + END)

    script = Script(post, get)

    async def main():
        async with connected(script, modern=False) as (_, mux, channel):
            assert json.loads(await call(mux, channel).future) == {"n": 3}
            assert len(script.gets) == 3
            for begun, again in zip(closed, script.times, strict=True):
                assert again - begun >= retry / 1000
            assert [g.headers["last-event-id"] for g in script.gets] == ["a", "a1", "a2"]

    run(main)


def test_ho23_without_retry_the_pause_is_ours(run):
    """The first one is the limit's, each failure after it makes it longer; up to a quarter at random."""

    def get(request, conn):
        conn.send(plain("503 Service Unavailable"))

    script = Script(get=get)

    async def main():
        async with connected(script, modern=False, reconnect_delay=0.05, max_reconnects=3) as (_, _mux, channel):
            channel.open_stream()
            await until(lambda: len(script.gets) == 4)
            pauses = [b - a for a, b in zip(script.times, script.times[1:], strict=False)]
            assert pauses[0] >= 0.05 and pauses[1] >= 0.1 and pauses[2] >= 0.2
            await asyncio.sleep(0.3)
            assert len(script.gets) == 4  # asleep: an idle client leaves a dead server alone

    run(main)


def test_ho23_retry_after_is_kept(run):
    """Retry-After of 429 and 503 is the least pause, for the stream and for resuming a call."""
    closed = []

    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: 1\ndata:\n\n") + END)

    def get(request, conn):
        if len(script.gets) == 1:
            closed.append(time.monotonic())
            conn.send(plain("429 Too Many Requests", Retry_After="1"))
        else:
            conn.send(sse_head() + event({"jsonrpc": "2.0", "id": 1, "result": {}}) + END)

    script = Script(post, get)

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            assert await call(mux, channel).future == b"{}"
            assert len(script.gets) == 2 and script.times[1] - closed[0] >= 1.0

    run(main)


@pytest.mark.parametrize("value", [b"999999999999", b"4294967296", b"600000"])
def test_b40_a_huge_retry_is_bounded(run, value):
    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: " + value + b"\ndata:\n\n") + END)

    def get(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "id": 1, "result": {}}) + END)

    async def main():
        async with connected(Script(post, get), modern=False, max_reconnect_wait=0.05) as (_, mux, channel):
            assert await call(mux, channel).future == b"{}"

    run(main)


@pytest.mark.parametrize("value", [b"10x", b"-5", b"", b" ", b"1.5", b"\xd9\xa1"])
def test_b40_what_is_no_number_is_ignored(run, value):
    """Then our own pause counts."""

    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: " + value + b"\ndata:\n\n") + END)
        begun.append(time.monotonic())

    def get(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "id": 1, "result": {}}) + END)

    begun = []
    script = Script(post, get)

    async def main():
        async with connected(script, modern=False, reconnect_delay=0.04) as (_, mux, channel):
            assert await call(mux, channel).future == b"{}"
            assert script.times[0] - begun[0] >= 0.04

    run(main)


def test_b40_a_retry_of_zero_is_no_storm(run):
    """A server that closes at once, again and again, without news: fewer requests than in a second of 10 ms."""

    def get(request, conn):
        conn.send(sse_head() + chunk(b"retry: 0\n\n") + END)

    script = Script(get=get)

    async def main():
        async with connected(script, modern=False) as (_, _mux, channel):
            channel.open_stream()
            await until(lambda: len(script.gets) >= 4)
            begun = len(script.gets)
            await asyncio.sleep(0.5)
            assert len(script.gets) - begun <= 7

    run(main)


def test_b40_event_ids_without_messages_are_no_storm_either(run):
    """A server that closes each stream at once behind a new event id: asked again, but less and less often."""
    ids = iter(range(10_000))

    def get(request, conn):
        conn.send(sse_head() + chunk(b"retry: 0\nid: %d\ndata:\n\n" % next(ids)) + END)

    def post(request, conn):
        get(request, conn)

    script = Script(post, get)

    async def main():
        async with connected(script, modern=False) as (_, mux, channel):
            channel.open_stream()
            begun = call(mux, channel, timeout=1.0)
            with pytest.raises(RequestTimeout):
                await begun.future
            assert 1 <= len(script.gets) <= 20

    run(main)


def test_a_refused_resumption_does_not_look_like_a_refused_call(run):
    """Who reads "HTTP 400 for tools/call" may think that the tool did not run."""

    def post(request, conn):
        conn.send(sse_head() + chunk(b"retry: 1\nid: a\ndata:\n\n") + END)

    script = Script(post, lambda request, conn: conn.send(plain("400 Bad Request")))

    async def main():
        async with connected(script, modern=False) as (_, mux, channel):
            with pytest.raises(HttpStatusError, match="HTTP 400 Bad Request for the rest of the answer to tools/call"):
                await call(mux, channel).future

    run(main)


# ---------------------------------------------------------------- what is resumed, and what is not


def test_ho24_without_an_event_id_the_call_fails(run):
    def post(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "method": "notifications/x"}))
        conn.send(END) if request.id == 1 else conn.reset()

    script = Script(post)

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            for _ in range(2):
                with pytest.raises(ConnectionClosed, match="event stream"):
                    await call(mux, channel).future
            await asyncio.sleep(0.05)
            assert script.gets == []

    run(main)


@pytest.mark.parametrize("after", ["end", "drop", "open"])
def test_ho24_no_reconnect_once_the_answer_came(run, after):
    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: 1\ndata:\n\n") + result_event(request, id="b"))
        if after == "end":
            conn.send(END)
        elif after == "drop":
            conn.close()

    script = Script(post)

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            for _ in range(3):
                assert json.loads(await call(mux, channel).future) == {"ok": True}
            await asyncio.sleep(0.05)
            assert script.gets == []

    run(main)


@pytest.mark.parametrize("kind", ["nul", "cleared", "control", "empty data"])
def test_ho25_b40_ids(run, kind):
    """An id with NUL is ignored; an empty one clears; one that no header can carry is not sent; the id of an
    event without data counts."""
    pieces = {
        "nul": b"id: good\ndata:\n\nid: a\0b\ndata:\n\n",
        "cleared": b"id: good\ndata:\n\nid:\ndata:\n\n",
        "control": b"id: a\x01b\ndata:\n\n",
        "empty data": b"id: good\n\n",
    }

    def post(request, conn):
        conn.send(sse_head() + chunk(pieces[kind]) + END)

    def get(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "id": 1, "result": {}}) + END)

    script = Script(post, get)

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            outcome = await asyncio.gather(call(mux, channel).future, return_exceptions=True)
            if kind in ("nul", "empty data"):
                assert outcome == [b"{}"] and script.gets[0].headers["last-event-id"] == "good"
            else:
                assert isinstance(outcome[0], ConnectionClosed) and script.gets == []

    run(main)


def test_b40_a_stream_may_clear_its_id_while_it_is_resumed(run):
    """The server's own stream then goes on without Last-Event-ID."""

    def get(request, conn):
        n = len(script.gets)
        text = [b"id: a\nretry: 1\ndata:\n\n", b": nothing\n\n", b"id\ndata:\n\n", b""][min(n - 1, 3)]
        conn.send(sse_head() + (chunk(text) if text else b"") + (END if n < 4 else b""))

    script = Script(get=get)

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, _mux, channel):
            channel.open_stream()
            await until(lambda: len(script.gets) == 4)
            assert [g.headers.get("last-event-id") for g in script.gets] == [None, "a", "a", None]

    run(main)


def test_ho21_a_resumed_stream_may_break_again_and_gives_each_message_once(run):
    notes = iter(range(100))

    def burst(conn, n):
        for _ in range(n):
            i = next(notes)
            conn.send(event({"jsonrpc": "2.0", "method": f"n/{i}"}, id=f"e{i}"))

    def post(request, conn):
        conn.send(sse_head() + chunk(b"retry: 5\n\n"))
        burst(conn, 3)
        conn.close()

    def get(request, conn):
        conn.send(sse_head())
        burst(conn, 2)
        if len(script.gets) < 3:
            conn.close()
        else:
            conn.send(event({"jsonrpc": "2.0", "id": 1, "result": {}}) + END)

    script = Script(post, get)

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            assert await call(mux, channel).future == b"{}"
            assert [g.headers["last-event-id"] for g in script.gets] == ["e2", "e4", "e6"]
            assert mux.gate.notes == [f"n/{i}" for i in range(9)]

    run(main)


def test_ho24_failures_to_resume_are_bounded_and_progress_resets_them(run):
    """max_reconnects in a row: the call fails; a stream that opened in between begins the count anew."""
    plan = ["503", "503", "open", "503", "reset", "503", "503"]

    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: 1\ndata:\n\n") + END)

    def get(request, conn):
        what = plan[min(len(script.gets), len(plan)) - 1]
        if what == "open":
            conn.send(sse_head() + chunk(b"id: b\ndata:\n\n") + END)
        elif what == "reset":
            conn.reset()
        else:
            conn.send(plain("503 Service Unavailable", b"soon"))

    script = Script(post, get)

    async def main():
        async with connected(script, modern=False, max_reconnects=2, **QUICK) as (_, mux, channel):
            with pytest.raises(HttpStatusError, match="503"):
                await call(mux, channel).future
            assert len(script.gets) == 6 and script.gets[-1].headers["last-event-id"] == "b"
            await asyncio.sleep(0.1)
            assert len(script.gets) == 6 and len(script.posts) == 1

    run(main)


@pytest.mark.parametrize("status", ["400 Bad Request", "401 Unauthorized", "403 Forbidden", "405 Method Not Allowed"])
def test_ho21_a_refusal_ends_resuming_at_once(run, status):
    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: 1\ndata:\n\n") + END)

    script = Script(post, lambda request, conn: conn.send(plain(status)))

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            with pytest.raises(HttpStatusError, match=status[:3]):
                await call(mux, channel).future
            await asyncio.sleep(0.05)
            assert len(script.gets) == 1

    run(main)


@pytest.mark.parametrize("how", ["404", "other session"])
def test_ho32_a_call_is_never_resumed_in_another_session(run, how):
    """Its answer is gone with the session; it is not sent again, since it may have run."""

    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: 40\ndata:\n\n") + END)

    script = Script(post, lambda request, conn: conn.send(plain("404 Not Found")))

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            channel.session_id = "s1"
            waiting = call(mux, channel)
            await until(lambda: script.posts)
            if how == "other session":
                channel.session_id = "s2"
            with pytest.raises(ConnectionClosed, match="session ended"):
                await waiting.future
            assert len(script.posts) == 1 and len(script.gets) == (how == "404")

    run(main)


def test_a_call_that_is_given_up_is_not_resumed(run):
    def post(request, conn):
        conn.send(sse_head() + chunk(b"id: a\nretry: 300\ndata:\n\n") + END)

    script = Script(post)

    async def main():
        async with connected(script, modern=False, **QUICK) as (_, mux, channel):
            waiting = call(mux, channel)
            await until(lambda: script.posts)
            await asyncio.sleep(0.01)
            waiting.cancel()
            await until(lambda: script.others)
            assert script.others[0].body["method"] == "notifications/cancelled"  # era H: a drop says nothing
            await asyncio.sleep(0.4)
            assert script.gets == []

    run(main)


# ---------------------------------------------------------------- the server's own stream


def test_b118_a_sleeping_stream_wakes_with_the_next_call(run):
    """A server that is down is asked a bounded number of times; when a call gets through, the stream is back."""
    up = []

    def get(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "method": "n/1"}) if up else plain("502 Bad Gateway"))

    script = Script(get=get)

    async def main():
        async with connected(script, modern=False, max_reconnects=3, reconnect_delay=0.002) as (_, mux, channel):
            channel.open_stream()
            await until(lambda: len(script.gets) == 4)
            await asyncio.sleep(0.1)
            assert len(script.gets) == 4
            await call(mux, channel).future  # still down: once more, then asleep again
            await until(lambda: len(script.gets) == 5)
            await asyncio.sleep(0.1)
            assert len(script.gets) == 5
            up.append(1)
            await call(mux, channel).future
            await until(lambda: mux.gate.notes == ["n/1"])
            assert len(script.gets) == 6

    run(main)


def test_ho10_ho11_several_streams_and_requests_on_each(run):
    """HO-12, HO-43: requests of the server on any stream are answered by POST, once."""

    def post(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "id": f"p{request.id}", "method": "ping"}))
        conn.send(result_event(request) + END)

    def get(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "id": f"g{len(script.gets)}", "method": "ping"}))

    script = Script(post, get)

    async def main():
        async with connected(script, modern=False) as (_, mux, channel):
            channel.session_id = "s"
            mux.current = Revision(
                "2025-11-25", modern=False, requests={b"ping": FunctionHandler(lambda ex: b"{}", urgent=True)}
            )
            streams = [channel.open_stream() for _ in range(3)]
            await asyncio.gather(*(call(mux, channel).future for _ in range(5)))
            await until(lambda: len(script.others) == 8)
            assert sorted(r.body["id"] for r in script.others) == [
                *(f"g{i}" for i in (1, 2, 3)), *(f"p{i}" for i in range(1, 6))
            ]  # fmt: skip
            for request in script.others:
                assert request.body["result"] == {} and request.headers["mcp-session-id"] == "s"
            for stream in streams:
                stream.close()

    run(main)


def test_ho31_ho33_ho40_headers_of_get_and_delete(run):
    def get(request, conn):
        conn.send(sse_head())

    script = Script(get=get)

    async def main():
        async with connected(script, modern=False) as (_, _mux, channel):
            channel.session_id = "s-1"
            channel.open_stream()
            await until(lambda: script.gets)
        assert [r.method for r in script.others] == ["DELETE"]
        for request in (script.gets[0], script.others[0]):
            assert request.headers["mcp-session-id"] == "s-1"
            assert request.headers["mcp-protocol-version"] == "2025-11-25"
            assert "content-type" not in request.headers
        assert script.gets[0].headers["accept"] == "text/event-stream"

    run(main)


def test_max_waiting_answers_bounds_what_waits_for_a_connection(run):
    """A server that asks much and takes no answer: 16 connections beyond the limit, then a bounded queue."""
    held = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.method == "GET":
                conn.send(sse_head())
                for i in range(200):
                    conn.send(event({"jsonrpc": "2.0", "id": i, "method": "ping"}))
            elif request.method == "POST":
                held.append(request.body["id"])
                if not release.is_set():
                    await release.wait()
                conn.send(plain("202 Accepted"))
            else:
                conn.send(plain("200 OK"))

    release = asyncio.Event()

    async def main():
        limits = {"max_client_connections": 1, "max_waiting_answers": 5}
        async with connected(handler, modern=False, **limits) as (peer, mux, channel):
            mux.current = Revision(
                "2025-11-25", modern=False, requests={b"ping": FunctionHandler(lambda ex: b"{}", urgent=True)}
            )
            channel.open_stream()
            await until(lambda: len(held) == 17)
            await asyncio.sleep(0.05)
            waiting = channel.pool.counts["waiting"]
            assert 1 <= waiting <= 5 and len(held) == 17  # one may have left for the connection that was on its way
            release.set()
            await until(lambda: len(held) == 17 + waiting and channel.pool.counts["waiting"] == 0)
            await asyncio.sleep(0.02)
            assert len(held) == 17 + waiting and peer.conns <= 18 and mux.debug_counts()["inflight"] == 0

    run(main)


def test_ho32_answers_stay_in_their_session(run):
    """What the old session asked is not answered in the new one."""
    asked = []

    def get(request, conn):
        conn.send(sse_head() + event({"jsonrpc": "2.0", "id": "q", "method": "slow"}))

    script = Script(get=get)

    async def main():
        async with connected(script, modern=False) as (_, mux, channel):
            channel.session_id = "old"
            gate = asyncio.Event()

            async def slow():
                asked.append(1)
                await gate.wait()

            def handle(exchange):
                exchange.hold(asyncio.ensure_future(slow()))

            mux.current = Revision("2025-11-25", modern=False, requests={b"slow": FunctionHandler(handle)})
            stream = channel.open_stream()
            await until(lambda: asked)
            stream.close()
            mux.cancel_all("the session ended")
            channel.session_id = "new"
            gate.set()
            await asyncio.sleep(0.05)
            assert script.others == [] and mux.debug_counts()["inflight"] == 0

    run(main)


@pytest.mark.parametrize("where", ["post", "get"])
def test_an_event_over_the_limit_ends_its_stream_alone(run, where):
    big = {"jsonrpc": "2.0", "method": "n/big", "params": {"x": "y" * 5000}}

    def post(request, conn):
        if where == "post" and request.id == 1:
            conn.send(sse_head() + event(big))
        else:
            conn.send(answered(request))

    def get(request, conn):
        conn.send(sse_head() + event(big))

    async def main():
        async with connected(Script(post, get), modern=False, max_message_bytes=2000) as (_, mux, channel):
            if where == "post":
                with pytest.raises(RemoteProtocolError, match="limit"):
                    await call(mux, channel).future
            else:
                ended = []
                channel.open_stream(ended.append)
                await until(lambda: ended)
                assert isinstance(ended[0], RemoteProtocolError)
            assert json.loads(await call(mux, channel).future) == {"ok": True}

    run(main)
