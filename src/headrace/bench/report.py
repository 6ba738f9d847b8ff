"""What a load run found, as data: the report that ``headrace bench --json`` writes and everything else reads.

One schema serves the table, the page, comparisons and other programs. Times named ``*_us`` and all latencies are
microseconds, other times are seconds, sizes are bytes. The reference for readers is docs/bench.md.
"""

from __future__ import annotations

import math
import os
import platform
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

import msgspec

from headrace._version import __version__

if TYPE_CHECKING:
    from headrace.bench._histogram import Histogram

__all__ = (
    "BadReport",
    "ErrorCount",
    "Generator",
    "Latency",
    "Load",
    "Machine",
    "MixPart",
    "OperationResult",
    "Progress",
    "Report",
    "Second",
    "ServerUsage",
    "Target",
    "Totals",
    "encode",
    "latency_of",
    "machine",
    "read_report",
)

VERSION = 1
"""Of the schema. Members may be added to a version; readers ignore what they do not know."""

_US = 1_000
"""Nanoseconds of a microsecond: histograms count nanoseconds, reports microseconds."""

_MAX_BUCKETS = 400
"""Rows of a histogram in a report: buckets are joined until no more are left."""


class BadReport(ValueError):
    """A file is no report of this schema; the text says why."""


class Machine(msgspec.Struct, kw_only=True):
    """Where the load came from."""

    cpu: str = ""
    cores: int = 0
    """Processors this process may run on."""
    system: str = ""
    python: str = ""
    headrace: str = ""


class ServerInfo(msgspec.Struct, kw_only=True):
    """What the server says of itself."""

    name: str = ""
    version: str = ""


class Target(msgspec.Struct, kw_only=True):
    """What was measured."""

    kind: str
    """``http``, ``stdio``, ``unix`` or ``tcp``."""
    name: str
    """As typed: the URL, the address, or the command."""
    revision: str = ""
    server: ServerInfo | None = None


class MixPart(msgspec.Struct, kw_only=True):
    """One kind of operation of the load."""

    name: str
    weight: int = 1


class Load(msgspec.Struct, kw_only=True):
    """How it was measured."""

    connections: int = 1
    in_flight: int = 1
    """Calls in flight on each connection."""
    processes: int = 1
    """Load processes."""
    duration_s: float | None = None
    requests: int | None = None
    rate: float | None = None
    """Operations a second over all connections; None is a closed loop."""
    warmup_s: float = 0.0
    timeout_s: float = 30.0
    payload: int | None = None
    """Bytes of the first string argument, when --payload set it."""
    seed: int = 0
    operations: list[MixPart] = []


class Totals(msgspec.Struct, kw_only=True):
    """Sums over the measured time."""

    seconds: float
    completed: int
    """Operations that ended, ``ok + failed``."""
    ok: int
    failed: int
    per_second: float
    """Right answers a second."""
    bytes_out: int = 0
    bytes_in: int = 0
    reconnects: int = 0
    notes: int = 0
    """Notifications received: progress, log messages, changes."""
    early: int = 0
    """Of the failed: before the measured time, while connecting or in the warm-up."""
    strays: int = 0
    """Of the failed: what belongs to no call, such as second answers, or text between the messages."""
    unanswered: int = 0
    """Operations that were under way when the run was ended by hand; neither right nor failed."""
    unsent: int = 0
    """Operations of an open loop whose turn came and which were never sent, as the run ended before."""


class Latency(msgspec.Struct, kw_only=True):
    """Microseconds. Percentiles of right answers only."""

    corrected: bool = False
    """Counted from the intended start of each call (open loop), so that a stall is not omitted."""
    mean: float = 0.0
    stdev: float = 0.0
    min: float = 0.0
    p50: float = 0.0
    p75: float = 0.0
    p90: float = 0.0
    p99: float = 0.0
    p99_9: float = 0.0
    p99_99: float = 0.0
    max: float = 0.0
    histogram: list[tuple[float, int]] = []
    """``[up to this many microseconds, how many]``, ascending, without empty rows."""


class OperationResult(msgspec.Struct, kw_only=True):
    """One kind of operation."""

    name: str
    weight: int = 1
    ok: int
    failed: int
    per_second: float
    latency: Latency


class ErrorCount(msgspec.Struct, kw_only=True):
    """Failures of one kind (see docs/bench.md), with one sample."""

    kind: str
    count: int
    sample: str = ""


class Second(msgspec.Struct, kw_only=True):
    """One second of the run; latencies of the answers that came in it."""

    second: int
    ok: int
    failed: int
    p50: float = 0.0
    p99: float = 0.0
    max: float = 0.0
    server_cpu: float | None = None
    """Cores in use."""
    server_rss: int | None = None


