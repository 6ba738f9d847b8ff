"""Renders the README's numbers from benchmarks/results/latest.json. `render.py --check` fails when they are stale."""

import json
import sys
from pathlib import Path

HERE = Path(__file__).parent
README = HERE.parent / "README.md"
LATEST = HERE / "results" / "latest.json"
BEGIN = "<!-- numbers: rendered by benchmarks/render.py from benchmarks/results/latest.json -->\n"
END = "<!-- /numbers -->"


def table() -> str:
    run = json.loads(LATEST.read_text())
    about = run["machine"]
    peers = ", ".join(f"{name} {version}" for name, version in about["peers"].items())
    lines = [
        f"Measured on {about['date']} on {about['cores']} cores of {about['cpu']}, Python {about['python']} ({peers}), commit {about['commit']}.",
        "",
        "| mark | reached | asked |",
        "|---|---|---|",
    ]
    lines += [
        f"| {mark['what']} | {'' if mark['ok'] else 'missed: '}{mark['reached']} | {mark['asked']} |" for mark in run["marks"]
    ]
    return "\n".join(lines) + "\n"


def rendered(readme: str) -> str:
    head, _, rest = readme.partition(BEGIN)
    _, _, tail = rest.partition(END)
    return f"{head}{BEGIN}{table()}{END}{tail}"


def main() -> int:
    before = README.read_text()
    after = rendered(before)
    if "--check" in sys.argv:
        if before != after:
            print("README.md is stale: run benchmarks/render.py", file=sys.stderr)
            return 1
        return 0
    README.write_text(after)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
