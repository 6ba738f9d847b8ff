"""What ``headrace bench`` prints: the live line while it runs, the table at its end, the comparison of two runs."""

from __future__ import annotations

import math
import shutil
import sys
from collections.abc import Sequence
from typing import IO

import click

from headrace.bench import units
from headrace.bench._tally import ERROR_KINDS
from headrace.bench.compare import Comparison
from headrace.bench.report import Latency, Progress, Report
from headrace.cli.app import harmless

__all__ = ("Live", "show_comparison", "show_report")

_PHASES = {"connecting": "connecting", "warmup": "warm-up", "running": "", "draining": "last answers"}
_BARS = 24
_ROWS = 10
_WHOLE = 0.9
"""Part of the time asked for that a run lasts which did not end early."""
_BEHIND = 0.01
"""Part of the calls that an open loop may leave unsent at its end until that is worth a warning."""


class Live:
    """The line that changes on a terminal; a line for each report elsewhere. ``shown``: None is only on a terminal."""

    def __init__(self, shown: bool | None) -> None:
        self._terminal = sys.stderr.isatty()
        self._shown = self._terminal if shown is None else shown
        self._width = 0

    def __call__(self, progress: Progress) -> None:
        if not self._shown:
            return
        text = live_line(progress)
        if not self._terminal:
            print(f"headrace: {text}", file=sys.stderr, flush=True)
            return
        text = text[: max(shutil.get_terminal_size().columns - 1, 20)]
        print(f"\r{text.ljust(self._width)}", end="", file=sys.stderr, flush=True)
        self._width = len(text)

    def clear(self) -> None:
        """Takes the line away."""
        if self._terminal and self._width:
            print(f"\r{' ' * self._width}\r", end="", file=sys.stderr, flush=True)
            self._width = 0


def live_line(progress: Progress) -> str:
    """Where a run is, in one line."""
    parts = [units.duration(round(progress.elapsed_s, 1))]
    if _PHASES.get(progress.phase, progress.phase):
        parts.append(_PHASES.get(progress.phase, progress.phase))
    parts.append(f"{units.per_second(progress.per_second)}/s")
    parts.append(f"{units.count(progress.in_flight)} in flight")
    if progress.p99:
        parts.append(f"p50 {units.latency(progress.p50)}  p99 {units.latency(progress.p99)}")
    parts.append(f"{units.count(progress.failed)} errors" if progress.failed != 1 else "1 error")
    if progress.server_cpu is not None:
        parts.append(f"server {units.cores(progress.server_cpu)} cores")
    if progress.left_s is not None:
        parts.append(f"{units.duration(round(progress.left_s, 1))} left")
    return "  ".join(parts)


