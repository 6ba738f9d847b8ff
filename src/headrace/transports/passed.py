"""Listening sockets of an HTTP server that this process did not make itself: inherited, or passed by systemd."""

from __future__ import annotations

import os
import socket

from headrace.errors import UsageError
from headrace.transports.address import HttpAddress
from headrace.transports.systemd import listen_fds

__all__ = ("passed_sockets",)


def passed_sockets(address: HttpAddress) -> list[socket.socket]:
    """The sockets of an address ``fd:N``, ``fd:NAME`` or ``systemd``, at least one, each bound stream sockets.

    Raises :class:`UsageError` in one line where there are none, or a descriptor is something else.
    """
    if address.kind == "fd" and address.fd >= 0:
        fds = [address.fd]
    else:
        passed = listen_fds()
        if not passed:
            raise UsageError(f"{address}: no socket was passed (LISTEN_FDS); start it by a systemd socket unit")
        fds = [each.fd for each in passed if address.kind == "systemd" or each.name == address.name]
        if not fds:
            names = ", ".join(dict.fromkeys(each.name for each in passed))
            raise UsageError(f"{address}: no socket of this name was passed; there are {names}")
    return [_adopt(fd, str(address)) for fd in fds]


def _adopt(fd: int, what: str) -> socket.socket:
    if not what.endswith(f":{fd}"):
        what = f"{what}: descriptor {fd}"
    try:
        sock = socket.socket(fileno=fd)
    except OSError as exc:
        raise UsageError(f"{what} is not an open socket ({exc.strerror or exc})") from None
    os.set_inheritable(fd, False)
    problem = None
    if sock.type != socket.SOCK_STREAM:
        problem = "is no stream socket: use ListenStream="
    elif sock.family not in (socket.AF_INET, socket.AF_INET6, getattr(socket, "AF_UNIX", None)):
        problem = "is neither a TCP nor a unix socket"
    elif _connected(sock):
        problem = "is a connection, not a listening socket: use Accept=no"
    elif not sock.getsockname() or (sock.family != getattr(socket, "AF_UNIX", None) and not sock.getsockname()[1]):
        problem = "is not bound to an address"
    if problem is not None:
        sock.detach()
        raise UsageError(f"{what} {problem}")
    sock.setblocking(False)
    return sock


def _connected(sock: socket.socket) -> bool:
    try:
        sock.getpeername()
    except OSError:
        return False
    return True
