"""Calling the functions behind resources, prompts and completions: async, in a worker thread, or inline.

Tools have a compiled path of their own (:mod:`headrace.server._tool`); the rules are the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from headrace.errors import RpcError, ToolError, UsageError
from headrace.jsonrpc import INTERNAL_ERROR
from headrace.mux import Exchange
from headrace.protocol.context import Context, ThreadContext
from headrace.server.signature import ToolSignature

__all__ = ("Invoker",)

Finish = Callable[[Any], Any]


class Invoker:
    """One function, prepared. ``what`` begins messages (``"resource 'x'"``).

    Raises :class:`UsageError` for options that do not fit the function.
    """

    __slots__ = ("_inline", "_signature", "_thread", "_timeout", "what")

    def __init__(
        self, signature: ToolSignature, what: str, *, inline: bool = False, timeout: float | None = None
    ) -> None:
        if inline and signature.is_async:
            raise UsageError(f"{what}: inline=True is for plain functions; async ones start inline anyway")
        if timeout is not None and not timeout > 0:
            raise UsageError(f"{what}: timeout must be a positive number of seconds")
        self.what = what
        self._signature = signature
        self._inline = inline
        self._thread = not signature.is_async and not inline
        self._timeout = timeout

    def call(self, exchange: Exchange, arguments: Any, finish: Finish) -> Any:
        """Calls the function with the fields of ``arguments`` (a Struct of the signature) and gives
        ``finish(result)``, or an awaitable of it. A thread function is finished in its thread."""
        signature = self._signature
        values = [getattr(arguments, name) for name in signature.positional]
        keywords = {name: getattr(arguments, name) for name in signature.keyword}
        if signature.context_parameter is not None:
            context = ThreadContext(exchange) if self._thread else Context(exchange)
            if signature.context_position is None:
                keywords[signature.context_parameter] = context
            else:
                values.insert(signature.context_position, context)
        finish = _results(finish)
        if self._inline:
            return self._guarded(values, keywords, finish)
        if not self._thread:
            return self._await(signature.function(*values, **keywords), finish)
        future = exchange.mux.runtime.run_thread(lambda: self._guarded(values, keywords, finish))
        return future if self._timeout is None else self._await(future, _same)

    def _guarded(self, values: list[Any], keywords: dict[str, Any], finish: Finish) -> Any:
        try:
            return finish(self._signature.function(*values, **keywords))
        except ToolError as exc:
            raise RpcError(INTERNAL_ERROR, str(exc)) from exc
        except Exception as exc:
            self._named(exc)
            raise

    def _named(self, exc: Exception) -> None:
        """The log of an exception that nobody expected says whose it is."""
        if not isinstance(exc, RpcError) and not hasattr(exc, "answer_for"):
            exc.add_note(f"{self.what} failed")

    async def _await(self, awaitable: Awaitable[Any], finish: Finish) -> Any:
        try:
            if self._timeout is None:
                return finish(await awaitable)
            try:
                async with asyncio.timeout(self._timeout) as limit:
                    return finish(await awaitable)
            except TimeoutError:
                if not limit.expired():
                    raise
                message = f"{self.what} took longer than {self._timeout:g} s"
                raise RpcError(INTERNAL_ERROR, message) from None
        except ToolError as exc:
            raise RpcError(INTERNAL_ERROR, str(exc)) from exc
        except Exception as exc:
            self._named(exc)
            raise


def _results(finish: Finish) -> Finish:
    """``finish`` for what is a result: a handler may also return the InputNeeded that it could raise."""

    def finish_result(value: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return finish(value)

    return finish_result


def _same(value: Any) -> Any:
    return value
