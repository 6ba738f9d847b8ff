"""Bare JSON-RPC 2.0 over one connection, both ways: no handshake, no eras, no methods of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Self

from headrace.errors import ConnectionClosed, LocalProtocolError
from headrace.mux import MCP, AnyMethod, Gate, Mux, Names, Revision, serve_batch
from headrace.transports.plain.exchange import Params, Progress, body_of, decode, wire_name, with_token
from headrace.transports.plain.host import Handler, Host
from headrace.transports.shield import shielded

if TYPE_CHECKING:
    from headrace.mux import PendingCall, Sink
    from headrace.wire import Envelope

__all__ = ("Peer", "RpcHost")

_CLOSE_TIMEOUT = 1.0  # seconds in which a peer has to take what was written last


class Peer:
    """One connection of a host, or the one that a program opened itself; both sides of it are equal.

    ``host`` has the handler; ``sink`` is the link once there is one. ``on_lost(reason)`` is called once, when the
    connection is gone.
    """

    def __init__(
        self, host: RpcHost, *, on_lost: Callable[[Any], Any] | None = None, answers_bad_input: bool = True
    ) -> None:
        self.host = host
        self.on_lost = on_lost
        self.sink: Sink | None = None
        self.state: Any = None
        """For the application's use."""
        self.reason: Any = None
        """Why the connection ended; None while it is open."""
        self.closer: Callable[[], Awaitable[Any]] | None = None
        """Ends the connection and what it was opened with; None: closing the link is enough."""
        self._closing: asyncio.Task[None] | None = None
        self._gone: asyncio.Future[None] | None = None
        self.mux = mux = Mux(host.runtime, _PeerGate(self, answers_bad_input), host.limits)
        mux.current = host.revision
        mux.names = host.names
        mux.loose = True
        mux.null_ids = True

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.host!r}{' (closed)' if self.closed else ''}>"

    @property
    def closed(self) -> bool:
        """The connection is gone."""
        return self.mux.closed

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
        """Sends a request; await it for the result. Giving it up (cancelling the task that awaits it, or
        ``call.cancel()``) tells the peer.

        :param params: an object or an array; bytes are sent as they are.
        :param timeout: in seconds, 0 for none.
        :param on_progress: told of progress under the id of the call, which is the token. With the names of MCP
            it is put into the ``_meta`` of params, unless those are bytes.
        :param decode: makes the result of its raw JSON; None leaves it raw.
        :param id: the id, when the caller chooses it.

        Raises :class:`RpcError` with the peer's error, :class:`RequestTimeout`, :class:`ConnectionClosed`,
        :class:`OverloadedError` over ``limits.max_pending``; ValueError for an ``id`` that waits for its answer
        already.
        """
        if on_progress is not None:
            params = with_token(self.mux, params, id)
        return self.mux.call(
            wire_name(method),
            body_of(params),
            self._link(),
            decode=decode,
            timeout=timeout,
            on_progress=on_progress,
            id=id,
        )

    def tell(self, method: str, params: Params = None) -> bool:
        """Sends a notification without waiting. False when the connection is gone or the peer does not read."""
        if self.sink is None:
            return False
        return self.mux.notify(wire_name(method).encode(), body_of(params), self.sink)

    async def notify(self, method: str, params: Params = None) -> bool:
        """The same as :meth:`tell`; waits while the peer does not read what is queued already."""
        told = self.tell(method, params)
        if told:
            await self.drained()
        return told

    async def drained(self) -> None:
        """Waits while ``limits.max_output_bytes`` are queued that the peer does not take. Whoever sends much
        without waiting for answers calls this in between."""
        if self.sink is not None and (drained := self.sink.wait_drained()) is not None:
            await drained

    def _link(self) -> Sink:
        if self.sink is None:
            if self.reason is not None:
                raise ConnectionClosed(str(self.reason))
            raise LocalProtocolError("not connected yet: set `sink`")
        return self.sink

    async def close(self) -> None:
        """Ends the connection: what was written leaves first, calls that wait fail with ConnectionClosed. Never
        raises for what the peer does; may be called from any task, and again."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        link: Any = self.sink
        try:
            if self.closer is not None:
                await self.closer()
            elif link is not None:
                await self.close_link(link)
        finally:
            self.mux.close(ConnectionClosed("the connection was closed"))

    async def close_link(self, link: Any) -> None:
        """Flushes and closes the link of this peer, in bounded time."""
        link.close()
        if not self.closed:
            self._gone = asyncio.get_running_loop().create_future()
            await asyncio.wait([self._gone], timeout=_CLOSE_TIMEOUT)
            link.abort()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        with shielded():
            await self.close()


class _PeerGate(Gate):
    """What the mux of a peer asks: every message is the handler's."""

    def __init__(self, peer: Peer, answers_bad_input: bool) -> None:
        self.peer = peer
        self.answers_bad_input = answers_bad_input

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        return self.peer.host.revision

    def notify(self, envelope: Envelope, sink: Sink) -> None:
        peer = self.peer
        peer.host.told(peer.mux, envelope, sink, peer)

    def batch(self, envelope: Envelope, sink: Sink) -> bool:
        peer = self.peer
        serve_batch(peer.mux, envelope, sink, most=peer.host.limits.max_batch)
        return True

    def bad_input(self, code: int, message: str, sink: Sink) -> None:
        self.peer.host.log.debug("refused: %s (%d)", message, code)

    def lost(self, reason: Any) -> None:
        peer = self.peer
        peer.reason = reason
        peer.sink = None
        peer.host.peers.discard(peer)
        if peer._gone is not None and not peer._gone.done():
            peer._gone.set_result(None)
        callback, peer.on_lost = peer.on_lost, None
        try:
            if callback is not None:
                callback(reason)
        finally:
            if peer.host.on_session_end is not None:
                peer.host.on_session_end(peer)


class RpcHost(Host):
    """A plain handler behind connections that speak bare JSON-RPC 2.0. Parameters as :class:`Host`, and:

    :param names: what the peers call cancelling and progress: :data:`headrace.mux.MCP` (the default),
        :data:`headrace.mux.LSP`, :data:`headrace.mux.NO_NAMES`, or others. All other notifications are
        ``on_notify``'s.
    :param on_session_end: told of each :class:`Peer` that is gone.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        names: Names = MCP,
        on_session_end: Callable[[Peer], Any] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(handler, **options)
        self.names = names
        self.on_session_end = on_session_end
        self.revision = Revision("", modern=False, fallback=AnyMethod(self.call, loose=True))
        self.peers: set[Peer] = set()
        """The connections that peers have opened to this host."""

    def new_session(self) -> tuple[Peer, Mux]:
        peer = Peer(self)
        self.peers.add(peer)
        return peer, peer.mux

    def session_of(self, gate: Any, sink: Sink) -> Peer:
        peer: Peer = gate.peer
        return peer
