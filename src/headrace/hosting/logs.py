"""Log lines that say of which request they are, as plain text or as JSON, and without secrets (SE-11).

:class:`RequestContext` observes a server and keeps, as a context variable, what is known of the request that is being
served; :class:`RequestFilter` writes that on every record that is logged meanwhile, in async handlers, in their tasks
and in threads alike. The formatters of here do both plain and JSON lines, and hide what looks like a credential.
"""

from __future__ import annotations

import logging
import re
import sys
import time
from contextvars import ContextVar, Token
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from headrace.hosting.facts import known_name, session_tag, target_kind
from headrace.hosting.workers.worker import current as current_worker
from headrace.mux.observer import Observer

if TYPE_CHECKING:
    from headrace.mux import Observed

__all__ = (
    "JsonFormatter",
    "PlainFormatter",
    "RequestContext",
    "RequestFilter",
    "RequestInfo",
    "current_request",
    "one_line",
    "redacted",
    "stamp",
    "worker_number",
)

_MOST_ID = 64  # characters of a request id that are repeated

_encode = msgspec.json.Encoder(enc_hook=str, decimal_format="number").encode


class RequestInfo:
    """What may be said of a request: nothing of it is secret, and nothing of it is kept alive."""

    __slots__ = ("kind", "method", "name", "request_id", "revision", "session")

    def __init__(self, request: Observed) -> None:
        self.request_id: str | int = shown_id(request.request_id)
        """The JSON-RPC id, shortened where it is long."""
        self.method: str = request.what
        """The method, such as ``"tools/call"``."""
        self.kind: str | None = target_kind(request.what)
        """What :attr:`name` is: ``"tool"`` or ``"prompt"``."""
        self.name: str | None = known_name(request)
        """The tool or prompt, if the server has it."""
        self.revision: str = request.revision.name
        """The protocol revision."""
        self.session: str | None = session_tag(request.mux)
        """What stands for the HTTP session: see :func:`headrace.hosting.facts.session_tag`."""


_request: ContextVar[RequestInfo | None] = ContextVar("headrace_request", default=None)


def current_request() -> RequestInfo | None:
    """What is known of the request that is being served here; None outside of requests, and where no
    :class:`RequestContext` observes."""
    return _request.get()


def shown_id(id: Any) -> str | int:
    """A request id for a log line."""
    return id if isinstance(id, int) and abs(id) < 1 << 63 else str(id)[:_MOST_ID]


def worker_number() -> int | None:
    """Which of the workers of ``headrace serve --workers`` this process is, or None."""
    worker = current_worker()
    return None if worker is None else worker.index


class RequestContext(Observer):
    """Keeps :func:`current_request`."""

    def begin(self, request: Observed) -> Token[RequestInfo | None]:
        """A request begins."""
        return _request.set(RequestInfo(request))

    def leave(self, request: Observed, seen: Token[RequestInfo | None] | None) -> None:
        """Whoever read the message goes on."""
        if seen is not None:
            _request.reset(seen)


