"""A whole load run: connect, warm up, measure, let what is in flight end, and put it all into a report.

Strategy: the clock of the run is here, the load is in the processes of a :class:`headrace.bench.fleet.Fleet`; what
they say once a second becomes the progress and the report's course over time, and their last words become its sums.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import shlex
import signal
import time
from collections.abc import Callable

import msgspec

from headrace.bench._histogram import Histogram
from headrace.bench._tally import Tally
from headrace.bench.fleet import Fleet, LoadProcessFailed
from headrace.bench.plan import HttpTarget, LineTarget, Plan
from headrace.bench.report import (
    ErrorCount,
    Generator,
    Load,
    MixPart,
    OperationResult,
    Progress,
    Report,
    Second,
    ServerInfo,
    ServerUsage,
    Target,
    Totals,
    latency_of,
    machine,
)
from headrace.bench.usage import Look, Usage
from headrace.bench.worker import Frame, new_loop

__all__ = ("About", "LoadProcessFailed", "Stop", "run", "run_processes")

BUSY = 0.9
"""Part of a core from which on a process counts as saturated."""
_HURRY = 2.0
"""Seconds that calls in flight get when the run was stopped by hand."""
_MARGIN = 3.0
"""Seconds beyond the timeout of the last call until a load process is ended."""
_WHOLE = 0.5
"""Part of a second from which on the last one is shown."""


class About(msgspec.Struct, frozen=True, kw_only=True):
    """What a report says beside the plan."""

    name: str = ""
    """The target as typed."""
    server_name: str = ""
    server_version: str = ""
    payload: int | None = None
    pid: int | None = None
    """A local server whose CPU and memory are to be measured; children of a line target are known."""


class Stop:
    """Ends a run before its time: the first :meth:`request` lets calls in flight end, the second does not."""

    def __init__(self) -> None:
        self.requested = 0
        self._wake: Callable[[], object] | None = None

    def request(self) -> None:
        """To be called in the thread of the run's loop."""
        self.requested += 1
        if self._wake is not None:
            self._wake()


async def run(
    plan: Plan,
    *,
    about: About | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    stop: Stop | None = None,
) -> Report:
    """Makes the load and gives the report. With one load process it runs on the running loop.

    Raises ValueError for a plan without an end, :class:`LoadProcessFailed` when a load process ends by itself.
    """
    if plan.duration_s is None and plan.requests is None:
        raise ValueError("a run needs a duration or a number of requests")
    return await _Run(plan, about or About(), on_progress, stop or Stop()).run()


def run_processes(
    plan: Plan,
    *,
    about: About | None = None,
    on_progress: Callable[[Progress], object] | None = None,
    stop: Stop | None = None,
) -> Report:
    """The same on a loop of its own (uvloop where there is one). Ctrl-C is a :meth:`Stop.request`; ``stop.requested``
    says afterwards whether there was one."""
    ending = stop or Stop()

    async def main() -> Report:
        loop = asyncio.get_running_loop()
        installed = False
        with contextlib.suppress(NotImplementedError, RuntimeError, ValueError):  # not in other threads
            loop.add_signal_handler(signal.SIGINT, ending.request)
            installed = True
        try:
            return await run(plan, about=about, on_progress=on_progress, stop=ending)
        finally:
            if installed:
                loop.remove_signal_handler(signal.SIGINT)

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main())


