"""Context: what a handler can know about its request and send while it runs."""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.jsonrpc import CLIENT_INFO, LOG_LEVEL, LOG_LEVELS

if TYPE_CHECKING:
    from headrace.mux import Exchange

__all__ = ("Context", "ThreadContext")

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_LEVELS = {level: rank for rank, level in enumerate(LOG_LEVELS)}
_LOG_METHOD = b"notifications/message"


class _Sent:
    """An awaitable that is done: nothing has to drain."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


class _Turn:
    """An awaitable that lets the event loop run once: other clients, and news of this one, get their turn."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        yield


_SENT = _Sent()
_TURN = _Turn()
_SENDS_A_TURN = 32


def _read_meta(raw: bytes) -> dict[str, Any]:
    """``_meta`` as a dict; numbers beyond what Python's floats and int() take do not fail the request (B105)."""
    try:
        meta = _decode(raw)
    except ValueError:
        meta = json.loads(raw, parse_int=lambda digits: int(digits) if len(digits) < 1000 else float(digits))
    return dict(meta)


class Context:
    """Given to a handler through a parameter annotated with this class.

    Belongs to one request; after the answer its methods do nothing. In a tool that runs in a worker
    thread (plain ``def``) the methods may be called from that thread and need no ``await``.
    """

    __slots__ = ("_exchange", "_meta", "_sends")

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange
        self._meta: dict[str, Any] | None = None
        self._sends = 0

    def __repr__(self) -> str:
        return f"<Context of request {self.request_id!r}>"

    @property
    def request_id(self) -> str | int:
        """The id that the client gave the request, with its JSON type (JR-04)."""
        return self._exchange.request_id

    @property
    def protocol_version(self) -> str:
        """The revision this request is served under, such as ``"2026-07-28"``."""
        return self._exchange.revision.name

    @property
    def meta(self) -> dict[str, Any]:
        """The request's ``_meta``, empty when it has none."""
        if self._meta is None:
            raw = self._exchange.meta
            self._meta = _read_meta(raw) if raw is not None else {}
        return self._meta

    @property
    def headers(self) -> Mapping[str, str]:
        """Header fields of the HTTP request, names in lower case; empty on other transports."""
        return self._exchange.sink.headers

    @property
    def client_info(self) -> dict[str, Any] | None:
        """What the client says of itself, or None. Self-declared: decide nothing by it (JR-43)."""
        if self._exchange.revision.modern:
            info = self.meta.get(CLIENT_INFO)
            return info if isinstance(info, dict) else None
        seen: dict[str, Any] | None = self._exchange.mux.gate.client_info
        return seen

    @property
    def principal(self) -> Any:
        """The authenticated caller, or None."""
        return self._exchange.principal

    @property
    def cancelled(self) -> bool:
        """True once the client gave the request up; threads should look at it now and then."""
        return self._exchange.cancelled

    @property
    def lifespan(self) -> Any:
        """What the server's ``lifespan`` yielded, or None."""
        return self._exchange.mux.gate.server.lifespan_state

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> Any:
        """Tells the client how far the work is; does nothing unless it asked (MX-02, MX-03).

        ``done`` must increase from call to call, other values are dropped; ``total`` is in the same
        unit. Await the result to slow down to what the client reads.
        """
        return self._exchange.progress(done, total, message) or self._sent()

    def log(self, level: str, data: Any, logger: str | None = None) -> Any:
        """Sends a log message to the client when it wants this ``level`` (SF-40, SF-41).

        ``level`` is one of debug, info, notice, warning, error, critical, alert, emergency; ``data``
        any JSON value; ``logger`` a name. Raises ValueError for another level.
        """
        rank = _LEVELS.get(level)
        if rank is None:
            raise ValueError(f"log level {level!r}: use one of {', '.join(LOG_LEVELS)}")
        exchange = self._exchange
        wanted = self.meta.get(LOG_LEVEL) if exchange.revision.modern else exchange.mux.gate.log_level
        if wanted is None or rank < _LEVELS.get(wanted, 99):
            return self._sent()
        body: dict[str, Any] = {"level": level, "data": data}
        if logger is not None:
            body["logger"] = logger
        return self._send(_LOG_METHOD, _encode(body))

    def close_stream(self, retry: float | None = None) -> bool:
        """Ends the connection of this request's event stream, while the handler works on (HO-23).

        The client comes back after ``retry`` seconds (by default the server's ``retry_interval``, or 1) and
        gets what was sent meanwhile, the answer included: a long call then holds no connection. False, and
        nothing happens, where the client could not come back: only sessions of revision 2025-11-25 over
        HTTP with an event store can. Raises ValueError for a negative ``retry``.
        """
        if retry is not None and not 0 <= retry < 1e6:
            raise ValueError(f"retry must be a number of seconds, not {retry!r}")
        return self._exchange.sink.close_stream(retry)

    def _send(self, method: bytes, params: bytes) -> Any:
        return self._exchange.notify(method, params) or self._sent()

    def _sent(self) -> Any:
        # A handler that only sends would never suspend: now and then its await is a real one.
        self._sends += 1
        return _SENT if self._sends % _SENDS_A_TURN else _TURN


class ThreadContext(Context):
    """The same inside a worker thread: what is sent goes through the event loop, in order."""

    __slots__ = ()

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> Any:
        self._exchange.mux.runtime.post(self._exchange.progress, done, total, message)
        return _SENT

    def close_stream(self, retry: float | None = None) -> bool:
        """As in Context; whether the client can come back is not known yet: True says it was asked for."""
        if retry is not None and not 0 <= retry < 1e6:
            raise ValueError(f"retry must be a number of seconds, not {retry!r}")
        self._exchange.mux.runtime.post(self._exchange.sink.close_stream, retry)
        return True

    def _send(self, method: bytes, params: bytes) -> Any:
        self._exchange.mux.runtime.post(self._exchange.notify, method, params)
        return _SENT
