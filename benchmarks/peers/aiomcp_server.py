"""The bench tools on aiomcp, on uvloop: `aiomcp_server.py stdio|PORT`."""

import asyncio
import sys

import uvloop
from aiomcp import McpServer, McpStdioServerTransport

from tools import TOOLS


async def main() -> None:
    server = McpServer("bench", flags={"skip_mcp_tool_output_schema": True})
    for tool in TOOLS:
        await server.register_tool(tool)
    where = sys.argv[1]
    await server.host(McpStdioServerTransport() if where == "stdio" else f"http://127.0.0.1:{where}/mcp")
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main())
