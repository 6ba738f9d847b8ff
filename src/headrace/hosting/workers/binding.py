"""Binds the addresses of a server whose connections a supervisor accepts."""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING, Any

from headrace.transports.address import http_address, parse_address
from headrace.transports.stream import remove_stale_socket

if TYPE_CHECKING:
    from headrace.transports.hosting import Address

__all__ = ("Bound", "bind")


class Bound:
    """A bound socket that does not listen yet: what is spoken there (``http``, ``unix``, ``tcp``), and the path of the
    unix socket that is ours to remove."""

    def __init__(self, kind: str, sock: socket.socket, path: str | None = None) -> None:
        self.kind = kind
        self.sock = sock
        self.path = path

    @property
    def place(self) -> tuple[str, int, Any]:
        """As :class:`headrace.hosting.workers.worker.Place` takes it."""
        name = self.sock.getsockname()
        if isinstance(name, bytes):
            name = name.decode().replace("\0", "@", 1)
        return self.kind, int(self.sock.family), name if isinstance(name, str) else list(name[:2])


async def bind(*, http: Address | None = None, unix: str | None = None, tcp: Address | None = None) -> list[Bound]:
    """Binds what :func:`headrace.server.hosting.serve` would listen on; see there for the addresses.

    Raises OSError when an address cannot be had, :class:`UsageError` for a wrong one; nothing is left bound then.
    """
    http_at = http_address(http) if http is not None else None
    tcp_at = parse_address(tcp) if tcp is not None else None
    bound: list[Bound] = []
    try:
        if http_at is not None:
            if http_at.kind == "tcp":
                bound += [Bound("http", sock) for sock in await _bind(http_at.host, http_at.port)]
            elif http_at.kind == "unix":
                bound.append(_bind_unix("http", http_at.path))
            else:
                from headrace.transports.passed import passed_sockets

                bound += [Bound("http", sock) for sock in passed_sockets(http_at)]
        if unix is not None:
            bound.append(_bind_unix("unix", unix))
        if tcp_at is not None:
            bound += [Bound("tcp", sock) for sock in await _bind(*tcp_at)]
    except BaseException:
        for each in bound:
            each.sock.close()
        raise
    return bound


async def _bind(host: str, port: int) -> list[socket.socket]:
    """One socket for each address of the host, as a server that listens itself has them."""
    server = await asyncio.get_running_loop().create_server(asyncio.Protocol, host, port, start_serving=False)
    try:
        return [socket.socket(sock.family, sock.type, sock.proto, os.dup(sock.fileno())) for sock in server.sockets]
    finally:
        server.close()


def _bind_unix(kind: str, path: str) -> Bound:
    remove_stale_socket(path)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.bind(path)
    except OSError as exc:
        sock.close()
        exc.filename = exc.filename or path
        raise
    return Bound(kind, sock, path)
