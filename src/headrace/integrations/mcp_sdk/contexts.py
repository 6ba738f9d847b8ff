"""What a handler of the SDK gets with a message: the ``DispatchContext`` of :class:`HeadraceDispatcher`.

For a request it is also what the mux waits for: it has the few methods of a future that an exchange calls, so that a
handler's answer is written in the step in which the handler returns, and a cancel of the peer becomes a cancel scope's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import anyio
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp_types import CONNECTION_CLOSED

from headrace.errors import RpcError
from headrace.integrations.mcp_sdk.json import encode
from headrace.integrations.mcp_sdk.scopes import CancelScope
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.transports.plain.exchange import decode

if TYPE_CHECKING:
    from mcp.shared.dispatcher import CallOptions
    from mcp.shared.message import MessageMetadata
    from mcp.shared.transport_context import TransportContext

    from headrace.integrations.mcp_sdk.dispatcher import HeadraceDispatcher
    from headrace.mux import Exchange

__all__ = ("MessageContext", "RequestContext", "closed_error", "rpc_error")

logger = logging.getLogger("headrace.mcp_sdk")


def closed_error() -> MCPError:
    """What calls fail with that the end of the connection leaves without an answer."""
    return MCPError(code=CONNECTION_CLOSED, message="Connection closed")


class MessageContext:
    """A notification's context."""

    __slots__ = ("_cancel_event", "_cancelled", "_dispatcher", "message_metadata", "transport")

    def __init__(
        self, dispatcher: HeadraceDispatcher[Any], transport: TransportContext, metadata: MessageMetadata = None
    ) -> None:
        self.transport = transport
        self.message_metadata = metadata
        self._dispatcher = dispatcher
        self._cancelled = False
        self._cancel_event: anyio.Event | None = None

    @property
    def request_id(self) -> str | int | None:
        """None: a notification has no id."""
        return None

    @property
    def can_send_request(self) -> bool:
        """Whether the peer can be asked something."""
        return self.transport.can_send_request

    @property
    def cancel_requested(self) -> anyio.Event:
        """Set when the peer cancels this request."""
        event = self._cancel_event
        if event is None:
            event = self._cancel_event = anyio.Event()
            if self._cancelled:
                event.set()
        return event

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Sends a notification that belongs to this message."""
        await self._dispatcher.notify(method, params, opts)

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        """Asks the peer. Raises ``NoBackChannelError`` where it cannot be asked, else as the dispatcher's method."""
        if not self.can_send_request:
            raise NoBackChannelError(method)
        return await self._dispatcher._request(method, params, opts, self)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells progress; nobody asked for that of a notification."""


class RequestContext(MessageContext):
    """A request's context, and its handler's run."""

    __slots__ = (
        "_body", "_callback", "_closed", "_error", "_exchange", "_params", "_request_id", "_scope", "_started",
        "method", "task",
    )  # fmt: skip

    def __init__(
        self,
        dispatcher: HeadraceDispatcher[Any],
        transport: TransportContext,
        exchange: Exchange,
        method: str,
        params: Any,
        metadata: MessageMetadata = None,
    ) -> None:
        super().__init__(dispatcher, transport, metadata)
        self.method = method
        self.task: asyncio.Task[Any] | None = None
        self._exchange = exchange
        self._params = params
        self._request_id: str | int | None = None
        self._closed = False
        self._started = False
        self._scope: CancelScope | None = None
        self._callback: Callable[[Any], object] | None = None
        self._body: bytes | None = None
        self._error: BaseException | None = None

    @property
    def request_id(self) -> str | int | None:
        """The peer's id, with its JSON type."""
        if self._request_id is None:
            self._request_id = self._exchange.request_id
        return self._request_id

    @property
    def can_send_request(self) -> bool:
        """Whether the peer can be asked something: not once the request is over."""
        return self.transport.can_send_request and not self._closed

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        """Sends a notification that belongs to this request; dropped once the request is over."""
        if self._closed:
            logger.debug("dropped %s: the request is over", method)
            return
        await self._dispatcher._notify(method, params, opts, self)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells progress, where the peer has asked for it."""
        raw = self._exchange.progress_token
        if raw is None:
            return
        params: dict[str, Any] = {"progressToken": decode(raw), "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        await self.notify("notifications/progress", params)

    # --- the handler ---------------------------------------------------------------------------------

    async def run(self) -> bytes | None:
        """Calls the handler. Gives the encoded result or raises the answer when it never had to wait; else what
        came of it goes to the mux by the callback."""
        dispatcher = self._dispatcher
        interrupt: BaseException | None = None
        try:
            with CancelScope() as scope:
                self._scope = scope
                if self._cancelled and dispatcher._interrupts:
                    scope.cancel()
                try:
                    result = await dispatcher._on_request(self, self.method, self._params)  # type: ignore[misc]
                finally:
                    self._closed = True
                if not self._cancelled:
                    self._body = encode(result)
            if scope.cancelled_caught:
                self._error = RpcError(CONNECTION_CLOSED, "Connection closed")
        except Exception as exc:
            self._error = self._error_of(exc)
        except BaseException as exc:
            interrupt = exc
            self._error = RpcError(CONNECTION_CLOSED, "Connection closed")
        self._scope = None
        if self._callback is not None or self.task is not None:
            callback, self._callback = self._callback, None
            if callback is not None:
                callback(self)
            dispatcher._settled(self)
            if interrupt is not None:
                raise interrupt
            return None
        if interrupt is not None:
            raise interrupt
        if self._error is not None:
            raise self._error
        return self._body

    def _error_of(self, exc: Exception) -> Exception:
        if isinstance(exc, RpcError):
            return exc
        data = handler_exception_to_error_data(exc)
        if data is not None:
            return rpc_error(data)
        logger.error("handler for %r raised", self.method, exc_info=exc)
        self._dispatcher._handler_failed(exc)
        return RpcError(0, str(exc))

    def stop(self) -> None:
        """The dispatcher ends: the handler is cancelled, and the request answered with that."""
        if self._scope is not None:
            self._scope.cancel()
        elif not self._started:
            self._started = True
            self._error = RpcError(CONNECTION_CLOSED, "Connection closed")
            callback, self._callback = self._callback, None
            if callback is not None:
                callback(self)
            self._dispatcher._settled(self)

    # --- what the mux asks of a future ---------------------------------------------------------------

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """The exchange wants to know the outcome."""
        self._callback = callback

    def cancel(self) -> None:
        """The peer gave the request up, or the connection is gone. It is not answered any more."""
        if not self._dispatcher._mux.closed:  # type: ignore[union-attr]
            self._cancelled = True
            if self._cancel_event is not None:
                self._cancel_event.set()
            if not self._dispatcher._interrupts:
                return
        self.stop()

    def cancelled(self) -> bool:
        """False: an outcome that is not to be sent is dropped by the exchange."""
        return False

    def exception(self) -> BaseException | None:
        """What the request is answered with, when that is an error."""
        return self._error

    def result(self) -> bytes | None:
        """The encoded result; raises the error that is answered."""
        if self._error is not None:
            raise self._error
        return self._body


def rpc_error(error: Any) -> RpcError:
    """The answer that an ``ErrorData`` of the SDK stands for."""
    data = error.data
    if data is not None:
        try:
            encode(data)
        except Exception:
            return RpcError(INTERNAL_ERROR, "internal error")
    return RpcError(error.code, error.message, data)
