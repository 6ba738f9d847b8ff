"""Instructions and allocations of one message, counted: the numbers that do not depend on what else the machine does.

Each case of ``counted_cases`` runs N and 3N times between two marks, so that what remains after the subtraction is
the work of one round. Instructions are callgrind's. Allocations are calls of CPython's three allocators (objects,
memory, raw), counted by a hook; what C code takes from malloc directly is not among them.

Usage: callgrind_calls.py [--guard | --record] [--results FILE] [--rounds N]

What was recorded holds for one Python, compiler and set of libraries (a fingerprint); a file keeps several. With
``--guard`` the run fails when a guarded case costs over 3 % more instructions or any more allocations than recorded
for the fingerprint found here. For an unknown fingerprint the cases are weighed against a fixed piece of interpreter
work instead, and may cost 25 % more of it than on the recorded machine. ``--record`` writes down what was counted;
what was recorded before goes to the entry's history.
The marks of the design (a list of 100 tools, a whole session) are shown, and fail a run without ``--guard``; those of
counted requests (at most 3 % of a call) fail any run.
"""

from __future__ import annotations

import argparse
import asyncio
import ctypes
import gc
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from counted_cases import (
    CLIENT,
    EVENTS,
    METERED_HTTP,
    METERED_LINES,
    PLAIN_HTTP,
    PLAIN_LINES,
    PLAIN_SESSION,
    REFERENCE,
    all_cases,
    make_server,
)
from harness import BUILD, HERE, machine

ROUNDS = 100
GROWTH = 1.03
GROWTH_ELSEWHERE = 1.25
GUARDED = (PLAIN_HTTP, PLAIN_SESSION, EVENTS, PLAIN_LINES, CLIENT)
METERED = (METERED_HTTP, METERED_LINES)
"""What their marks say does not depend on the machine."""
RESULTS = HERE / "results" / "instructions.json"
# The C library picks its copying and searching routines by these.
DISPATCH = frozenset(
    (
        "avx",
        "avx2",
        "avx512bw",
        "avx512vl",
        "bmi1",
        "bmi2",
        "erms",
        "fsrm",
        "lzcnt",
        "movbe",
        "rtm",
        "sse4_1",
        "sse4_2",
        "ssse3",
    )
)
# Without the tunable valgrind counts one instruction for each byte that `rep movsb` copies.
ENVIRONMENT = {"PYTHONHASHSEED": "0", "GLIBC_TUNABLES": "glibc.cpu.x86_rep_movsb_threshold=1000000000"}
RATIOS = [
    ("http tools/list of 100 tools 2026-07-28", PLAIN_HTTP, 3.0),
    ("http tools/list of 100 tools 2025-11-25", PLAIN_SESSION, 3.0),
    ("lines tools/list of 100 tools 2026-07-28", PLAIN_LINES, 3.0),
    ("http session 2024-11-05: initialize, initialized, call, DELETE", PLAIN_SESSION, 6.0),
    ("http session 2025-11-25: initialize, initialized, call, DELETE", PLAIN_SESSION, 6.0),
    (METERED_HTTP, PLAIN_HTTP, 1.03),
    (METERED_LINES, PLAIN_LINES, 1.03),
]
"""(what, of which plain call, at most so many of it)."""

MARKS_C = """
#include <Python.h>
#include <valgrind/callgrind.h>
__attribute__((visibility("default"))) void mark_start(void)
{
    CALLGRIND_START_INSTRUMENTATION;
    CALLGRIND_ZERO_STATS;
}
__attribute__((visibility("default"))) void mark_stop(const char *name)
{
    CALLGRIND_DUMP_STATS_AT(name);
    CALLGRIND_STOP_INSTRUMENTATION;
}

static unsigned long long allocations;
static PyMemAllocatorEx plain[3];
static void *counted_malloc(void *c, size_t n)
{
    PyMemAllocatorEx *a = c;
    allocations++;
    return a->malloc(a->ctx, n);
}
static void *counted_calloc(void *c, size_t k, size_t n)
{
    PyMemAllocatorEx *a = c;
    allocations++;
    return a->calloc(a->ctx, k, n);
}
static void *counted_realloc(void *c, void *p, size_t n)
{
    PyMemAllocatorEx *a = c;
    allocations++;
    return a->realloc(a->ctx, p, n);
}
static void counted_free(void *c, void *p)
{
    PyMemAllocatorEx *a = c;
    a->free(a->ctx, p);
}
__attribute__((visibility("default"))) void count_start(void)
{
    static const PyMemAllocatorDomain domains[3] = {PYMEM_DOMAIN_RAW, PYMEM_DOMAIN_MEM, PYMEM_DOMAIN_OBJ};
    for (int i = 0; i < 3; i++) {
        PyMem_GetAllocator(domains[i], &plain[i]);
        PyMemAllocatorEx hook = {&plain[i], counted_malloc, counted_calloc, counted_realloc, counted_free};
        PyMem_SetAllocator(domains[i], &hook);
    }
}
__attribute__((visibility("default"))) unsigned long long count_so_far(void) { return allocations; }
"""


