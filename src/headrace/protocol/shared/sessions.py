"""Handshake-era HTTP sessions that every process of a server serves, on any machine (HO-30..HO-34, B47, B95).

Strategy: a session is a record in the backplane, kept before ``initialize`` is answered. A process that is asked for a
session which it does not know looks it up, once for all requests that wait for it, and keeps what it made of it as long
as it is used. Changes are told to all who may know the session; when messages were missed, each session is looked at
again before it serves a request. While the backplane cannot be reached, sessions that are known here are served, others
are refused for now (503), and nothing is acknowledged that is not kept.

The record lives as long as any process tells that the session is used; only the backplane's clock counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.mux import FrameSink
from headrace.protocol.backplane import BackplaneLost
from headrace.protocol.http_sessions import HttpSession, SessionStore, new_key
from headrace.protocol.session import Hello
from headrace.protocol.session_streams import StreamSettings
from headrace.protocol.shared.session import LEVEL, URI, Record, SharedSession, binding_of, unreachable
from headrace.protocol.shared.streams import OWNER_PART, SharedStreams

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from headrace.mux import Sink
    from headrace.protocol.backplane import Backplane
    from headrace.protocol.event_store import EventStore

__all__ = ("SharedSessions",)

_KIND = "session"
_GROUP = "sessions"
_ENDED = b"e"
_PART = b"p"
_READY = b"r"
_ANSWER = b"a"
_NOTE = b"n"

_SLACK = 1.25  # of the idle time, for a record: not every use of a session is told to it
_TOUCHES = 1_000  # records that are told in one sweep
_ROUNDS = 5  # a session that changes while it is looked up is looked up again, so often
_RESTORERS = 16  # records that are written anew at once
_YOUNG = 3.0  # seconds after everything was lost in which a session that is not there may still be restored

_decode = msgspec.msgpack.Decoder(Record).decode
_quiet = FrameSink(lambda frame: None)


class SharedSessions(SessionStore):
    """The sessions of one endpoint. ``by_id`` holds those that this process knows.

    The parameters are those of :class:`SessionStore`; ``event_store=True`` keeps events in the backplane.
    """

    looks_up = True

    def __init__(
        self,
        server: Any,
        backplane: Backplane,
        *,
        event_store: bool | Callable[[str], EventStore] = True,
        retry_interval: float | None = None,
    ) -> None:
        own = event_store if callable(event_store) else False
        super().__init__(server, event_store=own, retry_interval=retry_interval)
        self.backplane = backplane
        self.log = server.log
        self.shared = SharedStreams(backplane, self.runtime, server.limits)
        if event_store is True:
            self.settings = StreamSettings(self.shared.make_store, retry_interval)
        self.generation = 0
        self.closed = False
        self._emptied_at = -1e9
        self._fetching: dict[bytes, Any] = {}
        self._stirred: set[bytes] = set()
        """Sessions that something was told of while they are looked up."""
        self._dead: dict[str, None] = {}
        backplane.receive(_KIND, self._received)
        backplane.on_gap(self._missed)
        backplane.on_emptied(self._emptied)
        backplane.on_death(self._died)

    @property
    def _lifetime(self) -> float:
        """Seconds that a record is kept after its last use was told."""
        return float(self.server.limits.session_idle_timeout) * _SLACK

    # --- beginning ----------------------------------------------------------------------------------

    def begin(self, principal: Any = None) -> HttpSession:
        """A new session; it is one of all processes when :meth:`keep` has ended."""
        session = SharedSession(self.server, self)
        key = new_key()
        session.principal = principal
        session.bound = True
        session.binding = binding_of(principal)
        session.creator = self.backplane.worker
        self._add(session, key)
        self.shared.begin(session)
        return session

    def _add(self, session: SharedSession, key: bytes) -> None:
        while len(self.by_id) >= self.server.limits.max_sessions:
            idle = next((each for each in self.by_id.values() if not each.in_use), None)
            if idle is None:
                break
            self.forget(idle)
        session.key = key
        session.id = key.decode("ascii")
        session.record = "session:" + session.id
        session.generation = self.generation
        session.touched = session.used = self.runtime.time()
        self.by_id[key] = session
        self.server.sessions.add(session)

    async def keep(self, session: SharedSession) -> None:
        """Makes it one of all processes. Raises the answer: 503 beyond ``limits.max_sessions`` of all, and while the
        backplane cannot be reached."""
        assert session.id is not None
        try:
            most = self.server.limits.max_sessions
            if await self.backplane.count(_GROUP, session.id, self._lifetime) > most:
                await self.backplane.count(_GROUP, session.id, 0)
                raise RpcError(INTERNAL_ERROR, "too many sessions are open", http_status=503, refusal="max_sessions")
            await self.backplane.put(session.record, session.render(), self._lifetime)
        except BackplaneLost:
            raise unreachable() from None

    # --- finding ------------------------------------------------------------------------------------

    def at_hand(self, id: bytes) -> bool:
        """Whether a session need not be looked up."""
        session = self.by_id.get(id)
        return session is not None and session.generation == self.generation  # type: ignore[attr-defined]

    def find(self, id: bytes, principal: Any = None) -> HttpSession | None:
        session = self.by_id.get(id)
        return session if session is not None and session.belongs_to(principal) else None  # type: ignore[attr-defined]

    async def prepare(self, id: bytes, method: bytes, version: bytes | None, principal: Any) -> HttpSession | None:
        """The session of an id for a request, looked up where it has to be; None: there is none for ``principal``. A
        DELETE under its ``version`` ends it everywhere. Raises BackplaneLost."""
        session: Any = self.by_id.get(id)
        if session is None or session.generation != self.generation:
            session = await self._fetch(id)
        if session is None or not session.belongs_to(principal):
            return None
        if method == b"DELETE" and version in (None, session.version):
            await self._remove(session)
        return session  # type: ignore[no-any-return]

    async def _fetch(self, id: bytes) -> SharedSession | None:
        """Looks it up, once for all who ask meanwhile."""
        task = self._fetching.get(id)
        if task is None:
            task = self._fetching[id] = self.runtime.spawn(self._fetched(id))
            task.add_done_callback(lambda _: self._fetching.pop(id, None))
        if not task.done():
            # Who waits may be cancelled; the others are not.
            over = self.runtime.create_future()
            task.add_done_callback(lambda _: None if over.done() else over.set_result(None))
            await over
        found: SharedSession | None = task.result()
        return found

    async def _fetched(self, id: bytes) -> SharedSession | None:
        for _ in range(_ROUNDS):
            self._stirred.discard(id)
            generation = self.generation
            session: Any = self.by_id.get(id)
            try:
                parts = await self.backplane.parts("session:" + id.decode("latin-1"))
            except BackplaneLost:
                if session is not None and not session.ended:
                    return session  # type: ignore[no-any-return]
                raise
            if id not in self._stirred and generation == self.generation:
                break
        self._stirred.discard(id)
        if self.closed:
            raise BackplaneLost("the server is shutting down")
        session = self.by_id.get(id)
        if not parts:
            return await self._missing(session)
        if session is None:
            return self._made(id, parts)
        session.generation = generation
        session.unsaved = False
        self._refresh(session, parts)
        return session  # type: ignore[no-any-return]

    async def _missing(self, session: SharedSession | None) -> SharedSession | None:
        """There is no record. It has ended, or everything was lost and somebody is about to restore it."""
        if session is not None and session.unsaved:
            await self._restore(session)
            session.generation = self.generation
            return session
        if self.runtime.time() - self._emptied_at < _YOUNG:
            raise BackplaneLost("everything was lost a moment ago")
        if session is not None:
            self.end(session, "the session has ended")
        return None

    def _made(self, id: bytes, parts: dict[str, bytes]) -> SharedSession | None:
        """A session from its record; None for one that cannot be served here."""
        try:
            record = _decode(parts[""])
            revision = self.server.tables.by_name[record.version]
        except (msgspec.DecodeError, KeyError):
            return None  # of another release
        session = SharedSession(self.server, self)
        session.binding = record.binding
        session.creator = record.creator
        super(SharedSession, session).opened(revision, Hello(revision, record.hello))
        session.ready = True
        self._add(session, id)
        session.touched = -1e9
        self.shared.join(session, record.creator, parts.get(OWNER_PART))
        self._refresh(session, parts)
        return session

    @staticmethod
    def _refresh(session: SharedSession, parts: dict[str, bytes]) -> None:
        session.apply(LEVEL, parts.get(LEVEL))
        uris = {name[len(URI) :] for name in parts if name.startswith(URI)}
        for uri in uris ^ set(session.subscriptions):
            session.apply(URI + uri, b"" if uri in uris else None)

    # --- ending -------------------------------------------------------------------------------------

    async def _remove(self, session: SharedSession) -> None:
        """Ends it for all processes; this one's part goes on until :meth:`end`."""
        assert session.id is not None
        await self.backplane.delete(session.record)
        await self.backplane.count(_GROUP, session.id, 0)
        self.backplane.tell_all(_KIND, _ENDED, session.key)
        await self.backplane.flushed()

    def forget(self, session: HttpSession) -> None:
        """This process knows the session no more; others do, and it can be looked up again."""
        if session.ended:
            return
        session.ended = session.left = True
        self.by_id.pop(session.key, None)
        if session.mux is not None:
            session.mux.close("not in use")
        self.shared.leave(session)  # type: ignore[arg-type]

    def sweep(self) -> None:
        """Tells the records of sessions that they are used; forgets those that this process has not used."""
        now = self.runtime.time()
        limit = self.server.limits.session_idle_timeout
        left = _TOUCHES if self.backplane.available else 0
        for session in list(self.by_id.values()):
            assert isinstance(session, SharedSession)
            if session.active or session.in_use:
                session.active = False
                session.used = now
                if left and not session.touching and now - session.touched >= limit / 8:
                    left -= 1
                    session.touching = True
                    self.runtime.spawn(self._touch(session))
            elif now - session.used >= limit:
                self.forget(session)
        self.shared.sweep()

    async def _touch(self, session: SharedSession) -> None:
        assert session.id is not None
        try:
            kept = await self.backplane.touch(session.record, self._lifetime)
            if kept:
                await self.backplane.count(_GROUP, session.id, self._lifetime)
                session.touched = self.runtime.time()
            elif not session.ended:
                await self._missing(session)
        except BackplaneLost:
            pass  # the next sweep tries again
        except Exception as exc:
            self.runtime.report("a session could not be kept", exc)
        finally:
            session.touching = False

    def close(self) -> None:
        """This process serves no more; the sessions are the others'."""
        self.closed = True
        for session in list(self.by_id.values()):
            self.forget(session)
        self.shared.close()

    # --- when what is kept is lost ------------------------------------------------------------------

    def _missed(self) -> None:
        self.generation += 1

    def _emptied(self) -> None:
        self._emptied_at = self.runtime.time()
        for session in self.by_id.values():
            session.unsaved = True  # type: ignore[attr-defined]
        left: Iterator[Any] = iter(list(self.by_id.values()))
        for _ in range(min(_RESTORERS, len(self.by_id))):
            self.runtime.spawn(self._restore_some(left))

    async def _restore_some(self, left: Iterator[SharedSession]) -> None:
        for session in left:
            if session.unsaved and not session.ended:
                try:
                    await self._restore(session)
                except BackplaneLost:
                    return  # what is left is restored when it is asked for, or told of its use
                except Exception as exc:
                    self.runtime.report("a session could not be restored", exc)

    async def _restore(self, session: SharedSession) -> None:
        """Writes its record anew, unless another process has."""
        assert session.id is not None
        session.unsaved = False
        try:
            await self.backplane.put(
                session.record, session.render(), self._lifetime, new=True, parts=session.parts()
            )
            await self.backplane.count(_GROUP, session.id, self._lifetime)
        except BackplaneLost:
            session.unsaved = True
            raise

    def _died(self, worker: str) -> None:
        self._dead[worker] = None
        while len(self._dead) > 1_000:
            del self._dead[next(iter(self._dead))]

    # --- what processes tell each other -------------------------------------------------------------

    def tell_part(self, session: SharedSession, name: str, value: bytes | None) -> None:
        """A part of its record is another."""
        parts = [name.encode("utf-8", "surrogatepass")] + ([] if value is None else [value])
        self.backplane.tell_all(_KIND, _PART, session.key, *parts)

    def tell_ready(self, session: SharedSession) -> None:
        """The client has said that it is ready: the process on which it began may wait for that."""
        if session.creator != self.backplane.worker and session.creator not in self._dead:
            self.backplane.tell(session.creator, _KIND, _READY, session.key)

    def pass_note(self, session: SharedSession, frame: bytes) -> None:
        """A cancellation, or progress, of what runs elsewhere, if anywhere."""
        self.backplane.tell_all(_KIND, _NOTE, session.key, frame)

    def pass_answer(self, session: SharedSession, id: str, frame: bytes, sink: Sink) -> bool:
        """Gives an answer to the process that asked. False when it is nobody's."""
        worker, dot, number = id.partition(".")
        if not (dot and worker.isalnum() and worker.isascii() and number.isdecimal() and len(id) < 64):
            return False
        if worker == self.backplane.worker or worker in self._dead:
            return False
        self.backplane.tell(worker, _KIND, _ANSWER, session.key, frame)
        sink.taken = self.runtime.spawn(self.backplane.flushed())
        return True

    def _received(self, sender: str, parts: list[bytes]) -> None:
        if self.closed or len(parts) < 2:
            return
        what, key = parts[0], parts[1]
        if key in self._fetching:
            self._stirred.add(key)
        session: Any = self.by_id.get(key)
        if session is None:
            return
        if what == _ENDED:
            session.left = True
            self.end(session, "the client ended the session")
        elif what == _READY:
            session.ready = True
        elif what == _PART:
            session.apply(parts[2].decode("utf-8", "surrogatepass"), parts[3] if len(parts) > 3 else None)
        elif what in (_ANSWER, _NOTE):
            session.feeding = True
            try:
                session.mux.receive_frame(parts[2], _quiet)
            finally:
                session.feeding = False
