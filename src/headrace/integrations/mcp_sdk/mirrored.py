"""Arguments that a tool mirrors as ``Mcp-Param-*`` headers, checked as the SDK's own host does (HN-25).

The SDK lists the tools anew for every call with arguments. Here a call without such headers is checked against a
listing only when no listing of the last seconds said that its tool mirrors nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from mcp.server.connection import Connection
from mcp.server.runner import ServerRunner, aclose_shielded
from mcp.shared.inbound import InboundLadderRejection, validate_mcp_param_headers, x_mcp_header_map
from mcp_types import ErrorData

from headrace.integrations.mcp_sdk.calls import ModernCall
from headrace.integrations.mcp_sdk.wire import rpc_error
from headrace.transports.plain.exchange import decode

if TYPE_CHECKING:
    from headrace.integrations.mcp_sdk.kernel import SdkHost

__all__ = ("MirroredHeaders",)

_REMEMBERED = 5.0
"""Seconds for which it is believed that a tool mirrors no argument."""
_MOST_PAGES = 100
_MOST_NAMES = 4096

_log = logging.getLogger("headrace.host")


class MirroredHeaders:
    """The check of one host. ``server`` is the object that is hosted, ``app`` its low-level server."""

    def __init__(self, server: Any, app: Any) -> None:
        self._app = app
        self._tools = getattr(getattr(server, "_tool_manager", None), "_tools", None)
        self._plain: dict[str, float] = {}
        """Tool -> until when it is taken for one that mirrors nothing."""

    async def check(self, host: SdkHost, call: ModernCall, connection: Connection, params: Mapping[str, Any]) -> None:
        """Raises the answer to a call whose headers and arguments differ."""
        arguments = params.get("arguments")
        name = params.get("name")
        if not isinstance(name, str) or (arguments is not None and not isinstance(arguments, dict)):
            return
        request = call.message_metadata.request_context
        if not request.mirrors_params() and (not arguments or self._plain.get(name, 0.0) > host.runtime.clock()):
            return
        await self._check(host, call, connection, name, arguments or {}, request)

    async def _check(
        self, host: SdkHost, call: ModernCall, connection: Connection, name: str, arguments: Any, request: Any
    ) -> None:
        schema = await self._schema(host, call, connection, name)
        if schema is None or not x_mcp_header_map(schema):
            if len(self._plain) >= _MOST_NAMES:
                self._plain.clear()
            self._plain[name] = host.runtime.clock() + _REMEMBERED
            return
        self._plain.pop(name, None)
        rejection = validate_mcp_param_headers(schema, arguments, request.headers)
        if isinstance(rejection, InboundLadderRejection):
            error = ErrorData(code=rejection.code, message=rejection.message, data=rejection.data)
            raise rpc_error(error, over_http=True)

    async def _schema(self, host: SdkHost, call: ModernCall, connection: Connection, name: str) -> Any:
        """The input schema of a tool as this caller sees it; None where nothing tells."""
        look_up = getattr(self._app, "get_tool_input_schema", None)
        try:
            if look_up is not None:
                return look_up(name)
            if self._app.get_request_handler("tools/list") is None:
                return None
            return await self._listed(host, call, connection, name)
        except Exception:
            # A call must not fail because its tool cannot be listed.
            _log.exception("Mcp-Param headers were not checked: the schema of the tool is not known")
            return None

    async def _listed(self, host: SdkHost, call: ModernCall, caller: Connection, name: str) -> Any:
        info = caller.client_params.client_info if caller.client_params is not None else None
        given = call.exchange.params or b"{}"
        meta = {key: value for key, value in decode(given)["_meta"].items() if key != "progressToken"}
        params: dict[str, Any] = {"_meta": meta}
        seen: set[str] = set()
        for _ in range(_MOST_PAGES):
            connection = Connection.from_envelope(caller.protocol_version, info, caller.client_capabilities)
            try:
                runner = ServerRunner(self._app, connection, host.lifespan_state)
                result = await runner.on_request(ModernCall(call.exchange, call.message_metadata), "tools/list", params)
            finally:
                await aclose_shielded(connection)
            for tool in result.get("tools", ()):
                if tool.get("name") == name:
                    return tool.get("inputSchema")
            cursor = result.get("nextCursor")
            if not isinstance(cursor, str) or cursor in seen:
                return None
            seen.add(cursor)
            params = {"_meta": meta, "cursor": cursor}
        return None
