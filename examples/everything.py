"""A server that uses every feature: `headrace serve examples/everything.py` (or with `--http 127.0.0.1:8000`)."""

from __future__ import annotations

import asyncio
import base64
import datetime
import enum
from typing import Annotated, Literal

import msgspec

from headrace import (
    AssistantMessage,
    Audio,
    CacheHint,
    Completion,
    Context,
    Image,
    Server,
    ToolError,
    ToolResult,
    UserMessage,
    types,
)

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNk+A8AAQUBAScY42YAAAAASUVORK5CYII=")
WAV = b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x44\xac\x00\x00\x88\x58\x01\x00\x02\x00\x10\x00data\x00\x00\x00\x00"
ICON = {"src": "data:image/png;base64," + base64.b64encode(PNG).decode(), "mimeType": "image/png", "sizes": ["1x1"]}

app = Server(
    "everything",
    version="1.0",
    title="Everything",
    description="One of each",
    website_url="https://example.com/everything",
    icons=[ICON],
    instructions="Each tool, resource and prompt shows one feature.",
    extensions={"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}},
    offers=("tools", "resources", "prompts", "completions"),
)
app.cache_hints(
    discover=CacheHint(60, "public"), tools=CacheHint(5), resources=CacheHint(5), templates=CacheHint(5), prompts=CacheHint(5)
)


class Unit(enum.Enum):
    CELSIUS = "celsius"
    FAHRENHEIT = "fahrenheit"


class Weather(msgspec.Struct):
    city: str
    degrees: float
    unit: Unit
    at: datetime.datetime


class Order(msgspec.Struct):
    size: Literal["small", "large"]
    count: int = 1


# --- tools -------------------------------------------------------------------------------------------


@app.tool(inline=True, annotations={"title": "Echo", "readOnlyHint": True, "idempotentHint": True})
def echo(text: Annotated[str, "what to say back"]) -> str:
    """Says it back."""
    return text


@app.tool(title="Weather", icons=[ICON], meta={"example.com/kind": "demo"})
async def weather(city: str, unit: Unit = Unit.CELSIUS) -> Weather:
    """Structured content with an output schema."""
    degrees = 21.5 if unit is Unit.CELSIUS else 70.7
    return Weather(city, degrees, unit, datetime.datetime(2026, 7, 28, 12, 0, tzinfo=datetime.UTC))


@app.tool(inline=True)
def media() -> list:
    """One of each kind of content."""
    return [
        "text",
        Image(PNG),
        Audio(WAV),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="text://hello", text="hello")),
        types.ResourceLink(uri="text://hello", name="hello", description="A link"),
    ]


@app.tool(inline=True)
def fail(how: Literal["tool", "bug", "result"] = "tool") -> ToolResult:
    """Fails, in the way of your choice."""
    if how == "tool":
        raise ToolError("this is meant for the model")
    if how == "bug":
        raise RuntimeError("this stays in the log")
    return ToolResult("it did not go well", is_error=True)


@app.tool
async def count(ctx: Context, to: int = 5, delay: float = 0.01) -> str:
    """Reports progress and logs."""
    for n in range(1, to + 1):
        await asyncio.sleep(delay)
        await ctx.progress(n, to, f"{n} of {to}")
        await ctx.log("debug", {"n": n}, "count")
    return f"counted to {to}"


@app.tool
def blocking(milliseconds: int = 5) -> str:
    """Runs in a worker thread."""
    import time

    time.sleep(milliseconds / 1000)
    return "done"


@app.tool
async def order(ctx: Context) -> str:
    """Asks the user to fill in a form (elicitation)."""
    answer = await ctx.elicit("What would you like?", Order)
    if answer.action != "accept":
        return f"no order: {answer.action}"
    return f"{answer.content.count} {answer.content.size}"


@app.tool
async def poem(ctx: Context, about: str) -> str:
    """Lets the client's model write (sampling)."""
    result = await ctx.sample(f"Write a line about {about}.", max_tokens=50)
    return getattr(result.content, "text", "no text")


