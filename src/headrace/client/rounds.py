"""Client input of the modern era: reading ``input_required`` results and answering them (MX-30..MX-38)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.arguments import as_object, encode
from headrace.client.inputs import ELICITATION, ROOTS, SAMPLING
from headrace.client.results import decode_any
from headrace.errors import InputRefused, InputRequired, RemoteProtocolError, RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R5
from headrace.protocol.elicited import Elicited

if TYPE_CHECKING:
    from headrace.client.inputs import Inputs

__all__ = (
    "InputAsked", "RequestState", "answer_all", "continuation", "given_answers", "read_asked", "read_questions",
)  # fmt: skip

_METHODS = (ELICITATION, SAMPLING, ROOTS)


class RequestState(str):
    """The server's opaque state. ``token`` is its exact JSON text, which goes back unchanged (MX-33)."""

    __slots__ = ("token",)
    token: bytes

    def __new__(cls, token: bytes) -> RequestState:
        try:
            text = decode_any(token)
        except msgspec.DecodeError:
            text = None  # escapes that are no text: the token is all that counts
        self = super().__new__(cls, text if isinstance(text, str) else token.decode("utf-8", "replace"))
        self.token = token
        return self


class InputAsked:
    """An ``input_required`` result: the questions by key as (method, raw params), and the state or None."""

    __slots__ = ("questions", "state")

    def __init__(self, questions: dict[str, tuple[str, bytes]], state: RequestState | None) -> None:
        self.questions = questions
        self.state = state

    def required(self, method: str) -> InputRequired:
        """The exception for questions that nobody here answers."""
        kinds = ", ".join(sorted({kind for kind, _ in self.questions.values()}))
        requests = {
            key: {"method": kind, "params": decode_any(params)} for key, (kind, params) in self.questions.items()
        }
        text = f"{method}: the server asks for client input ({kinds}), which this client does not offer"
        return InputRequired(text, requests, self.state)


class _Wire(msgspec.Struct, rename="camel"):
    input_requests: msgspec.Raw = msgspec.Raw()
    request_state: msgspec.Raw = msgspec.Raw()


class _Question(msgspec.Struct):
    method: str
    params: msgspec.Raw = msgspec.Raw(b"{}")


_read_wire = msgspec.json.Decoder(_Wire).decode
_read_questions = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_read_question = msgspec.json.Decoder(_Question).decode


def read_asked(raw: bytes) -> InputAsked:
    """Reads an ``input_required`` result. Raises ValueError in plain words for what is none."""
    wire = _read_wire(raw)
    questions: dict[str, tuple[str, bytes]] = {}
    requests, state = bytes(wire.input_requests), bytes(wire.request_state)
    if requests not in (b"", b"null"):
        questions = read_questions(requests)
    if state in (b"", b"null"):
        if not questions:
            raise ValueError("input_required names neither inputRequests nor a requestState")
        return InputAsked(questions, None)
    if state[:1] != b'"':
        raise ValueError("requestState is not a string")
    return InputAsked(questions, RequestState(state))


def read_questions(raw: bytes) -> dict[str, tuple[str, bytes]]:
    """``inputRequests`` by key as (method, raw params). Raises ValueError in plain words."""
    if raw[:1] != b"{":
        raise ValueError("inputRequests is not an object")
    return {key: _question(key, bytes(each)) for key, each in _read_questions(raw).items()}


def _question(key: str, raw: bytes) -> tuple[str, bytes]:
    where = f"input request {key[:64]!r}"
    try:
        question = _read_question(raw)
    except msgspec.ValidationError as exc:
        raise ValueError(f"{where}: {exc}") from None
    if question.method not in _METHODS:
        raise ValueError(f"{where}: {question.method[:64]!r} is no kind of client input")
    params = bytes(question.params)
    if params == b"null":
        params = b"{}"
    if params[:1] != b"{":
        raise ValueError(f"{where}: params is not an object")
    return question.method, params


def continuation(answers: bytes, state: str | None) -> bytes:
    """The members that a repeated request has on top of the original ones (MX-32): ``answers`` is a JSON
    object or empty; the state goes along if and only if the last result had one."""
    parts = []
    if answers:
        parts.append(b'"inputResponses":' + answers)
    if state is not None:
        parts.append(b'"requestState":' + (state.token if isinstance(state, RequestState) else encode(str(state))))
    return b",".join(parts)


def given_answers(answers: Mapping[str, Any] | None) -> bytes:
    """Answers that a caller gives by hand, as a JSON object; empty bytes for None."""
    if answers is None:
        return b""
    parts = []
    for key, answer in answers.items():
        if isinstance(answer, Elicited):
            answer = {"action": answer.action} | ({} if answer.content is None else {"content": answer.content})
        parts.append(encode(key) + b":" + as_object(answer, f"the answer to {key!r}"))
    return b"{" + b",".join(parts) + b"}"


async def answer_all(inputs: Inputs, method: str, asked: InputAsked) -> bytes:
    """The answers to all questions, made at the same time, as a JSON object.

    Raises :class:`InputRequired` when one has no callback (then no callback is called at all),
    :class:`InputRefused` when one is refused or its callback fails, :class:`RemoteProtocolError` when a
    question breaks the rules.
    """
    for kind, params in asked.questions.values():
        if not inputs.can_answer(kind, params):
            raise asked.required(method)
    tasks = [
        asyncio.ensure_future(_answer(inputs, method, kind, params)) for kind, params in asked.questions.values()
    ]
    try:
        answers = await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        for task in tasks:
            if not task.cancelled():
                task.exception()
        raise
    return b"{" + b",".join(encode(key) + b":" + a for key, a in zip(asked.questions, answers, strict=True)) + b"}"


async def _answer(inputs: Inputs, method: str, kind: str, params: bytes) -> bytes:
    try:
        return await inputs.answer(kind, params, revision=R5)
    except InputRefused:
        raise
    except RpcError as exc:
        if exc.code == INVALID_PARAMS:
            raise RemoteProtocolError(f"{method}: the server's question is not valid: {exc.message}") from exc
        raise InputRefused(f"{method}: {kind} was refused: {exc}") from exc
    except UsageError:
        raise
    except Exception as exc:
        # There is no way to tell the server (MX-38): the call ends here, with the callback's own exception.
        raise InputRefused(f"{method}: the callback for {kind} raised {type(exc).__name__}: {exc}") from exc
