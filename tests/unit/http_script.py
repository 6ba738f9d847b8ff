"""A scripted HTTP server for clients: tests decide what each method is answered with."""

import asyncio
import json

from http_peer import Peer, plain

from headrace import connect

__all__ = ("DONE", "HttpScript", "agreed")

DONE = object()


class HttpScript:
    """An HTTP server: `replies` maps a method (slashes as underscores), or GET and DELETE, to what it
    answers: a result, an error object, (status line, error object), bytes, None to close, or a function of
    the request (which has its ``conn``) that gives one of these, or DONE when it has answered itself."""

    def __init__(self, **replies):
        self.replies = replies
        self.seen = []
        self.peer = Peer(self._handle)

    async def __aenter__(self):
        await self.peer.start()
        return self

    async def __aexit__(self, *exc):
        await self.peer.stop()

    @property
    def url(self):
        return self.peer.url

    @property
    def methods(self):
        return [r.body["method"] if r.method == "POST" else r.method for r in self.seen]

    async def _handle(self, conn):
        while (request := await conn.request()) is not None:
            request.conn = conn
            self.seen.append(request)
            method = self.methods[-1]
            key = method.replace("server/", "").replace("notifications/", "").replace("/", "_")
            reply = self.replies.get(key)
            if callable(reply):
                reply = reply(request)
                if asyncio.iscoroutine(reply):
                    reply = await reply
            if reply is DONE:
                continue
            if reply is None:
                if key == "initialized":
                    reply = plain("202 Accepted")
                elif key in ("GET", "DELETE"):
                    reply = plain("405 Method Not Allowed")
                else:
                    return
            status = "200 OK"
            if isinstance(reply, tuple):
                status, reply = reply
            if isinstance(reply, dict):
                key = "error" if "code" in reply else "result"
                body = json.dumps({"jsonrpc": "2.0", "id": request.body["id"], key: reply}).encode()
                reply = plain(status, body, Content_Type="application/json")
            conn.send(reply)


async def agreed(script, **options):
    async with connect(script.url, **options) as client:
        return client.protocol_version
