"""CPU and memory of a server with everything it has started, as Linux counts them.

Strategy: one look goes through /proc once and follows the parents; CPU time of processes that have ended meanwhile is
kept, so that the sum never falls. Elsewhere than on Linux nothing is known (None).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ("Look", "Usage")

_PARENT, _UTIME, _STIME, _STARTED, _RSS = 1, 11, 12, 19, 21  # fields of /proc/PID/stat after the name
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096


class Look(NamedTuple):
    """What one look found."""

    cpu_s: float
    """Of all processes since they began, those that have ended included as far as they were seen."""
    rss: int
    """Bytes, of those that live; memory that they share counts for each."""
    processes: int


class Usage:
    """Looks at the processes ``pids`` and their descendants. A descendant stays one when its parent ends."""

    def __init__(self, pids: Iterable[int] = ()) -> None:
        self._roots = set(pids)
        self._cpu: dict[tuple[int, int], int] = {}
        """Ticks by pid and start time: pids are used again."""
        self._known: dict[int, int] = {}
        """Start times of what belongs to the tree."""
        self.most = 0
        """Processes at one time, at most."""

    def add(self, pids: Iterable[int]) -> None:
        """More processes to look at."""
        self._roots.update(pids)

    @property
    def pids(self) -> list[int]:
        """Those that were asked for."""
        return sorted(self._roots)

    def look(self) -> Look | None:
        """Reads the counters now; None where nothing is known: no process lives and none ever did."""
        if not self._roots or not sys.platform.startswith("linux"):
            return None
        table = _table()
        tree = {pid for pid in self._roots if pid in table}
        tree.update(pid for pid, started in self._known.items() if pid in table and table[pid][1] == started)
        children: dict[int, list[int]] = {}
        for pid, entry in table.items():
            children.setdefault(entry[0], []).append(pid)
        todo = list(tree)
        while todo:
            for child in children.get(todo.pop(), ()):
                if child not in tree:
                    tree.add(child)
                    todo.append(child)
        rss = 0
        self._known = {}
        for pid in tree:
            _, started, ticks, pages = table[pid]
            self._known[pid] = started
            self._cpu[pid, started] = ticks
            rss += pages * _PAGE
        if not self._cpu:
            return None
        self.most = max(self.most, len(tree))
        return Look(sum(self._cpu.values()) / _TICKS, rss, len(tree))


def _table() -> dict[int, tuple[int, int, int, int]]:
    """By pid: parent, start time, CPU ticks, resident pages."""
    found = {}
    try:
        names = os.listdir("/proc")
    except OSError:
        return {}
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            found[int(name)] = (
                int(fields[_PARENT]),
                int(fields[_STARTED]),
                int(fields[_UTIME]) + int(fields[_STIME]),
                int(fields[_RSS]),
            )
        except (OSError, IndexError, ValueError):  # ended meanwhile
            continue
    return found
