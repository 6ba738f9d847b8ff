"""A server on the official Python SDK: `sdk_server.py stdio` or `sdk_server.py http PORT [json] [stateless]`."""

import logging
import sys
from typing import Annotated

import anyio
from mcp import types
from mcp.server import MCPServer
from mcp.server.mcpserver import Context, Elicit, ListRoots, Resolve, Sample
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel
from sdk_notes import add_notes

app = MCPServer("sdk-peer", version="9.9", instructions="A peer.", log_level="ERROR")
journal: list[str] = []


class Point(BaseModel):
    x: int
    y: float


class Name(BaseModel):
    name: str


# Questions to the client: requests in the handshake era, `input_required` results in the modern one.


def question() -> Elicit[Name]:
    return Elicit("Your name?", Name)


def thought(prompt: str) -> Sample:
    message = types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))
    return Sample([message], max_tokens=10)


def roots() -> ListRoots:
    return ListRoots()


@app.tool()
async def add(a: int, b: int) -> int:
    return a + b


@app.tool()
async def echo(text: str) -> str:
    return text


@app.tool()
async def count(to: int, ctx: Context, pause: float = 0.0) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
        if pause:
            await anyio.sleep(pause)
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
    journal.append(f"{tag} finished")
    return tag


@app.tool()
async def read_journal() -> str:
    return "|".join(journal)


@app.tool()
async def log(level: str, text: str, ctx: Context) -> str:
    await ctx.log(level, text, logger_name="peer")
    return "logged"


@app.tool()
async def grow(name: str, ctx: Context) -> str:
    async def grown() -> str:
        return name

    app.add_tool(grown, name=name)
    await ctx.session.send_tool_list_changed()
    return name


@app.tool()
async def ask_name(name: Annotated[Name, Resolve(question)]) -> str:
    return f"Hello {name.name}"


@app.tool()
async def think(prompt: str, answer: Annotated[types.CreateMessageResult, Resolve(thought)]) -> str:
    return f"thought {answer.content.text}"


@app.tool()
async def where(answer: Annotated[types.ListRootsResult, Resolve(roots)]) -> str:
    return " ".join(str(root.uri) for root in answer.roots)


@app.tool()
async def touch(ctx: Context) -> str:
    await ctx.notify_resource_updated("note://static")
    return "touched"


add_notes(app, types.Completion)


def main() -> None:
    logging.disable(logging.CRITICAL)
    if sys.argv[1] == "stdio":
        app.run("stdio")
        return
    import uvicorn

    flags = sys.argv[3:]
    starlette = app.streamable_http_app(json_response="json" in flags, stateless_http="stateless" in flags)
    uvicorn.run(starlette, host="127.0.0.1", port=int(sys.argv[2]), log_level="critical", http="httptools")


main()
