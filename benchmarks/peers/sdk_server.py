"""The bench tools on the official Python SDK: `sdk_server.py stdio`, `sdk_server.py PORT [fast|default]`.

fast: uvloop, httptools, JSON answers, stateless. default: what `run("streamable-http")` gives.
"""

import sys

from mcp.server import MCPServer

app = MCPServer("bench")


@app.tool()
async def echo(text: str, n: int) -> str:
    return text


@app.tool()
async def add(a: int, b: int) -> int:
    return a + b


if __name__ == "__main__":
    where = sys.argv[1]
    if where == "stdio":
        app.run("stdio")
    else:
        import uvicorn

        fast = sys.argv[2] == "fast"
        http_app = app.streamable_http_app(json_response=fast, stateless_http=fast)
        options = {"loop": "uvloop", "http": "httptools"} if fast else {"loop": "asyncio", "http": "h11"}
        uvicorn.run(http_app, host="127.0.0.1", port=int(where), log_level="error", access_log=False, **options)
