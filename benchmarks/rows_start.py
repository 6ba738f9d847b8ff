"""What it costs to be there: import, time to the first answer, memory of an idle server and connection."""

from __future__ import annotations

import os
import socket
import statistics
import subprocess
import sys
import time

from contenders import ours
from harness import HERE, PEERS_PYTHON, rss_bytes
from record import Record

FIRST = (
    b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    b'"clientInfo":{"name":"bench","version":"1.0.0"}}}\n'
)


def _cpu_of(command: list[str]) -> float:
    """CPU seconds of a whole process, user and system."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        raise RuntimeError(f"{command} failed")
    return usage.ru_utime + usage.ru_stime


def _import(python: str, name: str) -> float:
    return _cpu_of([python, "-c", f"import {name}" if name else "pass"])


def _first_answer(command: list[str]) -> float:
    """Seconds from exec to the answer of initialize over stdio."""
    start = time.perf_counter()
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write(FIRST)
    child.stdin.flush()
    line = child.stdout.readline()
    took = time.perf_counter() - start
    child.stdin.close()
    child.wait(10)
    child.stdout.close()
    if b'"result"' not in line:
        raise RuntimeError(f"{command}: {line!r}")
    return took


def start_and_memory(record: Record) -> None:
    rows: dict[str, list[float]] = {key: [] for key in ("bare", "asyncio", "headrace", "bare_peer", "mcp", "first", "first_mcp")}
    for _ in range(2 if record.quick else max(record.rounds, 3) * 2):
        rows["bare"].append(_import(sys.executable, ""))
        rows["asyncio"].append(_import(sys.executable, "asyncio"))
        rows["headrace"].append(_import(sys.executable, "headrace"))
        rows["mcp"].append(_import(PEERS_PYTHON, "mcp"))
        rows["first"].append(_first_answer([sys.executable, str(HERE / "peers" / "headrace_server.py"), "stdio"]))
        rows["first_mcp"].append(_first_answer([PEERS_PYTHON, str(HERE / "peers" / "sdk_server.py"), "stdio"]))
    m = {key: statistics.median(values) for key, values in rows.items() if values}
    print("start (CPU of the whole process; interpreter alone "
          f"{m['bare'] * 1e3:.0f} ms)")  # fmt: skip
    print(f"  import asyncio {m['asyncio'] * 1e3:.0f} ms, import headrace {m['headrace'] * 1e3:.0f} ms, import mcp {m['mcp'] * 1e3:.0f} ms")
    print(f"  exec to first answer over stdio: headrace {m['first'] * 1e3:.0f} ms, official SDK {m['first_mcp'] * 1e3:.0f} ms")
    with ours().listening() as place:
        time.sleep(0.3)
        idle = rss_bytes(place.pid)
        count = 2000
        held = []
        for _ in range(count):
            s = socket.create_connection(("127.0.0.1", place.port))
            held.append(s)
        time.sleep(1.0)
        each = (rss_bytes(place.pid) - idle) / count
        for s in held:
            s.close()
    print(f"  idle HTTP server {idle / 1e6:.1f} MB, each idle connection {each:,.0f} bytes")
    to_asyncio, to_mcp = m["headrace"] / m["asyncio"], m["mcp"] / m["headrace"]
    to_first = m["first_mcp"] / m["first"]
    group = "Start and idle memory"
    record.at_most(group, "import headrace: CPU of import asyncio", to_asyncio, 1.5, "x")
    record.at_least(group, "import mcp costs more than import headrace by", to_mcp, 8, "x")
    record.at_least(group, "stdio, exec to first answer: official Python SDK takes longer by", to_first, 6, "x")
    record.at_most(group, "idle HTTP server process", idle / 1e6, 40, "MB")
    record.at_most(group, "idle HTTP connection", each / 1024, 4, "KB")
