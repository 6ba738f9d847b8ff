"""What all calls of a client have in common: one request from its parts to its value.

:meth:`Core._request` is the one seam: every feature goes through it (only the plain tool call of a line
connection has a shorter way). Below it, :meth:`Core._send` is one request on the wire, once more after a cure;
between them are the rounds of client input.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from typing import TYPE_CHECKING, Any

from headrace.client._calls import ToolCaller
from headrace.client.arguments import join_members, meta_members, seconds
from headrace.client.callbacks import Relay
from headrace.client.negotiation import Agreement, Offer
from headrace.client.request import Request
from headrace.client.rounds import InputAsked, answer_all, continuation
from headrace.client.tasks import TaskHandle, TaskMade, read_legacy_made
from headrace.errors import (
    ConnectionClosed,
    HeadraceError,
    HttpStatusError,
    InputRefused,
    InputRequired,
    NotOffered,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from headrace.jsonrpc import HEADER_MISMATCH, METHOD_NOT_FOUND, R4

if TYPE_CHECKING:
    from headrace.client.cache import ResultCache, SharedCache
    from headrace.client.channels import Channel
    from headrace.client.heartbeat import Heartbeat
    from headrace.client.inputs import Inputs
    from headrace.client.middleware import ClientMiddleware
    from headrace.limits import Limits
    from headrace.mux import PendingCall
    from headrace.types import Implementation

__all__ = ("MAX_TOTAL", "Core", "Options", "ProgressCallback")

ProgressCallback = Callable[[float, float | None, str | None], Any]

MAX_TOTAL = 3_600.0
"""Seconds a call may take in all when progress restarts its clock and nothing else was said (MX-13)."""

_FIRST_PAUSE = 0.1  # seconds before a request is repeated that needs no answers, doubled each time
_LAST_PAUSE = 5.0
_LATE = 0.5  # seconds in which the answer to a call that was given up may still come


class Options:
    """What a client was opened with. Times are seconds."""

    def __init__(
        self,
        *,
        offer: Offer,
        limits: Limits,
        inputs: Inputs,
        timeout: float,
        extend: bool = False,
        latest: float | None = None,
        cache: bool | SharedCache = True,
        validate: bool = True,
        layers: tuple[ClientMiddleware, ...] = (),
        tasks: bool = False,
        retries: int = 0,
    ) -> None:
        self.layers = layers
        self.retries = retries
        self.tasks = tasks
        self.offer = offer
        self.limits = limits
        self.inputs = inputs
        self.timeout = timeout
        self.extend = extend
        self.latest = latest
        self.cache = cache
        self.validate = validate


class Core(ToolCaller, ABC):
    """The connection of a client and its requests. Use :class:`headrace.Client`."""

    def __init__(self, channel: Channel, agreement: Agreement, options: Options) -> None:
        self._channel = channel
        self._mux = channel.mux
        self._sink = channel.sink
        self._http = channel.http
        self._offer = options.offer
        self._limits = options.limits
        self._inputs = options.inputs
        self._timeout = options.timeout
        self._extend = options.extend
        self._latest = options.latest
        self._log = channel.session.log
        self._modern = agreement.modern
        self._agreement = agreement
        self._meta = b""
        self._tail = b""
        self._headers = None
        self._closing: asyncio.Task[None] | None = None
        self._heartbeat: Heartbeat | None = None
        self._guard: AsyncGenerator[None, None] | None = None
        self._recovery = None
        if self._http is not None and not self._modern:
            from headrace.client.recovery import Recovery

            self._recovery = Recovery(channel, agreement, self._offer, self._limits)
        self._cache: ResultCache | None = None
        if self._modern and options.cache is not False:
            from headrace.client.cache import ResultCache, Store

            shared = None if options.cache is True or self._http is None else options.cache.store
            self._cache = ResultCache(Store(self._limits), shared, self._origin() if shared is not None else "")
            channel.session.watch.stale.append(self._cache.changed)
        self._layers = options.layers
        if options.retries:
            from headrace.client.retries import Retries

            self._layers += (Retries(self, options.retries, options.limits),)
        self._tasks = options.tasks
        self._task_tools: set[str] = set()
        """Whether calls may become tasks."""
        self._jobs: set[asyncio.Task[Any]] = set()
        self._direct = (
            not options.extend
            and options.latest is None
            and not self._layers
            and not options.tasks
        )
        """Whether a plain tool call takes the short way."""
        self._set_meta(self._offer.meta if self._modern else b"")

    def __repr__(self) -> str:
        info = self.server_info
        who = f"{info.name} {info.version}" if info is not None else "a server"
        return f"<Client of {who}, {self.protocol_version}{', closed' if self.closed else ''}>"

    # --- what is known of the server -----------------------------------------------------------------

    @property
    def server_info(self) -> Implementation | None:
        """What the server says of itself, or None. Self-declared: decide nothing by it (JR-43)."""
        return self._agreement.server_info

    @property
    def protocol_version(self) -> str:
        """The revision that was agreed on, such as ``"2026-07-28"``."""
        return self._agreement.revision

    @property
    def capabilities(self) -> dict[str, Any]:
        """The server's capabilities object."""
        return self._agreement.capabilities

    @property
    def instructions(self) -> str | None:
        """How a model should use the server, or None."""
        return self._agreement.instructions

    @property
    def closed(self) -> bool:
        """True once the connection is gone, whoever ended it."""
        return self._mux.closed or self._closing is not None

    def _needs(self, capability: str, member: str | None = None) -> None:
        """Raises :class:`NotOffered` when the server does not declare a capability (VN-07)."""
        declared = self._agreement.capabilities.get(capability)
        if declared is None:
            raise NotOffered(f"the server does not offer {capability}")
        if member is not None and not (isinstance(declared, dict) and declared.get(member)):
            raise NotOffered(f"the server does not offer {capability}.{member}")

    # --- the end -------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Ends the connection; calls that wait raise :class:`ConnectionClosed` at once. Safe to call again,
        from any task, and in any order among clients (B21)."""
        if self._jobs and not self.closed:
            # Tasks that were given up: their cancels leave first.
            await asyncio.wait(self._jobs, timeout=1.0)
        if self._heartbeat is not None:
            self._heartbeat.stop()
        if self._closing is None:
            self._channel.session.stop()
            self._channel.stop(ConnectionClosed("the client was closed"))
            # A task of its own: it goes on when whoever closes is cancelled meanwhile.
            self._closing = asyncio.get_running_loop().create_task(self._channel.close())
        await asyncio.shield(self._closing)
        guard, self._guard = self._guard, None
        if guard is not None:
            await guard.aclose()

    def _give_up(self, reason: ConnectionClosed) -> None:
        """The server is dead: calls that wait fail with ``reason``; :meth:`close` does the rest."""
        if not self.closed:
            self._channel.stop(reason)

    # --- how -----------------------------------------------------------------------------------------

    def _set_meta(self, meta: bytes) -> None:
        """Members of ``_meta`` of every request, and what closes the params of a plain call."""
        self._meta = meta
        self._tail = b',"_meta":{' + meta + b"}}" if meta else b"}"

    def _origin(self) -> str:
        """What names the server in a shared cache."""
        return f"{self._http.endpoint} {self.protocol_version}"

    async def _fetch(
        self,
        method: str,
        body: bytes,
        decode: Callable[[bytes], Any],
        timeout: float | None,
        *,
        refresh: bool = False,
        uri: str | None = None,
        asks: bool = False,
        **options: Any,
    ) -> Any:
        """A request whose result may be used again (SF-52); ``refresh`` asks the server whatever is kept.
        ``asks``: it may ask for client input, and what came after that is never kept (MX-37)."""
        cache = self._cache
        if cache is None:
            return await self._request(method, body, decode, timeout, **options)
        key = body.decode()
        raw = None if refresh else cache.get(method, key)
        if raw is not None:
            return decode(raw)
        asked = cache.now()
        first = True

        def read(raw: bytes) -> Any:
            nonlocal first
            result = decode(raw)
            if first and type(result) is not InputAsked:
                cache.put(method, key, raw, result.ttl_ms, result.cache_scope, asked, uri)
            first = first and not asks
            return result

        return await self._request(method, body, read, timeout, **options)

    async def _request(
        self,
        method: str,
        body: bytes,
        decode: Callable[[bytes], Any] | None,
        timeout: float | None,
        *,
        name: str | None = None,
        on_progress: ProgressCallback | None = None,
        extend: bool | None = None,
        latest: float | None = None,
        meta: Mapping[str, Any] | None = None,
        arguments: bytes = b"{}",
        asked: InputAsked | TaskMade | None = None,
        follow: bool = True,
        again: bool = True,
    ) -> Any:
        """One request and its value: ``body`` are the members of its params, ``decode`` reads the result.

        A result that asks for client input is answered here, in as many rounds as it takes, and one that is
        a task is followed to its end, unless ``follow`` is false: then its handle is the value. ``asked`` is
        such a result that has come already; without ``again`` a failure that could be cured was cured before.
        Middleware is around all of it.
        """
        extend = self._extend if extend is None else extend
        if latest is None:
            latest = self._latest
        relay = Relay(on_progress, self._channel.session.callback_failed) if on_progress is not None else None
        request = Request(
            method,
            body,
            decode,
            name=name,
            arguments=arguments,
            limit=seconds(timeout, self._timeout),
            extend=extend,
            latest=seconds(latest, MAX_TOTAL if extend else 0),
            meta=meta_members(meta),
            relay=relay,
            again=again,
        )
        if not self._layers:
            return await self._complete(request, asked, follow)

        async def send(request: Request) -> Any:
            return await self._complete(request, None, follow)

        from headrace.client.middleware import run_layers

        return await run_layers(self._layers, request, send)

    async def _complete(self, request: Request, asked: InputAsked | TaskMade | None, follow: bool) -> Any:
        """Sends a request, answers what the server asks, follows what becomes a task."""
        if asked is None and request.name in self._task_tools and request.method == "tools/call":
            self._as_task(request)
        try:
            result = asked if asked is not None else await self._send(request)
        except RpcError as exc:
            if exc.code != METHOD_NOT_FOUND or not self._runs_as_task(request):
                raise
            # 2025-11-25: the tool runs as a task only (TK-01).
            self._as_task(request)
            result = await self._send(request)
        if type(result) is InputAsked:
            result = await self._rounds(request, result)
        if type(result) is TaskMade:
            handle = TaskHandle(self, result.state.task_id, result.state)
            return await self._follow(request, handle, result.call) if follow else handle
        return result

    def _as_task(self, request: Request) -> None:
        if request.decode is not read_legacy_made:
            request.body += b',"task":{}'
            request.decode = read_legacy_made

    def _runs_as_task(self, request: Request) -> bool:
        """Whether a call that 2025-11-25 refused may be repeated as a task."""
        return self._tasks and request.method == "tools/call" and not self._modern and self._offers_legacy_tasks

    @property
    def _offers_legacy_tasks(self) -> bool:
        found: Any = self._agreement.capabilities
        for member in ("tasks", "requests", "tools"):
            found = found.get(member)
            if not isinstance(found, dict):
                return False
        return "call" in found and self._agreement.revision == R4

    async def _follow(self, request: Request, handle: TaskHandle, call: PendingCall | None) -> Any:
        """The result of a task; it is cancelled when whoever waits for it leaves (B75).

        ``call`` is the call that asked for progress: in 2025-11-25 that goes on under its token (MX-04).
        """
        if call is not None and not self._modern:
            call.follow()
        try:
            async with asyncio.timeout(request.latest or None):
                return await handle.result()
        except TimeoutError as exc:
            handle.give_up()
            if isinstance(exc, HeadraceError):
                raise
            raise RequestTimeout(f"{request.method}: the task took longer than {request.latest:g} s") from None
        except (asyncio.CancelledError, InputRequired, InputRefused):
            handle.give_up()
            raise
        finally:
            if call is not None:
                call.unfollow()

    async def _rounds(self, request: Request, asked: Any) -> Any:
        """Answers what the server asks until the result is complete (MX-32..MX-34)."""
        body = request.body
        limits = self._limits
        total = min(request.latest or limits.max_input_time, limits.max_input_time)
        rounds = 0
        pause = _FIRST_PAUSE
        try:
            async with asyncio.timeout(total):
                while type(asked) is InputAsked:
                    answers = b""
                    if asked.questions:
                        rounds += 1
                        if rounds > limits.max_input_rounds:
                            raise RemoteProtocolError(
                                f"{request.method}: the server still asks for client input after "
                                f"{limits.max_input_rounds} rounds"
                            )
                        answers = await answer_all(self._inputs, request.method, asked)
                        pause = _FIRST_PAUSE
                    else:
                        await asyncio.sleep(pause)
                        pause = min(pause * 2, _LAST_PAUSE)
                    # Only the latest answers and state, after the original members.
                    extra = continuation(answers, asked.state)
                    request.body = b",".join([part for part in (body, extra) if part])
                    asked = await self._send(request)
        except TimeoutError as exc:
            if isinstance(exc, HeadraceError):
                raise
            raise RequestTimeout(f"{request.method}: not complete within {total:g} s of client input") from None
        return asked

    async def _send(self, request: Request) -> Any:
        """Sends one request; over HTTP once more when the session was lost (B48) or headers were stale."""
        relay = request.relay
        again, request.again = request.again, True
        while True:
            if self._recovery is not None and self._recovery.running:
                await self._recovery.settled()
            token = b""
            if relay is not None or request.extend:
                token = b'"progressToken":%d' % self._mux.next_call_id
            meta_body = b",".join([part for part in (token, request.meta, self._meta) if part])
            params = join_members(request.body, b'"_meta":{' + meta_body + b"}" if meta_body else b"")
            epoch = self._recovery.epoch if self._recovery is not None else 0
            extra = self._headers.lines(request.name, request.arguments) if self._headers is not None else None
            call = self._mux.call(
                request.method,
                params if len(params) > 2 else None,
                self._sink,
                decode=request.decode,
                timeout=request.limit,
                on_progress=relay,
                extend=request.extend,
                latest=request.latest,
                name=request.name,
                extra=extra,
            )
            try:
                if self._tasks and self._http is None:
                    result = await asyncio.shield(call.future)
                else:
                    result = await call.future
                if relay is not None:
                    await relay.finish()
                    if type(result) is TaskMade:
                        result.call = call
                return result
            except asyncio.CancelledError:
                if self._tasks and not self._mux.closed:
                    self._leave(call)
                else:
                    call.cancel()
                if relay is not None:
                    relay.stop()
                raise
            except HeadraceError as exc:
                if relay is not None:
                    # The peer's own error comes behind its progress; a call that failed here fails now.
                    if isinstance(exc, RpcError):
                        await relay.finish()
                    else:
                        relay.stop()
                if self._http is None or not again or self._mux.closed:
                    raise
                again = False
                if not await self._cured(exc, call, epoch):
                    raise

    def _leave(self, call: PendingCall) -> None:
        """Gives up a call whose answer may be a task: one that has come just now is cancelled. On a line
        connection it may also be on its way: the server is told at once, and the task is cancelled when it
        comes."""
        future = call.future

        def cancel_task() -> None:
            if not future.cancelled() and future.exception() is None and type(made := future.result()) is TaskMade:
                TaskHandle(self, made.state.task_id, made.state).give_up()

        if future.done():
            cancel_task()
        if future.done() or self._http is not None:
            call.cancel()
            return
        self._mux.notify(b"notifications/cancelled", b'{"requestId":%d}' % call.id, self._sink)

        async def late() -> None:
            await asyncio.wait([future], timeout=_LATE)
            if future.done():
                cancel_task()
            else:
                call.cancel()

        job = self._mux.runtime.spawn(late())
        self._jobs.add(job)
        job.add_done_callback(self._jobs.discard)

    async def _cured(self, exc: HeadraceError, call: PendingCall, epoch: int) -> bool:
        """Whether what made a request over HTTP fail was put right, so that it may be sent once more."""
        if self._modern:
            if call.method != "tools/call" or getattr(exc, "code", None) != HEADER_MISMATCH:
                return False
            await self._refresh_tools()  # HN-24: the schema has changed, or was never read
            return True
        status = exc.status if isinstance(exc, HttpStatusError) else getattr(exc, "http_status", None)
        if status != 404 or call.attached is None or call.attached.session_id is None:
            return False
        assert self._recovery is not None
        await self._recovery.renew(epoch)  # one new session for all callers that lost the old one (B48)
        self._agreement = self._recovery.agreement
        return True

    @abstractmethod
    async def _refresh_tools(self) -> None:
        """Reads the list of tools anew, past what is kept of it."""
