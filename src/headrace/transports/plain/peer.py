"""Bare JSON-RPC 2.0 over one connection, both ways: no handshake, no eras, no methods of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.mux import AnyMethod, Gate, Mux, Revision
from headrace.transports.plain.exchange import Progress, decode, encode
from headrace.transports.plain.host import Host

if TYPE_CHECKING:
    from headrace.mux import PendingCall, Sink
    from headrace.wire import Envelope

__all__ = ("Peer", "RpcHost")


class Peer:
    """One connection of a host, or the one that a program opened itself.

    ``host`` has the handler; ``sink`` is the link once there is one. ``on_lost(reason)`` is called once, when the
    connection is gone.
    """

    def __init__(self, host: RpcHost, *, on_lost: Callable[[Any], Any] | None = None) -> None:
        self.host = host
        self.on_lost = on_lost
        self.sink: Sink | None = None
        self.state: Any = None
        """For the application's use."""
        self.reason: Any = None
        """Why the connection ended; None while it is open."""
        self.mux = mux = Mux(host.runtime, _PeerGate(self), host.limits)
        mux.current = host.revision

    @property
    def closed(self) -> bool:
        """The connection is gone."""
        return self.mux.closed

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
        """Sends a request; await it for the result. ``timeout`` is in seconds, 0 for none; ``id`` chooses the id.

        Raises :class:`RpcError` with the peer's error, :class:`RequestTimeout`, :class:`ConnectionClosed`;
        ValueError for an ``id`` that waits for its answer already.
        """
        assert self.sink is not None
        body = None if params is None else encode(params)
        return self.mux.call(
            method, body, self.sink, decode=decode, timeout=timeout, on_progress=on_progress, id=id
        )

    def tell(self, method: str, params: Mapping[str, Any] | None = None) -> bool:
        """Sends a notification without waiting. False when the connection is gone or the peer does not read."""
        if self.sink is None:
            return False
        return self.mux.notify(method.encode(), None if params is None else encode(params), self.sink)

    async def notify(self, method: str, params: Mapping[str, Any] | None = None) -> bool:
        """The same as :meth:`tell`; waits while the peer does not read what is queued already."""
        told = self.tell(method, params)
        if told and self.sink is not None and (drained := self.sink.wait_drained()) is not None:
            await drained
        return told


class _PeerGate(Gate):
    """What the mux of a peer asks: every message is the handler's."""

    def __init__(self, peer: Peer) -> None:
        self.peer = peer

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        return self.peer.host.revision

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        peer = self.peer
        peer.host.told(peer.mux, envelope, sink, peer)

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        self.peer.host.log.debug("refused: %s (%d)", message, code)

    def lost(self, reason: Any) -> None:
        peer = self.peer
        peer.reason = reason
        peer.sink = None
        peer.host.peers.discard(peer)
        callback, peer.on_lost = peer.on_lost, None
        if callback is not None:
            callback(reason)


class RpcHost(Host):
    """A plain handler behind line connections that speak bare JSON-RPC 2.0. Parameters as :class:`Host`."""

    def __init__(self, handler: Any, **options: Any) -> None:
        super().__init__(handler, **options)
        self.revision = Revision("", modern=False, fallback=AnyMethod(self.call, loose=True))
        self.peers: set[Peer] = set()

    def new_session(self) -> tuple[Peer, Mux]:
        peer = Peer(self)
        self.peers.add(peer)
        return peer, peer.mux

    def session_of(self, gate: Any, sink: Sink) -> Peer:
        peer: Peer = gate.peer
        return peer
