"""Version 1 of the official Python SDK's ClientSession on headrace's transports; prints what sdk1_client.py prints.

    sdk1_client_ways.py WAY LOOP TARGET     WAY: sdk or streams; LOOP: asyncio or uvloop
"""

import contextlib
import json
import sys

import anyio
import sdk1_client

from headrace.integrations.mcp_sdk import http_transport, stdio_transport

way, loop = sys.argv.pop(1), sys.argv.pop(1)


@contextlib.asynccontextmanager
async def open_streams(target):
    if target.startswith("http"):
        async with http_transport(target) as (reader, writer, get_session_id):
            yield reader, writer
            assert get_session_id() is not None
    else:
        command, *args = json.loads(target)
        async with stdio_transport(command, *args) as (reader, writer):
            yield reader, writer


if way != "sdk":
    sdk1_client.open_streams = open_streams

anyio.run(sdk1_client.main, backend_options={"use_uvloop": loop == "uvloop"})
