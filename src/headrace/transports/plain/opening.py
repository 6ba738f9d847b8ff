"""Connections that a program opens itself, with a plain handler for what the other side asks."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from headrace.errors import RpcError, UsageError
from headrace.jsonrpc import METHOD_NOT_FOUND
from headrace.limits import Limits
from headrace.mux import MCP, Mux, Names
from headrace.transports.address import parse_address
from headrace.transports.framing import LINES, Framing, link_class
from headrace.transports.plain.host import Handler, Host, Notified
from headrace.transports.plain.peer import Peer, RpcHost
from headrace.transports.shield import shielded
from headrace.transports.tap import tapped

if TYPE_CHECKING:
    from headrace.transports.hosting import Address
    from headrace.transports.tap import Tap

__all__ = ("Opening", "client_host", "open_command", "open_lines", "open_memory", "own_host")

_LAST_TURNS = 100  # of the loop, in which a side in memory takes what was sent last

T = TypeVar("T")


class Opening(Generic[T]):
    """What the open functions give: ``await`` it for the open connection, which is the caller's to close; or
    ``async with`` it, which closes the connection at the end."""

    def __init__(self, open: Callable[[], Coroutine[Any, Any, T]], close: Callable[[T], Awaitable[Any]]) -> None:
        self._open = open
        self._close = close
        self._opened: list[T] = []

    def __await__(self) -> Generator[Any, None, T]:
        return self._open().__await__()

    async def __aenter__(self) -> T:
        opened = await self._open()
        self._opened.append(opened)
        return opened

    async def __aexit__(self, *_: object) -> None:
        with shielded():
            await self._close(self._opened.pop())


def refuse(method: str, params: Any, exchange: Any) -> Any:
    """The handler of connections that serve nothing."""
    raise RpcError(METHOD_NOT_FOUND, "this side serves no requests")


def client_host(handler: Handler | RpcHost | None, options: Mapping[str, Any]) -> RpcHost:
    """The host of a connection: the one that is given, or one made of the handler. UsageError for options of a
    handler together with a host."""
    if isinstance(handler, Host):
        if not isinstance(handler, RpcHost):
            raise UsageError("a connection is opened with a handler or an RpcHost; an McpHost only serves")
        own_host(handler, options)
        return handler
    return RpcHost(handler or refuse, **given(options))


def own_host(host: Any, options: Mapping[str, Any]) -> Any:
    """``host``; UsageError where options say something that it says already."""
    if said := given(options):
        raise UsageError(f"{', '.join(said)}: set when the host is made")
    return host


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options that were."""
    return {name: value for name, value in options.items() if value is not None and value is not False}


