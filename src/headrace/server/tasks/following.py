"""What other processes that share the store have to do with the tasks of this one, and this one with theirs.

Signals for the tasks that run here are taken, tasks that run elsewhere are followed for the listens and requests that
wait for them, and now and then both sides are compared: what the store takes for running here, and what does.
A store that pushes says when there is something; one that does not is looked at several times a second while anybody
wants to know.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.protocol.tasks.states import FAILED, Task, detail, error_object, owner_key
from headrace.protocol.tasks.store import Signal
from headrace.server.tasks.remote import read_refusal
from headrace.server.tasks.run import cancelled_fields

if TYPE_CHECKING:
    from headrace.mux import Exchange
    from headrace.server.tasks.engine import TaskEngine

__all__ = ("Following",)

_LOOK_EVERY = 0.25  # seconds, where the store does not push
_AT_LEAST_EVERY = 15.0  # seconds, where it does
_LOST = "the task could not be kept"
_decode = msgspec.json.Decoder().decode


class Following:
    """The ties of one engine to other processes."""

    def __init__(self, engine: TaskEngine) -> None:
        self.engine = engine
        self.listened: dict[str, float] = {}
        """Tasks that run elsewhere and that a listen follows, with the time of the change that it knows of."""
        self._waiters: dict[str, list[asyncio.Future[None]]] = {}
        self._looker: asyncio.Task[None] | None = None
        self._taking = False
        self._again = False

    def attach(self) -> None:
        """Before the store starts."""
        self._taking = self._again = False
        self.engine.store.attach(self._signalled, self._changed, self._missed)

    def stop(self) -> None:
        """The server stops: nobody follows anything."""
        self.listened.clear()
        for waiters in self._waiters.values():
            for waiter in waiters:
                waiter.cancel()
        self._waiters.clear()

    # --- what is pushed -----------------------------------------------------------------------------

    def _signalled(self) -> None:
        if self._taking:
            self._again = True
        else:
            self._taking = True
            self.engine.background(self._take())

    async def _take(self) -> None:
        try:
            self._again = True
            while self._again:
                self._again = False
                while await self.take_signals():
                    pass
        finally:
            self._taking = False

    def _changed(self, task_id: str) -> None:
        self._wake(task_id)
        if task_id in self.listened:
            self.engine.background(self._tell(task_id))

    def _missed(self) -> None:
        """Something may have been said that was not heard."""
        self._signalled()
        for task_id in (*self._waiters, *self.listened):
            self._changed(task_id)
        self.engine.background(self.compare())

    def _wake(self, task_id: str) -> None:
        for waiter in self._waiters.pop(task_id, ()):
            if not waiter.done():
                waiter.set_result(None)

    # --- where nothing is pushed --------------------------------------------------------------------

    def look(self) -> None:
        """Somebody wants to know: a store that does not push is looked at from now on."""
        store = self.engine.store
        if store.shared and not store.pushes and self._looker is None:
            self._looker = self.engine.background(self._look())

    async def _look(self) -> None:
        engine = self.engine
        try:
            while engine.runs or self.listened:
                await asyncio.sleep(_LOOK_EVERY)
                with contextlib.suppress(OSError):  # the next look, or whoever asks, will tell
                    if engine.runs:
                        await self.take_signals()
                    for task_id in list(self.listened):
                        await self._tell(task_id)
        finally:
            self._looker = None

    # --- signals ------------------------------------------------------------------------------------

    async def take_signals(self) -> bool:
        """Has the tasks that run here get what other processes have for them; whether there was something."""
        signals = await self.engine.store.signals()
        for signal in signals:
            try:
                self._take_one(signal)
            except (ValueError, msgspec.MsgspecError) as exc:
                self.engine.server.log.error("a signal for a task cannot be read: %s", exc)
        return bool(signals)

    def _take_one(self, signal: Signal) -> None:
        engine = self.engine
        run = engine.runs.get(signal.task_id)
        if run is None:
            return
        if signal.kind == "cancel":
            engine.background(run.finish(cancelled_fields()))
        elif run.answer(signal.key, read_refusal(signal.body) if signal.kind == "refused" else _decode(signal.body)):
            engine.background(run.sync_patiently())

    # --- following ----------------------------------------------------------------------------------

    async def accept(self, exchange: Exchange, task_ids: list[str]) -> list[str]:
        """Those of the ids that the caller may follow; those that run elsewhere are followed in the store.

        Raises RpcError when the store cannot be used.
        """
        engine, owner = self.engine, owner_key(exchange.principal)
        found: list[str] = []
        elsewhere: list[str] = []
        for task_id in dict.fromkeys(task_ids):
            run = engine.runs.get(task_id)
            if run is None and engine.possible(task_id):
                elsewhere.append(task_id)
            elif run is not None and run.task.owner == owner:
                found.append(task_id)
        for task in await asyncio.gather(*(engine.reach(engine.store.follow(task_id)) for task_id in elsewhere)):
            if task is None:
                continue
            if task.owner == owner:
                found.append(task.id)
                if not task.terminal:
                    self.listened.setdefault(task.id, 0.0)
            elif task.id not in self.listened and task.id not in self._waiters:
                engine.background(engine.store.unfollow(task.id))
        self.look()
        return found

    def released(self, task_id: str) -> None:
        """No listen follows the task any more."""
        if self.listened.pop(task_id, None) is not None and task_id not in self._waiters:
            self.engine.background(self.engine.store.unfollow(task_id))

    async def _tell(self, task_id: str) -> None:
        engine = self.engine
        task = await engine.store.get(task_id)
        if task is None:
            self.listened.pop(task_id, None)
        elif self.listened.get(task_id, task.updated) != task.updated:
            self.listened[task_id] = task.updated
            engine.server.hub.task(task_id, detail(task), everywhere=False)
            if task.terminal:
                self.listened.pop(task_id, None)

    @contextlib.asynccontextmanager
    async def waiting(self, task: Task) -> AsyncIterator[Callable[[], Awaitable[Task | None]]]:
        """For who waits for news of a task of another process: inside, each call of what this gives waits for some and
        then gives the task, None when it is gone. Raises RpcError when the store cannot be used."""
        engine, store = self.engine, self.engine.store
        await engine.reach(store.follow(task.id))
        known = task.updated

        async def news() -> Task | None:
            nonlocal known
            seconds = _AT_LEAST_EVERY if store.pushes else engine.poll / 1000
            while True:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._waiters.setdefault(task.id, []).append(waiter)
                try:
                    found = await engine.reach(store.get(task.id))
                    if found is None:
                        return None
                    if found.updated != known:
                        known = found.updated
                        return found
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(seconds):
                            await waiter
                finally:
                    self._forget(task.id, waiter)

        try:
            yield news
        finally:
            if task.id not in self._waiters and task.id not in self.listened:
                engine.background(store.unfollow(task.id))

    def _forget(self, task_id: str, waiter: asyncio.Future[None]) -> None:
        waiters = self._waiters.get(task_id)
        if waiters is not None and waiter in waiters:
            waiters.remove(waiter)
            if not waiters:
                del self._waiters[task_id]

    # --- both sides compared ------------------------------------------------------------------------

    async def compare(self) -> None:
        """Settles what the store takes for running here and what runs here, where these differ: after a cancel of
        which nothing was heard, a creation whose answer was lost, a store that came back without what it had."""
        engine = self.engine
        running = set(engine.runs)
        known = await engine.store.unfinished()
        if known is None:
            return
        for task_id in known:
            if task_id not in engine.runs and task_id not in engine.creating:
                error = error_object(RpcError(INTERNAL_ERROR, _LOST))
                await engine.store.change(task_id, {"status": FAILED, "message": _LOST, "inputs": {}, "payload": error})
        for task_id in running.difference(known):
            run = engine.runs.get(task_id)
            if run is not None:
                await run.check()
