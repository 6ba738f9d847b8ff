"""Middleware of a server: code around its requests, at one seam, prepared with the tables.

A middleware is ``async def mw(call, next) -> dict | None``. Where none is registered nothing is added to
the path of a request. A request that has some runs as one task: the handler's answer is captured and
comes back as a dict; what nobody looked at passes through as the bytes it was.
"""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import RpcError, ToolError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, NAMED, SERVER_INFO
from headrace.mux import Exchange, FunctionHandler, Handler, RawResult, capture
from headrace.protocol.context import Context

if TYPE_CHECKING:
    import logging

__all__ = ("Approval", "Audit", "Call", "Layer", "Metrics", "Middleware", "Next", "failed_tool", "wrap")

_encode_json = msgspec.json.Encoder().encode
_decode_json = msgspec.json.Decoder().decode

_OWN = frozenset({"initialize", "ping", "server/discover", "logging/setLevel", "subscriptions/listen"})
"""Served by the protocol itself: a middleware around them could only break them."""


class _Failed(msgspec.Struct, rename="camel"):
    is_error: bool = False


_decode_failed = msgspec.json.Decoder(_Failed).decode


def _decode(raw: bytes) -> Any:
    try:
        return _decode_json(raw)
    except ValueError:
        return json.loads(raw)  # numbers beyond what the fast decoder takes (B105)


def _encode(value: Any) -> bytes:
    try:
        return _encode_json(value)
    except OverflowError:
        return json.dumps(value, separators=(",", ":")).encode()  # integers beyond 64 bits


class Call:
    """One request on its way to its handler."""

    __slots__ = ("_answer", "_context", "_exchange", "_params", "_raw", "method")

    def __init__(self, exchange: Exchange, method: str) -> None:
        self.method = method
        """The method, such as ``"tools/call"``."""
        self._exchange = exchange
        self._raw: bytes | None = exchange.params
        self._params: dict[str, Any] | None = None
        self._context: Context | None = None
        self._answer: bytes | None = None

    def __repr__(self) -> str:
        return f"<Call of {self.method} {self.name or ''}>"

    @property
    def params(self) -> dict[str, Any]:
        """The request's params, ``_meta`` included; change them in place or set others.

        Raises :class:`RpcError` for params that cannot be read.
        """
        if self._params is None:
            try:
                params = _decode(self._raw) if self._raw is not None else {}
            except (ValueError, RecursionError) as exc:
                raise RpcError(INVALID_PARAMS, f"params cannot be read: {exc}") from None
            self._params = params if isinstance(params, dict) else {}
        return self._params

    @params.setter
    def params(self, params: Mapping[str, Any]) -> None:
        self._params = dict(params)

    @property
    def name(self) -> str | None:
        """Which tool, prompt, resource (URI) or task (id) is meant; None for other methods."""
        member = NAMED.get(self.method)
        value = self.params.get(member) if member is not None else None
        return value if isinstance(value, str) else None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool or prompt, empty without any. To replace them set ``params``, or change them
        in place where they were sent."""
        value = self.params.get("arguments")
        return value if isinstance(value, dict) else {}

    @property
    def context(self) -> Context:
        """The request's :class:`~headrace.Context`: who asks, progress, log messages, questions."""
        if self._context is None:
            self._context = Context(self._exchange)
        return self._context

    @property
    def tool_failed(self) -> bool:
        """For a hook of requests, behind its ``yield``: whether the answer is the result of a tool that failed
        (``isError``). A request that is answered with an error raises there instead."""
        return self._answer is not None and _decode_failed(self._answer).is_error

    def answered(self, answer: bytes) -> None:
        """The hooks of the request come to know its answer."""
        self._answer = answer

    def _bytes(self) -> bytes | None:
        """The params as the handler gets them."""
        return self._raw if self._params is None else _encode(self._params)


Next = Callable[[Call], Awaitable[dict[str, Any]]]
Middleware = Callable[[Call, Next], Awaitable[dict[str, Any] | None]]


class Layer:
    """One registered middleware: ``function`` for ``methods`` (None: all that a server's features serve)."""

    __slots__ = ("function", "methods")

    def __init__(self, function: Middleware, methods: Iterable[str] | None) -> None:
        if isinstance(methods, str):
            raise UsageError(f"methods must be a list of method names, such as [{methods!r}]")
        own = sorted(_OWN.intersection(methods or ()))
        if own:
            raise UsageError(f"no middleware runs around {own[0]}: the protocol itself serves it")
        self.function = function
        self.methods = None if methods is None else frozenset(methods)

    def covers(self, method: str) -> bool:
        """Whether it runs around ``method``."""
        return method not in _OWN if self.methods is None else method in self.methods


def wrap(requests: dict[bytes, Handler], layers: Iterable[Layer]) -> dict[bytes, Handler]:
    """``requests`` with the layers around those that they cover, the first layer outermost."""
    stack = list(layers)
    if not stack:
        return requests
    wrapped = {}
    for name, handler in requests.items():
        method = name.decode()
        functions = tuple(layer.function for layer in stack if layer.covers(method))
        wrapped[name] = (
            FunctionHandler(_Chain(handler, method, functions), urgent=handler.urgent, cancellable=handler.cancellable)
            if functions
            else handler
        )
    return wrapped


class _Outcome:
    """What the rest of a chain gave: as bytes, as a dict, or both when somebody looked."""

    __slots__ = ("raw", "value")

    def __init__(self, raw: bytes | None, value: dict[str, Any] | None = None) -> None:
        self.raw = raw
        self.value = value

    def look(self) -> dict[str, Any]:
        if self.value is None:
            assert self.raw is not None
            self.value = _decode(self.raw)
        return self.value


