"""Streamable HTTP for clients of the official SDK, in the place of ``mcp.client.streamable_http``.

Strategy: a :class:`Carrier` is what both ways share: the channel of headrace's own HTTP client, the era and the headers
of each message, the session with its stream, and the auth of httpx. Under a pair of streams each request is one call of
the mux under the id that the SDK chose, and its answer becomes a message where it is read; under a dispatcher the
mux is used directly.
"""

from __future__ import annotations

import asyncio
import logging
import ssl as tls
from collections.abc import Callable, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import msgspec

from headrace.errors import ConnectFailed, HeadraceError, HttpStatusError, RequestTimeout, UsageError
from headrace.integrations.mcp_sdk.client_auth import Bridge, check_headers, httpx
from headrace.integrations.mcp_sdk.require import GENERATION, check_loop
from headrace.limits import DEFAULT, Limits
from headrace.transports._http_request import CallOptions
from headrace.transports.http_client import HttpChannel, open_http

if TYPE_CHECKING:
    from headrace.integrations.mcp_sdk.dispatcher import HeadraceDispatcher
    from headrace.integrations.mcp_sdk.streams import ReadStream, WriteStream
    from headrace.mux import Mux

__all__ = ("Carrier", "HttpTransport", "http_transport")

log = logging.getLogger("headrace.mcp")

_STREAM_GRACE = 1.0  # seconds a server has to open its own event stream before the first call goes out
_DELETE_TIMEOUT = 1.0  # seconds that closing waits for the answer to DELETE (B64)
_VERSION = "mcp-protocol-version"
_SPOKEN = frozenset((_VERSION, "mcp-method"))  # what the channel says itself

if GENERATION == 2:
    from mcp_types.version import MODERN_PROTOCOL_VERSIONS

    _MODERN = frozenset(MODERN_PROTOCOL_VERSIONS)
else:
    _MODERN = frozenset()