class _Run:
    def __init__(self, plan: Plan, about: About, on_progress: Callable[[Progress], object] | None, stop: Stop) -> None:
        self._plan = plan
        self._about = about
        self._on_progress = on_progress
        self._stop = stop
        self._loop = asyncio.get_running_loop()
        self._news = asyncio.Event()
        self._fleet = Fleet(plan, self._heard)
        n = len(self._fleet)
        self._queues: list[list[Frame]] = [[] for _ in range(n)]
        self._over: list[Frame | None] = [None] * n
        self._failure: str | None = None
        self._usage = Usage(() if about.pid is None else (about.pid,))
        self._phase = "connecting"
        self._began = time.monotonic()
        self._seconds: list[Second] = []
        self._looks: list[Look] = []
        self._told: Look | None = None
        """The look at the end of the last second that was told."""
        self._cut_short = False

    # --- the course ---------------------------------------------------------------------------------

    async def run(self) -> Report:
        plan = self._plan
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._stop._wake = self._news.set
        self._tell(Progress(phase="connecting"))
        try:
            if await self._opened():
                await self._measure(plan)
            frames = await self._collected()
        finally:
            self._stop._wake = None
            await self._fleet.close()
        return self._report(started, frames)

    async def _opened(self) -> bool:
        """False: stopped before anything was connected."""
        opening = self._loop.create_task(self._fleet.open())
        opening.add_done_callback(lambda _: self._news.set())
        try:
            while not opening.done() and not self._stop.requested:
                await self._news_or(None)
        finally:
            if not opening.done():
                opening.cancel()
                await asyncio.wait([opening])
        if not opening.cancelled():
            opening.result()
        return not self._stop.requested

    async def _measure(self, plan: Plan) -> None:
        warm = plan.warmup_s > 0
        self._phase = "warmup" if warm else "running"
        self._began = self._fleet.begin(recording=not warm)
        self._told = self._look()
        if warm:
            await self._until(self._began + plan.warmup_s)
            self._fleet.record()
            self._phase = "running"
            self._began = time.monotonic()
            for queue in self._queues:
                queue.clear()
            self._looks.clear()
            self._told = self._look()
        await self._until(None if plan.duration_s is None else self._began + plan.duration_s)
        self._look()
        self._phase = "draining"
        self._fleet.drain()
        self._tell(Progress(phase="draining", elapsed_s=time.monotonic() - self._began, left_s=0.0))
        end = time.monotonic() + plan.timeout_s + _MARGIN
        while not all(self._over) and time.monotonic() < end and self._stop.requested < 2:
            if self._stop.requested and not self._cut_short:
                self._cut_short = True
                end = min(end, time.monotonic() + _HURRY)
            await self._news_or(end)

    async def _until(self, end: float | None) -> None:
        """Waits for that time, for the end of all requests, or to be stopped."""
        while not all(self._over) and not self._stop.requested and (end is None or time.monotonic() < end):
            await self._news_or(end)

    async def _news_or(self, end: float | None) -> None:
        if self._failure is not None:
            raise LoadProcessFailed(self._failure)
        if not self._news.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if end is None else max(0.0, end - time.monotonic())):
                    await self._news.wait()
        self._news.clear()
        if self._failure is not None:
            raise LoadProcessFailed(self._failure)

    async def _collected(self) -> list[Frame]:
        if not all(self._over):
            for index, frame in enumerate(await self._fleet.stop()):
                if self._over[index] is None:
                    self._over[index] = frame
        return [frame for frame in self._over if frame is not None]

    # --- what is said -------------------------------------------------------------------------------

    def _heard(self, index: int, frame: Frame) -> None:
        if frame.pids:
            self._usage.add(frame.pids)
        if frame.kind == "failed":
            self._failure = frame.text
        elif frame.kind == "over":
            self._over[index] = frame
        elif frame.kind == "second":
            self._queues[index].append(frame)
            # A load process that is through has no seconds left to wait for.
            while any(self._queues) and all(q or o for q, o in zip(self._queues, self._over, strict=True)):
                self._second([queue.pop(0) for queue in self._queues if queue])
        self._news.set()

    def _look(self) -> Look | None:
        look = self._usage.look()
        if look is not None:
            self._looks.append(look)
        return look

    def _second(self, frames: list[Frame]) -> None:
        before = self._told
        look = self._told = self._look() if self._phase != "draining" else self._looks[-1] if self._looks else None
        cores = look.cpu_s - before.cpu_s if look is not None and before is not None else None
        entry = _second_of(len(self._seconds), frames)
        entry.server_cpu = None if cores is None else round(max(0.0, cores), 3)
        entry.server_rss = look.rss if look is not None else None
        elapsed = time.monotonic() - self._began
        if self._phase == "draining":  # the last whole second is told after its end
            if entry.ok or entry.failed:
                self._seconds.append(entry)
            return
        if self._phase == "running":
            self._seconds.append(entry)
        end = self._plan.warmup_s if self._phase == "warmup" else self._plan.duration_s
        self._tell(
            Progress(
                phase=self._phase,
                elapsed_s=elapsed,
                left_s=None if end is None else max(0.0, end - elapsed),
                ok=entry.ok,
                failed=entry.failed,
                in_flight=sum(frame.in_flight for frame in frames),
                per_second=float(entry.ok),
                p50=entry.p50,
                p99=entry.p99,
                server_cpu=entry.server_cpu,
                server_rss=entry.server_rss,
            )
        )

    def _tell(self, progress: Progress) -> None:
        if self._on_progress is not None:
            self._on_progress(progress)

    # --- the report ---------------------------------------------------------------------------------

    def _report(self, started: str, frames: list[Frame]) -> Report:
        plan, about = self._plan, self._about
        tally = Tally([op.name for op in plan.operations])
        for frame in frames:
            tally.merge(Tally.load(frame.tally))
        seconds = max((frame.wall_s for frame in frames), default=0.0)
        corrected = plan.rate is not None
        ok, failed = tally.ok_total, tally.failed_total
        calls = ok + failed - tally.early - tally.strays  # of the measured time, which CPU time belongs to
        self._last_second(frames, seconds)
        server = self._server(seconds, calls)
        return Report(
            started=started,
            machine=machine(),
            target=_target(plan, about),
            load=Load(
                connections=plan.connections,
                in_flight=plan.in_flight,
                processes=len(self._fleet),
                duration_s=plan.duration_s,
                requests=plan.requests,
                rate=plan.rate,
                warmup_s=plan.warmup_s,
                timeout_s=plan.timeout_s,
                payload=about.payload,
                seed=plan.seed,
                operations=[MixPart(name=op.name, weight=op.weight) for op in plan.operations],
            ),
            totals=Totals(
                seconds=round(seconds, 6),
                completed=ok + failed,
                ok=ok,
                failed=failed,
                per_second=_rate(ok, seconds),
                bytes_out=tally.bytes_out,
                bytes_in=tally.bytes_in,
                reconnects=tally.reconnects,
                notes=tally.notes,
                early=tally.early,
                strays=tally.strays,
                unanswered=sum(frame.in_flight for frame in frames),
                unsent=tally.unsent,
            ),
            latency=latency_of(tally.latency(), corrected=corrected),
            operations=[
                OperationResult(
                    name=op.name,
                    weight=op.weight,
                    ok=tally.ok_of(i),
                    failed=tally.failed_of(i),
                    per_second=_rate(tally.ok_of(i), seconds),
                    latency=latency_of(tally.histograms[i], corrected=corrected),
                )
                for i, op in enumerate(plan.operations)
            ],
            errors=[ErrorCount(kind=kind, count=count, sample=sample) for kind, count, sample in tally.error_list],
            over_time=self._seconds,
            server=server,
            generator=_generator(frames, calls, server, len(self._fleet)),
        )

    def _last_second(self, frames: list[Frame], seconds: float) -> None:
        """What came after the last whole second: shown unless it is a short rest without failures."""
        entry = _second_of(len(self._seconds), frames)
        if entry.failed or (entry.ok and (seconds - len(self._seconds) >= _WHOLE or not self._seconds)):
            self._seconds.append(entry)

    def _server(self, seconds: float, calls: int) -> ServerUsage | None:
        looks = self._looks
        if len(looks) < 2:
            return None
        cpu = max(0.0, looks[-1].cpu_s - looks[0].cpu_s)
        return ServerUsage(
            pid=self._usage.pids[0],
            processes=max(1, self._usage.most),
            cpu_s=round(cpu, 3),
            cpu_us_per_call=round(cpu / calls * 1e6, 3) if calls else 0.0,
            cores=round(cpu / seconds, 3) if seconds > 0 else 0.0,
            rss_start=looks[0].rss,
            rss_max=max(look.rss for look in looks),
            rss_end=looks[-1].rss,
        )


