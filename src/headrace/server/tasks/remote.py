"""Questions of a 2025-11-25 task that another process runs, asked here because the client waits here (TK-04).

The store shows which questions are open. Each goes out with the ``tasks/result`` request that waits in this
process; what comes back, or why nothing does, is a signal to the process that runs the task.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import CannotAsk, ClientCapabilityMissing, ClientRefused, Declined, InvalidAnswer
from headrace.protocol.asking import ask
from headrace.protocol.tasks.states import with_related
from headrace.protocol.tasks.store import Signal

if TYPE_CHECKING:
    from headrace.mux import Exchange
    from headrace.protocol.tasks.states import Task
    from headrace.server.tasks.engine import TaskEngine

__all__ = ("carry", "read_refusal", "write_refusal")


class _Question(msgspec.Struct):
    method: str
    params: dict[str, Any] | None = None


class _Refusal(msgspec.Struct, omit_defaults=True):
    """An exception that a question ended with: the one kind whose field is set, else :class:`CannotAsk`."""

    message: str
    method: str = ""
    code: int | None = None
    data: Any = None
    required: dict[str, Any] | None = None
    invalid: bool = False


_encode = msgspec.json.Encoder().encode
_decode_question = msgspec.json.Decoder(_Question).decode
_decode_refusal = msgspec.json.Decoder(_Refusal).decode


def write_refusal(exc: Exception) -> bytes:
    """Why a question has no answer, as the body of a signal."""
    if isinstance(exc, ClientRefused):
        return _encode(_Refusal(exc.message, method=exc.method, code=exc.code, data=exc.data))
    if isinstance(exc, ClientCapabilityMissing):
        return _encode(_Refusal(str(exc), required=exc.required))
    return _encode(_Refusal(str(exc), invalid=isinstance(exc, InvalidAnswer)))


def read_refusal(body: bytes) -> Exception:
    """The exception for the handler, as :func:`headrace.protocol.asking.ask` would have raised it."""
    told = _decode_refusal(body)
    if told.code is not None:
        kind = Declined if told.code == -1 else ClientRefused
        return kind(told.method, told.code, told.message, told.data)
    if told.required is not None:
        return ClientCapabilityMissing(told.message, told.required)
    return InvalidAnswer(told.message) if told.invalid else CannotAsk(told.message)


async def carry(exchange: Exchange, engine: TaskEngine, task: Task) -> Task | None:
    """Waits for the end of a task of another process and asks meanwhile what it asks.

    Gives the task in its final state, None when it was deleted. A question that is no longer open, because
    somebody else answered it or its time is over, is taken back at the client.
    """
    jobs: dict[str, asyncio.Task[None]] = {}
    found: Task | None = task
    try:
        async with engine.following.waiting(task) as news:
            while found is not None and not found.terminal:
                for key in jobs.keys() - found.inputs.keys():
                    jobs.pop(key).cancel()
                for key in found.inputs.keys() - jobs.keys():
                    jobs[key] = asyncio.get_running_loop().create_task(_put(exchange, engine, found, key))
                found = await news()
        return found
    finally:
        for job in jobs.values():
            job.cancel()


async def _put(exchange: Exchange, engine: TaskEngine, task: Task, key: str) -> None:
    question = _decode_question(task.inputs[key])
    params = msgspec.json.decode(with_related(_encode(question.params or {}), task.id))
    try:
        # No time limit here: the handler's question has its own.
        signal = Signal(task.id, "input", key, _encode(await ask(exchange, question.method, params, timeout=0)))
    except Exception as exc:
        if not exchange.open:
            return  # the client waits here no longer; where it comes back it is asked again
        signal = Signal(task.id, "refused", key, write_refusal(exc))
    try:
        await engine.store.post(signal)
    except OSError as exc:
        engine.server.log.error("an answer could not be passed on to the task's process: %s", exc)
