"""Limits: their form, bounds that belong to no one part, and that every one of them is named by a test (SE-08)."""

import asyncio
import inspect
import re
from pathlib import Path

import pytest
from asking_support import AskPipe
from http_support import make_server, site, tiny
from server_pipe import META, Pipe

from headrace import Context, Limits, RequestTimeout, Server, connect
from headrace.limits import DEFAULT, describe

TESTS = Path(__file__).resolve().parents[1]


def test_se08_every_bound_has_a_test():
    """As a keyword of Limits or as an option of the command line, in a test that is not this one."""
    texts = [path.read_text() for path in TESTS.rglob("test_*.py") if path != Path(__file__).resolve()]
    texts.append("\n".join(inspect.getsource(test) for test in OWN))
    unnamed = []
    for name, _, _ in describe():
        used = re.compile(rf"\b{name}=|\.{name}\b|[\"']{name}[\"']|--{name.replace('_', '-')}\b")
        if not any(used.search(text) for text in texts):
            unnamed.append(name)
    assert unnamed == []


def test_values_that_bound_nothing_are_refused():
    for name, kind, _ in describe():
        for bad in (0, -1):
            with pytest.raises(ValueError, match=f"limit {name} must be positive"):
                Limits(**{name: kind(bad)})
    with pytest.raises(ValueError, match="max_depth must be at most 1024"):
        Limits(max_depth=1025)
    with pytest.raises(AttributeError):
        DEFAULT.max_depth = 3


def test_mx13_request_timeout_is_the_default_of_every_call(run):
    """A call that names no time limit has this one; one that names its own, that."""
    app = Server("t", version="1")

    @app.tool
    async def slow(ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return "slept"

    async def main():
        async with connect(app, limits=Limits(request_timeout=0.05)) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("slow", {"ms": 5000})
            assert (await client.call_tool("slow", {"ms": 150}, timeout=10)).text == "slept"

    run(main)


def test_mx35_input_lifetime_ends_a_state(run):
    app = Server("t", version="1", limits=Limits(input_lifetime=1.0))

    @app.tool
    async def t(ctx: Context) -> str:
        return (await ctx.elicit("Sure?")).action

    async def main():
        async with app.running():
            pipe = AskPipe(app)
            first = await pipe.answer_to(pipe.request("tools/call", {"name": "t", "arguments": {}}))
            more = {"requestState": first["result"]["requestState"], "inputResponses": {"q1": {"action": "accept"}}}
            again = await pipe.answer_to(pipe.request("tools/call", {"name": "t", "arguments": {}}, **more))
            assert again["result"]["content"][0]["text"] == "accept"
            now = app.sealer._clock
            app.sealer._clock = lambda: now() + 2.5
            late = await pipe.answer_to(pipe.request("tools/call", {"name": "t", "arguments": {}}, **more))
            assert late["error"]["code"] == -32602 and "expired" in late["error"]["message"]
            pipe.mux.close()

    run(main)


@pytest.mark.parametrize(("wish", "given"), [(None, 60_000), (10**12, 60_000), (30_000, 30_000)])
def test_tk05_max_task_ttl_cuts_what_is_wished(run, wish, given):
    """TK-05: also when the server itself wishes nothing; 2025-11-25 and 2026-07-28 alike."""
    app = Server("t", version="1", limits=Limits(max_task_ttl=60.0))
    app.tasks()

    @app.tool(task="optional")
    async def job() -> str:
        return "done"

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            task = {} if wish is None else {"ttl": wish}
            made = await pipe.ask(1, "tools/call", {"name": "job", "arguments": {}, "task": task})
            assert made["result"]["task"]["ttl"] == given
            if wish is None:
                extension = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
                modern = META | {"io.modelcontextprotocol/clientCapabilities": extension}
                made = await pipe.ask(2, "tools/call", {"name": "job", "arguments": {}}, meta=modern)
                assert made["result"]["ttlMs"] == given
            pipe.mux.close()

    run(main)


def test_linger_timeout_ends_a_refused_connection(run):
    """What a refused client still sends is read and dropped so that the answer arrives, but not for ever."""

    async def main():
        async with site(make_server(), limits=tiny(linger_timeout=0.3, body_timeout=60.0, body_total_timeout=60.0)) as s:
            peer = await s.connect()
            peer.send(s.request(body=b"", content_length="1000000000", target="/nowhere"))
            dripping = asyncio.ensure_future(drip(peer))
            answer = await peer.answer()
            assert (answer.status, answer.get("connection")) == (413, "close") or answer.status == 404
            assert await peer.ended(10)
            dripping.cancel()
            await s.settled(lambda: s.listener.connections == 0)

    async def drip(peer):
        while True:
            peer.send(b"x")
            await asyncio.sleep(0.02)

    run(main)


OWN = (
    test_mx13_request_timeout_is_the_default_of_every_call,
    test_mx35_input_lifetime_ends_a_state,
    test_tk05_max_task_ttl_cuts_what_is_wished,
    test_linger_timeout_ends_a_refused_connection,
)
