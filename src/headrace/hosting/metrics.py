"""The figures of a server: what it counts and holds, in one process and over several (issue item "seen from outside").

Strategy: requests are counted in C beside their handlers (:class:`headrace.mux.Meter`); everything else is looked up
when somebody asks. What leaves a process is a dict of plain numbers, absolute ones, so that a lost message loses
nothing; what a process that died had counted stays in the sums. The text for Prometheus is made by
:mod:`headrace.hosting.metrics_page`.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from headrace.mux import Meter, Runtime
from headrace.transports._http_server import HttpLink
from headrace.transports.hosting import hosted

__all__ = ("LAG_BUCKETS", "METHODS", "Metrics", "Numbers", "Totals")

METHODS = frozenset(
    (
        "initialize", "ping", "server/discover", "logging/setLevel", "completion/complete",
        "tools/list", "tools/call", "prompts/list", "prompts/get",
        "resources/list", "resources/templates/list", "resources/read", "resources/subscribe", "resources/unsubscribe",
        "subscriptions/listen", "tasks/get", "tasks/list", "tasks/result", "tasks/update", "tasks/cancel",
    )
)  # fmt: skip
"""Methods that are told apart even where nothing but a client has named them yet."""

LAG_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""Upper bounds in seconds."""

_LAG_EVERY = 0.25
"""Seconds between two looks at how late the loop is."""


