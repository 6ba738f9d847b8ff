"""A headrace server with the OAuth pages of the official SDK beside it: `oauth_pages.py PORT`.

Tokens are those that the provider has given out; the MCP endpoint asks for one.
"""

import asyncio
import contextlib
import secrets
import sys
import time

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    OAuthAuthorizationServerProvider,
    TokenError,
    construct_redirect_uri,
)
from mcp.server.auth.routes import create_auth_routes, create_protected_resource_routes
from mcp.server.auth.settings import ClientRegistrationOptions
from mcp.shared.auth import OAuthToken
from pydantic import AnyHttpUrl
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from headrace import Context, Server
from headrace.errors import HttpRefusal
from headrace.transports.http_server import serve_http

PORT = int(sys.argv[1])
URL = f"http://localhost:{PORT}"


class Provider(OAuthAuthorizationServerProvider):
    """Everybody is let in at once."""

    def __init__(self):
        self.clients, self.codes, self.tokens = {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_hex(16), client_id=client.client_id, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, expires_at=time.time() + 60,
            scopes=params.scopes or ["use"], code_challenge=params.code_challenge, resource=params.resource,
        )
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        token = secrets.token_hex(16)
        self.tokens[token] = AccessToken(token=token, client_id=client.client_id, scopes=authorization_code.scopes)
        return OAuthToken(access_token=token, token_type="Bearer", expires_in=60, scope="use")

    async def load_access_token(self, token):
        return self.tokens.get(token)

    async def load_refresh_token(self, client, refresh_token):
        return None

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        raise TokenError("invalid_grant", "no refresh tokens are given out here")

    async def revoke_token(self, token):
        self.tokens.pop(token.token, None)


provider = Provider()
server = Server("guarded", version="1")


@server.tool
async def whoami(ctx: Context) -> str:
    return f"client {ctx.principal}"


async def authenticate(request):
    token = (request.header(b"authorization") or b"").decode().removeprefix("Bearer ")
    found = await provider.load_access_token(token)
    if found is None:
        raise HttpRefusal(
            401,
            [("WWW-Authenticate", f'Bearer resource_metadata="{URL}/.well-known/oauth-protected-resource/mcp"')],
            b'{"error":"invalid_token"}',
        )
    return found.client_id


async def health(request):
    return PlainTextResponse("well")


async def main():
    pages = Starlette(
        routes=[
            Route("/health", health),
            *create_auth_routes(
                provider=provider,
                issuer_url=AnyHttpUrl(URL),
                client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["use"], default_scopes=["use"]),
            ),
            *create_protected_resource_routes(
                resource_url=AnyHttpUrl(f"{URL}/mcp"), authorization_servers=[AnyHttpUrl(URL)], scopes_supported=["use"]
            ),
        ]
    )
    async with server.running():
        listener = await serve_http(server, host="127.0.0.1", port=PORT, beside=pages, authenticate=authenticate)
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            await listener.close()


with contextlib.suppress(KeyboardInterrupt):
    asyncio.run(main())
