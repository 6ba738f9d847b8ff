"""FdTransport: every kind of descriptor, both loops, every way to end."""

import asyncio
import contextlib
import fcntl
import gc
import os
import pty
import socket
import threading
import time
import tty

import pytest

from headrace.errors import ConnectionClosed
from headrace.transports._fdio import FdTransport, live_transports

BIG = 3_000_000


class Recorder:
    """Keeps what the transport calls, in order."""

    def __init__(self, keep_open=False, on_data=None):
        self.calls = []
        self.data = bytearray()
        self.keep_open = keep_open
        self.on_data = on_data
        self.transport = None
        self.chunks = 0
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data):
        assert type(data) is bytes and data
        self.chunks += 1
        self.data += data
        if self.on_data is not None:
            self.on_data(data)

    def eof_received(self):
        self.calls.append("eof")
        return self.keep_open

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")

    def connection_lost(self, exc):
        self.calls.append("lost")
        self.lost.set_result(exc)  # a second call would raise


class Echo(Recorder):
    def data_received(self, data):
        super().data_received(data)
        self.transport.write(data)


@pytest.fixture(autouse=True)
def no_leaks(run):
    async def nothing():
        pass

    run(nothing)  # libuv opens two descriptors for the process with its first loop
    gc.collect()
    fds, live = len(os.listdir("/dev/fd")), live_transports()
    yield
    gc.collect()
    for thread in threading.enumerate():
        if thread.name == "headrace-read":
            thread.join(10)  # it closes its descriptor last, after it delivered the end of the file
    assert live_transports() == live
    assert len(os.listdir("/dev/fd")) == fds


async def until(condition, seconds=10.0):
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        assert loop.time() < end, "waited in vain"
        await asyncio.sleep(0.002)


def make(kind):
    """(near_read, near_write, far_read, far_write) of one kind."""
    if kind == "pipe":
        far_read, near_write = os.pipe()
        near_read, far_write = os.pipe()
        return near_read, near_write, far_read, far_write
    if kind == "socket":
        a, b = socket.socketpair()
        fd = a.detach()
        far = b.detach()
        return fd, fd, far, far
    master, slave = pty.openpty()
    tty.setraw(slave)
    return slave, os.dup(slave), master, master


def close(*fds):
    for fd in set(fds):
        os.close(fd)


KINDS = ["pipe", "socket", "pty"]
MODES = [
    ("pipe", True, None), ("pipe", False, None), ("pipe", False, "nowait"), ("pipe", False, "poll"),
    ("socket", True, None), ("socket", False, None),
    ("pty", False, None), ("pty", False, "poll"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "exclusive", "strategy"), MODES)
def test_b27_exact_transfer_both_ways(run, kind, exclusive, strategy):
    """B27, B26: megabytes through an echo, byte for byte; flags of a shared description never change."""

    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make(kind)
        watched = [os.dup(nr), os.dup(nw)]
        before = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in watched]
        near = FdTransport(loop, Echo(), nr, nw, exclusive=exclusive, strategy=strategy)
        near.start()
        far = FdTransport(loop, Recorder(), fr, fw, exclusive=True)
        far.start()
        data = os.urandom(BIG // (30 if kind == "pty" else 1))
        far.write(data)
        await until(lambda: len(far.protocol.data) >= len(data))
        flags = [fcntl.fcntl(fd, fcntl.F_GETFL) for fd in watched]
        got, near_lost = bytes(far.protocol.data), near.protocol.lost
        close(*watched)
        far.close()
        assert await near_lost is None
        return before, flags, data == got

    before, flags, same = run(main)
    assert same
    if not exclusive:
        assert flags == before


@pytest.mark.parametrize("kind", KINDS)
def test_order_of_callbacks(run, kind):
    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make(kind)
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw)
        assert protocol.calls == []
        t.start()
        assert protocol.calls == ["made"] and t.is_reading() and not t.is_closing()
        os.write(fw, b"hello")
        await until(lambda: protocol.data)
        close(fr, fw)
        assert await protocol.lost is None
        await asyncio.sleep(0.01)
        assert t.is_closing() and not t.is_reading() and t.get_protocol() is None
        t.write(b"swallowed")
        t.close()
        t.abort()
        await asyncio.sleep(0.01)
        return protocol

    protocol = run(main)
    assert bytes(protocol.data) == b"hello"
    assert protocol.calls == ["made", "eof", "lost"]


