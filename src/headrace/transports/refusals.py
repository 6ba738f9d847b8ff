"""What a server refuses, by kind: the names under which ``Runtime.refusals`` counts.

A refusal is counted once, where it is made, under the most telling name there is. Most are named as the bound in
:mod:`headrace.limits` that was met, so that a number says which option to look at; the others are listed here. Requests
that a handler was asked about and answered with an error of its own are no refusals.

``server.runtime.refusals`` is a dict of kind to count, since the server started; kinds that were never met are not
in it. All possible kinds are in :data:`KINDS`.
"""

from __future__ import annotations

__all__ = ("BOUNDS", "KINDS", "kind_of")

BOUNDS: dict[str, str] = {
    "max_message_bytes": "a message, or the body of an HTTP request, was too long",
    "max_depth": "a message was nested too deep",
    "max_header_bytes": "an HTTP head was too long, or had too many lines (max_header_count)",
    "max_target_bytes": "an HTTP request target was too long",
    "max_connections": "a connection too many",
    "handshake_timeout": "the PROXY header or the TLS handshake of a connection did not come in time",
    "header_timeout": "an HTTP head did not come in time",
    "body_timeout": "nothing of an HTTP body came for too long",
    "body_total_timeout": "an HTTP body took too long as a whole",
    "max_buffered_bytes": "too much of HTTP bodies was being received",
    "write_timeout": "a connection was ended whose peer took nothing",
    "max_in_flight": "a request too many on one session",
    "max_parked": "a request too many on one line connection that waits for answers itself",
    "max_in_flight_total": "a request too many in the server",
    "max_in_flight_per_principal": "a request too many of one caller",
    "rate_limit": "a request too soon after others of the same caller",
    "max_output_bytes": "a message for a session of HTTP+SSE whose stream is not read",
    "max_unsent_bytes": "a connection was ended that held the most of too much output",
    "max_sessions": "a session too many",
    "max_input_rounds": "a handler asked its client too often",
    "max_request_state_bytes": "a requestState was too long",
    "max_batch": "an array of messages had too many entries",
    "max_listens": "a listen too many on one line connection",
    "max_listens_total": "a listen too many in the server",
    "max_subscriptions": "a session followed too many resources",
    "max_subscription_bytes": "too many resources were followed in the server",
    "max_uri_bytes": "the URI of a resource was too long",
    "max_resource_bytes": "a file read as a resource was too large",
    "max_tasks": "a task too many in the server",
    "max_tasks_per_principal": "a task too many of one caller",
    "max_task_params_bytes": "the params of all running tasks were too much",
    "max_task_result_bytes": "the result of a task was too large",
    "max_task_bytes": "the results of all tasks were too large",
}
"""Kinds that are named as a field of :class:`headrace.limits.Limits`."""

_STATUSES = (400, 401, 403, 404, 405, 406, 415, 417, 421, 429, 500, 501, 502, 503, 505)

KINDS: dict[str, str] = {
    **BOUNDS,
    "draining": "the server was shutting down",
    "backplane": "what the processes of the server share could not be reached",
    "bad_message": "no JSON, no JSON-RPC message, or one that may not stand here",
    "bad_request": "a request that does not fit its revision, or without what every request needs",
    "unknown_method": "a method that is not served",
    "proxy_header": "a connection did not begin with a PROXY header, or with a malformed one",
    "tls_handshake": "a TLS handshake failed",
    "task_store": "the store of tasks could not be used",
    "internal_error": "a fault before the handler was found; the log has it",
    **{f"http_{status}": f"an HTTP request was refused with {status}" for status in _STATUSES},
    "http_other": "an HTTP request was refused by authenticate with another status",
}
"""All kinds, and what each counts."""

_BY_STATUS = {status: f"http_{status}" for status in _STATUSES} | {
    408: "body_timeout",
    413: "max_message_bytes",
    414: "max_target_bytes",
    431: "max_header_bytes",
}


def kind_of(status: int) -> str:
    """The kind of a refusal that says nothing but its HTTP status."""
    return _BY_STATUS.get(status, "http_other")
