"""Several processes of one server: started, kept alive, replaced without a refused connection, ended together.

The supervisor never imports the server. It binds the addresses, accepts the connections and passes them on
(:mod:`headrace.hosting.workers.acceptor`); its workers are fresh processes of one command
(:mod:`headrace.hosting.workers.process`), each on a line (:mod:`headrace.hosting.workers.line`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from headrace.hosting.workers.acceptor import Acceptor
from headrace.hosting.workers.binding import Bound
from headrace.hosting.workers.figures import Figures, describe_exit
from headrace.hosting.workers.process import WorkerProcess
from headrace.protocol.seal import SECRET_VARIABLE

__all__ = ("StartFailed", "Supervisor")

_LAST_WORDS = 3.0
"""Seconds beyond the grace that a worker gets to end by itself."""
_STEADY = 2.0
"""Seconds of service after which an accident is no sign of a server that cannot live."""
_FIRST_PAUSE = 0.1
_LONGEST_PAUSE = 30.0
_MOST_STARTS = 5
"""Starts in a row that fail, while no worker serves, before all of it ends."""
_QUESTIONS = 5
"""Within the time that a loop may be blocked."""
_TRY_AGAIN = 30.0
"""Seconds until a worker that has served its share is replaced, when its replacement did not start."""


class StartFailed(Exception):
    """A server that does not start. ``status`` is for the process: its own, where the worker has told why."""

    def __init__(self, text: str, status: int, told: bool) -> None:
        super().__init__(text)
        self.status = status
        self.told = told


class Supervisor:
    """Runs ``count`` workers. Made on the loop that it runs on.

    :param command: the program of a worker and its arguments; it has to serve, by functions of headrace, inside of
        :meth:`headrace.hosting.workers.worker.Worker.run`, as ``headrace serve`` does.
    :param bound: see :func:`headrace.hosting.workers.binding.bind`.
    :param grace: seconds that a worker has to answer what is in flight when it ends.
    :param start_timeout: seconds within which a worker has to be ready.
    :param hang_timeout: seconds without a turn of its loop after which a worker is killed; None: never.
    :param environment: variables for the workers, beside those of this process.
    :param on_stop: called once when all of it begins to end.
    :param say: is told what happens, in lines, and ``warn``, which is the same by default, what went wrong.
    """

    def __init__(
        self,
        command: Sequence[str],
        count: int,
        bound: list[Bound],
        *,
        grace: float = 5.0,
        start_timeout: float = 120.0,
        hang_timeout: float | None = None,
        environment: Mapping[str, str] | None = None,
        on_stop: Callable[[], object] | None = None,
        say: Callable[[str], None] = print,
        warn: Callable[[str], None] | None = None,
    ) -> None:
        self.count = count
        self.current: dict[int, WorkerProcess] = {}
        """The workers that serve, by index."""
        self.workers: list[WorkerProcess] = []
        """All that live, those that start or drain among them."""
        self.restarts = 0
        """Workers that were started for one that had ended by accident."""
        self.total = Figures()
        """What all workers that have ended have done."""
        self.on_roll: Callable[[bool], object] | None = None
        """Told True when the workers begin to be replaced, False when that is over."""
        self.acceptor = Acceptor([each.sock for each in bound])
        self._command = list(command)
        self._bound = bound
        self._places = [each.place for each in bound]
        self._grace = grace
        self._start_timeout = start_timeout
        self._hang_timeout = hang_timeout
        self._environment = dict(environment or {})
        if not os.environ.get(SECRET_VARIABLE):
            self._environment.setdefault(SECRET_VARIABLE, secrets.token_urlsafe(32))
        self._directory = _directory()
        self._on_stop = on_stop
        self._say, self._warn = say, warn or say
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.time()
        self._handlers: dict[str, Callable[[WorkerProcess, dict[str, Any]], Any]] = {}
        self._exits: list[Callable[[WorkerProcess], None]] = []
        self._accidents: dict[int, int] = {}
        self._failed_starts = 0
        self._reviving: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._replacing = asyncio.Lock()
        self._rolls = 0
        self._up = False
        self._stopping = asyncio.Event()
        self._failure: StartFailed | None = None
        for kind, handler in (
            ("took", self._took),
            ("short", self._short),
            ("leaving", self._leaves),
            ("back", self._back),
            ("full", self._full),
            ("pong", self._pong),
            ("bye", self._count),
            ("named", self._named),
        ):
            self.on(kind, handler)

    # --- for others ---------------------------------------------------------------------------------

    def on(self, kind: str, function: Callable[[WorkerProcess, dict[str, Any]], Any]) -> None:
        """Has messages of all workers given to ``function(worker, fields)``, see :meth:`Line.on`."""
        self._handlers[kind] = function
        for worker in self.workers:
            self._listen_to(worker, kind)

    def on_exit(self, function: Callable[[WorkerProcess], None]) -> None:
        """Has ``function(worker)`` called whenever a worker has ended."""
        self._exits.append(function)

    @property
    def serving(self) -> list[WorkerProcess]:
        """The workers that serve."""
        return [worker for worker in self.current.values() if worker.alive and not worker.leaving]

    @property
    def stopping(self) -> bool:
        """Whether it is about to end."""
        return self._stopping.is_set()

    # --- the whole life -----------------------------------------------------------------------------

    async def run(self, on_ready: Callable[[str, list[str]], Any]) -> None:
        """Starts the workers, calls ``on_ready(name, addresses)``, and keeps them until :meth:`stop`; then ends them.

        Raises :class:`StartFailed` when the server does not start, or cannot be started any more; OSError.
        """
        try:
            await self._start_all()
            if not self.stopping:
                self._up = True
                if self._rolls:
                    self._task(self._roll())  # asked for while the first ones started
                if self._hang_timeout is not None:
                    self._task(self._watch_loops(self._hang_timeout))
                first = self.current.get(0) or next(iter(self.current.values()))
                on_ready(first.name, first.addresses)
            await self._stopping.wait()
        finally:
            await self._end_all()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Ends: no connection is accepted any more, workers drain. Safe to call again."""
        if not self.stopping:
            self._stopping.set()
            self.acceptor.stop()
            self._unlink()
            if self._on_stop is not None:
                self._on_stop()

    def kill(self) -> None:
        """Ends all workers at once, whatever they do."""
        for worker in list(self.workers):
            worker.kill()

    def roll(self) -> None:
        """Replaces the workers one by one: a new one is ready before the old one drains. Once more when it is called
        meanwhile."""
        if self.stopping:
            return
        self._rolls += 1
        if self._rolls == 1 and self._up:
            self._task(self._roll())

    async def _start_all(self) -> None:
        """One worker first: what keeps the server from starting is told once, and before anything listens."""
        first = self._start(0)
        if not await self._ready(first):
            if self.stopping:
                return
            raise self._why(first)
        self.acceptor.start()
        self._serves(first)
        others = [self._start(index) for index in range(1, self.count)]
        for worker in others:
            if not await self._ready(worker):
                if self.stopping:
                    return
                raise self._why(worker)
            self._serves(worker)

    async def _end_all(self) -> None:
        self.stop()
        for task in [*self._reviving.values(), *self._tasks]:
            task.cancel()
        for worker in self.workers:
            worker.wanted = False
            if not (worker.ready and worker.line.send("stop")):
                worker.kill(signal.SIGTERM)
        await self._ended(list(self.workers))
        self.acceptor.close()
        self.total.lived = self._loop.time() - self._started
        if self.total.processes:
            workers = f"{self.count} worker{'' if self.count == 1 else 's'}"
            restarts = f", {self.restarts} restart{'' if self.restarts == 1 else 's'}" if self.restarts else ""
            self._say(f"{workers} served {self.total}{restarts}")

    async def _ended(self, workers: list[WorkerProcess]) -> None:
        """Waits for the end of workers that were told to end; kills those that take longer than they may."""
        grace = max([self._grace if not worker.grace else worker.grace for worker in workers], default=0.0)
        until = self._loop.time() + grace + _LAST_WORDS
        for worker in workers:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(worker.ended.wait(), max(until - self._loop.time(), 0.0))
        late = [worker for worker in workers if worker.alive]
        for worker in late:
            self._warn(f"{worker} did not end within {grace:g} s and is killed")
            worker.kill()
        for worker in late:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(worker.ended.wait(), 5.0)

    # --- one worker ---------------------------------------------------------------------------------

    def _start(self, index: int) -> WorkerProcess:
        worker = WorkerProcess(
            index,
            self._command,
            self._places,
            environment=self._environment,
            directory=self._directory,
            on_exit=self._exited,
        )
        self.workers.append(worker)
        for kind in self._handlers:
            self._listen_to(worker, kind)
        return worker

    def _listen_to(self, worker: WorkerProcess, kind: str) -> None:
        worker.line.on(kind, lambda fields: self._handlers[kind](worker, fields))

    async def _ready(self, worker: WorkerProcess) -> bool:
        """Whether it becomes ready; one that does not is ended."""
        stopping = self._loop.create_task(self._stopping.wait())
        getting = self._loop.create_task(worker.until_ready(self._start_timeout))
        try:
            await asyncio.wait((stopping, getting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            stopping.cancel()
            if not getting.done():
                getting.cancel()
        if getting.done() and not getting.cancelled() and getting.result() and worker.alive:
            self._failed_starts = 0
            return True
        if worker.alive and not self.stopping:
            worker.wanted = False
            worker.kill()
        return False

    def _why(self, worker: WorkerProcess) -> StartFailed:
        """Why a worker did not become ready."""
        if worker.status is None or not worker.wanted:
            text = f"{worker} was not ready within {self._start_timeout:g} s (--start-timeout)"
            return StartFailed(text, 1, told=False)
        told = worker.status > 0
        return StartFailed(f"{worker} {describe_exit(worker.status)} before it was ready", max(worker.status, 1), told)

    def _serves(self, worker: WorkerProcess) -> None:
        self.current[worker.index] = worker
        self.acceptor.add(worker.taker)

    async def _revive(self, index: int) -> None:
        """Starts another worker for one that has ended, as often as it takes."""
        while not self.stopping:
            if pause := self._pause(index):
                await asyncio.sleep(pause)
            try:
                worker = self._start(index)
            except OSError as exc:
                self._warn(f"worker {index} cannot be started: {exc.strerror or exc}")
                self._accidents[index] = self._accidents.get(index, 0) + 1
                continue
            self.restarts += 1
            try:
                ready = await self._ready(worker)
            except asyncio.CancelledError:
                if worker.alive and not self.stopping:
                    worker.wanted = False
                    worker.kill()
                raise
            if ready:
                self._serves(worker)
                return
            if self.stopping:
                return
            self._accidents[index] = self._accidents.get(index, 0) + 1
            self._failed_starts += 1
            failure = self._why(worker)
            if not failure.told:
                self._warn(str(failure))
            if self._failed_starts >= _MOST_STARTS and not self.serving:
                self._failure = failure
                self._warn(f"no worker serves, and {self._failed_starts} in a row did not start")
                failure.told = True
                self.stop()

    def _pause(self, index: int) -> float:
        """Seconds to wait before a worker is started again: none after a first accident."""
        accidents = self._accidents.get(index, 0)
        return 0.0 if accidents < 2 else min(_FIRST_PAUSE * 2.0 ** (accidents - 2), _LONGEST_PAUSE)

    def _another(self, index: int) -> None:
        """Has another worker started for one that is gone."""
        if self.stopping or index in self._reviving:
            return
        task = self._loop.create_task(self._revive(index))
        self._reviving[index] = task
        task.add_done_callback(lambda done: self._revived(index, done))

    def _revived(self, index: int, task: asyncio.Task[None]) -> None:
        if self._reviving.get(index) is task:
            del self._reviving[index]
        if not task.cancelled() and (exc := task.exception()) is not None:
            raise exc

    async def _replace(self, index: int) -> bool:
        """A new worker in the place of the current one; False when it did not start, and the old one goes on."""
        reviving = self._reviving.pop(index, None)
        if reviving is not None:
            reviving.cancel()
            await asyncio.wait((reviving,))
        self._accidents.pop(index, None)
        try:
            worker = self._start(index)
        except OSError as exc:
            self._warn(f"worker {index} cannot be started: {exc.strerror or exc}")
            return False
        if not await self._ready(worker):
            failure = self._why(worker)
            if not failure.told and not self.stopping:
                self._warn(str(failure))
            if index not in self.current:
                self._another(index)
            return False
        if (reviving := self._reviving.pop(index, None)) is not None:
            reviving.cancel()  # the old one has ended meanwhile
        old = self.current.get(index)
        self._serves(worker)
        if old is not None and old.alive:
            old.wanted = False
            self.acceptor.remove(old.taker)
            old.line.send("retire")
            await self._ended([old])
        return True

    async def _roll(self) -> None:
        if self.on_roll is not None:
            self.on_roll(True)
        while self._rolls and not self.stopping:
            async with self._replacing:
                for index in range(self.count):
                    if not await self._replace(index):
                        if not self.stopping:
                            self._warn("the workers were not replaced: those that serve go on")
                        break
                else:
                    self._say(
                        f"all {self.count} workers were replaced" if self.count > 1 else "the worker was replaced"
                    )
            self._rolls = min(self._rolls - 1, 1)
        if self.on_roll is not None and not self.stopping:
            self.on_roll(False)

    # --- what workers say ---------------------------------------------------------------------------

    def _took(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        if fields["c"]:
            self.acceptor.ended(worker.taker, fields["c"])
        if fields["n"]:
            self.acceptor.took(worker.taker, fields["n"])
        worker.figures.requests = fields["r"]

    def _short(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        self.acceptor.short(worker.taker, fields["n"])

    def _count(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        worker.figures.requests = fields["r"]

    def _named(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        """What it is called on the backplane; the others are told when it dies."""
        worker.called = fields["worker"]

    def _back(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        self.acceptor.ended(worker.taker, 1)
        for fd in fields["fds"]:
            if self.stopping:
                os.close(fd)
            else:
                self.acceptor.give(fields["at"], fd, fields.get("about"))

    def _leaves(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        """It takes no more connections: because it was told so, or because of a signal of somebody else's."""
        worker.leaving = True
        self.acceptor.release(worker.taker)
        if worker.wanted and self.current.get(worker.index) is worker:
            worker.wanted = False
            del self.current[worker.index]
            self._another(worker.index)
            self._task(self._ended([worker]))

    def _pong(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        worker.silent = 0

    async def _watch_loops(self, timeout: float) -> None:
        """Kills workers whose loop does not turn. Questions are counted, not seconds: this process may have been
        stopped itself."""
        while not self.stopping:
            for worker in self.serving:
                if worker.silent >= _QUESTIONS:
                    self._warn(f"{worker} has not turned its loop for {timeout:g} s and is killed (--hang-timeout)")
                    worker.kill()
                else:
                    worker.silent += 1
                    worker.line.send("ping")
            await asyncio.sleep(timeout / _QUESTIONS)

    def _full(self, worker: WorkerProcess, fields: dict[str, Any]) -> None:
        self._task(self._relieve(worker))

    async def _relieve(self, worker: WorkerProcess) -> None:
        """Replaces a worker that has served its share."""
        while not self.stopping:
            async with self._replacing:
                if self.current.get(worker.index) is not worker or await self._replace(worker.index):
                    return
            await asyncio.sleep(_TRY_AGAIN)

    def _exited(self, worker: WorkerProcess) -> None:
        self.workers.remove(worker)
        self.acceptor.release(worker.taker)
        if worker.ready:
            self.total.add(worker.figures)
        accident = worker.wanted and worker.ready and not self.stopping
        if accident:
            self._warn(f"{worker} {describe_exit(worker.status or 0)}; another takes its place")
        if worker.ready:
            self._say(f"{worker} served {worker.figures}")
        for function in self._exits:
            function(worker)
        if worker.called:
            for other in self.workers:
                other.line.send("died", worker=worker.called)
        if self.current.get(worker.index) is worker:
            del self.current[worker.index]
            if accident:
                steady = worker.figures.lived >= _STEADY
                self._accidents[worker.index] = 1 if steady else self._accidents.get(worker.index, 0) + 1
                self._another(worker.index)

    # --- small matters ------------------------------------------------------------------------------

    def _task(self, coro: Coroutine[Any, Any, Any]) -> None:
        task = self._loop.create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _unlink(self) -> None:
        for each in self._bound:
            if each.path is not None:
                with contextlib.suppress(OSError):
                    os.unlink(each.path)
                each.path = None


def _directory() -> str | None:
    """The working directory as the shell names it: a link in it may lead to other code when workers are replaced."""
    name = os.environ.get("PWD", "")
    try:
        return name if os.path.samefile(name, ".") else None
    except OSError:
        return None
