"""What servers were found to speak, kept for later connects of this process (VN-50).

It is a property of the server: the origin and path of an HTTP endpoint, the address of a line server, or a
command with its directory. A wrong memory costs one more try, see :mod:`headrace.client.opening`; it lasts
an hour at most, so that a server that learns the newer era is found out about.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Hashable
from typing import Literal

__all__ = ("Era", "clear", "forget", "recall", "remember")

Era = Literal["modern", "handshake", "sse"]

MOST = 256
"""Servers that are remembered; the one that was used the longest time ago gives way."""
LASTS = 3_600.0
"""Seconds."""

_known: OrderedDict[Hashable, tuple[Era, float]] = OrderedDict()
_lock = threading.Lock()


def recall(key: Hashable | None) -> Era | None:
    """What the server of ``key`` spoke, or None."""
    with _lock:
        found = _known.get(key)
        if found is None:
            return None
        era, until = found
        if time.monotonic() >= until:
            del _known[key]
            return None
        _known.move_to_end(key)
        return era


def remember(key: Hashable | None, era: Era) -> None:
    """The server of ``key`` (None: nothing is kept) was found to speak ``era`` just now. What is known
    already keeps its end."""
    if key is None:
        return
    with _lock:
        found = _known.get(key)
        if found is None or found[0] != era:
            _known[key] = (era, time.monotonic() + LASTS)
        _known.move_to_end(key)
        while len(_known) > MOST:
            _known.popitem(last=False)


def forget(key: Hashable | None) -> None:
    """The memory was wrong."""
    with _lock:
        _known.pop(key, None)


def clear() -> None:
    """Forgets every server."""
    with _lock:
        _known.clear()
