"""Where a process that binds no address gets its connections from: another one accepts them and passes them on.

While an intake is offered, :func:`headrace.transports.http_server.listen` and
:func:`headrace.transports.stream.serve_lines` bind nothing: a listener is registered with the intake, which gives it
accepted sockets (``adopt``). Everything above (servers of other SDKs, applications) is served that way without knowing.
An offer is taken by the first that listens: what a lifespan or a handler opens beside it has addresses of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Protocol

from headrace.transports._task import spawner

__all__ = ("Adopting", "Intake", "Name", "offer", "offered", "taken")

Name = tuple[str, int] | str
"""Host and port, or the path of a unix socket."""


class Listener(Protocol):
    """What an intake gives connections to."""

    def adopt(self, sock: socket.socket, about: dict[str, Any] | None = None) -> None:
        """Serves a connection that another process has accepted; owns ``sock``. ``about`` is what the process that has
        served it before says of it, None where there is none."""


class Intake(Protocol):
    """Where connections come from. Everything happens on the loop of the listeners."""

    def names(self, kind: str) -> list[Name]:
        """Where connections of one kind (``http``, ``unix``, ``tcp``) are accepted; empty: nowhere."""

    def register(self, kind: str, listener: Listener, runtime: Any) -> None:
        """Has the connections of one kind given to ``listener``. ``runtime`` counts its requests. Raises UsageError
        where none are accepted."""

    def lost(self) -> None:
        """A connection that was adopted has ended."""

    def hand_over(self, kind: str, fd: int, about: dict[str, Any] | None) -> bool:
        """Has another process go on with a connection that is idle; False where there is none."""

    @property
    def handing_over(self) -> bool:
        """Whether other processes go on while this one ends."""


_offered: ContextVar[Intake | None] = ContextVar("headrace_intake", default=None)


def offer(intake: Intake | None) -> None:
    """Offers an intake to what this task, or what is called by it, opens next."""
    _offered.set(intake)


def offered() -> bool:
    """Whether what is opened next here gets its connections from an intake."""
    return _offered.get() is not None


def taken() -> Intake | None:
    """Takes the intake that is offered here, if any."""
    intake = _offered.get()
    if intake is not None:
        _offered.set(None)
    return intake


class Adopting:
    """Accepted sockets on their way to be connections of a listener."""

    def __init__(self, intake: Intake) -> None:
        self._intake = intake
        self._loop = asyncio.get_running_loop()
        self._spawn = spawner(self._loop)
        self._tasks: set[Any] = set()

    def adopt(self, protocol: Callable[[], Any], sock: socket.socket, **options: Any) -> None:
        """Makes a connection of ``sock``; ``options`` are those of ``loop.connect_accepted_socket``. What fails (a
        peer that is gone, a TLS handshake) ends the connection and nothing else."""
        task = self._spawn(self._adopt(self._loop.connect_accepted_socket(protocol, sock, **options), sock))
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _adopt(self, connecting: Coroutine[Any, Any, Any], sock: socket.socket) -> None:
        try:
            await connecting
        except (OSError, EOFError):
            self._intake.lost()
            with contextlib.suppress(OSError):
                sock.close()

    async def settled(self, timeout: float) -> None:
        """Returns when all of them are connections, or gone; what takes longer than ``timeout`` seconds is given up."""
        if self._tasks:
            _, late = await asyncio.wait(list(self._tasks), timeout=timeout)
            for task in late:
                task.cancel()
