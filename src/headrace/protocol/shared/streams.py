"""The streams of sessions that several processes serve: who tells the client, and resumption anywhere (HO-10..HO-23).

Strategy: one process owns what a session's client is told beside its requests: the one on which it opened its GET
stream last, and before that the one that began the session. It is known to all (a part of the session's record, and
told when it changes), so a change that every process hears of is told by the owner alone, notes that wait for a
stream wait there, and what another process has to say to the client it gives to the owner. Ownership moves with the
stream: the next owner asks the former one to let go, which hands over what waited. Where that one is dead, nobody
knows what was missed, so everything that the client follows counts as changed.

A claim is a number that grows with each owner; of two claims the higher one holds, of equal ones that of the
greater name. What clients resume is read from logs: :mod:`headrace.protocol.shared.events`, ``replay``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import ConnectionClosed, RpcError
from headrace.jsonrpc import INVALID_REQUEST
from headrace.mux import FrameSink
from headrace.protocol.backplane import BackplaneLost
from headrace.protocol.session_streams import Resumed, StreamingSession
from headrace.protocol.shared.events import EventId, Ledger, SharedEventStore, tag_of
from headrace.protocol.shared.posts import SharedPosts
from headrace.protocol.shared.replay import Follower, read_log
from headrace.protocol.shared.session_streams import Opened, StreamSharing
from headrace.protocol.shared.wire import Wire

if TYPE_CHECKING:

    from headrace.limits import Limits
    from headrace.mux import Runtime
    from headrace.protocol.backplane import Backplane

__all__ = ("OWNER_PART", "SharedStreams")

OWNER_PART = "owner"
"""Name of the part of a session's record that names its owner."""

_OWN = b"own"
_RELEASE = b"release"
_RELEASED = b"released"
_HANDED = b"1"  # ... with all that waited
_NOTE = b"note"
_SEND = b"send"
_UNSENT = b"unsent"
_BYE = b"bye"
_FREE = b"free"

_TAGS = 1_000  # of one message
_AGAIN = 1.0  # seconds until a record that is not there yet is looked for again
_TRIES = 5

_encode = msgspec.json.Encoder().encode
_decode_id = msgspec.json.Decoder(dict[str, Any]).decode


