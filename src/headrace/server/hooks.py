"""Hooks around the sessions and the requests of a server, beside its lifespan: what each of them opens and closes.

A hook is an async context manager. Each session and each request has a task of its own for its hooks: what enters a
manager leaves it, and it may hold task groups (B98). Where no hook is registered nothing is added to the path of a
request.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any

from headrace.errors import RpcError, ToolError, UsageError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.mux import Exchange, FunctionHandler, Handler, RawResult, capture
from headrace.protocol.context import REQUESTS, RequestScope
from headrace.protocol.session import ServerSession
from headrace.server.middleware import Call, Layer, failed_tool

if TYPE_CHECKING:
    from headrace.server.app import Server

__all__ = ("Hooks", "RequestHook", "Session", "SessionHook")

_LAST_TURN = 0.1  # seconds for hooks that are cancelled


class Session:
    """What the hooks of a session are given.

    A session is what the handshake of a client opens over HTTP, or a line connection (stdio, unix, TCP), whatever era
    is spoken on it. Requests of 2026-07-28 over HTTP belong to none.
    """

    __slots__ = ("_gate", "state")

    def __init__(self, gate: ServerSession) -> None:
        self._gate = gate
        self.state: dict[str, Any] = {}
        """What the hooks keep for handlers, which have it as ``Context.session_state``."""

    def __repr__(self) -> str:
        return f"<Session of {(self.client_info or {}).get('name', 'a client')}>"

    @property
    def id(self) -> str | None:
        """The session id over HTTP, None on a line connection. Whoever knows it can use the session: log it nowhere."""
        return self._gate.id

    @property
    def principal(self) -> Any:
        """The authenticated caller whose session it is, or None."""
        return self._gate.principal

    @property
    def client_info(self) -> dict[str, Any] | None:
        """What the client said of itself in its handshake, or None. Self-declared: decide nothing by it."""
        return self._gate.client_info

    @property
    def protocol_version(self) -> str | None:
        """The revision that the handshake agreed on; None where there was none."""
        hello = self._gate.hello
        return None if hello is None else hello.revision.name


SessionHook = Callable[[Session], AbstractAsyncContextManager[Any]]
RequestHook = Callable[[Call], AbstractAsyncContextManager[Any]]


def _manager(hook: Any, what: str) -> Any:
    """``hook`` as a function that makes a context manager: an async function with a yield becomes one."""
    if inspect.isasyncgenfunction(hook):
        return asynccontextmanager(hook)
    if not callable(hook) or inspect.iscoroutinefunction(hook):
        raise UsageError(f"{what} takes an async function with one yield, or what gives an async context manager")
    return hook


class _Scope:
    """One session with its hooks, entered or on the way there."""

    __slots__ = ("entered", "left", "session", "unused", "users")

    def __init__(self, session: Session) -> None:
        loop = asyncio.get_running_loop()
        self.session = session
        self.entered: asyncio.Future[None] = loop.create_future()
        self.left: asyncio.Future[None] = loop.create_future()
        """Done when the session has ended."""
        self.users = 0
        """Requests of the session that are served."""
        self.unused: asyncio.Future[None] | None = None

    @property
    def state(self) -> dict[str, Any]:
        return self.session.state

    def leave(self) -> None:
        if not self.left.done():
            self.left.set_result(None)

    def release(self) -> None:
        self.users -= 1
        if not self.users and self.unused is not None and not self.unused.done():
            self.unused.set_result(None)


class Hooks:
    """The hooks of one server, and what they hold open while it runs."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._sessions: list[Any] = []
        self._requests: list[tuple[Any, Layer]] = []
        self._scopes: dict[_Scope, None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def __bool__(self) -> bool:
        return bool(self._sessions or self._requests)

    def add_session(self, hook: Any) -> None:
        """One more hook of sessions, inside of those before."""
        self._sessions.append(_manager(hook, "on_session"))

    def add_request(self, hook: Any, methods: Iterable[str] | None) -> None:
        """One more hook of requests, inside of those before; ``methods`` as for middleware."""
        made = _manager(hook, "on_request")
        self._requests.append((made, Layer(made, methods)))

    def wrap(self, requests: dict[bytes, Handler]) -> dict[bytes, Handler]:
        """``requests`` with the hooks around them."""
        if not self:
            return requests
        everything = Layer(None, None)  # type: ignore[arg-type]
        wrapped = {}
        for name, handler in requests.items():
            method = name.decode()
            made = tuple(hook for hook, layer in self._requests if layer.covers(method))
            if made or (self._sessions and everything.covers(method)):
                handler.method = method
                around = _Around(self, handler, method, made)
                handler = FunctionHandler(around, urgent=handler.urgent, cancellable=handler.cancellable)
            wrapped[name] = handler
        return wrapped

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Entered while the server runs, inside of its lifespan; in the end all sessions are left."""
        loop = asyncio.get_running_loop()
        try:
            yield
        finally:
            for scope in list(self._scopes):
                scope.leave()
            until = loop.time() + self.server.limits.drain_timeout
            while self._tasks and loop.time() < until:
                await asyncio.wait(self._tasks, timeout=until - loop.time())
            if self._tasks:
                self.server.log.error("hooks of sessions or requests did not end in time")
                left = list(self._tasks)
                for task in left:
                    task.cancel()
                await asyncio.wait(left, timeout=_LAST_TURN)
            self._scopes.clear()
            self._tasks.clear()

    def run(self, coro: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs ``coro``, which raises nothing, in a task that the end of the server waits for."""
        task = asyncio.get_running_loop().create_task(coro)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def failed(self, what: str, exc: BaseException) -> None:
        """A hook failed where no request can be told."""
        self.server.log.error("a hook failed %s", what, exc_info=exc)

    # --- sessions -----------------------------------------------------------------------------------

    async def enter(self, gate: Any) -> _Scope | None:
        """The session of a request, entered; :meth:`_Scope.release` it behind the request. None where there is none.
        Raises what the hooks raise: then the next request tries it again."""
        if not self._sessions or not isinstance(gate, ServerSession):
            return None
        scope: _Scope | None = gate.hooked
        if scope is None:
            if gate.mux is None:
                raise RpcError(INTERNAL_ERROR, "the session has ended")
            scope = gate.hooked = _Scope(Session(gate))
            self._scopes[scope] = None
            self.run(self._session(gate, scope))
        scope.users += 1
        try:
            await asyncio.shield(scope.entered)
        except BaseException:
            scope.release()
            raise
        return scope

    async def _session(self, gate: ServerSession, scope: _Scope) -> None:
        try:
            async with AsyncExitStack() as stack:
                for make in self._sessions:
                    await stack.enter_async_context(make(scope.session))
                scope.entered.set_result(None)
                await scope.left
                if scope.users:
                    # Its requests are cancelled; what they do at their end still has the session.
                    scope.unused = asyncio.get_running_loop().create_future()
                    await asyncio.wait({scope.unused}, timeout=self.server.limits.drain_timeout)
        except BaseException as exc:
            if scope.entered.done():
                self.failed("at the end of a session", exc)
            else:
                gate.hooked = None
                if isinstance(exc, Exception):
                    scope.entered.set_exception(exc)
                    scope.entered.exception()  # whoever asked may have gone
                else:
                    scope.entered.cancel()
        finally:
            self._scopes.pop(scope, None)


class _Around:
    """The function of a handler: hooks around another handler."""

    __slots__ = ("handler", "hooks", "made", "method")

    def __init__(self, hooks: Hooks, handler: Handler, method: str, made: tuple[Any, ...]) -> None:
        self.hooks = hooks
        self.handler = handler
        self.method = method
        self.made = made

    async def __call__(self, exchange: Exchange) -> RawResult:
        scope = None
        try:
            scope = await self.hooks.enter(exchange.mux.gate)
            return RawResult(await (self._in_task(exchange) if self.made else self._serve(exchange)))
        except ToolError as exc:
            if self.method != "tools/call":
                raise
            return failed_tool(exc, exchange)
        finally:
            if scope is not None:
                scope.release()

    async def _serve(self, exchange: Exchange) -> bytes:
        run = capture(exchange, self.handler, exchange.params)
        try:
            answer = await run
        except asyncio.CancelledError:
            if run.task is not None and not run.task.done():
                await asyncio.wait({run.task})  # the handler still has what the hooks have opened
            raise
        if isinstance(answer, bytes):
            return answer
        try:
            raise answer
        finally:
            del answer  # its frames would hold it

    async def _in_task(self, exchange: Exchange) -> bytes:
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        task = self.hooks.run(self._run(exchange, answer))
        try:
            return await answer
        except asyncio.CancelledError:
            task.cancel()
            await asyncio.wait({task})  # until its hooks are left the request counts
            raise

    async def _run(self, exchange: Exchange, answer: asyncio.Future[bytes]) -> None:
        body: bytes | None = None
        REQUESTS[exchange] = request = RequestScope()
        try:
            async with AsyncExitStack() as stack:
                call = Call(exchange, self.method)
                for make in self.made:
                    await stack.enter_async_context(make(call))
                body = await self._serve(exchange)
                call.answered(body)
                if request.kept and not answer.done():
                    # It goes on as a task: the client has its handle, and the hooks stay around the handler.
                    answer.set_result(body)
                for over in request.kept:
                    await over()
            if body is None:
                raise RuntimeError(f"a hook of {self.method} took the failure of the request for its own")
            if not answer.done():
                answer.set_result(body)
        except BaseException as exc:
            if not answer.done():
                if isinstance(exc, Exception):
                    answer.set_exception(exc)
                else:
                    answer.cancel()
            elif isinstance(exc, Exception):
                self.hooks.failed(f"behind {self.method}", exc)
        finally:
            del REQUESTS[exchange]
