"""A server on the official Python SDK (`pip install mcp`), as its documentation writes one.

`headrace serve examples/official_sdk_server.py --http 127.0.0.1:8000` hosts it unchanged; so does
`python examples/official_sdk_server.py` on the SDK's own transports.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from mcp.server import MCPServer
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel


@dataclass
class Shelf:
    """What lives as long as the server."""

    titles: list[str] = field(default_factory=lambda: ["Dune", "Emma"])
    open: bool = False


@asynccontextmanager
async def lifespan(server: MCPServer) -> AsyncIterator[Shelf]:
    shelf = Shelf(open=True)
    try:
        yield shelf
    finally:
        shelf.open = False


mcp = MCPServer("library", version="1.0.0", instructions="Books to try a client with.", lifespan=lifespan)


class Book(BaseModel):
    title: str
    pages: int


@mcp.tool()
async def echo(text: str) -> str:
    """Returns the text it is given."""
    return text


@mcp.tool()
def add(a: int, b: int) -> int:
    """Adds two integers."""
    return a + b


@mcp.tool()
async def lend(ctx: Context[Shelf], title: str) -> Book:
    """Takes a book from the shelf."""
    shelf = ctx.request_context.lifespan_context
    if title not in shelf.titles:
        raise ToolError(f"{title} is not here")
    return Book(title=title, pages=100 * len(title))


@mcp.tool()
async def read_aloud(ctx: Context[Shelf], pages: int) -> str:
    """Reads some pages and reports progress at each."""
    for page in range(1, pages + 1):
        await ctx.report_progress(page, pages, f"page {page}")
    return f"read {pages} pages"


@mcp.resource("book://{title}")
def book(title: str) -> str:
    """The first line of a book."""
    return f"It was a dark and stormy night in {title}."


@mcp.prompt()
def review(title: str) -> str:
    """Asks for a review."""
    return f"Write a review of {title}."


if __name__ == "__main__":
    mcp.run()
