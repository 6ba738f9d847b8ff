"""What holds of every backplane: messages, records, logs, groups, and who lives (issue item 5a, B96)."""

import asyncio
import secrets

import pytest

from headrace.hosting.backplane import MemoryBackplane, MemoryHub, RedisBackplane
from hosting.backplane_support import Heard, until
from hosting.redis_support import redis_cluster, redis_one, redis_sentinel, redis_server

__all__ = ("redis_one",)


@pytest.fixture(scope="module")
def sentinel_url():
    with redis_sentinel() as (url, *_):
        yield url


@pytest.fixture(scope="module")
def cluster_url():
    with redis_cluster() as (url, _):
        yield url


@pytest.fixture(scope="module")
def tls_url():
    with redis_server(tls=True, password="horse battery", keeps=False) as server:
        yield server.url.replace(" ", "%20")


@pytest.fixture(scope="module")
def unix_url():
    with redis_server(unix=True, keeps=False) as server:
        yield server.url


@pytest.fixture(params=["memory", "redis", "tls", "unix", "sentinel", "cluster"])
def make(request):
    """Makes backplanes that share one hub."""
    if request.param == "memory":
        hub = MemoryHub()
        return lambda: MemoryBackplane(hub)
    if request.param == "redis":
        url = request.getfixturevalue("redis_one").url
    else:
        url = request.getfixturevalue(request.param + "_url")
    prefix = secrets.token_hex(4)
    return lambda: RedisBackplane(url, prefix=prefix)


@pytest.fixture
def scene(run, make):
    """Runs ``body(a, b, c)`` with three started processes, and stops them."""

    def runner(body):
        async def whole():
            started = [await Heard(make()).start() for _ in range(3)]
            try:
                await body(*started)
            finally:
                for each in started:
                    await each.backplane.stop()

        run(whole)

    return runner


def test_messages_to_all_come_in_one_order_and_not_to_their_sender(scene):
    async def body(a, b, c):
        for n in range(200):
            (a if n % 2 else b).backplane.tell_all("note", b"%d" % n, b"second \x00 part")
        await until(lambda: len(c.messages) == 200 and len(a.messages) == 100 and len(b.messages) == 100)
        assert [each for each in c.messages if each[0] == a.backplane.worker] == b.messages
        assert [each for each in c.messages if each[0] == b.backplane.worker] == a.messages
        assert b.texts == [b"%d" % n for n in range(1, 200, 2)]
        assert c.messages[0][2][1] == b"second \x00 part"
        assert (a.gaps, b.gaps, c.gaps) == (0, 0, 0)

    scene(body)


def test_messages_to_one_reach_it_alone_in_order(scene):
    async def body(a, b, c):
        for n in range(100):
            a.backplane.tell(b.backplane.worker, "note", b"%d" % n)
        a.backplane.tell("nobody", "note", b"lost")
        a.backplane.tell(b.backplane.worker, "unknown kind", b"")
        await a.backplane.flushed()
        await until(lambda: len(b.messages) == 100)
        assert b.texts == [b"%d" % n for n in range(100)]
        assert (a.messages, c.messages) == ([], [])

    scene(body)


def test_a_process_can_tell_itself(scene):
    async def body(a, b, c):
        a.backplane.tell(a.backplane.worker, "note", b"self")
        await until(lambda: a.texts == [b"self"])
        assert b.messages == []

    scene(body)


def test_b96_a_listener_that_raises_does_not_stop_the_next_message(scene, caplog):
    async def body(a, b, c):
        def fails(sender, parts):
            raise ValueError("first line\nsecret")

        b.backplane.receive("bad", fails)
        for _ in range(5):
            a.backplane.tell_all("bad", b"")
        a.backplane.tell_all("note", b"good")
        await until(lambda: b.texts == [b"good"])

    scene(body)
    lines = [record.getMessage() for record in caplog.records if "message bad" in record.getMessage()]
    assert lines == ["message bad of the backplane could not be handled: ValueError: first line"]


