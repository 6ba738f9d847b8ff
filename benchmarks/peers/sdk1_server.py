"""The bench tools on the official Python SDK, version 1: `sdk1_server.py stdio|PORT [fast|default] [high|low]`.

The modes are those of sdk_server.py.
"""

import sys

from tools import TOOLS

where, mode, level = [*sys.argv[1:], "default", "high"][:3] if len(sys.argv) < 4 else sys.argv[1:4]
fast = mode == "fast"

if level == "high":
    from mcp.server.fastmcp import FastMCP

    app = FastMCP("bench", json_response=fast, stateless_http=fast, log_level="ERROR")
    for tool in TOOLS:
        app.tool(structured_output=False if fast else None)(tool)
else:
    from mcp import types
    from mcp.server.lowlevel import Server

    BY_NAME = {tool.__name__: tool for tool in TOOLS}
    NAMES = {str: "string", int: "integer", float: "number"}
    app = Server("bench")

    @app.list_tools()
    async def list_tools():
        listed = []
        for tool in TOOLS:
            properties = {n: {"type": NAMES[t]} for n, t in tool.__annotations__.items() if n != "return"}
            schema = {"type": "object", "properties": properties, "required": list(properties)}
            listed.append(types.Tool(name=tool.__name__, description=tool.__doc__, inputSchema=schema))
        return listed

    @app.call_tool(validate_input=not fast)
    async def call_tool(name, arguments):
        return [types.TextContent(type="text", text=str(await BY_NAME[name](**arguments)))]


def low_http():
    import contextlib

    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Route

    manager = StreamableHTTPSessionManager(app, json_response=fast, stateless=fast)

    class Endpoint:
        async def __call__(self, scope, receive, send):
            await manager.handle_request(scope, receive, send)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        async with manager.run():
            yield

    return Starlette(routes=[Route("/mcp", endpoint=Endpoint())], lifespan=lifespan)


async def low_stdio() -> None:
    from mcp.server.stdio import stdio_server

    async with stdio_server() as (read, write):
        await app.run(read, write, app.create_initialization_options())


if where == "stdio":
    if fast:
        import uvloop

        uvloop.install()
    if level == "high":
        app.run("stdio")
    else:
        import asyncio

        asyncio.run(low_stdio())
else:
    import uvicorn

    http_app = app.streamable_http_app() if level == "high" else low_http()
    options = {"loop": "uvloop", "http": "httptools"} if fast else {"loop": "asyncio", "http": "h11"}
    uvicorn.run(http_app, host="127.0.0.1", port=int(where), log_level="error", access_log=False, **options)
