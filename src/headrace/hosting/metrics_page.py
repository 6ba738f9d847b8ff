"""Figures as Prometheus wants them: names, labels, help, the text, and the page that shows it.

``prometheus_client`` makes the text (extra ``metrics``). Every name stands in :data:`EXPORTED`; ``docs/metrics.md``
lists them.
"""

from __future__ import annotations

import platform
from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace._version import __version__
from headrace.errors import UsageError
from headrace.hosting.metrics import LAG_BUCKETS, Numbers, Totals
from headrace.mux import BUCKETS, STATUSES

if TYPE_CHECKING:
    from prometheus_client import Metric

    from headrace.transports.health import Health

__all__ = ("EXPORTED", "Exported", "Page", "Unreadable", "families", "require", "text_of")


class Exported(NamedTuple):
    """One exported metric."""

    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


EXPORTED = (
    Exported(
        "headrace_requests_total", "counter", ("method", "tool", "revision", "status"),
        "Requests that ended, by how they ended.",
    ),
    Exported(
        "headrace_request_duration_seconds", "histogram", ("method", "tool"),
        "From the arrival of a request at its handler to its complete answer.",
    ),
    Exported("headrace_errors_total", "counter", ("code",), "JSON-RPC errors that were answered, by code."),
    Exported("headrace_refusals_total", "counter", ("kind",), "What was refused before a handler saw it, by kind."),
    Exported("headrace_requests_in_flight", "gauge", (), "Requests that handlers work on."),
    Exported("headrace_connections", "gauge", ("transport",), "Open connections."),
    Exported("headrace_sessions", "gauge", ("transport",), "Sessions of HTTP, and one of each line connection."),
    Exported("headrace_streams", "gauge", (), "Open event streams of HTTP."),
    Exported("headrace_listens", "gauge", (), "Open subscriptions/listen requests."),
    Exported("headrace_queue_bytes", "gauge", (), "Output that peers have not taken yet."),
    Exported("headrace_body_bytes", "gauge", (), "Memory of request bodies that are being received."),
    Exported("headrace_loop_lag_seconds", "histogram", (), "How late the event loop was, four times a second."),
    Exported("headrace_workers", "gauge", (), "Processes that serve."),
    Exported("headrace_worker_restarts_total", "counter", (), "Workers started in the place of one that died."),
    Exported("headrace_worker_connections", "gauge", ("worker",), "Open connections of one worker."),
    Exported("headrace_worker_cpu_seconds_total", "counter", ("worker",), "CPU time of one worker."),
    Exported("headrace_worker_memory_bytes", "gauge", ("worker",), "Resident memory of one worker."),
    Exported("headrace_worker_open_fds", "gauge", ("worker",), "Open descriptors of one worker."),
    Exported("headrace_worker_start_time_seconds", "gauge", ("worker",), "When a worker started, in Unix time."),
    Exported("headrace_build_info", "gauge", ("version", "python"), "Always 1."),
)  # fmt: skip

_NOT_TIMED = frozenset({"subscriptions/listen"})
"""They take as long as the client likes: as latencies they would only hide the others."""


