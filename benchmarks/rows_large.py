"""Large bodies: an echo of 4 KB, 64 KB and 1 MB over both transports, beside the best prototype (benchmarks/prototype)
and beside a bare uvloop protocol that collects, decodes with msgspec and encodes."""

from __future__ import annotations

import contextlib
import sys

from contenders import PEERS, ours
from harness import HERE, Failed, Place, Subject, free_port, http_load, line_load, one_line, process
from messages import HANDSHAKE, PING, RUNNING_ID, call_body, exchange, modern_call
from record import Record
from verify import check, message_of

SIZES = ((4 << 10, "4 KB", 64), (64 << 10, "64 KB", 16), (1 << 20, "1 MB", 1))
LINES_IN_FLIGHT = {"4 KB": 100, "64 KB": 1, "1 MB": 1}
PROTOTYPE = [sys.executable, str(HERE / "prototype" / "serve.py")]
MODES = ("cparse", "bparse", "engine")


def _prototypes_http(record: Record, stack: contextlib.ExitStack) -> dict[str, Place]:
    """The prototype's ways of serving HTTP that start and answer rightly."""
    found = {}
    for mode in MODES:
        try:
            port = free_port()
            place = stack.enter_context(process([*PROTOTYPE, mode, str(port)], port))
            for length in (16, 1 << 20):
                text = "0123456789abcdef" * (length // 16)
                request = modern_call("echo", '{"text":"%s","n":5}' % text, id="7")
                check(f"prototype {mode}", message_of(exchange(port, request)), text)
            found[mode] = place
        except (Failed, OSError, RuntimeError) as error:
            record.leave_out(f"prototype {mode} over HTTP: {one_line(error)}")
    return found


def _best(subjects: list[Subject]) -> Subject | None:
    """The prototype that took the least CPU."""
    measured = [s for s in subjects if s.rounds and s.name.startswith("prototype")]
    return min(measured, key=lambda s: s.median("server_cpu_us")) if measured else None


def large_calls(record: Record) -> None:
    _over_http(record)
    _over_pipes(record)


def _over_http(record: Record) -> None:
    seconds = record.seconds
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(ours().listening())
        prototypes = _prototypes_http(record, stack)
        port = free_port()
        bare = stack.enter_context(process([sys.executable, str(PEERS / "bare_echo.py"), str(port)], port))
        for size, label, connections in SIZES:
            text = "0123456789abcdef" * (size // 16)
            request = modern_call("echo", '{"text":"%s","n":5}' % text)

            def load(at: Place, request: bytes = request, connections: int = connections, end: str = text[-64:] + '"'):  # type: ignore[no-untyped-def]
                return lambda: http_load(at, request, end, connections=connections, seconds=seconds)

            mine = Subject(f"headrace, HTTP, {label}", load(place), "headrace")
            subjects = [
                mine,
                *(Subject(f"prototype {mode}, HTTP, {label}", load(at), "limit") for mode, at in prototypes.items()),
                Subject(f"bare uvloop and msgspec, HTTP, {label}", load(bare), "limit"),
            ]
            record.measure(f"large-http-{label}", f"HTTP echo of {label}, {connections} connection{'s' if connections > 1 else ''}", subjects)
            _mark(record, "HTTP", label, mine, _best(subjects))


def _over_pipes(record: Record) -> None:
    seconds = record.seconds
    for size, label, _ in SIZES:
        text = "0123456789abcdef" * (size // 16)
        in_flight = LINES_IN_FLIGHT[label]
        body = call_body("echo", '{"text":"%s","n":5}' % text, modern=False, id=RUNNING_ID)

        def pipes(command: list[str], body: str = body, in_flight: int = in_flight, end: str = text[-64:] + '"', prelude: str = HANDSHAKE):  # type: ignore[no-untyped-def]
            return lambda: line_load(command, prelude, body, in_flight=in_flight, seconds=seconds, expected=end)

        mine = Subject(f"headrace, stdio, {label}", pipes(ours().on_pipes()), "headrace")
        best = Subject(f"prototype, stdio, {label}", pipes([*PROTOTYPE, "stdio"], prelude=PING), "limit")
        record.measure(f"large-stdio-{label}", f"stdio echo of {label}, {in_flight} in flight", [mine, best])
        _mark(record, "stdio", label, mine, _best([best]))


def _mark(record: Record, transport: str, label: str, mine: Subject, best: Subject | None) -> None:
    what = f"{transport}, {label}: CPU of the best prototype"
    if best is None:
        record.unmeasured("Large bodies", what, "<= 1.20 x")
    else:
        record.ratio("Large bodies", what, mine, best, 1.2)
