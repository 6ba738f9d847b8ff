"""The HTTP request behind a message, as mcp 1.x hands it to handlers: a Starlette ``Request``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from starlette.requests import Request

if TYPE_CHECKING:
    from headrace.transports.plain import PlainExchange

__all__ = ("request_of",)


def request_of(plain: PlainExchange, path: str = "/mcp") -> Request | None:
    """The request that carried a message; None where it did not come over HTTP. Its body was read already."""
    exchange: Any = plain.exchange
    sink: Any = exchange.sink if exchange is not None else plain._sink
    fields = getattr(sink, "fields", None)
    if fields is None:
        return None
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": fields(),
        "client": None,
        "server": None,
        "state": {},
    }
    principal = plain.principal
    extend = getattr(principal, "extend_scope", None)
    if extend is not None:
        extend(scope)
    return Request(scope)
