"""Every bound of headrace in one place.

One :class:`Limits` is passed to a server or a client; the command line takes the same names with
hyphens (``--max-message-bytes 1048576``), and the environment in capitals (``HEADRACE_MAX_MESSAGE_BYTES=1048576``).
What happens beyond a bound is written beside it.
Requirement ids: SE-08, ST-03; field faults B09, B10, B52, B70, B108.
"""

import math
import os
import re
from collections.abc import Mapping

import msgspec

from headrace.errors import UsageError

__all__ = ("DEFAULT", "MAY_BE_ZERO", "Limits", "describe", "parse", "variable")

_KIB = 1024
_MIB = 1024 * 1024


MAY_BE_ZERO = frozenset(("max_in_flight_per_principal", "rate_limit", "rate_burst"))
"""Bounds that are off by default, which 0 says."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of one server or client. All are positive, or 0 for those in :data:`MAY_BE_ZERO`; times are seconds,
    sizes are bytes. Raises :class:`UsageError` for others."""

    max_message_bytes: int = 128 * _MIB
    """One JSON-RPC message. Line streams, Content-Length framing: error frame, rest of it skipped. HTTP: 413."""
    max_depth: int = 256
    """Nesting of JSON arrays and objects. Beyond: -32700."""

    max_header_bytes: int = 32 * _KIB
    """One HTTP head, request line included. Beyond: 431. Content-Length framing: the header of one message. Beyond: an
    error answer, then close."""
    max_header_count: int = 100
    """Header lines of one HTTP head, and trailer lines of a chunked body. Beyond: 431. Content-Length framing: as
    max_header_bytes."""
    max_target_bytes: int = 8 * _KIB
    """One HTTP request target. Beyond: 414."""
    max_connections: int = 10_000
    """Open connections of one listener. Beyond: 503, then close."""
    header_timeout: float = 10.0
    """From the first byte of a head to its end. Beyond: 408, then close."""
    handshake_timeout: float = 10.0
    """A new connection until it is HTTP: its PROXY header and its TLS handshake. Beyond: closed."""
    body_timeout: float = 30.0
    """Without any byte of a body that is due. Beyond: 408, then close."""
    body_total_timeout: float = 600.0
    """From the end of a head to the end of its body, however steadily it drips. Beyond: 408, then close."""
    linger_timeout: float = 2.0
    """After an answer that ends the connection: input still read and dropped so that the answer arrives."""
    max_buffered_bytes: int = 512 * _MIB
    """Request bodies being received over all connections of one HTTP listener. Beyond: 503, then close."""
    keep_alive_timeout: float = 75.0
    """An HTTP connection between two requests. Beyond: closed."""
    write_timeout: float = 60.0
    """Queued output that the peer takes no byte of. Beyond: the connection is aborted."""

    max_in_flight: int = 4_096
    """Requests of one line connection being handled at once. Beyond: parked, then reading pauses."""
    max_parked: int = 256
    """Requests of one line connection waiting because of max_in_flight. Beyond, or beyond 4 MiB of them: reading
    pauses; while requests of ours are unanswered: refused (-32603)."""
    max_in_flight_total: int = 65_536
    """Requests being handled in one server over all connections. Beyond: parked, or HTTP 503."""
    max_in_flight_per_principal: int = 0
    """Requests of one caller being handled at once in one server; 0: as many as the others allow. A caller is its
    principal, or the address it calls from where none is known. Beyond: refused (-32603), HTTP 429 with
    Retry-After."""
    rate_limit: float = 0.0
    """Requests per second of one caller; 0: no such limit. Over HTTP every POST and GET is one, and every entry of an
    array of messages. Beyond: refused (-32603, data.retryAfter in seconds), HTTP 429 with Retry-After."""
    rate_burst: int = 0
    """Requests that one caller may send at once after it was quiet; 0: as many as rate_limit allows in a second, at
    least 1. Beyond: as rate_limit."""
    max_rate_buckets: int = 65_536
    """Callers whose rates are counted at one time. Beyond: those counted longest begin anew."""
    max_pending: int = 65_536
    """Our own unanswered requests on one connection. Beyond: OverloadedError for the caller."""
    max_output_bytes: int = 4 * _MIB
    """Queued output of one connection at which reading pauses and awaited sends wait."""
    max_unsent_bytes: int = 512 * _MIB
    """Queued output of all connections of one server. Beyond: those that hold the most are aborted."""
    max_inline_frames: int = 512
    """Frames of one connection handled in one turn of the event loop. Beyond: next turn."""
    worker_threads: int = 32
    """Threads for plain ``def`` tools of one server. Beyond: calls wait for a free thread."""

    max_sessions: int = 10_000
    """Handshake-era HTTP sessions of one server. Beyond: 503 with Retry-After."""
    session_idle_timeout: float = 1_800.0
    """A session without a request in flight, a stream or traffic. Beyond: ended, then 404."""
    max_resume_events: int = 1_000
    """Events of one session kept for clients that resume a stream (HO-21). Beyond: the oldest are dropped."""
    max_resume_bytes: int = 4 * _MIB
    """The same in bytes. An answer beyond it cannot be resumed."""
    max_resume_total_bytes: int = 256 * _MIB
    """Events kept for all sessions of one HTTP listener. Beyond: the oldest are dropped."""
    resume_age: float = 300.0
    """How long an event is kept. Beyond: dropped; what is left of its stream can still be resumed."""
    resume_after: float = 1.0
    """A request of a session that can resume is answered with an event stream from then on, so that its answer
    survives the connection (HO-22)."""
    max_waiting_notices: int = 256
    """Notifications of one session that wait for a stream to open; equal ones count once. Beyond: dropped."""
    sealed_session_lifetime: float = 86_400.0
    """A sealed session id (--sealed-sessions). Beyond: 404, and the client initialises anew."""
    request_timeout: float = 60.0
    """Default time limit of a client's call. Beyond: cancelled, RequestTimeout."""
    max_server_requests: int = 64
    """Questions of a server (roots, sampling, elicitation) that a client answers at once. Beyond: they wait."""
    max_input_time: float = 3_600.0
    """A call of a client from the first question of the server on: the rounds of the modern era; in the handshake
    era the time that a call is spared its time limit while questions are open. Beyond: RequestTimeout."""
    max_cache_entries: int = 1_024
    """Results that a client keeps for as long as the server allows. Beyond: the least recently used goes."""
    max_cache_bytes: int = 16 * _MIB
    """The same in bytes; a result of more than an eighth of it is not kept."""
    max_schema_nodes: int = 50_000
    """Objects and arrays of an output schema, and schemas that apply to one value. Beyond: it cannot be used."""
    max_listen_changes: int = 1_024
    """Changes that wait in one listen of a client, equal ones counted once. Beyond: the oldest are dropped."""
    connect_timeout: float = 30.0
    """Opening a connection including negotiation. Beyond: RequestTimeout naming the phase."""
    drain_timeout: float = 5.0
    """Requests in flight at shutdown. Beyond: cancelled."""
    sse_keep_alive: float = 15.0
    """Silence on an event stream after which a comment is sent (B39)."""
    max_client_connections: int = 256
    """HTTP connections of one client. Beyond: calls wait for a free one."""
    max_waiting_answers: int = 1_024
    """Answers of a client to its server that wait for an HTTP connection. Beyond: dropped."""
    reconnect_delay: float = 1.0
    """First pause of a client before it reopens an event stream when the server names none (HO-23). Doubled by each
    failure, up to 30 times this, and up to a quarter longer at random."""
    max_reconnects: int = 8
    """Failures in a row to reopen an event stream, as a client. Beyond: the call whose answer it carries fails;
    the server's own stream waits until a call gets through (HO-24)."""
    max_reconnect_wait: float = 300.0
    """What a server may make a client wait before it asks again (``retry``, Retry-After). Beyond: this (B40)."""
    max_input_rounds: int = 10
    """Rounds of questions to the client within one request, on either side. Beyond: CannotAsk in the handler, or
    the caller's call fails (MX-34)."""
    ask_timeout: float = 600.0
    """A handler's question to a client of the handshake era. Beyond: cancelled, RequestTimeout in the handler."""
    input_lifetime: float = 3_600.0
    """From an input-required result to the retry of its request. Beyond: -32602 (MX-35)."""
    max_request_state_bytes: int = 256 * _KIB
    """The ``requestState`` of one request. Beyond: CannotAsk in the handler; a longer one that arrives: -32602."""
    stderr_tail_bytes: int = 64 * _KIB
    """Last output of a child's stderr kept for error messages."""
    max_batch: int = 1_000
    """Entries of one JSON array of messages (revision 2025-03-26). Beyond: -32600, no part of it runs."""
    page_size: int = 1_000
    """Entries of one page of a list (SF-50)."""
    max_listens: int = 64
    """Open ``subscriptions/listen`` requests of one line connection. Beyond: -32603."""
    max_listens_total: int = 10_000
    """Open ``subscriptions/listen`` requests of one server. Beyond: -32603, HTTP 503."""
    max_subscriptions: int = 1_000
    """Resources followed by one session or one listen. Beyond: -32602, or left out of the acknowledgement."""
    max_subscription_bytes: int = 64 * _MIB
    """The same over all sessions and listens of one server, in bytes of their URIs and 200 more for each. Beyond:
    -32603 (HTTP 503), or left out of the acknowledgement."""
    max_uri_bytes: int = 8 * _KIB
    """One resource URI of a request. Beyond: -32602."""
    max_resource_bytes: int = 64 * _MIB
    """One file read as a resource. Beyond: -32603."""
    notify_interval: float = 0.05
    """Shortest time between two rounds of change notifications. Changes in between are told together (B113)."""

    max_tasks: int = 10_000
    """Tasks that a server keeps, ended ones included (TK-05). Beyond: the call is refused (-32603, HTTP 503)."""
    max_tasks_per_principal: int = 1_000
    """Tasks kept of one caller; all callers without authentication count as one. Beyond: as max_tasks."""
    max_task_params_bytes: int = 64 * _MIB
    """Params of all calls that run as tasks now. Beyond: as max_tasks."""
    max_task_ttl: float = 86_400.0
    """Seconds from a task's creation until it is deleted, at most. A longer wish is cut."""
    max_task_result_bytes: int = 16 * _MIB
    """Result of one task. Beyond: the task fails."""
    max_task_bytes: int = 1024 * _MIB
    """Results of all tasks in one store. Beyond: the task that ends fails."""

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if not (value > 0 or (value == 0 and name in MAY_BE_ZERO)):
                wanted = "0 or more" if name in MAY_BE_ZERO else "positive"
                raise UsageError(f"limit {name} must be {wanted}, not {value!r}")
        if self.max_depth > _MAX_DEPTH:
            raise UsageError(f"limit max_depth must be at most {_MAX_DEPTH}")

    @classmethod
    def from_environment(
        cls, environ: Mapping[str, str] | None = None, *, base: "Limits | None" = None
    ) -> "Limits":
        """``base`` (the defaults without it) with what the environment says: ``HEADRACE_MAX_DEPTH=64`` and so on.

        ``environ`` replaces the process's own environment. Raises :class:`UsageError` naming the variable, its value
        and what is accepted.
        """
        environ = os.environ if environ is None else environ
        found: dict[str, float] = {}
        for name in cls.__struct_fields__:
            text = environ.get(variable(name))
            if not text:
                continue
            try:
                found[name] = parse(name, text)
            except ValueError as exc:
                raise UsageError(f"{variable(name)}={text!r}: {exc}") from None
        base = DEFAULT if base is None else base
        return msgspec.structs.replace(base, **found) if found else base


