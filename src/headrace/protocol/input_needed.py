"""The explicit form: a handler that ends with what it needs, and is run again with the answers.

One handler serves both eras: where there is a live channel its questions are put as requests, and it is
run again here; where there is none, the client's retry runs it again.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from headrace.errors import HeadraceError, InvalidAnswer, RpcError, ToolError, UsageError
from headrace.jsonrpc import R4, R5
from headrace.protocol.answers import read_elicited, read_roots, read_sample
from headrace.protocol.asking import ELICIT, ROOTS, SAMPLE, asker_of, client_capabilities
from headrace.protocol.elicited import Elicited
from headrace.protocol.forms import form_of
from headrace.protocol.sampling import sampling_params
from headrace.protocol.urls import check_url

if TYPE_CHECKING:
    from headrace.mux import Exchange, RawResult
    from headrace.types import CreateMessageResult, Root

__all__ = ("Answers", "InputNeeded", "Needs", "Question", "UrlElicitationRequired", "ask_elicit", "ask_elicit_url",
           "ask_roots", "ask_sample")  # fmt: skip

URL_ELICITATION_REQUIRED = -32042


class Question(tuple[str, Any]):
    """One question of an :class:`InputNeeded`: made by :func:`ask_elicit` and its like."""

    __slots__ = ()


def ask_elicit(message: str, schema: Any = None) -> Question:
    """A form for the user; ``schema`` as for :meth:`headrace.Context.elicit`, in the newest notation."""
    return Question((ELICIT, {"mode": "form", "message": message, "requestedSchema": form_of(schema)}))


def ask_elicit_url(message: str, url: str, elicitation_id: str | None = None) -> Question:
    """A URL for the user to open. ``elicitation_id`` goes to clients of 2025-11-25 and is required there."""
    made = {"mode": "url", "message": message, "url": check_url(url)}
    return Question((ELICIT, made if elicitation_id is None else {**made, "elicitationId": elicitation_id}))


def ask_sample(messages: Any, *, max_tokens: int, system: str | None = None, **options: Any) -> Question:
    """A sampling request; options as for :meth:`headrace.Context.sample`."""
    rest = dict.fromkeys(
        ("temperature", "stop_sequences", "model_preferences", "include_context", "metadata", "tools", "tool_choice")
    )
    unknown = options.keys() - rest.keys()
    if unknown:
        raise UsageError(f"ask_sample: unknown option {min(unknown)!r}; there are {', '.join(rest)}")
    options = {**rest, **options}
    return Question((SAMPLE, sampling_params(messages, revision=R5, max_tokens=max_tokens, system=system, **options)))


def ask_roots() -> Question:
    """The client's roots."""
    return Question((ROOTS, None))


class Needs(NamedTuple):
    """An :class:`InputNeeded` as an asker takes it: params fit for the client's revision."""

    requests: dict[str, tuple[str, dict[str, Any] | None]]
    state: Any
    raw: bool


class InputNeeded(HeadraceError):
    """Returned or raised by a handler: what it needs before it can go on (MX-30).

    :param requests: questions by key, made with :func:`ask_elicit`, :func:`ask_elicit_url`,
        :func:`ask_sample` and :func:`ask_roots`.
    :param state: any JSON value; the next run finds it in ``ctx.request_state``. It is sealed, and bound to
        the caller and the request. Without requests the client retries by itself.
    :param state_raw: sends ``state``, a str, as it is: anybody can read and forge it; the next run finds it
        in ``ctx.raw_request_state`` (MX-35).
    """

    def __init__(
        self, requests: Mapping[str, Question] | None = None, *, state: Any = None, state_raw: bool = False
    ) -> None:
        super().__init__("input is required")
        self.requests: dict[str, Question] = dict(requests or {})
        self.state = state
        self.raw = state_raw
        for key, question in self.requests.items():
            if not isinstance(key, str) or not isinstance(question, Question):
                raise UsageError("InputNeeded: requests map texts to ask_elicit(...), ask_sample(...), ask_roots()")
        if not self.requests and state is None:
            raise UsageError("InputNeeded: give requests, state, or both")
        if state_raw and not isinstance(state, str):
            raise UsageError("InputNeeded: a raw state must be a str")

    def answer_for(self, exchange: Exchange) -> Exception | RawResult | None:
        """What the request is answered with; None when it goes on."""
        revision = exchange.revision.name
        try:
            fitted = {key: (method, _fit(method, params, revision)) for key, (method, params) in self.requests.items()}
            return asker_of(exchange).input_required(exchange, Needs(fitted, self.state, self.raw))
        except RpcError as exc:
            return exc
        except HeadraceError as exc:
            own = getattr(type(exc), "answer_for", None)
            if own is None:
                raise
            answer: Exception = own(exc, exchange)
            return answer


