"""The client's end of MCP over HTTP for plain handlers: the caller says ``request(method, params)``, and what HTTP
adds to it is done here.

The era of a request is in its params: with ``io.modelcontextprotocol/protocolVersion`` in ``_meta`` it is a modern one
(headers Mcp-Method, Mcp-Name and MCP-Protocol-Version mirror it), else it belongs to the handshake era (version and
session id follow from the answer to ``initialize``). Each era has a channel of its own, so that a client may probe for
one and fall back to the other.
"""

from __future__ import annotations

import ssl as tls
from collections.abc import Callable, Iterable, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import ConnectionClosed, HeadraceError
from headrace.jsonrpc import NAMED, PROTOCOL_VERSION
from headrace.limits import Limits
from headrace.transports._http_request import CallOptions
from headrace.transports.http_client import HttpChannel, param_headers, parse_url
from headrace.transports.http_client import open_http as open_channel
from headrace.transports.plain.exchange import Params, Progress, body_of, decode, wire_name, with_token
from headrace.transports.plain.host import Handler, Notified
from headrace.transports.plain.opening import Opening, client_host, connected
from headrace.transports.plain.peer import Peer, RpcHost

if TYPE_CHECKING:
    from headrace.mux import PendingCall
    from headrace.transports._http_client import ClientStream
    from headrace.transports.tap import Tap

__all__ = ("HttpPeer", "open_http")


class _Meta(msgspec.Struct):
    version: str | None = msgspec.field(default=None, name=PROTOCOL_VERSION)


class _Peek(msgspec.Struct):
    """What of params the headers mirror."""

    meta: _Meta | None = msgspec.field(default=None, name="_meta")
    name: Any = None
    uri: Any = None
    taskId: Any = None


_peek = msgspec.json.Decoder(_Peek).decode


class _Opened(msgspec.Struct):
    protocolVersion: str


_opened = msgspec.json.Decoder(_Opened).decode


