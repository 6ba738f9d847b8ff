"""The server of headrace that every counterpart talks to; `paged` lists the same kind of tools in small pages."""

import asyncio
import os
import time

import msgspec

from headrace import Context, Limits, Server, ToolError

if os.environ.get("TOOLBOX_PRINTS"):
    print("a stray line at import")  # must not reach the wire (B08)

app = Server("toolbox", version="1.2.3", title="Toolbox", instructions="Tools to test clients with.")
journal: list[str] = []


class Point(msgspec.Struct):
    x: int
    y: float
    label: str | None = None


@app.tool
async def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


@app.tool
async def echo(text: str) -> str:
    """Returns the text it is given."""
    return text


@app.tool
async def count(ctx: Context, to: int, pause: float = 0.0) -> str:
    """Counts and reports progress at every step."""
    for number in range(1, to + 1):
        await ctx.progress(number, to, f"at {number}")
        if pause:
            await asyncio.sleep(pause)
    return f"counted to {to}"


@app.tool
async def fail(message: str) -> str:
    """Fails with a text for the model."""
    raise ToolError(message)


@app.tool
async def crash() -> str:
    """Fails in a way nobody expected."""
    raise RuntimeError("a secret of the server")


@app.tool
async def point(x: int, y: float, label: str | None = None) -> Point:
    """A structured result."""
    return Point(x, y, label)


@app.tool
async def slow(seconds: float, tag: str) -> str:
    """Takes a while; the journal tells how it ended."""
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        journal.append(f"{tag} cancelled")
        raise
    journal.append(f"{tag} finished")
    return tag


@app.tool
def block(seconds: float) -> str:
    """Blocks its thread."""
    time.sleep(seconds)
    return "blocked"


@app.tool
async def read_journal() -> str:
    """What `slow` wrote so far."""
    return "|".join(journal)


@app.tool
async def log(ctx: Context, level: str, text: str) -> str:
    """Sends one log message."""
    await ctx.log(level, text, "toolbox")
    return "logged"


@app.tool
async def who(ctx: Context) -> dict[str, str | None]:
    """What the server knows of its caller."""
    info = ctx.client_info
    return {"name": info["name"] if info else None, "version": ctx.protocol_version}


@app.tool
async def grow(name: str) -> str:
    """Registers one more tool."""

    async def grown() -> str:
        return name

    app.add_tool(grown, name=name, description="Registered at run time.")
    return name


# --- what asks the client, resources, prompts --------------------------------------------------------


class Name(msgspec.Struct):
    name: str


@app.tool
async def ask_name(ctx: Context) -> str:
    """Asks the user for a name."""
    answer = await ctx.elicit("Your name?", Name)
    return f"Hello {answer.content.name}" if answer.accepted else answer.action


@app.tool
async def think(ctx: Context, prompt: str) -> str:
    """Lets the client's model think."""
    return f"thought {(await ctx.sample(prompt, max_tokens=10)).content.text}"


@app.tool
async def where(ctx: Context) -> str:
    """The client's roots."""
    return " ".join(str(root.uri) for root in await ctx.list_roots())


@app.tool
async def touch() -> str:
    """Says that a resource has new content."""
    app.notify_resource_updated("note://static")
    return "touched"


@app.resource("note://static", mime_type="text/plain")
async def static() -> str:
    """A note."""
    return "static note"


@app.resource("note://blob", mime_type="image/png")
async def blob() -> bytes:
    """Bytes."""
    return b"\x89PNG\r\n"


@app.resource("note://named/{name}")
async def named(name: str) -> str:
    """A note by name."""
    return f"note of {name}"


@app.prompt(complete={"name": ["Ada", "Alan", "Grace"]})
async def greet(name: str) -> str:
    """Greets somebody."""
    return f"Greet {name}"


paged = Server("paged", version="1.2.3", limits=Limits(page_size=3))


def _numbered(number: int) -> None:
    async def tool() -> str:
        return f"tool {number}"

    paged.add_tool(tool, name=f"tool_{number:02}", description=f"Number {number}.")


for _number in range(10):
    _numbered(_number)
