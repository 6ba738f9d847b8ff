"""The pair of streams that ``Server.run(read, write, ...)`` of mcp 1.x works on.

They take the place of anyio's memory streams: what is fed in waits in a deque, and what the server sends goes
to a function in its own call stack. Messages are in order and none waits for a reader of the other side.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Self

from anyio import ClosedResourceError, EndOfStream, WouldBlock

from headrace.integrations.mcp_sdk.scopes import checkpoint_if_cancelled

__all__ = ("ReadStream", "WriteStream")

LONG = 64  # messages taken without waiting, after which it is looked whether the reader is cancelled


class _Closing(ABC):
    """Ends of a pair are closed by hand or as context managers, both plain and async."""

    @abstractmethod
    def close(self) -> None:
        """Ends it; safe to call again."""

    async def aclose(self) -> None:
        """The same as :meth:`close`."""
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ReadStream(_Closing):
    """What the server reads. :meth:`feed` and :meth:`end` are the transport's side."""

    def __init__(self) -> None:
        self._items: deque[Any] = deque()
        self._taken = 0
        self._waiter: asyncio.Future[None] | None = None
        self._ended = False
        self._closed = False

    def feed(self, item: Any) -> None:
        """One more message; dropped when the server reads no more."""
        if self._closed or self._ended:
            return
        self._items.append(item)
        self._wake()

    def end(self) -> None:
        """No more messages will come: the server reads what there is, and then the end."""
        self._ended = True
        self._wake()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    def receive_nowait(self) -> Any:
        """The next message. Raises WouldBlock without one, and as :meth:`receive`."""
        if self._closed:
            raise ClosedResourceError
        if self._items:
            return self._items.popleft()
        if self._ended:
            raise EndOfStream
        raise WouldBlock

    async def receive(self) -> Any:
        """The next message. Raises EndOfStream behind the last one, ClosedResourceError after :meth:`close`."""
        self._taken += 1
        if not self._items or self._taken >= LONG:
            # A scope does not interrupt a wait that is over: where messages never cease, it would never get its turn.
            self._taken = 0
            await checkpoint_if_cancelled()
        while True:
            if self._closed:
                raise ClosedResourceError
            if self._items:
                return self._items.popleft()
            if self._ended:
                raise EndOfStream
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def close(self) -> None:
        """The server reads no more."""
        self._closed = True
        self._items.clear()
        self._wake()

    def __aiter__(self) -> ReadStream:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except EndOfStream:
            raise StopAsyncIteration from None


class WriteStream(_Closing):
    """What the server writes to: ``take(message)`` gets it at once, and gives something to wait for while the
    peer does not read what is queued already, or None."""

    def __init__(self, take: Callable[[Any], Awaitable[Any] | None]) -> None:
        self._take = take
        self._closed = False

    def send_nowait(self, item: Any) -> None:
        """Sends without waiting. Raises ClosedResourceError after :meth:`close`."""
        if self._closed:
            raise ClosedResourceError
        self._take(item)

    async def send(self, item: Any) -> None:
        """Sends; raises ClosedResourceError after :meth:`close`."""
        if self._closed:
            raise ClosedResourceError
        pending = self._take(item)
        if pending is not None:
            await pending

    def close(self) -> None:
        """The server, or the end of its session, closes it."""
        self._closed = True