def _second_of(number: int, frames: list[Frame]) -> Second:
    histogram = Histogram()
    for frame in frames:
        if frame.second:
            histogram.merge(Histogram.load(frame.second))
    entry = Second(second=number, ok=sum(f.ok for f in frames), failed=sum(f.failed for f in frames))
    if histogram.count:
        entry.p50 = round(histogram.value_at(50) / 1e3, 3)
        entry.p99 = round(histogram.value_at(99) / 1e3, 3)
        entry.max = round(histogram.max / 1e3, 3)
    return entry


def _rate(count: int, seconds: float) -> float:
    return round(count / seconds, 3) if seconds > 0 else 0.0


def _target(plan: Plan, about: About) -> Target:
    target = plan.target
    if isinstance(target, HttpTarget):
        kind = "http"
        name = f"{'https' if target.tls else 'http'}://{target.host}:{target.port}{target.path}"
    else:
        assert isinstance(target, LineTarget)
        if target.command is not None:
            kind, name = "stdio", shlex.join(target.command)
        elif target.unix is not None:
            kind, name = "unix", f"unix:{target.unix}"
        else:
            kind, name = "tcp", f"tcp:{target.host}:{target.port}"
    info = ServerInfo(name=about.server_name, version=about.server_version) if about.server_name else None
    return Target(kind=kind, name=about.name or name, revision=plan.revision, server=info)


def _generator(frames: list[Frame], calls: int, server: ServerUsage | None, processes: int) -> Generator:
    cpu = sum(frame.cpu_s for frame in frames)
    busiest = max((min(1.0, f.cpu_s / f.wall_s) for f in frames if f.wall_s > 0), default=0.0)
    late = any(frame.late for frame in frames)
    idle_server = server is None or server.cores < BUSY
    busy = busiest > BUSY and idle_server
    what = "the load process" if processes == 1 else f"the busiest of {processes} load processes"
    more = f"use more load processes (--processes {processes + 1}), or another machine for the load"
    if busy and server is None:
        says = (
            f"{what} was busy {busiest:.0%} of the time and the server's CPU is not known: the generator may have "
            f"decided these figures; {more}"
        )
    elif busy and server is not None:
        says = (
            f"{what} was busy {busiest:.0%} of the time while the server used {server.cores:.2f} cores: the "
            f"generator decided these figures, not the server; {more}"
        )
    elif late and idle_server:
        says = f"the loop of a load process was held up: latencies hold waiting of the generator itself; {more}"
    else:
        says = f"not the limit: {what} was busy {busiest:.0%} of the time"
    return Generator(
        cpu_s=round(cpu, 3),
        cpu_us_per_call=round(cpu / calls * 1e6, 3) if calls else 0.0,
        busiest=round(busiest, 3),
        limit=busy or (late and idle_server),
        says=says,
    )
