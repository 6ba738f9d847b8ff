"""How many descriptors this process may have: all that it is allowed to, and some of them kept free for what it does
beside its connections."""

from __future__ import annotations

import contextlib
import os

__all__ = ("raise_limit", "room")

_MOST = 1 << 20
"""More than a process has connections for; some systems call their limit endless, and take no such number."""
_KEPT_FREE = 64
_WITHOUT_LIMIT = 1 << 30


def raise_limit() -> None:
    """Makes the number of open files what the system at most allows: the usual 1024 are there for programs that use
    ``select``. Does nothing where that is not possible."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = _MOST if hard == resource.RLIM_INFINITY else min(hard, _MOST)
        if soft != resource.RLIM_INFINITY and soft < most:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def room() -> int:
    """How many connections this process can have beside what it has open now, with some descriptors left for other
    things. At least 1."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        if limit == resource.RLIM_INFINITY:
            return _WITHOUT_LIMIT
        used = len(os.listdir("/dev/fd"))
    except (ImportError, OSError):
        return _WITHOUT_LIMIT
    return max(limit - used - min(_KEPT_FREE, limit // 4), 1)
