"""What a worker has done, in one line, and what all of them have."""

from __future__ import annotations

import signal
from dataclasses import dataclass

__all__ = ("Figures", "describe_exit")


@dataclass
class Figures:
    """Counts of one worker process, or of several together.

    ``requests`` of a worker that was killed are those that it had told of. ``cpu`` is in seconds, ``memory`` the most
    it ever held, in bytes: the system has counted both. ``lived`` is in seconds.
    """

    requests: int = 0
    connections: int = 0
    cpu: float = 0.0
    memory: int = 0
    lived: float = 0.0
    processes: int = 0
    restarts: int = 0

    def add(self, other: Figures) -> None:
        """Counts another process in; ``memory`` is the most of one."""
        self.requests += other.requests
        self.connections += other.connections
        self.cpu += other.cpu
        self.memory = max(self.memory, other.memory)
        self.processes += other.processes

    def __str__(self) -> str:
        text = (
            f"{_count(self.requests, 'request')} on {_count(self.connections, 'connection')} in {self.lived:.1f} s, "
            f"{self.cpu:.2f} s of CPU, {self.memory / 1048576:.0f} MiB"
        )
        return text


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def describe_exit(status: int) -> str:
    """How a process ended, by its status as subprocess has it: negative for a signal."""
    if status >= 0:
        return f"ended with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was ended by {name}"
