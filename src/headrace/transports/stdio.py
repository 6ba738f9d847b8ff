"""Standard input and output as one connection, and nobody else's while it lasts (ST-04, B08, B26, B28).

Strategy: :func:`claim` moves descriptors 0 and 1 to private close-on-exec descriptors and leaves the null
device and a copy of stderr in their place. A stray ``print``, a C library or a child process that writes to
"standard output" then writes to stderr, and a child or ``input()`` that reads finds an empty file instead
of protocol bytes. ``release()`` puts everything back. The open file descriptions, which the parent and others
share, are never changed, so there is nothing to undo when the process is killed.
"""

import contextlib
import io
import os
import sys
from asyncio import AbstractEventLoop
from collections.abc import Callable
from typing import Any, Self, TextIO

from headrace.errors import ConnectFailed, UsageError
from headrace.transports._fdio import FdTransport

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ("StdioClaim", "claim", "open_stdio")

_FIRST_PRIVATE = 3  # descriptors 0 to 2 are never used for the private copies
_active: "StdioClaim | None" = None


class StdioClaim:
    """Descriptors 0 and 1, taken for the protocol. Made by :func:`claim`; a context manager.

    ``read_fd`` and ``write_fd`` are the private descriptors, -1 after :meth:`release`.
    """

    def __init__(self) -> None:
        self.read_fd = self.write_fd = -1
        self._stdout: TextIO | None = None  # sys.stdout before
        self._swapped: TextIO | None = None  # and what took its place
        self._reconfigured = False
        _require_open(0, "standard input", sys.__stdin__)
        _require_open(1, "standard output", sys.__stdout__)
        try:
            self.read_fd = _private_copy(0)
            self.write_fd = _private_copy(1)
            _point(0, os.devnull, os.O_RDONLY)
            if not _is_open(2):  # what would go to stderr goes nowhere, also after release
                _point(2, os.devnull, os.O_WRONLY)
            os.dup2(2, 1)
        except OSError as exc:
            self.release()
            raise ConnectFailed(f"cannot take over standard input and output: {exc.strerror}") from exc
        self._divert_python()

    def _divert_python(self) -> None:
        # Text that Python still buffers for fd 1 now comes out on stderr, as does all later text.
        out = sys.stdout
        if out is None or not _writes_to(out, 1):
            return
        with contextlib.suppress(OSError, ValueError):
            out.flush()
        if isinstance(out, io.TextIOWrapper) and not out.line_buffering:
            out.reconfigure(line_buffering=True)
            self._reconfigured = True
        self._stdout = out
        if sys.stderr is not None:
            sys.stdout = self._swapped = sys.stderr

    def release(self) -> None:
        """Puts descriptors 0 and 1 and ``sys.stdout`` back. Idempotent."""
        global _active
        if _active is self:
            _active = None
        if self._stdout is not None:
            out, self._stdout = self._stdout, None
            if sys.stdout is self._swapped:
                sys.stdout = out
            with contextlib.suppress(OSError, ValueError):
                out.flush()
                if self._reconfigured and isinstance(out, io.TextIOWrapper):
                    out.reconfigure(line_buffering=False)
        if self.read_fd >= 0:
            os.dup2(self.read_fd, 0)
            os.close(self.read_fd)
        if self.write_fd >= 0:
            os.dup2(self.write_fd, 1)
            os.close(self.write_fd)
        self.read_fd = self.write_fd = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def claim() -> StdioClaim:
    """Takes standard input and output for the protocol until ``release()`` or the end of ``with``.

    Call it before the code that may print is imported, and before the event loop is made: libuv aborts the
    process when one of its own descriptors got the number of a closed standard stream.
    Raises ConnectFailed when standard input or output is closed, UsageError when they are taken already
    (one server a process).
    """
    global _active
    if _active is not None:
        raise UsageError("standard input and output already serve another connection of this process")
    _active = taken = StdioClaim()
    return taken


def open_stdio(
    loop: AbstractEventLoop,
    protocol_factory: Callable[[], Any],
    *,
    claimed: StdioClaim | None = None,
) -> tuple[FdTransport, Any]:
    """Connects a protocol to standard input and output: ``(transport, protocol)``.

    ``protocol_factory()`` gives an object with the six callbacks of :class:`asyncio.Protocol`.
    ``claimed`` is the claim to use, which stays the caller's and outlives the transport. Without one
    a claim is made here and released when ``connection_lost`` has been called.
    Raises ConnectFailed and UsageError as :func:`claim` does.
    """
    if claimed is not None and claimed.read_fd < 0:
        raise UsageError("the claim on standard input and output was released already")
    own = claim() if claimed is None else None
    taken = claimed if own is None else own
    assert taken is not None
    try:
        protocol = protocol_factory()
        read_fd = _private_copy(taken.read_fd)
        try:
            write_fd = _private_copy(taken.write_fd)
        except OSError:
            os.close(read_fd)
            raise
        transport = FdTransport(
            loop, protocol, read_fd, write_fd, on_lost=None if own is None else own.release
        )
        transport.start()
    except BaseException as exc:
        if own is not None:
            own.release()
        if isinstance(exc, OSError) and not isinstance(exc, ConnectFailed):
            raise ConnectFailed(f"cannot use standard input and output: {exc.strerror}") from exc
        raise
    return transport, protocol


def _require_open(fd: int, name: str, at_start: TextIO | None) -> None:
    # Python leaves sys.__stdin__ None when descriptor 0 was closed at start; by now another file may
    # have got its number.
    if at_start is None or not _is_open(fd):
        raise ConnectFailed(f"{name} is closed: a stdio server is started by its client, with pipes")


def _private_copy(fd: int) -> int:
    return os.dup(fd) if fcntl is None else fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FIRST_PRIVATE)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _point(fd: int, path: str, flags: int) -> None:
    opened = os.open(path, flags)
    os.dup2(opened, fd)
    if opened != fd:
        os.close(opened)


def _writes_to(stream: TextIO, fd: int) -> bool:
    try:
        return stream.fileno() == fd
    except (OSError, ValueError, AttributeError):
        return False
