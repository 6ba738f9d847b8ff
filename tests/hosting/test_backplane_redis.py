"""The backplane in Redis when Redis is killed, hangs, comes back empty, refuses, or when a process is too slow (B96)."""

import asyncio
import time

import pytest
from ports import free_port

from headrace.errors import UsageError
from headrace.hosting.backplane import RedisBackplane, redis_queue
from headrace.hosting.backplane.redis_queue import Event, Message, WriteQueue
from headrace.hosting.backplane.redis_url import RedisUrl
from headrace.protocol.backplane import BackplaneLost
from hosting.backplane_support import Heard, until
from hosting.redis_support import redis_sentinel, redis_server


@pytest.fixture
def lab(run):
    """Runs ``body(server, *started)`` with a Redis of its own and ``n`` processes."""

    def runner(body, n=2, options=None, **settings):
        async def whole(server):
            started = [
                await Heard(RedisBackplane(server.url, **{"timeout": 0.4, "lease": 1.5, **(options or {})})).start()
                for _ in range(n)
            ]
            try:
                await body(server, *started)
            finally:
                for each in started:
                    await each.backplane.stop()

        with redis_server(**settings) as server:
            run(whole, server)

    return runner


async def refused_at_once(backplane):
    """Everything that is asked of a lost backplane raises, without a wait for Redis."""
    for asked in (
        backplane.get("key"), backplane.put("key", b"", 1), backplane.flushed(), backplane.read("log", 0, 1),
        backplane.count("group", "m", 1), backplane.alive("w"), backplane.parts("key"), backplane.touch("key", 1),
        backplane.delete("key"), backplane.put_part("key", "p", b""), backplane.bury("w"), backplane.drop("log"),
    ):  # fmt: skip
        with pytest.raises(BackplaneLost, match="cannot be"):
            await asyncio.wait_for(asked, 0.2)


def test_b96_what_is_told_while_redis_is_down_arrives_in_order_when_it_is_back(lab):
    async def body(server, a, b):
        await a.backplane.put("key", b"kept", 60)
        server.kill()
        await until(lambda: a.changes == [False] and b.changes == [False])
        for n in range(50):
            a.backplane.tell_all("note", b"all %d" % n)
            a.backplane.append("log", n + 1, b"%d" % n, most=1000, seconds=60)
        a.backplane.tell(b.backplane.worker, "note", b"one")
        await refused_at_once(a.backplane)
        await asyncio.get_running_loop().run_in_executor(None, server.restart)
        await until(lambda: len(b.texts) == 51)
        assert [text for text in b.texts if text != b"one"] == [b"all %d" % n for n in range(50)]
        await until(lambda: a.changes == [False, True])
        assert await b.backplane.get("key") == b"kept"
        assert len(await b.backplane.read("log", 0, 100)) == 50
        assert (a.gaps, b.gaps, a.emptied, b.emptied, a.dead, b.dead) == (0, 0, 0, 0, [], [])

    lab(body)


def test_redis_that_hangs_is_lost_after_its_time_and_found_again(lab):
    async def body(server, a, b):
        server.pause()
        asked = time.monotonic()
        with pytest.raises(BackplaneLost):
            await asyncio.wait_for(a.backplane.get("key"), 5)
        await until(lambda: not a.backplane.available)
        await refused_at_once(a.backplane)
        a.backplane.tell_all("note", b"meanwhile")
        turns = 0
        while time.monotonic() - asked < 2.5:  # the loop runs on
            await asyncio.sleep(0.01)
            turns += 1
        assert turns > 50
        server.resume()
        await until(lambda: b.texts == [b"meanwhile"])
        assert await a.backplane.put("key", b"value", 60)
        assert b.texts == [b"meanwhile"]  # told once, though it may have been written twice

    lab(body)


