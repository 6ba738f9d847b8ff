"""A client's ways to a server: each opens one connection with its mux and closes it without a trace.

Closing runs in a task of its own where it takes more than a moment, so that it works from any task, under
any cancellation, and twice (B21).
"""

from __future__ import annotations

import asyncio
import contextlib
import shlex
from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectFailed, HeadraceError, LocalProtocolError, UsageError
from headrace.jsonrpc import R3, R5
from headrace.mux import Mux
from headrace.mux.observer import joined
from headrace.transports._link import LineLink
from headrace.transports.runtime import make_runtime
from headrace.transports.tap import tapped
from headrace.wire._http1 import header_line

if TYPE_CHECKING:
    from headrace.client.recovery import Recovery
    from headrace.client.session import ClientSession
    from headrace.limits import Limits
    from headrace.mux import Sink
    from headrace.transports.tap import Tap

_LAST_WORDS = 0.05  # seconds an embedded server has to take in what the client sent last
_STREAM_GRACE = 1.0  # seconds a server has to open its own event stream before the first call goes out

__all__ = ("Channel", "CommandTarget", "HttpTarget", "LineTarget", "MemoryTarget", "Target")


class Channel:
    """An open connection. ``http`` is the HTTP channel below it, or None."""

    grace: float | None = None
    """Seconds for each polite step of ending a child process; ``None``: the usual ones."""

    def __init__(self, mux: Mux, session: ClientSession, sink: Sink, http: Any = None) -> None:
        self.mux = mux
        self.session = session
        self.sink: Any = sink
        self.http = http
        self.stream: Any = None
        """The handshake era's event stream of the server's own messages, over HTTP."""
        self.recovery: Recovery | None = None
        """What makes a lost session anew, over HTTP."""

    @property
    def unheard(self) -> bool:
        """Whether the server ended without having read what was sent to it."""
        return False

    def reset(self, *, modern: bool) -> None:
        """A negotiation of that era begins."""

    async def begin(self, revision: str) -> None:
        """The handshake has chosen ``revision``: says ``notifications/initialized`` (VN-04)."""
        self.mux.notify(b"notifications/initialized", None, self.sink)

    def stream_ended(self, exc: HeadraceError | None) -> None:
        """The event stream of the server's own messages is over for good."""
        if self.recovery is not None:
            self.recovery.stream_ended(exc)

    def stop(self, reason: HeadraceError) -> None:
        """Calls that wait fail with ``reason`` at once, and no more are taken."""
        self.mux.close(reason)

    async def close(self) -> None:
        """Ends the connection. Never raises for what the peer does."""
        self.sink.close()


class Target(ABC):
    """Where a server is. ``text`` names it in messages; ``reopens``: a new connection may be tried when
    the server ends the first one because it does not know ``server/discover``."""

    text = ""
    reopens = True
    tap: Tap | None = None
    key: Hashable | None = None
    """What the server is known by for as long as the process lives (VN-50); None: nothing is kept."""
    transport: str | None = None
    """``"http"`` or ``"sse"`` when that was asked for."""
    may_be_sse = False
    """Whether :meth:`open_sse` may be tried."""

    @abstractmethod
    async def open(self, session: ClientSession, limits: Limits) -> Channel:
        """Opens a connection. Raises :class:`ConnectFailed`."""

    async def open_sse(self, session: ClientSession, limits: Limits) -> Channel:
        """Opens a connection over the transport of 2024-11-05. Raises :class:`ConnectFailed`."""
        raise ConnectFailed(f"cannot connect to {self.text}: HTTP+SSE needs an http:// or https:// URL")


def _mux(session: ClientSession, limits: Limits) -> Mux:
    session.max_batch = limits.max_batch
    runtime = make_runtime(limits, session.log)
    if session.observer is not None:
        runtime.observer = joined(runtime.observer, session.observer)
    return Mux(runtime, session, limits)


class LineTarget(Target):
    """A unix socket or a TCP address."""

    def __init__(self, text: str, *, unix: str | None = None, host: str | None = None, port: int | None = None):
        self.text = text
        self._where = {"unix": unix, "host": host, "port": port}
        self.key = ("lines", unix, host, port)

    async def open(self, session: ClientSession, limits: Limits) -> Channel:
        from headrace.transports.stream import open_lines

        mux = _mux(session, limits)
        link = await open_lines(mux, limits, tap=self.tap, **self._where)  # type: ignore[arg-type]
        return Channel(mux, session, link)


class CommandTarget(Target):
    """A program that is started and spoken to over its standard streams."""

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None,
        inherit_env: bool,
        cwd: str | None,
        stderr: Any,
    ) -> None:
        self.argv = list(argv)
        self.text = shlex.join(self.argv)[:200]
        self._options = {"env": env, "inherit_env": inherit_env, "cwd": cwd, "stderr": stderr}
        self.key = ("command", cwd, *self.argv)

    async def open(self, session: ClientSession, limits: Limits) -> Channel:
        from headrace.transports.spawn import spawn

        mux = _mux(session, limits)
        link = LineLink(mux, limits, serves=False)
        protocol = tapped(self.tap, link, limits, http=False)
        child = await spawn(self.argv, lambda: protocol, limits=limits, **self._options)
        return _ChildChannel(mux, session, link, child)


