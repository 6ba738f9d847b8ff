"""The exception tree. One root, and every class says whose fault it is.

HeadraceError
├── LocalProtocolError     we, or the code that uses us, broke the protocol (nothing was sent)
│   ├── NotOffered         the server does not declare the capability that this needs
│   ├── OverloadedError    one of our bounds refuses the work
│   └── CannotAsk          a handler's question cannot be put to this client
│       └── ClientCapabilityMissing   ... because it did not declare that it takes such ones: .required
├── RemoteProtocolError    the peer broke the protocol: .rpc_code, .http_status to answer with
│   ├── HttpStatusError    an HTTP answer that is no JSON-RPC answer: .status, .headers, .body
│   └── InvalidAnswer      the client's answer to a handler's question does not fit the question
├── RpcError               the peer's own error answer: .code, .message, .data
│   ├── ResourceNotFound   the server has no such resource: .uri
│   └── ClientRefused      the client answered a handler's question with an error
│       └── Declined       ... because its user said no
├── InputRequired          the server asks for client input that has no callback: .requests, .request_state
├── InputRefused           client input was refused, so the call cannot go on
├── RequestTimeout         no answer in time (also a TimeoutError)
├── ConnectionClosed       the connection ended: .reason, .exit_code of a child
│   └── ConnectFailed      it never came up
│       └── AuthenticationFailed   the server wants a token, or another one: .status, .challenge
├── HttpRefusal            raised by `authenticate`: the HTTP answer of a request that is refused: .status, .headers
├── TaskCancelled          a task that was waited for was cancelled
├── ToolError              raised by a tool: its text is the isError answer the model sees
└── UsageError             a wrong argument of the public API or the command line
"""

from collections.abc import Iterable
from typing import Any

from headrace.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    MISSING_CLIENT_CAPABILITY,
    RESOURCE_NOT_FOUND,
)

__all__ = (
    "AuthenticationFailed", "CannotAsk", "ClientCapabilityMissing", "ClientRefused", "ConnectFailed",
    "ConnectionClosed", "Declined", "HeadraceError", "HttpRefusal", "HttpStatusError", "InputRefused", "InputRequired",
    "InvalidAnswer", "LocalProtocolError", "NotOffered", "OverloadedError", "RemoteProtocolError",
    "RequestTimeout", "ResourceNotFound", "RpcError", "TaskCancelled", "ToolError", "UsageError",
)  # fmt: skip


class HeadraceError(Exception):
    """Root of everything headrace raises on purpose."""


class LocalProtocolError(HeadraceError):
    """What was asked for would break the protocol; nothing was sent."""


class OverloadedError(LocalProtocolError):
    """A bound of :class:`headrace.limits.Limits` refuses the work."""


class CannotAsk(LocalProtocolError):
    """This client cannot be asked: there is no channel to it, or too much was asked already.

    A handler may catch it and do without. Uncaught it fails a tool call with this text, and any other
    request with -32603.
    """

    def answer_for(self, exchange: Any) -> Exception:
        """What a request is answered with whose handler lets this through."""
        return ToolError(str(self))


class ClientCapabilityMissing(CannotAsk):
    """The client did not declare the capability that a question needs (VN-29, CF-22, CF-33).

    ``required`` is a capabilities object with what is missing. Uncaught it is answered with -32021 in
    2026-07-28; before that it fails a tool call with this text, and any other request with -32603.
    """

    def __init__(self, message: str, required: dict[str, Any]) -> None:
        super().__init__(message)
        self.required = required

    def answer_for(self, exchange: Any) -> Exception:
        """What a request is answered with whose handler lets this through."""
        if not exchange.revision.modern:
            return super().answer_for(exchange)
        data = {"requiredCapabilities": self.required}
        return RpcError(MISSING_CLIENT_CAPABILITY, str(self), data, http_status=400)


class NotOffered(LocalProtocolError):
    """The server does not declare the capability that a request needs (VN-07)."""


class RemoteProtocolError(HeadraceError):
    """The peer sent something that breaks the protocol.

    ``rpc_code`` and ``http_status`` are what to answer with; ``offset`` is the byte at which
    reading stopped, when known; ``id`` is the raw JSON id of the message, when it could be read (JR-13).
    """

    def __init__(
        self,
        message: str,
        *,
        rpc_code: int = INVALID_REQUEST,
        http_status: int = 400,
        offset: int | None = None,
        id: bytes | None = None,
    ) -> None:
        super().__init__(message)
        self.rpc_code = rpc_code
        self.http_status = http_status
        self.offset = offset
        self.id = id


