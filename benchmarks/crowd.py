"""Thousands of quiet HTTP connections to one server in a process of its own: what the hosting benchmarks share.

The server is this file run as a program: tools ``hello`` and ``change`` (the list of tools changes), on asyncio or
uvloop. The peers are plain sockets in one epoll table: a client library would cost more than what is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


def request(method: str, params: dict[str, object], name: str | None = None) -> bytes:
    """A request of the modern era with its mirrored headers."""
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params | {"_meta": META}}).encode()
    lines = [
        "POST /mcp HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json",
        "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2026-07-28", f"Mcp-Method: {method}",
        f"Content-Length: {len(body)}", *([f"Mcp-Name: {name}"] if name else []),
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def session_request(message: dict[str, object] | None, session: str = "") -> bytes:
    """A POST of the handshake era; without a message the GET that opens the session's stream."""
    body = b"" if message is None else json.dumps(message).encode()
    lines = [
        f"{'GET' if message is None else 'POST'} /mcp HTTP/1.1", "Host: 127.0.0.1",
        f"Accept: {'' if message is None else 'application/json, '}text/event-stream",
        *(["Content-Type: application/json", f"Content-Length: {len(body)}"] if message is not None else []),
        *([f"Mcp-Session-Id: {session}", "MCP-Protocol-Version: 2025-11-25"] if session else []),
    ]  # fmt: skip
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


HELLO = request("tools/call", {"name": "hello", "arguments": {}}, "hello")
CHANGE = request("tools/call", {"name": "change", "arguments": {}}, "change")
INITIALIZE = session_request({
    "jsonrpc": "2.0", "id": 1, "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "crowd", "version": "1"}},
})  # fmt: skip
LISTEN = request("subscriptions/listen", {"notifications": {"toolsListChanged": True}})


@contextlib.contextmanager
def hosted(loop: str, backplane: str = "") -> Iterator[tuple[int, int]]:
    """(port, process id) of a server on this kind of loop; ``backplane`` is the URL of what it shares with others."""
    child = subprocess.Popen([sys.executable, __file__, loop, backplane], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    try:
        line = child.stdout.readline()
        if not line.strip():
            raise RuntimeError("the server did not start")
        yield int(line), child.pid
    finally:
        child.terminate()
        try:
            child.wait(15)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()
        child.stdout.close()


@contextlib.contextmanager
def redis() -> Iterator[str]:
    """The URL of a Redis server of its own. RuntimeError where there is no redis-server."""
    program = shutil.which("redis-server")
    if program is None:
        raise RuntimeError("there is no redis-server")
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", place]
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            until = time.monotonic() + 10
            while time.monotonic() < until:
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.02)
            yield f"redis://127.0.0.1:{port}"
        finally:
            child.kill()
            child.wait()


def resident(pid: int) -> int:
    """Bytes of memory of its own that a process has in the machine's."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Rss line")


class Crowd:
    """Connections to one port, all of which read."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.poll = select.epoll()
        self.socks: dict[int, socket.socket] = {}
        self.came: dict[int, bytes] = {}
        """What came last on each."""
        self.names: dict[int, str] = {}
        """Session ids."""

    def join(self, count: int) -> list[int]:
        """Opens so many connections; gives their descriptors."""
        found = []
        for _ in range(count):
            sock = socket.create_connection(("127.0.0.1", self.port), 10)
            sock.setblocking(False)
            self.socks[sock.fileno()] = sock
            self.poll.register(sock.fileno(), select.EPOLLIN)
            found.append(sock.fileno())
        return found

    def ask(self, fds: list[int], data: bytes, ready: Callable[[bytes], bool], at_once: int = 200) -> None:
        """Sends `data` on each and waits until what came satisfies `ready`, a few at a time."""
        for at in range(0, len(fds), at_once):
            some = fds[at : at + at_once]
            for fd in some:
                self.socks[fd].sendall(data)
            self.wait(some, ready)

    def wait(self, fds: list[int], ready: Callable[[bytes], bool], seconds: float = 20.0) -> list[float]:
        """Reads until what came on each satisfies `ready`; gives when each did, in seconds of the clock."""
        left = set(fds)
        self.came |= dict.fromkeys(fds, b"")
        times = []
        until = time.monotonic() + seconds
        while left:
            events = self.poll.poll(max(0.0, until - time.monotonic()))
            if not events and time.monotonic() >= until:
                raise RuntimeError(f"{len(left)} of {len(fds)} peers heard nothing within {seconds:g} s")
            for fd, _ in events:
                data = self.socks[fd].recv(65536)
                if not data:
                    raise RuntimeError("the server closed a connection")
                self.came[fd] += data
                if fd in left and ready(self.came[fd]):
                    left.discard(fd)
                    times.append(time.monotonic())
        return times

    def leave(self) -> None:
        """Closes all connections."""
        for sock in self.socks.values():
            sock.close()
        self.socks.clear()
        self.came.clear()
        self.names.clear()


def many_descriptors() -> None:
    """Raises the soft limit of open files to the hard one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 65_536)), hard))


async def serve(backplane: str) -> None:
    from headrace import Server
    from headrace.limits import Limits
    from headrace.transports.http_server import serve_http

    app = Server("crowd", version="1", limits=Limits(max_connections=20_000, keep_alive_timeout=600, sse_keep_alive=600))

    if backplane:
        from headrace.hosting.backplane import RedisBackplane

        app.set_backplane(RedisBackplane(backplane))

    @app.tool
    async def hello() -> str:
        return "hello"

    @app.tool
    async def change() -> str:
        app.hub.changed("tools")
        return "changed"

    async with app.running():
        listener = await serve_http(app, host="127.0.0.1", port=0, backlog=4096)
        print(listener.url.rpartition(":")[2].partition("/")[0], flush=True)
        await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("loop", choices=["asyncio", "uvloop"])
    parser.add_argument("backplane", nargs="?", default="")
    options = parser.parse_args()
    loop = options.loop
    many_descriptors()
    sys.path.insert(0, os.environ.get("HEADRACE_SRC", str(Path(__file__).parent.parent / "src")))
    if loop == "uvloop":
        import uvloop

        factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    else:
        factory = asyncio.new_event_loop
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=factory) as runner:
        runner.run(serve(options.backplane))


if __name__ == "__main__":
    main()
