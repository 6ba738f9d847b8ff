"""The bench tools on the official Python SDK, version 1: `sdk1_server.py stdio|PORT [fast|default] [high|low] [theirs|ours]`.

The modes are those of sdk_server.py.
"""

from sdk_hosting import BY_NAME, fast, host, level, schema_of

from tools import TOOLS

if level == "high":
    from mcp.server.fastmcp import FastMCP

    app = FastMCP("bench", json_response=fast, stateless_http=fast, log_level="ERROR")
    for tool in TOOLS:
        app.tool(structured_output=False if fast else None)(tool)
else:
    from mcp import types
    from mcp.server.lowlevel import Server

    app = Server("bench")

    @app.list_tools()
    async def list_tools():
        return [types.Tool(name=t.__name__, description=t.__doc__, inputSchema=schema_of(t)) for t in TOOLS]

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


host(app, app.streamable_http_app if level == "high" else low_http)
