"""A server on FastMCP (`pip install fastmcp`), as its documentation writes one: tools, a mounted server, middleware.

`headrace serve examples/fastmcp_server.py --http 127.0.0.1:8000` hosts it unchanged; so does
`fastmcp run examples/fastmcp_server.py` on FastMCP's own transports.
"""

import time
from dataclasses import dataclass

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from fastmcp.server.middleware import Middleware, MiddlewareContext

mcp = FastMCP("kitchen", version="1.0.0", instructions="Recipes to try a client with.")
pantry = FastMCP("pantry")


class Watch(Middleware):
    """Counts the calls of tools and the time they take."""

    def __init__(self) -> None:
        self.calls = 0
        self.seconds = 0.0

    async def on_call_tool(self, context: MiddlewareContext, call_next):
        start = time.perf_counter()
        try:
            return await call_next(context)
        finally:
            self.calls += 1
            self.seconds += time.perf_counter() - start


watch = Watch()
mcp.add_middleware(watch)


@dataclass
class Dish:
    name: str
    minutes: int


@mcp.tool
async def echo(text: str) -> str:
    """Returns the text it is given."""
    return text


@mcp.tool
def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


@mcp.tool
async def cook(name: str, ctx: Context, steps: int = 3) -> Dish:
    """Cooks a dish and reports progress at each step."""
    if name == "stone soup":
        raise ToolError("no stones left")
    for step in range(1, steps + 1):
        await ctx.report_progress(step, steps, f"step {step}")
    return Dish(name, 10 * steps)


@mcp.tool
def calls_so_far() -> int:
    """How many calls of tools the middleware has seen end."""
    return watch.calls


@mcp.resource("recipe://{name}")
def recipe(name: str) -> str:
    """A recipe."""
    return f"Take some {name}."


@mcp.prompt
def menu(guests: int) -> str:
    """Asks for a menu."""
    return f"Write a menu for {guests} guests."


@pantry.tool
def stock(item: str) -> int:
    """How much of something is left."""
    return len(item)


mcp.mount(pantry, namespace="pantry")

if __name__ == "__main__":
    mcp.run()
