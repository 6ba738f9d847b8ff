"""Whether a server of several processes is ready, see :mod:`headrace.transports.health`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.transports.health import Health

if TYPE_CHECKING:
    from headrace.hosting.workers.supervisor import Supervisor
    from headrace.hosting.workers.worker import Worker

__all__ = ("SupervisorHealth", "WorkerHealth")


class SupervisorHealth(Health):
    """Ready while at least one worker serves."""

    def __init__(self, supervisor: Supervisor) -> None:
        super().__init__()
        self._supervisor = supervisor

    @property
    def reasons(self) -> list[str]:
        """See :class:`Health`."""
        found = super().reasons
        return found if found or self._supervisor.serving else ["no worker serves"]


class WorkerHealth(Health):
    """Of a worker: as long as others go on in its place, nobody need be told that it drains."""

    def __init__(self, worker: Worker, *, yields: bool = False) -> None:
        super().__init__(yields=yields)
        self._worker = worker

    def draining(self) -> None:
        """See :class:`Health`."""
        if not self._worker.handing_over:
            super().draining()

