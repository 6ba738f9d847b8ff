"""The official SDK, whichever generation is installed: its types, and a plain word when it is missing."""

from __future__ import annotations

from typing import Any

__all__ = ("GENERATION", "ClientMessageMetadata", "SessionMessage", "types")

types: Any
"""The module with the protocol's models: ``mcp_types`` (2.x) or ``mcp.types`` (1.x)."""

try:
    from mcp.shared.message import ClientMessageMetadata, SessionMessage
except ImportError as exc:
    raise ImportError("headrace.integrations.mcp_sdk needs the official SDK: pip install 'headrace[mcp]'") from exc

try:
    import mcp_types as types
except ImportError:
    import mcp.types as types

GENERATION = 1 if hasattr(types.JSONRPCMessage, "model_validate_json") else 2
"""Major version of the SDK."""
