"""The bench tools on the official Python SDK, version 2: `sdk_server.py stdio|PORT [fast|default] [high|low] [theirs|ours]`.

fast: uvloop, httptools, JSON answers, stateless, no structured content beside the text. default: what
`run("streamable-http")` gives. high: MCPServer; low: the low-level Server, arguments taken as they are. ours: the
same object, hosted by headrace.
"""

from sdk_hosting import BY_NAME, fast, host, level, schema_of

from tools import TOOLS

if level == "high":
    from mcp.server import MCPServer

    app = MCPServer("bench")
    for tool in TOOLS:
        app.tool(structured_output=False if fast else None)(tool)
else:
    from mcp import types
    from mcp.server import Server

    LISTED = [types.Tool(name=t.__name__, description=t.__doc__, input_schema=schema_of(t)) for t in TOOLS]

    async def list_tools(ctx, params):
        return types.ListToolsResult(tools=LISTED)

    async def call_tool(ctx, params):
        text = str(await BY_NAME[params.name](**params.arguments))
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)])

    app = Server("bench", on_list_tools=list_tools, on_call_tool=call_tool)


host(app, lambda: app.streamable_http_app(json_response=fast, stateless_http=fast))
