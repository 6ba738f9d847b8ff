"""HTTP rows: a small tools/call at 64 connections in both eras and as an event stream, against canned replies of
the very bytes and against peers; and one at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from contenders import ALL, canned, canned_body, ours
from harness import Failed, Place, Subject, http_load, one_line
from messages import exchange, modern_call, open_session, session_call
from record import Record
from verify import over_http

TEXT = "a text of ordinary length"
ARGUMENTS = '{"text":"%s","n":5}' % TEXT
NOTE = "notifications/progress"
FIXED_ID = "7000007"
"""For requests to canned replies: as long as a running id, but always the same."""

PEER_MARKS: dict[str, tuple[str, float]] = {
    "sdk2-fast": ("official Python SDK 2, fastest mode, costs more by", 35),
    "sdk2-default": ("official Python SDK 2, default mode, costs more by", 150),
    "fastmcp": ("FastMCP 4, fastest mode, costs more by", 100),
    "typescript": ("TypeScript SDK, the cheaper of 1 and 2, costs more by", 25),
    "robyn": ("robyn's MCP costs more by", 12),
}


def subject(name: str, place: Place, request: bytes, *, connections: int, seconds: float, group: str = "", also: str = "", pinned: bool = False) -> Subject:
    return Subject(name, lambda: http_load(place, request, TEXT, connections=connections, seconds=seconds, also=also, pinned=pinned), group)


@contextlib.contextmanager
def canned_pair(
    stack: contextlib.ExitStack, place: Place, what: str, request: bytes, fixed: bytes, *, connections: int, seconds: float, also: str = "", pinned: bool = False
) -> Iterator[tuple[Subject, Subject]]:  # fmt: skip
    """headrace for this request, and a raw uvloop protocol that answers the very bytes headrace answers to it."""
    reply = exchange(place.port, fixed)
    if TEXT.encode() not in reply or also.encode() not in reply:
        raise Failed(f"headrace answered {one_line(reply[:200])}")
    raw = stack.enter_context(canned(reply))
    if pinned:
        place.pin(), raw.pin()
    options = {"connections": connections, "seconds": seconds, "also": also, "pinned": pinned}
    yield (
        subject(f"headrace, {what}", place, request, group="headrace", **options),  # type: ignore[arg-type]
        subject(f"raw uvloop protocol, canned reply of {what}", raw, fixed, group="limit", **options),  # type: ignore[arg-type]
    )


def small_calls(record: Record) -> None:
    seconds, group = record.seconds, "HTTP, 64 connections, ~150 B"
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(ours().listening())
        over_http(ours(), place)
        session = open_session(place.port)
        pairs = [
            stack.enter_context(canned_pair(stack, place, what, request, fixed, connections=64, seconds=seconds, also=also))
            for what, request, fixed, also in (
                ("2026-07-28", modern_call("echo", ARGUMENTS), modern_call("echo", ARGUMENTS, id=FIXED_ID), ""),
                ("2025-11-25 in a session", session_call(session, "echo", ARGUMENTS), session_call(session, "echo", ARGUMENTS, id=FIXED_ID), ""),
                ("2026-07-28, one note and the result as events", modern_call("echo_noted", ARGUMENTS, noted=True),
                 modern_call("echo_noted", ARGUMENTS, id=FIXED_ID, noted=True), NOTE),
                ("2025-11-25 in a session, one note and the result as events", session_call(session, "echo_noted", ARGUMENTS, noted=True),
                 session_call(session, "echo_noted", ARGUMENTS, id=FIXED_ID, noted=True), NOTE),
            )
        ]  # fmt: skip
        subjects = [s for pair in pairs for s in pair]
        body = exchange(place.port, modern_call("echo", ARGUMENTS, id=FIXED_ID)).partition(b"\r\n\r\n")[2]
        fixed = modern_call("echo", ARGUMENTS, id=FIXED_ID)
        asgi: list[Subject] = []
        for kind, name in (
            ("uvicorn", "uvicorn on uvloop and httptools, canned ASGI reply"),
            ("headrace", "headrace as ASGI host, the same canned ASGI reply"),
            ("granian-asgi", "granian on uvloop, canned ASGI reply"), ("granian-rsgi", "granian on uvloop, canned RSGI reply"),
        ):  # fmt: skip
            if kind in ("uvicorn", "headrace") or record.everything:
                try:
                    at = stack.enter_context(canned_body(kind, body))
                    asgi.append(subject(name, at, fixed, connections=64, seconds=seconds, group="http server"))
                except (RuntimeError, OSError) as error:
                    record.leave_out(f"{name}: {one_line(error)}")
        by_bar: dict[str, list[Subject]] = {}
        peers: list[Subject] = []
        for peer in ALL:
            if peer.http is None or not (record.everything or peer.key in ("sdk2-high-fast", "sdk2-high-default")):
                continue
            try:
                at = stack.enter_context(peer.listening())
                checks = over_http(peer, at)
                request = modern_call("echo", ARGUMENTS) if peer.era == "modern" else session_call(open_session(at.port), "echo", ARGUMENTS)
                name = peer.name + ("" if checks else " (arguments unchecked)")
                version = peer.version()
                if version:
                    record.versions[peer.name.partition(",")[0]] = version
                one = subject(name, at, request, connections=64, seconds=seconds, group="peer")
                peers.append(one)
                by_bar.setdefault(peer.bar, []).append(one)
            except (RuntimeError, OSError, ValueError) as error:
                record.leave_out(one_line(error) if str(error).startswith(peer.key) else f"{peer.name}: {one_line(error)}")
        record.measure("http-small", "HTTP tools/call of about 150 B, 64 connections, async tool with two typed arguments",
                       [*subjects, *asgi, *peers])  # fmt: skip
    ours_first = pairs[0][0]
    for (mine, raw), (limit, what) in zip(pairs, (
        (1.5, "2026-07-28"), (1.6, "2025-11-25 in a session, JSON answer"),
        (2.2, "2026-07-28, SSE answer: one progress note and the result"),
        (2.2, "2025-11-25 in a session, SSE answer that can be resumed: the same"),
    ), strict=True):  # fmt: skip
        record.ratio(group, f"{what}: CPU of the raw uvloop canned reply", mine, raw, limit)
    for bar, (what, limit) in PEER_MARKS.items():
        candidates = [s for s in by_bar.get(bar, ()) if s.rounds]
        if candidates:
            record.ratio("Peers on the first row", what, min(candidates, key=lambda s: s.median("server_cpu_us")), ours_first, limit, least=True)
        elif record.everything:
            record.unmeasured("Peers on the first row", what, f">= {limit:.0f} x")
    if asgi and asgi[0].rounds and "uvicorn" in asgi[0].name:
        record.ratio("Peers on the first row", "uvicorn with a canned ASGI reply costs more by", asgi[0], ours_first, 4, least=True)
        if len(asgi) > 1 and asgi[1].rounds and "headrace" in asgi[1].name:
            record.ratio("Peers on the first row", "... and more than headrace with the same ASGI application by", asgi[0], asgi[1], 2, least=True)


def one_connection(record: Record) -> None:
    """Round trips one at a time. The ratio is of walls: many short rounds, server and generator on a processor each."""
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(ours().listening())
        session = open_session(place.port)
        pairs = [
            stack.enter_context(canned_pair(stack, place, what, request, fixed, connections=1, seconds=record.seconds / 2, pinned=True))
            for what, request, fixed in (
                ("2026-07-28", modern_call("echo", ARGUMENTS), modern_call("echo", ARGUMENTS, id=FIXED_ID)),
                ("2025-11-25 in a session", session_call(session, "echo", ARGUMENTS), session_call(session, "echo", ARGUMENTS, id=FIXED_ID)),
            )
        ]  # fmt: skip
        record.measure("http-one", "HTTP, one connection, one call at a time", [s for pair in pairs for s in pair], rounds=record.rounds * 3)
    for (mine, raw), what in zip(pairs, ("2026-07-28", "2025-11-25 in a session"), strict=True):
        record.ratio("HTTP, one connection", f"{what}: median round trip against the canned reply's", mine, raw, 1.15, key="p50_us")
