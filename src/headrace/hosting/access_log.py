"""The access log: one line a request, put together once in a turn of the loop and written in one piece.

A request leaves a tuple behind; lines are made when the loop has nothing more urgent to do. Lines say who asked for
what, how it ended, how long it took and how large it was. They never say credentials, session ids, arguments, results
or URIs (SE-11).
"""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from headrace.hosting.facts import known_name, peer_of, session_tag, target_kind
from headrace.hosting.logs import encoded, one_line, shown_id, stamp, worker_number
from headrace.jsonrpc import METHOD_NOT_FOUND
from headrace.mux.observer import Observer

if TYPE_CHECKING:
    from headrace.errors import RpcError
    from headrace.mux import Mux, Observed, Runtime, Sink

__all__ = ("AccessLog",)

_MOST_WAITING = 10_000
"""Lines that wait for the loop; beyond them the oldest are written at once."""


def _to_stderr(text: str) -> None:
    if sys.stderr is not None:
        sys.stderr.write(text)
        sys.stderr.flush()


class AccessLog(Observer):
    """Writes the lines.

    :param write: is called with whole lines, mostly several at once; standard error by default.
    :param as_json: JSON objects with the members ``time``, ``log`` (``"access"``), ``peer``, ``method``, ``tool`` or
        ``prompt``, ``revision``, ``request_id``, ``session``, ``outcome`` (``"ok"``, ``"tool_error"``, ``"error"``,
        ``"cancelled"`` or ``"refused"``), ``code`` (of the error), ``status`` (of an HTTP request that was turned
        away), ``ms``, ``bytes_in`` and ``bytes_out``, ``worker``; plain lines with the same otherwise.
    """

    def __init__(self, write: Callable[[str], Any] = _to_stderr, *, as_json: bool = False) -> None:
        self._write = write
        self._format = _json if as_json else _plain
        self._worker = worker_number()
        self._waiting: list[_Line] = []

    def begin(self, request: Observed) -> tuple[float, str]:
        """Looks at the clock and at who is there: later it may be gone."""
        return time.perf_counter(), peer_of(request.sink)

    def end(self, request: Observed, seen: tuple[float, str]) -> None:
        """Notes how it went."""
        took = (time.perf_counter() - seen[0]) * 1000
        error, mux = request.error, request.mux
        self._note(
            (
                time.time(),
                seen[1],
                request.what,
                known_name(request),
                request.outcome or "ok",
                None if error is None else error.code,
                None,
                (took, request.asked_bytes, request.answer_bytes),
                request.request_id,
                request.revision.name,
                session_tag(mux),
            ),
            mux.runtime,
        )

    def refused(self, mux: Mux, sink: Sink, method: str, id: bytes | None, meta: bytes | None, error: RpcError) -> None:
        """A request that never began."""
        known = error.code != METHOD_NOT_FOUND  # the name of a method that nobody serves is the client's own
        shown = None if id is None else id.decode("utf-8", "replace").strip('"')
        code, session = error.code, session_tag(mux)
        line = (time.time(), peer_of(sink), method[:64] if known else "-", None, "refused", code, None, None)
        self._note((*line, shown, None, session), mux.runtime)

    def turned_away(self, runtime: Runtime, peer: str, status: int) -> None:
        """An HTTP request that was answered with an error status before its message was read."""
        self._note((time.time(), peer, "-", None, "refused", None, status, None, None, None, None), runtime)

    def _note(self, line: _Line, runtime: Runtime) -> None:
        self._waiting.append(line)
        if len(self._waiting) == 1:
            runtime.call_soon(self.flush)
        elif len(self._waiting) >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        """Writes what waits. Raises nothing: a log that cannot be written stops no server."""
        lines, self._waiting = self._waiting, []
        if not lines:
            return
        text = "".join([self._format(line, self._worker) for line in lines])
        with contextlib.suppress(OSError, ValueError):
            self._write(text)


_Line = tuple[
    float,
    str,
    str,
    str | None,
    str,
    int | None,
    int | None,
    tuple[float, int, int] | None,
    Any,
    str | None,
    str | None,
]
"""When, who, method, name, outcome, code, status, (ms, bytes in, bytes out), request id, revision, session."""


def _plain(line: _Line, worker: int | None) -> str:
    when, peer, method, name, outcome, code, status, cost, id, revision, session = line
    text = f"{stamp(when)} access {peer} {method if name is None else f'{method} {name}'} {outcome}"
    if cost is not None:
        text += f" {cost[0]:.1f}ms in={cost[1]} out={cost[2]}"
    if code is not None:
        text += f" code={code}"
    if status is not None:
        text += f" status={status}"
    if revision is not None:
        text += f" revision={revision}"
    if session is not None:
        text += f" session={session}"
    if id is not None:
        text += f" id={shown_id(id)}"
    if worker is not None:
        text += f" worker={worker}"
    return f"{text if text.isprintable() else one_line(text)}\n"


def _json(line: _Line, worker: int | None) -> str:
    when, peer, method, name, outcome, code, status, cost, id, revision, session = line
    made: dict[str, Any] = {"time": stamp(when), "log": "access", "peer": peer, "method": method}
    if name is not None:
        made[target_kind(method) or "name"] = name
    made["outcome"] = outcome
    if cost is not None:
        made["ms"] = round(cost[0], 3)
        made["bytes_in"], made["bytes_out"] = cost[1:]
    if id is not None:
        made["request_id"] = shown_id(id)
    others = {"code": code, "status": status, "revision": revision, "session": session, "worker": worker}
    made.update({key: value for key, value in others.items() if value is not None})
    return encoded(made) + "\n"