def test_redis_that_comes_back_empty_is_noticed_by_all(lab):
    async def body(server, a, b):
        await a.backplane.put("key", b"kept", 60)
        a.backplane.tell_all("note", b"before")
        await until(lambda: b.texts == [b"before"])
        await asyncio.get_running_loop().run_in_executor(None, lambda: server.restart(empty=True))
        await until(lambda: a.emptied == 1 and b.emptied == 1)
        assert a.gaps == 1 and b.gaps == 1
        # Who is not back yet is not dead.
        assert await a.backplane.alive(b.backplane.worker)
        await until(lambda: a.backplane.available and b.backplane.available)
        a.backplane.tell_all("note", b"all")
        a.backplane.tell(b.backplane.worker, "note", b"one")
        await until(lambda: sorted(b.texts) == [b"all", b"before", b"one"])
        assert await b.backplane.get("key") is None
        assert (a.dead, b.dead) == ([], [])

    lab(body, keeps=False)


def test_keys_that_are_flushed_under_running_processes_are_noticed(lab):
    async def body(server, a, b):
        for n in range(5):
            a.backplane.tell_all("note", b"%d" % n)
        await until(lambda: len(b.texts) == 5)
        server.ask("FLUSHALL")
        await until(lambda: a.emptied == 1 and b.emptied == 1)
        a.backplane.tell_all("note", b"all")
        a.backplane.tell(b.backplane.worker, "note", b"one")
        await until(lambda: {b"all", b"one"} <= set(b.texts))
        server.ask("SCRIPT", "FLUSH")
        a.backplane.tell_all("note", b"scripts are loaded again")
        await until(lambda: b.texts[-1] == b"scripts are loaded again")
        assert (a.emptied, b.emptied) == (1, 1)

    lab(body)


def test_b95_a_process_that_died_is_told_of_and_one_that_was_slow_comes_back(lab):
    async def body(server, a, b, c):
        name = b.backplane.worker
        await b.backplane._end_tasks()  # it says nothing more
        assert await a.backplane.alive(name)
        await until(lambda: a.dead == [name] and c.dead == [name])
        assert not await a.backplane.alive(name)
        assert server.ask("EXISTS", b.backplane.inbox) == 0
        a.backplane.tell(name, "note", b"never kept")
        await a.backplane.flushed()
        assert server.ask("EXISTS", b.backplane.inbox) == 0
        lost = await b.backplane._join()
        assert lost == b.backplane._missed
        assert await a.backplane.alive(name)
        a.backplane.tell(name, "note", b"again")
        await a.backplane.flushed()
        assert server.ask("XLEN", b.backplane.inbox) == 1

    lab(body, n=3)


def test_b96_a_process_too_slow_for_what_is_kept_notices_the_gap(lab, monkeypatch):
    async def body(server, a, b):
        a.backplane._writer.most_all = 100
        reading = b.backplane._reading
        held = asyncio.Event()
        xread = reading.xread

        async def slow(*args, **options):
            await held.wait()
            return await xread(*args, **options)

        monkeypatch.setattr(reading, "xread", slow)
        for n in range(3000):
            a.backplane.tell_all("note", b"%d" % n)
        await a.backplane.flushed()
        held.set()
        await until(lambda: b.texts and b.texts[-1] == b"2999")
        assert b.gaps == 1 and 100 <= len(b.texts) < 3000
        assert b.texts == [b"%d" % n for n in range(3000 - len(b.texts), 3000)]

    lab(body)


def test_nothing_is_kept_for_processes_that_there_are_not(lab):
    async def body(server, a, b):
        await asyncio.sleep(1.6)  # what is young may not know yet who lives
        for n in range(10):
            a.backplane.tell(f"w{n}", "note", b"x")
        a.backplane.tell(b.backplane.worker, "note", b"y")
        await a.backplane.flushed()
        await until(lambda: b.texts == [b"y"])
        assert {key for key in server.ask("KEYS", "*in:*")} <= {b.backplane.inbox.encode()}
        assert len(server.ask("HKEYS", a.backplane.key_state)) <= 5  # epoch, born, all, two inboxes

    lab(body)


def test_what_waits_for_redis_is_bounded_and_losing_messages_is_told(lab, monkeypatch):
    monkeypatch.setattr(redis_queue, "MAX_ENTRIES", 100)

    async def body(server, a, b):
        server.kill()
        await until(lambda: not a.backplane.available)
        for n in range(1000):
            a.backplane.tell_all("note", b"%d" % n)
        assert len(a.backplane.queue) == 100
        await asyncio.get_running_loop().run_in_executor(None, server.restart)
        await until(lambda: b.texts and b.texts[-1] == b"999")
        await until(lambda: b.gaps)
        assert b.texts == [b"%d" % n for n in range(900, 1000)]

    lab(body)


