"""Parts of a report's page that are no charts: verdicts, headline figures, the comparison, tables, configuration."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from html import escape
from typing import TypeVar

from headrace.bench import units
from headrace.bench.compare import Comparison, Delta
from headrace.bench.report import Report

__all__ = ("comparison", "configuration", "known", "table", "tiles", "verdicts")

T = TypeVar("T")

_WORDS = {
    "better": ("good", "better"),
    "worse": ("bad", "worse"),
    "noise": ("plain", "noise"),
    "unclear": ("plain", "too short to tell"),
    "shown": ("plain", "not judged"),
}


def known(value: T | None, of: Callable[[T], str]) -> str:
    """Its text, or nothing."""
    return "" if value is None else of(value)


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], wide: Collection[int] = (), text: Collection[int] = ()
) -> str:
    """A table whose first column names the rows. Cells are HTML; columns of ``text`` begin at the left, those of
    ``wide`` may break besides."""
    if not rows:
        return ""
    style = {at: ' class="text"' for at in text} | {at: ' class="text wide"' for at in wide}
    top = "".join(f'<th scope="col"{style.get(at, "")}>{escape(name)}</th>' for at, name in enumerate(head))
    body = "".join(
        "<tr>"
        + "".join(
            f'<th scope="row">{cell}</th>' if at == 0 else f"<td{style.get(at, '')}>{cell}</td>"
            for at, cell in enumerate(row)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="group" aria-label="{escape(" ".join(head).strip())}">'
        f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _says(style: str, mark: str, text: str) -> str:
    return f'<p class="says {style}"><b aria-hidden="true">{mark}</b><span>{escape(text)}</span></p>'


def verdicts(report: Report, compared: Comparison | None) -> str:
    """What has to be known before any figure."""
    totals = report.totals
    if totals.failed:
        part = f"{totals.failed / totals.completed * 100:.3g} %"
        text = f"{units.count(totals.failed)} of {units.count(totals.completed)} calls failed ({part})"
        out = [_says("bad", "✕", f"{text}. Speed means little until the answers are right.")]
    elif not totals.completed:
        out = [_says("bad", "✕", "No call was answered.")]
    else:
        out = [_says("good", "✓", f"All {units.count(totals.ok)} answers were checked, and right.")]
    if totals.unsent:
        out.append(
            _says("warn", "!", f"{units.count(totals.unsent)} calls came due and could not be sent: the rate asked for "
                  "is more than the server, or these connections, can take.")
        )  # fmt: skip
    if report.generator.limit:
        out.append(_says("warn", "!", f"The generator was the limit: {report.generator.says}"))
    if compared is not None:
        style = {"better": "good", "worse": "bad", "wrong": "bad", "mixed": "warn"}.get(compared.verdict, "plain")
        out.append(_says(style, "⇄", f"Against {compared.before}: {compared.says}"))
    return "".join(out)


def _tile(name: str, value: str, delta: Delta | None) -> str:
    number, _, unit = value.partition(" ")
    small = f" <small>{escape(unit)}</small>" if unit else ""
    change = ""
    if delta is not None:
        style = {"better": " up", "worse": " down"}.get(delta.verdict, "")
        note = "" if style else " (unclear)" if delta.verdict == "unclear" else " (noise)"
        change = f'<p class="change{style}">{units.percent(delta.change)}{note}</p>'
    return f'<div class="tile"><p>{name}</p><p class="value">{escape(number)}{small}</p>{change}</div>'


def tiles(report: Report, compared: Comparison | None) -> str:
    """The headline figures."""
    deltas = {delta.name: delta for delta in compared.deltas} if compared is not None else {}
    rows = [("Calls", f"{units.per_second(report.totals.per_second)} /s", "calls per second")]
    if report.totals.ok:
        rows += [
            ("Latency p50", units.latency(report.latency.p50), "latency, p50"),
            ("Latency p99", units.latency(report.latency.p99), "latency, p99"),
        ]
    if report.server is not None:
        rows += [
            ("Server CPU per call", units.latency(report.server.cpu_us_per_call), "server CPU per call"),
            ("Server memory", units.size(report.server.rss_max), "server memory, most"),
        ]
    else:
        rows += [
            ("Latency max", units.latency(report.latency.max), ""),
            ("Received", units.size(report.totals.bytes_in), ""),
        ]
    return f'<div class="tiles">{"".join(_tile(name, value, deltas.get(key)) for name, value, key in rows)}</div>'


def _bar(delta: Delta, reach: float) -> str:
    """The change as a bar from zero, ``reach`` at the edge; the grey zone is noise."""

    def at(value: float) -> float:
        return 75 + max(-1.0, min(1.0, value / reach)) * 74

    zero, end, zone = at(0.0), at(delta.change), at(delta.noise)
    noise = f'<rect class="zone" x="{150 - zone:.1f}" y="0" width="{2 * zone - 150:.1f}" height="18" rx="3"/>'
    left, width = min(zero, end), max(abs(end - zero), 1.5)
    return (
        '<svg class="change-bar" viewBox="0 0 150 18" preserveAspectRatio="none" aria-hidden="true">'
        f'{noise if delta.noise else ""}<line class="zero" x1="75" x2="75" y1="0" y2="18"/>'
        f'<rect class="{delta.verdict}" x="{left:.1f}" y="5" width="{width:.1f}" height="8" rx="2"/></svg>'
    )


def comparison(compared: Comparison | None) -> str:
    """Every figure of both runs, with what is noise."""
    if compared is None:
        return ""
    judged = [abs(delta.change) for delta in compared.deltas if delta.verdict != "shown"]
    reach = min(max([0.2, *(change * 1.1 for change in judged)]), 2.0)
    rows = []
    for delta in compared.deltas:
        style, word = _WORDS[delta.verdict]
        rows.append([
            escape(delta.name[0].upper() + delta.name[1:]),
            units.percent(delta.change),
            f'<span class="tag {style}">{word}</span>',
            escape(delta.text(delta.before)),
            escape(delta.text(delta.after)),
            f"± {delta.noise * 100:.1f} %" if delta.verdict != "shown" else "",
            _bar(delta, reach),
        ])  # fmt: skip
    head = ["figure", "change", "verdict", compared.before, compared.after, "noise", ""]
    notes = "".join(_says("warn", "!", text) for text in compared.caveats)
    return (
        '<section id="comparison"><h2>Comparison</h2>'
        f'<p class="lead">{escape(compared.before)} against {escape(compared.after)}. A change within the grey zone is '
        "what two runs of the same server differ by.</p>"
        f"{notes}{table(head, rows, text=(2,))}</section>"
    )


def configuration(report: Report) -> str:
    """How it was measured, and where."""
    load, totals, machine, generator = report.load, report.totals, report.machine, report.generator
    server = report.server
    loop = "closed, as fast as answers come" if load.rate is None else f"open, {units.per_second(load.rate)} calls/s"
    pairs = [
        ("Loop", loop),
        ("Connections", f"{load.connections}" + (f" x {load.in_flight} in flight" if load.in_flight > 1 else "")),
        ("Measured", f"{units.duration(totals.seconds)} after {units.duration(load.warmup_s)} of warm-up"),
        ("Limit", " or ".join(
            ([units.duration(load.duration_s)] if load.duration_s is not None else [])
            + ([f"{units.count(load.requests)} calls"] if load.requests is not None else []))),
        ("Payload", known(load.payload, units.size)),
        ("Time limit of a call", units.duration(load.timeout_s)),
        ("Bytes sent / received", f"{units.size(totals.bytes_out)} / {units.size(totals.bytes_in)}"),
        ("Reconnects", units.count(totals.reconnects)),
        ("Notifications", units.count(totals.notes)),
        ("Load processes", f"{load.processes}, the busiest {generator.busiest * 100:.0f} % of a core, "
         f"{units.latency(generator.cpu_us_per_call)} CPU per call"),
        ("Server process", "" if server is None else f"pid {server.pid}, {server.processes} "
         f"process{'' if server.processes == 1 else 'es'}, {units.cores(server.cores)} cores, "
         f"{units.duration(server.cpu_s)} CPU"),
        ("Server memory", "" if server is None else f"{units.size(server.rss_start)} at the start, "
         f"{units.size(server.rss_max)} at most, {units.size(server.rss_end)} at the end"),
        ("Machine", f"{machine.cores} x {machine.cpu}"),
        ("System", f"{machine.system}, {machine.python}, headrace {machine.headrace}"),
        ("Seed", str(load.seed)),
    ]  # fmt: skip
    made = "".join(f"<div><dt>{escape(name)}</dt><dd>{escape(text)}</dd></div>" for name, text in pairs if text)
    return f'<section id="configuration"><h2>How it was measured</h2><dl>{made}</dl></section>'
