"""One load process: its share of a plan on its own event loop, in this process or as a child of the run.

A child (``python -m headrace.bench.worker``) gets a line with the plan on its standard input, then ``begin`` with the
time at which all begin, ``record``, ``drain``, ``stop``; it answers on its standard output with frames: four bytes of
length, then msgpack. The end of its input ends it at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

import msgspec

from headrace.bench._load import Load
from headrace.bench.plan import LineTarget, Plan

__all__ = ("Frame", "Share", "main", "new_loop")

_SWEEP = 0.1
"""Seconds between two looks for calls that wait too long."""
_LAG = 0.25
"""Seconds that a sweep may be late before the loop counts as held up."""


_LONG_DRAIN = 1.0
"""Seconds that the calls in flight at the end may take and still belong to the measured time."""


class Frame(msgspec.Struct, tag_field="t", tag="frame", kw_only=True):
    """What a share reports. Sums are since the beginning unless said."""

    kind: str
    """``ready``, ``second``, ``over`` or ``failed``."""
    cpu_s: float = 0.0
    """Of this process, since :attr:`Share.begin`."""
    wall_s: float = 0.0
    ok: int = 0
    """Of the last second."""
    failed: int = 0
    in_flight: int = 0
    second: bytes = b""
    """The histogram of the last second."""
    tally: bytes = b""
    """Everything; at the end."""
    pids: list[int] = []
    """Children that serve."""
    alive: int = 0
    late: bool = False
    """The loop was held up."""
    text: str = ""


def new_loop() -> asyncio.AbstractEventLoop:
    """The fastest loop there is."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def _cpu() -> float:
    return time.process_time()


class Share:
    """A plan's share on the running loop. ``report`` gets every :class:`Frame`, once a second while it runs."""

    def __init__(self, plan: Plan, report: Callable[[Frame], object]) -> None:
        self.load = Load(plan, asyncio.get_running_loop())
        self._report = report
        self._ticker: asyncio.Task[None] | None = None
        self._cpu_0 = 0.0
        self._wall_0 = 0.0
        self._ended: tuple[float, float] | None = None
        self._late = False
        self._due = 0.0
        self.side: Any
        if isinstance(plan.target, LineTarget):
            from headrace.bench.line_side import LineSide

            self.side = LineSide(self.load)
        else:
            from headrace.bench._http_load import HttpSide

            self.side = HttpSide(self.load)

    def _pids(self) -> list[int]:
        return list(getattr(self.side, "pids", ()))

    async def open(self) -> None:
        """Connects; reports ``ready``."""
        await self.side.open()
        self._report(Frame(kind="ready", pids=self._pids(), alive=self.side.alive))

    def begin(self, at: float | None = None, *, recording: bool = True) -> None:
        """Starts the load, at ``at`` of ``time.monotonic()`` if that is given."""
        loop = self.load.loop
        if at is not None and (wait := at - time.monotonic()) > 0:
            loop.call_later(wait, self._begin, recording)
        else:
            self._begin(recording)

    def _begin(self, recording: bool) -> None:
        self._cpu_0, self._wall_0 = _cpu(), time.monotonic()
        self._ticker = self.load.loop.create_task(self._run())
        if self.side.alive:
            self.load.begin(recording)
        else:
            self.load.drain()

    def record(self) -> None:
        """Ends the warm-up."""
        self.load.record()
        self._cpu_0, self._wall_0 = _cpu(), time.monotonic()
        self._late = False
        self._due = time.monotonic() + 1.0

    def drain(self) -> None:
        """Starts nothing new."""
        if self._ended is None:
            self._ended = (_cpu() - self._cpu_0, time.monotonic() - self._wall_0)
        self.load.drain()

    async def _run(self) -> None:
        over = self.load.wait()
        self._due = time.monotonic() + 1.0
        while not over.done():
            before = time.monotonic()
            await asyncio.wait([over], timeout=max(0.0, min(_SWEEP, self._due - before)))
            now = time.monotonic()
            self._late = self._late or now - before > _SWEEP + _LAG
            self.load.sweep()
            if now >= self._due:
                self._due += 1.0
                self._report(self._second("second"))
        frame = self._second("over")
        if self._ended is not None and frame.wall_s - self._ended[1] > _LONG_DRAIN:
            frame.cpu_s, frame.wall_s = self._ended
        frame.tally = self.load.tally.dump()
        self._report(frame)

    def _second(self, kind: str) -> Frame:
        ok, failed, histogram = self.load.tally.tick()
        return Frame(
            kind=kind, cpu_s=_cpu() - self._cpu_0, wall_s=time.monotonic() - self._wall_0, ok=ok, failed=failed,
            in_flight=self.load.in_flight, second=histogram, pids=self._pids(), alive=self.side.alive, late=self._late,
        )  # fmt: skip

    def stop(self) -> Frame:
        """What was measured so far, for an end at once; nothing is reported any more."""
        if self._ticker is not None:
            self._ticker.cancel()
        frame = self._second("over")
        frame.tally = self.load.tally.dump()
        return frame

    async def close(self) -> None:
        """Ends the connections and their children."""
        if self._ticker is not None:
            self._ticker.cancel()
        self.load.disarm()
        await self.side.close()


# --- the child ---------------------------------------------------------------------------------------


async def _serve(plan: Plan, lines: asyncio.StreamReader, send: Callable[[Frame], object]) -> None:
    share = Share(plan, send)
    opening = asyncio.get_running_loop().create_task(share.open())
    try:
        while line := await lines.readline():
            word, *rest = line.decode("ascii", "replace").split()
            if word == "begin":
                await opening
                share.begin(float(rest[0]), recording=rest[1] == "1")
            elif word == "record":
                share.record()
            elif word == "drain":
                share.drain()
            elif word == "stop":
                if share.load.phase:
                    send(share.stop())
                return
            if opening.done() and opening.exception() is not None:
                await opening
    finally:
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError, Exception):
            await opening
        await share.close()


def main() -> None:
    """The child of a run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the run's, which says what to do
    out = os.dup(1)
    os.dup2(2, 1)

    def send(frame: Frame) -> None:
        data = msgspec.msgpack.encode(frame)
        view = memoryview(struct.pack("<I", len(data)) + data)
        while view:
            view = view[os.write(out, view) :]

    async def run() -> None:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=2**31)
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        text = await reader.readline()
        await _serve(msgspec.json.decode(text, type=Plan), reader, send)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        try:
            runner.run(run())
        except BrokenPipeError:
            pass
        except Exception as exc:
            send(Frame(kind="failed", text=f"{type(exc).__name__}: {exc}"))
            raise


if __name__ == "__main__":
    main()
