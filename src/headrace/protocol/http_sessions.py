"""Handshake-era sessions over HTTP: a mux and a gate each, found by Mcp-Session-Id (HO-30..HO-35).

A session lives while a request is in flight, a stream is open or something arrives; after
``limits.session_idle_timeout`` without any of these it is ended and its id is unknown (B47).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Sized
from typing import TYPE_CHECKING, Any

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR, R4
from headrace.mux import Mux
from headrace.protocol._event_memory import EventPool
from headrace.protocol.session_streams import StreamingSession, StreamSettings

if TYPE_CHECKING:
    from headrace.mux import Revision
    from headrace.protocol.event_store import EventStore
    from headrace.protocol.session import Hello

__all__ = ("HttpSession", "SessionStore", "new_key")


_BATCH = 32  # ids of one read of random bytes

_keys: list[bytes] = []


def new_key() -> bytes:
    """A session id of 192 random bits in hexadecimal (HO-30)."""
    if not _keys:
        text = os.urandom(24 * _BATCH).hex().encode("ascii")
        _keys.extend(text[at : at + 48] for at in range(0, len(text), 48))
    return _keys.pop()


if hasattr(os, "register_at_fork"):
    # A child process must not give the ids that its parent will give.
    os.register_at_fork(after_in_child=_keys.clear)


class HttpSession(StreamingSession):
    """One session, found by its id."""

    mixed_batches = False
    version = b""
    """The negotiated revision, as the MCP-Protocol-Version header must name it (HO-41)."""
    used = 0.0

    key = b""
    """The id as a header value."""

    def __init__(self, server: Any, store: SessionStore) -> None:
        # All that its bases would set, in one go: clients that come for one call pay for every step of this.
        self.server = server
        self.settings = store.settings
        self.tables = tables = server.tables
        self.mux = mux = Mux(store.runtime, self, server.limits)
        mux.modern = tables.modern
        mux.tees = store.tees

    def opened(self, revision: Revision, hello: Hello) -> Awaitable[None] | None:
        # As ServerSession.opened.
        self.initialized = True
        self.hello = hello
        self.version = revision.version
        mux = self.mux
        assert mux is not None
        mux.current = revision
        mux.null_ids = revision.name < R4
        return None

    @property
    def in_use(self) -> bool:
        """A request is in flight or a stream is open."""
        return bool(self.streams) or (self.mux is not None and self.mux.in_flight > 0)


class SessionStore:
    """The sessions of one endpoint.

    ``event_store``: True keeps events in memory for clients that resume streams, False gives streams no
    ids, a function makes the :class:`~headrace.protocol.event_store.EventStore` of a session id.
    ``retry_interval`` see :class:`StreamSettings`.
    """

    no_streams = "this server has no event streams besides answers"
    """Why there is no GET stream, where sessions are sealed."""
    looks_up = False
    """Sessions may have to be looked up first, which takes its time: ``prepare`` and ``at_hand``."""
    sealed = False
    """The ids carry the sessions: there is no GET stream, and every look-up goes through :meth:`find`."""

    def __init__(
        self,
        server: Any,
        *,
        event_store: bool | Callable[[str], EventStore] = True,
        retry_interval: float | None = None,
    ) -> None:
        self.server = server
        self.runtime = server.runtime
        self.tees: bool = getattr(server, "tees", False)
        self.pool = EventPool(server.limits, self.runtime.clock) if event_store is True else None
        make = self.pool.open if self.pool is not None else event_store or None
        self.settings = StreamSettings(make, retry_interval)  # type: ignore[arg-type]
        self.by_id: dict[bytes, HttpSession] = {}
        self.guests: Sized = ()
        """Sessions of another kind that count as well."""

    def __len__(self) -> int:
        return len(self.by_id)

    def begin(self, principal: Any = None) -> HttpSession:
        """A new session, of ``principal`` alone (HO-34). Raises the answer (503) when ``limits.max_sessions``
        are open already."""
        if len(self.by_id) + len(self.guests) >= self.server.limits.max_sessions:
            raise RpcError(INTERNAL_ERROR, "too many sessions are open", http_status=503, refusal="max_sessions")
        session = HttpSession(self.server, self)
        session.key = key = new_key()
        session.id = key.decode("ascii")
        if principal is not None:
            session.principal = principal
        self.by_id[key] = session
        self.server.sessions.add(session)
        return session

    def find(self, id: bytes, principal: Any = None) -> HttpSession | None:
        """The session of an id, if it is one of ``principal`` (HO-34)."""
        session = self.by_id.get(id)
        return session if session is not None and session.principal == principal else None

    def end(self, session: HttpSession, reason: str = "the session ended") -> None:
        """Ends a session: requests in flight are cancelled, streams end, the id is unknown (HO-32)."""
        if session.ended:
            return
        session.ended = True
        self.by_id.pop(session.key, None)
        if session.mux is not None:
            session.mux.close(reason)
        if (
            session.streams
            or session.keeper is not None
            or session.waiting
            or session.awaited is not None
            or session.shared is not None
        ):
            session.close_streams()

    def sweep(self) -> None:
        """Ends sessions that nothing has used for ``limits.session_idle_timeout`` seconds."""
        now = self.server.runtime.time()
        limit = self.server.limits.session_idle_timeout
        if self.pool is not None:
            self.pool.sweep()
        for session in list(self.by_id.values()):
            if session.active or session.in_use:
                session.active = False
                session.used = now
            elif now - session.used >= limit:
                self.end(session, "the session was idle for too long")

    def close(self) -> None:
        """Ends them all."""
        for session in list(self.by_id.values()):
            self.end(session, "the server is shutting down")
