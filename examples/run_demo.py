"""`make demo`: hosts the demo tool server over HTTP in a process of its own, calls it, measures, stops it."""

import asyncio
import contextlib
import os
import signal
import sys
import time
from pathlib import Path

from headrace import connect

DEMO = Path(__file__).with_name("demo.py")
SECONDS = 3.0
CALLERS = 32


async def host() -> tuple[asyncio.subprocess.Process, str]:
    """Starts the server on a free loopback port and returns it with its URL."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "headrace", "serve", str(DEMO), "--http", "127.0.0.1:0",
        stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    line = (await asyncio.wait_for(process.stderr.readline(), 30)).decode().strip()
    url = line.rpartition(" ")[2]
    if not url.startswith("http://"):
        raise SystemExit(f"the demo server did not start: {line}")
    print(line)
    return process, url


async def main() -> None:
    process, url = await host()
    try:
        async with connect(url) as client:
            tools = await client.list_tools()
            print(f"connected to {client.server_info.name}, protocol {client.protocol_version}, "
                  f"tools: {', '.join(tool.name for tool in tools)}")  # fmt: skip
            result = await client.call_tool("add", {"a": 1, "b": 2})
            print(f"add a=1 b=2 -> {result.content[0].text}")
            result = await client.call_tool("count", {"to": 3}, on_progress=lambda done, total, message: print(f"  progress {done} of {total}"))
            print(f"count to=3 -> {result.content[0].text}")

            stop = time.perf_counter() + SECONDS
            calls = 0

            async def caller() -> None:
                nonlocal calls
                while time.perf_counter() < stop:
                    answer = await client.call_tool("echo", {"text": "hello"})
                    assert answer.content[0].text == "hello"
                    calls += 1

            start = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(CALLERS)))
            took = time.perf_counter() - start
            print(f"throughput: {calls / took:,.0f} checked calls per second over HTTP "
                  f"({CALLERS} at a time, {calls:,} calls, server and client on this machine)")  # fmt: skip
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGINT)
        await asyncio.wait_for(process.wait(), 10)
    print(f"server stopped with status {process.returncode}")
    if process.returncode != 0:
        raise SystemExit(1)


if __name__ == "__main__":
    asyncio.run(main())
