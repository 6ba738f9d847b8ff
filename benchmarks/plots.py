"""Bar charts and curves as plain SVG, drawn from numbers alone: the same numbers give the same text."""

from __future__ import annotations

import math
from html import escape

FONT = "font-family=\"-apple-system,'Segoe UI',Helvetica,Arial,sans-serif\""
COLOURS = {"headrace": "#0b6e4f", "peer": "#7a8794", "http server": "#b08968", "limit": "#c9d2da"}
INK, FAINT, PAPER = "#1f2933", "#5f6c78", "#ffffff"


def _start(width: int, height: int, title: str, under: str) -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" {FONT} role="img">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="{PAPER}"/>',
        f'<text x="20" y="30" font-size="16" font-weight="600" fill="{INK}">{escape(title)}</text>',
        f'<text x="20" y="50" font-size="12" fill="{FAINT}">{escape(under)}</text>',
    ]


def number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def bars(title: str, under: str, rows: list[tuple[str, str, float]], unit: str) -> str:
    """Horizontal bars on a logarithmic scale: (name, group, value), in the order given."""
    width, left, right, top, step = 940, 460, 90, 84, 25
    height = top + step * len(rows) + 20
    low = 10 ** math.floor(math.log10(min(v for _, _, v in rows)) - 0.0001)
    high = 10 ** math.ceil(math.log10(max(v for _, _, v in rows)) + 0.0001)
    room = width - left - right

    def x(value: float) -> float:
        return left + room * (math.log10(value) - math.log10(low)) / (math.log10(high) - math.log10(low))

    out = _start(width, height, title, under)
    tick = low
    while tick <= high * 1.0001:
        out.append(f'<line x1="{x(tick):.1f}" y1="{top - 6}" x2="{x(tick):.1f}" y2="{height - 16}" stroke="#e6eaee"/>')
        label = f"{tick:,.0f}" if tick >= 1 else f"{tick:g}"
        out.append(f'<text x="{x(tick):.1f}" y="{top - 11}" font-size="11" text-anchor="middle" fill="{FAINT}">{label} {escape(unit)}</text>')
        tick *= 10
    for at, (name, group, value) in enumerate(rows):
        y = top + step * at
        weight = ' font-weight="600"' if group == "headrace" else ""
        out.append(f'<text x="{left - 10}" y="{y + 14}" font-size="12" text-anchor="end" fill="{INK}"{weight}>{escape(name)}</text>')
        out.append(f'<rect x="{left}" y="{y + 2}" width="{max(x(value) - left, 1):.1f}" height="{step - 8}" rx="2" fill="{COLOURS.get(group, COLOURS["peer"])}"/>')
        out.append(f'<text x="{x(value) + 6:.1f}" y="{y + 14}" font-size="12" fill="{INK}"{weight}>{number(value)}</text>')
    return "\n".join([*out, "</svg>", ""])


def curves(title: str, under: str, lines: list[tuple[str, str, list[list[float]]]]) -> str:
    """Lines over calls made, in MB: (name, colour, points). The vertical axis begins at nought, so that flat looks flat."""
    width, height, left, right, top, bottom = 860, 320, 64, 130, 74, 46
    far = max(point[0] for _, _, points in lines for point in points)
    tall = max(point[1] for _, _, points in lines for point in points) * 1.15
    room_x, room_y = width - left - right, height - top - bottom
    out = _start(width, height, title, under)
    step = 10 ** math.floor(math.log10(tall))
    step = step if tall / step >= 4 else step / 2 if tall / step >= 2 else step / 5
    at = 0.0
    while at <= tall:
        y = height - bottom - room_y * at / tall
        out.append(f'<line x1="{left}" y1="{y:.1f}" x2="{width - right}" y2="{y:.1f}" stroke="#e6eaee"/>')
        out.append(f'<text x="{left - 8}" y="{y + 4:.1f}" font-size="11" text-anchor="end" fill="{FAINT}">{at:g} MB</text>')
        at += step
    for part in range(5):
        x = left + room_x * part / 4
        out.append(f'<text x="{x:.1f}" y="{height - bottom + 18}" font-size="11" text-anchor="middle" fill="{FAINT}">{_millions(far * part / 4)}</text>')
    out.append(f'<text x="{left + room_x / 2:.1f}" y="{height - 10}" font-size="11" text-anchor="middle" fill="{FAINT}">calls answered</text>')
    for name, colour, points in lines:
        path = " ".join(f"{left + room_x * px / far:.1f},{height - bottom - room_y * py / tall:.1f}" for px, py in points)
        out.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        end_x, end_y = points[-1]
        out.append(f'<text x="{left + room_x * end_x / far + 8:.1f}" y="{height - bottom - room_y * end_y / tall + 4:.1f}" font-size="12" fill="{colour}">{escape(name)}</text>')
    return "\n".join([*out, "</svg>", ""])


def _millions(calls: float) -> str:
    return f"{calls / 1e6:g} M" if calls >= 1e6 else f"{calls / 1e3:g} k" if calls else "0"
