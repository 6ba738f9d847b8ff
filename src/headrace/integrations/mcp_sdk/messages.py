"""JSON-RPC messages as the official SDK carries them between its transports and sessions, both generations.

Strategy: one decoder pass of ours tells the kinds apart and makes the dicts; the SDK's own model classes are
then filled from them. What the pass refuses goes to the SDK's own parser, so that odd input gives exactly the
message or the exception it gives there.
"""

from __future__ import annotations

import logging
from typing import Any

import msgspec

from headrace.integrations.mcp_sdk.require import GENERATION, ClientMessageMetadata, SessionMessage, types

__all__ = (
    "ClientMessageMetadata", "SessionMessage", "answer", "content", "error_message", "message_of",
    "wire",
)  # fmt: skip

log = logging.getLogger("headrace.mcp")

_Request = types.JSONRPCRequest
_Notification = types.JSONRPCNotification
_Response = types.JSONRPCResponse
_Error = types.JSONRPCError
_ErrorData = types.ErrorData


class _Wire(msgspec.Struct):
    """Every member that a message may have."""

    jsonrpc: str | None = None
    id: int | str | msgspec.UnsetType | None = msgspec.UNSET
    method: str | msgspec.UnsetType = msgspec.UNSET
    params: dict[str, Any] | msgspec.UnsetType | None = msgspec.UNSET
    result: dict[str, Any] | msgspec.UnsetType = msgspec.UNSET
    error: Any = msgspec.UNSET


_decode = msgspec.json.Decoder(_Wire).decode
_UNSET = msgspec.UNSET


if GENERATION == 2:
    _parse = types.jsonrpc_message_adapter.validate_json

    def _wrap(model: Any) -> SessionMessage:
        return SessionMessage(model)

    def content(message: SessionMessage) -> Any:
        """The request, notification, response or error inside."""
        return message.message

    def wire(message: Any) -> bytes:
        """A message as one line of JSON."""
        body: bytes = message.__pydantic_serializer__.to_json(message, by_alias=True, exclude_unset=True)
        return body

else:
    _parse = types.JSONRPCMessage.model_validate_json

    def _wrap(model: Any) -> SessionMessage:
        return SessionMessage(types.JSONRPCMessage(model))

    def content(message: SessionMessage) -> Any:
        """The request, notification, response or error inside."""
        return message.message.root

    def wire(message: Any) -> bytes:
        """A message as one line of JSON."""
        body: bytes = message.__pydantic_serializer__.to_json(message, by_alias=True, exclude_none=True)
        return body


def message_of(raw: bytes) -> SessionMessage | Exception:
    """What a read stream gives for one message: the exception, when it is none."""
    try:
        found = _decode(raw)
        if found.jsonrpc == "2.0":
            if found.method is not _UNSET:
                if found.id is _UNSET:
                    if found.params is _UNSET:
                        return _wrap(_Notification(jsonrpc="2.0", method=found.method))
                    return _wrap(_Notification(jsonrpc="2.0", method=found.method, params=found.params))
                if found.id is not None:
                    if found.params is _UNSET:
                        return _wrap(_Request(jsonrpc="2.0", id=found.id, method=found.method))
                    return _wrap(_Request(jsonrpc="2.0", id=found.id, method=found.method, params=found.params))
            elif found.result is not _UNSET and found.id is not _UNSET and found.id is not None:
                return _wrap(_Response(jsonrpc="2.0", id=found.id, result=found.result))
    except (ValueError, RecursionError):  # msgspec's and pydantic's are the first
        pass
    try:
        parsed = _parse(raw)
    except ValueError as exc:
        log.warning("a message of the server could not be read: %s", str(exc)[:500])
        return exc
    return SessionMessage(parsed)


def answer(id: int | str, result: dict[str, Any]) -> SessionMessage:
    """The answer to a request."""
    return _wrap(_Response(jsonrpc="2.0", id=id, result=result))


def error_message(id: int | str, code: int, text: str, data: Any = None) -> SessionMessage:
    """An error answer to a request."""
    error = _ErrorData(code=code, message=text) if data is None else _ErrorData(code=code, message=text, data=data)
    return _wrap(_Error(jsonrpc="2.0", id=id, error=error))
