"""Renders what the documents say in numbers, and the plots, from benchmarks/results.

`render.py` writes them, `render.py --check` fails when they are stale. Between markers `<!-- numbers: NAME from
benchmarks/results/RUN.json -->` and `<!-- /numbers -->` the text belongs to this program; the rest of those documents
does not. RUN is `peers` (`make bench-peers`) or `embed` (`make bench-embed`).
"""

from __future__ import annotations

import json
import re
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from plots import COLOURS, bars, curves, number

HERE = Path(__file__).parent
ROOT = HERE.parent
RESULTS = HERE / "results" / "peers.json"
EMBED = HERE / "results" / "embed.json"
DOCUMENTS = ("README.md", "docs/performance.md", "docs/integrations.md")
BLOCK = re.compile(r"(<!-- numbers: ([a-z-]+) from benchmarks/results/([a-z]+)\.json -->\n).*?(<!-- /numbers -->)", re.S)
SHORT_GROUPS = ("HTTP, 64 connections, ~150 B", "Peers on the first row", "stdio, 1,000 in flight, ~150 B")

Run = dict[str, Any]


def table_of(run: Run, id: str) -> dict[str, Any] | None:
    return next((table for table in run["tables"] if table["id"] == id and table["rows"]), None)


def measured(run: Run) -> str:
    about = run["machine"]
    text = (
        f"Measured on {about['date']} on {about['cores']} cores of {about['cpu']}, {about['system']}, CPython {about['python']}, "
        f"commit {about['commit']}; {run['load']['rounds']} interleaved rounds of {run['load']['seconds']:g} s."
    )
    return text + (" A short run on a busy machine: read the ratios, roughly.\n" if run["quick"] else "\n")


def versions(run: Run) -> str:
    return "Versions: " + ", ".join(f"{name} {version}" for name, version in run["versions"].items() if version) + ".\n"


def verdict(mark: dict[str, Any]) -> str:
    if mark["ok"] is None:
        return "not measured"
    return "reached" if mark["ok"] else "**missed**" + (f" by {mark['by']}" if mark["by"] else "")


def marks(run: Run) -> str:
    """Every mark of the run, reached and asked side by side."""
    lines = ["| mark | reached | asked | |", "|---|---|---|---|"]
    lines += [f"| {m['group']}: {m['what']} | {m['reached']} | {m['asked']} | {verdict(m)} |" for m in run["marks"]]
    return "\n".join(lines) + "\n"


def missed(run: Run) -> str:
    lines = [f"- {m['group']}: {m['what']}: {m['reached']}, asked {m['asked']}" + (f", missed by {m['by']}" if m["by"] else "") for m in run["marks"] if m["ok"] is False]
    lines += [f"- {m['group']}: {m['what']}: not measured in this run" for m in run["marks"] if m["ok"] is None]
    return ("\n".join(lines) if lines else "Every mark was reached.") + "\n"


def left_out(run: Run) -> str:
    return ("\n".join(f"- {line}" for line in run["left_out"]) if run["left_out"] else "Nothing was left out.") + "\n"


def table(run: Run, id: str) -> str:
    found = table_of(run, id)
    if found is None:
        return "Not measured in this run.\n"
    ours = next((row["cpu_us"] for row in found["rows"] if row["group"] == "headrace"), None)
    lines = [f"{found['title']}:", "", "| | server CPU a call | against headrace | calls a second | p50 | p99 |", "|---|---:|---:|---:|---:|---:|"]
    for row in found["rows"]:
        ratio = f"{number(row['cpu_us'] / ours)} x" if ours else ""
        lines.append(f"| {row['name']} | {number(row['cpu_us'])} us | {ratio} | {row['per_second']:,.0f} | {number(row['p50_us'])} us | {number(row['p99_us'])} us |")
    return "\n".join(lines) + "\n"


