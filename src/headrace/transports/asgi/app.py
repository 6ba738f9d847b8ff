"""A server as an ASGI 3 application: behind uvicorn, hypercorn or granian, in a Starlette or FastAPI mount (item 4).

Strategy: every request of the host becomes a request on a connection in memory, which the endpoint of the HTTP
server serves as it serves a socket (:mod:`headrace.transports._asgi_link`). Connections are kept for the next
request. The task of the host's call hands out what the connection writes; whether the client is still there is
asked for in a task of its own, and only for requests that are not answered at once.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from functools import lru_cache
from typing import Any, Unpack
from urllib.parse import quote

from headrace.errors import UsageError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST
from headrace.transports._asgi_link import AsgiLink
from headrace.transports._http_endpoint import Endpoint
from headrace.transports.address import LOOPBACK, is_loopback
from headrace.transports.asgi.leaving import host_leaves
from headrace.transports.asgi.watch import Watcher
from headrace.transports.guards import Guards
from headrace.transports.http_options import HttpOptions, check_options, share
from headrace.transports.http_server import HttpListener, open_endpoint

__all__ = ("AsgiApp", "asgi_scope")

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_FOREIGN = ("ssl", "beside", "health", "proxy_protocol")
"""Options that are the host's business."""
_KEPT_LINKS = 256
"""Connections kept between two requests."""

_scope: contextvars.ContextVar[Scope | None] = contextvars.ContextVar("headrace_asgi_scope", default=None)


def asgi_scope() -> Scope | None:
    """The scope of the ASGI request that is being served: in handlers, middleware and ``principal_of``.

    What the host's own middleware found out stands there (``scope["state"]``, ``scope["user"]``,
    ``scope["extensions"]``). None where the request came another way.
    """
    return _scope.get()


class _Listener(HttpListener):
    """The endpoint without a socket."""

    host_leaves = False

    def __init__(self, server: Any, endpoint: Endpoint, path: str) -> None:
        super().__init__(server, endpoint, path, False)
        self._context = contextvars.copy_context()

    def connect(self) -> Any:
        """As for a socket; the timer that may start is no request's."""
        return self._context.run(super().connect)

    def _tick(self) -> None:
        super()._tick()
        if self._timer is not None and not self.host_leaves and host_leaves():
            # The host waits for its connections before it tells us: streams would keep it waiting for ever.
            self.host_leaves = True
            self._loop.create_task(self.close())


