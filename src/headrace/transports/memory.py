"""A pair of connected in-memory transports: tests and servers embedded in the same process."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

__all__ = ("MemoryTransport", "memory_pair")

_ROUNDS = 64  # deliveries in one turn of the loop


class MemoryTransport(asyncio.Transport):
    """One end of the pair. What it writes arrives at the other end in a later turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__({"sockname": "memory"})
        self._loop = loop
        self._protocol = protocol
        self._peer: MemoryTransport | None = None
        self._inbox: deque[bytes] = deque()
        self._inbox_size = 0
        self._reading = True
        self._closing = False
        self._lost = False
        self._wrote_eof = False
        self._eof_due = False
        self._high = 64 * 1024
        self._low = 16 * 1024
        self._full = False
        self._scheduled = False

    def get_write_buffer_size(self) -> int:
        return self._peer._inbox_size if self._peer is not None else 0

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = 64 * 1024 if low is None else 4 * low
        self._high = high
        self._low = high // 4 if low is None else low

    def get_protocol(self) -> Any:
        return self._protocol

    def set_protocol(self, protocol: Any) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._wake()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._wrote_eof:
            self._wrote_eof = True
            if self._peer is not None:
                self._peer._eof_due = True
                self._peer._wake()

    def write(self, data: Any) -> None:
        peer = self._peer
        if self._closing or self._wrote_eof or peer is None or peer._closing or not data:
            return
        peer._inbox.append(bytes(data))
        peer._inbox_size += len(data)
        peer._wake()
        if peer._inbox_size > self._high and not self._full:
            self._full = True
            self._protocol.pause_writing()

    def close(self) -> None:
        """Ends this side; what was written before still arrives."""
        if not self._closing:
            self.write_eof()
            self._end(None)

    def abort(self) -> None:
        """Ends both sides at once; what was not delivered is lost, and the other side is told of a reset."""
        peer = self._peer
        self._end(None)
        if peer is not None:
            peer._inbox.clear()
            peer._end(ConnectionResetError("the other side aborted"))

    def _end(self, exc: BaseException | None) -> None:
        if not self._closing:
            self._closing = True
            self._inbox.clear()
            self._inbox_size = 0
            self._loop.call_soon(self._lose, exc)

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        try:
            for _ in range(_ROUNDS):
                if not self._inbox or not self.is_reading():
                    break
                data = self._inbox.popleft()
                self._inbox_size -= len(data)
                self._protocol.data_received(data)
            else:
                self._wake()
            peer = self._peer
            if peer is not None and peer._full and self._inbox_size <= peer._low and not peer._closing:
                peer._full = False
                peer._protocol.resume_writing()
            if self._eof_due and not self._inbox and self.is_reading():
                self._eof_due = False
                if not self._protocol.eof_received():
                    self.close()
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as exc:
            self._loop.call_exception_handler({"message": "a protocol failed", "exception": exc, "transport": self})
            self.write_eof()
            self._end(exc)

    def _lose(self, exc: BaseException | None) -> None:
        if not self._lost:
            self._lost = True
            peer, self._peer = self._peer, None
            if peer is not None and peer._full and not peer._closing:
                peer._full = False
                peer._protocol.resume_writing()
            protocol, self._protocol = self._protocol, None
            protocol.connection_lost(exc)


def memory_pair(one: Any, other: Any) -> tuple[MemoryTransport, MemoryTransport]:
    """Connects two protocols; both get ``connection_made`` before this returns.

    Must be called on a running loop, which serves both ends.
    """
    loop = asyncio.get_running_loop()
    a, b = MemoryTransport(loop, one), MemoryTransport(loop, other)
    a._peer, b._peer = b, a
    one.connection_made(a)
    other.connection_made(b)
    return a, b