def comparison(run: Run) -> str:
    """The README's table: one line a server, over HTTP and over stdio."""
    http, lines = table_of(run, "http-small"), table_of(run, "stdio-many")
    over_http = {row["name"].partition(" (")[0]: row for row in (http["rows"] if http else ())}
    over_lines = {row["name"]: row for row in (lines["rows"] if lines else ())}
    names: list[tuple[str, str | None, str | None]] = [
        ("**headrace**", "headrace, 2026-07-28", "headrace 2026-07-28, async tool"),
        ("**headrace**, 2025-11-25 in a session", "headrace, 2025-11-25 in a session", "headrace 2025-11-25, async tool"),
    ]
    names += [(name, name, name) for name, row in over_http.items() if row["group"] in ("peer", "http server")]
    names += [(name, None, name) for name, row in over_lines.items() if row["group"] == "peer" and name not in over_http]
    base = {"http": over_http.get("headrace, 2026-07-28"), "lines": over_lines.get("headrace 2026-07-28, async tool")}
    out = ["| server | HTTP, us a call | | stdio, us a call | |", "|---|---:|---:|---:|---:|"]
    for name, on_http, on_lines in names:
        cells = []
        for found, key, of in ((over_http, on_http, base["http"]), (over_lines, on_lines, base["lines"])):
            row = found.get(key or "")
            cells += [number(row["cpu_us"]), f"{number(row['cpu_us'] / of['cpu_us'])} x" if of else ""] if row else ["", ""]
        out.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def pythons(run: Run) -> str:
    """The small rows by Python, and which is the cheapest on each wire: one need not be it on both."""
    http, lines = table_of(run, "pythons-http"), table_of(run, "pythons-stdio")
    if http is None or lines is None:
        return "Not measured in this run.\n"
    on_lines = {row["name"]: row for row in lines["rows"]}
    out = ["| | HTTP, us a call | stdio, us a call |", "|---|---:|---:|"]
    for row in http["rows"]:
        other = on_lines.get(row["name"])
        out.append(f"| {row['name']} | {number(row['cpu_us'])} | {number(other['cpu_us']) if other else ''} |")
    cheapest = [min(table["rows"], key=lambda row: row["cpu_us"])["name"] for table in (http, lines)]
    if cheapest[0] == cheapest[1]:
        return "\n".join(out) + f"\n\n{cheapest[0]} was the cheapest on both.\n"
    return "\n".join(out) + f"\n\nCheapest over HTTP: {cheapest[0]}; over stdio: {cheapest[1]}.\n"


OWN_HOST, OWN_TRANSPORT = "its own host", "its own transport"


def against(run: Run, id: str, own: str) -> list[tuple[str, dict[str, Any], list[tuple[str, dict[str, Any], float]]]]:
    """What was measured in its own way and in ours: what, the row of its own, and (our way, row, how many times less it
    needs) of each of ours. Ratios are the median of the rounds' own."""
    found = table_of(run, id)
    rows = [(*row["name"].rpartition(": ")[::2], row) for row in (found["rows"] if found else ())]
    out = []
    for what, way, row in rows:
        ours = [
            (other_way, other, statistics.median(a / b for a, b in zip(row["cpu_us_rounds"], other["cpu_us_rounds"], strict=False)))
            for other_what, other_way, other in rows if other_what == what and other_way != own
        ]  # fmt: skip
        if way == own and ours:
            out.append((what, row, ours))
    return out


def asked(run: Run, group: str, what: str) -> str:
    return next((m["asked"] for m in run["marks"] if m["group"] == group and m["what"].startswith(what + ":")), "")


def times(value: float) -> str:
    return f"{value:.2f} x" if value < 10 else f"{value:.1f} x"


def hosts(run: Run, id: str, group: str) -> str:
    """Their host and ours side by side."""
    found = against(run, id, OWN_HOST)
    if not found:
        return "Not measured in this run.\n"
    lines = [f"| server CPU a call | {OWN_HOST} | headrace | less by | asked |", "|---|---:|---:|---:|---:|"]
    lines += [
        f"| {what} | {number(row['cpu_us'])} us | {number(mine['cpu_us'])} us | {times(ratio)} | {asked(run, group, what)} |"
        for what, row, [(_, mine, ratio)] in found
    ]
    return "\n".join(lines) + "\n"


def clients(run: Run) -> str:
    """The official client on its transports and on ours."""
    found = against(run, "embed-client", OWN_TRANSPORT)
    if not found:
        return "Not measured in this run.\n"
    ways = [way for way, _, _ in found[0][2]]
    head = "".join(f" {way} | less by |" for way in ways)
    lines = [f"| client CPU a call | {OWN_TRANSPORT} |{head} asked |", "|---|---:|" + "---:|---:|" * len(ways) + "---:|"]
    for what, row, ours in found:
        cells = "".join(f" {number(mine['cpu_us'])} us | {times(ratio)} |" for _, mine, ratio in ours)
        lines.append(f"| {what} | {number(row['cpu_us'])} us |{cells} {asked(run, 'Embedding, client', what)} |")
    return "\n".join(lines) + "\n"


