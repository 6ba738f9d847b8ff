"""The SDK's view of one message and of its connection: dispatch contexts and outbound channels on our mux.

They are what ``mcp.shared.dispatcher`` describes as ``DispatchContext`` and ``Outbound``. Notifications and progress
go out in the call stack of the handler; a handler that only sends is made to wait every now and then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
import anyio.lowlevel
import msgspec
from mcp.server.connection import NotifyOnlyOutbound
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.transport_context import TransportContext
from mcp_types import CONNECTION_CLOSED

from headrace.errors import HeadraceError, LocalProtocolError, OverloadedError, RpcError
from headrace.integrations.mcp_sdk.json import encode
from headrace.integrations.mcp_sdk.tracing import KEEPS_META, silent, span
from headrace.integrations.mcp_sdk.wire import mcp_error
from headrace.transports.plain.exchange import decode

if TYPE_CHECKING:
    from headrace.mux import Exchange, Mux, Sink
    from headrace.protocol.session import ServerSession

__all__ = ("HandshakeCall", "LineOutbound", "ModernCall", "Sender", "SessionOutbound", "TellingCall", "ask")

_log = logging.getLogger("headrace.host")

SENDS_A_TURN = 32
"""Notifications that a handler sends before it has to let the event loop run once."""


async def ask(
    mux: Mux,
    sink: Sink,
    method: str,
    params: Mapping[str, Any] | None,
    opts: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """Asks the client, as ``Outbound.send_raw_request``. Raises MCPError."""
    opts = opts or {}
    out = dict(params) if params is not None else {}
    meta = dict(out.get("_meta") or {})
    id = opts.get("request_id")
    on_progress = opts.get("on_progress")
    if on_progress is not None:
        meta["progressToken"] = mux.next_call_id if id is None else id
    if silent():
        return await _asked(mux, sink, method, out, meta, opts, id)
    with span(method, out.get("name"), mux.next_call_id if id is None else id, meta) as record:
        try:
            return await _asked(mux, sink, method, out, meta, opts, id)
        except MCPError as exc:
            record(RpcError(exc.code, exc.message))
            raise


async def _asked(
    mux: Mux,
    sink: Sink,
    method: str,
    params: dict[str, Any],
    meta: dict[str, Any],
    opts: Mapping[str, Any],
    id: str | int | None,
) -> dict[str, Any]:
    if meta or KEEPS_META:
        params["_meta"] = meta
    else:
        params.pop("_meta", None)
    on_progress = opts.get("on_progress")
    await anyio.lowlevel.checkpoint_if_cancelled()
    try:
        result: dict[str, Any] = await mux.call(
            method,
            encode(params) if params else None,
            sink,
            decode=decode,
            timeout=opts.get("timeout") or 0.0,
            on_progress=None if on_progress is None else _told_of_progress(mux, on_progress),
            id=id,
        )
        return result
    except LocalProtocolError as exc:
        if isinstance(exc, OverloadedError):
            raise mcp_error(exc, method) from None
        raise NoBackChannelError(method) from None
    except HeadraceError as exc:
        raise mcp_error(exc, method) from None


def _told_of_progress(mux: Mux, callback: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    async def tell(progress: float, total: float | None, message: str | None) -> None:
        try:
            await callback(progress, total, message)
        except Exception:
            _log.exception("progress callback raised")

    def told(progress: float, total: float | None, message: str | None) -> None:
        mux.runtime.spawn(tell(float(progress), None if total is None else float(total), message))

    return told


class Sender:
    """Counts what a handler sends without waiting."""

    __slots__ = ("sent",)

    def __init__(self) -> None:
        self.sent = 0

    async def breathe(self, drained: Any) -> None:
        """Waits for ``drained`` where there is such a future, else every so often for a turn of the loop."""
        if drained is not None:
            await drained
            return
        self.sent += 1
        if self.sent % SENDS_A_TURN == 0:
            await asyncio.sleep(0)


class _Call(Sender):
    """What all contexts of requests share. ``message_metadata`` is what the SDK lifts onto its own context."""

    __slots__ = ("_cancelled", "_event", "_scope", "exchange", "message_metadata", "request_id")

    kind = "jsonrpc"

    def __init__(self, exchange: Exchange, metadata: Any) -> None:
        self.sent = 0
        self.exchange = exchange
        self.request_id = exchange.request_id
        self.message_metadata = metadata
        self._event: anyio.Event | None = None
        self._cancelled = False
        self._scope: Any = None

    def within(self, scope: Any) -> None:
        """From here on the peer's giving up cancels ``scope``."""
        self._scope = scope
        self.exchange.on_cancel = self.cancel

    def cancel(self) -> None:
        """The peer gave the request up."""
        self._cancelled = True
        if self._event is not None:
            self._event.set()
        self._scope.cancel()

    def over(self) -> None:
        """The handler has ended."""
        self.exchange.on_cancel = None
        self._scope = None

    @property
    def cancel_requested(self) -> anyio.Event:
        """Set when the peer gives the request up."""
        if self._event is None:
            self._event = anyio.Event()
            if self._cancelled:
                self._event.set()
        return self._event

    @property
    def transport(self) -> TransportContext:
        """Transport metadata."""
        request = None if self.message_metadata is None else self.message_metadata.request_context
        if request is None:
            return TransportContext(kind="jsonrpc", can_send_request=self.can_send_request)
        return TransportContext(
            kind="streamable-http", can_send_request=self.can_send_request, headers=request.headers
        )

    @property
    def can_send_request(self) -> bool:
        """Whether the client can be asked inside of this request."""
        return False

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        """Asks the client inside of this request. Raises NoBackChannelError where it cannot be asked."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Sends a notification on the stream of this request; dropped where it cannot be carried."""
        exchange = self.exchange
        if exchange.tell(method.encode(), None if params is None else encode(params)):
            await self.breathe(exchange.sink.wait_drained())
        else:
            _log.debug("dropped %s: the request is over, or is answered with one JSON object", method)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells progress, if the client asked for it. What a handler tells goes out as it is, also where it should
        have increased."""
        exchange = self.exchange
        token = exchange.progress_token
        if token is None:
            return
        params: dict[str, Any] = {"progressToken": msgspec.Raw(token), "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        if exchange.tell(b"notifications/progress", encode(params)):
            await self.breathe(exchange.sink.wait_drained())


class ModernCall(_Call):
    """A request of the era of per-request metadata, or of the handshake era where nothing is kept: in neither are
    there requests of servers."""

    __slots__ = ()


class HandshakeCall(_Call):
    """A request in a session of the handshake era. ``asks``: its answer may be an event stream."""

    __slots__ = ("_asks",)

    def __init__(self, exchange: Exchange, metadata: Any, asks: bool) -> None:
        super().__init__(exchange, metadata)
        self._asks = asks

    @property
    def can_send_request(self) -> bool:
        """Whether its client can be asked by way of this exchange."""
        return self._asks and self.exchange.open

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        if not self.can_send_request:
            raise NoBackChannelError(method)
        exchange = self.exchange
        return await ask(exchange.mux, exchange.sink, method, params, opts)


class TellingCall(Sender):
    """The context of a notification of the client's. What its handler sends belongs to no request."""

    __slots__ = ("_event", "_outbound", "message_metadata")

    request_id = None

    def __init__(self, outbound: Any, metadata: Any) -> None:
        self.sent = 0
        self._outbound = outbound
        self._event: anyio.Event | None = None
        self.message_metadata = metadata

    @property
    def cancel_requested(self) -> anyio.Event:
        """Never set: nobody gives a notification up."""
        if self._event is None:
            self._event = anyio.Event()
        return self._event

    @property
    def can_send_request(self) -> bool:
        """Whether the client can be asked."""
        return isinstance(self._outbound, SessionOutbound)

    @property
    def transport(self) -> TransportContext:
        """Transport metadata."""
        request = None if self.message_metadata is None else self.message_metadata.request_context
        return TransportContext(
            kind="jsonrpc" if request is None else "streamable-http",
            can_send_request=self.can_send_request,
            headers=None if request is None else request.headers,
        )

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        """Asks the client."""
        result: dict[str, Any] = await self._outbound.send_raw_request(method, params, opts)
        return result

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Sends a notification."""
        await self._outbound.notify(method, params, opts)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Nobody waits for progress of a notification."""


