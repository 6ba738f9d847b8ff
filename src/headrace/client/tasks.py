"""Tasks as a client sees them: the extension of 2026-07-28 and the experimental tasks of 2025-11-25.

A call that the server turns into a task is followed to its end by itself (TK-29); a :class:`TaskHandle` is
the same in the caller's hands. In 2026-07-28 a task is polled and its questions are answered through
``tasks/update``; in 2025-11-25 ``tasks/result`` waits for it, and questions come as requests of the server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.arguments import encode
from headrace.client.request import Request
from headrace.client.results import CallResult, check_complete, decode_any, decoder, read_relaxed
from headrace.client.rounds import InputAsked, answer_all, given_answers, read_questions
from headrace.errors import (
    ConnectionClosed,
    HeadraceError,
    HttpStatusError,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    TaskCancelled,
)
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.types import Message

if TYPE_CHECKING:
    from headrace.client.core import Core
    from headrace.mux import PendingCall

__all__ = ("TASKS_EXTENSION", "TaskHandle", "TaskMade", "TaskState", "read_legacy_made", "read_made")

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
TERMINAL = frozenset(("completed", "failed", "cancelled"))
STATUSES = TERMINAL | {"working", "input_required"}

_POLL = 1.0  # seconds between two polls where the server says nothing
_SHORTEST_POLL = 0.02
_LONGEST_POLL = 60.0
_TRIES = 5  # polls over HTTP that may fail in a row
_LONGEST_PAUSE = 5.0  # seconds between them, where the server does not ask for more
_PASSING = frozenset((429, 502, 503, 504))
_CANCEL_TIMEOUT = 10.0
_FREE_ROUNDS = 3  # rounds of questions in a row that are answered without a pause before the next look


class TaskState(Message, kw_only=True, rename="camel"):
    """A task as the server last described it."""

    task_id: str
    status: str
    """``"working"``, ``"input_required"``, ``"completed"``, ``"failed"`` or ``"cancelled"``."""
    status_message: str | None = None
    """What the server says about the state, for people."""
    created_at: str = ""
    """ISO 8601."""
    last_updated_at: str = ""
    ttl_ms: Any = msgspec.field(default=None)
    """Milliseconds from its creation that the server keeps it; None: no end was named."""
    poll_interval_ms: Any = None
    ttl: Any = None
    poll_interval: Any = None
    input_requests: msgspec.Raw = msgspec.Raw()
    result: msgspec.Raw = msgspec.Raw()
    error: msgspec.Raw = msgspec.Raw()

    @property
    def terminal(self) -> bool:
        """Whether the task has ended."""
        return self.status in TERMINAL

    @property
    def pause(self) -> float:
        """Seconds to wait until the next look."""
        wish = self.poll_interval if self.poll_interval_ms is None else self.poll_interval_ms
        if isinstance(wish, bool) or not isinstance(wish, int | float) or not wish > 0:
            return _POLL
        return min(max(wish / 1000, _SHORTEST_POLL), _LONGEST_POLL)


class _Made(msgspec.Struct):
    task: TaskState


class _Error(msgspec.Struct):
    code: int = INTERNAL_ERROR
    message: str = "the task failed"
    data: Any = None


_read_state = read_relaxed(TaskState)
_read_legacy = read_relaxed(_Made)
_read_legacy_result = read_relaxed(CallResult)
_read_result = decoder(CallResult, modern=True)


def _state(raw: bytes) -> TaskState:
    return _checked(_read_state(raw))


def _checked(state: TaskState) -> TaskState:
    if state.status not in STATUSES:
        raise ValueError(f"unknown task status {state.status[:64]!r}")
    return state


def _modern_state(raw: bytes) -> TaskState:
    check_complete(raw)
    return _state(raw)


class TaskMade:
    """An answer that is a handle instead of a result."""

    __slots__ = ("call", "state")

    def __init__(self, state: TaskState) -> None:
        self.state = state
        self.call: PendingCall | None = None
        """The call it answered, when that asked for progress."""


def read_made(raw: bytes) -> TaskMade:
    """Reads a ``CreateTaskResult`` of the extension, which is flat (TK-21)."""
    return TaskMade(_state(raw))


def read_legacy_made(raw: bytes) -> TaskMade | CallResult:
    """Reads the answer to a 2025-11-25 call that asked for a task: nested (TK-02); or a result all the same."""
    if isinstance(decode_any(raw).get("task"), dict):
        return TaskMade(_checked(_read_legacy(raw).task))
    return _read_legacy_result(raw)


class TaskHandle:
    """One task on a server; made by ``client.start_tool()``, or by ``client.task(id)`` from a kept id."""

    def __init__(self, client: Core, task_id: str, state: TaskState | None, direct: CallResult | None = None) -> None:
        self.id = task_id
        """To be kept where it survives: ``client.task(id)`` of any later client finds the task again. Empty
        when the server gave the result at once."""
        self.state = state
        """What is known of it, None before the first look."""
        self._client = client
        self._direct = direct
        self._answered: set[str] = set()
        self._legacy_answer: CallResult | RpcError | None = None

    def __repr__(self) -> str:
        return f"<TaskHandle {self.id or '(none)'}, {self.status}>"

    @property
    def status(self) -> str:
        """The last known status; ``"completed"`` for an answer that came at once, ``"unknown"`` before the first
        look."""
        if self._direct is not None:
            return "completed"
        return "unknown" if self.state is None else self.state.status

    async def get(self) -> TaskState:
        """Asks for the state (TK-23). Raises :class:`RpcError` when the server knows the task no longer."""
        self._there()
        state: TaskState = await self._ask("tasks/get", b"", _modern_state if self._modern else _state)
        self.state = state
        if state.task_id != self.id:
            raise RemoteProtocolError("tasks/get: the state of another task")
        return state

    async def update(self, responses: Mapping[str, Any]) -> None:
        """Answers questions by hand, by key (TK-24): :class:`headrace.Elicited`, or objects of the wire's shape.

        Raises :class:`LocalProtocolError` in 2025-11-25, where questions are requests of the server.
        """
        self._there()
        if not self._modern:
            raise LocalProtocolError("tasks of 2025-11-25 ask by requests of the server: give connect() callbacks")
        await self._ask("tasks/update", b',"inputResponses":' + given_answers(responses), check_complete)
        self._answered.update(responses)

    async def cancel(self) -> None:
        """Asks the server to stop it (TK-25). In 2025-11-25 raises :class:`RpcError` when it has ended."""
        self._there()
        if self._modern:
            await self._ask("tasks/cancel", b"", check_complete)
        else:
            self.state = await self._ask("tasks/cancel", b"", _state)

    async def wait(self) -> TaskState:
        """Waits for its end as often as the server likes to be asked (TK-29); questions are answered by the
        callbacks of :func:`headrace.connect`, each once.

        Raises :class:`InputRequired` when one has no callback: answer it with :meth:`update` and wait again;
        :class:`InputRefused` when a callback refuses; what :meth:`get` raises.
        """
        self._there()
        if not self._modern:
            return await self._wait_legacy()
        state = self.state
        if state is None:
            state = await self._look()
        rounds = 0
        while not state.terminal:
            if state.status == "input_required" and await self._answer(state):
                rounds += 1
                if rounds > _FREE_ROUNDS:  # a server that never stops asking is not asked in a storm
                    await asyncio.sleep(max(state.pause, min(_SHORTEST_POLL * 2.0 ** (rounds - _FREE_ROUNDS), _POLL)))
            else:
                rounds = 0
                await asyncio.sleep(state.pause)
            state = await self._look()
        if state.status == "completed" and not bytes(state.result):
            state = await self._look()  # the state that came with the handle carries no result
        return state

    async def result(self) -> CallResult:
        """Waits for its end and gives the tool's result, also a failed tool's.

        Raises :class:`RpcError` when the task failed, :class:`TaskCancelled`, and what :meth:`wait` raises.
        """
        if self._direct is not None:
            return self._direct
        state = await self.wait()
        if not self._modern:
            return self._legacy_outcome(state)
        if state.status == "completed":
            if not bytes(state.result):
                raise RemoteProtocolError("the task is completed, but the server gives no result of it")
            try:
                outcome: CallResult = _read_result(bytes(state.result))
                return outcome
            except ValueError as exc:
                raise RemoteProtocolError(f"the result of the task is not valid: {exc}") from None
        if state.status == "cancelled":
            raise TaskCancelled(state.status_message or "the task was cancelled")
        try:
            error = msgspec.json.decode(state.error, type=_Error)
        except msgspec.MsgspecError:
            error = _Error(message=state.status_message or "the task failed")
        raise RpcError(error.code, error.message, error.data)

    # --- how -----------------------------------------------------------------------------------------

    @property
    def _modern(self) -> bool:
        return self._client._modern

    def _there(self) -> None:
        if self._direct is not None:
            raise LocalProtocolError("the server answered at once: there is no task, only result()")

    async def _ask(self, method: str, extra: bytes, decode: Any, *, limit: float | None = None) -> Any:
        client = self._client
        request = Request(
            method,
            b'"taskId":' + encode(self.id) + extra,
            decode,
            name=self.id,  # TK-28
            arguments=b"{}",
            limit=client._timeout if limit is None else limit,
            extend=False,
            latest=0,
            meta=b"",
            relay=None,
        )
        return await client._send(request)

    async def _look(self) -> TaskState:
        """:meth:`get`, again when a connection over HTTP failed: it changes nothing."""
        tries = 0
        while True:
            try:
                return await self.get()
            except (ConnectionClosed, HttpStatusError, RequestTimeout, RpcError) as exc:
                tries += 1
                if not self._passes(exc, tries):
                    raise
                await asyncio.sleep(self._pause(exc, tries))

    def _passes(self, exc: HeadraceError, tries: int) -> bool:
        """Whether a look that failed may be repeated: the server was asked too often, or had trouble just then."""
        if self._client.closed or tries >= _TRIES:
            return False
        if isinstance(exc, RpcError):
            # On lines it may as well be what the task failed with: once.
            return exc.http_status in _PASSING or (
                exc.http_status is None and exc.retry_after is not None and tries == 1
            )
        if isinstance(exc, HttpStatusError) and exc.status < 500 and exc.status != 429:
            return False
        return self._client._http is not None

    def _pause(self, exc: HeadraceError, tries: int) -> float:
        asked: float = getattr(exc, "retry_after", None) or 0.0
        told = isinstance(exc, HttpStatusError) or getattr(exc, "http_status", None) is not None
        most: float = self._client._limits.max_reconnect_wait if told else _LONGEST_PAUSE
        pause: float = min(0.25 * 2**tries, _LONGEST_PAUSE)
        return max(pause, min(asked, most))

    async def _answer(self, state: TaskState) -> bool:
        """Answers questions that were not answered yet (TK-24); False when there are none."""
        try:
            questions = read_questions(bytes(state.input_requests) or b"{}")
        except ValueError as exc:
            raise RemoteProtocolError(f"task {self.id}: {exc}") from None
        fresh = {key: question for key, question in questions.items() if key not in self._answered}
        if not fresh:
            return False
        client = self._client
        limit = client._limits.max_input_time
        try:
            async with asyncio.timeout(limit):
                answers = await answer_all(client._inputs, "tools/call", InputAsked(fresh, None))
        except TimeoutError as exc:
            if isinstance(exc, HeadraceError):
                raise
            raise RequestTimeout(f"task {self.id}: client input took longer than {limit:g} s") from None
        # The user was asked: whatever becomes of the answer, not a second time.
        self._answered.update(fresh)
        await self._ask("tasks/update", b',"inputResponses":' + answers, check_complete)
        return True

    async def _wait_legacy(self) -> TaskState:
        """2025-11-25: ``tasks/result`` waits, and carries the server's questions (TK-03, TK-04, MX-14)."""
        tries = 0
        while self._legacy_answer is None:
            try:
                self._legacy_answer = await self._ask("tasks/result", b"", _read_legacy_result, limit=0)
            except (ConnectionClosed, HttpStatusError, RpcError) as exc:
                tries += 1
                if self._passes(exc, tries):
                    await asyncio.sleep(self._pause(exc, tries))
                elif isinstance(exc, RpcError):
                    self._legacy_answer = exc
                else:
                    raise
        try:
            return await self._look()
        except RpcError as exc:
            if self.state is None or isinstance(self._legacy_answer, RpcError):
                raise self._legacy_answer if isinstance(self._legacy_answer, RpcError) else exc from None
            return self.state  # deleted as soon as its result was fetched

    def _legacy_outcome(self, state: TaskState) -> CallResult:
        answer = self._legacy_answer
        assert answer is not None
        if state.status == "cancelled":
            raise TaskCancelled(state.status_message or "the task was cancelled")
        if isinstance(answer, RpcError):
            raise answer
        return answer

    def give_up(self) -> None:
        """Cancels the task beside everything else: nobody waits for it any more (B75)."""
        jobs = self._client._jobs
        # Its first step runs now: the connection may be closed next.
        job = self._client._mux.runtime.spawn(self._give_up())
        if not job.done():
            jobs.add(job)
            job.add_done_callback(jobs.discard)

    async def _give_up(self) -> None:
        try:
            async with asyncio.timeout(_CANCEL_TIMEOUT):
                await self.cancel()
        except (HeadraceError, TimeoutError):
            pass  # it has ended, or the server is gone
