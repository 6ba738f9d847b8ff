"""A pair of connected in-memory transports: tests and servers embedded in the same process."""

from __future__ import annotations

import asyncio
from typing import Any

__all__ = ("MemoryTransport", "memory_pair")


class MemoryTransport(asyncio.Transport):
    """One end of the pair. What it writes arrives at the other end in a later turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, protocol: Any) -> None:
        super().__init__({"sockname": "memory"})
        self._loop = loop
        self._protocol = protocol
        self._peer: MemoryTransport | None = None
        self._inbox: list[bytes] = []
        self._inbox_size = 0
        self._reading = True
        self._closing = False
        self._lost = False
        self._eof = False
        self._high = 64 * 1024
        self._low = 16 * 1024
        self._paused_writing = False
        self._scheduled = False

    def get_write_buffer_size(self) -> int:
        return self._peer._inbox_size if self._peer is not None else 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 64 * 1024 if high is None else high
        self._low = self._high // 4 if low is None else low

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
        if self._peer is not None:
            self._peer._eof = True
            self._peer._wake()

    def write(self, data: Any) -> None:
        peer = self._peer
        if self._closing or peer is None or peer._lost or not data:
            return
        peer._inbox.append(bytes(data))
        peer._inbox_size += len(data)
        peer._wake()
        if peer._inbox_size > self._high and not self._paused_writing:
            self._paused_writing = True
            self._protocol.pause_writing()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self.write_eof()
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self._inbox.clear()
        self.close()

    def _wake(self) -> None:
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._deliver)

    def _deliver(self) -> None:
        self._scheduled = False
        while self._inbox and self._reading and not self._lost:
            data = self._inbox.pop(0)
            self._inbox_size -= len(data)
            self._protocol.data_received(data)
        peer = self._peer
        if peer is not None and peer._paused_writing and self._inbox_size <= peer._low and not peer._lost:
            peer._paused_writing = False
            peer._protocol.resume_writing()
        if self._eof and not self._inbox and not self._lost:
            self._eof = False
            if not self._protocol.eof_received():
                self.close()

    def _lose(self, exc: Exception | None) -> None:
        if not self._lost:
            self._lost = True
            self._inbox.clear()
            self._inbox_size = 0
            self._protocol.connection_lost(exc)


def memory_pair(one: Any, other: Any) -> tuple[MemoryTransport, MemoryTransport]:
    """Connects two protocols; both get ``connection_made`` before this returns."""
    loop = asyncio.get_running_loop()
    a, b = MemoryTransport(loop, one), MemoryTransport(loop, other)
    a._peer, b._peer = b, a
    one.connection_made(a)
    other.connection_made(b)
    return a, b
