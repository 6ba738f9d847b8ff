"""The bench tools on FastMCP: `fastmcp_server.py stdio|PORT [fast|default] [theirs|ours]`.

ours: the same object, hosted by headrace. fast: uvloop, httptools, JSON answers, stateless, no structured content beside the text. default: what `run("http")` gives.
"""

import sys

from fastmcp import FastMCP

from tools import TOOLS

where, mode, by = (sys.argv[1:] + ["", "default", "theirs"][len(sys.argv) - 1 :])[:3]
fast = mode == "fast"
app = FastMCP("bench")
for tool in TOOLS:
    app.tool(tool, output_schema=None) if fast else app.tool(tool)

if by == "ours":
    sys.argv[1:] = [where, mode, "high", by]
    from sdk_hosting import on_headrace

    on_headrace(app, where, fast)
elif where == "stdio":
    if fast:
        import uvloop

        uvloop.install()
    app.run("stdio", show_banner=False)
else:
    import uvicorn

    http_app = app.http_app(path="/mcp", json_response=fast, stateless_http=fast)
    options = {"loop": "uvloop", "http": "httptools"} if fast else {"loop": "asyncio", "http": "h11"}
    uvicorn.run(http_app, host="127.0.0.1", port=int(where), log_level="error", access_log=False, **options)
