"""A server of the official SDK with everything that a host can break, under the SDK's host or under headrace's.

`sdk_hosted.py theirs|ours http PORT [OPTION...]`, `... stdio`, `ours unix PATH`. Options: `json`, `stateless`, `events`,
`waiting-events`, `auth`, `slow-opening`, `asyncio`, `sessions=SECONDS`, `body=BYTES`, `failing`, `failing-later`, `and-stdio`. What outlives the process is written
to the file in SDK_HOSTED_JOURNAL, a line of JSON each.
"""

import asyncio
import contextvars
import json
import os
import sys
from contextlib import asynccontextmanager
from typing import Any

import anyio
from mcp.server import ServerRequestContext
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp_types import (
    EmptyResult,
    RequestParams,
    SamplingMessage,
    SetLevelRequestParams,
    TextContent,
)
from opentelemetry import trace
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import JSONResponse

OPTIONS = sys.argv[3:]
seen_by_middleware = contextvars.ContextVar("seen_by_middleware", default="nothing")
held = contextvars.ContextVar("held", default="nothing")
lines: list[Any] = []


def lasting(**line):
    path = os.environ.get("SDK_HOSTED_JOURNAL")
    if path:
        with open(path, "a") as file:
            file.write(json.dumps(line) + "\n")


class State:
    def __init__(self):
        self.calls = 0


async def failing_later(seconds):
    await anyio.sleep(0.5)
    raise RuntimeError("the database went away")


@asynccontextmanager
async def lifespan(server):
    lasting(lifespan="entered")
    if "failing" in OPTIONS:
        raise RuntimeError("the database is away")
    async with anyio.create_task_group() as group:
        group.start_soon(failing_later if "failing-later" in OPTIONS else anyio.sleep, 3600)
        yield State()
        group.cancel_scope.cancel()
    lasting(lifespan="left")


async def middleware(ctx, call_next):
    if ctx.method.startswith("notifications/"):
        lines.append(["notification", ctx.method, ctx.request_id is None])
    if ctx.method == "initialize" and "slow-opening" in OPTIONS:
        await asyncio.sleep(0.3)
    token = seen_by_middleware.set(f"{ctx.method} {ctx.request_id}")
    try:
        return await call_next(ctx)
    finally:
        seen_by_middleware.reset(token)


class Verifier:
    async def verify_token(self, token):
        await asyncio.sleep(0)
        name, _, scopes = token.partition(":")
        if name not in ("ada", "alan"):
            return None
        return AccessToken(token=token, client_id=name, scopes=scopes.split("+") if scopes else [], subject=name)


security: dict[str, Any] = {}
if "auth" in OPTIONS:
    security = {
        "auth": AuthSettings(
            issuer_url="https://auth.example.com",
            resource_server_url="https://mcp.example.com/mcp",
            required_scopes=["read"],
            **({"validate_token_resource": False} if "validate_token_resource" in AuthSettings.model_fields else {}),
        ),
        "token_verifier": Verifier(),
    }
app = MCPServer(
    "hosted", version="1.2.3", instructions="Tools that look at their host.", lifespan=lifespan, log_level="ERROR", middleware=[middleware], **security
)


@app.tool()
async def echo(text: str) -> str:
    """Gives it back."""
    return text


@app.tool()
def plain(text: str) -> str:
    """A plain function, run in a thread."""
    return f"{text} {seen_by_middleware.get()}"


