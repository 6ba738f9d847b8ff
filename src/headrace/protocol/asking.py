"""Questions of a handler to its client: one API, two channels (MX-30..MX-39, HO-06, HO-43).

Era H has a live channel: a question is a request on the stream of the request that it belongs to, and the
handler waits. Era M has none: the request is answered with what to ask, and its retry runs the handler
anew (:mod:`headrace.protocol.replay`). An :class:`Asker` is the channel of one request; ``exchange.asker``
holds it, and whoever sets it first decides (tasks bring their own).
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import (
    CannotAsk,
    ClientCapabilityMissing,
    ClientRefused,
    Declined,
    InvalidAnswer,
    LocalProtocolError,
    OverloadedError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    ToolError,
)
from headrace.jsonrpc import CLIENT_CAPABILITIES, R3, R4

if TYPE_CHECKING:
    from headrace.mux import Exchange, RawResult
    from headrace.protocol.input_needed import Needs

__all__ = (
    "ELICIT", "ROOTS", "SAMPLE", "AnswerTimeout", "Asker", "LiveAsker", "ask", "asker_of", "check_capability",
    "client_capabilities", "decode_object", "ended", "origin_of",
)  # fmt: skip

ELICIT = "elicitation/create"
SAMPLE = "sampling/createMessage"
ROOTS = "roots/list"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def decode_object(raw: bytes) -> dict[str, Any]:
    """JSON that must be an object; numbers beyond what the fast decoder takes included (B105).

    Raises ValueError for anything else.
    """
    try:
        value = _decode(raw)
    except ValueError:
        value = json.loads(raw)
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, not {type(value).__name__}")
    return value


def origin_of(exchange: Exchange) -> Exchange:
    """The client's own request behind an exchange: another one for captured runs that still stand for it."""
    while (origin := getattr(exchange, "origin", None)) is not None and not exchange.detached:  # type: ignore[attr-defined]
        exchange = origin
    return exchange


def client_capabilities(exchange: Exchange) -> dict[str, Any]:
    """What the client declared: on this request in era M, in its handshake in era H (CF-02)."""
    if not exchange.revision.modern:
        found = getattr(exchange.mux.gate, "client_capabilities", None)
        return found if isinstance(found, dict) else {}
    raw = exchange.meta or origin_of(exchange).meta
    if raw is None:
        return {}
    declared = decode_object(raw).get(CLIENT_CAPABILITIES)
    return declared if isinstance(declared, dict) else {}


def check_capability(exchange: Exchange, method: str, params: dict[str, Any]) -> None:
    """Raises :class:`ClientCapabilityMissing` unless the client declared that it takes this question, in this
    mode, on this very request (MX-31, VN-29, CF-22, CF-33)."""
    revision = exchange.revision.name
    declared = client_capabilities(exchange)
    if method == ROOTS:
        _need(declared, "roots", None, "list its roots")
    elif method == SAMPLE:
        _need(declared, "sampling", None, "sample from a model")
        if revision >= R4:
            if "tools" in params or "toolChoice" in params:
                _need(declared, "sampling", "tools", "sample with tools")
            if params.get("includeContext", "none") != "none":
                _need(declared, "sampling", "context", "include context in sampling")
    else:
        mode = params.get("mode", "form")
        what = "open a URL for its user" if mode == "url" else "show a form to its user"
        modes = declared.get("elicitation")
        if (
            revision < R3
            or not isinstance(modes, dict)
            or (mode == "url" and (revision < R4 or "url" not in modes))
            or (mode == "form" and "url" in modes and "form" not in modes)
        ):
            required: dict[str, Any] = {"elicitation": {mode: {}}}
            raise ClientCapabilityMissing(f"the client did not declare that it can {what}", required)


def _need(declared: dict[str, Any], name: str, part: str | None, what: str) -> None:
    found = declared.get(name)
    if not isinstance(found, dict) or (part is not None and part not in found):
        required: dict[str, Any] = {name: {} if part is None else {part: {}}}
        raise ClientCapabilityMissing(f"the client did not declare that it can {what}", required)


class _Turn:
    """An awaitable that gives the loop one turn."""

    __slots__ = ()

    def __await__(self) -> Any:
        yield


async def ended(exchange: Exchange) -> Any:
    """For questions of a request that is over: ends the handler, which may have caught its cancellation."""
    await _Turn()
    future = exchange.mux.runtime.create_future()
    future.cancel()
    await future


