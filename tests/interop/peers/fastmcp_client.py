"""FastMCP's Client against a server; prints what it saw as one JSON object: `fastmcp_client.py TARGET`."""

import asyncio
import json
import sys
import warnings

warnings.simplefilter("ignore")

from fastmcp import Client  # noqa: E402
from fastmcp.client.transports import StdioTransport  # noqa: E402
from fastmcp.exceptions import ToolError  # noqa: E402


async def main():
    target = sys.argv[1]
    if not target.startswith("http"):
        command, *args = json.loads(target)
        target = StdioTransport(command=command, args=args)
    seen = {}
    progress = []

    async def on_progress(done, total, message):
        progress.append([done, total, message])

    async with Client(target, progress_handler=on_progress) as client:
        seen["tools"] = sorted(tool.name for tool in await client.list_tools())
        seen["add"] = (await client.call_tool("add", {"a": 1, "b": 2})).content[0].text
        seen["echo"] = (await client.call_tool("echo", {"text": "é€😀"})).content[0].text
        seen["point"] = (await client.call_tool("point", {"x": 1, "y": 2.5})).structured_content
        seen["count"] = (await client.call_tool("count", {"to": 10})).content[0].text
        seen["progress"] = progress
        try:
            await client.call_tool("fail", {"message": "as told"})
        except ToolError as exc:
            seen["fail"] = str(exc)
        try:
            await client.call_tool("no_such_tool")
        except Exception as exc:
            seen["unknown"] = str(exc)
        answers = await asyncio.gather(*(client.call_tool("add", {"a": n, "b": 1}) for n in range(200)))
        seen["together"] = [answer.content[0].text for answer in answers] == [str(n) for n in range(1, 201)]
    print(json.dumps(seen))


asyncio.run(asyncio.wait_for(main(), 50))
