"""A process that serves what its supervisor accepts.

It binds no address. Its line to the supervisor brings connections, and word to end; the death of the supervisor ends it
in the same orderly way. Messages from the supervisor: ``take`` (connections), ``retire`` (another goes on: idle
connections are handed back), ``stop`` (nobody goes on), ``ping``. From the worker: ``ready``, ``took`` (``n`` more of
those given, ``c`` connections ended, ``r`` requests so far), ``short`` (no descriptor was free for the next ``n``),
``full`` (it has served its share), ``leaving`` (it takes no more), ``back`` (a connection that is idle), ``pong``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import select
import socket
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from headrace.errors import UsageError
from headrace.hosting.open_files import room
from headrace.hosting.workers.line import Line
from headrace.transports.intake import Name, offer

if TYPE_CHECKING:
    from headrace.transports.intake import Listener

__all__ = ("AT_VARIABLE", "FD_VARIABLE", "INDEX_VARIABLE", "Worker", "current", "is_worker")

log = logging.getLogger("headrace.hosting")

FD_VARIABLE = "HEADRACE_WORKER_FD"
INDEX_VARIABLE = "HEADRACE_WORKER_INDEX"
AT_VARIABLE = "HEADRACE_WORKER_AT"

_ORPHAN_MARGIN = 3.0
"""Seconds beyond the drain that a worker without a supervisor gets before it is ended whatever it does."""

_SOON = 0.002
"""Seconds until the supervisor is told of connections that have ended."""

_QUIET = 10.0
"""Seconds between two lines of the log that say the same."""

_current: Worker | None = None


def is_worker() -> bool:
    """Whether this process was started as a worker and has not been asked for its line yet, or has one."""
    return _current is not None or FD_VARIABLE in os.environ


def current() -> Worker | None:
    """This process as a worker; None where no supervisor started it. What the supervisor has said in the environment
    is taken out of it: children of this process are no workers."""
    global _current
    if _current is None and FD_VARIABLE in os.environ:
        fd = int(os.environ.pop(FD_VARIABLE))
        os.set_inheritable(fd, False)
        index = int(os.environ.pop(INDEX_VARIABLE, "0"))
        places = [Place(*each) for each in json.loads(os.environ.pop(AT_VARIABLE, "[]"))]
        _current = Worker(socket.socket(fileno=fd), index, places)
    return _current


class Place:
    """A listening socket of the supervisor: what is spoken there (http, unix, tcp), its address family, its name."""

    def __init__(self, kind: str, family: int, name: Any) -> None:
        self.kind = kind
        self.family = family
        self.name: Name = name if isinstance(name, str) else (str(name[0]), int(name[1]))


class Worker:
    """This process as its supervisor sees it; an :class:`headrace.transports.intake.Intake`.

    ``index`` counts from 0; the worker that replaces one has its index. ``line``: while :meth:`connected`.
    """

    def __init__(self, sock: socket.socket, index: int, places: list[Place]) -> None:
        self.index = index
        self.line: Line | None = None
        self.max_requests = 0
        """Requests after which it asks to be replaced; 0: never."""
        self._sock = sock
        self._places = places
        self._listeners: dict[str, Listener] = {}
        self._runtimes: dict[int, Any] = {}
        self._ended = 0
        self._due: asyncio.TimerHandle | None = None
        self._leaving = False
        self._said = -_QUIET
        self._others = True
        self._stop: asyncio.Event | None = None
        self._on_stop: Callable[[], object] | None = None

    @property
    def requests(self) -> int:
        """Requests that it has begun to serve."""
        return sum(runtime.requests for runtime in self._runtimes.values())

    @contextlib.asynccontextmanager
    async def connected(
        self, *, grace: float = 5.0, on_stop: Callable[[], object] | None = None
    ) -> AsyncIterator[Worker]:
        """Has the ``line`` open, on the running loop; its end is the last that the supervisor hears.

        :param grace: seconds that hosting takes to drain; if the supervisor is dead, this process ends soon
            behind that, whatever holds it.
        :param on_stop: called once when the supervisor says that this process ends, or is gone.
        """
        self._stop = asyncio.Event()
        self._on_stop = on_stop
        self.line = line = Line(self._sock, closed=self._alone)
        line.on("take", self._take)
        line.on("retire", self._retire)
        line.on("stop", self._end)
        line.on("ping", self._ping)
        _watch(self._sock, grace)
        try:
            yield self
        finally:
            self._on_stop = None
            self._others = False
            if self._due is not None:
                self._due.cancel()
            line.send("bye", r=self.requests)
            line.close()

    async def run(self, hosting: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Runs ``hosting()``, which listens by functions of headrace: those get their connections from the supervisor.
        Cancels it when the supervisor says so or is gone, and then waits for it. Raises what it raises. To be called
        while it is :meth:`connected`."""
        assert self._stop is not None
        offer(self)
        work = asyncio.get_running_loop().create_task(hosting(), name="headrace-worker")
        stop = asyncio.get_running_loop().create_task(self._stop.wait())
        offer(None)
        try:
            await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            if not work.done():
                # Told by the supervisor, or by a signal to this process alone: then others go on.
                self._leave()
                work.cancel()
                await asyncio.wait((work,))
        if not work.cancelled():
            work.result()

    def ready(self, name: str, addresses: list[str], *, grace: float | None = None) -> None:
        """Tells the supervisor that connections can come, and how many seconds this process needs to drain where that
        is the server's own matter."""
        assert self.line is not None
        if self.max_requests:
            for runtime in self._runtimes.values():
                runtime.call_at_request(self.max_requests, self._full)
        self.line.send("ready", name=name, addresses=addresses, grace=grace, room=room())

    # --- the intake: see headrace.transports.intake.Intake -------------------------------------------

    def names(self, kind: str) -> list[Name]:
        return [place.name for place in self._places if place.kind == kind]

    def register(self, kind: str, listener: Listener, runtime: Any) -> None:
        if kind in self._listeners or not self.names(kind):
            raise UsageError(f"the supervisor of this process accepts no {kind} connections for this")
        self._listeners[kind] = listener
        self._runtimes[id(runtime)] = runtime

    def lost(self) -> None:
        # Told with the next connection that is taken, or soon: one message for many.
        self._ended += 1
        if self._due is None and self.line is not None:
            self._due = asyncio.get_running_loop().call_later(_SOON, self._tell)

    @property
    def handing_over(self) -> bool:
        return self._leaving and self._others and self.line is not None and self.line.open

    def hand_over(self, kind: str, fd: int, about: dict[str, Any] | None) -> bool:
        if not self.handing_over or self.line is None:
            return False
        at = next(n for n, place in enumerate(self._places) if place.kind == kind)
        return self.line.send("back", [fd], at=at, about=about)

    # --- what the supervisor says ---------------------------------------------------------------------

    def _take(self, fields: dict[str, Any]) -> None:
        fds: list[int] = fields["fds"]
        short: int = fields.get("short", 0)
        if self._leaving:
            # Not taken: the supervisor has its copies, and gives them to another.
            for fd in fds:
                os.close(fd)
            return
        self._tell(len(fds))
        if short and self.line is not None:
            self.line.send("short", n=short)
            now = asyncio.get_running_loop().time()
            if now - self._said >= _QUIET:
                self._said = now
                log.error("no descriptor is free for a connection (too many open files)")
        about = fields.get("about") or [None] * len(fds)
        for at, fd, known in zip(fields["at"], fds, about, strict=False):
            place = self._places[at]
            sock = socket.socket(place.family, socket.SOCK_STREAM, 0, fileno=fd)
            sock.setblocking(False)
            try:
                self._listeners[place.kind].adopt(sock, known)
            except Exception as exc:
                log.error("a connection could not be taken", exc_info=exc)
                sock.close()
                self.lost()

    def _tell(self, taken: int = 0) -> None:
        if self._due is not None:
            self._due.cancel()
            self._due = None
        ended, self._ended = self._ended, 0
        if self.line is not None and (taken or ended):
            self.line.send("took", n=taken, c=ended, r=self.requests)

    def _full(self) -> None:
        if self.line is not None and not self._leaving:
            self.line.send("full")

    def _ping(self, fields: dict[str, Any]) -> None:
        if self.line is not None:
            self.line.send("pong")

    def _retire(self, fields: dict[str, Any]) -> None:
        self._stopped()

    def _end(self, fields: dict[str, Any]) -> None:
        self._others = False
        self._stopped()

    def _alone(self) -> None:
        """The supervisor is gone."""
        self._others = False
        self._stopped()

    def _stopped(self) -> None:
        self._leave()
        if self._stop is not None:
            self._stop.set()
        if self._on_stop is not None:
            on_stop, self._on_stop = self._on_stop, None
            on_stop()

    def _leave(self) -> None:
        """Takes no more, which the supervisor is told behind everything that was taken."""
        if not self._leaving:
            self._leaving = True
            if self.line is not None:
                self.line.send("leaving")


def _watch(sock: socket.socket, grace: float) -> None:
    """Ends this process if its supervisor dies and the loop does not see to it in time: it may be blocked."""
    line = sock.dup()

    def watch() -> None:
        poll = select.poll()
        poll.register(line, 0)
        poll.poll()  # nothing but the end of the other side ends this
        ended = threading.Event()
        ended.wait(grace + _ORPHAN_MARGIN)
        os._exit(1)

    threading.Thread(target=watch, name="headrace-supervisor-watch", daemon=True).start()
