"""The SDK's ``Dispatcher`` on headrace's multiplexer, for both ends of any line connection.

Frames are scanned where they are read; a handler starts in the same call stack, as an asyncio task of its own inside of
one cancel scope, and its answer is written in the step in which it returns. On the way of a request there is no stream
of objects, no message model and no task group: params are decoded once and results encoded once.
"""

from __future__ import annotations

import asyncio
import contextvars
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

import anyio
from mcp.shared.dispatcher import as_request_id, coerce_request_id, run_notify_intercept
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR, REQUEST_TIMEOUT
from typing_extensions import TypeVar

from headrace.errors import ConnectionClosed, HeadraceError, RemoteProtocolError, RequestTimeout, RpcError
from headrace.integrations.mcp_sdk.contexts import MessageContext, RequestContext, closed_error
from headrace.integrations.mcp_sdk.json import encode
from headrace.integrations.mcp_sdk.scopes import CancelScope, checkpoint_if_cancelled
from headrace.integrations.mcp_sdk.tracing import KEEPS_META, silent, span
from headrace.jsonrpc import R5
from headrace.limits import DEFAULT, Limits
from headrace.mux import AnyMethod, Gate, Mux, Revision
from headrace.transports.plain.exchange import decode, params_of
from headrace.transports.runtime import make_runtime

if TYPE_CHECKING:
    from anyio.abc import TaskStatus
    from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest
    from mcp.shared.message import MessageMetadata

    from headrace.integrations.mcp_sdk.links import Channel, Opener
    from headrace.mux import Exchange, PendingCall, Sink
    from headrace.wire import Envelope

__all__ = ("HeadraceDispatcher",)

logger = logging.getLogger("headrace.mcp_sdk")

_BURST = 16  # notifications that a handler may send before other tasks get a turn

TransportT = TypeVar("TransportT", bound=TransportContext, default=TransportContext)


class _Mux(Mux):
    """Leaves what a call that is late tells its peer to the caller, who knows whether it may be cancelled."""

    def expire(self, call: PendingCall, now: float) -> None:
        if not call.future.done():
            call.future.set_exception(RequestTimeout(call.method))


class _Gate(Gate):
    def __init__(self, dispatcher: HeadraceDispatcher[Any], revision: Revision) -> None:
        self.dispatcher = dispatcher
        self.revision = revision

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        return self.revision

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        self.dispatcher._told(envelope)

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        self.dispatcher._unreadable(RemoteProtocolError(message, rpc_code=code))

    def ending(self) -> None:
        self.dispatcher._input_ended()

    def lost(self, reason: Any) -> None:
        self.dispatcher._end()


