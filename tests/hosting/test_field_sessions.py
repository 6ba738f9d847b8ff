"""Field faults of sessions, at `headrace serve` in processes of its own, with one process, with workers, and with workers
that share their sessions in Redis: their end (B47, B64), their loss (B48), many of them (B94), any worker (B95)."""

import asyncio
import contextlib
import os
import signal

import pytest
from ports import free_port

from headrace import connect
from headrace.errors import ConnectionClosed, HeadraceError
from hosting.field_support import R4, R5, Peer, app, notes, scrape, start
from hosting.metrics_support import total
from hosting.processes import eventually
from hosting.redis_support import redis_one

__all__ = ("app", "redis_one")

KINDS = ["one process", "workers"]


def several(kind, redis, prefix):
    """The options of that kind of host; ``redis`` makes the server that workers share."""
    if kind == "one process":
        return []
    return ["--workers", 2, "--backplane", redis("redis_one").url, "--backplane-prefix", prefix]


def by_worker(port, sid, stack, count=2):
    """A client of this session at each worker, by process id."""
    found = {}

    def all_found():
        peer = stack.enter_context(Peer(port, sid))
        found.setdefault(peer.state()["pid"], peer)
        return len(found) == count

    eventually(all_found, "a connection with each worker")
    return list(found.values())


# --- B47 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_b47_forgotten_sessions_end_and_those_in_use_do_not(app, request, kind):
    """(a) hundreds of clients that vanish without DELETE leave no session; (b) a call longer than the idle limit is
    answered; (c) a session with nothing but its GET stream is kept."""
    options, count = several(kind, request.getfixturevalue, "b47a"), 500 if kind == "one process" else 150
    with (
        start(app, "--session-idle-timeout", 1, "--metrics", "/metrics", *options) as it,
        contextlib.ExitStack() as stack,
    ):
        port = it.port
        busy, listening, lost = [stack.enter_context(Peer(port)) for _ in range(3)]
        kept = listening.begin()
        stream = stack.enter_context(contextlib.closing(listening.listen()))
        sids = []
        for _ in range(count):
            lost.initialize()
            sids.append(lost.sid)
        assert len(set(sids)) == count
        busy.begin()
        busy.tool("sleep", ms=3000)
        assert busy.text() == "finished"
        eventually(lambda: total(scrape(port), "headrace_sessions", transport="http") == 1, "the end of the sessions")
        if kind == "workers":
            # Written down, they last a little longer: not every use is told to Redis.
            redis = request.getfixturevalue("redis_one")
            eventually(lambda: len(redis.ask("KEYS", "b47a*:r:session:*")) == 1, "the end of their records")
        for sid in (*sids[::30], busy.sid):
            lost.sid = sid
            assert lost.ask("ping")[0] == 404
        with Peer(port, kept) as peer:
            assert peer.call("echo", text="on") == "on"
        assert not stream.isclosed()


