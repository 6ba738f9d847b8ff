"""The task that writes what was told: in order, in batches, and again after Redis was lost.

A batch whose outcome is not known is written once more. Readers know each message by its sender's number and each
event by its own, so what was written twice is read once.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from headrace.hosting.backplane import redis_scripts as scripts
from headrace.hosting.backplane.redis_queue import Batch, Event, Message

if TYPE_CHECKING:
    from headrace.hosting.backplane.redis import RedisBackplane

__all__ = ("Refused", "Writer")

_LASTING = frozenset((
    "OOM", "READONLY", "LOADING", "MISCONF", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "TRYAGAIN", "BUSY", "NOSCRIPT",
    "NOAUTH", "NOPERM", "WRONGPASS",
))  # fmt: skip
_CLASSES = ("OutOfMemoryError", "ReadOnlyError", "NoScriptError", "NoPermissionError", "AuthenticationError")


class Refused:
    """What an error answer of Redis means."""

    @staticmethod
    def lasts(exc: BaseException) -> bool:
        """It is about Redis as a whole, and not about one key."""
        return type(exc).__name__ in _CLASSES or not _LASTING.isdisjoint(str(exc).replace(":", " ").split())


class Writer:
    """Empties the queue of a backplane."""

    most_all = 10_000
    """Messages to all that are kept for those who are slow; beyond, they notice a gap."""
    most_inbox = 10_000

    def __init__(self, backplane: RedisBackplane) -> None:
        self._backplane = backplane

    def inbox_ms(self) -> int:
        """Milliseconds that messages wait for a process that does not renew its lease."""
        return int((self._backplane.lease * 3 + 60) * 1000)

    async def run(self) -> None:
        """Writes until it is cancelled."""
        backplane = self._backplane
        queue = backplane.queue
        while not backplane.leaving:
            await backplane._work.wait()
            await backplane._up.wait()
            if not queue:
                backplane._work.clear()
                continue
            batch = queue.take()
            lost = queue.lost_messages
            try:
                await self._write(batch, lost)
            except Exception as exc:
                queue.failed()
                backplane.lost(exc)
                # Reaching it again is the work of another task.
                await asyncio.sleep(0)
            else:
                queue.lost_messages -= lost
                queue.written(batch)

    async def _write(self, batch: Batch, lost: int) -> None:
        """Writes it, behind the note that messages were ``lost``, if any. Raises what says that Redis is lost; what
        Redis refuses for itself is given up."""
        backplane = self._backplane
        calls: list[tuple[scripts.Script, list[str], list[Any]]] = []
        messages = batch.messages
        if lost:
            messages.insert(0, Message("!", backplane.worker.encode()))
        if messages:
            lease = int(backplane.lease * 1000)
            values: list[Any] = [backplane.inboxes, self.most_all, self.most_inbox, self.inbox_ms(), lease]
            for message in messages:
                values += (message.worker, message.data)
            keys = [backplane.key_state, backplane.key_workers, backplane.key_dead, backplane.key_all]
            calls.append((scripts.SEND, keys, values))
        for key, events in batch.logs.items():
            calls.append((scripts.APPEND, [backplane.log_key(key)], _appended(events)))
        if backplane.url.is_cluster or len(calls) == 1:
            found: list[Any] = []
            for at in range(0, len(calls), 16):
                some = [backplane._eval(backplane.client, *call) for call in calls[at : at + 16]]
                found += await asyncio.gather(*some, return_exceptions=True)
        else:
            found = await self._together(calls)
        for (script, *_), outcome in zip(calls, found, strict=True):
            if isinstance(outcome, BaseException):
                self._judge(outcome, script is scripts.SEND)

    async def _together(self, calls: list[tuple[scripts.Script, list[str], list[Any]]]) -> list[Any]:
        from redis.exceptions import NoScriptError, ResponseError

        client = self._backplane.client
        pipe = client.pipeline(transaction=False)
        for script, keys, values in calls:
            pipe.evalsha(script.sha, len(keys), *keys, *values)
        found: list[Any] = await pipe.execute(raise_on_error=False)
        for at, outcome in enumerate(found):
            if isinstance(outcome, NoScriptError):
                script, keys, values = calls[at]
                try:
                    found[at] = await client.eval(script.source, len(keys), *keys, *values)
                except ResponseError as exc:
                    found[at] = exc
        return found

    def _judge(self, exc: BaseException, shared: bool) -> None:
        """Raises it if it is about more than one log: messages go through keys that all processes ``shared``."""
        from redis.exceptions import ResponseError

        if shared or not isinstance(exc, ResponseError) or Refused.lasts(exc):
            raise exc
        said = str(exc).partition("\n")[0][:200]
        self._backplane.rated(logging.ERROR, "refused", "Redis refuses something that was to be kept: %s", said)


def _appended(events: list[Event]) -> list[Any]:
    values: list[Any] = [events[-1].most, events[-1].ms]
    for event in events:
        values += (event.number, event.data)
    return values