# The SDK's sessions offer what cannot be read to `on_stream_exception` of its own class alone, hence the base.
class HeadraceDispatcher(JSONRPCDispatcher[TransportT]):
    """The SDK's dispatcher contract over a headrace connection; one connection each, on asyncio or uvloop.

    :param opener: what it runs over, see :mod:`headrace.integrations.mcp_sdk.links`: ``links.command([...])``,
        ``links.stdio()``, ``links.unix(path)``, ``links.tcp(host, port)``, ``links.sock(...)``, ``links.pipes(...)``;
        :func:`memory_dispatchers` makes a connected pair. It is opened by :meth:`run`.
    :param transport_builder: gives a message's ``TransportContext``, of its metadata (None here).
    :param can_send_request: without a builder: whether handlers may ask the peer.
    :param peer_cancel_mode: ``"interrupt"`` cancels the handler of a request that the peer cancels, ``"signal"`` only
        sets ``ctx.cancel_requested``. Neither is answered.
    :param raise_handler_exceptions: what a handler raises unexpectedly ends :meth:`run`, once it is answered.
    :param inline_methods: requests that are answered before later messages are handled.
    :param on_stream_exception: told of input that is no message.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param drain: at the end of the peer's input let requests in flight be answered, for ``limits.drain_timeout``
        seconds, instead of cancelling them.
    """

    def __init__(
        self,
        opener: Opener,
        *,
        transport_builder: Callable[[MessageMetadata], TransportT] | None = None,
        can_send_request: bool = True,
        peer_cancel_mode: Literal["interrupt", "signal"] = "interrupt",
        raise_handler_exceptions: bool = False,
        inline_methods: frozenset[str] = frozenset(),
        on_stream_exception: Callable[[Exception], Awaitable[None]] | None = None,
        limits: Limits | None = None,
        drain: bool = False,
    ) -> None:
        self.on_stream_exception = on_stream_exception
        self._opener = opener
        self._limits = limits or DEFAULT
        self._builder = transport_builder
        self._transport: Any = TransportContext(kind="jsonrpc", can_send_request=can_send_request)
        self._interrupts = peer_cancel_mode == "interrupt"
        self._raises = raise_handler_exceptions
        self._inline_methods = inline_methods
        self._drain = drain
        self._mux: Mux | None = None
        self._channel: Channel | None = None
        self._ended: asyncio.Future[None] | None = None
        self._failures: list[Exception] = []
        self._on_request: OnRequest | None = None
        self._on_notify: OnNotify | None = None
        self._intercept: OnNotifyIntercept | None = None
        self._start: Callable[[Any], tuple[bool, Any]] | None = None
        self._context: contextvars.Context | None = None
        self._running = False
        self._closed = False
        self._busy: set[RequestContext] = set()
        self._others: dict[asyncio.Task[Any], CancelScope] = {}
        self._inline: RequestContext | None = None
        self._held: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._early: list[tuple[str, Mapping[str, Any] | None, CallOptions | None]] = []
        self._burst = 0

    # --- out ------------------------------------------------------------------------------------------

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Sends a request and gives its raw result.

        Raises ``MCPError``: the peer's error; REQUEST_TIMEOUT after ``opts["timeout"]`` seconds; CONNECTION_CLOSED
        when the connection is gone. RuntimeError before :meth:`run`, ValueError for a request id in use.
        """
        return await self._request(method, params, opts, None)

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Sends a notification; dropped when the connection is gone, kept until it is there before."""
        await self._notify(method, params, opts, None)

    async def _request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None, within: MessageContext | None
    ) -> dict[str, Any]:
        if self._closed:
            raise closed_error()
        if not self._running:
            raise RuntimeError("HeadraceDispatcher.send_raw_request called before run()")
        mux, channel = self._mux, self._channel
        assert mux is not None
        assert channel is not None
        if opts is None:
            opts = {}
        sink = within._exchange.sink if isinstance(within, RequestContext) else channel.sink
        # A caller that is cancelled already sends nothing; one whose peer does not read waits.
        await checkpoint_if_cancelled()
        while (drained := sink.wait_drained()) is not None:
            await drained
            if self._closed:
                raise closed_error()

        out = dict(params) if params is not None else {}
        meta = dict(out.get("_meta") or {})
        id = opts.get("request_id")
        on_progress = opts.get("on_progress")
        if on_progress is not None:
            meta["progressToken"] = mux.next_call_id if id is None else id
        timeout = opts.get("timeout")
        hints = within is None and ("resumption_token" in opts or "on_resumption_token" in opts)
        cancels = opts.get("cancel_on_abandon", True) and not hints
        call: PendingCall | None = None

        def send() -> PendingCall:
            if meta or KEEPS_META:
                out["_meta"] = meta
            else:
                out.pop("_meta", None)
            options = getattr(channel, "call_options", None)
            return mux.call(
                method,
                encode(out) if out or KEEPS_META else None,
                sink,
                decode=decode,
                timeout=0.0 if timeout is None else max(timeout, 1e-6),
                on_progress=None if on_progress is None else self._progress(on_progress),
                id=id,
                **(options(method, out, opts) if options is not None else {}),
            )

        try:
            if silent():
                call = send()
                result = await call.future
            else:
                with span(method, out.get("name"), mux.next_call_id if id is None else id, meta) as record:
                    call = send()
                    try:
                        result = await call.future
                    except RpcError as exc:
                        record(exc)
                        result = exc
        except RpcError as exc:
            raise MCPError(exc.code, exc.message, exc.data) from None
        except RequestTimeout:
            assert call is not None
            self._abandon(call, f"timed out after {timeout}s" if cancels else None)
            raise MCPError(code=REQUEST_TIMEOUT, message=f"Request {method!r} timed out") from None
        except asyncio.CancelledError:
            if call is not None:
                self._abandon(call, "caller cancelled" if cancels else None)
            raise
        except ConnectionClosed:
            raise closed_error() from None
        except HeadraceError as exc:
            translate = getattr(channel, "error_of", None)
            raise (translate or _error_of)(exc) from exc
        if isinstance(result, RpcError):
            raise MCPError(result.code, result.message, result.data)
        if type(result) is not dict:
            raise MCPError(INTERNAL_ERROR, f"the result of {method} is no object")
        return result

    @staticmethod
    def _abandon(call: PendingCall, reason: str | None) -> None:
        if reason is None:
            call.fail(RequestTimeout(call.method))
        else:
            call.cancel(reason)

    def _progress(self, on_progress: Any) -> Callable[[float, Any, Any], None]:
        def progressed(progress: float, total: float | None, message: str | None) -> None:
            total = None if total is None else float(total)
            self._aside("a progress callback raised", on_progress, float(progress), total, message)

        return progressed

    async def _notify(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None, within: RequestContext | None
    ) -> None:
        if self._closed:
            logger.debug("dropped %s: the dispatcher is closed", method)
            return
        channel, mux = self._channel, self._mux
        if channel is None or mux is None:
            self._early.append((method, params, opts))
            return
        await checkpoint_if_cancelled()
        body = None if params is None else encode(params)
        if within is not None:
            sink = within._exchange.sink
            told = within._exchange.tell(method.encode(), body)
        else:
            sink = channel.sink
            told = mux.notify(method.encode(), body, sink)
        if not told:
            logger.debug("dropped %s: it cannot be carried", method)
        elif (drained := sink.wait_drained()) is not None:
            await drained
        else:
            self._burst += 1
            if self._burst >= _BURST:
                self._burst = 0
                await asyncio.sleep(0)

    # --- the run --------------------------------------------------------------------------------------

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Opens the connection and serves it until it ends; once only.

        Cancelling it, and the end of the connection, cancel the handlers that still run; it returns when they have
        ended. Raises what opening raises, and an ExceptionGroup with what handlers raised if that is wanted.
        """
        if self._ended is not None:
            raise RuntimeError("a dispatcher runs once")
        if self._closed:
            task_status.started()
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError("HeadraceDispatcher runs on asyncio, and on anyio over it") from None
        self._ended = loop.create_future()
        self._on_request, self._on_notify, self._intercept = on_request, on_notify, on_notify_intercept
        self._context = contextvars.copy_context()
        runtime = make_runtime(self._limits, logger)
        self._start = runtime.spawn.__self__.start_now  # type: ignore[attr-defined]
        served = AnyMethod(self._serve)
        revision = Revision("", modern=False, fallback=served)
        mux = self._mux = _Mux(runtime, _Gate(self, revision), self._limits)
        mux.tees = mux.chosen = True
        mux.current = revision
        mux.modern = Revision(R5, modern=True, fallback=served)
        try:
            channel = self._channel = await self._opener(mux, self._limits)
            kind = getattr(channel, "kind", "jsonrpc")
            self._transport = TransportContext(kind=kind, can_send_request=self._transport.can_send_request)
            early, self._early = self._early, []
            for note in early:
                await self.notify(*note)
            self._running = not self._closed
            task_status.started()
            await self._ended
        finally:
            self._running = False
            self._closed = True
            with CancelScope(shield=True):
                await self._finish(mux)
        if self._failures:
            raise ExceptionGroup("unhandled errors in handlers", self._failures)

    def close(self) -> None:
        """Ends the connection: handlers that still run are cancelled, and :meth:`run` returns."""
        self._end()

    def _end(self) -> None:
        self._running = False
        self._closed = True
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def _input_ended(self) -> None:
        """The peer sends nothing more: no answers either."""
        self._running = False
        self._closed = True
        self._fail_calls()
        if not self._drain:
            self._end()

    def _fail_calls(self) -> None:
        if self._mux is not None:
            for call in list(self._mux.pending.values()):
                call.fail(ConnectionClosed("the connection was closed"))

    async def _finish(self, mux: Mux) -> None:
        mux.draining = True
        self._fail_calls()
        try:
            self._held.clear()
            while self._busy or self._others:
                tasks: list[asyncio.Task[Any]] = list(self._others)
                for scope in list(self._others.values()):
                    scope.cancel()
                for context in list(self._busy):
                    context.stop()
                    if context.task is not None:
                        tasks.append(context.task)
                if tasks:
                    await asyncio.wait(tasks)
        finally:
            try:
                if self._channel is not None:
                    await self._channel.close()
            finally:
                mux.close()

    # --- in -------------------------------------------------------------------------------------------

    def _transport_for(self, metadata: MessageMetadata) -> Any:
        return self._transport if self._builder is None else self._builder(metadata)

    def _serve(self, exchange: Exchange) -> Any:
        """A request of the peer: its result, or the context that will have it."""
        method: str = exchange.method  # type: ignore[assignment]
        params = params_of(exchange)
        try:
            transport = self._transport_for(None)
        except Exception:
            logger.exception("transport_builder raised; rejecting request %r", exchange.request_id)
            raise RpcError(INTERNAL_ERROR, "transport context unavailable") from None
        context = RequestContext(self, transport, exchange, method, params)
        if self._inline is not None:
            self._busy.add(context)
            self._held.append((self._serve_held, (context,)))
            return context
        return self._begin(context)

    def _begin(self, context: RequestContext) -> Any:
        assert self._context is not None
        assert self._start is not None
        context._started = True
        finished, outcome = self._context.copy().run(self._start, context.run())
        if finished:
            return outcome
        context.task = outcome
        self._busy.add(context)
        if context.method in self._inline_methods:
            self._inline = context
        return context

    def _serve_held(self, context: RequestContext) -> None:
        if not context._started:
            self._begin(context)

    def _settled(self, context: RequestContext) -> None:
        """The handler of a request has ended that had to wait."""
        self._busy.discard(context)
        if context is self._inline:
            self._inline = None
            while self._held and self._inline is None:
                function, arguments = self._held.popleft()
                function(*arguments)

    def _told(self, envelope: Envelope) -> None:
        """A notification of the peer."""
        if self._inline is not None:
            self._held.append((self._hear, (envelope,)))
        else:
            self._hear(envelope)

    def _hear(self, envelope: Envelope) -> None:
        method, raw = envelope.method, envelope.params
        if self._closed or method is None:
            return
        try:
            params = None if raw is None else decode(raw)
        except (ValueError, RecursionError) as exc:
            self._unreadable(exc)
            return
        if params is not None and type(params) is not dict:
            self._unreadable(RemoteProtocolError(f"the params of {method} are no object"))
            return
        if method == "notifications/cancelled" and params is not None:
            self._cancel_alike(as_request_id(params.get("requestId")))
        if run_notify_intercept(self._intercept, method, params):
            return
        try:
            transport = self._transport_for(None)
        except Exception:
            logger.exception("transport_builder raised; dropping notification %r", method)
            return
        context = MessageContext(self, transport)
        self._aside(f"notification handler for {method!r} raised", self._on_notify, context, method, params)

    def _cancel_alike(self, id: str | int | None) -> None:
        """A cancel that names its request in another spelling ("7" for 7) means it all the same."""
        if id is None:
            return
        key = coerce_request_id(id)
        alike = [each for each in self._busy if coerce_request_id(each.request_id) == key]
        if not any(each._cancelled for each in alike):
            for context in alike:
                context._exchange.cancel()

    def _unreadable(self, exc: Exception) -> None:
        """Input that is no message."""
        if self.on_stream_exception is None or self._closed:
            logger.debug("refused: %s", exc)
        else:
            self._aside("on_stream_exception observer raised", self.on_stream_exception, exc)

    def _handler_failed(self, exc: Exception) -> None:
        if self._raises:
            self._failures.append(exc)
            asyncio.get_running_loop().call_soon(self._end)

    def _aside(self, failure: str, function: Any, *arguments: Any) -> None:
        """Runs what has no answer in a task of its own; what it raises is logged."""
        assert self._context is not None
        assert self._start is not None
        scope = CancelScope()
        finished, task = self._context.copy().run(self._start, _contained(scope, failure, function, arguments))
        if not finished:
            self._others[task] = scope
            task.add_done_callback(self._others.pop)


async def _contained(scope: CancelScope, failure: str, function: Any, arguments: tuple[Any, ...]) -> None:
    try:
        with scope:
            await function(*arguments)
    except Exception as exc:
        logger.error("%s", failure, exc_info=exc)


def _error_of(exc: HeadraceError) -> Exception:
    return MCPError(INTERNAL_ERROR, str(exc))
