"""The GET stream of a session that several processes serve: who tells the client, and what waits (HO-10..HO-13, B44)."""

import asyncio

import pytest
from http_support import id_of, tiny

from headrace.errors import ConnectionClosed, LocalProtocolError
from headrace.hosting.backplane import MemoryHub
from hosting.streams_support import LIST_CHANGED, workers


@pytest.fixture
def scene(run):
    """Runs ``body(workers...)`` on so many servers with one hub."""

    def runner(body, count=2, **options):
        async def main():
            async with workers(count, **options) as found:
                await body(*found)

        run(main)

    return runner


def method(event):
    return event[1]["method"]


ALL_CHANGED = {LIST_CHANGED, "notifications/resources/list_changed"}
"""What a client is told when nobody knows what it has missed."""


async def told(peer, count):
    """The methods of so many events."""
    return {method(await peer.event()) for _ in range(count)}


async def quiet(peer, seconds=0.15):
    """Nothing comes."""
    with pytest.raises(asyncio.TimeoutError):
        await peer.event(seconds)


async def touch(worker, sid):
    """Has the process know the session."""
    assert await worker.echo(sid) == "hello"


def test_sf60_only_the_process_with_the_stream_tells_of_changes(scene):
    """Wherever they happen, and once."""

    async def body(a, b, c):
        sid = await a.begin()
        await touch(c, sid)
        peer = await b.open_stream(sid)
        for each in (a, b, c):
            each.app.hub.changed("tools")
            assert method(await peer.event()) == LIST_CHANGED
        await quiet(peer)
        assert b.session(sid).owned and a.session(sid).away and c.session(sid).away
        assert a.session(sid).owner == c.session(sid).owner == b.backplane.worker

    scene(body, 3)


def test_ho12_what_waits_for_a_stream_is_told_wherever_it_opens(scene):
    async def body(a, b, c):
        sid = await a.begin()
        await touch(c, sid)
        a.session(sid).announce(b"notifications/one", b'{"a":1}')
        c.session(sid).announce(b"notifications/two")
        c.app.hub.changed("tools")
        await a.settled(lambda: len(a.session(sid).waiting) == 3)
        peer = await b.open_stream(sid)
        notes = [await peer.event() for _ in range(3)]
        assert [method(each) for each in notes] == ["notifications/one", "notifications/two", LIST_CHANGED]
        assert notes[0][1]["params"] == {"a": 1} and "params" not in notes[1][1]
        await quiet(peer)
        assert not a.session(sid).waiting and not c.session(sid).waiting

    scene(body, 3)


def test_notes_of_any_process_go_to_the_one_with_the_stream(scene):
    async def body(a, b, c):
        sid = await a.begin()
        peer = await b.open_stream(sid)
        await touch(c, sid)
        for n, each in enumerate((a, b, c, a)):
            assert each.session(sid).announce(b"notifications/x", b'{"n":%d}' % n)
            assert (await peer.event())[1]["params"] == {"n": n}

    scene(body, 3)


def test_ho10_the_stream_moves_with_the_client(scene):
    """Opened anew on one process after the other: nothing is told twice, nothing is missed."""

    async def body(*all):
        a = all[0]
        sid = await a.begin()
        for n in range(9):
            here, other = all[n % 3], all[(n + 1) % 3]
            peer = await here.open_stream(sid)
            other.app.hub.changed("tools")
            assert method(await peer.event()) == LIST_CHANGED
            await touch(other, sid)
            other.session(sid).announce(b"notifications/n", b'{"n":%d}' % n)
            assert (await peer.event())[1]["params"] == {"n": n}
            peer.reset()
            await here.settled(lambda here=here: not here.session(sid).streams)
            here.session(sid).announce(b"notifications/waits")
            peer = await other.open_stream(sid)
            assert method(await peer.event()) == "notifications/waits"
            peer.reset()
            await other.settled(lambda other=other: not other.session(sid).streams)
        assert len({each.session(sid).epoch for each in all}) == 1

    scene(body, 3)


