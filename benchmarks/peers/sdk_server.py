"""The bench tools on the official Python SDK, version 2: `sdk_server.py stdio|PORT [fast|default] [high|low]`.

fast: uvloop, httptools, JSON answers, stateless, no structured content beside the text. default: what
`run("streamable-http")` gives. high: MCPServer; low: the low-level Server, arguments taken as they are.
"""

import sys

from tools import TOOLS

where, mode, level = [*sys.argv[1:], "default", "high"][:3] if len(sys.argv) < 4 else sys.argv[1:4]
fast = mode == "fast"

if level == "high":
    from mcp.server import MCPServer

    app = MCPServer("bench")
    for tool in TOOLS:
        app.tool(structured_output=False if fast else None)(tool)
else:
    from mcp import types
    from mcp.server import Server

    BY_NAME = {tool.__name__: tool for tool in TOOLS}
    NAMES = {str: "string", int: "integer", float: "number"}

    def described(tool):
        properties = {n: {"type": NAMES[t]} for n, t in tool.__annotations__.items() if n != "return"}
        schema = {"type": "object", "properties": properties, "required": list(properties)}
        return types.Tool(name=tool.__name__, description=tool.__doc__, input_schema=schema)

    LISTED = [described(tool) for tool in TOOLS]

    async def list_tools(ctx, params):
        return types.ListToolsResult(tools=LISTED)

    async def call_tool(ctx, params):
        text = str(await BY_NAME[params.name](**params.arguments))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    app = Server("bench", on_list_tools=list_tools, on_call_tool=call_tool)


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

    http_app = app.streamable_http_app(json_response=fast, stateless_http=fast)
    options = {"loop": "uvloop", "http": "httptools"} if fast else {"loop": "asyncio", "http": "h11"}
    uvicorn.run(http_app, host="127.0.0.1", port=int(where), log_level="error", access_log=False, **options)
