"""Ten thousand calls that wait: all answered, what one holds in memory meanwhile, and what the waiting costs in time."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

from contenders import PEERS, ours
from harness import Failed, Place, Subject, http_load, line_load
from messages import HANDSHAKE, INITIALIZE, RUNNING_ID, call_body, exchange, http_request, modern_call
from record import Record

CALLS = 10_000
CONNECTIONS = 1_000
SLEEP = 0.8
HELD_MS = 650
"""When memory is read: all calls have arrived, none has its answer."""


def handler_bytes() -> float:
    """What one waiting handler holds by itself: its coroutine, future and timer, without any task."""
    done = subprocess.run([sys.executable, str(PEERS / "handlers_alone.py"), str(CALLS), str(SLEEP)], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise Failed(f"handlers_alone.py: {done.stderr[-200:]}")
    return float(done.stdout)


def _lines(seconds: float, held: bool) -> dict[str, Any]:
    body = call_body("sleep", f'{{"seconds":{seconds}}}', modern=False, id=RUNNING_ID)
    return line_load(ours().on_pipes(), HANDSHAKE, body, in_flight=CALLS, seconds=60, calls=CALLS, expected="slept", held_ms=HELD_MS if held else 0)


def _batches(place: Place, seconds: float, held: bool) -> dict[str, Any]:
    """Ten calls a request, as revision 2025-03-26 has it: 10,000 at once on 1,000 connections."""
    answer = exchange(place.port, http_request(INITIALIZE.replace("2025-11-25", "2025-03-26"), {}))
    session = next((line.partition(b":")[2].strip().decode() for line in answer.split(b"\r\n") if line.lower().startswith(b"mcp-session-id:")), "")
    calls = ",".join([call_body("sleep", f'{{"seconds":{seconds}}}', modern=False, id=RUNNING_ID)] * (CALLS // CONNECTIONS))
    request = http_request(f"[{calls}]", {"Mcp-Session-Id": session} if session else {})
    return http_load(place, request, "slept", connections=CONNECTIONS, seconds=60, calls=CONNECTIONS, held_ms=HELD_MS if held else 0)


def _one_by_one(place: Place, seconds: float) -> dict[str, Any]:
    request = modern_call("sleep", f'{{"seconds":{seconds}}}')
    return http_load(place, request, "slept", connections=CONNECTIONS, seconds=60, calls=CALLS)


def _held_batches(seconds: float, held: bool) -> dict[str, Any]:
    """On a server of its own: one that has held as much before has the memory for it already."""
    with ours().listening() as place:
        exchange(place.port, modern_call("sleep", '{"seconds":0}', id="7"))
        return _batches(place, seconds, held)


def sleeps(record: Record) -> None:
    pipe, at_once, in_turn = (
        "10,000 sleeps on one pipe", "10,000 sleeps at once on 1,000 HTTP connections (batches of ten)",
        "10,000 sleeps on 1,000 HTTP connections, ten after another on each",
    )  # fmt: skip
    _row(record, pipe, 1, record.rounds, _lines, before=0, at=1)
    _row(record, at_once, 1, record.rounds, _held_batches, before=1, at=2)
    with ours().listening() as place:
        _row(record, in_turn, CALLS // CONNECTIONS, record.rounds, lambda seconds, held: _one_by_one(place, seconds), before=None, at=None)


def _row(record: Record, group: str, turns: int, rounds: int, load: Any, *, before: int | None, at: int | None) -> None:
    plain = Subject(f"{group}: without sleeping", lambda: load(0, False), "headrace")
    slept = Subject(f"{group}: {SLEEP if turns == 1 else 0.1} s each", lambda: load(SLEEP if turns == 1 else 0.1, before is not None), "headrace")
    record.measure(f"sleep-{len(record.tables)}", group, [plain, slept], rounds=rounds)
    if not slept.rounds or not plain.rounds:
        record.unmeasured(group, "all answered", slept.failed or plain.failed)
        return
    each = CALLS // CONNECTIONS if "batches" in group else 1
    answered = min(r["calls"] for r in slept.rounds) * each
    record.at_least(group, "answered", answered, CALLS, "calls")
    if before is not None and at is not None:
        held = sorted((r["memory"][at][1] - r["memory"][before][1]) * 1024 / CALLS for r in slept.rounds)[len(slept.rounds) // 2]
        try:
            own = handler_bytes()
            record.at_most(group, f"memory a waiting call beyond its handler's own {own:,.0f} bytes", held - own, 1536, "bytes")
        except (Failed, OSError, subprocess.SubprocessError) as error:
            record.unmeasured(group, "memory a waiting call", error)
    sleep = SLEEP if turns == 1 else 0.1
    wall, cost = slept.median("seconds"), plain.median("seconds")
    record.at_most(group, "wall time against the sleep and the plain cost of the calls", wall / (sleep * turns + cost), 1.3, "x")
