"""Regular pings of clients (MX-20): they keep a session alive, and find out that a server is dead."""

import asyncio

import pytest
from http_support import make_server, site, tiny
from scripted_peer import MODERN, Script, error, handshake

from headrace import ConnectionClosed, UsageError, connect
from headrace.jsonrpc import R4


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that in time")


@pytest.mark.parametrize("answer", [{}, error(-32601)], ids=["pong", "error"])
def test_mx20_a_server_that_answers_is_pinged_again_and_again(run, answer):
    """An error is an answer as well: the server lives."""

    async def main():
        async with Script(discover=error(-32601), initialize=handshake(), ping=answer, tools_call={"content": []}) as peer:
            async with connect(peer.target, ping_interval=0.02) as client:
                await until(lambda: peer.methods.count("ping") >= 4)
                assert not client.closed
                assert (await client.call_tool("t")).content == []
            count = peer.methods.count("ping")
            await asyncio.sleep(0.1)
            assert peer.methods.count("ping") == count

    run(main)


def test_mx20_a_server_that_does_not_answer_is_given_up(run):
    async def main():
        async with Script(discover=error(-32601), initialize=handshake()) as peer:
            async with connect(peer.target, ping_interval=0.05) as client:
                with pytest.raises(ConnectionClosed, match=r"answered no ping within 0\.05 s"):
                    await client.call_tool("t")
                assert client.closed
                assert peer.methods.count("ping") == 1
            assert "notifications/cancelled" not in peer.methods[: peer.methods.index("ping")]

    run(main)


def test_mx20_pings_keep_an_http_session_alive(run):
    async def main():
        async with site(make_server(), limits=tiny(session_idle_timeout=0.4)) as s:
            async with connect(s.listener.url, revision=R4, ping_interval=0.1) as client:
                await asyncio.sleep(1.5)
                assert s.listener.sessions == 1
                assert (await client.call_tool("echo", {"text": "x"})).text == "x"
            await s.settled(lambda: s.listener.sessions == 0)

    run(main)


def test_mx20_never_unless_asked_and_never_in_the_modern_era(run):
    async def main():
        async with Script(discover=error(-32601), initialize=handshake(), ping={}) as old, Script(discover=MODERN) as new:
            async with connect(old.target), connect(new.target, ping_interval=0.01):
                await asyncio.sleep(0.1)
            assert "ping" not in old.methods + new.methods
        for wrong in (0, -1, float("nan")):
            with pytest.raises(UsageError):
                connect("tcp:127.0.0.1:1", ping_interval=wrong)

    run(main)
