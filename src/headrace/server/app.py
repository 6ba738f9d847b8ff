"""Server: what a program registers its tools on, and what hosts them on any transport."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar, overload

from headrace.errors import UsageError
from headrace.jsonrpc import R5
from headrace.limits import DEFAULT, Limits
from headrace.mux import Handler, Mux, Runtime
from headrace.protocol.session import ServerSession
from headrace.protocol.tables import Features, Tables
from headrace.server.middleware import Layer, Middleware, wrap
from headrace.server.tools import ToolOptions, ToolRegistry
from headrace.transports.runtime import make_runtime
from headrace.transports.workers import WorkerPool

if TYPE_CHECKING:
    import ssl as ssl_module

    from headrace.protocol.seal import Sealer
    from headrace.server.schema import HeaderParameter
    from headrace.wire import Envelope

__all__ = ("Server",)

_F = TypeVar("_F", bound=Callable[..., Any])


class Server:
    """A tool server. Register tools on it, then :meth:`run` it.

    :param name: programmatic name of the server.
    :param version: its version.
    :param title: name to show to people.
    :param instructions: text that tells a model how to use the server.
    :param description, website_url, icons: further members of the server's ``Implementation``.
    :param lifespan: ``lifespan(server)`` is an async context manager entered once before the first
        connection and left after the last one; what it yields is ``Context.lifespan`` (B98).
    :param limits: bounds, see :class:`headrace.limits.Limits`.
    """

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
        self.tools = ToolRegistry(self.info, self.limits.page_size)
        self._layers: list[Layer] = []
        self.tables = Tables(Features(self.info, instructions, self._capabilities, self._handlers))
        self.tools.on_change = self._tools_changed
        self.sessions: set[ServerSession] = set()
        self._runtime: Runtime | None = None
        self._workers: WorkerPool | None = None
        self._users = 0
        self._exit_stack: contextlib.AsyncExitStack | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock: asyncio.Lock | None = None
        self._change_due = False
        self._sealer: Sealer | None = None

    def __repr__(self) -> str:
        return f"<Server {self.name} {self.version}, {len(self.tools)} tools>"

    def set_limits(self, limits: Limits) -> None:
        """Replaces the bounds, before the server runs (the command line does). RuntimeError afterwards."""
        if self._users:
            raise RuntimeError("the server is running")
        self.limits = limits
        self.tools.set_page_size(limits.page_size)

    # --- registration -------------------------------------------------------------------------------

    @overload
    def tool(self, function: _F, /) -> _F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = ...,
        title: str | None = ...,
        description: str | None = ...,
        annotations: Any = ...,
        icons: Sequence[Any] | None = ...,
        meta: dict[str, Any] | None = ...,
        inline: bool = ...,
        timeout: float | None = ...,
        forbid_unknown: bool = ...,
        input_schema: dict[str, Any] | None = ...,
        output_schema: dict[str, Any] | None = ...,
    ) -> Callable[[_F], _F]: ...
    def tool(self, *function: Callable[..., Any], **options: Any) -> Any:
        """Registers a function as a tool; usable bare or with options.

        ``async def`` tools run on the event loop, plain ``def`` tools in worker threads, and with
        ``inline=True`` plain functions that cannot block run on the loop itself. ``timeout`` (seconds)
        ends a call with an error result. ``name``, ``title``, ``description``, ``annotations``,
        ``icons`` and ``meta`` are what ``tools/list`` shows. ``forbid_unknown`` refuses arguments that
        the function does not have; ``input_schema`` and ``output_schema`` are advertised instead of
        those made from the annotations.

        Raises :class:`headrace.errors.UsageError` for what cannot be a tool, with the cure.
        """
        if function:
            self.add_tool(*function, **options)
            return function[0]

        def register(target: _F) -> _F:
            self.add_tool(target, **options)
            return target

        return register

    def add_tool(self, function: Callable[..., Any], **options: Any) -> None:
        """Registers ``function`` with the options of :meth:`tool`; also while the server runs (SF-60)."""
        unknown = options.keys() - ToolOptions.__struct_fields__
        if unknown:
            raise UsageError(
                f"unknown tool option {min(unknown)!r}; there are {', '.join(sorted(ToolOptions.__struct_fields__))}"
            )
        self.tools.add(function, ToolOptions(**options))

    def remove_tool(self, name: str) -> None:
        """Takes a tool away, also while the server runs. Raises KeyError for an unknown name."""
        self.tools.remove(name)

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

    def header_parameters(self, name: str) -> tuple[HeaderParameter, ...]:
        """The parameters of tool ``name`` that HTTP clients mirror as headers (HN-20)."""
        return self.tools.headers_of(name)

    @property
    def tools_with_headers(self) -> set[str]:
        """Names of the tools for which :meth:`header_parameters` is not empty; changes with them."""
        return self.tools.with_headers

    # --- what the protocol layer asks ----------------------------------------------------------------

    def _capabilities(self, revision: str) -> dict[str, Any]:
        # list_changed needs a channel: in the modern era that is subscriptions/listen.
        return {"tools": {} if revision == R5 else {"listChanged": True}, "logging": {}}

    def _handlers(self, revision: str) -> dict[bytes, Handler]:
        return wrap(self.tools.methods(revision), self._layers)

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

    def notified(self, session: ServerSession, envelope: Envelope) -> None:
        """A notification from a client; unknown ones are silent (JR-07)."""
        if envelope.method == "notifications/initialized":
            session.ready = True

    def session_ended(self, session: ServerSession) -> None:
        """A connection or session is gone."""
        self.sessions.discard(session)

    def _tools_changed(self) -> None:
        self.tables.changed()
        loop = self._loop
        if loop is None or self._runtime is None or self._change_due:
            return
        # A burst of changes is one notification (B113); the caller may be any thread.
        self._change_due = True
        loop.call_soon_threadsafe(self._announce)

    def _announce(self) -> None:
        self._change_due = False
        for session in list(self.sessions):
            session.announce(b"notifications/tools/list_changed")

    # --- hosting ------------------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Server]:
        """Binds the server to the running loop: lifespan, worker threads, runtime.

        Transports enter it by themselves; it nests, so one server object serves several at once
        (B115). Raises what the lifespan raises.
        """
        loop = asyncio.get_running_loop()
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
            yield self
        finally:
            async with lock:
                self._users -= 1
                if self._users == 0:
                    await self._stop()

    async def _start(self) -> None:
        self._workers = WorkerPool(self.limits.worker_threads, f"{self.name}-worker")
        self._runtime = make_runtime(self.limits, self.log, self._workers)
        self._exit_stack = contextlib.AsyncExitStack()
        try:
            if self._lifespan is not None:
                self.lifespan_state = await self._exit_stack.enter_async_context(self._lifespan(self))
        except BaseException:
            self._stopped()
            raise

    async def _stop(self) -> None:
        try:
            if self._exit_stack is not None:
                await self._exit_stack.aclose()
        finally:
            self._stopped()

    def _stopped(self) -> None:
        if self._workers is not None:
            self._workers.close()
        self._workers = None
        self._runtime = None
        self._loop = None
        self._lock = None
        self._exit_stack = None
        self.lifespan_state = None
        self.sessions.clear()

    async def serve(
        self,
        *,
        http: str | int | tuple[str, int] | None = None,
        unix: str | None = None,
        tcp: str | int | tuple[str, int] | None = None,
        stdio: bool | None = None,
        path: str = "/mcp",
        ssl: ssl_module.SSLContext | None = None,
        allowed_hosts: list[str] | None = None,
        allowed_origins: list[str] | None = None,
        cors_origins: list[str] | None = None,
        json_only: bool = False,
        on_ready: Callable[[list[str]], Any] | None = None,
    ) -> None:
        """Hosts the server until the task is cancelled, on stdio or where ``http``, ``unix`` or ``tcp`` say.

        The parameters are those of :func:`headrace.server.hosting.serve`.
        """
        where = {key: value for key, value in locals().items() if key != "self"}
        from headrace.server.hosting import serve

        await serve(self, **where)

    def run(
        self,
        *,
        http: str | int | tuple[str, int] | None = None,
        unix: str | None = None,
        tcp: str | int | tuple[str, int] | None = None,
        stdio: bool | None = None,
        path: str = "/mcp",
        ssl: ssl_module.SSLContext | None = None,
        allowed_hosts: list[str] | None = None,
        allowed_origins: list[str] | None = None,
        cors_origins: list[str] | None = None,
        json_only: bool = False,
        on_ready: Callable[[list[str]], Any] | None = None,
        loop: str = "auto",
    ) -> None:
        """Hosts the server, blocking, until Ctrl-C or SIGTERM, or the end of stdin on stdio.

        The parameters are those of :func:`headrace.server.hosting.serve`; ``loop`` is ``"uvloop"``,
        ``"asyncio"`` or ``"auto"`` (uvloop where it is installed).
        """
        where = {key: value for key, value in locals().items() if key != "self"}
        from headrace.server.hosting import run

        run(self, **where)
