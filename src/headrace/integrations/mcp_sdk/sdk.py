"""The official SDK as the other files here use it: imported once, with a plain line where it is missing or too old."""

from __future__ import annotations

from typing import Any

from headrace.errors import UsageError

__all__ = ("lowlevel_of",)

try:
    import mcp.server.mcpserver  # noqa: F401
    from mcp.server.lowlevel.server import Server
except ImportError as exc:
    from importlib.util import find_spec

    if find_spec("mcp") is None:
        raise ImportError("the official MCP SDK is not installed: pip install 'headrace[mcp]'") from None
    if find_spec("mcp_types") is None:
        raise ImportError(
            "headrace.integrations.mcp_sdk needs the official MCP SDK 2.x, and mcp 1.x is installed: "
            "use headrace.integrations.mcp_sdk_1, or pip install 'mcp>=2'"
        ) from None
    raise ImportError(f"the official MCP SDK cannot be imported: {exc}") from exc


def lowlevel_of(server: Any) -> Server[Any]:
    """The low-level server of a server object of mcp 2.x.

    Raises UsageError in one plain line for anything else.
    """
    if isinstance(server, Server):
        return server
    inner = getattr(server, "_lowlevel_server", None)
    if inner is None:
        inner = getattr(server, "_mcp_server", None)  # FastMCP 4
    if isinstance(inner, Server):
        return inner
    if isinstance(server, type):
        raise UsageError(f"{server.__name__} is a class: an MCPServer or Server object of mcp 2.x is needed")
    raise UsageError(
        f"a {type(server).__module__}.{type(server).__qualname__} cannot be hosted here: "
        "an MCPServer or Server object of mcp 2.x is needed"
    )
