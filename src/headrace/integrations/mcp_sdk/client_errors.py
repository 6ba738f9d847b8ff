"""What a request is answered with that got no answer: the errors that the SDK's own HTTP transport makes."""

from __future__ import annotations

import logging
from typing import Any

from headrace.errors import (
    ConnectFailed,
    ConnectionClosed,
    HttpStatusError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
)
from headrace.integrations.mcp_sdk.require import GENERATION
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from headrace.transports.plain.exchange import decode

__all__ = ("error_of",)

log = logging.getLogger("headrace.mcp")

_CLOSED = -32000
_TIMEOUT = -32001 if GENERATION == 2 else 408


def error_of(exc: BaseException, *, session: bool) -> tuple[int, str, Any]:
    """Code, message and data of the error for ``exc``; ``session``: the request was sent in one."""
    if isinstance(exc, RpcError):
        return exc.code, exc.message, exc.data
    log.debug("a request failed: %s", exc)
    if isinstance(exc, HttpStatusError):
        return _status(exc, session)
    if isinstance(exc, RequestTimeout):
        return _TIMEOUT, str(exc), None
    if isinstance(exc, ConnectionClosed | ConnectFailed):
        return _CLOSED, str(exc), None
    if isinstance(exc, RemoteProtocolError):
        return PARSE_ERROR, f"Failed to parse JSON response: {exc}", None
    return INTERNAL_ERROR, str(exc) or type(exc).__name__, None


def _status(exc: HttpStatusError, session: bool) -> tuple[int, str, Any]:
    status = exc.status
    if status == 202:
        return INVALID_REQUEST, "server answered a request with 202 Accepted", None
    if status < 300:
        return INVALID_REQUEST, f"Unexpected content type: {exc.headers.get('content-type', '')}", None
    if status < 400:
        return INVALID_REQUEST, str(exc), None
    if exc.body.lstrip().startswith("{"):
        try:
            error = decode(exc.body.encode())["error"]
            return int(error["code"]), str(error["message"]), error.get("data")
        except (ValueError, TypeError, KeyError, AttributeError):
            pass
    if status == 404:
        if GENERATION == 1:
            return 32600, "Session terminated", None
        if session:
            return INVALID_REQUEST, "Session terminated", None
        return METHOD_NOT_FOUND, "Not Found", None
    return INTERNAL_ERROR, "Server returned an error response", None
