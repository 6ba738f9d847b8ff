"""Standard input and output of every kind, in child processes, on both loops."""

import fcntl
import itertools
import os
import pty
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
import tty
from pathlib import Path

import pytest

import headrace
from headrace.errors import UsageError
from headrace.transports import stdio

SRC = str(Path(headrace.__file__).parents[1])
DATA = b"".join(b"line %06d \xe2\x9c\x93\n" % i for i in range(5_000))

SERVER = """
import asyncio, os, sys
sys.path.insert(0, {src!r})
from headrace.transports.stdio import claim, open_stdio

class Echo:
    def __init__(self): self.lost = asyncio.get_running_loop().create_future()
    def connection_made(self, transport): self.transport = transport
    def data_received(self, data): self.transport.write(data)
    def eof_received(self): return False
    def pause_writing(self): self.transport.pause_reading()
    def resume_writing(self): self.transport.resume_reading()
    def connection_lost(self, exc): self.lost.set_result(exc)

def run(main):
    if {loop!r} == "uvloop":
        import uvloop
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as r:
            return r.run(main())
    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as r:
        return r.run(main())

async def serve():
    transport, protocol = open_stdio(asyncio.get_running_loop(), Echo)
    return await protocol.lost
"""


def script(loop_name, body="exc = run(serve)\nassert exc is None, exc"):
    return SERVER.format(src=SRC, loop=loop_name) + textwrap.dedent(body)


def start(loop_name, fd0, fd1, body=None, stderr=subprocess.PIPE, **options):
    code = script(loop_name) if body is None else script(loop_name, body)
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], stdin=fd0, stdout=fd1, stderr=stderr, **options
    )


class Side:
    """One standard stream: `near` is given to the child, `far` is ours."""

    def __init__(self, kind, n, tmp_path):
        self.far = None
        if kind == "pipe":
            r, w = os.pipe()
            self.near, self.far = (r, w) if n == 0 else (w, r)
        elif kind == "socket":
            a, b = socket.socketpair()
            self.near, self.far = a.detach(), b.detach()
        elif kind == "pty":
            self.far, self.near = pty.openpty()
            tty.setraw(self.near)
        elif kind == "file":
            path = tmp_path / f"file{n}"
            if n == 0:
                path.write_bytes(DATA)
            self.near = os.open(path, os.O_RDONLY if n == 0 else os.O_WRONLY | os.O_CREAT)
            self.path = path
        else:
            self.near = os.open(os.devnull, os.O_RDONLY if n == 0 else os.O_WRONLY)
        self.kind = kind
        self.flags = fcntl.fcntl(self.near, fcntl.F_GETFL)

    def unchanged(self):
        return fcntl.fcntl(self.near, fcntl.F_GETFL) == self.flags

    def feed(self, data):
        """Writes and ends the input, from a thread."""

        def write():
            rest = memoryview(data)
            while rest:
                rest = rest[os.write(self.far, rest[:4096]) :]
            if self.kind == "pty":  # closing would throw away what was not read yet
                while not self.drained.wait(0.01):
                    pass
            os.close(self.far)
            self.far = None

        self.drained = threading.Event()
        thread = threading.Thread(target=write)
        thread.start()
        return thread

    def collect(self, n):
        got = bytearray()
        while len(got) < n:
            part = os.read(self.far, 65536)
            assert part
            got += part
        return bytes(got)

    def close(self):
        os.close(self.near)
        if self.far is not None:
            os.close(self.far)


KINDS = ["pipe", "socket", "file", "null", "pty"]


@pytest.mark.parametrize(("kind0", "kind1"), list(itertools.product(KINDS, KINDS)))
def test_every_pair_of_kinds(loop_name, kind0, kind1, tmp_path):
    """T20, T21, B19 (a), B26: all bytes answered, exit status 0 at the end of input, flags as before."""
    side0, side1 = Side(kind0, 0, tmp_path), Side(kind1, 1, tmp_path)
    child = start(loop_name, side0.near, side1.near)
    expected = b"" if kind0 == "null" else DATA
    feeder = side0.feed(DATA) if side0.far is not None else None
    try:
        got = side1.collect(len(expected)) if side1.far is not None else None
        if feeder is not None:
            if side1.far is None and kind0 == "pty":
                time.sleep(0.3)  # nothing says when the last bytes were taken
            side0.drained.set()
        _, errors = child.communicate(timeout=20)
    finally:
        child.kill()
        if feeder is not None:
            side0.drained.set()
            feeder.join()
    assert errors == b""
    assert child.returncode == 0
    if kind1 == "file":
        got = side1.path.read_bytes()
    if kind1 != "null" and (kind0, kind1) != ("pty", "file"):
        assert got == expected
    assert side0.unchanged() and side1.unchanged()
    side0.close()
    side1.close()


