"""A server of the SDK on a dispatcher, in the era that its client opens with: the SDK has this for its streams alone."""

from mcp.server.connection import Connection, NotifyOnlyOutbound
from mcp.server.runner import ServerRunner, aclose_shielded, modern_error_data, serve_one
from mcp.shared.exceptions import MCPError, NoBackChannelError
from mcp.shared.inbound import InboundLadderRejection, classify_inbound_request
from mcp_types import INVALID_REQUEST, PROTOCOL_VERSION_META_KEY, UNSUPPORTED_PROTOCOL_VERSION
from mcp_types.version import LATEST_MODERN_VERSION, MODERN_PROTOCOL_VERSIONS
from pydantic import ValidationError


class _Refusing:
    """A context whose peer cannot be asked, as in the modern era."""

    can_send_request = False

    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)

    async def send_raw_request(self, method, params, opts=None):
        raise NoBackChannelError(method)


class _Served:
    def __init__(self, server, dispatcher, lifespan_state):
        self.server, self.dispatcher, self.lifespan_state = server, dispatcher, lifespan_state
        self.connection = Connection.for_loop(dispatcher)
        self.runner = ServerRunner(server, self.connection, lifespan_state)
        self.outbound = NotifyOnlyOutbound(dispatcher)
        self.modern = None  # until the first request

    async def on_request(self, context, method, params):
        enveloped = PROTOCOL_VERSION_META_KEY in ((params or {}).get("_meta") or {})
        if self.modern is None:
            self.modern = enveloped and method != "initialize"
        if not self.modern:
            if enveloped and method != "initialize":
                raise MCPError(INVALID_REQUEST, "this connection serves the handshake protocol era")
            return await self.runner.on_request(context, method, params)
        if method == "initialize":
            data = {"supported": list(MODERN_PROTOCOL_VERSIONS), "requested": (params or {}).get("protocolVersion")}
            raise MCPError(UNSUPPORTED_PROTOCOL_VERSION, "connection is serving the 2026-07-28 protocol", data)
        route = classify_inbound_request({"method": method, "params": params})
        if isinstance(route, InboundLadderRejection):
            raise MCPError(route.code, route.message, route.data)
        connection = Connection.from_envelope(
            route.protocol_version, route.client_info, route.client_capabilities, outbound=self.outbound
        )
        try:
            return await serve_one(
                self.server,
                _Refusing(context),
                method,
                params,
                connection=connection,
                lifespan_state=self.lifespan_state,
            )
        except (MCPError, ValidationError):
            raise
        except Exception as exc:
            error = modern_error_data(exc)
            raise MCPError(error.code, error.message, error.data) from exc

    async def on_notify(self, context, method, params):
        if not self.modern:
            await self.runner.on_notify(context, method, params)
            return
        connection = Connection.from_envelope(LATEST_MODERN_VERSION, None, None, outbound=self.outbound)
        try:
            await ServerRunner(self.server, connection, self.lifespan_state).on_notify(context, method, params)
        finally:
            await aclose_shielded(connection)


async def serve_dispatcher(server, dispatcher):
    """Serves one connection until it ends."""
    async with server.lifespan(server) as lifespan_state:
        served = _Served(server, dispatcher, lifespan_state)
        try:
            await dispatcher.run(served.on_request, served.on_notify)
        finally:
            await aclose_shielded(served.connection)