class Asker(ABC):
    """The channel for the questions of one request, with what its handler records between two runs.

    Subclasses give :meth:`ask`. Belongs to the thread of the loop.
    """

    def __init__(self) -> None:
        self.rounds = 0
        """Rounds of questions in explicit form so far."""
        self.responses: dict[str, Any] | None = None
        """Answers to the last :class:`InputNeeded`, by key; None before the first."""
        self.own_state: Any = msgspec.UNSET
        """The ``state`` of the last :class:`InputNeeded`."""
        self.raw_state: str | None = None
        """The same where it was sent without a seal."""
        self.memos: dict[str, bytes] = {}

    def load(self, exchange: Exchange) -> None:  # noqa: B027 - without rounds there is nothing to read
        """Reads what the request brought from earlier rounds. Raises RpcError when it cannot be trusted."""

    @abstractmethod
    async def ask(
        self, exchange: Exchange, method: str, params: dict[str, Any] | None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        """Puts one question and gives the result object; see :func:`ask`."""

    async def record(self, exchange: Exchange, key: str, make: Callable[[], Any] | Awaitable[Any]) -> Any:
        """See :meth:`headrace.Context.record`."""
        self.load(exchange)
        known = self.memos.get(key)
        if known is not None:
            if isinstance(make, Coroutine):
                make.close()
            return _decode(known)
        value = make() if callable(make) else make
        if hasattr(value, "__await__"):
            value = await value
        return self.keep(key, value)

    def keep(self, key: str, value: Any) -> Any:
        """Records a value; gives it as later runs will see it."""
        raw = _encode(value)
        if key in self.memos:
            raise LocalProtocolError(f"record: the key {key!r} was used twice in one run")
        self.memos[key] = raw
        return _decode(raw)

    def input_required(self, exchange: Exchange, required: Needs) -> RawResult | None:
        """Answers a handler that ended with :class:`InputNeeded`: here by asking, and running it again."""
        limit = exchange.mux.gate.server.limits.max_input_rounds
        if self.rounds >= limit:
            exchange.mux.runtime.refused("max_input_rounds")
            raise CannotAsk(f"this request asked {limit} times for input (limit max_input_rounds)")
        self.rounds += 1
        for method, params in required.requests.values():
            check_capability(exchange, method, params or {})
        exchange.rerun(self._collect(exchange, required))
        return None

    async def _collect(self, exchange: Exchange, required: Needs) -> None:
        spawn = exchange.mux.runtime.spawn
        tasks: dict[str, Any] = {}
        try:
            for key, (method, params) in required.requests.items():
                tasks[key] = spawn(self.ask(exchange, method, params))
            self.responses = {key: await task for key, task in tasks.items()}
        except BaseException:
            for task in tasks.values():
                task.cancel()
                task.add_done_callback(_retrieve)
            raise
        self.own_state = msgspec.UNSET if required.raw else required.state
        self.raw_state = required.state if required.raw else None


def _retrieve(task: Any) -> None:
    if not task.cancelled():
        task.exception()


class AnswerTimeout(RequestTimeout):
    """The client did not answer a question in time; the question was taken back."""

    def answer_for(self, exchange: Exchange) -> Exception:
        """What a request is answered with whose handler lets this through."""
        return ToolError(f"the client did not answer: {self}")


class LiveAsker(Asker):
    """Era H: a question is a request of ours on the request's own stream (HO-06, HO-43, SEP-2260)."""

    async def ask(
        self, exchange: Exchange, method: str, params: dict[str, Any] | None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        if not exchange.open:
            await ended(exchange)
        limits = exchange.mux.gate.server.limits
        try:
            call = exchange.mux.call(
                method,
                None if params is None else _encode(params),
                exchange.sink,
                decode=decode_object,
                timeout=limits.ask_timeout if timeout is None else timeout,
            )
        except OverloadedError:
            raise
        except LocalProtocolError as exc:
            raise CannotAsk(f"there is no channel to the client for {method}: {exc}") from None
        try:
            answer: dict[str, Any] = await call
        except RequestTimeout as exc:
            raise AnswerTimeout(str(exc)) from None
        except RpcError as exc:
            kind = Declined if exc.code == -1 else ClientRefused
            raise kind(method, exc.code, exc.message, exc.data) from None
        except RemoteProtocolError as exc:
            # No response at all (JR-08, JR-09): the client's fault, not the handler's.
            raise InvalidAnswer(f"the answer to {method} cannot be read: {exc}") from None
        return answer


def asker_of(exchange: Exchange) -> Asker:
    """The channel for questions of this request."""
    asker: Asker | None = exchange.asker
    if asker is None:
        origin = origin_of(exchange)
        if origin is not exchange:
            return asker_of(origin)
        if exchange.revision.modern:
            from headrace.protocol.replay import Replay

            asker = Replay()
        else:
            asker = LiveAsker()
        exchange.asker = asker
    return asker


async def ask(
    exchange: Exchange, method: str, params: dict[str, Any] | None = None, *, timeout: float | None = None
) -> dict[str, Any]:
    """Asks the client of ``exchange`` and gives its result object, unchecked.

    ``timeout`` (seconds) bounds the wait for a live client; ``limits.ask_timeout`` without it. Raises
    :class:`ClientCapabilityMissing`, :class:`CannotAsk`, :class:`ClientRefused`, :class:`RequestTimeout`,
    :class:`InvalidAnswer` for an answer that is no object. Where there is no live channel the handler ends
    here, and the retry of its request runs it anew.
    """
    check_capability(exchange, method, params or {})
    answer = await asker_of(exchange).ask(exchange, method, params, timeout=timeout)
    if not isinstance(answer, dict):
        raise InvalidAnswer(f"the answer to {method} must be an object")
    return answer
