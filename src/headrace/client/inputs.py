"""What the server may ask of the client: roots, sampling, elicitation (CF-01..CF-34).

One :class:`Inputs` answers the questions of a connection in both eras. In the handshake era they are requests
of the server; in the modern era they come in results (see :mod:`headrace.client.rounds`). It never refers to
the client, so that a client that is dropped is closed.
"""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.arguments import as_object, encode
from headrace.client.results import read_relaxed
from headrace.errors import InputRefused, RpcError, UsageError
from headrace.jsonrpc import INVALID_PARAMS, R4
from headrace.mux import Exchange, FunctionHandler
from headrace.protocol.elicited import Elicited
from headrace.protocol.urls import may_be_opened
from headrace.types import Message
from headrace.types.v2026_07_28 import CreateMessageRequestParams, CreateMessageResult, Root, TextContent

if TYPE_CHECKING:
    from headrace.limits import Limits

__all__ = ("ElicitParams", "Inputs", "as_roots", "root_uri")

ROOTS = "roots/list"
SAMPLING = "sampling/createMessage"
ELICITATION = "elicitation/create"

REFUSED = -1
"""The code for what the user rejects (CF-23)."""
MODES = ("form", "url")
SAMPLING_PARTS = ("tools", "context")


class ElicitParams(Message, kw_only=True, rename="camel"):
    """What an elicitation asks of the user (CF-30, CF-32)."""

    message: str
    """What to show to the user."""
    mode: str = "form"
    """``"form"`` or ``"url"``; only those that ``elicitation_modes`` names arrive."""
    requested_schema: dict[str, Any] = msgspec.field(default_factory=dict)
    """The form: a flat JSON Schema object, as the server sent it."""
    url: str | None = None
    """Where the user has to go; show it whole, open it only after consent (CF-34). Others than ``https://``, and
    ``http://`` of this machine, are refused before the callback is asked (SE-06)."""
    elicitation_id: str | None = None
    """2025-11-25 only: named by ``notifications/elicitation/complete``."""


_read_elicit = read_relaxed(ElicitParams)
_read_sampling = read_relaxed(CreateMessageRequestParams)


def root_uri(value: Any) -> str:
    """A root as a ``file://`` URI: a path, or such a URI. Raises :class:`UsageError` for others (CF-10)."""
    if isinstance(value, str) and value.lower().startswith("file://"):
        return value
    if isinstance(value, str) and "://" in value:
        raise UsageError(f"a root must be a path or a file:// URI, not {value[:100]!r}")
    if isinstance(value, str | os.PathLike):
        return Path(os.path.abspath(os.fspath(value))).as_uri()
    raise UsageError(f"a root must be a path, a file:// URI or a Root, not {type(value).__name__}")


def as_roots(values: Any) -> list[Root]:
    """Roots from paths, ``file://`` URIs, mappings and :class:`headrace.types.Root` objects.

    Raises :class:`UsageError` for anything else.
    """
    if isinstance(values, str | os.PathLike) or not isinstance(values, Iterable):
        raise UsageError("roots must be a list of paths, file:// URIs or Root objects, or a function that gives one")
    roots = []
    for value in values:
        if isinstance(value, Mapping):
            try:
                value = msgspec.convert(dict(value), Root)
            except msgspec.ValidationError as exc:
                raise UsageError(f"a root: {exc}") from None
        if isinstance(value, Root):
            root_uri(value.uri)
            if "://" not in value.uri:
                value = msgspec.structs.replace(value, uri=root_uri(value.uri))
            roots.append(value)
        else:
            roots.append(Root(uri=root_uri(value)))
    return roots