def test_ho21_a_get_stream_is_resumed_on_another_process(scene):
    """Its events go on under the same name; the connection that still had it loses it."""

    async def body(a, b):
        sid = await a.begin()
        first = await a.open_stream(sid)
        ids = []
        for n in range(3):
            a.session(sid).announce(b"notifications/n", b'{"n":%d}' % n)
            ids.append((await first.event())[0])
        second = await b.open_stream(sid, ids[0])
        assert await first.event() is None
        for n in (1, 2):
            id, message = await second.event()
            assert message["params"] == {"n": n} and id == ids[n]
        b.session(sid).announce(b"notifications/n", b'{"n":3}')
        id, message = await second.event()
        assert message["params"] == {"n": 3} and id.rpartition(".")[0] == ids[0].rpartition(".")[0]
        second.reset()
        await b.settled(lambda: not b.session(sid).streams)
        third = await a.open_stream(sid, ids[1])
        assert [(await third.event())[1]["params"]["n"] for _ in range(2)] == [2, 3]
        a.session(sid).announce(b"notifications/n", b'{"n":4}')
        assert (await third.event())[1]["params"] == {"n": 4}

    scene(body)


def test_b95_after_the_death_of_the_owner_everything_counts_as_changed(scene):
    """What it had kept is told, and what it may have kept to itself cannot be known."""

    async def body(a, b, c):
        sid = await a.begin()
        first = await b.open_stream(sid)
        b.session(sid).announce(b"notifications/n", b'{"n":0}')
        id, _ = await first.event()
        b.session(sid).announce(b"notifications/n", b'{"n":1}')
        await first.event()
        await b.die()
        await c.backplane.bury(b.backplane.worker)
        c.app.hub.changed("prompts")
        peer = await c.open_stream(sid, id)
        assert (await peer.event())[1]["params"] == {"n": 1}
        assert await told(peer, 2) == ALL_CHANGED
        await quiet(peer)
        c.session(sid).announce(b"notifications/n", b'{"n":2}')
        assert (await peer.event())[1]["params"] == {"n": 2}

    scene(body, 3)


def test_b95_notes_for_a_client_whose_process_died_wait_for_the_next(scene):
    async def body(a, b, c):
        sid = await a.begin()
        await b.open_stream(sid)
        await touch(c, sid)
        await b.die()
        await c.backplane.bury(b.backplane.worker)
        await c.settled(lambda: c.session(sid).owner == "")
        assert c.session(sid).announce(b"notifications/late")
        peer = await a.open_stream(sid)
        assert await told(peer, 3) == ALL_CHANGED | {"notifications/late"}

    scene(body, 3)


def test_ho12_a_stream_that_stands_by_takes_over_when_the_newest_ends(scene):
    """On another process as on the same."""

    async def body(a, b):
        sid = await a.begin()
        old = await a.open_stream(sid)
        new = await b.open_stream(sid)
        a.app.hub.changed("tools")
        assert method(await new.event()) == LIST_CHANGED
        await quiet(old)
        new.reset()
        await a.settled(lambda: a.session(sid).owned and a.session(sid).sink is not None)
        b.app.hub.changed("tools")
        assert method(await old.event()) == LIST_CHANGED
        await b.settled(lambda: b.session(sid).away)
        b.session(sid).announce(b"notifications/x")
        assert method(await old.event()) == "notifications/x"

    scene(body)


def test_b95_a_stream_that_stands_by_takes_over_when_the_process_dies(scene):
    async def body(a, b):
        sid = await a.begin()
        old = await a.open_stream(sid)
        await b.open_stream(sid)
        await a.settled(lambda: a.session(sid).away)
        await b.die()
        await a.backplane.bury(b.backplane.worker)
        assert await told(old, 2) == ALL_CHANGED
        a.session(sid).announce(b"notifications/x")
        assert method(await old.event()) == "notifications/x"

    scene(body)


