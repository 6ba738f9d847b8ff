"""Reads a descriptor that cannot be polled (regular file, null device) from a thread (T20, B30).

One chunk is under way at a time: the thread reads, hands the chunk to the event loop and waits until
it was taken, so a paused connection holds at most one chunk. The thread is a daemon that reads with
``os.read`` on a descriptor of its own; it holds no lock that the interpreter wants at exit, and a read
that never returns keeps nothing from ending but itself.
"""

import os
import select
import threading
from asyncio import AbstractEventLoop
from collections.abc import Callable

__all__ = ("ReadThread",)

_CHUNK = 64 * 1024
_LOOK = 1.0  # seconds between two looks, while nothing is wanted, whether the loop is still there


class ReadThread:
    """Feeds ``deliver(chunk)`` in the loop: ``bytes``, ``b""`` at the end of the file, or an OSError.

    ``fd`` belongs to the thread from here on and is closed when it ends. Every delivered chunk must be
    answered by :meth:`taken` before the next one is read; nothing is read before :meth:`start`.
    """

    def __init__(self, loop: AbstractEventLoop, fd: int, deliver: Callable[[bytes | OSError], None]) -> None:
        self._loop = loop
        self._fd = fd
        self._deliver: Callable[[bytes | OSError], None] | None = deliver
        self._wanted = threading.Semaphore(1)
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="headrace-read", daemon=True)

    def start(self) -> None:
        """Starts reading. Raises RuntimeError when no thread can be started."""
        self._thread.start()

    def taken(self) -> None:
        """The chunk was used: read the next one."""
        self._wanted.release()

    def stop(self) -> None:
        """Nothing is delivered any more; the thread ends after the read it may be in."""
        self._stopped = True
        self._deliver = None
        self._wanted.release()
        if self._thread.ident is None:
            os.close(self._fd)

    def _arrived(self, chunk: bytes | OSError) -> None:
        if self._deliver is not None:
            self._deliver(chunk)

    def _run(self) -> None:
        chunk: bytes | OSError = b"."
        try:
            while isinstance(chunk, bytes) and chunk:
                while not self._wanted.acquire(timeout=_LOOK):
                    if self._loop.is_closed():
                        return
                if self._stopped:
                    return
                try:
                    chunk = self._read()
                except OSError as exc:
                    chunk = exc
                self._loop.call_soon_threadsafe(self._arrived, chunk)
        except RuntimeError:
            pass  # the loop is closed: nobody is left to read for
        finally:
            os.close(self._fd)

    def _read(self) -> bytes:
        while True:
            try:
                return os.read(self._fd, _CHUNK)
            except BlockingIOError:  # somebody else made the shared description non-blocking
                select.select([self._fd], [], [])