def processor() -> str:
    """The features of this processor that decide which routines of the C library run."""
    try:
        flags = re.search(r"^flags\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    except OSError:
        flags = None
    return " ".join(sorted(DISPATCH & set(flags[1].split()))) if flags else ""


def guarded(numbers: dict[str, Any]) -> dict[str, Any]:
    return {name: numbers[name] for name in (*GUARDED, REFERENCE) if name in numbers}


def entry_for(
    here: dict[str, str],
    recorded: dict[str, str],
    instructions: dict[str, int],
    allocations: dict[str, float],
    earlier: dict[str, Any] | None,
) -> dict[str, Any]:
    """What is written down for a fingerprint; ``earlier`` is its entry so far, kept as the newest of the history."""
    history: list[dict[str, Any]] = []
    if earlier is not None:
        numbers = {key: guarded(earlier[key]) for key in ("instructions", "allocations")}
        history = [*earlier.get("history", []), {"recorded": earlier["recorded"], **numbers}]
    return {"fingerprint": here, "recorded": recorded, "instructions": instructions, "allocations": allocations,
            "history": history}  # fmt: skip


def fingerprint() -> dict[str, str]:
    """What the numbers depend on beside the code itself."""
    compiler = subprocess.run([os.environ.get("CC", "gcc"), "-dumpfullversion"], capture_output=True, text=True)
    return {
        "python": f"{platform.python_version()} {platform.python_compiler()} {sysconfig.get_config_var('CFLAGS')}",
        "compiler": compiler.stdout.strip(),
        "libc": " ".join(platform.libc_ver()),
        "machine": platform.machine(),
        "processor": processor(),
        "valgrind": subprocess.run(["valgrind", "--version"], capture_output=True, text=True).stdout.strip(),
        **{name: importlib.metadata.version(name) for name in ("cython", "msgspec", "anyio")},
    }


async def child(rounds: int, marks: str) -> None:
    """The process under callgrind."""
    library = ctypes.CDLL(marks)
    library.count_so_far.restype = ctypes.c_ulonglong
    async with all_cases(make_server()) as cases:
        gc.collect()
        gc.disable()
        for number, one in enumerate(cases.values()):

            async def some(times: int, one: Any = one) -> None:
                for _ in range(times):
                    waited = one()
                    if waited is not None:
                        await waited

            await some(20)
            for times in (rounds, 3 * rounds):
                library.mark_start()
                await some(times)
                library.mark_stop(f"{number} {times}".encode())
        library.count_start()
        allocations = []
        for one in cases.values():
            await some(20, one)
            seen = []
            for times in (rounds, 3 * rounds):
                before = library.count_so_far()
                await some(times, one)
                seen.append(library.count_so_far() - before)
            allocations.append(round((seen[1] - seen[0]) / (2 * rounds), 1))
        print(json.dumps([list(cases), allocations]), flush=True)
        os._exit(0)


def counts(rounds: int) -> tuple[dict[str, int], dict[str, float]]:
    """Case -> instructions of one round, and case -> allocations of one round."""
    BUILD.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=BUILD) as folder:
        source, library = Path(folder) / "marks.c", Path(folder) / "marks.so"
        source.write_text(MARKS_C)
        include = sysconfig.get_paths()["include"]
        subprocess.run(
            [os.environ.get("CC", "gcc"), "-O2", "-shared", "-fPIC", "-I", include, "-o", library, source], check=True
        )
        done = subprocess.run(
            ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out",
             sys.executable, __file__, "--child", str(library), "--rounds", str(rounds)],
            env=os.environ | ENVIRONMENT, capture_output=True, timeout=900,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(done.stderr.decode(errors="replace")[-2000:])
        names, allocations = json.loads(done.stdout.splitlines()[-1])
        totals: dict[tuple[int, int], int] = {}
        for file in Path(folder).glob("out.*"):
            text = file.read_text()
            mark = re.search(r"^desc: Trigger: Client Request: (\d+) (\d+)$", text, re.MULTILINE)
            cost = re.search(r"^summary: (\d+)$", text, re.MULTILINE)
            if mark and cost:
                totals[int(mark[1]), int(mark[2])] = int(cost[1])
    instructions = {
        name: round((totals[i, 3 * rounds] - totals[i, rounds]) / (2 * rounds)) for i, name in enumerate(names)
    }
    return instructions, dict(zip(names, allocations, strict=True))


