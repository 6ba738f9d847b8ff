"""Figures of a report as people read them: three digits and a unit. One place, so that table and page agree."""

from __future__ import annotations

__all__ = ("amount", "cores", "count", "duration", "latency", "per_second", "percent", "size")


def _digits(value: float) -> str:
    """Three significant digits, thousands separated, no exponent."""
    if value >= 999.5:
        return f"{value:,.0f}"
    if value >= 99.95:
        return f"{value:.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}"


def latency(us: float) -> str:
    """Microseconds: ``845 ns``, ``12.3 us``, ``4.56 ms``, ``1.20 s``."""
    if us <= 0:
        return "0 us"
    if us < 0.9995:
        return f"{us * 1e3:.0f} ns"
    if us < 999.5:
        return f"{_digits(us)} us"
    if us < 999_500:
        return f"{_digits(us / 1e3)} ms"
    return f"{_digits(us / 1e6)} s"


def size(amount_of_bytes: float) -> str:
    """Bytes: ``512 B``, ``31.1 MB``. Decimal units, as networks and disks have them."""
    value = abs(amount_of_bytes)
    sign = "-" if amount_of_bytes < 0 else ""
    if value < 999.5:
        return f"{sign}{value:.0f} B"
    for unit in ("kB", "MB", "GB"):
        value /= 1e3
        if value < 999.5:
            return f"{sign}{_digits(value)} {unit}"
    return f"{sign}{_digits(value / 1e3)} TB"


def count(value: int) -> str:
    """``1,234,567``."""
    return f"{value:,}"


def per_second(value: float) -> str:
    """``61,234``, ``12.3``: without the unit, which stands beside it."""
    return _digits(value)


def amount(value: float) -> str:
    """Short, for axes: ``0``, ``2.5k``, ``60k``, ``1.2M``."""
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{unit}"
    return f"{value:.3g}"


def cores(value: float) -> str:
    """Processors in use: ``0.98``."""
    return f"{value:.2f}"


def percent(part: float) -> str:
    """A change, ``0.034`` as ``+3.4 %``."""
    text = f"{part * 100:+.1f}" if abs(part) < 0.9995 else f"{part * 100:+,.0f}"
    return f"{'0.0' if text in ('+0.0', '-0.0') else text} %"


def duration(seconds: float) -> str:
    """``800 ms``, ``10 s``, ``2 min 5 s``, ``1 h 3 min``."""
    if 0 < seconds < 0.9995:
        return f"{seconds * 1e3:.0f} ms"
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if minutes else f"{hours} h"
