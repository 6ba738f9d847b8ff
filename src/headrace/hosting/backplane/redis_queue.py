"""What is to be told to Redis, in order, while it is written behind: bounded, and known how far it got.

Beyond the bound the oldest goes. Whether a message was among it is told to all when Redis can be reached again; of a
log the newest events are what counts.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import msgspec

__all__ = ("Batch", "Event", "Message", "WriteQueue")

MAX_ENTRIES = 100_000
MAX_BYTES = 64 * 1024 * 1024
_BATCH_ENTRIES = 500
_BATCH_BYTES = 1024 * 1024
_COST = 100  # bytes of an entry beside its text


class Message(msgspec.Struct, frozen=True):
    """One message. ``worker`` is empty for all, ``!`` for the note that messages were lost."""

    worker: str
    data: bytes

    @property
    def size(self) -> int:
        return len(self.data) + _COST


class Event(msgspec.Struct, frozen=True):
    """One event of a log; times in milliseconds."""

    key: str
    number: int
    data: bytes
    most: int
    ms: int

    @property
    def size(self) -> int:
        return len(self.data) + len(self.key) + _COST


class Batch(msgspec.Struct):
    """What is written together: all messages in one step, the events of each log in one. ``end`` is the number of the
    last entry."""

    entries: list[Message | Event]
    end: int

    @property
    def messages(self) -> list[Message]:
        return [each for each in self.entries if type(each) is Message]

    @property
    def logs(self) -> dict[str, list[Event]]:
        found: dict[str, list[Event]] = {}
        for each in self.entries:
            if type(each) is Event:
                found.setdefault(each.key, []).append(each)
        return found


class WriteQueue:
    """Entries in order, and those who wait until theirs are written."""

    def __init__(self) -> None:
        self.entries: deque[Message | Event] = deque()
        self.bytes = 0
        self.put_in = 0
        """Number of the newest entry."""
        self.done = 0
        """Number of the newest entry that is written, or was given up."""
        self.lost_messages = 0
        self.lost_events = 0
        self._taken = 0  # entries at the front that are being written
        self._waiters: deque[tuple[int, Any]] = deque()

    def __len__(self) -> int:
        return len(self.entries)

    def add(self, entry: Message | Event) -> bool:
        """Puts one in. False when something had to go for it."""
        self.entries.append(entry)
        self.bytes += entry.size
        self.put_in += 1
        kept = True
        while (self.bytes > MAX_BYTES or len(self.entries) > MAX_ENTRIES) and len(self.entries) > self._taken + 1:
            # Behind what is being written: that may be written already.
            gone = self.entries[self._taken]
            del self.entries[self._taken]
            self.bytes -= gone.size
            kept = False
            if type(gone) is Message:
                self.lost_messages += 1
            else:
                self.lost_events += 1
        if not kept:
            self.refuse(OverflowError("too much waits to be written"))
        return kept

    def take(self) -> Batch:
        """What is to be written next; it stays in the queue until :meth:`written`."""
        entries: list[Message | Event] = []
        size = 0
        for entry in self.entries:
            if len(entries) >= _BATCH_ENTRIES or (entries and size + entry.size > _BATCH_BYTES):
                break
            entries.append(entry)
            size += entry.size
        self._taken = len(entries)
        return Batch(entries, self.put_in - len(self.entries) + len(entries))

    def written(self, batch: Batch) -> None:
        """The batch is kept: who waited for it goes on."""
        for _ in batch.entries:
            self.bytes -= self.entries.popleft().size
        self._taken = 0
        self.done = max(self.done, self.put_in - len(self.entries))
        while self._waiters and self._waiters[0][0] <= self.done:
            _, future = self._waiters.popleft()
            if not future.done():
                future.set_result(None)

    def failed(self) -> None:
        """The batch that was taken could not be written; it is still in front."""
        self._taken = 0

    def wait(self, future: Any) -> None:
        """``future`` is done when everything that is in the queue now is written."""
        self._waiters.append((self.put_in, future))

    def refuse(self, exc: Exception) -> None:
        """Nobody shall wait any longer."""
        waiters, self._waiters = self._waiters, deque()
        for _, future in waiters:
            if not future.done():
                future.set_exception(exc)

    def clear(self) -> None:
        """Forgets everything."""
        self.entries.clear()
        self.bytes = self._taken = 0
        self.done = self.put_in
        self.lost_messages = 0
        self.lost_events = 0