def show_report(report: Report, file: IO[str]) -> None:
    """Prints the table of a run."""
    style = _style(file)
    totals = report.totals
    info = report.target.server
    who = f"{info.name} {info.version}".strip() + " at " if info is not None and info.name else ""
    lines = [
        style(harmless(f"{who}{report.target.name}, revision {report.target.revision}"), bold=True),
        _how(report),
        "",
    ]
    right = f"{units.count(totals.ok)} right"
    wrong = f"{units.count(totals.failed)} failed"
    if totals.failed:
        wrong = style(f"{wrong} ({totals.failed / totals.completed * 100:.3g} %)", fg="red", bold=True)
    lines.append(f"  {'calls':<12}{right}, {wrong}")
    lines.append(f"  {'throughput':<12}{style(f'{units.per_second(totals.per_second)} /s', bold=True)}")
    if totals.ok:
        lines += _latency(report.latency)
    seconds = totals.seconds or 1.0
    lines.append(
        f"  {'bytes':<12}{units.size(totals.bytes_out)} sent ({units.size(totals.bytes_out / seconds)}/s), "
        f"{units.size(totals.bytes_in)} received ({units.size(totals.bytes_in / seconds)}/s)"
    )
    besides = (
        (totals.reconnects, "reconnects"), (totals.notes, "notifications"), (totals.unsent, "never sent"),
        (totals.unanswered, "without an answer when the run was ended"),
        (totals.early, "of the failed before the measured time"), (totals.strays, "of the failed belong to no call"),
    )  # fmt: skip
    extra = [
        f"{units.count(number)} {word.removesuffix('s') if number == 1 and ' ' not in word else word}"
        for number, word in besides
        if number
    ]
    if extra:
        lines.append(f"  {'besides':<12}{', '.join(extra)}")
    if report.server is not None:
        server = report.server
        more = f", {server.processes} processes" if server.processes > 1 else ""
        if report.target.kind == "stdio" and totals.reconnects:
            more += "; what ended within a second is not in it"
        lines.append(
            f"  {'server':<12}{style(units.latency(server.cpu_us_per_call), bold=True)} CPU per call, "
            f"{units.cores(server.cores)} cores, {units.size(server.rss_max)} at most (pid {server.pid}{more})"
        )
    generator = report.generator
    lines.append(
        f"  {'generator':<12}{units.latency(generator.cpu_us_per_call)} CPU per call, "
        f"busiest {generator.busiest * 100:.0f} % of a core"
    )
    if totals.ok:
        lines += ["", *_histogram(report.latency, file)]
    if len(report.operations) > 1 or any(each.failed for each in report.operations):
        lines += ["", *_operations(report)]
    if report.errors:
        lines += ["", *_errors(report, file)]
    if generator.limit:
        lines += ["", "  " + style(f"The generator was the limit: {harmless(generator.says)}", fg="yellow")]
    load = report.load
    short = load.duration_s is not None and totals.seconds < _WHOLE * load.duration_s
    if short and (load.requests is None or totals.completed < load.requests):
        text = f"The run ended early: after {units.duration(totals.seconds)} of {units.duration(load.duration_s or 0)}"
        lines += ["", "  " + style(text, fg="yellow")]
    if report.load.rate is not None and totals.unsent > totals.completed * _BEHIND:
        text = (
            f"The server was too slow for {units.per_second(report.load.rate)} calls a second: "
            f"{units.count(totals.unsent)} that were due were never sent, and their waiting is in no latency above"
        )
        lines += ["", "  " + style(text, fg="yellow")]
    if not totals.completed:
        lines += ["", "  " + style("No call was answered.", fg="red", bold=True)]
    print("\n".join(lines), file=file)


def _style(file: IO[str]) -> _Style:
    return _Style(file.isatty())


class _Style:
    """Colours on terminals alone."""

    def __init__(self, on: bool) -> None:
        self._on = on

    def __call__(self, text: str, *, fg: str | None = None, bold: bool = False) -> str:
        return click.style(text, fg=fg, bold=bold or None) if self._on else text


def _how(report: Report) -> str:
    load, totals = report.load, report.totals
    parts = [f"{units.count(load.connections)} connection{'' if load.connections == 1 else 's'}"]
    if load.in_flight > 1:
        parts[0] += f" x {units.count(load.in_flight)} in flight"
    parts.append("closed loop" if load.rate is None else f"open loop at {units.per_second(load.rate)}/s")
    warm = f" after {units.duration(load.warmup_s)} of warm-up" if load.warmup_s else ""
    parts.append(f"{units.duration(totals.seconds)}{warm}")
    if load.processes > 1:
        parts.append(f"{load.processes} load processes")
    return ", ".join(parts)


def _latency(latency: Latency) -> list[str]:
    pairs = [
        ("p50", latency.p50), ("p75", latency.p75), ("p90", latency.p90), ("p99", latency.p99),
        ("p99.9", latency.p99_9), ("max", latency.max),
    ]  # fmt: skip
    widths = [max(len(name), len(units.latency(value))) for name, value in pairs]
    return [
        "  " + f"{'latency':<12}" + "  ".join(name.rjust(w) for (name, _), w in zip(pairs, widths, strict=True)),
        "  " + " " * 12 + "  ".join(units.latency(v).rjust(w) for (_, v), w in zip(pairs, widths, strict=True)),
        "  " + " " * 12 + f"mean {units.latency(latency.mean)}, stdev {units.latency(latency.stdev)}, "
        f"min {units.latency(latency.min)}" + (", counted from when each call was due" if latency.corrected else ""),
    ]


