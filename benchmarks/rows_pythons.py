"""The HTTP and stdio small rows on every CPython that headrace was built for: see `make bench-pythons`."""

from __future__ import annotations

import contextlib
import subprocess
import sys

from contenders import ours
from harness import ROOT, Subject
from messages import modern_call
from record import Record
from rows_http import ARGUMENTS
from rows_http import subject as http_subject
from rows_lines import subject as line_subject


def pythons() -> list[tuple[str, str, dict[str, str]]]:
    """Version, interpreter and environment: this one, and those with a build in build/pyNNN."""
    mine = "%d.%d" % sys.version_info[:2]
    found = [(mine, sys.executable, {})]
    for version in ("3.11", "3.12", "3.13"):
        home = ROOT / "build" / f"py{version.replace('.', '')}"
        if version != mine and (home / "bin" / "python").exists() and any(home.glob("lib/headrace/mux/*.so")):
            found.append((version, str(home / "bin" / "python"), {"PYTHONPATH": str(home / "lib")}))
    return sorted(found, key=lambda one: tuple(map(int, one[0].split("."))))


def compared(record: Record) -> None:
    found = pythons()
    for version in ("3.11", "3.12", "3.13"):
        if version not in [v for v, _, _ in found]:
            record.leave_out(f"CPython {version}: no build in build/py{version.replace('.', '')} (`make bench-pythons` makes it where that Python is installed)")
    if len(found) < 2:
        return
    http: list[Subject] = []
    lines: list[Subject] = []
    with contextlib.ExitStack() as stack:
        for version, python, env in found:
            full = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.strip().replace("Python", "CPython")
            record.versions[f"CPython {version}"] = full.partition(" ")[2]
            peer = ours(python, env)
            place = stack.enter_context(peer.listening())
            http.append(http_subject(full, place, modern_call("echo", ARGUMENTS), connections=64, seconds=record.seconds, group=version))
            lines.append(line_subject(full, [python, *peer.on_pipes()[1:]], in_flight=1000, seconds=record.seconds, group=version, env=env))
        record.measure("pythons-http", "HTTP tools/call at 2026-07-28, 64 connections, by Python", http)
        record.measure("pythons-stdio", "stdio, 1,000 in flight at 2025-11-25, async tool, by Python", lines)