def test_a_lost_redis_is_one_line_in_the_log_and_no_password(lab, caplog):
    caplog.set_level("DEBUG", "test.backplane")

    async def body(server, a, b):
        server.kill()
        await until(lambda: not a.backplane.available)
        for _ in range(100):
            with pytest.raises(BackplaneLost):
                await a.backplane.get("key")
        a.backplane.tell_all("note", b"later")
        await asyncio.sleep(0.5)

    lab(body, password="horse-battery")
    lines = [record.getMessage() for record in caplog.records if record.name == "test.backplane"]
    assert len(lines) == 2  # one a process
    assert all("cannot be used" in line and "127.0.0.1" in line and "\n" not in line for line in lines)
    assert "horse" not in caplog.text


def test_redis_that_cannot_be_had_at_start_is_an_error_of_one_line(run, caplog):
    async def scene():
        port = free_port()
        backplane = RedisBackplane(f"redis://user:horse-battery@127.0.0.1:{port}", timeout=0.5)
        with pytest.raises(BackplaneLost) as info:
            await Heard(backplane).start()
        assert f"redis://127.0.0.1:{port}" in str(info.value)
        assert "\n" not in str(info.value) and "horse" not in str(info.value)
        assert not backplane.available and "horse" not in repr(backplane)

    run(scene)
    assert "horse" not in caplog.text


def test_a_wrong_password_is_said(run):
    async def scene(server):
        url = server.url.replace("right", "wrong")
        with pytest.raises(BackplaneLost, match=r"(?i)password|WRONGPASS") as info:
            await Heard(RedisBackplane(url, timeout=0.5)).start()
        assert ":wrong" not in str(info.value)

    with redis_server(password="right") as server:
        run(scene, server)


def test_an_optional_redis_may_come_later(run, caplog):
    async def scene(server):
        server.kill()
        a = Heard(RedisBackplane(server.url, optional=True, timeout=0.5))
        await a.start()
        try:
            assert not a.backplane.available
            await refused_at_once(a.backplane)
            await asyncio.get_running_loop().run_in_executor(None, server.restart)
            await until(lambda: a.changes == [True])
            assert await a.backplane.put("key", b"value", 60)
            assert (a.gaps, a.emptied) == (0, 0)
        finally:
            await a.backplane.stop()

    with redis_server() as server:
        run(scene, server)
    assert any("going on without it" in record.getMessage() for record in caplog.records)


def test_a_key_of_another_kind_costs_its_events_alone(lab, caplog):
    async def body(server, a, b):
        server.ask("SET", a.backplane.log_key("bad"), "a string")
        a.backplane.append("bad", 1, b"event", most=10, seconds=60)
        a.backplane.append("good", 1, b"event", most=10, seconds=60)
        a.backplane.tell_all("note", b"message")
        await a.backplane.flushed()
        await until(lambda: b.texts == [b"message"])
        assert await b.backplane.read("good", 0, 10) == [(1, b"event")]
        assert a.backplane.available

    lab(body)
    assert sum("refuses something" in record.getMessage() for record in caplog.records) == 1


@pytest.mark.parametrize(
    ("which", "id", "field"),
    [("all", "*", "m"), ("all", "5000-7", "x"), ("all", "18446744073709551614-0", "other"), ("inbox", "*", "x"),
     ("inbox", "18446744073709551615-18446744073709551615", "m")],
)  # fmt: skip
def test_b96_an_entry_of_somebody_else_in_a_stream_does_not_cut_it_off(lab, which, id, field):
    async def body(server, a, b):
        stream = a.backplane.key_all if which == "all" else b.backplane.inbox
        server.ask("XADD", stream, id, field, b"\xff\xfe")

        def heard():
            a.backplane.tell_all("note", b"to all")
            a.backplane.tell(b.backplane.worker, "note", b"to one")
            return {b"to all", b"to one"} <= set(b.texts)

        await until(heard)
        assert a.backplane.available and b.backplane.available
        assert not any(task.done() for each in (a, b) for task in each.backplane._tasks)

    lab(body, options={"lease": 0.6, "timeout": 2.0}, keeps=False)


