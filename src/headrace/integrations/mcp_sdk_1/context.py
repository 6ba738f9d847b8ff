"""The HTTP request behind a message, as mcp 1.x hands it to handlers: a Starlette ``Request``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headrace.integrations.mcp_sdk.http_request import HostedRequest
from headrace.transports._http_exchange import HttpExchange

if TYPE_CHECKING:
    from headrace.transports.plain import PlainExchange

__all__ = ("request_of",)


def request_of(plain: PlainExchange, app: Any = None) -> HostedRequest | None:
    """The request that carried a message; None where it did not come over HTTP. ``app`` is what it finds as
    ``request.app``."""
    exchange: Any = plain.exchange
    sink: Any = exchange.sink if exchange is not None else plain._sink
    if not isinstance(sink, HttpExchange):
        return None
    return HostedRequest(sink, exchange, sink.principal, app)
