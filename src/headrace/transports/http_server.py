"""Listening for HTTP: sockets, the one timer of all connections, orderly shutdown (HO-01, HN-01).

What happens on a connection is :mod:`headrace.transports._http_server`; this file owns the listening
sockets and the endpoint's lifetime.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from headrace.errors import UsageError
from headrace.protocol.http_door import HttpDoor
from headrace.protocol.http_sessions import SessionStore
from headrace.transports._http_endpoint import Endpoint
from headrace.transports._http_server import HttpLink
from headrace.transports.address import HttpAddress, format_address, is_loopback
from headrace.transports.arrivals import Arrivals, listening_sockets, several
from headrace.transports.forwarded import Whence
from headrace.transports.guards import Guards
from headrace.transports.health import health_of
from headrace.transports.http_options import HttpOptions, check_options, share, trusted_of
from headrace.transports.intake import Adopting, Intake, offered, taken
from headrace.transports.stream import remove_stale_socket

if TYPE_CHECKING:
    import ssl as ssl_module

    from headrace.transports.asgi.host import Guest
    from headrace.transports.tls import Certificate

__all__ = ("HttpListener", "bound_to", "listen", "open_endpoint", "place_of", "serve_http")


class HttpListener:
    """A listening HTTP endpoint; see :func:`serve_http`. ``guest`` is the application beside it."""

    def __init__(self, server: Any, endpoint: Endpoint, path: str, tls: bool, guest: Guest | None = None) -> None:
        self.endpoint = endpoint
        self._guest = guest
        self._server = server
        self._path = path
        self._scheme = "https" if tls else "http"
        self._unix: str | None = None
        self._listeners: list[asyncio.AbstractServer | Arrivals] = []
        self.arrivals: Arrivals | None = None
        self._intake: Intake | None = None
        self._adopting: Adopting | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._slow = False
        self._sweep_at = 0.0
        self._loop = asyncio.get_running_loop()
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._closing: asyncio.Task[None] | None = None
        self._names: list[str] = []

    @property
    def addresses(self) -> list[str]:
        """Where it listens: URLs, or ``unix:PATH``. Also known after it was closed."""
        return list(self._names)

    @property
    def url(self) -> str:
        """The first of :attr:`addresses`."""
        return self._names[0]

    @property
    def connections(self) -> int:
        """Open connections."""
        return len(self.endpoint.links)

    @property
    def sessions(self) -> int:
        """Open handshake-era sessions."""
        legacy = self.endpoint.legacy
        if self.endpoint.sessions is None:
            return 0
        return len(self.endpoint.sessions) + (len(legacy) if legacy is not None else 0)

    def open_door(self, ssl: ssl_module.SSLContext | Certificate | None, proxy_protocol: bool) -> None:
        """Has connections arrive by TLS, with a PROXY header, or both."""
        endpoint = self.endpoint
        limits = self._server.limits

        def room() -> bool:
            return bool(arrivals.pending + len(endpoint.links) < 2 * limits.max_connections)

        self.arrivals = arrivals = Arrivals(
            self.connect,
            room=room,
            runtime=endpoint.runtime,
            limits=limits,
            log=self._server.log,
            tls=ssl,
            proxy_protocol=proxy_protocol,
        )

    def _listening(self, listener: asyncio.AbstractServer | Arrivals, unix: str | None) -> None:
        self._listeners.append(listener)
        if unix is not None:
            self._unix = unix
            self._names = [f"unix:{unix}"]
        else:
            self._names += [self._name(sock.getsockname()) for sock in listener.sockets]  # type: ignore[union-attr]

    def _name(self, at: Any) -> str:
        if isinstance(at, tuple):
            return f"{self._scheme}://{format_address(*at[:2])}{self._path}"
        return f"unix:{at.decode().replace(chr(0), '@', 1) if isinstance(at, bytes) else at}"

    def take_in(self, intake: Intake) -> None:
        """Listens nowhere: ``intake`` gives the connections. Raises UsageError where it has none for HTTP."""
        self._adopting = Adopting(intake)
        if self.arrivals is not None:
            self.arrivals.gone = intake.lost
        intake.register("http", self, self.endpoint.runtime)
        self._names = [self._name(name) for name in intake.names("http")]
        self._intake = intake
        self.endpoint.on_lost = intake.lost

    def adopt(self, sock: socket.socket, about: dict[str, Any] | None = None) -> None:
        """Serves a connection that another process has accepted, see :mod:`headrace.transports.intake`."""
        assert self._adopting is not None
        if about is not None:
            # It has been HTTP already: what announced it was read by the process that had it before.
            link = self.connect()
            if "came" in about:
                link.came_from(Whence(*about["came"]))
            self._adopting.adopt(lambda: link, sock)
        elif self.arrivals is not None:
            self.arrivals.take(sock)
        else:
            self._adopting.adopt(self.connect, sock)

    def _hand_over(self, fd: int, link: HttpLink) -> bool:
        assert self._intake is not None
        return self._intake.hand_over("http", fd, {} if link.came is None else {"came": list(link.came)})

    def connect(self) -> Any:
        """The protocol of a new connection."""
        if self._timer is not None and self._slow:
            self._timer.cancel()
            self._timer = None
        if self._timer is None:
            self._slow = False
            self.endpoint.refresh()
            self._timer = self._loop.call_later(self.endpoint.tick_seconds, self._tick)
        return HttpLink(self.endpoint)

    def _tick(self) -> None:
        """Runs while there are connections or sessions: an idle process is never woken."""
        self._timer = None
        links = self.endpoint.scan()
        sessions = self.endpoint.sessions
        now = self._loop.time()
        if sessions is not None and now >= self._sweep_at:
            self._sweep_at = now + min(max(self._server.limits.session_idle_timeout / 8, 0.02), 5.0)
            sessions.sweep()
        if links:
            self._timer = self._loop.call_later(self.endpoint.tick_seconds, self._tick)
        elif sessions:
            # Nothing can time out but sessions.
            self._slow = True
            self._timer = self._loop.call_at(self._sweep_at, self._tick)

    async def close(self) -> None:
        """Stops accepting, closes idle connections, and lets requests in flight be answered.

        After ``limits.drain_timeout`` seconds what still runs is cancelled. Safe to call again.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def wait_closed(self) -> None:
        """Returns when :meth:`close` has ended all connections."""
        await asyncio.shield(self._closed)

    async def _close(self) -> None:
        endpoint = self.endpoint
        if self._intake is not None and self._intake.handing_over:
            endpoint.hand_over = self._hand_over
        endpoint.closing = True
        if endpoint.health is not None:
            endpoint.health.draining()
        for listener in self._listeners:
            listener.close()
        if self._unix is not None:
            with contextlib.suppress(OSError):
                os.unlink(self._unix)
        if endpoint.mux is not None:
            endpoint.mux.gate.ending()
        until = self._loop.time() + self._server.limits.drain_timeout
        for link in list(endpoint.links):
            link.retire()
        # Where others go on, no connection that has come here is turned away.
        patience = self._server.limits.drain_timeout if endpoint.hand_over is not None else 0.0
        if self._adopting is not None:
            await self._adopting.settled(self._server.limits.drain_timeout)
        if self.arrivals is not None:
            await self.arrivals.settled(patience)
        empty = self._loop.create_future()

        def on_empty() -> None:
            if not empty.done():
                empty.set_result(None)

        endpoint.on_empty = on_empty
        if endpoint.links:
            await asyncio.wait([empty], timeout=max(until - self._loop.time(), 0.0))
        endpoint.hand_over = None
        if endpoint.sessions is not None:
            endpoint.sessions.close()
        if endpoint.legacy is not None:
            endpoint.legacy.close()
        for link in list(endpoint.links):
            link.give_up()
        if endpoint.links:
            # For answers of the cancelled requests to leave; a peer that does not read gets no more time.
            await asyncio.wait([empty], timeout=min(1.0, self._server.limits.drain_timeout))
        for link in list(endpoint.links):
            link.abort()
        if endpoint.links:
            await asyncio.wait([empty], timeout=1.0)
        endpoint.on_empty = None
        if endpoint.mux is not None:
            endpoint.mux.close("the server is shutting down")
        if self._guest is not None:
            await self._guest.stop(max(until - self._loop.time(), 0.0), self._server.limits.drain_timeout)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if not self._closed.done():
            self._closed.set_result(None)


