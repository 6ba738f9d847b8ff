"""`make bench`: the marks of the design as ratios of one interleaved run, server CPU per call first.

Usage: run.py [--seconds S] [--rounds N] [--only NAME,...] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import e2e_http
import e2e_lines
import e2e_start
from harness import machine, peer_version

SECTIONS: dict[str, Callable[..., list[dict[str, object]]]] = {
    "http": e2e_http.small_calls,
    "http-large": e2e_http.large_calls,
    "stdio": e2e_lines.small_calls,
    "stdio-one": e2e_lines.one_in_flight,
    "start": e2e_start.start_and_memory,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0, help="load time of one measurement (default 2)")
    parser.add_argument("--rounds", type=int, default=3, help="interleaved rounds (default 3)")
    parser.add_argument("--only", default="", help=f"sections to run: {', '.join(SECTIONS)}")
    parser.add_argument("--json", metavar="FILE", help="write the numbers here")
    options = parser.parse_args()
    chosen = [name for name in options.only.split(",") if name] or list(SECTIONS)
    unknown = set(chosen) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {', '.join(sorted(unknown))}; there are {', '.join(SECTIONS)}")
    about = machine()
    about["peers"] = {"mcp": peer_version("mcp"), "uvicorn": peer_version("uvicorn")}
    print(f"headrace benchmarks, {about['date']}, {about['cpu']}, {about['cores']} cores, Python {about['python']}")
    print(f"peers: official Python SDK {about['peers']['mcp']}, uvicorn {about['peers']['uvicorn']}\n")
    marks: list[dict[str, object]] = []
    start = time.perf_counter()
    for name in chosen:
        marks += SECTIONS[name](seconds=options.seconds, rounds=options.rounds)
        print()
    print(f"{'mark':<66}{'reached':>12}{'asked':>12}")
    for mark in marks:
        print(f"{mark['what']:<66}{mark['reached']:>12}{mark['asked']:>12}  {'ok' if mark['ok'] else 'MISSED'}")
    print(f"\n{time.perf_counter() - start:.0f} s")
    if options.json:
        Path(options.json).write_text(json.dumps({"machine": about, "marks": marks}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
