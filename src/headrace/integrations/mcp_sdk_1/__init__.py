"""Servers of mcp 1.x (the official SDK's first generation) on headrace's transports.

``serve(server, http="127.0.0.1:8000")`` hosts a low-level ``mcp.server.lowlevel.Server`` or a
``mcp.server.fastmcp.FastMCP``: sessions, resumption and framing are headrace's, what methods mean is theirs.
Its clients speak the revisions up to 2025-11-25; others are told so, and fall back.
"""

try:
    import mcp.server.lowlevel as _lowlevel  # noqa: F401
except ImportError as exc:
    raise ImportError("headrace.integrations.mcp_sdk_1 needs the official SDK: pip install 'headrace[mcp]'") from exc

from importlib.util import find_spec as _find_spec

if _find_spec("mcp_types") is not None:
    raise ImportError(
        "headrace.integrations.mcp_sdk_1 is for mcp 1.x, and mcp 2.x is installed: use headrace.integrations.mcp_sdk, "
        "or pip install 'mcp<2'"
    )

from headrace.integrations.mcp_sdk_1.hosting import host_of, run, serve

__all__ = ("host_of", "run", "serve")
