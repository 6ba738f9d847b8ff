"""A plain handler behind headrace that answers every tools/call by the same result: what carrying alone costs a hosted
server. `plain_host.py stdio|PORT`
"""

import sys

from headrace.server.hosting import run
from headrace.transports.plain import McpHost

where = sys.argv[1]
TEXT = "a text of ordinary length"
# What an MCPServer with structured output answers.
RESULT = {"content": [{"type": "text", "text": TEXT}], "structuredContent": {"result": TEXT}, "isError": False}
MODERN = RESULT | {"resultType": "complete"}
HELLO = {"capabilities": {"tools": {}}, "serverInfo": {"name": "plain", "version": "1"}}


async def handler(method, params, exchange):
    if method == "tools/call":
        return MODERN if exchange.modern else RESULT
    return HELLO | {"protocolVersion": params["protocolVersion"]} if method == "initialize" else {}


run(McpHost(handler), **({} if where == "stdio" else {"http": f"127.0.0.1:{where}"}))
