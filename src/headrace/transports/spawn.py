"""Starts a server as a child process and connects to its standard streams (ST-20, B20, B22, B25).

The child gets real pipes on both event loops (uvloop alone would give it sockets, which cannot be opened
as ``/dev/stdin``), a session and process group of its own, and only the safe part of the environment.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from headrace.errors import ConnectFailed, UsageError
from headrace.limits import DEFAULT, Limits
from headrace.transports.process import ChildProcess
from headrace.transports.stderrtail import HasFileno

__all__ = ("INHERITED", "ChildProcess", "child_environment", "spawn")

INHERITED: tuple[str, ...] = (
    (
        "APPDATA", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATH", "PATHEXT", "PROCESSOR_ARCHITECTURE",
        "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "USERNAME", "USERPROFILE",
    )
    if sys.platform == "win32"
    else ("HOME", "LOGNAME", "PATH", "SHELL", "TERM", "USER")
)  # fmt: skip
"""Variables a child inherits by default: the list of the official SDKs. Secrets of ours stay ours."""


def child_environment(env: Mapping[str, str] | None = None, *, inherit: bool = False) -> dict[str, str]:
    """The environment of a child: :data:`INHERITED`, or everything with ``inherit``; then ``env`` over it."""
    if inherit:
        result = dict(os.environ)
    else:
        # A value that begins with "()" is an exported shell function: code, not a setting.
        result = {k: v for k in INHERITED if (v := os.environ.get(k)) is not None and not v.startswith("()")}
    if env is not None:
        result.update(env)
    return result


async def spawn(
    argv: Sequence[str | os.PathLike[str]],
    protocol_factory: Callable[[], Any],
    *,
    env: Mapping[str, str] | None = None,
    inherit_env: bool = False,
    cwd: str | os.PathLike[str] | None = None,
    stderr: Callable[[bytes], object] | int | HasFileno | None = None,
    limits: Limits = DEFAULT,
    close_grace: float = 2.0,
) -> ChildProcess:
    """Starts ``argv`` and connects the protocol to its stdin and stdout.

    ``argv``: program (looked up in the child's ``PATH``) and arguments. ``env``, ``inherit_env``: see
    :func:`child_environment`. ``stderr``: where a copy of the child's stderr goes: nowhere, a callable that
    takes bytes, or a descriptor or open file; the last ``limits.stderr_tail_bytes`` are always kept.
    ``close_grace``: seconds for each polite step of ``close``.

    ``protocol_factory()`` gives an object with the six callbacks of :class:`asyncio.Protocol`. When the
    process ends by itself its ``connection_lost`` gets ``ConnectionClosed("exited with status 3",
    exit_code=3)``.

    Raises ConnectFailed when the program cannot be started, UsageError for arguments that cannot be passed.
    """
    if isinstance(argv, str | bytes) or not argv:
        raise UsageError("the command must be a list: the program and its arguments")
    args = [os.fspath(a) for a in argv]
    loop = asyncio.get_running_loop()
    protocol = protocol_factory()
    fds: list[int] = []
    try:
        for _ in range(3):
            fds += os.pipe()
        in_read, in_write, out_read, out_write, err_read, err_write = fds
        pid = _start(args, in_read, out_write, err_write, child_environment(env, inherit=inherit_env), cwd)
    except OSError as exc:
        for fd in fds:
            os.close(fd)
        raise ConnectFailed(f"cannot start {args[0]!r}: {_why(exc, args[0], cwd)}") from exc
    except (ValueError, TypeError) as exc:
        for fd in fds:
            os.close(fd)
        raise UsageError(f"cannot start {args[0]!r}: {exc}") from exc
    for fd in (in_read, out_write, err_write):
        os.close(fd)
    child = ChildProcess(loop, pid, args[0], protocol, close_grace)
    try:
        child.connect(in_write, out_read, err_read, limits.stderr_tail_bytes, stderr)
    except BaseException as exc:
        child._kill_now()
        if isinstance(exc, OSError):
            raise ConnectFailed(f"cannot connect to {args[0]!r}: {exc.strerror or exc}") from exc
        raise
    return child


def _start(
    args: list[str],
    stdin: int,
    stdout: int,
    stderr: int,
    env: dict[str, str],
    cwd: str | os.PathLike[str] | None,
) -> int:
    # vfork and exec: Python stands still for the same millisecond in whatever thread this is called, so
    # there is nothing to win by moving it away from the loop.
    popen = subprocess.Popen(
        args, stdin=stdin, stdout=stdout, stderr=stderr, env=env, cwd=cwd, start_new_session=True
    )
    popen.returncode = 0  # waiting for the process is not Popen's business any more
    return popen.pid


def _why(exc: OSError, command: str, cwd: str | os.PathLike[str] | None) -> str:
    if cwd is not None and exc.filename is not None and os.fspath(exc.filename) == os.fspath(cwd):
        return f"working directory {os.fspath(cwd)!r}: {exc.strerror}"
    if isinstance(exc, FileNotFoundError):
        if os.sep in command and os.path.exists(os.path.join(cwd or "", command)):
            return "the interpreter named in its first line does not exist"
        hint = _python_hint(command, cwd)
        return f"no such command{hint}" if hint else "no such command; is it installed, and on PATH?"
    if isinstance(exc, PermissionError):
        return "not executable" + _python_hint(command, cwd)
    return exc.strerror or str(exc)


def _python_hint(command: str, cwd: str | os.PathLike[str] | None) -> str:
    if command.endswith(".py") and os.path.isfile(os.path.join(cwd or "", command)):
        return f"; a Python file is started with: python {command}, or headrace serve {command}"
    return ""
