"""`headrace serve` run as people run it, with workers or alone, and plain HTTP clients for it."""

import contextlib
import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import headrace

ENV = {**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1]), "COLUMNS": "100"}
HEADRACE = [sys.executable, "-m", "headrace"]
TIMEOUT = 30.0

APP = """
import asyncio, os, time
from headrace import Server
app = Server("weather", version="1.0")

@app.tool
def pid() -> int:
    return os.getpid()

@app.tool
async def nap(seconds: float) -> int:
    await asyncio.sleep(seconds)
    return os.getpid()

@app.tool
async def until(path: str) -> int:
    while not os.path.exists(path):
        await asyncio.sleep(0.02)
    return os.getpid()

@app.tool
def block(seconds: float) -> int:
    time.sleep(seconds)
    return os.getpid()

@app.tool
async def seize() -> int:
    open(f"seized-{os.getpid()}", "w").close()
    time.sleep(120)
    return os.getpid()

@app.tool
def die(status: int) -> int:
    os._exit(status)
"""

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Serving:
    """A running `headrace serve`: its process, its port, and what it has written; ``env`` is added to the environment."""

    def __init__(self, *arguments, cwd, env=None):
        self.lines = []
        self.callers = []
        self.sent = []
        self.process = subprocess.Popen(
            [*HEADRACE, "serve", *map(str, arguments)], cwd=cwd, env=ENV | (env or {}),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        self.pid = self.process.pid
        self._changed = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self):
        for line in self.process.stderr:
            with self._changed:
                self.lines.append(line.rstrip("\n"))
                self._changed.notify_all()
        with self._changed:
            self.lines.append("")
            self._changed.notify_all()

    @property
    def text(self):
        return "\n".join(self.lines)

    def line(self, pattern, count=1):
        """The match of the `count`-th line that matches; fails when the program ends or takes too long before."""

        def found():
            matches = [m for line in self.lines if (m := re.search(pattern, line))]
            return matches[count - 1] if len(matches) >= count else None

        with self._changed:
            self._changed.wait_for(lambda: found() or "" in self.lines, TIMEOUT)
            match = found()
        assert match, f"no line like {pattern!r}:\n{self.text}"
        return match

    @property
    def port(self):
        return int(self.line(r"serving \S+ on http://127\.0\.0\.1:(\d+)")[1])

    @property
    def workers(self):
        """Process ids of the workers, once all of them serve."""
        self.line("serving")
        return self.children

    @property
    def children(self):
        children = Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text()
        return sorted(int(pid) for pid in children.split())

    def caller(self, path="/mcp"):
        """A client of its HTTP port, closed in the end."""
        caller = Caller(self.port, path)
        self.callers.append(caller)
        return caller

    def send(self, signum):
        self.sent.append(signum)
        self.process.send_signal(signum)

    def wait(self):
        status = self.process.wait(TIMEOUT)
        self._reader.join(TIMEOUT)
        return status

    def stop(self, signum=signal.SIGTERM):
        self.send(signum)
        return self.wait()

    def end(self):
        """Ends it in order where it has not been told to end, by force where that takes too long."""
        try:
            if signal.SIGTERM not in self.sent:
                self.send(signal.SIGTERM)
            self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.wait()
        self.process.stderr.close()


@contextlib.contextmanager
def serving(*arguments, cwd, env=None):
    """One that is ended with its workers, whatever happened."""
    it = Serving(*arguments, cwd=cwd, env=env)
    try:
        yield it
    finally:
        for caller in it.callers:
            caller.close()
        workers = []
        with contextlib.suppress(OSError):
            workers = it.children
        if it.process.poll() is None:
            it.process.kill()
            for pid in workers:
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
        it.wait()
        it.process.stderr.close()


def refused(*arguments, cwd=None, env=None):
    """(status, the one line) of a `headrace serve` that does not start."""
    done = subprocess.run(
        [*HEADRACE, "serve", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, cwd=cwd, env=ENV | (env or {}), timeout=60,
    )  # fmt: skip
    assert done.stdout == "", done
    [line] = done.stderr.splitlines()
    return done.returncode, line


def body_of(name, arguments, number=1):
    return json.dumps(
        {"jsonrpc": "2.0", "id": number, "method": "tools/call",
         "params": {"name": name, "arguments": arguments, "_meta": META}}
    ).encode()  # fmt: skip


class Caller:
    """An HTTP/1.1 client that keeps its connection, and repeats nothing."""

    def __init__(self, port, path="/mcp"):
        self.path = path
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT)

    def connect(self):
        self.connection.connect()
        return self

    def send(self, name="pid", **arguments):
        self.connection.request(
            "POST", self.path, body_of(name, arguments),
            {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
             "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": name},
        )  # fmt: skip

    def answer(self):
        response = self.connection.getresponse()
        text = response.read().decode()
        if response.headers.get_content_type() == "text/event-stream":
            text = next(line[6:] for line in text.splitlines() if line.startswith("data: "))
        assert response.status == 200, text
        return json.loads(text)["result"]["structuredContent"]

    def call(self, name="pid", **arguments):
        self.send(name, **arguments)
        return self.answer()

    def close(self):
        self.connection.close()


class Busy:
    """Threads at work, each on a function of its own, from entering this to leaving it; they look whether it is `over`."""

    def __init__(self, works):
        self.over = threading.Event()
        self._threads = [threading.Thread(target=work) for work in works]

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for thread in self._threads:
            thread.join()


def eventually(condition, what="it"):
    """Waits for a condition; fails after half a minute."""
    until = time.monotonic() + TIMEOUT
    while not (result := condition()):
        assert time.monotonic() < until, f"{what} did not happen"
        time.sleep(0.02)
    return result


def seized(folder):
    """The workers whose loop is blocked."""
    return sorted(int(path.name.partition("-")[2]) for path in folder.glob("seized-*"))


def gone(pid):
    """Whether a process has ended (one that nobody has waited for yet counts)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True
