"""One task while its handler runs in this process: its questions, its state, and who waits for it.

What the store should say follows from what is here; :meth:`Run.sync` brings it there, one write at a time.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RequestTimeout, RpcError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.mux import Sink
from headrace.protocol.asking import Asker
from headrace.protocol.tasks.states import (
    CANCELLED,
    COMPLETED,
    FAILED,
    INPUT_REQUIRED,
    WORKING,
    Task,
    error_object,
    with_related,
)
from headrace.protocol.tasks.store import TasksFull

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from headrace.mux import Captured, Exchange
    from headrace.server.tasks.engine import TaskEngine

__all__ = ("Question", "Run", "cancelled_fields")

_MESSAGE_EVERY = 0.5  # seconds between two writes of a status message
_LONGEST_MESSAGE = 1_000
_RETRIES = (0.1, 0.5, 2.0, 5.0)  # pauses before something is written again after a fault of the store; the last repeats
_LOST = "the task store cannot be used now"
_encode = msgspec.json.Encoder().encode


class _Outcome(msgspec.Struct, rename="camel"):
    is_error: bool = False
    result_type: str = "complete"
    content: list[dict[str, Any]] = []


_decode_outcome = msgspec.json.Decoder(_Outcome).decode


class Question:
    """One question of the handler that the client has not answered."""

    __slots__ = ("future", "method", "params", "sent")

    def __init__(self, method: str, params: Any, future: asyncio.Future[Any]) -> None:
        self.method = method
        self.params = params
        self.future = future
        self.sent = False
        """On its way to the client as a request (2025-11-25)."""


class _Aside(Sink):
    """Takes the place of a request's sink: the request is answered, its header fields are kept."""

    def __init__(self, headers: Mapping[str, str]) -> None:
        self._headers = dict(headers)

    @property
    def headers(self) -> Mapping[str, str]:
        return self._headers


