"""Transports (L6): event loop callbacks to and from the multiplexer.

What is exported here is the seam for other SDKs, see docs/embedding.md: :func:`serve` and :func:`serve_blocking` put a
plain ``handler(method, params, exchange)`` on HTTP, stdio, unix and TCP; :func:`open_command`, :func:`open_lines`,
:func:`open_http` and :func:`open_memory` connect; :mod:`headrace.transports.messages` has streams of messages instead.
Names are imported when they are first used. Everything else is in the modules.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headrace.transports.plain.exchange import PlainExchange
    from headrace.transports.plain.host import Handler, Host, Notified
    from headrace.transports.plain.http import HttpPeer, open_http
    from headrace.transports.plain.mcp import McpHost
    from headrace.transports.plain.opening import Opening, open_command, open_lines, open_memory
    from headrace.transports.plain.peer import Peer, RpcHost
    from headrace.transports.plain.serving import serve, serve_blocking

__all__ = (
    "Handler",
    "Host",
    "HttpPeer",
    "McpHost",
    "Notified",
    "Opening",
    "Peer",
    "PlainExchange",
    "RpcHost",
    "open_command",
    "open_http",
    "open_lines",
    "open_memory",
    "serve",
    "serve_blocking",
)

_MODULES = {
    "exchange": ("PlainExchange",),
    "host": ("Handler", "Host", "Notified"),
    "http": ("HttpPeer", "open_http"),
    "mcp": ("McpHost",),
    "opening": ("Opening", "open_command", "open_lines", "open_memory"),
    "peer": ("Peer", "RpcHost"),
    "serving": ("serve", "serve_blocking"),
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"headrace.transports.plain.{module}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