def _histogram(latency: Latency, file: IO[str]) -> list[str]:
    """A few rows of equal width on a logarithmic scale."""
    if not latency.histogram:
        return []
    block = "#" if "utf" not in (getattr(file, "encoding", None) or "").lower() else "█"
    total = sum(count for _, count in latency.histogram)
    low, high = max(latency.min, 1e-3), max(latency.max, latency.min * 1.01, 2e-3)
    span = math.log(high / low)
    counts = [0] * _ROWS
    for up_to, count in latency.histogram:
        slot = math.ceil(math.log(max(min(up_to, high), low) / low) / span * _ROWS - 1e-9) - 1
        counts[min(max(slot, 0), _ROWS - 1)] += count
    most = max(counts)
    lines = []
    for row, count in enumerate(counts):
        edge = units.latency(low * (high / low) ** ((row + 1) / _ROWS))
        bar = block * math.ceil(count / most * _BARS)
        share = count / total * 100
        shown = "<0.01" if 0 < share < 0.005 else f"{share:.2f}"
        lines.append(f"  {'up to ' + edge:>16}  {bar:<{_BARS}}  {shown:>6} %")
    return lines


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[at]) for row in rows) for at in range(len(rows[0]))]
    return [
        f"  {row[0].ljust(widths[0])}  " + "  ".join(c.rjust(w) for c, w in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]


def _operations(report: Report) -> list[str]:
    whole = sum(each.weight for each in report.operations) or 1
    rows = [["operation", "share", "right", "failed", "/s", "p50", "p90", "p99", "max"]]
    for each in report.operations:
        times = (each.latency.p50, each.latency.p90, each.latency.p99, each.latency.max)
        rows.append([
            harmless(each.name)[:40], f"{each.weight / whole * 100:.3g} %", units.count(each.ok),
            units.count(each.failed), units.per_second(each.per_second),
            *(units.latency(value) if each.ok else "-" for value in times),
        ])  # fmt: skip
    return _columns(rows)


def _errors(report: Report, file: IO[str]) -> list[str]:
    style = _style(file)
    lines = []
    for each in report.errors:
        meaning = ERROR_KINDS.get(each.kind, "")
        kind = style(f"{units.count(each.count)} x {each.kind}", fg="red")
        lines.append(f"  {kind}{f': {meaning}' if meaning else ''}")
        if each.sample:
            lines.append("    " + harmless(" ".join(each.sample.split())))
    return lines


def show_comparison(compared: Comparison, file: IO[str]) -> None:
    """Prints what changed between two runs."""
    style = _style(file)
    words = {"noise": "noise", "unclear": "too short to tell", "shown": "not judged"}
    colours = {"better": "green", "worse": "red"}
    rows = [["", harmless(compared.before), harmless(compared.after), "change", "noise"]]
    for delta in compared.deltas:
        noise = f"+-{delta.noise * 100:.1f} %" if delta.verdict != "shown" else ""
        rows.append([delta.name, delta.text(delta.before), delta.text(delta.after), units.percent(delta.change), noise])
    lines = _columns(rows)
    for at, delta in enumerate(compared.deltas, 1):
        lines[at] += "  " + style(words.get(delta.verdict, delta.verdict), fg=colours.get(delta.verdict))
    lines.append("")
    lines += [f"  {style(harmless(text), fg='yellow')}" for text in compared.caveats]
    colour = {"better": "green", "worse": "red", "wrong": "red"}.get(compared.verdict)
    lines.append(f"  {style(harmless(compared.says), fg=colour, bold=True)}")
    print("\n".join(lines), file=file)
