"""Threads for handlers that block: plain ``def`` tools run here so that the loop keeps answering pings.

Strategy: a job goes straight to an idle thread (the one that was busy last), else to a new thread while
there are fewer than `limit`, else into the backlog, from which a thread that finishes takes the oldest.
Results collect in one outlet per loop; one that comes while a wake-up of the loop is under way rides along.
The threads are daemons and nothing joins them: a handler that never returns cannot keep the process
from exiting (B19), which `concurrent.futures` would.
"""

import asyncio
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

__all__ = ["WorkerPool"]

_T = TypeVar("_T")


class _Outlet:
    """Brings results of worker threads onto one loop."""

    __slots__ = ("loop", "pool", "ready", "waking")

    def __init__(self, pool: "WorkerPool", loop: asyncio.AbstractEventLoop) -> None:
        self.pool = pool
        self.loop = loop
        self.ready: deque[tuple[asyncio.Future[Any] | None, Any, BaseException | None]] = deque()
        self.waking = False

    def put(self, future: asyncio.Future[Any] | None, value: Any, error: BaseException | None) -> None:
        """Called by a worker thread. A loop that is closed loses the result. Without a future ``value``
        is called on the loop."""
        self.ready.append((future, value, error))
        # `drain` lowers the flag before it takes anything: seen up, it means this result will be found.
        if not self.waking:
            self.waking = True
            try:
                self.loop.call_soon_threadsafe(self.drain)
            except RuntimeError:
                self.waking = False
                while self.ready:
                    self.ready.popleft()
                    self.pool._drop()

    def drain(self) -> None:
        self.waking = False
        ready = self.ready
        while ready:
            future, value, error = ready.popleft()
            if future is None:
                value()
            elif future.done():
                self.pool._drop()
            elif error is None:
                future.set_result(value)
            else:
                future.set_exception(error)


