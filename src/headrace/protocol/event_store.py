"""Events of HTTP sessions, kept so that a client can resume a stream (HO-20, HO-21; SE-08).

Each session has a store of its own: what one session was sent cannot be replayed to another, whatever
id is named (B43). Those that live in memory share one :class:`EventPool`, which bounds all of them
together; the oldest events go first. An id is ``TAG.STREAM.NUMBER``: TAG is random and belongs to the
session, so ids of others are recognised.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from headrace.limits import Limits

__all__ = ("EventPool", "EventStore", "MemoryEventStore", "Replay")


class Replay(msgspec.Struct, frozen=True):
    """What :meth:`EventStore.replay` found."""

    stream: str
    """The stream that the id belongs to, as it was given to ``append``."""
    events: list[tuple[str, bytes]]
    """``(id, data)`` of what followed on that stream, oldest first; empty data is not sent again."""
    lost: bool = False
    """The id was given, but nothing is left of its stream."""


class EventStore(ABC):
    """The events of one session. Methods are called on the event loop and must not block.

    A store of one's own is given to a server as ``event_store=function``: called with the session id it
    makes the store of that session. An exception of a store costs the event its id, never the message.
    """

    @abstractmethod
    def append(self, stream: str, data: bytes) -> str:
        """Keeps one event of ``stream`` and gives its id: unique in the session, visible ASCII (HO-20).

        ``data`` is the JSON text of the message in one line, or empty for an event that only carries an
        id. How long it is kept is the store's decision.
        """

    @abstractmethod
    def replay(self, last_id: str) -> Replay | None:
        """What followed the event ``last_id`` on its stream; ``None`` for an id that was never given."""

    def end(self, stream: str) -> None:  # noqa: B027
        """``stream`` got its last event; what is kept may still be asked for."""

    def close(self) -> None:  # noqa: B027
        """The session has ended: nothing will be asked for again."""


class _Event:
    __slots__ = ("at", "data", "number", "record", "size")

    def __init__(self, record: _Record, number: int, data: bytes, at: float) -> None:
        self.record: _Record | None = record  # None once it was dropped
        self.number = number
        self.data = data
        self.size = len(data) + _OVERHEAD
        self.at = at


class _Record:
    """One stream: the last number it got, and the events kept."""

    __slots__ = ("ended", "events", "last", "name", "store")

    def __init__(self, store: MemoryEventStore, name: str) -> None:
        self.store = store
        self.name = name
        self.last = 0
        self.events: deque[_Event] = deque()
        self.ended = False


_OVERHEAD = 200  # bytes that an event costs beside its data


class EventPool:
    """Memory for the events of many sessions; :meth:`open` makes the store of one.

    :param limits: ``max_resume_events`` and ``max_resume_bytes`` bound one session,
        ``max_resume_total_bytes`` all of them, ``resume_age`` (seconds) every event.
    :param now: a clock in seconds.
    """

    def __init__(self, limits: Limits, now: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.now = now
        self.size = 0
        """Bytes kept now."""
        self._order: deque[_Event] = deque()
        self._dead = 0

    def open(self, session_id: str = "") -> MemoryEventStore:
        """A store for one more session."""
        return MemoryEventStore(self)

    def sweep(self) -> None:
        """Drops what is older than ``limits.resume_age``; to be called now and then."""
        oldest = self.now() - self.limits.resume_age
        while self._order and (self._order[0].record is None or self._order[0].at < oldest):
            self._drop_oldest()

    def added(self, event: _Event) -> None:
        """An event of one of the stores; makes room for it."""
        self._order.append(event)
        self.size += event.size
        self.sweep()
        while self.size > self.limits.max_resume_total_bytes:
            self._drop_oldest()

    def removed(self, event: _Event) -> None:
        """A store let go of it; its place in the order is given back later."""
        event.record = None
        event.data = b""
        self.size -= event.size
        self._dead += 1
        if self._dead > 64 and self._dead * 2 > len(self._order):
            self._order = deque(each for each in self._order if each.record is not None)
            self._dead = 0

    def _drop_oldest(self) -> None:
        event = self._order[0]
        if event.record is not None:
            event.record.store.drop_oldest()
        if self._order and self._order[0] is event:
            self._order.popleft()
            self._dead -= 1


class MemoryEventStore(EventStore):
    """The store of one session in the memory of an :class:`EventPool`."""

    def __init__(self, pool: EventPool) -> None:
        self.tag = secrets.token_urlsafe(6)
        self.size = 0
        """Bytes kept now."""
        self._pool = pool
        self._last = 0
        self._records: dict[str, _Record] = {}
        self._order: deque[_Event] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def __repr__(self) -> str:
        return f"<MemoryEventStore: {len(self)} events, {self.size} bytes>"

    def append(self, stream: str, data: bytes) -> str:
        record = self._records.get(stream)
        if record is None:
            record = self._records[stream] = _Record(self, stream)
        record.ended = False
        self._last += 1
        record.last = self._last
        event = _Event(record, self._last, data, self._pool.now())
        record.events.append(event)
        self._order.append(event)
        self.size += event.size
        found = f"{self.tag}.{stream}.{self._last}"
        self._pool.added(event)
        limits = self._pool.limits
        while len(self._order) > limits.max_resume_events or self.size > limits.max_resume_bytes:
            self.drop_oldest()
        return found

    def drop_oldest(self) -> None:
        """Lets go of the oldest event; a stream that has ended goes with its last one."""
        event = self._order.popleft()
        record = event.record
        assert record is not None and record.events[0] is event
        record.events.popleft()
        self.size -= event.size
        self._pool.removed(event)
        if record.ended and not record.events:
            del self._records[record.name]

    def replay(self, last_id: str) -> Replay | None:
        parts = last_id.split(".")
        if len(parts) != 3 or parts[0] != self.tag:
            return None
        stream, digits = parts[1], parts[2]
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 18 and 0 < int(digits) <= self._last):
            return None
        record = self._records.get(stream)
        if record is None:
            return Replay(stream, [], lost=True)
        number = int(digits)
        kept = record.events
        if number > record.last or (kept and number > kept[0].number and all(each.number != number for each in kept)):
            return None
        prefix = f"{self.tag}.{stream}."
        return Replay(
            stream,
            [(f"{prefix}{each.number}", each.data) for each in kept if each.number > number and each.data],
        )

    def end(self, stream: str) -> None:
        record = self._records.get(stream)
        if record is not None:
            record.ended = True
            if not record.events:
                del self._records[stream]

    def close(self) -> None:
        for event in self._order:
            self._pool.removed(event)
        self._order.clear()
        self._records.clear()
        self.size = 0
