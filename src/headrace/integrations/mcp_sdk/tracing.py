"""Spans and trace context of outgoing requests, as the SDK makes them; next to nothing while nobody records.

The SDK opens a span for every request. Without a tracer provider that span records nothing and gives the peer nothing,
but costs more than the request: so it is left out as long as there is neither a provider nor a context to pass on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from mcp.shared import _otel
from mcp.shared import jsonrpc_dispatcher as reference
from opentelemetry.context import get_current
from opentelemetry.trace import ProxyTracer, SpanKind, StatusCode

if TYPE_CHECKING:
    from headrace.errors import RpcError

__all__ = ("KEEPS_META", "silent", "span")

KEEPS_META = not hasattr(reference, "request_clock")
"""Releases before 2.3 send ``params._meta`` with every request, later ones only where it holds something."""
_RECORDS_ERRORS = hasattr(reference, "StatusCode")


def silent() -> bool:
    """Whether a span would do nothing: no provider was set, and no context waits to be passed on."""
    tracer: Any = _otel._tracer
    return type(tracer) is ProxyTracer and tracer._tracer is tracer._noop_tracer and not get_current()


@contextmanager
def span(method: str, target: Any, id: str | int, meta: dict[str, Any]) -> Iterator[Callable[[RpcError], None]]:
    """The span of one request; puts its trace context into ``meta`` (SEP-414). Gives what records an error answer."""
    name = f"MCP send {method} {target}" if isinstance(target, str) else f"MCP send {method}"
    attributes = {"mcp.method.name": method, "jsonrpc.request.id": str(id)}
    with _otel.otel_span(name, kind=SpanKind.CLIENT, attributes=attributes) as current:
        _otel.inject_trace_context(meta)

        def record(error: RpcError) -> None:
            if _RECORDS_ERRORS:
                code = str(error.code)
                current.set_attributes({"error.type": code, "rpc.response.status_code": code})
                current.set_status(StatusCode.ERROR, error.message)

        yield record
