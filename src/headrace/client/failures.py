"""What a failed connect means and what to do about it, in one plain line.

The everyday failures are told apart: nothing there, crashed (with its exit status and last words), not
allowed, too late (:class:`headrace.errors.RequestTimeout` names the phase).
"""

from __future__ import annotations

from headrace.errors import (
    AuthenticationFailed,
    ConnectFailed,
    ConnectionClosed,
    HeadraceError,
    HttpStatusError,
    RpcError,
)
from headrace.jsonrpc import METHOD_NOT_FOUND

__all__ = ("connect_failure", "refused_credentials")


def connect_failure(where: str, exc: HeadraceError) -> ConnectFailed:
    """The exception that tells why ``where`` cannot be connected to."""
    refused = refused_credentials(exc)
    if refused is not None:
        challenge = refused.headers.get("www-authenticate")
        text = f"cannot connect to {where}: authentication failed: HTTP {refused.status}"
        if challenge:
            text += f" (it asks for: {challenge[:300]})"
        text += '; pass a valid token: headers={"Authorization": "Bearer ..."}'
        return AuthenticationFailed(text, refused.status, challenge)
    text = f"initialize failed: {exc}" if isinstance(exc, RpcError) else str(exc)
    code = exc.exit_code if isinstance(exc, ConnectionClosed) else None
    if code:
        text = f"the server crashed: {text}"
    if where not in text:
        text = f"cannot connect to {where}: {text}"
    if "/mcp" not in where and _not_found(exc):
        text += "; is the path right? The endpoint is usually /mcp"
    return ConnectFailed(text, exit_code=code)


def refused_credentials(exc: BaseException | None) -> HttpStatusError | None:
    """The HTTP answer behind ``exc`` that refuses our credentials: 401, or 403 with a challenge."""
    while exc is not None:
        if isinstance(exc, HttpStatusError) and (
            exc.status == 401 or (exc.status == 403 and "www-authenticate" in exc.headers)
        ):
            return exc
        exc = exc.__cause__
    return None


def _not_found(exc: BaseException | None) -> bool:
    """Whether a failure comes from an HTTP 404 that is no answer of a method (JR-37)."""
    while exc is not None:
        if isinstance(exc, HttpStatusError) and exc.status == 404:
            return True
        if isinstance(exc, RpcError) and exc.http_status == 404 and exc.code != METHOD_NOT_FOUND:
            return True
        exc = exc.__cause__
    return False
