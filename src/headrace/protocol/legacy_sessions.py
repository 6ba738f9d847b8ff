"""Sessions of the HTTP+SSE transport of 2024-11-05: one event stream and the posts that name it (LS-01..LS-06).

A session lives exactly as long as its stream. Its token stands in the URI that the first event gives,
is random, and is worth nothing to another principal.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.errors import ConnectionClosed, RpcError
from headrace.jsonrpc import INVALID_REQUEST
from headrace.mux import Mux
from headrace.protocol.session import ServerSession

if TYPE_CHECKING:
    from headrace.mux import Revision, Sink
    from headrace.protocol.http_sessions import SessionStore
    from headrace.wire import Envelope

__all__ = ("LegacySession", "LegacySessions")


class LegacySession(ServerSession):
    """One session; ``sink`` is its stream."""

    primes = False

    def __init__(self, server: Any, store: LegacySessions) -> None:
        super().__init__(server, server.tables)
        self.id = secrets.token_urlsafe(24)
        self.ended = False
        self._store = store
        self.bind(Mux(server.runtime, self, server.limits))
        assert self.mux is not None
        self.mux.modern = None
        self.mux.tees = getattr(server, "tees", False)

    def classify(self, envelope: Envelope, sink: Sink) -> Revision:
        """Only handshake revisions are spoken here, whatever ``_meta`` says (LS-06)."""
        assert self.mux is not None
        current: Revision | None = self.mux.current
        if envelope.method == "initialize":
            if current is not None:
                raise RpcError(INVALID_REQUEST, "this connection is initialized already", http_status=400)
            return self.tables.handshake
        if current is not None:
            return current
        if envelope.method == "ping":
            return self.tables.handshake
        raise RpcError(INVALID_REQUEST, "over HTTP+SSE the first request is initialize", http_status=400)

    def stream_ended(self, sink: Any) -> None:
        """The stream is over: so is the session, and its requests are cancelled (LS-04)."""
        self._store.end(self, "the event stream ended")


class LegacySessions:
    """The legacy sessions of one endpoint; ``limits.max_sessions`` counts them and ``others`` together.

    ``stream_path`` and ``post_path`` are the two endpoints.
    """

    def __init__(self, server: Any, others: SessionStore, stream_path: str, post_path: str) -> None:
        self.server = server
        self.stream_path = stream_path.encode("ascii")
        self.post_path = post_path.encode("ascii")
        self.by_id: dict[bytes, LegacySession] = {}
        self.prefix: Callable[[], bytes] = bytes
        """Gives what stands before ``post_path`` in the client's URLs (ASGI mounts)."""
        self._others = others
        others.guests = self.by_id

    def __len__(self) -> int:
        return len(self.by_id)

    def begin(self, principal: Any = None) -> LegacySession | None:
        """A new session of ``principal``; None when too many are open."""
        if len(self.by_id) + len(self._others) >= self.server.limits.max_sessions:
            return None
        session = LegacySession(self.server, self)
        session.principal = principal
        assert session.id is not None
        self.by_id[session.id.encode("ascii")] = session
        self.server.sessions.add(session)
        return session

    def find(self, query: bytes, principal: Any = None) -> LegacySession | None:
        """The session that ``query`` names (``session=TOKEN``), if it is one of ``principal`` (LS-04)."""
        for pair in query.split(b"&"):
            name, _, value = pair.partition(b"=")
            if name == b"session":
                session = self.by_id.get(value)
                return session if session is not None and session.principal == principal else None
        return None

    def endpoint_of(self, session: LegacySession) -> bytes:
        """The URI reference that the first event gives (LS-02)."""
        assert session.id is not None
        return self.prefix() + self.post_path + b"?session=" + session.id.encode("ascii")

    def end(self, session: LegacySession, reason: str) -> None:
        """Ends a session: its requests are cancelled and its stream ends."""
        if session.ended:
            return
        session.ended = True
        sink: Any = session.sink
        assert session.id is not None and session.mux is not None
        self.by_id.pop(session.id.encode("ascii"), None)
        session.mux.close(ConnectionClosed(reason))
        if sink is not None:
            sink.end_stream()

    def close(self) -> None:
        """Ends them all."""
        for session in list(self.by_id.values()):
            self.end(session, "the server is shutting down")