class SessionOutbound(Sender):
    """The channel of a session of the handshake era for what belongs to no request: its line connection, or the GET
    streams of an HTTP session. A question waits until the client has opened such a stream."""

    __slots__ = ("_session",)

    def __init__(self, session: ServerSession) -> None:
        self.sent = 0
        self._session = session

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        """Asks the client. Raises MCPError with its error, or when the connection is gone."""
        session = self._session
        while session.mux is not None and session.sink is None:
            stream = getattr(session, "next_stream", None)
            if stream is None:
                break
            await stream()
        if session.mux is None or session.sink is None:
            raise MCPError(CONNECTION_CLOSED, "Connection closed")
        return await ask(session.mux, session.sink, method, params, opts)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Sends a notification; dropped where there is no channel."""
        session = self._session
        mux, sink = session.mux, session.sink
        body = None if params is None else encode(params)
        if session.ready or sink is None or mux is None:
            told = session.announce(method.encode(), body)
        else:
            told = mux.notify(method.encode(), body, sink)
        if not told:
            _log.debug("dropped %s: the session has no stream for it", method)
        elif sink is not None:
            await self.breathe(sink.wait_drained())


class _Lines(Sender):
    """A line connection as a channel for notifications."""

    __slots__ = ("_mux", "_sink")

    def __init__(self, mux: Mux, sink: Sink) -> None:
        self.sent = 0
        self._mux = mux
        self._sink = sink

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: Any = None
    ) -> dict[str, Any]:
        """In this era a server sends no requests."""
        raise NoBackChannelError(method)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: Any = None) -> None:
        """Sends a notification."""
        if self._mux.notify(method.encode(), None if params is None else encode(params), self._sink):
            await self.breathe(self._sink.wait_drained())


def LineOutbound(mux: Mux, sink: Sink) -> NotifyOnlyOutbound:
    """The channel of a line connection in the modern era: notifications, and none that belong to a listen."""
    return NotifyOnlyOutbound(_Lines(mux, sink))
