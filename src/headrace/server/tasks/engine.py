"""Runs tasks: makes them durable, keeps their states, brings questions and answers together.

A task's handler runs as a captured exchange that is detached from its request. What is acknowledged is in
the store first (TK-22). Tasks of other processes that share the store are served from it; what they must be
told goes through its signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS
from headrace.mux import capture
from headrace.protocol.context import scope_of
from headrace.protocol.tasks.states import FAILED, Task, detail, error_object, legacy_task, new_id, owner_key
from headrace.protocol.tasks.store import Signal, TasksFull, TaskStore
from headrace.server.tasks.following import Following
from headrace.server.tasks.run import Run, cancelled_fields

if TYPE_CHECKING:
    from headrace.mux import Exchange, Handler

__all__ = ("TaskEngine",)

_LAST_TURN = 0.1  # seconds for cancelled work of the store to end
_SWEEP_EVERY = 15.0
_COMPLAINTS_EVERY = 5.0  # seconds between two lines of the log about a store that fails
_STOPPED = "the server was stopped before the task was done"
_STATUS = b"notifications/tasks/status"
_MAX_ID = 256
_encode = msgspec.json.Encoder().encode
_T = TypeVar("_T")


class TaskEngine:
    """The tasks of one server. Works while the server runs; ``ttl`` (seconds, None: as long as the bounds
    allow) and ``poll_interval`` (seconds) are what tasks get that say nothing else."""

    def __init__(self, server: Any, store: TaskStore, ttl: float | None, poll_interval: float) -> None:
        self.server = server
        self.store = store
        self.ttl = ttl
        self.poll = max(1, round(poll_interval * 1000))
        self.runs: dict[str, Run] = {}
        self._held = 0  # bytes of the params of runs that are tasks
        self._owners: dict[str, tuple[str, float]] = {}  # of tasks that were made here, and when their time is over
        self._jobs: set[asyncio.Task[Any]] = set()
        self.following = Following(self)
        self.creating: set[str] = set()
        """Tasks whose creation is under way."""
        self.unkept = 0
        """Bytes of results that the store could not take yet."""
        self._quiet_until = 0.0
        self._unsaid = 0

    # --- life ---------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Opens the store; in the end stops all tasks, which fail with a message that says so."""
        self.following.attach()
        await self.store.start(self.server.limits)
        loop = asyncio.get_running_loop()
        sweeper = loop.create_task(self._sweep())
        try:
            yield
        finally:
            sweeper.cancel()
            self.following.stop()
            # A store that another process holds locked must not keep the server from ending.
            until = loop.time() + self.server.limits.drain_timeout
            try:
                await self._stop(until)
            finally:
                try:
                    await asyncio.wait_for(self.store.stop(), max(until - loop.time(), 0.1))
                except TimeoutError:
                    self.server.log.error("the task store did not close in time")

    async def _stop(self, until: float) -> None:
        error = RpcError(INTERNAL_ERROR, _STOPPED)
        fields = {"status": FAILED, "message": _STOPPED, "payload": error_object(error)}
        for run in list(self.runs.values()):
            self.background(run.finish(fields))
        loop = asyncio.get_running_loop()
        while self._jobs and loop.time() < until:
            await asyncio.wait(self._jobs, timeout=until - loop.time())
        if self._jobs:
            self.server.log.error("the last states of tasks could not be kept in time")
        left = list(self._jobs)
        for job in left:
            job.cancel()
        if left:
            # A turn for them to let go of their tasks; one that does not heed its cancel keeps nobody.
            await asyncio.wait(left, timeout=_LAST_TURN)
        self._owners.clear()

    def background(self, coro: Coroutine[Any, Any, Any]) -> asyncio.Task[None]:
        """Runs ``coro`` beside everything else; a failure of the store is logged."""
        job = asyncio.get_running_loop().create_task(self._guarded(coro))
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)
        return job

    async def _guarded(self, coro: Coroutine[Any, Any, Any]) -> None:
        try:
            await coro
        except Exception as exc:
            self.complain("a task's state could not be kept", exc)

    def complain(self, text: str, exc: Exception) -> None:
        """One line of the log, once in a while: a store that is away makes everything fail."""
        now = asyncio.get_running_loop().time()
        if now < self._quiet_until:
            self._unsaid += 1
            return
        self._quiet_until = now + _COMPLAINTS_EVERY
        more = f" ({self._unsaid} more of these before)" if self._unsaid else ""
        self._unsaid = 0
        self.server.log.error("%s: %s%s", text, exc or type(exc).__name__, more)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_EVERY)
            await self._guarded(self.sweep())

    async def sweep(self) -> None:
        """Stops and deletes tasks whose time is over."""
        now = time.time()
        for run in list(self.runs.values()):
            expires = run.task.expires
            if expires is not None and expires <= now:
                run.stop()
        if self.store.pushes:
            await self.following.take_signals()
        await self.following.compare()
        for task_id in await self.store.sweep():
            self._owners.pop(task_id, None)
        for task_id in [task_id for task_id, (_, expires) in self._owners.items() if expires <= now]:
            if task_id not in self.runs:
                del self._owners[task_id]

    # --- making -------------------------------------------------------------------------------------

    def new_run(self, exchange: Exchange, name: str, ttl: float | None) -> Run:
        """A run that is no task yet. ``ttl`` (milliseconds) is what was asked for."""
        longest = self.server.limits.max_task_ttl * 1000
        if ttl is None:
            ttl = longest if self.ttl is None else self.ttl * 1000
        now = time.time()
        task = Task(
            id=new_id(),
            owner=owner_key(exchange.principal),
            name=name,
            worker=self.store.worker,
            created=now,
            updated=now,
            ttl=int(min(ttl, longest)),
            poll=self.poll,
        )
        return Run(self, task, exchange)

    async def begin(self, exchange: Exchange, handler: Handler, run: Run) -> Task:
        """Makes the task durable, then starts its handler. Raises RpcError when there is no room."""
        await self._keep(exchange, run)
        if not exchange.open:
            # Given up meanwhile: nobody would ever know its id.
            self.forget(run)
            self.background(self.store.delete(run.task.id))
            raise RpcError(INTERNAL_ERROR, "the request was given up")
        self._adopt(run, exchange)
        try:
            captured = capture(exchange, handler, exchange.params, asker=run, detach=run.detach)
        except BaseException:
            self.forget(run)
            self.background(self.store.delete(run.task.id))
            raise
        captured.future.add_done_callback(lambda future: self._ended(run, future))
        return run.task

    async def begin_after(self, exchange: Exchange, handler: Handler, run: Run, seconds: float) -> Any:
        """Starts the handler and waits for it: its answer (bytes or RpcError) if it comes within ``seconds``,
        else the task that it has become; a question makes it one at once."""
        captured = capture(exchange, handler, exchange.params, asker=run)
        run.captured = captured
        try:
            first: set[asyncio.Future[Any]] = {captured.future, run.asked}
            await asyncio.wait(first, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if captured.future.done():
                return await captured
            try:
                await self._keep(exchange, run)
            except RpcError:
                if run.questions:
                    raise  # nobody could answer them
                return await captured
        except BaseException:
            run.stop()
            raise
        self._adopt(run, exchange)
        run.detach(captured)
        captured.future.add_done_callback(lambda future: self._ended(run, future))
        try:
            await run.sync()
        except BaseException:
            self.background(run.finish(cancelled_fields()))
            raise
        return run.task

    async def begin_by_handler(self, exchange: Exchange, handler: Handler, run: Run) -> Any:
        """Starts the handler as the call that it is: its answer (bytes or RpcError), or the task that it has made
        of itself by :meth:`Run.promote`. What it asks before is asked in the call (TK-22)."""
        captured = capture(exchange, handler, exchange.params, starter=run)
        run.captured = captured
        try:
            first: set[asyncio.Future[Any]] = {captured.future, run.promotion}
            await asyncio.wait(first, return_when=asyncio.FIRST_COMPLETED)
            if captured.future.done():
                return await captured
            await self._keep(exchange, run)
        except BaseException as exc:
            if isinstance(exc, RpcError):
                run.refuse(exc)
                return await captured
            run.stop()
            raise
        self._adopt(run, exchange)
        captured.asker = run
        run.detach(captured)
        captured.future.add_done_callback(lambda future: self._ended(run, future))
        run.accept()
        return run.task

    async def _keep(self, exchange: Exchange, run: Run) -> None:
        """Creates the task in the store, and takes it back when the request is given up meanwhile."""
        size = len(exchange.params or b"")
        if self._held + size > self.server.limits.max_task_params_bytes:
            text = "the tasks that run hold too much (limit max_task_params_bytes)"
            raise RpcError(INTERNAL_ERROR, text, http_status=503, refusal="max_task_params_bytes")
        self._held += size
        run.held = size
        self.creating.add(run.task.id)
        try:
            await self._create(run)
        except BaseException:
            self.forget(run)
            raise
        finally:
            self.creating.discard(run.task.id)

    async def _create(self, run: Run) -> None:
        try:
            await self.store.create(run.task)
        except TasksFull as exc:
            raise RpcError(INTERNAL_ERROR, str(exc), http_status=503, refusal=exc.limit) from None
        except asyncio.CancelledError:
            self.background(self.store.delete(run.task.id))
            raise
        except OSError as exc:
            self.complain("a task could not be kept", exc)
            text = "the task could not be kept"
            raise RpcError(INTERNAL_ERROR, text, http_status=503, refusal="task_store") from None

    def _adopt(self, run: Run, exchange: Exchange) -> None:
        run.is_task = True
        self.runs[run.task.id] = run
        expires = run.task.expires
        self._owners[run.task.id] = run.task.owner, float("inf") if expires is None else expires
        self.following.look()
        scope = scope_of(exchange)
        if scope is not None:
            scope.kept.append(run.over)

    def _ended(self, run: Run, future: asyncio.Future[Any]) -> None:
        """Done callback of the captured answer."""
        if run.task.id not in self.runs:
            return  # its final state is written already
        if future.cancelled():
            self.background(run.finish(cancelled_fields()))
        else:
            self.background(run.finish(run.outcome(future.result(), self.server.limits.max_task_result_bytes)))

    def forget(self, run: Run) -> None:
        """The run is over; its task may still be asked for."""
        self.runs.pop(run.task.id, None)
        self._held -= run.held
        run.held = 0

    def publish(self, run: Run) -> None:
        """Tells whoever follows the task of its state (TK-27, TK-03)."""
        task = run.task
        # A store that pushes has told those who follow it, no others.
        self.server.hub.task(task.id, detail(task), everywhere=not self.store.pushes)
        if run.session is not None:
            run.session.announce(_STATUS, _encode(legacy_task(task)))

    # --- asking for them ----------------------------------------------------------------------------

    async def reach(self, work: Coroutine[Any, Any, _T]) -> _T:
        """Does what a request needs of the store. Its faults are one line of the log and a plain answer."""
        try:
            return await work
        except OSError as exc:
            self.complain("the task store failed", exc)
            text = "the task store cannot be used now"
            raise RpcError(INTERNAL_ERROR, text, http_status=503, refusal="task_store") from None

    @staticmethod
    def possible(task_id: str) -> bool:
        """Whether it can be the id of a task."""
        return len(task_id) <= _MAX_ID

    async def find(self, exchange: Exchange, task_id: str) -> Task:
        """A task of this caller. Raises -32602 for any other id (TK-05, TK-23, TK-31)."""
        task = await self.reach(self.store.get(task_id)) if self.possible(task_id) else None
        if task is None or task.owner != owner_key(exchange.principal):
            raise RpcError(INVALID_PARAMS, "unknown task: there is none with this id, or its time is over")
        return task

    async def page(self, exchange: Exchange, after: int) -> tuple[list[Task], int | None]:
        """Tasks of this caller behind a position, and the position of the next page."""
        return await self.reach(self.store.page(owner_key(exchange.principal), after, self.server.limits.page_size))

    async def update(self, task: Task, responses: dict[str, Any]) -> None:
        """Answers outstanding questions; other keys are ignored (TK-24)."""
        run = self.runs.get(task.id)
        if run is not None:
            for key, value in responses.items():
                run.answer(key, value)
            try:
                await self.reach(run.sync())
            except RpcError:
                self.background(run.sync_patiently())  # the handler has the answers already
                raise
        elif not task.terminal and self.store.shared:
            for key, value in responses.items():
                if key in task.inputs:
                    await self.reach(self.store.post(Signal(task.id, "input", key, _encode(value))))

    async def cancel(self, task: Task) -> Task | None:
        """Ends a task as cancelled; None when it has ended already (TK-25, TK-03)."""
        run = self.runs.get(task.id)
        if run is not None:
            ended = await self.reach(run.finish(cancelled_fields(), once=True))
            return ended if ended is not None and ended.payload is None else None
        changed = await self.reach(self.store.change(task.id, cancelled_fields()))
        if changed is not None and self.store.shared:
            await self.reach(self.store.post(Signal(task.id, "cancel", "", b"")))
        return changed

    def followed(self, exchange: Exchange, task_ids: list[str]) -> list[str] | Awaitable[list[str]]:
        """Those of the ids that this caller may follow on a listen; each is told its present state first. An awaitable
        where the store must be asked for some."""
        owner = owner_key(exchange.principal)
        if self.store.shared and not self._owners.keys() >= set(task_ids):
            return self._followed_elsewhere(exchange, task_ids)
        accepted = [task_id for task_id in task_ids if task_id in self._owners and self._owners[task_id][0] == owner]
        for task_id in accepted:
            self.background(self._tell_present(task_id))
        return accepted

    async def _followed_elsewhere(self, exchange: Exchange, task_ids: list[str]) -> list[str]:
        accepted = await self.following.accept(exchange, task_ids[: self.server.limits.max_subscriptions])
        for task_id in accepted:
            self.background(self._tell_present(task_id))
        return accepted

    async def _tell_present(self, task_id: str) -> None:
        params = await self.present(task_id)
        if params is not None:
            self.server.hub.task(task_id, params, everywhere=False)

    async def present(self, task_id: str) -> bytes | None:
        """The state of a task as listens are told of it; None when there is none. Raises OSError."""
        task = await self.store.get(task_id)
        return detail(task) if task is not None else None
