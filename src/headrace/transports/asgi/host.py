"""Hosting ASGI 3 applications: alone, or beside the MCP endpoint of a listener.

What a request of the application goes through is :mod:`headrace.transports._http_asgi`; this file owns its
lifespan and the listener that has no other endpoint.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import HeadraceError, LocalProtocolError, UsageError
from headrace.limits import DEFAULT, Limits
from headrace.transports._http_asgi import AsgiHost
from headrace.transports._http_endpoint import Endpoint
from headrace.transports.forwarded import Trusted
from headrace.transports.guards import Guards
from headrace.transports.hosting import hosted
from headrace.transports.http_server import HttpListener, bound_to, listen
from headrace.transports.intake import taken
from headrace.transports.runtime import make_runtime

if TYPE_CHECKING:
    import ssl as ssl_module

    from headrace.mux import Meter, Runtime
    from headrace.transports.health import Health
    from headrace.transports.tls import Certificate

__all__ = ("Application", "Guest", "serve")

Message = MutableMapping[str, Any]
Application = Callable[
    [MutableMapping[str, Any], Callable[[], Awaitable[Message]], Callable[[Message], Awaitable[None]]], Awaitable[None]
]


class Guest:
    """An application, from its start to its end: the lifespan protocol, and the requests in between.

    An application that raises before it has said anything about its start does not speak the protocol, and is
    served without it.
    """

    def __init__(self, app: Application, runtime: Runtime, log: logging.Logger, root_path: str = "") -> None:
        if not callable(app):
            raise UsageError(f"an ASGI application is called with scope, receive and send; {app!r} cannot be called")
        if root_path and (not root_path.startswith("/") or root_path.endswith("/") or not root_path.isascii()):
            raise UsageError(f"root_path {root_path!r} must begin with a slash and end without one")
        self.host = AsgiHost(app, runtime, root_path)
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[None] | None = None
        self._heard = 0
        self._started: asyncio.Future[None] = self._loop.create_future()
        self._stopping: asyncio.Future[None] = self._loop.create_future()
        self._stopped: asyncio.Future[None] = self._loop.create_future()

    async def start(self) -> None:
        """Returns when the application may be served. Raises :class:`HeadraceError` when it says that it failed."""
        self._task = self._loop.create_task(self._live())
        try:
            await asyncio.shield(self._started)
        except BaseException:
            await self._end(0.0)
            raise

    async def stop(self, patience: float, timeout: float) -> None:
        """Waits ``patience`` seconds for what still runs for requests that are over, then ends the lifespan, which
        has ``timeout`` seconds for that."""
        host = self.host
        if host.running:
            idle = self._loop.create_future()

            def on_idle() -> None:
                if not idle.done():
                    idle.set_result(None)

            host.on_idle = on_idle
            await asyncio.wait([idle], timeout=patience)
            if host.running:
                host.cancel()
                await asyncio.wait([idle], timeout=timeout)
            host.on_idle = None
        await self._end(timeout)

    async def _end(self, timeout: float) -> None:
        task = self._task
        if task is None:
            return
        if not self._stopping.done():
            self._stopping.set_result(None)
        if timeout and not task.done():
            await asyncio.wait([task, self._stopped], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
            if not task.done() and not self._stopped.done():
                self._log.error("the ASGI application did not shut down within %g s", timeout)
        if not task.done():
            task.cancel()
            await asyncio.wait([task], timeout=max(timeout, 1.0))

    async def _live(self) -> None:
        scope = {
            "type": "lifespan",
            "asgi": {"version": "3.0", "spec_version": "2.0"},
            "state": self.host.state,
        }
        try:
            await self.host.app(scope, self._receive, self._send)
        except asyncio.CancelledError:
            if not self._stopping.done():
                self._log.error("the lifespan of the ASGI application was cancelled")
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            if self._started.done():
                if self._started.exception() is None:
                    self._log.error("the lifespan of the ASGI application failed", exc_info=exc)
            else:
                self._log.debug("the ASGI application has no lifespan", exc_info=exc)
        finally:
            for future in (self._started, self._stopped):
                if not future.done():
                    future.set_result(None)

    async def _receive(self) -> Message:
        self._heard += 1
        if self._heard == 1:
            return {"type": "lifespan.startup"}
        await asyncio.shield(self._stopping)
        if self._heard > 2:
            # There is nothing more to hear.
            await self._loop.create_future()
        return {"type": "lifespan.shutdown"}

    async def _send(self, message: Message) -> None:
        kind = message["type"]
        text = message.get("message") or "it gave no reason"
        if kind in ("lifespan.startup.complete", "lifespan.startup.failed"):
            if self._started.done():
                raise LocalProtocolError(f"{kind} was not expected: the start is over")
            if kind == "lifespan.startup.complete":
                self._started.set_result(None)
            else:
                self._started.set_exception(HeadraceError(f"the ASGI application failed to start: {text}"))
        elif kind in ("lifespan.shutdown.complete", "lifespan.shutdown.failed"):
            if not self._stopping.done() or self._stopped.done():
                raise LocalProtocolError(f"{kind} was not expected")
            if kind == "lifespan.shutdown.failed":
                self._log.error("the ASGI application failed to shut down: %s", text)
            self._stopped.set_result(None)
        else:
            raise LocalProtocolError(f"a lifespan has no message of type {kind!r}")


class _Alone:
    """What an endpoint needs of a server, where there is no server."""

    meter: Meter | None = None

    def __init__(self, limits: Limits, log: logging.Logger) -> None:
        self.limits = limits
        self.log = log
        if (told := hosted.get()) is not None:
            told(self)
        self.runtime = make_runtime(limits, log, meter=self.meter)


async def serve(
    app: Application,
    *,
    host: str | None = None,
    port: int | None = None,
    unix: str | None = None,
    sock: socket.socket | Sequence[socket.socket] | None = None,
    ssl: ssl_module.SSLContext | Certificate | None = None,
    proxy_protocol: bool = False,
    forwarded_allow_ips: Iterable[str] | None = None,
    forwarded_header: str = "x-forwarded-for",
    root_path: str = "",
    allowed_hosts: Iterable[str] | None = None,
    limits: Limits = DEFAULT,
    health: Health | None = None,
    log: logging.Logger | None = None,
    reuse_port: bool = False,
    backlog: int = 1024,
) -> HttpListener:
    """Serves an ASGI 3 application over HTTP/1.1 until the listener is closed.

    :param host, port: address to listen on; port 0 picks a free one. Or ``unix``, a socket path, or ``sock``, a
        bound socket or several of them.
    :param ssl: a server context, or a :class:`headrace.transports.tls.Certificate`: HTTPS.
    :param proxy_protocol, forwarded_allow_ips, forwarded_header: what stands in front, as in
        :class:`headrace.transports.http_options.HttpOptions`.
    :param root_path: where the application is mounted, as a proxy in front of it has it: put before each path.
    :param allowed_hosts: host names that requests may be for; on loopback addresses the local names are always
        allowed and others only when given (DNS rebinding), see :class:`headrace.transports.guards.Guards`.
    :param limits: ``max_message_bytes`` bounds the body of a request (413), ``drain_timeout`` requests in flight
        at the end, then the application's own shutdown; heads, bodies, idle connections and peers that do not read
        are bounded as for MCP.
    :param health: answers ``/healthz`` and ``/readyz`` in front of the application, unless it yields them; its state is
        the caller's matter.
    :param log: faults of the application go there; ``headrace.asgi`` by default.
    :param reuse_port: SO_REUSEPORT, for several processes on one port.
    :param backlog: connections that wait to be accepted.

    Returns when the application has started and connections are accepted. Raises :class:`HeadraceError` when the
    application says that it failed to start, OSError when the address cannot be had, :class:`UsageError` for wrong
    arguments.
    """
    intake = taken()
    if intake is None and sum(given is not None for given in (host, unix, sock)) != 1:
        raise UsageError("serve needs one of host, unix and sock")
    log = log or logging.getLogger("headrace.asgi")
    alone = _Alone(limits, log)
    guest = Guest(app, alone.runtime, log, root_path)
    endpoint = Endpoint(alone, guards=Guards(bound_to(host, sock, intake), allowed_hosts=allowed_hosts), path=None)
    endpoint.beside = guest.host
    if forwarded_allow_ips:
        endpoint.trusted = Trusted(forwarded_allow_ips, forwarded_header)
    if health is not None and not health.yields:
        endpoint.health = health
    listener = HttpListener(alone, endpoint, "", ssl is not None, guest)
    await listen(
        listener,
        intake,
        host=host,
        port=port,
        unix=unix,
        sock=sock,
        ssl=ssl,
        reuse_port=reuse_port,
        backlog=backlog,
        proxy_protocol=proxy_protocol,
    )
    return listener
