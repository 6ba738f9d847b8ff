"""The official SDK, whichever generation is installed: its types, and a plain word when it is missing."""

from __future__ import annotations

import asyncio
from importlib import import_module
from importlib.util import find_spec
from typing import Any

__all__ = ("GENERATION", "ClientMessageMetadata", "SessionMessage", "check_loop", "types")

try:
    from mcp.shared.message import ClientMessageMetadata, SessionMessage
except ImportError as exc:
    raise ImportError("headrace.integrations.mcp_sdk needs the official SDK: pip install 'headrace[mcp]'") from exc

GENERATION = 2 if find_spec("mcp_types") is not None else 1
"""Major version of the SDK."""

types: Any = import_module("mcp_types" if GENERATION == 2 else "mcp.types")
"""The module with the protocol's models."""


def check_loop() -> None:
    """Raises RuntimeError under trio."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        raise RuntimeError("headrace runs on asyncio, and on anyio over it; this is another event loop") from None
