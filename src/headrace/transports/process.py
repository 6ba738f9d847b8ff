"""A running child process with its connection; its end leaves nothing behind (ST-20, B20-B22).

Strategy: a small state machine of loop callbacks and timers. No task and no cancel scope is involved, so
it does not matter which task opens, closes or cancels. The process counts as gone when it is gone,
whoever still holds its pipes. Its group is stopped in the order of ST-20:

    close stdin -> grace -> SIGTERM to the group -> grace -> SIGKILL to the group -> reap
    leader gone: SIGTERM to what is left of the group -> at most 0.5 s -> SIGKILL

A child that nobody closed is killed when the object is collected or the interpreter exits.
"""

import asyncio
import atexit
import contextlib
import fcntl
import os
import signal
import termios
import time
import weakref
from collections.abc import Callable
from typing import Any

from headrace.errors import ConnectionClosed
from headrace.transports._fdio import FdTransport
from headrace.transports.exitwatch import UNKNOWN_EXIT, ExitWatch
from headrace.transports.procgroup import group_running
from headrace.transports.stderrtail import HasFileno, StderrTail

__all__ = ("ChildProcess",)

_EXIT_WAIT = 0.5  # seconds from the end of the output to the exit that explains it
_LEFTOVER_GRACE = 0.5  # seconds the rest of the group has after SIGTERM
_LEFTOVER_POLL = 0.005  # seconds to the second look at it, doubled with each further one
_LEFTOVER_PAUSE = 0.05  # at most this
_KILL_WAIT = 1.0  # seconds after SIGKILL before giving up (a process the kernel cannot stop)
_LINGER = 0.5  # seconds a closed connection may still take to deliver what it read

_alive: "weakref.WeakSet[ChildProcess]" = weakref.WeakSet()


