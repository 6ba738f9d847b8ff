"""The benchmarks of headrace: ratios within one interleaved run, server CPU per call first.

`make bench` runs the short form, `make bench-peers` everything with all peers, `make bench-embed` servers of other
SDKs under their own hosts and under ours. A subject or section that fails is one line; the whole run keeps to --minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import rows_client
import rows_embed
import rows_http
import rows_large
import rows_lines
import rows_memory
import rows_pythons
import rows_sleep
import rows_start
from harness import ROOT, Failed, machine, one_line, peer_version
from record import Record

# Section, its part of the time, and whether it belongs to the short run.
SECTIONS: dict[str, tuple[Callable[[Record], None], float, bool]] = {
    "http": (rows_http.small_calls, 4.0, True),
    "http-one": (rows_http.one_connection, 0.7, True),
    "stdio": (rows_lines.many_in_flight, 2.5, True),
    "stdio-one": (rows_lines.one_in_flight, 0.8, True),
    "large": (rows_large.large_calls, 1.8, True),
    "sleep": (rows_sleep.sleeps, 0.8, False),
    "memory": (rows_memory.memory, 2.2, False),
    "client": (rows_client.client, 1.6, False),
    "pythons": (rows_pythons.compared, 0.8, False),
    "start": (rows_start.start_and_memory, 0.6, True),
}
# What `make bench-embed` measures; bench-peers does not.
EMBED: dict[str, tuple[Callable[[Record], None], float, bool]] = {
    "embed-http": (rows_embed.http, 2.2, False),
    "embed-stdio": (rows_embed.stdio, 2.4, False),
    "embed-client": (rows_embed.client, 1.6, False),
    "embed-profile": (rows_embed.profile, 1.2, False),
}


def options_of(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.5, help="load time of one measurement (default 1.5)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--peers", action="store_true", help="every section, and every peer that is installed")
    parser.add_argument("--embed", action="store_true", help="servers and clients of other SDKs on headrace")
    parser.add_argument("--quick", action="store_true", help="one short round of each: tries the machinery, says little")
    parser.add_argument("--only", default="", metavar="NAME,...", help=f"sections to run: {', '.join(SECTIONS | EMBED)}")
    parser.add_argument("--minutes", type=float, help="bound of the whole run (default 14.5, with --embed 9.5)")
    parser.add_argument("--json", metavar="FILE", help="write the numbers here")
    options = parser.parse_args(arguments)
    usual = list(EMBED) if options.embed else [n for n, s in SECTIONS.items() if options.peers or s[2]]
    options.chosen = [name for name in options.only.split(",") if name] or usual
    unknown = set(options.chosen) - set(SECTIONS | EMBED)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS | EMBED)}")
    if options.minutes is None:
        options.minutes = 9.5 if options.embed else 14.5
    if options.quick:
        options.seconds, options.rounds = min(options.seconds, 0.3), 1
    return options


def run_sections(record: Record, chosen: list[str], minutes: float) -> None:
    """Each section gets its part of the time that is left; what it does not use is for those after it."""
    start = time.monotonic()
    record.deadline = start + minutes * 60
    for at, name in enumerate(chosen):
        section, share, _ = (SECTIONS | EMBED)[name]
        left = record.left()
        if left < 15:
            record.leave_out(f"section {name}: no time left")
            continue
        record.until = time.monotonic() + left * share / sum((SECTIONS | EMBED)[n][1] for n in chosen[at:])
        print(f"section {name}, {time.monotonic() - start:.0f} s of {minutes * 60:.0f} s", file=sys.stderr)
        try:
            section(record)
        except (Failed, OSError, ValueError, RuntimeError, subprocess.SubprocessError) as error:
            record.leave_out(f"section {name}: {one_line(error)}")


def print_marks(record: Record) -> None:
    group = ""
    for mark in record.marks:
        if mark["group"] != group:
            group = mark["group"]
            print(f"\n{group}")
        verdict = {True: "ok", False: f"MISSED{' by ' + mark['by'] if mark['by'] else ''}", None: ""}[mark["ok"]]
        print(f"  {mark['what']:<84}{mark['reached']:>16}{mark['asked']:>24}  {verdict}")


def main() -> int:
    options = options_of()
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))))
    about = machine()
    record = Record(options.seconds, options.rounds, options.peers, options.quick)
    for name in () if options.embed else ("mcp", "uvicorn"):
        record.versions[{"mcp": "official Python SDK 2"}.get(name, name)] = peer_version(name)
    print(f"headrace benchmarks, {about['date']}, {about['cpu']}, {about['cores']} cores, Python {about['python']}\n")
    start = time.monotonic()
    run_sections(record, options.chosen, options.minutes)
    took = time.monotonic() - start
    print("versions: " + ", ".join(f"{name} {version}" for name, version in record.versions.items() if version))
    print_marks(record)
    for line in record.left_out:
        print(f"left out: {line}")
    print(f"\n{took:.0f} s")
    if options.json:
        found = {
            "machine": about, "seconds": round(took), "quick": options.quick or options.seconds < 1,
            "load": {"seconds": options.seconds, "rounds": options.rounds},
            "versions": record.versions, "marks": record.marks, "tables": record.tables, "curves": record.curves,
            "left_out": record.left_out,
        }  # fmt: skip
        Path(options.json).parent.mkdir(parents=True, exist_ok=True)
        Path(options.json).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
