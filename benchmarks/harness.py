"""Starting servers, loading them with the C generators, and comparing them in interleaved rounds.

Walls on shared machines say little: what counts is the server's own CPU per call, and ratios within one
run. A subject is measured once a round, all subjects in every round; the median is reported. What fails is
one line and leaves the others alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
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

from messages import INITIALIZE, INITIALIZED, META, call_body, exchange, http_request, modern_headers  # noqa: F401

HERE = Path(__file__).parent
ROOT = HERE.parent
BUILD = ROOT / "build" / "bench"
TOOLS = ROOT / ".tools"
PEERS_PYTHON = os.environ.get("HEADRACE_PEERS_PYTHON", str(TOOLS / "peers" / "bin" / "python"))


class Failed(RuntimeError):
    """A subject that cannot be measured; the text is one line."""


def generator(name: str) -> str:
    """The compiled program ``name`` of the folder load."""
    BUILD.mkdir(parents=True, exist_ok=True)
    source, target = HERE / "load" / f"{name}.c", BUILD / name
    newest = max(path.stat().st_mtime for path in (source, HERE / "load" / "common.h"))
    if not target.exists() or target.stat().st_mtime < newest:
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


def one_line(text: object) -> str:
    return " ".join(str(text).split())[-300:]


@dataclass(frozen=True)
class Place:
    """A server that listens."""

    port: int
    pid: int

    def pin(self) -> None:
        """To the second processor; the generator with ``pinned`` is on the first."""
        if (os.cpu_count() or 1) > 1:
            for pid in family(self.pid):
                os.sched_setaffinity(pid, {1})


@contextlib.contextmanager
def process(command: list[str], port: int, **options: Any) -> Iterator[Place]:
    """A server process, once its port accepts connections; it and its children are stopped at the end."""
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True, **options)
        try:
            until = time.monotonic() + 30
            while True:
                if child.poll() is not None or time.monotonic() > until:
                    said.seek(0)
                    how = "did not listen within 30 s" if child.poll() is None else "ended"
                    raise Failed(f"{Path(command[0]).name} {how}: {one_line(said.read().decode(errors='replace'))}")
                with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                    break
                time.sleep(0.05)
            yield Place(port, child.pid)
        finally:
            for sign in (signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, sign)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.wait(3)
                    if sign == signal.SIGTERM and not family(child.pid):
                        break


def family(pid: int) -> list[int]:
    """The process ``pid`` and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, ValueError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found, ahead = [], [pid]
    while ahead:
        at = ahead.pop()
        if Path(f"/proc/{at}").exists():
            found.append(at)
        ahead += children.get(at, [])
    return found


def rss_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Rss:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no Rss line")


@dataclass
class Subject:
    """One thing to measure: ``measure()`` returns the numbers of one round."""

    name: str
    measure: Callable[[], dict[str, Any]]
    group: str = ""
    rounds: list[dict[str, Any]] = field(default_factory=list)
    failed: str = ""

    def median(self, key: str) -> float:
        if not self.rounds:
            raise Failed(f"{self.name}: {self.failed or 'not measured'}")
        return statistics.median(r[key] for r in self.rounds)


def interleave(subjects: list[Subject], rounds: int, until: float | None = None) -> None:
    """Every subject once a round. One that fails is left out from then on; the first round is always run to
    its end, later ones only while ``until`` (on the monotonic clock) is ahead."""
    for number in range(rounds):
        for subject in subjects:
            if subject.failed or (number and until is not None and time.monotonic() > until):
                continue
            print(f"  round {number + 1}/{rounds}  {subject.name:<60}", end="\r", file=sys.stderr, flush=True)
            try:
                subject.rounds.append(subject.measure())
            except (Failed, OSError, ValueError, subprocess.SubprocessError) as error:
                subject.failed = one_line(error)
                print(f"  {subject.name}: failed: {subject.failed}", file=sys.stderr)
    print(" " * 90, end="\r", file=sys.stderr)


def _run(command: list[str], seconds: float, **options: Any) -> dict[str, Any]:
    try:
        out = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 30, errors="replace", **options)
    except subprocess.TimeoutExpired:
        raise Failed(f"no end within {seconds + 30:.0f} s") from None
    if out.returncode:
        raise Failed(f"load failed: {one_line(out.stderr or out.stdout)}")
    return dict(json.loads(out.stdout))


def http_load(
    place: Place, request: bytes, expected: str, *, connections: int, seconds: float,
    calls: int = 0, also: str = "", samples: int = 0, held_ms: int = 0, pinned: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """One run of load/httpload.c against a server that listens."""
    options = ["-n", str(calls), "-a", also, "-m", str(samples), "-h", str(held_ms), *(["-p"] if pinned else [])]
    pids = ",".join(map(str, family(place.pid)))
    path = write_file(request, "request")
    where = ["127.0.0.1", str(place.port), str(connections), str(seconds), path, expected, pids]
    return _run([generator("httpload"), *options, *where], seconds)


def line_load(
    command: list[str], prelude: str, request: str, *, in_flight: int, seconds: float,
    calls: int = 0, expected: str = '"result"', samples: int = 0, held_ms: int = 0, env: dict[str, str] | None = None,
    pinned: bool = False,
) -> dict[str, Any]:  # fmt: skip
    """One run of load/lineload.c, which starts the server itself."""
    options = ["-n", str(calls), "-e", expected, "-m", str(samples), "-h", str(held_ms), *(["-p"] if pinned else [])]
    files = [write_file(prelude, "prelude"), write_file(request + "\n", "request")]
    return _run(
        [generator("lineload"), *options, str(in_flight), str(seconds), *files, *command], seconds,
        env={**os.environ, **(env or {})},
    )  # fmt: skip


def peer_version(package: str, python: str = PEERS_PYTHON) -> str:
    """The version of a package beside ``python``; empty when it is not there."""
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    return ""


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
