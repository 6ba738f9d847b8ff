"""What `headrace.integrations.mcp_sdk.host_of` makes of objects and settings; prints it as one JSON object."""

import asyncio
import json

import mcp.server.lowlevel
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer
from mcp.server.transport_security import TransportSecuritySettings
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace.integrations.mcp_sdk import host_of, run, serve
from headrace.limits import Limits
from headrace.transports.plain import McpHost


def refused(function, *args, **options):
    """The line of a refusal."""
    try:
        function(*args, **options)
    except Exception as exc:
        return [type(exc).__name__, str(exc)]
    return None


async def route(request: Request) -> PlainTextResponse:
    return PlainTextResponse("here")


class Verifier:
    async def verify_token(self, token):
        return None


async def another(scope, receive, send):
    pass


def options_of(server, **options):
    return host_of(server, **options).http_options


def main():
    low = mcp.server.lowlevel.Server("low")
    high = MCPServer("high", log_level="ERROR")
    security = {
        "auth": AuthSettings(issuer_url="https://auth.example.com", resource_server_url="https://mcp.example.com/mcp"),
        "token_verifier": Verifier(),
    }
    found = {
        "object": refused(run, object(), http=0),
        "class": refused(run, MCPServer, http=0),
        "option": refused(host_of, high, colour="red"),
        "twice": refused(host_of, high, **security),
        "timeout": refused(host_of, high, session_idle_timeout=0),
        "size": refused(host_of, high, max_request_body_size=-1),
        "address": refused(lambda: asyncio.run(serve(high, http="nowhere:port"))),
        "both": refused(host_of, low, authenticate=another, **security),
        "is_host": isinstance(host_of(low), McpHost),
        "names": [host_of(low).name, host_of(high).name],
        "plain": {key: value for key, value in options_of(high).items()},
        "settings": options_of(
            low, streamable_http_path="/other", stateless_http=True, json_response=True, retry_interval=250, event_store=True
        ),
        "open": options_of(low, transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False)),
        "listed": options_of(
            low, transport_security=TransportSecuritySettings(allowed_hosts=["a:*"], allowed_origins=["http://a:*"])
        ),
    }
    limits = host_of(
        low, limits=Limits(max_depth=9), session_idle_timeout=5, max_sessions=7, max_request_body_size=1000
    ).limits
    found["limits"] = [limits.max_depth, limits.session_idle_timeout, limits.max_sessions, limits.max_message_bytes]
    beside = {
        "none": options_of(low).get("beside") is None,
        "routes": options_of(low, custom_starlette_routes=[Route("/here", route)]).get("beside"),
        "user": options_of(low, beside=another).get("beside") is another,
    }
    beside["routes"] = beside["routes"] is not None
    found["beside"] = beside
    guarded = options_of(low, **security)
    found["authenticate"] = guarded.get("authenticate") is not None
    print(json.dumps(found))


main()
