"""spawn and ChildProcess: real pipes, exit, the whole group gone, nothing leaked."""

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

import headrace
from headrace.errors import ConnectFailed, ConnectionClosed, UsageError
from headrace.limits import Limits
from headrace.transports._fdio import live_transports
from headrace.transports.exitwatch import UNKNOWN_EXIT
from headrace.transports.spawn import INHERITED, child_environment, spawn

SRC = str(Path(headrace.__file__).parents[1])
PY = [sys.executable, "-u", "-c"]
ECHO = "import sys,os\nwhile b := os.read(0, 65536): os.write(1, b)"


class Recorder:
    def __init__(self):
        self.data = bytearray()
        self.calls = []
        self.transport = None
        self.lost = asyncio.get_running_loop().create_future()

    def connection_made(self, transport):
        self.transport = transport
        self.calls.append("made")

    def data_received(self, data):
        self.data += data

    def eof_received(self):
        self.calls.append("eof")

    def pause_writing(self):
        self.calls.append("pause")

    def resume_writing(self):
        self.calls.append("resume")

    def connection_lost(self, exc):
        self.calls.append("lost")
        self.lost.set_result(exc)


def children():
    """Process ids of our children, ended ones that nobody waited for included."""
    found = set()
    for thread in os.listdir("/proc/self/task"):
        with contextlib.suppress(FileNotFoundError), open(f"/proc/self/task/{thread}/children") as file:
            found.update(file.read().split())
    return found


@pytest.fixture(autouse=True)
def nothing_left(run):
    async def nothing():
        pass

    run(nothing)
    gc.collect()
    fds, live, others = len(os.listdir("/dev/fd")), live_transports(), children()
    yield
    gc.collect()
    assert live_transports() == live
    assert len(os.listdir("/dev/fd")) == fds
    assert children() <= others  # no child, no zombie


async def until(condition, seconds=10.0):
    loop = asyncio.get_running_loop()
    end = loop.time() + seconds
    while not condition():
        assert loop.time() < end, "waited in vain"
        await asyncio.sleep(0.005)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def gone(*pids):
    """Which of `pids` are left after a while: none, it is hoped."""
    with contextlib.suppress(AssertionError, TimeoutError):
        await until(lambda: not any(alive(p) for p in pids))
    return [p for p in pids if alive(p)]


def test_echo_and_close(run):
    """ST-20: closing stdin is enough for a child that behaves; connection_lost gets no reason then."""

    async def main():
        child = await spawn([*PY, ECHO], Recorder)
        assert child.protocol.calls == ["made"] and child.exit_code is None
        assert child.transport.get_extra_info("pid") == child.pid
        child.transport.write(b"hello\n")
        await until(lambda: child.protocol.data)
        lost = child.protocol.lost
        await child.close()
        await child.close()
        assert lost.done() and lost.result() is None
        assert await child.wait() == 0
        assert "exited 0" in repr(child)
        return bytes(child.protocol.data), child.exit_code

    assert run(main) == (b"hello\n", 0)


def test_b25_real_pipes(run):
    """B25: the child's streams are pipes, on uvloop too, and can be opened by path."""

    async def main():
        child = await spawn(
            ["/bin/sh", "-c", "test -p /dev/stdin && test -p /dev/stdout && test -p /dev/stderr &&"
             " exec cat /dev/stdin > /dev/stdout"], Recorder)  # fmt: skip
        child.transport.write(b"through")
        await until(lambda: child.protocol.data == b"through")
        await child.close()
        return child.exit_code

    assert run(main) == 0


def test_b25_flags_of_the_childs_streams(run):
    """B26: our ends are non-blocking, the child's are not; its group and session are its own."""

    async def main():
        code = "import os;print(*[os.get_blocking(i) for i in (0,1,2)], os.getpgrp()==os.getsid(0)==os.getpid())"
        child = await spawn([*PY, code], Recorder)
        exc = await child.protocol.lost
        await child.close()
        return bytes(child.protocol.data), exc

    data, exc = run(main)
    assert data == b"True True True True\n"
    assert isinstance(exc, ConnectionClosed) and exc.exit_code == 0