class AsgiApp:
    """An ASGI 3 application that serves one server or host; made by :meth:`headrace.Server.asgi`.

    It answers at its mount point and at ``/mcp`` below it, or where ``path`` says. The server runs between the
    lifespan events of the host. Hosts do not pass them on to what is mounted: enter :meth:`lifespan` in theirs
    (``FastAPI(lifespan=app.lifespan)``); otherwise the server starts with the first request, and stops with the
    event loop.

    :param server: a :class:`headrace.Server` or :class:`headrace.transports.plain.McpHost`.
    :param options: :class:`headrace.transports.http_options.HttpOptions` but ``ssl``, ``beside``,
        ``health`` and ``proxy_protocol``.

    Raises :class:`UsageError` for options that cannot be served, TypeError for one that there is not.
    """

    def __init__(self, server: Any, **options: Unpack[HttpOptions]) -> None:
        check_options(options)
        for name in _FOREIGN:
            if options.get(name):
                raise UsageError(f"{name} is for the ASGI host to provide, not for the application")
        self.server = server
        self._options = options
        self._local: Guards | None = None
        if not options.get("allowed_hosts"):
            self._local = Guards(LOOPBACK)
            self._local_name = lru_cache(256)(self._local.host_ok)
        self._targets: dict[str, bytes] = {}
        self._nowhere = b"/"
        self._listener: _Listener | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.AbstractEventLoop | None = None
        self._users = 0
        self._starting: asyncio.Future[None] | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._said = False
        self._links: list[AsgiLink] = []
        self._watcher: Watcher | None = None

    def __repr__(self) -> str:
        return f"<AsgiApp of {self.server!r}>"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One connection of the ASGI protocol."""
        kind = scope["type"]
        if kind == "http":
            loop = asyncio.get_running_loop()
            if self._loop is not loop and not await self._begin(loop, scope, send):
                return
            await self._serve(loop, scope, receive, send)
        elif kind == "lifespan":
            await self._live(receive, send)
        elif kind == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1000})
        else:
            raise ValueError(f"ASGI scope {kind!r} is not served here")

    # --- life ---------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def lifespan(self, app: Any = None) -> AsyncIterator[None]:
        """Runs the server, for the lifespan of a host that this is mounted in; ``app`` is not used. It nests.

        At its end idle connections close, streams end, and requests in flight are answered or, after
        ``limits.drain_timeout``, cancelled. Raises what the server's own lifespan raises.
        """
        if self._loop is not None and self._loop.is_closed():
            # It ended without an end of this.
            self._users = 0
            self._links.clear()
        share(self.server, self._options)
        async with self.server.running():
            if self._users == 0:
                self._open()
            self._users += 1
            try:
                yield
            finally:
                self._users -= 1
                if self._users == 0:
                    await self._close()

    def _open(self) -> None:
        endpoint = open_endpoint(self.server, None, self._options)
        path = endpoint.path.decode()
        self._listener = _Listener(self.server, endpoint, path)
        self._loop = asyncio.get_running_loop()
        self._watcher = Watcher(self._loop)
        self._over = None
        targets = {path: endpoint.path, path + "/": endpoint.path}
        if path == "/" or "path" not in self._options:
            targets[""] = targets["/"] = endpoint.path
        if (legacy := endpoint.legacy) is not None:
            legacy.prefix = _mount_point
            targets[legacy.stream_path.decode()] = legacy.stream_path
            targets[legacy.post_path.decode()] = legacy.post_path
        self._targets = targets
        while self._nowhere.decode() in targets:
            self._nowhere += b"-"

    async def _close(self) -> None:
        listener, self._listener = self._listener, None
        self._over, self._loop = self._loop, None
        self._links.clear()
        if listener is not None:
            await listener.close()

    async def _live(self, receive: Receive, send: Send) -> None:
        """The lifespan protocol."""
        await receive()
        started = False
        try:
            async with self.lifespan():
                started = True
                await send({"type": "lifespan.startup.complete"})
                await receive()
        except Exception as exc:
            step = "shutdown" if started else "startup"
            self.server.log.error("%s of %r failed", step, self.server, exc_info=exc)
            await send({"type": f"lifespan.{step}.failed", "message": f"{type(exc).__name__}: {exc}"})
        else:
            await send({"type": "lifespan.shutdown.complete"})

    async def _begin(self, loop: asyncio.AbstractEventLoop, scope: Scope, send: Send) -> bool:
        """The host sent no lifespan events: the first request starts the server. False: it is answered."""
        if self._over is loop:
            await _refuse(send, scope, 503, "the server has shut down")
            return False
        if self._keeper is None or self._keeper.done() or self._keeper.get_loop() is not loop:
            if not self._said:
                self._said = True
                self.server.log.warning(
                    "%r starts with its first request: the ASGI host sent no lifespan events (pass `lifespan` on)",
                    self.server,
                )
            self._starting = loop.create_future()
            # What the first request brings along is not the server's.
            self._keeper = loop.create_task(self._keep(self._starting), context=contextvars.Context())
        assert self._starting is not None
        try:
            await asyncio.shield(self._starting)
        except Exception:
            await _refuse(send, scope, 503, "the server could not be started")
            return False
        return True

    async def _keep(self, started: asyncio.Future[None]) -> None:
        """Runs the server until the loop ends."""
        try:
            async with self.lifespan():
                if not started.done():
                    started.set_result(None)
                await asyncio.get_running_loop().create_future()
        except Exception as exc:
            self.server.log.error("startup of %r failed", self.server, exc_info=exc)
            if not started.done():
                started.set_exception(exc)
        finally:
            if not started.done():
                started.set_exception(RuntimeError("the event loop ended"))
            started.exception()  # whoever waits for it knows

    # --- a request ----------------------------------------------------------------------------------

    async def _serve(self, loop: asyncio.AbstractEventLoop, scope: Scope, receive: Receive, send: Send) -> None:
        listener, watcher = self._listener, self._watcher
        if self._links:
            link = self._links.pop()
        elif listener is None or listener.endpoint.closing:
            return await _refuse(send, scope, 503, "the server is shutting down")
        else:
            link = AsgiLink(listener.connect(), loop, self._forget)
        outer = _scope.get()
        _scope.set(scope)
        try:
            try:
                link.begin(scope, self._target(scope), asyncio.current_task(loop))
            except (ValueError, TypeError, KeyError, AttributeError) as exc:
                return await _refuse(send, scope, 400, f"this is no HTTP request: {exc}")
            if self._local is not None and not self._host_ok(scope, link.host):
                return await _refuse(
                    send, scope, 421, "this Host is not served here; the setting allowed_hosts says which are"
                )
            link.enter()
            if link.body_due and not await self._take_body(link, scope, receive, send):
                return None
            while link.ready or await self._wait(link, watcher, receive):
                if not await self._hand_out(link, scope, send):
                    return None
        finally:
            _scope.set(outer)
            if link.watch is not None:
                link.watch.cancel()
                link.watch = None
            if link.leave():
                if self._listener is listener and len(self._links) < _KEPT_LINKS:
                    self._links.append(link)
                else:
                    link.close()

    @staticmethod
    async def _wait(link: AsgiLink, watcher: Watcher | None, receive: Receive) -> bool:
        assert watcher is not None
        watcher.soon(link, receive)
        await link.wait()
        return True

    async def _take_body(self, link: AsgiLink, scope: Scope, receive: Receive, send: Send) -> bool:
        """Feeds the body as it comes, until it is complete or an answer is there. False: nothing more to do."""
        while link.body_due and not link.ready:
            if not link.reading:
                await link.wait()
                continue
            link.blocks(True)
            try:
                message = await receive()
            except asyncio.CancelledError:
                if not link.back():
                    raise
                break
            link.back()
            kind = message["type"]
            if kind == "http.disconnect":
                link.disconnected()
                break
            if kind != "http.request":
                raise RuntimeError(f"the ASGI host sent {kind!r} instead of the body of a request")
            try:
                link.feed(message.get("body", b""), message.get("more_body", False))
            except (ValueError, TypeError) as exc:
                await _refuse(send, scope, 400, str(exc))
                return False
        return True

    async def _hand_out(self, link: AsgiLink, scope: Scope, send: Send) -> bool:
        """Hands the host what there is. False: that was the end."""
        if link.closed:
            # Also where nobody reads it: hosts and middleware may take half an answer, or none, for a fault.
            with contextlib.suppress(OSError):
                if not link.handed:
                    await _refuse(send, scope, 499 if link.deserted else 503, "the request was given up")
                elif link.deserted:
                    await send({"type": "http.response.body", "body": b""})
            return False
        start = link.take_start()
        body = link.take_body()
        link.blocks(False)
        try:
            if start is not None:
                await send(start)
            await send(body)
        except asyncio.CancelledError:
            if not link.back():
                raise
            return False
        except OSError:
            return False  # the client is gone
        link.back()
        if not body["more_body"]:
            return False
        link.sent()
        return not link.closed or link.deserted

    def _target(self, scope: Scope) -> bytes:
        """What the endpoint knows as its path, for a path below the mount point."""
        path: str = scope["path"]
        root = scope.get("root_path") or ""
        if root:
            root = root.rstrip("/")
            if path.startswith(root) and path[len(root) : len(root) + 1] in ("", "/"):
                path = path[len(root) :]
        return self._targets.get(path, self._nowhere)

    def _host_ok(self, scope: Scope, host: bytes | None) -> bool:
        """Without ``allowed_hosts``, what arrives at a loopback address is served under local names alone: as
        when that address is listened on (SE-01, B59)."""
        server = scope.get("server")
        if not server or server[1] is None:
            return True
        return not _local_address(server[0]) or self._local_name(host or b"")

    def _forget(self, link: AsgiLink) -> None:
        """A connection between two requests was closed."""
        with contextlib.suppress(ValueError):
            self._links.remove(link)


async def _refuse(send: Send, scope: Scope, status: int, text: str) -> None:
    """An answer of the application itself: a JSON-RPC error, as the endpoint gives them (HO-04)."""
    error = {"code": INTERNAL_ERROR if status == 503 else INVALID_REQUEST, "message": text}
    body = json.dumps({"jsonrpc": "2.0", "error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    if status == 503:
        headers.append((b"retry-after", b"1"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})


@lru_cache(256)
def _local_address(host: str) -> bool:
    return is_loopback(host.removeprefix("::ffff:"))


def _mount_point() -> bytes:
    """Where the host has put the application, as the beginning of a path."""
    scope = _scope.get() or {}
    root: str = (scope.get("root_path") or "").strip("/")
    return b"/" + quote(root, safe="/:@!$&'()*+,;=~").encode("ascii") if root else b""
