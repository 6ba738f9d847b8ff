"""`make sdk-suite SDK=<checkout>`: the official SDK's own tests with headrace's dispatcher and transports in them.

Runs the dispatcher contract tests and the interaction suite of a checkout (nothing of it is changed or kept) and prints a
line per leg. Exit status 1 when a test of ours failed, or of the checkout's own legs: then the checkout is not sound here.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).resolve().parent
SOURCE = HERE.parents[2] / "src"
TESTS = ("tests/interaction", "tests/shared/test_dispatcher.py")
OUTCOMES = ("passed", "failed", "excluded", "skipped", "xfailed")


def run(checkout, python, results, workers, only, extra):
    """Runs pytest in the checkout; gives its exit status."""
    paths = [checkout / "src", checkout / "src" / "mcp-types", SOURCE, HERE]
    env = os.environ | {
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONDONTWRITEBYTECODE": "1",
        "HEADRACE_SUITE_JSON": str(results),
        "HEADRACE_SUITE_ONLY": "1" if only else "",
    }
    command = [python, "-m", "pytest", "-q", "-p", "plugin", "-p", "no:cacheprovider", "-n", str(workers)]
    command += ["-o", "addopts=-p anyio", "-o", "log_cli=false", "--tb=short", *TESTS, *extra]
    return subprocess.run([str(part) for part in command], cwd=checkout, env=env).returncode


def table(rows):
    """Lines of counts, a leg each."""
    counts = {}
    for row in rows:
        counts.setdefault(row["leg"], Counter())[row["outcome"]] += 1
    order = sorted(counts, key=lambda leg: (leg == "sdk", leg))
    width = max(map(len, counts), default=0)
    yield " ".join(["leg".ljust(width), *(name.rjust(8) for name in OUTCOMES)])
    for leg in order:
        yield " ".join([leg.ljust(width), *(str(counts[leg][name]).rjust(8) for name in OUTCOMES)])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", nargs="?", default="")
    parser.add_argument("--python", type=Path, default=Path(sys.executable))
    parser.add_argument("--json", type=Path, help="where the outcome of every test goes")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only-headrace", action="store_true", help="leave out what is the checkout's own")
    options, extra = parser.parse_known_args()
    if not options.checkout:
        print("sdk-suite: skipped; give a checkout of the official Python SDK: make sdk-suite SDK=<checkout>")
        return 0
    checkout = Path(options.checkout).resolve()
    missing = [each for each in TESTS if not (checkout / each).exists()]
    if missing:
        print(f"sdk-suite: {checkout} has no {missing[0]}; it needs the SDK's version 2", file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        results = (options.json or Path(folder) / "results.json").resolve()
        results.unlink(missing_ok=True)
        status = run(checkout, options.python.absolute(), results, options.workers, options.only_headrace, extra)
        if not results.exists():
            return status or 1
        rows = json.loads(results.read_text())
    for row in rows:
        if row["outcome"] in ("failed", "excluded"):
            print(f"{row['outcome']}: {row['leg']}: {row['test']}: {row['text']}")
    print("\n".join(table(rows)))
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
