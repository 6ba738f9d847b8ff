"""What differs between FastMCP 3, on mcp 1.x, and FastMCP 4, on mcp 2.x: how a host of one is made."""

from __future__ import annotations

from importlib import util
from typing import TYPE_CHECKING, Any

from fastmcp.server.context import set_transport
from fastmcp.server.http import _current_http_request

from headrace.transports._http_exchange import HttpExchange

if TYPE_CHECKING:
    from headrace.limits import Limits
    from headrace.transports.plain import McpHost, PlainExchange

__all__ = ("ON_SDK_2", "make_host")

ON_SDK_2 = util.find_spec("mcp.server.mcpserver") is not None


def make_host(
    mcp: Any, *, limits: Limits | None, app: Any, closes_streams: bool, http_options: dict[str, Any]
) -> McpHost:
    """The host of a FastMCP server. ``app`` is its Starlette application, ``closes_streams`` that handlers may end
    the connection of a stream."""
    make = _host_4 if ON_SDK_2 else _host_3
    return make(mcp, limits=limits, app=app, closes_streams=closes_streams, http_options=http_options)


def _host_3(mcp: Any, *, app: Any, **options: Any) -> McpHost:
    from mcp.server.lowlevel.server import NotificationOptions

    from headrace.integrations.mcp_sdk_1.context import request_of
    from headrace.integrations.mcp_sdk_1.host import StreamHost

    server = mcp._mcp_server

    def initialization(lines: bool) -> Any:
        if lines:  # as run_stdio_async
            return server.create_initialization_options(notification_options=NotificationOptions(tools_changed=True))
        return server.create_initialization_options()

    def around(plain: PlainExchange | None) -> None:
        request = None if plain is None else request_of(plain, app)
        set_transport("stdio" if request is None else "streamable-http")
        if request is not None:
            _current_http_request.set(request)

    return StreamHost(
        server,
        lifespan=lambda _: mcp._lifespan_manager(),
        options=initialization,
        around=around,
        app=app,
        **options,
    )


def _host_4(mcp: Any, *, app: Any, **options: Any) -> McpHost:
    from headrace.integrations.mcp_sdk.kernel import SdkHost

    class Host(SdkHost):
        """FastMCP asks a context variable which transport it is on; for authorization, too."""

        def call(self, exchange: Any) -> Any:
            set_transport("streamable-http" if type(exchange.sink) is HttpExchange else "stdio")
            return super().call(exchange)

        def open_session(self, exchange: Any) -> Any:
            set_transport("streamable-http" if type(exchange.sink) is HttpExchange else "stdio")
            return super().open_session(exchange)

        def notified(self, session: Any, envelope: Any, sink: Any) -> None:
            set_transport("streamable-http" if type(sink) is HttpExchange else "stdio")
            super().notified(session, envelope, sink)

    return Host(mcp, routes=app, **options)
