"""A tiny SDK on headrace's transports, both sides of it: what an SDK of your own would copy. See docs/embedding.md.

    python embed_sdk.py                         an MCP server on standard input and output
    python embed_sdk.py 127.0.0.1:8000          the same over HTTP, at http://127.0.0.1:8000/mcp
    python embed_sdk.py call URL                a client of that one
    python embed_sdk.py call                    a client of the first one, which it starts itself
"""

import asyncio
import inspect
import sys

from headrace.errors import RpcError
from headrace.jsonrpc import CLIENT_CAPABILITIES, HANDSHAKE_REVISIONS, LATEST_HANDSHAKE, PROTOCOL_VERSION, R5
from headrace.transports import open_command, open_http, serve_blocking

FRESH = {"ttlMs": 0, "cacheScope": "private"}
META = {PROTOCOL_VERSION: R5, CLIENT_CAPABILITIES: {}}


class MiniServer:
    """Tools are functions. What methods mean is here; bytes, eras, sessions, headers and streams are headrace's."""

    def __init__(self, name):
        self.info = {"name": name, "version": "1"}
        self.tools = {}

    def tool(self, function):
        self.tools[function.__name__] = function
        return function

    async def handler(self, method, params, exchange):
        whole = {"resultType": "complete"} if exchange.modern else {}  # every result of 2026-07-28 says so
        match method:
            case "initialize":
                asked = params["protocolVersion"]
                version = asked if asked in HANDSHAKE_REVISIONS else LATEST_HANDSHAKE
                return {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": self.info}
            case "server/discover":
                return whole | {"supportedVersions": [R5], "capabilities": {"tools": {}}} | FRESH
            case "ping":
                return whole
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in self.tools]
                return whole | {"tools": tools} | FRESH
            case "tools/call" if params["name"] in self.tools:
                value = self.tools[params["name"]](exchange, **params.get("arguments", {}))
                text = str(await value if inspect.isawaitable(value) else value)
                return whole | {"content": [{"type": "text", "text": text}]}
        raise RpcError(-32602 if method == "tools/call" else -32601, f"nothing serves {method}")


class MiniClient:
    """The other side, in the era of 2026-07-28: every request says for itself what it is."""

    def __init__(self, peer):
        self.peer = peer

    async def call_tool(self, name, on_progress=None, **arguments):
        params = {"name": name, "arguments": arguments, "_meta": META}
        result = await self.peer.request("tools/call", params, timeout=30, on_progress=on_progress)
        return result["content"][0]["text"]


app = MiniServer("mini")


@app.tool
async def add(exchange, a, b):
    exchange.progress(1, 2, "half")
    await asyncio.sleep(0)
    return a + b


async def call(url=None):
    async with open_http(url) if url else open_command([sys.executable, __file__], inherit_env=True) as peer:
        print(await MiniClient(peer).call_tool("add", print, a=1, b=2))


if __name__ == "__main__":
    if sys.argv[1:2] == ["call"]:
        asyncio.run(call(*sys.argv[2:]))
    elif len(sys.argv) > 1:
        serve_blocking(app.handler, http=sys.argv[1], on_ready=print)
    else:
        serve_blocking(app.handler)
