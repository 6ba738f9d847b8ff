"""The host of a server of mcp 1.x: one run of it per connection and HTTP session, or per request."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from mcp.shared.message import ServerMessageMetadata
from mcp.shared.version import SUPPORTED_PROTOCOL_VERSIONS

from headrace.errors import RpcError, internal_error
from headrace.integrations.mcp_sdk_1.context import request_of
from headrace.integrations.mcp_sdk_1.messages import METHODS
from headrace.integrations.mcp_sdk_1.session import RunningServer
from headrace.jsonrpc import LATEST_HANDSHAKE, METHOD_NOT_FOUND, R4, UNSUPPORTED_VERSION
from headrace.limits import Limits
from headrace.mux import AnyMethod, Mux, Revision
from headrace.protocol.session import ServerSession
from headrace.transports.plain import McpHost, PlainExchange

if TYPE_CHECKING:
    from headrace.mux import Sink
    from headrace.wire import Envelope

__all__ = ("StreamHost",)


class _LineSession(ServerSession):
    """A line connection. What comes behind an ``initialize`` that is not answered yet goes to the server as it is: it
    reads one message after the other."""

    running: RunningServer | None = None
    opening = False

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        if self.opening and envelope.protocol_version is None and envelope.client_capabilities is None:
            return self.server.waiting
        return super().classify(envelope, sink)


class StreamHost(McpHost):
    """Hosts a low-level ``mcp.server.lowlevel.Server`` of mcp 1.x.

    :param server: the server.
    :param lifespan: entered once around everything, as in :class:`McpHost`; the server's own lifespan runs with
        each run of it.
    :param options: gives the ``InitializationOptions`` of a session; the server's own by default.
    :param raise_exceptions: as that of ``Server.run``.
    :param around: ``around(plain)`` is called for each run of the server, in the context of that run: what it sets,
        handlers see. ``plain`` is the opening request, None for line connections.
    :param app: what handlers find as ``request.app``.
    :param closes_streams: handlers may end the connection of a stream that clients can resume, as under the SDK's
        host where there is an event store.
    :param http_options: what :func:`headrace.transports.http_server.serve_http` takes for this server, beside the
        address.
    """

    def __init__(
        self,
        server: Any,
        *,
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
        options: Callable[[bool], Any] | None = None,
        raise_exceptions: bool = False,
        around: Callable[[PlainExchange | None], Any] | None = None,
        app: Any = None,
        closes_streams: bool = False,
        http_options: Mapping[str, Any] | None = None,
        limits: Limits | None = None,
    ) -> None:
        super().__init__(
            self._requested,
            on_notify=self._notified,
            on_session_end=self._ended,
            lifespan=lifespan,
            limits=limits,
            name=getattr(server, "name", None) or "server",
        )
        self.server = server
        self._app = app
        self._closes_streams = closes_streams
        self.http_options = dict(http_options or {})
        self.failure: BaseException | None = None
        """What ended the run of a line connection, such as an exception of the server's lifespan."""
        self._options = options or (lambda lines: server.create_initialization_options())
        self._raise = raise_exceptions
        self._around = around
        self._context: contextvars.Context | None = None
        self.waiting = Revision(LATEST_HANDSHAKE, modern=False, fallback=AnyMethod(self.call))

    async def _start(self) -> None:
        await super()._start()
        # What lifespans set is seen by all that runs inside of them.
        self._context = contextvars.copy_context()

    def _stopped(self) -> None:
        super()._stopped()
        self._context = None

    # --- runs of the server ------------------------------------------------------------------------------

    def new_session(self) -> tuple[ServerSession, Mux]:
        session = _LineSession(self, self.tables)
        mux = Mux(self.runtime, session, self.limits)
        session.bind(mux)
        self.sessions.add(session)
        session.running = self._begin(session, None)
        return session, mux

    def _begin(self, session: ServerSession | None, plain: PlainExchange | None) -> RunningServer:
        assert self._context is not None
        context = self._context.copy()
        if plain is not None and plain.principal is not None:
            context.run(_adopt, contextvars.copy_context())  # what `authenticate` has set
        if self._around is not None:
            context.run(self._around, plain)
        loop = asyncio.get_running_loop()

        def spawn(coro: Coroutine[Any, Any, None]) -> Any:
            task = loop.create_task(coro, context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            return task

        server = self.server
        options = self._options(plain is None)

        def run(reader: Any, writer: Any, stateless: bool) -> Coroutine[Any, Any, None]:
            done: Coroutine[Any, Any, None] = server.run(
                reader, writer, options, raise_exceptions=self._raise, stateless=stateless
            )
            return done

        return RunningServer(
            session,
            run=run,
            spawn=spawn,
            metadata=self._metadata,
            report=self.runtime.report,
            on_over=self._over,
        )

    def _over(self, running: RunningServer, failure: BaseException | None) -> None:
        session = running.session
        if session is None or session.mux is None:
            return
        if session.id is None:
            self.failure = failure or self.failure
            if session.sink is not None:
                session.sink.abort()  # type: ignore[attr-defined]
        elif (store := getattr(session, "store", None)) is not None:
            store.end(session, "the hosted server ended the session")

    def _ended(self, session: ServerSession) -> None:
        running: RunningServer | None = getattr(session, "running", None)
        if running is not None:
            running.end()

    # --- messages ----------------------------------------------------------------------------------------

    def _requested(self, method: str, params: Any, plain: PlainExchange) -> Any:
        if plain.modern:
            # A server of 1.x knows no revision of this era: clients fall back to the handshake (VN-43).
            raise RpcError(
                UNSUPPORTED_VERSION,
                "unsupported protocol version",
                {"supported": list(SUPPORTED_PROTOCOL_VERSIONS), "requested": plain.revision},
                http_status=400,
            )
        if method not in METHODS:
            raise RpcError(METHOD_NOT_FOUND, "Method not found")
        session = plain.session
        if method == "initialize":
            return self._opening(params, plain)
        if session is None:
            self._begin(None, plain).request(method, params, plain)
            return None
        running: RunningServer | None = getattr(session, "running", None)
        if running is None:
            raise internal_error()
        running.request(method, params, plain)
        return None

    async def _opening(self, params: Any, plain: PlainExchange) -> Any:
        exchange: Any = plain.exchange
        session: Any = plain.session
        if session is None:
            return await self._begin(None, plain).opening(params, plain)
        running: RunningServer | None = getattr(session, "running", None)
        if running is None:
            running = session.running = self._begin(session, plain)
            session.store = exchange.mux.gate.sessions
        session.opening = True
        try:
            return await running.opening(params, plain)
        finally:
            session.opening = False

    def _notified(self, method: str, params: Any, plain: PlainExchange) -> None:
        running: RunningServer | None = getattr(plain.session, "running", None)
        if running is not None:
            running.notified(method, params, plain)

    def _metadata(self, plain: PlainExchange) -> ServerMessageMetadata | None:
        request = request_of(plain, self._app)
        if request is None:
            return None
        session: Any = plain.session
        if not self._closes_streams or session is None or plain.exchange is None or plain.revision < R4:
            return ServerMessageMetadata(request_context=request)
        sink = plain.exchange.sink

        async def close_stream() -> None:
            sink.close_stream()

        async def close_standalone() -> None:
            for stream in list(session.streams):
                stream.end_stream()

        return ServerMessageMetadata(
            request_context=request, close_sse_stream=close_stream, close_standalone_sse_stream=close_standalone
        )


def _adopt(context: contextvars.Context) -> None:
    """Sets here what is set in ``context``."""
    for variable, value in context.items():
        variable.set(value)
