"""tools/call over stdio against real server processes."""

from __future__ import annotations

import sys

from harness import HERE, INITIALIZE, INITIALIZED, PEERS_PYTHON, Subject, call_body, interleave, line_load

ARGUMENTS = '{"text":"a text of ordinary length","n":5}'
OURS = [sys.executable, str(HERE / "peers" / "headrace_server.py"), "stdio"]
SDK = [PEERS_PYTHON, str(HERE / "peers" / "sdk_server.py"), "stdio"]
ECHO = [sys.executable, str(HERE / "peers" / "os_echo.py")]
HANDSHAKE = f"{INITIALIZE}\n{INITIALIZED}\n"


def _subject(name: str, command: list[str], *, prelude: str, modern: bool, in_flight: int, seconds: float) -> Subject:
    request = call_body("echo", ARGUMENTS, modern=modern, id="0000000")
    return Subject(name, lambda: line_load(command, prelude, request, in_flight=in_flight, seconds=seconds))


def _print(title: str, subjects: list[Subject]) -> None:
    print(title)
    for s in subjects:
        print(f"  {s.name:<46}{s.median('server_cpu_us'):>10.2f} us CPU{s.median('per_second'):>14,.0f} calls/s")


def small_calls(*, seconds: float, rounds: int) -> list[dict[str, object]]:
    """1,000 in flight, about 150 bytes."""
    ours = _subject("headrace 2025-11-25", OURS, prelude=HANDSHAKE, modern=False, in_flight=1000, seconds=seconds)
    modern = _subject("headrace 2026-07-28", OURS, prelude="", modern=True, in_flight=1000, seconds=seconds)
    sdk = _subject("official Python SDK 2025-11-25", SDK, prelude=HANDSHAKE, modern=False, in_flight=1000, seconds=seconds)
    subjects = [ours, modern, sdk]
    interleave(subjects, rounds)
    _print("stdio, 1,000 in flight, async tool with two typed arguments", subjects)
    cost, peer = ours.median("server_cpu_us"), sdk.median("server_cpu_us")
    return [
        {"what": "stdio, 1,000 in flight: server CPU per call", "reached": f"{cost:.2f} us", "asked": "<= 4 us", "ok": cost <= 4},
        {"what": "stdio, 1,000 in flight: official Python SDK costs more by", "reached": f"{peer / cost:.0f} x", "asked": ">= 200 x", "ok": peer / cost >= 200},
    ]


def one_in_flight(*, seconds: float, rounds: int) -> list[dict[str, object]]:
    """Round trips one at a time, against an os.read / os.write loop."""
    ours = _subject("headrace", OURS, prelude=HANDSHAKE, modern=False, in_flight=1, seconds=seconds)
    echo = _subject("os.read / os.write loop in Python", ECHO, prelude="", modern=False, in_flight=1, seconds=seconds)
    interleave([ours, echo], rounds)
    _print("stdio, one in flight", [ours, echo])
    share = ours.median("per_second") / echo.median("per_second")
    return [{"what": "stdio, one in flight: round trips of the os.read/os.write loop", "reached": f"{share:.0%}", "asked": ">= 75%", "ok": share >= 0.75}]