@pytest.mark.parametrize("kind", KINDS)
def test_b47_the_bound_is_a_clear_refusal_and_probes_leave_nothing(app, request, kind):
    """(d) half as many clients again as there is room for, over all workers; (e) a hundred `server/discover`."""
    options, room = several(kind, request.getfixturevalue, "b47d"), 100 if kind == "one process" else 40
    with start(app, "--max-sessions", room, *options) as it, Peer(it.port) as probe, contextlib.ExitStack() as stack:
        for _ in range(100):
            assert probe.ask("server/discover")[0] == 200
        peers = [stack.enter_context(Peer(it.port)) for _ in range(4)]
        outcomes = [peers[number % 4].initialize() for number in range(room * 3 // 2)]
        assert [status for status, _ in outcomes].count(200) == room
        for status, fields in outcomes:
            assert (status == 200) == ("mcp-session-id" in fields)
            assert status == 200 or (status, fields["retry-after"].isdigit()) == (503, True)
        # Those that are in are served, and one that leaves makes room.
        sid = next(fields["mcp-session-id"] for status, fields in outcomes if status == 200)
        peers[0].sid = sid
        assert peers[0].call("echo", text="on") == "on"
        assert peers[0].delete() == 204
        eventually(lambda: peers[1].initialize()[0] == 200, "room")
        assert it.stop() == 0


# --- B48 ------------------------------------------------------------------------------------------------


def test_b48_a_server_that_was_restarted_costs_its_clients_one_handshake(app):
    """Killed with twenty calls in flight, started anew with another list of tools: those calls fail and are not run
    again; the next twenty share one new session and all succeed; what was known of the tools is forgotten."""
    port = free_port()

    async def main(it, restart):
        async with connect(f"http://127.0.0.1:{port}/mcp", revision=R4) as client:
            assert "more" not in [tool.name for tool in await client.list_tools()]
            calls = [
                asyncio.ensure_future(client.call_tool("sleep", {"ms": 60_000, "key": n})) for n in map(str, range(20))
            ]
            await asyncio.to_thread(eventually, lambda: sum(line.startswith("begun") for line in notes(app)) == 20)
            first = client._http.session_id
            it.send(signal.SIGKILL)
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert all(isinstance(outcome, ConnectionClosed) for outcome in outcomes), outcomes
            await asyncio.to_thread(it.wait)
            (app / "changed").touch()
            await asyncio.to_thread(restart)
            results = await asyncio.gather(*(client.call_tool("echo", {"text": str(n)}) for n in range(20)))
            assert [result.text for result in results] == [str(n) for n in range(20)]
            assert client._http.session_id != first
            assert "more" in [tool.name for tool in await client.list_tools()]

    with contextlib.ExitStack() as stack:

        def begin():
            it = stack.enter_context(start(app, "--metrics", "/metrics", port=port))
            it.line("serving")
            return it

        asyncio.run(main(begin(), begin))
        samples = scrape(port)
        assert total(samples, "headrace_requests_total", method="initialize") == 1
        assert total(samples, "headrace_requests_total", tool="echo", status="ok") == 20
        assert total(samples, "headrace_requests_total", tool="sleep") == 0
        assert sum(line.startswith("begun") for line in notes(app)) == 20


def test_b48_a_server_that_is_restarted_again_and_again(app):
    """Each time between two calls: the second call works."""
    port = free_port()

    async def main():
        for turn in range(2):
            with start(app, port=port) as it:
                it.line("serving")
                if turn == 0:
                    client = await stack.enter_async_context(connect(f"http://127.0.0.1:{port}/mcp", revision=R4))
                outcomes = []
                for _ in range(2):
                    try:
                        outcomes.append((await client.call_tool("echo", {"text": "on"})).text)
                    except HeadraceError as exc:
                        outcomes.append(exc)
                assert outcomes[1] == "on", outcomes
                it.send(signal.SIGKILL)
                await asyncio.to_thread(it.wait)

    async def bounded():
        nonlocal stack
        async with contextlib.AsyncExitStack() as stack:
            await asyncio.wait_for(main(), 50)

    stack = None
    asyncio.run(bounded())


# --- B64 ------------------------------------------------------------------------------------------------


def test_b64_delete_at_one_worker_ends_what_is_open_at_the_others(app, request):
    """A call runs at one worker, the GET stream is open at another: DELETE at a third ends both. Twice, and of an unknown
    session, it is 404 at each."""
    options = several("workers", request.getfixturevalue, "b64")
    options[1] = 3
    with start(app, *options) as it, Peer(it.port) as opener, contextlib.ExitStack() as stack:
        sid = opener.begin()
        caller, listener, leaver = by_worker(it.port, sid, stack, 3)
        caller.tool("sleep", ms=60_000, key="call")
        eventually(lambda: "begun call" in notes(app))
        stream = stack.enter_context(contextlib.closing(listener.listen()))
        assert leaver.delete() in (200, 204)
        stream.read()  # to its end, which is a whole one
        assert stream.isclosed()
        eventually(lambda: "cancelled call" in notes(app), "the end of the call")
        status, _, found = caller.answer()
        assert not any("result" in message for message in found) and status in (200, 202, 404)
        for peer in (caller, listener, leaver):
            eventually(lambda peer=peer: peer.ask("ping")[0] == 404, "404 everywhere")
            assert peer.delete() == 404
            peer.sid = "0" * 48
            assert peer.delete() == 404
        assert it.stop() == 0


@pytest.mark.parametrize("revision", [R4, R5])
def test_b64_a_client_leaves_a_busy_or_dead_server_quietly(app, revision):
    """With a call running and the stream open, from a server that lives and from one that was stopped by SIGSTOP."""

    async def leave(url, stop):
        async with connect(url, revision=revision) as client:
            call = asyncio.ensure_future(client.call_tool("sleep", {"ms": 60_000, "key": "left"}))
            before = notes(app).count("begun left")
            await asyncio.to_thread(eventually, lambda: notes(app).count("begun left") > before)
            stop()
        with pytest.raises(HeadraceError):
            await call

    with start(app, "--metrics", "/metrics") as it:
        url = f"http://127.0.0.1:{it.port}/mcp"
        asyncio.run(asyncio.wait_for(leave(url, lambda: None), 25))
        eventually(lambda: "cancelled left" in notes(app))
        assert total(scrape(it.port), "headrace_sessions", transport="http") == 0
        asyncio.run(asyncio.wait_for(leave(url, lambda: it.send(signal.SIGSTOP)), 25))
        it.send(signal.SIGCONT)
        eventually(lambda: notes(app).count("cancelled left") == 2)
        assert it.stop() == 0


# --- B94 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_b94_short_sessions_cost_the_same_from_the_first_to_the_last(app, request, kind):
    """Connect, list, call, close, over and over: none hangs, each is the same requests, nothing is left of them."""
    options = several(kind, request.getfixturevalue, "b94")
    first, more = (100, 300) if kind == "one process" else (50, 100)

    async def visits(url, count):
        for _ in range(count):
            async with connect(url, revision=R4) as client:
                assert len(await client.list_tools()) == 7
                assert (await client.call_tool("echo", {"text": "on"})).text == "on"

    def held():
        with contextlib.ExitStack() as stack:
            workers = 1 if kind == "one process" else 2
            states = [peer.state() for peer in by_worker(it.port, None, stack, workers)]
        return {state["pid"]: (state["tasks"], state["threads"], state["memory"]) for state in states}

    with start(app, "--metrics", "/metrics", *options) as it:
        url = f"http://127.0.0.1:{it.port}/mcp"
        asyncio.run(asyncio.wait_for(visits(url, first), 50))
        before, count = held(), total(scrape(it.port), "headrace_requests_total")
        asyncio.run(asyncio.wait_for(visits(url, more), 50))
        # server/discover is asked once a process, which is this one; and never again.
        samples = scrape(it.port)
        for method in ("initialize", "tools/list"):
            assert total(samples, "headrace_requests_total", method=method) == first + more
        assert total(samples, "headrace_requests_total", tool="echo", status="ok") == first + more
        assert total(samples, "headrace_requests_total") <= count / first * (first + more)
        eventually(lambda: total(scrape(it.port), "headrace_sessions", transport="http") == 0)
        after = held()
        for pid, (tasks, threads, memory) in before.items():
            assert after[pid][0] <= tasks + 1 and after[pid][1] <= threads
            assert after[pid][2] - memory < 3 * 1024 * 1024
        assert it.stop() == 0


# --- B95 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["stateless", "sealed", "redis"])
def test_b95_any_worker_serves_anybody_and_none_is_missed(app, request, kind):
    """Four workers, a new connection for each call, a worker killed in the middle while no call is in flight: no failure
    at all, with sessions of every kind, without any, and in the modern era. A session that nobody knows is 404 at each
    worker, and nothing else."""
    options = ["--stateless"] if kind == "stateless" else []
    if kind == "redis":
        options = several("workers", request.getfixturevalue, "b95")[2:]
    with start(app, "--workers", 4, *options) as it:
        port = it.port
        sids = []
        for _ in range(20):
            with Peer(port) as peer:
                assert peer.initialize()[0] == 200
                sids.append(peer.sid)
        assert len(set(sids)) == (1 if kind == "stateless" else 20)
        sids += [None] * 10  # of the modern era
        victim, seen = it.workers[0], set()
        for turn in range(10):
            for sid in sids:
                with Peer(port, sid) as peer:
                    seen.add(peer.state()["pid"])
            if turn == 4:
                os.kill(victim, signal.SIGKILL)
        assert victim in seen
        eventually(lambda: len(it.workers) == 4 and victim not in it.workers)
        assert seen & set(it.workers)
        if kind != "stateless":
            for _ in range(12):
                with Peer(port, "0" * 48) as peer:
                    assert peer.ask("ping")[0] == 404
        assert it.stop() == 0