def test_eof_kept_open_goes_on_writing(run):
    """A true answer of eof_received leaves the other direction open; write_eof ends it."""

    async def main():
        loop = asyncio.get_running_loop()
        a, b = socket.socketpair()
        b.setblocking(False)
        protocol = Recorder(keep_open=True)
        fd = a.detach()
        t = FdTransport(loop, protocol, fd, fd, exclusive=True)
        t.start()
        b.shutdown(socket.SHUT_WR)
        await until(lambda: "eof" in protocol.calls)
        await asyncio.sleep(0.02)
        assert not t.is_closing() and t.can_write_eof()
        t.write(b"answer")
        t.write_eof()
        t.write_eof()
        t.write(b"too late")
        assert await loop.sock_recv(b, 100) == b"answer"
        assert await loop.sock_recv(b, 100) == b""
        assert not t.is_closing()
        t.close()
        await protocol.lost
        b.close()
        return protocol.calls

    assert run(main) == ["made", "eof", "lost"]


def test_write_eof_waits_for_the_queue(run):
    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        t = FdTransport(loop, Recorder(), nr, nw)
        t.start()
        t.write(b"a" * BIG)
        t.write_eof()
        assert t.get_write_buffer_size() > 0
        far = FdTransport(loop, Recorder(), fr, -1, exclusive=True)
        far.start()
        lost, protocol = far.protocol.lost, far.protocol
        assert await lost is None
        assert not t.is_closing()
        lost = t.protocol.lost
        os.close(fw)
        await lost
        return protocol

    assert len(run(main).data) == BIG


@pytest.mark.parametrize("strategy", [None, "nowait", "poll"])
def test_b16_back_pressure_of_output(run, strategy):
    """B16: beyond the high mark the writer is told to pause, and to go on when it was read."""

    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw, strategy=strategy)
        t.set_write_buffer_limits(high=100_000, low=50_000)
        assert t.get_write_buffer_limits() == (50_000, 100_000)
        t.start()
        n = 0
        chunk = bytes(range(256)) * 16
        while "pause" not in protocol.calls:
            t.write(chunk)
            n += 1
        assert 100_000 < t.get_write_buffer_size() <= 100_000 + len(chunk)
        for _ in range(200):
            t.write(chunk)
        assert protocol.calls == ["made", "pause"]
        await asyncio.sleep(0.01)
        assert protocol.calls == ["made", "pause"]
        far = FdTransport(loop, Recorder(), fr, -1, exclusive=True)
        far.start()
        await until(lambda: "resume" in protocol.calls)
        assert t.get_write_buffer_size() <= 50_000
        t.close()
        await far.protocol.lost if far.protocol else None
        await until(lambda: "lost" in protocol.calls)
        os.close(fw)
        return protocol.calls

    assert run(main) == ["made", "pause", "resume", "lost"]


def test_close_flushes_abort_does_not(run):
    async def main(how):
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw)
        t.start()
        for _ in range(300):
            t.write(b"x" * 9_999)
        getattr(t, how)()
        got = 0
        os.set_blocking(fr, False)
        end = loop.time() + 10
        while loop.time() < end:
            try:
                data = os.read(fr, 1 << 16)
            except BlockingIOError:
                await asyncio.sleep(0.001)
                continue
            if not data:
                break
            got += len(data)
        assert await protocol.lost is None
        close(fr, fw)
        return got

    assert run(main, "close") == 300 * 9_999
    assert run(main, "abort") < 300 * 9_999


@pytest.mark.parametrize("exclusive", [True, False])
@pytest.mark.parametrize("kind", ["pipe", "socket"])
def test_b112_peer_stops_reading(run, kind, exclusive, caplog):
    """B112: a broken output ends the connection once, with a reason; what was sent before still arrives."""

    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make(kind)
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw, exclusive=exclusive)
        t.start()
        os.write(fw, b"last words")
        close(fr, fw)
        t.write(b"x" * 1_000_000)
        t.write(b"more")
        exc = await protocol.lost
        await asyncio.sleep(0.01)
        return exc, protocol

    with caplog.at_level("DEBUG", "headrace.transports"):
        exc, protocol = run(main)
    assert isinstance(exc, ConnectionClosed) and isinstance(exc.__cause__, OSError)
    assert bytes(protocol.data) == b"last words"
    assert protocol.calls.count("lost") == 1
    assert len(caplog.records) == 1


def test_b112_peer_goes_while_output_is_queued(run):
    async def main():
        loop = asyncio.get_running_loop()
        results = []
        for kind in ("pipe", "socket"):
            nr, nw, fr, fw = make(kind)
            protocol = Recorder(keep_open=True)
            t = FdTransport(loop, protocol, nr, nw)
            t.start()
            t.write(b"x" * 1_000_000)
            assert t.get_write_buffer_size()
            os.read(fr, 10)
            close(fr, fw)
            results.append(await protocol.lost)
        return results

    assert all(isinstance(e, ConnectionClosed) for e in run(main))


