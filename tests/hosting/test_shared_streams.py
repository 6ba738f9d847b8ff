"""Streams that are resumed on another process (HO-08, HO-12, HO-20, HO-21, B43, B95)."""

import asyncio

import pytest
from http_support import tiny

from headrace.hosting.backplane import MemoryHub
from headrace.protocol.shared.events import EventId
from hosting.streams_support import begun, said, workers


def text(result):
    return result["content"][0]["text"]


@pytest.fixture
def scene(run):
    """Runs ``body(workers...)`` on so many servers with one hub."""

    def runner(body, count=2, **options):
        async def main():
            async with workers(count, **options) as found:
                await body(*found)

        run(main)

    return runner


@pytest.mark.parametrize("target", [0, 1])
def test_ho21_a_post_stream_goes_on_wherever_the_client_comes_back(scene, target):
    """On the process that works on the request as on any other: what was missed, then live, then the end."""

    async def body(*both):
        a = both[0]
        sid, caller, ids = await begun(a, 3)
        caller.reset()
        other = both[target]
        peer = await other.open_stream(sid, ids[0])
        assert said([await peer.event(), await peer.event()]) == [2, 3]
        a.queue.put_nowait(2)
        live = [await peer.event(), await peer.event()]
        assert said(live) == [4, 5]
        assert all(EventId.read(id).local == EventId.read(ids[0]).local for id, _ in live)
        a.queue.put_nowait("end")
        rest = await peer.events()
        assert text(said(rest)[0]) == "done 5" and rest[0][1]["id"] == 7

    scene(body)


def test_ho21_the_answer_is_read_after_its_request_has_ended(scene):
    async def body(a, b):
        sid, caller, ids = await begun(a, 2)
        caller.reset()
        await asyncio.sleep(0.02)
        a.queue.put_nowait("end")
        await a.settled(lambda: not a.session(sid).mux.in_flight)
        for other in (b, a, b):
            peer = await other.open_stream(sid, ids[0])
            events = await peer.events()
            assert said(events)[0] == 2 and text(said(events)[1]) == "done 2"
        peer = await b.open_stream(sid, events[-1][0])
        assert await peer.events() == []  # the client had all of it

    scene(body)


def test_ho21_the_newest_connection_has_the_stream(scene):
    """The one before loses it, whole, wherever it is; each is told what it missed."""

    async def body(a, b, c):
        sid, caller, ids = await begun(a, 1)
        first = await b.open_stream(sid, ids[0])
        assert await caller.event() is None  # the connection of the POST
        a.queue.put_nowait(1)
        (id, _) = await first.event()
        second = await c.open_stream(sid, ids[0])
        assert said([await second.event()]) == [2]
        assert await first.event() is None
        third = await a.open_stream(sid, id)
        assert await second.event() is None
        a.queue.put_nowait("end")
        assert text(said(await third.events())[0]) == "done 2"
        await b.settled(lambda: not b.session(sid).followers and not c.session(sid).followers)
        assert not any(each.shared.posts.followers for each in (a, b, c))

    scene(body, 3)


def test_b95_the_death_of_the_worker_is_answered_with_an_error(scene):
    """To a client that follows the stream as to one that comes later; never silence."""

    async def body(a, b, c):
        sid, caller, ids = await begun(a, 2)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        assert said([await peer.event()]) == [2]
        await a.die()
        await b.backplane.bury(a.backplane.worker)
        events = await peer.events()
        assert len(events) == 1 and events[0][1]["id"] == 7
        assert events[0][1]["error"]["code"] == -32603 and "has ended" in events[0][1]["error"]["message"]
        late = await c.open_stream(sid, ids[1])
        events = await late.events()
        assert [message["id"] for _, message in events] == [7] and "error" in events[0][1]

    scene(body, 3)


def test_b95_a_death_that_nobody_tells_of_is_noticed(scene, monkeypatch):
    """The lease runs out while a client follows."""
    monkeypatch.setattr("headrace.protocol.shared.replay._ASK_AGAIN", 0.05)
    monkeypatch.setattr("headrace.protocol.shared.wire._TRUSTED", 0.05)

    async def body(a, b):
        sid, caller, ids = await begun(a, 1)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        b.backplane._death.clear()
        await a.die()
        events = await peer.events()
        assert len(events) == 1 and events[0][1]["id"] == 7 and "error" in events[0][1]

    scene(body, hub=MemoryHub(lease=0.3))


def test_b96_lost_pokes_cost_time_and_nothing_else(scene, monkeypatch):
    monkeypatch.setattr("headrace.protocol.shared.replay._ASK_AGAIN", 0.05)
    hub = MemoryHub()

    async def body(a, b):
        sid, caller, ids = await begun(a, 1)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        await b.settled(lambda: b.session(sid).followers and b.session(sid).followers[0]._woken is not None)
        b.backplane._put_in = lambda *message: None
        a.queue.put_nowait(3)
        await a.settled(lambda: a.session(sid).keeper.store.last >= 4)
        del b.backplane._put_in
        assert said([await peer.event(), await peer.event(), await peer.event()]) == [2, 3, 4]
        a.queue.put_nowait("end")
        assert text(said(await peer.events())[0]) == "done 4"

    scene(body, hub=hub)


def test_b96_a_follower_outlives_an_outage(scene):
    hub = MemoryHub()

    async def body(a, b):
        sid, caller, ids = await begun(a, 1)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        hub.cut()
        a.queue.put_nowait(2)
        a.queue.put_nowait("end")
        refused = await b.connect()
        refused.send(b.request("GET", mcp_session_id=sid, last_event_id=ids[0]))
        answer = await refused.answer()
        assert answer.status == 503 and answer.get("retry-after") and "shared" not in answer.json
        assert "cannot be reached" in answer.json["error"]["message"]
        hub.mend()
        events = await peer.events(20)
        assert said(events)[:2] == [2, 3] and text(said(events)[2]) == "done 3"

    scene(body, hub=hub)


