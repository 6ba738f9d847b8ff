"""Handshake-era sessions over HTTP: a mux and a gate each, found by Mcp-Session-Id (HO-30..HO-35).

A session lives while a request is in flight, a stream is open or something arrives; after
``limits.session_idle_timeout`` without any of these it is ended and its id is unknown (B47).
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectionClosed, RpcError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.mux import Mux
from headrace.protocol.session import ServerSession

if TYPE_CHECKING:
    from headrace.mux import Revision

__all__ = ("HttpSession", "SessionStore")

MAX_STREAMS = 4
"""GET streams of one session; one more ends the oldest, which is most likely dead (B44)."""


class HttpSession(ServerSession):
    """One session. ``sink`` is its newest GET stream, or None: then what belongs to no request is dropped."""

    def __init__(self, server: Any, store: SessionStore) -> None:
        super().__init__(server, server.tables)
        self.id = secrets.token_urlsafe(24)
        self.version = b""
        """The negotiated revision, as the MCP-Protocol-Version header must name it (HO-41)."""
        self.ended = False
        self.active = True
        """Something arrived since the last sweep."""
        self.used = 0.0
        self.streams: list[Any] = []
        self._store = store
        self.bind(Mux(server.runtime, self, server.limits))

    def opened(self, revision: Revision, client_info: dict[str, Any], capabilities: dict[str, Any]) -> None:
        super().opened(revision, client_info, capabilities)
        self.version = revision.name.encode("ascii")

    def stream_opened(self, sink: Any) -> None:
        """A GET stream: it takes over what belongs to no request, older ones only stand by (HO-12)."""
        self.active = True
        self.streams.append(sink)
        self.sink = sink
        if len(self.streams) > MAX_STREAMS:
            self.streams[0].end_stream()

    def stream_ended(self, sink: Any) -> None:
        """Called by the stream when it is over, whoever ended it."""
        self.active = True
        if sink in self.streams:
            self.streams.remove(sink)
        self.sink = self.streams[-1] if self.streams else None

    @property
    def in_use(self) -> bool:
        """A request is in flight or a stream is open."""
        return bool(self.streams) or (self.mux is not None and self.mux.in_flight > 0)


class SessionStore:
    """The sessions of one endpoint."""

    def __init__(self, server: Any) -> None:
        self.server = server
        self.by_id: dict[bytes, HttpSession] = {}

    def __len__(self) -> int:
        return len(self.by_id)

    def begin(self) -> HttpSession:
        """A new session. Raises the answer (503) when ``limits.max_sessions`` are open already."""
        if len(self.by_id) >= self.server.limits.max_sessions:
            raise RpcError(INTERNAL_ERROR, "too many sessions are open", http_status=503)
        session = HttpSession(self.server, self)
        session.used = self.server.runtime.time()
        assert session.id is not None
        self.by_id[session.id.encode("ascii")] = session
        self.server.sessions.add(session)
        return session

    def end(self, session: HttpSession, reason: str = "the session ended") -> None:
        """Ends a session: requests in flight are cancelled, streams end, the id is unknown (HO-32)."""
        if session.ended:
            return
        session.ended = True
        assert session.id is not None and session.mux is not None
        self.by_id.pop(session.id.encode("ascii"), None)
        session.mux.close(ConnectionClosed(reason))
        for sink in list(session.streams):
            sink.end_stream()

    def sweep(self) -> None:
        """Ends sessions that nothing has used for ``limits.session_idle_timeout`` seconds."""
        now = self.server.runtime.time()
        limit = self.server.limits.session_idle_timeout
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
