"""What a peer calls the two notifications that correlate with requests: cancelling one, and telling its progress.

MCP's names are built into the multiplexer, and cost nothing. Other uses of JSON-RPC have others, or none.
"""

from __future__ import annotations

import msgspec

__all__ = ("LSP", "MCP", "NO_NAMES", "Names")


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Names of notifications of one kind of peer, both ways; to be set as :attr:`headrace.mux.Mux.names`.

    A notification that is named here is handled by the multiplexer; all others go to the gate.
    """

    cancel: str | None = None
    """Gives a request up. None: there is no such notification, so a call that is given up is only forgotten."""
    cancel_id: str = "id"
    """The member of its params that is the id of the request."""
    cancel_code: int | None = None
    """Code of the error that answers a request that was cancelled. None: it is not answered at all."""
    progress: str | None = None
    """Tells the progress of a request. None: there is no such notification."""
    progress_token: str = "token"
    """The member of its params that says which request: the id of the call, or the text of it. Who asked gets
    the whole params; those of MCP as (progress, total, message)."""


MCP = Names(
    cancel="notifications/cancelled",
    cancel_id="requestId",
    progress="notifications/progress",
    progress_token="progressToken",
)
"""Of the Model Context Protocol; what every mux has that is told nothing else."""
LSP = Names(cancel="$/cancelRequest", cancel_code=-32800, progress="$/progress")
"""Of the Language Server Protocol: a cancelled request is answered with RequestCancelled."""
NO_NAMES = Names()
"""Bare JSON-RPC 2.0 knows requests, answers and notifications, and nothing of either."""
