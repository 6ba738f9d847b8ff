"""Handshake-era HTTP sessions whose id carries them: any process with the same secret serves them (HO-30, B95).

Strategy: the id is a sealed value (``server.sealer``) of the negotiated revision and what the client said of
itself, bound to its principal, with an expiry. Nothing has to be kept between two requests; a session
object is made from the id when a request names it, and stays in a bounded cache only because making it
costs more than looking it up. Nothing depends on finding it there: so there is no stream for what belongs
to no request, the client is not asked for anything (its answer could reach another process), a log level
cannot be set, and DELETE only ends what this process is doing for the session.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND
from headrace.protocol.http_sessions import HttpSession, SessionStore
from headrace.protocol.seal import SealError
from headrace.protocol.session import Hello

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from headrace.mux import Revision, Sink
    from headrace.wire import Envelope

__all__ = ("MAX_ID", "SealedSession", "SealedSessions")

MAX_ID = 4096
"""Characters of a session id; what a client says of itself must fit in (proxies bound header lines)."""
_MAX_CACHED = 2_048
_PURPOSE = "session"
_NEED_MEMORY = frozenset(("logging/setLevel", "resources/subscribe", "resources/unsubscribe"))


class _Contents(msgspec.Struct, array_like=True):
    """What an id carries."""

    expires: float
    version: str
    capabilities: dict[str, Any]
    client_info: dict[str, Any]


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Contents).decode


def _binding(principal: Any) -> bytes:
    return b"" if principal is None else b"=" + str(principal).encode("utf-8", "surrogatepass")


class SealedSession(HttpSession):
    """One session as this process sees it; ``expires`` is in seconds since 1970."""

    no_channel = "a sealed session has no channel for requests to the client"
    detached = True

    def __init__(self, server: Any, store: SealedSessions) -> None:
        super().__init__(server, store)
        self.log_level = None
        self.expires = 0.0
        if (reason := getattr(server, "unshared", None)) is not None:
            self.no_channel = reason

    def unknown_method(self, revision: Revision, envelope: Envelope, sink: Sink) -> RpcError | None:
        reason = getattr(self.server, "unshared", None)
        if reason is not None and envelope.method in _NEED_MEMORY:
            return RpcError(METHOD_NOT_FOUND, reason)
        return super().unknown_method(revision, envelope, sink)

    def opened(self, revision: Revision, hello: Hello) -> Awaitable[None] | None:
        """The handshake went well: the id is made. Raises the answer when it would become too long."""
        client_info, capabilities = hello.client_info, hello.capabilities
        lifetime = self.server.limits.sealed_session_lifetime
        if len(client_info) > 2:  # name and version are what counts
            client_info = {key: client_info[key] for key in ("name", "version", "title") if key in client_info}
        self.expires = time.time() + lifetime
        contents = _encode(_Contents(self.expires, revision.name, capabilities, client_info))
        if len(contents) > MAX_ID // 4 * 3 - 80:
            raise RpcError(INVALID_PARAMS, "capabilities and clientInfo are too long for a sealed session id")
        self.named(self.server.sealer.seal(_PURPOSE, contents, bind=_binding(self.principal), lifetime=lifetime))
        self.restore(revision.name, client_info, capabilities)
        return None

    def named(self, id: str) -> None:
        """Sets the id."""
        self.id = id
        self.key = id.encode("ascii")

    def restore(self, version: str, client_info: dict[str, Any], capabilities: dict[str, Any]) -> None:
        """Takes up a session where its id left it."""
        revision = self.tables.detached[version]
        said = _encode({"capabilities": capabilities, "clientInfo": client_info})
        super().opened(revision, Hello(revision, said))
        self.ready = True


class SealedSessions(SessionStore):
    """The sessions of one endpoint, found by unsealing their ids. ``by_id`` is the cache."""

    sealed = True

    def __init__(self, server: Any) -> None:
        super().__init__(server, event_store=False)
        self.no_streams = getattr(server, "unshared", None) or self.no_streams
        self._sealer = server.sealer

    def begin(self, principal: Any = None) -> HttpSession:
        """A new session, which gets its id when the handshake goes well; it is not kept."""
        session = SealedSession(self.server, self)
        session.principal = principal
        return session

    def find(self, id: bytes, principal: Any = None) -> HttpSession | None:
        """The session of an id that is genuine, not expired, and belongs to ``principal`` (HO-34)."""
        session = self.by_id.pop(id, None)
        if session is not None:
            assert isinstance(session, SealedSession)
            if session.expires <= time.time():
                return None
            self.by_id[id] = session  # to the end: the newest
            return session if session.principal == principal else None
        if len(id) > MAX_ID:
            return None
        try:
            contents = _decode(self._sealer.unseal(_PURPOSE, id, bind=_binding(principal)))
        except (SealError, msgspec.DecodeError):
            return None
        if contents.version not in self.server.tables.detached:
            return None  # sealed by another release
        session = SealedSession(self.server, self)
        session.named(id.decode("ascii"))
        session.principal = principal
        session.expires = contents.expires
        session.restore(contents.version, contents.client_info, contents.capabilities)
        self._make_room()
        self.by_id[id] = session
        return session

    def _make_room(self) -> None:
        while len(self.by_id) >= min(_MAX_CACHED, self.server.limits.max_sessions):
            self._forget(next(iter(self.by_id.values())))

    def _forget(self, session: HttpSession) -> None:
        """Takes a session out of the cache; what it is doing goes on."""
        self.by_id.pop(session.key, None)
        if not session.in_use and session.mux is not None:
            session.mux.close("not in use")
        elif session.hooked is not None:
            session.hooked.leave()

    def end(self, session: HttpSession, reason: str = "the session ended") -> None:
        """Cancels what this process is doing for the session; its id stays good until it expires."""
        if session.ended:
            return
        session.ended = True
        self.by_id.pop(session.key, None)
        if session.mux is not None:
            session.mux.close(reason)

    def sweep(self) -> None:
        """Forgets what has expired or was not used lately."""
        now, clock = self.server.runtime.time(), time.time()
        limit = self.server.limits.session_idle_timeout
        for session in list(self.by_id.values()):
            if session.active or session.in_use:
                session.active = False
                session.used = now
            elif now - session.used >= limit:
                self._forget(session)
                continue
            if session.expires <= clock:  # type: ignore[attr-defined]
                self._forget(session)
