"""The server of the field trials: tools that provoke what has broken elsewhere."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from contextvars import ContextVar

from headrace import Context, Server

print("a stray line at import")  # B08: must come out on stderr

app = Server("bench", version="1.0.0")
who: ContextVar[str] = ContextVar("who", default="nobody")
running = peak = 0


@app.tool
async def echo(text: str) -> str:
    return text


@app.tool
async def length(text: str) -> int:
    return len(text)


@app.tool
async def json(v: dict) -> dict:
    return {"v": v}


@app.tool
async def big(n: int) -> str:
    return "x" * n


@app.tool
async def sleep(ms: float, record: str | None = None, pad: str = "") -> str:
    """Sleeps; appends how it ended to the file `record`."""
    global running, peak
    running += 1
    peak = max(peak, running)
    how = "cancelled"
    try:
        await asyncio.sleep(ms / 1000)
        how = "finished"
    finally:
        running -= 1
        if record is not None:
            with open(record, "a") as file:
                file.write(how + "\n")
    return how


@app.tool
def block(ms: float) -> str:
    time.sleep(ms / 1000)
    return "blocked"


@app.tool
async def progress(ctx: Context, n: int, gapms: float = 0) -> str:
    for number in range(1, n + 1):
        await ctx.progress(number, n)
        if gapms:
            await asyncio.sleep(gapms / 1000)
    return "done"


@app.tool
def threaded_progress(ctx: Context, n: int) -> str:
    for number in range(1, n + 1):
        ctx.progress(number, n)
    return "done"


@app.tool
def stderr(n: int) -> str:
    os.write(2, b"e" * n)
    return "written"


@app.tool
async def print_(s: str) -> str:
    print(s)
    sys.stdout.write(s)
    sys.stdout.flush()
    os.write(1, s.encode())
    return "printed"


@app.tool
def spawn(argv: list[str]) -> str:
    """Runs a program that inherits our standard streams."""
    return str(subprocess.run(argv, check=False).returncode)


@app.tool
def output_of(argv: list[str]) -> str:
    """Runs a program and gives what it wrote."""
    return subprocess.run(argv, check=False, stdout=subprocess.PIPE, text=True).stdout.strip()


@app.tool
async def read_input() -> str:
    """What a tool that reads standard input gets."""
    return sys.stdin.read()


@app.tool
async def thread(seconds: float) -> str:
    """Leaves a thread behind that is no daemon."""
    threading.Thread(target=time.sleep, args=(seconds,)).start()
    return "started"


@app.tool
async def executor(seconds: float) -> str:
    """Blocks a thread of the loop's own executor."""
    await asyncio.to_thread(time.sleep, seconds)
    return "slept"


class Unprintable(Exception):
    def __str__(self) -> str:
        raise ValueError("no text for you")


class Fatal(BaseException):
    pass


def _deep(n: int) -> int:
    return _deep(n + 1) + 1


@app.tool
async def boom(kind: str) -> object:
    """Fails in every way there is."""
    match kind:
        case "cancelled":
            raise asyncio.CancelledError
        case "base":
            raise Fatal("secret")
        case "stop":
            raise StopIteration
        case "recursion":
            return _deep(0)
        case "group":
            raise ExceptionGroup("secret", [ValueError("secret")])
        case "unprintable":
            raise Unprintable
        case "object":
            return object()
        case "nan":
            return {"v": float("nan")}
        case "cycle":
            loop: list = []
            loop.append(loop)
            return loop
        case "bytes":
            return {"v": {1, 2, 3}, "w": object}
    raise RuntimeError("secret")


@app.tool
def boom_in_thread(kind: str) -> str:
    match kind:
        case "stop":
            raise StopIteration
        case "base":
            raise Fatal("secret")
        case "exit":
            raise SystemExit(3)
    raise RuntimeError("secret")


@app.tool
def context_variable() -> str:
    """A context variable as a worker thread sees it."""
    return who.get()


@app.tool
async def ctx(c: Context) -> dict:
    return {"who": c.headers.get("x-who"), "variable": who.get()}


@app.tool
async def stat() -> dict:
    return {"tasks": len(asyncio.all_tasks()), "fds": len(os.listdir("/proc/self/fd")), "peak": peak}