def embedding(run: Run) -> str:
    """The README's table: what was asked for, over HTTP and stdio."""
    on_lines = {what: (row, *ours[0][1:]) for what, row, ours in against(run, "embed-stdio", OWN_HOST)}
    lines = ["| server object | HTTP, us a call: its host | headrace | | stdio: its host | headrace | |", "|---|---:|---:|---:|---:|---:|---:|"]
    for what, row, [(_, mine, ratio)] in against(run, "embed-http", OWN_HOST):
        if "SDK 1" in what:
            continue
        cells = [number(row["cpu_us"]), number(mine["cpu_us"]), times(ratio)]
        there = on_lines.get(what)
        cells += [number(there[0]["cpu_us"]), number(there[1]["cpu_us"]), times(there[2])] if there else ["", "", ""]
        lines.append(f"| {what} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n" if len(lines) > 2 else "Not measured in this run.\n"


def where_time_goes(run: Run) -> str:
    """The parts of a hosted call, a column each server and wire."""
    tables = [table for table in run["tables"] if table["id"] == "embed-profile"]
    if not tables:
        return "Not measured in this run.\n"
    names = [*dict.fromkeys(row["name"] for table in tables for row in table["rows"][:-1]), "together"]
    lines = ["| us a call | " + " | ".join(table["of"] for table in tables) + " |", "|---" + "|---:" * len(tables) + "|"]
    for name in names:
        found = [next((row["cpu_us"] for row in table["rows"] if row["name"] == name), None) for table in tables]
        lines.append(f"| {name} | " + " | ".join("" if value is None else number(value) for value in found) + " |")
    return "\n".join(lines) + "\n"


BLOCKS: dict[str, Callable[[Run], str]] = {
    "measured": measured,
    "versions": versions,
    "comparison": comparison,
    "marks": marks,
    "missed": missed,
    "left-out": left_out,
    "pythons": pythons,
    "http-small": lambda run: table(run, "http-small"),
    "http-one": lambda run: table(run, "http-one"),
    "stdio-many": lambda run: table(run, "stdio-many"),
    "stdio-one": lambda run: table(run, "stdio-one"),
    "embedding": embedding,
    "embed-http": lambda run: hosts(run, "embed-http", "Embedding, HTTP"),
    "embed-stdio": lambda run: hosts(run, "embed-stdio", "Embedding, stdio"),
    "embed-client": clients,
    "embed-profile": where_time_goes,
    "large": lambda run: "\n".join(table(run, t["id"]) for t in run["tables"] if t["id"].startswith("large-")) or "Not measured in this run.\n",
}


def plots(run: Run) -> dict[str, str]:
    """Path under docs, and SVG."""
    found: dict[str, str] = {}
    for id, name, title in (
        ("http-small", "http-small", "One tools/call over HTTP"), ("stdio-many", "stdio-many", "One tools/call over stdio, 1,000 in flight"),
    ):  # fmt: skip
        if rows := table_of(run, id):
            values = sorted(((r["name"], r["group"], r["cpu_us"]) for r in rows["rows"] if r["cpu_us"] > 0), key=lambda r: r[2])
            found[f"docs/performance-{name}.svg"] = bars(title, "Server CPU a call in microseconds, logarithmic; less is better", values, "us")
    memory = [
        (name, colour, [[calls, kb / 1024] for calls, kb in run["curves"][key]])
        for key, name, colour in (("memory-stdio", "stdio", COLOURS["headrace"]), ("memory-http", "HTTP", "#b5651d"))
        if run["curves"].get(key)
    ]
    if memory:
        found["docs/performance-memory.svg"] = curves("Memory over millions of calls", "Resident size of the server process", memory)
    return found


def outputs(run: Run, embed: Run | None = None) -> dict[str, str]:
    """Path and text of everything that is rendered. ``run``: of `make bench-peers`; ``embed``: the committed one of
    `make bench-embed` unless given."""
    runs = {"peers": run, "embed": embed or json.loads(EMBED.read_text())}
    found = plots(run)
    for name in DOCUMENTS:
        found[name] = BLOCK.sub(lambda m: f"{m[1]}{BLOCKS[m[2]](runs[m[3]])}{m[4]}", (ROOT / name).read_text())
    return found


def main() -> int:
    run = json.loads(RESULTS.read_text())
    stale = [path for path, text in outputs(run).items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
    if "--check" in sys.argv:
        if stale:
            print(f"stale: {', '.join(stale)}; run benchmarks/render.py", file=sys.stderr)
        return 1 if stale else 0
    for path in stale:
        (ROOT / path).write_text(outputs(run)[path])
        print(f"rendered {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
