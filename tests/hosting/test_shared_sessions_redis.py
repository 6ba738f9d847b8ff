"""The same sessions on a real Redis: what is lost with it and what is not (B95, B96)."""

import asyncio
import secrets

import pytest

from headrace.hosting.backplane import RedisBackplane
from hosting.redis_support import redis_one, redis_server
from hosting.session_support import asking, machines, response, text_of

__all__ = ("redis_one",)


@pytest.fixture
def lab(run):
    def runner(body, count=2, keeps=True, **settings):
        async def whole(server):
            def make():
                return RedisBackplane(server.url, timeout=0.4, lease=1.5)

            async with machines(make, count, **settings) as found:
                await body(server, *found)

        with redis_server(keeps=keeps) as server:
            run(whole, server)

    return runner


def restart(server, **options):
    return asyncio.get_running_loop().run_in_executor(None, lambda: server.restart(**options))


def test_b95_sessions_answers_and_cancellations_go_through_redis(run, redis_one):
    prefix = secrets.token_hex(4)

    async def body():
        async with machines(lambda: RedisBackplane(redis_one.url, prefix=prefix), 3) as (a, b, c):
            sid = (await a.once(asking(a))).get("mcp-session-id")
            for n in range(9):
                assert await (a, b, c)[n % 3].echo(sid, f"{n}") == f"{n}"
            peer = await b.connect()
            peer.send(b.legacy_call(sid, "roots", id=5))
            await peer.head()
            question = (await peer.event())[1]
            assert (await c.once(response(c, sid, question["id"], {"roots": [{"uri": "file:///x"}]}))).status == 202
            assert text_of((await peer.event())[1]) == "file:///x"
            long = await a.connect()
            long.send(a.legacy_call(sid, "sleep", {"ms": 20_000}, id=9))
            await a.settled(lambda: a.app.seen.started == 1)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 9}}
            assert (await c.once(c.request(body=note, mcp_session_id=sid))).status == 202
            await a.settled(lambda: a.app.seen.cancelled == 1)
            assert (await b.delete(sid)).status == 204
            await a.settled(lambda: not any(each.session(sid) for each in (a, b, c)))
            assert redis_one.ask("EXISTS", f"{prefix}:r:session:{sid}") == 0

    run(body)


def test_b96_nothing_acknowledged_is_lost_when_redis_is_killed(lab):
    async def body(server, a, b):
        kept = [await a.begin() for _ in range(5)]
        await a.once(a.legacy(kept[0], "logging/setLevel", {"level": "error"}))
        server.kill()
        refused = await a.once(a.initialize())
        assert refused.status == 503 and refused.get("retry-after") == "1"
        assert await a.echo(kept[0]) == "hello"
        assert await b.echo(kept[0]) == 503
        await restart(server)
        await b.settled(lambda: b.backplane.available and a.backplane.available)
        for sid in kept:
            assert await b.echo(sid) == "hello"
        assert b.session(kept[0]).log_level == "error"
        assert await a.begin()

    lab(body)


def test_b96_a_redis_that_hangs_holds_up_its_own_and_nobody_else(lab):
    async def body(server, a, b):
        sid = await a.begin()
        server.pause()
        waiting = asyncio.ensure_future(b.echo(sid))
        for _ in range(20):  # while that one waits
            assert await a.echo(sid) == "hello"
            modern = await b.once(b.call("echo", {"text": "m"}))
            assert modern.status == 200
        assert await waiting == 503
        server.resume()
        await b.settled(lambda: b.backplane.available)
        assert await b.echo(sid) == "hello"

    lab(body)


def test_b96_sessions_are_restored_in_a_redis_that_came_back_empty(lab):
    async def body(server, a, b):
        sid = await a.begin()
        await a.once(a.legacy(sid, "resources/subscribe", {"uri": "data://one"}))
        await restart(server, empty=True)
        await b.settled(lambda: server.ask("EXISTS", f"headrace:r:session:{sid}") == 1, 10)
        await b.settled(lambda: b.backplane.available and a.backplane.available)
        assert await b.echo(sid) == "hello"
        assert b.session(sid).subscriptions == {"data://one"}

    lab(body, keeps=False)