class HttpStatusError(RemoteProtocolError):
    """The HTTP answer to a request of ours holds no JSON-RPC answer (VN-45..VN-48, B66).

    ``status`` is the HTTP status; ``headers`` (names in lower case) the fields a caller may need:
    ``content-type``, ``location``, ``retry-after``, ``www-authenticate``, ``mcp-session-id``;
    ``body`` the first KiB of the body as text. A handler that lets it through answers 502.
    """

    def __init__(
        self, message: str, status: int, *, headers: dict[str, str] | None = None, body: str = ""
    ) -> None:
        super().__init__(message, rpc_code=INTERNAL_ERROR, http_status=502)
        self.status = status
        self.headers = headers or {}
        self.body = body

    @property
    def retry_after(self) -> float | None:
        """Seconds from now that Retry-After asks to wait, at least 0; None without a usable one (RFC 9110)."""
        return seconds_of(self.headers.get("retry-after", ""))


class InvalidAnswer(RemoteProtocolError):
    """The client's answer to a handler's question does not fit the question (CF-30, MX-36).

    Uncaught: in 2026-07-28, where the answer came with the request, -32602; before that it fails a tool
    call with this text, and any other request with -32603.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message, rpc_code=INVALID_PARAMS)

    def answer_for(self, exchange: Any) -> Exception:
        """What a request is answered with whose handler lets this through."""
        return RpcError(INVALID_PARAMS, str(self)) if exchange.revision.modern else ToolError(str(self))


class RpcError(HeadraceError):
    """A JSON-RPC error: raised by callers' requests, and by handlers to answer with one.

    ``code`` (int), ``message`` (str) and ``data`` (any JSON value, or absent when ``None``) are the
    members of the wire object (JR-09). ``http_status`` is the status of the HTTP answer that
    carries it (JR-37): ``None`` leaves it to the code. On an error that a peer answered over HTTP
    it is the status it came with, ``None`` for 200. ``refusal`` says what the request was refused by and is
    counted, see :mod:`headrace.transports.refusals`; ``retry_after`` are the seconds after which asking again
    makes sense: ``retryAfter`` of the data where there is no other, and the field Retry-After over HTTP.
    """

    refusal: str | None = None
    _retry_after: float | None = None
    _wish = ""

    def __init__(
        self,
        code: int,
        message: str,
        data: Any = None,
        *,
        http_status: int | None = None,
        refusal: str | None = None,
        retry_after: float | None = None,
    ) -> None:
        if retry_after is not None:
            self._retry_after = retry_after
            if data is None:
                data = {"retryAfter": retry_after}
        super().__init__(code, message, data)
        self.code = code
        self.message = message
        self.data = data
        self.http_status = http_status
        if refusal is not None:
            self.refusal = refusal

    def __str__(self) -> str:
        return f"{self.message} ({self.code}){self._wish}"

    def came_with(self, status: int, retry_after: str | None) -> None:
        """Notes the HTTP status of the answer that brought this, and its field Retry-After."""
        self.http_status = status
        if retry_after and self.retry_after is None and (wait := seconds_of(retry_after)) is not None:
            self._retry_after = wait
            self._wish = f"; it asks to be tried again in {wait:.0f} s"

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the other side wants to be asked again, at least 0; None where it says nothing."""
        if self._retry_after is not None:
            return self._retry_after
        value = self.data.get("retryAfter") if isinstance(self.data, dict) else None
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9:
            return float(value)
        return None


class ClientRefused(RpcError):
    """The client answered a handler's question with an error. ``code``, ``message`` and ``data`` are the client's.

    Uncaught it fails a tool call with this text, and any other request with -32603: the client's code
    says nothing about its own request.
    """

    def __init__(self, method: str, code: int, message: str, data: Any = None) -> None:
        super().__init__(code, message, data)
        self.method = method

    def __str__(self) -> str:
        return f"the client refused {self.method}: {self.message} ({self.code})"

    def answer_for(self, exchange: Any) -> Exception:
        """What a request is answered with whose handler lets this through."""
        return ToolError(str(self))