class Run(Asker):
    """A task that runs here, and the channel for the questions of its handler."""

    def __init__(self, engine: TaskEngine, task: Task, exchange: Exchange) -> None:
        super().__init__()
        self.engine = engine
        self.task = task
        """As the store has it."""
        self.legacy = not exchange.revision.modern
        gate = exchange.mux.gate
        self.session: Any = gate if self.legacy and hasattr(gate, "announce") else None
        """Who is told of a 2025-11-25 task; None without a session (HO-35): then its client polls."""
        self.captured: Captured | None = None
        self.questions: dict[str, Question] = {}
        self.held = 0
        """Bytes of the params that the engine counts for it."""
        self.is_task = False
        """False while a run may still be answered directly."""
        loop = asyncio.get_running_loop()
        self.ended: asyncio.Future[Task | None] = loop.create_future()
        """Done when the final state is in the store."""
        self.asked: asyncio.Future[None] = loop.create_future()
        """Done when there is a question that nobody carries; renewed by who looks."""
        self.promotion: asyncio.Future[None] = loop.create_future()
        """Done when the handler wants to go on as a task."""
        self._promoted: asyncio.Future[bool] = loop.create_future()
        self._asked_before = 0
        self._message: str | None = None
        self._message_due: asyncio.TimerHandle | None = None
        self._lock = asyncio.Lock()
        self._unkept = False

    @property
    def task_id(self) -> str:
        """The id of the task, also before it became one."""
        return self.task.id

    # --- what the handler does ----------------------------------------------------------------------

    def detach(self, captured: Captured) -> None:
        """The request will be answered by a handle: what is sent from now on goes the task's way."""
        self.captured = captured
        captured.detach(
            self._outlet if self.legacy else None,
            sink=_Aside(captured.origin.sink.headers),
            watch=self._progressed,
            progress=self.legacy,
        )

    def _outlet(self, method: bytes, params: bytes | None) -> None:
        """Notifications of a 2025-11-25 task belong to no request (TK-04); the extension has none (TK-27)."""
        if self.session is not None:
            self.session.announce(method, with_related(params, self.task.id))

    def _progressed(self, done: float, total: float | None, message: object) -> None:
        """Progress of the handler becomes the status message, at most a few times a second."""
        text = f"{done:g}" + (f" of {total:g}" if total is not None else "") if message is None else str(message)
        self._message = text[:_LONGEST_MESSAGE]
        if self._message_due is None:
            self._message_due = asyncio.get_running_loop().call_later(_MESSAGE_EVERY, self._say)

    def _say(self) -> None:
        self._message_due = None
        self.engine.background(self.sync())

    async def ask(
        self, exchange: Exchange, method: str, params: dict[str, Any] | None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """A question of the handler: the task waits for input until it is answered (TK-23, TK-04)."""
        # Keys are never used twice in a task's life (TK-24).
        self._asked_before += 1
        key = f"input-{self._asked_before}"
        question = Question(method, params, asyncio.get_running_loop().create_future())
        self.questions[key] = question
        if not self.asked.done():
            self.asked.set_result(None)
        try:
            try:
                async with asyncio.timeout(timeout):
                    if self.is_task:
                        await self.sync_patiently()
                    answer: dict[str, Any] = await question.future
            except TimeoutError as exc:
                if isinstance(exc, RequestTimeout):
                    raise
                raise RequestTimeout(f"{method}: no answer within {timeout:g} s") from None
            return answer
        finally:
            if self.questions.pop(key, None) is not None and self.is_task:
                self.engine.background(self.sync_patiently())

    def answer(self, key: str, value: Any) -> bool:
        """Answers a question with the client's result, or with the exception that it means."""
        question = self.questions.pop(key, None)
        if question is None or question.future.done():
            return False
        if isinstance(value, BaseException):
            question.future.set_exception(value)
        else:
            question.future.set_result(value)
        return True

    async def promote(self) -> bool:
        """The handler wants to go on as a task; see :meth:`headrace.Context.start_task`."""
        if not self.promotion.done():
            self.promotion.set_result(None)
        return await asyncio.shield(self._promoted)

    def accept(self) -> None:
        """It is one from here on."""
        if not self._promoted.done():
            self._promoted.set_result(True)

    def refuse(self, error: RpcError) -> None:
        """There is no room: the handler learns it where it asked."""
        if not self._promoted.done():
            self._promoted.set_exception(error)

    # --- the store ----------------------------------------------------------------------------------

    async def sync(self) -> None:
        """Brings questions and message to the store, if they are not there already. Raises OSError."""
        if self._unkept:
            return
        async with self._lock:
            if self.task.terminal or self.ended.done():
                return
            inputs = {
                key: msgspec.Raw(_encode({"method": q.method, "params": q.params})) for key, q in self.questions.items()
            }
            status = INPUT_REQUIRED if inputs else WORKING
            if (status, inputs.keys(), self._message) == (
                self.task.status,
                self.task.inputs.keys(),
                self.task.message,
            ):
                return
            fields = {"status": status, "inputs": inputs, "message": self._message}
            task = await self.engine.store.change(self.task.id, fields) or await self._again(fields)
            if task is None:
                # Cancelled or deleted by somebody else.
                self.stop()
                return
            self.task = task
        self.engine.publish(self)

    async def sync_patiently(self) -> None:
        """:meth:`sync`, as often as it takes."""
        for pause in self._pauses():
            try:
                return await self.sync()
            except OSError as exc:
                self.engine.complain("a task's state could not be kept", exc)
                await asyncio.sleep(pause)

    def _pauses(self) -> Iterator[float]:
        """Pauses between tries, until the time of the task is over."""
        tries = 0
        while tries == 0 or not self.task.over:
            yield _RETRIES[min(tries, len(_RETRIES) - 1)]
            tries += 1

    async def _again(self, fields: dict[str, Any]) -> Task | None:
        """Keeps the task anew, with these fields, in a store that has forgotten it; None where it has not."""
        store = self.engine.store
        if not store.forgets or self.task.over or await store.get(self.task.id) is not None:
            return None
        task = self.task.changed(**fields)
        try:
            await store.create(task)
        except TasksFull as exc:
            self.engine.complain("a task could not be kept anew", exc)
            return None
        return task

    async def check(self) -> None:
        """The store does not take this for a task that runs: it is kept anew, or has ended. Raises OSError."""
        if self._unkept or self.ended.done():
            return
        async with self._lock:
            if self.task.terminal or await self._again({}) is not None:
                return
            found = await self.engine.store.get(self.task.id)
        if found is None or found.terminal:
            await self.finish(cancelled_fields())  # which finds what it has ended with

    async def finish(self, fields: dict[str, Any], *, once: bool = False) -> Task | None:
        """Writes the final state, unless there is one; the handler is stopped if it still runs.

        It is tried until the store has it. With ``once`` a fault of the store is raised (OSError), and nothing has
        happened then.
        """
        if once and self._unkept:
            raise OSError("the end of the task is not kept yet")
        try:
            async with self._lock:
                task = await self._write({"inputs": {}, **fields}, once)
        except BaseException as exc:
            if once and isinstance(exc, OSError):
                raise
            if not self.ended.done():
                self.ended.set_result(None)  # who waits learns nothing more here
            self._over()
            raise
        self._over()
        try:
            if task is None:
                # Somebody was faster: a cancel, or the end of its time.
                task = await self.engine.store.get(self.task.id)
            if task is not None:
                self.task = task
                self.engine.publish(self)
        finally:
            if not self.ended.done():
                self.ended.set_result(task)
        return task

    async def over(self) -> None:
        """Returns when the task has ended, and its handler."""
        await asyncio.wait({self.ended})
        task = None if self.captured is None else self.captured.task
        if task is not None and not task.done():
            await asyncio.wait({task})

    def _over(self) -> None:
        self.stop()
        if self._message_due is not None:
            self._message_due.cancel()
            self._message_due = None
        self.engine.forget(self)

    async def _write(self, fields: dict[str, Any], once: bool) -> Task | None:
        size = 0
        try:
            for pause in self._pauses():
                try:
                    return await self.engine.store.change(self.task.id, fields) or await self._again(fields)
                except TasksFull as exc:
                    self.engine.server.runtime.refused(exc.limit)
                    failed = {"inputs": {}, **_failure(RpcError(INTERNAL_ERROR, str(exc)))}
                    # There may be no room for the error either; it needs none without its text.
                    fields = {**failed, "payload": None} if fields["status"] == FAILED else failed
                except OSError as exc:
                    if once:
                        raise
                    self.engine.complain("a task's state could not be kept", exc)
                    if not self._unkept:
                        self._unkept = True
                        size = len(fields.get("payload") or b"")
                        self.engine.unkept += size
                        if self.engine.unkept > self.engine.server.limits.max_task_bytes:
                            self.engine.unkept -= size
                            size = 0
                            fields = {"inputs": {}, **_failure(RpcError(INTERNAL_ERROR, _LOST))}
                    await asyncio.sleep(pause)
        finally:
            self._unkept = False
            self.engine.unkept -= size
        return None

    def stop(self) -> None:
        """Cancels the handler; whatever it still gives is dropped."""
        if self.captured is not None:
            self.captured.cancel()
        self._promoted.cancel()
        for question in self.questions.values():
            question.future.cancel()
        self.questions.clear()

    def outcome(self, answer: Any, most: int) -> dict[str, Any]:
        """The final fields that the handler's captured answer means; ``most`` bytes of result are kept."""
        if not isinstance(answer, bytes):
            return _failure(answer)
        if len(answer) > most:
            self.engine.server.runtime.refused("max_task_result_bytes")
            return _failure(RpcError(INTERNAL_ERROR, "the result is too large (limit max_task_result_bytes)"))
        try:
            read = _decode_outcome(answer)
        except msgspec.MsgspecError:
            read = _Outcome()
        if read.result_type == "input_required":
            return _failure(RpcError(INTERNAL_ERROR, "a task asks while it runs; it cannot end by asking for input"))
        fields: dict[str, Any] = {"status": COMPLETED, "payload": answer, "message": None}
        if read.is_error:
            texts = [block["text"] for block in read.content if isinstance(block.get("text"), str)]
            fields["tool_failed"] = True
            fields["message"] = texts[0][:_LONGEST_MESSAGE] if texts else "the tool failed"
        return fields


def _failure(error: RpcError) -> dict[str, Any]:
    return {"status": FAILED, "payload": error_object(error), "message": error.message[:_LONGEST_MESSAGE]}


def cancelled_fields() -> dict[str, Any]:
    """What a cancel writes."""
    return {"status": CANCELLED, "message": "cancelled by request", "inputs": {}}