def test_pause_and_resume_reading(run):
    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw)
        t.start()
        t.pause_reading()
        t.pause_reading()
        assert not t.is_reading()
        os.write(fw, b"x")
        await asyncio.sleep(0.02)
        assert not protocol.data
        t.resume_reading()
        t.resume_reading()
        await until(lambda: protocol.data)
        t.pause_reading()
        close(fr, fw)  # a hang-up is not reported while paused
        await asyncio.sleep(0.05)
        assert protocol.calls == ["made"]
        t.resume_reading()
        await protocol.lost
        return protocol.calls

    assert run(main) == ["made", "eof", "lost"]


class CountingLoop:
    """The loop, counting how often it calls the transport's reader."""

    def __init__(self, loop):
        self._loop = loop
        self.events = 0

    def __getattr__(self, name):
        return getattr(self._loop, name)

    def add_reader(self, fd, callback):
        def counted():
            self.events += 1
            callback()

        self._loop.add_reader(fd, counted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("strategy", [None, "poll"])
def test_b19_a_stalled_connection_does_not_spin(run, kind, strategy):
    """B16, B19: paused input with data and a hang-up, and output nobody reads, cost no turn of the loop."""

    async def main():
        loop = CountingLoop(asyncio.get_running_loop())
        nr, nw, fr, fw = make(kind)
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw, strategy=strategy)
        t.start()
        os.write(fw, b"x")
        await until(lambda: protocol.data)
        t.pause_reading()
        os.write(fw, b"unread")
        t.write(b"y" * 1_000_000)
        queued = None
        while queued != t.get_write_buffer_size():  # until the kernel is full
            queued = t.get_write_buffer_size()
            await asyncio.sleep(0.1)
        stalled = loop.events
        await asyncio.sleep(0.1)
        stalled = loop.events - stalled
        t.abort()
        await protocol.lost
        close(fr, fw)

        nr, nw, fr, fw = make(kind)
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw, strategy=strategy)
        t.start()
        t.pause_reading()
        close(fr, fw)
        hung_up = loop.events
        await asyncio.sleep(0.1)
        hung_up = loop.events - hung_up
        t.abort()
        await protocol.lost
        return stalled, hung_up

    stalled, hung_up = run(main)
    assert stalled < 20
    assert hung_up == 0


def test_pause_inside_data_received(run):
    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder(on_data=lambda _: protocol.transport.pause_reading())
        t = FdTransport(loop, protocol, nr, nw)
        t.start()
        for i in range(5):
            os.write(fw, b"%d" % i)
            await until(lambda i=i: protocol.chunks == i + 1)
            assert not t.is_reading()
            t.resume_reading()
        t.close()
        await protocol.lost
        close(fr, fw)
        return bytes(protocol.data)

    assert run(main) == b"01234"


@pytest.mark.parametrize("where", ["data_received", "eof_received", "pause_writing", "resume_writing"])
def test_failing_protocol_is_reported_and_ends(run, where):
    async def main():
        loop = asyncio.get_running_loop()
        reports = []
        loop.set_exception_handler(lambda _, context: reports.append(context))
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()

        def fail(*_):
            raise ZeroDivisionError(where)

        setattr(protocol, where, fail)
        t = FdTransport(loop, protocol, nr, nw)
        t.start()
        os.write(fw, b"x")
        if "writing" in where:
            t.write(b"y" * 500_000)
        os.set_blocking(fr, False)
        if where == "eof_received":
            os.close(fw)
        while not protocol.lost.done():
            if where == "resume_writing":
                with contextlib.suppress(BlockingIOError):
                    os.read(fr, 100_000)
            await asyncio.sleep(0.001)
        if where != "eof_received":
            os.close(fw)
        os.close(fr)
        return await protocol.lost, reports

    exc, reports = run(main)
    assert isinstance(exc, ZeroDivisionError)
    assert len(reports) == 1 and reports[0]["exception"] is exc


def test_failing_connection_made_comes_out_of_start(run):
    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        protocol.connection_made = lambda _: 1 / 0
        t = FdTransport(loop, protocol, nr, nw)
        with pytest.raises(ZeroDivisionError):
            t.start()
        with pytest.raises(RuntimeError):
            t.start()
        await asyncio.sleep(0.01)
        close(fr, fw)
        return protocol.calls

    assert run(main) == []


