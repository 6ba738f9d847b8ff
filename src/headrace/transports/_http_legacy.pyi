from typing import Any

from headrace.transports._http_exchange import HttpExchange

__all__ = ("LegacyStream",)

class LegacyStream(HttpExchange):
    def drained_out(self, waiter: Any) -> None: ...