class Growth:
    """What has grown beyond its bound, against what was recorded."""

    def __init__(self, recorded: list[dict[str, Any]], here: dict[str, str]) -> None:
        self.same: dict[str, Any] | None = next((one for one in recorded if one["fingerprint"] == here), None)
        self.other = recorded[0] if recorded and self.same is None else None
        self.problems: list[str] = []

    def check(self, instructions: dict[str, int], allocations: dict[str, float]) -> None:
        for name in GUARDED:
            if self.same is not None:
                before = self.same["instructions"].get(name)
                if before is not None and instructions[name] > before * GROWTH:
                    self._grew(name, f"{instructions[name]:,} instructions, {before:,} were recorded", GROWTH)
                taken = self.same["allocations"].get(name)
                if taken is not None and allocations[name] > taken:
                    self.problems.append(f"{name}: {allocations[name]:g} allocations, {taken:g} were recorded")
            elif self.other is not None:
                before = self.other["instructions"].get(name)
                if before is None:
                    continue
                was = before / self.other["instructions"][REFERENCE]
                now = instructions[name] / instructions[REFERENCE]
                if now > was * GROWTH_ELSEWHERE:
                    self._grew(name, f"{now:.2f} x the reference work, {was:.2f} x was recorded", GROWTH_ELSEWHERE)

    def _grew(self, name: str, what: str, bound: float) -> None:
        self.problems.append(f"{name}: {what}; more than {bound - 1:.0%} growth")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--results", type=Path, default=RESULTS, help="what was recorded (default: the committed file)")
    parser.add_argument("--guard", action="store_true", help="fail on growth only")
    parser.add_argument("--record", action="store_true", help="write the numbers of this fingerprint down")
    parser.add_argument("--child", metavar="LIBRARY", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        asyncio.run(child(options.rounds, options.child))
    if shutil.which("valgrind") is None or not Path("/usr/include/valgrind/callgrind.h").exists():
        print("instructions: not counted, there is no valgrind (with its headers) here")
        return 0
    recorded: list[dict[str, Any]] = json.loads(options.results.read_text()) if options.results.exists() else []
    here = fingerprint()
    growth = Growth(recorded, here)
    instructions, allocations = counts(options.rounds)
    growth.check(instructions, allocations)
    known = (growth.same or {"instructions": {}})["instructions"]
    print(f"{'one round':<76}{'instructions':>13}{'recorded':>10}{'allocations':>13}")
    for name, count in instructions.items():
        before = known.get(name)
        print(f"{name:<76}{count:>13,}{'' if before is None else format(before, ','):>10}{allocations[name]:>13g}")
    if growth.same is None:
        print("\nnothing is recorded for this Python, compiler and libraries: compared with the reference work only;"
              "\n`make guard-record` writes this machine's numbers down")  # fmt: skip
    missed = False
    print(f"\n{'mark':<76}{'reached':>13}{'asked':>10}")
    for what, plain, most in RATIOS:
        ratio = instructions[what] / instructions[plain]
        missed |= ratio > most and (not options.guard or what in METERED)
        print(f"{what:<76}{ratio:>11.3f} x{f'<= {most:g} x':>10}  {'ok' if ratio <= most else 'MISSED'}")
    for problem in growth.problems:
        print(f"GREW {problem}")
    if options.record:
        place = {key: machine()[key] for key in ("date", "commit")}
        entry = entry_for(here, place, instructions, allocations, growth.same)
        recorded = [one for one in recorded if one["fingerprint"] != here] + [entry]
        options.results.write_text(json.dumps(recorded, indent=1) + "\n")
        return 0
    return bool(growth.problems) or missed


if __name__ == "__main__":
    raise SystemExit(main())
