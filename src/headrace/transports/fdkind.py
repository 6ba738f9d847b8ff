"""What a descriptor is, and how to get an open file description of our own for it (B26, T20).

Pipes and terminals can be opened a second time through ``/proc/self/fd``, terminals elsewhere by their name:
the new descriptor reads and writes the same pipe but carries its own ``O_NONBLOCK``. Sockets cannot
be reopened and do not need it (``MSG_DONTWAIT``); where reopening fails (macOS has no ``/proc``, a
container may have dropped the rights to its own standard streams) ``_rawfd`` falls back to modes that
change no flag.
"""

import os
import stat
import sys

__all__ = ("kind_of", "reopen")

# Opening /dev/ptmx again makes a new terminal.
_PTMX = (5, 2)


def kind_of(fd: int) -> str:
    """``"pipe"``, ``"socket"``, ``"tty"``, ``"char"`` (null device and the like) or ``"file"``.

    Raises OSError (``EBADF``) when ``fd`` is not open.
    """
    mode = os.fstat(fd).st_mode
    if stat.S_ISFIFO(mode):
        return "pipe"
    if stat.S_ISSOCK(mode):
        return "socket"
    if stat.S_ISCHR(mode):
        return "tty" if os.isatty(fd) else "char"
    return "file"


def reopen(fd: int, kind: str, *, writing: bool) -> int:
    """A new non-blocking descriptor for the same pipe or terminal, or -1 where there is none.

    ``fd`` stays open and unchanged.
    """
    path = f"/proc/self/fd/{fd}"
    try:
        if kind == "tty":
            device = os.fstat(fd).st_rdev
            if not sys.platform.startswith("linux"):
                path = os.ttyname(fd)
                if os.stat(path).st_rdev != device:
                    return -1
            elif (os.major(device), os.minor(device)) == _PTMX:
                return -1
        elif kind != "pipe" or not sys.platform.startswith("linux"):
            return -1
    except OSError:
        return -1
    flags = (os.O_WRONLY if writing else os.O_RDONLY) | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
    try:
        # ENXIO: the pipe's reader is gone. EACCES: made by another user. EIO: the terminal hung up.
        return os.open(path, flags)
    except OSError:
        return -1
