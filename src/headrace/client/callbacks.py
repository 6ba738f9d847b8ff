"""Callbacks of the application: plain or async functions, in order, never able to break the connection."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

__all__ = ("Coalescer", "Relay")

MAX_QUEUED = 8_192
"""Notifications that wait for a slow async callback; the oldest give way (progress is a status)."""


class Relay:
    """Calls ``callback`` at once and in order; what it returns to await is awaited one after the other.

    ``failed(exc)`` gets the exceptions. :meth:`finish` waits for the last of them (B78).
    """

    __slots__ = ("_callback", "_failed", "_queue", "_task")

    def __init__(self, callback: Callable[..., Any], failed: Callable[[BaseException], None]) -> None:
        self._callback = callback
        self._failed = failed
        self._queue: deque[Awaitable[Any]] = deque()
        self._task: asyncio.Task[None] | None = None

    def __call__(self, *args: Any) -> None:
        try:
            waiting = self._callback(*args)
        except Exception as exc:
            self._failed(exc)
            return
        if waiting is None or not hasattr(waiting, "__await__"):
            return
        if len(self._queue) >= MAX_QUEUED:
            _discard(self._queue.popleft())
        self._queue.append(waiting)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while self._queue:
            try:
                await self._queue.popleft()
            except Exception as exc:
                self._failed(exc)

    async def finish(self) -> None:
        """Returns when everything that was started has ended."""
        while self._task is not None and not self._task.done():
            await asyncio.wait([self._task])

    def stop(self) -> None:
        """Drops what has not started and cancels what has."""
        while self._queue:
            _discard(self._queue.popleft())
        if self._task is not None:
            self._task.cancel()


def _discard(waiting: Any) -> None:
    close = getattr(waiting, "close", None) or getattr(waiting, "cancel", None)
    if close is not None:
        close()


class Coalescer:
    """Turns a burst of changes into one ``callback(kind)``, and one more for those during it (B113)."""

    def __init__(self, callback: Callable[[str], Any], failed: Callable[[BaseException], None]) -> None:
        self._callback = callback
        self._failed = failed
        self._due: set[str] = set()
        self._running: dict[str, asyncio.Task[None]] = {}
        self._stopped = False

    def changed(self, kind: str) -> None:
        """Something of ``kind`` changed."""
        if self._stopped or kind in self._due:
            return
        self._due.add(kind)
        if kind not in self._running:
            asyncio.get_running_loop().call_soon(self._call, kind)

    def _call(self, kind: str) -> None:
        if self._stopped:
            return
        self._due.discard(kind)
        try:
            waiting = self._callback(kind)
        except Exception as exc:
            self._failed(exc)
            return
        if waiting is not None and hasattr(waiting, "__await__"):
            self._running[kind] = asyncio.get_running_loop().create_task(self._wait(kind, waiting))

    async def _wait(self, kind: str, waiting: Awaitable[Any]) -> None:
        try:
            await waiting
        except Exception as exc:
            self._failed(exc)
        finally:
            self._running.pop(kind, None)
            if kind in self._due:
                self._call(kind)

    def stop(self) -> None:
        """No more calls; a running async callback is cancelled."""
        self._stopped = True
        for task in list(self._running.values()):
            task.cancel()
