"""Errors on their way between the SDK and the wire."""

from __future__ import annotations

import logging

import pydantic_core
from mcp.shared.exceptions import MCPError
from mcp.shared.inbound import ERROR_CODE_HTTP_STATUS
from mcp.shared.jsonrpc_dispatcher import handler_exception_to_error_data
from mcp_types import CONNECTION_CLOSED, INTERNAL_ERROR, REQUEST_TIMEOUT, ErrorData

from headrace.errors import ConnectionClosed, HeadraceError, RequestTimeout, RpcError

__all__ = ("handshake_error", "mcp_error", "rpc_error")

_log = logging.getLogger("headrace.host")


def rpc_error(error: ErrorData, *, over_http: bool = False) -> RpcError:
    """The answer that an ErrorData means; ``over_http``: with the status of its code in the modern era."""
    data = error.data
    if data is not None and not isinstance(data, (str, int, float, bool)):
        data = pydantic_core.to_jsonable_python(data, by_alias=True, fallback=str)
    status = ERROR_CODE_HTTP_STATUS.get(error.code) if over_http else None
    return RpcError(error.code, error.message, data, http_status=status)


def handshake_error(exc: Exception, method: str) -> RpcError:
    """The answer to an exception of a handler in the handshake era. What is unexpected has code 0 and its text there,
    as under the SDK's own hosts; clients of that era match the text."""
    error = handler_exception_to_error_data(exc)
    if error is None:
        _log.error("the handler of %r failed", method, exc_info=exc)
        try:
            text = str(exc)
        except Exception:
            text = type(exc).__name__
        # A handshake that failed must be told from one that went well.
        error = ErrorData(code=INTERNAL_ERROR if method == "initialize" else 0, message=text)
    return rpc_error(error)


def mcp_error(exc: HeadraceError, method: str) -> MCPError:
    """What a caller of the SDK expects in place of an exception of ours."""
    if isinstance(exc, RpcError):
        return MCPError(exc.code, exc.message, exc.data)
    if isinstance(exc, RequestTimeout):
        return MCPError(REQUEST_TIMEOUT, f"Request {method!r} timed out")
    if isinstance(exc, ConnectionClosed):
        return MCPError(CONNECTION_CLOSED, "Connection closed")
    return MCPError(INTERNAL_ERROR, str(exc))
