"""The end of a host: threads that tools have left behind do not keep the process (B19)."""

from __future__ import annotations

import os
import sys
import threading
import time

from headrace.cli.app import complain

__all__ = ("leave_within",)


def leave_within(seconds: float, status: int) -> None:
    """Ends the process with ``status`` if the interpreter has not ended by itself ``seconds`` from now.

    The interpreter waits for every thread that is no daemon, and an event loop for its default executor,
    without any limit: a tool that blocks for ever would leave an orphan without a client.
    """
    threading.Thread(target=_watch, args=(seconds, status), name="headrace-leave", daemon=True).start()


def _watch(seconds: float, status: int) -> None:
    time.sleep(seconds)
    left = sorted(t.name for t in threading.enumerate() if not t.daemon and t is not threading.main_thread())
    complain(f"ended without waiting for threads that still run: {', '.join(left) or 'unknown'}")
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    os._exit(status)
