"""The toolbox and the paged server as ASGI applications, in every way in which hosts take them in."""

import toolbox

from headrace import Server

tools = toolbox.app.asgi()
pages = toolbox.paged.asgi()


async def bare(scope, receive, send):
    """A host of two applications written by hand: lifespan events reach one of them."""
    app = pages if scope["type"] == "http" and scope["path"].startswith("/paged") else tools
    await app({**scope, "root_path": "/paged"} if app is pages else scope, receive, send)


def starlette():
    """A route and a mount; the host's lifespan runs that of both, and adds what it knows to the state."""
    from contextlib import asynccontextmanager

    from starlette.applications import Starlette
    from starlette.responses import PlainTextResponse
    from starlette.routing import Mount, Route

    @asynccontextmanager
    async def lifespan(app):
        async with tools.lifespan(app), pages.lifespan(app):
            yield {"host": "starlette"}

    return Starlette(
        routes=[
            Route("/health", lambda request: PlainTextResponse("well")),
            Mount("/paged", pages),
            Route("/mcp", tools),
        ],
        lifespan=lifespan,
    )


def fastapi():
    """Mounted without a word to the host's lifespan, behind middleware that wraps `receive` and `send`."""
    from fastapi import FastAPI

    app = FastAPI()

    @app.middleware("http")
    async def mark(request, call_next):
        response = await call_next(request)
        response.headers["x-marked"] = "yes"
        return response

    @app.get("/health")
    async def health():
        return "well"

    app.mount("/paged", pages)
    app.mount("/mcp", tools)
    return app


def guests():
    """Servers of the official SDK and of FastMCP in one web application, carried by headrace."""
    from contextlib import asynccontextmanager

    from fastmcp import FastMCP
    from mcp.server import MCPServer
    from mcp.server.mcpserver import Context
    from starlette.applications import Starlette
    from starlette.routing import Mount, Route

    from headrace.integrations import fastmcp, mcp_sdk

    official, fast = MCPServer("official"), FastMCP("fast")

    @official.tool()
    async def where(ctx: Context) -> str:
        return ctx.request_context.request.url.path

    @fast.tool
    async def double(n: int) -> str:
        return str(2 * n)

    one, two = mcp_sdk.host_of(official).asgi(), fastmcp.host_of(fast).asgi()

    @asynccontextmanager
    async def lifespan(app):
        async with one.lifespan(), two.lifespan():
            yield

    return Starlette(routes=[Route("/mcp", one), Mount("/fast", two)], lifespan=lifespan)


def counted():
    """A server whose lifespan leaves its traces on standard output."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def life(server):
        print("started", flush=True)
        yield
        print("stopped", flush=True)

    server = Server("counted", version="1", lifespan=life)
    server.add_tool(toolbox.echo, name="echo")
    server.add_tool(toolbox.slow, name="slow")
    return server.asgi()


def broken():
    """A server that cannot start."""
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def life(server):
        raise RuntimeError("no database")
        yield

    return Server("broken", version="1", lifespan=life).asgi()
