"""Two reports side by side: what changed, and whether it is more than the noise of the two runs.

The noise of a figure comes from the runs themselves. Where a report has it for every second, its spread over the
seconds gives the standard error of its mean, widened for neighbouring seconds that resemble one another; a
percentile has the uncertainty of its rank besides. Three standard errors of the difference are noise, and so is
whatever lies under a floor, because two runs of the same program on the same machine differ by that much.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections.abc import Callable, Sequence
from typing import Literal

import msgspec

from headrace.bench import units
from headrace.bench.report import Latency, Report, Second

__all__ = ("Comparison", "Delta", "Verdict", "compare")

Verdict = Literal["better", "worse", "noise", "unclear", "shown"]
"""``noise``: no more than two equal runs differ. ``unclear``: too short to tell. ``shown``: one extreme value, which
is never judged."""

_MIN_SECONDS = 4
_ERRORS = 3.0
_SHORT_NOISE = 0.25


class Delta(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both runs."""

    name: str
    unit: Literal["per_second", "latency", "size", "us"]
    before: float
    after: float
    change: float
    """Relative to ``before``; 0.1 is 10 % more."""
    noise: float
    """Relative; a change up to this is what equal runs show."""
    verdict: Verdict
    more_is_better: bool = False

    def text(self, value: float) -> str:
        """A value of it with its unit."""
        if self.unit == "per_second":
            return f"{units.per_second(value)} /s"
        return units.size(value) if self.unit == "size" else units.latency(value)


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """What :func:`compare` found."""

    before: str
    """Name of the first run: its file."""
    after: str
    deltas: list[Delta]
    caveats: list[str]
    """Why the two runs cannot be compared plainly, one sentence each."""
    says: str
    """The verdict in one sentence."""
    verdict: Literal["better", "worse", "mixed", "noise", "unclear", "wrong"]
    """``wrong``: a run gave wrong answers, so its speed means nothing."""


def compare(before: Report, after: Report, names: tuple[str, str] = ("before", "after")) -> Comparison:
    """Compares two runs; a change is seen from ``before``."""
    deltas = [delta for delta in _deltas(before, after) if delta is not None]
    caveats = _caveats(before, after, names)
    says, verdict = _summary(before, after, deltas, names)
    return Comparison(before=names[0], after=names[1], deltas=deltas, caveats=caveats, says=says, verdict=verdict)


def _deltas(a: Report, b: Report) -> list[Delta | None]:
    length = min(len(_whole(a)), len(_whole(b)))

    def judged(
        name: str,
        unit: Literal["per_second", "latency", "size", "us"],
        values: tuple[float, float],
        noise: float,
        *,
        more: bool = False,
        extreme: bool = False,
        steady: bool = False,
    ) -> Delta | None:
        before, after = values
        if before <= 0 or after <= 0:
            return None
        change = after / before - 1
        short = length < _MIN_SECONDS and not steady
        noise = max(noise, _SHORT_NOISE) if short else noise
        # Seen from the smaller of the two, so that twice as fast and half as fast count the same.
        beyond = max(before, after) / min(before, after) - 1 > noise
        verdict: Verdict = "shown" if extreme else ("unclear" if short else "noise")
        if beyond and not extreme:
            verdict = "better" if (change > 0) == more else "worse"
        return Delta(
            name=name, unit=unit, before=before, after=after, change=change, noise=noise, verdict=verdict,
            more_is_better=more,
        )  # fmt: skip

    def spread(floor: float, of: Callable[[Second], float | None]) -> float:
        return max(floor, _ERRORS * math.hypot(_error(_series(a, of)), _error(_series(b, of))))

    def tail(floor: float, at: float, of: Callable[[Second], float | None]) -> float:
        return max(spread(floor, of), math.hypot(_rank_error(a.latency, at), _rank_error(b.latency, at)))

    open_loop = a.load.rate is not None and b.load.rate is not None
    la, lb = a.latency, b.latency
    rows = [
        judged("calls per second", "per_second", (a.totals.per_second, b.totals.per_second),
               spread(0.03, lambda s: float(s.ok)), more=True, extreme=open_loop and _kept_pace(a, b)),
        judged("latency, mean", "latency", (la.mean, lb.mean), spread(0.03, lambda s: 1 / s.ok if s.ok else None)),
        judged("latency, p50", "latency", (la.p50, lb.p50), tail(0.03, 0.5, lambda s: s.p50)),
        judged("latency, p90", "latency", (la.p90, lb.p90), tail(0.05, 0.9, lambda s: math.sqrt(s.p50 * s.p99))),
        judged("latency, p99", "latency", (la.p99, lb.p99), tail(0.08, 0.99, lambda s: s.p99)),
        judged("latency, p99.9", "latency", (la.p99_9, lb.p99_9), tail(0.15, 0.999, lambda s: s.p99)),
        judged("latency, max", "latency", (la.max, lb.max), 0.0, extreme=True),
    ]  # fmt: skip
    if a.server is not None and b.server is not None:
        rows += [
            judged("server CPU per call", "us", (a.server.cpu_us_per_call, b.server.cpu_us_per_call),
                   spread(0.03, lambda s: s.server_cpu * 1e6 / s.ok if s.server_cpu and s.ok else None)),
            judged("server memory, most", "size", (a.server.rss_max, b.server.rss_max), 0.05, steady=True),
        ]  # fmt: skip
    return rows


