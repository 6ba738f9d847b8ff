"""Memory over millions of calls: the slope of the server's resident size, after the first fifth of them."""

from __future__ import annotations

import contextlib

from contenders import ours
from harness import Failed, http_load, line_load
from messages import HANDSHAKE, RUNNING_ID, call_body, modern_call
from record import Record

ARGUMENTS = '{"text":"a text of ordinary length","n":5}'


def slope(samples: list[list[float]]) -> float:
    """Bytes a call, least squares over what follows the first fifth; samples are (calls, kilobytes)."""
    last = samples[-1][0]
    later = [(calls, kb * 1024) for calls, kb in samples if calls >= last / 5]
    mean_x = sum(x for x, _ in later) / len(later)
    mean_y = sum(y for _, y in later) / len(later)
    spread = sum((x - mean_x) ** 2 for x, _ in later)
    return sum((x - mean_x) * (y - mean_y) for x, y in later) / spread if spread else 0.0


def memory(record: Record) -> None:
    over_lines, over_http = (200_000, 50_000) if record.quick else (10_000_000, 2_000_000)
    body = call_body("echo", ARGUMENTS, modern=False, id=RUNNING_ID)
    with contextlib.suppress(Failed):
        _row(record, "stdio", lambda bound: line_load(
            ours().on_pipes(), HANDSHAKE, body, in_flight=1000, seconds=bound, calls=over_lines, samples=100), over_lines)  # fmt: skip
    with contextlib.suppress(Failed), ours().listening() as place:
        _row(record, "HTTP", lambda bound: http_load(
            place, modern_call("echo", ARGUMENTS), "ordinary", connections=64, seconds=bound, calls=over_http, samples=100), over_http)  # fmt: skip


def _row(record: Record, name: str, load, calls: int) -> None:  # type: ignore[no-untyped-def]
    print(f"  memory over {calls:,} calls, {name}", end="\r", flush=True)
    bound = max(10.0, min(90.0, record.left() - 20))
    try:
        found = load(bound)
    except Failed as error:
        record.unmeasured("Memory", f"{name}, slope over {calls:,} calls", error)
        return
    samples = [[calls, kb] for calls, kb in found["memory"]]
    record.curves[f"memory-{name.lower()}"] = samples
    done = found["calls"]
    print(f"memory over {done:,} calls, {name}: {samples[0][1] / 1024:.1f} MB before, {samples[-1][1] / 1024:.1f} MB after\n")
    record.at_most("Memory", f"{name}, slope over {done:,} calls", slope(samples), 1.0, "bytes a call")