def _fit(method: str, params: Any, revision: str) -> Any:
    """The params of a question as a client of ``revision`` takes them."""
    if method != ELICIT:
        return params
    made = dict(params)
    if "requestedSchema" in made and not isinstance(made["requestedSchema"], dict):
        made["requestedSchema"] = made["requestedSchema"].schema(revision)
    if revision < R4 and made["mode"] == "form":
        del made["mode"]
    if revision != R4:
        made.pop("elicitationId", None)
    elif made["mode"] == "url" and "elicitationId" not in made:
        made["elicitationId"] = secrets.token_urlsafe(16)
    return made


class UrlElicitationRequired(HeadraceError):
    """Raised by a handler that cannot work before its user has been to a URL (CF-32).

    Clients of 2025-11-25 get error -32042, those of 2026-07-28 an input-required result with the same
    URL; older ones know no such thing: a tool call fails with a text that names the URL.
    """

    def __init__(self, message: str, url: str, elicitation_id: str) -> None:
        super().__init__(f"{message} Open {url} and try again.")
        self.message = message
        self.url = check_url(url)
        self.elicitation_id = elicitation_id

    def answer_for(self, exchange: Exchange) -> Exception | RawResult | None:
        """What the request is answered with."""
        revision = exchange.revision.name
        if revision == R5:
            question = ask_elicit_url(self.message, self.url)
            return InputNeeded({"url": question}).answer_for(exchange)
        modes = client_capabilities(exchange).get("elicitation")
        if revision == R4 and isinstance(modes, dict) and "url" in modes:
            asked = {"mode": "url", "message": self.message, "url": self.url, "elicitationId": self.elicitation_id}
            text = "This request requires more information."
            return RpcError(URL_ELICITATION_REQUIRED, text, {"elicitations": [asked]})
        return ToolError(str(self))


class Answers(Mapping[str, Any]):
    """Answers to the requests of an :class:`InputNeeded`, by key: the raw result objects, and typed readers.

    The client may have left some out (MX-36): the readers give None for these.
    """

    def __init__(self, found: dict[str, Any]) -> None:
        self._found = found

    def __repr__(self) -> str:
        return f"<Answers to {', '.join(self._found) or 'nothing'}>"

    def __getitem__(self, key: str) -> Any:
        return self._found[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._found)

    def __len__(self) -> int:
        return len(self._found)

    def _object(self, key: str) -> dict[str, Any] | None:
        value = self._found.get(key)
        if value is not None and not isinstance(value, dict):
            raise InvalidAnswer(f"the answer {key!r} must be an object")
        return value

    def elicited(self, key: str, schema: Any = None) -> Elicited | None:
        """The answer to a form or URL; ``schema`` as it was asked with. Raises :class:`InvalidAnswer`."""
        value = self._object(key)
        return None if value is None else read_elicited(value, form_of(schema))

    def sampled(self, key: str) -> CreateMessageResult | None:
        """The answer to a sampling request. Raises :class:`InvalidAnswer`."""
        value = self._object(key)
        return None if value is None else read_sample(value)

    def roots(self, key: str) -> list[Root] | None:
        """The client's roots. Raises :class:`InvalidAnswer`."""
        value = self._object(key)
        return None if value is None else read_roots(value)
