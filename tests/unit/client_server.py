"""The server that client tests run against, also as a program: ``python client_server.py`` on stdio."""

import asyncio
import dataclasses
import datetime
import sys
import time

import msgspec

from headrace import Context, Limits, RpcError, Server, ToolError

app = Server("tester", version="3.2", title="Tester", instructions="be kind", limits=Limits(drain_timeout=0.3))
running: set[str] = set()


class Point(msgspec.Struct):
    x: int
    y: int = 0


@app.tool
async def add(a: int, b: int) -> int:
    """Adds."""
    return a + b


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def norm(point: Point, when: datetime.date | None = None) -> str:
    return f"{point.x},{point.y},{when}"


@app.tool
def block(seconds: float) -> str:
    time.sleep(seconds)
    return "ok"


@app.tool
async def sleep(seconds: float, key: str = "x") -> str:
    running.add(key)
    try:
        await asyncio.sleep(seconds)
    finally:
        running.discard(key)
    return "slept"


@app.tool
async def active() -> int:
    return len(running)


@app.tool
async def count(ctx: Context, to: int, pause: float = 0.0) -> str:
    for i in range(to):
        ctx.progress(i + 1, to, f"step {i + 1}")
        if pause:
            await asyncio.sleep(pause)
    return "counted"


@app.tool
async def talk(ctx: Context, level: str = "info") -> str:
    ctx.log(level, {"text": "hello"}, "talker")
    return "said"


@app.tool
async def fail() -> str:
    raise ToolError("it went wrong")


@app.tool
async def refuse() -> str:
    raise RpcError(-7, "refused", {"why": "because"})


@app.tool
async def meta(ctx: Context) -> dict:
    return ctx.meta


@dataclasses.dataclass
class Dot:
    x: int


if __name__ == "__main__":
    app.run(loop=sys.argv[1] if len(sys.argv) > 1 else "auto")
