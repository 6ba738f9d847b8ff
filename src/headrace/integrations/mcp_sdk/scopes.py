"""Cancel scopes and checkpoints of anyio on asyncio, without asking each time which event loop runs.

That question costs more than either. The names are private to anyio; where they are not found the public ones do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from anyio import CancelScope
    from anyio.lowlevel import checkpoint_if_cancelled
else:
    try:
        from anyio._backends._asyncio import AsyncIOBackend, CancelScope

        checkpoint_if_cancelled = AsyncIOBackend.checkpoint_if_cancelled
    except (ImportError, AttributeError):
        from anyio import CancelScope
        from anyio.lowlevel import checkpoint_if_cancelled

__all__ = ("CancelScope", "checkpoint_if_cancelled")
