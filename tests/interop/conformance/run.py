"""Runs the official conformance suite against headrace's server and client, on every wire that the suite knows.

`python -m interop.conformance.run` (what `make conformance` does) prints the totals and every check that did not pass,
and ends with status 1 if there is one. A wire is a revision, or `default`: there the suite picks the revision of each
scenario. On the default wire the extensions run as well.

What may fail stands in expected_failures.txt, which may name authorization scenarios only; a scenario that stands there
and passes fails the run as well. Warnings of the suite count as failures.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import msgspec

from interop import support

HERE = Path(__file__).resolve().parent
SUITE = HERE.parent / "node" / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
EXPECTED = HERE / "expected_failures.txt"
WIRES = ("default", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
SIDES = ("server", "client")
SECONDS = 240  # one side of one wire
DONE = "client: done"
# Client scenarios in which an error is what the suite wants to see.
ERRORS_ALLOWED = {"http-invalid-tool-headers"}
# Scenarios in which the suite itself checks nothing yet.
ALL_SKIPPED = {"tasks-status-notifications"}
# Delays that the suite measures: a crowded machine gets them wrong now and then.
TIMED = {"sse-retry"}


class Check(msgspec.Struct):
    """One check of the suite that is of interest: `status` is SUCCESS, FAILURE, WARNING or SKIPPED."""

    id: str
    name: str
    status: str
    description: str = ""
    errorMessage: str = ""
    details: object = None


class Scenario(msgspec.Struct):
    """What came of one scenario of one side on one wire."""

    side: str
    wire: str
    name: str
    checks: list[Check]

    def count(self, status):
        return sum(check.status == status for check in self.checks)

    @property
    def failed(self):
        return bool(self.count("FAILURE") + self.count("WARNING"))

    @property
    def authorization(self):
        return self.name.startswith("auth/")


def suite(*arguments, env=None, seconds=SECONDS):
    """Runs the suite; gives what it printed."""
    command = [str(support.NODE), str(SUITE), *arguments]
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds,
        env=env,
        check=False,
    )
    return done.stdout.decode(errors="replace")


def scenarios():
    """{side: {scenario: set of wires}}, as the suite lists them."""
    found = {side: {} for side in SIDES}
    side = None
    for line in suite("list", seconds=60).splitlines():
        if line and not line.startswith(" "):
            side = line.split()[0].lower()
        match = re.fullmatch(r"  - (\S+) \[(.*)\]", line)
        if match and side in found:
            name, tags = match.groups()
            found[side][name] = {"default", *(tag for tag in tags.split(",") if tag in WIRES)}
    return found


def _collect(side, wire, folder, expected):
    """Reads the result folders, `server-NAME-DATE` or `NAME-DATE`; NAME may hold slashes."""
    seen = {}
    for file in folder.rglob("checks.json"):
        name = str(file.parent.relative_to(folder))
        name = re.sub(r"-\d{4}-\d\d-\d\dT[\d-]+Z$", "", name).removeprefix("server-" if side == "server" else "")
        raw = json.loads(file.read_bytes())
        checks = [
            msgspec.convert({k: v for k, v in item.items() if v is not None}, Check)
            for item in raw
            if item["status"] != "INFO"
        ]
        if side == "client" and not name.startswith("auth/") and name not in ERRORS_ALLOWED:
            said = (file.parent / "stdout.txt").read_text(), (file.parent / "stderr.txt").read_text()
            if DONE not in said[0]:
                checks.append(Check("client-ended", "ClientEnded", "FAILURE", "the client came to its end", said[1][-2000:]))
        seen[name] = Scenario(side, wire, name, checks)
    for name in expected - set(seen):
        seen[name] = Scenario(side, wire, name, [Check("not-run", "NotRun", "FAILURE", "the scenario was run")])
    return [seen[name] for name in sorted(seen)]


def run_server(url, wire, known):
    """All scenarios of one wire against the server at `url`, one after the other."""
    expected = {name for name, wires in known["server"].items() if wire in wires}
    with tempfile.TemporaryDirectory() as folder:
        version = [] if wire == "default" else ["--spec-version", wire]
        suite("server", "--url", url, "--suite", "all", "-o", folder, *version)
        return _collect("server", wire, Path(folder), expected)


def run_client(wire, known, only=None):
    """All client scenarios of one wire (or the one named), side by side."""
    expected = {only} if only else {name for name, wires in known["client"].items() if wire in wires}
    with tempfile.TemporaryDirectory() as folder:
        env = {
            **os.environ,
            "PYTHONPATH": str(support.SOURCE),
            "CONFORMANCE_PYTHON": sys.executable,
            "CONFORMANCE_LOCK": str(Path(folder) / "lock"),
        }
        which = ["--scenario", only] if only else ["--suite", "all"]
        version = [] if wire == "default" else ["--spec-version", wire]
        results = Path(folder) / "results"
        suite("client", "--command", str(HERE / "client.sh"), *which, "-o", str(results), *version, env=env)
        found = _collect("client", wire, results, expected)
    for place, each in enumerate(found):
        if only is None and each.name in TIMED and each.failed:
            found[place] = _again(each, known)
    return found


def _again(scenario, known):
    for _ in range(2):
        time.sleep(1)
        (scenario,) = run_client(scenario.wire, known, scenario.name)
        if not scenario.failed:
            break
    return scenario


def expected_failures():
    """The names in expected_failures.txt, `side scenario` a line."""
    lines = [line.split() for line in EXPECTED.read_text().splitlines() if line.strip() and not line.startswith("#")]
    named = {(side, name) for side, name in lines}
    for _, name in named:
        assert name.startswith("auth/"), f"{EXPECTED.name}: {name} is no authorization scenario"
    return named


def problems(found):
    """One line for each check that did not pass although it should have, and for each stale expectation."""
    allowed = expected_failures()
    lines = []
    failed = set()
    for each in found:
        if each.failed and (each.side, each.name) in allowed:
            failed.add((each.side, each.name))
            continue
        lines += [
            f"{each.side} {each.wire} {each.name}: {check.id}: {check.errorMessage or check.description}"
            for check in each.checks
            if check.status in ("FAILURE", "WARNING")
        ]
    ran = {(each.side, each.name) for each in found}
    lines += [f"{EXPECTED.name}: {side} {name} passes" for side, name in sorted(allowed & ran - failed)]
    return lines


def table(found):
    """The totals by side and wire, authorization apart."""
    rows = [f"{'':8}{'wire':12}{'scenarios':>10}{'passed':>8}{'failed':>8}{'warned':>8}{'skipped':>9}{'auth':>6}"]
    sums = collections.Counter()
    for side in SIDES:
        for wire in WIRES:
            here = [each for each in found if (each.side, each.wire) == (side, wire)]
            ours = [each for each in here if not each.authorization]
            numbers = [sum(each.count(s) for each in ours) for s in ("SUCCESS", "FAILURE", "WARNING", "SKIPPED")]
            if here:
                cells = [len(ours), *numbers]
                rows.append(f"{side:8}{wire:12}" + "".join(f"{n:>{w}}" for n, w in zip(cells, (10, 8, 8, 8, 9), strict=True))
                            + f"{len(here) - len(ours):>6}")
                sums[side, "passed"] += numbers[0]
                sums[side, "all"] += sum(numbers[:3])
    for side in SIDES:
        if sums[side, "all"]:
            rows.append(f"{side}: {sums[side, 'passed']} of {sums[side, 'all']} checks passed")
    return "\n".join(rows)


def run_all(sides=SIDES, wires=WIRES):
    """Every scenario; server wires side by side on one server, client wires one after the other beside them."""
    known = scenarios()
    found = []
    with support.hosted(HERE / "server.py") as url, \
            concurrent.futures.ThreadPoolExecutor(len(WIRES) + 1) as pool:
        work = [pool.submit(run_server, url, wire, known) for wire in wires] if "server" in sides else []
        if "client" in sides:
            work.append(pool.submit(lambda: [each for wire in wires for each in run_client(wire, known)]))
        for each in work:
            found += each.result()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--side", choices=SIDES, action="append")
    parser.add_argument("--wire", choices=WIRES, action="append")
    parser.add_argument("--skips", action="store_true", help="name the checks that the suite skipped")
    parser.add_argument("--details", action="store_true", help="print what the suite recorded of failed checks")
    options = parser.parse_args()
    start = time.monotonic()
    found = run_all(options.side or SIDES, options.wire or WIRES)
    lines = problems(found)
    if options.skips:
        for each in found:
            for check in each.checks:
                if check.status == "SKIPPED":
                    print(f"skipped: {each.side} {each.wire} {each.name}: {check.id}: {check.errorMessage}")
    if options.details:
        for each in found:
            for check in each.checks:
                if check.status in ("FAILURE", "WARNING") and not each.authorization:
                    print(each.side, each.wire, each.name, check.id, json.dumps(check.details)[:3000])
    print(*lines, sep="\n")
    print(table(found))
    print(f"{time.monotonic() - start:.0f} s; {len(lines)} problems")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
