"""A raw HTTP server for tests of the client: every byte and every close is the test's own."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from headrace.limits import Limits
from headrace.mux import Gate, Mux
from headrace.transports.http_client import HttpChannel, open_http
from headrace.transports.runtime import make_runtime

__all__ = ("ClientGate", "Peer", "PeerConn", "Request", "answer", "chunk", "connected", "event", "sse_head")

log = logging.getLogger("tests.http")


class Request:
    """One request as it came: ``method``, ``target``, ``headers`` (names in lower case), ``body``."""

    def __init__(self, head: bytes, body: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        self.method, self.target, _ = lines[0].split(" ")
        self.pairs = [(k.lower(), v.strip()) for k, v in (line.split(":", 1) for line in lines[1:] if line)]
        self.headers = dict(self.pairs)
        self.raw = body
        self.body: Any = json.loads(body) if body else None

    @property
    def id(self) -> Any:
        return self.body["id"]


class PeerConn:
    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number  # of the connection, from 1
        self.reader = reader
        self.writer = writer

    async def request(self) -> Request | None:
        """The next request, or None at the end of the connection."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            found = [x for x in head.lower().split(b"\r\n") if x.startswith(b"content-length:")]
            body = await self.reader.readexactly(int(found[0].split(b":")[1])) if found else b""
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return Request(head, body)

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def ended(self) -> bool:
        """Waits until the client has closed the connection."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()

    def reset(self) -> None:
        sock = self.writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Peer:
    """Serves with ``handler(conn)``; ``conns`` counts connections, ``requests`` what a helper keeps."""

    def __init__(self, handler: Callable[[PeerConn], Awaitable[None]]) -> None:
        self.handler = handler
        self.conns = 0
        self.requests: list[Request] = []
        self.tasks: set[asyncio.Task[Any]] = set()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.conns += 1
        task = asyncio.current_task()
        assert task is not None
        self.tasks.add(task)
        try:
            await self.handler(PeerConn(self.conns, reader, writer))
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            self.tasks.discard(task)
            writer.close()

    async def start(self, **how: Any) -> None:
        if "path" in how:
            self.server = await asyncio.start_unix_server(self.serve, how["path"])
            return
        self.server = await asyncio.start_server(self.serve, how.pop("host", "127.0.0.1"), 0, **how)
        self.port = self.server.sockets[0].getsockname()[1]

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/mcp"

    async def stop(self) -> None:
        self.server.close()
        for task in list(self.tasks):
            task.cancel()
        await asyncio.sleep(0)
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=5)


class ClientGate(Gate):
    """A client's gate that writes down what reaches it."""

    answers_bad_input = False

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.bad: list[str] = []
        self.strays = 0
        self.lost_with: Any = None

    def notify(self, envelope: Any, sink: Any) -> None:
        self.notes.append(envelope.method)

    def bad_input(self, code: int, message: str, sink: Any) -> None:
        self.bad.append(message)

    def stray(self, envelope: Any, sink: Any) -> None:
        self.strays += 1

    def lost(self, reason: Any) -> None:
        self.lost_with = reason


def answer(request: Request, result: str = '{"ok":true}', status: str = "200 OK", **headers: str) -> bytes:
    body = f'{{"jsonrpc":"2.0","id":{json.dumps(request.id)},"result":{result}}}'.encode()
    lines = {"Content-Type": "application/json", "Content-Length": str(len(body))}
    lines.update({k.replace("_", "-"): v for k, v in headers.items()})
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
    return head.encode() + body


def plain(status: str, body: bytes = b"", **headers: str) -> bytes:
    lines = {"Content-Length": str(len(body))} | {k.replace("_", "-"): v for k, v in headers.items()}
    head = f"HTTP/1.1 {status}\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
    return head.encode() + body


def sse_head(**headers: str) -> bytes:
    more = "".join(f"{k.replace('_', '-')}: {v}\r\n" for k, v in headers.items())
    return f"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n{more}\r\n".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


END = b"0\r\n\r\n"


def event(message: Any, id: str | None = None) -> bytes:
    text = message if isinstance(message, str) else json.dumps(message)
    return chunk((f"id: {id}\n" if id is not None else "").encode() + f"data: {text}\n\n".encode())


def result_event(request: Request, id: str | None = None, result: Any = None) -> bytes:
    return event({"jsonrpc": "2.0", "id": request.id, "result": result or {"ok": True}}, id)


@asynccontextmanager
async def connected(handler: Callable[[PeerConn], Awaitable[None]], *, modern: bool = True, **limits: Any):
    """A peer and a channel to it: ``(peer, mux, channel)``; both are closed afterwards."""
    peer = Peer(handler)
    await peer.start()
    bounds = Limits(**limits)
    mux = Mux(make_runtime(bounds, log), ClientGate(), bounds)
    channel: HttpChannel | None = None
    try:
        channel = await open_http(peer.url, mux, limits=bounds)
        channel.modern = modern
        channel.protocol_version = "2026-07-28" if modern else "2025-11-25"
        yield peer, mux, channel
    finally:
        if channel is not None:
            await channel.close()
        await peer.stop()


def call(mux: Mux, channel: HttpChannel, method: str = "tools/call", params: bytes | None = b"{}", **more: Any) -> Any:
    return mux.call(method, params, channel, **more)
