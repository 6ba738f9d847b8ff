"""What cProfile says of a hosted server: shares of its own time by whose code it is.

cProfile makes every Python call dearer and the inside of C code not, so its shares are of the part beyond what carrying
costs, which is measured without it.
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
REST = "the tool, and the standard library"
PLACES = (
    ("headrace/integrations", OWN), ("pydantic", VALIDATION), ("mcp_types", VALIDATION), ("/mcp/", DISPATCH), ("/fastmcp/", DISPATCH),
    ("anyio", TASKS), ("asyncio", TASKS), ("sniffio", TASKS), ("opentelemetry", TRACES),
)  # fmt: skip
NOT_OURS_TO_SAY = "headrace/"
"""The rest of headrace is in what carrying costs."""

Key = tuple[str, int, str]


def _whose(function: Key) -> str | None:
    """Whose code a function is; None for what is built in, which counts with its caller."""
    file, _, name = function
    if file == "~":
        return VALIDATION if "pydantic" in name else None
    for part, whose in PLACES:
        if part in file:
            return whose
    return "" if NOT_OURS_TO_SAY in file else REST


def shares(stats: dict[Key, Any]) -> dict[str, float]:
    """The part of each in the time beyond carrying, the greatest first."""
    found: dict[str, float] = {}
    for function, (_, _, own_time, _, callers) in stats.items():
        whose = _whose(function)
        if whose is not None:
            found[whose] = found.get(whose, 0.0) + own_time
            continue
        for caller, (_, _, time_there, _) in callers.items():
            by = _whose(caller)
            if by is not None:
                found[by] = found.get(by, 0.0) + time_there
    found.pop("", None)
    total = sum(found.values())
    return {name: value / total for name, value in sorted(found.items(), key=lambda item: -item[1])} if total else {}


def shares_of(peer: Peer, where: str, *, make_load: Callable[[Peer], None]) -> dict[str, float]:
    """Runs the hosted server under cProfile and loads it."""
    path = write_file("", "profile")
    make_load(replace(peer, env={**peer.env, "PROFILE": path}))
    if not Path(path).stat().st_size:
        raise Failed(f"{peer.name}, {where}: no profile was written")
    return shares(pstats.Stats(path).stats)  # type: ignore[attr-defined]
