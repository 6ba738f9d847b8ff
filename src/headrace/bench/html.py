"""A report as one page that needs nothing else: style sheet and charts are inside, there is no script.

The page forbids itself to load anything (Content-Security-Policy), and every text of a report, which may come from a
strange server, is escaped.
"""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable, Iterable, Sequence
from html import escape

from headrace.bench import charts, page_parts, units
from headrace.bench._tally import ERROR_KINDS
from headrace.bench.compare import compare
from headrace.bench.page_style import STYLE
from headrace.bench.report import Latency, Report, Second

__all__ = ("page",)


def page(report: Report, before: Report | None = None, names: tuple[str, str] = ("before", "this run")) -> str:
    """The page of ``report``; with ``before`` it shows what changed since. ``names`` are those of both runs."""
    comparison = compare(before, report, names) if before is not None else None
    body = [
        _header(report),
        page_parts.verdicts(report, comparison),
        page_parts.tiles(report, comparison),
        page_parts.comparison(comparison),
        _latency(report, before, names),
        _time(report),
        _operations(report),
        _errors(report),
        page_parts.configuration(report),
    ]
    text = (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f'<link rel="icon" href="data:,"><title>{escape(report.target.name)}: headrace bench</title>'
        f"<style>{STYLE}</style></head><body><main>{''.join(body)}"
        f"<footer>Made by headrace bench {escape(report.machine.headrace)}. The same figures as data: "
        "headrace bench --json FILE.</footer></main></body></html>\n"
    )
    return _UNSEEN.sub("\ufffd", text)


_UNSEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
"""What changes the order of text or is not seen: names and samples of a server must not rearrange a page."""


def _header(report: Report) -> str:
    target = report.target
    info = target.server
    words = [
        f"{info.name} {info.version}".strip() if info is not None else "",
        {"http": "Streamable HTTP", "stdio": "stdio", "unix": "unix socket", "tcp": "TCP lines"}.get(target.kind, ""),
        f"revision {target.revision}" if target.revision else "",
        report.started.replace("T", " ").removesuffix("Z") + (" UTC" if report.started.endswith("Z") else ""),
    ]
    line = " · ".join(escape(word) for word in words if word)
    return f'<header><p class="brand">headrace bench</p><h1>{escape(target.name)}</h1><p>{line}</p></header>'


def _figure(title: str, note: str, chart: str, keys: Sequence[tuple[str, str]] = ()) -> str:
    if not chart:
        return ""
    legend = "".join(f' <span class="key"><i class="{style}"></i>{escape(name)}</span>' for style, name in keys)
    small = f" <small>{escape(note)}</small>" if note else ""
    return f"<figure><figcaption>{escape(title)}{small}{legend}</figcaption>{chart}</figure>"


_PERCENTILES: tuple[tuple[str, Callable[[Latency], float]], ...] = (
    ("min", lambda v: v.min),
    ("p50", lambda v: v.p50),
    ("p75", lambda v: v.p75),
    ("p90", lambda v: v.p90),
    ("p99", lambda v: v.p99),
    ("p99.9", lambda v: v.p99_9),
    ("p99.99", lambda v: v.p99_99),
    ("max", lambda v: v.max),
    ("mean", lambda v: v.mean),
    ("stdev", lambda v: v.stdev),
)


def _latency(report: Report, before: Report | None, names: tuple[str, str]) -> str:
    if not report.latency.histogram:
        return ""
    how = (
        "Counted from the moment each call was due, so that a stalled server cannot hide the calls it kept waiting."
        if report.latency.corrected
        else "Counted from the first byte of a call to its last. The next call waits for this one (closed loop): "
        "while a server stalls, nothing is sent that would measure the stall. Use --rate for that."
    )
    runs = [(names[1] if before is not None else "latency", "a", report.latency)]
    rows = [(names[1] if before is not None else "all calls", report.latency)]
    keys: list[tuple[str, str]] = []
    if before is not None:
        runs.append((names[0], "b", before.latency))
        rows.append((names[0], before.latency))
        keys = [("a", names[1]), ("b", names[0])]
    curve = _figure("By percentile", "both scales logarithmic", charts.percentiles(runs), keys)
    bars = _figure("How many calls took how long", "", charts.histogram(report.latency))
    table = page_parts.table(
        ["", *(name for name, _ in _PERCENTILES)],
        [[escape(name), *(units.latency(of(latency)) for _, of in _PERCENTILES)] for name, latency in rows],
    )
    return (
        f'<section id="latency"><h2>Latency</h2><p class="lead">{how}</p><div class="pair">{curve}{bars}</div>'
        f"{table}</section>"
    )


