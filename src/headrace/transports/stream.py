"""Line streams over sockets: a server on a unix socket or TCP port, and a client's end (ST-09).

The framing is that of stdio; only start and stop differ.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import stat
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectFailed, UsageError
from headrace.transports._link import LineLink
from headrace.transports.address import LOOPBACK, format_address, why_not_connected
from headrace.transports.framing import LINES, Framing, link_class
from headrace.transports.intake import Adopting, Intake, taken
from headrace.transports.tap import tapped

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.mux import Mux
    from headrace.transports.tap import Tap

__all__ = ("LineListener", "connect_stream", "open_lines", "remove_stale_socket", "serve_lines")


class LineListener:
    """A listening socket whose connections are line links of one server."""

    def __init__(self, server: Any, framing: Framing = LINES) -> None:
        self._server = server
        self._link = link_class(framing)
        self._links: set[LineLink] = set()
        self._listener: asyncio.AbstractServer | None = None
        self._path: str | None = None
        self._intake: Intake | None = None
        self._adopting: Adopting | None = None
        self._names: list[str] = []
        self._empty: asyncio.Future[None] | None = None

    @property
    def addresses(self) -> list[str]:
        """Where it listens, as ``unix:PATH`` or ``tcp:HOST:PORT``."""
        if self._path is not None:
            return [f"unix:{self._path}"]
        if self._listener is None:
            return list(self._names)
        return [f"tcp:{format_address(*s.getsockname()[:2])}" for s in self._listener.sockets]  # type: ignore[attr-defined]

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self._links)

    def take_in(self, kind: str, intake: Intake) -> None:
        """Listens nowhere: ``intake`` gives the connections of ``kind`` (unix, tcp). Raises UsageError where it has
        none."""
        self._adopting = Adopting(intake)
        intake.register(kind, self, self._server.runtime)
        self._names = [
            f"unix:{name}" if isinstance(name, str) else f"tcp:{format_address(*name)}" for name in intake.names(kind)
        ]
        self._intake = intake

    def adopt(self, sock: socket.socket, about: dict[str, Any] | None = None) -> None:
        """Serves a connection that another process has accepted, see :mod:`headrace.transports.intake`."""
        assert self._adopting is not None
        self._adopting.adopt(self._connect, sock)

    def _connect(self) -> Any:
        if len(self._links) >= self._server.limits.max_connections:
            self._server.runtime.refused("max_connections")
            return _Refused(self._intake)
        session, mux = self._server.new_session()
        link: LineLink

        def lost(exc: Exception) -> None:
            self._links.discard(link)
            if self._intake is not None:
                self._intake.lost()
            if not self._links and self._empty is not None and not self._empty.done():
                self._empty.set_result(None)

        link = self._link(mux, self._server.limits, on_lost=lost)
        session.sink = link
        self._links.add(link)
        return link

    async def close(self) -> None:
        """Stops accepting, lets requests in flight be answered within ``limits.drain_timeout``, closes."""
        if self._listener is not None:
            self._listener.close()
        if self._path is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._path)
        until = asyncio.get_running_loop().time() + self._server.limits.drain_timeout
        for link in list(self._links):
            link.drain()
        if self._adopting is not None:
            await self._adopting.settled(self._server.limits.drain_timeout)
            for link in list(self._links):
                link.drain()
        if self._links:
            self._empty = asyncio.get_running_loop().create_future()
            # The links give up by themselves; the margin is for a peer that does not read.
            await asyncio.wait([self._empty], timeout=max(until - asyncio.get_running_loop().time(), 0.0) + 1)
            for link in list(self._links):
                link.abort()


class _Refused(asyncio.Protocol):
    """Over max_connections: closed at once."""

    def __init__(self, intake: Intake | None) -> None:
        self._intake = intake

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._intake is not None:
            self._intake.lost()


def remove_stale_socket(path: str) -> None:
    """Removes a socket file nobody listens on. Raises UsageError when the path is something else, OSError
    (EADDRINUSE) when a server listens there."""
    try:
        mode = os.stat(path).st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"{path} exists and is not a socket; choose another path")
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(path)
        except ConnectionRefusedError:
            os.unlink(path)
            return
        except OSError:
            return
    raise OSError(errno.EADDRINUSE, "another server listens there", path)


async def serve_lines(
    server: Any, *, unix: str | None = None, host: str = LOOPBACK, port: int = 0, framing: Framing = LINES
) -> LineListener:
    """Listens on a unix socket or a TCP address. ``server`` is a running :class:`headrace.Server`, or any object with
    ``new_session()`` and ``limits``. Raises OSError when the address cannot be had."""
    loop = asyncio.get_running_loop()
    listener = LineListener(server, framing)
    intake = taken()
    if intake is not None:
        listener.take_in("tcp" if unix is None else "unix", intake)
        return listener
    if unix is not None:
        remove_stale_socket(unix)
        listener._listener = await loop.create_unix_server(listener._connect, unix)
        listener._path = unix
    else:
        listener._listener = await loop.create_server(listener._connect, host, port)
    return listener


async def open_lines(
    mux: Mux,
    limits: Limits,
    *,
    unix: str | None = None,
    host: str = LOOPBACK,
    port: int = 0,
    on_lost: Callable[[Exception], None] | None = None,
    tap: Tap | None = None,
    framing: Framing = LINES,
) -> LineLink:
    """A client's end of a line stream; ``tap`` sees every message. Raises :class:`ConnectFailed` naming the address."""
    link = link_class(framing)(mux, limits, serves=False, on_lost=on_lost)
    seen = tapped(tap, link, limits, http=False, framing=framing)
    await connect_stream(lambda: seen, unix=unix, host=host, port=port)
    return link


async def connect_stream(protocol: Callable[[], Any], *, unix: str | None, host: str, port: int) -> None:
    """Connects a protocol to a unix socket or a TCP address. Raises :class:`ConnectFailed` naming the address."""
    loop = asyncio.get_running_loop()

    try:
        if unix is not None:
            await loop.create_unix_connection(protocol, unix)
        else:
            await loop.create_connection(protocol, host, port)
    except OSError as exc:
        where = f"unix:{unix}" if unix is not None else f"tcp:{format_address(host, port)}"
        raise ConnectFailed(f"cannot connect to {where}: {why_not_connected(exc)}") from exc
