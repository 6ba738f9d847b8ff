"""Tasks as a server offers them: the extension of 2026-07-28 and the experimental tasks of 2025-11-25.

Which calls become tasks: in 2025-11-25 those that ask for it, in 2026-07-28 those of tools registered for
it, when the client declared the extension on the request itself (TK-20).
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec

from headrace.errors import ConnectionClosed, RpcError, UsageError
from headrace.jsonrpc import (
    CLIENT_CAPABILITIES,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    METHOD_NOT_FOUND,
    MISSING_CLIENT_CAPABILITY,
    R4,
    R5,
    SERVER_INFO,
)
from headrace.mux import Diverted, Exchange, FunctionHandler, Handler, RawResult
from headrace.protocol.asking import ask
from headrace.protocol.tasks.states import (
    CANCELLED,
    COMPLETED,
    EXTENSION,
    RELATED_TASK,
    Task,
    created_result,
    detail,
    legacy_task,
    with_related,
)
from headrace.protocol.tasks.store import MemoryTaskStore, TaskStore
from headrace.server.tasks.engine import TaskEngine
from headrace.server.tasks.remote import carry

if TYPE_CHECKING:
    from headrace.server.tasks.run import Question, Run

__all__ = ("TaskPolicy", "TasksFeature")

_encode = msgspec.json.Encoder().encode


class TaskPolicy(NamedTuple):
    """How calls of one tool become tasks; see :meth:`headrace.Server.tool`."""

    support: Literal["optional", "required"]
    after: float | None
    ttl: float | None
    by_handler: bool = False


class _TaskParams(msgspec.Struct, rename="camel"):
    task_id: str


class _UpdateParams(msgspec.Struct, rename="camel"):
    task_id: str
    input_responses: dict[str, dict[str, Any]]


class _ListParams(msgspec.Struct):
    cursor: str | None = None


class _Wish(msgspec.Struct):
    ttl: int | float | None = None


class _CallParams(msgspec.Struct):
    task: _Wish | msgspec.UnsetType = msgspec.UNSET


class _Capabilities(msgspec.Struct):
    extensions: dict[str, dict[str, Any]] = {}


class _Meta(msgspec.Struct):
    capabilities: _Capabilities | None = msgspec.field(default=None, name=CLIENT_CAPABILITIES)


_decode_meta = msgspec.json.Decoder(_Meta).decode


def _read(exchange: Exchange, kind: type[Any], method: str) -> Any:
    try:
        return msgspec.json.decode(exchange.params or b"{}", type=kind)
    except msgspec.MsgspecError as exc:
        raise RpcError(INVALID_PARAMS, f"{method}: {exc}") from None


def _declared(exchange: Exchange) -> bool:
    """Whether this very request declares the extension (TK-20, TK-30)."""
    if exchange.meta is None or EXTENSION.encode() not in exchange.meta:
        return False
    try:
        found = _decode_meta(exchange.meta).capabilities
    except msgspec.MsgspecError:
        return False
    return found is not None and EXTENSION in found.extensions


def _undeclared() -> RpcError:
    return RpcError(
        MISSING_CLIENT_CAPABILITY,
        f"missing client capability: the extension {EXTENSION}",
        {"requiredCapabilities": {"extensions": {EXTENSION: {}}}},
        http_status=400,
    )


class TasksFeature:
    """The feature ``tasks`` of a server. ``listing`` offers ``tasks/list`` in 2025-11-25 (TK-05)."""

    def __init__(
        self, server: Any, store: TaskStore | None, *, ttl: float | None, poll_interval: float, listing: bool
    ) -> None:
        if ttl is not None and not ttl > 0:
            raise UsageError("tasks: ttl must be a positive number of seconds, or None")
        if not poll_interval > 0:
            raise UsageError("tasks: poll_interval must be a positive number of seconds")
        self.server = server
        self.listing = listing
        self.refused: str | None = None
        """Why there are no tasks, see :meth:`refuse`."""
        self._given = store is not None
        self.engine = TaskEngine(server, MemoryTaskStore() if store is None else store, ttl, poll_interval)
        server.hub.task_filter = self._followed
        server.hub.task_reader = self.engine.present
        server.hub.task_released = self.engine.following.released

    def running(self) -> AbstractAsyncContextManager[None]:
        """Entered while the server runs, behind its backplane."""
        if not self._given:
            backplane = self.server.backplane
            store = None if backplane is None else backplane.task_store()
            if store is not None or self.engine.store.shared:
                self.engine.store = store or MemoryTaskStore()
        return self.engine.running()

    def refuse(self, reason: str) -> bool:
        """Offers no tasks, before the server runs: other processes would not know of them. ``reason`` is what clients
        are told. False, and nothing happens, where the store is one that processes share."""
        if self.engine.store.shared:
            return False
        self.refused = reason
        return True

    # --- what is offered ----------------------------------------------------------------------------

    def capability(self, revision: str) -> dict[str, Any]:
        """The extension, or the capability of the experimental tasks; never both (TK-30, TK-01)."""
        if self.refused is not None:
            return {}
        if revision == R5:
            return {"extensions": {EXTENSION: {}}}
        if revision != R4:
            return {}
        offered: dict[str, Any] = {"cancel": {}, "requests": {"tools": {"call": {}}}}
        if self.listing:
            offered["list"] = {}
        return {"tasks": offered}

    def methods(self, revision: str) -> dict[bytes, Handler]:
        """The methods of the revision (TK-03, TK-23 to TK-25, TK-30)."""
        functions: dict[bytes, Callable[[Exchange], Any]] = {}
        if revision == R5:
            functions = {b"tasks/get": self._get, b"tasks/update": self._update, b"tasks/cancel": self._cancel}
        elif revision == R4:
            functions = {
                b"tasks/get": self._legacy_get,
                b"tasks/result": self._legacy_result,
                b"tasks/cancel": self._legacy_cancel,
            }
            if self.listing:
                functions[b"tasks/list"] = self._legacy_list
        if self.refused is not None:
            functions = dict.fromkeys(functions, self._refuse)
        return {method: FunctionHandler(function) for method, function in functions.items()}

    def _refuse(self, exchange: Exchange) -> Any:
        assert self.refused is not None
        raise RpcError(METHOD_NOT_FOUND, self.refused)

    def divert(self, name: str, handler: Handler, policy: TaskPolicy) -> Handler:
        """The handler of a tool whose calls may become tasks."""

        def choose(exchange: Exchange) -> Coroutine[Any, Any, RawResult] | None:
            if self.refused is not None:
                if policy.support == "required":
                    raise RpcError(METHOD_NOT_FOUND, f"tool {name!r} runs as a task only, and {self.refused}")
                return None
            if exchange.revision.modern:
                if _declared(exchange):
                    return self._created(exchange, name, handler, policy)
                if policy.support == "required":
                    raise _undeclared()  # TK-26
                return None
            wish = self._wish(exchange)
            if wish is not None:
                return self._legacy_created(exchange, name, handler, policy, wish)
            if policy.support == "required":
                raise RpcError(METHOD_NOT_FOUND, f"tool {name!r} runs as a task only")  # TK-01
            return None

        return Diverted(handler, choose)

    def refuse_wish(self, exchange: Exchange, name: str) -> RpcError | None:
        """The answer to a 2025-11-25 call that asks for a task of a tool that runs as none (TK-01)."""
        if self.refused is not None or self._wish(exchange) is None:
            return None
        return RpcError(METHOD_NOT_FOUND, f"tool {name!r} does not run as a task")

    def _wish(self, exchange: Exchange) -> _Wish | None:
        if exchange.revision.name != R4 or not exchange.tasked:
            return None  # without the capability ``task`` means nothing (TK-02)
        wish = _read(exchange, _CallParams, "tools/call").task
        if wish is msgspec.UNSET:
            return None
        if wish.ttl is not None and not 0 < wish.ttl < 2**53:
            raise RpcError(INVALID_PARAMS, "task.ttl must be a positive number of milliseconds")
        return wish  # type: ignore[no-any-return]

    # --- the extension ------------------------------------------------------------------------------

    async def _created(self, exchange: Exchange, name: str, handler: Handler, policy: TaskPolicy) -> RawResult:
        run = self.engine.new_run(exchange, name, None if policy.ttl is None else policy.ttl * 1000)
        if policy.after is None and not policy.by_handler:
            task = await self.engine.begin(exchange, handler, run)
        else:
            if policy.by_handler:
                answer = await self.engine.begin_by_handler(exchange, handler, run)
            else:
                answer = await self.engine.begin_after(exchange, handler, run, policy.after or 0)
            if isinstance(answer, RpcError):
                raise answer
            if isinstance(answer, bytes):
                return RawResult(answer)
            task = answer
        return RawResult(created_result(task)[:-1] + b',"resultType":"task",' + self._own_meta + b"}")

    @property
    def _own_meta(self) -> bytes:
        return b'"_meta":' + _encode({SERVER_INFO: self.server.info})

    async def _get(self, exchange: Exchange) -> bytes:
        return detail(await self._task(exchange, "tasks/get"))

    async def _update(self, exchange: Exchange) -> bytes:
        params = self._params(exchange, _UpdateParams, "tasks/update")
        task = await self.engine.find(exchange, params.task_id)
        await self.engine.update(task, params.input_responses)
        return b"{}"

    async def _cancel(self, exchange: Exchange) -> bytes:
        await self.engine.cancel(await self._task(exchange, "tasks/cancel"))
        return b"{}"

    def _params(self, exchange: Exchange, kind: type[Any], method: str) -> Any:
        if not _declared(exchange):
            raise _undeclared()  # TK-26
        return _read(exchange, kind, method)

    async def _task(self, exchange: Exchange, method: str) -> Task:
        params = self._params(exchange, _TaskParams, method)
        return await self.engine.find(exchange, params.task_id)

    def _followed(self, exchange: Exchange, task_ids: list[str]) -> list[str] | Awaitable[list[str]]:
        """Filter of the hub: ``taskIds`` of a listen (TK-26, TK-27, TK-31)."""
        if not _declared(exchange):
            raise _undeclared()
        return self.engine.followed(exchange, task_ids)

    # --- 2025-11-25 ---------------------------------------------------------------------------------

    async def _legacy_created(
        self, exchange: Exchange, name: str, handler: Handler, policy: TaskPolicy, wish: _Wish
    ) -> RawResult:
        ttl = wish.ttl if wish.ttl is not None else None if policy.ttl is None else policy.ttl * 1000
        run = self.engine.new_run(exchange, name, ttl)
        task = await self.engine.begin(exchange, handler, run)
        return RawResult(_encode({"task": legacy_task(task), "_meta": {RELATED_TASK: {"taskId": task.id}}}))

    async def _legacy_task(self, exchange: Exchange, method: str) -> Task:
        return await self.engine.find(exchange, _read(exchange, _TaskParams, method).task_id)

    async def _legacy_get(self, exchange: Exchange) -> dict[str, Any]:
        return legacy_task(await self._legacy_task(exchange, "tasks/get"))

    async def _legacy_cancel(self, exchange: Exchange) -> dict[str, Any]:
        task = await self._legacy_task(exchange, "tasks/cancel")
        ended = None if task.terminal else await self.engine.cancel(task)
        if ended is None:
            raise RpcError(INVALID_PARAMS, "the task has ended already and cannot be cancelled")  # TK-03
        return legacy_task(ended)

    async def _legacy_list(self, exchange: Exchange) -> dict[str, Any]:
        cursor = _read(exchange, _ListParams, "tasks/list").cursor
        tasks, position = await self.engine.page(exchange, 0 if cursor is None else _position(cursor))
        body: dict[str, Any] = {"tasks": [legacy_task(task) for task in tasks]}
        if position is not None:
            body["nextCursor"] = _cursor(position)
        return body

    async def _legacy_result(self, exchange: Exchange) -> RawResult:
        """Blocks until the task has ended; meanwhile its questions go out with this request (TK-03, TK-04)."""
        task = await self._legacy_task(exchange, "tasks/result")
        run = self.engine.runs.get(task.id)
        if run is not None:
            await self._carry(exchange, run)
            ended = run.ended.result()
        else:
            ended = task if task.terminal else await carry(exchange, self.engine, task)
        if ended is None:
            raise RpcError(INVALID_PARAMS, "unknown task: its time is over")
        if ended.status == COMPLETED:
            return RawResult(with_related(ended.payload, ended.id))
        if ended.status == CANCELLED:
            raise RpcError(INTERNAL_ERROR, "the task was cancelled", {"taskId": ended.id})
        error = msgspec.json.decode(ended.payload or b"{}")
        raise RpcError(error.get("code", INTERNAL_ERROR), error.get("message", "internal error"), error.get("data"))

    async def _carry(self, exchange: Exchange, run: Run) -> None:
        """Sends the questions of ``run`` to the client until it has ended."""
        carried: set[asyncio.Task[None]] = set()
        try:
            while not run.ended.done():
                if run.asked.done():
                    run.asked = asyncio.get_running_loop().create_future()
                for key, question in list(run.questions.items()):
                    if not question.sent:
                        question.sent = True
                        job = asyncio.get_running_loop().create_task(self._put(exchange, run, key, question))
                        carried.add(job)
                        job.add_done_callback(carried.discard)
                news: set[asyncio.Future[Any]] = {run.ended, run.asked}
                await asyncio.wait(news, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for job in carried:
                job.cancel()

    async def _put(self, exchange: Exchange, run: Run, key: str, question: Question) -> None:
        params = msgspec.json.decode(with_related(_encode(question.params or {}), run.task_id))
        try:
            # No time limit here: the handler's question has its own.
            answer: Any = await ask(exchange, question.method, params, timeout=0)
        except asyncio.CancelledError:
            # This way is gone: another tasks/result carries it.
            question.sent = False
            if key in run.questions and not run.asked.done():
                run.asked.set_result(None)
            raise
        except ConnectionClosed:
            question.sent = False
            return
        except Exception as exc:
            answer = exc
        if run.answer(key, answer):
            await run.sync()


def _position(cursor: str) -> int:
    try:
        raw = base64.urlsafe_b64decode(cursor)
    except ValueError:
        raw = b""
    if raw[:1] != b"t" or not raw[1:].isdigit() or len(raw) > 20 or _cursor(int(raw[1:])) != cursor:
        raise RpcError(INVALID_PARAMS, "unknown cursor; start again without one")
    return int(raw[1:])


def _cursor(position: int) -> str:
    return base64.urlsafe_b64encode(b"t%d" % position).decode()