@app.tool
async def roots(ctx: Context) -> list[str]:
    """The directories that the client works on."""
    return [root.uri for root in await ctx.list_roots()]


@app.tool(inline=True)
def whoami(ctx: Context) -> dict:
    """What the server knows of the client."""
    return {"revision": ctx.protocol_version, "client": ctx.client_info, "extensions": sorted(ctx.client_extensions)}


@app.tool(inline=True)
def touch(uri: str = "time://now") -> str:
    """Tells those who follow a resource that it changed."""
    app.notify_resource_updated(uri)
    return f"told the followers of {uri}"


@app.tool(inline=True)
def grow(name: str) -> str:
    """Adds a tool, a resource and a prompt while the server runs."""
    if name in app.tools:
        raise ToolError(f"{name} is there already")
    app.add_tool(lambda: name, name=name, inline=True)
    app.add_resource(f"grown://{name}", name)
    app.add_prompt(lambda: name, name=name, inline=True)
    return f"added {name}"


@app.tool(inline=True)
def shrink(name: str) -> str:
    """Takes away what grow added."""
    if f"grown://{name}" not in app.resources:
        raise ToolError(f"{name} was not grown")
    app.remove_tool(name)
    app.remove_resource(f"grown://{name}")
    app.remove_prompt(name)
    return f"removed {name}"


@app.tool(meta={"ui": {"resourceUri": "ui://everything/clock"}}, inline=True)
def clock() -> str:
    """Shows a page where the client can (MCP Apps), and text where it cannot."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


# --- resources ---------------------------------------------------------------------------------------

app.add_resource("text://hello", "Hello.", title="Hello", description="A constant", icons=[ICON],
                 annotations={"audience": ["user"], "priority": 0.5}, cache=CacheHint(3600, "public"))  # fmt: skip
app.add_resource("image://dot", PNG, mime_type="image/png", description="A blob")
app.add_resource(
    "ui://everything/clock",
    "<!doctype html><title>Clock</title><p id=now></p>",
    mime_type="text/html;profile=mcp-app",
    meta={"ui": {"csp": {"connectDomains": []}}},
)


@app.resource("time://now", mime_type="application/json")
async def now() -> dict:
    """Another content each time."""
    return {"now": datetime.datetime.now(datetime.UTC)}


CITIES = ["Oslo", "Osaka", "Lima", "Paris"]


@app.resource("city://{name}{?unit}", mime_type="application/json", complete={"name": CITIES})
async def city(name: str, unit: Unit = Unit.CELSIUS) -> Weather | None:
    """A template; there are a few cities only."""
    return await weather(name, unit) if name in CITIES else None


@app.resource("tree://root{/part*}")
def tree(part: list[str]) -> list:
    """Several contents of one resource."""
    return [types.TextResourceContents(uri=f"tree://root/{name}", text=name, mime_type="text/plain") for name in part]


# --- prompts and completion --------------------------------------------------------------------------


@app.prompt(title="Greet", icons=[ICON])
async def greet(name: str, tone: Literal["warm", "formal"] = "warm") -> str:
    """Greets someone.

    Args:
        name: whom
        tone: how
    """
    return f"Write a {tone} greeting for {name}."


@app.prompt(inline=True)
def picture() -> list:
    """A conversation with an image and a resource in it."""
    return [
        UserMessage("What is this?"),
        UserMessage(Image(PNG)),
        AssistantMessage("A dot."),
        types.EmbeddedResource(resource=types.TextResourceContents(uri="text://hello", text="Hello.")),
    ]


@app.completion(prompt="greet", argument="name")
async def names(value: str, arguments: dict[str, str]) -> Completion:
    titles = ("Dr. ", "Prof. ") if arguments.get("tone") == "formal" else ("",)
    found = [f"{title}{name}" for title in titles for name in ("Ada", "Alan", "Barbara", "Edsger")]
    found = [name for name in found if value.lower() in name.lower()]
    return Completion(found, total=len(found))


if __name__ == "__main__":
    app.run()