class Carrier:
    """One client's connection to an endpoint, below the SDK's sessions."""

    def __init__(
        self, mux: Mux, channel: HttpChannel, bridge: Bridge, timeout: float, *, terminate: bool
    ) -> None:
        self.mux = mux
        self.channel = channel
        self.bridge = bridge
        self.stream: Any = None
        self.timeout = timeout
        self._terminate = terminate
        self._tasks: set[asyncio.Task[Any]] = set()

    # --- out ------------------------------------------------------------------------------------------

    def options(
        self,
        method: str,
        headers: Mapping[str, str] | None,
        *,
        resume: str | None = None,
        on_event_id: Callable[[str], object] | None = None,
        own: bytes | None = None,
    ) -> bytes | CallOptions | None:
        """What goes out with a request beside its message (``Mux.call(extra=)``); switches the era where the message
        speaks another one than the last."""
        self.speak(method, headers)
        fields: bytes | None = None
        if headers:
            fields = self._fields(headers)
            if own is None and fields and self.bridge.replaces(headers):
                own = self.bridge.own(headers)
        if resume is None and on_event_id is None and own is None:
            return fields or None
        return CallOptions(
            fields=fields, own=own, resume=None if resume is None else resume.encode(), on_event_id=on_event_id
        )

    def speak(self, method: str, headers: Mapping[str, str] | None) -> None:
        """The version that a message declares is the channel's from there on; ``initialize`` begins without one."""
        channel = self.channel
        if method == "initialize":
            channel.modern = False
            if channel.protocol_version is not None:
                channel.protocol_version = None
        elif headers is not None:
            version = headers.get(_VERSION)
            if version is not None and version != channel.protocol_version:
                channel.protocol_version = version
                channel.modern = version in _MODERN

    def _fields(self, headers: Mapping[str, str]) -> bytes:
        line = self.bridge.line
        return b"".join([line(name, value) for name, value in headers.items() if name.lower() not in _SPOKEN])

    def time_limit(self, method: str) -> float:
        """Seconds without an answer or progress after which the read timeout strikes; 0 for none."""
        return 0.0 if method == "subscriptions/listen" else self.timeout

    def initialized(self, result: Any) -> None:
        """``initialize`` was answered: what it chose is spoken from here on."""
        version = result.get("protocolVersion") if type(result) is dict else None
        if isinstance(version, str) and version.isascii() and version.isprintable():
            self.channel.protocol_version = version

    async def notify(self, method: str, body: bytes, headers: Mapping[str, str] | None) -> None:
        """POSTs a notification and waits until the server has taken it, as messages behind it may build on it. What the
        server says to it is logged only."""
        self.speak(method, headers)
        try:
            await self._post(body)
        except HeadraceError as exc:
            log.debug("%s was not accepted: %s", method, exc)
        except httpx.HTTPError as exc:
            log.warning("%s was not sent: %s", method, exc)
        if method == "notifications/initialized":
            await self._open_stream()

    def post(self, body: bytes) -> None:
        """POSTs an answer to a request of the server."""
        if self.bridge.direct:
            self.channel.submit_post(body, None)
            return
        self.spawn(self._post(body))

    async def _post(self, body: bytes) -> None:
        async def attempt(own: bytes | None) -> None:
            future = self.mux.runtime.create_future()
            self.channel.submit_post(body, future, own)
            await future

        await self.authorized("POST", body, attempt)

    async def authorized(self, verb: str, body: bytes | None, attempt: Callable[[bytes | None], Any]) -> Any:
        """``await attempt(own)``, under the auth flow and the event hooks if there are any."""
        bridge = self.bridge
        failed: BaseException | None = None
        if bridge.direct:
            try:
                return await attempt(None)
            except HeadraceError as exc:
                if not bridge.disputes(exc):
                    raise
                failed = exc
        return await bridge.send(verb, self.shown(), body, attempt, failed)

    def shown(self, headers: Mapping[str, str] | None = None) -> dict[str, str]:
        """The protocol's own headers, for flows and hooks to see."""
        channel = self.channel
        shown = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        if channel.protocol_version is not None:
            shown[_VERSION] = channel.protocol_version
        if channel.session_id is not None:
            shown["mcp-session-id"] = channel.session_id
        if headers:
            shown.update(headers)
        return shown

    def teller(self, callback: Any) -> Callable[[str], object] | None:
        """The SDK's callback for resumption tokens, which is a coroutine function, as one for event ids."""
        if callback is None:
            return None

        def tell(token: str) -> None:
            self.spawn(callback(token))

        return tell

    def spawn(self, coro: Any) -> asyncio.Task[Any]:
        """Runs what nobody waits for."""
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (exc := task.exception()) is not None:
            log.debug("a message was not sent: %s", exc)

    # --- the server's own stream ----------------------------------------------------------------------

    async def _open_stream(self) -> None:
        """The stream of messages that belong to no request (HO-10); only a session has one."""
        if self.channel.session_id is None or self.channel.closed:
            return
        self._close_stream()
        if not self.bridge.direct:
            self.spawn(self._keep_stream(None))
            return
        self.stream = self.channel.open_stream(self._stream_ended)
        # What a server sends outside of an answer has no other way, and many drop it while the stream is not there.
        await asyncio.wait([self.stream.answered()], timeout=_STREAM_GRACE)

    async def _keep_stream(self, failed: BaseException | None) -> None:
        """Opens the stream under the flow, and again when a token that was good has run out."""
        while True:
            try:
                await self.bridge.send("GET", self.shown(), None, self._listen_until, failed)
                return
            except HttpStatusError as exc:
                if not self.bridge.disputes(exc) or self.stream is None or not self.stream.opened:
                    raise
                failed = exc

    async def _listen_until(self, own: bytes | None) -> None:
        """An attempt of the flow: over at the end of the stream, or when it is refused."""
        self._close_stream()
        over = self.mux.runtime.create_future()

        def ended(exc: HeadraceError | None) -> None:
            if not over.done():
                if exc is None:
                    over.set_result(None)
                else:
                    over.set_exception(exc)

        self.stream = self.channel.open_stream(ended, own)
        await over

    def _stream_ended(self, exc: HeadraceError | None) -> None:
        if exc is None or self.channel.closed:
            return
        if self.bridge.disputes(exc):
            self.spawn(self._keep_stream(exc))
        else:
            log.debug("the server's event stream is over: %s", exc)

    def _close_stream(self) -> None:
        stream, self.stream = self.stream, None
        if stream is not None:
            stream.close()

    # --- the end --------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends the session (DELETE, at most a second) and the connections. Safe to repeat."""
        with anyio.CancelScope(shield=True):
            for task in list(self._tasks):
                task.cancel()
            self._close_stream()
            try:
                if not self._terminate:
                    self.channel.session_id = None
                elif self.channel.session_id is not None and not self.bridge.direct:
                    await self._terminated()
                await self.channel.close()
            finally:
                await self.bridge.aclose()


    async def _terminated(self) -> None:
        """The end of the session (HO-33) under the flow or the hooks."""

        async def attempt(own: bytes | None) -> None:
            if (answer := self.channel.delete_session(own)) is not None:
                await answer

        with anyio.move_on_after(_DELETE_TIMEOUT):
            try:
                await self.authorized("DELETE", None, attempt)
            except Exception as exc:  # also what a flow raises: the end is not the place for it
                log.debug("the session was not ended: %s", exc)
        self.channel.session_id = None


