"""What processes that share sessions say to one another about streams: questions with answers, and who lives.

One kind of message of the backplane, whose first part is a verb. A question ends with a token, which its answer
begins with.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.mux import Runtime
    from headrace.protocol.backplane import Backplane

__all__ = ("Wire",)

_KIND = "stream"
_PATIENCE = 2.0  # seconds that another process has to answer
_TRUSTED = 2.0  # seconds that it is taken for alive after it was seen


class Wire:
    """One process's end. ``verbs`` has a function for each verb: ``function(sender, *parts)``."""

    def __init__(self, backplane: Backplane, runtime: Runtime, verbs: dict[bytes, Callable[..., None]]) -> None:
        self.backplane = backplane
        self._runtime = runtime
        self.verbs = verbs
        self._numbers = itertools.count(1)
        self._asked: dict[bytes, tuple[str, Any]] = {}
        """Whose answer is awaited, and the future of who waits, by token."""
        self._seen: dict[str, float] = {}
        """When a process was known to live."""
        backplane.receive(_KIND, self._received)

    def new_number(self) -> int:
        """A number that nothing else here has."""
        return next(self._numbers)

    def tell(self, worker: str, *parts: bytes) -> None:
        """Tells one process."""
        self.backplane.tell(worker, _KIND, *parts)

    def tell_all(self, *parts: bytes) -> None:
        """Tells all others."""
        self.backplane.tell_all(_KIND, *parts)

    async def ask(self, worker: str, *parts: bytes, token: bytes | None = None) -> bytes | None:
        """Asks another process; None when it does not answer in time, and when it dies."""
        token = token or b"%d" % self.new_number()
        future = self._runtime.create_future()
        self._asked[token] = worker, future
        handle = self._runtime.call_at(
            self._runtime.time() + _PATIENCE, lambda: None if future.done() else future.set_result(None)
        )
        try:
            self.tell(worker, *parts, token)
            answer: bytes | None = await future
            return answer
        finally:
            handle.cancel()
            self._asked.pop(token, None)

    def answered(self, token: bytes, answer: bytes) -> None:
        """An answer is here; it may come too late."""
        if token in self._asked:
            _, future = self._asked[token]
            if not future.done():
                future.set_result(answer)

    async def flush_and_tell(self, worker: str, *parts: bytes) -> None:
        """Answers once everything that was written before is kept."""
        try:
            await self.backplane.flushed()
        except OSError:
            return  # who asked meets that too
        self.tell(worker, *parts)

    def seems_alive(self, worker: str) -> bool:
        """It was known to live a moment ago."""
        seen = self._seen.get(worker)
        return worker == self.backplane.worker or (seen is not None and self._runtime.time() - seen < _TRUSTED)

    async def alive(self, worker: str) -> bool:
        """Whether a process lives, or did a moment ago. Raises BackplaneLost."""
        if self.seems_alive(worker):
            return True
        if not await self.backplane.alive(worker):
            self._seen.pop(worker, None)
            return False
        self._seen[worker] = self._runtime.time()
        return True

    def died(self, worker: str) -> None:
        """It does not live any more."""
        self._seen.pop(worker, None)
        for asked, future in self._asked.values():
            if asked == worker and not future.done():
                future.set_result(None)

    def _received(self, sender: str, parts: list[bytes]) -> None:
        self._seen[sender] = self._runtime.time()
        verb = self.verbs.get(parts[0])
        if verb is not None:  # an unknown one is of another release
            verb(sender, *parts[1:])
