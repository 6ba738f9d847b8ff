"""Whether anything of a process group is still running (B20)."""

import contextlib
import os
import sys

__all__ = ("group_running",)

_STATE, _PGRP = 0, 2  # fields of /proc/PID/stat after the command's name


def group_running(pgid: int) -> bool:
    """Whether a process of the group lives. Zombies do not count; those that are our children are reaped.

    An orphan that was killed stays a zombie until the init process gets round to it, which in some
    containers takes seconds. As the init process of a container we inherit such orphans ourselves.
    """
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-pgid, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(pgid, 0)
    except OSError:  # ESRCH: empty. EPERM: what is left is not ours to signal
        return False
    return not (sys.platform.startswith("linux") and _only_zombies(pgid))


def _only_zombies(pgid: int) -> bool:
    zombies = False
    try:
        names = os.listdir("/proc")
    except OSError:
        return False
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as f:
                fields = f.read().rpartition(b")")[2].split()
        except OSError:  # ended meanwhile
            continue
        if int(fields[_PGRP]) == pgid:
            if fields[_STATE] not in (b"Z", b"X"):
                return False
            zombies = True
    return zombies
