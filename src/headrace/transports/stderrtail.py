"""A child's standard error: always drained, its end kept, the rest passed on (ST-05).

A child blocks when nobody reads its stderr, so this never stops reading: what a slow reader of the copy
cannot take is dropped there, not left in the child's pipe.
"""

import asyncio
import os
from collections.abc import Callable
from typing import Protocol

from headrace.transports._fdio import FdTransport

__all__ = ("HasFileno", "StderrTail")

_FORWARD_MAX = 1024 * 1024  # queued for a slow reader of the copy; beyond that its output has a gap
_FORWARD_LINGER = 1.0  # seconds the last of the copy may take after the child is gone
_LINE_MAX = 300  # characters quoted in an error message
_LINES = 3  # lines quoted, when they are short
_HINTS = ("Try: ", "Try '")  # how command lines point at their help, below what is wrong


class HasFileno(Protocol):
    """An open file."""

    def fileno(self) -> int:
        """Its descriptor."""


class StderrTail:
    """The protocol object on a child's stderr.

    ``limit``: bytes kept. ``forward``: ``None``, a callable that takes each chunk of bytes in the loop's
    thread, or a descriptor (int or an object with ``fileno()``) that gets a copy.
    ``on_lost()`` is called when everything was read. Raises OSError when the descriptor is not open.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        limit: int,
        forward: Callable[[bytes], object] | int | HasFileno | None,
        on_lost: Callable[[], object],
    ) -> None:
        self._loop = loop
        self._limit = limit
        self._kept = bytearray()
        self._on_lost: Callable[[], object] | None = on_lost
        self._call: Callable[[bytes], object] | None = None
        self._copy: FdTransport | None = None
        if forward is None or callable(forward):
            self._call = forward
        else:
            fd = forward if isinstance(forward, int) else forward.fileno()
            self._copy = FdTransport(loop, _CopyProtocol(), -1, os.dup(fd))
            self._copy.start()

    def tail(self) -> bytes:
        """The last ``limit`` bytes."""
        return bytes(self._kept[-self._limit :])

    def last_words(self) -> str:
        """The last lines that tell something, on one line, printable and short; ``""`` when there are none.

        Of a Python traceback only the exception is quoted, and a hint at the help ("Try: ...") only when
        there is nothing else.
        """
        hint = ""
        words: list[str] = []
        for raw in reversed(self.tail().splitlines()):
            text = "".join(c if c.isprintable() else " " for c in raw.decode("utf-8", "replace"))
            line = text.strip()
            if not line:
                continue
            if words and (text[0] == " " or line.startswith("Traceback ")):
                break
            if line.startswith(_HINTS):
                hint = hint or line
                continue
            words.insert(0, line if len(line) <= _LINE_MAX else line[: _LINE_MAX - 3] + "...")
            if len(words) == _LINES:
                break
        while len(words) > 1 and sum(map(len, words)) > _LINE_MAX:
            del words[0]
        return " / ".join(words) or hint

    def connection_made(self, transport: FdTransport) -> None:
        """Nothing to do: reading has begun."""

    def data_received(self, data: bytes) -> None:
        """Keeps and passes on one chunk."""
        self._kept += data
        if len(self._kept) > 2 * self._limit:
            del self._kept[: -self._limit]
        if self._copy is not None:
            if self._copy.get_write_buffer_size() + len(data) <= _FORWARD_MAX:
                self._copy.write(data)
        elif self._call is not None:
            try:
                self._call(data)
            except Exception as exc:
                self._call = None
                self._loop.call_exception_handler(
                    {"message": "the stderr callback failed and is not called any more", "exception": exc}
                )

    def eof_received(self) -> None:
        """The transport closes."""

    def pause_writing(self) -> None:
        """Never called: nothing is written."""

    def resume_writing(self) -> None:
        """Never called: nothing is written."""

    def connection_lost(self, exc: BaseException | None) -> None:
        """All was read: lets the copy end and reports it."""
        if self._copy is not None:
            self._copy.close()
            if self._copy.get_write_buffer_size():
                self._loop.call_later(_FORWARD_LINGER, self._copy.abort)
        on_lost, self._on_lost = self._on_lost, None
        if on_lost is not None:
            on_lost()


class _CopyProtocol:
    def connection_made(self, transport: FdTransport) -> None: ...

    def data_received(self, data: bytes) -> None: ...

    def eof_received(self) -> None: ...

    def connection_lost(self, exc: BaseException | None) -> None: ...

    def pause_writing(self) -> None: ...

    def resume_writing(self) -> None: ...
