"""One message of the peer as a plain handler sees it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import LocalProtocolError, RpcError
from headrace.jsonrpc import INVALID_PARAMS
from headrace.mux import MCP

if TYPE_CHECKING:
    from headrace.mux import Exchange, Mux, PendingCall, Sink

__all__ = (
    "Params",
    "PlainExchange",
    "Progress",
    "body_of",
    "decode",
    "encode",
    "params_of",
    "wire_name",
    "with_token",
)

Params = Mapping[str, Any] | list[Any] | tuple[Any, ...] | msgspec.Struct | bytes | None
"""What a message of ours may carry: anything that encodes to an object or an array, or such a JSON text as it is."""
Progress = Callable[..., Any]
"""``on_progress(done, total, message)``; with names other than MCP's ``on_progress(params)``."""

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def decode(raw: bytes) -> Any:
    """The value of one JSON text; integers of any size keep their digits (B105). Raises ValueError."""
    try:
        return _decode(raw)
    except ValueError:
        return json.loads(raw)


def body_of(params: Params) -> bytes | None:
    """``params`` as JSON; bytes are taken as they are. Raises TypeError for what has no JSON form."""
    return params if params is None or type(params) is bytes else encode(params)


@lru_cache(maxsize=512)
def wire_name(method: str) -> str:
    """A method as it stands inside of its quotes. Raises LocalProtocolError for one that cannot be sent."""
    if method.isascii() and method.isprintable() and '"' not in method and "\\" not in method:
        return method
    try:
        return encode(method)[1:-1].decode()
    except UnicodeEncodeError:
        raise LocalProtocolError("a method holds a lone surrogate") from None


def with_token(mux: Mux, params: Params, id: str | int | None) -> Params:
    """``params`` with the progress token of the call that comes next, which is its id (MX-01)."""
    if mux.names != MCP or not (params is None or isinstance(params, Mapping)):
        return params
    given = {} if params is None else params
    meta = given.get("_meta") or {}
    if "progressToken" in meta:
        return params
    return {**given, "_meta": {**meta, "progressToken": mux.next_call_id if id is None else id}}


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

    def tell(self, method: str, params: Params = None) -> bool:
        """Sends a notification that belongs to this request, without waiting. False when it cannot be
        carried: the request is over, or its answer has no room for one (HN-32)."""
        name = wire_name(method).encode()
        if self.exchange is not None:
            return self.exchange.tell(name, body_of(params))
        return self._mux.notify(name, body_of(params), self._sink)

    async def notify(self, method: str, params: Params = None) -> bool:
        """The same as :meth:`tell`; waits while the peer does not read what is queued already."""
        told = self.tell(method, params)
        if told and (drained := self._sink.wait_drained()) is not None:
            await drained
        return told

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tells progress if the peer asked for it; values that do not increase are dropped (MX-03). In MCP's way
        only: where the peer has other names (:class:`headrace.mux.Names`), send their notification instead."""
        if self.exchange is not None:
            self.exchange.progress(done, total, message)

    def request(
        self,
        method: str,
        params: Params = None,
        *,
        timeout: float = 0.0,
        on_progress: Progress | None = None,
        decode: Callable[[bytes], Any] | None = decode,
        id: str | int | None = None,
    ) -> PendingCall:
        """Asks the peer something inside of its request; await it for the result.

        ``timeout`` is in seconds, 0 for none. ``decode`` makes the result of its raw JSON; None leaves it raw. Over
        HTTP the request goes on the stream of this one (HO-43).

        Raises :class:`RpcError` with the peer's error, :class:`RequestTimeout`, :class:`ConnectionClosed`, and
        :class:`LocalProtocolError` where there is no way for requests.
        """
        if self.exchange is not None and not self.exchange.open:
            raise LocalProtocolError("the request is over: nothing can be asked inside of it")
        if self.modern:
            raise LocalProtocolError("in this revision a server sends no requests")
        if on_progress is not None:
            params = with_token(self._mux, params, id)
        return self._mux.call(
            wire_name(method),
            body_of(params),
            self._sink,
            decode=decode,
            timeout=timeout,
            on_progress=on_progress,
            id=id,
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
