"""Trials of http_transport with the SDK's OAuth provider against the SDK's own authorization server, both generations."""

import contextlib
import importlib
import secrets
import socket
import time
from urllib.parse import parse_qs, urlparse

import anyio
import uvicorn
from mcp.client.auth import OAuthClientProvider
from mcp.client.session import ClientSession
from mcp.server.auth.provider import AccessToken, AuthorizationCode, RefreshToken, construct_redirect_uri
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.shared.auth import OAuthClientMetadata, OAuthToken
from trials import over, run

from headrace.integrations.mcp_sdk import http_transport

try:
    from mcp.client.auth import AuthorizationCodeResult
    from mcp.server import MCPServer
except ImportError:
    from mcp.server.fastmcp import FastMCP as MCPServer

    AuthorizationCodeResult = None

httpx = importlib.import_module("httpx2" if AuthorizationCodeResult else "httpx")
REDIRECT = "http://127.0.0.1:1/callback"


class Authority:
    """The authorization server's memory."""

    def __init__(self):
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}
        self.registered = self.granted = self.refreshed = 0
        self.lifetime = 3600

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.registered += 1
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = AuthorizationCode(
            code=secrets.token_hex(8), scopes=params.scopes or [], expires_at=time.time() + 60, client_id=client.client_id,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource,
        )  # fmt: skip
        self.codes[code.code] = code
        return construct_redirect_uri(str(params.redirect_uri), code=code.code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        self.granted += 1
        return self._tokens(client, authorization_code.scopes)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        self.refreshed += 1
        return self._tokens(client, scopes)

    async def load_access_token(self, token):
        return self.access.get(token)

    async def revoke_token(self, token):
        self.access.pop(token.token, None)

    def _tokens(self, client, scopes):
        access, refresh = secrets.token_hex(8), secrets.token_hex(8)
        until = int(time.time() + self.lifetime)
        self.access[access] = AccessToken(token=access, client_id=client.client_id, scopes=scopes, expires_at=until)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes)
        return OAuthToken(
            access_token=access, expires_in=self.lifetime, scope=" ".join(scopes), refresh_token=refresh,
            token_type="Bearer",
        )  # fmt: skip


class Storage:
    """What a client keeps."""

    def __init__(self):
        self.tokens = self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client_info):
        self.client = client_info


def provider_for(url, storage):
    """The SDK's provider, whose user says yes at once."""
    answers = []

    async def on_redirect(target):
        async with httpx.AsyncClient() as browser:
            answers.append(parse_qs(urlparse((await browser.get(target)).headers["location"]).query))

    async def on_callback():
        answer = answers.pop()
        code, state = answer["code"][0], answer["state"][0]
        return AuthorizationCodeResult(code=code, state=state) if AuthorizationCodeResult else (code, state)

    metadata = OAuthClientMetadata(client_name="trial", redirect_uris=[REDIRECT], scope="user")
    return OAuthClientProvider(url, metadata, storage, redirect_handler=on_redirect, callback_handler=on_callback)


@contextlib.asynccontextmanager
async def protected():
    """A server that wants a token with the scope `user`; gives its URL and its authority."""
    listener = socket.create_server(("127.0.0.1", 0), backlog=500)
    base = f"http://127.0.0.1:{listener.getsockname()[1]}"
    authority = Authority()
    settings = AuthSettings(
        issuer_url=base, resource_server_url=f"{base}/mcp", required_scopes=["user"],
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["user"]),
    )  # fmt: skip
    app = MCPServer("protected", auth_server_provider=authority, auth=settings, log_level="ERROR")

    @app.tool()
    async def add(a: int, b: int) -> int:
        return a + b

    config = uvicorn.Config(app.streamable_http_app(), log_level="error", lifespan="on", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    server.capture_signals = contextlib.nullcontext
    async with anyio.create_task_group() as tg:
        tg.start_soon(server.serve, [listener])
        while not server.started:
            await anyio.sleep(0.01)
        try:
            yield f"{base}/mcp", authority
        finally:
            server.should_exit = True


@contextlib.asynccontextmanager
async def over_streams(place):
    async with place as (read, write, *_), ClientSession(read, write) as session:
        await session.initialize()
        yield session


@contextlib.asynccontextmanager
async def over_dispatcher(place):
    async with ClientSession(dispatcher=place.dispatcher()) as session:
        await session.initialize()
        yield session


both = {"streams": over_streams} | ({"dispatcher": over_dispatcher} if AuthorizationCodeResult else {})
ways = over(**both)


async def added(session, a=1):
    return (await session.call_tool("add", {"a": a, "b": 0})).content[0].text


@ways
async def trial_oauth(session_of):
    """Discovery, registration, consent and token exchange happen once; then every message has the token."""
    async with protected() as (url, authority):
        storage = Storage()
        async with session_of(http_transport(url, auth=provider_for(url, storage))) as session:
            assert await added(session) == "1"
            found = {}

            async def one(number):
                found[number] = await added(session, number)

            async with anyio.create_task_group() as tg:
                for number in range(100):
                    tg.start_soon(one, number)
            assert found == {number: str(number) for number in range(100)}
        assert (authority.registered, authority.granted) == (1, 1)
        # What was stored serves the next session without a word to the user.
        async with session_of(http_transport(url, auth=provider_for(url, storage))) as session:
            assert await added(session) == "1"
        assert (authority.registered, authority.granted) == (1, 1)


@ways
async def trial_oauth_refreshes(session_of):
    """An expired token is renewed before the message, a revoked one after it was refused; many messages renew it once."""
    async with protected() as (url, authority):
        provider = provider_for(url, Storage())
        async with session_of(http_transport(url, auth=provider)) as session:
            provider.context.token_expiry_time = time.time() - 1
            assert await added(session) == "1"
            assert (authority.refreshed, authority.granted) == (1, 1)
            authority.access.clear()
            async with anyio.create_task_group() as tg:
                for number in range(10):
                    tg.start_soon(added, session, number)
            assert (authority.refreshed, authority.granted) == (1, 2)
            assert await added(session) == "1"


@ways
async def trial_oauth_steps_up(session_of):
    """A token that is not enough (403, insufficient_scope) is replaced by one that is, and the message goes out again."""
    async with protected() as (url, authority), session_of(
        http_transport(url, auth=provider_for(url, Storage()))
    ) as session:
        for token in authority.access.values():
            token.scopes.clear()
        assert await added(session) == "1"
        assert authority.granted == 2


if __name__ == "__main__":
    run(globals())
