"""What several processes of one server share: the interface, which says nothing of how it is done.

A backplane has three parts, and everything that is shared is made of them:

- **messages** from one process to another, or to all others: in order, and noticed when some are missing;
- **records**: small values with a time limit, under a key, and named parts beside each value;
- **logs**: the numbered events of one writer under a key, bounded, which any process can read.

Without one a server is alone, and nothing of this is touched. What is written may be told later than a method that is
no coroutine returns; :meth:`Backplane.flushed` waits for it. Whatever cannot be had now raises
:class:`BackplaneLost`, at once: nothing here waits for something that is down.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.protocol.tasks.store import TaskStore

__all__ = ("Backplane", "BackplaneLost")

Receive = Callable[[str, list[bytes]], None]


class BackplaneLost(OSError):
    """What processes share cannot be reached now. The text is for logs; clients get an error without its details."""


class Backplane(ABC):
    """One process's access to what all processes of a server share. Used on one event loop."""

    worker: str = ""
    """Name of this process among all, made anew by each :meth:`start`: letters and digits. A process that was only slow
    may have been told of as dead; it goes on under its name."""

    @property
    @abstractmethod
    def available(self) -> bool:
        """Whether it can be reached, as far as is known."""

    @abstractmethod
    async def start(self, limits: Limits, log: logging.Logger) -> None:
        """Connects, and makes this process known to the others. Raises :class:`BackplaneLost` when it cannot, unless it
        was made to go on without. It may be started again after :meth:`stop`; what was registered stays."""

    @abstractmethod
    async def stop(self) -> None:
        """Tells what is still to be told, as far as that is quick, and leaves. Raises nothing."""

    # --- messages -----------------------------------------------------------------------------------

    @abstractmethod
    def receive(self, kind: str, function: Receive) -> None:
        """Has messages of a kind given to ``function(sender, parts)``, on the loop; one function a kind."""

    @abstractmethod
    def on_gap(self, function: Callable[[], None]) -> None:
        """Calls ``function`` when messages were missed: whatever they may have said has to be assumed."""

    @abstractmethod
    def on_emptied(self, function: Callable[[], None]) -> None:
        """Calls ``function`` when everything that was kept is gone, as when what keeps it came back empty. Those of
        :meth:`on_gap` are called before."""

    @abstractmethod
    def on_available(self, function: Callable[[bool], None]) -> None:
        """Calls ``function(available)`` when it cannot be reached any more (False), and when it can again (True)."""

    @abstractmethod
    def tell(self, worker: str, kind: str, *parts: bytes) -> None:
        """Sends a message to one process. One that is dead never gets it."""

    @abstractmethod
    def tell_all(self, kind: str, *parts: bytes) -> None:
        """Sends a message to all other processes; all of them see the messages to all in the same order."""

    @abstractmethod
    async def flushed(self) -> None:
        """Returns when everything told and appended before is kept. Raises :class:`BackplaneLost`, and then it may be
        kept all the same, or be told later."""

    # --- processes ----------------------------------------------------------------------------------

    @abstractmethod
    async def alive(self, worker: str) -> bool:
        """Whether a process is known to live: it renews its lease. Raises :class:`BackplaneLost`."""

    @abstractmethod
    def on_death(self, function: Callable[[str], None]) -> None:
        """Calls ``function(worker)`` some time after another process has ended without leaving; every process is
        told, and may be told twice."""

    @abstractmethod
    async def bury(self, worker: str) -> None:
        """Ends the lease of a process that is known to be dead, so that nobody waits for it to run out."""

    # --- records ------------------------------------------------------------------------------------

    @abstractmethod
    async def put(
        self,
        key: str,
        value: bytes,
        seconds: float,
        *,
        new: bool = False,
        parts: Mapping[str, bytes] | None = None,
    ) -> bool:
        """Keeps a value with its ``parts`` for so long, in place of what was there before; with ``new`` only where
        there is nothing. Whether it was kept. Raises :class:`BackplaneLost`."""

    @abstractmethod
    async def get(self, key: str) -> bytes | None:
        """The value of a key, or None. Raises :class:`BackplaneLost`."""

    @abstractmethod
    async def put_part(self, key: str, name: str, value: bytes | None) -> bool:
        """Keeps a named part beside a value, as long as that, or forgets it (None). The name is not empty. False when
        there is no value. Raises :class:`BackplaneLost`."""

    @abstractmethod
    async def parts(self, key: str) -> dict[str, bytes]:
        """The value under ``""`` and all parts by name; empty when there is none. Raises :class:`BackplaneLost`."""

    @abstractmethod
    async def touch(self, key: str, seconds: float) -> bool:
        """Keeps a value for so long from now on; False when there is none. Raises :class:`BackplaneLost`."""

    @abstractmethod
    async def delete(self, key: str) -> bool:
        """Forgets a value; whether there was one. Raises :class:`BackplaneLost`."""

    @abstractmethod
    async def count(self, group: str, member: str | None, seconds: float) -> int:
        """Members of a group whose time is not over, ``member`` counted in for so long from now on (0: taken
        out). Raises :class:`BackplaneLost`."""

    # --- logs ---------------------------------------------------------------------------------------

    @abstractmethod
    def append(self, key: str, number: int, data: bytes, *, most: int, seconds: float) -> None:
        """Adds an event to a log of this process's own; numbers grow. At least the newest ``most`` events are kept,
        for so long after the last one."""

    @abstractmethod
    async def read(self, key: str, after: int, most: int) -> list[tuple[int, bytes]]:
        """Up to ``most`` events behind number ``after``, oldest first. Raises :class:`BackplaneLost`."""

    @abstractmethod
    async def drop(self, key: str) -> None:
        """Forgets a log. Raises :class:`BackplaneLost`."""

    # --- tasks --------------------------------------------------------------------------------------

    def task_store(self) -> TaskStore | None:
        """A store of tasks that all processes see, which is used where a server was given none of its own; None: there
        is none."""
        return None
