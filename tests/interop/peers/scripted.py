"""An HTTP server for trials: a function answers each request, on bytes."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field


@dataclass
class Request:
    method: str
    target: str
    headers: dict
    body: bytes
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    gone: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def closed(self):
        """The client has gone."""
        return self.reader.at_eof() or self.writer.transport.is_closing()

    @property
    def message(self):
        return json.loads(self.body) if self.body else None

    async def reply(self, status=200, body=b"", kind="application/json", **headers):
        """A whole answer; bodies that are no bytes become JSON."""
        if not isinstance(body, bytes):
            body = json.dumps(body).encode()
        lines = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}"]
        if body:
            lines.append(f"Content-Type: {kind}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await self.writer.drain()

    async def result(self, result, **headers):
        """The answer to a request of JSON-RPC."""
        await self.reply(200, {"jsonrpc": "2.0", "id": self.message["id"], "result": result}, **headers)

    async def events(self, *events, **headers):
        """An event stream, which ends with the connection; each event is bytes without its last line end."""
        lines = ["HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        self.writer.write("\r\n".join([*lines, "", ""]).encode() + b"".join(event + b"\n\n" for event in events))
        await self.writer.drain()

    async def event(self, event):
        """One more event."""
        self.writer.write(event + b"\n\n")
        await self.writer.drain()


def data(message, id=None):
    """An event with a message."""
    head = b"" if id is None else f"id: {id}\n".encode()
    return head + b"data: " + json.dumps(message).encode()


def initialize_result(**more):
    return {
        "protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "scripted", "version": "1"},
    } | more  # fmt: skip


async def ordinary(request, **headers):
    """Answers as a server of the handshake era does; True when it has."""
    if request.method == "DELETE":
        await request.reply(204)
    elif request.method == "GET":
        await request.reply(405)
    elif "method" not in request.message:
        await request.reply(202)
    elif request.message["method"] == "initialize":
        await request.result(initialize_result(), Mcp_Session_Id="s-1", **headers)
    elif "id" not in request.message:
        await request.reply(202)
    elif request.message["method"] == "tools/list":
        await request.result({"tools": []})
    else:
        return False
    return True


@contextlib.asynccontextmanager
async def scripted(answer, *, unix=None):
    """Serves `await answer(request)` for every request; gives the URL, and the list of the requests."""
    requests = []

    async def connection(reader, writer):
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                first, *lines = head.decode().split("\r\n")[:-2]
                method, target, _ = first.split(" ")
                headers = {}
                for line in lines:
                    name, _, value = line.partition(": ")
                    headers[name.lower()] = f"{headers[name.lower()]}, {value}" if name.lower() in headers else value
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                request = Request(method, target, headers, body, reader, writer)
                requests.append(request)
                await answer(request)
                if writer.transport.is_closing():
                    break
        writer.close()

    if unix is None:
        server = await asyncio.start_server(connection, "127.0.0.1", 0, backlog=1000)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/mcp"
    else:
        server = await asyncio.start_unix_server(connection, unix)
        url = f"unix:{unix}:/other"
    try:
        yield url, requests
    finally:
        server.close()
        for task in asyncio.all_tasks():
            if task.get_coro().__qualname__.endswith("connection"):
                task.cancel()
