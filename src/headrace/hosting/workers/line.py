"""The line between a supervisor and one of its workers: messages both ways, and descriptors with them.

One stream socket of a pair, JSON objects separated by newlines. A message that carries descriptors says how many, so
that it does not matter how the stream is cut. Nothing here waits: what the socket does not take is queued, and a peer
that takes nothing of much too much has its line closed. Kinds of messages are plain words; whoever owns one says what
its fields are (names that begin with ``_`` are the line's). ``re`` is the answer to :meth:`Line.ask`.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import errno
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import msgspec

__all__ = ("Line", "LineLost", "pair")

log = logging.getLogger("headrace.hosting")

Handler = Callable[[dict[str, Any]], Any]

# What every line of this process reads into: a buffer made for each read would cost more than the rest of it.
_buffer = bytearray(64 * 1024)
_view = memoryview(_buffer)
_MOST_FDS = 64
"""Descriptors of one message; Linux takes 253."""
_FD_SIZE = array.array("i").itemsize
_SPACE = socket.CMSG_SPACE(_MOST_FDS * _FD_SIZE)
_FLAGS = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
_CUT = -1
"""Stands behind the descriptors of a message whose others could not be taken."""
_NOT_NOW = frozenset((errno.ETOOMANYREFS, errno.ENOBUFS, errno.ENOMEM))
"""The system passes no more descriptors for now, or has no memory: nothing is wrong with the other end."""
_AGAIN = 0.05
"""Seconds until that is tried again."""
_MAX_LINE = 64 * 1024 * 1024
_MAX_QUEUED = 64 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, Any]).decode


class LineLost(ConnectionError):
    """The other process is gone, or its line is."""


class _Unknown(LookupError):
    """A message that nobody waits for."""


def pair() -> tuple[socket.socket, socket.socket]:
    """The two sockets of a line, none of them inherited."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)


