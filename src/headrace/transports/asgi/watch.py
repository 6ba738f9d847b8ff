"""Whether the client of an ASGI request is still there: the host tells only who asks, and who asks has to wait.

So a task asks, and only for requests that are not answered at once: most are over before one would be made.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from headrace.transports._asgi_link import AsgiLink

__all__ = ("Watcher",)

Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

AFTER = 0.02
"""Seconds that a request may take before the host is asked; at most twice that."""
_MOST_EXTRA = 64
"""Messages that carry nothing a host may send before it is not asked any more."""


class Watcher:
    """The requests of one event loop that wait for their answers."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._round = 0
        self._waiting: list[tuple[AsgiLink, int, int, Receive, contextvars.Context]] = []
        self._context = contextvars.copy_context()

    def soon(self, link: AsgiLink, receive: Receive) -> None:
        """To be called when a request has to wait."""
        if link.watched == link.turn:
            return
        link.watched = link.turn
        if not self._waiting:
            self._loop.call_later(AFTER, self._sweep, context=self._context)
        # The host's `receive` is called as the request was: with its context variables.
        self._waiting.append((link, link.turn, self._round, receive, contextvars.copy_context()))

    def _sweep(self) -> None:
        later = []
        for entry in self._waiting:
            link, turn, since, receive, context = entry
            if link.idle or link.closed or link.turn != turn:
                continue
            if since == self._round:
                later.append(entry)
            else:
                link.watch = self._loop.create_task(_watch(link, turn, receive), context=context)
        self._round += 1
        self._waiting = later
        if later:
            self._loop.call_later(AFTER, self._sweep, context=self._context)


async def _watch(link: AsgiLink, turn: int, receive: Receive) -> None:
    """Waits for ``http.disconnect``. A host that says again and again that there is no more body cannot tell."""
    for _ in range(_MOST_EXTRA):
        try:
            message = await receive()
        except Exception:
            return  # the host's own affair; it meets the same in `send`
        if link.turn != turn or link.idle:
            return
        if message["type"] == "http.disconnect":
            link.watch = None
            link.disconnected()
            return
        await asyncio.sleep(0)
