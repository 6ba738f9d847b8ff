"""What a handler can ask: typed questions over :func:`headrace.protocol.asking.ask`, and asking from threads."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Coroutine
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar

from headrace.jsonrpc import R4
from headrace.protocol.answers import read_elicited, read_roots, read_sample
from headrace.protocol.asking import ELICIT, ROOTS, SAMPLE, ask, check_capability
from headrace.protocol.elicited import Elicited
from headrace.protocol.forms import form_of
from headrace.protocol.sampling import sampling_params
from headrace.protocol.urls import check_url

if TYPE_CHECKING:
    from headrace.mux import Exchange
    from headrace.types import CreateMessageResult, Root

__all__ = ("HandlerEnded", "ask_from_thread", "elicit", "elicit_url", "list_roots", "sample")

_T = TypeVar("_T")


async def elicit(exchange: Exchange, message: str, schema: Any, timeout: float | None) -> Elicited:
    """See :meth:`headrace.Context.elicit`."""
    form = form_of(schema)
    revision = exchange.revision.name
    # The capability goes first: a client without forms does not care what this one looks like.
    check_capability(exchange, ELICIT, {})
    params: dict[str, Any] = {"mode": "form"} if revision >= R4 else {}
    params |= {"message": message, "requestedSchema": form.schema(revision)}
    return read_elicited(await ask(exchange, ELICIT, params, timeout=timeout), form)


async def elicit_url(
    exchange: Exchange, message: str, url: str, elicitation_id: str | None, timeout: float | None
) -> Elicited:
    """See :meth:`headrace.Context.elicit_url`."""
    params = {"mode": "url", "message": message, "url": check_url(url)}
    if exchange.revision.name == R4:
        params["elicitationId"] = elicitation_id or secrets.token_urlsafe(16)
    return read_elicited(await ask(exchange, ELICIT, params, timeout=timeout), None)


async def sample(exchange: Exchange, messages: Any, timeout: float | None, **options: Any) -> CreateMessageResult:
    """See :meth:`headrace.Context.sample`."""
    params = sampling_params(messages, revision=exchange.revision.name, **options)
    return read_sample(await ask(exchange, SAMPLE, params, timeout=timeout))


async def list_roots(exchange: Exchange, timeout: float | None) -> list[Root]:
    """See :meth:`headrace.Context.list_roots`."""
    return read_roots(await ask(exchange, ROOTS, timeout=timeout))


# --- threads -------------------------------------------------------------------------------------------

_LOOK_AROUND = 1.0
"""Seconds after which a waiting thread looks whether its request is still there."""


class HandlerEnded(BaseException):
    """Raised in a worker thread at a question whose request is over: it unwinds the handler.

    Not an Exception, so that ``except Exception`` lets it pass; nothing comes of a handler that catches it.
    """


class _Waiting:
    """One question of a thread: started on the loop, waited for in the thread."""

    __slots__ = ("_context", "_coro", "_done", "_error", "_exchange", "_value")

    def __init__(self, exchange: Exchange, coro: Coroutine[Any, Any, Any]) -> None:
        self._exchange = exchange
        self._context = copy_context()
        self._coro: Coroutine[Any, Any, Any] | None = coro
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None

    def start(self) -> None:
        """On the loop: the question is tied to the handler, and is given up with it."""
        exchange, coro = self._exchange, self._coro
        self._coro = None
        if coro is None:
            return
        handler = exchange.task
        if not exchange.open or handler is None or handler.done():
            coro.close()
            self._finish(None, HandlerEnded())
            return
        # In the thread's context: the loop may run this in that of another thread.
        task = self._context.run(exchange.mux.runtime.spawn, coro)

        def give_up(_: Any) -> None:
            task.cancel()

        def finished(_: Any) -> None:
            handler.remove_done_callback(give_up)
            if task.cancelled():
                self._finish(None, HandlerEnded())
            elif (error := task.exception()) is not None:
                self._finish(None, error)
            else:
                self._finish(task.result(), None)

        handler.add_done_callback(give_up)
        task.add_done_callback(finished)

    def _finish(self, value: Any, error: BaseException | None) -> None:
        self._value = value
        self._error = error
        self._done.set()

    def wait(self) -> Any:
        """In the thread."""
        seen_over = False
        while not self._done.wait(_LOOK_AROUND):
            # The loop may be gone, and with it whoever would tell this thread.
            if seen_over:
                coro, self._coro = self._coro, None
                if coro is not None:
                    coro.close()
                raise HandlerEnded
            seen_over = not self._exchange.open
        if self._error is not None:
            try:
                raise self._error
            finally:
                self._error = None
        return self._value


def ask_from_thread(exchange: Exchange, question: Coroutine[Any, Any, _T]) -> _T:
    """Puts a question from a worker thread and blocks it until the answer is there.

    Raises :class:`HandlerEnded` when the request ends meanwhile, and what the question raises.
    """
    waiting = _Waiting(exchange, question)
    exchange.mux.runtime.post(waiting.start)
    found: _T = waiting.wait()
    return found
