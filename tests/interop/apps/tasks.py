"""The tools of the task trials, hosted on headrace."""

import asyncio

import msgspec

from headrace import Context, Server, ToolError

app = Server("tasks", version="1")
app.tasks(poll_interval=0.05, listing=True)


class Person(msgspec.Struct):
    name: str


@app.tool(task="required")
async def slow(n: int) -> int:
    """Takes its time."""
    await asyncio.sleep(0.1)
    return n * 2


@app.tool(task="optional")
async def greet(ctx: Context) -> str:
    """Asks who is there."""
    answer = await ctx.elicit("Name?", Person)
    return f"Hello {answer.content.name}"


@app.tool(task="optional")
async def fail() -> str:
    """Fails."""
    raise ToolError("broken")
