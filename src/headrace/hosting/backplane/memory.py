"""A backplane in memory: several servers of one process share one hub. For tests, and as the model of the others.

The hub holds what Redis would hold. It can be cut off, come back empty, lose messages, and its servers can die, so that
what happens then can be tried without a server of any kind. Servers may run on loops of different threads.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from headrace.hosting.backplane.base import Listening, new_name
from headrace.protocol.backplane import BackplaneLost

if TYPE_CHECKING:
    from collections.abc import Mapping

    from headrace.limits import Limits

__all__ = ("MemoryBackplane", "MemoryHub")

_A_TURN = 256  # messages that a process handles in one turn of its loop
_INBOX = 65_536  # messages that wait for a process; beyond, it is told of a gap
_QUEUE = 65_536  # messages and events that wait while the hub is cut off
_CUT = "the hub is cut off"


class _Log:
    __slots__ = ("events", "expires")

    def __init__(self) -> None:
        self.events: deque[tuple[int, bytes]] = deque()
        self.expires = 0.0


class MemoryHub:
    """What the servers of one process share. ``lease`` is in seconds: how long one that died is thought to live."""

    def __init__(self, *, lease: float = 6.0) -> None:
        self.lease = lease
        self.lock = threading.RLock()
        self.is_cut = False
        self.members: dict[str, MemoryBackplane] = {}
        """Those that have started and not left; the dead too, until their lease ends."""
        self.leases: dict[str, float] = {}
        self.records: dict[str, tuple[float, dict[str, bytes]]] = {}
        self.groups: dict[str, dict[str, float]] = {}
        self.logs: dict[str, _Log] = {}

    def cut(self) -> None:
        """Nobody reaches it from now on: what is asked for raises, what is told waits."""
        with self.lock:
            self.is_cut = True
            for member in list(self.members.values()):
                member._post(member._reachable, False)

    def mend(self, *, empty: bool = False) -> None:
        """It can be reached again; with ``empty`` it has forgotten everything."""
        with self.lock:
            self.is_cut = False
            if empty:
                self.records.clear()
                self.groups.clear()
                self.logs.clear()
            for member in list(self.members.values()):
                if member.dead:
                    continue
                self.leases[member.worker] = time.monotonic() + self.lease
                member._post(member._back, empty)

    def purge(self, now: float) -> None:
        """Forgets what is over."""
        for key in [key for key, (until, _) in self.records.items() if until <= now]:
            del self.records[key]
        for key in [key for key, log in self.logs.items() if log.expires <= now]:
            del self.logs[key]

    def lose(self) -> None:
        """Messages that are on their way are lost, and all are told of the gap."""
        with self.lock:
            for member in list(self.members.values()):
                member._inbox.clear()
                member._post(member._missed)


class MemoryBackplane(Listening):
    """One server's access to a :class:`MemoryHub`."""

    def __init__(self, hub: MemoryHub) -> None:
        super().__init__()
        self.hub = hub
        self.dead = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._inbox: deque[tuple[str, str, list[bytes]] | None] = deque()
        self._due = False
        self._queue: deque[tuple[object, ...]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def available(self) -> bool:
        return not self.hub.is_cut and not self.dead and self._loop is not None

    async def start(self, limits: Limits, log: logging.Logger) -> None:
        hub = self.hub
        self.rated.log = log
        with hub.lock:
            if hub.is_cut:
                raise BackplaneLost(_CUT)
            self.dead = False
            self.worker = new_name()
            self._loop = asyncio.get_running_loop()
            self._inbox.clear()
            self._queue.clear()
            hub.members[self.worker] = self
        self._renew()

    async def stop(self) -> None:
        self._leave()

    def die(self) -> None:
        """Ends as a killed process does: it says nothing more, and its lease runs out."""
        self.dead = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._inbox.clear()
        self._queue.clear()

    def _leave(self) -> None:
        self.die()
        with self.hub.lock:
            self.hub.members.pop(self.worker, None)
            self.hub.leases.pop(self.worker, None)
        self._loop = None

    def _renew(self) -> None:
        """Keeps the lease, and looks whose lease has ended."""
        hub = self.hub
        loop = self._loop
        if loop is None or self.dead:
            return
        now = time.monotonic()
        with hub.lock:
            hub.purge(now)
            if not hub.is_cut:
                hub.leases[self.worker] = now + hub.lease
                for name in [name for name, until in hub.leases.items() if until <= now]:
                    self._ended(name)
        self._timer = loop.call_later(hub.lease / 3, self._renew)

    def _ended(self, name: str) -> None:
        with self.hub.lock:
            if self.hub.leases.pop(name, None) is None:
                return
            self.hub.members.pop(name, None)
            for member in list(self.hub.members.values()):
                member._post(member._died, name)

    # --- messages -----------------------------------------------------------------------------------

    def _post(self, function: object, *values: object) -> None:
        """Has a function called on the loop of this server."""
        if self._loop is not None and not self.dead:
            try:
                self._loop.call_soon_threadsafe(function, *values)  # type: ignore[arg-type]
            except RuntimeError:
                self.dead = True  # its loop is closed

    def _put_in(self, sender: str, kind: str, parts: list[bytes]) -> None:
        if self.dead:
            return
        if len(self._inbox) >= _INBOX:
            self._inbox.clear()
            self._inbox.append(None)
        self._inbox.append((sender, kind, parts))
        if not self._due:
            self._due = True
            self._post(self._take)

    def _take(self) -> None:
        self._due = False
        for _ in range(_A_TURN):
            with self.hub.lock:
                if self.dead or not self._inbox:
                    return
                message = self._inbox.popleft()
            if message is None:
                self._missed()
            else:
                self._deliver(*message)
        self._due = True
        self._post(self._take)

    def tell(self, worker: str, kind: str, *parts: bytes) -> None:
        self._do("tell", worker, kind, list(parts))

    def tell_all(self, kind: str, *parts: bytes) -> None:
        self._do("tell", None, kind, list(parts))

    def _do(self, *what: object) -> None:
        with self.hub.lock:
            if self.dead:
                return
            if not self.hub.is_cut and not self._queue:
                self._done(*what)  # type: ignore[arg-type]
            elif len(self._queue) < _QUEUE:
                self._queue.append(what)
            else:
                self.rated(logging.WARNING, "full", "the backplane is cut off, and too much waits: something was lost")

    def _done(self, what: str, *values: object) -> None:
        if what == "append":
            self._append(*values)  # type: ignore[arg-type]
            return
        worker, kind, parts = values
        if worker is None:
            for member in list(self.hub.members.values()):
                if member is not self:
                    member._put_in(self.worker, kind, parts)  # type: ignore[arg-type]
        elif (found := self.hub.members.get(worker)) is not None:  # type: ignore[call-overload]
            found._put_in(self.worker, kind, parts)

    def _back(self, empty: bool) -> None:
        with self.hub.lock:
            while self._queue and not self.hub.is_cut:
                self._done(*self._queue.popleft())  # type: ignore[arg-type]
        if empty:
            self._gone()
        self._reachable(True)

    async def flushed(self) -> None:
        self._reach()

    def _reach(self) -> None:
        if self.hub.is_cut or self.dead or self._loop is None:
            raise BackplaneLost(_CUT)

    # --- processes ----------------------------------------------------------------------------------

    async def alive(self, worker: str) -> bool:
        self._reach()
        with self.hub.lock:
            return self.hub.leases.get(worker, 0.0) > time.monotonic()

    async def bury(self, worker: str) -> None:
        self._reach()
        self._ended(worker)

    # --- records ------------------------------------------------------------------------------------

    def _record(self, key: str) -> dict[str, bytes] | None:
        self._reach()
        found = self.hub.records.get(key)
        if found is not None and found[0] <= time.monotonic():
            del self.hub.records[key]
            return None
        return found[1] if found is not None else None

    async def put(
        self,
        key: str,
        value: bytes,
        seconds: float,
        *,
        new: bool = False,
        parts: Mapping[str, bytes] | None = None,
    ) -> bool:
        with self.hub.lock:
            if self._record(key) is not None and new:
                return False
            self.hub.records[key] = (time.monotonic() + seconds, {**(parts or {}), "": value})
            return True

    async def get(self, key: str) -> bytes | None:
        with self.hub.lock:
            return (self._record(key) or {}).get("")

    async def put_part(self, key: str, name: str, value: bytes | None) -> bool:
        with self.hub.lock:
            record = self._record(key)
            if record is None:
                return False
            if value is None:
                record.pop(name, None)
            else:
                record[name] = value
            return True

    async def parts(self, key: str) -> dict[str, bytes]:
        with self.hub.lock:
            return dict(self._record(key) or {})

    async def touch(self, key: str, seconds: float) -> bool:
        with self.hub.lock:
            record = self._record(key)
            if record is None:
                return False
            self.hub.records[key] = (time.monotonic() + seconds, record)
            return True

    async def delete(self, key: str) -> bool:
        with self.hub.lock:
            if self._record(key) is None:
                return False
            del self.hub.records[key]
            return True

    async def count(self, group: str, member: str | None, seconds: float) -> int:
        now = time.monotonic()
        with self.hub.lock:
            self._reach()
            members = self.hub.groups.setdefault(group, {})
            if member is not None:
                members.pop(member, None)
                if seconds > 0:
                    members[member] = now + seconds
            for each in [each for each, until in members.items() if until <= now]:
                del members[each]
            return len(members)

    # --- logs ---------------------------------------------------------------------------------------

    def append(self, key: str, number: int, data: bytes, *, most: int, seconds: float) -> None:
        self._do("append", key, number, data, most, seconds)

    def _append(self, key: str, number: int, data: bytes, most: int, seconds: float) -> None:
        log = self._log(key) or self.hub.logs.setdefault(key, _Log())
        if log.events and log.events[-1][0] >= number:
            return
        log.events.append((number, data))
        log.expires = time.monotonic() + seconds
        while len(log.events) > most:
            log.events.popleft()

    def _log(self, key: str) -> _Log | None:
        log = self.hub.logs.get(key)
        if log is not None and log.expires <= time.monotonic():
            del self.hub.logs[key]
            return None
        return log

    async def read(self, key: str, after: int, most: int) -> list[tuple[int, bytes]]:
        with self.hub.lock:
            self._reach()
            log = self._log(key)
            found = [] if log is None else [event for event in log.events if event[0] > after]
            return found[:most]

    async def drop(self, key: str) -> None:
        with self.hub.lock:
            self._reach()
            self.hub.logs.pop(key, None)
