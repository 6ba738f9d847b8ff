"""A server of the official SDK as a headrace host: its own kernel (``ServerRunner``) on our connections and sessions.

A request of the modern era gets a ``Connection.from_envelope`` of its own. A session of the handshake era has one
``Connection.for_loop`` and one ``ServerRunner`` from its ``initialize`` to its end. Params are decoded once, results
encoded once; nothing of a request passes through streams or task groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

import anyio
from mcp.server._otel import OpenTelemetryMiddleware
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data
from mcp.server.streamable_http import REQUEST_CANCELLED
from mcp.shared.message import ServerMessageMetadata
from mcp_types import (
    CLIENT_CAPABILITIES_META_KEY,
    CLIENT_INFO_META_KEY,
    PROTOCOL_VERSION_META_KEY,
)
from mcp_types.version import LATEST_MODERN_VERSION

from headrace.errors import RpcError
from headrace.integrations.mcp_sdk.auth import Caller
from headrace.integrations.mcp_sdk.born_ready import BornReady, in_use
from headrace.integrations.mcp_sdk.calls import (
    HandshakeCall,
    LineOutbound,
    ModernCall,
    SessionOutbound,
    TellingCall,
)
from headrace.integrations.mcp_sdk.http_request import HostedRequest
from headrace.integrations.mcp_sdk.json import encode
from headrace.integrations.mcp_sdk.mirrored import MirroredHeaders
from headrace.integrations.mcp_sdk.sdk import lowlevel_of
from headrace.integrations.mcp_sdk.tracing import silent
from headrace.integrations.mcp_sdk.wire import handshake_error, rpc_error
from headrace.jsonrpc import INVALID_REQUEST
from headrace.mux import AnyMethod, Mux, Revision
from headrace.protocol.session import ServerSession
from headrace.protocol.session_streams import StreamingSession
from headrace.transports._http_exchange import HttpExchange
from headrace.transports.plain.exchange import PlainExchange, decode, params_of
from headrace.transports.plain.mcp import McpHost
from headrace.transports.shield import shielded

if TYPE_CHECKING:
    from headrace.mux import Exchange, Sink
    from headrace.wire import Envelope

__all__ = ("SdkHost",)

_LISTEN = "subscriptions/listen"
_SUBSCRIPTION_ID = "io.modelcontextprotocol/subscriptionId"
_CLOSING = 6.0
"""Seconds that exit stacks of connections get when the host stops; the SDK ends each after 5."""

_CANCELLED = RpcError(REQUEST_CANCELLED, "Request cancelled")
"""What ends the POST of a request of the handshake era that its client cancelled."""

_log = logging.getLogger("headrace.host")

CancelScope: Any = anyio.CancelScope
with contextlib.suppress(ImportError, AttributeError):
    # What it gives on asyncio, without asking for each request which library runs.
    CancelScope = import_module("anyio._backends._asyncio").CancelScope



class _Runner(ServerRunner[Any]):
    """The SDK's kernel, which leaves out the span of a message where nobody records and nothing is to be passed on.

    Such a span is not seen by anybody, and costs a sixth of a call. Where the SDK composes its middleware in another
    way than by this method, it is there.
    """

    quiet = False
    """The message that is served next needs no span."""

    def _compose_server_middleware(self, inner: Any) -> Any:
        if not self.quiet:
            return super()._compose_server_middleware(inner)
        self.quiet = False
        call = inner
        for middleware in reversed(self.server.middleware):
            if type(middleware) is not OpenTelemetryMiddleware:
                call = partial(_through, middleware, call)
        return call


def _through(middleware: Any, call_next: Any, ctx: Any) -> Any:
    return middleware(ctx, call_next)


def _spanless(params: Any) -> bool:
    """Whether the span of a message would do nothing: nobody records, and its ``_meta`` brings no trace."""
    if not silent():
        return False
    meta = params.get("_meta") if params else None
    if not meta:
        return True
    return all(key == "progressToken" or key.startswith("io.modelcontextprotocol/") for key in meta)


async def _by_property(runner: _Runner, call: Any, method: str, params: Any) -> Any:
    return await runner.on_request(call, method, params)


# A method of the class costs less than the cached property that leads to it.
_serve = getattr(ServerRunner, "_on_request", _by_property)


class _Bond:
    """What a session of the handshake era has at the SDK."""

    __slots__ = ("active", "connection", "over", "runner")

    def __init__(self, runner: _Runner) -> None:
        self.runner = runner
        self.connection = runner.connection
        self.active = 0
        """Handlers that have not ended."""
        self.over = False


class _LineSession(ServerSession):
    """A line connection. What comes behind an ``initialize`` that is not answered yet waits for it, as in the SDK."""

    opening: Any = None
    bond: _Bond | None = None
    modern_outbound: Any = None

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        if self.opening is not None and envelope.protocol_version is None and envelope.client_capabilities is None:
            return self.server.tables.waiting
        return super().classify(envelope, sink)

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        if self.opening is not None:
            self.opening.add_done_callback(lambda _: super(_LineSession, self).notify(envelope, sink))
        else:
            super().notify(envelope, sink)


class SdkHost(McpHost):
    """The host of one server of mcp 2.x; see :func:`headrace.integrations.mcp_sdk.host_of`.

    ``http_options`` are what its settings mean for an HTTP endpoint: what
    :func:`headrace.transports.http_server.serve_http` takes beside the address.
    """

    tees = True

    def __init__(
        self,
        server: Any,
        *,
        limits: Any = None,
        initialization_options: Any = None,
        http_options: Mapping[str, Any] | None = None,
        closes_streams: bool = False,
        routes: Any = None,
    ) -> None:
        self.app = app = lowlevel_of(server)
        super().__init__(
            self._initialize,
            name=app.name,
            lifespan=lambda host: app.lifespan(app),
            limits=limits,
            on_session_end=self._session_over,
            on_ending=self._ending,
        )
        self.http_options: dict[str, Any] = dict(http_options or {})
        self._initialization_options = initialization_options
        self._json_only = bool(self.http_options.get("json_only"))
        self._closes_streams = closes_streams
        self._routes = routes
        self._mirrored = MirroredHeaders(server, app)
        self._listens: dict[Any, dict[Any, Any]] = {}
        self._closers: set[Any] = set()
        self.tables.waiting = Revision(
            self.tables.handshake.name, modern=False, fallback=AnyMethod(self._when_open, cancellable=True)
        )

    def new_session(self) -> tuple[ServerSession, Mux]:
        session = _LineSession(self, self.tables)
        mux = Mux(self.runtime, session, self.limits)
        mux.tees = True
        session.bind(mux)
        self.sessions.add(session)
        return session, mux

    # --- requests ------------------------------------------------------------------------------------

    def call(self, exchange: Exchange) -> Any:
        if exchange.revision.modern:
            return self._single(exchange)
        gate = exchange.mux.gate
        if isinstance(gate, ServerSession):
            return self._in_session(exchange, gate)
        return self._single(exchange)

    def _metadata(self, sink: Any, exchange: Exchange | None, session: Any) -> ServerMessageMetadata:
        request = HostedRequest(sink, exchange, sink.principal, self._routes)
        if not self._closes_streams or not isinstance(session, StreamingSession) or not session.primes:
            return ServerMessageMetadata(request_context=request)

        async def close_sse_stream() -> None:
            sink.close_stream()

        async def close_standalone_sse_stream() -> None:
            stream: Any = session.sink
            if stream is not None:
                stream.end_stream()

        return ServerMessageMetadata(
            request_context=request,
            close_sse_stream=None if exchange is None else close_sse_stream,
            close_standalone_sse_stream=None if exchange is None else close_standalone_sse_stream,
        )

    async def _single(self, exchange: Exchange) -> Any:
        """A request that stands for itself: of the modern era, or of a host that keeps no sessions."""
        method: str = exchange.method  # type: ignore[assignment]
        params = params_of(exchange)
        sink = exchange.sink
        modern = exchange.revision.modern
        over_http = isinstance(sink, HttpExchange)
        metadata = self._metadata(sink, exchange, None) if over_http else None
        _enter(sink.principal)
        call = ModernCall(exchange, metadata)
        connection = None
        with CancelScope() as scope:
            call.within(scope)
            try:
                connection = self._connection(exchange, params, over_http)
                if over_http and modern and method == "tools/call":
                    await self._mirrored.check(self, call, connection, params)
                runner = self._runner(connection)
                if method == _LISTEN:
                    return await self._listening(runner, call, params)
                runner.quiet = _spanless(params)
                return encode(await _serve(runner, call, method, params))
            except RpcError:
                raise
            except Exception as exc:
                if modern:
                    raise rpc_error(modern_error_data(exc), over_http=over_http) from None
                raise handshake_error(exc, method) from None
            finally:
                call.over()
                if connection is not None and in_use(connection):
                    await aclose_shielded(connection)

    def _runner(self, connection: Connection) -> _Runner:
        return _Runner(self.app, connection, self.lifespan_state, init_options=self._initialization_options)

    def _connection(self, exchange: Exchange, params: Any, over_http: bool) -> Connection:
        if not exchange.revision.modern:
            return BornReady(exchange.revision.name, None, None)
        meta = params["_meta"]
        return BornReady(
            meta[PROTOCOL_VERSION_META_KEY],
            meta.get(CLIENT_INFO_META_KEY),
            meta.get(CLIENT_CAPABILITIES_META_KEY),
            None if over_http else self._line_outbound(exchange.mux, exchange.sink),
        )

    def _line_outbound(self, mux: Mux, sink: Sink) -> Any:
        session = mux.gate
        if session.modern_outbound is None:
            session.modern_outbound = LineOutbound(mux, sink)
        return session.modern_outbound

    async def _listening(self, runner: _Runner, call: ModernCall, params: Any) -> Any:
        gate = call.exchange.mux.gate
        call.exchange.release()
        listens = self._listens.setdefault(gate, {})
        listens[call] = None
        try:
            return encode(await runner.on_request(call, _LISTEN, params))
        finally:
            listens.pop(call, None)
            if not listens:
                self._listens.pop(gate, None)

    def _ending(self, gate: Any) -> None:
        """A connection or a listener closes: its listens get their result and end (SF-74)."""
        for call in list(self._listens.get(gate, ())):
            meta = {_SUBSCRIPTION_ID: call.request_id, "io.modelcontextprotocol/serverInfo": self.app.server_info_stamp}
            call.exchange.answer({"resultType": "complete", "_meta": meta})
            call.cancel()

    # --- sessions of the handshake era ---------------------------------------------------------------

    def _bond(self, session: Any) -> _Bond:
        bond: _Bond | None = getattr(session, "bond", None)
        if bond is None:
            connection = Connection.for_loop(SessionOutbound(session), session_id=session.id)
            session.bond = bond = _Bond(self._runner(connection))
        return bond

    async def _in_session(self, exchange: Exchange, session: Any) -> Any:
        method: str = exchange.method  # type: ignore[assignment]
        params = params_of(exchange)
        sink = exchange.sink
        bond = self._bond(session)
        over_http = isinstance(sink, HttpExchange)
        metadata = self._metadata(sink, exchange, session) if over_http else None
        _enter(sink.principal)
        call = HandshakeCall(exchange, metadata, not (over_http and self._json_only))
        if over_http:
            exchange.cancel_error = _CANCELLED
        bond.active += 1
        with CancelScope() as scope:
            call.within(scope)
            try:
                runner = bond.runner
                runner.quiet = _spanless(params)
                return encode(await _serve(runner, call, method, params))
            except Exception as exc:
                raise handshake_error(exc, method) from None
            finally:
                call.over()
                bond.active -= 1
                if bond.over and not bond.active:
                    self._close(bond)

    async def _initialize(self, method: str, params: Any, plain: PlainExchange) -> Any:
        exchange = plain.exchange
        assert exchange is not None
        session = plain.session
        sink = exchange.sink
        metadata = self._metadata(sink, exchange, session) if isinstance(sink, HttpExchange) else None
        _enter(sink.principal)
        if session is None:
            connection = BornReady(exchange.revision.name, None, None)
            runner = self._runner(connection)
        else:
            runner = self._bond(session).runner
        if isinstance(session, _LineSession):
            session.opening = self.runtime.create_future()
        try:
            return await runner.on_request(HandshakeCall(exchange, metadata, False), method, params)
        except Exception as exc:
            raise handshake_error(exc, method) from None
        finally:
            if isinstance(session, _LineSession):
                # Its done callbacks run in the next turn of the loop: the answer makes the session first.
                session.opening.set_result(None)
                session.opening = None
            if session is None and in_use(runner.connection):
                await aclose_shielded(runner.connection)

    async def _when_open(self, exchange: Exchange) -> Any:
        """A request that came behind an ``initialize`` which was not answered yet."""
        session: Any = exchange.mux.gate
        await session.opening
        await asyncio.sleep(0)
        if not session.initialized:
            raise RpcError(INVALID_REQUEST, "the handshake before this request failed")
        return await self._in_session(exchange, session)

    def notified(self, session: ServerSession, envelope: Envelope, sink: Sink) -> None:
        method = envelope.method or ""
        if method == "notifications/initialized":
            session.ready = True
        mux = session.mux
        if mux is None:
            return
        try:
            params = None if envelope.params is None else decode(envelope.params)
        except (ValueError, RecursionError):
            _log.warning("dropped %r: its params cannot be read", method)
            return
        metadata = self._metadata(sink, None, session) if isinstance(sink, HttpExchange) else None
        if session.initialized or isinstance(session, StreamingSession):
            runner = self._bond(session).runner
            call = TellingCall(runner.connection.outbound, metadata)
            self.spawn(self._tell(runner, call, method, params, sink.principal))
        else:
            outbound = self._line_outbound(mux, sink)
            connection = BornReady(LATEST_MODERN_VERSION, None, None, outbound)
            call = TellingCall(outbound, None)
            self.spawn(self._tell(self._runner(connection), call, method, params, sink.principal, alone=True))

    def told_alone(self, envelope: Envelope, sink: Sink, version: str) -> None:
        """A notification of the handshake era to a host that keeps no sessions."""
        method = envelope.method or ""
        params = None if envelope.params is None else decode(envelope.params)
        connection = BornReady(version, None, None)
        metadata = self._metadata(sink, None, None) if isinstance(sink, HttpExchange) else None
        call = TellingCall(connection.outbound, metadata)
        self.spawn(self._tell(self._runner(connection), call, method, params, sink.principal, alone=True))

    async def _tell(
        self, runner: _Runner, call: TellingCall, method: str, params: Any, caller: Any, *, alone: bool = False
    ) -> None:
        """Serves a notification; ``alone``: it stands for itself."""
        _enter(caller)
        try:
            await runner.on_notify(call, method, params)
        finally:
            if alone and in_use(runner.connection):
                await aclose_shielded(runner.connection)

    # --- the end -------------------------------------------------------------------------------------

    def _session_over(self, session: Any) -> None:
        bond: _Bond | None = getattr(session, "bond", None)
        if bond is None:
            return
        session.bond = None
        bond.over = True
        if not bond.active:
            self._close(bond)

    def _close(self, bond: _Bond) -> None:
        """The last handler of a session that is over has ended."""
        if in_use(bond.connection):
            task = self.runtime.spawn(aclose_shielded(bond.connection))
            if not task.done():
                self._closers.add(task)
                task.add_done_callback(self._closers.discard)

    async def _stop(self) -> None:
        if self._closers:
            with shielded():
                await asyncio.wait(list(self._closers), timeout=_CLOSING)
        await super()._stop()


def _enter(principal: Any) -> None:
    """What ``get_access_token`` gives in the context of a message."""
    if type(principal) is Caller:
        auth_context_var.set(principal.user)
