"""A stream pair over Streamable HTTP: each request of the SDK is one call of the mux, under the SDK's own id.

Strategy: an answer is made a message by the call's decoder, in the call stack of the read that brought it; only
failures take the way over the call's future. Nothing of this runs in a task of its own unless an auth flow or a
hook wants to be asked.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from pydantic_core import to_json

from headrace.errors import HeadraceError
from headrace.integrations.mcp_sdk import messages
from headrace.integrations.mcp_sdk._streams import StreamMux
from headrace.integrations.mcp_sdk.client_errors import error_of
from headrace.integrations.mcp_sdk.require import types
from headrace.integrations.mcp_sdk.streams import ReadStream, WriteStream
from headrace.mux.gate import Gate
from headrace.transports.plain.exchange import decode
from headrace.transports.runtime import make_runtime

if TYPE_CHECKING:
    from headrace.integrations.mcp_sdk.client_http import Carrier
    from headrace.limits import Limits
    from headrace.mux import Sink

__all__ = ("HttpStreams",)

log = logging.getLogger("headrace.mcp")


class _Gate(Gate):
    answers_bad_input = False

    def __init__(self, read: ReadStream) -> None:
        self._read = read

    def stray(self, error: Any, sink: Sink) -> None:
        log.debug("an answer to no request was dropped")

    def lost(self, reason: Any) -> None:
        self._read.end()


class _Request:
    """One request of the SDK that is not answered yet."""

    __slots__ = ("call", "id", "kept", "method", "params", "session", "streams", "superseded", "task")

    def __init__(self, streams: HttpStreams, model: Any) -> None:
        self.streams = streams
        self.id = model.id
        self.method: str = model.method
        self.params = model.params
        self.kept: dict[str, Any] = {}
        """What goes out beside the message: parameters of :meth:`Carrier.options`."""
        self.call: Any = None
        self.task: asyncio.Task[Any] | None = None
        self.session = False
        self.superseded = False

    def answered(self, raw: bytes) -> None:
        """The result came: it is a message at once."""
        if self.superseded:
            return
        streams = self.streams
        result = decode(raw)
        if self.method == "initialize":
            streams.carrier.initialized(result)
        streams.read.put(messages.answer(self.id, result), len(raw))

    def settled(self, future: asyncio.Future[Any]) -> None:
        """The call is over."""
        if future.cancelled():
            self.streams.drop(self)
            return
        exc = future.exception()
        if exc is None:
            self.streams.drop(self)
        elif self.streams.carrier.bridge.disputes(exc):
            self.streams.authorize(self, exc)
        else:
            self.fail(exc)

    def fail(self, exc: BaseException) -> None:
        streams = self.streams
        streams.drop(self)
        if not self.superseded:
            code, text, data = error_of(exc, session=self.session)
            streams.read.put(messages.error_message(self.id, code, text, data))

    def give_up(self, reason: str | None) -> None:
        """Nobody waits any more."""
        self.superseded = True
        self.streams.drop(self)
        if self.task is not None:
            self.task.cancel()
        if self.call is not None:
            self.call.cancel(reason)


class HttpStreams:
    """``read`` and ``write`` of one session; :meth:`attach` puts a carrier below them."""

    carrier: Carrier

    def __init__(self, limits: Limits) -> None:
        self.read = ReadStream(self._hold)
        self.mux = StreamMux(make_runtime(limits, log), _Gate(self.read), limits, self._take, matches=True)
        self.write = WriteStream(self._send, lambda: self.mux.closed)
        self._requests: dict[Any, _Request] = {}

    def attach(self, carrier: Carrier) -> None:
        """What the messages go through."""
        self.carrier = carrier

    def close(self) -> None:
        """Nobody reads or writes any more."""
        self.read.close()
        self.write.close()
        for request in list(self._requests.values()):
            if request.task is not None:
                request.task.cancel()

    def drop(self, request: _Request) -> None:
        """A request is over."""
        if self._requests.get(request.id) is request:
            del self._requests[request.id]

    # --- in -------------------------------------------------------------------------------------------

    def _take(self, raw: bytes) -> None:
        self.read.put(messages.message_of(raw), len(raw))

    def _hold(self, held: bool) -> None:
        """Nobody takes what was received: the connections are not read, answers and streams alike."""
        for conn in list(self.carrier.channel.pool.conns):
            transport = conn.transport
            if transport is not None and not transport.is_closing():
                if held:
                    transport.pause_reading()
                else:
                    transport.resume_reading()

    # --- out ------------------------------------------------------------------------------------------

    def _send(self, item: messages.SessionMessage) -> Any:
        model = messages.content(item)
        metadata = item.metadata
        if type(model) is types.JSONRPCRequest:
            self._request(model, metadata if isinstance(metadata, messages.ClientMessageMetadata) else None)
            return None
        if type(model) is types.JSONRPCNotification:
            if model.method == "notifications/cancelled" and self._cancelled(model.params):
                return None
            return self.carrier.notify(model.method, messages.wire(item.message), getattr(metadata, "headers", None))
        self.carrier.post(messages.wire(item.message))
        return None

    def _request(self, model: Any, metadata: messages.ClientMessageMetadata | None) -> None:
        carrier = self.carrier
        request = _Request(self, model)
        earlier = self._requests.get(request.id)
        if earlier is not None:
            earlier.give_up(None)  # whoever waits under this id waits for the new one now
        self._requests[request.id] = request
        request.kept["headers"] = getattr(metadata, "headers", None)
        if metadata is not None and (metadata.resumption_token or metadata.on_resumption_token_update):
            request.kept["resume"] = metadata.resumption_token
            request.kept["on_event_id"] = carrier.teller(metadata.on_resumption_token_update)
        if not carrier.bridge.direct:
            self.authorize(request, None)
            return
        try:
            self._call(request, None)
            request.call.future.add_done_callback(request.settled)
        except HeadraceError as exc:
            request.fail(exc)

    def _call(self, request: _Request, own: bytes | None) -> None:
        carrier = self.carrier
        params = request.params
        extra = carrier.options(request.method, own=own, **request.kept)
        request.session = carrier.channel.session_id is not None
        request.call = self.mux.call(
            request.method,
            None if params is None else to_json(params),
            carrier.channel,
            decode=request.answered,
            timeout=carrier.time_limit(request.method),
            extend=True,
            extra=extra,
            id=request.id,
        )

    def authorize(self, request: _Request, failed: BaseException | None) -> None:
        """Sends a request under the auth flow and the hooks, in the context of whoever sends it."""
        request.task = self.carrier.spawn(self._authorized(request, failed))

    async def _authorized(self, request: _Request, failed: BaseException | None) -> None:
        carrier = self.carrier
        params, headers = request.params, request.kept["headers"]
        carrier.speak(request.method, headers)

        async def attempt(own: bytes) -> None:
            self._call(request, own)
            await request.call

        try:
            message = {"jsonrpc": "2.0", "id": request.id, "method": request.method}
            body = to_json(message if params is None else message | {"params": params})  # byte for byte what is sent
            await carrier.bridge.send("POST", carrier.shown(headers), body, attempt, failed)
            self.drop(request)
        except asyncio.CancelledError:
            self.drop(request)
            raise
        except Exception as exc:
            if not isinstance(exc, HeadraceError):
                log.warning("%s could not be sent: %s: %s", request.method, type(exc).__name__, exc)
            request.fail(exc)

    def _cancelled(self, params: Any) -> bool:
        """A request is given up. True when that has been told the server in the way of its era."""
        id = (params or {}).get("requestId")
        request = self._requests.get(id) if isinstance(id, str | int) and not isinstance(id, bool) else None
        if request is not None:
            reason = params.get("reason")
            request.give_up(reason if isinstance(reason, str) else None)
            return True
        return bool(self.carrier.channel.modern)
