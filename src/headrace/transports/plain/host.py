"""What hosts of plain handlers share: the life of the process around them, and how a handler is called."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from headrace.limits import DEFAULT, Limits
from headrace.transports.lifespan import Lifespan
from headrace.transports.plain.exchange import PlainExchange, decode, params_of
from headrace.transports.runtime import make_runtime
from headrace.transports.shield import shielded
from headrace.transports.workers import WorkerPool

if TYPE_CHECKING:
    from headrace.mux import Exchange, Meter, Mux, Runtime, Sink
    from headrace.wire import Envelope

__all__ = ("Handler", "Host", "Notified")

Handler = Callable[[str, Any, PlainExchange], Any]
"""``handler(method, params, exchange)``: gives the result or an awaitable of it, raises RpcError to refuse."""
Notified = Callable[[str, Any, PlainExchange], Any]
"""``on_notify(method, params, exchange)``; an awaitable that it gives runs in a task of its own."""


class Host(ABC):
    """A plain handler that transports can serve: :func:`headrace.transports.http_server.serve_http`,
    :func:`headrace.transports.stream.serve_lines`, :func:`headrace.server.hosting.serve`.

    :param handler: see :data:`Handler`. Coroutines start in the call stack of the read and get a task only when
        they suspend; each is cancelled when the peer gives its request up.
    :param on_notify: told of notifications other than those that correlate requests, in the order in which
        they came.
    :param raw: hand params over as bytes of JSON (None without any) instead of decoded.
    :param name: names the host in logs.
    :param lifespan: ``lifespan(host)``, an async context manager entered before the first connection and left
        after the last one, in a task of its own; what it yields is :attr:`lifespan_state`. If it ends before, for what
        it runs in the background, whoever is inside of :meth:`running` gets its exception.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    """

    def __init__(
        self,
        handler: Handler,
        *,
        on_notify: Notified | None = None,
        raw: bool = False,
        name: str = "host",
        lifespan: Callable[[Any], AbstractAsyncContextManager[Any]] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.handler = handler
        self.on_notify = on_notify
        self.raw = raw
        self.name = name
        self.limits = limits or DEFAULT
        self.log = logging.getLogger("headrace.host")
        self.lifespan_state: Any = None
        self._lifespan = lifespan
        self._runtime: Runtime | None = None
        self.meter: Meter | None = None
        """What counts its requests, to be set before it runs."""
        self._workers: WorkerPool | None = None
        self._span: Lifespan | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = asyncio.Lock()
        self._users = 0
        self._tasks: set[Any] = set()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"

    def set_limits(self, limits: Limits) -> None:
        """Replaces the bounds before the host runs. RuntimeError afterwards."""
        if self._users:
            raise RuntimeError("the host is running")
        self.limits = limits

    @property
    def runtime(self) -> Runtime:
        """The runtime of the loop that the host runs on."""
        if self._runtime is None:
            raise RuntimeError("the host is not running")
        return self._runtime

    @abstractmethod
    def new_session(self) -> tuple[Any, Mux]:
        """A line connection's session with its mux."""

    # --- calling the application ---------------------------------------------------------------------

    def call(self, exchange: Exchange) -> Any:
        """Serves one request (function of an :class:`headrace.mux.AnyMethod`)."""
        mux = exchange.mux
        method: str = exchange.method  # type: ignore[assignment]
        plain = PlainExchange(method, mux, exchange.sink, exchange, self.session_of(mux.gate, exchange.sink))
        return self.handler(method, exchange.params if self.raw else params_of(exchange), plain)

    def session_of(self, gate: Any, sink: Sink) -> Any:
        """What handlers get as ``exchange.session``."""
        return gate

    def told(self, mux: Mux, envelope: Envelope, sink: Sink, session: Any) -> None:
        """Hands a notification to ``on_notify``."""
        if self.on_notify is None:
            return
        method = envelope.method or ""
        raw = envelope.params
        try:
            params = raw if self.raw or raw is None else decode(raw)
        except (ValueError, RecursionError) as exc:
            self.log.debug("notification %.80r was dropped: its params cannot be read: %s", method, exc)
            return
        try:
            result = self.on_notify(method, params, PlainExchange(method, mux, sink, None, session))
            if hasattr(result, "__await__"):
                self.spawn(_contained(result, self.runtime.report, method))
        except Exception as exc:
            self.runtime.report(f"the handler of notification {method[:80]!r} failed", exc)

    def spawn(self, coro: Any) -> Any:
        """Runs a coroutine in a task that the host keeps alive and cancels at its end."""
        task = self.runtime.spawn(coro)
        if not task.done():
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return task

    # --- the life around it --------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Any]:
        """Binds the host to the running loop: lifespan, worker threads, runtime. It nests, so that one host
        serves several transports at once (B115). Raises what the lifespan raises."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._loop is not None and self._loop.is_closed():
                # It ended without leaving this: nothing of it can go on.
                self._users = 0
                self._stopped()
            if self._users or self._runtime is not None:
                raise RuntimeError("the host runs on another event loop already")
            self._loop, self._lock = loop, asyncio.Lock()
        lock = self._lock
        async with lock:
            if self._runtime is None:
                await self._start()
            self._users += 1
        try:
            with contextlib.nullcontext() if self._span is None else self._span.used():
                yield self
        finally:
            self._users -= 1
            # Whoever holds the lock is starting, and then goes on, or is stopping already.
            with shielded():
                await lock.acquire()
            try:
                if self._users == 0 and self._runtime is not None:
                    await self._stop()
            finally:
                lock.release()

    async def _start(self) -> None:
        self._workers = WorkerPool(self.limits.worker_threads, f"{self.name}-worker")
        self._runtime = make_runtime(self.limits, self.log, self._workers, self.meter)
        try:
            if self._lifespan is not None:
                self._span = Lifespan(self._lifespan(self))
                self.lifespan_state = await self._span.enter()
        except BaseException:
            self._stopped()
            raise

    async def _stop(self) -> None:
        try:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            if tasks:
                with shielded():
                    await asyncio.wait(tasks, timeout=1.0)
            if self._span is not None:
                await self._span.leave()
        finally:
            self._stopped()

    def _stopped(self) -> None:
        if self._workers is not None:
            self._workers.close()
        self._workers = None
        self._runtime = None
        self._span = None
        self.lifespan_state = None


async def _contained(awaitable: Any, report: Callable[[str, BaseException], None], method: str) -> None:
    try:
        await awaitable
    except Exception as exc:
        report(f"the handler of notification {method[:80]!r} failed", exc)
