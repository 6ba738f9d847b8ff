"""A lifespan in a task of its own: entered and left there, whichever tasks the host's users are.

An async context manager may belong to the task that enters it (one with an anyio task group does), but the first user
of a host need not be its last, and the last one may leave under cancelled scopes of its own.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

__all__ = ("Lifespan",)


class Lifespan:
    """One run of a lifespan. ``on_collapse()`` is called when it ends before it is left, which is how the failure of
    something that it runs in the background shows; ``failure`` says why then."""

    def __init__(self, manager: AbstractAsyncContextManager[Any], on_collapse: Callable[[], Any]) -> None:
        self.failure: BaseException | None = None
        self._manager = manager
        self._on_collapse = on_collapse
        self._loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[tuple[Any, contextvars.Context]] = self._loop.create_future()
        self._leave: asyncio.Future[None] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> Any:
        """What the lifespan yields; context variables that it has set are set for the caller. Raises what it raises."""
        self._task = self._loop.create_task(self._run())
        try:
            state, context = await self._entered
        except asyncio.CancelledError:
            if not self._entered.done() or self._entered.cancelled():
                self._task.cancel()
                await asyncio.wait([self._task])
            raise
        for variable, value in context.items():
            if variable.get(_UNSET) is not value:
                variable.set(value)
        return state

    async def leave(self) -> None:
        """Leaves it. Raises what it raises at its end, unless that is known as `failure` already."""
        if self._task is None:
            return
        if not self._leave.done():
            self._leave.set_result(None)
        await asyncio.wait([self._task])
        if self.failure is None and not self._task.cancelled() and (exc := self._task.exception()) is not None:
            raise exc

    async def _run(self) -> None:
        try:
            async with self._manager as state:
                if not self._entered.done():
                    self._entered.set_result((state, contextvars.copy_context()))
                await self._leave
        except BaseException as exc:
            if not self._entered.done():
                if isinstance(exc, asyncio.CancelledError | SystemExit | KeyboardInterrupt):
                    self._entered.cancel()
                else:
                    self._entered.set_exception(exc)
            elif not self._leave.done() or self._leave.cancelled():
                self.failure = exc
                self._on_collapse()
            else:
                raise


_UNSET: Any = object()