@pytest.mark.parametrize("which", ["all", "inbox"])
def test_b96_a_stream_that_is_of_another_kind_is_made_anew(lab, which):
    async def body(server, a, b):
        stream = a.backplane.key_all if which == "all" else b.backplane.inbox
        server.ask("SET", stream, "a string")

        def heard():
            a.backplane.tell_all("note", b"to all")
            a.backplane.tell(b.backplane.worker, "note", b"to one")
            return {b"to all", b"to one"} <= set(b.texts)

        await until(heard)
        assert server.ask("TYPE", stream) == b"stream"

    lab(body)


@pytest.mark.parametrize("name", ["state", "workers"])
def test_b96_shared_keys_that_cannot_be_used_are_a_loss_and_acknowledge_nothing(lab, name):
    async def body(server, a, b):
        key = a.backplane.key_state if name == "state" else a.backplane.key_workers
        server.ask("SET", key, "a string")
        a.backplane.tell(b.backplane.worker, "note", b"kept")
        with pytest.raises(BackplaneLost):
            await a.backplane.flushed()
        assert not a.backplane.available
        server.ask("DEL", key)
        await until(lambda: b"kept" in b.texts)
        await until(lambda: a.backplane.available and b.backplane.available)

    lab(body)


@pytest.mark.parametrize("name", ["state", "workers", "dead"])
def test_keys_of_another_program_are_a_start_that_fails_with_a_line(run, name):
    async def body(server):
        backplane = RedisBackplane(server.url, prefix="p")
        server.ask("SET", f"{{p}}:{name}", "a string")
        with pytest.raises(BackplaneLost, match="of another program"):
            await Heard(backplane).start()
        assert server.ask("GET", f"{{p}}:{name}") == b"a string"

    with redis_server(keeps=False) as server:
        run(body, server)


def test_b96_redis_that_comes_back_with_less_than_there_was_is_noticed(lab):
    async def body(server, a, b):
        for n in range(5):
            a.backplane.tell_all("note", b"%d" % n)
        await until(lambda: len(b.texts) == 5)
        server.ask("XTRIM", a.backplane.key_all, "MAXLEN", 0)
        server.ask("DEL", a.backplane.key_all)
        server.ask("HSET", a.backplane.key_state, "all", 1)
        await until(lambda: a.gaps and b.gaps)
        a.backplane.tell_all("note", b"after")
        await until(lambda: b.texts[-1] == b"after")
        assert b.backplane.available

    lab(body, options={"lease": 0.6, "timeout": 2.0}, keeps=False)


def test_b96_what_redis_lost_while_it_was_away_is_noticed_though_others_have_told_more_since(lab):
    async def body(server, a, b):
        for n in range(3):
            a.backplane.tell_all("note", b"%d" % n)
        await until(lambda: len(b.texts) == 3)
        last = server.ask("XREVRANGE", b.backplane.key_all, "+", "-", "COUNT", 1)
        server.ask("DEL", b.backplane.key_all)
        for n in range(2, 4):
            server.ask("XADD", b.backplane.key_all, f"{n}-0", "other", "of somebody who was faster")
        server.ask("HSET", b.backplane.key_state, "all", 3)
        assert last[0][0] == b"3-0"
        server.ask("CLIENT", "KILL", "TYPE", "normal")
        await until(lambda: a.changes[-1:] == [True] and b.changes[-1:] == [True])
        await until(lambda: a.gaps and b.gaps)

    lab(body)


def test_a_record_that_somebody_else_has_written_is_none(lab):
    async def body(server, a, b):
        server.ask("SET", a.backplane._record("one"), "a string")
        server.ask("HSET", a.backplane._record("two"), b"\xff", b"x")
        assert await a.backplane.parts("one") == {}
        assert list((await a.backplane.parts("two")).values()) == [b"x"]
        assert a.backplane.available

    lab(body)