@pytest.mark.parametrize("n", [8191, 8192, 8193, 65535, 65536, 65537, 1_000_000, 30_000_000])
def test_b27_exact_echo(run, n):
    """B27: any size goes through a child that reads a little and sleeps."""
    code = """
    import os, time
    reads = 0
    while b := os.read(0, 4096):
        if reads < 40: time.sleep(0.002)
        reads += 1
        while b: b = b[os.write(1, b):]
    """

    async def main():
        child = await spawn([*PY, textwrap.dedent(code)], Recorder)
        data = os.urandom(1 << 16) * (n // (1 << 16) + 1)
        data = data[:n]
        child.transport.write(data)
        await until(lambda: len(child.protocol.data) >= n, 25)
        got = bytes(child.protocol.data)
        calls = child.protocol.calls
        await child.close()
        assert (n < 100_000) or calls[:3] == ["made", "pause", "resume"]
        return got == data, child.exit_code

    assert run(main) == (True, 0)


@pytest.mark.parametrize(
    ("code", "exit_code", "reason", "text"),
    [
        ("import os, sys; os.write(2, b'first\\n'); sys.exit('no\\x1b token')",
         1, "exited with status 1", "exited with status 1 (stderr: first / no  token)"),
        ("import sys; sys.exit(3)", 3, "exited with status 3", "exited with status 3"),
        ("import os; os.kill(os.getpid(), 9)", -9, "killed by SIGKILL", "killed by SIGKILL"),
        ("raise ValueError('é')", 1, "exited with status 1", "exited with status 1 (stderr: ValueError: é)"),
    ],
)  # fmt: skip
def test_exit_is_told(run, code, exit_code, reason, text):
    async def main():
        child = await spawn([*PY, code], Recorder, env={"PYTHONIOENCODING": "utf-8"})
        exc = await child.protocol.lost
        assert await child.wait() == child.exit_code == exit_code
        await child.close()
        return exc

    exc = run(main)
    assert isinstance(exc, ConnectionClosed)
    assert (exc.exit_code, exc.reason, str(exc)) == (exit_code, reason, text)


def test_last_output_before_the_exit_arrives(run):
    """What the child wrote last is delivered before connection_lost, also when our own write broke (B112)."""

    async def main():
        seen = []
        for _ in range(10):
            child = await spawn([*PY, "import os; os.close(0); os.write(1, b'x' * 60000); os._exit(4)"], Recorder)
            while not child.protocol.lost.done():
                child.transport.write(b"y" * 1000)
                await asyncio.sleep(0.001)
            exc = await child.protocol.lost
            seen.append((len(child.protocol.data), exc.exit_code))
            await child.close()
        return seen

    assert run(main) == [(60000, 4)] * 10


def test_output_closed_but_alive(run):
    """ST-21: end of the output is the end of the connection although the process goes on."""

    async def main():
        child = await spawn([*PY, "import os,time; os.close(1); time.sleep(60)"], Recorder)
        exc = await child.protocol.lost
        assert child.exit_code is None
        await child.close(0.1)
        return exc, child.exit_code

    exc, code = run(main)
    assert exc.reason == "closed its output" and exc.exit_code is None
    assert code == -signal.SIGTERM


def test_b20_exit_noticed_while_a_grandchild_holds_the_pipes(run):
    """B20 (d): the end of the process counts, not the end of its pipes; the grandchild goes too."""

    async def main():
        child = await spawn(["/bin/sh", "-c", "sleep 60 & echo $!; read x"], Recorder)
        await until(lambda: b"\n" in child.protocol.data)
        grandchild = int(child.protocol.data)
        child.transport.write(b"\n")
        exc = await child.protocol.lost
        await child.close()
        assert await gone(grandchild) == []
        return exc

    assert run(main).reason == "exited with status 0"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("cat & echo $!; wait", None),  # the wrapper waits for the real server
        ("trap '' TERM; sleep 60 & echo $!; wait; wait", -signal.SIGKILL),  # ignores everything
        ("sleep 60 & echo $!; wait", -signal.SIGTERM),
        ("trap 'exit 7' TERM; sleep 60 & echo $!; wait; sleep 60", 7),
    ],
)
def test_b20_close_stops_the_whole_group(run, script, expected):
    """B20 (a)-(c), ST-20: stdin, SIGTERM, SIGKILL; no process of the group is left."""

    async def main():
        child = await spawn(["/bin/sh", "-c", script], Recorder)
        await until(lambda: b"\n" in child.protocol.data)
        grandchild = int(child.protocol.data)
        await child.close(0.3)
        assert child.exit_code is not None
        assert await gone(child.pid, grandchild) == []
        return child.exit_code

    code = run(main)
    assert expected is None or code == expected


def test_b20_leftovers_that_ignore_sigterm(run):
    async def main():
        code = "trap '' TERM; echo $$; while :; do sleep 0.1; done"
        child = await spawn(["/bin/sh", "-c", f"sh -c '{code.replace(chr(39), chr(34))}' & read x"], Recorder)
        await until(lambda: b"\n" in child.protocol.data)
        grandchild = int(child.protocol.data)
        assert alive(grandchild)
        await child.close()
        assert await gone(grandchild) == []
        return child.exit_code

    assert run(main) is not None