class RequestFilter(logging.Filter):
    """Adds to every record what :func:`current_request` knows: ``request_id``, ``method``, ``tool`` or ``prompt``,
    ``revision``, ``session``; ``worker``; and ``trace_id`` and ``span_id`` where OpenTelemetry has a current span.
    Records that have such an attribute keep it. Belongs on handlers, not on loggers."""

    def __init__(self) -> None:
        super().__init__()
        self._worker = worker_number()

    def filter(self, record: logging.LogRecord) -> bool:
        """Lets every record pass."""
        found = self._facts()
        for name, value in found.items():
            if not hasattr(record, name):
                setattr(record, name, value)
        record.headrace_facts = found
        return True

    def _facts(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        request = _request.get()
        if request is not None:
            found["request_id"] = request.request_id
            found["method"] = request.method
            if request.name is not None and request.kind is not None:
                found[request.kind] = request.name
            found["revision"] = request.revision
            if request.session is not None:
                found["session"] = request.session
        if self._worker is not None:
            found["worker"] = self._worker
        trace = sys.modules.get("opentelemetry.trace")
        if trace is not None:
            context = trace.get_current_span().get_span_context()
            if context.is_valid:
                found["trace_id"] = f"{context.trace_id:032x}"
                found["span_id"] = f"{context.span_id:016x}"
        return found


# --- without secrets -----------------------------------------------------------------------------------

_SECRETS = re.compile(
    r"(?i)"
    r"(\b(?:set-)?cookie\b[\"']?\s*[:=,]\s*(?:b(?=[\"']))?[\"']?)[^\r\n\"']+"
    r"|(\b(?:proxy-)?authorization\b[\"']?\s*[:=,]\s*(?:b(?=[\"']))?[\"']?)(?:\w+\s+)?[^\s\"',;&]+"
    r"|(\b(?:mcp-session-id|x-api-key)\b[\"']?\s*[:=,]\s*(?:b(?=[\"']))?[\"']?)[^\s\"',;&]+"
    r"|(\b(?:bearer|basic|dpop|digest)\s+)[\w.~+/=-]{6,}"
    r"|(\b[a-z][a-z0-9+.-]{0,20}://[^\s/@:]{0,256}:)[^\s/@]{1,512}(?=@)"
    r"|\b[0-9a-f]{48}\b"
)
"""Credentials of HTTP, passwords in URLs, and what looks like a session id of ours."""


def _hide(found: re.Match[str]) -> str:
    return f"{next((part for part in found.groups() if part is not None), '')}[hidden]"


def redacted(text: str) -> str:
    """``text`` without what looks like a credential. A last net: nothing of headrace logs one."""
    return _SECRETS.sub(_hide, text)


_CONTROL = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    0x0A: "\\n", 0x0D: "\\r", 0x09: "\\t", 0x2028: "\\u2028", 0x2029: "\\u2029",
}  # fmt: skip


def one_line(text: str) -> str:
    """``text`` so that it can neither begin another line nor move a cursor."""
    return text.translate(_CONTROL)


def stamp(when: float) -> str:
    """A time in seconds since 1970 as UTC with milliseconds: ``2026-07-28T12:00:00.000Z``."""
    whole = int(when)
    return f"{_second(whole)}.{int((when - whole) * 1000):03d}Z"


@lru_cache(maxsize=4)
def _second(when: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(when))


# --- formats -------------------------------------------------------------------------------------------


class PlainFormatter(logging.Formatter):
    """``TIME LEVEL LOGGER: MESSAGE [request_id=7 method=tools/call tool=add]``; tracebacks follow as they are."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as text."""
        facts = getattr(record, "headrace_facts", None) or {}
        behind = " ".join(f"{name}={value}" for name, value in facts.items())
        line = f"{stamp(record.created)} {record.levelname} {record.name}: {one_line(record.getMessage())}"
        if behind:
            line = f"{line} [{one_line(behind)}]"
        trace = _traceback(self, record)
        return redacted(f"{line}\n{trace}" if trace else line)


class JsonFormatter(logging.Formatter):
    """One JSON object a line: ``time``, ``level``, ``logger``, ``message``, what the filter added, what was logged with
    ``extra=``, and ``exception`` with the traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """One record as JSON."""
        line: dict[str, Any] = {
            "time": stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": redacted(record.getMessage()),
        }
        line.update(getattr(record, "headrace_facts", None) or {})
        for name, value in record.__dict__.items():
            if name not in _STANDARD and name not in line:
                line[name] = redacted(value) if isinstance(value, str) else value
        trace = _traceback(self, record)
        if trace:
            line["exception"] = redacted(trace)
        return encoded(line)


_STANDARD = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "headrace_facts", "taskName"}


_SEPARATORS = {0x85: "\\u0085", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Line ends for some readers, though not for JSON."""


def encoded(line: dict[str, Any]) -> str:
    """A line of a log as JSON, whatever is in it."""
    try:
        return _encode(line).decode().translate(_SEPARATORS)
    except (TypeError, ValueError, OverflowError, RecursionError):
        safe = {name: value if isinstance(value, str | int | float) else repr(value) for name, value in line.items()}
        return _encode({name: _text(value) for name, value in safe.items()}).decode().translate(_SEPARATORS)


def _text(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    return value if not isinstance(value, int) or abs(value) < 1 << 63 else str(value)


def _traceback(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    if record.exc_info and not record.exc_text:
        record.exc_text = formatter.formatException(record.exc_info)
    parts = [record.exc_text or "", formatter.formatStack(record.stack_info) if record.stack_info else ""]
    return "\n".join(part for part in parts if part)
