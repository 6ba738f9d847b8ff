"""The server under load, which also tells what it holds."""

import asyncio
import contextlib
import gc
import os
import socket
from pathlib import Path

from headrace import Context, Server

app = Server("soak", version="1.0")
app.add_resource("soak://note", "a note")


def descriptors() -> dict[str, int]:
    """Kinds of what is open, and how many of each: files by name, sockets by their peer's port or name."""
    found: dict[str, int] = {}
    for fd in os.listdir("/proc/self/fd"):
        try:
            kind = os.readlink(f"/proc/self/fd/{fd}")
            if kind.startswith("socket:"):
                with socket.socket(fileno=os.dup(int(fd))) as each:
                    name = each.getsockname() if each.family != socket.AF_UNIX else "unix"
                    kind = f"socket {name[1] if isinstance(name, tuple) else name}"
                    with contextlib.suppress(OSError):
                        peer = each.getpeername()
                        kind += f" from {peer[1]}" if isinstance(peer, tuple) else ""
        except OSError:
            continue
        kind = kind.split(":[")[0]
        found[kind] = found.get(kind, 0) + 1
    return found


@app.tool(annotations={"readOnlyHint": True}, inline=True)
def state() -> dict:
    """What this process holds now."""
    gc.collect()
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {
        "pid": os.getpid(),
        "descriptors": sum((open_ := descriptors()).values()),
        "kinds": open_,
        "threads": int(status["Threads"]),
        "tasks": len(asyncio.all_tasks()),
        "sessions": len(app.sessions),
        "listens": len(app.hub.listens),
        "in flight": app.runtime.in_flight,
        "kilobytes": int(status["VmRSS"].split()[0]),
    }


@app.tool(inline=True)
def echo(text: str) -> str:
    return text


@app.tool
async def wait(ms: float) -> str:
    await asyncio.sleep(ms / 1000)
    return "waited"


@app.tool
def thread(n: int) -> str:
    return "x" * n


@app.tool
async def count(to: int, ms: float, ctx: Context) -> str:
    for step in range(1, to + 1):
        await asyncio.sleep(ms / 1000)
        await ctx.progress(step, to)
    return "counted"


@app.tool
async def ask(ctx: Context) -> str:
    answer = await ctx.elicit("Well?", {"type": "object", "properties": {"yes": {"type": "boolean"}}})
    return answer.action


@app.tool(task="optional", task_ttl=2.0)
async def job(ms: float) -> str:
    await asyncio.sleep(ms / 1000)
    return "done"


@app.tool
async def touch() -> str:
    """Has a list and a resource change."""
    app.hub.changed("tools")
    app.notify_resource_updated("soak://note")
    return "touched"
