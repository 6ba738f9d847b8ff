"""Charts of a report as inline SVG, drawn by hand: no script, no library, nothing fetched.

Every chart has one axis a side, a title and a description for screen readers, and tooltips that are plain SVG shown by
the style sheet while their band is pointed at or has the focus. Widths are units of the view box; the page scales them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape
from typing import NamedTuple

from headrace.bench import units
from headrace.bench.report import Latency

__all__ = ("Series", "histogram", "over_time", "percentiles", "thinned")

WIDTH, HEIGHT = 520, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 14, 14, 34
_X0, _X1 = _LEFT, WIDTH - _RIGHT
_Y0, _Y1 = _TOP, HEIGHT - _BOTTOM
_MAX_POINTS = 150
_TIP_CHARACTER, _TIP_LINE = 6.9, 17


class Series(NamedTuple):
    """Values of one line over time. ``style`` is its class: ``a``, ``b``, ``bad`` or ``soft``."""

    name: str
    style: str
    values: Sequence[float | None]
    area: bool = False
    bars: bool = False


class _Axis:
    """Maps values to places."""

    def __init__(self, low: float, high: float, start: float, end: float, *, log: bool = False) -> None:
        self.low, self.high, self.log = low, high, log
        self._start, self._end = start, end

    def at(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = math.log(max(value, self.low)), math.log(low), math.log(high)
        part = (min(max(value, low), high) - low) / ((high - low) or 1.0)
        return self._start + part * (self._end - self._start)


def _steps(high: float, about: int = 4) -> list[float]:
    """Round values from 0 to at least ``high``."""
    if high <= 0:
        return [0.0, 1.0]
    raw = high / about
    base = 10.0 ** math.floor(math.log10(raw))
    step = next(base * m for m in (1, 2, 2.5, 5, 10) if base * m >= raw * 0.999)
    return [i * step for i in range(math.ceil(high / step - 1e-9) + 1)]


def _log_steps(low: float, high: float) -> list[float]:
    """1, 2, 5 of every power of ten between, or the powers alone where that is too many."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    for marks in ((1, 2, 5), (1, 3), (1,)):
        every = [m * 10.0**e for e in range(first, last + 1) for m in marks]
        found = [mark for mark in every if low * 0.999 <= mark <= high * 1.001]
        if 0 < len(found) <= 6:
            return found
    stride = max(1, (last - first) // 5)
    return [10.0**e for e in range(first, last + 1, stride) if low * 0.999 <= 10.0**e <= high * 1.001]


def _frame(kind: str, title: str, about: str, body: list[str]) -> str:
    head = f'<svg class="chart {kind}" viewBox="0 0 {WIDTH} {HEIGHT}" role="img"'
    return f'{head} aria-label="{escape(f"{title}. {about}")}">{"".join(body)}</svg>'


def _rows(axis: _Axis, marks: Sequence[float], text: Sequence[str]) -> list[str]:
    """Horizontal lines with their values to the left; every second value can be left out where there is no room."""
    out = []
    for i, (mark, word) in enumerate(zip(marks, text, strict=True)):
        y = axis.at(mark)
        out.append(
            f'<line class="{"base" if y >= _Y1 - 0.5 else "grid"}" x1="{_X0}" x2="{_X1}" y1="{y:.1f}" y2="{y:.1f}"/>'
            f'<text class="tick{" opt" if i % 2 else ""}" x="{_X0 - 8}" y="{y + 4:.1f}" text-anchor="end">'
            f"{escape(word)}</text>"
        )
    return out


def _columns(places: Sequence[tuple[float, str]], *, lines: bool = False) -> list[str]:
    out = []
    for i, (x, word) in enumerate(places):
        if lines:
            out.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_Y0}" y2="{_Y1}"/>')
        anchor = "start" if x < _X0 + 6 else "end" if x > _X1 - 20 else "middle"
        out.append(
            f'<text class="tick{" opt" if i % 2 else ""}" x="{x:.1f}" y="{_Y1 + 21}" text-anchor="{anchor}">'
            f"{escape(word)}</text>"
        )
    return out


