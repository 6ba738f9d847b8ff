"""Requests per second and in flight of one caller: buckets, and what is answered beyond them (issue 6, item 4).

Strategy: the buckets on a clock of the test's own; then served endpoints with rates so low that no bucket fills during
a test, or so high that it does within a bounded wait.
"""

import asyncio
import contextlib
import json

import pytest
from asgi_support import ask as ask_asgi
from http_support import make_server, site, tiny
from server_pipe import META, Pipe

from headrace import Limits, RpcError, Server, connect
from headrace.transports._rates import Rates, caller_of
from headrace.transports.stream import serve_lines

SLOW = {"rate_limit": 0.01, "rate_burst": 3}
"""Three requests, and then none for longer than any test runs."""


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


def buckets(rate=10.0, burst=5.0, most=100):
    clock = Clock()
    return Rates(rate, burst, most, clock), clock


def test_a_burst_and_then_the_rate():
    rates, clock = buckets()
    assert [rates.take("a") for _ in range(5)] == [0.0] * 5
    assert rates.take("a") == pytest.approx(0.1)
    assert rates.take("b") == 0.0, "another caller has its own"
    clock.now += 0.1
    assert rates.take("a") == 0.0
    assert rates.take("a") == pytest.approx(0.1), "a refused request takes nothing"
    clock.now += 0.35
    assert [rates.take("a") == 0.0 for _ in range(4)] == [True, True, True, False]
    clock.now += 1000
    assert [rates.take("a") == 0.0 for _ in range(6)] == [True] * 5 + [False], "never more than the burst"


def test_over_a_long_time_it_is_the_rate():
    rates, clock = buckets(rate=7.0, burst=3.0)
    taken = 0
    for _ in range(10_000):
        taken += rates.take("a") == 0.0
        clock.now += 0.01
    assert 700 <= taken <= 704


def test_what_came_along_is_owed():
    """An array of messages is let in as one, and its caller waits the longer."""
    rates, clock = buckets(rate=10.0, burst=5.0)
    assert rates.take("a") == 0.0
    rates.owe("a", 9)
    assert rates.take("a") == pytest.approx(0.6)
    clock.now += 0.6
    assert rates.take("a") == 0.0
    rates.owe("nobody", 5)
    assert rates.take("nobody") == 0.0


def test_the_table_is_bounded():
    rates, clock = buckets(rate=1.0, burst=2.0, most=64)
    for n in range(64):
        rates.take(n)
    clock.now += 0.5
    for n in range(1000):
        assert rates.take(("new", n)) == 0.0
        assert len(rates) <= 64
    assert rates.take(("new", 999)) == 0.0 and rates.take(("new", 999)) > 0, "who came last is still known"
    clock.now += 10
    rates.take("one more")
    clock.now += 10
    for n in range(64):
        rates.take(("again", n))
    assert len(rates) <= 64


def test_what_limits_make_of_a_server(run):
    """Off by default; a burst of nothing is a second's worth, at least one; clients have none."""

    async def main():
        for limits, made in [
            (Limits(), None),
            (Limits(rate_limit=20.0), (20.0, 20.0, 65_536)),
            (Limits(rate_limit=0.1), (0.1, 1.0, 65_536)),
            (Limits(rate_limit=5.0, rate_burst=50, max_rate_buckets=10), (5.0, 50.0, 10)),
        ]:
            app = Server("t", version="1", limits=limits)
            async with app.running(), connect(app, limits=Limits(rate_limit=1.0)) as client:
                rates = app.runtime.rates
                assert (None if rates is None else (rates.rate, rates.burst, rates.most)) == made
                assert client._mux.runtime.rates is None

    run(main)


@pytest.mark.parametrize(("rate", "burst", "most"), [(0, 1, 1), (-1, 1, 1), (1, 0.5, 1), (1, 1, 0)])
def test_buckets_that_hold_nothing_are_refused(rate, burst, most):
    with pytest.raises(ValueError, match="positive"):
        Rates(rate, burst, most, Clock())


