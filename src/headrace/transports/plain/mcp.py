"""MCP without a protocol layer: eras, sessions, headers and streams are kept here, methods are the handler's.

``initialize`` reaches the handler like any other method; the ``protocolVersion`` of its result is what the
session speaks from then on. Everything of requirements sections 3 to 6 that concerns the carrying of messages
holds as for a :class:`headrace.Server`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Unpack

from headrace.errors import internal_error
from headrace.jsonrpc import LATEST_HANDSHAKE, R5
from headrace.mux import AnyMethod, FunctionHandler, Mux, Revision
from headrace.protocol.session import Hello, ServerSession
from headrace.protocol.tables import SERVED_HANDSHAKES
from headrace.transports.plain.exchange import PlainExchange, decode, encode, params_of
from headrace.transports.plain.host import Host

if TYPE_CHECKING:
    from headrace.mux import Exchange, Sink
    from headrace.transports.asgi import AsgiApp
    from headrace.transports.http_options import HttpOptions
    from headrace.wire import Envelope

__all__ = ("McpHost",)


class _Tables:
    """One Revision per revision, each with the same handler for every method."""

    def __init__(self, host: McpHost) -> None:
        served = AnyMethod(host.call)
        ping = AnyMethod(host.call, urgent=True)
        opening = FunctionHandler(host.open_session, urgent=True, cancellable=False)
        opening.method = "initialize"
        self.modern = Revision(R5, modern=True, fallback=served)
        self.by_name = {name: Revision(name, modern=False, fallback=served) for name in SERVED_HANDSHAKES}
        self.detached = {name: Revision(name, modern=False, fallback=served) for name in SERVED_HANDSHAKES}
        for revision in (self.modern, *self.by_name.values(), *self.detached.values()):
            revision.requests[b"ping"] = ping
        self.handshake = Revision(
            LATEST_HANDSHAKE, modern=False, requests={b"initialize": opening, b"ping": ping}
        )


class _NoListens:
    """Listens are requests like all others here; the handler ends its own."""

    def __init__(self, host: McpHost) -> None:
        self._host = host

    def assume_changed(self, session: Any) -> None:
        """What the handler's lists are is not known here."""

    def end(self, gate: Any) -> None:
        if self._host.on_ending is not None:
            self._host.on_ending(gate)


class McpHost(Host):
    """A plain handler behind every MCP transport, both eras. Parameters as :class:`Host`, and:

    :param on_session_end: told of each session that is over.
    :param on_ending: told of each gate whose connection begins to close, before requests in flight are waited
        for: the moment to end subscriptions.
    :param header_parameters: ``header_parameters(tool)`` gives the arguments that the tool mirrors as
        ``Mcp-Param-*``, as (header, path, schema) each (HN-25).
    """

    tees = False
    """Whether :meth:`notified` hears of the notifications too that cancel requests and tell their progress."""

    def __init__(
        self,
        handler: Any,
        *,
        on_session_end: Callable[[ServerSession], Any] | None = None,
        on_ending: Callable[[Any], Any] | None = None,
        header_parameters: Callable[[str], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(handler, **options)
        self.on_session_end = on_session_end
        self.on_ending = on_ending
        self._header_parameters = header_parameters
        self.tables: Any = _Tables(self)
        self.hub = _NoListens(self)
        self.sessions: set[ServerSession] = set()
        self.tools_with_headers: Any = None
        self._sealer: Any = None

    @property
    def sealer(self) -> Any:
        """Seals session ids (:mod:`headrace.protocol.sealed_sessions`)."""
        if self._sealer is None:
            from headrace.protocol.seal import Sealer

            self._sealer = Sealer()
        return self._sealer

    def new_session(self) -> tuple[ServerSession, Mux]:
        session = ServerSession(self, self.tables)
        mux = Mux(self.runtime, session, self.limits)
        mux.tees = self.tees
        session.bind(mux)
        self.sessions.add(session)
        return session, mux

    def session_of(self, gate: Any, sink: Sink) -> ServerSession | None:
        return gate if isinstance(gate, ServerSession) else None

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """The host as an ASGI 3 application, see :class:`headrace.transports.asgi.AsgiApp`."""
        from headrace.transports.asgi import AsgiApp

        return AsgiApp(self, **options)

    # --- what the protocol layer asks ----------------------------------------------------------------

    def header_parameters(self, name: str) -> Any:
        """The mirrored arguments of a tool."""
        return () if self._header_parameters is None else self._header_parameters(name)

    def notified(self, session: ServerSession, envelope: Envelope, sink: Sink) -> None:
        """A notification of a client's session."""
        if envelope.method == "notifications/initialized":
            session.ready = True
        if session.mux is not None:
            self.told(session.mux, envelope, sink, session)

    def session_ended(self, session: ServerSession) -> None:
        """A connection or session is gone."""
        self.sessions.discard(session)
        if self.on_session_end is not None:
            self.on_session_end(session)

    def open_session(self, exchange: Exchange) -> Any:
        """``initialize``: the handler answers, and its answer begins the session."""
        session = exchange.mux.gate.begin(exchange)
        kept = session if isinstance(session, ServerSession) else None
        plain = PlainExchange("initialize", exchange.mux, exchange.sink, exchange, kept)
        return self._opened(session, exchange.params or b"{}", plain, params_of(exchange))

    async def _opened(self, session: Any, raw: bytes, plain: PlainExchange, params: Any) -> Any:
        result = self.handler("initialize", raw if self.raw else params, plain)
        if hasattr(result, "__await__"):
            result = await result
        value = result
        if not isinstance(value, Mapping):
            value = decode(result if isinstance(result, bytes) else encode(result))
        revision = self.tables.by_name.get(value.get("protocolVersion"))
        if revision is None:
            self.log.error("initialize was answered with protocolVersion %r", value.get("protocolVersion"))
            raise internal_error()
        session.opened(revision, Hello(revision, raw))
        return result
