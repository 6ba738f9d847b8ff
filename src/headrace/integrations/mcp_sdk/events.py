"""The SDK's ``EventStore`` objects as event stores of our sessions (HO-20, HO-21).

Their store is asynchronous and serves all sessions; ours is one a session and gives an id at once, because the event
leaves in the same step. A store that answers without waiting, as those in memory do, gives the ids itself and
replays. Of a store that waits each session keeps its own events in memory as well: ids and replays are those, and
the store is told of every event in order.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.protocol._event_memory import EventPool
from headrace.protocol.event_store import EventStore, Replay

if TYPE_CHECKING:
    from headrace.limits import Limits

__all__ = ("event_stores",)

try:
    from mcp_types import jsonrpc_message_adapter

    def _parse(data: bytes) -> Any:
        return jsonrpc_message_adapter.validate_json(data, by_name=False)

except ImportError:  # version 1 of the SDK
    from mcp.types import JSONRPCMessage

    _parse = JSONRPCMessage.model_validate_json

_log = logging.getLogger("headrace.host")


def event_stores(store: Any, runtime_of: Callable[[], Any], limits_of: Callable[[], Limits]) -> Any:
    """The function that makes the event store of a session, for the option ``event_store`` of an HTTP endpoint."""
    pools: list[EventPool] = []

    def pool() -> EventPool:
        if not pools:
            pools.append(EventPool(limits_of(), runtime_of().clock))
        return pools[0]

    return lambda session_id: _SessionEvents(store, session_id, runtime_of(), pool)


class _SessionEvents(EventStore):
    """The events of one session in the SDK's store. Streams are known there by the session's id and their name."""

    def __init__(self, store: Any, session_id: str, runtime: Any, pool: Callable[[], EventPool]) -> None:
        self._store = store
        self._prefix = f"{session_id}/"
        self._runtime = runtime
        self._pool = pool
        self._memory: EventStore | None = None
        self._queue: asyncio.Queue[tuple[str, Any]] | None = None
        self._writer: Any = None
        self._given: dict[str, str] = {}
        """Id -> stream, of ids that the store itself gave before it was found to wait."""
        self._ended: set[str] = set()

    def append(self, stream: str, data: bytes) -> str:
        message = _parse(data) if data else None
        if self._memory is None:
            task = self._runtime.spawn(self._store.store_event(self._prefix + stream, message))
            if task.done():
                id: str = task.result()
                if not (isinstance(id, str) and id.isascii() and id.isprintable() and id and " " not in id):
                    raise ValueError(f"an event id must be visible ASCII, not {id!r}")
                return id
            self._wait_from_now_on(task)
        else:
            assert self._queue is not None
            self._queue.put_nowait((stream, message))
        assert self._memory is not None
        return self._memory.append(stream, data)

    def _wait_from_now_on(self, first: Any) -> None:
        self._memory = self._pool().open()
        self._queue = asyncio.Queue()
        self._writer = self._runtime.spawn(self._write(first))

    async def _write(self, first: Any) -> None:
        """Tells the store of events, one after the other."""
        assert self._queue is not None
        try:
            await first
        except Exception:
            _log.exception("an event could not be kept by the event store")
        while True:
            stream, message = await self._queue.get()
            try:
                await self._store.store_event(self._prefix + stream, message)
            except Exception:
                _log.exception("an event could not be kept by the event store")

    def replay(self, last_id: str) -> Replay | None:
        if self._memory is not None:
            return self._memory.replay(last_id)
        events: list[tuple[str, bytes]] = []

        async def keep(event: Any) -> None:
            message = event.message
            data = b"" if message is None else message.model_dump_json(by_alias=True, exclude_unset=True).encode()
            events.append((event.event_id or "", data))

        task = self._runtime.spawn(self._store.replay_events_after(last_id, keep))
        if not task.done():
            task.cancel()
            _log.error("the event store waits when it replays, although it did not when it stored: nothing is replayed")
            return None
        stream = task.result()
        if not isinstance(stream, str) or not stream.startswith(self._prefix):
            return None  # of another session, or nothing
        return Replay(stream[len(self._prefix) :], [(id, data) for id, data in events if data and id])

    def end(self, stream: str) -> None:
        if self._memory is not None:
            self._memory.end(stream)

    def close(self) -> None:
        if self._writer is not None:
            # What is queued is still written.
            queue, writer = self._queue, self._writer
            assert queue is not None
            if queue.empty():
                writer.cancel()
            else:
                self._runtime.spawn(self._finish(queue, writer))
        if self._memory is not None:
            self._memory.close()

    @staticmethod
    async def _finish(queue: asyncio.Queue[Any], writer: Any) -> None:
        for _ in range(100):
            if queue.empty():
                break
            await asyncio.sleep(0.05)
        writer.cancel()