async def serve_http(
    server: Any,
    *,
    host: str | None = None,
    port: int | None = None,
    unix: str | None = None,
    sock: socket.socket | Sequence[socket.socket] | None = None,
    reuse_port: bool = False,
    backlog: int = 1024,
    **options: Unpack[HttpOptions],
) -> HttpListener:
    """Serves ``server`` over Streamable HTTP, both eras on one endpoint (VN-60).

    :param server: a running :class:`headrace.Server`, or any object with ``tables``, ``runtime``,
        ``limits``, ``log``, ``lifespan_state``, ``sessions``, ``notified``, ``session_ended`` and
        ``header_parameters``.
    :param host, port: address to listen on; port 0 picks a free one. Or ``unix``, a socket path, or
        ``sock``, a bound socket or several of them.
    :param reuse_port: SO_REUSEPORT, for several processes on one port.
    :param backlog: connections that wait to be accepted.
    :param options: see :class:`headrace.transports.http_options.HttpOptions`.

    Raises OSError when the address cannot be had, :class:`UsageError` for wrong arguments.
    """
    check_options(options)
    share(server, options)
    intake = taken()
    if intake is None and sum(given is not None for given in (host, unix, sock)) != 1:
        raise UsageError("serve_http needs one of host, unix and sock")
    tls = options.get("ssl")
    endpoint = open_endpoint(server, bound_to(host, sock, intake), options)
    guest = None
    if (beside := options.get("beside")) is not None:
        from headrace.transports.asgi.host import Guest

        guest = Guest(beside, server.runtime, server.log)
        endpoint.beside = guest.host
    listener = HttpListener(server, endpoint, options.get("path", "/mcp"), tls is not None, guest)
    await listen(
        listener,
        intake,
        host=host,
        port=port,
        unix=unix,
        sock=sock,
        ssl=tls,
        reuse_port=reuse_port,
        backlog=backlog,
        proxy_protocol=options.get("proxy_protocol", False),
    )
    if endpoint.health is not None:
        endpoint.health.started()
    return listener


