"""A server on FastMCP: `fastmcp_server.py stdio` or `fastmcp_server.py http PORT`."""

import logging
import sys

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel

app = FastMCP("fastmcp-peer", version="9.9")


class Point(BaseModel):
    x: int
    y: float


@app.tool
async def add(a: int, b: int) -> int:
    return a + b


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def count(to: int, ctx: Context) -> str:
    for number in range(1, to + 1):
        await ctx.report_progress(number, to, f"at {number}")
    return f"counted to {to}"


@app.tool
async def point(x: int, y: float) -> Point:
    return Point(x=x, y=y)


@app.tool
async def fail(message: str) -> str:
    raise ToolError(message)


logging.disable(logging.CRITICAL)
if sys.argv[1] == "stdio":
    app.run("stdio", show_banner=False)
else:
    app.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False, log_level="critical")
