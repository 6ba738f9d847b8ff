"""Lost sessions over HTTP: one new session for all, whoever notices first, and never a storm (HO-32, B48, B94)."""

import asyncio
import json
import time

import pytest
from http_peer import END, answer, chunk, event, plain, sse_head
from http_script import DONE, HttpScript
from scripted_peer import error, handshake

from headrace import ConnectFailed, ConnectionClosed, HttpStatusError, Limits, connect
from headrace.client import recovery

QUICK = Limits(reconnect_delay=0.01)


async def until(condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


class Sessions(HttpScript):
    """A handshake-era server with sessions and streams. ``lose()`` forgets the session."""

    def __init__(self, **replies):
        self.count = 0
        self.current = None
        self.streams = []
        super().__init__(
            **{
                "discover": error(-32601),
                "initialize": self.open,
                "tools_call": self.call,
                "GET": self.get,
                "DELETE": plain("200 OK"),
                **replies,
            }
        )

    def lose(self):
        self.current = None
        for conn in self.streams:
            conn.close()
        self.streams.clear()

    def open(self, request):
        assert "mcp-session-id" not in request.headers and "last-event-id" not in request.headers
        self.count += 1
        self.current = f"s{self.count}"
        return answer(request, json.dumps(handshake()), Mcp_Session_Id=self.current)

    def known(self, request):
        return self.current is not None and request.headers.get("mcp-session-id") == self.current

    def get(self, request):
        if not self.known(request):
            return plain("404 Not Found")
        self.streams.append(request.conn)
        return sse_head() + chunk(b"id: %s\nretry: 5\ndata:\n\n" % self.current.encode())

    def call(self, request):
        if not self.known(request):
            return plain("404 Not Found")
        return {"content": [{"type": "text", "text": self.current}]}


def test_b48_a_hundred_callers_share_each_new_session(run):
    """Three losses, 100 callers each time: one initialize a loss, no call more than twice."""

    async def main():
        async with Sessions() as script, connect(script.url, limits=QUICK) as client:
            assert (await client.call_tool("t")).text == "s1"
            for n in (2, 3, 4):
                script.lose()
                before = script.methods.count("tools/call")
                results = await asyncio.gather(*(client.call_tool("t") for _ in range(100)))
                assert {r.text for r in results} == {f"s{n}"}
                assert script.methods.count("initialize") == n
                assert script.methods.count("tools/call") - before <= 200
            assert script.methods.count("notifications/initialized") == 4

    run(main)


def test_ho32_the_stream_notices_the_loss_by_itself(run):
    """No call is under way: the stream's 404 renews the session, and notifications come again."""
    changed = []

    async def main():
        async with Sessions() as script, connect(script.url, limits=QUICK, on_list_changed=changed.append) as client:
            await until(lambda: script.streams)
            script.lose()
            await until(lambda: script.count == 2 and script.streams)
            script.streams[0].send(event({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
            await until(lambda: changed == ["tools"])
            assert (await client.call_tool("t")).text == "s2"
            assert "last-event-id" not in [r for r in script.seen if r.method == "GET"][-1].headers
            assert script.methods.count("initialize") == 2

    run(main)


def test_b45_a_server_without_a_stream_keeps_its_session(run):
    """404 to the very first GET says that there is no such route (agentgateway#1582), not that the session ended."""

    async def main():
        async with Sessions(GET=plain("404 Not Found")) as script, connect(script.url, limits=QUICK) as client:
            await until(lambda: "GET" in script.methods)
            await asyncio.sleep(0.05)
            assert (await client.call_tool("t")).text == "s1"
            assert script.methods.count("GET") == 1 and script.count == 1

    run(main)


def test_b48_sessions_that_do_not_last_are_no_storm(run):
    """Each new session is lost as soon as its stream is open: the renewals become rare by themselves."""

    async def main():
        async with Sessions() as script:

            def get(request):
                reply = Sessions.get(script, request)
                if script.known(request):
                    asyncio.get_running_loop().call_later(0.005, script.lose)
                return reply

            script.replies["GET"] = get
            async with connect(script.url, limits=QUICK):
                await until(lambda: script.count >= 2)
                await asyncio.sleep(0.6)
                assert script.count == 2  # the third comes a second later, the fourth after two more
            assert script.methods.count("GET") <= 5

    run(main)


def test_b48_a_session_lost_by_every_call_costs_a_fixed_number(run):
    """A balancer without stickiness: the server knows no session at all but opens new ones."""

    async def main():
        async with Sessions(tools_call=plain("404 Not Found")) as script, connect(script.url, limits=QUICK) as client:
            for n in range(1, 4):
                outcomes = await asyncio.gather(*(client.call_tool("t") for _ in range(30)), return_exceptions=True)
                assert all(isinstance(o, HttpStatusError) and o.status == 404 for o in outcomes)
                assert script.count == n + 1
                assert script.methods.count("tools/call") == 60 * n

    run(main)


@pytest.mark.parametrize("how", ["503", "404", "reset", "error"])
def test_b48_failing_renewals_hold_off(run, how, monkeypatch):
    """N callers over and over, and no session to be had: a bounded number of initialize, errors at once."""
    monkeypatch.setattr(recovery, "FIRST_PAUSE", 0.2)

    async def main():
        async with Sessions() as script, connect(script.url, limits=QUICK) as client:
            replies = {"503": plain("503 No", b"later"), "404": plain("404 Not Found"), "error": error(-32000)}
            script.replies["initialize"] = replies.get(how, lambda r: r.conn.reset() or DONE)
            script.replies["GET"] = plain("404 Not Found")
            script.lose()
            outcomes = []
            for _ in range(10):
                outcomes += await asyncio.gather(*(client.call_tool("t") for _ in range(20)), return_exceptions=True)
            assert all(isinstance(o, Exception) for o in outcomes)
            assert any(isinstance(o, ConnectFailed) and "asked again in" in str(o) for o in outcomes)
            assert script.methods.count("initialize") <= 1 + 3 * 2  # a reset one may be sent twice
            # It is back: after the pause a call gets through.
            script.replies["initialize"] = script.open
            async with asyncio.timeout(5):
                while True:
                    try:
                        assert (await client.call_tool("t")).text == script.current
                        break
                    except ConnectFailed:
                        await asyncio.sleep(0.02)

    run(main)


def test_b48_retry_after_of_initialize_is_kept(run):
    async def main():
        async with Sessions() as script, connect(script.url, limits=QUICK) as client:
            script.lose()
            script.replies["initialize"] = plain("503 No", Retry_After="1")
            script.replies["GET"] = plain("404 Not Found")
            with pytest.raises(HttpStatusError) as caught:
                await client.call_tool("t")
            begun = time.monotonic()
            assert caught.value.retry_after == 1.0
            with pytest.raises(ConnectFailed, match="503"):
                await client.call_tool("t")
            script.replies["initialize"] = script.open
            async with asyncio.timeout(5):
                while True:
                    try:
                        await client.call_tool("t")
                        break
                    except ConnectFailed:
                        await asyncio.sleep(0.02)
            assert time.monotonic() - begun >= 0.9  # 1 s from when the answer was made
            assert script.methods.count("initialize") == 3

    run(main)


def test_b82_a_server_that_is_down_costs_one_attempt_a_call(run):
    """50 callers, three times, nobody listens: each fails at once, and the connects are bounded."""

    async def main():
        async with Sessions() as script, connect(script.url, limits=QUICK) as client:
            await until(lambda: script.streams)
            await script.peer.stop()
            with pytest.raises(OSError):  # uvloop takes a few turns to stop listening
                for _ in range(100):
                    (await asyncio.open_connection("127.0.0.1", script.peer.port))[1].close()
                    await asyncio.sleep(0.01)
            await script.peer.stop()  # what came in between
            script.seen.clear()
            for _ in range(3):
                outcomes = await asyncio.gather(*(client.call_tool("t") for _ in range(50)), return_exceptions=True)
                assert [o for o in outcomes if not isinstance(o, ConnectionClosed)] == []
            assert script.methods.count("tools/call") == 0

    run(main)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "429 Too Many Requests", "500 Oops", "503 No"])
def test_vn47_a_status_of_a_call_is_told_and_not_repeated(run, status):
    """401, 403, 429 and 5xx belong to the caller, with what the server said; the session is kept."""

    async def main():
        async with Sessions() as script, connect(script.url, limits=QUICK) as client:
            call = script.replies["tools_call"]
            script.replies["tools_call"] = plain(status, b"because", Retry_After="7", WWW_Authenticate="Bearer x=1")
            outcomes = await asyncio.gather(*(client.call_tool("t") for _ in range(20)), return_exceptions=True)
            for outcome in outcomes:
                assert isinstance(outcome, HttpStatusError) and outcome.status == int(status[:3])
                assert outcome.retry_after == 7.0 and outcome.body == "because"
            assert script.methods.count("tools/call") == 20 and script.count == 1
            script.replies["tools_call"] = call
            assert (await client.call_tool("t")).text == "s1"

    run(main)


@pytest.mark.parametrize(
    ("value", "expected"),
    [("7", 7.0), ("0", 0.0), ("-1", None), ("soon", None), ("", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0),
     ("99999999999999", 999999999.0), ("1.5", None)],
)  # fmt: skip
def test_retry_after_forms(value, expected):
    assert HttpStatusError("x", 503, headers={"retry-after": value}).retry_after == expected


def test_retry_after_date_in_the_future():
    from email.utils import formatdate

    exc = HttpStatusError("x", 503, headers={"retry-after": formatdate(time.time() + 100, usegmt=True)})
    assert 90 < exc.retry_after <= 100


def test_ho32_requests_of_the_old_session_are_dropped(run):
    """A ping of the old session arrives while the new one is made: no answer of it reaches the new one."""

    async def main():
        async with Sessions() as script, connect(script.url, limits=QUICK) as client:
            await until(lambda: script.streams)

            def slow_open(request):
                # Behind the loss: the old stream still says something.
                stream.send(event({"jsonrpc": "2.0", "id": "old", "method": "ping"}) + END)
                return script.open(request)

            stream = script.streams.pop()
            script.replies["initialize"] = slow_open
            script.lose()
            assert (await client.call_tool("t")).text == "s2"
            await asyncio.sleep(0.05)
            for request in script.seen:
                if request.method == "POST" and request.body.get("id") == "old":
                    assert request.headers["mcp-session-id"] == "s1"

    run(main)


def test_b94_sessions_one_after_the_other_leave_nothing(run):
    async def main():
        async with Sessions() as script:
            for n in range(1, 101):
                async with connect(script.url, limits=QUICK) as client:
                    assert (await client.call_tool("t")).text == f"s{n}"
                script.streams.clear()
            await until(lambda: not script.peer.tasks)
            assert script.methods.count("DELETE") == 100 and script.methods.count("server/discover") == 1

    run(main)
