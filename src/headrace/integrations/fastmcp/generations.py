"""What differs between FastMCP 3, on mcp 1.x, and FastMCP 4, on mcp 2.x: how a host of one is made."""

from __future__ import annotations

from importlib import util
from typing import TYPE_CHECKING, Any

from fastmcp.server.context import set_transport
from fastmcp.server.http import _current_http_request

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.transports.plain import McpHost, PlainExchange

__all__ = ("ON_SDK_2", "make_host")

ON_SDK_2 = util.find_spec("mcp.server.mcpserver") is not None


def make_host(mcp: Any, *, limits: Limits | None, path: str) -> McpHost:
    """The host of a FastMCP server."""
    return _host_4(mcp, limits, path) if ON_SDK_2 else _host_3(mcp, limits, path)


def _host_3(mcp: Any, limits: Limits | None, path: str) -> McpHost:
    from mcp.server.lowlevel.server import NotificationOptions

    from headrace.integrations.mcp_sdk_1.context import request_of
    from headrace.integrations.mcp_sdk_1.host import StreamHost

    server = mcp._mcp_server

    def options(lines: bool) -> Any:
        if lines:  # as run_stdio_async
            return server.create_initialization_options(notification_options=NotificationOptions(tools_changed=True))
        return server.create_initialization_options()

    def around(plain: PlainExchange | None) -> None:
        request = None if plain is None else request_of(plain, path)
        set_transport("stdio" if request is None else "streamable-http")
        if request is not None:
            _current_http_request.set(request)

    return StreamHost(
        server,
        lifespan=lambda _: mcp._lifespan_manager(),
        options=options,
        around=around,
        path=path,
        limits=limits,
    )


def _host_4(mcp: Any, limits: Limits | None, path: str) -> McpHost:
    from headrace.integrations.mcp_sdk import host_of

    host: McpHost = host_of(mcp._mcp_server, limits=limits)
    inner = host.handler

    def handler(method: str, params: Any, plain: PlainExchange) -> Any:
        exchange: Any = plain.exchange
        set_transport("streamable-http" if hasattr(exchange.sink, "fields") else "stdio")
        return inner(method, params, plain)

    host.handler = handler
    return host