def _time(report: Report) -> str:
    rows = report.over_time
    if not rows:
        return ""
    ranges = charts.thinned([row.second for row in rows])
    groups = [rows[start:end] for start, end in ranges]
    seconds = [group[0].second for group in groups]

    def values(of: Callable[[Second], float | None], join: Callable[[Iterable[float]], float]) -> list[float | None]:
        found = [[v for row in group if (v := of(row)) is not None] for group in groups]
        return [join(each) if each else None for each in found]

    speed = [charts.Series("right", "a", values(lambda r: r.ok, statistics.fmean), area=True)]
    keys: list[tuple[str, str]] = []
    if report.totals.failed:
        speed.append(charts.Series("failed", "bad", values(lambda r: r.failed, statistics.fmean), bars=True))
        keys = [("a", "right"), ("bad", "failed")]
    waits = [
        charts.Series("p99", "b", values(lambda r: r.p99 if r.ok else None, max)),
        charts.Series("p50", "a", values(lambda r: r.p50 if r.ok else None, statistics.median)),
    ]
    cpu = [charts.Series("cores", "a", values(lambda r: r.server_cpu, statistics.fmean), area=True)]
    memory = [charts.Series("resident", "a", values(lambda r: r.server_rss, max), area=True)]
    figures = [
        _figure("Calls per second", "", charts.over_time("Calls per second", seconds, speed, "rate"), keys),
        _figure("Latency", "", charts.over_time("Latency over time", seconds, waits, "latency"),
                [("b", "p99"), ("a", "p50")]),
        _figure("Server CPU", "cores in use", charts.over_time("Server CPU", seconds, cpu, "cores")),
        _figure("Server memory", "resident", charts.over_time("Server memory", seconds, memory, "size")),
    ]  # fmt: skip
    has = any(row.server_cpu is not None for row in rows)
    table = page_parts.table(
        ["second", "right", "failed", "p50", "p99", "max", *(["cores", "memory"] if has else [])],
        [
            [
                str(row.second), units.count(row.ok), units.count(row.failed),
                *(units.latency(v) if row.ok else "" for v in (row.p50, row.p99, row.max)),
                *([page_parts.known(row.server_cpu, units.cores), page_parts.known(row.server_rss, units.size)]
                  if has else []),
            ]
            for row in (rows[start] for start, _ in ranges)
        ],
    )  # fmt: skip
    hint = 'The server\'s CPU and memory are shown when it runs on this machine: behind "--", or with --pid.'
    lead = "" if has else f'<p class="lead">{hint}</p>'
    return (
        f'<section id="time"><h2>Over time</h2>{lead}<div class="pair">{"".join(figures)}</div>'
        f"<details><summary>The same as a table</summary>{table}</details></section>"
    )


def _operations(report: Report) -> str:
    whole = sum(each.weight for each in report.operations) or 1
    rows = []
    for each in report.operations:
        part = each.weight / whole * 100
        rows.append([
            f"<code>{escape(each.name)}</code>",
            f'<span class="share"><i style="width:{part:.0f}%"></i></span>{part:.3g} %',
            units.count(each.ok),
            f'<span class="down">{units.count(each.failed)}</span>' if each.failed else "0",
            units.per_second(each.per_second),
            *(units.latency(v) if each.ok else "" for v in
              (each.latency.p50, each.latency.p90, each.latency.p99, each.latency.p99_9, each.latency.max)),
        ])  # fmt: skip
    head = ["operation", "share", "right", "failed", "per second", "p50", "p90", "p99", "p99.9", "max"]
    return f'<section id="operations"><h2>Operations</h2>{page_parts.table(head, rows)}</section>'


def _errors(report: Report) -> str:
    if not report.errors:
        return ""
    rows = [
        [f"<code>{escape(each.kind)}</code>", escape(ERROR_KINDS.get(each.kind, "")), units.count(each.count),
         f"<code>{escape(each.sample)}</code>"]
        for each in report.errors
    ]  # fmt: skip
    made = page_parts.table(["kind", "meaning", "count", "one of them"], rows, wide=(1, 3))
    return f'<section id="errors"><h2>Errors</h2>{made}</section>'
