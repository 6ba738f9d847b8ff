"""Where tasks are kept: the interface, and the store in memory.

A store knows nothing of running: it keeps records, makes each change whole or not at all, never leaves a
final state, and holds its bounds. Stores that several processes share also carry what one process has to
tell the one that runs a task.
"""

from __future__ import annotations

import abc
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.errors import OverloadedError
from headrace.protocol.tasks.states import Task

if TYPE_CHECKING:
    from headrace.limits import Limits

__all__ = ("ORPHANED", "MemoryTaskStore", "Signal", "TaskStore", "TasksFull")

ORPHANED = "the server process that ran this task ended before the task did"
"""``statusMessage`` of tasks whose process died."""


class TasksFull(OverloadedError):
    """The store takes no more tasks, of this caller or at all. ``limit`` is the name of the bound."""

    def __init__(self, text: str, limit: str = "max_tasks") -> None:
        super().__init__(text)
        self.limit = limit


class Signal(NamedTuple):
    """What another process has for a task that runs here: ``kind`` is ``"cancel"``, or with the ``key``
    of a question ``"input"`` (the answer in ``body``) or ``"refused"`` (why there is none)."""

    task_id: str
    kind: str
    key: str
    body: bytes


class TaskStore(abc.ABC):
    """Keeps tasks. Every method may raise OSError when what is underneath fails.

    A store belongs to one server at a time: :meth:`start` before, :meth:`stop` after its use.
    """

    shared: bool = False
    """Whether other processes may see the same tasks: then :meth:`signals` is looked at."""
    pushes: bool = False
    """Whether it calls what :meth:`attach` was given as soon as there is something; a store that does not is
    looked at now and then."""
    forgets: bool = False
    """Whether it may lose tasks that it had acknowledged, as when it comes back empty: those that run are kept in it
    anew."""
    worker: str = ""
    """Name of this process, for :attr:`Task.worker`; set by :meth:`start`."""

    @abc.abstractmethod
    async def start(self, limits: Limits) -> None:
        """Opens it. Tasks that a process left behind unfinished when it died are failed."""

    @abc.abstractmethod
    async def stop(self) -> None:
        """Closes it; everything acknowledged is kept as far as the store can keep it."""

    @abc.abstractmethod
    async def create(self, task: Task) -> None:
        """Keeps a new task; once this returns, :meth:`get` of any process finds it (TK-22).

        Raises :class:`TasksFull` beyond ``max_tasks`` or ``max_tasks_per_principal``.
        """

    @abc.abstractmethod
    async def get(self, task_id: str) -> Task | None:
        """The task, or None when it is unknown or its time is over."""

    @abc.abstractmethod
    async def change(self, task_id: str, fields: dict[str, Any]) -> Task | None:
        """Sets fields of a task that is not terminal, all of them or none, and gives the task.

        None when the task is unknown or terminal (a final state never changes, TK-04). Raises
        :class:`TasksFull` when its payload goes beyond ``max_task_bytes``: then nothing was changed.
        """

    @abc.abstractmethod
    async def delete(self, task_id: str) -> None:
        """Forgets a task, known or not."""

    @abc.abstractmethod
    async def page(self, owner: str, after: int, count: int) -> tuple[list[Task], int | None]:
        """Tasks of ``owner``, oldest first: ``count`` of those behind position ``after`` (0: from the start),
        and the position to go on from, None at the end (TK-05)."""

    @abc.abstractmethod
    async def sweep(self) -> list[str]:
        """Deletes tasks whose time is over, and fails those whose process died; gives the ids of the former."""

    async def post(self, signal: Signal) -> None:
        """Leaves a signal for the process that runs the task; nothing to do where no store is shared."""
        return

    async def signals(self) -> list[Signal]:
        """Takes the signals for tasks of this process, oldest first. One may come twice after a fault."""
        return []

    def attach(
        self, signalled: Callable[[], None], changed: Callable[[str], None], missed: Callable[[], None]
    ) -> None:
        """Before :meth:`start`: has ``signalled()`` called when there are signals, ``changed(task_id)`` when another
        process has changed a task that is followed, and ``missed()`` when any of these may have been lost; on the
        loop. Nothing to do where :attr:`pushes` is False."""
        return

    async def follow(self, task_id: str) -> Task | None:
        """The task as :meth:`get` gives it; what other processes do to it from then on is told."""
        return await self.get(task_id)

    async def unfollow(self, task_id: str) -> None:
        """Nobody here wants to know of the task any more."""
        return

    async def unfinished(self) -> list[str] | None:
        """Ids of the tasks that the store takes for running in this process; None where it cannot be asked."""
        return None


