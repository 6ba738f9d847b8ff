"""headrace: a high-performance MCP (Model Context Protocol) transport core.

``Server`` hosts tools, ``connect`` talks to servers. Everything is imported on first use, so that
``import headrace`` costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace._version import __version__

if TYPE_CHECKING:
    from headrace import errors
    from headrace.client import Client, connect
    from headrace.errors import (
        AuthenticationFailed,
        ConnectFailed,
        ConnectionClosed,
        HeadraceError,
        HttpStatusError,
        InputRefused,
        InputRequired,
        LocalProtocolError,
        NotOffered,
        OverloadedError,
        RemoteProtocolError,
        RequestTimeout,
        ResourceNotFound,
        RpcError,
        ToolError,
        UsageError,
    )
    from headrace.limits import Limits
    from headrace.protocol.context import Context
    from headrace.protocol.elicited import Elicited
    from headrace.server.app import Server
    from headrace.server.content import Audio, Image, ToolResult
    from headrace.server.schema import Header

__all__ = (
    "Audio", "AuthenticationFailed", "Client", "ConnectFailed", "ConnectionClosed", "Context", "Elicited", "Header",
    "HeadraceError", "HttpStatusError", "Image", "InputRefused", "InputRequired", "Limits", "LocalProtocolError",
    "NotOffered", "OverloadedError", "RemoteProtocolError", "RequestTimeout", "ResourceNotFound", "RpcError",
    "Server", "ToolError", "ToolResult", "UsageError", "__version__", "connect",
    "errors",
)  # fmt: skip

_HOMES = {
    "Audio": "headrace.server.content",
    "Client": "headrace.client",
    "Context": "headrace.protocol.context",
    "Elicited": "headrace.protocol.elicited",
    "Header": "headrace.server.schema",
    "Image": "headrace.server.content",
    "Limits": "headrace.limits",
    "Server": "headrace.server.app",
    "ToolResult": "headrace.server.content",
    "connect": "headrace.client",
}


def __getattr__(name: str) -> Any:
    if name == "errors":
        return import_module("headrace.errors")
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_HOMES.get(name, "headrace.errors")), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
