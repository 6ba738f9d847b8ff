"""Several servers that share their sessions, for tests: on one hub in memory, or on one Redis."""

import asyncio
import contextlib

from http_support import R4, Site, make_server, tiny

from headrace.hosting.backplane import MemoryBackplane, MemoryHub
from headrace.protocol.context import Context
from headrace.transports.http_server import serve_http


def shared_server(limits=None):
    """The server of other HTTP tests, with tools that ask, log and follow."""
    app = make_server(limits or tiny(notify_interval=0.01))

    @app.tool
    async def roots(ctx: Context) -> str:
        return " ".join(root.uri for root in await ctx.list_roots())

    @app.tool
    async def note(ctx: Context, level: str) -> str:
        ctx.log(level, "said")
        return ctx.client_info["name"]

    @app.resource("data://one")
    def one() -> str:
        return "1"

    return app


class Worker(Site):
    """One of several servers."""

    def __init__(self, app, listener):
        super().__init__(app, listener)
        self.app = app
        self.backplane = app.backplane
        self.sessions = self.endpoint.sessions

    def session(self, sid):
        return self.sessions.by_id.get(sid.encode())

    async def once(self, data, **options):
        """The answer to one request on a connection of its own."""
        peer = await self.connect()
        try:
            return await peer.ask(data, **options)
        finally:
            peer.close()

    async def echo(self, sid, text="hello", **changes):
        """Status and text of a call of ``echo``."""
        answer = await self.once(self.legacy_call(sid, "echo", {"text": text}, **changes))
        if answer.status != 200:
            return answer.status
        return answer.json["result"]["content"][0]["text"]

    async def begin(self, **changes):
        """A session id."""
        peer = await self.connect()
        try:
            return await self.open_session(peer)
        finally:
            peer.close()

    async def delete(self, sid, **changes):
        return await self.once(self.request("DELETE", mcp_session_id=sid, **changes))


@contextlib.asynccontextmanager
async def machines(make, count=2, limits=None, kind=Worker, prepare=None, **options):
    """``count`` servers of a ``kind``; ``make()`` makes the backplane of one, ``prepare(app)`` adds to its server."""
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(count):
            app = shared_server(limits)
            app.set_backplane(make())
            if prepare is not None:
                prepare(app)
            await stack.enter_async_context(app.running())
            listener = await serve_http(app, host="127.0.0.1", port=0, **options)
            found.append(kind(app, listener))
        try:
            yield found
        finally:
            for each in found:
                for peer in each.peers:
                    peer.reset()
            for each in found:
                await asyncio.wait_for(each.listener.close(), 15)
                assert len(each.sessions) == 0 and not each.app.sessions
                assert not any(each.endpoint.mux.debug_counts().values())


@contextlib.asynccontextmanager
async def together(count=2, limits=None, **options):
    """Servers on one hub: ``(hub, *servers)``."""
    hub = MemoryHub(lease=0.5)
    async with machines(lambda: MemoryBackplane(hub), count, limits, **options) as found:
        yield [hub, *found]


def asking(site, version=R4):
    """An ``initialize`` of a client with roots."""
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {
            "protocolVersion": version, "capabilities": {"roots": {}}, "clientInfo": {"name": "raw", "version": "1"},
        },
    }  # fmt: skip
    return site.request(body=body)


def response(site, sid, id, result=None, error=None):
    """A client's answer to a question."""
    body = {"jsonrpc": "2.0", "id": id} | ({"error": error} if error else {"result": result or {}})
    return site.request(body=body, mcp_session_id=sid, mcp_protocol_version=R4)


def text_of(message):
    """The text of a tool's result."""
    return message["result"]["content"][0]["text"]
