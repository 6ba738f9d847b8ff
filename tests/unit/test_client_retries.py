"""`connect(..., retries=N)`: what is repeated, what is not, and how long it waits."""

import asyncio

import pytest
from http_peer import plain
from http_script import HttpScript

from headrace import connect
from headrace.errors import ConnectionClosed, HttpStatusError, RpcError, UsageError
from headrace.limits import Limits

MODERN = {
    "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}, "resources": {}},
    "serverInfo": {"name": "s", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
}  # fmt: skip
TOOLS = {
    "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
    "tools": [
        {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}},
        {"name": "set", "inputSchema": {"type": "object"}, "annotations": {"idempotentHint": True}},
        {"name": "pay", "inputSchema": {"type": "object"}},
        {"name": "lie", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": False, "idempotentHint": None}},
    ],
}  # fmt: skip
DONE = {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}
QUICK = Limits(reconnect_delay=0.01)


class Failing:
    """Answers the first `times` requests with `reply`, and those behind them with `then`."""

    def __init__(self, reply, times, then):
        self.reply, self.left, self.then, self.seen = reply, times, then, 0

    def __call__(self, request):
        self.seen += 1
        self.left -= 1
        return self.reply if self.left >= 0 else self.then


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not-listed"])
@pytest.mark.parametrize("tool", ["look", "set"])
def test_a_tool_that_may_run_twice_is_called_again(run, tool, listed):
    """SF-03: by its own hints. A list that is not known is read once something has failed."""

    async def main():
        call = Failing(None, 2, DONE)
        async with HttpScript(discover=MODERN, tools_list=TOOLS, tools_call=call) as peer:
            async with connect(peer.url, retries=3, limits=QUICK) as client:
                if listed:
                    await client.list_tools()
                result = await client.call_tool(tool)
            assert result.content[0].text == "done" and call.seen == 3
            assert peer.methods.count("tools/list") == 1

    run(main)


@pytest.mark.parametrize("tool", ["pay", "lie", "unknown"])
def test_a_tool_that_may_do_harm_is_not_called_again(run, tool):
    async def main():
        call = Failing(None, 1, DONE)
        async with (
            HttpScript(discover=MODERN, tools_list=TOOLS, tools_call=call) as peer,
            connect(peer.url, retries=3, limits=QUICK) as client,
        ):
            with pytest.raises(ConnectionClosed):
                await client.call_tool(tool)
            assert call.seen == 1
            # The connection of the client lives on.
            assert (await client.call_tool(tool)).content[0].text == "done"

    run(main)


def test_without_retries_nothing_is_repeated(run):
    async def main():
        call = Failing(None, 1, DONE)
        async with HttpScript(discover=MODERN, tools_list=TOOLS, tools_call=call) as peer, connect(peer.url) as client:
            await client.list_tools()
            with pytest.raises(ConnectionClosed):
                await client.call_tool("look")
            assert call.seen == 1

    run(main)


@pytest.mark.parametrize("status", ["429 Too Many Requests"])
def test_what_was_turned_away_is_repeated_whatever_it_is(run, status):
    """429: the server did not run it."""

    async def main():
        call = Failing(plain(status, b"", Retry_After="0"), 1, DONE)
        async with HttpScript(discover=MODERN, tools_list=TOOLS, tools_call=call) as peer:
            async with connect(peer.url, retries=1, limits=QUICK) as client:
                assert (await client.call_tool("pay")).content[0].text == "done"
            assert call.seen == 2

    run(main)


@pytest.mark.parametrize(
    ("status", "again"), [(502, True), (503, True), (504, True), (500, False), (403, False), (400, False)]
)
def test_statuses_that_are_repeated(run, status, again):
    async def main():
        read = Failing(
            plain(f"{status} X", b""),
            1,
            {"resultType": "complete", "contents": [], "ttlMs": 0, "cacheScope": "private"},
        )
        async with HttpScript(discover=MODERN, resources_read=read) as peer:
            async with connect(peer.url, retries=2, limits=QUICK) as client:
                if again:
                    assert (await client.read_resource("a://b")).contents == []
                else:
                    with pytest.raises(HttpStatusError) as caught:
                        await client.read_resource("a://b")
                    assert caught.value.status == status
            assert read.seen == (2 if again else 1)

    run(main)


def test_answers_are_answers(run):
    """An error of the method itself is not repeated, whatever status carries it; an overloaded server's is."""

    async def main():
        refused = Failing(("503 Service Unavailable", {"code": -32602, "message": "no"}), 1, DONE)
        full = Failing(("503 Service Unavailable", {"code": -32603, "message": "full"}), 1, DONE)
        async with (
            HttpScript(discover=MODERN, tools_list=TOOLS, tools_call=refused) as peer,
            connect(peer.url, retries=2, limits=QUICK) as client,
        ):
            with pytest.raises(RpcError, match="no"):
                await client.call_tool("look")
            assert refused.seen == 1
            peer.replies["tools_call"] = full
            assert (await client.call_tool("look")).content[0].text == "done"
            assert full.seen == 2

    run(main)


def test_it_gives_up(run):
    """The last failure is the caller's; nothing is asked more often than was said."""

    async def main():
        call = Failing(None, 99, DONE)
        async with HttpScript(discover=MODERN, tools_list=TOOLS, tools_call=call) as peer:
            async with connect(peer.url, retries=2, limits=QUICK) as client:
                with pytest.raises(ConnectionClosed):
                    await client.call_tool("look")
            assert call.seen == 3

    run(main)


def test_a_caller_that_leaves_ends_it(run):
    async def main():
        call = Failing(plain("429 Too Many Requests", b"", Retry_After="60"), 99, DONE)
        async with HttpScript(discover=MODERN, tools_list=TOOLS, tools_call=call) as peer:
            async with connect(peer.url, retries=5) as client:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.2):
                        await client.call_tool("look")
            assert call.seen == 1

    run(main)


@pytest.mark.parametrize("wrong", [-1, True, 1.5, "2"])
def test_wrong_numbers(wrong):
    with pytest.raises(UsageError, match="retries must be a number"):
        connect("http://127.0.0.1:1/mcp", retries=wrong)
