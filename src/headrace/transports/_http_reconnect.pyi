from headrace.limits import Limits
from headrace.mux import Runtime

__all__ = ("Reconnect",)

class Reconnect:
    def __init__(self, runtime: Runtime, limits: Limits) -> None: ...
    def fire(self) -> None: ...
