"""The two streams between a transport and a session of the official SDK: what was received, what is to be sent.

Strategy: a deque and one future instead of memory object streams: an item costs no task switch of its own, and
nothing is handed over by rendezvous. What nobody takes is bounded: over HIGH items or HIGH_BYTES the transport
stops reading until half of it is taken.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any

import anyio

from headrace.integrations.mcp_sdk.scopes import checkpoint_if_cancelled

__all__ = ("ReadStream", "WriteStream")

HIGH = 512  # items waiting at which reading pauses
HIGH_BYTES = 8 * 1024 * 1024  # the same in bytes of JSON
LONG = 64  # items taken without waiting, after which it is looked whether the reader is cancelled


class ReadStream:
    """What the server sent, in order: SDK messages, and exceptions for what is none.

    ``hold(held)`` is told when to stop reading and when to go on. One task receives at a time.
    """

    __slots__ = ("_bytes", "_closed", "_ended", "_held", "_hold", "_items", "_taken", "_waiter")

    def __init__(self, hold: Callable[[bool], Any] | None = None) -> None:
        self._items: deque[tuple[Any, int]] = deque()
        self._bytes = 0
        self._taken = 0
        self._waiter: asyncio.Future[None] | None = None
        self._hold = hold
        self._held = False
        self._ended = False
        self._closed = False

    def put(self, item: Any, size: int = 0) -> None:
        """Adds an item of ``size`` bytes; dropped when nobody reads any more."""
        if self._closed or self._ended:
            return
        self._items.append((item, size))
        self._bytes += size
        waiter = self._waiter
        if waiter is not None:
            self._waiter = None
            if not waiter.done():
                waiter.set_result(None)
        if (len(self._items) > HIGH or self._bytes > HIGH_BYTES) and self._hold is not None:
            self._held = True
            self._hold(True)

    def end(self) -> None:
        """Nothing comes any more: what is there can still be received."""
        self._ended = True
        self._wake()

    def close(self) -> None:
        """Nobody reads any more: what is there and what comes is dropped, and reading goes on."""
        self._closed = True
        self._items.clear()
        self._bytes = 0
        self._wake()
        self._release()

    async def aclose(self) -> None:
        """The same as :meth:`close`."""
        self.close()

    async def receive(self) -> Any:
        """The next item. Raises ``anyio.EndOfStream`` at the end, ``anyio.ClosedResourceError`` after a close."""
        items = self._items
        self._taken += 1
        if not items or self._taken >= LONG:
            # A scope does not interrupt a wait that is over: where items never cease, it would never get its turn.
            self._taken = 0
            await checkpoint_if_cancelled()
        while not items:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._ended:
                raise anyio.EndOfStream
            if self._waiter is not None and not self._waiter.done():
                raise anyio.BusyResourceError("receiving from")
            self._waiter = waiter = asyncio.get_running_loop().create_future()
            await waiter
        item, size = items.popleft()
        self._bytes -= size
        if self._held and len(items) * 2 <= HIGH and self._bytes * 2 <= HIGH_BYTES:
            self._release()
        return item

    def __aiter__(self) -> ReadStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> ReadStream:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def _release(self) -> None:
        if self._held:
            self._held = False
            if self._hold is not None:
                self._hold(False)


class WriteStream:
    """Where a session puts its messages: ``send(item)`` of the transport is awaited for each.

    ``lost()`` says whether the connection is gone.
    """

    __slots__ = ("_closed", "_lost", "_send")

    def __init__(self, send: Callable[[Any], Awaitable[None] | None], lost: Callable[[], bool]) -> None:
        self._send = send
        self._lost = lost
        self._closed = False

    async def send(self, item: Any) -> None:
        """Sends a message. Raises ``anyio.ClosedResourceError`` after a close, ``anyio.BrokenResourceError`` once the
        connection is gone."""
        if self._closed:
            raise anyio.ClosedResourceError
        if self._lost():
            raise anyio.BrokenResourceError
        waits = self._send(item)
        if waits is not None:
            await waits

    def close(self) -> None:
        """Nothing more is sent. The connection stays: the transport ends it."""
        self._closed = True

    async def aclose(self) -> None:
        """The same as :meth:`close`."""
        self._closed = True

    async def __aenter__(self) -> WriteStream:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closed = True
