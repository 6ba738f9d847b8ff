"""Clients that need no socket: httpx2's ASGI transport and Starlette's test client; prints what they saw as JSON."""

import asyncio
import json
import os
import sys

import httpx2
from starlette.testclient import TestClient

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "apps"))
import asgi_hosted

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2026-07-28"}


def call(number):
    body = {
        "jsonrpc": "2.0", "id": number, "method": "tools/call",
        "params": {"name": "add", "arguments": {"a": number, "b": 1}, "_meta": META},
    }  # fmt: skip
    return {"json": body, "headers": HEADERS | {"Mcp-Method": "tools/call", "Mcp-Name": "add"}}


def text(response):
    return response.json()["result"]["content"][0]["text"]


async def with_httpx():
    """Without lifespan events; many at once; a refusal."""
    async with httpx2.AsyncClient(
        transport=httpx2.ASGITransport(asgi_hosted.tools), base_url="http://testserver"
    ) as client:
        together = await asyncio.gather(*(client.post("/mcp", **call(number)) for number in range(50)))
        async with client.stream("POST", "/mcp", content=pieces(), headers=HEADERS) as refused:
            status = refused.status_code
        get = await client.get("/mcp")
        return {
            "together": [text(each) for each in together],
            "refused": status,
            "get": [get.status_code, get.headers["allow"]],
            "head": (await client.head("/mcp")).status_code,
            "options": (await client.options("/mcp")).status_code,
        }


async def pieces():
    for _ in range(5):
        yield b"x" * 10


def with_starlette():
    """Every request of a bare test client has an event loop of its own; as a context it has one, and a lifespan."""
    seen = {}
    client = TestClient(asgi_hosted.starlette())
    seen["alone"] = [text(client.post("/mcp", **call(number))) for number in range(3)]
    with TestClient(asgi_hosted.starlette()) as client:
        seen["living"] = [text(client.post("/mcp/", **call(number))) for number in range(3)]
        seen["health"] = client.get("/health").text
        seen["elsewhere"] = client.post("/other", **call(1)).status_code
        seen["below"] = client.post("/mcp/other", **call(1)).status_code
    with TestClient(asgi_hosted.fastapi()) as client:
        answer = client.post("/mcp", **call(4))
        seen["marked"] = [text(answer), answer.headers["x-marked"]]
    return seen


print(json.dumps({"httpx": asyncio.run(with_httpx()), "starlette": with_starlette()}))