def test_ho10_streams_that_open_at_once_leave_one_owner(scene):
    async def body(*all):
        a = all[0]
        for _ in range(5):
            sid = await a.begin()
            for each in all:
                await touch(each, sid)
            peers = await asyncio.gather(*(each.open_stream(sid) for each in all))
            await a.settled(lambda sid=sid: sum(each.session(sid).owned for each in all) == 1)
            await a.settled(lambda sid=sid: len({each.session(sid).owner for each in all}) == 1)
            owner = next(n for n, each in enumerate(all) if each.session(sid).owned)
            all[(owner + 1) % 4].session(sid).announce(b"notifications/x")
            heard = set()
            while "notifications/x" not in heard:
                heard |= await told(peers[owner], 1)
            assert heard <= ALL_CHANGED | {"notifications/x"}

    scene(body, 4)


def test_requests_go_to_the_client_on_the_stream_of_another_process(scene):
    """The answer is the business of whoever finds its way; here it is given by hand."""

    async def body(a, b):
        sid = await a.begin()
        with pytest.raises(LocalProtocolError):
            a.session(sid).request("ping")
        peer = await b.open_stream(sid)
        await a.settled(lambda: a.session(sid).held and a.session(sid).away)
        call = a.session(sid).request("ping")
        _, message = await peer.event()
        assert message["method"] == "ping"
        caller = await a.connect()
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
        assert (await caller.ask(a.request(body=answer, mcp_session_id=sid))).status == 202
        assert await call == b"{}"
        call = a.session(sid).request("ping")
        await peer.event()
        call.cancel("enough")
        assert method(await peer.event()) == "notifications/cancelled"
        peer.reset()
        await a.settled(lambda: not a.session(sid).held)
        with pytest.raises(LocalProtocolError):
            a.session(sid).request("ping")
        a.session(sid).held = True  # it has not heard of it yet
        a.session(sid).direct()
        with pytest.raises(ConnectionClosed):
            await a.session(sid).request("ping")

    scene(body)


def test_who_waits_for_a_stream_is_told_of_one_anywhere(scene):
    """As hosted servers do that ask the client outside of its requests."""

    async def body(a, b):
        sid = await a.begin()
        session = a.session(sid)
        waiting = asyncio.ensure_future(session.next_stream())
        peer = await b.open_stream(sid)
        await asyncio.wait_for(waiting, 5)
        call = session.mux.call("ping", None, session.sink)
        _, message = await peer.event()
        answer = {"jsonrpc": "2.0", "id": message["id"], "result": {}}
        caller = await a.connect()
        assert (await caller.ask(a.request(body=answer, mcp_session_id=sid))).status == 202
        assert await call == b"{}"
        peer.reset()
        await a.settled(lambda: session.sink is None)

    scene(body)


def test_b95_requests_fail_with_the_process_that_had_the_stream(scene):
    async def body(a, b):
        sid = await a.begin()
        peer = await b.open_stream(sid)
        await a.settled(lambda: a.session(sid).held and a.session(sid).away)
        call = a.session(sid).request("ping")
        await peer.event()
        await b.die()
        await a.backplane.bury(b.backplane.worker)
        with pytest.raises(ConnectionClosed):
            await call

    scene(body)


def test_b96_streams_and_the_backplane_being_away(scene):
    """Who has the stream goes on, who would have to be given it is told to come again."""
    hub = MemoryHub()

    async def body(a, b):
        sid = await a.begin()
        peer = await a.open_stream(sid)
        await touch(b, sid)
        hub.cut()
        a.app.hub.changed("tools")
        assert method(await peer.event()) == LIST_CHANGED
        again = await a.open_stream(sid)
        other = await b.connect()
        answer = await other.ask(b.request("GET", mcp_session_id=sid))
        assert answer.status == 503 and answer.get("retry-after")
        assert b.app.runtime.refusals == {"backplane": 1}
        b.session(sid).announce(b"notifications/x")
        hub.mend()
        assert method(await again.event()) == "notifications/x"
        third = await b.open_stream(sid)
        a.app.hub.changed("tools")
        assert method(await third.event()) == LIST_CHANGED

    scene(body, hub=hub)


