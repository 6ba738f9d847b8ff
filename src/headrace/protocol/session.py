"""One client's side of a server: which era each message belongs to, and the state of a handshake.

A ServerSession is the gate of one scoped mux: a line connection (both eras on one pipe, VN-61) or a
handshake-era HTTP session. It holds nothing of the modern era, which has no state (VN-28).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import LocalProtocolError, RpcError
from headrace.jsonrpc import (
    CLIENT_CAPABILITIES,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MODERN_REVISIONS,
    PROTOCOL_VERSION,
    R2,
    R4,
    UNSUPPORTED_VERSION,
)
from headrace.mux import Gate, serve_batch

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from headrace.mux import Exchange, Mux, PendingCall, Revision, Sink
    from headrace.protocol.tables import Tables
    from headrace.wire import Envelope

__all__ = ("Hello", "ServerSession", "check_modern_meta", "missing_meta", "unsupported_version")


_NO_URIS: frozenset[str] = frozenset()


def missing_meta(envelope: Envelope) -> RpcError | None:
    """The answer to a modern request without its required ``_meta`` members (VN-21), or None."""
    faults = []
    if not (envelope.protocol_version or b"").startswith(b'"'):
        faults.append(PROTOCOL_VERSION)
    if not (envelope.client_capabilities or b"").startswith(b"{"):
        faults.append(CLIENT_CAPABILITIES)
    if not faults:
        return None
    return RpcError(
        INVALID_PARAMS, f"params._meta must hold {' and '.join(faults)}", {"missing": faults}, http_status=400
    )


def unsupported_version(requested: str) -> RpcError:
    """The answer to a version outside the modern ones (VN-22, VN-66)."""
    return RpcError(
        UNSUPPORTED_VERSION,
        "unsupported protocol version",
        {"supported": list(MODERN_REVISIONS), "requested": requested[:64]},
        http_status=400,
    )


def check_modern_meta(envelope: Envelope) -> str:
    """The modern version a request names; raises the answer to an incomplete ``_meta`` (VN-21)."""
    fault = missing_meta(envelope)
    if fault is not None:
        raise fault
    version = envelope.protocol_version
    assert version is not None
    return str(msgspec.json.decode(version))


class Hello:
    """What a client says of itself in ``initialize``: ``revision`` is what was agreed on, ``raw`` the params.

    Clients of one kind say the same, so their sessions share one, and it is decoded only when it is asked for.
    """

    __slots__ = ("raw", "revision")

    def __init__(self, revision: Revision, raw: bytes) -> None:
        self.revision = revision
        self.raw = raw

    @property
    def client_info(self) -> dict[str, Any]:
        """``clientInfo``, the caller's own copy."""
        return _decode_hello(self.raw).client_info

    @property
    def capabilities(self) -> dict[str, Any]:
        """``capabilities``, the caller's own copy."""
        return _decode_hello(self.raw).capabilities


class _Said(msgspec.Struct, rename="camel"):
    capabilities: dict[str, Any] = {}
    client_info: dict[str, Any] = {}


_decode_hello = msgspec.json.Decoder(_Said).decode


