"""A server on version 1 of the official Python SDK: `sdk1_server.py stdio`, `sdk1_server.py http PORT` or `... sse PORT`,
hosted by headrace where the first word is `headrace-stdio` or `headrace-http` (which takes `stateless` and `json` too).

Handshake era only; with the features that ask the client, and over HTTP with an event store (`http`) or with the
older HTTP+SSE transport (`sse`).
"""

import logging
import sys

import anyio
from mcp.server.fastmcp import Context, FastMCP
from mcp.server.fastmcp.exceptions import ToolError
from mcp.types import Completion, SamplingMessage, TextContent
from pydantic import AnyUrl, BaseModel
from sdk_notes import add_notes

port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
app = FastMCP("sdk1-peer", instructions="A peer.", host="127.0.0.1", port=port, log_level="CRITICAL")
journal: list[str] = []


class Point(BaseModel):
    x: int
    y: float


class Name(BaseModel):
    name: str


@app.tool()
async def add(a: int, b: int) -> int:
    return a + b


@app.tool()
async def echo(text: str) -> str:
    return text


@app.tool()
async def count(to: int, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return f"counted to {to}"


@app.tool()
async def point(x: int, y: float) -> Point:
    return Point(x=x, y=y)


@app.tool()
async def fail(message: str) -> str:
    raise ToolError(message)


@app.tool()
async def slow(seconds: float, tag: str) -> str:
    try:
        await anyio.sleep(seconds)
    except BaseException:
        journal.append(f"{tag} cancelled")
        raise
    return tag


@app.tool()
async def read_journal() -> str:
    return "|".join(journal)


@app.tool()
async def log(level: str, text: str, ctx: Context) -> str:
    await ctx.session.send_log_message(level, text, logger="peer", related_request_id=ctx.request_id)
    return "logged"


@app.tool()
async def ask_name(ctx: Context) -> str:
    answer = await ctx.elicit("Your name?", Name)
    return f"Hello {answer.data.name}" if answer.action == "accept" else answer.action


@app.tool()
async def think(prompt: str, ctx: Context) -> str:
    message = SamplingMessage(role="user", content=TextContent(type="text", text=prompt))
    answer = await ctx.session.create_message([message], max_tokens=10, related_request_id=ctx.request_id)
    return f"thought {answer.content.text}"


@app.tool()
async def where(ctx: Context) -> str:
    return " ".join(str(root.uri) for root in (await ctx.session.list_roots()).roots)


@app.tool()
async def touch(ctx: Context) -> str:
    await ctx.session.send_resource_updated(AnyUrl("note://static"))
    return "touched"


@app.tool()
async def grow(name: str, ctx: Context) -> str:
    async def grown() -> str:
        return name

    app.add_tool(grown, name=name)
    await ctx.session.send_tool_list_changed()
    return name


add_notes(app, Completion)


@app._mcp_server.subscribe_resource()
async def subscribe(uri):
    pass


@app._mcp_server.unsubscribe_resource()
async def unsubscribe(uri):
    pass


@app._mcp_server.set_logging_level()
async def set_level(level):
    pass


logging.disable(logging.CRITICAL)
kind = sys.argv[1]
if kind.startswith("headrace-"):
    from headrace.integrations.mcp_sdk_1 import run

    app.settings.stateless_http = "stateless" in sys.argv
    app.settings.json_response = "json" in sys.argv
    run(app, http=port or None, legacy_sse="sse" in sys.argv)
else:
    app.run({"stdio": "stdio", "http": "streamable-http", "sse": "sse"}[kind])
