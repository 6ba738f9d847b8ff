"""ASGI applications behind `headrace.transports.asgi.serve`, and raw peers that talk to them."""

import asyncio
import contextlib
import logging

from http_support import Site

from headrace.limits import Limits
from headrace.transports.asgi import serve

__all__ = ("App", "Place", "answer", "hosted", "whole_body")


class Place(Site):
    """One hosted application."""

    def __init__(self, listener):
        super().__init__(None, listener)

    def get(self, target="/", method="GET", **fields):
        return self.request(method, target, **({"accept": None, "content_type": None} | fields))

    def post(self, body, target="/", **fields):
        return self.get(target, "POST", body=body, **fields)


class App:
    """Calls `handle(scope, receive, send)` for requests; speaks the lifespan protocol."""

    def __init__(self, handle):
        self.handle = handle
        self.events = []
        self.running = 0
        self.errors = []
        self.disconnects = 0

    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            assert (await receive())["type"] == "lifespan.startup"
            scope["state"]["began"] = True
            self.events.append("up")
            await send({"type": "lifespan.startup.complete"})
            assert (await receive())["type"] == "lifespan.shutdown"
            self.events.append("down")
            await send({"type": "lifespan.shutdown.complete"})
            return
        self.running += 1
        try:
            await self.handle(scope, receive, send)
        except BaseException as exc:
            self.errors.append(exc)
            raise
        finally:
            self.running -= 1


async def answer(send, body=b"ok", status=200, headers=()):
    await send({"type": "http.response.start", "status": status, "headers": list(headers)})
    await send({"type": "http.response.body", "body": body})


async def whole_body(receive):
    """(body, number of events); the last event is not a disconnect."""
    body, events = b"", 0
    while True:
        event = await receive()
        if event["type"] == "http.disconnect":
            return None, events
        events += 1
        body += event["body"]
        if not event["more_body"]:
            return body, events


@contextlib.asynccontextmanager
async def hosted(handle, limits=None, **options):
    """`handle` as an application on a free port; in the end nothing of it may be left."""
    app = handle if isinstance(handle, App) else App(handle)
    where = {"host": "127.0.0.1", "port": 0}
    if {"unix", "sock"} & set(options):
        where = {}
    listener = await serve(
        app, limits=limits or Limits(drain_timeout=2.0, linger_timeout=0.3), log=logging.getLogger("headrace.test"),
        **(where | options),
    )
    place = Place(listener) if "unix" not in options else None
    try:
        if place is None:
            yield listener, app
        else:
            yield place, app
    finally:
        for peer in place.peers if place is not None else ():
            peer.reset()
        await asyncio.wait_for(listener.close(), 15)
    assert listener.connections == 0 and listener.endpoint.served == 0
    assert not listener.endpoint.beside.running
    assert app.running == 0
    if app.events:
        assert app.events == ["up", "down"]
