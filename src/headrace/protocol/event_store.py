"""Events of HTTP sessions, kept so that a client can resume a stream (HO-20, HO-21; SE-08).

Each session has a store of its own: what one session was sent cannot be replayed to another, whatever
id is named (B43). What a store is, is said here; the one in memory is in ``_event_memory``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

__all__ = ("EventStore", "Replay")


class Replay(msgspec.Struct, frozen=True):
    """What :meth:`EventStore.replay` found."""

    stream: str
    """The stream that the id belongs to, as it was given to ``append``."""
    events: list[tuple[str, bytes]]
    """``(id, data)`` of what followed on that stream, oldest first; empty data is not sent again."""
    lost: bool = False
    """The id was given, but nothing is left of its stream."""


class EventStore(ABC):
    """The events of one session. Methods are called on the event loop and must not block.

    A store of one's own is given to a server as ``event_store=function``: called with the session id it
    makes the store of that session. An exception of a store costs the event its id, never the message.
    """

    @abstractmethod
    def append(self, stream: str, data: bytes) -> str:
        """Keeps one event of ``stream`` and gives its id: unique in the session, visible ASCII (HO-20).

        ``data`` is the JSON text of the message in one line, or empty for an event that only carries an
        id. How long it is kept is the store's decision.
        """

    @abstractmethod
    def replay(self, last_id: str) -> Replay | None:
        """What followed the event ``last_id`` on its stream; ``None`` for an id that was never given."""

    def end(self, stream: str) -> None:  # noqa: B027
        """``stream`` got its last event; what is kept may still be asked for."""

    def close(self) -> None:  # noqa: B027
        """The session has ended: nothing will be asked for again."""