def test_failing_connection_lost_is_reported(run):
    async def main():
        loop = asyncio.get_running_loop()
        reports, lost = [], []
        loop.set_exception_handler(lambda _, context: reports.append(context))
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        protocol.connection_lost = lambda _: 1 / 0
        t = FdTransport(loop, protocol, nr, nw, on_lost=lambda: lost.append(1))
        t.start()
        t.close()
        await until(lambda: reports)
        close(fr, fw)
        return reports, lost

    reports, lost = run(main)
    assert isinstance(reports[0]["exception"], ZeroDivisionError) and lost == [1]


def test_not_open_descriptors(run):
    async def main():
        loop = asyncio.get_running_loop()
        r, w = os.pipe()
        os.close(w)
        with pytest.raises(OSError):
            FdTransport(loop, Recorder(), r, w)
        with pytest.raises(OSError):
            os.fstat(r)
        with pytest.raises(AttributeError):  # not a protocol
            FdTransport(loop, object(), os.open(os.devnull, os.O_RDONLY), -1)

    run(main)


def test_dropped_and_loop_closed_without_close(run):
    """B21: nobody closes; the descriptors come back and nothing is printed."""
    before = len(os.listdir("/dev/fd"))

    async def main(started):
        nr, nw, fr, fw = make("pipe")
        t = FdTransport(asyncio.get_running_loop(), Recorder(), nr, nw)
        if started:
            t.start()
        close(fr, fw)

    for started in (False, True):
        run(main, started)
        gc.collect()
        assert len(os.listdir("/dev/fd")) == before


def test_close_after_the_loop(run):
    async def main():
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        protocol.lost = asyncio.Future()
        t = FdTransport(asyncio.get_running_loop(), protocol, nr, nw)
        t.start()
        return t, protocol, fr, fw

    t, protocol, *far = run(main)
    calls = []
    protocol.connection_lost = calls.append
    t.close()
    assert calls == [None]
    close(*far)


def test_on_end_decides(run):
    """The holder of on_end is asked once about an end by the peer, and may take its time."""

    async def main():
        loop = asyncio.get_running_loop()
        asked = []
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw, on_end=asked.append)
        t.start()
        close(fr, fw)
        await until(lambda: asked)
        t.write(b"swallowed")
        await asyncio.sleep(0.02)
        assert asked == [None] and not protocol.lost.done()
        t.finish(ConnectionClosed("exited with status 3", exit_code=3))
        return await protocol.lost

    assert run(main).exit_code == 3


@pytest.mark.parametrize("paused", [False, True])
def test_finish_delivers_what_was_sent_although_the_pipe_stays_open(run, paused):
    """B20: who else holds the pipe does not matter; a paused reader gets the rest when it goes on."""

    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw, on_end=lambda exc: pytest.fail("asked"))
        t.start()
        os.write(fw, b"z" * 50_000)
        if paused:
            t.pause_reading()
        t.finish(ConnectionClosed("gone"))
        assert t.is_closing()
        if paused:
            await asyncio.sleep(0.02)
            assert not protocol.lost.done() and not protocol.data
            t.resume_reading()
        exc = await protocol.lost
        close(fr, fw)
        return exc.reason, len(protocol.data)

    assert run(main) == ("gone", 50_000)


@pytest.mark.parametrize("then", ["close", "abort"])
def test_finish_while_paused_then_closed(run, then):
    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw)
        t.start()
        os.write(fw, b"unread")
        t.pause_reading()
        t.finish(ConnectionClosed("gone"))
        await asyncio.sleep(0.02)
        getattr(t, then)()
        exc = await protocol.lost
        close(fr, fw)
        return exc

    exc = run(main)
    assert exc.reason == "gone" if then == "close" else exc is None


def test_regular_file_and_null_device(run, tmp_path):
    """T20: descriptors that no event loop can watch are read by a thread and written directly."""
    source = tmp_path / "in"
    data = os.urandom(1_000_000)
    source.write_bytes(data)

    async def main():
        loop = asyncio.get_running_loop()
        out = os.open(tmp_path / "out", os.O_WRONLY | os.O_CREAT)
        protocol = Echo()
        t = FdTransport(loop, protocol, os.open(source, os.O_RDONLY), out)
        t.start()
        assert t.get_extra_info("kinds") == ("file", "file")
        while protocol.chunks < 2:
            await asyncio.sleep(0)
        t.pause_reading()
        seen = protocol.chunks
        await asyncio.sleep(0.05)
        assert protocol.chunks == seen
        t.resume_reading()
        assert await protocol.lost is None
        null = Recorder()
        t = FdTransport(loop, null, os.open(os.devnull, os.O_RDONLY), os.open(os.devnull, os.O_WRONLY))
        t.start()
        t.write(b"x" * 100_000)
        assert await null.lost is None
        return protocol.calls, null.calls

    assert run(main) == (["made", "eof", "lost"], ["made", "eof", "lost"])
    assert (tmp_path / "out").read_bytes() == data


