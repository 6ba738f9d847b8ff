"""The official client's whole OAuth flow against a server: `oauth_client.py URL TEXT`; prints what it found as JSON.

Nobody looks at a browser: the page for consent is asked for, and where it sends to is the answer.
"""

import asyncio
import json
import sys
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp import ClientSession
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientMetadata


class Kept(TokenStorage):
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


async def main(url):
    visited = []

    async def redirect(address):
        async with httpx2.AsyncClient() as client:
            visited.append((await client.get(address)).headers["location"])

    async def callback():
        query = parse_qs(urlsplit(visited[-1]).query)
        found = {"code": query["code"][0], "state": query["state"][0]}
        if "iss" in query:
            found["iss"] = query["iss"][0]
        return AuthorizationCodeResult(**found)

    kept = Kept()
    auth = OAuthClientProvider(
        url, OAuthClientMetadata(client_name="trial", redirect_uris=["http://localhost:9/callback"], scope="use"), kept,
        redirect_handler=redirect, callback_handler=callback,
    )
    async with (
        httpx2.AsyncClient(auth=auth, timeout=20) as http_client,
        streamable_http_client(url, http_client=http_client) as streams,
        ClientSession(streams[0], streams[1]) as session,
    ):
        await session.initialize()
        result = await session.call_tool("whoami", {})
    print(json.dumps({"text": result.content[0].text, "client": kept.client.client_id, "visits": len(visited)}))


asyncio.run(main(sys.argv[1]))
