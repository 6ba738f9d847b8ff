"""The messages of mcp 1.x, made as cheaply as their sessions allow.

Strategy: a session turns each message of its read stream into a dict again and validates that dict against the
union of all requests. Here the model of a message carries the decoded dict, which "dumping" it gives back as it
is; and where the method names one model of the union, that model alone validates it: the outcome is the same,
because the models of the union differ in their literal ``method``.
"""

from __future__ import annotations

from typing import Any, get_args

from mcp.shared.message import ServerMessageMetadata, SessionMessage
from mcp.types import (
    ClientNotification,
    ClientRequest,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

__all__ = ("METHODS", "answer", "note", "refusal", "request")

_NAMES = frozenset({"jsonrpc", "method", "params", "id"})
_set = object.__setattr__


def _models(union: Any) -> dict[str, Any]:
    """The models of a union by their method; a method that two of them have is left out."""
    found: dict[str, Any] = {}
    for model in get_args(union.model_fields["root"].annotation):
        for method in get_args(model.model_fields["method"].annotation):
            found[method] = None if method in found else model
    return found


METHODS = _models(ClientRequest)
"""What clients may ask for, by method; None where only the whole union can tell."""
_NOTES = _models(ClientNotification)


def _bare(cls: Any, values: dict[str, Any], extra: Any) -> Any:
    """A model of values that need no validation (as ``model_construct``, which looks at every field)."""
    made = cls.__new__(cls)
    _set(made, "__dict__", values)
    _set(made, "__pydantic_fields_set__", _NAMES)
    _set(made, "__pydantic_extra__", extra)
    _set(made, "__pydantic_private__", None)
    return made


def _validated(union: Any, models: dict[str, Any], values: dict[str, Any]) -> Any:
    model = models.get(values["method"])
    if model is None:
        return values
    return _bare(union, {"root": model.model_validate(values)}, None)


class _Request(JSONRPCRequest):
    """A request as it came; its session gets it validated."""

    def model_dump(self, **options: Any) -> Any:
        return _validated(ClientRequest, METHODS, dict(self.__dict__))


class _Notification(JSONRPCNotification):
    """A notification as it came."""

    def model_dump(self, **options: Any) -> Any:
        return _validated(ClientNotification, _NOTES, dict(self.__dict__))


def _message(root: Any, metadata: ServerMessageMetadata | None = None) -> SessionMessage:
    return SessionMessage(_bare(JSONRPCMessage, {"root": root}, None), metadata)


def request(id: str | int, method: str, params: Any, metadata: ServerMessageMetadata | None = None) -> SessionMessage:
    """A request of the client."""
    values = {"method": method, "jsonrpc": "2.0", "id": id}
    if params is not None:
        values["params"] = params
    return _message(_bare(_Request, values, {}), metadata)


def note(method: str, params: Any, metadata: ServerMessageMetadata | None = None) -> SessionMessage:
    """A notification of the client."""
    values = {"method": method, "jsonrpc": "2.0"}
    if params is not None:
        values["params"] = params
    return _message(_bare(_Notification, values, {}), metadata)


def answer(id: str | int, result: Any) -> SessionMessage:
    """The client's answer to a request of the server."""
    return _message(_bare(JSONRPCResponse, {"jsonrpc": "2.0", "id": id, "result": result}, {}))


def refusal(id: str | int, code: int, message: str, data: Any = None) -> SessionMessage:
    """An error as the answer to a request of the server."""
    error = ErrorData(code=code, message=message, data=data)
    return _message(JSONRPCError(jsonrpc="2.0", id=id, error=error))
