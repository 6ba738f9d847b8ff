"""The cases whose instructions and allocations are counted: one message each, through the real links in memory.

A server is driven in the counting process over in-memory transports: bytes go into the link as the event loop would
hand them over, answers come out of the same call. Kernel and event loop are left out, but for the client case, which
runs both sides of a connection on the loop.
"""

from __future__ import annotations

import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec
from messages import INITIALIZE, INITIALIZED, call_body, http_request, modern_headers

__all__ = (
    "CLIENT",
    "EVENTS",
    "METERED_HTTP",
    "METERED_LINES",
    "PLAIN_HTTP",
    "PLAIN_LINES",
    "PLAIN_SESSION",
    "REFERENCE",
    "Case",
    "all_cases",
    "make_server",
)

TEXT = '{"text":"a text of ordinary length","n":5}'
MESSAGE = call_body("echo", TEXT, modern=True)
PLAIN_HTTP = "http tools/call 2026-07-28"
PLAIN_SESSION = "http tools/call 2025-11-25"
PLAIN_LINES = "lines tools/call 2026-07-28"
EVENTS = "http tools/call 2025-11-25, a progress note and the result as events"
METERED_HTTP = f"{PLAIN_HTTP}, with metrics"
METERED_LINES = f"{PLAIN_LINES}, with metrics"
CLIENT = "client call_tool over memory, both sides"
REFERENCE = "reference"


class Transport:
    """What a link needs of a transport; the last write is in ``out``."""

    def __init__(self) -> None:
        self.out: deque[bytes] = deque(maxlen=1)
        self.write = self.out.append

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        return None

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    abort = close


def make_server() -> Any:
    from headrace import Context, Server

    app = Server("counted", version="1")

    @app.tool
    async def echo(text: str, n: int) -> str:
        """Gives the text back."""
        return text

    @app.tool
    async def steps(text: str, n: int, ctx: Context) -> str:
        """Says once how far it is."""
        await ctx.progress(1, n)
        return text

    for i in range(98):

        def tool(city: str, days: int = 3, unit: str = "celsius") -> str:
            """Something about a city."""
            return city

        app.add_tool(tool, name=f"tool_{i:02}", description=f"Tool number {i} of a hundred, with a text of its own.")
    return app


def reference() -> None:
    """Work of the interpreter and its libraries that headrace has no part in: what counts are compared with where
    nothing was recorded for the same Python, compiler and libraries."""

    async def answer(text: str, n: int) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": text}], "n": n}

    for _ in range(8):
        message = json.loads(MESSAGE)
        arguments = msgspec.convert(message["params"]["arguments"], dict[str, str | int])
        try:
            answer(**arguments).send(None)  # type: ignore[arg-type]
        except StopIteration as stop:
            msgspec.json.encode({"jsonrpc": "2.0", "id": message["id"], "result": stop.value})


Case = Callable[[], object]
"""One round; what it gives back is awaited unless it is None."""


@contextlib.asynccontextmanager
async def all_cases(app: Any) -> AsyncIterator[dict[str, Case]]:
    """Name -> case, ready to run on the running loop."""
    from headrace import connect
    from headrace.hosting.metrics import Metrics
    from headrace.transports.http_server import serve_http

    options: dict[str, Any] = {"host": "127.0.0.1", "port": 0, "allowed_hosts": ["127.0.0.1:8000"]}
    metered = make_server()
    Metrics(metered)
    async with app.running(), metered.running():
        site = {
            "plain": await serve_http(app, path="/mcp", **options),
            "sealed": await serve_http(app, sealed_sessions=True, **options),
            "stateless": await serve_http(app, stateless=True, **options),
        }
        cases = server_cases(app, {name: listener.endpoint for name, listener in site.items()})
        cases |= metered_cases(metered, (await serve_http(metered, **options)).endpoint)
        async with connect(app) as client:
            arguments = {"text": "a text of ordinary length", "n": 5}

            def call() -> Awaitable[object]:
                return client.call_tool("echo", arguments)

            result: Any = await call()
            assert result.content[0].text == arguments["text"], result
            cases[CLIENT] = call
            cases[REFERENCE] = reference
            yield cases


def connected(endpoint: Any) -> tuple[Any, Transport]:
    """A connection in memory: what takes its input, and where its output is."""
    from headrace.transports._http_server import HttpLink

    link, transport = HttpLink(endpoint), Transport()
    link.connection_made(transport)
    return link.data_received, transport


