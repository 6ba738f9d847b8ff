"""A session of which other processes have a part too: who tells its client, and what its GETs open (HO-10, HO-21).

What several such sessions of one process have in common is :mod:`headrace.protocol.shared.streams`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from headrace.errors import LocalProtocolError
from headrace.protocol.session_streams import Resumed, StreamingSession

if TYPE_CHECKING:
    from headrace.mux import PendingCall
    from headrace.protocol.shared.replay import Follower
    from headrace.protocol.shared.streams import SharedStreams

__all__ = ("Opened", "StreamSharing")

_encode = msgspec.json.Encoder().encode


class Opened(NamedTuple):
    """What a GET of a shared session opens."""

    resumed: Resumed
    missed: bool = False
    """Nobody knows what the client was not told: :meth:`StreamSharing.tell_all_changed` once the stream is open."""
    follower: Follower | None = None
    """It goes on with a POST stream: ``resumed.events``, then what the follower gives."""


class StreamSharing(StreamingSession):
    """The part of a session that shares its streams; a base class beside HttpSession.

    ``record`` is the key of the session's record in the backplane. SharedStreams.join makes it one of several.
    """

    shared: SharedStreams | None = None
    record = ""
    tag = ""
    """What stands for the session in event ids, keys of logs and messages."""
    epoch = 0
    """The claim of the owner."""
    owner = ""
    """The process that tells the client what belongs to no request; empty: none that lives is known."""
    held = False
    """A GET stream is open on the owner."""
    count = 0
    """Events of GET streams under this claim."""
    followers: tuple[Follower, ...] = ()
    """POST streams of other processes or connections that are read here."""
    _taking: Any = None
    _remote: Any = None

    @property
    def owned(self) -> bool:
        """This process tells the client."""
        return self.shared is None or self.owner == self.shared.backplane.worker

    @property
    def away(self) -> bool:  # type: ignore[override]
        """Another process tells the client, or nobody does."""
        return not self.owned

    @property
    def resumes_elsewhere(self) -> bool:
        """Event ids are those of shared logs."""
        return self.shared is not None and self.settings.make_store == self.shared.make_store

    # --- GET streams --------------------------------------------------------------------------------

    async def open_get(self, last_id: str | None) -> Opened:
        """What a GET opens, with Last-Event-ID or without. Raises the answer (RpcError), or BackplaneLost."""
        assert self.shared is not None
        return await self.shared.open(self, last_id)

    def stream_opened(self, sink: Any) -> None:
        super().stream_opened(sink)
        if self.shared is not None:
            self.held = True
            self.shared.tell_owner(self)

    def stream_ended(self, sink: Any) -> None:
        super().stream_ended(sink)
        if self.shared is None:
            return
        if self.away:
            self.direct()
        elif not self.streams and self.held:
            self.held = False
            if not self.ended:
                self.shared.tell_owner(self)

    def direct(self) -> None:
        """Sets ``sink``: the newest stream here, or the way to the one that another process has."""
        if self.owned:
            self.sink = self.streams[-1] if self.streams else None
        elif self.held and self.owner and self.shared is not None:
            if self._remote is None:
                self._remote = self.shared.remote(self)
            self.sink = self._remote
        else:
            self.sink = None
        if self.sink is not None and self.awaited is not None:
            self._tell_awaited()

    def tell_all_changed(self) -> None:
        """Nobody knows what the client was not told."""
        self.server.hub.assume_changed(self)

    # --- what belongs to no request -----------------------------------------------------------------

    def announce(self, method: bytes, params: bytes | None = None) -> bool:
        if self.owned:
            return super().announce(method, params)
        if not self.ready or self.ended:
            return False
        assert self.shared is not None
        return self.shared.note(self, method, params)

    def request(
        self, method: str, params: dict[str, Any] | None = None, *, timeout: float | None = None
    ) -> PendingCall:
        if self.owned:
            return super().request(method, params, timeout=timeout)
        if self.mux is None or not self.ready:
            raise LocalProtocolError("the session is not initialized, or has ended")
        if self.sink is None:
            raise LocalProtocolError("the client has no stream open for requests that belong to none of its own")
        return self.mux.call(
            method,
            None if params is None else _encode(params),
            self.sink,
            timeout=timeout if timeout is not None else self.server.limits.request_timeout,
        )

    def close_streams(self) -> None:
        followers, self.followers = self.followers, ()
        for follower in followers:
            follower.end()
        super().close_streams()
        if self.shared is not None:
            self.shared.part(self)