async def listen(
    listener: HttpListener,
    intake: Intake | None,
    *,
    host: str | None,
    port: int | None,
    unix: str | None,
    sock: socket.socket | Sequence[socket.socket] | None,
    ssl: ssl_module.SSLContext | Certificate | None,
    reuse_port: bool,
    backlog: int,
    proxy_protocol: bool = False,
) -> None:
    """Starts the application of ``listener``, if it has one, then accepts connections, or has ``intake`` give them.
    Raises what hinders that."""
    if ssl is not None or proxy_protocol:
        listener.open_door(ssl, proxy_protocol)
    loop = asyncio.get_running_loop()
    guest = listener._guest
    if guest is not None:
        await guest.start()
    try:
        if intake is not None:
            listener.take_in(intake)
            return
        if unix is not None:
            remove_stale_socket(unix)
        if listener.arrivals is not None:
            listener.arrivals.listen(
                await listening_sockets(host, port, unix, sock, reuse_port=reuse_port, backlog=backlog)
            )
            listener._listening(listener.arrivals, unix)
        elif unix is not None:
            listener._listening(await loop.create_unix_server(listener.connect, unix, backlog=backlog), unix)
        elif sock is not None:
            for each in several(sock):
                # asyncio would remove the file of a unix socket that is not its own; libuv wants to be told.
                of_unix = each.family == getattr(socket, "AF_UNIX", None) and not isinstance(
                    loop, asyncio.BaseEventLoop
                )
                create = loop.create_unix_server if of_unix else loop.create_server
                listener._listening(await create(listener.connect, sock=each, backlog=backlog), None)
        else:
            made = await loop.create_server(
                listener.connect, host, port or 0, backlog=backlog, reuse_port=reuse_port or None
            )
            listener._listening(made, None)
    except BaseException:
        for opened in listener._listeners:
            opened.close()
        if guest is not None:
            await guest.stop(0.0, listener._server.limits.drain_timeout)
        raise


