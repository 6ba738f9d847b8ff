"""One message of the peer as a plain handler sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import LocalProtocolError, RpcError
from headrace.jsonrpc import INVALID_PARAMS

if TYPE_CHECKING:
    from headrace.mux import Exchange, Mux, PendingCall, Sink

__all__ = ("PlainExchange", "Progress", "decode", "encode")

Progress = Callable[[float, "float | None", "str | None"], Any]

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def decode(raw: bytes) -> Any:
    """The value of one JSON text; integers of any size keep their digits (B105). Raises ValueError."""
    try:
        return _decode(raw)
    except ValueError:
        return json.loads(raw)


class PlainExchange:
    """A request, or a notification (then :attr:`request_id` is None and nothing is answered).

    ``method`` is its name, ``session`` what the host keeps for its connection or session: a
    :class:`~headrace.transports.plain.peer.Peer`, a :class:`headrace.protocol.session.ServerSession`, or None
    where every request stands for itself (the modern era over HTTP, and stateless hosts).
    """

    __slots__ = ("_id", "_mux", "_sink", "attached", "exchange", "method", "session")

    def __init__(self, method: str, mux: Mux, sink: Sink, exchange: Exchange | None, session: Any) -> None:
        self.method = method
        self.exchange = exchange
        """The multiplexer's own record of the request; None for a notification."""
        self.session = session
        self.attached: Any = None
        """For the handler's use."""
        self._mux = mux
        self._sink = sink
        self._id: str | int | None = None

    @property
    def request_id(self) -> str | int | None:
        """The peer's id with its JSON type; None for a notification."""
        if self._id is None and self.exchange is not None:
            self._id = self.exchange.request_id
        return self._id

    @property
    def progress_token(self) -> str | int | None:
        """The token under which the peer wants to hear of progress, or None (MX-01)."""
        if self.exchange is None or (raw := self.exchange.progress_token) is None:
            return None
        token: str | int = decode(raw)
        return token

    @property
    def revision(self) -> str:
        """The protocol revision the request is served under; empty in bare JSON-RPC, and for notifications
        before a handshake."""
        if self.exchange is not None:
            return self.exchange.revision.name
        current = self._mux.current
        return current.name if current is not None else ""

    @property
    def modern(self) -> bool:
        """Whether the request belongs to the era of per-request metadata (2026-07-28 and later)."""
        return self.exchange is not None and self.exchange.revision.modern

    @property
    def headers(self) -> Mapping[str, str]:
        """Fields of the HTTP request that carried the message, names in lower case; empty elsewhere."""
        return self._sink.headers

    @property
    def principal(self) -> Any:
        """The authenticated peer, or None."""
        return self._sink.principal

    @property
    def cancelled(self) -> bool:
        """True once the peer gave the request up."""
        return self.exchange is not None and self.exchange.cancelled

    @property
    def open(self) -> bool:
        """True while an answer, a notification or a question can still be sent."""
        return self.exchange.open if self.exchange is not None else not self._sink.closed

    def tell(self, method: str, params: Mapping[str, Any] | None = None) -> bool:
        """Sends a notification that belongs to this request, without waiting. False when it cannot be
        carried: the request is over, or its answer has no room for one (HN-32)."""
        body = None if params is None else encode(params)
        if self.exchange is not None:
            return self.exchange.tell(method.encode(), body)
        return self._mux.notify(method.encode(), body, self._sink)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> bool:
        """The same as :meth:`tell`; waits while the peer does not read what is queued already."""
        told = self.tell(method, params)
        if told and (drained := self._sink.wait_drained()) is not None:
            await drained
        return told

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tells progress if the peer asked for it; values that do not increase are dropped (MX-03)."""
        if self.exchange is not None:
            self.exchange.progress(done, total, message)

    def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float = 0.0,
        on_progress: Progress | None = None,
        decode: Callable[[bytes], Any] | None = decode,
        id: str | int | None = None,
    ) -> PendingCall:
        """Asks the peer something inside of its request; await it for the result.

        ``timeout`` is in seconds, 0 for none. Over HTTP it goes on the stream of this request (HO-43).

        Raises :class:`RpcError` with the peer's error, :class:`RequestTimeout`, :class:`ConnectionClosed`, and
        :class:`LocalProtocolError` where there is no way for requests.
        """
        if self.exchange is not None and not self.exchange.open:
            raise LocalProtocolError("the request is over: nothing can be asked inside of it")
        if self.modern:
            raise LocalProtocolError("in this revision a server sends no requests")
        body = None if params is None else encode(params)
        return self._mux.call(
            method, body, self._sink, decode=decode, timeout=timeout, on_progress=on_progress, id=id
        )


def params_of(exchange: Exchange) -> Any:
    """The decoded params of a request, None without any. Raises the answer to what cannot be decoded."""
    raw = exchange.params
    if raw is None or raw == b"null":
        return None
    try:
        return decode(raw)
    except (ValueError, RecursionError) as exc:
        raise RpcError(INVALID_PARAMS, f"params cannot be read: {exc}") from None
