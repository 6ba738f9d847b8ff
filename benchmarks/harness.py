"""Starting servers, loading them with the C generators, and comparing them in interleaved rounds.

Walls on shared machines say little: what counts is the server's own CPU per call, and ratios within one
run. A subject is measured once a round, all subjects in every round; the median is reported.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
BUILD = HERE.parent / "build" / "bench"
PEERS_PYTHON = os.environ.get("HEADRACE_PEERS_PYTHON", str(HERE.parent / ".tools" / "peers" / "bin" / "python"))

META = (
    '"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    '"io.modelcontextprotocol/clientCapabilities":{},'
    '"io.modelcontextprotocol/clientInfo":{"name":"bench","version":"1.0.0"}}'
)
INITIALIZE = (
    '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},'
    '"clientInfo":{"name":"bench","version":"1.0.0"}}}'
)
INITIALIZED = '{"jsonrpc":"2.0","method":"notifications/initialized"}'


def generator(name: str) -> str:
    """The compiled load generator ``name``."""
    BUILD.mkdir(parents=True, exist_ok=True)
    source, target = HERE / "load" / f"{name}.c", BUILD / name
    if not target.exists() or target.stat().st_mtime < source.stat().st_mtime:
        subprocess.run([os.environ.get("CC", "gcc"), "-O2", "-o", str(target), str(source)], check=True)
    return str(target)


def write_file(text: str | bytes, name: str) -> str:
    """A file of the run with this content."""
    BUILD.mkdir(parents=True, exist_ok=True)
    path = Path(tempfile.mkdtemp(dir=BUILD)) / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return str(path)


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def call_body(tool: str, arguments: str, *, modern: bool, id: str = "7") -> str:
    meta = "," + META if modern else ""
    return f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}{meta}}}}}'


def http_request(body: str, headers: dict[str, str]) -> bytes:
    data = body.encode()
    lines = ["POST /mcp HTTP/1.1", "Host: 127.0.0.1:8000", "Content-Type: application/json",
             "Accept: application/json, text/event-stream", f"Content-Length: {len(data)}"]  # fmt: skip
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


def modern_headers(method: str, name: str | None = None) -> dict[str, str]:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": method}
    if name is not None:
        headers["Mcp-Name"] = name
    return headers


def exchange(port: int, request: bytes, timeout: float = 20.0) -> bytes:
    """One request on a connection of its own; the whole answer."""
    with socket.create_connection(("127.0.0.1", port), timeout) as s:
        s.sendall(request.replace(b"Host:", b"Connection: close\r\nHost:", 1))
        data = b""
        while chunk := s.recv(1 << 20):
            data += chunk
            if b"\r\n\r\n" in data and b"ontent-length" in data.lower():
                head, _, body = data.partition(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                if len(body) >= length:
                    break
        return data


@contextlib.contextmanager
def process(command: list[str], port: int, **options: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A server process, once its port accepts connections; stopped by its own id at the end."""
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)
    try:
        for _ in range(600):
            if child.poll() is not None:
                raise RuntimeError(f"{command} ended: {child.stderr.read().decode()[-800:]}")  # type: ignore[union-attr]
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            time.sleep(0.05)
        yield child
    finally:
        child.terminate()
        try:
            child.wait(5)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def cpu_seconds(pid: int) -> float:
    """CPU time of a whole process, by its clock."""
    return time.clock_gettime((~pid << 3) | 2)


def rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Rss line")


@dataclass
class Subject:
    """One thing to measure: ``measure()`` returns the numbers of one round."""

    name: str
    measure: Callable[[], dict[str, float]]
    rounds: list[dict[str, float]] = field(default_factory=list)

    def median(self, key: str) -> float:
        return statistics.median(r[key] for r in self.rounds)


def interleave(subjects: list[Subject], rounds: int) -> None:
    for number in range(rounds):
        for subject in subjects:
            print(f"  round {number + 1}/{rounds}  {subject.name:<40}", end="\r", file=sys.stderr, flush=True)
            subject.rounds.append(subject.measure())
    print(" " * 70, end="\r", file=sys.stderr)


def http_load(port: int, request_file: str, expected: str, pid: int, *, connections: int, seconds: float) -> dict[str, float]:
    out = subprocess.run(
        [generator("httpload"), "127.0.0.1", str(port), str(connections), str(seconds), request_file, expected, str(pid)],
        capture_output=True, text=True,
    )  # fmt: skip
    if out.returncode:
        raise RuntimeError(f"load failed: {out.stdout} {out.stderr[-800:]}")
    return dict(json.loads(out.stdout))


def line_load(command: list[str], prelude: str, request: str, *, in_flight: int, seconds: float) -> dict[str, float]:
    out = subprocess.run(
        [generator("lineload"), str(in_flight), str(seconds), write_file(prelude, "prelude"), write_file(request + "\n", "request"), *command],
        capture_output=True, text=True,
    )  # fmt: skip
    if out.returncode:
        raise RuntimeError(f"load failed: {out.stdout} {out.stderr[-800:]}")
    return dict(json.loads(out.stdout))


def peer_version(package: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([PEERS_PYTHON, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def machine() -> dict[str, Any]:
    import platform

    model = "unknown"
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    git = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True)
    return {
        "date": time.strftime("%Y-%m-%d"),
        "cpu": model,
        "cores": os.cpu_count(),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "commit": git.stdout.strip() or "unknown",
    }