def test_one_socket_for_both(loop_name):
    """Some clients give the child one socket pair for stdin and stdout."""
    a, b = socket.socketpair()
    before = fcntl.fcntl(b.fileno(), fcntl.F_GETFL)
    child = start(loop_name, b, b)
    a.settimeout(10)
    a.sendall(b"hello\n")
    assert a.recv(100) == b"hello\n"
    a.shutdown(socket.SHUT_WR)
    _, errors = child.communicate(timeout=10)
    assert (child.returncode, errors) == (0, b"")
    assert fcntl.fcntl(b.fileno(), fcntl.F_GETFL) == before
    a.close()
    b.close()


@pytest.mark.parametrize("kind", ["pipe", "socket", "pty"])
@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_b26_b30_killed_while_idle(loop_name, kind, sig, tmp_path):
    """B26, B30: killed while waiting for input: flags as before, no abort."""
    side0, side1 = Side(kind, 0, tmp_path), Side(kind, 1, tmp_path)
    child = start(loop_name, side0.near, side1.near)
    os.write(side0.far, b"x")
    assert side1.collect(1) == b"x"
    assert side0.unchanged() and side1.unchanged()
    child.send_signal(sig)
    _, errors = child.communicate(timeout=10)
    assert child.returncode == -sig
    assert b"Fatal" not in errors
    assert side0.unchanged() and side1.unchanged()
    side0.close()
    side1.close()