class ServerUsage(msgspec.Struct, kw_only=True):
    """The server's own CPU and memory, with its children, while it was measured."""

    pid: int
    processes: int = 1
    """How many processes were summed up (the most at one time)."""
    cpu_s: float
    cpu_us_per_call: float
    cores: float
    """Cores busy on average."""
    rss_start: int
    rss_max: int
    rss_end: int


class Generator(msgspec.Struct, kw_only=True):
    """The load processes themselves."""

    cpu_s: float = 0.0
    cpu_us_per_call: float = 0.0
    busiest: float = 0.0
    """Part of a core that the busiest load process used, 0 to 1."""
    limit: bool = False
    """Whether the generator, not the server, decided the figures."""
    says: str = ""
    """The same as a sentence, with what to do."""


class Report(msgspec.Struct, kw_only=True):
    """One run."""

    headrace_bench: int = VERSION
    started: str
    """RFC 3339."""
    machine: Machine
    target: Target
    load: Load
    totals: Totals
    latency: Latency
    operations: list[OperationResult]
    errors: list[ErrorCount]
    over_time: list[Second]
    server: ServerUsage | None = None
    generator: Generator


class Progress(msgspec.Struct, kw_only=True):
    """What a run tells while it runs, about once a second."""

    phase: str
    """``connecting``, ``warmup``, ``running`` or ``draining``."""
    elapsed_s: float = 0.0
    """Since the measured time began; in the warm-up, since that began."""
    left_s: float | None = None
    """None where the run ends after a number of requests and no rate is known yet."""
    ok: int = 0
    failed: int = 0
    in_flight: int = 0
    per_second: float = 0.0
    """Of the last second."""
    p50: float = 0.0
    p99: float = 0.0
    """Microseconds, of the last second."""
    server_cpu: float | None = None
    """Cores in use in the last second."""
    server_rss: int | None = None


def latency_of(histogram: Histogram, *, corrected: bool = False) -> Latency:
    """The figures of a report for one histogram of nanoseconds."""
    if not histogram.count:
        return Latency(corrected=corrected)
    at = histogram.value_at
    return Latency(
        corrected=corrected,
        mean=_us(histogram.mean),
        stdev=_us(histogram.stdev),
        min=_us(histogram.min),
        p50=_us(at(50)),
        p75=_us(at(75)),
        p90=_us(at(90)),
        p99=_us(at(99)),
        p99_9=_us(at(99.9)),
        p99_99=_us(at(99.99)),
        max=_us(histogram.max),
        histogram=_joined(histogram.buckets()),
    )


def _us(ns: float) -> float:
    return round(ns / _US, 3)


def _joined(buckets: Iterable[tuple[int, int]]) -> list[tuple[float, int]]:
    """Neighbours joined into rows of equal width on a logarithmic scale, at most ``_MAX_BUCKETS``."""
    rows = [(up_to, count) for up_to, count in buckets if count]
    if len(rows) <= _MAX_BUCKETS:
        return [(_us(up_to), count) for up_to, count in rows]
    low, high = math.log(max(rows[0][0], 1)), math.log(max(rows[-1][0], 1))
    width = (high - low) / (_MAX_BUCKETS - 1)
    joined: dict[int, tuple[int, int]] = {}
    for up_to, count in rows:
        slot = int((math.log(max(up_to, 1)) - low) / width)
        joined[slot] = (up_to, joined.get(slot, (0, 0))[1] + count)
    return [(_us(up_to), count) for up_to, count in joined.values()]


def machine() -> Machine:
    """This machine."""
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        cores = os.cpu_count() or 1
    return Machine(
        cpu=_cpu(),
        cores=cores,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        python=f"{platform.python_implementation()} {platform.python_version()}",
        headrace=__version__,
    )


def _cpu() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, value = line.partition(":")
                if name.strip() in ("model name", "Model"):
                    return value.strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def encode(report: Report) -> bytes:
    """JSON text, two spaces an indent, one line break at the end. A row of a histogram stays on one line."""
    text = msgspec.json.format(msgspec.json.encode(report), indent=2)
    return _ROW.sub(rb"[\1, \2]", text) + b"\n"


_ROW = re.compile(rb"\[\n\s+([\d.eE+-]+),\n\s+(\d+)\n\s+\]")
"""A row of a histogram. Line breaks of formatted JSON are never inside of strings."""


def read_report(data: bytes | str, where: str = "the report") -> Report:
    """Reads what :func:`encode` wrote. ``where`` names the file in the text of a :class:`BadReport`."""
    try:
        head = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise BadReport(f"{where} is not JSON") from None
    if not isinstance(head, dict) or "headrace_bench" not in head:
        raise BadReport(f"{where} is no report of headrace bench")
    if head["headrace_bench"] != VERSION:
        raise BadReport(f"{where} has version {head['headrace_bench']!r} of the report; this headrace reads {VERSION}")
    try:
        return msgspec.convert(head, Report)
    except msgspec.ValidationError as exc:
        raise BadReport(f"{where} is no whole report: {exc}") from None