def _kept_pace(a: Report, b: Report) -> bool:
    """Both answered what was asked for: then the rate of answers says nothing of the server."""
    return all(r.load.rate is not None and r.totals.per_second > 0.98 * r.load.rate for r in (a, b))


def _whole(report: Report) -> list[Second]:
    """Seconds that were measured from end to end."""
    return [s for s in report.over_time if s.second + 1 <= report.totals.seconds + 0.05]


def _series(report: Report, of: Callable[[Second], float | None]) -> list[float]:
    return [value for value in map(of, _whole(report)) if value]


def _error(values: Sequence[float]) -> float:
    """Relative standard error of the mean."""
    count = len(values)
    if count < 2:
        return 0.0
    mean = statistics.fmean(values)
    deviations = [value - mean for value in values]
    variance = sum(d * d for d in deviations) / (count - 1)
    if variance == 0 or mean == 0:
        return 0.0
    alike = sum(x * y for x, y in itertools.pairwise(deviations)) / (variance * (count - 1))
    alike = min(max(alike, 0.0), 0.8)
    return math.sqrt(variance / count * (1 + alike) / (1 - alike)) / mean


def _rank_error(latency: Latency, at: float) -> float:
    """Relative half width of the values between the ranks that the percentile ``at`` may have by chance."""
    total = sum(count for _, count in latency.histogram)
    if total < 2:
        return 0.0
    slack = _ERRORS * math.sqrt(total * at * (1 - at))
    low = _at_rank(latency, total * at - slack)
    high = _at_rank(latency, total * at + slack)
    middle = _at_rank(latency, total * at)
    return (high - low) / 2 / middle if middle else 0.0


def _at_rank(latency: Latency, rank: float) -> float:
    seen = 0
    for up_to, count in latency.histogram:
        seen += count
        if seen >= rank:
            return up_to
    return latency.histogram[-1][0]


def _caveats(a: Report, b: Report, names: tuple[str, str]) -> list[str]:
    found = []
    different = [
        f"{what} ({_plain(x)} and {_plain(y)})"
        for what, x, y in (
            ("connections", a.load.connections, b.load.connections),
            ("calls in flight", a.load.in_flight, b.load.in_flight),
            ("load processes", a.load.processes, b.load.processes),
            ("rate", a.load.rate, b.load.rate),
            ("payload", a.load.payload, b.load.payload),
            ("revision", a.target.revision, b.target.revision),
            ("transport", a.target.kind, b.target.kind),
            ("operations", _mix(a), _mix(b)),
        )
        if x != y
    ]
    if different:
        found.append(f"The runs were not made alike: {', '.join(different)}.")
    if (a.machine.cpu, a.machine.cores) != (b.machine.cpu, b.machine.cores):
        found.append(
            f"The runs come from different machines: {a.machine.cores} x {a.machine.cpu} and "
            f"{b.machine.cores} x {b.machine.cpu}."
        )
    limited = [name for name, r in zip(names, (a, b), strict=True) if r.generator.limit]
    if limited:
        found.append(f"The load generator was the limit in {' and '.join(limited)}: the server could do more.")
    shortest = min(len(_whole(a)), len(_whole(b)))
    if shortest < _MIN_SECONDS:
        found.append(
            f"Only {shortest} whole second{'' if shortest == 1 else 's'} to compare: run at least "
            f"{_MIN_SECONDS} s, better 10 s."
        )
    return found


def _mix(report: Report) -> str:
    return ", ".join(f"{part.name} x {part.weight}" for part in report.load.operations)


def _plain(value: object) -> str:
    return "none" if value is None or value == "" else f"{value:g}" if isinstance(value, float) else str(value)


def _summary(
    a: Report, b: Report, deltas: list[Delta], names: tuple[str, str]
) -> tuple[str, Literal["better", "worse", "mixed", "noise", "unclear", "wrong"]]:
    wrong = [
        f"{units.count(r.totals.failed)} of {units.count(r.totals.completed)} calls failed in {name}"
        for name, r in zip(names, (a, b), strict=True)
        if r.totals.failed or not r.totals.completed
    ]
    if wrong:
        return f"{' and '.join(wrong)}: speed means nothing until the answers are right.", "wrong"
    changed = [d for d in deltas if d.verdict in ("better", "worse")]
    if not changed:
        if any(d.verdict == "unclear" for d in deltas):
            return "The runs are too short to tell a difference.", "unclear"
        return "No difference beyond noise.", "noise"
    parts = []
    for verdict in ("better", "worse"):
        those = [f"{d.name} {units.percent(d.change)}" for d in changed if d.verdict == verdict]
        if those:
            parts.append(f"{verdict}: {'; '.join(those)}")
    verdicts = {d.verdict for d in changed}
    both: Literal["better", "worse", "mixed"] = (
        "mixed" if len(verdicts) == 2 else "better" if "better" in verdicts else "worse"
    )
    text = ". ".join(part[0].upper() + part[1:] for part in parts)
    if any(d.verdict == "unclear" for d in deltas):
        return f"{text}. The runs are too short to tell more.", both
    return f"{text}." + (" The rest is noise." if any(d.verdict == "noise" for d in deltas) else ""), both