class Line:
    """One end. To be made on a running loop (asyncio or uvloop); owns ``sock``.

    :param closed: called once, when the other end is gone or :meth:`close` was called; everything that came before
        has been handled then.
    """

    def __init__(self, sock: socket.socket, *, closed: Callable[[], None] | None = None) -> None:
        sock.setblocking(False)
        self._sock = sock
        self._fd = sock.fileno()
        self._loop = asyncio.get_running_loop()
        self._closed = closed
        self._handlers: dict[str, Handler] = {}
        self._input = bytearray()
        self._fds: deque[int] = deque()
        self._output: deque[tuple[bytes | memoryview, tuple[int, ...]]] = deque()
        self._queued = 0
        self._later_on: asyncio.TimerHandle | None = None
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._number = 0
        self._tasks: set[asyncio.Task[Any]] = set()
        self.open = True
        self._loop.add_reader(self._fd, self._readable)

    @property
    def backlog(self) -> int:
        """Bytes that the other end has not taken."""
        return self._queued

    def on(self, kind: str, function: Handler) -> None:
        """Has messages of ``kind`` given to ``function(fields)``; one function a kind, a later one replaces it.

        Descriptors are in ``fields["fds"]`` and belong to the function; ``fields["short"]`` says how many more there
        were that this process had no room for. What it returns, or the coroutine that it
        returns gives, answers :meth:`ask`; an exception is told to who asked, else logged.
        """
        self._handlers[kind] = function

    def send(self, kind: str, fds: Iterable[int] = (), **fields: Any) -> bool:
        """Sends a message; False when the line is closed. Descriptors stay the caller's: they may be closed at once.

        Raises ValueError for more than 64 descriptors, TypeError for a field without a JSON form, and OSError when
        descriptors have to wait and this process has none free for that: then nothing is sent.
        """
        if not self.open:
            return False
        numbers = tuple(fds)
        fields["_k"] = kind
        if numbers:
            if len(numbers) > _MOST_FDS:
                raise ValueError(f"a message carries at most {_MOST_FDS} descriptors, not {len(numbers)}")
            fields["_n"] = len(numbers)
        self._put(_encode(fields) + b"\n", numbers)
        return self.open

    async def ask(self, kind: str, *, timeout: float = 5.0, **fields: Any) -> Any:
        """What the other end's function for ``kind`` returns.

        Raises :class:`LineLost` when the line is closed first, TimeoutError after ``timeout`` seconds, and
        RuntimeError with the text of what the function raised.
        """
        self._number += 1
        number = self._number
        answer: asyncio.Future[Any] = self._loop.create_future()
        self._asked[number] = answer
        try:
            if not self.send(kind, _i=number, **fields):
                raise LineLost("the line is closed")
            return await asyncio.wait_for(answer, timeout)
        finally:
            self._asked.pop(number, None)

    def close(self) -> None:
        """Closes the line; what is queued is lost. Safe to call again."""
        if not self.open:
            return
        self.open = False
        self._loop.remove_reader(self._fd)
        self._loop.remove_writer(self._fd)
        if self._later_on is not None:
            self._later_on.cancel()
        with contextlib.suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # a child that was forked may hold it too
        self._sock.close()
        for fd in self._fds:
            _close_fd(fd)
        self._fds.clear()
        for _, fds in self._output:
            for fd in fds:
                _close_fd(fd)
        self._output.clear()
        self._queued = 0
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(LineLost("the other process is gone"))
        self._asked.clear()
        if self._closed is not None:
            closed, self._closed = self._closed, None
            closed()

    def read_rest(self) -> None:
        """Handles what the other end had sent before it ended, and closes. For a process that is known to be dead:
        a child of it may hold the other end open."""
        while self.open and self._read():
            pass
        self.close()

    # --- output -------------------------------------------------------------------------------------

    def _put(self, data: bytes | memoryview, fds: tuple[int, ...]) -> None:
        first = not self._output
        if first:
            try:
                sent = self._write(data, fds)
            except OSError as exc:
                if not self._waits(exc):
                    self._lost()
                    return
                sent = 0
            if sent == len(data):
                return
            if sent:
                data, fds = memoryview(data)[sent:], ()
        copies: list[int] = []
        try:
            copies += (os.dup(fd) for fd in fds)
        except OSError:
            for fd in copies:
                _close_fd(fd)
            raise
        self._output.append((data, tuple(copies)))
        self._queued += len(data)
        if self._queued > _MAX_QUEUED:
            log.error("a process does not read what it is told: its line is closed")
            self._lost()
        elif first and self._later_on is None:
            self._loop.add_writer(self._fd, self._writable)

    def _waits(self, exc: OSError) -> bool:
        """Whether a message that was not sent is sent later: when the other end has read, or after a while."""
        if isinstance(exc, (BlockingIOError, InterruptedError)):
            return True
        if exc.errno not in _NOT_NOW:
            return False
        self._loop.remove_writer(self._fd)  # the socket would be ready all the time
        self._later_on = self._loop.call_later(_AGAIN, self._go_on)
        return True

    def _go_on(self) -> None:
        self._later_on = None
        if self._output:
            self._loop.add_writer(self._fd, self._writable)

    def _write(self, data: bytes | memoryview, fds: tuple[int, ...]) -> int:
        if not fds:
            return self._sock.send(data)
        return self._sock.sendmsg([data], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))])

    def _writable(self) -> None:
        while self._output:
            data, fds = self._output[0]
            try:
                sent = self._write(data, fds)
            except OSError as exc:
                if not self._waits(exc):
                    self._lost()
                return
            if sent:
                for fd in fds:
                    _close_fd(fd)
                fds = ()
            self._queued -= sent
            if sent < len(data):
                self._output[0] = (memoryview(data)[sent:], fds)
                return
            self._output.popleft()
        self._loop.remove_writer(self._fd)

    def _lost(self) -> None:
        """The other end takes nothing more, but what it has sent may still be here."""
        self._loop.call_soon(self.read_rest)

    # --- input --------------------------------------------------------------------------------------

    def _readable(self) -> None:
        self._read()

    def _read(self) -> bool:
        """Takes one piece of input; False when there is no more for now."""
        try:
            count, ancillary, flags, _ = self._sock.recvmsg_into((_buffer,), _SPACE, _FLAGS)
        except (BlockingIOError, InterruptedError):
            return False
        except OSError:
            self.close()
            return False
        for level, kind, piece in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                numbers = array.array("i")
                numbers.frombytes(piece[: len(piece) - len(piece) % _FD_SIZE])
                self._fds.extend(numbers)
        if flags & socket.MSG_CTRUNC:
            # The process has no descriptor free for them. One read brings those of one message at most, and nothing
            # of a message behind it, so it is known which are missing.
            self._fds.append(_CUT)
        if not count:
            self.close()
            return False
        buffered = self._input
        before = len(buffered)
        buffered += _view[:count]
        if buffered.find(b"\n", before) >= 0:
            *whole, rest = buffered.split(b"\n")
            self._input = rest
            for text in whole:
                if self.open:
                    self._take(text)
        elif len(buffered) > _MAX_LINE:
            log.error("a message of more than %d bytes between processes: the line is closed", _MAX_LINE)
            self.close()
            return False
        return True

    def _take(self, text: bytearray) -> None:
        try:
            fields = _decode(text)
            kind = fields.pop("_k")
        except (ValueError, KeyError):
            log.error("what a process has sent is no message: the line is closed")
            self.close()
            return
        number = fields.pop("_i", None)
        if kind == "re":
            answer = self._asked.get(number)
            if answer is not None and not answer.done():
                if "_e" in fields:
                    answer.set_exception(RuntimeError(fields["_e"]))
                else:
                    answer.set_result(fields.get("_v"))
            return
        if count := fields.pop("_n", 0):
            fds: list[int] = []
            fields["fds"] = fds
            while len(fds) < count and self._fds and (fd := self._fds.popleft()) != _CUT:
                fds.append(fd)
            if len(fds) < count:
                fields["short"] = count - len(fds)
        handler = self._handlers.get(kind)
        try:
            if handler is None:
                for fd in fields.get("fds", ()):
                    _close_fd(fd)
                raise _Unknown(f"nobody here knows {kind!r}")
            result = handler(fields)
        except Exception as exc:
            self._failed(kind, number, exc)
            return
        if isinstance(result, Coroutine):
            task = self._loop.create_task(self._later(kind, number, result))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif number is not None:
            self._answer(kind, number, result)

    async def _later(self, kind: str, number: int | None, result: Coroutine[Any, Any, Any]) -> None:
        try:
            value = await result
        except Exception as exc:
            self._failed(kind, number, exc)
        else:
            if number is not None:
                self._answer(kind, number, value)

    def _answer(self, kind: str, number: int, value: Any) -> None:
        try:
            self.send("re", _i=number, _v=value)
        except TypeError as exc:
            self._failed(kind, number, exc)

    def _failed(self, kind: str, number: int | None, exc: Exception) -> None:
        if number is not None:
            self.send("re", _i=number, _e=f"{type(exc).__name__}: {exc}")
        elif not isinstance(exc, _Unknown):
            log.error("a message %r between processes failed", kind, exc_info=exc)


def _close_fd(fd: int) -> None:
    with contextlib.suppress(OSError):
        os.close(fd)
