"""The official Python SDK, version 2, on headrace: its servers hosted, its clients carried (those of version 1 too).

A session of the SDK speaks through a dispatcher or over a transport; both are here, so that servers and clients written
with it change one line: :class:`HeadraceDispatcher` under ``ClientSession`` and ``serve_connection``,
:func:`stdio_transport` and :func:`http_transport` for ``mcp.Client``, :func:`serve` and :func:`run` for its servers.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from headrace.errors import UsageError

if TYPE_CHECKING:
    from headrace.integrations.mcp_sdk.client_dispatch import connect
    from headrace.integrations.mcp_sdk.client_http import http_transport
    from headrace.integrations.mcp_sdk.client_stdio import stdio_transport
    from headrace.integrations.mcp_sdk.dispatcher import HeadraceDispatcher
    from headrace.integrations.mcp_sdk.hosting import host_of, run, serve
    from headrace.integrations.mcp_sdk.links import memory_dispatchers

__all__ = (
    "HeadraceDispatcher",
    "connect",
    "host_of",
    "http_transport",
    "memory_dispatchers",
    "run",
    "serve",
    "stdio_transport",
)

_HOMES = {
    "HeadraceDispatcher": "dispatcher",
    "connect": "client_dispatch",
    "host_of": "hosting",
    "http_transport": "client_http",
    "memory_dispatchers": "links",
    "run": "hosting",
    "serve": "hosting",
    "stdio_transport": "client_stdio",
}

_BOTH = frozenset(("http_transport", "stdio_transport"))
"""What version 1 of the SDK can use too."""


def __getattr__(name: str) -> Any:
    """Loads what is asked for; UsageError says what to install where the SDK is missing."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name in _BOTH:
            import mcp.shared.message
        else:
            import mcp.shared.dispatcher  # noqa: F401  its version 2 alone has it
    except ImportError:
        version = "" if name in _BOTH else ", version 2"
        need = f"{__name__} needs the official SDK{version}: pip install 'headrace[mcp]'"
        if name not in _BOTH:
            need += " 'mcp>=2'"
        if home == "hosting":
            need += ", or headrace.integrations.mcp_sdk_1 for servers of version 1"
        raise UsageError(need) from None
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value