def test_b96_after_a_gap_the_owners_are_looked_up(scene):
    hub = MemoryHub()

    async def body(a, b):
        sid = await a.begin()
        a.backplane._put_in = lambda *message: None
        peer = await b.connect()
        peer.send(b.request("GET", mcp_session_id=sid))
        await peer.head(10)
        assert a.session(sid).owned and b.session(sid).owned
        del a.backplane._put_in
        hub.lose()
        await a.settled(lambda: a.session(sid).away)
        a.session(sid).announce(b"notifications/x")
        found = set()
        while "notifications/x" not in found:
            found.add(method(await peer.event()))

    scene(body, hub=hub)


def test_streams_without_event_ids_move_too(scene):
    async def body(a, b):
        sid = await a.begin()
        peer = await b.open_stream(sid)
        a.app.hub.changed("tools")
        data = await peer.chunk()
        assert LIST_CHANGED.encode() in data and id_of(data) is None
        other = await b.connect()
        answer = await other.ask(b.request("GET", mcp_session_id=sid, last_event_id="x"))
        assert answer.status == 400

    scene(body, event_store=False)


def test_waiting_notes_stay_bounded(scene):
    async def body(a, b):
        sid = await a.begin()
        await touch(b, sid)
        for n in range(50):
            a.session(sid).announce(b"notifications/n", b'{"n":%d}' % n)
            b.session(sid).announce(b"notifications/m", b'{"n":%d}' % n)
        await asyncio.sleep(0.05)
        assert len(a.session(sid).waiting) == 5
        peer = await b.open_stream(sid)
        assert [(await peer.event())[1]["params"]["n"] for _ in range(5)] == [0, 1, 2, 3, 4]
        await quiet(peer)

    scene(body, limits=tiny(max_waiting_notices=5, notify_interval=0.01))


def test_b47_an_owner_that_forgets_the_session_says_so(scene):
    """What others have for the client waits with them, and what changed meanwhile is told by whoever is next."""

    async def body(a, b, c):
        sid = await a.begin()
        await touch(c, sid)
        a.sessions.forget(a.session(sid))
        await c.settled(lambda: c.session(sid).owner == "")
        assert c.session(sid).announce(b"notifications/x")
        c.app.hub.changed("tools")
        await asyncio.sleep(0.05)
        peer = await b.open_stream(sid)
        assert await told(peer, 3) == ALL_CHANGED | {"notifications/x"}
        assert c.session(sid).owner == b.backplane.worker

    scene(body, 3)


def test_b96_an_owner_is_written_down_again_when_everything_was_lost(scene):
    hub = MemoryHub()

    async def body(a, b):
        sid = await a.begin()
        await b.open_stream(sid)
        hub.cut()
        hub.mend(empty=True)
        record = a.session(sid).record
        await b.settled(lambda: record in hub.records and "owner" in hub.records[record][1])
        epoch, name = hub.records[record][1]["owner"].decode().split()
        assert (int(epoch), name) == (1, b.backplane.worker)

    scene(body, hub=hub)


def test_b95_nobody_waits_for_the_answer_of_a_process_that_dies(scene, monkeypatch):
    monkeypatch.setattr("headrace.protocol.shared.wire._PATIENCE", 3600.0)

    async def body(a, b):
        sid = await a.begin()
        await touch(b, sid)
        await a.die()
        peer = await b.connect()
        peer.send(b.request("GET", mcp_session_id=sid))
        await b.settled(lambda: b.shared.wire._asked)
        await b.backplane.bury(a.backplane.worker)
        status, _ = await peer.head()
        assert status == 200
        assert await told(peer, 2) == ALL_CHANGED

    scene(body)
