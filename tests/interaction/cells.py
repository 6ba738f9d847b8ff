"""Cells of the interaction matrix: {memory, stdio, unix, http} x five revisions x {asyncio, uvloop}, and HTTP+SSE with
the oldest and the newest revision that it carries.

Strategy: one event loop of each kind lives as long as the test process, with one server on it that listens
everywhere; every cell keeps one connection, opened by the first test that needs it.
"""

import asyncio
import itertools
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

import headrace
from headrace import RpcError, connect
from headrace.errors import InputRefused
from headrace.jsonrpc import REVISIONS
from headrace.transports.http_server import serve_http
from headrace.transports.stream import serve_lines
from interaction.app import make_app

try:
    import uvloop
except ImportError:
    uvloop = None

__all__ = ("R1", "R2", "R3", "R4", "R5", "TRANSPORTS", "Cell", "World", "cells", "refused", "until")

R1, R2, R3, R4, R5 = REVISIONS
TRANSPORTS = ("memory", "stdio", "unix", "http")
LOOPS = ("asyncio", "uvloop") if uvloop is not None else ("asyncio",)
CAP = 30.0  # seconds one test may take
APP = Path(__file__).parent / "app.py"
SOURCE = str(Path(headrace.__file__).resolve().parents[1])


def cells(transports=TRANSPORTS, revisions=REVISIONS):
    """(loop, transport, revision) of every cell, and their names for pytest."""
    found = list(itertools.product(LOOPS, transports, revisions))
    found += [(loop, "sse", revision) for loop in LOOPS for revision in (R1, R4) if revision in revisions]
    return found, ["-".join(each) for each in found]


class Answers:
    """What the client of a cell was asked, and what it answers: tests may replace `elicit`, `sample`, `roots`."""

    def __init__(self):
        self.asked = []
        self.reset()

    def reset(self):
        self.asked.clear()
        self.elicit = lambda params: {"name": "Ada", "sure": True} if params.mode == "form" else True
        self.sample = lambda params: "a thought"
        self.roots = lambda: ["/work"]

    def on_elicit(self, params):
        self.asked.append(params)
        answer = self.elicit(params)
        if isinstance(answer, dict):
            known = params.requested_schema["properties"]
            answer = {key: value for key, value in answer.items() if key in known}
        return answer

    def on_sample(self, params):
        self.asked.append(params)
        answer = self.sample(params)
        if answer is None:
            raise InputRefused("no")
        return answer

    def on_roots(self):
        self.asked.append("roots")
        return self.roots()


class Cell:
    """One combination; `run(test)` runs `test(cell)` on its loop with `client` open."""

    def __init__(self, world, transport, revision):
        self.world = world
        self.transport = transport
        self.revision = revision
        self.modern = revision == R5
        self.answers = Answers()
        self.logs = []
        self.changed = []
        self.updated = []
        self.client = None

    @property
    def target(self):
        world = self.world
        return {
            "memory": world.app,
            "stdio": [sys.executable, str(APP), world.loop_name],
            "unix": f"unix:{world.socket}",
            "http": world.url,
            "sse": world.sse_url,
        }[self.transport]

    def connect(self, **options):
        """A connection of its own; also to what the shared one is not opened with."""
        if self.transport == "stdio":
            options["env"] = {"PYTHONPATH": SOURCE}
        if self.transport == "sse":
            options["transport"] = "sse"
        return connect(self.target, revision=self.revision, **options)

    async def open(self):
        if self.client is not None and not self.client.closed:
            return
        self.client = await self.world.stack.enter_async_context(
            self.connect(
                on_log=self.logs.append,
                log_level="debug",
                on_list_changed=self.changed.append,
                on_resource_updated=self.updated.append,
                roots=self.answers.on_roots,
                sampling=self.answers.on_sample,
                elicitation=self.answers.on_elicit,
                elicitation_modes=("form", "url"),
            )
        )

    def run(self, test, *args):
        async def trial():
            async with asyncio.timeout(CAP):
                await self.open()
                self.answers.reset()
                self.logs.clear()
                self.changed.clear()
                self.updated.clear()
                await test(self, *args)

        self.world.run(trial)

    def since(self, revision):
        """Whether this cell's revision is `revision` or newer."""
        return self.revision >= revision


class World:
    """One event loop with the server on it and the connections of its cells."""

    def __init__(self, loop_name, folder):
        self.loop_name = loop_name
        self.socket = folder / f"{loop_name}.sock"
        factory = uvloop.new_event_loop if loop_name == "uvloop" else asyncio.new_event_loop
        self._runner = asyncio.Runner(loop_factory=factory)
        self.cells = {}
        self.stack = AsyncExitStack()
        self.run(self._start)

    def run(self, fn, *args):
        return self._runner.run(fn(*args))

    async def _start(self):
        self.app = make_app()
        # Connections are entered and left by tasks of their own: the server must not care.
        self._stop = asyncio.Event()
        ready = asyncio.Event()
        self._serving = asyncio.ensure_future(self._serve(ready))
        await ready.wait()

    async def _serve(self, ready):
        async with self.app.running():
            http = await serve_http(self.app, host="127.0.0.1", port=0, legacy_sse=True)
            lines = await serve_lines(self.app, unix=str(self.socket))
            self.url = http.url
            self.sse_url = http.url.removesuffix("/mcp") + "/sse"
            ready.set()
            await self._stop.wait()
            await asyncio.gather(http.close(), lines.close())

    def cell(self, transport, revision):
        key = transport, revision
        if key not in self.cells:
            self.cells[key] = Cell(self, transport, revision)
        return self.cells[key]

    def close(self):
        async def end():
            await self.stack.aclose()
            self._stop.set()
            await self._serving

        self.run(end)
        self._runner.close()


async def until(condition, seconds=5.0):
    """Waits for `condition()`, bounded."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


async def refused(awaitable):
    """The error that it must end with."""
    with pytest.raises(RpcError) as caught:
        await awaitable
    return caught.value