class Inputs:
    """The callbacks that answer, and what is declared because of them (CF-02)."""

    def __init__(
        self,
        *,
        limits: Limits,
        roots: Any = None,
        sampling: Callable[[CreateMessageRequestParams], Any] | None = None,
        elicitation: Callable[[ElicitParams], Any] | None = None,
        elicitation_modes: Sequence[str] = ("form",),
        sampling_parts: Sequence[str] = (),
        declared: Mapping[str, Any] | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> None:
        for mode in (elicitation_modes,) if isinstance(elicitation_modes, str) else elicitation_modes:
            if mode not in MODES:
                raise UsageError(f"elicitation mode {mode!r}: use form, url or both")
        for part in (sampling_parts,) if isinstance(sampling_parts, str) else sampling_parts:
            if part not in SAMPLING_PARTS:
                raise UsageError(f"sampling feature {part!r}: use tools, context or both")
        for callback, name in ((sampling, "sampling"), (elicitation, "elicitation")):
            if callback is not None and not callable(callback):
                raise UsageError(f"{name} must be a function, not {type(callback).__name__}")
        for key, settings in (extensions or {}).items():
            if not isinstance(key, str) or "/" not in key or not isinstance(settings, Mapping):
                raise UsageError(f"extension {key!r}: use {{'vendor/name': {{settings}}}} (VN-31)")
        self.modes = tuple(MODES[i] for i in range(2) if MODES[i] in elicitation_modes)
        self.parts = tuple(sampling_parts) if not isinstance(sampling_parts, str) else (sampling_parts,)
        self._roots = roots if roots is None or callable(roots) else as_roots(roots)
        self._sampling = sampling
        self._elicitation = elicitation
        self._declared = dict(declared or {})
        self._extensions = dict(extensions or {})
        self._places = asyncio.Semaphore(limits.max_server_requests)

    # --- what is declared ----------------------------------------------------------------------------

    def capabilities(self, *, modern: bool) -> dict[str, Any]:
        """The client's capabilities object of one era (CF-02)."""
        found: dict[str, Any] = dict(self._declared)
        if self._roots is not None:
            found["roots"] = {} if modern else {"listChanged": True}
        if self._sampling is not None:
            found["sampling"] = {part: {} for part in SAMPLING_PARTS if part in self.parts}
        if self._elicitation is not None and self.modes:
            found["elicitation"] = {mode: {} for mode in self.modes}
        if self._extensions:
            found["extensions"] = {**found.get("extensions", {}), **self._extensions}
        return found

    @property
    def methods(self) -> list[str]:
        """The methods that have a callback."""
        found = ((ROOTS, self._roots), (SAMPLING, self._sampling), (ELICITATION, self._elicitation))
        return [method for method, callback in found if callback is not None]

    def handlers(self) -> dict[bytes, FunctionHandler]:
        """What serves the server's requests of the handshake era."""
        return {method.encode(): FunctionHandler(self._handler(method)) for method in self.methods}

    def _handler(self, method: str) -> Callable[[Exchange], Any]:
        async def serve(exchange: Exchange) -> bytes:
            mux = exchange.mux
            mux.asked += 1  # the server cannot go on meanwhile: its answers have time
            try:
                return await self.answer(method, exchange.params or b"{}", revision=exchange.revision.name)
            except InputRefused as exc:
                raise RpcError(REFUSED, str(exc) or "refused by the user") from None
            finally:
                mux.asked -= 1

        return serve

    def set_roots(self, roots: Any) -> None:
        """Replaces the roots. Raises :class:`UsageError` when none were declared."""
        if self._roots is None:
            raise UsageError("roots were not declared: pass roots=[...] to connect()")
        self._roots = roots if callable(roots) else as_roots(roots)

    @property
    def has_roots(self) -> bool:
        """Whether roots were declared."""
        return self._roots is not None

    # --- answers -------------------------------------------------------------------------------------

    def can_answer(self, method: str, params: bytes) -> bool:
        """Whether there is a callback for this question, its mode included (CF-33)."""
        if method not in self.methods:
            return False
        if method != ELICITATION:
            return True
        try:
            return _read_elicit(params).mode in self.modes
        except msgspec.MsgspecError:
            return True  # answer() says what is wrong

    async def answer(self, method: str, params: bytes, *, revision: str) -> bytes:
        """The bare result object for one question.

        Raises :class:`RpcError` for a question that breaks the rules and for errors that callbacks raise as
        such, :class:`InputRefused` for a refusal, and whatever else a callback raises.
        """
        async with self._places:
            if method == ROOTS:
                return await self._list_roots()
            if method == SAMPLING:
                return await self._sample(params, revision)
            return await self._elicit(params)

    async def _list_roots(self) -> bytes:
        roots = self._roots
        if callable(roots):
            roots = as_roots(await _result(roots()))
        return encode({"roots": roots})

    async def _sample(self, raw: bytes, revision: str) -> bytes:
        from headrace.client.sampling import check_messages

        try:
            params = _read_sampling(raw)
        except msgspec.MsgspecError as exc:
            raise RpcError(INVALID_PARAMS, f"{SAMPLING}: {exc}") from None
        if "tools" not in self.parts and revision >= R4 and (params.tools or params.tool_choice):
            raise RpcError(INVALID_PARAMS, "this client does not declare sampling.tools (CF-22)")
        check_messages(params.messages)
        assert self._sampling is not None
        result = await _result(self._sampling(params))
        if result is None:
            raise InputRefused("sampling was refused")
        if isinstance(result, str):
            result = CreateMessageResult(role="assistant", content=TextContent(text=result), model="unknown")
        answer = as_object(result, "the sampling callback's result")
        try:
            _read_result(answer)
        except msgspec.ValidationError as exc:
            raise UsageError(f"the sampling callback's result: {exc}") from None
        return answer

    async def _elicit(self, raw: bytes) -> bytes:
        from headrace.client.forms import check_content, with_defaults

        try:
            params = _read_elicit(raw)
        except msgspec.MsgspecError as exc:
            raise RpcError(INVALID_PARAMS, f"{ELICITATION}: {exc}") from None
        if params.mode not in self.modes:
            raise RpcError(INVALID_PARAMS, f"this client does not declare elicitation mode {params.mode[:32]!r}")
        if params.mode == "url":
            if not params.url:
                raise RpcError(INVALID_PARAMS, f"{ELICITATION}: mode url without a url")
            if not may_be_opened(params.url):
                wrong = "is neither https nor an address of this machine, or has a password in it"
                raise RpcError(INVALID_PARAMS, f"{ELICITATION}: nobody is shown {params.url[:200]!r}: it {wrong}")
        assert self._elicitation is not None
        try:
            answer = as_elicited(await _result(self._elicitation(params)), params)
        except InputRefused:
            answer = Elicited("decline")  # there is an answer for this one (MX-38)
        if answer.action != "accept":
            return b'{"action":"%b"}' % answer.action.encode()
        if params.mode == "url":
            return b'{"action":"accept"}'
        content = with_defaults(params.requested_schema, msgspec.to_builtins(answer.content or {}))
        check_content(params.requested_schema, content)
        return encode({"action": "accept", "content": content})


_read_result = read_relaxed(CreateMessageResult)


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def as_elicited(value: Any, params: ElicitParams) -> Elicited:
    """What an elicitation callback gave, as :class:`Elicited`: that itself, None or False for no answer,
    True for consent, a mapping or Struct with the form's values, or an object of the wire's shape."""
    if isinstance(value, Elicited):
        answer = value
    elif value is None or value is False:
        answer = Elicited("cancel" if value is None else "decline")
    elif value is True:
        answer = Elicited("accept", {})
    elif isinstance(value, str):
        answer = Elicited(value)  # type: ignore[arg-type]
    else:
        content = msgspec.to_builtins(value)
        shape = isinstance(content, dict) and content.get("action") in ("accept", "decline", "cancel")
        if shape and "action" not in (params.requested_schema.get("properties") or {}):
            answer = Elicited(content["action"], content.get("content"))
        else:
            answer = Elicited("accept", content)
    if answer.action not in ("accept", "decline", "cancel"):
        raise UsageError(f"elicitation action {answer.action!r}: use accept, decline or cancel")
    if answer.content is not None and not isinstance(msgspec.to_builtins(answer.content), dict):
        raise UsageError("the content of an elicitation must be an object with the form's values")
    return answer