def place_of(address: HttpAddress) -> dict[str, Any]:
    """``host`` and ``port``, ``unix``, or ``sock``, as :func:`serve_http` takes them. Raises :class:`UsageError` where
    what should be passed to this process was not."""
    if address.kind == "tcp":
        return {"host": address.host, "port": address.port}
    if address.kind == "unix":
        return {"unix": address.path}
    if offered():
        return {}  # whoever accepts has them
    from headrace.transports.passed import passed_sockets

    return {"sock": passed_sockets(address)}


def bound_to(
    host: str | None, sock: socket.socket | Sequence[socket.socket] | None, intake: Intake | None
) -> str | None:
    """The host that is listened on, None for a unix socket alone; of several the one that others reach."""
    if sock is None:
        if host is not None or intake is None:
            return host
        names: list[Any] = list(intake.names("http"))
    else:
        names = [each.getsockname() for each in several(sock)]
    hosts = [name[0] for name in names if isinstance(name, tuple)]
    return next((each for each in hosts if not is_loopback(each)), hosts[0] if hosts else None)


def open_endpoint(server: Any, bind: str | None, options: HttpOptions) -> Endpoint:
    """What the connections of one endpoint share. ``options`` are checked already; ``bind`` see
    :class:`headrace.transports.guards.Guards`."""
    path = options.get("path", "/mcp")
    guards = Guards(
        bind,
        allowed_hosts=options.get("allowed_hosts"),
        allowed_origins=options.get("allowed_origins"),
        cors_origins=options.get("cors_origins"),
    )
    backplane = getattr(server, "backplane", None)
    if options.get("sealed_sessions"):
        from headrace.protocol.seal import SECRET_VARIABLE
        from headrace.protocol.sealed_sessions import SealedSessions

        if not os.environ.get(SECRET_VARIABLE):
            server.log.warning(
                "sealed sessions without %s: no other process and no restart can serve them", SECRET_VARIABLE
            )
        sessions: SessionStore = SealedSessions(server)
    elif backplane is not None and not options.get("stateless"):
        from headrace.protocol.shared.sessions import SharedSessions

        sessions = SharedSessions(
            server,
            backplane,
            event_store=options.get("event_store", True),
            retry_interval=options.get("retry_interval"),
        )
    else:
        sessions = SessionStore(
            server, event_store=options.get("event_store", True), retry_interval=options.get("retry_interval")
        )
    endpoint = Endpoint(
        server,
        door=HttpDoor(server, sessions, stateless=options.get("stateless", False)),
        sessions=sessions,
        guards=guards,
        path=path,
        json_only=options.get("json_only", False),
        principal_of=options.get("principal_of"),
        authenticate=options.get("authenticate"),
    )
    endpoint.trusted = trusted_of(options)
    health = health_of(options.get("health"))
    if health is not None and not (health.yields and options.get("beside") is not None):
        endpoint.health = health
    if legacy_sse := options.get("legacy_sse"):
        from headrace.protocol.legacy_sessions import LegacySessions

        endpoint.legacy = LegacySessions(server, sessions, *_legacy_paths(path, legacy_sse))
    endpoint.mux.tees = endpoint.door.stateless and getattr(server, "tees", False)
    return endpoint


def _legacy_paths(path: str, legacy_sse: bool | str) -> tuple[str, str]:
    """The endpoints of HTTP+SSE: the event stream and, beside it, where messages are posted."""
    beside = (path.rstrip("/") or "/mcp").rpartition("/")[0]
    stream = legacy_sse if isinstance(legacy_sse, str) else f"{beside}/sse"
    if not stream.startswith("/") or not stream.isascii() or any(c in stream for c in " ?#"):
        raise UsageError(f"legacy_sse path {stream!r} must begin with a slash and hold no space, ? or #")
    post = f"{stream.rstrip('/').rpartition('/')[0]}/messages"
    if path.rstrip("/") in (stream, post) or stream == post:
        raise UsageError(f"HTTP+SSE needs paths of its own beside {path}: choose another path, or legacy_sse=PATH")
    return stream, post
