"""Large bodies: an echo of 4 KB, 64 KB and 1 MB over both transports, beside the best prototype (benchmarks/prototype)
and beside a bare uvloop protocol that collects, decodes with msgspec and encodes."""

from __future__ import annotations

import contextlib
import sys

from contenders import PEERS, ours
from harness import HERE, Failed, Place, Subject, free_port, http_load, line_load, one_line, process
from messages import HANDSHAKE, PING, RUNNING_ID, call_body, modern_call
from record import Record

SIZES = ((4 << 10, "4 KB", 64), (64 << 10, "64 KB", 16), (1 << 20, "1 MB", 1))
LINES_IN_FLIGHT = {"4 KB": 100, "64 KB": 1, "1 MB": 1}
PROTOTYPE = HERE / "prototype" / "serve.py"


def prototype(where: str) -> list[str]:
    """The command of the prototype on `stdio` or on a port."""
    if not PROTOTYPE.exists():
        raise Failed("benchmarks/prototype has no serve.py")
    return [sys.executable, str(PROTOTYPE), where]


def _prototype_http(record: Record, stack: contextlib.ExitStack) -> Place | None:
    try:
        port = free_port()
        return stack.enter_context(process(prototype(str(port)), port))
    except (Failed, OSError) as error:
        record.leave_out(f"prototype over HTTP: {one_line(error)}")
        return None


def large_calls(record: Record) -> None:
    seconds = record.seconds
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(ours().listening())
        best = _prototype_http(record, stack)
        port = free_port()
        bare = stack.enter_context(process([sys.executable, str(PEERS / "bare_echo.py"), str(port)], port))
        for size, label, connections in SIZES:
            text = "0123456789abcdef" * (size // 16)
            request = modern_call("echo", '{"text":"%s","n":5}' % text)

            def load(at: Place, request: bytes = request, connections: int = connections, end: str = text[-64:] + '"'):  # type: ignore[no-untyped-def]
                return lambda: http_load(at, request, end, connections=connections, seconds=seconds)

            mine = Subject(f"headrace, HTTP, {label}", load(place), "headrace")
            least = Subject(f"bare uvloop and msgspec, HTTP, {label}", load(bare), "limit")
            subjects = [mine, least]
            if best is not None:
                subjects.insert(1, Subject(f"prototype, HTTP, {label}", load(best), "limit"))
            record.measure(f"large-http-{label}", f"HTTP echo of {label}, {connections} connection{'s' if connections > 1 else ''}", subjects)
            _mark(record, "HTTP", label, mine, subjects[1] if best is not None else None)
    for size, label, _ in SIZES:
        text = "0123456789abcdef" * (size // 16)
        in_flight = LINES_IN_FLIGHT[label]
        body = call_body("echo", '{"text":"%s","n":5}' % text, modern=False, id=RUNNING_ID)

        def pipes(command: list[str], body: str = body, in_flight: int = in_flight, end: str = text[-64:] + '"', prelude: str = HANDSHAKE):  # type: ignore[no-untyped-def]
            return lambda: line_load(command, prelude, body, in_flight=in_flight, seconds=seconds, expected=end)

        mine = Subject(f"headrace, stdio, {label}", pipes(ours().on_pipes()), "headrace")
        subjects = [mine]
        try:
            subjects.append(Subject(f"prototype, stdio, {label}", pipes(prototype("stdio"), prelude=PING), "limit"))
        except Failed as error:
            record.leave_out(f"prototype over stdio: {error}")
        record.measure(f"large-stdio-{label}", f"stdio echo of {label}, {in_flight} in flight", subjects)
        _mark(record, "stdio", label, mine, subjects[1] if len(subjects) > 1 else None)


def _mark(record: Record, transport: str, label: str, mine: Subject, best: Subject | None) -> None:
    what = f"{transport}, {label}: CPU of the best prototype"
    if best is None:
        record.unmeasured("Large bodies", what, "<= 1.20 x")
    else:
        record.ratio("Large bodies", what, mine, best, 1.2)
