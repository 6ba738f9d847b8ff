"""Section 2 of the field faults: full pipes, shutdown, descriptors, children, end to end."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time

import pytest

from field.child import INITED, WAIT, Child, call, cpu_ticks, environment, gone, init, ping, serve


def test_b16_large_answers_unread():
    with Child(reading=False) as child:
        child.send(*(call(n, "big", {"n": 200_000}) for n in range(50)), *(ping(f"p{n}") for n in range(50)))
        child.until(child.written)
        time.sleep(0.5)  # the server has filled the pipe by now, and must sit still
        before = cpu_ticks(child.pid)
        time.sleep(0.5)
        assert cpu_ticks(child.pid) - before <= 2
        child.read()
        messages = {message["id"]: message for message in child.count(100)}
        assert all(len(messages[n]["result"]["content"][0]["text"]) == 200_000 for n in range(50))
        assert all(messages[f"p{n}"]["result"] == {} for n in range(50))


def test_b17_both_directions_full():
    """Notes and answers against a slow reader, while calls pour in."""
    with Child() as child:
        child.chunk, child.pause = 1 << 16, 0.02
        child.send(call(2, "progress", {"n": 4000}, token=7))
        text = "y" * 1024
        child.send(b"".join(call(f"e{n}", "echo", {"text": text}) for n in range(2000)))
        messages = child.count(4000 + 2001)
        notes = [at for at, message in enumerate(messages) if "method" in message]
        assert [messages[at]["params"]["progress"] for at in notes] == list(range(1, 4001))
        done = next(at for at, message in enumerate(messages) if message.get("id") == 2)
        assert notes[-1] < done
        answers = [message["id"] for message in messages if isinstance(message.get("id"), str)]
        assert sorted(answers) == sorted(f"e{n}" for n in range(2000))


def test_b19_null_device():
    done = subprocess.run(
        serve(), stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT, env=environment()
    )
    assert (done.returncode, done.stdout) == (0, b"")
    assert done.stderr == b"a stray line at import\n"


def test_b19_parent_killed():
    """b: the client dies without a word; the end of its pipes is enough."""
    parent = subprocess.Popen(
        [sys.executable, "-c", _PARENT, json.dumps(serve()), init(1).decode()],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        pid = int(parent.stdout.readline())
        assert b'"bench"' in parent.stdout.readline()
        parent.kill()
        parent.wait(WAIT)
        assert gone(pid)
    finally:
        parent.kill()
        parent.wait(WAIT)
        parent.stdout.close()


_PARENT = """
import json, subprocess, sys, time
child = subprocess.Popen(json.loads(sys.argv[1]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
print(child.pid, flush=True)
child.stdin.write(sys.argv[2].encode())
print(child.stdout.readline().decode(), flush=True)
time.sleep(600)
"""


def test_b19_reader_gone():
    """c: nobody reads the answers any more."""
    process = subprocess.Popen(
        serve(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()
    )
    try:
        process.stdin.write(init(1) + INITED)
        process.stdin.flush()
        assert b'"bench"' in process.stdout.readline()
        process.stdout.close()
        process.stdin.write(call(2, "echo", {"text": "x"}))
        process.stdin.flush()
        assert process.wait(WAIT) in (0, 1)
        assert b"Traceback" not in process.stderr.read()
    finally:
        process.kill()
        process.wait(WAIT)
        process.stderr.close()
        with contextlib.suppress(OSError):
            process.stdin.close()


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
@pytest.mark.parametrize("rest", ["sleep", "block", "thread", "executor"])
def test_b19_work_left(tmp_path, rest, number):
    """d: whatever still runs when the client goes does not keep the process longer than the drain limit."""
    record = tmp_path / "record"
    child = Child("--drain-timeout", "0.5")
    arguments = {
        "sleep": {"ms": 600_000, "record": str(record)},
        "block": {"ms": 600_000},
        "thread": {"seconds": 600},
        "executor": {"seconds": 600},
    }
    child.send(call(1, rest, arguments[rest]))
    child.alive()
    if number is not None:
        child.signal(number)
        child.until(lambda: child.process.poll() is not None)
    assert child.close() == 0
    assert b"Traceback" not in child.log
    if rest == "sleep":
        assert record.read_text() == "cancelled\n"
    assert (b"threads that still run" in child.log) == (rest in ("thread", "executor"))


@pytest.mark.parametrize("number", [None, signal.SIGTERM])
def test_b26_shared_terminal(number):
    """fd 1 and fd 2 are the same terminal: no byte of the log is lost, flags are as before."""
    master, slave = pty.openpty()
    seen = bytearray()

    def drain():
        with contextlib.suppress(OSError):
            while data := os.read(master, 1 << 16):
                seen.extend(data)

    reader = threading.Thread(target=drain, daemon=True)
    process = subprocess.Popen(
        serve(), stdin=subprocess.PIPE, stdout=slave, stderr=slave, bufsize=0, env=environment()
    )
    try:
        before = fcntl.fcntl(slave, fcntl.F_GETFL)
        reader.start()
        process.stdin.write(init(1) + INITED + call(2, "stderr", {"n": 1 << 20}) + ping(3))
        end = time.monotonic() + WAIT
        while time.monotonic() < end and (seen.count(b"e" * 64) < 1 << 14 or b"written" not in seen):
            time.sleep(0.02)
        if number is None:
            process.stdin.close()
        else:
            process.send_signal(number)
        assert process.wait(WAIT) == 0
        assert fcntl.fcntl(slave, fcntl.F_GETFL) == before
        assert not before & os.O_NONBLOCK
    finally:
        process.kill()
        process.wait(WAIT)
        os.close(slave)
        reader.join(WAIT)
        os.close(master)
        process.stdin.close()
    log = seen.replace(b"\r\n", b"\n")
    assert b"BlockingIOError" not in log
    assert log.count(b"e" * 64) * 64 >= (1 << 20) - 64 * 64
    assert b'"id":3,"result":{}' in log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_b30_signal_while_idle(number):
    for _ in range(3):
        child = Child()
        child.signal(number)
        status = child.process.wait(WAIT)
        child.kill()
        assert status in (0, -number)
        assert b"Fatal Python error" not in child.log
        assert b"Traceback" not in child.log


def test_b31_locale():
    text = "✓ řemeslník 😀"
    with Child(env={"PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "PYTHONUTF8": "0"}) as child:
        child.send(call(1, "echo", {"text": text}))
        assert child.text(1) == text
        assert text.encode() in child.lines[0]


def test_b32_heavy_parallel_calls():
    with Child() as child:
        argv = ["sh", "-c", "head -c 1000000 /dev/zero | wc -c"]
        child.send(*(call(n, "output_of", {"argv": argv}) for n in range(64)))
        messages = child.count(64)
        assert {message["result"]["content"][0]["text"] for message in messages} == {"1000000"}
        assert {message["id"] for message in messages} == set(range(64))
        child.alive()
