"""The streams of a handshake-era HTTP session: which message goes on which, and resumption (HO-06..HO-23).

A session has GET streams, for what belongs to no request, and POST streams that answer one request each.
With an event store each stream has a name that its event ids carry. A POST stream outlives its
connection: its sink goes on without one, keeps what is sent, and moves to the connection that resumes
it. A GET stream is only its events: resuming it continues its name on another connection.

What is to be sent while no GET stream is open waits here, equal notifications once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import ConnectionClosed, LocalProtocolError
from headrace.protocol._streams import StreamKeeper
from headrace.protocol.session import ServerSession

if TYPE_CHECKING:
    from headrace.mux import PendingCall
    from headrace.protocol.event_store import EventStore

__all__ = ("MAX_STREAMS", "Resumed", "StreamSettings", "StreamingSession")

MAX_STREAMS = 4
"""GET streams of one session; one more ends the oldest, which is most likely dead (B44)."""


class StreamSettings(msgspec.Struct, frozen=True):
    """How the streams of an endpoint's sessions behave."""

    make_store: Callable[[str], EventStore] | None = None
    """Session id -> the event store of that session; None: streams have no ids and cannot be resumed."""
    retry_interval: float | None = None
    """Seconds that clients of 2025-11-25 shall wait before they resume a stream; None: their own choice."""


class Resumed(msgspec.Struct, frozen=True):
    """What a GET with Last-Event-ID continues."""

    stream: str | None
    """The GET stream to go on with; None opens a fresh one."""
    events: list[tuple[str, bytes]]
    sink: Any = None
    """The sink of a POST stream whose request is not answered yet."""
    finished: bool = False
    """A POST stream that got its last event: what is left of it is all there is."""


class StreamingSession(ServerSession):
    """A session with streams; ``sink`` is its newest GET stream or None."""

    keeper: StreamKeeper | None = None
    """The streams that have names; made with the first."""

    ended = False
    left = False
    """The client ended it: what was still in flight was given up by itself, and 404 would only alarm it."""
    active = True
    """Something arrived since the last sweep."""
    settings: StreamSettings
    """Set where a session is made."""
    streams: Sequence[Any] = ()
    """The open GET streams."""
    waiting: dict[tuple[bytes, bytes | None], None] | None = None
    """Notifications for the next GET stream, in order; None while there never was one."""
    shared: Any = None
    """The SharedStreams that it belongs to, where other processes serve it as well."""
    awaited: list[Any] | None = None
    """Futures of those that wait for the next GET stream."""

    # --- event ids ----------------------------------------------------------------------------------

    def make_keeper(self) -> StreamKeeper:
        """The ``keeper``, made now where there is none yet."""
        if self.keeper is None:
            self.keeper = StreamKeeper(self, self.settings)
        return self.keeper

    @property
    def resumable(self) -> bool:
        """Whether streams of this session have event ids."""
        return self.settings.make_store is not None

    @property
    def events(self) -> EventStore | None:
        """The event store; None where streams have no ids."""
        return self.make_keeper().events

    @property
    def primes(self) -> bool:
        """Streams begin with an event that has an id and no data (HO-22, B38)."""
        return self.make_keeper().primes

    @property
    def retry_ms(self) -> int:
        """The reconnection time that a first event names, in milliseconds; -1 for none (HO-23)."""
        return self.make_keeper().retry_ms

    def resume(self, last_id: str) -> Resumed | None:
        """Finds what to go on with behind the event ``last_id``.

        None for an id that this session never gave, and for a POST stream of which nothing is left: the
        answer is 400. Of a GET stream nothing but news is lost: then a fresh stream opens (HO-21).
        """
        keeper = self.make_keeper()
        try:
            store = keeper.events
            found = store.replay(last_id) if store is not None else None
        except Exception as exc:
            self.server.runtime.report("an event store failed", exc)
            return None
        if found is None:
            return None
        if found.stream.startswith("g"):
            if found.lost:
                return Resumed(None, [])
            for other in [each for each in self.streams if each.stream == found.stream]:
                other.end_stream()  # its connection is most likely dead
            return Resumed(found.stream, found.events)
        sink = keeper.posts.get(found.stream)
        if found.lost and sink is None:
            return None
        return Resumed(found.stream, found.events, sink, finished=sink is None)

    # --- streams ------------------------------------------------------------------------------------

    def stream_opened(self, sink: Any) -> None:
        """A GET stream: it takes over what belongs to no request, older ones only stand by (HO-12)."""
        self.active = True
        self.streams = [*self.streams, sink]
        self.sink = sink
        if len(self.streams) > MAX_STREAMS:
            self.streams[0].end_stream()
        self._flush()
        if self.awaited is not None:
            self._tell_awaited()

    async def next_stream(self) -> None:
        """Returns when a GET stream opens, or when the session ends."""
        if self.ended or self.mux is None:
            return
        opened = self.mux.runtime.create_future()
        self.awaited = [*(self.awaited or ()), opened]
        await opened

    def _tell_awaited(self) -> None:
        awaited, self.awaited = self.awaited, None
        for each in awaited or ():
            if not each.done():
                each.set_result(None)

    def _flush(self) -> None:
        """Sends what waits, as far as there is a stream that takes it."""
        while self.waiting and self.sink is not None and self.mux is not None:
            note = next(iter(self.waiting))
            if not self.mux.notify(*note, self.sink):
                return
            self.waiting.pop(note, None)

    def stream_ended(self, sink: Any) -> None:
        """Called by the stream when it is over, whoever ended it."""
        self.active = True
        if sink in self.streams:
            self.streams = [each for each in self.streams if each is not sink]
            if sink.stream is not None and self.keeper is not None:
                self.keeper.stream_closed(sink.stream)
        self.sink = self.streams[-1] if self.streams else None

    def sink_lost(self, sink: Any) -> None:
        """A request's connection is gone and nothing will be sent on it again: nobody can answer what was
        asked there."""
        if self.mux is None:
            return
        for call in list(self.mux.pending.values()):
            if call.sink is sink:
                call.fail(ConnectionClosed("the client's connection is gone, and its stream cannot be resumed"))

    def announce(self, method: bytes, params: bytes | None = None) -> bool:
        """As ServerSession.announce; without an open stream it waits for one, if streams can be resumed."""
        self._flush()
        if not self.waiting and super().announce(method, params):
            return True
        if not self.ready or self.ended or not self.resumable:
            return False
        if self.waiting is None:
            self.waiting = {}
        if (method, params) not in self.waiting and len(self.waiting) >= self.server.limits.max_waiting_notices:
            return False
        self.waiting[method, params] = None
        return True

    def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> PendingCall:
        if self.sink is None:
            raise LocalProtocolError("the client has no stream open for requests that belong to none of its own")
        return super().request(method, params, timeout=timeout)

    def close_streams(self) -> None:
        """The session has ended: streams end whole, what was kept is dropped (HO-32)."""
        self.waiting = None
        if self.awaited is not None:
            self._tell_awaited()
        for sink in self.streams:
            sink.end_stream()
        keeper, self.keeper = self.keeper, None
        if keeper is None:
            return
        for sink in list(keeper.posts.values()):
            sink.end_stream()
        store = keeper.end()
        if store is not None:
            try:
                store.close()
            except Exception as exc:
                self.server.runtime.report("an event store failed", exc)
