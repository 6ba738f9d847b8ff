"""The lifespan of a hosted server, in a task of its own.

Lifespans of the SDK hold anyio task groups. Such a scope has to be left by the task that entered it, inside of no scope
entered later, and does not end cleanly in a task that was cancelled, as the one that serves is in the end (B98).
"""

from __future__ import annotations

import asyncio
from contextlib import AbstractAsyncContextManager
from typing import Any

from headrace.transports.shield import shielded

__all__ = ("OwnTask",)


class OwnTask:
    """Enters and leaves ``manager`` in a task of its own. Where ``manager`` fails in between, the task that entered
    this is cancelled, and leaving this raises the failure."""

    def __init__(self, manager: AbstractAsyncContextManager[Any]) -> None:
        self._manager = manager
        self._leaving = False
        self._owner: asyncio.Task[Any] | None = None
        self._task: asyncio.Task[None]
        self._entered: asyncio.Future[Any]
        self._leave: asyncio.Future[None]

    async def __aenter__(self) -> Any:
        loop = asyncio.get_running_loop()
        self._owner = asyncio.current_task()
        self._entered = loop.create_future()
        self._leave = loop.create_future()
        self._task = loop.create_task(self._run(), name="headrace-lifespan")
        self._task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(self._entered)
        except BaseException:
            self._leaving = True
            self._task.cancel()
            await self._wait()
            raise

    async def _run(self) -> None:
        try:
            async with self._manager as value:
                self._entered.set_result(value)
                await self._leave
        except BaseException as exc:
            if self._entered.done():
                raise
            if isinstance(exc, asyncio.CancelledError | SystemExit | KeyboardInterrupt):
                self._entered.cancel()
            else:
                self._entered.set_exception(exc)

    def _ended(self, task: asyncio.Task[None]) -> None:
        entered = self._entered
        was_entered = entered.done() and not entered.cancelled() and entered.exception() is None
        if was_entered and not self._leaving and self._owner is not None:
            self._owner.cancel()

    async def _wait(self) -> None:
        """Waits for the task, whatever cancels the waiting."""
        cancelled: BaseException | None = None
        with shielded():
            while not self._task.done():
                try:
                    await asyncio.wait([self._task])
                except asyncio.CancelledError as exc:
                    if cancelled is not None:
                        self._task.cancel()  # asked twice: at once
                    cancelled = exc
        if cancelled is not None:
            raise cancelled

    async def __aexit__(self, *_: object) -> None:
        self._leaving = True
        self._owner = None
        if not self._leave.done():
            self._leave.set_result(None)
        await self._wait()
        if not self._task.cancelled():
            self._task.result()