def families(totals: Totals) -> Iterator[Metric]:
    """The metric families of prometheus_client."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    kinds = {"counter": CounterMetricFamily, "gauge": GaugeMetricFamily, "histogram": HistogramMetricFamily}
    samples = dict(_samples(totals))
    for name, kind, labels, help in EXPORTED:
        found = samples.get(name)
        if found is None:
            continue
        family = kinds[kind](name.removesuffix("_total") if kind == "counter" else name, help, labels=labels)
        for values, value in found:
            if kind == "histogram":
                family.add_metric(values, buckets=value[0], sum_value=value[1])
            else:
                family.add_metric(values, value)
        yield family


Samples = list[tuple[tuple[str, ...], Any]]


def _samples(totals: Totals) -> Iterator[tuple[str, Samples]]:
    """(name, samples) of everything."""
    figures = totals.sum()
    yield from _requests(figures)
    yield "headrace_errors_total", [((code,), number) for code, number in sorted(figures.errors.items())]
    yield "headrace_refusals_total", [((kind,), number) for kind, number in sorted(figures.refusals.items())]
    now = figures.now
    yield "headrace_requests_in_flight", [((), now.get("in_flight", 0))]
    yield "headrace_connections", [(("http",), now.get("http", 0)), (("lines",), now.get("lines", 0))]
    yield "headrace_sessions", [(("http",), now.get("http_sessions", 0)), (("lines",), now.get("line_sessions", 0))]
    holding = (("streams", "streams"), ("listens", "listens"), ("queue_bytes", "queue"), ("body_bytes", "bodies"))
    for name, key in holding:
        yield f"headrace_{name}", [((), now.get(key, 0))]
    lag = figures.lag[0] or [0] * (len(LAG_BUCKETS) + 1)
    yield "headrace_loop_lag_seconds", [((), _histogram(LAG_BUCKETS, lag, figures.lag[1]))]
    if totals.serving is not None:
        yield "headrace_workers", [((), totals.serving)]
        yield "headrace_worker_restarts_total", [((), totals.restarts)]
    yield (
        "headrace_worker_connections",
        [((each.name,), each.now.get("http", 0) + each.now.get("lines", 0)) for each in totals.workers.values()],
    )
    for name, key in (
        ("cpu_seconds_total", "cpu"),
        ("memory_bytes", "memory"),
        ("open_fds", "descriptors"),
        ("start_time_seconds", "started"),
    ):
        yield (
            f"headrace_worker_{name}",
            [((each.name,), each.process[key]) for each in totals.workers.values() if key in each.process],
        )
    yield "headrace_build_info", [((__version__, platform.python_version()), 1)]


def _requests(figures: Numbers) -> Iterator[tuple[str, Samples]]:
    counted: Samples = []
    timed: dict[tuple[str, str], Numbers] = {}
    for (method, tool, revision), one in sorted(figures.requests.items()):
        labels = (_label(method), _label(tool), revision)
        for status, number in zip(STATUSES, one[0], strict=True):
            if number or status != "tool_error" or method == "tools/call":
                counted.append(((*labels, status), number))
        if method not in _NOT_TIMED and any(one[1]):
            part = Numbers()
            part.requests["", "", ""] = one
            timed.setdefault(labels[:2], Numbers()).add(part)
    yield "headrace_requests_total", counted
    yield (
        "headrace_request_duration_seconds",
        [
            (labels, _histogram(BUCKETS, each.requests["", "", ""][1], each.requests["", "", ""][2]))
            for labels, each in timed.items()
        ],
    )


def _label(text: str) -> str:
    """Names as they can be written in UTF-8."""
    return text.encode("utf-8", "replace").decode()


def _histogram(
    bounds: Iterable[float], numbers: list[int], seconds: float
) -> tuple[list[tuple[str, float]], float]:
    buckets = []
    total = 0
    for bound, number in zip((*map(str, bounds), "+Inf"), numbers, strict=True):
        total += number
        buckets.append((bound, float(total)))
    return buckets, seconds


def require() -> None:
    """Raises UsageError where prometheus_client is not installed."""
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise UsageError("metrics need prometheus_client: pip install 'headrace[metrics]'") from None


class _One:
    """A registry of one collector."""

    def __init__(self, totals: Totals) -> None:
        self._totals = totals

    def collect(self) -> Iterable[Metric]:
        return families(self._totals)


def text_of(totals: Totals, accept: str = "") -> tuple[bytes, str]:
    """(text, content type) for what the ``Accept`` header of a scrape allows. Raises UsageError without
    prometheus_client."""
    require()
    from prometheus_client.exposition import choose_encoder

    encode, content_type = choose_encoder(accept)
    return encode(_One(totals)), content_type


class Unreadable(Exception):
    """There is no text now; the message says why."""


Ask = Callable[[str], Awaitable[tuple[bytes, str]]]
Scope = MutableMapping[str, Any]


class Page:
    """An ASGI application with the metrics at ``path``; other paths are for ``beside``, or 404.

    :param ask: gives the text of now and its content type for the value of an ``Accept`` header, as :func:`text_of`
        does; :class:`Unreadable` is 503.
    :param health: answered at its paths as well (:mod:`headrace.transports.health`).
    """

    def __init__(self, ask: Ask, *, path: str = "/metrics", health: Health | None = None, beside: Any = None) -> None:
        self._ask = ask
        self._path = path
        self._health = health
        self._beside = beside

    async def __call__(self, scope: Scope, receive: Any, send: Any) -> None:
        """One connection of the ASGI protocol."""
        if self._beside is not None and scope.get("path") != self._path:
            await self._beside(scope, receive, send)
        elif scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
        elif scope["type"] == "http":
            status, body, content_type, more = await self._answer(scope)
            headers = [(b"content-type", content_type.encode()), (b"content-length", b"%d" % len(body)), *more]
            await send({"type": "http.response.start", "status": status, "headers": headers})
            await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Scope) -> tuple[int, bytes, str, list[tuple[bytes, bytes]]]:
        plain = "text/plain; charset=utf-8"
        if self._health is not None and (found := self._health.answer(scope["path"])) is not None:
            return found[0], found[1].encode(), plain, [(b"cache-control", b"no-store")]
        if scope["path"] != self._path:
            return 404, f"there is no such path; metrics are at {self._path}\n".encode(), plain, []
        if scope["method"] not in ("GET", "HEAD"):
            return 405, b"metrics are read with GET\n", plain, [(b"allow", b"GET, HEAD")]
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
        try:
            body, content_type = await self._ask(accept)
        except Unreadable as exc:
            return 503, f"{exc}\n".encode(), plain, [(b"retry-after", b"1")]
        return 200, body, content_type, [(b"cache-control", b"no-store")]
