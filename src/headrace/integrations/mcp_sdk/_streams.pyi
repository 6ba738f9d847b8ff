from collections.abc import Callable
from typing import Any

from headrace.limits import Limits
from headrace.mux import Mux, Runtime
from headrace.mux.gate import Gate
from headrace.transports._link import LineLink

__all__ = ("StreamMux", "hold", "write_line")

class StreamMux(Mux):
    @property
    def take(self) -> Callable[[bytes], Any]: ...
    def __init__(
        self, runtime: Runtime, gate: Gate, limits: Limits, take: Callable[[bytes], Any], *, matches: bool = False
    ) -> None: ...

def write_line(link: LineLink, message: bytes) -> bool: ...
def hold(link: LineLink, held: bool) -> None: ...