def test_reader_thread_ends_with_its_loop(run, tmp_path):
    """A paused file connection that nobody closes lets go of everything when the loop is closed."""
    (tmp_path / "f").write_bytes(b"x" * 1_000_000)

    async def main():
        protocol = Recorder(on_data=lambda _: protocol.transport.pause_reading())
        fd = os.open(tmp_path / "f", os.O_RDONLY)
        FdTransport(asyncio.get_running_loop(), protocol, fd, -1).start()
        await until(lambda: protocol.data)

    run(main)
    end = time.monotonic() + 10
    while any(t.name == "headrace-read" for t in threading.enumerate()) and time.monotonic() < end:
        time.sleep(0.05)
    assert not any(t.name == "headrace-read" for t in threading.enumerate())


def test_one_descriptor_for_both_directions(run, tmp_path):
    """The same pty or file descriptor given twice is closed once."""

    async def main():
        loop = asyncio.get_running_loop()
        for strategy in (None, "nowait", "poll"):
            master, slave = pty.openpty()
            tty.setraw(slave)
            protocol = Echo()
            t = FdTransport(loop, protocol, slave, slave, strategy=strategy)
            t.start()
            os.write(master, b"ping")
            await until(lambda p=protocol: p.data)
            assert os.read(master, 100) == b"ping"
            t.close()
            await protocol.lost
            os.close(master)
        (tmp_path / "f").write_bytes(b"abc")
        fd = os.open(tmp_path / "f", os.O_RDWR | os.O_APPEND)
        protocol = Recorder(on_data=lambda _: protocol.transport.write(b"def"))
        FdTransport(loop, protocol, fd, fd).start()
        await protocol.lost

    run(main)
    assert (tmp_path / "f").read_bytes().startswith(b"abcdef")


def test_master_side_of_a_terminal(run):
    """Opening /dev/ptmx again would make another terminal: the master side is never reopened."""

    async def main():
        master, slave = pty.openpty()
        tty.setraw(slave)
        flags = fcntl.fcntl(master, fcntl.F_GETFL)
        copy = os.dup(master)
        protocol = Echo()
        t = FdTransport(asyncio.get_running_loop(), protocol, master, master)
        t.start()
        os.write(slave, b"ping")
        await until(lambda: protocol.data)
        assert os.read(slave, 100) == b"ping"
        assert fcntl.fcntl(copy, fcntl.F_GETFL) == flags
        t.close()
        await protocol.lost
        close(slave, copy)

    run(main)


def test_write_accepts_bytes_like_only(run):
    async def main():
        nr, nw, fr, fw = make("pipe")
        t = FdTransport(asyncio.get_running_loop(), Recorder(), nr, nw)
        t.start()
        t.write(bytearray(b"a"))
        t.write(memoryview(b"xbx")[1:2])
        t.writelines([b"c", b"d"])
        t.write(b"")
        with pytest.raises(TypeError):
            t.write("text")
        with pytest.raises(ValueError):
            t.set_write_buffer_limits(high=1, low=2)
        got = os.read(fr, 100)
        t.abort()
        close(fr, fw)
        await asyncio.sleep(0.01)
        return got

    assert run(main) == b"abcd"


def test_small_chunks_share_the_read_buffer(run):
    """Small reads are copied out, well filled ones handed over: content is right either way."""

    async def main():
        loop = asyncio.get_running_loop()
        nr, nw, fr, fw = make("pipe")
        protocol = Recorder()
        t = FdTransport(loop, protocol, nr, nw)
        t.start()
        kept, sent = [], []
        protocol.on_data = kept.append
        for n in (1, 70, 32_767, 32_768, 40_000, 65_536, 1, 65_536, 65_536, 5):
            data = os.urandom(n)
            sent.append(data)
            os.write(fw, data)
            await until(lambda: len(protocol.data) == sum(map(len, sent)))
        t.close()
        await protocol.lost
        close(fr, fw)
        return b"".join(kept) == b"".join(sent), kept

    same, kept = run(main)
    assert same and all(type(k) is bytes for k in kept)