def lined(app: Any) -> tuple[Any, Transport]:
    """The same of a line stream."""
    from headrace.transports._link import LineLink

    _, mux = app.new_session()
    transport = Transport()
    link = LineLink(mux, app.limits)
    link.connection_made(transport)
    return link.data_received, transport


def checked(feed: Any, transport: Transport, request: bytes, expected: bytes) -> Case:
    feed(request)
    assert expected in transport.out[-1], (request, transport.out)
    return lambda: feed(request)


def metered_cases(app: Any, endpoint: Any) -> dict[str, Case]:
    """Calls of a server whose requests are counted (headrace.hosting.metrics)."""
    modern = http_request(call_body("echo", TEXT, modern=True), modern_headers("tools/call", "echo"))
    line = call_body("echo", TEXT, modern=True).encode() + b"\n"
    return {
        METERED_HTTP: checked(*connected(endpoint), modern, b"ordinary length"),
        METERED_LINES: checked(*lined(app), line, b"ordinary length"),
    }


def server_cases(app: Any, site: Any) -> dict[str, Case]:
    """The cases of the server alone."""
    cases: dict[str, Case] = {}

    def start(version: str) -> bytes:
        return http_request(INITIALIZE.replace("2025-11-25", version), {})

    def begin(feed: Any, transport: Transport, version: str) -> bytes:
        feed(start(version))
        answer = transport.out[-1]
        assert b" 200 OK" in answer, answer
        return answer.partition(b"Mcp-Session-Id: ")[2].partition(b"\r\n")[0]

    def fields(sid: bytes, version: str) -> dict[str, str]:
        return {"Mcp-Session-Id": sid.decode(), "MCP-Protocol-Version": version}

    lines, transport = connected(site["plain"])
    modern = http_request(call_body("echo", TEXT, modern=True), modern_headers("tools/call", "echo"))
    cases[PLAIN_HTTP] = checked(lines, transport, modern, b"ordinary length")
    list_body = call_body("echo", TEXT, modern=True).replace('"tools/call"', '"tools/list"')
    listing = http_request(list_body, modern_headers("tools/list"))
    cases["http tools/list of 100 tools 2026-07-28"] = checked(lines, transport, listing, b"tool_97")
    for name, version in (("plain", "2025-11-25"), ("sealed", "2025-11-25"), ("stateless", "2025-11-25")):
        feed, transport = connected(site[name])
        sid = begin(feed, transport, version)
        header = fields(sid, version) if sid else {"MCP-Protocol-Version": version}
        request = http_request(call_body("echo", TEXT, modern=False), header)
        how = "" if name == "plain" else f", {name}"
        cases[f"http tools/call {version}{how}"] = checked(feed, transport, request, b"ordinary length")
        if name == "plain":
            body = call_body("steps", TEXT, modern=False)[:-2] + ',"_meta":{"progressToken":"p1"}}}'
            told = http_request(body, header)
            cases[EVENTS] = checked(feed, transport, told, b"ordinary length")
            assert b"notifications/progress" in transport.out[-1], transport.out
            listing = http_request('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', header)
            cases[f"http tools/list of 100 tools {version}"] = checked(feed, transport, listing, b"tool_97")

    def session(feed: Any, transport: Transport, version: str) -> Case:
        first = start(version)
        note = http_request(INITIALIZED, fields(b"@", version))
        call = http_request(call_body("echo", TEXT, modern=False), fields(b"@", version))
        end = b"DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nMcp-Session-Id: @\r\n\r\n"

        def one() -> None:
            feed(first)
            sid = transport.out[-1].partition(b"Mcp-Session-Id: ")[2].partition(b"\r\n")[0]
            feed(note.replace(b"@", sid))
            feed(call.replace(b"@", sid))
            feed(end.replace(b"@", sid))

        one()
        assert b" 204 " in transport.out[-1], transport.out
        return one

    for version in ("2024-11-05", "2025-11-25"):
        cases[f"http session {version}: initialize, initialized, call, DELETE"] = session(*connected(site["plain"]), version)
    feed, transport = lined(app)
    line = call_body("echo", TEXT, modern=True).encode() + b"\n"
    cases[PLAIN_LINES] = checked(feed, transport, line, b"ordinary length")
    cases["lines tools/list of 100 tools 2026-07-28"] = checked(
        feed, transport, list_body.encode() + b"\n", b"tool_97"
    )
    return cases
