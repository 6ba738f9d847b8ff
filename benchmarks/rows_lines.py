"""stdio rows: 1,000 calls in flight and one at a time, against loops that only read and write, and against peers."""

from __future__ import annotations

import os

from contenders import ALL, echo_on_pipes, ours
from harness import Failed, Subject, line_load, one_line
from messages import HANDSHAKE, PING, RUNNING_ID, call_body
from record import Record
from verify import over_pipes

ARGUMENTS = '{"text":"a text of ordinary length","n":5}'


def subject(
    name: str, command: list[str], *, tool: str = "echo", modern: bool = False, in_flight: int, seconds: float,
    group: str = "", env: dict[str, str] | None = None, echo: bool = False, pinned: bool = False, warm: int = 0,
) -> Subject:  # fmt: skip
    """``echo``: what answers a line by that line itself. ``warm``: calls before the measured ones."""
    request = call_body(tool, ARGUMENTS, modern=modern, id=RUNNING_ID)
    first = call_body(tool, ARGUMENTS, modern=True, id="1") + "\n" if modern else PING if echo else HANDSHAKE
    first += "".join(call_body(tool, ARGUMENTS, modern=modern, id=str(number)) + "\n" for number in range(2, 2 + warm))
    expected = '"jsonrpc"' if echo else '"result"'
    return Subject(name, lambda: line_load(command, first, request, in_flight=in_flight, seconds=seconds, env=env, expected=expected, pinned=pinned), group)


def _peers(record: Record, in_flight: int) -> list[tuple[str, Subject]]:
    found = []
    for peer in ALL:
        if peer.stdio is None or not (record.everything or peer.key == "sdk2-high-default"):
            continue
        try:
            command = peer.on_pipes()
            over_pipes(command, {**os.environ, **peer.env})
            found.append((peer.key, subject(peer.name, command, in_flight=in_flight, seconds=record.seconds, group="peer", env=peer.env)))
        except (RuntimeError, OSError, ValueError) as error:
            record.leave_out(one_line(error) if str(error).startswith(peer.key) else f"{peer.name}, stdio: {one_line(error)}")
    return found


def _cheapest(peers: list[tuple[str, Subject]], prefix: str) -> Subject | None:
    measured = [s for key, s in peers if key.startswith(prefix) and s.rounds]
    return min(measured, key=lambda s: s.median("server_cpu_us")) if measured else None


def many_in_flight(record: Record) -> None:
    group, command, seconds = "stdio, 1,000 in flight, ~150 B", ours().on_pipes(), record.seconds
    inline = subject("headrace 2025-11-25, inline tool", command, tool="echo_inline", in_flight=1000, seconds=seconds, group="headrace")
    later = subject("headrace 2025-11-25, async tool", command, in_flight=1000, seconds=seconds, group="headrace")
    modern_inline = subject("headrace 2026-07-28, inline tool", command, tool="echo_inline", modern=True, in_flight=1000, seconds=seconds, group="headrace")
    modern = subject("headrace 2026-07-28, async tool", command, modern=True, in_flight=1000, seconds=seconds, group="headrace")
    peers = _peers(record, 1000)
    echoes = [
        subject("read and write loop in C, echo", echo_on_pipes("c"), in_flight=1000, seconds=seconds, group="limit", echo=True),
        subject("os.read and os.write loop in Python, echo", echo_on_pipes("python"), in_flight=1000, seconds=seconds, group="limit", echo=True),
    ]
    record.measure("stdio-many", "stdio, 1,000 in flight, about 150 B", [inline, later, modern_inline, modern, *echoes, *(s for _, s in peers)])
    for what, one, limit in (
        ("inline tool, 2025-11-25", inline, 2.0), ("inline tool, 2026-07-28", modern_inline, 2.0),
        ("async tool, 2025-11-25", later, 3.0), ("async tool, 2026-07-28", modern, 3.0),
    ):  # fmt: skip
        try:
            record.at_most(group, f"{what}: server CPU a call", one.median("server_cpu_us"), limit, "us")
        except Failed as error:
            record.unmeasured(group, what, error)
    for prefix, name, limit in (("sdk2", "official Python SDK 2, its cheapest way,", 300), ("typescript", "TypeScript SDK, the cheaper of 1 and 2,", 20)):
        peer = _cheapest(peers, prefix)
        if peer is not None:
            record.ratio(group, f"{name} costs more than the async tool by", peer, later, limit, least=True)
        elif record.everything:
            record.unmeasured(group, f"{name} costs more than the async tool by", f">= {limit} x")


def one_in_flight(record: Record) -> None:
    """Round trips one at a time. The ratio is of walls: many short rounds, server and generator on a processor each."""
    seconds = record.seconds / 2
    mine = subject("headrace, async tool", ours().on_pipes(), in_flight=1, seconds=seconds, pinned=True, group="headrace")
    inline = subject("headrace, inline tool", ours().on_pipes(), tool="echo_inline", in_flight=1, seconds=seconds, pinned=True, group="headrace")
    python = subject("os.read and os.write loop in Python, echo", echo_on_pipes("python"), in_flight=1, seconds=seconds, pinned=True, group="limit", echo=True)
    c = subject("read and write loop in C, echo", echo_on_pipes("c"), in_flight=1, seconds=seconds, pinned=True, group="limit", echo=True)
    record.measure("stdio-one", "stdio, one call at a time", [mine, python, inline, c], rounds=record.rounds * 2)
    record.ratio("stdio, one in flight", "round trips of the os.read and os.write loop in Python", mine, python, 0.95, key="per_second", least=True)