class MemoryTaskStore(TaskStore):
    """Tasks of one process, gone with it.

    It is emptied by nothing but time and restarts of the process, not by a stop of the server.
    """

    def __init__(self) -> None:
        self._tasks: dict[str, tuple[int, Task]] = {}
        self._owned: dict[str, dict[str, None]] = {}
        self._last = 0
        self._bytes = 0
        self._limits: Limits | None = None

    def __len__(self) -> int:
        return len(self._tasks)

    async def start(self, limits: Limits) -> None:
        self._limits = limits

    async def stop(self) -> None:
        pass

    async def create(self, task: Task) -> None:
        assert self._limits is not None
        if len(self._tasks) >= self._limits.max_tasks:
            await self.sweep()
        owned = self._owned.get(task.owner, {})
        if len(self._tasks) >= self._limits.max_tasks:
            raise TasksFull("the server holds too many tasks (limit max_tasks)")
        if len(owned) >= self._limits.max_tasks_per_principal:
            raise TasksFull("you hold too many tasks (limit max_tasks_per_principal)", "max_tasks_per_principal")
        self._last += 1
        self._tasks[task.id] = (self._last, task)
        self._owned.setdefault(task.owner, {})[task.id] = None

    async def get(self, task_id: str) -> Task | None:
        found = self._tasks.get(task_id)
        if found is None:
            return None
        expires = found[1].expires
        return None if expires is not None and expires <= time.time() else found[1]

    async def change(self, task_id: str, fields: dict[str, Any]) -> Task | None:
        found = self._tasks.get(task_id)
        if found is None or found[1].terminal:
            return None
        assert self._limits is not None
        more = len(fields.get("payload") or b"")
        if more and self._bytes + more > self._limits.max_task_bytes:
            await self.sweep()
            if self._bytes + more > self._limits.max_task_bytes:
                raise TasksFull("the results of all tasks are too large (limit max_task_bytes)", "max_task_bytes")
            if task_id not in self._tasks:
                return None
        self._bytes += more
        task = found[1].changed(**fields)
        self._tasks[task_id] = (found[0], task)
        return task

    async def delete(self, task_id: str) -> None:
        found = self._tasks.pop(task_id, None)
        if found is None:
            return
        task = found[1]
        self._bytes -= len(task.payload or b"")
        owned = self._owned[task.owner]
        del owned[task_id]
        if not owned:
            del self._owned[task.owner]

    async def page(self, owner: str, after: int, count: int) -> tuple[list[Task], int | None]:
        now = time.time()
        found: list[tuple[int, Task]] = []
        for task_id in self._owned.get(owner, ()):
            position, task = self._tasks[task_id]
            if position > after and (task.expires is None or task.expires > now):
                found.append((position, task))
                if len(found) > count:
                    break
        more = found[count - 1][0] if len(found) > count else None
        return [task for _, task in found[:count]], more

    async def sweep(self) -> list[str]:
        now = time.time()
        over = [task.id for _, task in self._tasks.values() if task.expires is not None and task.expires <= now]
        await _delete_all(self, over)
        return over


async def _delete_all(store: TaskStore, task_ids: Iterable[str]) -> None:
    for task_id in task_ids:
        await store.delete(task_id)
