"""A raw HTTP peer for server tests: bytes out, answers taken apart by hand, no client library."""

import asyncio
import contextlib
import gc
import json
import logging
import socket
import struct

from headrace.errors import LocalProtocolError
from headrace.limits import Limits
from headrace.mux import FunctionHandler, live_objects
from headrace.protocol.context import Context
from headrace.server.app import Server
from headrace.transports.http_server import serve_http

R5 = "2026-07-28"
R4 = "2025-11-25"
BOTH = "application/json, text/event-stream"
META = {
    "io.modelcontextprotocol/protocolVersion": R5,
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Answer:
    """One HTTP answer: status, headers (lower-case name to list of values), body, and how it came."""

    def __init__(self, status, headers, body, chunks):
        self.status = status
        self.headers = headers
        self.body = body
        self.chunks = chunks

    def get(self, name):
        values = self.headers.get(name)
        return ", ".join(values) if values else None

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The JSON messages of an event stream; comments are left out."""
        return events_of(self.body)

    @property
    def code(self):
        return self.json["error"]["code"]

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:200]!r}>"


def events_of(body):
    found = []
    for block in body.decode().split("\n\n"):
        lines = [line for line in block.split("\n") if line and not line.startswith(":")]
        if lines and lines[-1] != "data: ":
            assert lines[0] == "event: message"
            assert len(lines) == 2 or (len(lines) == 3 and lines[1].startswith("id: "))
            assert lines[-1].startswith("data: ")
            found.append(json.loads(lines[-1][6:]))
    return found


def id_of(body):
    """The last event id in an event stream, or None."""
    ids = [line[4:] for line in body.decode().split("\n") if line.startswith("id: ")]
    return ids[-1] if ids else None


class Peer:
    """One connection."""

    def __init__(self, reader, writer):
        self.reader = reader
        self.writer = writer

    def send(self, data):
        self.writer.write(data)

    async def head(self, timeout=5.0):
        """(status, headers) of the next head."""
        raw = await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), timeout)
        lines = raw[:-4].decode("latin-1").split("\r\n")
        version, status, _ = lines[0].split(" ", 2)
        assert version == "HTTP/1.1"
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            headers.setdefault(name.lower(), []).append(value.strip())
        return int(status), headers

    async def chunk(self, timeout=5.0):
        """The data of the next chunk, b"" for the last."""
        size = int((await asyncio.wait_for(self.reader.readuntil(b"\r\n"), timeout))[:-2], 16)
        data = await asyncio.wait_for(self.reader.readexactly(size + 2), timeout)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def event(self, timeout=5.0):
        """(id or None, message) of the next event with data; None at the end of the stream."""
        while data := await self.chunk(timeout):
            if messages := events_of(data):
                return id_of(data), messages[0]
        return None

    async def events(self, timeout=5.0):
        """What :meth:`event` gives, to the end of the stream."""
        found = []
        while (event := await self.event(timeout)) is not None:
            found.append(event)
        return found

    async def answer(self, timeout=5.0, head_only=False):
        status, headers = await self.head(timeout)
        chunks = []
        if head_only or status in (100, 204, 304):
            body = b""
        elif headers.get("transfer-encoding") == ["chunked"]:
            assert "content-length" not in headers
            while True:
                data = await self.chunk(timeout)
                if not data:
                    break
                chunks.append(data)
            body = b"".join(chunks)
        elif "content-length" in headers:
            body = await asyncio.wait_for(self.reader.readexactly(int(headers["content-length"][0])), timeout)
        else:
            body = await asyncio.wait_for(self.reader.read(-1), timeout)
        return Answer(status, headers, body, chunks)

    async def ask(self, data, **options):
        self.send(data)
        return await self.answer(**options)

    async def ended(self, timeout=5.0):
        """True when the server closed its side with nothing more sent."""
        try:
            return await asyncio.wait_for(self.reader.read(1), timeout) == b""
        except ConnectionError:
            return True

    def close(self):
        self.writer.close()

    def reset(self):
        """RST instead of an orderly end."""
        if not self.writer.transport.is_closing():
            sock = self.writer.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Site:
    """A served endpoint with its peers."""

    def __init__(self, server, listener):
        self.server = server
        self.listener = listener
        self.endpoint = listener.endpoint
        self.peers = []
        netloc = listener.url.partition("://")[2].partition("/")[0]
        self.host, _, port = netloc.rpartition(":")
        self.port = int(port)
        self.netloc = netloc

    async def connect(self, **options):
        reader, writer = await asyncio.open_connection(self.host, self.port, limit=1 << 24, **options)
        peer = Peer(reader, writer)
        self.peers.append(peer)
        return peer

    def request(self, method="POST", target="/mcp", body=None, headers=(), version="1.1", **changes):
        """A request as bytes. ``changes`` replace or (None) drop the usual header fields."""
        fields = {"host": self.netloc}
        if method == "POST":
            fields |= {"content_type": "application/json", "accept": BOTH}
        if method == "GET":
            fields["accept"] = "text/event-stream"
        if body is not None:
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            fields["content_length"] = str(len(body))
        fields |= changes
        lines = [f"{method} {target} HTTP/{version}"]
        for name, value in fields.items():
            if value is not None:
                lines.append(f"{name.replace('_', '-')}: {value}")
        lines += [f"{name}: {value}" for name, value in headers]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + (body or b"")

    def modern(self, method="tools/call", params=None, id=1, name=None, meta=None, headers=(), **changes):
        """A request of the modern era with its mirrored headers."""
        params = dict(params or {})
        params["_meta"] = META | (meta or {})
        fields = {"mcp_protocol_version": R5, "mcp_method": method}
        if name is not None:
            fields["mcp_name"] = name
        body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params}
        return self.request(body=body, headers=headers, **(fields | changes))

    def call(self, tool, arguments=None, **options):
        """tools/call in the modern era."""
        return self.modern("tools/call", {"name": tool, "arguments": arguments or {}}, name=tool, **options)

    def initialize(self, version=R4, id=1, **changes):
        body = {
            "jsonrpc": "2.0", "id": id, "method": "initialize",
            "params": {
                "protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"},
            },
        }  # fmt: skip
        return self.request(body=body, **changes)

    async def open_session(self, peer):
        """Runs a handshake; gives the session id."""
        answer = await peer.ask(self.initialize())
        assert answer.status == 200, answer
        sid = answer.get("mcp-session-id")
        note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        answer = await peer.ask(self.request(body=note, mcp_session_id=sid))
        assert answer.status == 202
        return sid

    async def open_stream(self, sid, last=None, **changes):
        """A GET stream on a connection of its own, past its first bytes."""
        peer = await self.connect()
        peer.send(self.request("GET", mcp_session_id=sid, last_event_id=last, **changes))
        status, headers = await peer.head()
        assert (status, headers["content-type"]) == (200, ["text/event-stream"])
        if last is None:
            first = await peer.chunk()
            assert first == b":\n\n" or (first.startswith(b"id: ") and first.endswith(b"\ndata: \n\n"))
        return peer

    def legacy(self, sid, method="tools/call", params=None, id=1, **changes):
        """A request inside a session."""
        body = {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}
        return self.request(body=body, **({"mcp_session_id": sid, "mcp_protocol_version": R4} | changes))

    def legacy_call(self, sid, tool, arguments=None, id=1, **changes):
        return self.legacy(sid, "tools/call", {"name": tool, "arguments": arguments or {}}, id, **changes)

    async def settled(self, check, timeout=5.0):
        """Waits until `check()` is true; fails otherwise."""
        for _ in range(int(timeout / 0.01)):
            if check():
                return
            await asyncio.sleep(0.01)
        raise AssertionError("it did not come to that in time")


class Log:
    """What tools saw."""

    def __init__(self):
        self.started = 0
        self.cancelled = 0
        self.finished = 0
        self.headers = None


def make_server(limits=None):
    app = Server("unit", version="1.0", limits=limits)
    app.log = logging.getLogger("headrace.test")
    app.seen = seen = Log()

    @app.tool(inline=True)
    def echo(text: str) -> str:
        return text

    @app.tool
    async def sleep(ms: int) -> str:
        seen.started += 1
        try:
            await asyncio.sleep(ms / 1000)
        except asyncio.CancelledError:
            seen.cancelled += 1
            raise
        seen.finished += 1
        return "slept"

    @app.tool
    async def progress(ctx: Context, n: int, text: str = "", gap_ms: int = 0) -> str:
        seen.started += 1
        try:
            for i in range(n):
                await ctx.progress(i + 1, n, text or None)
                if gap_ms:
                    await asyncio.sleep(gap_ms / 1000)
        except asyncio.CancelledError:
            seen.cancelled += 1
            raise
        seen.finished += 1
        return "done"

    @app.tool
    async def peek(ctx: Context, wait: bool = False) -> str:
        if wait:
            await asyncio.sleep(0.01)
        return json.dumps(dict(ctx.headers))

    @app.tool(inline=True)
    def big(n: int) -> str:
        return "x" * n

    return app


@contextlib.asynccontextmanager
async def site(app=None, limits=None, alone=True, **options):
    """A server on a free loopback port; on leaving everything must have come back to zero.

    ``alone``: no other site is open then.
    """
    app = app or make_server()
    if limits is not None:
        app.set_limits(limits)
    options = {"host": "127.0.0.1", "port": 0} | options
    async with app.running():
        listener = await serve_http(app, **options)
        place = Site(app, listener)
        try:
            yield place
        finally:
            for peer in place.peers:
                peer.reset()
            await asyncio.wait_for(listener.close(), 15)
        counts = place.endpoint.mux.debug_counts()
        assert not any(counts.values()), counts
        assert listener.connections == 0 and listener.sessions == 0
        assert place.endpoint.buffered_bytes == 0 and place.endpoint.served == 0
        assert app.runtime.in_flight == 0
        gc.collect()
        if alone:
            assert live_objects()["exchanges"] == 0  # counted in debug builds; conftest looks at the rest


def tiny(**changes):
    """Limits whose timeouts a test can wait for."""
    return Limits(**({"drain_timeout": 1.0, "linger_timeout": 0.3} | changes))


def ask_method(server):
    """Adds the method ``x/ask``, which asks the client for its roots, to the tables without a channel to it; gives
    the list of what its handler was told."""
    told = []

    async def ask(exchange):
        try:
            await exchange.mux.call("roots/list", None, exchange.sink)
        except LocalProtocolError as exc:
            told.append(str(exc))
        return b"{}"

    for table in server.tables.detached.values():
        table.requests[b"x/ask"] = FunctionHandler(ask)
    return told
