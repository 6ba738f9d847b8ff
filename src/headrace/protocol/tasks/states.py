"""A task: its states, and its forms on the wire in 2025-11-25 and in the extension of 2026-07-28.

One record serves both eras, which differ in names, nesting and in what a failed tool means (trap 25): a
result with ``isError`` is ``failed`` in 2025-11-25 and ``completed`` in the extension.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from headrace.errors import RpcError
from headrace.jsonrpc import INTERNAL_ERROR

__all__ = (
    "CANCELLED", "COMPLETED", "EXTENSION", "FAILED", "INPUT_REQUIRED", "RELATED_TASK", "TERMINAL", "WORKING",
    "Task", "created_result", "detail", "error_object", "legacy_task", "new_id", "owner_key", "with_related",
)  # fmt: skip

EXTENSION: Final = "io.modelcontextprotocol/tasks"
"""Identifier of the extension (TK-20)."""
RELATED_TASK: Final = "io.modelcontextprotocol/related-task"
"""``_meta`` key of what belongs to a task in 2025-11-25 (TK-03, TK-04)."""

WORKING: Final = "working"
INPUT_REQUIRED: Final = "input_required"
COMPLETED: Final = "completed"
FAILED: Final = "failed"
CANCELLED: Final = "cancelled"
TERMINAL: Final = frozenset({COMPLETED, FAILED, CANCELLED})
"""States that never change again (TK-04)."""

_encode = msgspec.json.Encoder().encode


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """One task as stores keep it. Times are seconds since 1970, durations milliseconds."""

    id: str
    owner: str
    """Who may see it: what :func:`owner_key` makes of the principal; empty without authentication (TK-31)."""
    name: str
    """The tool."""
    worker: str = ""
    """The process that runs it, as its store names processes."""
    status: str = WORKING
    message: str | None = None
    """``statusMessage``."""
    created: float = 0.0
    updated: float = 0.0
    ttl: int | None = None
    """From ``created`` until it may be deleted; None keeps it."""
    poll: int | None = None
    """Suggested time between two polls."""
    inputs: dict[str, msgspec.Raw] = {}
    """Outstanding questions: key -> ``{"method":..., "params":...}`` (TK-23)."""
    tool_failed: bool = False
    """The result has ``isError``."""
    payload: bytes | None = None
    """The result object of a completed task, the error object of a failed one."""

    @property
    def terminal(self) -> bool:
        """Whether the state is final."""
        return self.status in TERMINAL

    @property
    def expires(self) -> float | None:
        """When it may be deleted, or None."""
        return None if self.ttl is None else self.created + self.ttl / 1000

    @property
    def over(self) -> bool:
        """Whether its time is over."""
        expires = self.expires
        return expires is not None and expires <= time.time()

    def changed(self, **fields: Any) -> Task:
        """The same task with other fields and ``updated`` set to now."""
        return msgspec.structs.replace(self, updated=time.time(), **fields)


def new_id() -> str:
    """An id that cannot be guessed: 192 random bits (TK-05, TK-31)."""
    return secrets.token_urlsafe(24)


def owner_key(principal: Any) -> str:
    """The key of an authenticated caller; empty for None. Equal for the same caller in any process."""
    if principal is None:
        return ""
    subject = getattr(principal, "subject", None)
    return f"u:{principal if subject is None else subject}"


def error_object(error: RpcError) -> bytes:
    """The JSON object of an error, as an answer would carry it."""
    body: dict[str, Any] = {"code": error.code, "message": error.message}
    if error.data is not None:
        body["data"] = error.data
    try:
        return _encode(body)
    except Exception:
        return b'{"code":%d,"message":"internal error"}' % INTERNAL_ERROR


def _stamp(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _fields(task: Task, status: str, ttl: str, poll: str) -> dict[str, Any]:
    body: dict[str, Any] = {"taskId": task.id, "status": status}
    if task.message is not None:
        body["statusMessage"] = task.message
    body["createdAt"] = _stamp(task.created)
    body["lastUpdatedAt"] = _stamp(task.updated)
    body[ttl] = task.ttl
    if task.poll is not None:
        body[poll] = task.poll
    return body


def created_result(task: Task) -> bytes:
    """The inside of a ``CreateTaskResult`` of the extension, flat and without ``resultType`` (TK-21)."""
    return _encode(_fields(task, task.status, "ttlMs", "pollIntervalMs"))


def detail(task: Task) -> bytes:
    """What ``tasks/get`` of the extension gives and ``notifications/tasks`` carries (TK-23, TK-27)."""
    body = _fields(task, task.status, "ttlMs", "pollIntervalMs")
    if task.status == INPUT_REQUIRED:
        body["inputRequests"] = task.inputs
    elif task.status == COMPLETED:
        body["result"] = msgspec.Raw(task.payload or b"{}")
    elif task.status == FAILED:
        body["error"] = msgspec.Raw(task.payload or b'{"code":-32603,"message":"internal error"}')
    return _encode(body)


def legacy_task(task: Task) -> dict[str, Any]:
    """The ``Task`` object of 2025-11-25 (TK-02, TK-04)."""
    status = FAILED if task.status == COMPLETED and task.tool_failed else task.status
    return _fields(task, status, "ttl", "pollInterval")


def with_related(body: bytes | None, task_id: str) -> bytes:
    """A JSON object with ``_meta`` that relates it to the task (TK-03); other members stay as they are."""
    members: dict[str, Any] = msgspec.json.decode(body, type=dict[str, msgspec.Raw]) if body else {}
    meta: Any = {}
    if "_meta" in members:
        try:
            meta = msgspec.json.decode(members["_meta"], type=dict[str, msgspec.Raw])
        except msgspec.MsgspecError:
            meta = {}
    members["_meta"] = {**meta, RELATED_TASK: {"taskId": task_id}}
    return _encode(members)
