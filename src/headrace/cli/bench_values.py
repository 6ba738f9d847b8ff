"""Values of ``headrace bench`` options as people write them: 10s, 64k, 1000/s, 10k. Wrong ones are one plain line."""

from __future__ import annotations

import abc
import re
from typing import TYPE_CHECKING, Any

import click

__all__ = ("COUNT", "RATE", "SECONDS", "SIZE", "WARMUP")

_NUMBER = re.compile(r"\s*([0-9][0-9_]*(?:\.[0-9]+)?|\.[0-9]+)\s*([A-Za-z/]*)\s*")
_SECONDS = {"ms": 1e-3, "s": 1.0, "": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}
_COUNTS = {"": 1, "k": 1_000, "m": 1_000_000}
_SIZES = {"": 1, "b": 1, "k": 1024, "kb": 1024, "kib": 1024, "m": 1024**2, "mb": 1024**2, "mib": 1024**2}
_MOST_SECONDS = 1e8
_MOST = 1e12
_PERIODS = {"": 1.0, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _split(text: str) -> tuple[float, str] | None:
    match = _NUMBER.fullmatch(text)
    return (float(match[1].replace("_", "")), match[2].lower()) if match else None


if TYPE_CHECKING:
    _ParamType = click.ParamType[Any]  # generic in newer releases alone
else:
    _ParamType = click.ParamType


class _Value(_ParamType, abc.ABC):
    """A number with a unit. ``wanted`` says how it is written."""

    wanted = ""

    @abc.abstractmethod
    def read(self, text: str) -> float | None:
        """The value, or None when it is not one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        number = self.read(value)
        if number is None:
            name = param.opts[-1] if param is not None else "the value"
            raise click.UsageError(f"{name} {value!r}: use {self.wanted}", ctx)
        return number


class _Seconds(_Value):
    name = "time"
    wanted = "a time such as 10s, 500ms, 2m or 1h"

    def __init__(self, *, zero: bool = False) -> None:
        self._zero = zero

    def read(self, text: str) -> float | None:
        found = _split(text)
        if found is None or found[1] not in _SECONDS or (found[0] == 0 and not self._zero):
            return None
        seconds = found[0] * _SECONDS[found[1]]
        return seconds if seconds <= _MOST_SECONDS else None


class _Count(_Value):
    name = "count"
    wanted = "a whole number from 1, such as 64 or 10k"

    def read(self, text: str) -> int | None:
        found = _split(text)
        if found is None or found[1] not in _COUNTS:
            return None
        number = found[0] * _COUNTS[found[1]]
        return int(number) if 1 <= number <= _MOST and number == int(number) else None


class _Size(_Value):
    name = "size"
    wanted = "bytes such as 1000, 64k or 1m (k is 1,024)"

    def read(self, text: str) -> int | None:
        found = _split(text)
        if found is None or found[1] not in _SIZES:
            return None
        number = found[0] * _SIZES[found[1]]
        return int(number) if number == int(number) and number <= 256 * 1024**2 else None


class _Rate(_Value):
    name = "rate"
    wanted = "calls such as 1000, 1000/s, 2k/s or 600/min"

    def read(self, text: str) -> float | None:
        number, _, period = text.partition("/")
        found = _split(number)
        if found is None or found[1] not in _COUNTS or period.strip().lower() not in _PERIODS or found[0] == 0:
            return None
        rate = found[0] * _COUNTS[found[1]] / _PERIODS[period.strip().lower()]
        return rate if 1e-6 <= rate <= 1e8 else None


SECONDS = _Seconds()
WARMUP = _Seconds(zero=True)
COUNT = _Count()
SIZE = _Size()
RATE = _Rate()
