"""Streams of processes that are killed: what their clients get from another process (B95, issue item 5)."""

import asyncio
import contextlib
import os
import sys
from pathlib import Path

from http_support import Site

from hosting.redis_support import redis_server
from hosting.streams_support import LIST_CHANGED, PROGRESS, said

PROGRAM = str(Path(__file__).with_name("streams_server.py"))
TESTS = Path(__file__).parents[1]
PATH = os.pathsep.join([str(TESTS), str(TESTS / "unit"), *filter(None, [os.environ.get("PYTHONPATH")])])


class _Place:
    """What Site needs of a listener."""

    endpoint = None

    def __init__(self, port):
        self.url = f"http://127.0.0.1:{port}/mcp"


class Process(Site):
    """A server process."""

    def __init__(self, child, port):
        super().__init__(None, _Place(port))
        self.child = child

    async def kill(self):
        self.child.kill()
        await self.child.wait()


@contextlib.asynccontextmanager
async def processes(url, count):
    found = []
    try:
        for _ in range(count):
            child = await asyncio.create_subprocess_exec(
                sys.executable, PROGRAM, url, stdout=asyncio.subprocess.PIPE, env=os.environ | {"PYTHONPATH": PATH}
            )
            port = await asyncio.wait_for(child.stdout.readline(), 20)
            found.append(Process(child, int(port)))
        yield found
    finally:
        for each in found:
            for peer in each.peers:
                peer.reset()
            with contextlib.suppress(ProcessLookupError):
                each.child.kill()
            await each.child.wait()
            each.child._transport.close()


def scene(run, body, count=2):
    async def main(url):
        async with processes(url, count) as found:
            await body(*found)

    with redis_server(keeps=False) as redis:
        run(main, redis.url)


def counting(site, sid, n, id=7):
    params = {"name": "progress", "arguments": {"n": n, "gap_ms": 5}, "_meta": PROGRESS}
    return site.legacy(sid, "tools/call", params, id)


def test_b95_a_call_on_a_killed_process_ends_with_an_error_on_the_next(run):
    """All that had reached Redis first, in order, then the error under the id of the call; the session goes on."""

    async def body(a, b):
        sid = await a.open_session(await a.connect())
        caller = await a.connect()
        caller.send(counting(a, sid, 10_000))
        await caller.head()
        for n in range(1, 11):
            id, message = await caller.event()
            assert message["params"]["progress"] == n
        await a.kill()
        peer = await b.open_stream(sid, id)
        events = await peer.events(15)
        assert said(events)[:-1] == list(range(11, 10 + len(events)))
        assert events[-1][1]["id"] == 7 and "has ended" in events[-1][1]["error"]["message"]
        answer = await (await b.connect()).ask(b.legacy_call(sid, "echo", {"text": "still here"}))
        assert answer.json["result"]["content"][0]["text"] == "still here"

    scene(run, body)


def test_b95_a_call_goes_on_when_the_process_that_relays_it_is_killed(run):
    """Only the process that works on a request matters to it."""

    async def body(a, b, c):
        sid = await a.open_session(await a.connect())
        caller = await a.connect()
        caller.send(counting(a, sid, 300))
        await caller.head()
        id, _ = await caller.event()
        caller.reset()
        peer = await b.open_stream(sid, id)
        for n in range(2, 20):
            id, message = await peer.event()
            assert message["params"]["progress"] == n
        await b.kill()
        peer = await c.open_stream(sid, id)
        events = await peer.events(15)
        assert said(events)[:-1] == list(range(20, 301))
        assert said(events)[-1]["content"][0]["text"] == "done"

    scene(run, body, 3)


def test_b95_a_get_stream_of_a_killed_process_goes_on_at_the_next(run):
    async def body(a, b):
        sid = await a.open_session(await a.connect())
        first = await a.open_stream(sid)
        change = b.legacy_call(sid, "change")
        await (await b.connect()).ask(change)
        id, message = await first.event()
        assert message["method"] == LIST_CHANGED
        await a.kill()
        peer = await b.open_stream(sid, id)
        assert {(await peer.event(10))[1]["method"] for _ in range(2)} >= {LIST_CHANGED}
        await (await b.connect()).ask(change)
        assert (await peer.event())[1]["method"] == LIST_CHANGED

    scene(run, body)
