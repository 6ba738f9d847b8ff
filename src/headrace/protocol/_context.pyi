from collections.abc import Awaitable
from typing import Any

from headrace.mux import Exchange

__all__ = ("SENT", "TURN", "ContextBase")

SENT: Awaitable[None]
TURN: Awaitable[None]

class ContextBase:
    _exchange: Exchange
    _meta: dict[str, Any] | None
    def __init__(self, exchange: Exchange) -> None: ...
    def progress(self, done: float, total: float | None = None, message: str | None = None) -> Any:
        """Tells the client how far the work is; does nothing unless it asked (MX-02, MX-03).

        ``done`` must increase from call to call, other values are dropped; ``total`` is in the same
        unit. Await the result to slow down to what the client reads.
        """

    def _sent(self) -> Any: ...
