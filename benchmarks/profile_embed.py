"""What cProfile says of a hosted server: shares of its own time by whose code it is.

cProfile makes every Python call dearer and the inside of C code not, so its shares are of the part beyond what carrying
costs, which is measured without it. What is built in and the standard library count with those who call them.
"""

from __future__ import annotations

import pstats
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from contenders import Peer
from harness import Failed, write_file

OWN = "the integration (headrace)"
VALIDATION = "their validation (pydantic)"
DISPATCH = "their dispatch (mcp, fastmcp)"
TASKS = "tasks and locks (anyio, asyncio)"
TRACES = "their traces (opentelemetry)"
REST = "the tool, and what else they import"
PLACES = (
    ("headrace/integrations", OWN), ("pydantic", VALIDATION), ("mcp_types", VALIDATION), ("/mcp/", DISPATCH), ("/fastmcp/", DISPATCH),
    ("anyio", TASKS), ("asyncio", TASKS), ("sniffio", TASKS), ("opentelemetry", TRACES),
)  # fmt: skip
STANDARD = str(Path(pstats.__file__).parent)
NOT_OURS_TO_SAY = "headrace/"
"""The rest of headrace is in what carrying costs."""

Key = tuple[str, int, str]


def _whose(function: Key) -> str | None:
    """Whose code a function is; None for what counts with its caller: what is built in, and the standard library."""
    file, _, name = function
    if file == "~":
        return VALIDATION if "pydantic" in name else None
    for part, whose in PLACES:
        if part in file:
            return whose
    if NOT_OURS_TO_SAY in file:
        return ""
    return None if file.startswith((STANDARD, "<frozen")) else REST


def shares(stats: dict[Key, Any]) -> dict[str, float]:
    """The part of each in the time beyond carrying, the greatest first."""
    owners: dict[Key, dict[str, float]] = {}

    def owner(function: Key) -> dict[str, float]:
        """For whom a function works: parts that add up to one, by how often each of its callers called it."""
        if (whose := _whose(function)) is not None:
            return {whose: 1.0}
        if function not in owners:
            owners[function] = {}  # a caller of itself adds nothing
            owners[function] = _mixed([(calls, owner(caller)) for caller, (_, calls, _, _) in stats[function][4].items()])
        return owners[function]

    found: dict[str, float] = {}
    for function, (_, _, own_time, _, callers) in stats.items():
        if _whose(function) is not None or not callers:
            parts = [(own_time, owner(function))]
        else:
            parts = [(time_there, owner(caller)) for caller, (_, _, time_there, _) in callers.items()]
        for seconds, by in parts:
            for whose, part in by.items():
                found[whose] = found.get(whose, 0.0) + seconds * part
    found.pop("", None)
    total = sum(found.values())
    return {name: value / total for name, value in sorted(found.items(), key=lambda item: -item[1])} if total else {}


def _mixed(parts: list[tuple[float, dict[str, float]]]) -> dict[str, float]:
    weight = sum(each for each, by in parts if by)
    mixed: dict[str, float] = {}
    for each, by in parts:
        for whose, part in by.items():
            mixed[whose] = mixed.get(whose, 0.0) + part * each / weight
    return mixed


def shares_of(peer: Peer, where: str, load: Callable[[Peer], None]) -> dict[str, float]:
    """Runs the hosted server under cProfile and has it loaded."""
    path = write_file("", "profile")
    load(replace(peer, env={**peer.env, "PROFILE": path}))
    if not Path(path).stat().st_size:
        raise Failed(f"{peer.name}, {where}: no profile was written")
    return shares(pstats.Stats(path).stats)  # type: ignore[attr-defined]