def test_much_that_was_read_is_not_left_in_redis_until_the_lease_is_renewed(lab):
    async def body(server, a, b):
        for _ in range(8):
            a.backplane.tell(b.backplane.worker, "note", b"x" * 500_000)
        await until(lambda: len(b.texts) == 8)
        await until(lambda: server.ask("XLEN", b.backplane.inbox) < 3)
        a.backplane.tell(b.backplane.worker, "note", b"last")
        await until(lambda: b.texts[-1] == b"last")
        assert not b.gaps

    lab(body, options={"lease": 60.0, "timeout": 5.0}, keeps=False)


def test_redis_without_memory_is_lost_until_it_has_some(lab):
    async def body(server, a, b):
        server.ask("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(BackplaneLost):
            await a.backplane.put("key", b"value", 60)
        assert not a.backplane.available
        a.backplane.tell_all("note", b"later")
        await asyncio.sleep(0.2)
        server.ask("CONFIG", "SET", "maxmemory", "0")
        await until(lambda: b.texts == [b"later"])
        assert await a.backplane.put("key", b"value", 60)

    lab(body)


def test_a_failover_of_sentinels_is_followed(run):
    async def scene(url, sentinel, server):
        a, b = [await Heard(RedisBackplane(url, timeout=0.5)).start() for _ in range(2)]
        try:
            await a.backplane.put("key", b"value", 60)
            server.kill()
            await until(lambda: not a.backplane.available)
            a.backplane.tell_all("note", b"meanwhile")
            await until(lambda: a.backplane.available and b.backplane.available, 20)
            await until(lambda: b.texts == [b"meanwhile"])
            await until(lambda: a.backplane.available)
            assert await a.backplane.put("other", b"value", 60)
        finally:
            for each in (a, b):
                await each.backplane.stop()

    with redis_sentinel() as (url, sentinel, server, replica):
        for _ in range(200):  # until the sentinel knows of the replica, and has its data
            known = server.ask("INFO", "replication")
            if known["connected_slaves"] and replica.ask("INFO", "replication")["master_link_status"] == "up":
                slaves = sentinel.ask("SENTINEL", "SLAVES", "main")
                if slaves:
                    break
            time.sleep(0.1)
        run(scene, url, sentinel, server)


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1", "redis", "redis://127.0.0.1:port", "redis://127.0.0.1/name", "redis+sentinel://127.0.0.1",
        "redis+sentinel://127.0.0.1:99999/main", "redis+cluster://a,,b", "redis+cluster://a/main", "unix://", "",
        "redis://:horse@127.0.0.1:port", "redis+cluster://:horse@a b", "redis://:horse@127.0.0.1?socket_timeout=x",
        "redis://:horse@127.0.0.1?colour=red",
    ],
)  # fmt: skip
def test_a_wrong_url_is_refused_without_its_password(url):
    with pytest.raises(UsageError) as info:
        RedisUrl(url)
    assert "horse" not in str(info.value) and "\n" not in str(info.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://user:horse@10.0.0.1", "redis://10.0.0.1:6379"),
        ("rediss://:horse@host:1/3?socket_keepalive=yes", "rediss://host:1"),
        ("unix://user:horse@/run/redis.sock?db=1", "unix:///run/redis.sock"),
        ("redis+sentinel://:horse@a,b:2/main/3", "redis+sentinel://a:26379,b:2/main"),
        ("rediss+cluster://:horse@a,[::1]:7?ssl_cert_reqs=none", "rediss+cluster://a:6379,[::1]:7"),
    ],
)
def test_a_url_is_shown_without_its_password(url, shown):
    assert RedisUrl(url).shown == shown


def test_the_queue_keeps_the_newest_and_says_what_it_lost():
    queue = WriteQueue()
    first = [Message("", b"%d" % n) for n in range(10)]
    for each in first:
        assert queue.add(each)
    batch = queue.take()
    assert batch.messages == first and batch.end == 10
    big = Event("log", 1, b"x" * redis_queue.MAX_BYTES, 10, 1000)
    assert queue.add(Message("", b"goes"))
    assert not queue.add(big)
    assert queue.lost_messages and list(queue.entries) == [*first, big]  # what is being written stays
    queue.written(batch)
    assert list(queue.entries) == [big] and queue.done == 11
    assert not queue.add(Event("log", 2, b"y", 10, 1000))
    assert queue.lost_events == 1 and len(queue) == 1
    queue.clear()
    assert queue.bytes == 0 and queue.done == queue.put_in