class _Chain:
    """The function of a handler: middleware around another handler."""

    __slots__ = ("functions", "handler", "method")

    def __init__(self, handler: Handler, method: str, functions: tuple[Middleware, ...]) -> None:
        self.handler = handler
        self.method = method
        self.functions = functions

    async def __call__(self, exchange: Exchange) -> RawResult | None:
        try:
            outcome = await self._step(Call(exchange, self.method), exchange, 0)
        except RpcError as exc:
            exchange.answer_error(exc)
            exc.__traceback__ = None  # its frames may hold it: no work for the garbage collector
            return None
        except ToolError as exc:
            if self.method != "tools/call":
                raise
            return failed_tool(exc, exchange)
        if outcome.value is None:
            assert outcome.raw is not None
            return RawResult(outcome.raw)
        return RawResult(_encode(_complete(outcome.value, exchange)))

    async def _step(self, call: Call, exchange: Exchange, at: int) -> _Outcome:
        if at == len(self.functions):
            return await self._serve(call, exchange)
        function = self.functions[at]
        last: _Outcome | None = None

        async def following(call: Call) -> dict[str, Any]:
            nonlocal last
            last = await self._step(call, exchange, at + 1)
            return last.look()

        result = await function(call, following)
        if result is None:
            if last is None:
                raise TypeError(f"middleware {_name(function)} gave no result and did not call next")
            return last
        if not isinstance(result, dict):
            raise TypeError(f"middleware {_name(function)} must give a dict or None, not {type(result).__name__}")
        return _Outcome(None, result)

    async def _serve(self, call: Call, exchange: Exchange) -> _Outcome:
        answer = await capture(exchange, self.handler, call._bytes())
        if isinstance(answer, bytes):
            return _Outcome(answer)
        try:
            raise answer
        finally:
            del answer  # its frames would hold it


def failed_tool(exc: ToolError, exchange: Exchange) -> RawResult:
    """The result of a tool call that ``exc`` refuses."""
    exc.__traceback__ = None
    result = {"content": [{"type": "text", "text": str(exc)}], "isError": True}
    return RawResult(_encode(_complete(result, exchange)))


def _name(function: Any) -> str:
    return getattr(function, "__qualname__", None) or type(function).__name__


def _complete(result: dict[str, Any], exchange: Exchange) -> dict[str, Any]:
    """Adds what every result of the modern era carries (JR-10, VN-30) where a middleware left it out."""
    if not exchange.revision.modern:
        return result
    meta = result.get("_meta")
    if "resultType" in result and isinstance(meta, dict) and SERVER_INFO in meta:
        return result
    info = exchange.mux.gate.server.info
    return {
        **result,
        "resultType": result.get("resultType", "complete"),
        "_meta": {SERVER_INFO: info, **(meta if isinstance(meta, dict) else {})},
    }


# --- ready-made ---------------------------------------------------------------------------------------


class Approval:
    """Asks ``decide(call) -> bool | str`` (or an awaitable of it) before a request is served.

    A false answer refuses the request, a text refuses it with that text: a tool call fails with an
    ``isError`` result that the model reads, any other request with error -32602.
    """

    def __init__(self, decide: Callable[[Call], Any]) -> None:
        self._decide = decide

    async def __call__(self, call: Call, next: Next) -> dict[str, Any] | None:
        verdict = self._decide(call)
        if hasattr(verdict, "__await__"):
            verdict = await verdict
        if verdict is True:
            await next(call)
            return None
        text = verdict if isinstance(verdict, str) and verdict else f"{call.name or call.method} was not approved"
        if call.method == "tools/call":
            raise ToolError(text)
        raise RpcError(INVALID_PARAMS, text)


class Audit:
    """Writes one line a request to ``log``, at level INFO: what, who (where that is known), how it ended, how long
    it took."""

    def __init__(self, log: logging.Logger) -> None:
        self._log = log

    async def __call__(self, call: Call, next: Next) -> dict[str, Any] | None:
        started = time.perf_counter()
        outcome = "cancelled"
        try:
            result = await next(call)
            outcome = "isError" if result.get("isError") else str(result.get("resultType", "complete"))
        except RpcError as exc:
            outcome = f"error {exc.code}"
            raise
        except ToolError:
            outcome = "refused"
            raise
        except Exception as exc:
            outcome = type(exc).__name__
            raise
        finally:
            principal = call.context.principal
            self._log.info(
                "%s%s%s: %s in %.1f ms",
                call.method,
                "" if call.name is None else f" {call.name!r}",
                "" if principal is None else f" by {principal!r}",
                outcome,
                (time.perf_counter() - started) * 1000,
            )
        return None


class Metrics:
    """Counts requests by ``(method, name, outcome)`` and sums their seconds by ``(method, name)``.

    ``outcome`` is ``"ok"``, ``"tool_error"``, ``"error"`` or ``"cancelled"``. At most ``most`` different
    names are told apart; the others count under ``"(other)"``: a client may make up names.
    """

    def __init__(self, most: int = 1_000) -> None:
        self.counts: dict[tuple[str, str, str], int] = {}
        self.seconds: dict[tuple[str, str], float] = {}
        self._most = most

    async def __call__(self, call: Call, next: Next) -> dict[str, Any] | None:
        started = time.perf_counter()
        outcome = "cancelled"
        try:
            result = await next(call)
            outcome = "tool_error" if result.get("isError") else "ok"
        except Exception:
            outcome = "error"
            raise
        finally:
            where = (call.method, call.name or "")
            if where not in self.seconds and len(self.seconds) >= self._most:
                where = (call.method, "(other)")
            self.seconds[where] = self.seconds.get(where, 0.0) + time.perf_counter() - started
            key = (*where, outcome)
            self.counts[key] = self.counts.get(key, 0) + 1
        return None
