"""Accepts the connections of all workers and gives each to the one that has the fewest.

The kernel would do it for nothing (SO_REUSEPORT, or one listening socket for all), but by chance: of four connections
that stay open, most are with one worker of two. Here they are counted. A connection is kept by the acceptor until the
worker says that it took it, so one that was on its way to a worker that dies is given to another; while nobody can
take one, it waits in the kernel's queue, and nobody is refused.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections import deque
from typing import Any, NamedTuple

from headrace.hosting.open_files import room
from headrace.hosting.workers.line import Line

__all__ = ("Acceptor", "Given", "Taker")

log = logging.getLogger("headrace.hosting")

_BATCH = 64
"""Connections that one turn of the loop accepts of a socket."""
_MOST_ON_WAY = 256
"""Connections given to a worker that it has not taken. Beyond: it gets no more."""
_SLOW = 0.5
"""Seconds that a worker may leave a connection before others are preferred: it is stopped, or blocked."""
_PAUSE = 0.1
"""Seconds without accepting when the process has no descriptor free."""
_SHUT = 0.5
"""Seconds in which a worker that has no descriptor free gets no connection."""
_QUIET = 10.0
"""Seconds between two lines of the log that say the same."""
_NO_ROOM = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))


class Given(NamedTuple):
    """A connection on its way to a worker: of which listening socket, our copy of it, and what is known of it."""

    at: int
    fd: int
    about: dict[str, Any] | None


class Taker:
    """A worker as the acceptor sees it."""

    def __init__(self, line: Line) -> None:
        self.line = line
        self.room = 1 << 30
        """Connections that it can have."""
        self.shut_until = 0.0
        """Until when it gets none."""
        self.connections = 0
        """Open ones that it has taken."""
        self.accepted = 0
        """All that it ever took."""
        self.on_way: deque[Given] = deque()
        self.since = 0.0
        """When it last took one, or was given the first of those on their way."""
        self.turn = 0

    @property
    def load(self) -> int:
        """Connections that it has or is about to have."""
        return self.connections + len(self.on_way)

    @property
    def takes(self) -> bool:
        """Whether it can be given a connection."""
        return len(self.on_way) < _MOST_ON_WAY and self.load < self.room and not self.shut_until


class Acceptor:
    """Listening sockets, and the workers that their connections go to. Made on the loop that it runs on.

    :param sockets: bound sockets; :meth:`start` has them listen. They become the acceptor's.
    """

    def __init__(self, sockets: list[socket.socket], *, backlog: int = 1024) -> None:
        self.sockets = sockets
        self.accepted = 0
        """Connections accepted so far."""
        self._backlog = backlog
        self._loop = asyncio.get_running_loop()
        self._takers: list[Taker] = []
        self._homeless: deque[Given] = deque()
        self._reading = False
        self._listening = False
        self._pause: asyncio.TimerHandle | None = None
        self._turn = 0
        self._held = 0
        self._most_held = room()
        self._said = -_QUIET

    @property
    def waiting(self) -> int:
        """Accepted connections that no worker could be given."""
        return len(self._homeless)

    def start(self) -> None:
        """Listens, and accepts as soon as there is a taker. Raises OSError."""
        for sock in self.sockets:
            sock.setblocking(False)
            sock.listen(self._backlog)
        self._listening = True
        self._steer()

    def add(self, taker: Taker) -> None:
        """Counts a worker in: it gets connections from now on."""
        self._takers.append(taker)
        self._settle()

    def remove(self, taker: Taker) -> None:
        """It gets no more; what is on its way stays its own until :meth:`release`."""
        if taker in self._takers:
            self._takers.remove(taker)
            self._steer()

    def release(self, taker: Taker) -> None:
        """It takes no more, or is dead: what is on its way goes to others. Those that it had taken are not counted any
        more where it is dead."""
        self.remove(taker)
        self._homeless.extend(taker.on_way)
        taker.on_way.clear()
        self._settle()

    def took(self, taker: Taker, count: int) -> None:
        """A worker has taken the ``count`` oldest of what was on the way to it."""
        for _ in range(min(count, len(taker.on_way))):
            os.close(taker.on_way.popleft().fd)
            self._held -= 1
            taker.connections += 1
            taker.accepted += 1
        taker.since = self._loop.time()
        if not self._reading:
            self._settle()

    def ended(self, taker: Taker, count: int) -> None:
        """``count`` connections of a worker are over."""
        taker.connections -= count
        if not self._reading:
            self._settle()

    def short(self, taker: Taker, count: int) -> None:
        """A worker could not take the ``count`` oldest of what was on the way to it, for want of descriptors: they go
        to others, or to it later."""
        for _ in range(min(count, len(taker.on_way))):
            self._homeless.append(taker.on_way.popleft())
        self._shut(taker)
        self._settle()

    def _shut(self, taker: Taker) -> None:
        taker.shut_until = self._loop.time() + _SHUT
        self._loop.call_later(_SHUT, self._open, taker)

    def _open(self, taker: Taker) -> None:
        taker.shut_until = 0.0
        if taker in self._takers:
            self._settle()

    def give(self, at: int, fd: int, about: dict[str, Any] | None = None) -> None:
        """Gives a connection, which becomes the acceptor's, to a worker: to one that comes, when there is none."""
        self._held += 1
        self._homeless.append(Given(at, fd, about))
        self._settle()

    def stop(self) -> None:
        """Stops listening at once: what waits in the kernel's queue is still given out."""
        if not self._listening:
            return
        self._listening = False
        if self._pause is not None:
            self._pause.cancel()
            self._pause = None
        if self._reading:
            self._reading = False
            for at, sock in enumerate(self.sockets):
                self._loop.remove_reader(sock.fileno())
                self._accept(at, sock, self._backlog)
        for sock in self.sockets:
            sock.close()

    def close(self) -> None:
        """Stops, and closes the connections that nobody took."""
        self.stop()
        for given in self._homeless:
            os.close(given.fd)
        self._held -= len(self._homeless)
        self._homeless.clear()

    # --- who gets what ------------------------------------------------------------------------------

    def _choose(self) -> Taker | None:
        """The worker with the fewest connections, in turn where several have as few; one that does not take what it is
        given only where all are like that."""
        best = None
        late = self._loop.time() - _SLOW
        least: tuple[bool, int, int] = (True, 0, 0)
        for taker in self._takers:
            if not taker.takes:
                continue
            key = (bool(taker.on_way) and taker.since < late, taker.load, taker.turn)
            if best is None or key < least:
                best, least = taker, key
        return best

    def _settle(self) -> None:
        """Gives out what waits, as far as somebody takes it, and accepts only while somebody does."""
        if self._homeless:
            self._hand_out()
        self._steer()

    def _hand_out(self) -> None:
        bundles: dict[Taker, list[Given]] = {}
        while self._homeless and (taker := self._choose()) is not None:
            given = self._homeless.popleft()
            if not taker.on_way:
                taker.since = self._loop.time()
            taker.on_way.append(given)
            self._turn += 1
            taker.turn = self._turn
            bundle = bundles.setdefault(taker, [])
            bundle.append(given)
            if len(bundle) == _BATCH:
                self._send(taker, bundles.pop(taker))
        for taker, bundle in bundles.items():
            self._send(taker, bundle)

    def _send(self, taker: Taker, bundle: list[Given]) -> None:
        fields: dict[str, Any] = {"at": [given.at for given in bundle]}
        if any(given.about is not None for given in bundle):
            fields["about"] = [given.about for given in bundle]
        try:
            # A line that is closed says so by itself, and what is on its way is released then.
            taker.line.send("take", [given.fd for given in bundle], **fields)
        except OSError:
            # No descriptor is free to have them wait: they go back.
            for given in bundle:
                taker.on_way.remove(given)
            self._homeless.extend(bundle)
            self._shut(taker)

    # --- accepting ----------------------------------------------------------------------------------

    def _steer(self) -> None:
        want = (
            self._listening and self._pause is None and not self._homeless and self._held < self._most_held
            and any(taker.takes for taker in self._takers)
        )  # fmt: skip
        if want == self._reading:
            return
        self._reading = want
        for at, sock in enumerate(self.sockets):
            if want:
                self._loop.add_reader(sock.fileno(), self._ready, at, sock)
            else:
                self._loop.remove_reader(sock.fileno())

    def _ready(self, at: int, sock: socket.socket) -> None:
        if self._reading:
            self._accept(at, sock, _BATCH)
            self._settle()

    def _accept(self, at: int, sock: socket.socket, most: int) -> None:
        """Accepts what waits, up to ``most``."""
        for _ in range(min(most, max(self._most_held - self._held, 0))):
            try:
                connection, _ = sock.accept()
            except (BlockingIOError, InterruptedError):
                break
            except ConnectionAbortedError:
                continue
            except OSError as exc:
                if exc.errno in _NO_ROOM:
                    if self._loop.time() - self._said >= _QUIET:
                        self._said = self._loop.time()
                        log.error("a connection cannot be accepted now: %s", exc.strerror)
                    if self._listening:
                        self._pause = self._loop.call_later(_PAUSE, self._resume)
                break
            self.accepted += 1
            self._held += 1
            self._homeless.append(Given(at, connection.detach(), None))
        if self._homeless:
            self._hand_out()

    def _resume(self) -> None:
        self._pause = None
        self._steer()
