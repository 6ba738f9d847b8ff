"""Several load processes as one: the plan is divided, they begin at the same time, what they report is added up.

One process is no child: it runs on the loop of whoever started the run.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.bench.plan import Plan
from headrace.bench.worker import Frame, Share

__all__ = ("Fleet", "LoadProcessFailed", "divide")

_HEAD_START = 0.05
"""Seconds from the word to the common start."""
_LAST_WORDS = 5.0
"""Seconds that a child gets to end."""
_STDERR_MAX = 2_000


class LoadProcessFailed(RuntimeError):
    """A load process has ended by itself; the text has the end of its stderr."""


def divide(plan: Plan) -> list[Plan]:
    """The shares of ``plan.processes`` load processes, as even as can be; never more processes than connections."""
    n = max(1, min(plan.processes, plan.connections))
    shares = []
    for i in range(n):
        connections = plan.connections // n + (i < plan.connections % n)
        requests = None if plan.requests is None else plan.requests // n + (i < plan.requests % n)
        rate = None if plan.rate is None else plan.rate * connections / plan.connections
        shares.append(
            msgspec.structs.replace(
                plan, connections=connections, requests=requests, rate=rate, processes=1, seed=plan.seed + i
            )
        )
    return shares


class _Here:
    """The one load process that is this one."""

    def __init__(self, plan: Plan, report: Callable[[Frame], object]) -> None:
        self._share = Share(plan, report)

    async def open(self) -> None:
        await self._share.open()

    def begin(self, at: float, recording: bool) -> None:
        self._share.begin(at, recording=recording)

    def record(self) -> None:
        self._share.record()

    def drain(self) -> None:
        self._share.drain()

    async def stop(self) -> Frame | None:
        return self._share.stop()

    async def close(self) -> None:
        await self._share.close()


class _Child:
    """A load process of its own."""

    def __init__(self, plan: Plan, report: Callable[[Frame], object]) -> None:
        self._plan = plan
        self._report = report
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[Any]] = []
        self._stderr = bytearray()
        self._ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._last: Frame | None = None
        self._ending = False

    async def open(self) -> None:
        self._process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "headrace.bench.worker",
            stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )  # fmt: skip
        self._write(msgspec.json.encode(self._plan))
        loop = asyncio.get_running_loop()
        self._errors = loop.create_task(self._read_errors())
        self._tasks = [loop.create_task(self._read()), self._errors]
        await self._ready

    def _write(self, line: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        with contextlib.suppress(ConnectionError, RuntimeError):
            self._process.stdin.write(line + b"\n")

    async def _read(self) -> None:
        assert self._process is not None and self._process.stdout is not None
        stdout = self._process.stdout
        try:
            while True:
                (size,) = struct.unpack("<I", await stdout.readexactly(4))
                frame = msgspec.msgpack.decode(await stdout.readexactly(size), type=Frame)
                if frame.kind == "over":
                    self._last = frame
                if frame.kind == "ready" and not self._ready.done():
                    self._ready.set_result(None)
                if frame.kind != "failed":
                    self._report(frame)
        except (asyncio.IncompleteReadError, ConnectionError, msgspec.MsgspecError):
            if self._ending or self._last is not None:
                return
            code = await self._process.wait()
            await asyncio.wait([self._errors], timeout=1)
            said = self._stderr.decode("utf-8", "replace").strip()
            text = f"a load process ended with status {code}" + (f": {said}" if said else "")
            if not self._ready.done():
                self._ready.set_exception(LoadProcessFailed(text))
            else:
                self._report(Frame(kind="failed", text=text))

    async def _read_errors(self) -> None:
        assert self._process is not None and self._process.stderr is not None
        while data := await self._process.stderr.read(65_536):
            self._stderr += data
            del self._stderr[:-_STDERR_MAX]

    def begin(self, at: float, recording: bool) -> None:
        self._write(b"begin %r %d" % (at, recording))

    def record(self) -> None:
        self._write(b"record")

    def drain(self) -> None:
        self._write(b"drain")

    async def stop(self) -> Frame | None:
        if self._last is None:
            self._ending = True
            self._write(b"stop")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_WORDS):
                    await asyncio.wait(self._tasks[:1])
        return self._last

    async def close(self) -> None:
        self._ending = True
        process = self._process
        if process is None:
            return
        assert process.stdin is not None
        process.stdin.close()
        try:
            async with asyncio.timeout(_LAST_WORDS):
                await process.wait()
        except TimeoutError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)


class Fleet:
    """All load processes of a plan. ``report(index, frame)`` gets what they say."""

    def __init__(self, plan: Plan, report: Callable[[int, Frame], object]) -> None:
        shares = divide(plan)
        kind = _Here if len(shares) == 1 else _Child

        def to(index: int) -> Callable[[Frame], object]:
            return lambda frame: report(index, frame)

        self._members: list[Any] = [kind(share, to(i)) for i, share in enumerate(shares)]

    def __len__(self) -> int:
        return len(self._members)

    async def open(self) -> None:
        """Connects all. Raises :class:`LoadProcessFailed`."""
        tasks = [asyncio.ensure_future(member.open()) for member in self._members]
        try:
            await asyncio.gather(*tasks)
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
            raise

    def begin(self, *, recording: bool) -> float:
        """All begin at the time that is given back, of ``time.monotonic()``."""
        at = time.monotonic() + (_HEAD_START if len(self._members) > 1 else 0.0)
        for member in self._members:
            member.begin(at, recording)
        return at

    def record(self) -> None:
        """Ends the warm-up."""
        for member in self._members:
            member.record()

    def drain(self) -> None:
        """Starts nothing new."""
        for member in self._members:
            member.drain()

    async def stop(self) -> list[Frame | None]:
        """Ends all at once; what each has measured."""
        return list(await asyncio.gather(*(member.stop() for member in self._members)))

    async def close(self) -> None:
        """Leaves nothing behind."""
        await asyncio.gather(*(member.close() for member in self._members))
