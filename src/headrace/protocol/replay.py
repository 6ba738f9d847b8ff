"""Questions without a live channel: the request is answered with them, its retry runs the handler anew (era M).

Strategy: questions of one loop turn leave together in one ``input_required`` result, and the handler is
ended. What was answered so far, and what was recorded, travels in ``requestState``, sealed and bound to the
caller and to the request (MX-35): any process with the secret can serve the retry. There the handler runs
from its start; a question that was answered gets its answer at once. Questions are told apart by what they
ask, so branches of one handler may run concurrently, but each answer must be asked for again before
anything new is asked: a handler that does otherwise is told so instead of asking people for ever.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import CannotAsk, LocalProtocolError, RpcError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, SERVER_INFO
from headrace.mux import RawResult
from headrace.protocol.asking import Asker, check_capability, decode_object, ended, origin_of
from headrace.protocol.seal import SealError, SealExpired

if TYPE_CHECKING:
    from headrace.mux import Exchange
    from headrace.protocol.input_needed import Needs

__all__ = ("MAY_ASK", "Replay", "ReplayMismatch")

MAY_ASK = frozenset({"tools/call", "prompts/get", "resources/read"})
"""Requests that may be answered with ``input_required`` (MX-30)."""

_PURPOSE = "request state"
_RAW = "raw."
_COMPRESS_FROM = 512
_EXPANDS = 16
"""Most that a state may grow when it is decompressed, in units of max_request_state_bytes."""

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_NULL = msgspec.Raw(b"null")


class ReplayMismatch(LocalProtocolError):
    """A handler that was run again asked something else than before. The text is for its developer."""

    def answer_for(self, exchange: Exchange) -> RpcError:
        """What the client is told: it cannot help it."""
        return RpcError(INTERNAL_ERROR, "the handler asked other questions when it was run again")


class _Entry(msgspec.Struct, array_like=True):
    """One question: its digest, its method, and the raw answer (null: none yet)."""

    digest: str
    method: str
    answer: msgspec.Raw = _NULL


class _State(msgspec.Struct, array_like=True):
    rounds: int
    entries: list[_Entry] = []
    memos: dict[str, msgspec.Raw] = {}
    own: list[msgspec.Raw] = []


_decode_state = msgspec.json.Decoder(_State).decode
_decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class _Question:
    __slots__ = ("digest", "entry", "exchange", "future", "method", "params")

    def __init__(self, exchange: Exchange, method: str, params: dict[str, Any] | None, digest: str) -> None:
        self.exchange = exchange
        self.method = method
        self.params = params
        self.digest = digest
        self.entry: int | None = None
        self.future = exchange.mux.runtime.create_future()


class Replay(Asker):
    """The questions of one request of era M, and the answers that came with it."""

    def __init__(self) -> None:
        super().__init__()
        self._loaded = False
        self._entries: list[_Entry] = []
        self._taken: set[int] = set()
        self._due: list[tuple[Any, dict[str, Any]]] = []
        self._questions: list[_Question] = []
        self._hopping = False
        self._stirred = False
        self._call_soon: Callable[[Callable[[], None]], Any]

    # --- what the request brought ---------------------------------------------------------------------

    def load(self, exchange: Exchange) -> None:
        if self._loaded:
            return
        origin = origin_of(exchange)
        try:
            members = _decode_members(origin.params or b"{}")
            responses = _responses(members)
            token = _token(members)
        except ValueError as exc:
            raise RpcError(INVALID_PARAMS, f"the answers of this request cannot be read: {exc}") from None
        if token is not None:
            self._open(origin, members, token)
        for number, entry in enumerate(self._entries, 1):
            answer = responses.pop(f"q{number}", None) if responses else None
            if answer is not None and bytes(entry.answer) == b"null":
                entry.answer = answer
        if responses is not None:
            self.responses = {key: decode_object(bytes(value)) for key, value in responses.items()}
        self._loaded = True

    def _open(self, origin: Exchange, members: dict[str, msgspec.Raw], token: str) -> None:
        server = origin.mux.gate.server
        limit = server.limits.max_request_state_bytes
        if len(token) > limit:
            text = "requestState is longer than any that was given out"
            raise RpcError(INVALID_PARAMS, text, refusal="max_request_state_bytes")
        if token.startswith(_RAW):
            self.raw_state = token[len(_RAW) :]
            return
        try:
            packed = server.sealer.unseal(_PURPOSE, token, bind=_binding(origin, members))
        except SealExpired:
            raise RpcError(INVALID_PARAMS, "requestState has expired: send the request anew, without it") from None
        except SealError:
            raise RpcError(INVALID_PARAMS, "requestState is not the one given out for this request") from None
        state = _decode_state(_unpack(packed, limit * _EXPANDS))
        self.rounds = state.rounds
        self._entries = state.entries
        self.memos = {key: bytes(value) for key, value in state.memos.items()}
        if state.own:
            self.own_state = msgspec.json.decode(state.own[0])

    # --- questions ------------------------------------------------------------------------------------

    async def ask(
        self, exchange: Exchange, method: str, params: dict[str, Any] | None, *, timeout: float | None = None
    ) -> dict[str, Any]:
        origin = _allowed(exchange)
        if not exchange.open or not origin.open:
            await ended(exchange)
        self.load(exchange)
        question = _Question(exchange, method, params, _digest(method, params))
        for number, entry in enumerate(self._entries):
            if entry.digest == question.digest and number not in self._taken:
                self._taken.add(number)
                question.entry = number
                break
        if question.entry is not None and bytes(self._entries[question.entry].answer) != b"null":
            answer = decode_object(bytes(self._entries[question.entry].answer))
            self._due.append((question.future, answer))
        else:
            self._questions.append(question)
        self._stirred = True
        if not self._hopping:
            self._hopping = True
            self._call_soon = exchange.mux.runtime.call_soon
            self._call_soon(self._hop)
        found: dict[str, Any] = await question.future
        return found

    def _hop(self) -> None:
        """One turn of the loop: answers that are known go out together, in order. When a whole turn brings
        nothing new, what is left has to be asked."""
        due, self._due = self._due, []
        for future, answer in due:
            if not future.done():
                future.set_result(answer)
        open_ones = [question for question in self._questions if not question.future.done()]
        if due or self._stirred:
            self._stirred = False
            if due or open_ones:
                self._call_soon(self._hop)
                return
        self._hopping = False
        self._questions = []
        if open_ones:
            self._leave(open_ones)

    def _leave(self, questions: list[_Question]) -> None:
        """Answers the request with these questions and ends its handler."""
        exchange = questions[0].exchange
        if any(question.exchange is not exchange for question in questions):
            exchange = origin_of(exchange)
        try:
            answer: Any = self._render(exchange, questions)
        except CannotAsk as exc:
            for question in questions:
                question.future.set_exception(exc)
            return
        except Exception as exc:
            answer = exc
        try:
            if isinstance(answer, Exception):
                if isinstance(answer, ReplayMismatch):
                    exchange.mux.gate.server.log.error("%s: %s", _subject(exchange), answer)
                exchange.answer_error(answer)
            else:
                exchange.answer(answer)
        finally:
            if exchange.task is not None:
                exchange.task.cancel()
            for question in questions:
                question.future.cancel()

    def _render(self, exchange: Exchange, questions: list[_Question]) -> RawResult:
        left = [e for n, e in enumerate(self._entries) if n not in self._taken and bytes(e.answer) != b"null"]
        if left:
            asked = questions[0]
            same = "with other params" if any(e.method == asked.method for e in left) else "which was not asked before"
            raise ReplayMismatch(
                f"when it was run again with the answers to {len(self._entries)} earlier questions, the handler asked "
                f"{asked.method} {same}, and not for {len(left)} of these answers; what a handler does before a "
                "question must depend on nothing but its arguments and earlier answers (ctx.record keeps other values)"
            )
        requests = {}
        for question in questions:
            if question.entry is None:
                question.entry = len(self._entries)
                self._entries.append(_Entry(question.digest, question.method))
            requests[f"q{question.entry + 1}"] = _request(question.method, question.params)
        return self._result(exchange, requests, own=None)

    def input_required(self, exchange: Exchange, required: Needs) -> RawResult:
        """The result for a handler that ended with :class:`InputNeeded`."""
        _allowed(exchange)
        self.load(exchange)
        for method, params in required.requests.values():
            check_capability(exchange, method, params or {})
        requests = {key: _request(method, params) for key, (method, params) in required.requests.items()}
        if required.raw:
            return _rendered(exchange, requests, _RAW + required.state)
        return self._result(exchange, requests, own=required.state)

    def _result(self, exchange: Exchange, requests: dict[str, Any], *, own: Any) -> RawResult:
        server = exchange.mux.gate.server
        limits = server.limits
        if self.rounds >= limits.max_input_rounds:
            exchange.mux.runtime.refused("max_input_rounds")
            raise CannotAsk(f"this request asked {self.rounds} times for input (limit max_input_rounds)")
        state = _State(self.rounds + 1, self._entries, {k: msgspec.Raw(v) for k, v in self.memos.items()})
        if own is not None:
            state.own = [msgspec.Raw(_encode(own))]
        # Values of the server and of the client are never compressed together: the length would tell.
        packed = _pack(_encode(state), squeeze=not self.memos and own is None)
        origin = origin_of(exchange)
        members = _decode_members(origin.params or b"{}")
        token = server.sealer.seal(_PURPOSE, packed, bind=_binding(origin, members), lifetime=limits.input_lifetime)
        if len(token) > limits.max_request_state_bytes:
            exchange.mux.runtime.refused("max_request_state_bytes")
            raise CannotAsk("the answers so far are too long to go on asking (limit max_request_state_bytes)")
        return _rendered(exchange, requests, token)

    async def record(self, exchange: Exchange, key: str, make: Callable[[], Any] | Awaitable[Any]) -> Any:
        # Between two turns of the hop a recorded step may run: what it asks afterwards belongs together.
        value = await super().record(exchange, key, make)
        self._stirred = True
        return value


def _allowed(exchange: Exchange) -> Exchange:
    origin = origin_of(exchange)
    method = _method(origin)
    if method not in MAY_ASK or origin.params is None:
        raise CannotAsk(f"{method or 'this request'} cannot ask for input: only {', '.join(sorted(MAY_ASK))} can")
    return origin


def _method(exchange: Exchange) -> str | None:
    return exchange.method


def _subject(exchange: Exchange) -> str:
    members = _decode_members(origin_of(exchange).params or b"{}")
    name = members.get("name", members.get("uri"))
    shown = bytes(name)[:100].decode("utf-8", "replace") if name is not None else ""
    return f"{_method(origin_of(exchange))} {shown}"


def _request(method: str, params: dict[str, Any] | None) -> dict[str, Any]:
    return {"method": method} if params is None else {"method": method, "params": params}


def _rendered(exchange: Exchange, requests: dict[str, Any], token: str) -> RawResult:
    """The result object: not cacheable, so without the members of a cacheable one (MX-37)."""
    body: dict[str, Any] = {"resultType": "input_required"}
    if requests:
        body["inputRequests"] = requests
    body["requestState"] = token
    body["_meta"] = {SERVER_INFO: exchange.mux.gate.server.info}
    return RawResult(_encode(body))


# --- reading and binding -------------------------------------------------------------------------------


def _responses(members: dict[str, msgspec.Raw]) -> dict[str, msgspec.Raw] | None:
    raw = members.get("inputResponses", _NULL)
    if bytes(raw) == b"null":
        return None
    found = _decode_members(raw)
    for key, value in found.items():
        if bytes(value)[:1] != b"{":
            raise ValueError(f"inputResponses: the answer {key[:64]!r} must be an object")
        decode_object(bytes(value))
    return found


def _token(members: dict[str, msgspec.Raw]) -> str | None:
    raw = members.get("requestState", _NULL)
    return None if bytes(raw) == b"null" else msgspec.json.decode(raw, type=str)


def _canonical(value: Any) -> bytes:
    return _encode_sorted(value)


def _binding(origin: Exchange, members: dict[str, msgspec.Raw]) -> bytes:
    """What a state belongs to: the caller, the method, and all params but those that change by round."""
    rest = {k: v for k, v in members.items() if k not in ("_meta", "inputResponses", "requestState")}
    try:
        params = _canonical({key: msgspec.json.decode(value) for key, value in rest.items()})
    except (ValueError, OverflowError):
        params = _encode_sorted(rest)  # numbers that only fit as text
    return b"\0".join((_principal(origin.principal), (_method(origin) or "").encode(), hashlib.sha256(params).digest()))


def _principal(principal: Any) -> bytes:
    if principal is None:
        return b""
    if isinstance(principal, str):
        return b"=" + hashlib.sha256(principal.encode("utf-8", "surrogatepass")).digest()
    try:
        return b"+" + hashlib.sha256(_canonical(principal)).digest()
    except (TypeError, ValueError, OverflowError):
        return b"~" + hashlib.sha256(str(principal).encode("utf-8", "surrogatepass")).digest()


def _digest(method: str, params: dict[str, Any] | None) -> str:
    digest = hashlib.blake2b(method.encode() + b"\0" + _canonical(params), digest_size=12).digest()
    return base64.b64encode(digest).decode("ascii")


def _pack(raw: bytes, *, squeeze: bool) -> bytes:
    if squeeze and len(raw) >= _COMPRESS_FROM:
        small = zlib.compress(raw, 6)
        if len(small) < len(raw) * 0.9:
            return b"z" + small
    return b"j" + raw


def _unpack(packed: bytes, limit: int) -> bytes:
    if packed[:1] != b"z":
        return packed[1:]
    expander = zlib.decompressobj()
    raw = expander.decompress(packed[1:], limit)
    if expander.unconsumed_tail:
        raise RpcError(INVALID_PARAMS, "requestState is too large")
    return raw
