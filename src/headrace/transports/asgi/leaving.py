"""Whether the ASGI host has been told to stop.

ASGI hosts wait for their connections first and send ``lifespan.shutdown`` afterwards, so an open event stream
keeps them waiting, without end where no time limit is set. uvicorn can be seen to leave: the handler of its
signals belongs to an object that says so.
"""

from __future__ import annotations

import signal

__all__ = ("host_leaves",)


def host_leaves() -> bool:
    """True once uvicorn, in this process, begins to shut down; for other hosts always False."""
    for signum in (signal.SIGTERM, signal.SIGINT):
        owner = getattr(signal.getsignal(signum), "__self__", None)
        if getattr(owner, "should_exit", None) is True:
            return True
    return False
