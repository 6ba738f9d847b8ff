"""One round of the official SDK's Client, the way it is connected: `embed_client.py JSON`, prints its numbers as one line of JSON.

JSON: {"how": "theirs", "streams" (our transport below their dispatcher) or "dispatcher" (ours), "url" or "command",
"in_flight", "seconds"}. The calls are made by `in_flight` tasks that await one after the other.
"""

import asyncio
import json
import sys
import time

from mcp import Client, StdioServerParameters

TEXT = "a text of ordinary length"


def client_of(job):
    command = job.get("command")
    if job["how"] == "theirs":
        return Client(job["url"] if command is None else StdioServerParameters(command=command[0], args=command[1:]))
    from headrace.integrations import mcp_sdk

    transport = mcp_sdk.http_transport(job["url"]) if command is None else mcp_sdk.stdio_transport(*command)
    return Client(transport) if job["how"] == "streams" else mcp_sdk.connect(transport)


async def main(job):
    made, over = 0, False

    async def work(client):
        nonlocal made
        while not over:
            result = await client.call_tool("echo", {"text": TEXT, "n": 5})
            if result.content[0].text != TEXT:
                raise SystemExit(f"a wrong answer: {result}")
            made += 1

    async with client_of(job) as client:
        tasks = [asyncio.ensure_future(work(client)) for _ in range(job["in_flight"])]

        async def passes(seconds):
            done, _ = await asyncio.wait(tasks, timeout=seconds, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()

        await passes(min(0.5, job["seconds"]))
        before, cpu, start = made, time.process_time(), time.perf_counter()
        for _ in range(20):  # a slow client on a crowded machine has made none yet
            await passes(job["seconds"])
            if made > before:
                break
        wall, cpu, calls = time.perf_counter() - start, time.process_time() - cpu, made - before
        over = True
        await asyncio.gather(*tasks)
    print(json.dumps({"calls": calls, "per_second": calls / wall, "client_cpu_us": cpu / calls * 1e6}))


asyncio.run(main(json.loads(sys.argv[1])))
