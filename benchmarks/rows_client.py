"""The client: CPU of `await client.call_tool(...)` beside that of the server that answers the same calls."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from contenders import ours
from harness import HERE, PEERS_PYTHON, Failed, Subject, interleave, one_line
from record import Record

GROUP = "Client"
IN_FLIGHT = (1, 256, 1_000, 10_000)
LEAST_SECONDS = 2.0


def run_client(command: list[str]) -> dict[str, Any]:
    out = subprocess.run(command, capture_output=True, text=True, timeout=120, errors="replace")
    if out.returncode:
        raise Failed(f"the client failed: {one_line(out.stderr)}")
    return dict(json.loads(out.stdout))


def _subject(where: str, in_flight: int, seconds: float, **target: object) -> Subject:
    job = json.dumps({"revision": "2026-07-28", "in_flight": in_flight, "seconds": seconds, **target})
    command = [sys.executable, str(HERE / "peers" / "headrace_client.py"), job]
    return Subject(f"headrace over {where}, {in_flight:,} in flight", lambda: run_client(command))


def client(record: Record) -> None:
    """Over stdio and over 64 HTTP connections; the server's CPU is of the same rounds."""
    seconds = record.seconds if record.quick else max(record.seconds, LEAST_SECONDS)
    with ours().listening() as place:
        url = f"http://127.0.0.1:{place.port}/mcp"
        command = ours().on_pipes()
        lines = {n: _subject("stdio", n, seconds, command=command) for n in IN_FLIGHT}
        http = {n: _subject("HTTP", n, seconds, url=url, server_pid=place.pid, connections=64) for n in IN_FLIGHT}
        official = [PEERS_PYTHON, str(HERE / "peers" / "sdk_client.py"), url, str(seconds)]
        sdk = Subject("official Python SDK over HTTP, 1 in flight", lambda: run_client(official))
        interleave([*lines.values(), *http.values(), sdk], record.rounds, record.until)
    print("The client, N tasks that await call after call")
    for subject in (*lines.values(), *http.values(), sdk):
        _print(record, subject)
    print(flush=True)
    record.ratio(GROUP, "over HTTP, one at a time: CPU of the official client", sdk, http[1], 30, key="client_cpu_us", least=True)
    for where, subjects in (("stdio", lines), ("HTTP", http)):
        for n in (1, 1_000, 10_000):
            _against_server(record, f"over {where}, {n:,} in flight: CPU of the server's", subjects[n])
        what = f"over {where}: throughput at 10,000 in flight of that at 256"
        record.ratio(GROUP, what, subjects[10_000], subjects[256], 0.75, key="per_second", least=True)


def _print(record: Record, subject: Subject) -> None:
    if subject.failed:
        record.leave_out(f"{subject.name}: {subject.failed}")
    if not subject.rounds:
        return
    line = f"  {subject.name:<46}{subject.median('client_cpu_us'):>10,.2f} us CPU{subject.median('per_second'):>12,.0f} calls/s"
    if "server_cpu_us" in subject.rounds[0]:
        line += f"{subject.median('server_cpu_us'):>9,.2f} us of the server{subject.median('gc_us'):>8.2f} us gc"
    print(line)


def _against_server(record: Record, what: str, subject: Subject) -> None:
    try:
        value = subject.median("client_over_server")
    except Failed as error:
        record.unmeasured(GROUP, what, error)
        return
    record.at_most(GROUP, what, value, 1.5, "x")