async def connected(
    host: RpcHost,
    on_lost: Callable[[Any], Any] | None,
    connect: Callable[[Peer, AsyncExitStack], Awaitable[None]],
    make: Callable[..., Peer] = Peer,
) -> Peer:
    """A peer of ``host`` after ``connect(peer, stack)``; the stack is unwound when the peer is closed."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(host.running())
        peer = make(host, on_lost=on_lost, answers_bad_input=False)
        await connect(peer, stack)
        peer.closer = stack.pop_all().aclose
        return peer
    raise AssertionError


def open_command(
    argv: Sequence[str | os.PathLike[str]],
    handler: Handler | RpcHost | None = None,
    *,
    on_notify: Notified | None = None,
    on_lost: Callable[[Any], Any] | None = None,
    names: Names = MCP,
    framing: Framing = LINES,
    raw: bool = False,
    limits: Limits | None = None,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Any = None,
    close_grace: float = 2.0,
    tap: Tap | None = None,
) -> Opening[Peer]:
    """Starts a program and speaks JSON-RPC with it over its standard streams.

    :param argv: the program and its arguments.
    :param handler: serves what the program asks (see :data:`headrace.transports.plain.host.Handler`), or a
        :class:`~headrace.transports.plain.RpcHost` for several connections. Without one requests are refused.
    :param on_notify, raw: as for a host.
    :param on_lost: told once why the connection is gone; of a program that has ended with its exit status (B82).
    :param names: what the other side calls cancelling and progress.
    :param framing: ``"lines"``, or ``"content-length"`` as in LSP.
    :param env, inherit_env, cwd, stderr, close_grace: as for :func:`headrace.transports.spawn.spawn`.
    :param tap: sees every message (:mod:`headrace.transports.tap`).
    :returns: the :class:`~headrace.transports.plain.Peer`, by ``await`` or ``async with``. Closing it ends the
        program and all it has started.

    Raises ConnectFailed when the program cannot be started, UsageError for arguments that cannot be passed.
    """

    async def open() -> Peer:
        from headrace.transports.spawn import spawn

        host = client_host(handler, {"on_notify": on_notify, "raw": raw, "limits": limits} | _named(names))

        async def connect(peer: Peer, stack: AsyncExitStack) -> None:
            link = link_class(framing)(peer.mux, host.limits, serves=False)
            protocol = tapped(tap, link, host.limits, http=False, framing=framing)
            peer.sink = link
            child = await spawn(
                argv,
                lambda: protocol,
                env=env,
                inherit_env=inherit_env,
                cwd=cwd,
                stderr=stderr,
                limits=host.limits,
                close_grace=close_grace,
            )
            stack.callback(link.abort)
            stack.push_async_callback(child.close)

        return await connected(host, on_lost, connect)

    return Opening(open, Peer.close)


def open_lines(
    handler: Handler | RpcHost | None = None,
    *,
    unix: str | None = None,
    tcp: Address | None = None,
    on_notify: Notified | None = None,
    on_lost: Callable[[Any], Any] | None = None,
    names: Names = MCP,
    framing: Framing = LINES,
    raw: bool = False,
    limits: Limits | None = None,
    tap: Tap | None = None,
) -> Opening[Peer]:
    """Connects to a unix socket (its path) or a TCP address (``"HOST:PORT"``, a port or a pair) and speaks JSON-RPC.

    The other parameters, and what is returned, as for :func:`open_command`. Raises ConnectFailed naming the address,
    UsageError for a wrong one.
    """
    if (unix is None) == (tcp is None):
        raise UsageError("open_lines needs one of unix and tcp")
    at = parse_address(tcp) if tcp is not None else ("", 0)

    async def open() -> Peer:
        from headrace.transports import stream

        host = client_host(handler, {"on_notify": on_notify, "raw": raw, "limits": limits} | _named(names))

        async def connect(peer: Peer, stack: AsyncExitStack) -> None:
            link = await stream.open_lines(
                peer.mux, host.limits, unix=unix, host=at[0], port=at[1], tap=tap, framing=framing
            )
            if not peer.mux.closed:
                peer.sink = link
            stack.push_async_callback(peer.close_link, link)

        return await connected(host, on_lost, connect)

    return Opening(open, Peer.close)


def open_memory(
    handler: Handler | Host,
    other: Handler | RpcHost | None = None,
    *,
    on_notify: Notified | None = None,
    names: Names = MCP,
    framing: Framing = LINES,
    raw: bool = False,
    limits: Limits | None = None,
) -> Opening[Peer]:
    """Connects two handlers within this process, for tests and for servers that are embedded.

    :param handler: the serving side: a handler, an :class:`~headrace.transports.plain.RpcHost` or an
        :class:`~headrace.transports.plain.McpHost`.
    :param other: serves what that side asks. ``on_notify`` and ``raw`` are its.
    :returns: the :class:`~headrace.transports.plain.Peer` of the side that opens.
    """

    async def open() -> Peer:
        from headrace.transports.memory import memory_pair

        host = client_host(other, {"on_notify": on_notify, "raw": raw, "limits": limits} | _named(names))
        server: Any = handler
        if not isinstance(server, Host):
            server = RpcHost(cast(Handler, handler), **given({"limits": limits} | _named(names)))

        async def connect(peer: Peer, stack: AsyncExitStack) -> None:
            await stack.enter_async_context(server.running())
            session, mux = server.new_session()
            far = session.sink = link_class(framing)(mux, server.limits)
            near = peer.sink = link_class(framing)(peer.mux, host.limits, serves=False)
            memory_pair(near, far)
            stack.push_async_callback(_end, far, mux)
            stack.push_async_callback(peer.close_link, near)

        return await connected(host, None, connect)

    return Opening(open, Peer.close)


async def _end(far: Any, mux: Mux) -> None:
    """What was sent last arrives; what still runs has nobody to answer and is cancelled."""
    for _ in range(_LAST_TURNS):
        if far.at_eof or mux.closed:
            break
        await asyncio.sleep(0)
    far.abort()
    await asyncio.sleep(0)
    if (idle := mux.wait_idle()) is not None:
        await asyncio.wait([idle], timeout=1.0)


def _named(names: Names) -> dict[str, Any]:
    return {} if names == MCP else {"names": names}
