"""Server: what a program registers its tools on, and what hosts them on any transport."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Unpack

from headrace.errors import UsageError
from headrace.limits import DEFAULT, Limits
from headrace.mux import Handler, Meter, Mux, Runtime
from headrace.mux.observer import joined
from headrace.protocol.session import ServerSession
from headrace.protocol.subscriptions import Hub
from headrace.protocol.tables import Features, Tables
from headrace.server.alone import refuse_following, without_changes
from headrace.server.completion import CompletionRegistry
from headrace.server.features import PRIVATE_NOW, CoreFeature, Feature, merge_capabilities, merge_methods
from headrace.server.hooks import Hooks
from headrace.server.middleware import Layer, Middleware, wrap
from headrace.server.prompts import PromptRegistry
from headrace.server.registration import Registration
from headrace.server.resources import ResourceRegistry
from headrace.server.tools import ToolRegistry
from headrace.transports.lifespan import Lifespan
from headrace.transports.runtime import make_runtime
from headrace.transports.shield import shielded
from headrace.transports.workers import WorkerPool

if TYPE_CHECKING:
    from headrace.mux import Observer, Sink
    from headrace.protocol.backplane import Backplane
    from headrace.protocol.seal import Sealer
    from headrace.protocol.tasks.store import TaskStore
    from headrace.server.extensions import Extension
    from headrace.server.tasks.feature import TasksFeature
    from headrace.transports.asgi import AsgiApp
    from headrace.transports.http_options import HttpOptions
    from headrace.wire import Envelope

__all__ = ("Server",)


class Server(Registration):
    """An MCP server. Register tools, resources and prompts on it, then :meth:`run` it.

    :param name: programmatic name of the server.
    :param version: its version.
    :param title: name to show to people.
    :param instructions: text that tells a model how to use the server.
    :param description, website_url, icons: further members of the server's ``Implementation``.
    :param lifespan: ``lifespan(server)`` is an async context manager entered once before the first
        connection and left after the last one, in a task of its own; what it yields is ``Context.lifespan``
        (B98). If it ends before, for what it runs in the background, serving ends with its exception.
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    :param extensions: identifier (``"com.example/search"``) to settings of each extension that the server
        speaks, advertised in both eras (VN-31, VN-32); handlers see the client's as
        ``Context.client_extensions``.
    :param offers: features (``"tools"``, ``"resources"``, ``"prompts"``, ``"completions"``) that are
        advertised even while nothing of the kind is registered; the others from their first registration on.
    """

    unshared: str | None = None
    """Why nothing is offered that processes would have to share, see :meth:`share_nothing`; None: all is."""

    def __init__(
        self,
        name: str,
        *,
        version: str,
        title: str | None = None,
        instructions: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Sequence[dict[str, Any]] | None = None,
        lifespan: Callable[[Server], AbstractAsyncContextManager[Any]] | None = None,
        limits: Limits | None = None,
        extensions: Mapping[str, Mapping[str, Any]] | None = None,
        offers: Sequence[str] = ("tools",),
    ) -> None:
        self.name = name
        self.version = version
        self.limits = limits or DEFAULT
        self.log = logging.getLogger("headrace.server")
        self.lifespan_state: Any = None
        self._lifespan = lifespan
        members = {
            "name": name,
            "version": version,
            "title": title,
            "description": description,
            "websiteUrl": website_url,
            "icons": list(icons) if icons else None,
        }
        self.info = {key: value for key, value in members.items() if value is not None}
        self._layers: list[Layer] = []
        self.hooks = Hooks(self)
        self._observers: list[Observer] = []
        self.sessions: set[ServerSession] = set()
        self.hub = Hub(self)
        """Who is told of changes; see :class:`headrace.protocol.subscriptions.Hub`."""
        self.tools = ToolRegistry(self.info, self.limits.page_size)
        self.resources = ResourceRegistry(self)
        self.prompts = PromptRegistry(self)
        self.completions = CompletionRegistry(self.prompts, self.resources)
        registries = (self.tools, self.resources, self.prompts, self.completions)
        if unknown := set(offers) - {registry.kind for registry in registries}:
            known = ", ".join(registry.kind for registry in registries)
            raise UsageError(f"offers: there is no feature {min(unknown)!r}; there are {known}")
        self._features: list[Feature] = [CoreFeature(extensions), self.hub, *registries]
        self._known_capabilities: dict[str, dict[str, Any]] = {}
        for registry in registries:
            registry.offered = registry.kind in offers
        self.discover_hint = PRIVATE_NOW
        self.tables = Tables(
            Features(self.info, instructions, self.capabilities, self._handlers, lambda: self.discover_hint.fields())
        )
        for registry in registries:
            registry.on_offer = self.features_changed
            registry.on_change = self.hub.changed
        self.tools.tasks = self._tasks_offered
        self._tasks: TasksFeature | None = None
        self._runtime: Runtime | None = None
        self.meter: Meter | None = None
        """What counts its requests, see :mod:`headrace.hosting.metrics`; to be set before it runs."""
        self._workers: WorkerPool | None = None
        self._users = 0
        self._span: Lifespan | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None
        self._sealer: Sealer | None = None
        self.backplane: Backplane | None = None
        """What this process shares with others of the same server, see :meth:`set_backplane`; None: nothing."""

    def __repr__(self) -> str:
        return f"<Server {self.name} {self.version}, {len(self.tools)} tools>"

    def set_limits(self, limits: Limits) -> None:
        """Replaces the bounds, before the server runs (the command line does). RuntimeError afterwards."""
        if self._users:
            raise RuntimeError("the server is running")
        self.limits = limits
        for listing in self._listings():
            listing.set_page_size(limits.page_size)

    def set_backplane(self, backplane: Backplane | None) -> None:
        """Says what this process shares with others that serve the same server, before the server runs: it is started
        with the server, before the lifespan, and stopped behind it. RuntimeError afterwards."""
        if backplane is self.backplane:
            return
        if self._users:
            raise RuntimeError("the server is running: a backplane is set before")
        self.backplane = backplane

    def share_nothing(self, reason: str) -> None:
        """Says, before the server runs, that other processes serve the same clients, and that nothing is shared with
        them: tasks and what tells of changes are not offered, and refused with ``reason``."""
        self.unshared = reason
        self.refuse_tasks(reason)
        for registry in (self.tools, self.resources, self.prompts):
            registry.on_change = None
        self.features_changed()

    def add_middleware(self, middleware: Middleware, *, methods: Iterable[str] | None = None) -> Middleware:
        """Runs ``async def middleware(call, next) -> dict | None`` around requests; usable as a decorator.

        ``call`` is a :class:`headrace.server.middleware.Call`; ``await next(call)`` gives the result object
        as a dict, or raises :class:`RpcError`. What the middleware returns is the answer; None leaves the
        result as it came. Raising :class:`RpcError`, or for a tool :class:`ToolError`, refuses. The one
        added first is outermost. ``methods`` names the methods it is for; without it, all that the
        server's features serve. The protocol's own (``initialize``, ``ping``, ``server/discover``,
        ``logging/setLevel``, ``subscriptions/listen``) never pass it.
        """
        self._layers.append(Layer(middleware, methods))
        self.tables.render()
        return middleware

    def on_session(self, hook: Any) -> Any:
        """Runs ``hook(session)`` around each session; usable as a decorator.

        ``hook`` is an async function with one ``yield``, or gives an async context manager. It is entered before the
        first request of a session that a feature serves, and left when the session has ended and its requests with
        it, in a task of the session's own. What it puts into ``session.state``, handlers have as
        ``Context.session_state``. Raising :class:`RpcError` refuses the request; the next one tries again. See
        :class:`headrace.server.hooks.Session` for what a session is. UsageError while the server runs.
        """
        self._hooked("on_session")
        self.hooks.add_session(hook)
        self.tables.render()
        return hook

    def on_request(self, hook: Any = None, *, methods: Iterable[str] | None = None) -> Any:
        """Runs ``hook(call)`` around each request, outside of all middleware; usable as a decorator, with and without
        ``methods``, which are those of :meth:`add_middleware`.

        ``hook`` is an async function with one ``yield``, or gives an async context manager. It is entered before the
        handler and left before the answer goes out, with the exception that the request failed with; around a call
        that becomes a task it stays until the task has ended. What it puts into ``call.context.state``, the handler
        has as ``Context.state``. Raising :class:`RpcError`, or for a tool :class:`ToolError`, refuses. UsageError
        while the server runs.
        """
        if hook is None:
            return lambda hook: self.on_request(hook, methods=methods)
        self._hooked("on_request")
        self.hooks.add_request(hook, methods)
        self.tables.render()
        return hook

    def _hooked(self, what: str) -> None:
        if self._users:
            raise UsageError(f"{what} comes before the server runs")

    def tasks(
        self,
        store: TaskStore | None = None,
        *,
        ttl: float | None = 3_600.0,
        poll_interval: float = 1.0,
        listing: bool = False,
    ) -> None:
        """Says how tasks are kept; without it the first tool with ``task=`` gives them a store in memory.

        :param store: a :class:`~headrace.protocol.tasks.store.MemoryTaskStore` (the default) or
            :class:`~headrace.server.tasks.sqlite_store.SqliteTaskStore`.
        :param ttl: seconds that a task is kept from its creation when nothing else is said; None: as long
            as ``limits.max_task_ttl`` allows.
        :param poll_interval: seconds that clients should wait between two looks.
        :param listing: offer ``tasks/list`` in 2025-11-25. Only where callers are authenticated or there is
            one user: all callers without authentication see each other's tasks (TK-05).

        Raises :class:`UsageError` after the first tool with ``task=``, or while the server runs.
        """
        if self._tasks is not None or self._users:
            raise UsageError("tasks() comes before the first tool with task=, and before the server runs")
        self._offer_tasks(store, ttl, poll_interval, listing)

    def _offer_tasks(
        self, store: TaskStore | None, ttl: float | None, poll_interval: float, listing: bool
    ) -> TasksFeature:
        from headrace.server.tasks.feature import TasksFeature

        self._tasks = TasksFeature(self, store, ttl=ttl, poll_interval=poll_interval, listing=listing)
        self.tools.guard_tasks(self._tasks.refuse_wish)
        self.add_feature(self._tasks)
        if self.unshared is not None:
            self.refuse_tasks(self.unshared)
        return self._tasks

    def refuse_tasks(self, reason: str) -> bool:
        """Offers no tasks, before the server runs, because other processes that serve the same clients would not know
        of them; clients are told ``reason``. False, and nothing happens, where there are none, or where their store
        is one that processes share."""
        if self._tasks is None or not self._tasks.refuse(reason):
            return False
        self.features_changed()
        return True

    def _tasks_offered(self) -> TasksFeature:
        if self._tasks is not None:
            return self._tasks
        if self._users:
            raise UsageError("call tasks() before the server runs when tools with task= come later")
        return self._offer_tasks(None, 3_600.0, 1.0, False)

    def observe(self, observer: Observer) -> None:
        """Has ``observer`` told of every request, answer and notification of this server, from now on; for what looks
        at messages without changing them, as tracing and logs do. Costs nothing where nobody observes."""
        self._observers.append(observer)
        if self._runtime is not None:
            self._runtime.observer = joined(self._runtime.observer, observer)

    # --- what the protocol layer asks ----------------------------------------------------------------

    def capabilities(self, revision: str) -> dict[str, Any]:
        """The capabilities object under ``revision``; not to be changed."""
        found = self._known_capabilities.get(revision)
        if found is None:
            found = merge_capabilities(self._features, revision)
            if self.unshared is not None:
                found = without_changes(found)
            self._known_capabilities[revision] = found
        return found

    def _handlers(self, revision: str) -> dict[bytes, Handler]:
        methods = merge_methods(self._features, revision)
        if self.unshared is not None:
            methods = refuse_following(methods, self.unshared)
        return self.hooks.wrap(wrap(methods, self._layers))

    def add_feature(self, feature: Feature) -> None:
        """Offers one more feature. Its methods and capabilities go before those that were there."""
        self._features.append(feature)
        self.features_changed()

    def add_extension(self, extension: Extension) -> None:
        """Offers an extension with its methods. Raises UsageError when one of them is served already."""
        for revision in (self.tables.modern, *self.tables.by_name.values()):
            if taken := extension.methods(revision.name).keys() & revision.requests.keys():
                raise UsageError(f"{extension!r}: the method {min(taken).decode()!r} is served already")
        self.add_feature(extension)

    def features_changed(self) -> None:
        """To be called when a feature begins to be offered, or has other methods: tables are made anew."""
        self._known_capabilities.clear()
        self.tables.render()

    @property
    def sealer(self) -> Sealer:
        """Seals what clients carry (MX-35). Raises UsageError for a HEADRACE_SECRET that is too short."""
        if self._sealer is None:
            from headrace.protocol.seal import Sealer

            self._sealer = Sealer()
        return self._sealer

    @property
    def runtime(self) -> Runtime:
        """The runtime of the loop that the server runs on."""
        if self._runtime is None:
            raise RuntimeError("the server is not running")
        return self._runtime

    def new_session(self) -> tuple[ServerSession, Mux]:
        """A line connection's session with its mux."""
        session = ServerSession(self, self.tables)
        mux = Mux(self.runtime, session, self.limits)
        session.bind(mux)
        self.sessions.add(session)
        return session, mux

    def notified(self, session: ServerSession, envelope: Envelope, sink: Sink) -> None:
        """A notification from a client; unknown ones are silent (JR-07)."""
        if envelope.method == "notifications/initialized":
            session.ready = True

    def session_ended(self, session: ServerSession) -> None:
        """A connection or session is gone."""
        if session.hooked is not None:
            session.hooked.leave()
        self.sessions.discard(session)
        self.hub.session_ended(session)

    # --- hosting ------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """Binds the server to the running loop: lifespan, worker threads, runtime.

        Transports enter it by themselves; it nests, so one server object serves several at once
        (B115). Raises what the lifespan raises.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not None and self._loop.is_closed():
            # It ended without leaving this: nothing of it can go on.
            self._users = 0
            self._stopped()
        if self._loop not in (None, loop):
            raise RuntimeError("the server runs on another event loop already")
        if self._lock is None:
            self._loop = loop
            self._lock = asyncio.Lock()
        lock = self._lock
        async with lock:
            if self._users == 0:
                await self._start()
            self._users += 1
        try:
            with contextlib.nullcontext() if self._span is None else self._span.used():
                yield self
        finally:
            with shielded():
                await lock.acquire()
            try:
                self._users -= 1
                if self._users == 0:
                    await self._stop()
            finally:
                lock.release()

    async def _start(self) -> None:
        if self.backplane is not None:
            await self.backplane.start(self.limits, self.log)
        self._workers = WorkerPool(self.limits.worker_threads, f"{self.name}-worker")
        self._runtime = make_runtime(self.limits, self.log, self._workers, self.meter)
        for observer in self._observers:
            self._runtime.observer = joined(self._runtime.observer, observer)
        self.hub.start(self._runtime, asyncio.get_running_loop().call_soon_threadsafe)
        self.hub.share(self.backplane)
        try:
            if self._lifespan is not None or self._tasks is not None or self.hooks:
                self._span = Lifespan(self._life())
                await self._span.enter()
        except BaseException:
            self._stopped()
            if self.backplane is not None:
                await self.backplane.stop()
            raise

    @contextlib.asynccontextmanager
    async def _life(self) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if self._lifespan is not None:
                self.lifespan_state = await stack.enter_async_context(self._lifespan(self))
            if self.hooks:
                await stack.enter_async_context(self.hooks.running())
            if self._tasks is not None:
                await stack.enter_async_context(self._tasks.running())
            yield

    async def _stop(self) -> None:
        try:
            if self._span is not None:
                await self._span.leave()
        finally:
            self._stopped()
            if self.backplane is not None:
                await self.backplane.stop()

    def _stopped(self) -> None:
        self.hub.stop()
        if self._workers is not None:
            self._workers.close()
        self._workers = None
        self._runtime = None
        self._loop = None
        self._lock = None
        self._span = None
        self.lifespan_state = None
        self.sessions.clear()

    async def serve(
        self,
        *,
        http: str | int | tuple[str, int] | None = None,
        unix: str | None = None,
        tcp: str | int | tuple[str, int] | None = None,
        stdio: bool | None = None,
        on_ready: Callable[[list[str]], Any] | None = None,
        **options: Unpack[HttpOptions],
    ) -> None:
        """Hosts the server until the task is cancelled, on stdio or where ``http``, ``unix`` or ``tcp`` say.

        The parameters are those of :func:`headrace.server.hosting.serve`; ``options`` are
        :class:`headrace.transports.http_options.HttpOptions`: ``path``, ``ssl``, ``legacy_sse`` and so on.
        """
        from headrace.server.hosting import serve

        await serve(self, http=http, unix=unix, tcp=tcp, stdio=stdio, on_ready=on_ready, **options)

    def run(
        self,
        *,
        http: str | int | tuple[str, int] | None = None,
        unix: str | None = None,
        tcp: str | int | tuple[str, int] | None = None,
        stdio: bool | None = None,
        on_ready: Callable[[list[str]], Any] | None = None,
        loop: str = "auto",
        **options: Unpack[HttpOptions],
    ) -> None:
        """Hosts the server, blocking, until Ctrl-C or SIGTERM, or the end of stdin on stdio.

        The parameters are those of :meth:`serve`; ``loop`` is ``"uvloop"``, ``"asyncio"`` or ``"auto"``
        (uvloop where it is installed).
        """
        from headrace.server.hosting import run

        run(self, loop=loop, http=http, unix=unix, tcp=tcp, stdio=stdio, on_ready=on_ready, **options)

    def asgi(self, **options: Unpack[HttpOptions]) -> AsgiApp:
        """The server as an ASGI 3 application, for uvicorn and its like, and for mounts in Starlette or FastAPI.

        It answers at its mount point and at ``/mcp`` below it, or at ``path``; the other ``options`` are those of
        :class:`headrace.transports.http_options.HttpOptions`, but for what is the host's business (``ssl``).
        Raises :class:`UsageError` for options that cannot be served. See
        :class:`headrace.transports.asgi.AsgiApp`.
        """
        from headrace.transports.asgi import AsgiApp

        return AsgiApp(self, **options)
