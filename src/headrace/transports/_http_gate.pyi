from asyncio import Task
from typing import Any

from headrace.transports._http_admission import RequestLink

__all__ = ("GateLink",)

class GateLink(RequestLink):
    def admitted(self, task: Task[Any]) -> None: ...