def test_records_are_kept_touched_replaced_and_deleted(scene):
    async def body(a, b, c):
        assert await b.backplane.get("key") is None
        assert await a.backplane.put("key", b"\x00value", 60)
        assert await b.backplane.get("key") == b"\x00value"
        assert not await b.backplane.put("key", b"other", 60, new=True)
        assert await a.backplane.get("key") == b"\x00value"
        assert await b.backplane.put_part("key", "part", b"1")
        assert await a.backplane.parts("key") == {"": b"\x00value", "part": b"1"}
        assert await a.backplane.put_part("key", "part", None)
        assert await a.backplane.put_part("key", "part", None)
        assert await a.backplane.parts("key") == {"": b"\x00value"}
        assert await a.backplane.put_part("key", "gone", b"1")
        assert await a.backplane.put("key", b"new", 60)
        assert await a.backplane.parts("key") == {"": b"new"}
        assert await a.backplane.delete("key")
        assert not await a.backplane.delete("key")
        assert not await a.backplane.touch("key", 60)
        assert not await a.backplane.put_part("key", "part", b"1")
        assert await a.backplane.parts("key") == {}
        assert await a.backplane.put("key", b"again", 60, new=True, parts={"x": b"1", "y": b""})
        assert await b.backplane.parts("key") == {"": b"again", "x": b"1", "y": b""}
        assert not await a.backplane.put("key", b"third", 60, new=True, parts={"z": b"1"})
        assert await b.backplane.parts("key") == {"": b"again", "x": b"1", "y": b""}

    scene(body)


def test_records_end_with_their_time(scene):
    async def body(a, b, c):
        await a.backplane.put("short", b"1", 0.2)
        await a.backplane.put_part("short", "part", b"1")
        await a.backplane.put("kept", b"2", 0.2)
        assert await a.backplane.touch("kept", 60)
        await asyncio.sleep(0.3)
        assert await b.backplane.get("short") is None
        assert await b.backplane.parts("short") == {}
        assert not await b.backplane.touch("short", 60)
        assert await b.backplane.get("kept") == b"2"

    scene(body)


def test_members_of_a_group_are_counted_while_their_time_lasts(scene):
    async def body(a, b, c):
        assert await a.backplane.count("sessions", None, 0) == 0
        assert await a.backplane.count("sessions", "one", 60) == 1
        assert await b.backplane.count("sessions", "two", 60) == 2
        assert await b.backplane.count("sessions", "two", 60) == 2
        assert await b.backplane.count("others", "two", 60) == 1
        assert await a.backplane.count("sessions", "two", 0) == 1
        assert await a.backplane.count("sessions", "short", 0.1) == 2
        await asyncio.sleep(0.2)
        assert await c.backplane.count("sessions", None, 0) == 1

    scene(body)


def test_events_of_a_log_are_read_in_order_behind_a_number(scene):
    async def body(a, b, c):
        for n in (1, 2, 5, 9):
            a.backplane.append("log", n, b"event %d" % n, most=1000, seconds=60)
        a.backplane.append("log", 5, b"told twice", most=1000, seconds=60)
        await a.backplane.flushed()
        assert await b.backplane.read("log", 0, 10) == [(n, b"event %d" % n) for n in (1, 2, 5, 9)]
        assert await b.backplane.read("log", 2, 10) == [(5, b"event 5"), (9, b"event 9")]
        assert await b.backplane.read("log", 3, 1) == [(5, b"event 5")]
        assert await b.backplane.read("log", 9, 10) == []
        assert await b.backplane.read("none", 0, 10) == []
        await b.backplane.drop("log")
        assert await a.backplane.read("log", 0, 10) == []

    scene(body)


def test_logs_are_bounded_in_number_and_time(scene):
    async def body(a, b, c):
        for n in range(1, 2001):
            a.backplane.append("long", n, b"%d" % n, most=100, seconds=60)
        a.backplane.append("short", 1, b"1", most=100, seconds=0.1)
        await a.backplane.flushed()
        found = await b.backplane.read("long", 0, 5000)
        assert [n for n, _ in found] == list(range(2001 - len(found), 2001))
        assert 100 <= len(found) < 600
        await asyncio.sleep(0.2)
        assert await b.backplane.read("short", 0, 10) == []

    scene(body)


def test_who_started_lives_until_it_leaves(scene):
    async def body(a, b, c):
        names = {each.backplane.worker for each in (a, b, c)}
        assert len(names) == 3 and all(name.isalnum() for name in names)
        assert await a.backplane.alive(b.backplane.worker)
        name = b.backplane.worker
        await b.backplane.stop()
        assert not await a.backplane.alive(name)
        await b.start()
        assert b.backplane.worker != name
        a.backplane.tell(b.backplane.worker, "note", b"welcome back")
        await until(lambda: b.texts == [b"welcome back"])

    scene(body)


def test_who_is_buried_is_dead_for_all(scene):
    async def body(a, b, c):
        name = c.backplane.worker
        await a.backplane.bury(name)
        await until(lambda: name in a.dead and name in b.dead)
        await a.backplane.bury("nobody")
        assert a.dead.count(name) <= 2

    scene(body)