def test_b20_close_cancelled_in_the_middle(run):
    """B20 (e): a cancelled close kills the group at once."""

    async def main():
        child = await spawn(["/bin/sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"], Recorder)
        await until(lambda: b"\n" in child.protocol.data)
        grandchild = int(child.protocol.data)
        task = asyncio.create_task(child.close(10))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await gone(child.pid, grandchild) == []
        await child.close()
        return child.exit_code

    assert run(main) == -signal.SIGKILL


def test_b20_loop_ends_in_the_middle_of_close(run):
    pids = []

    async def main():
        child = await spawn(["/bin/sh", "-c", "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"], Recorder)
        await until(lambda: b"\n" in child.protocol.data)
        pids.extend((child.pid, int(child.protocol.data)))
        asyncio.get_running_loop().create_task(child.close())
        await asyncio.sleep(0.01)

    run(main)
    gc.collect()
    assert run(gone, *pids) == []


def test_b21_any_order_any_task_twice(run, capsys):
    """B21: first opened first closed, from another task, twice at once, after the loop, never."""

    async def main():
        a = await spawn([*PY, ECHO], Recorder)
        b = await spawn([*PY, ECHO], Recorder)
        opened = []

        async def opener():
            opened.append(await spawn([*PY, ECHO], Recorder))

        await asyncio.create_task(opener())
        await a.close()
        await b.close()
        c = opened[0]
        await asyncio.gather(*(asyncio.create_task(c.close()) for _ in range(3)))
        assert [x.exit_code for x in (a, b, c)] == [0, 0, 0]
        dropped = await spawn([*PY, "import time; time.sleep(60)"], Recorder)
        kept = await spawn([*PY, "import time; time.sleep(60)"], Recorder)
        return dropped.pid, kept

    pid, kept = run(main)
    gc.collect()
    assert not alive(pid)
    assert alive(kept.pid)
    run(kept.close)  # on another loop: the old one is closed
    assert not alive(kept.pid) and kept.exit_code == -signal.SIGKILL
    assert capsys.readouterr().err == ""


def test_close_while_paused_ends(run):
    """A connection whose reading is paused, with output unread, does not hold up close."""

    async def main():
        child = await spawn([*PY, "import os; os.write(1, b'x' * 200000)"], Recorder)
        await until(lambda: child.protocol.data)
        child.transport.pause_reading()
        await child.close(0.2)
        assert child.protocol.lost.done()
        child = await spawn([*PY, "import os; os.write(1, b'x' * 60000)"], Recorder)
        child.transport.pause_reading()
        await child.wait()
        await asyncio.sleep(0.02)
        assert not child.protocol.lost.done()
        child.transport.resume_reading()
        exc = await child.protocol.lost
        await child.close()
        return exc.exit_code, len(child.protocol.data)

    assert run(main) == (0, 60000)


def test_kill(run):
    async def main():
        child = await spawn([*PY, "import time; time.sleep(60)"], Recorder)
        child.kill()
        child.kill()
        await child.close()
        child.kill()
        return child.exit_code

    assert run(main) == -signal.SIGKILL


def test_protocol_closes_first(run):
    async def main():
        child = await spawn([*PY, ECHO], Recorder)
        child.transport.close()
        assert await child.protocol.lost is None
        assert await child.wait() == 0
        await child.close()

    run(main)


def test_connect_failed_says_what(run, tmp_path):
    """Failure to start: one plain line that names the command; no descriptor stays open."""
    plain = tmp_path / "plain"
    plain.write_text("hello")
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    broken = tmp_path / "broken"
    broken.write_text("no first line\n")
    broken.chmod(0o755)

    async def failing(argv, **options):
        with pytest.raises(ConnectFailed) as caught:
            await spawn(argv, Recorder, **options)
        assert "\n" not in str(caught.value) and repr(argv[0]) in str(caught.value)
        return str(caught.value)

    async def main():
        assert "no such command" in await failing(["no-such-command-anywhere"])
        assert "not executable" in await failing([str(plain)])
        assert "not executable" in await failing([str(tmp_path)])
        assert "interpreter" in await failing([str(script)])
        assert "format" in await failing([str(broken)])
        assert "/no/such/dir" in await failing(["cat"], cwd="/no/such/dir")
        for argv in ("cat", [], ["a\0b"]):
            with pytest.raises(UsageError):
                await spawn(argv, Recorder)

    run(main)


