"""The official Python SDK's Client on headrace's transports; prints what sdk_client.py prints.

    sdk_client_ways.py WAY LOOP MODE PAGED-TARGET TARGET     WAY: sdk, streams or dispatcher; LOOP: asyncio or uvloop
"""

import json
import sys

import anyio
import sdk_client
from mcp import Client

from headrace.integrations.mcp_sdk import connect, http_transport, stdio_transport

way, loop = sys.argv.pop(1), sys.argv.pop(1)


def place(text):
    if text.startswith("http"):
        return http_transport(text)
    command, *args = json.loads(text)
    return stdio_transport(command, *args)


if way != "sdk":
    sdk_client.place = place
    sdk_client.Client = connect if way == "dispatcher" else Client

anyio.run(sdk_client.main, backend_options={"use_uvloop": loop == "uvloop"})
