"""One round of the official SDK's client, one call at a time: `sdk_client.py URL SECONDS`, prints JSON."""

import asyncio
import json
import sys
import time

from mcp import Client


async def main(url, seconds):
    async with Client(url) as client:
        for _ in range(20):
            await client.call_tool("echo", {"text": "a text of ordinary length", "n": 5})
        made, cpu, start = 0, time.process_time(), time.perf_counter()
        while time.perf_counter() < start + seconds:
            await client.call_tool("echo", {"text": "a text of ordinary length", "n": 5})
            made += 1
        cpu, wall = time.process_time() - cpu, time.perf_counter() - start
    print(json.dumps({"calls": made, "per_second": made / wall, "client_cpu_us": cpu / made * 1e6}))


asyncio.run(main(sys.argv[1], float(sys.argv[2])))