class ChildProcess:
    """A child with pipes for its three standard streams. Made by :func:`headrace.transports.spawn.spawn`.

    ``pid``: process id, also the id of its process group and session. ``exit_code``: ``None`` while it
    runs, then 0 to 255 or the negative number of a signal. ``transport``, ``protocol``: the connection to its
    stdin and stdout. ``unheard``: it ended without having read all that was sent to it, so its end is no
    answer to that. All methods belong to the loop's thread, any task.
    """

    transport: FdTransport

    def __init__(
        self, loop: asyncio.AbstractEventLoop, pid: int, command: str, protocol: Any, grace: float
    ) -> None:
        self.pid = pid
        self.command = command
        self.protocol = protocol
        self.exit_code: int | None = None
        self.unheard = False
        self._stdin = -1  # the transport's; here only to look at
        self._output_over = False
        self._broke = False  # a write or read of ours failed
        self._loop = loop
        self._owner = os.getpid()
        self._grace = grace
        self._closing = False
        self._swept = False  # nothing of the group is left
        self._stderr_done = False
        self._lost = False  # connection_lost was called
        self._killed = False
        self._timer: asyncio.TimerHandle | None = None  # next step of close
        self._end_timer: asyncio.TimerHandle | None = None  # output ended, exit awaited
        self._exited: asyncio.Future[int | None] = loop.create_future()
        self._done: asyncio.Future[None] = loop.create_future()
        _alive.add(self)
        self._watch = ExitWatch(loop, pid, self._on_exit)

    def connect(
        self,
        stdin: int,
        stdout: int,
        stderr: int,
        limit: int,
        forward: Callable[[bytes], object] | int | HasFileno | None,
    ) -> None:
        """Puts the transports on our ends of the pipes, which are owned from here on also on failure.

        ``limit`` and ``forward`` are those of :class:`StderrTail`. Raises what ``connection_made`` raises.
        """
        try:
            self._stderr = StderrTail(self._loop, limit, forward, self._stderr_lost)
        except BaseException:
            for fd in (stdin, stdout, stderr):
                os.close(fd)
            raise
        try:
            self._errors = FdTransport(self._loop, self._stderr, stderr, -1, exclusive=True)
            self._errors.start()
        except BaseException:
            os.close(stdin)
            os.close(stdout)
            self._stderr.connection_lost(None)
            raise
        self._stdin = stdin
        try:
            self.transport = FdTransport(
                self._loop, self.protocol, stdout, stdin, exclusive=True, extra={"pid": self.pid},
                on_end=self._output_ended, on_lost=self._connection_lost,
            )  # fmt: skip
            self.transport.start()
        except BaseException:
            self._errors.abort()
            raise

    # -- what people call ---------------------------------------------------------------------------

    def stderr_tail(self) -> bytes:
        """The last ``limits.stderr_tail_bytes`` bytes of the child's stderr."""
        return self._stderr.tail()

    async def wait(self) -> int | None:
        """Waits for the process itself, not for who holds its pipes; gives :attr:`exit_code`."""
        return await asyncio.shield(self._exited)

    async def close(self, grace: float | None = None) -> None:
        """Ends the child and its group in the order of ST-20; returns when nothing of them is left.

        ``grace``: seconds for each of the two polite steps, the one given to ``spawn`` by default. Takes at
        most two of them and about two seconds. Any number of calls from any task; a call that is
        cancelled kills the group at once. Never raises for what the child does.
        """
        if self._loop.is_closed():
            self._kill_now()
            return
        if not self._closing:
            self._begin_close(self._grace if grace is None else grace)
        try:
            await asyncio.shield(self._done)
        except asyncio.CancelledError:
            self.kill()
            raise

    def kill(self) -> None:
        """SIGKILL to the whole group, now; :meth:`wait` or :meth:`close` for the end of it."""
        if self._swept or self._killed:
            return
        if not self._closing:
            self._begin_close(self._grace)
        if self.exit_code is None:
            self._escalate(signal.SIGKILL)
        else:  # the leader is gone, what is left of the group is being swept
            self._killed = True
            self._signal(signal.SIGKILL)

    def __repr__(self) -> str:
        state = "running" if self.exit_code is None else f"exited {self.exit_code}"
        return f"<ChildProcess {self.command!r} pid={self.pid} {state}>"

    # -- steps of the end ---------------------------------------------------------------------------

    def _begin_close(self, grace: float) -> None:
        self._closing = True
        self._grace = grace
        if self.exit_code is not None:
            self._check_done()
            return
        self.transport.write_eof()
        self._timer = self._loop.call_later(grace, self._escalate, signal.SIGTERM)

    def _escalate(self, sig: signal.Signals) -> None:
        self._cancel_timer()
        self._signal(sig)
        if sig is signal.SIGKILL:
            self._killed = True
            if self.exit_code is None:
                self._timer = self._loop.call_later(_KILL_WAIT, self._give_up)
        else:
            self._timer = self._loop.call_later(self._grace, self._escalate, signal.SIGKILL)

    def _give_up(self) -> None:
        self._timer = None
        self._swept = self._stderr_done = True
        self._watch.stop()
        self.transport.abort()
        self._errors.abort()
        if not self._exited.done():
            self._exited.set_result(None)
        self._finish()

    def _on_exit(self) -> None:
        # The zombie keeps the group id from being used again until it is reaped, so what is left of the
        # group is signalled first.
        self._signal(signal.SIGKILL if self._killed else signal.SIGTERM)
        code = self._watch.reap()
        self.exit_code = UNKNOWN_EXIT if code is None else code
        if not self._closing and not self._lost:
            self.unheard = self._left_unread()
        self._cancel_timer()
        if self._end_timer is not None:
            self._end_timer.cancel()
            self._end_timer = None
        self._exited.set_result(self.exit_code)
        if self._stderr_done:
            self._stderr_lost()
        else:
            self._errors.finish(None)
        self._sweep(self._loop.time() + min(self._grace, _LEFTOVER_GRACE), self._killed)

    def _left_unread(self) -> bool:
        # Closing without an end of its output means that a write broke just now. The pipe keeps what it
        # holds as long as our end is open.
        if self._broke if self._output_over else self.transport.is_closing():
            return True
        if self.transport.get_write_buffer_size():
            return True
        left = bytearray(4)
        try:
            fcntl.ioctl(self._stdin, termios.FIONREAD, left)
        except OSError:
            return False
        return any(left)

    def _sweep(self, deadline: float, killed: bool, pause: float = _LEFTOVER_POLL) -> None:
        self._timer = None
        if not group_running(self.pid):
            self._swept = True
        elif self._loop.time() >= deadline:
            if killed:  # nothing more can be done
                self._swept = True
            else:
                self._signal(signal.SIGKILL)
                killed, deadline = True, self._loop.time() + _LEFTOVER_GRACE
        if self._swept:
            self._check_done()
        else:
            self._timer = self._loop.call_later(
                pause, self._sweep, deadline, killed, min(2 * pause, _LEFTOVER_PAUSE)
            )

    def _signal(self, sig: signal.Signals) -> None:
        if self._swept or self._owner != os.getpid():
            return
        try:
            os.killpg(self.pid, sig)
        except PermissionError:
            if self.exit_code is None:
                with contextlib.suppress(OSError):
                    os.kill(self.pid, sig)
        except ProcessLookupError:
            pass

    # -- the connection -----------------------------------------------------------------------------

    def _output_ended(self, exc: BaseException | None) -> None:
        # End of stdout or a broken pipe: mostly because the process ends, and then its status says why.
        self._output_over = True
        self._broke = exc is not None
        if self.exit_code is not None:
            if self._stderr_done:
                self.transport.lose(self._reason())
            # Otherwise its last words are still being read: _stderr_lost goes on.
        else:
            self._end_timer = self._loop.call_later(_EXIT_WAIT, self._ended_alive, exc)

    def _ended_alive(self, exc: BaseException | None) -> None:
        self._end_timer = None
        if exc is None and not self._closing:
            exc = ConnectionClosed(self._with_hint("closed its output"))
        self.transport.lose(exc)

    def _stderr_lost(self) -> None:
        # After the exit stderr goes first, so that its last line can be told with the end.
        self._stderr_done = True
        if self.exit_code is not None:
            self.transport.finish(self._reason())
            self._check_done()

    def _connection_lost(self) -> None:
        self._lost = True
        self._check_done()

    def _reason(self) -> ConnectionClosed | None:
        if self._closing or self.exit_code is None:
            return None
        if self.exit_code < 0:
            try:
                how = f"killed by {signal.Signals(-self.exit_code).name}"
            except ValueError:
                how = f"killed by signal {-self.exit_code}"
        else:
            how = f"exited with status {self.exit_code}"
        exc = ConnectionClosed(self._with_hint(how), exit_code=self.exit_code)
        exc.reason = how
        return exc

    def _with_hint(self, how: str) -> str:
        said = self._stderr.last_words()
        return f"{how} (stderr: {said})" if said else how

    # -- the end of it ------------------------------------------------------------------------------

    def _check_done(self) -> None:
        if self.exit_code is None or not self._swept or self._done.done():
            return
        if self._lost and self._stderr_done:
            self._finish()
        elif self._closing and self._timer is None:
            # Somebody paused the connection, or talks on through a pipe of ours: not for ever.
            self._timer = self._loop.call_later(_LINGER, self._give_up)

    def _finish(self) -> None:
        self._cancel_timer()
        _alive.discard(self)
        if not self._done.done():
            self._done.set_result(None)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _kill_now(self) -> None:
        # Without a loop: kills the group and reaps, in bounded time.
        if self._swept or self._owner != os.getpid():
            return
        self._signal(signal.SIGKILL)
        deadline = time.monotonic() + _KILL_WAIT
        while self.exit_code is None and time.monotonic() < deadline:
            self.exit_code = self._watch.reap()
            if self.exit_code is None:
                time.sleep(0.001)
        self._watch.stop()
        self._swept = True
        _alive.discard(self)

    def __del__(self) -> None:
        if getattr(self, "_swept", True) is False:
            self._kill_now()


@atexit.register
def _kill_all() -> None:
    children = list(_alive)
    for child in children:
        child._signal(signal.SIGKILL)
    for child in children:
        child._kill_now()