class _Posted:
    """A call for the loop that cannot break the delivery of what is queued behind it."""

    __slots__ = ("args", "fn", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop, fn: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self.loop = loop
        self.fn = fn
        self.args = args

    def __call__(self) -> None:
        try:
            self.fn(*self.args)
        except Exception as exc:
            self.loop.call_exception_handler({"message": f"{self.fn!r} failed", "exception": exc})


class _Job:
    __slots__ = ("args", "context", "fn", "future", "outlet")

    def __init__(
        self,
        fn: Callable[..., Any],
        args: tuple[Any, ...],
        context: Context,
        future: asyncio.Future[Any],
        outlet: _Outlet,
    ) -> None:
        self.fn = fn
        self.args = args
        self.context = context
        self.future = future
        self.outlet = outlet

    def execute(self) -> None:
        value = error = None
        if self.future.cancelled():
            return
        try:
            value = self.context.run(self.fn, *self.args)
        except BaseException as e:
            error = _deliverable(e)
        outlet, future = self.outlet, self.future
        # A traceback may keep this frame: leave nothing in it that leads back to the error or to the job.
        del self
        try:
            outlet.put(future, value, error)
        finally:
            del outlet, future, value, error


def _deliverable(error: BaseException) -> BaseException:
    """The exception as a future may carry it.

    One that would mean something else to the task that awaits (its end, its cancellation, the end of the
    process) becomes the cause of a RuntimeError (B86).
    """
    if error.__traceback__ is not None:
        error.__traceback__ = error.__traceback__.tb_next  # the frame of `execute` says nothing
    if isinstance(error, Exception) and not isinstance(error, StopIteration):
        return error
    wrapped = RuntimeError(f"{type(error).__name__} raised in a worker thread")
    wrapped.__cause__ = error
    return wrapped


class WorkerPool:
    """Runs blocking functions in at most `limit` threads, made on demand and reused.

    :param limit: most threads at a time, at least 1; jobs beyond it wait in order.
    :param name: threads are named ``name-1``, ``name-2``...
    :raises ValueError: if `limit` is below 1.

    `dropped` counts the results and exceptions that came after their future was cancelled or their loop
    closed.
    """

    def __init__(self, limit: int, name: str = "headrace-worker") -> None:
        if limit < 1:
            raise ValueError(f"limit must be at least 1, not {limit}")
        self.limit = limit
        self.name = name
        self.dropped = 0
        self._lock = threading.Lock()
        self._threads = 0
        self._started = 0
        self._idle: list[SimpleQueue[_Job | None]] = []
        self._backlog: OrderedDict[asyncio.Future[Any], _Job] = OrderedDict()
        self._outlet: _Outlet | None = None
        self._closed = False

    @property
    def active(self) -> int:
        """Threads that have a job, those whose future was cancelled meanwhile included."""
        with self._lock:
            return self._threads - len(self._idle)

    @property
    def queued(self) -> int:
        """Jobs waiting for a thread."""
        return len(self._backlog)

    def run(self, fn: Callable[..., _T], /, *args: Any) -> asyncio.Future[_T]:
        """Runs ``fn(*args)`` in a worker thread, in a copy of the caller's context (B85).

        Must be called on a loop, whose future it returns. Cancelling the future takes a job that waits out
        of the backlog; one that runs goes on, and what it gives is dropped. StopIteration, and whatever is
        not an Exception, reaches the future as the cause of a RuntimeError.

        :raises RuntimeError: if the pool is closed, no loop runs, or not even one thread can be started.
        """
        loop = asyncio.get_running_loop()
        outlet = self._outlet
        if outlet is None or outlet.loop is not loop:
            outlet = self._outlet = _Outlet(self, loop)
        future: asyncio.Future[_T] = loop.create_future()
        job = _Job(fn, args, copy_context(), future, outlet)
        with self._lock:
            if self._closed:
                raise RuntimeError("the worker pool is closed")
            if self._idle:
                self._idle.pop().put(job)
                return future
            grow = self._threads < self.limit
            if grow:
                self._threads += 1
                self._started += 1
                number = self._started
            else:
                self._backlog[future] = job
        if grow and self._start(number, job):
            return future
        future.add_done_callback(self._forget)
        return future

    def post(self, fn: Callable[..., Any], /, *args: Any) -> None:
        """Calls ``fn(*args)`` on the loop, from any thread: before the results of jobs that end later (B78).

        Exceptions of ``fn`` go to the loop's exception handler. Does nothing on a closed pool.
        """
        outlet = self._outlet
        if outlet is not None:
            outlet.put(None, _Posted(outlet.loop, fn, args), None)

    def close(self) -> None:
        """Cancels the jobs that wait and lets each thread end after the job it has. Returns at once.

        Jobs that run still deliver to their loop while it is open. Call it on the loop; again is harmless.
        """
        with self._lock:
            self._closed = True
            waiting = list(self._backlog)
            self._backlog.clear()
            self._threads -= len(self._idle)
            for inbox in self._idle:
                inbox.put(None)
            self._idle.clear()
            self._outlet = None
        for future in waiting:
            future.cancel()

    def _start(self, number: int, job: _Job) -> bool:
        """Starts a thread with its first job; if the system refuses, the job waits for those there are."""
        # Through the inbox: a Thread keeps its arguments as long as it runs.
        inbox: SimpleQueue[_Job | None] = SimpleQueue()
        inbox.put(job)
        thread = threading.Thread(target=self._work, args=(inbox,), name=f"{self.name}-{number}", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                self._threads -= 1
                if self._threads == 0:
                    raise
                if self._idle:
                    self._idle.pop().put(job)
                    return True
                self._backlog[job.future] = job
            return False
        return True

    def _drop(self) -> None:
        with self._lock:
            self.dropped += 1

    def _forget(self, future: asyncio.Future[Any]) -> None:
        """Takes a cancelled job out of the backlog, so that call-and-cancel cannot make it grow."""
        with self._lock:
            self._backlog.pop(future, None)

    def _work(self, inbox: SimpleQueue[_Job | None]) -> None:
        job = inbox.get()
        while job is not None:
            job.execute()
            job = None  # nothing of a finished job stays while the thread waits
            with self._lock:
                if self._backlog:
                    job = self._backlog.popitem(last=False)[1]
                elif self._closed:
                    self._threads -= 1
                    return
                else:
                    self._idle.append(inbox)
            if job is None:
                job = inbox.get()
