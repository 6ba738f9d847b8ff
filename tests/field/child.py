"""A server in a process of its own that is spoken to byte by byte, with every wait bounded."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import headrace

BENCH = Path(__file__).with_name("bench_server.py")
SOURCE = Path(headrace.__file__).resolve().parents[1]
WAIT = 25  # seconds for anything that must happen

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def line(**members):
    """One frame with its newline."""
    return json.dumps({"jsonrpc": "2.0", **members}, ensure_ascii=False).encode() + b"\n"


def init(id, version="2025-11-25"):
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    return line(id=id, method="initialize", params=params)


INITED = line(method="notifications/initialized")


def ping(id):
    return line(id=id, method="ping")


def call(id, tool, arguments=None, *, token=None):
    params = {"name": tool, "arguments": arguments or {}}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return line(id=id, method="tools/call", params=params)


def environment(**more):
    return os.environ | {"PYTHONPATH": str(SOURCE), "PYTHONFAULTHANDLER": "1"} | more


def serve(*options):
    return [sys.executable, "-m", "headrace", "serve", str(BENCH), *options]


class Child:
    """`headrace serve bench_server.py`. Writing never blocks the test; `lines` grows while reading is on.

    A context manager: leaving it closes the input, and the server must then end with status 0.
    """

    def __init__(self, *options, reading=True, env=None, ready=True):
        self.process = subprocess.Popen(
            serve(*options),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment(**(env or {})),
        )
        self.pid = self.process.pid
        self.lines: list[bytes] = []
        self.rest = b""
        self.log = bytearray()
        self.chunk, self.pause = 1 << 20, 0.0
        self._arrived = threading.Condition()
        self._reading = threading.Event()
        self._writes: queue.Queue = queue.Queue()
        self._threads = [
            threading.Thread(target=work, daemon=True) for work in (self._write, self._read, self._drain)
        ]
        for thread in self._threads:
            thread.start()
        if reading or ready:
            self._reading.set()
        if ready:
            self.send(init("init"), INITED)
            assert self.answer("init")["result"]["serverInfo"]["name"] == "bench"
            self.lines.clear()
            if not reading:
                self._reading.clear()
                # The reader may wait in one read already: a ping frees it.
                self.send(ping("free"))
                self.until(lambda: self.has("free"))
                self.lines.clear()

    def _write(self):
        while (data := self._writes.get()) is not None:
            with contextlib.suppress(OSError):
                view = memoryview(data)
                while view:
                    view = view[os.write(self.process.stdin.fileno(), view) :]
        with contextlib.suppress(OSError):
            self.process.stdin.close()

    def _read(self):
        parts: list[bytes] = []  # of a line without its end yet
        while True:
            self._reading.wait()
            data = os.read(self.process.stdout.fileno(), self.chunk)
            if not data:
                break
            if b"\n" in data:
                *whole, data = (b"".join(parts) + data).split(b"\n")
                parts.clear()
                with self._arrived:
                    self.lines += whole
                    self._arrived.notify_all()
            parts.append(data)
            if self.pause:
                time.sleep(self.pause)
        self.rest = b"".join(parts)
        with self._arrived:
            self._arrived.notify_all()

    def _drain(self):
        while data := os.read(self.process.stderr.fileno(), 1 << 16):
            self.log += data

    def send(self, *chunks):
        """Queues bytes; each chunk is a write of its own."""
        for chunk in chunks:
            self._writes.put(bytes(chunk))

    def read(self):
        """Begins to read."""
        self._reading.set()

    def written(self):
        """True when the child took everything that was sent."""
        return self._writes.empty()

    def until(self, condition, seconds=WAIT):
        """Waits until `condition()` holds."""
        end = time.monotonic() + seconds
        with self._arrived:
            while not condition():
                left = end - time.monotonic()
                assert left > 0, f"waited {seconds} s; {len(self.lines)} lines, last {self.lines[-3:]!r:.600}"
                self._arrived.wait(min(left, 0.1))

    def has(self, id):
        return self.find(id) is not None

    def find(self, id):
        """The answer with this id (type and value), or None."""
        for raw in reversed(self.lines):
            message = json.loads(raw)
            if isinstance(message, list) or "method" in message:
                continue
            if type(message.get("id")) is type(id) and message.get("id") == id:
                return message
        return None

    def answer(self, id, seconds=WAIT):
        """Waits for the answer with this id."""
        found = []

        def arrived():
            message = self.find(id)
            if message is not None:
                found.append(message)
            return bool(found)

        self.until(arrived, seconds)
        return found[0]

    def count(self, n, seconds=WAIT):
        """Waits for `n` lines in all; gives them as messages."""
        self.until(lambda: len(self.lines) >= n, seconds)
        return self.messages()

    def messages(self):
        return [json.loads(raw) for raw in self.lines]

    def alive(self):
        """A ping is answered."""
        self.send(ping("alive?"))
        assert self.answer("alive?")["result"] == {}
        with self._arrived:
            self.lines.pop(next(i for i, raw in enumerate(self.lines) if b'"alive?"' in raw))

    def text(self, id):
        """The text of a tool's answer."""
        return self.answer(id)["result"]["content"][0]["text"]

    def close(self, seconds=WAIT):
        """Closes the input, waits for the end; gives the exit status. All output has been read then."""
        self._writes.put(None)
        self.read()
        try:
            status = self.process.wait(seconds)
        finally:
            self.kill()
        return status

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(WAIT)
        self._writes.put(None)
        self.read()
        for thread in self._threads:
            thread.join(WAIT)
        for stream in (self.process.stdout, self.process.stderr):
            stream.close()

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind is not None:
            self.kill()
            print(self.log.decode(errors="replace")[-4000:])
            return
        assert self.close() == 0, self.log.decode(errors="replace")[-2000:]
        assert b"Traceback" not in self.log or b"headrace.server" in self.log
        assert self.rest == b""

    def signal(self, number):
        self.process.send_signal(number)


