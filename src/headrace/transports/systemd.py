"""The service manager: sockets that systemd passes, and what it is told (sd_listen_fds(3), sd_notify(3)).

The protocols are environment variables and one datagram socket, so nothing is installed for them. Where the
variables are missing nothing happens: the same command line runs under systemd and without it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
from typing import NamedTuple

__all__ = ("PassedSocket", "listen_fds", "notify", "reloading", "watchdog_interval")

FIRST_FD = 3
MAX_FDS = 1024
"""More than that are no list of sockets but a broken variable."""


class PassedSocket(NamedTuple):
    """A descriptor that the service manager passed."""

    fd: int
    name: str
    """``FileDescriptorName=`` of its socket unit; ``"unknown"`` where none was told."""


_passed: list[PassedSocket] | None = None


def listen_fds() -> list[PassedSocket]:
    """The descriptors passed to this process, in order; none when it was not started by a socket unit.

    The variables are taken out of the environment, and the descriptors closed to programs that are started later;
    a second call returns the same list.
    """
    global _passed
    if _passed is None:
        pid, count = os.environ.get("LISTEN_PID"), os.environ.get("LISTEN_FDS")
        names = os.environ.get("LISTEN_FDNAMES", "").split(":")
        _passed = []
        if pid == str(os.getpid()) and count is not None and count.isdecimal() and int(count) <= MAX_FDS:
            for at in range(int(count)):
                fd = FIRST_FD + at
                with contextlib.suppress(OSError):
                    os.set_inheritable(fd, False)
                _passed.append(PassedSocket(fd, (names[at] if at < len(names) else "") or "unknown"))
            for variable in ("LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"):
                os.environ.pop(variable, None)
    return list(_passed)


def notify(text: str) -> bool:
    """Tells the service manager ``text``: lines of ``NAME=VALUE`` such as ``READY=1``.

    False where nobody listens (``NOTIFY_SOCKET`` is not set) or it could not be told. Never raises, never waits.
    """
    where = os.environ.get("NOTIFY_SOCKET", "")
    if where[:1] not in ("/", "@") or not hasattr(socket, "AF_UNIX"):
        return False
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as out:
            out.setblocking(False)
            out.sendto(text.encode(), "\0" + where[1:] if where[0] == "@" else where)
    except (OSError, ValueError):
        return False
    return True


def reloading() -> bool:
    """Tells that the configuration is being read anew (``Type=notify-reload``); :func:`notify` ``READY=1`` ends it."""
    return notify(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")


def watchdog_interval() -> float | None:
    """Seconds within which ``WATCHDOG=1`` must be told again and again, or None where the manager does not watch
    this process (``WatchdogSec=``)."""
    usec, pid = os.environ.get("WATCHDOG_USEC", ""), os.environ.get("WATCHDOG_PID")
    if not usec.isdecimal() or int(usec) == 0 or (pid is not None and pid != str(os.getpid())):
        return None
    return int(usec) / 1e6