def test_failing_protocol_leaves_no_child(run):
    async def main():
        def fail():
            raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await spawn([*PY, ECHO], fail)

        class Bad(Recorder):
            def connection_made(self, transport):
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            await spawn([*PY, ECHO], Bad)
        with pytest.raises(ConnectFailed):
            await spawn([*PY, ECHO], Recorder, stderr=987_654)
        await asyncio.sleep(0.01)

    run(main)


def test_environment(run, monkeypatch):
    """ST-10: the child gets the official list of variables, not our secrets."""
    monkeypatch.setenv("API_SECRET", "s3cret")
    monkeypatch.setenv("TERM", "() { :; }")
    assert set(child_environment()) <= set(INHERITED)
    assert "TERM" not in child_environment()
    assert child_environment({"PATH": "/x", "A": "b"})["PATH"] == "/x"
    assert child_environment(inherit=True)["API_SECRET"] == "s3cret"

    async def main(**options):
        child = await spawn(["/usr/bin/env"], Recorder, **options)
        await child.protocol.lost
        await child.close()
        return dict(line.split("=", 1) for line in child.protocol.data.decode().splitlines())

    got = run(main)
    assert "API_SECRET" not in got and got["PATH"] == os.environ["PATH"]
    got = run(lambda: main(env={"EXTRA": "1"}, inherit_env=True))
    assert got["API_SECRET"] == "s3cret" and got["EXTRA"] == "1"


def test_cwd(run, tmp_path):
    async def main():
        child = await spawn([*PY, "import os; print(os.getcwd())"], Recorder, cwd=tmp_path)
        await child.protocol.lost
        await child.close()
        return child.protocol.data.decode().strip()

    assert os.path.samefile(run(main), tmp_path)


def test_last_words_are_told_whichever_pipe_ends_first(run):
    """The end of stdout is seen after the exit but before stderr was read: the reason waits for what it said."""

    async def main():
        child = await spawn(["/bin/sh", "-c", "read line; echo why it died >&2; exit 3"], Recorder)
        loop, errors = asyncio.get_running_loop(), child._errors
        errors.pause_reading()
        child.transport.pause_reading()

        class Late:
            abort = errors.abort

            def finish(self, exc):
                loop.call_later(0.1, errors.resume_reading)
                loop.call_later(0.1, errors.finish, exc)

        child._errors = Late()
        child.transport.write(b"go\n")
        await child.wait()
        child.transport.resume_reading()
        lost = await child.protocol.lost
        await child.close()
        return lost

    lost = run(main)
    assert (str(lost), lost.exit_code) == ("exited with status 3 (stderr: why it died)", 3)


def test_st05_stderr_is_always_drained_and_its_end_kept(run, tmp_path):
    """ST-05: megabytes on stderr block nobody; the tail is bounded; copies go where they should."""
    code = "import os\nfor i in range(300): os.write(2, b'%07d\\n' % i * 1000)\nprint('done')\nos.read(0, 1)"

    async def main(stderr):
        child = await spawn([*PY, code], Recorder, stderr=stderr, limits=Limits(stderr_tail_bytes=1000))
        await until(lambda: child.protocol.data == b"done\n")
        await child.close()
        return child.stderr_tail()

    assert run(main, None) == b"0000299\n" * 125
    chunks = []
    assert run(main, chunks.append) == b"0000299\n" * 125
    assert sum(map(len, chunks)) == 300 * 8000
    with open(tmp_path / "log", "wb") as log:
        assert run(main, log.fileno()) == b"0000299\n" * 125
    assert (tmp_path / "log").stat().st_size == 300 * 8000
    r, w = os.pipe()  # nobody reads: the copy has a gap, the child does not block
    assert run(main, w) == b"0000299\n" * 125
    assert os.get_blocking(w)
    os.close(r)
    assert run(main, w) == b"0000299\n" * 125
    os.close(w)


def test_failing_stderr_callback_is_reported_once(run):
    async def main():
        reports = []
        asyncio.get_running_loop().set_exception_handler(lambda _, c: reports.append(c))
        child = await spawn(["/bin/sh", "-c", "echo a >&2; sleep 0.05; echo b >&2"], Recorder, stderr=lambda _: 1 / 0)
        await child.protocol.lost
        await child.close()
        return len(reports), child.stderr_tail()

    assert run(main) == (1, b"a\nb\n")