class Declined(ClientRefused):
    """The client's user rejected the question: error -1 (CF-23)."""


class ResourceNotFound(RpcError):
    """The server has no resource ``uri``, whichever of the two codes it says so with (SF-22)."""

    def __init__(self, code: int, message: str, data: Any = None, *, uri: str, http_status: int | None = None) -> None:
        super().__init__(code, message, data, http_status=http_status)
        self.uri = uri

    def answer_for(self, exchange: Any) -> Exception:
        """What a request is answered with whose handler lets this through: the code of its own era."""
        code = INVALID_PARAMS if exchange.revision.modern else RESOURCE_NOT_FOUND
        return RpcError(code, "resource not found", {"uri": self.uri})


class InputRequired(HeadraceError):
    """The server asks for client input (MX-30) for which there is no callback.

    ``requests`` maps each key to its ``{"method": ..., "params": ...}``; ``request_state`` is the server's
    opaque state or None. To go on by hand, repeat the call with ``input_responses={key: answer}`` and
    ``request_state=error.request_state``.
    """

    def __init__(self, message: str, requests: dict[str, Any], request_state: str | None) -> None:
        super().__init__(message)
        self.requests = requests
        self.request_state = request_state


class InputRefused(HeadraceError):
    """Client input was refused, or could not be given, so that the call cannot go on (MX-38).

    Raised by sampling, roots and elicitation callbacks to refuse, and by the calls that asked for it.
    """


class RequestTimeout(HeadraceError, TimeoutError):
    """No answer in time; the request was cancelled (MX-13)."""


class ConnectionClosed(HeadraceError, ConnectionError):
    """The connection ended before the answer came (B82).

    ``reason`` says how (``"end of stream"``, ``"reset by peer"``, ``"exited with status 3"``);
    ``exit_code`` is the status of a child process, negative for a signal, else ``None``.
    """

    def __init__(self, reason: str, *, exit_code: int | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.exit_code = exit_code


class ConnectFailed(ConnectionClosed):
    """The connection or its negotiation never completed."""


class AuthenticationFailed(ConnectFailed):
    """The server refused our credentials, or that we have none (AU-02).

    ``status`` is the HTTP status (401 or 403), ``challenge`` the ``WWW-Authenticate`` field or None.
    """

    def __init__(self, reason: str, status: int, challenge: str | None = None) -> None:
        super().__init__(reason)
        self.status = status
        self.challenge = challenge


class HttpRefusal(HeadraceError):
    """Raised by the option ``authenticate`` of an HTTP endpoint to refuse a request (AU-02, AU-05).

    ``status`` is one of 300 to 599 without 304; ``headers`` are pairs of bytes or str, such as
    ``("WWW-Authenticate", "Bearer ...")``; ``body`` is sent with ``content_type``, when it is not empty.
    Framing headers are not given: they follow from the body. Raises ValueError for another status.
    """

    def __init__(
        self,
        status: int,
        headers: Iterable[tuple[bytes | str, bytes | str]] = (),
        body: bytes = b"",
        content_type: str = "application/json",
    ) -> None:
        if not 300 <= status <= 599 or status == 304:
            raise ValueError(f"a request cannot be refused with status {status}")
        super().__init__(status)
        self.status = status
        self.headers = list(headers)
        self.body = body
        self.content_type = content_type

    def __str__(self) -> str:
        return f"HTTP {self.status}"


class TaskCancelled(HeadraceError):
    """The task that was waited for has been cancelled, by whoever may."""


class ToolError(HeadraceError):
    """Raised by a tool to fail with a text meant for the model: ``isError`` with that text (JR-36)."""


class UsageError(HeadraceError, ValueError):
    """A wrong argument: one plain line says what to do instead."""


def seconds_of(retry_after: str) -> float | None:
    """Seconds from now that a field Retry-After asks to wait, at least 0; None for one that says nothing (RFC 9110)."""
    value = retry_after.strip()
    if value.isascii() and value.isdigit():
        return float(value[:9])
    if not value:
        return None
    from email.utils import parsedate_to_datetime
    from time import time

    try:
        return max(parsedate_to_datetime(value).timestamp() - time(), 0.0)
    except (ValueError, OverflowError):
        return None


def internal_error() -> RpcError:
    """The answer to an unexpected exception: never its text (JR-38, SF-42)."""
    return RpcError(INTERNAL_ERROR, "internal error")
