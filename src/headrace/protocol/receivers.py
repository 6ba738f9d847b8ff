"""Those who are told of changes: sessions of the handshake era and open listens (SF-60, SF-70..SF-74).

A receiver that does not read keeps the keys of what it does not know yet instead of messages, so what can wait for
it is bounded by what it asked for.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.jsonrpc import SERVER_INFO, SUBSCRIPTION_ID
from headrace.mux import RawResult

if TYPE_CHECKING:
    from headrace.mux import Exchange
    from headrace.protocol.session import ServerSession
    from headrace.protocol.subscriptions import Hub

__all__ = ("Listen", "Receiver", "SessionReceiver")

_ACKNOWLEDGED = b"notifications/subscriptions/acknowledged"
_CANCELLED = b"notifications/cancelled"

_encode = msgspec.json.Encoder().encode


class Receiver(ABC):
    """One who is told. ``due`` holds what it does not know yet, one entry a key, oldest first."""

    __slots__ = ("__weakref__", "due", "waiting")

    def __init__(self) -> None:
        self.due: dict[tuple[str, str], tuple[bytes, bytes]] = {}
        self.waiting = False

    @property
    def away(self) -> bool:
        """Another process tells it: see StreamSharing."""
        return False

    @abstractmethod
    def _room(self) -> Any:
        """None, or the future to wait for until the peer has read."""

    @abstractmethod
    def _send(self, method: bytes, members: bytes) -> None:
        """Sends one notification; ``members`` are those of its params."""

    def flush(self) -> None:
        """Sends what is due, as far as the peer reads."""
        while self.due and not self.waiting:
            waiter = self._room()
            if waiter is not None:
                self.waiting = True
                waiter.add_done_callback(self._drained)
                return
            key = next(iter(self.due))
            method, members = self.due.pop(key)
            self._send(method, members)

    def _drained(self, future: Any) -> None:
        self.waiting = False
        self.flush()


class SessionReceiver(Receiver):
    """A session of the handshake era, which hears of list changes and of the resources it subscribed to (SF-60)."""

    __slots__ = ("session",)

    def __init__(self, session: ServerSession) -> None:
        super().__init__()
        self.session = session

    @property
    def away(self) -> bool:
        return self.session.away

    def _room(self) -> Any:
        sink = self.session.sink
        return sink.wait_drained() if sink is not None else None

    def _send(self, method: bytes, members: bytes) -> None:
        self.session.announce(method, b"{" + members + b"}" if members else None)


class Listen(Receiver):
    """One ``subscriptions/listen`` request that is open."""

    __slots__ = ("_ended", "_future", "_hub", "_tag", "exchange", "kinds", "tasks", "uris")

    def __init__(
        self, hub: Hub, exchange: Exchange, kinds: Iterable[str], uris: Iterable[str], tasks: Iterable[str]
    ) -> None:
        super().__init__()
        self._hub = hub
        self.exchange = exchange
        self.kinds = frozenset(kinds)
        self.uris = frozenset(uris)
        self.tasks = frozenset(tasks)
        # The id as it came: same type, same digits (SF-72).
        self._tag = b'"_meta":{"' + SUBSCRIPTION_ID.encode() + b'":' + exchange.id + b"}"
        self._ended = False
        self._future: Any = None

    def open(self, accepted: dict[str, Any], future: Any) -> bool:
        """Holds the request, unless ``future`` holds it already, and acknowledges; False when the answer cannot be a
        stream."""
        self._future = future
        if self.exchange.task is None:
            self.exchange.hold(future)
        future.add_done_callback(self._over)
        return self.exchange.tell(_ACKNOWLEDGED, self._tagged(b'"notifications":' + _encode(accepted)))

    def _tagged(self, members: bytes) -> bytes:
        return b"{" + members + (b"," if members else b"") + self._tag + b"}"

    def _room(self) -> Any:
        return self.exchange.sink.wait_drained()

    def _send(self, method: bytes, members: bytes) -> None:
        self.exchange.tell(method, self._tagged(members))

    def _over(self, future: Any) -> None:
        """Done callback of the held future: ended by either side, or the connection is gone."""
        self._ended = True
        self.due.clear()
        self._hub.forget(self)

    def end(self) -> None:
        """Ends it gracefully: the result, and on line streams ``notifications/cancelled`` (SF-74, G-01, G-02)."""
        if self._ended:
            return
        self._ended = True
        self.flush()
        exchange = self.exchange
        sink, mux = exchange.sink, exchange.mux
        told = exchange.open
        info = _encode(self._hub.server.info)
        meta = b'{"' + SERVER_INFO.encode() + b'":' + info + b"," + self._tag.partition(b"{")[2]
        exchange.answer(RawResult(b'{"resultType":"complete","_meta":' + meta + b"}"))
        if told and sink.persistent:
            reason = b'"requestId":' + exchange.id + b',"reason":"the server ends the subscription"'
            mux.notify(_CANCELLED, self._tagged(reason), sink)
        if not self._future.done():
            self._future.set_result(None)
