"""The server that is hosted while things die."""

import asyncio
import os

from headrace import Context, Server

app = Server("chaos", version="1.0")


@app.tool(annotations={"readOnlyHint": True})
async def look(ms: float = 0) -> int:
    """Takes its time; the process that answered."""
    await asyncio.sleep(ms / 1000)
    return os.getpid()


@app.tool
async def count(to: int, ms: float, ctx: Context) -> str:
    """Tells of each step."""
    for step in range(1, to + 1):
        await asyncio.sleep(ms / 1000)
        await ctx.progress(step, to)
    return f"counted to {to}"


@app.tool(task="optional")
async def job(number: int, ms: float = 0) -> int:
    """As a task."""
    await asyncio.sleep(ms / 1000)
    return number * number


@app.tool(annotations={"readOnlyHint": True}, inline=True)
def echo(text: str) -> str:
    return text