class _ChildChannel(Channel):
    def __init__(self, mux: Mux, session: ClientSession, sink: Sink, child: Any) -> None:
        super().__init__(mux, session, sink)
        self.child = child

    @property
    def unheard(self) -> bool:
        return bool(self.child.unheard)

    async def close(self) -> None:
        try:
            await self.child.close(self.grace)
        finally:
            self.sink.abort()


class HttpTarget(Target):
    """An HTTP endpoint: Streamable HTTP, or HTTP+SSE where only that is served."""

    reopens = False
    may_be_sse = True

    def __init__(
        self, url: str, *, headers: Mapping[str, str] | None, ssl: Any, transport: str | None = None
    ) -> None:
        for name, value in (headers or {}).items():
            try:
                header_line(name, value)
            except (LocalProtocolError, TypeError) as exc:
                raise UsageError(f"headers: {exc}") from None
        self.text = url
        self.transport = transport
        # The path counts: one origin may serve several servers.
        self.key = ("http", transport, url.partition("?")[0])
        self._headers = headers
        self._ssl = ssl

    async def open(self, session: ClientSession, limits: Limits) -> Channel:
        from headrace.transports.http_client import open_http

        mux = _mux(session, limits)
        http = await open_http(self.text, mux, limits=limits, headers=self._headers, ssl=self._ssl, tap=self.tap)
        return _HttpChannel(mux, session, http, http)

    async def open_sse(self, session: ClientSession, limits: Limits) -> Channel:
        from headrace.transports.sse_client import open_sse

        mux = _mux(session, limits)
        sse = await open_sse(self.text, mux, limits=limits, headers=self._headers, ssl=self._ssl, tap=self.tap)
        return _SseChannel(mux, session, sse)


class _HttpChannel(Channel):
    def reset(self, *, modern: bool) -> None:
        self.http.modern = modern
        if modern:
            self.http.protocol_version = R5
        elif self.stream is not None:
            self.stream.close()
            self.stream = None

    async def begin(self, revision: str) -> None:
        self.http.protocol_version = revision
        await self.http.post("notifications/initialized")
        self.stream = self.http.open_stream(self.stream_ended)  # B118: not before the session is up
        # What a server sends outside of an answer has no other way, and many drop it while the stream is not
        # there yet: a call whose question is lost waits for ever. Some hold the head back until there is an event.
        await asyncio.wait([self.stream.answered()], timeout=_STREAM_GRACE)

    def stop(self, reason: HeadraceError) -> None:
        if self.recovery is not None:
            self.recovery.stop()
        self.http.stop(reason)

    async def close(self) -> None:
        await self.http.close()


class _SseChannel(Channel):
    """HTTP+SSE has one stream, no sessions and nothing to recover: a line connection in all but form."""

    def reset(self, *, modern: bool) -> None:
        if modern:
            raise LocalProtocolError("HTTP+SSE has no modern era (LS-06)")

    async def begin(self, revision: str) -> None:
        if revision >= R3:
            self.sink.protocol_version = revision
        await self.sink.post("notifications/initialized")

    def stop(self, reason: HeadraceError) -> None:
        self.sink.stop(reason)

    async def close(self) -> None:
        await self.sink.close()


class MemoryTarget(Target):
    """A Server object of this process."""

    def __init__(self, server: Any) -> None:
        self.text = f"server {server.name!r}"
        self._server = server

    async def open(self, session: ClientSession, limits: Limits) -> Channel:
        mux = _mux(session, limits)
        link = LineLink(mux, limits, serves=False)
        host = _Host(self._server)
        await host.start(link, tapped(self.tap, link, limits, http=False))
        return _MemoryChannel(mux, session, link, host)


class _Host:
    """Keeps the server running in a task of its own: its lifespan is entered and left in the same task."""

    def __init__(self, server: Any) -> None:
        loop = asyncio.get_running_loop()
        self._server = server
        self._started: asyncio.Future[None] = loop.create_future()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self, link: LineLink, protocol: Any) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(link, protocol))
        try:
            await self._started
        except asyncio.CancelledError:
            self._task.cancel()
            raise

    async def _run(self, client_link: LineLink, protocol: Any) -> None:
        from headrace.transports.memory import memory_pair

        try:
            async with self._server.running():
                ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

                def lost(exc: Exception) -> None:
                    if not ended.done():
                        ended.set_result(None)

                session, mux = self._server.new_session()
                link = LineLink(mux, self._server.limits, on_lost=lost)
                session.sink = link
                memory_pair(link, protocol)
                if not self._started.done():
                    self._started.set_result(None)
                await self._stop.wait()
                client_link.close()
                # What was sent last arrives; what still runs has nobody to answer and is cancelled.
                await asyncio.wait([ended], timeout=_LAST_WORDS)
                link.abort()
        except Exception as exc:
            if self._started.done():
                raise
            failure = ConnectFailed(f"the server did not start: {type(exc).__name__}: {exc}")
            failure.__cause__ = exc
            self._started.set_exception(failure)

    async def stop(self) -> None:
        self._stop.set()
        if self._task is not None:
            await asyncio.wait([self._task])
            with contextlib.suppress(asyncio.CancelledError):
                self._task.result()


class _MemoryChannel(Channel):
    def __init__(self, mux: Mux, session: ClientSession, sink: Sink, host: _Host) -> None:
        super().__init__(mux, session, sink)
        self._host = host

    async def close(self) -> None:
        await self._host.stop()
