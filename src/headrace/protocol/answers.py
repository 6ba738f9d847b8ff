"""Answers of clients to questions, read and checked the same way in both eras (CF-10, CF-21, CF-31)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from headrace.errors import InvalidAnswer
from headrace.protocol.elicited import Elicited

if TYPE_CHECKING:
    from headrace.protocol.forms import Form
    from headrace.types import CreateMessageResult, Root

__all__ = ("read_elicited", "read_roots", "read_sample")

_encode = msgspec.json.Encoder().encode


def read_elicited(answer: dict[str, Any], form: Form | None) -> Elicited:
    """An ElicitResult; ``form`` is None for a URL. Raises :class:`InvalidAnswer`."""
    action = answer.get("action")
    if action not in ("accept", "decline", "cancel"):
        raise InvalidAnswer("the answer to elicitation/create must have the action accept, decline or cancel")
    if action != "accept" or form is None:
        return Elicited(action)
    return Elicited(action, form.read(answer.get("content")))


def _read(answer: dict[str, Any], name: str, method: str) -> Any:
    from headrace import types

    kind = getattr(types, name)
    raw = _encode(answer)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError:
        try:
            return types.decode_relaxed(raw, kind)
        except msgspec.ValidationError as exc:
            raise InvalidAnswer(f"the answer to {method} is not valid: {exc}") from None


def read_sample(answer: dict[str, Any]) -> CreateMessageResult:
    """A CreateMessageResult. Raises :class:`InvalidAnswer`."""
    found: CreateMessageResult = _read(answer, "CreateMessageResult", "sampling/createMessage")
    return found


def read_roots(answer: dict[str, Any]) -> list[Root]:
    """The roots of a ListRootsResult: ``file://`` URIs (CF-10). Raises :class:`InvalidAnswer`."""
    roots: list[Root] = _read(answer, "ListRootsResult", "roots/list").roots
    for root in roots:
        if not root.uri.startswith("file://"):
            raise InvalidAnswer("the answer to roots/list is not valid: a root must be a file:// URI")
    return roots
