"""A stream of messages over Streamable HTTP, from the client's side: it looks like one connection.

Strategy: requests are calls of an :class:`~headrace.transports.plain.http.HttpPeer` under the ids that they have, so
eras, headers, session and resumption are that one's; whatever comes of them is put into the stream as the answer that
it is. Messages of the server's own come in as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import msgspec
from anyio.lowlevel import checkpoint_if_cancelled

from headrace.errors import ConnectionClosed, HeadraceError, HttpStatusError, LocalProtocolError, RpcError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.transports.messages import MessageStream
from headrace.transports.plain.exchange import PlainExchange, encode
from headrace.transports.plain.peer import RpcHost
from headrace.wire import scan_envelope

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.mux import PendingCall
    from headrace.transports.plain.http import HttpPeer

__all__ = ("HttpMessageStream",)

M = TypeVar("M")
_decode_id = msgspec.json.Decoder(str | int).decode


class _Error(msgspec.Struct):
    code: int
    message: str = ""
    data: Any = None


class _Cancel(msgspec.Struct):
    requestId: str | int | None = None


_decode_error = msgspec.json.Decoder(_Error).decode
_decode_cancel = msgspec.json.Decoder(_Cancel).decode


class HttpMessageStream(MessageStream[M]):
    """See :func:`headrace.transports.messages.open_http`. ``peer`` is the connection below it."""

    peer: HttpPeer

    def __init__(self, type: Any, limits: Limits) -> None:
        super().__init__(type, limits=limits)
        self.host = RpcHost(self._asked, on_notify=self._notified, raw=True, limits=limits)
        self._calls: dict[str | int, PendingCall] = {}
        self._questions: dict[str | int, asyncio.Future[bytes]] = {}
        self._paused: set[Any] = set()

    # --- in -------------------------------------------------------------------------------------------

    def opened(self, peer: HttpPeer) -> None:
        """The connection is there."""
        self.peer = peer
        peer.mux.tees = True  # progress is the reader's to correlate
        self.made.set_result(None)

    def lost(self, reason: Any) -> None:
        """The connection is gone (on_lost of the peer)."""
        self._lost = True
        if not self._closed and isinstance(reason, ConnectionClosed):
            self._failure = reason
        self._wake()

    def _put(self, id: bytes | None, rest: bytes) -> None:
        head = b'{"jsonrpc":"2.0",' if id is None else b'{"jsonrpc":"2.0","id":' + id + b","
        self._take([head + rest + b"}"])

    def _asked(self, method: str, params: bytes | None, exchange: PlainExchange) -> Any:
        id = exchange.request_id
        assert id is not None
        future: asyncio.Future[bytes] = self._loop.create_future()
        self._questions[id] = future
        future.add_done_callback(lambda _: self._questions.pop(id, None))
        self._put(encode(id), _named(method, params))
        return future

    def _notified(self, method: str, params: bytes | None, exchange: PlainExchange) -> None:
        self._put(None, _named(method, params))

    def _answered(self, raw_id: bytes, key: str | int, future: asyncio.Future[bytes]) -> None:
        self._calls.pop(key, None)
        if future.cancelled():
            return
        exc = future.exception()
        if exc is None:
            self._put(raw_id, b'"result":' + future.result())
            return
        error: dict[str, Any] = {"code": INTERNAL_ERROR, "message": str(exc)}
        if isinstance(exc, RpcError):
            error = {"code": exc.code, "message": exc.message}
            if exc.data is not None:
                error["data"] = exc.data
        elif isinstance(exc, HttpStatusError):
            error["data"] = {"status": exc.status}
        self._put(raw_id, b'"error":' + encode(error))

    def _steer(self) -> None:
        """Reading goes on only while little waits to be received: on all connections of the peer."""
        full = self._held > self.limits.max_output_bytes or len(self._inbox) > self.limits.max_in_flight
        if full:
            self._reading = False
            for channel in self.peer.channels():
                for conn in channel.pool.conns - self._paused:
                    if conn.transport is not None:
                        self._paused.add(conn)
                        with contextlib.suppress(RuntimeError):
                            conn.transport.pause_reading()
        elif not self._reading and self._held * 2 <= self.limits.max_output_bytes and (
            len(self._inbox) * 2 <= self.limits.max_in_flight
        ):
            self._reading = True
            paused, self._paused = self._paused, set()
            for conn in paused:
                if conn.transport is not None:
                    with contextlib.suppress(RuntimeError):
                        conn.transport.resume_reading()

    # --- out ------------------------------------------------------------------------------------------

    async def send(self, item: M) -> None:
        """Sends a message. A notification is accepted by the server when this returns, and
        :class:`headrace.errors.HttpStatusError` raised when it is not; requests are answered in the stream, with
        -32603 and ``data.status`` where HTTP gave no answer. Raises as :meth:`MessageStream.send`, and
        LocalProtocolError for what is no JSON-RPC message."""
        await checkpoint_if_cancelled()
        if self._closed or self._sealed:
            raise anyio.ClosedResourceError
        if self._lost:
            raise anyio.BrokenResourceError from self._failure
        message = scan_envelope(item if isinstance(item, bytes) else encode(item), any_result=True)
        if message.kind == "request":
            raw_id, method = message.id, message.method
            assert raw_id is not None and method is not None
            key = _decode_id(raw_id)
            try:
                call = self.peer.request(method, message.params, decode=None, id=key)
            except ConnectionClosed as exc:
                raise anyio.BrokenResourceError from exc
            self._calls[key] = call
            call.future.add_done_callback(lambda future: self._answered(raw_id, key, future))
        elif message.kind == "notification":
            await self._tell(message.method or "", message.params)
        elif message.kind in ("result", "error"):
            self._answer(message)
        else:
            raise LocalProtocolError(f"no JSON-RPC message: {message.reason or 'an array'}")

    async def _tell(self, method: str, params: bytes | None) -> None:
        if method == "notifications/cancelled" and params is not None:
            id = _decode_cancel(params).requestId
            call = None if id is None else self._calls.pop(id, None)
            if call is not None:
                call.cancel()
                return
        try:
            await self.peer.notify(method, params)
        except HttpStatusError:
            raise
        except HeadraceError as exc:
            raise anyio.BrokenResourceError from exc

    def _answer(self, message: Any) -> None:
        future = self._questions.get(_decode_id(message.id)) if message.id_usable else None
        if future is None or future.done():
            return  # the server has taken its question back
        if message.result is not None:
            future.set_result(message.result)
        else:
            error = _decode_error(message.error)
            future.set_exception(RpcError(error.code, error.message, error.data))

    async def send_eof(self) -> None:
        """Nothing more is sent; HTTP has no way to say so."""
        await checkpoint_if_cancelled()
        self._sealed = True

    async def _end(self) -> None:
        await self.peer.close()
        self._lost = True
        self._wake()


def _named(method: str, params: bytes | None) -> bytes:
    return b'"method":' + encode(method) + (b"" if params is None else b',"params":' + params)
