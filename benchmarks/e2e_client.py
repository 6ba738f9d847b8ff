"""The client: CPU of `await client.call_tool(...)` beside that of the server that answers, over stdio and HTTP."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys

from e2e_http import ours
from harness import HERE, PEERS_PYTHON, Subject, interleave

IN_FLIGHT = (1, 256, 1_000, 10_000)


def _run(command: list[str]) -> dict[str, float]:
    out = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if out.returncode:
        raise RuntimeError(f"the client failed: {out.stderr[-800:]}")
    return dict(json.loads(out.stdout))


def _client(name: str, in_flight: int, seconds: float, **target: object) -> Subject:
    job = json.dumps({"revision": "2026-07-28", "in_flight": in_flight, "seconds": seconds, **target})
    return Subject(f"{name}, {in_flight:,} in flight", lambda: _run([sys.executable, str(HERE / "peers" / "headrace_client.py"), job]))


def clients(*, seconds: float, rounds: int) -> list[dict[str, object]]:
    with contextlib.ExitStack() as stack:
        port, pid = stack.enter_context(ours())
        url = f"http://127.0.0.1:{port}/mcp"
        command = [sys.executable, str(HERE / "peers" / "headrace_server.py"), "stdio"]
        lines = {n: _client("stdio", n, seconds, command=command) for n in IN_FLIGHT}
        http = {n: _client("64 HTTP connections", n, seconds, url=url, server_pid=pid, connections=64) for n in IN_FLIGHT}
        sdk = Subject("official SDK over HTTP, 1 in flight", lambda: _run([PEERS_PYTHON, str(HERE / "peers" / "sdk_client.py"), url, str(seconds)]))
        interleave([*lines.values(), *http.values(), sdk], rounds)
    print("The client, calls in tasks of one event loop")
    marks: list[dict[str, object]] = []
    for where, subjects in (("stdio", lines), ("HTTP", http)):
        for n, s in subjects.items():
            cost, server = s.median("client_cpu_us"), s.median("server_cpu_us")
            print(f"  {s.name:<46}{cost:>8.1f} us CPU{server:>8.1f} us of the server{s.median('per_second'):>12,.0f} calls/s"
                  f"{s.median('gc_us'):>8.2f} us gc")  # fmt: skip
            if n != 256:
                ratio = cost / server
                marks.append({"what": f"client over {where}, {n:,} in flight: CPU of the server's", "reached": f"{ratio:.2f} x", "asked": "<= 1.5 x", "ok": ratio <= 1.5})
        kept = subjects[10_000].median("per_second") / subjects[256].median("per_second")
        marks.append({"what": f"client over {where}: throughput at 10,000 in flight of that at 256", "reached": f"{kept:.0%}", "asked": ">= 75%", "ok": kept >= 0.75})
    peer = sdk.median("client_cpu_us")
    times = peer / http[1].median("client_cpu_us")
    print(f"  {sdk.name:<46}{peer:>8.1f} us CPU")
    marks.append({"what": "client over HTTP, one at a time: official SDK costs more by", "reached": f"{times:.0f} x", "asked": ">= 30 x", "ok": times >= 30})
    return marks
