"""What every backplane does the same way: who is told of what, and that a listener's failure stays its own.

The event loop calls the listeners; a listener that raises is logged, at most once in some seconds for each kind of
message, and the others are told all the same (B96).
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from time import monotonic
from typing import Any

from headrace.protocol.backplane import Backplane, Receive

__all__ = ("Listening", "Rated", "new_name")

_QUIET = 10.0  # seconds between two log lines that say the same


def new_name() -> str:
    """A name for a process: 64 random bits in hexadecimal, behind a letter."""
    return "w" + secrets.token_hex(8)


class Rated:
    """Log lines that may come often: the first of a kind at once, then one in ten seconds with their number."""

    def __init__(self, log: logging.Logger) -> None:
        self.log = log
        self._seen: dict[str, tuple[float, int]] = {}

    def __call__(self, level: int, kind: str, text: str, *values: Any) -> None:
        """Logs ``text % values`` unless ``kind`` (one of few) was logged lately."""
        at, missed = self._seen.get(kind, (-_QUIET, 0))
        now = monotonic()
        if now - at < _QUIET:
            self._seen[kind] = (at, missed + 1)
            return
        self._seen[kind] = (now, 0)
        if missed:
            text += f" ({missed} more since the last such line)"
        self.log.log(level, text, *values)


class Listening(Backplane):
    """A backplane's listeners. Subclasses call the methods with an underscore, on the event loop."""

    def __init__(self) -> None:
        self.rated = Rated(logging.getLogger("headrace.backplane"))
        self._functions: dict[str, Receive] = {}
        self._gap: list[Callable[[], None]] = []
        self._emptied: list[Callable[[], None]] = []
        self._changed: list[Callable[[bool], None]] = []
        self._death: list[Callable[[str], None]] = []

    def receive(self, kind: str, function: Receive) -> None:
        """See :meth:`Backplane.receive`. A later function takes the place of an earlier one."""
        self._functions[kind] = function

    def on_gap(self, function: Callable[[], None]) -> None:
        """See :meth:`Backplane.on_gap`."""
        self._gap.append(function)

    def on_emptied(self, function: Callable[[], None]) -> None:
        """See :meth:`Backplane.on_emptied`."""
        self._emptied.append(function)

    def on_available(self, function: Callable[[bool], None]) -> None:
        """See :meth:`Backplane.on_available`."""
        self._changed.append(function)

    def on_death(self, function: Callable[[str], None]) -> None:
        """See :meth:`Backplane.on_death`."""
        self._death.append(function)

    def _deliver(self, sender: str, kind: str, parts: list[bytes]) -> None:
        function = self._functions.get(kind)
        if function is not None:  # an unknown kind is one of another release
            self._call(f"message {kind}", function, sender, parts)

    def _missed(self) -> None:
        for function in self._gap:
            self._call("gap", function)

    def _gone(self) -> None:
        self._missed()
        for function in self._emptied:
            self._call("emptied", function)

    def _reachable(self, available: bool) -> None:
        for function in self._changed:
            self._call("available", function, available)

    def _died(self, worker: str) -> None:
        for function in self._death:
            self._call("death", function, worker)

    def _call(self, what: str, function: Callable[..., None], *values: Any) -> None:
        try:
            function(*values)
        except Exception as exc:
            text = str(exc).partition("\n")[0][:200]
            self.rated(
                logging.ERROR, what, "%s of the backplane could not be handled: %s: %s", what, type(exc).__name__, text
            )
