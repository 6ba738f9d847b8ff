"""The official Python SDK's Client on headrace's transports; prints what sdk_client.py prints, a line a way.

    sdk_client_ways.py MODE PAGED-TARGET [WAY LOOP TARGET]...     WAY: sdk, streams or dispatcher
                                                                  LOOP: asyncio or uvloop
"""

import json
import sys

import anyio
import sdk_client
from mcp import Client

from headrace.integrations.mcp_sdk import connect, http_transport, stdio_transport

WAYS = {
    "sdk": (sdk_client.place, Client),
    "streams": (lambda text: place(text), Client),
    "dispatcher": (lambda text: place(text), connect),
}


def place(text):
    if text.startswith("http"):
        return http_transport(text)
    command, *args = json.loads(text)
    return stdio_transport(command, *args)


mode, paged, *each = sys.argv[1:]
for way, loop, target in zip(each[::3], each[1::3], each[2::3], strict=True):
    sys.argv[1:] = mode, paged, target
    sdk_client.place, sdk_client.Client = WAYS[way]
    anyio.run(sdk_client.main, backend_options={"use_uvloop": loop == "uvloop"})
