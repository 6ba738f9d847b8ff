"""Streams of whole messages over every link, for SDKs that correlate requests by themselves.

A :class:`MessageStream` is an :class:`anyio.abc.ObjectStream`: ``receive`` and ``send`` take dicts, or the typed
messages of a msgspec type. Strategy: no multiplexer is involved. Bytes are cut into messages where they are read and
decoded where they are received; reading stops while many wait for that, and sending waits while the peer does not
read, so that a slow program on either side costs bounded memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import ssl as tls
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec
from anyio.abc import ObjectStream
from anyio.lowlevel import checkpoint_if_cancelled

from headrace.errors import ConnectionClosed, RemoteProtocolError
from headrace.jsonrpc import INVALID_REQUEST, PARSE_ERROR
from headrace.limits import DEFAULT, Limits
from headrace.transports.address import format_address, parse_address
from headrace.transports.framing import LINES, Framing, make_framer
from headrace.transports.plain.exchange import decode as decode_any
from headrace.transports.plain.opening import Opening
from headrace.transports.stream import connect_stream, remove_stale_socket
from headrace.wire import BrokenFraming, frame_message

if TYPE_CHECKING:
    from headrace.transports.hosting import Address
    from headrace.transports.stdio import StdioClaim

__all__ = (
    "MessageListener",
    "MessageStream",
    "open_command",
    "open_http",
    "open_lines",
    "open_memory",
    "open_stdio",
    "serve_lines",
)

M = TypeVar("M")
_encode = msgspec.json.Encoder().encode
_CLOSE_TIMEOUT = 1.0  # seconds in which a peer has to take what was written last


class MessageStream(ObjectStream[M]):
    """Messages both ways over one connection; made by the functions of this module.

    One task receives at a time, any number send. Belongs to the thread of its loop. ``async for message in stream``
    ends with the peer's input.
    """

    def __init__(self, type: Any = None, *, framing: Framing = LINES, limits: Limits = DEFAULT) -> None:
        self.limits = limits
        self._framer = make_framer(framing, limits)
        self._lines = framing == LINES
        self._decode = decode_any if type is None else msgspec.json.Decoder(type).decode
        self._inbox: deque[bytes | RemoteProtocolError] = deque()
        self._held = 0  # bytes in the inbox
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._reading = True
        self._receiver: asyncio.Future[None] | None = None
        self._senders: list[asyncio.Future[None]] = []
        self._full = False
        self._ended = False  # no more input
        self._lost = False  # the connection is gone
        self._failure: Exception | None = None  # why nothing more can be read
        self._gone: asyncio.Future[None] = self._loop.create_future()
        self._sealed = False  # send_eof was called
        self._closed = False
        self._closing: asyncio.Task[None] | None = None
        self.closer: Callable[[], Awaitable[Any]] | None = None
        self.made: asyncio.Future[None] = self._loop.create_future()
        """Done once the connection is there."""

    # --- receiving ------------------------------------------------------------------------------------

    async def receive(self) -> M:
        """The next message.

        Raises :class:`anyio.EndOfStream` after the last one, :class:`anyio.BrokenResourceError` when the connection
        broke (its cause says how: :class:`headrace.errors.ConnectionClosed`, with the exit status of a child),
        :class:`anyio.ClosedResourceError` after :meth:`aclose`, :class:`anyio.BusyResourceError` while another task
        receives. Raises :class:`headrace.errors.RemoteProtocolError` for a message that cannot be read: no JSON, not
        of the type of the stream, too long; the stream goes on behind it.
        """
        await checkpoint_if_cancelled()
        if self._receiver is not None:
            raise anyio.BusyResourceError("receiving from")
        if self._closed:
            raise anyio.ClosedResourceError
        while not self._inbox:
            if self._closed:
                raise anyio.ClosedResourceError
            if self._failure is not None:
                raise anyio.BrokenResourceError from self._failure
            if self._ended or self._lost:
                raise anyio.EndOfStream
            self._receiver = self._loop.create_future()
            try:
                await self._receiver
            finally:
                self._receiver = None
        raw = self._inbox.popleft()
        if isinstance(raw, RemoteProtocolError):
            self._steer()
            raise raw
        self._held -= len(raw)
        self._steer()
        return self._read(raw)

    def _read(self, raw: bytes) -> M:
        try:
            message: M = self._decode(raw)
        except msgspec.ValidationError as exc:
            raise RemoteProtocolError(f"not a message of this stream: {exc}", rpc_code=INVALID_REQUEST) from None
        except (ValueError, RecursionError) as exc:
            raise RemoteProtocolError(f"not a JSON text: {exc}", rpc_code=PARSE_ERROR) from None
        return message

    def _steer(self) -> None:
        """Reading goes on only while little waits to be received."""
        if self._transport is None or self._ended:
            return
        if self._reading:
            if self._held > self.limits.max_output_bytes or len(self._inbox) > self.limits.max_in_flight:
                self._reading = False
                self._transport.pause_reading()
        elif self._held * 2 <= self.limits.max_output_bytes and len(self._inbox) * 2 <= self.limits.max_in_flight:
            self._reading = True
            self._transport.resume_reading()

    # --- sending --------------------------------------------------------------------------------------

    async def send(self, item: M) -> None:
        """Sends a message; waits while ``limits.max_output_bytes`` are queued that the peer does not take.

        Bytes are sent as they are, and must be one JSON text. Raises :class:`anyio.BrokenResourceError` when the
        connection is gone, :class:`anyio.ClosedResourceError` after :meth:`aclose` or :meth:`send_eof`, TypeError
        for what has no JSON form.
        """
        await checkpoint_if_cancelled()
        await self._writable()
        body = item if isinstance(item, bytes) else _encode(item)
        if self._lines:
            if b"\n" in body:
                body = msgspec.json.format(body, indent=-1)
            self._transport.write(body + b"\n")
        else:
            self._transport.write(frame_message(body))

    async def _writable(self) -> None:
        while True:
            if self._closed or self._sealed:
                raise anyio.ClosedResourceError
            if self._transport is None:
                raise anyio.BrokenResourceError from self._failure
            if not self._full:
                return
            waiter = self._loop.create_future()
            self._senders.append(waiter)
            await waiter

    async def send_eof(self) -> None:
        """Ends this side's messages; the peer's are still received. Where the link cannot say so (TLS), it does
        nothing to it."""
        await checkpoint_if_cancelled()
        self._sealed = True
        self._wake_senders()
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    # --- the end --------------------------------------------------------------------------------------

    async def aclose(self) -> None:
        """Ends the connection: what was sent leaves first, in at most a second; a child process is ended in the
        usual steps. May be called from any task, and again; never raises for what the peer does."""
        if self._closing is None:
            self._closed = True
            self._wake()
            self._wake_senders()
            self._closing = self._loop.create_task(self._end())
        await asyncio.shield(self._closing)

    async def _end(self) -> None:
        if self.closer is not None:
            await self.closer()
        if self._transport is not None:
            self._transport.close()
            await asyncio.wait([self._gone], timeout=_CLOSE_TIMEOUT)
            if self._transport is not None:
                self._transport.abort()

    def hang_up(self) -> None:
        """This side reads no more: what came already is still received, then the stream ends."""
        self._ended = True
        self._wake()

    # --- protocol callbacks ---------------------------------------------------------------------------

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self.made.set_result(None)
        transport.set_write_buffer_limits(high=self.limits.max_output_bytes)

    def data_received(self, data: bytes) -> None:
        if not self._ended:
            self._take(self._framer.feed(data))

    def eof_received(self) -> bool:
        if not self._ended:
            self._take(self._framer.finish())
            # A child's exit follows in a moment and says why (B82).
            self._ended = self._transport is None or self._transport.get_extra_info("pid") is None
            self._wake()
        # Our side stays open: what is received may still be answered.
        return not self._closed

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._transport is None:
            return
        self._transport = None
        self._lost = True
        if isinstance(exc, ConnectionClosed):
            if exc.exit_code != 0:
                self._failure = exc
        elif exc is not None:
            self._failure = ConnectionClosed(f"the connection broke: {exc}")
        if not self._gone.done():
            self._gone.set_result(None)
        self._wake()
        self._wake_senders()

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        self._wake_senders()

    def _take(self, found: Sequence[bytes | RemoteProtocolError]) -> None:
        if not found:
            return
        for each in found:
            self._inbox.append(each)
            if isinstance(each, bytes):
                self._held += len(each)
            elif isinstance(each, BrokenFraming):
                self._ended = True
                self._failure = each
        self._wake()
        self._steer()

    def _wake(self) -> None:
        if self._receiver is not None and not self._receiver.done():
            self._receiver.set_result(None)

    def _wake_senders(self) -> None:
        senders, self._senders = self._senders, []
        for waiter in senders:
            if not waiter.done():
                waiter.set_result(None)


def _opening(open: Callable[[], Coroutine[Any, Any, MessageStream[Any]]]) -> Opening[MessageStream[Any]]:
    return Opening(open, MessageStream.aclose)


def open_command(
    argv: Sequence[str | os.PathLike[str]],
    type: Any = None,
    *,
    framing: Framing = LINES,
    limits: Limits = DEFAULT,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Any = None,
    close_grace: float = 2.0,
) -> Opening[MessageStream[Any]]:
    """Starts a program and exchanges messages with it over its standard streams.

    ``type`` is what messages are decoded to: a msgspec Struct, a union of tagged ones, or any other type that msgspec
    knows; without one they are dicts (and whatever else JSON can be). The other parameters, and what is raised, as
    for :func:`headrace.transports.open_command`.
    """

    async def open() -> MessageStream[Any]:
        from headrace.transports.spawn import spawn

        stream: MessageStream[Any] = MessageStream(type, framing=framing, limits=limits)
        child = await spawn(
            argv,
            lambda: stream,
            env=env,
            inherit_env=inherit_env,
            cwd=cwd,
            stderr=stderr,
            limits=limits,
            close_grace=close_grace,
        )
        stream.closer = child.close
        return stream

    return _opening(open)


def open_lines(
    type: Any = None,
    *,
    unix: str | None = None,
    tcp: Address | None = None,
    framing: Framing = LINES,
    limits: Limits = DEFAULT,
) -> Opening[MessageStream[Any]]:
    """Connects to a unix socket or a TCP address and exchanges messages. Raises ConnectFailed naming the address."""
    at = ("", 0) if tcp is None else parse_address(tcp)

    async def open() -> MessageStream[Any]:
        stream: MessageStream[Any] = MessageStream(type, framing=framing, limits=limits)
        await connect_stream(lambda: stream, unix=unix, host=at[0], port=at[1])
        return stream

    return _opening(open)


def open_stdio(
    type: Any = None, *, framing: Framing = LINES, limits: Limits = DEFAULT, claimed: StdioClaim | None = None
) -> Opening[MessageStream[Any]]:
    """Exchanges messages over this process's standard input and output, which are nobody else's meanwhile (see
    :func:`headrace.transports.stdio.claim`)."""

    async def open() -> MessageStream[Any]:
        from headrace.transports import stdio

        stream: MessageStream[Any] = MessageStream(type, framing=framing, limits=limits)
        stdio.open_stdio(asyncio.get_running_loop(), lambda: stream, claimed=claimed)
        return stream

    return _opening(open)


def open_http(
    url: str,
    type: Any = None,
    *,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    ssl: tls.SSLContext | None = None,
    limits: Limits = DEFAULT,
) -> Opening[MessageStream[Any]]:
    """Exchanges messages with an MCP server over Streamable HTTP, as if it were one connection.

    The era of a request is in its params, see :mod:`headrace.transports.plain.http`. The other parameters, and what is
    raised, as for :func:`headrace.transports.open_http`.
    """

    async def open() -> MessageStream[Any]:
        from headrace.transports.messages_http import HttpMessageStream
        from headrace.transports.plain import http

        stream: HttpMessageStream[Any] = HttpMessageStream(type, limits)
        stream.opened(await http.open_http(url, stream.host, headers=headers, ssl=ssl, on_lost=stream.lost))
        return stream

    return _opening(open)


def open_memory(
    type: Any = None, *, framing: Framing = LINES, limits: Limits = DEFAULT
) -> tuple[MessageStream[Any], MessageStream[Any]]:
    """Two connected streams of this process. Must be called on a running loop."""
    from headrace.transports.memory import memory_pair

    one: MessageStream[Any] = MessageStream(type, framing=framing, limits=limits)
    other: MessageStream[Any] = MessageStream(type, framing=framing, limits=limits)
    memory_pair(one, other)
    return one, other


class MessageListener:
    """A listening socket whose connections are message streams: see :func:`serve_lines`."""

    def __init__(self, handler: Callable[[MessageStream[Any]], Coroutine[Any, Any, None]], **options: Any) -> None:
        self._handler = handler
        self._options = options
        self._tasks: set[asyncio.Task[None]] = set()
        self._streams: set[MessageStream[Any]] = set()
        self._listener: asyncio.AbstractServer | None = None
        self._unix: str | None = None

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as ``unix:PATH`` or ``tcp:HOST:PORT``."""
        if self._unix is not None:
            return [f"unix:{self._unix}"]
        assert self._listener is not None
        return [f"tcp:{format_address(*s.getsockname()[:2])}" for s in self._listener.sockets]  # type: ignore[attr-defined]

    def _connect(self) -> Any:
        stream: MessageStream[Any] = MessageStream(**self._options)
        if len(self._streams) >= stream.limits.max_connections:
            return _Refused()
        self._streams.add(stream)
        task = asyncio.get_running_loop().create_task(self._run(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return stream

    async def _run(self, stream: MessageStream[Any]) -> None:
        try:
            await stream.made
            await self._handler(stream)
        except (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError):
            pass
        finally:
            self._streams.discard(stream)
            await stream.aclose()

    async def close(self) -> None:
        """Stops accepting, ends all streams and waits for the handlers, for ``limits.drain_timeout`` seconds; then
        cancels them."""
        if self._listener is not None:
            self._listener.close()
        if self._unix is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._unix)
        for stream in list(self._streams):
            stream.hang_up()
        tasks = list(self._tasks)
        if tasks:
            limits: Limits = self._options.get("limits", DEFAULT)
            _, left = await asyncio.wait(tasks, timeout=limits.drain_timeout)
            for task in left:
                task.cancel()
            if left:
                await asyncio.wait(left, timeout=1.0)

    async def __aenter__(self) -> MessageListener:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class _Refused(asyncio.Protocol):
    """Over max_connections: closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


async def serve_lines(
    handler: Callable[[MessageStream[Any]], Coroutine[Any, Any, None]],
    type: Any = None,
    *,
    unix: str | None = None,
    tcp: Address | None = None,
    framing: Framing = LINES,
    limits: Limits = DEFAULT,
) -> MessageListener:
    """Listens on a unix socket or a TCP address; ``handler(stream)`` runs in a task of its own for each connection,
    which ends with it. Over ``limits.max_connections`` new ones are closed at once.

    Raises OSError when the address cannot be had, UsageError for a wrong one.
    """
    loop = asyncio.get_running_loop()
    listener = MessageListener(handler, type=type, framing=framing, limits=limits)
    if unix is not None:
        remove_stale_socket(unix)
        listener._listener = await loop.create_unix_server(listener._connect, unix)
        listener._unix = unix
    else:
        host, port = parse_address(0 if tcp is None else tcp)
        listener._listener = await loop.create_server(listener._connect, host, port)
    return listener
