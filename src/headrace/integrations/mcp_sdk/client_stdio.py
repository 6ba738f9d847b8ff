"""A server as a child process, for clients of the official SDK: the place of ``mcp.client.stdio.stdio_client``.

Strategy: the child, its end and its standard error are those of :mod:`headrace.transports.spawn`; messages go by
:class:`headrace.integrations.mcp_sdk.streams` where the SDK wants a stream pair, and straight into the
multiplexer under a ``HeadraceDispatcher``.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio

from headrace.errors import ConnectFailed, UsageError
from headrace.integrations.mcp_sdk import messages
from headrace.integrations.mcp_sdk._streams import StreamMux, hold, write_line
from headrace.integrations.mcp_sdk.recode import recoded
from headrace.integrations.mcp_sdk.require import check_loop
from headrace.integrations.mcp_sdk.streams import ReadStream, WriteStream
from headrace.limits import DEFAULT, Limits
from headrace.mux.gate import Gate
from headrace.transports._link import LineLink
from headrace.transports.runtime import make_runtime
from headrace.transports.spawn import ChildProcess, spawn

if TYPE_CHECKING:
    from headrace.integrations.mcp_sdk.dispatcher import HeadraceDispatcher
    from headrace.mux import Mux, Sink
    from headrace.transports.stderrtail import HasFileno

__all__ = ("StdioTransport", "stdio_transport")

log = logging.getLogger("headrace.mcp")


class StdioTransport:
    """Made by :func:`stdio_transport`: an async context manager that starts the server and gives ``(read, write)``.

    Each entry starts a process of its own, one at a time. ``child`` is the process while it runs.
    """

    def __init__(
        self,
        argv: list[str],
        *,
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        errlog: Any,
        encoding: str,
        errors: str,
        limits: Limits,
        close_grace: float,
    ) -> None:
        self.argv = argv
        self.limits = limits
        self.child: ChildProcess | None = None
        self._env = env
        self._cwd = cwd
        self._errlog = errlog
        self._encoding = encoding
        self._errors = errors
        self._grace = close_grace
        self._link: LineLink | None = None
        self._read: ReadStream | None = None
        self._write: WriteStream | None = None

    def __repr__(self) -> str:
        return f"<StdioTransport {self.argv[0]!r}>"

    async def __aenter__(self) -> tuple[ReadStream, WriteStream]:
        """Starts the server. Raises OSError when it cannot be started, ValueError for arguments that cannot be
        passed to a process."""
        check_loop()
        link: LineLink
        read = ReadStream(lambda held: hold(link, held))
        mux = StreamMux(make_runtime(self.limits, log), _StreamGate(read), self.limits, _taker(read))
        link = await self.open(mux)
        self._read = read
        self._write = write = WriteStream(_sender(link), lambda: link.closed)
        return read, write

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the server in the order of the specification (ST-20); a cancelled scope does not cut that short."""
        if self._read is not None:
            self._read.close()  # what the server still writes is drained, so that it does not block on it
        if self._write is not None:
            self._write.close()
        await self.close()

    def dispatcher(self, **options: Any) -> HeadraceDispatcher[Any]:
        """For ``ClientSession(dispatcher=...)`` of version 2: starts the server when the session begins. Options as
        :class:`~headrace.integrations.mcp_sdk.HeadraceDispatcher`."""
        from headrace.integrations.mcp_sdk.client_dispatch import stdio_dispatcher

        return stdio_dispatcher(self, **options)

    async def open(self, mux: Mux) -> LineLink:
        """Starts the server and connects a client's ``mux`` to it: for dispatchers. End it with :meth:`close`."""
        if self.child is not None:
            raise RuntimeError("this transport is in use; make another one for another server")
        link = LineLink(mux, self.limits, serves=False, on_lost=self._lost)
        protocol = recoded(link, self._encoding, self._errors, getattr(mux, "take", None))
        try:
            self.child = await spawn(
                self.argv,
                lambda: protocol,
                env=self._env,
                cwd=self._cwd,
                stderr=_destination(self._errlog),
                limits=self.limits,
                close_grace=self._grace,
            )
        except ConnectFailed as exc:
            if isinstance(exc.__cause__, OSError):
                if exc.__cause__.filename is None and self._cwd is None:  # as of subprocess: else which file?
                    exc.__cause__.filename = self.argv[0]
                exc.__cause__.add_note(str(exc))
                raise exc.__cause__ from None
            raise OSError(str(exc)) from exc
        except UsageError as exc:
            raise ValueError(str(exc)) from exc
        self._link = link
        return link

    async def close(self) -> None:
        """Closes the server's standard input, waits for its end, and goes on to signals. Safe to repeat."""
        child, self.child = self.child, None
        if child is None:
            return
        if self._link is not None:
            self._link.flush()  # what was sent last goes before the end of its input
            self._link = None
        with anyio.CancelScope(shield=True):
            try:
                await child.close()
            finally:
                child.transport.abort()

    def _lost(self, reason: Any) -> None:
        if self.child is not None:
            log.warning("the server %s: %s", self.argv[0], reason)


