"""One worker process from its start to its end, as the supervisor sees it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.hosting.workers.acceptor import Taker
from headrace.hosting.workers.figures import Figures
from headrace.hosting.workers.line import Line, pair
from headrace.hosting.workers.worker import AT_VARIABLE, FD_VARIABLE, INDEX_VARIABLE

__all__ = ("WorkerProcess",)

_OURS = frozenset(("NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"))
_LOOK = 0.02
"""Seconds between two looks whether a process that has closed its line has ended."""


class WorkerProcess:
    """A worker, started by its constructor. Raises OSError where it cannot be.

    :param command: what runs it.
    :param places: the listening sockets, see :class:`headrace.hosting.workers.worker.Place`.
    :param environment: variables beside those that this process has; the service manager's are ours alone.
    :param directory: where it runs, by its name as it is now; None: where this process does.
    :param on_exit: called once with this, when the process has ended and all that it said has been handled.
    """

    def __init__(
        self,
        index: int,
        command: Sequence[str],
        places: list[tuple[str, int, Any]],
        *,
        environment: Mapping[str, str],
        directory: str | None = None,
        on_exit: Callable[[WorkerProcess], None],
    ) -> None:
        self.index = index
        self.status: int | None = None
        """How it ended, as subprocess has it: negative for a signal. None: it has not."""
        self.ready = False
        self.leaving = False
        self.wanted = True
        """Its end would be an accident."""
        self.name = ""
        self.called = ""
        """Its name among all processes that share a backplane, once it has told."""
        self.addresses: list[str] = []
        self.grace = 0.0
        """Seconds that it needs to drain."""
        self.silent = 0
        """Questions in a row whether its loop turns that it has not answered."""
        self.figures = Figures(processes=1)
        self.started = time.monotonic()
        self.ended = asyncio.Event()
        self._on_exit = on_exit
        self._loop = asyncio.get_running_loop()
        self._changed: list[asyncio.Future[None]] = []
        self._look: asyncio.TimerHandle | None = None
        inherited = {name: value for name, value in os.environ.items() if name not in _OURS}
        ours, theirs = pair()
        try:
            with theirs:
                variables = {
                    FD_VARIABLE: str(theirs.fileno()),
                    INDEX_VARIABLE: str(index),
                    AT_VARIABLE: json.dumps(places),
                }
                # A process group of its own: Ctrl-C is for the supervisor, which tells the workers.
                self._process = subprocess.Popen(
                    list(command),
                    stdin=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    env={**inherited, **environment, **variables},
                    process_group=0,
                    cwd=directory,
                )
        except BaseException:
            ours.close()
            raise
        self.pid = self._process.pid
        self.line = Line(ours, closed=self._line_closed)
        self._pidfd = -1
        with contextlib.suppress(AttributeError, OSError):
            self._pidfd = os.pidfd_open(self.pid)
            self._loop.add_reader(self._pidfd, self.look)
        self.taker = Taker(self.line)
        self.line.on("ready", self._ready)

    def __repr__(self) -> str:
        return f"worker {self.index} (pid {self.pid})"

    @property
    def alive(self) -> bool:
        """Whether it has not ended."""
        return self.status is None

    async def until_ready(self, timeout: float) -> bool:
        """Whether it says that it is ready before it ends; False also when it takes longer than ``timeout`` seconds."""
        if not self.ready and self.alive:
            changed = self._loop.create_future()
            self._changed.append(changed)
            await asyncio.wait((changed,), timeout=timeout)
        return self.ready and self.alive

    def kill(self, signum: int = signal.SIGKILL) -> None:
        """Sends it a signal, while it lives."""
        if self.look():
            return
        os.kill(self.pid, signum)

    def look(self) -> bool:
        """Whether it has ended; if so everything that it said is handled first, and then its end."""
        if self.status is not None:
            return True
        try:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
        except ChildProcessError:
            pid, status, usage = self.pid, 0, None
        if pid == 0:
            return False
        self.status = self._process.returncode = os.waitstatus_to_exitcode(status)
        if usage is not None:
            self.figures.cpu = usage.ru_utime + usage.ru_stime
            self.figures.memory = usage.ru_maxrss * (1 if os.uname().sysname == "Darwin" else 1024)
        self.figures.lived = time.monotonic() - self.started
        if self._look is not None:
            self._look.cancel()
            self._look = None
        if self._pidfd >= 0:
            self._loop.remove_reader(self._pidfd)
            os.close(self._pidfd)
            self._pidfd = -1
        self.line.read_rest()
        self.figures.connections = self.taker.accepted
        self._wake()
        self.ended.set()
        self._on_exit(self)
        return True

    def _ready(self, fields: dict[str, Any]) -> None:
        self.ready = True
        self.name = fields["name"]
        self.addresses = fields["addresses"]
        self.grace = fields.get("grace") or 0.0
        self.taker.room = fields.get("room") or self.taker.room
        self._wake()

    def _wake(self) -> None:
        for changed in self._changed:
            if not changed.done():
                changed.set_result(None)
        self._changed.clear()

    def _line_closed(self) -> None:
        """It is about to end, or has: where there are no descriptors of processes nothing else says so."""
        if self.status is None and self._look is None:
            self._look = self._loop.call_later(_LOOK, self._look_again)

    def _look_again(self) -> None:
        self._look = None
        if not self.look():
            self._look = self._loop.call_later(_LOOK, self._look_again)
