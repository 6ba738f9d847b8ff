"""What has to be ended to its end, also where the one who ends it is cancelled by an anyio scope.

Such a scope cancels again at every await (B21); ``asyncio`` cancels once. Only who imported anyio can have scopes.
"""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import Any

__all__ = ("shielded",)


def shielded() -> AbstractContextManager[Any]:
    """Keeps cancelled anyio scopes around it from cancelling what is awaited inside. ``Task.cancel`` still does."""
    scope = getattr(sys.modules.get("anyio"), "CancelScope", None)
    return nullcontext() if scope is None else scope(shield=True)
