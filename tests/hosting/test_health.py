"""/healthz and /readyz: what orchestrators ask an endpoint for."""

import asyncio
import contextlib

import pytest
from http_support import site

from headrace import Server, UsageError
from headrace.transports.health import Health, health_of
from headrace.transports.http_options import check_options


def test_what_is_ready():
    """Not before the start is over, not while the server drains or somebody holds it; live all the time."""
    health = Health()
    assert (health.ready, health.answer("/readyz")) == (False, (503, "starting\n"))
    health.started()
    assert (health.ready, health.answer("/readyz")) == (True, (200, "ok\n"))
    health.hold("the cache fills")
    health.hold("no database")
    assert (health.ready, health.answer("/readyz")) == (False, (503, "the cache fills, no database\n"))
    health.release("no database")
    health.draining()
    assert health.answer("/readyz") == (503, "draining, the cache fills\n")
    assert health.answer("/healthz") == (200, "ok\n")
    assert health.answer("/healthz/x") is None
    assert health_of(False) is None and health_of(health) is health and health_of(True).state == "starting"


def test_paths_of_an_endpoint(run):
    """Any Host may ask, with GET or HEAD; the connection goes on."""

    async def main():
        async with site(health=True) as place:
            peer = await place.connect()
            answer = await peer.ask(place.request("GET", "/healthz", host="10.1.2.3"))
            assert (answer.status, answer.body, answer.get("content-type")) == (
                200, b"ok\n", "text/plain; charset=utf-8")  # fmt: skip
            assert answer.get("cache-control") == "no-store"
            answer = await peer.ask(place.request("GET", "/readyz?verbose=1", accept=None))
            assert (answer.status, answer.body) == (200, b"ok\n")
            answer = await peer.ask(place.request("HEAD", "/readyz", host="x"), head_only=True)
            assert (answer.status, answer.get("content-length")) == (200, "3")
            assert (await peer.ask(place.call("echo", {"text": "a"}))).status == 200
            assert (await peer.ask(place.request("GET", "/readyz"))).status == 200
            assert (await peer.ask(place.call("echo", {"text": "b"}))).status == 200
            assert (await peer.ask(place.request("POST", "/readyz", body=b"{}"))).status == 404
            assert place.server.runtime.refusals == {"http_404": 1}

    run(main)


def test_paths_are_off_by_default(run):
    async def main():
        async with site() as place:
            peer = await place.connect()
            assert (await peer.ask(place.request("GET", "/healthz"))).status == 404

    run(main)


def test_not_ready_while_it_drains(run):
    """A connection that is there already hears 503, and the request in flight is answered."""

    async def main():
        async with site(health=True) as place:
            busy, other = await place.connect(), await place.connect()
            busy.send(place.call("sleep", {"ms": 300}))
            await place.settled(lambda: place.server.seen.started == 1)
            # Its head has begun, so that the connection is not idle and outlives the beginning of the drain.
            request = place.request("GET", "/readyz")
            other.send(request[:20])
            await place.settled(lambda: place.listener.connections == 2)
            await asyncio.sleep(0.05)
            closing = asyncio.ensure_future(place.listener.close())
            await asyncio.sleep(0.05)
            answer = await other.ask(request[20:])
            assert (answer.status, answer.body, answer.get("connection")) == (503, b"draining\n", "close")
            assert (await busy.answer()).status == 200
            await closing

    run(main)


def test_an_application_beside_keeps_its_own_paths(run):
    """Where nobody has asked for ours in so many words."""

    async def beside(scope, receive, send):
        if scope["type"] == "http":
            await send({"type": "http.response.start", "status": 299, "headers": []})
            await send({"type": "http.response.body", "body": b"mine"})

    async def main():
        for health, status in ((Health(yields=True), 299), (Health(), 200)):
            async with site(health=health, beside=beside) as place:
                peer = await place.connect()
                assert (await peer.ask(place.request("GET", "/healthz"))).status == status

    run(main)


def test_the_life_of_a_hosted_server(run):
    """Starting while the lifespan runs, ready with its addresses, draining from the moment when it is stopped."""

    async def main():
        health = Health()
        states = []

        @contextlib.asynccontextmanager
        async def lifespan(server):
            states.append(health.state)
            yield
            states.append(health.state)

        app = Server("t", version="1", lifespan=lifespan)
        ready = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(app.serve(tcp="127.0.0.1:0", health=health, on_ready=ready.set_result))
        await ready
        states.append(health.state)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert states == ["starting", "ready", "draining"]

    run(main)


def test_the_endpoint_must_be_elsewhere():
    with pytest.raises(UsageError, match="/healthz"):
        check_options({"path": "/healthz/", "health": True})
    check_options({"path": "/healthz"})
    with pytest.raises(UsageError, match="health is for the ASGI host"):
        Server("t", version="1").asgi(health=True)
