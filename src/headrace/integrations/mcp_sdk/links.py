"""What a dispatcher runs over: a child process, standard input and output, sockets, pipes, memory.

An opener is a coroutine function of a mux and its limits that connects the mux and gives a :class:`Channel`. Anything
that answers to a channel's methods will do, so that other transports can be put under a dispatcher.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectionClosed
from headrace.transports._fdio import FdTransport
from headrace.transports._link import LineLink
from headrace.transports.memory import MemoryTransport

if TYPE_CHECKING:
    from headrace.integrations.mcp_sdk.dispatcher import HeadraceDispatcher
    from headrace.limits import Limits
    from headrace.mux import Mux, Sink
    from headrace.transports.stdio import StdioClaim

__all__ = ("Channel", "Opener", "command", "memory", "memory_dispatchers", "pipes", "sock", "stdio", "tcp", "unix")

_CLOSE_TIMEOUT = 1.0  # seconds in which a peer has to take what was written last


class Channel:
    """An open connection: ``sink`` is where messages go, ``kind`` names the transport for ``ctx.transport``.

    A channel of another make may have two more methods. ``call_options(method, params, opts)`` gives keyword arguments
    for :meth:`headrace.mux.Mux.call`, made of the SDK's ``CallOptions``; ``error_of(exc)`` gives the exception that a
    caller sees in place of ``exc``.
    """

    kind = "jsonrpc"
    sink: Sink

    def __init__(self, sink: Any, lost: asyncio.Future[None], kind: str) -> None:
        self.sink = sink
        self.kind = kind
        self._lost = lost

    async def close(self) -> None:
        """Ends the connection once what was written has left; a peer that takes nothing has a second for it."""
        link: Any = self.sink
        link.close()
        if not self._lost.done():
            await asyncio.wait([self._lost], timeout=_CLOSE_TIMEOUT)
            link.abort()


Opener = Callable[["Mux", "Limits"], Awaitable[Channel]]


class _ChildChannel(Channel):
    child: Any

    async def close(self) -> None:
        try:
            await self.child.close()
        finally:
            self.sink.abort()  # type: ignore[attr-defined]


def _loss() -> tuple[asyncio.Future[None], Callable[[Exception], None]]:
    lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def on_lost(exc: Exception) -> None:
        if not lost.done():
            lost.set_result(None)

    return lost, on_lost


def _link(mux: Mux, limits: Limits, kind: str, *, serves: bool) -> tuple[Any, Channel]:
    """A link to be connected, and its channel."""
    lost, on_lost = _loss()
    mux.gate.answers_bad_input = serves
    link = LineLink(mux, limits, serves=serves, on_lost=on_lost)
    return link, Channel(link, lost, kind)


def command(argv: Sequence[str | os.PathLike[str]], **options: Any) -> Opener:
    """Starts a program and talks over its standard streams; options as :func:`headrace.transports.spawn.spawn`."""

    async def opener(mux: Mux, limits: Limits) -> Channel:
        from headrace.transports.spawn import spawn

        mux.gate.answers_bad_input = False
        link = LineLink(mux, limits, serves=False)
        channel = _ChildChannel(link, None, "stdio")  # type: ignore[arg-type]
        channel.child = await spawn(argv, lambda: link, limits=limits, **options)
        return channel

    return opener


def unix(path: str) -> Opener:
    """A client's connection to a unix socket. Opening raises :class:`headrace.errors.ConnectFailed`."""
    return _dialled("unix", unix=path)


def tcp(host: str, port: int) -> Opener:
    """A client's connection to a TCP address. Opening raises :class:`headrace.errors.ConnectFailed`."""
    return _dialled("tcp", host=host, port=port)


def _dialled(kind: str, **where: Any) -> Opener:
    async def opener(mux: Mux, limits: Limits) -> Channel:
        from headrace.transports.stream import open_lines

        lost, on_lost = _loss()
        mux.gate.answers_bad_input = False
        return Channel(await open_lines(mux, limits, on_lost=on_lost, **where), lost, kind)

    return opener


def sock(connected: socket.socket, *, serves: bool = True, kind: str = "unix") -> Opener:
    """A connected stream socket, which becomes the dispatcher's; ``serves``: this is the server's end."""

    async def opener(mux: Mux, limits: Limits) -> Channel:
        link, channel = _link(mux, limits, kind, serves=serves)
        connected.setblocking(False)
        await asyncio.get_running_loop().connect_accepted_socket(lambda: link, connected)
        return channel

    return opener


def pipes(read_fd: int, write_fd: int, *, serves: bool = True, kind: str = "stdio") -> Opener:
    """Two descriptors, which become the dispatcher's: it reads lines from one and writes them to the other."""

    async def opener(mux: Mux, limits: Limits) -> Channel:
        link, channel = _link(mux, limits, kind, serves=serves)
        FdTransport(asyncio.get_running_loop(), link, read_fd, write_fd).start()
        return channel

    return opener


def stdio(claimed: StdioClaim | None = None) -> Opener:
    """Standard input and output of this process, taken for the protocol (:func:`headrace.transports.stdio.claim`)."""

    async def opener(mux: Mux, limits: Limits) -> Channel:
        from headrace.transports.stdio import open_stdio

        link, channel = _link(mux, limits, "stdio", serves=True)
        open_stdio(asyncio.get_running_loop(), lambda: link, claimed=claimed)
        return channel

    return opener


class _Meeting:
    """A pair of memory transports. The end that opens first may write: the other one reads it once it is there."""

    def __init__(self) -> None:
        self._ends: tuple[MemoryTransport, MemoryTransport] | None = None

    def end(self, number: int) -> MemoryTransport:
        if self._ends is None:
            loop = asyncio.get_running_loop()
            one, other = MemoryTransport(loop, asyncio.Protocol()), MemoryTransport(loop, asyncio.Protocol())
            one._peer, other._peer = other, one
            for each in (one, other):
                each.pause_reading()
            self._ends = one, other
        return self._ends[number]


def memory() -> tuple[Opener, Opener]:
    """Both ends of a connection within this process: the client's and the server's."""
    meeting = _Meeting()

    def end(number: int) -> Opener:
        async def opener(mux: Mux, limits: Limits) -> Channel:
            transport = meeting.end(number)
            if transport.is_closing():
                raise ConnectionClosed("the other side is gone")
            link, channel = _link(mux, limits, "memory", serves=bool(number))
            transport.set_protocol(link)
            link.connection_made(transport)
            transport.resume_reading()
            return channel

        return opener

    return end(0), end(1)


def memory_dispatchers(
    *, client: dict[str, Any] | None = None, server: dict[str, Any] | None = None, **both: Any
) -> tuple[HeadraceDispatcher, HeadraceDispatcher]:
    """Two connected dispatchers of this process, the client's and the server's. Options are those of
    :class:`~headrace.integrations.mcp_sdk.HeadraceDispatcher`, for both or for one of them."""
    from headrace.integrations.mcp_sdk.dispatcher import HeadraceDispatcher

    one, other = memory()
    return HeadraceDispatcher(one, **both | (client or {})), HeadraceDispatcher(other, **both | (server or {}))
