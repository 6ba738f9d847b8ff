"""Metrics of several processes: workers tell their supervisor what they count, and it shows the sums.

Messages on the line between them (:mod:`headrace.hosting.workers.line`): ``figures`` (a worker's, every second what
changed, and once more when it ends), ``collect`` (asks a worker for all of its figures), ``metrics`` (asks the
supervisor for the text, for a page that a worker serves).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from typing import TYPE_CHECKING, Any

from headrace.hosting.metrics import Metrics, Totals
from headrace.hosting.metrics_page import Unreadable, text_of
from headrace.hosting.workers.line import LineLost

if TYPE_CHECKING:
    from headrace.hosting.workers.line import Line
    from headrace.hosting.workers.process import WorkerProcess
    from headrace.hosting.workers.supervisor import Supervisor

__all__ = ("Collecting", "asking_supervisor", "telling")

_EVERY = 1.0
"""Seconds between two messages of a worker."""
_PATIENCE = 1.0
"""Seconds that a worker has to tell all of its figures; what it told before stands in for them otherwise."""


@contextlib.contextmanager
def telling(line: Line, metrics: Metrics) -> Iterator[None]:
    """In a worker: tells the supervisor what ``metrics`` count, the last of it at the end."""
    loop = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def wait() -> None:
        nonlocal timer
        timer = loop.call_later(_EVERY, tell)

    def tell() -> None:
        line.send("figures", figures=metrics.figures(changed=True))
        wait()

    wait()
    line.on("collect", lambda fields: metrics.figures())
    try:
        yield
    finally:
        timer.cancel()
        line.send("figures", figures=metrics.figures())


def asking_supervisor(line: Callable[[], Line | None]) -> Callable[[str], Awaitable[tuple[bytes, str]]]:
    """In a worker: what gives the text of a page for an ``Accept`` header. Raises :class:`Unreadable` where the
    supervisor does not answer."""

    async def ask(accept: str) -> tuple[bytes, str]:
        open_line = line()
        if open_line is None:
            raise Unreadable("the process is about to end")
        try:
            text, content_type = await open_line.ask("metrics", timeout=_PATIENCE + 4.0, accept=accept)
        except (LineLost, TimeoutError, RuntimeError) as exc:
            raise Unreadable(f"the supervisor does not answer: {exc}") from exc
        return text.encode(), content_type

    return ask


class Collecting:
    """In a supervisor: the figures of all its workers."""

    def __init__(self, supervisor: Supervisor) -> None:
        self.totals = Totals()
        self._supervisor = supervisor
        supervisor.on("figures", self._told)
        supervisor.on("metrics", self._wanted)
        supervisor.on_exit(self.totals.gone)

    def _told(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        self.totals.take(worker, fields["figures"])

    async def _wanted(self, worker: WorkerProcess, fields: dict[str, Any]) -> tuple[str, str]:
        text, content_type = await self.text(fields["accept"])
        return text.decode(), content_type

    async def text(self, accept: str = "") -> tuple[bytes, str]:
        """The text of now and its content type; see :func:`headrace.hosting.metrics_page.text_of`."""
        supervisor, totals = self._supervisor, self.totals
        await asyncio.gather(*(self._ask(worker) for worker in supervisor.workers if worker.ready))
        totals.restarts = supervisor.restarts
        totals.serving = len(supervisor.serving)
        for worker, numbers in totals.workers.items():
            # One that drains has a name of its own: its place may be taken already.
            here = supervisor.current.get(worker.index) is worker
            numbers.name = str(worker.index) if here else f"{worker.index}-{worker.pid}"
        return text_of(totals, accept)

    async def _ask(self, worker: WorkerProcess) -> None:
        try:
            figures = await worker.line.ask("collect", timeout=_PATIENCE)
        except (LineLost, TimeoutError, RuntimeError):
            return
        if worker in self._supervisor.workers:
            self.totals.take(worker, figures)
