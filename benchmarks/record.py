"""What a run of the benchmarks has found: tables of subjects, marks reached and asked, what was left out."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, field
from typing import Any

from harness import Failed, Subject, interleave


@dataclass
class Record:
    """Collects while the sections run. ``everything``: peers too, not only what `make bench` shows."""

    seconds: float
    rounds: int
    everything: bool
    quick: bool = False
    tables: list[dict[str, Any]] = field(default_factory=list)
    marks: list[dict[str, Any]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)
    curves: dict[str, list[list[float]]] = field(default_factory=dict)
    until: float = 0.0
    """When the running section has to stop its rounds, on the monotonic clock."""
    deadline: float = 0.0
    """When everything has to be over."""

    def leave_out(self, what: str) -> None:
        if what not in self.left_out:
            self.left_out.append(what)
            print(f"  left out: {what}", file=sys.stderr)

    def measure(self, id: str, title: str, subjects: list[Subject], *, rounds: int | None = None) -> None:
        """Interleaved rounds of these subjects, a table of them on standard output and in the record."""
        interleave(subjects, rounds or self.rounds, self.until)
        rows = []
        print(title)
        width = max((len(s.name) for s in subjects), default=0)
        for s in subjects:
            if s.failed:
                self.leave_out(f"{s.name}: {s.failed}")
            if not s.rounds:
                continue
            row = {
                "name": s.name, "group": s.group, "rounds": len(s.rounds),
                "cpu_us": round(s.median("server_cpu_us"), 3), "per_second": round(s.median("per_second"), 1),
                "p50_us": round(s.median("p50_us"), 1), "p99_us": round(s.median("p99_us"), 1),
                "cpu_us_rounds": [round(r["server_cpu_us"], 3) for r in s.rounds],
            }  # fmt: skip
            rows.append(row)
            print(f"  {s.name:<{max(width, 58)}}{row['cpu_us']:>11,.2f} us CPU{row['per_second']:>12,.0f} calls/s"
                  f"{row['p50_us']:>11,.0f} us p50{row['p99_us']:>11,.0f} us p99")  # fmt: skip
        self.tables.append({"id": id, "title": title, "rows": rows})
        print(flush=True)

    def at_most(self, group: str, what: str, value: float, limit: float, unit: str) -> None:
        self._mark(group, what, value, limit, unit, value <= limit, "<=")

    def at_least(self, group: str, what: str, value: float, limit: float, unit: str) -> None:
        self._mark(group, what, value, limit, unit, value >= limit, ">=")

    def _mark(self, group: str, what: str, value: float, limit: float, unit: str, ok: bool, sign: str) -> None:
        by = "" if ok else (f"{abs(value / limit - 1):.0%}" if limit else "")
        self.marks.append({
            "group": group, "what": what, "value": value, "limit": limit, "ok": ok, "by": by,
            "reached": shown(value, unit), "asked": f"{sign} {shown(limit, unit)}",
        })  # fmt: skip

    def unmeasured(self, group: str, what: str, why: object) -> None:
        """A mark that has no value, said in its place."""
        self.marks.append({"group": group, "what": what, "value": None, "limit": None, "ok": None, "by": "",
                           "reached": "not measured", "asked": str(why)[:120]})  # fmt: skip

    def ratio(self, group: str, what: str, over: Subject, under: Subject, limit: float, *, key: str = "server_cpu_us", least: bool = False) -> None:
        """A mark on the ratio of two subjects: the median of the rounds' own ratios, which drift together."""
        try:
            over.median(key), under.median(key)
        except Failed as error:
            self.unmeasured(group, what, error)
            return
        pairs = sorted(a[key] / b[key] for a, b in zip(over.rounds, under.rounds, strict=False))
        middle = len(pairs) // 2
        value = pairs[middle] if len(pairs) % 2 else (pairs[middle - 1] + pairs[middle]) / 2
        (self.at_least if least else self.at_most)(group, what, value, limit, "x")

    def left(self) -> float:
        return self.deadline - time.monotonic()


def shown(value: float, unit: str) -> str:
    if unit == "x":
        return f"{value:.2f} x" if value < 10 else f"{value:,.0f} x"
    if unit == "%":
        return f"{value:.0%}"
    if unit in ("us", "bytes a call", "MB", "KB"):
        return f"{value:.2f} {unit}" if abs(value) < 10 else f"{value:,.0f} {unit}"
    return f"{value:,.0f} {unit}".strip()
