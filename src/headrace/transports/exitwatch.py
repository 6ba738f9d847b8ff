"""Tells when a child process has ended, on any event loop and without a child watcher (B20, B21).

Linux: a pidfd in the loop. Elsewhere, or when there is no descriptor left: a daemon thread in ``waitid``.
The child is left a zombie until :meth:`ExitWatch.reap`, so that its process group id stays taken while
signals are sent to what is left of the group. Nothing here depends on the child's pipes.
"""

import asyncio
import contextlib
import os
import threading
from collections.abc import Callable

__all__ = ("UNKNOWN_EXIT", "ExitWatch")

UNKNOWN_EXIT = 255
"""Exit code of a child whose status somebody else took (SIGCHLD ignored, a foreign waitpid)."""


class ExitWatch:
    """Calls ``on_exit()`` once in the loop when the child ``pid`` has ended; then :meth:`reap` it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, pid: int, on_exit: Callable[[], object]) -> None:
        self._loop = loop
        self._pid = pid
        self._on_exit: Callable[[], object] | None = on_exit
        self._status: int | None = None  # raw, where the thread had to reap
        self._fd = -1
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self._fd = os.pidfd_open(pid)
        if self._fd >= 0:
            loop.add_reader(self._fd, self._exited)
        else:
            threading.Thread(target=self._wait, name="headrace-child", daemon=True).start()

    def stop(self) -> None:
        """``on_exit`` is not called any more. Idempotent."""
        self._on_exit = None
        if self._fd >= 0:
            fd, self._fd = self._fd, -1
            with contextlib.suppress(RuntimeError):  # uvloop, when the loop is closed
                self._loop.remove_reader(fd)
            os.close(fd)

    def reap(self) -> int | None:
        """Takes the exit status: 0 to 255, or the negative number of a signal. None: still running."""
        status = self._status
        if status is None:
            try:
                pid, status = os.waitpid(self._pid, os.WNOHANG)
            except ChildProcessError:
                return UNKNOWN_EXIT
            if pid == 0:
                return None
            self._status = status
        return os.waitstatus_to_exitcode(status)

    def _exited(self) -> None:
        on_exit = self._on_exit
        self.stop()
        if on_exit is not None:
            on_exit()

    def _wait(self) -> None:
        try:
            if hasattr(os, "waitid"):
                os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOWAIT)
            else:
                self._status = os.waitpid(self._pid, 0)[1]
        except ChildProcessError:
            pass
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._exited)
