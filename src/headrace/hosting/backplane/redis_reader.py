"""The task that reads messages: one blocking read of two streams, and what their numbers say.

Ids of entries are numbers without holes. A number that is not the next one says that messages are gone, be it that this
process was too slow for what is kept, or that Redis lost some. A sender's own numbers say what was written twice.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from headrace.hosting.backplane.redis import RedisBackplane

__all__ = ("Reader",)

_A_TURN = 64
_MUCH = 1024 * 1024  # bytes of this process's own messages that are not left until its lease is renewed
_SENDERS = 10_000  # whose numbers are remembered, for each stream
_decode = msgspec.msgpack.Decoder(tuple[str, int, str, list[bytes]]).decode


class Reader:
    """Reads the streams of a backplane. ``block`` is in seconds: how long one read waits for a message."""

    block = 1.0

    def __init__(self, backplane: RedisBackplane) -> None:
        self._backplane = backplane
        self.at_all = 0
        self.at_inbox = 0
        self._last: dict[bytes, bytes] | None = None
        self._turn = 0
        self._read = 0
        self._seen: dict[tuple[bool, str], int] = {}

    def forget(self) -> None:
        """Another process begins."""
        self._seen.clear()
        self.at_all = self.at_inbox = 0
        self._last = None

    def begin(self, newest: int, *, first: bool) -> None:
        """From here on, where what is kept is new; the inbox is read whole, somebody may have been faster."""
        self._turn += 1
        self._last = None
        self.at_all = newest
        self.at_inbox = 0

    def went_back(self, newest: int, at_all: int, newest_inbox: int, at_inbox: int) -> bool:
        """Whether what is kept ends before what had been read already: then it begins anew from there. Redis came back
        with less than it had, or somebody else has written into a stream."""
        if at_all <= newest and at_inbox <= newest_inbox:
            return False
        self.begin(newest, first=False)
        return True

    async def still_there(self, client: Any) -> bool:
        """Whether the last message to all that was read is what is kept under its number, or was never read here.
        A Redis that was started again, or another one in its place, may have less than there was, and others may have
        told more since: numbers alone do not show it."""
        if self._last is None:
            return True
        id = f"{self.at_all}-0"
        return [fields for _, fields in await client.xrange(self._backplane.key_all, id, id)] == [self._last]

    async def run(self) -> None:
        """Reads until it is cancelled."""
        backplane = self._backplane
        while not backplane.leaving:
            await backplane._up.wait()
            turn = self._turn
            places = {backplane.key_all: f"{self.at_all}-0", backplane.inbox: f"{self.at_inbox}-0"}
            try:
                if self._read >= _MUCH:
                    self._read = 0
                    await backplane._reading.xtrim(backplane.inbox, minid=f"{self.at_inbox + 1}-0", approximate=False)
                found = await backplane._reading.xread(places, count=_A_TURN, block=int(self.block * 1000))
            except Exception as exc:
                backplane.lost(exc)
                await asyncio.sleep(0)
                continue
            if turn != self._turn:
                continue  # it began anew meanwhile
            for stream, entries in found or ():
                to_all = stream == backplane.key_all.encode()
                for id, fields in entries:
                    number, _, second = id.partition(b"-")
                    # Ours are all N-0; behind another one the reading goes on with the next number.
                    self._take(to_all, int(number) + (second != b"0"), fields)
            if found:
                await asyncio.sleep(0)

    def _take(self, to_all: bool, number: int, fields: dict[bytes, bytes]) -> None:
        backplane = self._backplane
        expected = (self.at_all if to_all else self.at_inbox) + 1
        if to_all:
            self.at_all = number
            self._last = fields
        else:
            self.at_inbox = number
            self._read += sum(map(len, fields.values()))
        if number != expected:
            backplane.rated(logging.WARNING, "gap", "messages between processes were lost: this one was too slow")
            backplane._missed()
        if (dead := fields.get(b"x")) is not None:
            name = dead.decode("utf-8", "replace")
            self._seen.pop((True, name), None)
            self._seen.pop((False, name), None)
            backplane.buried(name)
        elif b"g" in fields:
            if fields[b"g"] != backplane.worker.encode():
                backplane._missed()
        elif b"m" in fields:
            self._message(to_all, fields[b"m"])

    def _message(self, to_all: bool, data: bytes) -> None:
        try:
            sender, number, kind, parts = _decode(data)
        except msgspec.DecodeError:
            self._backplane.rated(logging.ERROR, "foreign", "a message between processes cannot be read")
            return
        if to_all and sender == self._backplane.worker:
            return
        key = (to_all, sender)
        if number <= self._seen.pop(key, 0):
            self._seen[key] = number
            return
        self._seen[key] = number
        if len(self._seen) > _SENDERS:
            self._seen.pop(next(iter(self._seen)))
        self._backplane._deliver(sender, kind, parts)
