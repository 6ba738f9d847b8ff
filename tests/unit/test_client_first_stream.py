"""The stream for what belongs to no answer is there before the first call: servers drop what they cannot send."""

import asyncio

import pytest
from http_peer import chunk, plain, sse_head
from http_script import DONE, HttpScript

from headrace import connect

HELLO = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
LISTED = {"tools": []}


async def opened_late(script, order, reply):
    """A server that takes its time over the stream, and one call; `order` is what came when."""

    async def stream(request):
        order.append("GET")
        await asyncio.sleep(0.1)
        order.append("answered")
        if reply == "events":
            request.conn.send(sse_head() + chunk(b": hello\n\n"))
            return DONE
        return plain(reply)

    def listing(request):
        order.append("tools/list")
        return LISTED

    script.replies |= {"initialize": lambda r: HELLO, "GET": stream, "tools_list": listing}
    async with connect(script.url, revision="2025-11-25") as client:
        assert await client.list_tools() == []


@pytest.mark.parametrize("reply", ["events", "405 Method Not Allowed", "404 Not Found"])
def test_ho10_first_call_waits_for_the_stream(run, reply):
    """HO-10, B118: after initialized, and before the first call, whether the server has such a stream or not."""

    async def trial():
        async with HttpScript() as script:
            order = []
            await opened_late(script, order, reply)
            assert order[:3] == ["GET", "answered", "tools/list"]
            assert script.methods.index("notifications/initialized") < script.methods.index("GET")

    run(trial)


def test_ho10_a_stream_whose_head_is_held_back_does_not_keep_the_first_call(run):
    """Servers that send no head before the first event: the call goes out after a moment."""

    async def trial():
        held = asyncio.Event()

        async def stream(request):
            await held.wait()
            return plain("405 Method Not Allowed")

        async with (
            asyncio.timeout(10),
            HttpScript(initialize=lambda r: HELLO, GET=stream, tools_list=LISTED) as script,
            connect(script.url, revision="2025-11-25") as client,
        ):
            assert await client.list_tools() == []
            held.set()

    run(trial)