def rss(pid):
    """Resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def peak_rss(pid):
    """The most resident memory that a process ever had, in bytes."""
    for row in Path(f"/proc/{pid}/status").read_text().splitlines():
        if row.startswith("VmHWM:"):
            return int(row.split()[1]) * 1024
    raise AssertionError("no VmHWM")


def cpu_ticks(pid):
    """Processor time that a process has used, in clock ticks."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def gone(pid, seconds=WAIT):
    """Waits until a process that is not our child is gone."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except OSError:
            return True
        if state in "ZX":
            return True
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    return False


@contextlib.contextmanager
def hosted(*options):
    """The bench server over HTTP; gives (port, pid)."""
    process = subprocess.Popen(
        serve("--http", "127.0.0.1:0", *options),
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        env=environment(),
    )
    drain = None
    try:
        while b"http://" not in (first := process.stderr.readline()):
            assert first, "the server ended"
        drain = threading.Thread(target=process.stderr.read, daemon=True)
        drain.start()
        yield int(first.rsplit(b":", 1)[1].split(b"/")[0]), process.pid
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT) == 0
    finally:
        process.kill()
        process.wait(WAIT)
        if drain is not None:
            drain.join(WAIT)
        process.stderr.close()


def post(method, params, id=1):
    """The bytes of a modern request over HTTP."""
    body = json.dumps(
        {"jsonrpc": "2.0", "id": id, "method": method, "params": params | {"_meta": META}}, ensure_ascii=False
    ).encode()
    return head(method, params, f"Content-Length: {len(body)}") + body


def head(method, params, *more):
    rows = [
        "POST /mcp HTTP/1.1",
        "Host: 127.0.0.1",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        "MCP-Protocol-Version: 2026-07-28",
        f"Mcp-Method: {method}",
        *([f"Mcp-Name: {params['name']}"] if "name" in params else []),
        *more,
    ]
    return "\r\n".join(rows).encode() + b"\r\n\r\n"


def read_answer(stream):
    """(status, body) of one answer with a Content-Length from a socket's file."""
    status = int(stream.readline().split()[1])
    length = 0
    while (row := stream.readline()) not in (b"\r\n", b""):
        name, _, value = row.partition(b":")
        if name.lower() == b"content-length":
            length = int(value)
    return status, stream.read(length)