@app.tool()
async def context(ctx: Context) -> dict[str, Any]:
    """What a handler sees of its request."""
    inner = ctx.request_context
    request = inner.request
    state = inner.lifespan_context
    state.calls += 1
    connection = ctx.session._connection
    connection.state["calls"] = connection.state.get("calls", 0) + 1
    token = get_access_token()
    span = trace.get_current_span().get_span_context()
    info = ctx.session.client_params.client_info if ctx.session.client_params else None
    found = {
        "version": inner.protocol_version,
        "client": None if info is None else [info.name, info.version],
        "middleware": seen_by_middleware.get(),
        "request_id": str(ctx.request_id),
        "lifespan": type(state).__name__,
        "calls_on_connection": connection.state["calls"],
        "calls": state.calls,
        "session": connection.session_id is not None,
        "standalone": connection.has_standalone_channel,
        "token": None if token is None else [token.client_id, token.scopes],
        "trace": f"{span.trace_id:032x}" if span.is_valid else None,
        "meta": sorted(key for key in (inner.meta or {})),
        "can_ask": ctx.session.can_send_request,
        "close": inner.close_sse_stream is not None,
        "request": None,
    }
    if request is not None:
        body = await request.json()
        found["request"] = {
            "kind": isinstance(request, Request),
            "method": request.method,
            "path": request.url.path,
            "query": request.url.query,
            "host": request.url.hostname,
            "peer": request.client.host,
            "mark": request.headers.get("X-Mark"),
            "user": request.user.username if "user" in request.scope else None,
            "body": [body["method"], body["params"]["name"]],
            "gone": await request.is_disconnected(),
        }
    return found


@app.tool()
async def count(n: int, ctx: Context) -> str:
    """Tells its progress."""
    for number in range(1, n + 1):
        await ctx.report_progress(number, n, f"at {number}")
    return f"counted to {n}"


@app.tool()
async def mixed(ctx: Context) -> str:
    """Log messages and progress in one order."""
    await ctx.info("one")
    await ctx.report_progress(1, 2)
    await ctx.warning("two")
    await ctx.report_progress(2, 2)
    await ctx.info("three")
    return "mixed"


@app.tool()
async def slow(name: str) -> str:
    """Waits until it is given up; then it wants to wait again, which a cancelled scope does not allow."""
    refused = 0
    try:
        await anyio.sleep(30)
    except BaseException as exc:
        lines.append([name, "cancelled", type(exc).__name__])
        for _ in range(3):
            try:
                await anyio.sleep(0.01)
            except asyncio.CancelledError:
                refused += 1
        with anyio.CancelScope(shield=True):
            await anyio.sleep(0.01)
            lines.append([name, "cleaned up", refused])
        raise
    return "never"


@app.tool()
async def journal() -> list[Any]:
    """What was noted; forgets it."""
    found = list(lines)
    lines.clear()
    return found


@app.tool()
async def hold(key: str) -> list[str]:
    """Sets a context variable, lets others run, and looks again."""
    before = held.get()
    held.set(key)
    await asyncio.sleep(0.05)
    return [before, held.get()]


@app.tool()
async def fail(how: str) -> str:
    """Fails."""
    if how == "mcp":
        raise MCPError(-31999, "as told", {"why": ["told"]})
    if how == "cancelled":
        raise asyncio.CancelledError
    raise ValueError("as told")


@app.tool()
async def clean_up(ctx: Context, name: str) -> str:
    """Leaves something to do for the end of the connection."""

    async def done():
        await asyncio.sleep(0.01)
        lines.append([name, "connection closed"])
        lasting(closed=name)

    ctx.session._connection.exit_stack.push_async_callback(done)
    return "pushed"


class Name(BaseModel):
    name: str


@app.tool()
async def ask_name(ctx: Context) -> str:
    """Asks the user, on the stream of the call."""
    answer = await ctx.elicit("What is your name?", Name)
    return f"Hello {answer.data.name}" if answer.action == "accept" else answer.action


@app.tool()
async def think(ctx: Context, alone: bool) -> str:
    """Asks the client's model, on the stream of the call or on the standalone one."""
    message = SamplingMessage(role="user", content=TextContent(type="text", text="think"))
    related = None if alone else ctx.request_id
    result = await ctx.session.create_message([message], max_tokens=9, related_request_id=related)
    return f"thought {result.content.text}"


@app.tool()
async def where(ctx: Context) -> str:
    """Asks for the client's roots: always on the standalone stream."""
    return ",".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@app.tool()
async def announce(ctx: Context) -> str:
    """Says that the tools changed: to the session, and to those who listen."""
    await ctx.session._connection.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "announced"


@app.tool()
async def touch(ctx: Context, uri: str, times: int) -> str:
    """Says that a resource changed."""
    for _ in range(times):
        await ctx.notify_resource_updated(uri)
    return "touched"