class ServerSession(Gate):
    """State of one handshake (or of none yet) and the era decision of its connection.

    ``server`` is the owner, ``tables`` its prepared revisions. ``sink`` takes messages that belong to
    no request; ``ready`` is set by ``notifications/initialized``. Of an HTTP session ``id`` is the
    session id.
    """

    detached = False
    """Nothing of the session is kept between requests: what needs memory or a channel is not offered."""
    away = False
    """Another process tells the client what belongs to no request: see StreamSharing."""
    mixed_batches = True
    """An array may hold requests and responses; over HTTP it may not (JR-21)."""

    # Of the class while they are what they are for most: short sessions cost little to make.
    initialized = False
    ready = False
    hello: Hello | None = None
    """What the client said of itself."""
    mux: Mux | None = None
    sink: Sink | None = None
    subscriptions: set[str] | frozenset[str] = _NO_URIS
    """URIs of ``resources/subscribe``; the hub keeps them (SF-23)."""
    log_level: str | None = "info"
    id: str | None = None
    principal: Any = None
    hooked: Any = None
    """What the server's hooks of sessions have for this one, see :mod:`headrace.server.hooks`."""

    def __init__(self, server: Any, tables: Tables) -> None:
        self.server = server
        self.tables = tables

    @property
    def client_info(self) -> dict[str, Any] | None:
        """The ``clientInfo`` of the handshake; None before it. Decoded anew each time."""
        return None if self.hello is None else self.hello.client_info

    @property
    def client_capabilities(self) -> dict[str, Any]:
        """The ``capabilities`` of the handshake; empty before it. Decoded anew each time."""
        return {} if self.hello is None else self.hello.capabilities

    def bind(self, mux: Mux) -> None:
        """Ties the session to its mux; the modern table makes the fast decision possible."""
        self.mux = mux
        mux.modern = self.tables.modern

    def ending(self) -> None:
        """The connection closes: its listens get their result (SF-74)."""
        self.is_ending = True
        self.server.hub.end(self)

    def begin(self, exchange: Exchange) -> ServerSession:
        """The session that an ``initialize`` opens: on a line connection this one."""
        return self

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        """VN-61: per message, by its ``_meta`` first, then by the handshake."""
        if envelope.protocol_version is not None or envelope.client_capabilities is not None:
            version = check_modern_meta(envelope)
            if version not in MODERN_REVISIONS:
                raise unsupported_version(version)
            return self.tables.modern
        method = envelope.method
        if method == "initialize":
            if self.initialized:
                raise RpcError(INVALID_REQUEST, "this connection is initialized already", http_status=400)
            return self.tables.handshake
        if method == "ping":
            return self.tables.handshake
        fault = missing_meta(envelope)
        assert fault is not None
        raise fault

    def opened(self, revision: Revision, hello: Hello) -> Awaitable[None] | None:
        """The handshake went well: later messages without modern ``_meta`` belong to ``revision``. It may be answered
        when what this gives is done."""
        self.initialized = True
        self.hello = hello
        assert self.mux is not None
        self.mux.current = revision
        self.mux.null_ids = revision.name < R4
        return None

    def set_log_level(self, level: str) -> Awaitable[None] | None:
        """``logging/setLevel``: it is answered when what this gives is done."""
        self.log_level = level
        return None

    def follow(self, uri: str, wanted: bool) -> Awaitable[None] | None:
        """``resources/subscribe`` and its end: it is answered when what this gives is done. Raises as Hub.subscribe."""
        hub = self.server.hub
        if wanted:
            hub.subscribe(self, uri)
        else:
            hub.unsubscribe(self, uri)
        return None

    def batch(self, envelope: Envelope, sink: Sink) -> bool:
        """Only 2025-03-26 has arrays, and only once it was agreed on (JR-20, JR-23)."""
        mux = self.mux
        if mux is None or mux.current is None or mux.current.name != R2:
            return False
        serve_batch(mux, envelope, sink, most=self.server.limits.max_batch, mixed=self.mixed_batches)
        return True

    def announce(self, method: bytes, params: bytes | None = None) -> bool:
        """Sends a notification that belongs to no request, once the handshake is done (VN-05, SF-60)."""
        if not self.ready or self.mux is None or self.sink is None:
            return False
        return self.mux.notify(method, params, self.sink)

    def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> PendingCall:
        """Sends a request that belongs to none of the client's, such as ``ping``; await it for the raw result.

        ``timeout`` is in seconds, ``limits.request_timeout`` by default. Over HTTP it goes on the session's
        newest GET stream, where only ``ping`` is expected (HO-11). Raises ConnectionClosed when the session
        has ended, LocalProtocolError when it has no channel or before the handshake is done.
        """
        if self.mux is None or not self.ready:
            raise LocalProtocolError("the session is not initialized, or has ended")
        if self.sink is None:
            raise LocalProtocolError("the session has no channel for requests")
        body = None if params is None else msgspec.json.encode(params)
        return self.mux.call(
            method, body, self.sink, timeout=timeout if timeout is not None else self.server.limits.request_timeout
        )

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        self.server.notified(self, envelope, sink)

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        self.server.log.debug("refused: %s (%d)", message, code)

    def lost(self, reason: Any) -> None:
        self.server.session_ended(self)
        # The mux leads back here: without this a closed connection would wait for the garbage collector.
        self.mux = self.sink = None
