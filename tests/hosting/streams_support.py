"""Several servers that share sessions, for tests of streams: what they are called with, and how one of them dies."""

import asyncio
import contextlib

from http_support import tiny

from headrace.hosting.backplane import MemoryBackplane, MemoryHub, RedisBackplane
from headrace.protocol.context import Context
from hosting.session_support import Worker, machines

PROGRESS = {"progressToken": "t"}
LIST_CHANGED = "notifications/tools/list_changed"


class Streaming(Worker):
    """One server of several; `queue` lets its tool ``steps`` go on."""

    def __init__(self, app, listener):
        super().__init__(app, listener)
        self.queue = app.queue

    @property
    def shared(self):
        return self.sessions.shared

    async def die(self):
        """Ends as a killed process does: connections break, and it says nothing more."""
        if isinstance(self.backplane, MemoryBackplane):
            self.backplane.die()
        else:
            self.backplane.leaving = True
            await self.backplane._end_tasks()
            await self.backplane._close()
        for link in list(self.endpoint.links):
            link.abort()


def steps_tool(app):
    """Tool ``steps``: sends 1, 2, ... whenever the test lets it, and ends at its word."""
    app.queue = queue = asyncio.Queue()

    @app.tool
    async def steps(ctx: Context, pad: int = 0) -> str:
        done = 0
        while (word := await queue.get()) != "end":
            for _ in range(word):
                done += 1
                await ctx.progress(done, message="x" * pad if pad else None)
        return f"done {done}"


@contextlib.asynccontextmanager
async def workers(count=2, hub=None, limits=None, redis=None, **options):
    """Servers that share one hub, or the Redis of a URL."""
    if redis is None:
        hub = hub or MemoryHub()
    limits = limits or tiny(notify_interval=0.01)
    make = (lambda: RedisBackplane(redis, timeout=0.5, lease=2.0)) if redis else (lambda: MemoryBackplane(hub))
    async with machines(make, count, limits, kind=Streaming, prepare=steps_tool, **options) as found:
        yield found


def call_steps(worker, sid, id=1, pad=0):
    """The call of ``steps`` as bytes."""
    return worker.legacy(sid, "tools/call", {"name": "steps", "arguments": {"pad": pad}, "_meta": PROGRESS}, id)


async def begun(a, steps=2, pad=0):
    """A call of ``steps`` on `a` that has sent so many events: (session id, peer, event ids)."""
    sid = await a.begin()
    caller = await a.connect()
    caller.send(call_steps(a, sid, 7, pad))
    a.queue.put_nowait(steps)
    status, headers = await caller.head()
    assert (status, headers["content-type"]) == (200, ["text/event-stream"])
    ids = []
    while len(ids) < steps:
        id, message = await caller.event()
        assert message["params"]["progress"] == len(ids) + 1
        ids.append(id)
    return sid, caller, ids


def said(events):
    """Progress values and results of events, in order."""
    return [
        message["params"]["progress"] if "params" in message else message.get("result", message.get("error"))
        for _, message in events
    ]