class HttpPeer(Peer):
    """An MCP server over HTTP: see :func:`open_http`.

    :attr:`sink` is the channel that was used last. ``initialize`` begins a session, whose id is
    :attr:`session_id`; ``notifications/initialized`` opens the stream of the server's own messages. A session that the
    server has forgotten shows as :class:`headrace.errors.HttpStatusError` with status 404: begin a new one.
    """

    def __init__(self, host: RpcHost, **options: Any) -> None:
        super().__init__(host, **options)
        self._spare: HttpChannel | None = None
        self._modern: HttpChannel | None = None
        self._legacy: HttpChannel | None = None
        self._make: Callable[[], HttpChannel] | None = None
        self._listens = True
        self.stream: ClientStream | None = None
        """The stream of the server's own messages, once the handshake is done."""
        self.stream_error: HeadraceError | None = None
        """Why that stream is over for good."""

    @property
    def session_id(self) -> str | None:
        """The id of the session; may be set to go on with one of before."""
        return None if self._legacy is None else self._legacy.session_id

    @session_id.setter
    def session_id(self, id: str | None) -> None:
        self.channel(None).session_id = id

    @property
    def protocol_version(self) -> str | None:
        """What the handshake has agreed on; may be set together with :attr:`session_id`."""
        return None if self._legacy is None else self._legacy.protocol_version

    @protocol_version.setter
    def protocol_version(self, version: str | None) -> None:
        self.channel(None).protocol_version = version

    def set_headers(self, headers: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> None:
        """Replaces the headers that go with every request (a token was renewed)."""
        make = self._make
        if make is None:
            raise ConnectionClosed("the connection is closed")
        self._make = lambda: _with_headers(make(), headers)
        for channel in self.channels():
            channel.set_headers(headers)

    def channels(self) -> list[HttpChannel]:
        """The channels that are there."""
        return [each for each in (self._spare, self._modern, self._legacy) if each is not None]

    def channel(self, version: str | None) -> HttpChannel:
        """The channel of modern requests of that version; with None that of the handshake era."""
        channel = self._modern if version is not None else self._legacy
        if channel is None:
            channel, self._spare = self._spare, None
            if channel is None:
                if self.closed or self._make is None:
                    raise ConnectionClosed(str(self.reason or "the connection is closed"))
                channel = self._make()
            if version is None:
                self._legacy = channel
            else:
                channel.modern = True
                self._modern = channel
        if version is not None and channel.protocol_version != version:
            channel.protocol_version = version
        self.sink = channel
        return channel

    def request(
        self,
        method: str,
        params: Params = None,
        *,
        timeout: float = 0.0,
        on_progress: Progress | None = None,
        decode: Callable[[bytes], Any] | None = decode,
        id: str | int | None = None,
        mirror: Mapping[str, str | int | bool | None] | None = None,
        resume: str | None = None,
        on_event_id: Callable[[str], object] | None = None,
    ) -> PendingCall:
        """Sends a request, as :meth:`Peer.request`. Giving it up ends its connection in the modern era, and is told
        by ``notifications/cancelled`` in the other.

        :param mirror: arguments that the tool wants as headers ``Mcp-Param-<name>`` (HN-20).
        :param resume: an event id: asks for the rest of an answer that broke off instead of sending the request
            (HO-24).
        :param on_event_id: told of the id of each event of the answer, to resume from.

        Raises also :class:`headrace.errors.HttpStatusError` for an HTTP answer that is no JSON-RPC answer.
        """
        if on_progress is not None:
            params = with_token(self.mux, params, id)
        body = body_of(params)
        version, name = _mirrored(method, params, body)
        channel = self.channel(version)
        if method == "initialize" and version is None:
            decode = self._beginning(decode)
        extra: Any = param_headers(mirror) if mirror else None
        if resume is not None or on_event_id is not None:
            token = None if resume is None else resume.encode()
            extra = CallOptions(fields=extra, resume=token, on_event_id=on_event_id)
        return self.mux.call(
            wire_name(method),
            body,
            channel,
            decode=decode,
            timeout=timeout,
            on_progress=on_progress,
            name=name,
            extra=extra,
            id=id,
        )

    def _beginning(self, decode: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
        """Takes the version that was agreed on from the answer to ``initialize``."""

        def opened(raw: bytes) -> Any:
            version = _opened(raw).protocolVersion
            if self._legacy is not None:
                self._legacy.protocol_version = version
            self.mux.null_ids = version < "2025-11-25"
            return raw if decode is None else decode(raw)

        return opened

    def tell(self, method: str, params: Params = None) -> bool:
        """Sends a notification without waiting; whether the server takes it is not told. False when the connection
        is closed."""
        if self.closed:
            return False
        if method == "notifications/initialized":
            self.host.spawn(self._told(method, params))
            return True
        body = body_of(params)
        return self.mux.notify(wire_name(method).encode(), body, self._channel_of(method, params, body))

    async def _told(self, method: str, params: Params) -> None:
        try:
            await self.notify(method, params)
        except HeadraceError as exc:
            self.host.log.debug("%s was not accepted: %s", method, exc)

    async def notify(self, method: str, params: Params = None) -> bool:
        """Sends a notification and waits until the server has accepted it. Raises
        :class:`headrace.errors.HttpStatusError` when it does not. False when the connection is closed."""
        if self.closed:
            return False
        body = body_of(params)
        channel = self._channel_of(method, params, body)
        await channel.post(wire_name(method), body)
        if method == "notifications/initialized" and self._listens and self.stream is None and not self.closed:
            self.stream = channel.open_stream(self._stream_ended)
        return True

    def _channel_of(self, method: str, params: Params, body: bytes | None) -> HttpChannel:
        version, _ = _mirrored(method, params, body)
        if version is None and self._legacy is None and self._modern is not None:
            return self._modern
        return self.channel(version)

    def _stream_ended(self, exc: HeadraceError | None) -> None:
        self.stream_error = exc
        self.stream = None

    async def end(self) -> None:
        """Ends all channels (see :meth:`HttpChannel.close`)."""
        self._make = None
        channels = self.channels()
        for channel in channels:
            channel.stop()
        for channel in channels:
            await channel.close()


def _with_headers(channel: HttpChannel, headers: Any) -> HttpChannel:
    channel.set_headers(headers)
    return channel


def _mirrored(method: str, params: Params, body: bytes | None) -> tuple[str | None, str | None]:
    """The modern version of a message, or None, and what it names."""
    if body is None:
        return None, None
    member = NAMED.get(method)
    if isinstance(params, Mapping):
        meta = params.get("_meta")
        version = meta.get(PROTOCOL_VERSION) if isinstance(meta, Mapping) else None
        name = None if member is None else params.get(member)
    else:
        try:
            seen = _peek(body)
        except msgspec.DecodeError:
            return None, None
        version = None if seen.meta is None else seen.meta.version
        name = None if member is None else getattr(seen, member)
    return (version if isinstance(version, str) else None), (name if isinstance(name, str) else None)


def open_http(
    url: str,
    handler: Handler | RpcHost | None = None,
    *,
    headers: Mapping[str, str] | Iterable[tuple[str, str]] | None = None,
    ssl: tls.SSLContext | None = None,
    on_notify: Notified | None = None,
    on_lost: Callable[[Any], Any] | None = None,
    listen: bool = True,
    raw: bool = False,
    limits: Limits | None = None,
    tap: Tap | None = None,
) -> Opening[HttpPeer]:
    """Connects to an MCP server over Streamable HTTP; negotiates nothing.

    :param url: ``http://...``, ``https://...`` or ``unix:SOCKET[:/PATH]``, see
        :func:`headrace.transports.http_dial.parse_url`.
    :param handler: serves what the server asks (handshake era), or an :class:`~headrace.transports.plain.RpcHost`.
    :param headers: go with every request, such as ``Authorization``.
    :param ssl: the context of ``https`` (default: the system's certificates).
    :param on_notify, raw: as for a host.
    :param on_lost: told once that the connection was closed.
    :param listen: open the stream of the server's own messages after ``notifications/initialized``.
    :param tap: sees every message (:mod:`headrace.transports.tap`).
    :returns: the :class:`HttpPeer`, by ``await`` or ``async with``. Closing it deletes the session, with a second of
        patience.

    Raises UsageError for a bad URL or header, ConnectFailed when no connection comes up, RequestTimeout after
    ``limits.connect_timeout`` seconds.
    """

    async def open() -> HttpPeer:
        host = client_host(handler, {"on_notify": on_notify, "raw": raw, "limits": limits})

        async def connect(peer: Peer, stack: AsyncExitStack) -> None:
            assert isinstance(peer, HttpPeer)
            bounds = host.limits
            peer._listens = listen
            peer._spare = peer.sink = await open_channel(
                url, peer.mux, limits=bounds, headers=headers, ssl=ssl, tap=tap
            )
            peer._make = lambda: HttpChannel(
                parse_url(url), peer.mux, limits=bounds, headers=headers, ssl=ssl, tap=tap
            )
            stack.push_async_callback(peer.end)

        peer = await connected(host, on_lost, connect, HttpPeer)
        assert isinstance(peer, HttpPeer)
        return peer

    return Opening(open, HttpPeer.close)
