"""What clients do, well and badly: each function is one visit, short, and leaves in its own way."""

import asyncio
import contextlib
import json
import random

from chaos.caller import Cut, Session, Unwanted, exchange, request, some_events

from headrace import connect
from headrace.errors import HeadraceError

LEGACY, MODERN = "2025-11-25", "2026-07-28"
META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "soak", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


async def calls(url, port):
    """A client of the modern era that behaves."""
    async with connect(url, revision=MODERN) as client:
        await asyncio.gather(
            *(client.call_tool("echo", {"text": "x" * random.choice((1, 100, 5000))}) for _ in range(50))
        )
        await client.call_tool("thread", {"n": 1000})
        await client.list_tools()


async def session(url, port):
    """A client with a session, questions and subscriptions, which ends it."""
    async with connect(url, revision=LEGACY, elicitation=lambda params: {"yes": True}) as client:
        await client.call_tool("ask")
        await client.subscribe("soak://note")
        await client.call_tool("touch")
        await client.call_tool("count", {"to": 3, "ms": 1}, on_progress=lambda *each: None)
        await client.unsubscribe("soak://note")


async def abandoned_session(url, port):
    """No DELETE (B47)."""
    begun = await Session(port).open()
    await begun.call("echo", text="x")


async def tasks(url, port):
    async with connect(url, revision=MODERN, tasks=True) as client:
        handles = [await client.start_tool("job", {"ms": random.choice((1, 20))}) for _ in range(3)]
        await handles[0].result()
        await handles[1].cancel()


async def given_up(url, port):
    """Calls whose callers leave."""
    async with connect(url, revision=random.choice((MODERN, LEGACY))) as client:
        for _ in range(5):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(0.01):
                    await client.call_tool("wait", {"ms": 200})


async def vanished(url, port):
    """The connection breaks in the middle of a call."""
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "wait", "arguments": {"ms": 100}, "_meta": META},
    }
    headers = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: wait"]
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request(port, "POST", json.dumps(message).encode(), headers))
    await asyncio.sleep(random.choice((0, 0.005)))
    writer.transport.abort()


async def left_stream(url, port):
    """A stream that is left, and sometimes resumed."""
    begun = await Session(port).open()
    events = await begun.begin("count", to=10, ms=5, most=2)
    if random.random() < 0.5 and events:
        await begun.resume(events[-1][0])
    if random.random() < 0.5:
        await exchange(port, "DELETE", None, begun._headers())


async def get_stream(url, port):
    """A GET stream that is cut."""
    begun = await Session(port).open()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await some_events(port, "GET", None, begun._headers(), 100)


async def listen(url, port):
    async with connect(url, revision=MODERN) as client, client.listen(tools=True, uris=["soak://note"]):
        await client.call_tool("touch")


async def nonsense(url, port):
    """Bytes that are no HTTP, heads that never end, bodies that stop."""
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(random.choice((
        b"\x16\x03\x01\x02\x00", b"GET / HTTP/9.9\r\n\r\n", b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{",
        b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n[]",
    )))  # fmt: skip
    await asyncio.sleep(random.choice((0, 0.01)))
    random.choice((writer.close, writer.transport.abort))()


async def slow_reader(url, port):
    """Asks for much and reads nothing of it."""
    text = "x" * 200_000
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "echo", "arguments": {"text": text}, "_meta": META},
    }
    headers = [f"MCP-Protocol-Version: {MODERN}", "Mcp-Method: tools/call", "Mcp-Name: echo"]
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(request(port, "POST", json.dumps(message).encode(), headers))
    await asyncio.sleep(0.05)
    await reader.read(100)
    writer.transport.abort()


VISITS = (
    calls, session, abandoned_session, tasks, given_up, vanished, left_stream, get_stream, listen, nonsense, slow_reader,
)  # fmt: skip

ALLOWED = (Cut, OSError, HeadraceError, Unwanted)
"""What a visit may end with: they are counted, and no more than a few of a hundred may."""


async def load(url, port, seconds, callers, seen, wrong):
    """Visits of all kinds, so many at a time."""
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds

    async def caller():
        while loop.time() < until:
            visit = random.choice(VISITS)
            try:
                async with asyncio.timeout(30):
                    await visit(url, port)
            except ALLOWED as exc:
                seen["failed"] += 1
                wrong[f"{visit.__name__}: {exc!r}"] += 1
            seen[visit.__name__] += 1
            await asyncio.sleep(0.02)

    await asyncio.gather(*(caller() for _ in range(callers)))