@pytest.mark.parametrize("last", ["x", "abc.p1-w1-1.1", "{tag}.p1.1", "{tag}.p9-w123-1.1", "{tag}.p1-w1-1.1,2", "{other}.p1-{worker}-1.1"])
def test_b43_ids_of_others_and_ids_never_given_are_refused(scene, last):
    async def body(a, b):
        sid, caller, ids = await begun(a, 1)
        at = EventId.read(ids[0])
        name = last.format(tag=at.tag, other="0" * 18, worker=at.worker)
        for each in (a, b):
            peer = await each.connect()
            answer = await peer.ask(each.request("GET", mcp_session_id=sid, last_event_id=name))
            assert answer.status == 400, (name, answer)
            other = await each.begin()
            answer = await peer.ask(each.request("GET", mcp_session_id=other, last_event_id=ids[0]))
            assert answer.status == 400
        a.queue.put_nowait("end")
        assert text(said(await caller.events())[0]) == "done 1"  # and the stream is where it was

    scene(body)


def test_ho21_a_worker_that_does_not_answer_is_503(scene, monkeypatch):
    monkeypatch.setattr("headrace.protocol.shared.wire._PATIENCE", 0.1)

    async def body(a, b):
        sid, _caller, ids = await begun(a, 1)
        a.backplane._put_in = lambda *message: None
        peer = await b.connect()
        answer = await peer.ask(b.request("GET", mcp_session_id=sid, last_event_id=ids[0]))
        assert answer.status == 503 and answer.get("retry-after")
        del a.backplane._put_in
        peer = await b.open_stream(sid, ids[0])
        a.queue.put_nowait("end")
        assert text(said(await peer.events())[0]) == "done 1"

    scene(body)


def test_ho21_what_talks_more_than_is_kept_loses_the_oldest(scene):
    async def body(a, b):
        sid, caller, ids = await begun(a, 1)
        caller.reset()
        await a.settled(lambda: not a.endpoint.links or all(link.held_bytes == 0 for link in a.endpoint.links))
        a.queue.put_nowait(100)
        a.queue.put_nowait("end")
        await a.settled(lambda: not a.session(sid).mux.in_flight)
        peer = await b.open_stream(sid, ids[0])
        events = await peer.events()
        assert said(events)[:-1] == list(range(101 - len(events) + 2, 102)) and len(events) <= 20
        assert text(said(events)[-1]) == "done 101"
        assert a.shared.ledger.size <= 20 * 500

    scene(body, limits=tiny(max_resume_events=20, notify_interval=0.01))


def test_ho08_a_client_that_does_not_read_is_not_read_for(scene):
    """Nothing is queued for it beyond its connection: the log waits."""

    async def body(a, b):
        sid, caller, ids = await begun(a, 1, pad=20_000)
        caller.reset()
        peer = await b.connect()
        peer.reader._transport.pause_reading()
        peer.send(b.request("GET", mcp_session_id=sid, last_event_id=ids[0]))
        await b.settled(lambda: b.session(sid) is not None and b.session(sid).followers)
        follower = b.session(sid).followers[0]
        a.queue.put_nowait(900)
        await a.settled(lambda: a.session(sid).keeper.store.last > 900)
        held = follower.number
        for _ in range(200):
            await asyncio.sleep(0.01)
            if follower.number == held and held > 10:
                break
            held = follower.number
        assert held < 800
        link = next(iter(b.endpoint.links))
        assert link.unsent_bytes < 4 << 20
        peer.reader._transport.resume_reading()
        await peer.head()
        for n in range(2, 902):
            assert (await peer.event())[1]["params"]["progress"] == n
        a.queue.put_nowait("end")
        assert text(said(await peer.events())[0]) == "done 901"

    scene(body, limits=tiny(max_output_bytes=4096, max_resume_bytes=1 << 26, notify_interval=0.01))


def test_ho32_the_end_of_the_session_ends_streams_that_are_followed(scene):
    async def body(a, b):
        sid, _caller, ids = await begun(a, 1)
        peer = await b.open_stream(sid, ids[0])
        b.endpoint.sessions.end(b.session(sid))
        assert await peer.event() is None
        await a.settled(lambda: not a.session(sid).keeper.store.followed)
        again = await a.open_stream(sid, ids[0])
        a.endpoint.sessions.end(a.session(sid))
        assert [message["id"] for _, message in await again.events()] in ([], [7])
        assert not a.shared.posts.followers

    scene(body)


def test_a_request_that_was_given_up_is_answered_with_an_error(scene):
    """A process that shuts down cancels what it cannot finish."""

    async def body(a, b):
        sid, _caller, ids = await begun(a, 1)
        await asyncio.wait_for(a.listener.close(), 10)
        peer = await b.open_stream(sid, ids[0])
        events = await peer.events()
        assert [message["id"] for _, message in events] == [7]
        assert "given up" in events[0][1]["error"]["message"]

    scene(body)


def test_b95_a_process_that_shuts_down_tells_those_who_follow_its_streams(scene):
    async def body(a, b):
        sid, caller, ids = await begun(a, 1)
        caller.reset()
        peer = await b.open_stream(sid, ids[0])
        await asyncio.wait_for(a.listener.close(), 10)
        events = await peer.events()
        assert [message["id"] for _, message in events] == [7] and "error" in events[0][1]

    scene(body)