def test_who_a_caller_is():
    """A principal, else an address; of IPv6 the network of 64 bits that one customer has."""
    assert caller_of(None, "192.0.2.1") == caller_of(None, "192.0.2.1") != caller_of(None, "192.0.2.2")
    assert caller_of(None, "2001:db8:1:2::3") == caller_of(None, "2001:db8:1:2:ffff::9")
    assert caller_of(None, "2001:db8:1:2::3") != caller_of(None, "2001:db8:1:3::3")
    assert caller_of(None, None) == caller_of(None, "unix")
    assert caller_of("ann", "192.0.2.1") == caller_of("ann", "192.0.2.2") != caller_of("bob", "192.0.2.1")
    assert caller_of("192.0.2.1", None) != caller_of(None, "192.0.2.1")
    long = "x" * 100_000
    assert caller_of(long, None) == caller_of("x" * 100_000, None) and len(repr(caller_of(long, None))) < 200
    assert caller_of({"sub": "ann"}, None) == caller_of({"sub": "ann"}, None) != caller_of({"sub": "bob"}, None)
    assert hash(caller_of(["a"], None)) != hash(caller_of(("a",), None))
    for name in ("a:b", "fe80::1%eth0", "_hidden:1"):
        assert caller_of(None, name) == caller_of(None, name)


# ---------------------------------------------------------------- HTTP


def test_http_429_says_when_and_keeps_the_connection(run):
    async def main():
        async with site(make_server(), limits=tiny(**SLOW)) as s:
            peer = await s.connect()
            for n in range(3):
                assert (await peer.ask(s.call("echo", {"text": "x"}, id=n))).status == 200
            other = await s.connect()
            for each in (peer, other, peer):
                answer = await each.ask(s.call("echo", {"text": "x"}, id=9))
                assert (answer.status, answer.get("content-type")) == (429, "application/json")
                wait = answer.json["error"]["data"]["retryAfter"]
                assert answer.code == -32603 and 90 < wait <= 100
                assert int(answer.get("retry-after")) >= wait
                assert answer.json["error"]["message"].startswith("too many requests: 0.01 a second")
                assert answer.get("connection") is None, "another caller may use it: a proxy does"
            assert s.server.runtime.refusals == {"rate_limit": 3}
            assert s.server.seen.started == 0

    run(main)


def test_http_after_the_wait_it_goes_on(run):
    async def main():
        async with site(make_server(), limits=tiny(rate_limit=20.0, rate_burst=1)) as s:
            peer = await s.connect()
            statuses = []
            for _ in range(500):
                answer = await peer.ask(s.call("echo", {"text": "x"}))
                statuses.append(answer.status)
                if statuses.count(200) == 4:
                    break
                if answer.status == 429:
                    await asyncio.sleep(answer.json["error"]["data"]["retryAfter"])
            assert statuses.count(200) == 4 and statuses.count(429) >= 3
            assert set(statuses) == {200, 429}

    run(main)


