"""A lifespan in a task of its own: entered and left there, whichever tasks the users of a server are.

An async context manager may belong to the task that enters it (one with an anyio task group does: B98), but the first
user of a server need not be its last, and the last one may leave under cancelled scopes of its own (B21).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager
from typing import Any

from headrace.transports.shield import shielded

__all__ = ("Lifespan",)


class Lifespan:
    """One run of a lifespan. ``failure`` says why it ended before it was left, which is how the failure of something
    that it runs in the background shows."""

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self.failure: BaseException | None = None
        self._manager = manager
        self._users: list[asyncio.Task[Any]] = []
        self._loop = asyncio.get_running_loop()
        self._entered: asyncio.Future[tuple[Any, contextvars.Context]] = self._loop.create_future()
        self._leave: asyncio.Future[None] = self._loop.create_future()
        self._task: asyncio.Task[None] | None = None

    async def enter(self) -> Any:
        """What the lifespan yields; context variables that it has set are set for the caller. Raises what it raises."""
        self._task = self._loop.create_task(self._run(), name="headrace-lifespan")
        try:
            state, context = await self._entered
        except asyncio.CancelledError:
            if self._entered.cancelled() or not self._entered.done():
                self._task.cancel()
            else:
                self._leave.set_result(None)
            await self._wait(self._task)
            raise
        for variable, value in context.items():
            if variable.get(_UNSET) is not value:
                variable.set(value)
        return state

    @contextlib.contextmanager
    def used(self) -> Iterator[None]:
        """For what runs inside of the lifespan: ended by CancelledError where the lifespan ends first, and then this
        raises its `failure`."""
        task = asyncio.current_task()
        assert task is not None
        self._users.append(task)
        try:
            yield
        except asyncio.CancelledError:
            if self.failure is None:
                raise
            task.uncancel()
            raise self.failure from None
        finally:
            self._users.remove(task)

    async def leave(self) -> None:
        """Leaves it. Raises what it raises at its end, unless that is known as `failure` already."""
        if self._task is None:
            return
        if not self._leave.done():
            self._leave.set_result(None)
        await self._wait(self._task)
        if self.failure is None and not self._task.cancelled() and (exc := self._task.exception()) is not None:
            raise exc

    async def _run(self) -> None:
        try:
            async with self._manager as state:
                if not self._entered.done():
                    self._entered.set_result((state, contextvars.copy_context()))
                # Cancelled by a scope of the lifespan itself, which says why at its end, or by the end of the loop.
                with contextlib.suppress(asyncio.CancelledError):
                    await self._leave
        except BaseException as exc:
            if not self._entered.done():
                if isinstance(exc, asyncio.CancelledError):
                    self._entered.cancel()
                else:
                    self._entered.set_exception(exc)
            elif not self._leave.done() or self._leave.cancelled():
                self.failure = exc
                for task in set(self._users):
                    task.cancel()
            else:
                raise

    async def _wait(self, task: asyncio.Task[None]) -> None:
        """Waits for the end of it, whatever cancels the waiting; the second time it is cancelled as well."""
        cancelled: asyncio.CancelledError | None = None
        with shielded():
            while not task.done():
                try:
                    await asyncio.wait([task])
                except asyncio.CancelledError as exc:
                    if cancelled is not None:
                        task.cancel()
                    cancelled = exc
        if cancelled is not None:
            raise cancelled


_UNSET: Any = object()
