"""What signals mean to a supervisor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from headrace.hosting.workers.supervisor import Supervisor

__all__ = ("signals",)


@contextlib.contextmanager
def signals(supervisor: Supervisor) -> Iterator[None]:
    """SIGTERM and SIGINT end all of it, a second one at once and in the signal's own way; SIGHUP replaces the workers,
    or ends all where the terminal is gone. For the main thread, on the loop of the supervisor."""
    loop = asyncio.get_running_loop()
    at_terminal = _terminal()

    def end(signum: int) -> None:
        if not supervisor.stopping:
            supervisor.stop()
            return
        supervisor.kill()
        signal.signal(signum, signal.SIG_DFL)
        os.kill(os.getpid(), signum)

    def hang_up() -> None:
        if at_terminal and not _terminal():
            supervisor.stop()
        else:
            supervisor.roll()

    loop.add_signal_handler(signal.SIGINT, end, signal.SIGINT)
    loop.add_signal_handler(signal.SIGTERM, end, signal.SIGTERM)
    loop.add_signal_handler(signal.SIGHUP, hang_up)
    try:
        yield
    finally:
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.remove_signal_handler(signum)


def _terminal() -> bool:
    """Whether standard input is a terminal that is still there."""
    try:
        os.tcgetpgrp(0)
    except OSError:
        return False
    return True