class _StreamGate(Gate):
    """The end of the connection is the end of the stream."""

    answers_bad_input = False

    def __init__(self, read: ReadStream) -> None:
        self._read = read

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        self._read.put(ValueError(message))

    def lost(self, reason: Any) -> None:
        self._read.end()


def _taker(read: ReadStream) -> Callable[[bytes | Exception], None]:
    put = read.put
    message_of = messages.message_of

    def take(raw: bytes | Exception) -> None:
        if isinstance(raw, Exception):
            put(raw)
        else:
            put(message_of(raw), len(raw))

    return take


def _sender(link: LineLink) -> Callable[[Any], Any]:
    wire = messages.wire

    def send(item: messages.SessionMessage) -> Any:
        if not write_line(link, wire(item.message)):
            raise anyio.BrokenResourceError
        return link.wait_drained()

    return send


def _destination(errlog: Any) -> Callable[[bytes], object] | int | HasFileno | None:
    """Where standard error goes: the file, or what has only a write method (notebooks, captured output)."""
    if errlog is None:
        errlog = sys.stderr
    if errlog is None or isinstance(errlog, int):
        return errlog
    try:
        errlog.fileno()
    except (AttributeError, OSError, ValueError):
        if not hasattr(errlog, "write"):
            raise TypeError(f"errlog must be a file, not {type(errlog).__name__}") from None
    else:
        return errlog

    def copy(data: bytes) -> None:
        try:
            errlog.write(data.decode("utf-8", "replace"))
        except Exception as exc:
            log.debug("the server's standard error could not be copied: %s", exc)

    return copy


def stdio_transport(
    command: Any,
    *args: str | os.PathLike[str],
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    errlog: Any = None,
    encoding: str = "utf-8",
    encoding_error_handler: str = "strict",
    limits: Limits | None = None,
    close_grace: float = 2.0,
) -> StdioTransport:
    """Starts a server as a child process and speaks to it over its standard streams.

    :param command: the program, with ``args``; or an ``mcp`` ``StdioServerParameters``, which says everything but
        ``errlog`` itself.
    :param env: variables over the few that a child inherits (those of ``mcp``'s ``get_default_environment``).
    :param cwd: its working directory.
    :param errlog: where a copy of its standard error goes: a file, a descriptor, or anything with
        ``write(str)``; ``sys.stderr`` by default.
    :param encoding: of the messages, with ``encoding_error_handler`` ``"strict"`` (the line is given as an
        exception), ``"replace"`` or ``"ignore"``.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param close_grace: seconds for each polite step of the end: closing its input, then SIGTERM.

    Use it as ``mcp.Client(stdio_transport(...))``, as ``async with stdio_transport(...) as (read, write)`` for
    ``ClientSession(read, write)``, or with :func:`headrace.integrations.mcp_sdk.connect` for the fast way.
    Entering raises OSError when the program cannot be started.
    """
    if not isinstance(command, str | os.PathLike):
        if args or env is not None or cwd is not None:
            raise TypeError("the parameters say the arguments, env and cwd themselves")
        env, cwd = command.env, command.cwd
        encoding, encoding_error_handler = command.encoding, command.encoding_error_handler
        command, args = command.command, tuple(command.args)
    return StdioTransport(
        [os.fspath(part) for part in (command, *args)],
        env=env,
        cwd=cwd,
        errlog=errlog,
        encoding=encoding,
        errors=encoding_error_handler,
        limits=limits or DEFAULT,
        close_grace=close_grace,
    )