def test_b30_exit_with_a_reader_thread_that_is_stuck(loop_name):
    """B30: a thread in a read that never returns keeps nothing from ending, by exit or signal."""
    body = """
    import threading
    from headrace.transports.readthread import ReadThread
    async def main():
        ReadThread(asyncio.get_running_loop(), os.dup(0), print).start()
        await asyncio.sleep(0.05)
        print("ready", flush=True)
        if sys.argv[1:] != ["exit"]: await asyncio.sleep(60)
    run(main)
    """
    for how in ("exit", signal.SIGTERM, signal.SIGINT):
        r, w = os.pipe()
        child = subprocess.Popen(
            [sys.executable, "-c", script(loop_name, body), str(how)],
            stdin=r, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        assert child.stdout.readline() == b"ready\n"
        if how != "exit":
            child.send_signal(how)
        _, errors = child.communicate(timeout=10)
        assert child.returncode == (0 if how == "exit" else -how)
        assert b"Fatal" not in errors
        os.close(r)
        os.close(w)


def test_b08_only_frames_on_standard_output(loop_name):
    """B08, ST-04, B31: stray text of every origin goes to stderr; nobody else reads the input."""
    body = """
    import logging, subprocess
    print("before the claim \\u2713", end="")
    old = sys.stdout
    logging.basicConfig(stream=sys.stdout, level=logging.INFO)
    with claim() as taken:
        print("print")
        old.write("old object\\n")
        logging.info("logging")
        os.write(1, b"descriptor\\n")
        sys.__stdout__.buffer.write(b"buffer\\n")
        subprocess.run(["/bin/sh", "-c", "echo child; cat; exit 0"])
        os.system("echo system")
        try:
            input()
        except EOFError:
            print("no input")
        async def main():
            transport, protocol = open_stdio(asyncio.get_running_loop(), Echo, claimed=taken)
            print("while serving \\u2713")
            await protocol.lost
        run(main)
        print("after serving")
    print("released")
    """
    r, w = os.pipe()
    env = {k: v for k, v in os.environ.items() if k != "PYTHONUNBUFFERED"}
    env |= {"PYTHONIOENCODING": "latin-1:backslashreplace", "LC_ALL": "C", "PYTHONUTF8": "0"}
    child = start(loop_name, r, subprocess.PIPE, body, env=env)
    os.close(r)
    os.write(w, "frame ✓ řemeslník 😀\n".encode())
    os.close(w)
    out, errors = child.communicate(timeout=20)
    assert child.returncode == 0, errors
    assert out == "frame ✓ řemeslník 😀\nreleased\n".encode()
    texts = (
        "before the claim, print, old object, INFO:root:logging, descriptor, buffer, child, system, no input"
    )
    for text in [*texts.split(", "), "while serving", "after serving"]:
        assert text.encode() in errors, text
    assert b"frame" not in errors


def test_b26_standard_output_and_error_are_one_terminal(loop_name):
    """B26: a megabyte of log while answering: nothing is lost, nothing raises, flags as before."""
    body = """
    async def main():
        with claim() as taken:
            transport, protocol = open_stdio(asyncio.get_running_loop(), Echo, claimed=taken)
            for i in range(1024):
                sys.stderr.write("L" * 1023 + "\\n")
                if i % 16 == 0: await asyncio.sleep(0)
            sys.stderr.flush()
            await protocol.lost
    run(main)
    """
    master, slave = pty.openpty()
    tty.setraw(slave)
    before = fcntl.fcntl(slave, fcntl.F_GETFL)
    r, w = os.pipe()
    child = start(loop_name, r, slave, body, stderr=slave)
    os.close(r)

    def feed():
        for _ in range(1000):
            os.write(w, b"F" * 1023 + b"\n")
        os.close(w)

    feeder = threading.Thread(target=feed)
    feeder.start()
    frames = logs = 0
    while frames < 1023 * 1000 or logs < 1023 * 1024:
        part = os.read(master, 65536)
        frames += part.count(b"F")
        logs += part.count(b"L")
    feeder.join()
    assert child.wait(timeout=10) == 0
    assert fcntl.fcntl(slave, fcntl.F_GETFL) == before
    os.close(master)
    os.close(slave)
    assert (frames, logs) == (1023 * 1000, 1023 * 1024)


def test_b28_run_stop_and_run_again(loop_name):
    """B28: the same process and loop serve again on new pipes; descriptors open and blocking after."""
    body = """
    import fcntl
    async def main():
        saved = os.dup(1)
        for i in range(3):
            r, w = os.pipe(); r2, w2 = os.pipe()
            os.dup2(r, 0); os.dup2(w2, 1); os.close(r); os.close(w2)
            before = [os.fstat(0).st_ino, os.fstat(1).st_ino]
            os.write(w, b"frame %d" % i)
            task = asyncio.ensure_future(serve())
            while True:
                await asyncio.sleep(0.001)
                os.set_blocking(r2, False)
                try:
                    data = os.read(r2, 100)
                    break
                except BlockingIOError: pass
            assert data == b"frame %d" % i, data
            os.close(w)
            assert await task is None
            assert [os.fstat(0).st_ino, os.fstat(1).st_ino] == before
            assert os.get_blocking(0) and os.get_blocking(1)
            assert os.get_inheritable(0) and os.get_inheritable(1)
            os.close(r2)
        os.dup2(saved, 1)
        print(len(os.listdir("/proc/self/fd")))
        for _ in range(2):
            with claim(): pass
        print(len(os.listdir("/proc/self/fd")))
    run(main)
    """
    child = start(loop_name, subprocess.DEVNULL, subprocess.PIPE, body)
    out, errors = child.communicate(timeout=20)
    assert (child.returncode, errors) == (0, b"")
    assert len(set(out.split())) == 1


@pytest.mark.parametrize("redirect", ["<&-", ">&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_connect_failed(loop_name, redirect, tmp_path):
    body = """
    from headrace.errors import ConnectFailed
    try:
        claim()
    except ConnectFailed as exc:
        with open(sys.argv[1], "w") as f: f.write(str(exc))
    """
    path, note = tmp_path / "server.py", tmp_path / "note"
    path.write_text(script(loop_name, body))
    command = ["/bin/sh", "-c", f'"$0" "$1" "$2" {redirect}', sys.executable, path, note]
    done = subprocess.run(command, timeout=20)
    assert done.returncode == 0
    assert "standard" in note.read_text() and "\n" not in note.read_text()


def test_standard_error_closed(loop_name):
    """Without stderr the stray text has nowhere to go; frames are unharmed."""
    body = """
    with claim():
        print("stray")
        os.write(1, b"stray")
    exc = run(serve)
    """
    command = ["/bin/sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, script(loop_name, body)]
    done = subprocess.run(command, input=b"frame", stdout=subprocess.PIPE, timeout=20)
    assert (done.returncode, done.stdout) == (0, b"frame")


def test_b112_client_stops_reading(loop_name):
    """B112, B19 (c): the end of the reader ends the connection once; no traceback, no loop."""
    body = """
    exc = run(serve)
    print(type(exc).__name__, exc, file=sys.stderr)
    """
    for kind in ("pipe", "socket"):
        side0, side1 = Side("pipe", 0, None), Side(kind, 1, None)
        child = start(loop_name, side0.near, side1.near, body)
        os.close(side1.near)
        os.close(side1.far)
        os.write(side0.far, b"call")
        _, errors = child.communicate(timeout=10)
        assert child.returncode == 0
        assert errors.startswith(b"ConnectionClosed ") and errors.count(b"\n") == 1
        side0.close()


def test_nested_claim_and_release(capfd):
    """One claim a process; release is idempotent and puts everything back."""
    taken = stdio.claim()
    try:
        assert taken.read_fd > 2 and taken.write_fd > 2
        assert not os.get_inheritable(taken.read_fd)
        with pytest.raises(UsageError):
            stdio.claim()
        os.write(1, b"to stderr")
        assert os.read(0, 1) == b""
    finally:
        taken.release()
        taken.release()
    os.write(1, b"to stdout")
    assert capfd.readouterr() == ("to stdout", "to stderr")
    stdio.claim().release()


def test_open_stdio_failure_releases(run, capfd):
    async def main():
        import asyncio

        class Bad:
            data_received = eof_received = connection_lost = None

            def connection_made(self, transport):
                raise ZeroDivisionError

        loop = asyncio.get_running_loop()
        for factory in (Bad, lambda: 1 / 0):
            with pytest.raises(ZeroDivisionError):
                stdio.open_stdio(loop, factory)
        stdio.claim().release()

    run(main)


def test_released_claim_cannot_be_used(run, capfd):
    async def main():
        import asyncio

        taken = stdio.claim()
        taken.release()
        with pytest.raises(UsageError):
            stdio.open_stdio(asyncio.get_running_loop(), object, claimed=taken)

    run(main)
