"""Handshake-era sessions over HTTP: a mux and a gate each, found by Mcp-Session-Id (HO-30..HO-35).

A session lives while a request is in flight, a stream is open or something arrives; after
``limits.session_idle_timeout`` without any of these it is ended and its id is unknown (B47).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sized
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectionClosed, RpcError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.mux import Mux
from headrace.protocol._event_memory import EventPool
from headrace.protocol.session_streams import StreamingSession, StreamSettings

if TYPE_CHECKING:
    from headrace.mux import Revision
    from headrace.protocol.event_store import EventStore

__all__ = ("HttpSession", "SessionStore")


class HttpSession(StreamingSession):
    """One session, found by its id."""

    mixed_batches = False
    version = b""
    """The negotiated revision, as the MCP-Protocol-Version header must name it (HO-41)."""
    used = 0.0

    def __init__(self, server: Any, store: SessionStore) -> None:
        super().__init__(server, store.settings)
        self.id = os.urandom(24).hex()
        self.bind(Mux(server.runtime, self, server.limits))

    def opened(self, revision: Revision, client_info: dict[str, Any], capabilities: dict[str, Any]) -> None:
        super().opened(revision, client_info, capabilities)
        self.version = revision.name.encode("ascii")

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
        self.pool = EventPool(server.limits, server.runtime.time) if event_store is True else None
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
            raise RpcError(INTERNAL_ERROR, "too many sessions are open", http_status=503)
        session = HttpSession(self.server, self)
        session.principal = principal
        session.used = self.server.runtime.time()
        assert session.id is not None
        self.by_id[session.id.encode("ascii")] = session
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
        assert session.id is not None and session.mux is not None
        self.by_id.pop(session.id.encode("ascii"), None)
        session.mux.close(ConnectionClosed(reason))
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
