"""POST streams that are followed from another connection: the side of who works on the request, and of who reads.

See :mod:`headrace.protocol.shared.replay` for how they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.protocol.shared.events import SharedEventStore
from headrace.protocol.shared.replay import DEAD, DONE, RUNNING, SILENT, Follower

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.mux import Runtime
    from headrace.protocol.shared.session_streams import StreamSharing
    from headrace.protocol.shared.wire import Wire

__all__ = ("SharedPosts",)

_FOLLOW = b"follow"
_UNFOLLOW = b"unfollow"
_POKE = b"poke"
_MOVED = b"moved"


class SharedPosts:
    """Those of one process. ``find`` gives the session of a tag that this process knows."""

    def __init__(self, wire: Wire, runtime: Runtime, find: Callable[[bytes], StreamSharing | None]) -> None:
        self._wire = wire
        self._runtime = runtime
        self._find = find
        self.followers: dict[bytes, Follower] = {}
        """Those that read here, by token."""
        self._due: set[bytes] = set()
        """Those elsewhere that are poked at the end of this turn of the loop."""
        wire.verbs |= {
            _FOLLOW: self._follow, _UNFOLLOW: self._unfollowed, _POKE: self._poked, _MOVED: self._moved,
        }  # fmt: skip

    def new_token(self) -> bytes:
        """One that nothing else of this process has."""
        return b"%d" % self._wire.new_number()

    def died(self, worker: str) -> None:
        """A process has ended."""
        for follower in [each for each in self.followers.values() if each.at.worker == worker]:
            follower.worker_died()

    def look(self) -> None:
        """Pokes may have been lost."""
        for follower in list(self.followers.values()):
            follower.poked(0, RUNNING)

    async def ask(self, follower: Follower) -> bytes:
        """Has the events of a stream announced to ``follower``, and nobody else. How it is with its request."""
        self.followers[follower.token] = follower
        at = follower.at
        if not await self._wire.alive(at.worker):
            return DEAD
        answer = await self._wire.ask(
            at.worker, _FOLLOW, at.tag.encode(), at.stream.encode("ascii"), token=follower.token
        )
        if answer is None:
            return SILENT if await self._wire.backplane.alive(at.worker) else DEAD
        return answer

    def unfollow(self, follower: Follower) -> None:
        """Its end."""
        session = follower.session
        session.followers = tuple(each for each in session.followers if each is not follower)
        if self.followers.pop(follower.token, None) is not None:
            at = follower.at
            self._wire.tell(
                at.worker, _UNFOLLOW, at.tag.encode(), at.stream.encode("ascii"), follower.token
            )

    def _follow(self, sender: str, tag: bytes, stream: bytes, token: bytes) -> None:
        local, _, name = stream.decode("ascii").partition("-")
        session = self._find(tag)
        keeper = session.keeper if session is not None else None
        store = keeper.store if keeper is not None else None
        state, number = DONE, 0
        if isinstance(store, SharedEventStore) and store.name == name:
            number = store.last
            post = keeper.posts.get(local) if keeper is not None else None
            if post is not None:
                state = RUNNING
                former = store.followed.get(local)
                if former is not None and former != (sender, token):
                    self._wire.tell(former[0], _MOVED, former[1])
                store.followed[local] = (sender, token)
                post.part()
        self._runtime.spawn(self._wire.flush_and_tell(sender, _POKE, token, b"%d" % number, state))

    def _unfollowed(self, sender: str, tag: bytes, stream: bytes, token: bytes) -> None:
        session = self._find(tag)
        store = session.keeper.store if session is not None and session.keeper is not None else None
        if isinstance(store, SharedEventStore):
            local = stream.decode("ascii").partition("-")[0]
            if store.followed.get(local) == (sender, token):
                del store.followed[local]

    def more(self, store: SharedEventStore, stream: str) -> None:
        """A stream that is followed has more; told once a turn of the loop."""
        worker, token = store.followed[stream]
        if token not in self._due:
            self._due.add(token)
            self._runtime.call_soon(lambda: self._poke(store, stream, worker, token))

    def _poke(self, store: SharedEventStore, stream: str, worker: str, token: bytes) -> None:
        self._due.discard(token)
        self._wire.tell(worker, _POKE, token, b"%d" % store.last, RUNNING)

    def _poked(self, sender: str, token: bytes, number: bytes, state: bytes) -> None:
        follower = self.followers.get(token)
        if follower is not None:
            follower.poked(int(number), state)
        self._wire.answered(token, state)

    def _moved(self, sender: str, token: bytes) -> None:
        follower = self.followers.pop(token, None)
        if follower is not None:
            follower.end()