def test_http_bodies_that_come_later_are_read_away(run):
    """Refused by the head alone: what follows is the next request. A long body, and one that waits for 100, end the
    connection (B51)."""

    async def main():
        async with site(make_server(), limits=tiny(**SLOW)) as s:
            peer = await s.connect()
            data = s.call("echo", {"text": "x" * 2000})
            for _ in range(3):
                assert (await peer.ask(data)).status == 200
            peer.send(data[:-1000])
            assert (await peer.answer()).status == 429
            peer.send(data[-1000:] + data)
            assert (await peer.answer()).status == 429
            chunked = s.call("echo", {"text": "x"}, content_length=None, transfer_encoding="chunked")
            head, _, body = chunked.partition(b"\r\n\r\n")
            peer.send(head + b"\r\n\r\n%x\r\n" % len(body) + body + b"\r\n0\r\n\r\n")
            assert (await peer.answer()).status == 429
            for header in ({"expect": "100-continue"}, {"content_length": "300000"}):
                peer = await s.connect()
                peer.send(s.modern("tools/list", **header).partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
                answer = await peer.answer()
                assert (answer.status, answer.get("connection")) == (429, "close")
                assert await peer.ended()

    run(main)


@pytest.mark.parametrize("delay", [None, 0.01])
def test_principals_have_a_rate_each(run, delay):
    """Whoever they share an address with; those that are refused by `authenticate` have none."""

    async def authenticate(request):
        if delay:
            await asyncio.sleep(delay)
        return dict(request.headers)[b"authorization"].decode()

    async def main():
        async with site(make_server(), limits=tiny(**SLOW), authenticate=authenticate) as s:
            peer = await s.connect()

            async def ask(who):
                return (await peer.ask(s.call("echo", {"text": "x"}, authorization=who))).status

            assert [await ask("ann") for _ in range(4)] == [200, 200, 200, 429]
            assert [await ask("bob") for _ in range(4)] == [200, 200, 200, 429]
            assert await ask("ann") == 429

    run(main)


def test_principal_of_tells_callers_apart_too(run, caplog):
    def principal_of(fields):
        return {"sub": dict(fields)[b"x-user"].decode()}

    async def main():
        async with site(make_server(), limits=tiny(**SLOW), principal_of=principal_of) as s:
            peer = await s.connect()

            async def ask(**fields):
                return (await peer.ask(s.call("echo", {"text": "x"}, **fields))).status

            assert [await ask(x_user="ann") for _ in range(4)] == [200, 200, 200, 429]
            assert [await ask(x_user="bob") for _ in range(4)] == [200, 200, 200, 429]
            assert await ask() == 500

    run(main)
    assert "it could not be told whose a request is" in caplog.text


def test_forwarded_addresses_have_a_rate_each(run):
    async def main():
        async with site(make_server(), limits=tiny(**SLOW), forwarded_allow_ips=["127.0.0.1"]) as s:
            peer = await s.connect()

            async def ask(address):
                return (await peer.ask(s.call("echo", {"text": "x"}, x_forwarded_for=address))).status

            assert [await ask("198.51.100.1") for _ in range(4)] == [200, 200, 200, 429]
            assert [await ask("198.51.100.2") for _ in range(4)] == [200, 200, 200, 429]
            assert [await ask("2001:db8::1"), await ask("2001:db8::2"), await ask("2001:db8::3")] == [200, 200, 200]
            assert await ask("2001:db8::4") == 429

    run(main)


def test_streams_count_and_leaving_does_not(run):
    """GET is a request like POST: clients that reconnect in a storm are held off (B40). DELETE never is refused."""

    async def main():
        async with site(make_server(), limits=tiny(rate_limit=0.01, rate_burst=4)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            stream = await s.open_stream(sid)
            stream.reset()
            assert (await peer.ask(s.legacy(sid, "ping"))).status == 200
            assert (await peer.ask(s.legacy(sid, "ping"))).status == 429
            assert (await peer.ask(s.request("GET", mcp_session_id=sid))).status == 429
            assert (await peer.ask(s.request("DELETE", mcp_session_id=sid))).status == 204

    run(main)


def test_jr20_every_entry_of_an_array_counts(run):
    async def main():
        async with site(make_server(), limits=tiny(rate_limit=0.01, rate_burst=10)) as s:
            peer = await s.connect()
            answer = await peer.ask(s.initialize(version="2025-03-26"))
            sid = answer.get("mcp-session-id")
            array = [{"jsonrpc": "2.0", "id": n, "method": "ping"} for n in range(20)]
            answer = await peer.ask(s.request(body=array, mcp_session_id=sid))
            assert answer.status == 200 and len(answer.events) == 20
            answer = await peer.ask(s.legacy(sid, "ping", mcp_protocol_version="2025-03-26"))
            assert answer.status == 429 and 1100 - 60 < answer.json["error"]["data"]["retryAfter"] <= 1200

    run(main)


def test_http_sse_has_rates_too(run):
    async def main():
        async with site(make_server(), limits=tiny(**SLOW), legacy_sse=True) as s:
            stream = await s.connect()
            stream.send(s.request("GET", target="/sse"))
            assert (await stream.head())[0] == 200
            target = (await stream.chunk()).decode().partition("data: ")[2].strip()
            peer = await s.connect()
            ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            statuses = [(await peer.ask(s.request(body=ping, target=target))).status for _ in range(3)]
            assert statuses == [202, 202, 429]

    run(main)


def test_behind_an_asgi_host_the_client_is_the_hosts(run):
    app = make_server(Limits(**SLOW))
    mounted = app.asgi(allowed_hosts=["*"])

    async def main():
        async with mounted.lifespan():
            async def ask(address):
                return (await ask_asgi(mounted, "tools/list", client=(address, 5))).status

            assert [await ask("192.0.2.1") for _ in range(4)] == [200, 200, 200, 429]
            assert await ask("192.0.2.2") == 200

    run(main)


# ---------------------------------------------------------------- lines


def test_lines_are_told_when(run, tmp_path):
    """An error with its id. Pings, answers and notifications are not counted; another connection of the same caller
    is."""
    app = Server("t", version="1", limits=Limits(**SLOW))

    @app.tool
    def echo(text: str) -> str:
        return text

    async def main():
        path = str(tmp_path / "s")
        async with app.running():
            listener = await serve_lines(app, unix=path)
            reader, writer = await asyncio.open_unix_connection(path)

            async def ask(id, method, params):
                params["_meta"] = META
                writer.write(json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode() + b"\n")
                return json.loads(await asyncio.wait_for(reader.readline(), 5))

            for n in range(3):
                writer.write(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":9}}\n')
                assert "result" in await ask(n, "tools/call", {"name": "echo", "arguments": {"text": "x"}})
            refused = await ask("late", "tools/call", {"name": "echo", "arguments": {"text": "x"}})
            assert refused["id"] == "late" and refused["error"]["code"] == -32603
            assert 90 < refused["error"]["data"]["retryAfter"] <= 100
            async with connect(f"unix:{path}") as client:
                with pytest.raises(RpcError, match="too many requests") as caught:
                    await client.list_tools()
                assert 90 < caught.value.retry_after <= 100
            assert set(app.runtime.refusals) == {"rate_limit"}
            writer.close()
            await listener.close()

    run(main)


def test_an_array_of_lines_is_refused_by_the_entry(run):
    app = Server("t", version="1", limits=Limits(**SLOW))

    async def main():
        async with app.running():
            pipe = Pipe(app)
            hello = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
            await pipe.ask(1, "initialize", hello)
            pipe.send(None, "notifications/initialized")
            array = [{"jsonrpc": "2.0", "id": n, "method": "tools/list"} for n in range(4)]
            pipe.raw(json.dumps(array).encode())
            answers = next(each for each in pipe.out if isinstance(each, list))
            assert [each["error"]["data"]["retryAfter"] > 90 for each in answers if "error" in each] == [True]
            assert [each["id"] for each in answers if "result" in each] == [0, 1, 2]
            assert app.runtime.refusals == {"rate_limit": 1}
            pipe.mux.close()

    run(main)


# ---------------------------------------------------------------- in flight


def test_max_in_flight_per_principal_over_http(run):
    """Beyond it 429; others, and what is answered at once, are served; what ends or is given up makes room."""

    async def main():
        bounds = tiny(max_in_flight_per_principal=2)
        async with site(make_server(), limits=bounds, forwarded_allow_ips=["127.0.0.1"]) as s:
            busy = [await s.connect() for _ in range(2)]
            for peer in busy:
                peer.send(s.call("sleep", {"ms": 20_000}, x_forwarded_for="198.51.100.1"))
            await s.settled(lambda: s.server.seen.started == 2)
            peer = await s.connect()
            answer = await peer.ask(s.call("sleep", {"ms": 1}, x_forwarded_for="198.51.100.1"))
            assert (answer.status, answer.get("retry-after"), answer.code) == (429, "1", -32603)
            assert answer.json["error"]["message"] == "too many requests in flight: at most 2 of one caller"
            assert answer.json["id"] == 1
            assert (await peer.ask(s.call("sleep", {"ms": 1}, x_forwarded_for="198.51.100.2"))).status == 200
            assert list(s.server.runtime.shares.values()) == [2]
            busy[0].reset()
            await s.settled(lambda: list(s.server.runtime.shares.values()) == [1])
            assert (await peer.ask(s.call("sleep", {"ms": 1}, x_forwarded_for="198.51.100.1"))).status == 200
            busy[1].reset()
            await s.settled(lambda: s.server.runtime.shares == {})
            assert s.server.runtime.refusals == {"max_in_flight_per_principal": 1}

    run(main)


def test_max_in_flight_per_principal_counts_over_transports(run, tmp_path):
    """Lines and HTTP, sessions and middleware: one principal, one share; at the end nothing is left of it."""
    app = make_server(tiny(max_in_flight_per_principal=3))

    @app.add_middleware
    async def around(call, next):
        return await next(call)

    async def main():
        path = str(tmp_path / "s")
        async with site(app) as s:
            listener = await serve_lines(app, unix=path)
            async with connect(f"unix:{path}") as client:
                calls = [asyncio.ensure_future(client.call_tool("sleep", {"ms": 300})) for _ in range(3)]
                await s.settled(lambda: app.seen.started == 3)
                with pytest.raises(RpcError, match="at most 3 of one caller") as caught:
                    await client.call_tool("sleep", {"ms": 1})
                assert caught.value.retry_after == 1.0
                peer = await s.connect()
                assert (await peer.ask(s.call("sleep", {"ms": 1}))).status == 200, "another caller"
                calls[0].cancel()
                results = await asyncio.gather(*calls, return_exceptions=True)
                assert [getattr(each, "text", None) for each in results] == [None, "slept", "slept"]
                assert (await client.call_tool("sleep", {"ms": 1})).text == "slept"
            await listener.close()
            await s.settled(lambda: app.runtime.shares == {})

    run(main)


def test_a_handler_that_ignores_its_cancel_still_counts(run):
    app = Server("t", version="1", limits=Limits(max_in_flight_per_principal=1))
    waits = []

    @app.add_middleware
    async def around(call, next):
        return await next(call)

    @app.tool
    async def stubborn() -> str:
        until = asyncio.get_running_loop().create_future()
        waits.append(until)
        while not until.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.shield(until)
        return "over"

    async def settled(check):
        async with asyncio.timeout(5):
            while not check():
                await asyncio.sleep(0.005)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.send(1, "tools/call", {"name": "stubborn", "arguments": {}}, meta=META)
            await settled(lambda: len(waits) == 1)
            pipe.send(None, "notifications/cancelled", {"requestId": 1})
            await asyncio.sleep(0.02)
            answer = await pipe.call("stubborn", id=2)
            assert "at most 1 of one caller" in answer["error"]["message"]
            waits[0].set_result(None)
            await settled(lambda: app.runtime.shares == {})
            pipe.send(3, "tools/call", {"name": "stubborn", "arguments": {}}, meta=META)
            await settled(lambda: len(waits) == 2)
            waits[1].set_result(None)
            await settled(lambda: app.runtime.shares == {})
            assert "result" in await pipe.ask(4, "tools/list", {}, meta=META)
            pipe.mux.close()

    run(main)
