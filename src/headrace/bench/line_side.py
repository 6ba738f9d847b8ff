"""Connections of the line side: how they come up, what happens when they are lost, when they are given up.

Every connection is connected anew after a growing pause for as long as the run lasts. One that has brought nothing
right for a while is given up, so that a run against a server that is gone ends in bounded time with its failures
counted.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from headrace.bench._line_load import LineConn
from headrace.errors import HeadraceError
from headrace.transports.address import format_address, why_not_connected
from headrace.transports.spawn import spawn

if TYPE_CHECKING:
    from headrace.bench._load import Load
    from headrace.bench.plan import LineTarget
    from headrace.transports.process import ChildProcess

__all__ = ("LineSide",)

_FIRST_PAUSE = 0.05
_LAST_PAUSE = 1.0
_PATIENCE = 5.0
"""Seconds without a right answer after which a connection is given up, if the time limit of a call is not longer."""
_AT_ONCE = 64
"""Connections that come up at the same time."""
_GRACE = 1.0
"""Seconds a child has for each polite step of its end."""


class _State:
    """What is known of one connection beside its protocol."""

    def __init__(self) -> None:
        self.child: ChildProcess | None = None
        self.task: asyncio.Task[None] | None = None
        self.limit: asyncio.TimerHandle | None = None
        self.barren: float | None = None
        """Since when nothing right has come; loop time."""
        self.pause = _FIRST_PAUSE
        self.was_up = False


class LineSide:
    """All line connections of one load process. ``load`` is its :class:`headrace.bench._load.Load`."""

    def __init__(self, load: Load) -> None:
        plan = load.plan
        assert plan.target is not None
        self._load = load
        self._loop = load.loop
        self._target: LineTarget = plan.target  # type: ignore[assignment]
        self._timeout = plan.timeout_s
        self._patience = max(plan.timeout_s, _PATIENCE)
        self._conns: dict[LineConn, _State] = {
            LineConn(load, self, plan.in_flight): _State() for _ in range(plan.connections)
        }
        self._undecided = set(self._conns)
        self._opened: asyncio.Future[None] = load.loop.create_future()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._closing = False
        self.alive = plan.connections
        """Connections that are not given up."""

    @property
    def pids(self) -> list[int]:
        """The children that run now."""
        return [s.child.pid for s in self._conns.values() if s.child is not None and s.child.exit_code is None]

    async def open(self) -> None:
        """Connects everything; returns when each connection is ready or was given up."""
        for conn in self._conns:
            self._start(conn, 0.0)
        await self._opened

    async def close(self) -> None:
        """Ends all connections, and the children with all they have started."""
        self._closing = True
        tasks = []
        for state in self._conns.values():
            if state.task is not None:
                state.task.cancel()
                tasks.append(state.task)
            if state.limit is not None:
                state.limit.cancel()
        if tasks:
            await asyncio.wait(tasks)
        for conn in self._conns:
            conn.close()
        children = [s.child for s in self._conns.values() if s.child is not None]
        if children:
            await asyncio.gather(*(child.close(_GRACE) for child in children))

    def kill(self) -> None:
        """Ends the children at once."""
        for state in self._conns.values():
            if state.child is not None:
                state.child.kill()

    # --- what connections report --------------------------------------------------------------------

    def up(self, conn: LineConn) -> None:
        """The opening is through."""
        state = self._conns[conn]
        if state.limit is not None:
            state.limit.cancel()
            state.limit = None
        if state.was_up:
            conn.count_reconnect()
        state.was_up = True
        self._decided(conn)
        conn.begin()

    def down(self, conn: LineConn, reason: str) -> None:
        """The connection is gone, or did not come up."""
        state = self._conns[conn]
        if state.limit is not None:
            state.limit.cancel()
            state.limit = None
        if self._closing:
            return
        now = self._loop.time()
        if conn.useful:
            state.pause, state.barren = _FIRST_PAUSE, now
        elif state.barren is None:
            state.barren = now
        if now - state.barren > self._patience or self._load.finished:
            conn.give_up(reason)
            self.alive -= 1
            self._decided(conn)
            if self.alive == 0:
                self._load.drain()
            return
        self._start(conn, state.pause)
        state.pause = min(2 * state.pause, _LAST_PAUSE)

    # --- how ----------------------------------------------------------------------------------------

    def _decided(self, conn: LineConn) -> None:
        self._undecided.discard(conn)
        if not self._undecided and not self._opened.done():
            self._opened.set_result(None)

    def _start(self, conn: LineConn, pause: float) -> None:
        self._conns[conn].task = self._loop.create_task(self._connect(conn, pause))

    async def _connect(self, conn: LineConn, pause: float) -> None:
        state = self._conns[conn]
        if pause:
            await asyncio.sleep(pause)
        old, state.child = state.child, None
        if old is not None:
            await old.close(_GRACE)
        failure: str | None = None
        async with self._at_once:
            state.limit = self._loop.call_later(self._timeout, self._too_slow, conn)
            try:
                async with asyncio.timeout(self._timeout):
                    await self._dial(conn, state)
            except TimeoutError:
                failure = f"cannot connect to {self._where()}: not done within {self._timeout:g} s"
            except (HeadraceError, ValueError) as exc:
                failure = str(exc)
            except OSError as exc:
                failure = f"cannot connect to {self._where()}: {why_not_connected(exc)}"
        state.task = None
        if failure is not None:
            conn.failed(failure)

    async def _dial(self, conn: LineConn, state: _State) -> None:
        target = self._target
        if target.command is not None:
            conn.words = lambda: _words(state.child)
            state.child = await spawn(
                target.command, lambda: conn, env=target.env, inherit_env=True, cwd=target.cwd, close_grace=_GRACE
            )
        elif target.unix is not None:
            await self._loop.create_unix_connection(lambda: conn, target.unix)  # type: ignore[type-var]
        else:
            await self._loop.create_connection(lambda: conn, target.host or "", target.port)  # type: ignore[type-var]

    def _too_slow(self, conn: LineConn) -> None:
        self._conns[conn].limit = None
        said = conn.words() if conn.words is not None else ""
        conn.abort(f"the handshake was not through within {self._timeout:g} s" + (f" (stderr: {said})" if said else ""))

    def _where(self) -> str:
        target = self._target
        if target.unix is not None:
            return f"unix:{target.unix}"
        return target.command[0] if target.command else f"tcp:{format_address(target.host or '', target.port)}"


def _words(child: Any) -> str:
    with contextlib.suppress(AttributeError):
        return str(child._stderr.last_words())
    return ""
