"""Tracing with OpenTelemetry, by the semantic conventions for MCP; needs ``headrace[otel]``.

:func:`instrument` has every request make one span, on servers and on clients. The context of a trace travels in
``params._meta`` (``traceparent``, ``tracestate``, ``baggage``) on every transport; where a request has none there, the
headers of its own HTTP request count (B100). What is no valid context is passed over. A connection is never a parent:
two requests of one session share a trace only where their senders say so. Where nothing is instrumented nothing runs.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.client.session import ClientSession
from headrace.errors import RequestTimeout, RpcError, ToolError, UsageError
from headrace.hosting.facts import client_of, is_http, known_name, session_tag, target_kind, transport_of
from headrace.jsonrpc import R5
from headrace.mux.observer import Observer
from headrace.transports._http_legacy import LegacyStream
from headrace.transports.asgi.app import asgi_scope
from headrace.transports.runtime import observe_all

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace
    from opentelemetry.baggage.propagation import W3CBaggagePropagator
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, SpanKind, Status, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
except ImportError as exc:
    raise ImportError("tracing needs OpenTelemetry: pip install 'headrace[otel]'") from exc

from headrace._version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from opentelemetry.trace import Span, TracerProvider

    from headrace.client.client import Client
    from headrace.mux import Mux, Observed, PendingCall, Sink
    from headrace.server.app import Server
    from headrace.transports.http_dial import Endpoint

__all__ = ("Tracing", "instrument")

_KEYS = ("traceparent", "tracestate", "baggage")
_HEADERS = frozenset(key.encode() for key in _KEYS)
_MOST = 8_192
"""Bytes of a value that are looked at."""
_SILENT = frozenset({"notifications/progress", "notifications/message"})
"""Notifications that belong to a request with a span of its own, and come by the thousand."""
_NOTHING: dict[str, str] = {}

_trace_context = TraceContextTextMapPropagator()
_baggage = W3CBaggagePropagator()
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


class Tracing(Observer):
    """Makes the spans. One object serves any number of servers and clients.

    :param tracer_provider: where spans go; the global one (``opentelemetry.trace.set_tracer_provider``) by default.
    :param exceptions: whether spans have events for exceptions that handlers raised, with their text and traceback.
    """

    def __init__(self, tracer_provider: TracerProvider | None = None, *, exceptions: bool = True) -> None:
        self._tracer = trace.get_tracer("headrace", __version__, tracer_provider)
        self._exceptions = exceptions
        self._calls: dict[PendingCall, Span] = {}

    # --- what the peer asks --------------------------------------------------------------------------

    def begin(self, request: Observed) -> tuple[Span, Any]:
        """Starts the span of a request, and makes it the current one of its handler."""
        method, mux, sink = request.what, request.mux, request.sink
        name = known_name(request)
        facts: dict[str, Any] = {
            "jsonrpc.request.id": str(request.request_id),
            "mcp.protocol.version": request.revision.name,
        }
        kind = target_kind(method)
        if kind == "tool":
            facts["gen_ai.operation.name"] = "execute_tool"
        if name is not None:
            facts[f"gen_ai.{kind}.name"] = name
        elif kind == "resource" and request.target is not None:
            facts["mcp.resource.uri"] = request.target[:_MOST]
        span, context = self._served(method, name, request.said, mux, sink, facts)
        return span, otel_context.attach(trace.set_span_in_context(span, context))

    def leave(self, request: Observed, seen: tuple[Span, Any] | None) -> None:
        """Whoever read the message goes on in its own context."""
        if seen is not None:
            otel_context.detach(seen[1])

    def end(self, request: Observed, seen: tuple[Span, Any]) -> None:
        """Ends the span with the outcome."""
        span, outcome = seen[0], request.outcome
        if span.is_recording() and outcome != "ok":
            cause = request.cause
            if self._exceptions and cause is not None and not isinstance(cause, RpcError | ToolError):
                span.record_exception(cause)
            if request.error is not None:
                _error(span, request.error)
            elif outcome is not None:
                span.set_attribute("error.type", outcome)
                span.set_status(Status(StatusCode.ERROR))
        span.end()

    def refused(self, mux: Mux, sink: Sink, method: str, id: bytes | None, meta: bytes | None, error: RpcError) -> None:
        """A span for a request that never began."""
        facts = {} if id is None else {"jsonrpc.request.id": str(_decoded(id))}
        # A name that nobody serves is the client's own: it names no span.
        span, _ = self._served(method[:64] if error.code != -32601 else "_OTHER", None, meta, mux, sink, facts)
        _error(span, error)
        span.end()

    def notified(self, mux: Mux, sink: Sink, method: str, meta: bytes | None) -> tuple[Span, Any] | None:
        """Starts the span of a notification."""
        if method in _SILENT:
            return None
        known = method.startswith("notifications/") and len(method) <= 64
        span, context = self._served(method if known else "_OTHER", None, meta, mux, sink, {})
        return span, otel_context.attach(trace.set_span_in_context(span, context))

    def noted(self, seen: tuple[Span, Any] | None) -> None:
        """Ends it."""
        if seen is not None:
            otel_context.detach(seen[1])
            seen[0].end()

    def _served(
        self, method: str, name: str | None, meta: bytes | None, mux: Mux, sink: Sink, facts: dict[str, Any]
    ) -> tuple[Span, Context]:
        context, links = _parent(meta, sink)
        facts["mcp.method.name"] = method
        facts["network.transport"] = transport_of(sink)
        if is_http(sink):
            scope = asgi_scope()
            facts["network.protocol.name"] = "http"
            facts["network.protocol.version"] = "1.1" if scope is None else scope.get("http_version", "1.1")
        client = client_of(sink)
        if client is not None:
            facts["client.address"] = client[0]
            if client[1]:
                facts["client.port"] = client[1]
        session = session_tag(mux)
        if session is not None:
            facts["mcp.session.id"] = session
        title = method if name is None else f"{method} {name}"
        span = self._tracer.start_span(title, context, SpanKind.SERVER, facts, links)
        return span, context

    # --- what we ask -----------------------------------------------------------------------------------

    def sending(self, mux: Mux, call: PendingCall, params: bytes | None, name: str | None) -> bytes | None:
        """Starts the span of a request of ours; its context leaves in ``_meta``."""
        method = call.method
        facts: dict[str, Any] = {
            "mcp.method.name": method,
            "jsonrpc.request.id": str(call.id),
            "network.transport": transport_of(call.sink),
        }
        kind = target_kind(method)
        title = method
        if kind == "tool":
            facts["gen_ai.operation.name"] = "execute_tool"
        if kind == "resource" and name is not None:
            facts["mcp.resource.uri"] = name
        elif kind is not None and name is not None:
            facts[f"gen_ai.{kind}.name"] = name
            title = f"{method} {name}"
        session = session_tag(mux)
        if session is not None:
            facts["mcp.session.id"] = session
        if isinstance(gate := mux.gate, ClientSession):
            facts["mcp.protocol.version"] = R5 if gate.modern else gate.handshake.name
            endpoint = getattr(call.sink, "endpoint", None)
            if endpoint is not None:
                facts.update(_server(endpoint))
        elif mux.current is not None:
            facts["mcp.protocol.version"] = mux.current.name
        span = self._tracer.start_span(title, None, SpanKind.CLIENT, facts)
        carrier: dict[str, str] = {}
        context = trace.set_span_in_context(span)
        _trace_context.inject(carrier, context)
        _baggage.inject(carrier, context)
        self._calls[call] = span
        call.future.add_done_callback(partial(self._answered, call))
        return _with_meta(params, carrier) if carrier else params

    def answered(self, call: PendingCall, failed: bool) -> None:
        """Notes that a tool failed: the answer itself is not ours to read."""
        if failed and (span := self._calls.get(call)) is not None:
            span.set_attribute("error.type", "tool_error")
            span.set_status(Status(StatusCode.ERROR))

    def _answered(self, call: PendingCall, future: Any) -> None:
        span = self._calls.pop(call)
        if future.cancelled():
            span.set_attribute("error.type", "cancelled")
            span.set_status(Status(StatusCode.ERROR))
        elif (exc := future.exception()) is not None:
            if isinstance(exc, RpcError):
                _error(span, exc)
            else:
                span.set_attribute("error.type", "timeout" if isinstance(exc, RequestTimeout) else type(exc).__name__)
                span.set_status(Status(StatusCode.ERROR, str(exc)))
        span.end()


def instrument(
    target: Server | Client | None = None, tracer_provider: TracerProvider | None = None, *, exceptions: bool = True
) -> Tracing:
    """Traces ``target``: a :class:`headrace.Server` or a client that is connected; every server and client of this
    process that starts from now on, those of other SDKs that are hosted here too, where there is none.

    To trace a client from its handshake on, give what this returns, or a :class:`Tracing`, to
    ``connect(..., observer=...)``. Parameters are those of :class:`Tracing`. Raises :class:`UsageError` for a target
    that is neither.
    """
    tracing = Tracing(tracer_provider, exceptions=exceptions)
    if target is None:
        observe_all(tracing)
        return tracing
    observe: Callable[[Observer], None] | None = getattr(target, "observe", None)
    if observe is None:
        raise UsageError(f"a Server or a Client can be traced, not a {type(target).__name__}")
    observe(tracing)
    return tracing


# --- contexts ------------------------------------------------------------------------------------------


def _parent(meta: bytes | None, sink: Sink) -> tuple[Context, list[Link]]:
    """The context that a message continues, and links to where it passed through (B100)."""
    said = _said(meta)
    scope = asgi_scope()
    around = trace.get_current_span().get_span_context() if scope is not None else trace.INVALID_SPAN_CONTEXT
    context = _trace_context.extract(said, Context()) if "traceparent" in said else Context()
    if trace.get_current_span(context).get_span_context().is_valid:
        links = [Link(around)] if around.is_valid else []
        return (_baggage.extract(said, context) if "baggage" in said else context), links
    if around.is_valid:
        # The host of the ASGI application traces HTTP: its span continues what the headers say.
        return otel_context.get_current(), []
    sent = _sent(sink)
    if "traceparent" in sent:
        context = _trace_context.extract(sent, Context())
    if "baggage" in said or "baggage" in sent:
        context = _baggage.extract(said if "baggage" in said else sent, context)
    return context, []


def _said(meta: bytes | None) -> Mapping[str, str]:
    """What ``_meta`` says of a trace. A look at the bytes comes first: most say nothing."""
    if meta is None or (b"traceparent" not in meta and b"baggage" not in meta and b"\\u" not in meta):
        return _NOTHING
    try:
        members = _members(meta)
        found = {key: _decode(members[key]) for key in _KEYS if key in members and len(bytes(members[key])) <= _MOST}
    except ValueError:
        return _NOTHING
    return {key: value for key, value in found.items() if isinstance(value, str)}


def _sent(sink: Sink) -> Mapping[str, str]:
    """What the headers say of the HTTP request that a message came in. The stream of HTTP+SSE is none: its messages
    come in requests of their own, and each would seem to continue the first."""
    if not is_http(sink) or isinstance(sink, LegacyStream):
        return _NOTHING
    found: dict[str, str] = {}
    for name, value in sink.fields():  # type: ignore[attr-defined]
        if name in _HEADERS and len(value) <= _MOST:
            key, text = name.decode(), value.decode("latin-1")
            if key not in found:
                found[key] = text
            elif key == "traceparent":
                found[key] = ""  # two of them: neither is to be believed
            else:
                found[key] += "," + text
    return found


def _with_meta(params: bytes | None, carrier: dict[str, str]) -> bytes:
    """Raw params with more members in their ``_meta``; those that are there already stay."""
    members: dict[str, Any] = _members(params) if params else {}
    meta: dict[str, Any] = _members(members["_meta"]) if "_meta" in members else {}
    if "traceparent" in meta:
        return params or b"{}"
    members["_meta"] = {**carrier, **meta}
    return _encode(members)


# --- attributes ----------------------------------------------------------------------------------------


def _decoded(id: bytes) -> Any:
    try:
        return _decode(id)
    except ValueError:
        return id.decode("utf-8", "replace")


def _error(span: Span, error: RpcError) -> None:
    code = str(error.code)
    span.set_attribute("rpc.response.status_code", code)
    span.set_attribute("error.type", code)
    span.set_status(Status(StatusCode.ERROR, error.message))


def _server(endpoint: Endpoint) -> dict[str, Any]:
    """Where an HTTP client's requests go."""
    facts: dict[str, Any] = {"network.protocol.name": "http", "network.protocol.version": "1.1"}
    if endpoint.path is not None:
        return facts | {"network.transport": "unix", "server.address": endpoint.path}
    return facts | {"network.transport": "tcp", "server.address": endpoint.host, "server.port": endpoint.port}
