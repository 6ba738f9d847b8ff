"""How many workers a machine has processors for, and which of them is whose."""

from __future__ import annotations

import math
import os
from pathlib import Path

__all__ = ("PINNING", "cpus", "pin", "usable_cpus")

PINNING = hasattr(os, "sched_setaffinity")
"""Whether a process can be bound to a processor here."""

_GROUP = Path("/proc/self/cgroup")
_GROUPS = Path("/sys/fs/cgroup")


def cpus() -> list[int]:
    """The processors that this process may run on."""
    if PINNING:
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


def usable_cpus() -> int:
    """How many processors' worth of time this process may use: those it may run on, or the quota of its container
    where that is less (rounded up). At least 1."""
    found = len(cpus())
    quota = _quota()
    return max(1, found if quota is None else min(found, math.ceil(quota)))


def _quota(group: Path = _GROUP, groups: Path = _GROUPS) -> float | None:
    """The smallest quota of the control groups that this process is in, in processors. None: there is none."""
    quotas = []
    try:
        for line in group.read_text().splitlines():
            _, controllers, path = line.split(":", 2)
            place = groups / path.strip("/")
            if controllers == "":
                quotas += [
                    _read(each / "cpu.max") for each in (place, *place.parents) if groups in (each, *each.parents)
                ]
            elif "cpu" in controllers.split(","):
                quotas += [_read_1(each) for each in (groups / "cpu" / path.strip("/"), groups / "cpu")]
    except (OSError, ValueError):
        return None
    known = [quota for quota in quotas if quota is not None]
    return min(known) if known else None


def _read(file: Path) -> float | None:
    try:
        quota, period = file.read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        return None


def _read_1(place: Path) -> float | None:
    try:
        quota = int((place / "cpu.cfs_quota_us").read_text())
        return None if quota <= 0 else quota / int((place / "cpu.cfs_period_us").read_text())
    except (OSError, ValueError, ZeroDivisionError):
        return None


def pin(index: int) -> int:
    """Binds this process to one processor: those it may run on are dealt out in turn. Gives its number.

    Raises OSError where the system refuses.
    """
    allowed = cpus()
    cpu = allowed[index % len(allowed)]
    os.sched_setaffinity(0, {cpu})
    return cpu