def _tip(x0: float, x1: float, lines: Sequence[str], *, cursor: bool = True) -> str:
    """A band that shows ``lines`` and a vertical line while it is pointed at."""
    middle = (x0 + x1) / 2
    width = max(len(line) for line in lines) * _TIP_CHARACTER + 18
    left = min(max(middle + 10 if middle < (_X0 + _X1) / 2 else middle - 10 - width, 2), WIDTH - width - 2)
    rows = "".join(
        f'<text x="{left + 9:.1f}" y="{_Y0 + 18 + i * _TIP_LINE}">{escape(line)}</text>' for i, line in enumerate(lines)
    )
    line = f'<line class="cursor" x1="{middle:.1f}" x2="{middle:.1f}" y1="{_Y0}" y2="{_Y1}"/>' if cursor else ""
    return (
        f'<g class="hit"><rect class="band" x="{x0:.1f}" y="{_Y0}" width="{max(x1 - x0, 0.5):.1f}" '
        f'height="{_Y1 - _Y0}"/>'
        f'<g class="tip">{line}<rect x="{left:.1f}" y="{_Y0 + 1}" width="{width:.1f}" '
        f'height="{len(lines) * _TIP_LINE + 10}" rx="5"/>{rows}</g></g>'
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


# -- latency ---------------------------------------------------------------------------------------------------------


def _curve(latency: Latency) -> list[tuple[float, float]]:
    """(part of the calls that were slower or as slow, microseconds), from all calls down to the slowest one."""
    total = sum(count for _, count in latency.histogram)
    points, seen = [(1.0, latency.min)], 0
    for up_to, count in latency.histogram:
        seen += count
        points.append((max((total - seen) / total, 0.5 / total), min(up_to, latency.max)))
    return points


_STOPS = (0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999, 0.99999)
_LABEL = 56.0
"""Units of width that a label of a percentile wants."""
_MARKS = (0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 0.999999)


def percentiles(runs: Sequence[tuple[str, str, Latency]]) -> str:
    """Latency by percentile, both scales logarithmic: every nine is as wide. ``runs``: name, style, latency."""
    runs = [run for run in runs if run[2].histogram]
    if not runs:
        return ""
    curves = [_curve(latency) for _, _, latency in runs]
    smallest = min(curve[-1][0] for curve in curves)
    tail = max(math.log10(1 / smallest), 1.0)
    x = _Axis(0.0, tail, _X0, _X1)
    low = min(point[1] for curve in curves for point in curve)
    high = max(point[1] for curve in curves for point in curve)
    y = _Axis(max(low * 0.9, 1e-3), max(high * 1.12, low * 1.5), _Y1, _Y0, log=True)
    marks = _log_steps(y.low, y.high)
    body = _rows(y, marks, [units.latency(mark).replace(".00", "").replace(".0 ", " ") for mark in marks])
    body.append(f'<line class="base" x1="{_X0}" x2="{_X1}" y1="{_Y1}" y2="{_Y1}"/>')
    shown = [p for p in _MARKS if math.log10(1 / (1 - p)) <= tail + 1e-9]
    if len(shown) > 5:
        shown.remove(0.5)
    places: list[tuple[float, str]] = []
    for p in shown:
        place = x.at(math.log10(1 / (1 - p)))
        if not places or place - places[-1][0] >= _LABEL:  # the labels of many nines are long
            places.append((place, _percentile(p)))
    body += _columns(places, lines=True)
    for (_, style, _), curve in reversed(list(zip(runs, curves, strict=True))):
        points = [(x.at(math.log10(1 / rest)), y.at(us)) for rest, us in curve]
        body.append(f'<path class="line {style}" d="{_path(points)}"/>')
    stops = sorted({*(p for p in _STOPS if 1 - p >= smallest), 1 - smallest})
    at = [x.at(math.log10(1 / (1 - p))) for p in stops]
    for i, stop in enumerate(stops):
        left = _X0 if i == 0 else (at[i - 1] + at[i]) / 2
        right = _X1 if i == len(stops) - 1 else (at[i] + at[i + 1]) / 2
        last = i == len(stops) - 1
        lines = ["slowest call" if last else _percentile(stop)]
        for (name, _, latency), curve in zip(runs, curves, strict=True):
            found = (us for rest, us in curve if rest <= (1 - stop) * 1.0000001)
            value = latency.max if last else next(found, latency.max)
            lines.append(f"{name + ' ' if len(runs) > 1 else ''}{units.latency(value)}")
        body.append(_tip(left, right, lines))
    about = "; ".join(
        f"{name}: p50 {units.latency(v.p50)}, p99 {units.latency(v.p99)}, max {units.latency(v.max)}"
        for name, _, v in runs
    )
    return _frame("percentiles", "Latency by percentile", about, body)


def _percentile(part: float) -> str:
    return "all" if part == 0 else f"p{part * 100:.6g}"


def _binned(latency: Latency, low: float, high: float, bins: int) -> list[int]:
    """Calls in ``bins`` equal steps of the logarithm."""
    out = [0] * bins
    span = math.log(high / low)
    for up_to, count in latency.histogram:
        slot = int(math.log(max(min(up_to, high), low) / low) / span * bins)
        out[min(slot, bins - 1)] += count
    return out


def histogram(latency: Latency, style: str = "a") -> str:
    """How many calls took how long; time is logarithmic. The marks are p50 and p99."""
    if not latency.histogram:
        return ""
    total = sum(count for _, count in latency.histogram)
    low = max(latency.min * 0.95, 1e-3)
    high = max(latency.max * 1.05, low * 2)
    x = _Axis(low, high, _X0, _X1, log=True)
    bins = min(44, max(8, len(latency.histogram)))
    counts = _binned(latency, low, high, bins)
    parts = [count / total * 100 for count in counts]
    marks = _steps(max(parts) * 1.08)
    y = _Axis(0.0, marks[-1], _Y1, _Y0)
    body = _rows(y, marks, [f"{mark:g} %" for mark in marks])
    ticks = _log_steps(low, high)
    body += _columns([(x.at(tick), units.latency(tick).replace(".00", "").replace(".0 ", " ")) for tick in ticks])
    width = (_X1 - _X0) / bins
    tips = []
    for i, (count, part) in enumerate(zip(counts, parts, strict=True)):
        left = _X0 + i * width
        if count:
            top = min(y.at(part), _Y1 - 1.2)  # one call among millions is seen
            body.append(
                f'<path class="bar {style}" d="M{left + 0.6:.1f} {_Y1}V{top + 1.5:.1f}q0 -1.5 1.5 -1.5'
                f'H{left + width - 2.1:.1f}q1.5 0 1.5 1.5V{_Y1}Z"/>'
            )
            edges = [low * (high / low) ** (each / bins) for each in (i, i + 1)]
            span = f"{units.latency(edges[0])} to {units.latency(edges[1])}"
            tips.append(_tip(left, left + width, [span, f"{units.count(count)} calls, {part:.3g} %"], cursor=False))
    for name, value in (("p50", latency.p50), ("p99", latency.p99)):
        at = x.at(value)
        anchor, shift = ("end", -4) if at > _X1 - 50 else ("start", 4)
        body.append(
            f'<line class="mark" x1="{at:.1f}" x2="{at:.1f}" y1="{_Y0}" y2="{_Y1}"/>'
            f'<text class="name" x="{at + shift:.1f}" y="{_Y0 + 9}" text-anchor="{anchor}">{name}</text>'
        )
    about = f"most calls took {units.latency(latency.p50)}, one in a hundred {units.latency(latency.p99)} or more"
    return _frame("histogram", "Latency histogram", about, body + tips)


# -- over time -------------------------------------------------------------------------------------------------------


def over_time(title: str, seconds: Sequence[int], series: Sequence[Series], unit: str) -> str:
    """Lines over the seconds of a run, from zero. ``unit`` is ``rate``, ``latency``, ``cores`` or ``size``."""
    values = [v for each in series for v in each.values if v is not None]
    if not seconds or not values:
        return ""
    top = max(values)
    if unit == "latency":
        scale = 1e6 if top >= 1e6 else 1e3 if top >= 1e3 else 1.0
        steps = [step * scale for step in _steps(top / scale * 1.04)]
    elif unit == "size":
        scale = 10 ** (3 * int(math.log10(max(top, 1)) // 3))
        steps = [step * scale for step in _steps(top / scale * 1.04)]
    else:
        steps = _steps(top * 1.04 if top else 1.0)
    y = _Axis(0.0, steps[-1], _Y1, _Y0)
    body = _rows(y, steps, [_axis_text(step, steps[-1], unit) for step in steps])
    first, last = seconds[0], seconds[-1] + (seconds[-1] - seconds[-2] if len(seconds) > 1 else 1)
    x = _Axis(first, last, _X0, _X1)
    body += _columns([(x.at(mark), f"{mark:g} s") for mark in _steps(last, 5) if first <= mark <= last])
    width = (_X1 - _X0) / len(seconds)
    for each in series:
        middles = [(x.at(s) + width / 2, y.at(v)) for s, v in zip(seconds, each.values, strict=True) if v is not None]
        if not middles:
            continue
        if each.bars:
            thick = min(max(width - 2, 1.0), 14)
            for at, height in middles:
                if height < _Y1 - 0.01:
                    up = min(height, _Y1 - 2)
                    body.append(
                        f'<rect class="bar {each.style}" x="{at - thick / 2:.1f}" y="{up:.1f}" width="{thick:.1f}" '
                        f'height="{_Y1 - up:.1f}"/>'
                    )
            continue
        if each.area:
            shape = [(middles[0][0], _Y1), *middles, (middles[-1][0], _Y1)]
            body.append(f'<path class="area {each.style}" d="{_path(shape)}Z"/>')
        body.append(f'<path class="line {each.style}" d="{_path(middles)}"/>')
        if len(middles) <= 3:
            body += [f'<circle class="dot {each.style}" cx="{px:.1f}" cy="{py:.1f}" r="4"/>' for px, py in middles]
    for i, second in enumerate(seconds):
        until = seconds[i + 1] if i + 1 < len(seconds) else last
        lines = [f"{second} s" if until - second <= 1 else f"{second} to {until:g} s"]
        for each in series:
            value = each.values[i]
            if value is not None and (not each.bars or value):
                lines.append(f"{each.name} {_value(value, unit)}")
        body.append(_tip(_X0 + i * width, _X0 + (i + 1) * width, lines))
    about = "; ".join(f"{each.name} {_range([v for v in each.values if v is not None], unit)}" for each in series)
    return _frame("time", title, about, body)


def _range(values: Sequence[float], unit: str) -> str:
    return f"{_value(min(values), unit)} to {_value(max(values), unit)}" if values else "unknown"


def _value(value: float, unit: str) -> str:
    if unit == "latency":
        return units.latency(value)
    if unit == "size":
        return units.size(value)
    return units.cores(value) if unit == "cores" else f"{units.per_second(value)} /s"


def _axis_text(value: float, top: float, unit: str) -> str:
    if value == 0:
        return "0"
    if unit == "latency":
        scale, word = (1e6, "s") if top >= 1e6 else (1e3, "ms") if top >= 1e3 else (1.0, "us")
        return f"{value / scale:.4g} {word}"
    if unit == "size":
        scale = 10 ** (3 * int(math.log10(top) // 3))
        return f"{value / scale:.4g} {({1: 'B', 10**3: 'kB', 10**6: 'MB', 10**9: 'GB'}).get(scale, 'TB')}"
    return f"{value:.3g}" if unit == "cores" else units.amount(value)


def thinned(seconds: Sequence[int]) -> list[tuple[int, int]]:
    """Ranges of indices that become one point, so that a long run has no more than ``_MAX_POINTS``."""
    every = max(1, math.ceil(len(seconds) / _MAX_POINTS))
    return [(start, min(start + every, len(seconds))) for start in range(0, len(seconds), every)]
