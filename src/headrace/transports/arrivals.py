"""What happens to a connection before its first byte of HTTP: a PROXY header, a TLS handshake, or both.

Strategy: these endpoints accept by themselves, so that a connection counts from the moment it is accepted, all of it
has one time limit (``limits.handshake_timeout``), and each gets the certificate that was read last. One short task for
each connection; endpoints with neither of the two have nothing of this.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from headrace.transports.address import format_address
from headrace.transports.forwarded import Whence, plain_host
from headrace.transports.proxy_protocol import Announced, ProxyHeaderError, read_header
from headrace.transports.tls import Certificate, context_of

if TYPE_CHECKING:
    import logging

    from headrace.limits import Limits
    from headrace.mux import Runtime

__all__ = ("Arrivals", "listening_sockets", "several")

ACCEPTED_AT_ONCE = 64
PAUSE = 1.0
"""Seconds without accepting after the system had no descriptor or memory left."""
COMPLAIN = 60.0
"""Seconds between two lines of the log about refused connections."""
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Arrivals:
    """The door of one endpoint.

    :param connect: makes the protocol of a connection.
    :param room: whether another connection may come in.
    :param tls: how to speak TLS, or None.
    :param proxy_protocol: each connection must begin with a PROXY header.
    """

    def __init__(
        self,
        connect: Callable[[], Any],
        *,
        room: Callable[[], bool],
        runtime: Runtime,
        limits: Limits,
        log: logging.Logger,
        tls: ssl.SSLContext | Certificate | None,
        proxy_protocol: bool,
    ) -> None:
        self.sockets: list[socket.socket] = []
        self.gone: Callable[[], object] | None = None
        """Called when one has ended before it was a connection of the endpoint."""
        self._connect = connect
        self._room = room
        self._runtime = runtime
        self._timeout = limits.handshake_timeout
        self._linger = limits.linger_timeout
        self._log = log
        self._tls = tls
        self._proxy = proxy_protocol
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[None]] = set()
        self._resume: asyncio.TimerHandle | None = None
        self._silent_until = 0.0

    @property
    def pending(self) -> int:
        """Connections that are not HTTP yet."""
        return len(self._tasks)

    def listen(self, sockets: Sequence[socket.socket]) -> None:
        """Accepts connections on listening sockets, and owns them."""
        for sock in sockets:
            sock.setblocking(False)
            self.sockets.append(sock)
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE):
            try:
                sock, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                if exc.errno in _EXHAUSTED:
                    self._log.error("no connection can be accepted: %s", exc.strerror)
                    self._pause()
                else:
                    self._log.warning("a connection could not be accepted: %s", exc.strerror)
                return
            self.take(sock)

    def _pause(self) -> None:
        if self._resume is None:
            for sock in self.sockets:
                self._loop.remove_reader(sock.fileno())
            self._resume = self._loop.call_later(PAUSE, self._go_on)

    def _go_on(self) -> None:
        self._resume = None
        for sock in self.sockets:
            self._loop.add_reader(sock.fileno(), self._accept, sock)

    def take(self, sock: socket.socket) -> None:
        """Begins with a connection that was accepted, here or by another process, and owns it."""
        if not self._room():
            self._runtime.refused("max_connections")
            sock.close()
            if self.gone is not None:
                self.gone()
            return
        sock.setblocking(False)
        task = self._loop.create_task(self._arrive(sock))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _arrive(self, sock: socket.socket) -> None:
        kind = "proxy_header"
        ours = True
        made = False
        until = self._loop.time() + self._timeout
        try:
            link = self._connect()
            if self._proxy:
                async with asyncio.timeout_at(until):
                    announced = await read_header(sock)
                if announced is None:
                    return  # nothing came at all: a balancer that looks whether somebody listens
                link.came_from(self._whence(sock, announced))
            kind = "tls_handshake"
            options: dict[str, Any] = {}
            if self._tls is not None:
                patience = max(until - self._loop.time(), 0.1)
                options = {
                    "ssl": context_of(self._tls),
                    "ssl_handshake_timeout": patience,
                    "ssl_shutdown_timeout": self._linger,
                }
            ours = False
            await self._loop.connect_accepted_socket(lambda: link, sock, **options)
            made = True
        except TimeoutError:
            self._refused("handshake_timeout", f"no more within {self._timeout:g} s")
        except ProxyHeaderError as exc:
            self._refused(kind, str(exc))
        except ssl.SSLError as exc:
            self._refused(kind, (exc.reason or "TLS failed").replace("_", " ").lower())
        except (OSError, EOFError) as exc:
            # The peer went away, unless it is how asyncio puts that a handshake takes too long.
            if isinstance(exc, ConnectionAbortedError) and self._loop.time() >= until - 0.05:
                self._refused("handshake_timeout", f"no more within {self._timeout:g} s")
        except Exception as exc:
            self._runtime.report("a connection could not be opened", exc)
        finally:
            if ours:
                sock.close()
            if not made and self.gone is not None:
                self.gone()

    def _whence(self, sock: socket.socket, announced: Announced) -> Whence:
        host, port = announced.host, announced.port
        if host is None:
            name: Any = sock.getpeername()
            host, port = (plain_host(name[0]), name[1]) if isinstance(name, tuple) else ("unix", 0)
        return Whence(host, port, "https" if self._tls is not None or announced.tls else "http")

    def _refused(self, kind: str, text: str) -> None:
        self._runtime.refused(kind)
        now = self._loop.time()
        if kind == "proxy_header" and now >= self._silent_until:
            # Most likely a setting of the balancer: without a word nobody would find out. Once a minute at most.
            self._silent_until = now + COMPLAIN
            self._log.warning("a connection was closed: %s", text)
        else:
            self._log.debug("a connection was closed (%s): %s", kind, text)

    def close(self) -> None:
        """Accepts no more. What is on its way may go on, see :meth:`settled`."""
        if self._resume is not None:
            self._resume.cancel()
            self._resume = None
        for sock in self.sockets:
            self._loop.remove_reader(sock.fileno())
            sock.close()
        self.sockets = []

    async def settled(self, timeout: float) -> None:
        """Returns when all of them are connections, or gone; what takes more than ``timeout`` seconds is given up."""
        if self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=timeout)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=1.0)


def several(sock: socket.socket | Sequence[socket.socket]) -> Sequence[socket.socket]:
    """One socket, or all of them."""
    return [sock] if isinstance(sock, socket.socket) else sock


async def listening_sockets(
    host: str | None,
    port: int | None,
    unix: str | None,
    sock: socket.socket | Sequence[socket.socket] | None,
    *,
    reuse_port: bool,
    backlog: int,
) -> Sequence[socket.socket]:
    """The sockets of one place as :func:`headrace.transports.http_server.serve_http` takes it, listening. Raises
    OSError that names the address."""
    if sock is not None:
        for each in several(sock):
            each.listen(backlog)
        return several(sock)
    if unix is not None:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.bind(unix)
            made.listen(backlog)
        except OSError as exc:
            made.close()
            raise OSError(exc.errno, f"unix:{unix}: {exc.strerror}") from None
        return [made]
    assert host is not None
    return await _bound(host, port or 0, reuse_port=reuse_port, backlog=backlog)


async def _bound(host: str, port: int, *, reuse_port: bool, backlog: int) -> list[socket.socket]:
    """On every address of ``host``, as ``loop.create_server`` does it."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    sockets: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            try:
                sock = socket.socket(family, kind, protocol)
            except OSError:
                continue  # a family that the machine does not have
            sockets.append(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if reuse_port:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                with contextlib.suppress(OSError):
                    sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                sock.bind(address)
                sock.listen(backlog)
            except OSError as exc:
                where = format_address(str(address[0]), int(address[1]))
                raise OSError(exc.errno, f"{where}: {exc.strerror}") from None
    except BaseException:
        for sock in sockets:
            sock.close()
        raise
    if not sockets:
        raise OSError(errno.EADDRNOTAVAIL, f"{format_address(host, port)}: there is no such address here")
    return sockets