@app.tool()
async def leave_stream(ctx: Context) -> str:
    """Ends its own event stream and works on."""
    await ctx.info("before")
    close = ctx.request_context.close_sse_stream
    if close is None:
        return "cannot"
    await close()
    await asyncio.sleep(0.3)
    await ctx.info("meanwhile")
    return "came back"


@app.tool()
async def leave_standalone(ctx: Context) -> str:
    """Ends the standalone stream, then says something on it."""
    close = ctx.request_context.close_standalone_sse_stream
    if close is None:
        return "cannot"
    await close()
    await asyncio.sleep(0.05)
    await ctx.session._connection.send_tool_list_changed()
    return "left"


@app.resource("note://one")
async def note() -> str:
    """A note."""
    return "a note"


@app.prompt()
async def greet(name: str) -> str:
    """A greeting."""
    return f"Greet {name}"


@app.custom_route("/health", methods=["GET"])
async def health(request: Request) -> JSONResponse:
    return JSONResponse({"well": True})


class Anything(RequestParams, extra="allow"):
    pass


async def raw(ctx: ServerRequestContext, params: Anything) -> Any:
    """A method of no specification."""
    how = (ctx.params or {}).get("how")
    if how == "raise":
        raise ValueError("as told")
    if how == "model":
        return EmptyResult()
    if how == "odd":
        return {"inner": Name(name="Ada"), "big": 2**80, "none": None}
    if how == "wrong":
        return {"inner": object()}
    return {"got": {key: value for key, value in (ctx.params or {}).items() if key != "_meta"}}


async def set_level(ctx: ServerRequestContext, params: SetLevelRequestParams) -> EmptyResult:
    lines.append(["level", params.level])
    return EmptyResult()


async def roots_changed(ctx: ServerRequestContext, params: Any) -> None:
    lines.append(["roots changed", ctx.request is not None])


low = app._lowlevel_server
low.add_request_handler("acme/raw", Anything, raw)
low.add_request_handler("logging/setLevel", SetLevelRequestParams, set_level)
low.add_notification_handler("notifications/roots/list_changed", RequestParams, roots_changed)


class Events(EventStore):
    """An event store as the SDK wants it; `waits`: it answers in a later turn of the loop, as a database does."""

    def __init__(self, waits):
        self.kept = []
        self.waits = waits

    async def store_event(self, stream_id, message):
        if self.waits:
            await asyncio.sleep(0.001)
        self.kept.append((stream_id, message))
        return f"event-{len(self.kept)}"

    async def replay_events_after(self, last_event_id, send_callback):
        number = int(last_event_id.rpartition("-")[2])
        stream = self.kept[number - 1][0]
        for each, (stream_id, message) in enumerate(self.kept[number:], number + 1):
            if stream_id == stream and message is not None:
                await send_callback(EventMessage(message, f"event-{each}"))
        return stream


def main():
    host, wire = sys.argv[1:3]
    numbers = dict(option.split("=") for option in OPTIONS if "=" in option)
    settings: dict[str, Any] = {}
    if "events" in OPTIONS or "waiting-events" in OPTIONS:
        settings.update(event_store=Events("waiting-events" in OPTIONS), retry_interval=50)
    if "json" in OPTIONS:
        settings["json_response"] = True
    if "body" in numbers:
        settings["max_request_body_size"] = int(numbers["body"])
    if host == "theirs":
        if "stateless" in OPTIONS:
            settings["stateless_http"] = True
        if wire == "http":
            app.run("streamable-http", port=int(OPTIONS[0]), **settings)
        else:
            app.run("stdio")
        return
    from headrace.integrations.mcp_sdk import run

    if "stateless" in OPTIONS:
        settings["stateless"] = True
    if "sessions" in numbers:
        settings["session_idle_timeout"] = float(numbers["sessions"])
    place: dict[str, Any] = {}
    if wire == "stdio" or "and-stdio" in OPTIONS:
        place["stdio"] = True
    if wire == "http":
        place["http"] = int(OPTIONS[0])
    if wire == "unix":
        place["unix"] = OPTIONS[0]
    run(app, loop="asyncio" if "asyncio" in OPTIONS else "auto", **place, **settings)


if __name__ == "__main__":
    main()