class Lag:
    """How late the event loop of a runtime comes to what is due."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(LAG_BUCKETS) + 1)
        self.seconds = 0.0
        self.last = 0.0

    def watch(self, runtime: Runtime, alive: Callable[[], bool]) -> None:
        """Looks from now on, as long as ``alive()``."""
        due = runtime.time() + _LAG_EVERY

        def look() -> None:
            nonlocal due
            if not alive():
                return
            self.add(max(runtime.time() - due, 0.0))
            due = runtime.time() + _LAG_EVERY
            runtime.call_at(due, look)

        runtime.call_at(due, look)

    def add(self, late: float) -> None:
        """One look."""
        at = 0
        while at < len(LAG_BUCKETS) and late > LAG_BUCKETS[at]:
            at += 1
        self.buckets[at] += 1
        self.seconds += late
        self.last = late


class _Meter(Meter):
    """Tells its owner of runtimes."""

    owner: Metrics

    def attached(self, runtime: Runtime) -> None:
        self.owner._attached(runtime)


class Metrics:
    """What one process knows of its servers.

    ``Metrics(app)`` before ``app.run(...)`` is all that is needed; :meth:`attach` takes further servers. An instance is
    a collector for ``prometheus_client``: ``REGISTRY.register(Metrics(app))`` adds headrace's figures to what a
    program exports already.

    :param server: a :class:`headrace.Server` or a host of :mod:`headrace.transports.plain`.
    :param knows: says which names are tools, where a host of another SDK serves them: a made-up name never becomes a
        label. Without it a tool has a label of its own from its first good call on.
    """

    def __init__(self, server: Any = None, *, knows: Callable[[str], bool] | None = None) -> None:
        self._meter = _Meter(METHODS, knows)
        self._meter.owner = self
        self._servers: list[Any] = []
        self._runtimes: list[Runtime] = []
        self._tools: list[Any] = []
        self._past_refusals: dict[str, int] = {}
        self._lag = Lag()
        self._started = time.time()
        if server is not None:
            self.attach(server)

    def __repr__(self) -> str:
        return f"<Metrics of {', '.join(map(repr, self._servers)) or 'nothing yet'}>"

    def attach(self, server: Any) -> None:
        """Counts what ``server`` does, from now on or from its start on. RuntimeError where another one does so."""
        if any(server is each for each in self._servers):
            return
        if server.meter is not None:
            raise RuntimeError(f"{server!r} is counted by another Metrics already")
        server.meter = self._meter
        self._servers.append(server)
        tools = getattr(server, "tools", None)
        if hasattr(tools, "__contains__"):
            self._tools.append(tools)
            self._meter.knows = self._meter.knows or self._is_tool
        runtime = getattr(server, "_runtime", None)
        if runtime is not None:
            runtime.measure(self._meter)

    def _is_tool(self, name: str) -> bool:
        return any(name in tools for tools in self._tools)

    @contextlib.contextmanager
    def hosting(self) -> Iterator[Metrics]:
        """Attaches every server that is hosted in here, of whatever kind (see
        :data:`headrace.transports.hosting.hosted`)."""
        token = hosted.set(self.attach)
        try:
            yield self
        finally:
            hosted.reset(token)

    def _attached(self, runtime: Runtime) -> None:
        for gone in self._over():
            # A server that ran before: its refusals go on counting.
            self._runtimes.remove(gone)
            _add(self._past_refusals, gone.refusals)
        if not any(runtime is each for each in self._runtimes):
            self._runtimes.append(runtime)
            self._lag.watch(runtime, lambda: any(runtime is each for each in self._running()))

    def _running(self) -> list[Runtime]:
        return [runtime for server in self._servers if (runtime := _runtime_of(server)) is not None]

    def _over(self) -> list[Runtime]:
        running = self._running()
        return [each for each in self._runtimes if not any(each is one for one in running)] if running else []

    def figures(self, *, changed: bool = False) -> dict[str, Any]:
        """All figures as plain JSON values. With ``changed`` the requests are those that changed since it was last
        asked so, and what it takes time to look up is left out."""
        meter = self._meter
        refusals = dict(self._past_refusals)
        for runtime in self._runtimes:
            _add(refusals, runtime.refusals)
        figures: dict[str, Any] = {
            "requests": meter.requests(changed),
            "errors": {str(code): number for code, number in list(meter.errors.items())},
            "refusals": refusals,
            "lag": [self._lag.buckets, self._lag.seconds],
        }
        if not changed:
            figures["now"] = self._now()
            figures["process"] = _process(self._started)
        return figures

    def _now(self) -> dict[str, int]:
        now = dict.fromkeys(
            ("in_flight", "http", "lines", "http_sessions", "line_sessions", "streams", "listens", "queue", "bodies"), 0
        )
        for runtime in self._running():
            now["in_flight"] += runtime.in_flight
            endpoints: dict[int, Any] = {}
            for link in list(runtime.links):
                now["queue"] += link.unsent_bytes
                if isinstance(link, HttpLink):
                    now["http"] += 1
                    now["streams"] += link.streams
                    endpoints[id(link.endpoint)] = link.endpoint
                else:
                    now["lines"] += 1
            now["bodies"] += sum(endpoint.buffered_bytes for endpoint in endpoints.values())
        for server in self._servers:
            for session in list(getattr(server, "sessions", ())):
                now["http_sessions" if hasattr(session, "key") else "line_sessions"] += 1
            now["listens"] += len(getattr(getattr(server, "hub", None), "listens", ()))
        return now

    def collect(self) -> Iterable[Any]:
        """What ``prometheus_client`` asks a collector for."""
        from headrace.hosting.metrics_page import families

        return families(Totals.alone(self.figures()))


def _runtime_of(server: Any) -> Runtime | None:
    runtime: Runtime | None = getattr(server, "_runtime", None) or server.__dict__.get("runtime")
    return runtime


def _process(started: float) -> dict[str, float]:
    """What the system knows of this process; what it does not tell is left out."""
    process: dict[str, float] = {"cpu": time.process_time(), "started": started}
    try:
        with open("/proc/self/statm") as statm:
            process["memory"] = int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        process["descriptors"] = len(os.listdir("/proc/self/fd"))
    except OSError:
        pass
    return process


def _add(totals: dict[str, int], more: dict[str, int]) -> None:
    for name, number in list(more.items()):
        totals[name] = totals.get(name, 0) + number


Key = tuple[str, str, str]
"""(method, tool, revision)"""


class Numbers:
    """What one process has told, or sums of several."""

    def __init__(self) -> None:
        self.name = "0"
        """Of the process."""
        self.requests: dict[Key, tuple[list[int], list[int], float]] = {}
        """Numbers by status, numbers by bucket, seconds."""
        self.errors: dict[str, int] = {}
        self.refusals: dict[str, int] = {}
        self.lag: tuple[list[int], float] = ([], 0.0)
        self.now: dict[str, int] = {}
        self.process: dict[str, float] = {}

    def take(self, figures: dict[str, Any]) -> None:
        """What :meth:`Metrics.figures` gave; absolute numbers take the place of those that were there."""
        for method, tool, revision, counts, buckets, seconds in figures["requests"]:
            self.requests[method, tool, revision] = (counts, buckets, seconds)
        self.errors = figures["errors"]
        self.refusals = figures["refusals"]
        self.lag = (figures["lag"][0], figures["lag"][1])
        self.now = figures.get("now", self.now)
        self.process = figures.get("process", self.process)

    def add(self, other: Numbers, *, counters_only: bool = False) -> None:
        """Adds the numbers of another process."""
        for key, (counts, buckets, seconds) in other.requests.items():
            mine = self.requests.get(key)
            self.requests[key] = (
                (counts, buckets, seconds)
                if mine is None
                else (_sums(mine[0], counts), _sums(mine[1], buckets), mine[2] + seconds)
            )
        _add(self.errors, other.errors)
        _add(self.refusals, other.refusals)
        self.lag = (_sums(self.lag[0], other.lag[0]), self.lag[1] + other.lag[1])
        if not counters_only:
            _add(self.now, other.now)


def _sums(one: list[int], other: list[int]) -> list[int]:
    if not one or not other:
        return list(one or other)
    return [a + b for a, b in zip(one, other, strict=True)]


class Totals:
    """The figures of all workers of a host."""

    def __init__(self) -> None:
        self.workers: dict[Any, Numbers] = {}
        self.past = Numbers()
        """What workers counted that are no more."""
        self.restarts = 0
        """Of workers."""
        self.serving: int | None = None
        """How many workers serve; None where there is one process, and no supervisor."""

    @classmethod
    def alone(cls, figures: dict[str, Any]) -> Totals:
        """Of the one process that there is."""
        totals = cls()
        totals.take(None, figures)
        return totals

    def take(self, worker: Any, figures: dict[str, Any]) -> None:
        """What a worker told."""
        mine = self.workers.get(worker)
        if mine is None:
            mine = self.workers[worker] = Numbers()
        mine.take(figures)

    def gone(self, worker: Any) -> None:
        """A worker has ended: what it had counted stays."""
        mine = self.workers.pop(worker, None)
        if mine is not None:
            self.past.add(mine, counters_only=True)

    def sum(self) -> Numbers:
        """Of all, past ones included."""
        total = Numbers()
        total.add(self.past, counters_only=True)
        for each in self.workers.values():
            total.add(each)
        return total