class SharedStreams:
    """What one process knows of the streams of the sessions that it shares with others; one for each endpoint, or
    for all. ``make_store`` makes the event stores: see StreamSettings."""

    def __init__(self, backplane: Backplane, runtime: Runtime, limits: Limits) -> None:
        self.backplane = backplane
        self.runtime = runtime
        self.ledger = Ledger(backplane, runtime, limits)
        self.sessions: dict[str, StreamSharing] = {}
        """Those that this process knows, by tag."""
        self._freed: list[str] = []
        """Sessions that this process owned and has forgotten, by tag."""
        self.wire = Wire(backplane, runtime, {
            _OWN: self._own, _RELEASE: self._release, _RELEASED: self._released, _NOTE: self._noted, _SEND: self._send,
            _UNSENT: self._unsent, _BYE: self._died, _FREE: self._free,
        })  # fmt: skip
        self.posts = SharedPosts(self.wire, runtime, self._of)
        backplane.on_gap(self._gap)
        backplane.on_emptied(self._emptied)
        backplane.on_death(self._died)
        backplane.on_available(self._reached)

    # --- sessions -----------------------------------------------------------------------------------

    def begin(self, session: StreamSharing) -> None:
        """A session that begins here: this process owns it. Its ``id`` and ``record`` are set."""
        self._add(session)
        session.owner = self.backplane.worker

    def join(self, session: StreamSharing, creator: str, part: bytes | None) -> None:
        """A session that is made from its record. ``creator`` is the process that began it, ``part`` the part
        ``OWNER_PART`` of its record, where it has one."""
        self._add(session)
        session.epoch, owner, session.held = _read_owner(part) or (0, creator, False)
        # It may have been owned here before, and what happened since is not known.
        session.owner = owner if owner != self.backplane.worker else ""
        session.direct()

    def _add(self, session: StreamSharing) -> None:
        assert session.id is not None
        session.tag = tag_of(session.id)
        session.shared = self
        self.sessions[session.tag] = session

    def part(self, session: StreamSharing) -> None:
        """The session has ended, or this process forgets it."""
        if self.sessions.get(session.tag) is session:
            del self.sessions[session.tag]
        session._remote = None  # it leads back here

    def leave(self, session: StreamSharing) -> None:
        """This process forgets the session, which goes on elsewhere: its streams end here, and nothing of what is
        kept is dropped. Its mux is closed already."""
        self.part(session)
        if session.owned and session.tag:
            # Not before the others know: until then they give it what waits for the client.
            if not self._freed:
                self.runtime.call_soon(self._tell_freed)
            self._freed.append(session.tag)
        keeper, session.keeper = session.keeper, None
        session.close_streams()
        if keeper is not None:
            for sink in list(keeper.posts.values()):
                sink.end_stream()
            keeper.end()

    def close(self) -> None:
        """This process serves no sessions any more: all that are left are left, and the others are told."""
        for session in list(self.sessions.values()):
            self.leave(session)
        self._freed.clear()
        self.wire.tell_all(_BYE)

    def _tell_freed(self) -> None:
        tags, self._freed = self._freed, []
        for at in range(0, len(tags), _TAGS):
            self.wire.tell_all(_FREE, *(tag.encode() for tag in tags[at : at + _TAGS]))

    def make_store(self, session_id: str) -> SharedEventStore:
        """The event store of a session that has joined."""
        session = self.sessions[tag_of(session_id)]
        name = f"{self.backplane.worker}-{self.wire.new_number()}"
        store = SharedEventStore(session, session.tag, name, self.ledger, lambda stream: self.posts.more(store, stream))
        return store

    def sweep(self) -> None:
        """To be called now and then."""
        self.ledger.sweep()

    # --- owners -------------------------------------------------------------------------------------

    def tell_owner(self, session: StreamSharing) -> None:
        """Tells all processes that this one owns ``session``, and whether it has a stream."""
        self.wire.tell_all(
            _OWN, session.tag.encode(), b"%d" % session.epoch, b"1" if session.held else b"0"
        )

    async def open(self, session: StreamSharing, last_id: str | None) -> Opened:
        """See StreamSharing.open_get."""
        at = None
        if last_id is not None:
            at = EventId.read(last_id)
            if at is None or at.tag != session.tag or not session.resumes_elsewhere:
                raise RpcError(
                    INVALID_REQUEST,
                    "Last-Event-ID names no event of this session that can be resumed from",
                    http_status=400,
                )
            if not at.get:
                follower = Follower(self, session, at)
                try:
                    events = await follower.open()
                except BaseException:
                    self.posts.unfollow(follower)
                    raise
                session.followers = (*session.followers, follower)
                return Opened(Resumed(at.stream, events), follower=follower)
        missed = await self.take_over(session, at)
        if at is None:
            return Opened(Resumed(None, []), missed)
        events = []
        after, more = at.number, True
        while more:
            found, after, more = await read_log(self, at, after)
            events += [(f"{at.tag}.{at.stream}.{each.number}", each.data) for each in found if each.data]
        return Opened(Resumed(at.stream, events), missed)

    async def take_over(self, session: StreamSharing, at: EventId | None = None) -> bool:
        """Makes this process the owner. ``at`` is of the GET stream that is to go on: wherever it is open it ends.
        Whether nobody knows what the client was not told. Raises RpcError (404) when the session is over."""
        while session._taking is not None:
            await session._taking
        if session.owned:
            if at is not None:
                self._end_stream(session, at.stream)
            return False
        session._taking = taking = self.runtime.create_future()
        try:
            return await self._take(session, "" if at is None else at.stream)
        finally:
            session._taking = None
            taking.set_result(None)

    async def _take(self, session: StreamSharing, stream: str) -> bool:
        me = self.backplane.worker
        while True:
            kept = _read_owner((await self.backplane.parts(session.record)).get(OWNER_PART))
            epoch, owner, _ = max(kept or (0, "", False), (session.epoch, session.owner, False))
            missed = True
            if owner and owner != me and await self.wire.alive(owner):
                answer = await self.wire.ask(owner, _RELEASE, session.tag.encode(), stream.encode("ascii"))
                missed = answer != _HANDED
            claim = epoch + 1
            if session.ended or not await self.backplane.put_part(session.record, OWNER_PART, _write_owner(claim, me)):
                raise RpcError(INVALID_REQUEST, "unknown session: it has ended or never was", http_status=404)
            if session.epoch < claim:
                break  # else another process has claimed it meanwhile, for a stream that is older than this one
        session.epoch = claim
        session.count = 0
        session.owner = me
        session.held = True  # from here on: nobody else needs to care for this client
        session.direct()
        self.tell_owner(session)
        return missed

    def given_up(self, session: StreamSharing) -> None:
        """The stream for which this process took over will not open."""
        if session.owned and not session.streams and session.held:
            session.held = False
            self.tell_owner(session)

    @staticmethod
    def _end_stream(session: StreamSharing, stream: str) -> None:
        local, _, name = stream.partition("-")
        names = {stream}
        store = session.keeper.store if session.keeper is not None else None
        if isinstance(store, SharedEventStore) and store.name == name:
            names.add(local)  # as it is called where it began
        for sink in [each for each in session.streams if each.stream in names]:
            sink.end_stream()  # its connection is most likely dead

    def _own(self, sender: str, tag: bytes, epoch: bytes, held: bytes) -> None:
        session = self._of(tag)
        if session is None or (int(epoch), sender) < (session.epoch, session.owner):
            return
        owned = session.owned
        session.epoch, session.owner, session.held = int(epoch), sender, held == b"1"
        if owned:
            self._let_go(session)
        session.direct()
        self._hand_over(session)
        if not session.held and session.streams:
            self.runtime.spawn(self._take_back(session))

    def _free(self, sender: str, *tags: bytes) -> None:
        for tag in tags:
            session = self._of(tag)
            if session is not None and session.owner == sender:
                self._disowned(session)

    def _disowned(self, session: StreamSharing) -> None:
        """Nobody owns it any more."""
        session.owner, session.held = "", False
        session.direct()
        if session.mux is not None:
            for call in list(session.mux.pending.values()):
                if type(call.sink) is FrameSink:
                    call.fail(ConnectionClosed("the process that held the client's stream is gone"))
        if session.streams:
            self.runtime.spawn(self._take_back(session))

    @staticmethod
    def _let_go(session: StreamSharing) -> None:
        store = session.keeper.store if session.keeper is not None else None
        if isinstance(store, SharedEventStore):
            store.lost_ownership()

    def _hand_over(self, session: StreamSharing) -> None:
        """Notes that wait go to the owner."""
        waiting, session.waiting = session.waiting, None
        for note in waiting or ():
            self.note(session, *note)

    async def _take_back(self, session: StreamSharing) -> None:
        """The owner has no stream any more, but this process has."""
        try:
            missed = await self.take_over(session)
        except (BackplaneLost, RpcError):
            return
        if session.streams:
            session._flush()
            if missed:
                session.tell_all_changed()
        else:
            self.given_up(session)

    def _release(self, sender: str, tag: bytes, stream: bytes, token: bytes) -> None:
        session = self._of(tag)
        answer = b""
        if session is not None:
            if session.owned:
                session.owner = sender
                session.held = True
                self._let_go(session)
                session.direct()
                answer = _HANDED
            self._hand_over(session)
            self._end_stream(session, stream.decode("ascii"))
        self.runtime.spawn(self.wire.flush_and_tell(sender, _RELEASED, token, answer))

    def _released(self, sender: str, token: bytes, answer: bytes) -> None:
        self.wire.answered(token, answer)

    # --- what belongs to no request -----------------------------------------------------------------

    def note(self, session: StreamSharing, method: bytes, params: bytes | None) -> bool:
        """Gives the owner a notification for the client; without one it waits here. False when it is dropped."""
        if session.owned:
            return StreamingSession.announce(session, method, params)
        if session.owner and self.wire.seems_alive(session.owner):
            self.wire.tell(
                session.owner, _NOTE, session.tag.encode(), method, b"" if params is None else params
            )
            return True
        if not self._keep(session, method, params):
            return False
        if session.owner:
            self.runtime.spawn(self._check_owner(session))
        return True

    @staticmethod
    def _keep(session: StreamSharing, method: bytes, params: bytes | None) -> bool:
        waiting = session.waiting = session.waiting if session.waiting is not None else {}
        if (method, params) not in waiting and len(waiting) >= session.server.limits.max_waiting_notices:
            return False
        waiting[method, params] = None
        return True

    async def _check_owner(self, session: StreamSharing) -> None:
        owner = session.owner
        try:
            lives = await self.wire.alive(owner)
        except BackplaneLost:
            return
        if lives:
            self._hand_over(session)
        elif session.owner == owner:
            self._disowned(session)

    def _noted(self, sender: str, tag: bytes, method: bytes, params: bytes) -> None:
        session = self._of(tag)
        if session is None:
            return
        if session._taking is not None or session.owner == sender:
            self._keep(session, method, params or None)
        else:
            self.note(session, method, params or None)  # here, or on to the owner that the sender does not know yet

    def remote(self, session: StreamSharing) -> FrameSink:
        """Where requests to the client go, when its stream is on another process."""
        return FrameSink(lambda frame: self.wire.tell(session.owner, _SEND, session.tag.encode(), frame))

    def _send(self, sender: str, tag: bytes, frame: bytes) -> None:
        session = self._of(tag)
        sink: Any = session.sink if session is not None else None
        if sink is None or not sink.carry(frame):
            id = _decode_id(frame).get("id")
            if id is not None:
                self.wire.tell(sender, _UNSENT, tag, _encode(id))

    def _unsent(self, sender: str, tag: bytes, id: bytes) -> None:
        session = self._of(tag)
        if session is not None and session.mux is not None:
            call = session.mux.pending.get(msgspec.json.decode(id))
            if call is not None:
                call.fail(ConnectionClosed("the client has no stream open for requests that belong to none of its own"))

    # --- other processes ----------------------------------------------------------------------------

    def _of(self, tag: bytes) -> StreamSharing | None:
        return self.sessions.get(tag.decode("ascii"))

    def _died(self, worker: str) -> None:
        self.wire.died(worker)
        self.posts.died(worker)
        for session in [each for each in self.sessions.values() if each.owner == worker and each.away]:
            self._disowned(session)

    def _gap(self) -> None:
        """Messages were lost: owners may be others, and there may be more to read."""
        self.runtime.spawn(self._look_at_owners())
        self.posts.look()

    async def _look_at_owners(self) -> None:
        for session in list(self.sessions.values()):
            try:
                kept = _read_owner((await self.backplane.parts(session.record)).get(OWNER_PART))
            except BackplaneLost:
                return  # there will be another gap
            if kept is not None and kept[1] != self.backplane.worker:
                self._own(kept[1], session.tag.encode(), b"%d" % kept[0], b"1")

    def _emptied(self) -> None:
        """Everything that was kept is gone. Sessions write their records anew; who owns them is told with that."""
        self.ledger.clear()
        self.runtime.spawn(self._keep_owners([each for each in self.sessions.values() if each.owned and each.epoch]))

    async def _keep_owners(self, sessions: list[StreamSharing]) -> None:
        for _ in range(_TRIES):
            left = []
            for session in sessions:
                part = _write_owner(session.epoch, self.backplane.worker)
                try:
                    if session.owned and not session.ended and not await self.backplane.put_part(
                        session.record, OWNER_PART, part
                    ):
                        left.append(session)  # its record is not there yet
                except BackplaneLost:
                    return
            sessions = left
            if not sessions:
                return
            over = self.runtime.create_future()
            self.runtime.call_at(self.runtime.time() + _AGAIN, lambda over=over: over.done() or over.set_result(None))
            await over

    def _reached(self, available: bool) -> None:
        """The backplane can be reached again: what waits for an owner may find it."""
        for session in list(self.sessions.values()):
            if available and session.waiting and session.away and session.owner:
                self.runtime.spawn(self._check_owner(session))


def _write_owner(epoch: int, worker: str) -> bytes:
    return b"%d %b" % (epoch, worker.encode("ascii"))


def _read_owner(part: bytes | None) -> tuple[int, str, bool] | None:
    """(claim, owner, whether it may have a stream) of the part of a record."""
    if not part:
        return None
    epoch, _, worker = part.partition(b" ")
    return int(epoch), worker.decode("ascii"), True