class HttpTransport:
    """Made by :func:`http_transport`: an async context manager that connects and gives ``(read, write)``; for version 1
    of the SDK ``(read, write, get_session_id)``, as its own does.
    """

    def __init__(
        self,
        url: str,
        *,
        headers: Mapping[str, str] | None,
        http_client: Any,
        auth: Any,
        terminate_on_close: bool,
        timeout: float | timedelta | None,
        read_timeout: float | timedelta | None,
        limits: Limits,
        ssl: tls.SSLContext | None,
    ) -> None:
        check_headers(headers)
        self.url = url
        self.limits = limits
        self.carrier: Carrier | None = None
        self._headers = headers
        self._client = http_client
        self._auth = auth
        self._terminate = terminate_on_close
        self._timeouts = _seconds(timeout), _seconds(read_timeout)
        self._ssl = ssl
        self._streams: Any = None

    def __repr__(self) -> str:
        return f"<HttpTransport {self.url.rpartition('@')[2]}>"

    @property
    def signs_bodies(self) -> bool:
        """Whether the auth asks for the body of each request (``requires_request_body``)."""
        auth = self._auth if self._auth is not None else getattr(self._client, "auth", None)
        return bool(getattr(auth, "requires_request_body", False))

    @property
    def session_id(self) -> str | None:
        """The handshake era's session, while there is one."""
        return None if self.carrier is None else self.carrier.channel.session_id

    def get_session_id(self) -> str | None:
        """The same as :attr:`session_id`, as a function."""
        return self.session_id

    async def __aenter__(self) -> Any:
        """Connects. Raises httpx's ConnectError or ConnectTimeout when no connection comes up, UsageError for a bad
        URL."""
        from headrace.integrations.mcp_sdk.http_streams import HttpStreams

        check_loop()
        self._streams = streams = HttpStreams(self.limits)
        carrier = await self.open(streams.mux)
        streams.attach(carrier)
        read: ReadStream = streams.read
        write: WriteStream = streams.write
        return (read, write) if GENERATION == 2 else (read, write, self.get_session_id)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the session and closes the connections; a cancelled scope does not cut that short."""
        if self._streams is not None:
            self._streams.close()
        await self.close()

    def dispatcher(self, **options: Any) -> HeadraceDispatcher[Any]:
        """For ``ClientSession(dispatcher=...)`` of version 2: connects when the session begins. Options as
        :class:`~headrace.integrations.mcp_sdk.HeadraceDispatcher`. Raises UsageError where :attr:`signs_bodies`."""
        from headrace.integrations.mcp_sdk.client_dispatch import http_dispatcher

        if self.signs_bodies:
            raise UsageError("this auth signs the bodies of requests, which only the pair of streams knows beforehand")
        return http_dispatcher(self, **options)

    async def open(self, mux: Mux) -> Carrier:
        """Connects a client's ``mux``: for dispatchers. End it with :meth:`close`."""
        if self.carrier is not None:
            raise RuntimeError("this transport is in use; make another one for another session")
        bridge = Bridge(self.url, headers=self._headers, http_client=self._client, auth=self._auth)
        limits = self.limits
        connect, read = self._timeouts
        if bridge.timeout is not None:
            connect, read = connect or bridge.timeout.connect, read or bridge.timeout.read
        if connect:
            limits = msgspec.structs.replace(limits, connect_timeout=connect)
        try:
            channel = await open_http(
                bridge.target, mux, limits=limits, headers=bridge.fields(), ssl=self._ssl or bridge.ssl
            )
        except ConnectFailed as exc:
            raise httpx.ConnectError(str(exc)) from exc
        except RequestTimeout as exc:
            raise httpx.ConnectTimeout(str(exc)) from exc
        bridge.attach(channel)
        self.carrier = carrier = Carrier(mux, channel, bridge, read or 0.0, terminate=self._terminate)
        return carrier

    async def close(self) -> None:
        """Ends what :meth:`open` began. Safe to repeat."""
        carrier, self.carrier = self.carrier, None
        if carrier is not None:
            await carrier.close()


