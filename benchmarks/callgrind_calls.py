"""Instructions of the server for one message, counted by callgrind: the numbers that do not depend on load.

A server is driven in its own process over in-memory transports: bytes go into the link as the event loop
would hand them over, answers come out of the same call. Each case runs N and 3N times between two
marks, so that what remains after the subtraction is the work of one round: scanning, dispatch, the tool,
and writing the answer. Kernel and event loop are left out, so the ratios are stricter than CPU time.

Usage: callgrind_calls.py [--json FILE] [--compare FILE] [--rounds N]

``--compare`` fails when a case costs over 5 % more than FILE says (same Python and processor only). The
marks of the design (a list of 100 tools, a whole session) fail the run whenever they are missed.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from harness import BUILD, INITIALIZE, INITIALIZED, call_body, http_request, machine, modern_headers

ROUNDS = 100
GROWTH = 1.05
# Without the tunable valgrind counts one instruction for each byte that `rep movsb` copies.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1000000000"}
TEXT = '{"text":"a text of ordinary length","n":5}'
MARKS_C = """
#include <valgrind/callgrind.h>
void mark_start(void) { CALLGRIND_START_INSTRUMENTATION; CALLGRIND_ZERO_STATS; }
void mark_stop(const char *name) { CALLGRIND_DUMP_STATS_AT(name); CALLGRIND_STOP_INSTRUMENTATION; }
"""
PLAIN_HTTP = "http tools/call 2026-07-28"
PLAIN_SESSION = "http tools/call 2025-11-25"
PLAIN_LINES = "lines tools/call 2026-07-28"
RATIOS = [
    ("http tools/list of 100 tools 2026-07-28", PLAIN_HTTP, 3.0),
    ("http tools/list of 100 tools 2025-11-25", PLAIN_SESSION, 3.0),
    ("lines tools/list of 100 tools 2026-07-28", PLAIN_LINES, 3.0),
    ("http session 2024-11-05: initialize, initialized, call, DELETE", PLAIN_SESSION, 6.0),
    ("http session 2025-11-25: initialize, initialized, call, DELETE", PLAIN_SESSION, 6.0),
]
"""(what, of which plain call, at most so many of it)."""


class Transport:
    """What a link needs of a transport; the last write is in ``out``."""

    def __init__(self) -> None:
        self.out: deque[bytes] = deque(maxlen=1)
        self.write = self.out.append

    def set_write_buffer_limits(self, high: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def get_extra_info(self, name: str) -> None:
        return None

    def can_write_eof(self) -> bool:
        return False

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        pass

    abort = close


def make_server() -> Any:
    from headrace import Server

    app = Server("counted", version="1")

    @app.tool
    async def echo(text: str, n: int) -> str:
        """Gives the text back."""
        return text

    for i in range(99):

        def tool(city: str, days: int = 3, unit: str = "celsius") -> str:
            """Something about a city."""
            return city

        app.add_tool(tool, name=f"tool_{i:02}", description=f"Tool number {i} of a hundred, with a text of its own.")
    return app


def rounds_of(app: Any, site: Any) -> dict[str, Callable[[], object]]:
    """Case -> one round of it."""
    from headrace.transports._http_server import HttpLink
    from headrace.transports._link import LineLink

    cases: dict[str, Callable[[], object]] = {}

    def http(endpoint: Any) -> tuple[Any, Transport]:
        link, transport = HttpLink(endpoint), Transport()
        link.connection_made(transport)
        return link.data_received, transport

    def checked(feed: Any, transport: Transport, request: bytes, expected: bytes) -> Callable[[], object]:
        feed(request)
        assert expected in transport.out[-1], (request, transport.out)
        return lambda: feed(request)

    def start(version: str) -> bytes:
        return http_request(INITIALIZE.replace("2025-11-25", version), {})

    def begin(feed: Any, transport: Transport, version: str) -> bytes:
        feed(start(version))
        answer = transport.out[-1]
        assert b" 200 OK" in answer, answer
        return answer.partition(b"Mcp-Session-Id: ")[2].partition(b"\r\n")[0]

    def fields(sid: bytes, version: str) -> dict[str, str]:
        return {"Mcp-Session-Id": sid.decode(), "MCP-Protocol-Version": version}

    lines, transport = http(site["plain"])
    modern = http_request(call_body("echo", TEXT, modern=True), modern_headers("tools/call", "echo"))
    cases[PLAIN_HTTP] = checked(lines, transport, modern, b"ordinary length")
    list_body = call_body("echo", TEXT, modern=True).replace('"tools/call"', '"tools/list"')
    listing = http_request(list_body, modern_headers("tools/list"))
    cases["http tools/list of 100 tools 2026-07-28"] = checked(lines, transport, listing, b"tool_98")
    for name, version in (("plain", "2025-11-25"), ("sealed", "2025-11-25"), ("stateless", "2025-11-25")):
        feed, transport = http(site[name])
        sid = begin(feed, transport, version)
        header = fields(sid, version) if sid else {"MCP-Protocol-Version": version}
        request = http_request(call_body("echo", TEXT, modern=False), header)
        how = "" if name == "plain" else f", {name}"
        cases[f"http tools/call {version}{how}"] = checked(feed, transport, request, b"ordinary length")
        if name == "plain":
            listing = http_request('{"jsonrpc":"2.0","id":1,"method":"tools/list"}', header)
            cases[f"http tools/list of 100 tools {version}"] = checked(feed, transport, listing, b"tool_98")

    def session(feed: Any, transport: Transport, version: str) -> Callable[[], object]:
        first = start(version)
        note = http_request(INITIALIZED, fields(b"@", version))
        call = http_request(call_body("echo", TEXT, modern=False), fields(b"@", version))
        end = b"DELETE /mcp HTTP/1.1\r\nHost: 127.0.0.1:8000\r\nMcp-Session-Id: @\r\n\r\n"

        def one() -> None:
            feed(first)
            sid = transport.out[-1].partition(b"Mcp-Session-Id: ")[2].partition(b"\r\n")[0]
            feed(note.replace(b"@", sid))
            feed(call.replace(b"@", sid))
            feed(end.replace(b"@", sid))

        one()
        assert b" 204 " in transport.out[-1], transport.out
        return one

    for version in ("2024-11-05", "2025-11-25"):
        cases[f"http session {version}: initialize, initialized, call, DELETE"] = session(*http(site["plain"]), version)
    _, mux = app.new_session()
    transport = Transport()
    link = LineLink(mux, app.limits)
    link.connection_made(transport)
    line = call_body("echo", TEXT, modern=True).encode() + b"\n"
    cases[PLAIN_LINES] = checked(link.data_received, transport, line, b"ordinary length")
    cases["lines tools/list of 100 tools 2026-07-28"] = checked(
        link.data_received, transport, list_body.encode() + b"\n", b"tool_98"
    )
    return cases


async def child(rounds: int, marks: str) -> None:
    """The process under callgrind."""
    from headrace.transports.http_server import serve_http

    library = ctypes.CDLL(marks)
    app = make_server()
    async with app.running():
        listeners = {
            "plain": await serve_http(app, host="127.0.0.1", port=0, path="/mcp", allowed_hosts=["127.0.0.1:8000"]),
            "sealed": await serve_http(app, host="127.0.0.1", port=0, allowed_hosts=["127.0.0.1:8000"], sealed_sessions=True),
            "stateless": await serve_http(app, host="127.0.0.1", port=0, allowed_hosts=["127.0.0.1:8000"], stateless=True),
        }  # fmt: skip
        cases = rounds_of(app, {name: listener.endpoint for name, listener in listeners.items()})
        gc.collect()
        gc.disable()
        for number, one in enumerate(cases.values()):
            for _ in range(20):
                one()
            for times in (rounds, 3 * rounds):
                library.mark_start()
                for _ in range(times):
                    one()
                library.mark_stop(f"{number} {times}".encode())
        print(json.dumps(list(cases)), flush=True)
        os._exit(0)


def counts(rounds: int) -> dict[str, int]:
    """Case -> instructions of one round."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        source, library = Path(folder) / "marks.c", Path(folder) / "marks.so"
        source.write_text(MARKS_C)
        subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out",
             sys.executable, __file__, "--child", str(library), "--rounds", str(rounds)],
            env=os.environ | ENVIRONMENT, capture_output=True, timeout=900,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[-2000:])
        names = json.loads(done.stdout.splitlines()[-1])
        totals: dict[tuple[int, int], int] = {}
        for file in Path(folder).glob("out.*"):
            text = file.read_text()
            mark = re.search(r"^desc: Trigger: Client Request: (\d+) (\d+)$", text, re.MULTILINE)
            cost = re.search(r"^summary: (\d+)$", text, re.MULTILINE)
            if mark and cost:
                totals[int(mark[1]), int(mark[2])] = int(cost[1])
    return {
        name: round((totals[i, 3 * rounds] - totals[i, rounds]) / (2 * rounds)) for i, name in enumerate(names)
    }  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--json", metavar="FILE", help="write the numbers here")
    parser.add_argument("--compare", metavar="FILE", help="fail when a case costs over 5 %% more than here")
    parser.add_argument("--child", metavar="LIBRARY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(child(options.rounds, options.child))
    if shutil.which("valgrind") is None or not Path("/usr/include/valgrind/callgrind.h").exists():
        print("instructions: not counted, there is no valgrind (with its headers) here")
        return 0
    found = counts(options.rounds)
    about = machine()
    same = {key: about[key] for key in ("cpu", "python")}
    before: dict[str, int] = {}
    if options.compare:
        recorded = json.loads(Path(options.compare).read_text())
        if {key: recorded["machine"][key] for key in same} == same:
            before = recorded["instructions"]
        else:
            print(f"{options.compare} is of another machine or Python: growth is not compared")
    failed = False
    print(f"{'instructions of the server':<66}{'now':>10}{'before':>10}")
    for name, count in found.items():
        old = before.get(name)
        grown = old is not None and count > old * GROWTH
        failed |= grown
        print(f"{name:<66}{count:>10,}{old or '':>10}" + ("  GREW" if grown else ""))
    print(f"\n{'mark':<66}{'reached':>10}{'asked':>10}")
    for what, plain, most in RATIOS:
        ratio = found[what] / found[plain]
        failed |= ratio > most
        print(f"{what:<66}{ratio:>8.2f} x{f'<= {most:g} x':>10}  {'ok' if ratio <= most else 'MISSED'}")
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": about, "instructions": found}, indent=1) + "\n")
    return failed


if __name__ == "__main__":
    raise SystemExit(main())
