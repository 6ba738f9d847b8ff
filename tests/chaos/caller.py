"""A client of a handshake session that opens a connection for every request, and tells exactly what came of each."""

import asyncio
import json

LEGACY = "2025-11-25"
TIMEOUT = 20.0


class Cut(Exception):
    """The connection ended before the answer was complete."""


class Unwanted(Exception):
    """An answer that nobody should get: a status, or an error in JSON-RPC."""

    def __init__(self, status, text):
        super().__init__(f"{status}: {text}")
        self.status = status


def request(port, method, body, headers):
    lines = [f"{method} /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", "Connection: close", *headers]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines.append("Accept: application/json, text/event-stream" if method == "POST" else "Accept: text/event-stream")
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


async def exchange(port, method, body, headers):
    """(status, headers, body) of one request on a connection of its own. Raises Cut, OSError."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    try:
        try:
            writer.write(request(port, method, body, headers))
            async with asyncio.timeout(TIMEOUT):
                raw = await reader.read(-1)
        except ConnectionError as exc:
            raise Cut(str(exc)) from None
    finally:
        writer.close()
    head, found, rest = raw.partition(b"\r\n\r\n")
    if not found:
        raise Cut("no answer")
    first, *lines = head.decode("latin-1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "chunked" in fields.get("transfer-encoding", ""):
        rest = unchunk(rest)
    elif len(rest) < int(fields.get("content-length", 0)):
        raise Cut("half an answer")
    return int(first.split()[1]), fields, rest


def unchunk(data):
    parts = []
    while True:
        size, found, data = data.partition(b"\r\n")
        if not found:
            raise Cut("a stream without its end")
        n = int(size, 16)
        if n == 0:
            return b"".join(parts)
        parts.append(data[:n])
        data = data[n + 2 :]


def messages(fields, body):
    """The messages of an answer, each with its event id or None."""
    if not fields.get("content-type", "").startswith("text/event-stream"):
        return [(None, json.loads(body))] if body else []
    found = []
    for block in body.decode().replace("\r\n", "\n").split("\n\n"):
        members = [line.partition(":") for line in block.split("\n") if line and not line.startswith(":")]
        data = "\n".join(value.removeprefix(" ") for name, _, value in members if name == "data")
        ids = [value.strip() for name, _, value in members if name == "id"]
        if data:
            found.append((ids[-1] if ids else None, json.loads(data)))
        elif ids:
            found.append((ids[-1], None))
    return found


async def some_events(port, method, body, headers, most):
    """Up to `most` (event id, message) of an event stream, and whether it ended; then the connection is dropped."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    raw = b""
    try:
        writer.write(request(port, method, body, headers))
        while True:
            try:
                async with asyncio.timeout(TIMEOUT):
                    data = await reader.read(65536)
            except ConnectionError:
                data = b""
            raw += data
            head, _, rest = raw.partition(b"\r\n\r\n")
            if head and not head.startswith(b"HTTP/1.1 200"):
                raise Unwanted(int(head.split()[1]), rest[:300].decode(errors="replace"))
            if b"text/event-stream" not in head.lower():
                if not data:
                    raise Cut("no stream")
                continue
            events, whole = so_far(rest)
            if len(events) >= most or whole or not data:
                return events[:most], whole
    finally:
        writer.close()


def so_far(data):
    """(id, message) of the complete events of a chunked body that may go on, and whether it is complete."""
    text, whole = b"", False
    while True:
        size, found, rest = data.partition(b"\r\n")
        if not found or len(rest) < int(size, 16) + 2:
            break
        n = int(size, 16)
        if n == 0:
            whole = True
            break
        text += rest[:n]
        data = rest[n + 2 :]
    complete = text.replace(b"\r\n", b"\n").rpartition(b"\n\n")[0]
    return messages({"content-type": "text/event-stream"}, complete), whole


class Session:
    """One session. `open` begins it, `call` calls a tool."""

    def __init__(self, port):
        self.port = port
        self.id = ""
        self._last = 0

    def _headers(self):
        return [f"Mcp-Session-Id: {self.id}", f"MCP-Protocol-Version: {LEGACY}"] if self.id else []

    async def send(self, method, params=None, *, notification=False):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        if not notification:
            self._last += 1
            message["id"] = self._last
        status, fields, body = await exchange(self.port, "POST", json.dumps(message).encode(), self._headers())
        if notification:
            if status != 202:
                raise Unwanted(status, body[:200].decode(errors="replace"))
            return None
        if status != 200:
            raise Unwanted(status, body[:200].decode(errors="replace"))
        answers = [each for _, each in messages(fields, body) if each and each.get("id") == message["id"]]
        if not answers:
            raise Cut("the stream ended without the answer")
        if "error" in answers[0]:
            raise Unwanted(status, answers[0]["error"]["message"])
        if not self.id:
            self.id = fields.get("mcp-session-id", "")
        return answers[0]["result"]

    async def open(self):
        info = {"name": "chaos", "version": "1"}
        await self.send("initialize", {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info})
        await self.send("notifications/initialized", notification=True)
        return self

    async def call(self, name, **arguments):
        return await self.send("tools/call", {"name": name, "arguments": arguments})

    async def begin(self, name, *, most, **arguments):
        """Calls a tool, asking for progress, and leaves after `most` events: their (id, message)."""
        self._last += 1
        params = {"name": name, "arguments": arguments, "_meta": {"progressToken": self._last}}
        message = {"jsonrpc": "2.0", "id": self._last, "method": "tools/call", "params": params}
        events, _ = await some_events(self.port, "POST", json.dumps(message).encode(), self._headers(), most)
        return events

    async def resume(self, last_id, *, most=10_000):
        """What follows an event on its stream: (id, message) each, and whether the stream ended as it should."""
        return await some_events(self.port, "GET", None, [*self._headers(), f"Last-Event-ID: {last_id}"], most)
