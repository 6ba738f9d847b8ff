"""A low-level server of mcp 1.x that writes down what happens around it: `sdk1_hosted.py HOST KIND [PORT] [WORD...]`.

HOST is `own` (the SDK's transports) or `headrace`, KIND `stdio` or `http`; words: `stateless`, `json`, `events` (an
event store of the SDK's kind), `broken` (the lifespan fails), `loud` (what is logged is written to stderr).
"""

import asyncio
import contextlib
import contextvars
import logging
import sys
import warnings

warnings.simplefilter("ignore")

import anyio  # noqa: E402
import mcp.types as types  # noqa: E402
from mcp.server.lowlevel import NotificationOptions, Server  # noqa: E402
from mcp.server.streamable_http import EventMessage, EventStore  # noqa: E402

HOST, KIND, *REST = sys.argv[1:]
PORT = int(REST.pop(0)) if KIND == "http" else 0
WORDS = set(REST)
if "loud" not in WORDS:
    logging.disable(logging.CRITICAL)
journal: list[str] = []
marks: contextvars.ContextVar[str] = contextvars.ContextVar("marks", default="unset")


class Events(EventStore):
    """Keeps everything; `waits` makes it one that has to wait."""

    def __init__(self, waits):
        self.events = []
        self.waits = waits

    async def store_event(self, stream_id, message):
        if self.waits:
            await asyncio.sleep(0)
        self.events.append((stream_id, message))
        return str(len(self.events))

    async def replay_events_after(self, last_event_id, send_callback):
        at = int(last_event_id)
        if not 0 < at <= len(self.events):
            return None
        stream = self.events[at - 1][0]
        for number, (each, message) in enumerate(self.events[at:], at + 1):
            if each == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


@contextlib.asynccontextmanager
async def lifespan(server):
    if "broken" in WORDS:
        raise RuntimeError("the lifespan fails")
    journal.append("entered")
    marks.set("lifespan")
    async with anyio.create_task_group() as group:
        group.start_soon(anyio.sleep, 0)
        yield {"number": journal.count("entered")}
    journal.append("left")


server = Server("low", version="1", instructions="Low.", lifespan=lifespan)
TOOLS = ("echo", "context", "order", "ask", "roots", "slow", "stubborn", "journal", "crash", "part", "mark", "late", "odd")


@server.list_tools()
async def list_tools():
    return [types.Tool(name=name, inputSchema={"type": "object"}) for name in TOOLS]


@server.call_tool()
async def call_tool(name, arguments):
    context = server.request_context
    session = context.session
    text = str(arguments.get("text", ""))
    if name == "context":
        request = context.request
        text = "|".join([
            str(context.lifespan_context["number"]),
            str(context.meta.model_extra if context.meta else None),
            "no request" if request is None else f"{request.method} {request.url.path} {request.headers.get('x-own')}",
            str(session.client_params.clientInfo.name if session.client_params else None),
            str(context.close_sse_stream is not None),
            marks.get(),
        ])  # fmt: skip
    elif name == "order":
        id = context.request_id
        await session.send_log_message("info", "one", related_request_id=id)
        if context.meta and context.meta.progressToken is not None:
            await session.send_progress_notification(context.meta.progressToken, 1, 2, "half", related_request_id=id)
        await session.send_log_message("info", "two", related_request_id=id)
        await session.send_tool_list_changed()
    elif name == "ask":
        schema = {"type": "object", "properties": {"n": {"type": "integer"}}}
        heard = []

        async def progress(done, total, message):
            heard.append(done)

        answer = await session.send_request(
            types.ServerRequest(
                types.ElicitRequest(params=types.ElicitRequestFormParams(message="n?", requestedSchema=schema))
            ),
            types.ElicitResult,
            metadata=None if "alone" in arguments else _related(context.request_id),
            progress_callback=progress,
        )
        text = f"{answer.action} {answer.content} {heard}"
    elif name == "roots":
        text = " ".join(str(root.uri) for root in (await session.list_roots()).roots)
    elif name in ("slow", "stubborn"):
        try:
            await anyio.sleep(20)
        except BaseException as exc:
            if name == "stubborn":
                for _ in range(3):
                    with contextlib.suppress(anyio.get_cancelled_exc_class()):
                        await anyio.sleep(5)
                        journal.append("slept")
            journal.append(f"{name} {type(exc).__name__}")
            raise
    elif name == "journal":
        text = "|".join(journal)
    elif name == "crash":
        raise ValueError("a crash")
    elif name == "odd":
        raise BaseExceptionGroup("swordfish", [GeneratorExit()])
    elif name == "part":
        if context.close_sse_stream is not None:
            await context.close_sse_stream()
        await anyio.sleep(0.2)
        text = "after the break"
    elif name == "mark":
        before = marks.get()
        marks.set(text)
        await anyio.sleep(0.05)
        text = f"{before} {marks.get()}"
    elif name == "late":
        # A notification of a request that was answered already.
        async def later(id):
            await anyio.sleep(0.1)
            await session.send_log_message("info", "late", related_request_id=id)

        task = asyncio.ensure_future(later(context.request_id))
        task.add_done_callback(lambda done: journal.append(f"late {done.exception()!r}"))
    return [types.TextContent(type="text", text=text)]


def _related(id):
    from mcp.shared.message import ServerMessageMetadata

    return ServerMessageMetadata(related_request_id=id)


@server.progress_notification()
async def progressed(token, progress, total, message):
    journal.append(f"progress {token} {progress}")


async def roots_changed(note):
    journal.append("roots changed")


server.notification_handlers[types.RootsListChangedNotification] = roots_changed


def own_http():
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Route

    manager = StreamableHTTPSessionManager(
        server,
        event_store=Events(False) if "events" in WORDS else None,
        json_response="json" in WORDS,
        stateless="stateless" in WORDS,
        retry_interval=100,
    )

    class Endpoint:
        async def __call__(self, scope, receive, send):
            await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def running(app):
        async with manager.run():
            yield

    app = Starlette(routes=[Route("/mcp", endpoint=Endpoint())], lifespan=running)
    uvicorn.run(app, host="127.0.0.1", port=PORT, log_level="critical")


async def own_stdio():
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await server.run(read, write, server.create_initialization_options())


server.create_initialization_options = lambda *args, **options: Server.create_initialization_options(
    server, NotificationOptions(tools_changed=True)
)
if HOST == "headrace":
    from headrace.integrations.mcp_sdk_1 import run

    run(
        server,
        http=PORT or None,
        stateless="stateless" in WORDS,
        json_response="json" in WORDS,
        event_store=Events("waits" in WORDS) if "events" in WORDS else None,
        retry_interval=100,
    )
elif KIND == "http":
    own_http()
else:
    anyio.run(own_stdio)
