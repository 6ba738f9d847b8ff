"""Streams over a real Redis: resumption on another process, moved GET streams, changes, deaths, outages (B95, B96)."""

import asyncio

import pytest

from hosting.redis_support import redis_server
from hosting.streams_support import LIST_CHANGED, begun, said, workers


@pytest.fixture
def scene(run):
    """Runs ``body(redis, workers...)`` on so many servers with a Redis of their own."""

    def runner(body, count=2, **options):
        async def main(redis):
            async with workers(count, redis=redis.url, **options) as found:
                await body(redis, *found)

        with redis_server() as redis:
            run(main, redis)

    return runner


async def in_thread(function, *args):
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def method(event):
    return event[1]["method"]


def text(result):
    return result["content"][0]["text"]


def test_ho21_a_post_stream_goes_on_wherever_the_client_comes_back(scene):
    async def body(redis, a, b, c):
        sid, caller, ids = await begun(a, 3)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        assert said([await peer.event(), await peer.event()]) == [2, 3]
        a.queue.put_nowait(200)
        live = [await peer.event() for _ in range(200)]
        assert said(live) == list(range(4, 204))
        last = await c.open_stream(sid, live[-2][0])
        assert await peer.event() is None
        a.queue.put_nowait("end")
        rest = await last.events()
        assert said(rest)[0] == 203 and text(said(rest)[1]) == "done 203" and rest[1][1]["id"] == 7
        late = await b.open_stream(sid, rest[0][0])
        assert text(said(await late.events())[0]) == "done 203"

    scene(body, 3)


def test_b95_the_death_of_the_worker_is_answered_with_an_error(scene):
    async def body(redis, a, b, c):
        sid, caller, ids = await begun(a, 2)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        assert said([await peer.event()]) == [2]
        name = a.backplane.worker
        await a.die()
        late = await c.open_stream(sid, ids[1])  # nobody has been told yet
        await c.backplane.bury(name)
        for each in (peer, late):
            events = await each.events(10)
            assert len(events) == 1 and events[0][1]["id"] == 7 and "has ended" in events[0][1]["error"]["message"]

    scene(body, 3)


def test_ho10_the_get_stream_moves_and_what_waited_with_it(scene):
    async def body(redis, a, b, c):
        sid = await a.begin()
        assert await c.echo(sid) == "hello"
        a.session(sid).announce(b"notifications/one")
        c.session(sid).announce(b"notifications/two")
        await a.settled(lambda: len(a.session(sid).waiting or ()) == 2)
        peer = await b.open_stream(sid)
        first, second = await peer.event(), await peer.event()
        assert {method(first), method(second)} == {"notifications/one", "notifications/two"}
        for each in (a, b, c):
            each.app.hub.changed("tools")
            assert method(await peer.event()) == LIST_CHANGED
        moved = await c.open_stream(sid, first[0])
        assert await peer.event() is None
        assert method(await moved.event()) == method(second)
        assert [method(await moved.event()) for _ in range(3)] == [LIST_CHANGED] * 3
        b.session(sid).announce(b"notifications/three")
        assert method(await moved.event()) == "notifications/three"

    scene(body, 3)


def test_b95_after_the_death_of_the_owner_everything_counts_as_changed(scene):
    async def body(redis, a, b):
        sid = await a.begin()
        peer = await a.open_stream(sid)
        a.session(sid).announce(b"notifications/n")
        id, _ = await peer.event()
        name = a.backplane.worker
        await a.backplane.flushed()
        await a.die()
        await b.backplane.bury(name)
        b.app.hub.changed("prompts")
        again = await b.open_stream(sid, id)
        assert {method(await again.event()) for _ in range(2)} == {LIST_CHANGED, "notifications/resources/list_changed"}
        b.session(sid).announce(b"notifications/m")
        assert method(await again.event()) == "notifications/m"

    scene(body)


def test_b96_streams_outlive_an_outage_of_redis(scene):
    """The request goes on, its events are told when Redis is back, and nothing of them is lost."""

    async def body(redis, a, b):
        sid, caller, ids = await begun(a, 1)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        stream = await a.open_stream(sid)
        await in_thread(redis.kill)
        await a.settled(lambda: not a.backplane.available and not b.backplane.available)
        a.queue.put_nowait(50)
        a.app.hub.changed("tools")
        assert method(await stream.event()) == LIST_CHANGED
        answer = await b.once(b.request("GET", mcp_session_id=sid))
        assert answer.status == 503 and answer.get("retry-after")
        await in_thread(redis.restart)
        assert said([await peer.event(15) for _ in range(50)]) == list(range(2, 52))
        a.queue.put_nowait("end")
        assert text(said(await peer.events())[0]) == "done 51"
        moved = await b.open_stream(sid)
        a.app.hub.changed("tools")
        assert method(await moved.event()) == LIST_CHANGED

    scene(body)


def test_b96_a_redis_that_comes_back_empty_leaves_no_client_waiting(scene):
    """Events that it kept are gone; the request is answered with an error, or with what came afterwards."""

    async def body(redis, a, b):
        sid, caller, ids = await begun(a, 1)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        await in_thread(redis.kill)
        await a.settled(lambda: not a.backplane.available and not b.backplane.available)
        await in_thread(lambda: redis.restart(empty=True))
        await a.settled(lambda: a.backplane.available and b.backplane.available, 15)
        a.queue.put_nowait(2)
        a.queue.put_nowait("end")
        events = await peer.events(20)
        assert events[-1][1]["id"] == 7 and said(events)[:-1] == [2, 3]

    scene(body)


def test_b96_changes_during_an_outage_are_told_afterwards(scene):
    async def body(redis, a, b):
        sid = await a.begin()
        peer = await b.open_stream(sid)
        await in_thread(redis.kill)
        await a.settled(lambda: not a.backplane.available and not b.backplane.available)
        a.app.hub.changed("tools")
        await in_thread(redis.restart)
        assert method(await peer.event(15)) == LIST_CHANGED

    scene(body)