def test_exit_without_pidfd(run, monkeypatch):
    """Where there is no pidfd a thread waits."""
    monkeypatch.delattr(os, "pidfd_open", raising=False)

    async def main():
        child = await spawn([*PY, "import sys; sys.exit(5)"], Recorder)
        exc = await child.protocol.lost
        await child.close()
        monkeypatch.delattr(os, "waitid", raising=False)
        other = await spawn([*PY, "import sys; sys.exit(6)"], Recorder)
        await other.protocol.lost
        await other.close()
        return exc.exit_code, other.exit_code

    assert run(main) == (5, 6)


def test_status_taken_by_somebody_else(run):
    async def main():
        old = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        try:
            child = await spawn([*PY, ECHO], Recorder)
            await child.close()
        finally:
            signal.signal(signal.SIGCHLD, old)
        return child.exit_code

    assert run(main) == UNKNOWN_EXIT


def test_b22_no_descriptor_and_no_child_leaks(loop_name):
    """B22: 300 children, good, failing, missing and silent, with 64 descriptors."""
    code = f"""
    import asyncio, os, resource, sys
    sys.path.insert(0, {SRC!r})
    from headrace.errors import ConnectFailed
    from headrace.transports.spawn import spawn
    if {loop_name!r} == "uvloop":
        import uvloop
        factory = uvloop.new_event_loop
    else:
        factory = asyncio.new_event_loop
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))

    class P:
        def connection_made(self, t): self.t = t; self.lost = asyncio.get_running_loop().create_future()
        def data_received(self, d): self.got.set_result(d)
        def eof_received(self): pass
        def pause_writing(self): pass
        def resume_writing(self): pass
        def connection_lost(self, exc): self.lost.set_result(exc)

    async def good():
        child = await spawn(["cat"], P)
        child.protocol.got = asyncio.get_running_loop().create_future()
        child.transport.write(b"x")
        await child.protocol.got
        await child.close()
        assert child.exit_code == 0

    async def bad():
        child = await spawn(["/bin/sh", "-c", "exit 1"], P)
        exc = await child.protocol.lost
        assert exc.exit_code == 1, exc
        await child.close()

    async def missing():
        try:
            await spawn(["/no/such/command"], P)
        except ConnectFailed:
            return
        raise AssertionError

    async def silent():
        child = await spawn(["sleep", "60"], P)
        await asyncio.sleep(0.001)
        await child.close(0.0)
        assert child.exit_code == -15, child.exit_code

    async def main():
        await good()
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(75):
            await good(); await bad(); await missing(); await silent()
        for _ in range(5):
            await asyncio.gather(good(), bad(), silent(), good())
        await asyncio.sleep(0)
        assert len(os.listdir("/proc/self/fd")) == before, os.listdir("/proc/self/fd")
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        raise AssertionError("a child is left")

    with asyncio.Runner(loop_factory=factory) as r:
        r.run(main())
    print("clean")
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert (done.stdout, done.stderr) == ("clean\n", "")


def test_b22_out_of_descriptors_is_connect_failed(loop_name):
    code = f"""
    import asyncio, os, resource, sys
    sys.path.insert(0, {SRC!r})
    from headrace.errors import ConnectFailed
    from headrace.transports.spawn import spawn

    async def main():
        await asyncio.sleep(0)
        for limit in range(len(os.listdir("/proc/self/fd")), 40):
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, 64))
            before = os.listdir("/proc/self/fd") if limit > 20 else None
            try:
                child = await spawn(["cat"], asyncio.Protocol)
            except ConnectFailed as exc:
                assert "Too many open files" in str(exc), exc
            else:
                await child.close()
                assert child.exit_code == 0
            await asyncio.sleep(0.01)
            if before is not None:
                assert os.listdir("/proc/self/fd") == before
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("clean")

    if {loop_name!r} == "uvloop":
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=55)
    assert (done.stdout, done.stderr) == ("clean\n", "")


def test_interpreter_exit_kills_what_is_left(loop_name):
    """A program that ends without closing leaves no group behind."""
    code = f"""
    import asyncio, sys
    sys.path.insert(0, {SRC!r})
    from headrace.transports.spawn import spawn
    keep = []
    async def main():
        script = "trap '' TERM; sleep 60 & echo $!; wait; sleep 60"
        keep.append(await spawn(["/bin/sh", "-c", script], asyncio.Protocol))
        print(keep[0].pid)
    if {loop_name!r} == "uvloop":
        import uvloop
        uvloop.run(main())
    else:
        asyncio.run(main())
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True, timeout=30)
    assert done.stderr == ""
    pid = int(done.stdout)
    end = time.monotonic() + 5
    while alive(pid) and time.monotonic() < end:
        time.sleep(0.01)
    assert not alive(pid)