def _seconds(time: float | timedelta | None) -> float | None:
    return time.total_seconds() if isinstance(time, timedelta) else time


def http_transport(
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    http_client: Any = None,
    auth: Any = None,
    terminate_on_close: bool = True,
    timeout: float | timedelta | None = None,
    read_timeout: float | timedelta | None = None,
    limits: Limits | None = None,
    ssl: tls.SSLContext | None = None,
) -> HttpTransport:
    """Speaks Streamable HTTP to an endpoint, over headrace's own connections.

    :param url: ``http://``, ``https://`` or ``unix:SOCKET:/PATH``.
    :param headers: go with every request; the protocol's own cannot be set.
    :param http_client: an ``httpx2.AsyncClient`` (``httpx`` for version 1 of the SDK) whose headers, cookies, auth,
        event hooks, TLS context and timeouts hold here too: ``connect`` as it is, ``read`` as the time in which a
        request is answered or tells progress. It sends nothing itself but what an auth flow asks of others, and is
        not closed. UsageError when it has a transport of its own or a proxy.
    :param auth: an ``httpx2.Auth``, such as the SDK's ``OAuthClientProvider``, or a pair of user and password; goes
        before the client's. Its flow sees a stand-in for each request, with the protocol's headers and the
        body, and the status, headers and, of failures, first KiB of the answer.
    :param terminate_on_close: end the session with DELETE.
    :param timeout: seconds for a connection to come up, and ``read_timeout`` seconds without an answer or progress,
        which end a request; they go before those of ``http_client``.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param ssl: context of ``https`` URLs.

    Use it as ``mcp.Client(http_transport(...))``, as ``async with http_transport(...) as (read, write)`` for
    ``ClientSession(read, write)``, or with :func:`headrace.integrations.mcp_sdk.connect` for the fast way.
    ``session_id`` of the object is the session. A failed connection fails the request that needed it.
    """
    return HttpTransport(
        url,
        headers=headers,
        http_client=http_client,
        auth=auth,
        terminate_on_close=terminate_on_close,
        timeout=timeout,
        read_timeout=read_timeout,
        limits=limits or DEFAULT,
        ssl=ssl,
    )
