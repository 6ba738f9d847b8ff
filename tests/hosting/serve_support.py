"""`headrace serve` as a process of its own, on free ports."""

import contextlib
import os
import re
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

TOP = Path(__file__).parent.parent.parent
ENV = {**os.environ, "PYTHONPATH": str(TOP / "src"), "PYTHONUNBUFFERED": "1"}
HEADRACE = [sys.executable, "-m", "headrace"]

SHOP = '''
import asyncio
import os
from headrace import Server, ToolError

app = Server("shop", version="1")


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def fails() -> str:
    raise ToolError("no")


@app.tool
async def slow(ms: int) -> str:
    await asyncio.sleep(ms / 1000)
    return "slept"


@app.tool
async def who() -> str:
    return str(os.getpid())
'''


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


class Serving:
    """The process, and what it has said so far."""

    def __init__(self, process):
        self.process = process
        self.lines = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self):
        for line in self.process.stderr:
            self.lines.append(line.rstrip("\n"))

    def heard(self, pattern, timeout=30.0):
        """The match of the first line that fits."""
        end = time.monotonic() + timeout
        while time.monotonic() < end:
            ended = self.process.poll() is not None
            if ended:
                self._thread.join(5)
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            assert not ended, (self.process.returncode, self.lines)
            time.sleep(0.02)
        raise AssertionError((pattern, self.lines))

    def ended(self, timeout=30.0):
        """Its status."""
        self.process.wait(timeout)
        self._thread.join(5)
        return self.process.returncode


@contextlib.contextmanager
def serve(*arguments, cwd=None, python=None, env=None):
    """`headrace serve ARGUMENTS`, ended in any case."""
    command = [python, "-m", "headrace"] if python else HEADRACE
    process = subprocess.Popen(
        [*command, "serve", *map(str, arguments)],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, cwd=cwd,
        env={**ENV, **(env or {})},
    )  # fmt: skip
    serving = Serving(process)
    try:
        yield serving
    finally:
        if process.poll() is None:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(10)
        serving._thread.join(5)
        process.stderr.close()


def refused(*arguments, cwd=None, env=None):
    """(status, the one line) of a `headrace serve` that does not start."""
    done = subprocess.run(
        [*HEADRACE, "serve", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd, env={**ENV, **(env or {})}, timeout=60,
    )  # fmt: skip
    assert done.stdout == "", done
    [line] = done.stderr.splitlines()
    return done.returncode, line