_MAX_DEPTH = 1024
_RATE = re.compile(r"([\d.]+(?:e[+-]?\d+)?)\s*/\s*([smh])", re.I)
_SECONDS = {"s": 1, "m": 60, "h": 3600}

DEFAULT = Limits()


def describe() -> list[tuple[str, type, float]]:
    """Name, type and default of every bound, in order (the command line is built from it)."""
    return [(name, type(value := getattr(DEFAULT, name)), value) for name in Limits.__struct_fields__]


def variable(name: str) -> str:
    """The environment variable of a bound or an option: ``max_depth`` is ``HEADRACE_MAX_DEPTH``."""
    return f"HEADRACE_{name.upper()}"


def parse(name: str, text: str) -> float:
    """The value of one bound as people write it; ``rate_limit`` also as ``100/s``, ``600/m`` or ``5000/h``.

    Raises ValueError saying what is accepted.
    """
    least = 0 if name in MAY_BE_ZERO else 1
    if isinstance(getattr(DEFAULT, name), int):
        most = f" and at most {_MAX_DEPTH}" if name == "max_depth" else ""
        try:
            number = int(text)
        except ValueError:
            number = -1
        if number < least or (most and number > _MAX_DEPTH):
            raise ValueError(f"a whole number of at least {least}{most} is needed")
        return number
    per = _RATE.fullmatch(text.strip()) if name == "rate_limit" else None
    try:
        value = float(per[1]) / _SECONDS[per[2].lower()] if per is not None else float(text)
    except ValueError:
        value = -1.0
    if not (0 < value < math.inf or (value == 0 and least == 0)):
        if name == "rate_limit":
            raise ValueError("a number of requests per second is needed, as 100, 100/s, 600/m or 5000/h; 0 is none")
        raise ValueError("a number of seconds above 0 is needed")
    return value
