"""tools/call over Streamable HTTP against real server processes, 64 keep-alive connections."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

from harness import (
    HERE,
    INITIALIZE,
    INITIALIZED,
    PEERS_PYTHON,
    Subject,
    call_body,
    exchange,
    free_port,
    http_load,
    http_request,
    interleave,
    modern_headers,
    process,
    write_file,
)  # fmt: skip

TEXT = "a text of ordinary length"
ARGUMENTS = '{"text":"%s","n":5}'


@contextlib.contextmanager
def ours() -> Iterator[tuple[int, int]]:
    port = free_port()
    with process([sys.executable, str(HERE / "peers" / "headrace_server.py"), str(port)], port) as child:
        yield port, child.pid


@contextlib.contextmanager
def sdk(mode: str) -> Iterator[tuple[int, int]]:
    port = free_port()
    with process([PEERS_PYTHON, str(HERE / "peers" / "sdk_server.py"), str(port), mode], port) as child:
        yield port, child.pid


@contextlib.contextmanager
def canned(reply: bytes) -> Iterator[tuple[int, int]]:
    port = free_port()
    with process([sys.executable, str(HERE / "peers" / "canned_server.py"), str(port), write_file(reply, "reply")], port) as child:
        yield port, child.pid


def modern_call(text: str) -> bytes:
    return http_request(call_body("echo", ARGUMENTS % text, modern=True), modern_headers("tools/call", "echo"))


def legacy_call(port: int, text: str) -> bytes:
    """A call in a fresh session of the server at ``port``."""
    answer = exchange(port, http_request(INITIALIZE, {}))
    session = next(
        line.partition(b":")[2].strip().decode()
        for line in answer.split(b"\r\n") if line.lower().startswith(b"mcp-session-id:")
    )  # fmt: skip
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": "2025-11-25"}
    exchange(port, http_request(INITIALIZED, headers))
    return http_request(call_body("echo", ARGUMENTS % text, modern=False), headers)


def _load(name: str, at: tuple[int, int], request: bytes, expected: str, connections: int, seconds: float) -> Subject:
    file = write_file(request, "request")
    port, pid = at
    return Subject(name, lambda: http_load(port, file, expected, pid, connections=connections, seconds=seconds))


def _print(title: str, subjects: list[Subject]) -> None:
    print(title)
    for s in subjects:
        print(f"  {s.name:<46}{s.median('server_cpu_us'):>10.1f} us CPU{s.median('per_second'):>12,.0f} calls/s"
              f"{s.median('p50_us'):>10.0f} us p50{s.median('p99_us'):>10.0f} us p99")  # fmt: skip


def small_calls(*, seconds: float, rounds: int) -> list[dict[str, object]]:
    request = modern_call(TEXT)
    with contextlib.ExitStack() as stack:
        at = stack.enter_context(ours())
        reply = exchange(at[0], request).replace(b"Connection: close\r\n", b"")
        raw = stack.enter_context(canned(reply))
        fast = stack.enter_context(sdk("fast"))
        default = stack.enter_context(sdk("default"))
        mine = _load("headrace 2026-07-28", at, request, TEXT, 64, seconds)
        old = _load("headrace 2025-11-25, in a session", at, legacy_call(at[0], TEXT), TEXT, 64, seconds)
        limit = _load("raw uvloop protocol, canned reply", raw, request, TEXT, 64, seconds)
        peer = _load("official SDK 2026-07-28, uvloop + httptools", fast, request, TEXT, 64, seconds)
        slow = _load("official SDK 2025-11-25, default mode", default, legacy_call(default[0], TEXT), TEXT, 64, seconds)
        subjects = [limit, mine, old, peer, slow]
        interleave(subjects, rounds)
    _print("HTTP tools/call, 64 connections, async tool with two typed arguments, all checks on", subjects)
    cost = mine.median("server_cpu_us")
    to_limit = cost / limit.median("server_cpu_us")
    to_fast, to_slow = peer.median("server_cpu_us") / cost, slow.median("server_cpu_us") / cost
    return [
        {"what": "HTTP small call: CPU of the raw uvloop canned reply", "reached": f"{to_limit:.2f} x", "asked": "<= 2.0 x", "ok": to_limit <= 2},
        {"what": "HTTP small call: official SDK, fastest mode, costs more by", "reached": f"{to_fast:.0f} x", "asked": ">= 25 x", "ok": to_fast >= 25},
        {"what": "HTTP small call: official SDK, default mode, costs more by", "reached": f"{to_slow:.0f} x", "asked": ">= 100 x", "ok": to_slow >= 100},
    ]


def large_calls(*, seconds: float, rounds: int) -> list[dict[str, object]]:
    """Echo of large texts; cost per byte from 1 KB to 64 MB. Beside it a bare uvloop protocol that does
    the least that the work needs: it collects the body, decodes it with msgspec and encodes the answer."""
    marks: list[dict[str, object]] = []
    per_byte: dict[int, float] = {}
    with contextlib.ExitStack() as stack:
        at = stack.enter_context(ours())
        port = free_port()
        bare = (port, stack.enter_context(process([sys.executable, str(HERE / "peers" / "bare_echo.py"), str(port)], port)).pid)
        for size, label, connections in (
            (1 << 10, "1 KB", 16), (64 << 10, "64 KB", 16), (1 << 20, "1 MB", 1), (64 << 20, "64 MB", 1)
        ):  # fmt: skip
            text = "0123456789abcdef" * (size // 16)
            request = modern_call(text)
            mine = _load(f"headrace, {label}", at, request, text[:64], connections, seconds)
            least = _load(f"bare uvloop + msgspec echo, {label}", bare, request, text[:64], connections, seconds)
            interleave([mine, least], rounds)
            _print(f"HTTP echo of {label}", [least, mine])
            per_byte[size] = mine.median("server_cpu_us") / size
            if label in ("64 KB", "1 MB"):
                ratio = mine.median("server_cpu_us") / least.median("server_cpu_us")
                marks.append({"what": f"HTTP echo {label}: CPU of the bare uvloop + msgspec echo", "reached": f"{ratio:.2f} x", "asked": "<= 2.0 x", "ok": ratio <= 2})
    spread = per_byte[64 << 20] / per_byte[1 << 20]
    marks.append({"what": "HTTP echo: cost per byte at 64 MB against 1 MB", "reached": f"{spread:.2f} x", "asked": "about 1 x", "ok": spread <= 1.5})
    return marks
