"""The option `authenticate` of an HTTP endpoint: an async function that says whose a request is, or refuses it.

Strategy: raw sockets against a served endpoint on both loops; the hook answers at once, after a while, never, or
not at all, while the peer sends heads and bodies in every order, and goes away.
"""

import asyncio
import contextvars
import json
import logging

import pytest
from http_support import make_server, site, tiny

from headrace import Context
from headrace.errors import HttpRefusal, UsageError
from headrace.transports.http_auth import HttpRequest
from headrace.transports.http_options import check_options

TOKEN = contextvars.ContextVar("token", default=None)


class Hook:
    """An `authenticate` that takes `delay` seconds, or waits for `gate`."""

    def __init__(self, delay=None):
        self.delay = delay
        self.gate = None
        self.seen = []
        self.cancelled = 0

    async def __call__(self, request):
        self.seen.append(request)
        try:
            if self.gate is not None:
                await self.gate.wait()
            elif self.delay is not None:
                await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        value = request.header(b"authorization")
        if value is None:
            raise HttpRefusal(
                401, [("WWW-Authenticate", 'Bearer resource_metadata="https://x/y"')], b'{"error":"invalid_token"}'
            )
        if value == b"broken":
            raise RuntimeError("the word is swordfish")
        TOKEN.set(value.decode())
        return value.decode()


def server(limits=None):
    app = make_server()
    if limits is not None:
        app.set_limits(limits)

    @app.tool
    async def who(ctx: Context, wait: bool = False) -> str:
        if wait:
            await asyncio.sleep(0.01)
        return f"{ctx.principal} {TOKEN.get()}"

    return app


def text(answer):
    message = answer.events[-1] if answer.body.startswith((b"event", b"id", b":")) else answer.json
    return message["result"]["content"][0]["text"]


ANN, BOB = {"authorization": "ann"}, {"authorization": "bob"}


@pytest.mark.parametrize("delay", [None, 0.01], ids=["at-once", "later"])
def test_the_principal_and_the_context_reach_the_handler(run, delay):
    async def main():
        hook = Hook(delay)
        async with site(server(), authenticate=hook) as place:
            peer = await place.connect()
            for who in ("ann", "bob", "ann"):
                for wait in (False, True):
                    answer = await peer.ask(place.call("who", {"wait": wait}, authorization=who))
                    assert answer.status == 200 and text(answer) == f"{who} {who}"
            assert TOKEN.get() is None
            assert len(hook.seen) == 6
            first = hook.seen[0]
            assert isinstance(first, HttpRequest)
            assert (first.method, first.target, first.scheme) == ("POST", "/mcp", "http")
            assert first.client == peer.writer.get_extra_info("sockname")
            assert (b"authorization", b"ann") in first.headers and first.header(b"nothing") is None

    run(main)


@pytest.mark.parametrize("delay", [None, 0.01], ids=["at-once", "later"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["whole", "pieces"])
def test_a_refusal_is_the_answer_and_the_connection_goes_on(run, delay, wrapped):
    """AU-02, AU-05: 401 with its challenge; the refused body is read away."""

    async def main():
        async with site(server(), authenticate=Hook(delay)) as place:
            peer = await place.connect()
            for _ in range(3):
                data = place.call("echo", {"text": "x" * 2000})
                if wrapped:
                    peer.send(data[:-500])
                    await asyncio.sleep(0.03)
                    peer.send(data[-500:])
                else:
                    peer.send(data)
                answer = await peer.answer()
                assert answer.status == 401
                assert answer.get("www-authenticate") == 'Bearer resource_metadata="https://x/y"'
                assert answer.get("content-type") == "application/json"
                assert answer.json == {"error": "invalid_token"}
                assert answer.get("connection") is None
            answer = await peer.ask(place.call("echo", {"text": "on"}, **ANN))
            assert text(answer) == "on"

    run(main)


@pytest.mark.parametrize("delay", [None, 0.01], ids=["at-once", "later"])
def test_a_failing_hook_is_500_without_its_text(run, delay, caplog):
    """JR-38: what went wrong is in the log alone."""

    async def main():
        async with site(server(), authenticate=Hook(delay)) as place:
            peer = await place.connect()
            answer = await peer.ask(place.call("echo", {"text": "x"}, authorization="broken"))
            assert answer.status == 500 and b"swordfish" not in answer.body
            assert answer.json["error"]["message"] == "internal error"
            answer = await peer.ask(place.call("echo", {"text": "on"}, **ANN))
            assert text(answer) == "on"

    with caplog.at_level(logging.ERROR):
        run(main)
    assert "swordfish" in caplog.text and "authenticate failed" in caplog.text


@pytest.mark.parametrize("delay", [None, 0.01], ids=["at-once", "later"])
def test_a_hook_that_raises_no_exception_is_500(run, delay, caplog):
    """Task groups in it may raise a BaseExceptionGroup; the connection is not left without an answer."""

    async def hook(request):
        if delay is not None:
            await asyncio.sleep(delay)
        if request.header(b"authorization") is None:
            raise BaseExceptionGroup("swordfish", [GeneratorExit()])

    async def main():
        async with site(server(), authenticate=hook) as place:
            peer = await place.connect()
            answer = await peer.ask(place.call("echo", {"text": "x"}))
            assert answer.status == 500 and b"swordfish" not in answer.body
            assert text(await peer.ask(place.call("echo", {"text": "on"}, **ANN))) == "on"

    run(main)
    assert "swordfish" in caplog.text


@pytest.mark.parametrize(
    "refusal",
    [
        HttpRefusal(401, [("X-A", "a\r\nSet-Cookie: b")]),
        HttpRefusal(401, [("X A", "a")]),
        HttpRefusal(401, [("Content-Length", "3")]),
        HttpRefusal(401, [(b"Transfer-Encoding", b"chunked")]),
        HttpRefusal(401, [("X", 3)]),
        HttpRefusal(401, [], "text"),
        HttpRefusal(401, [], b"x", "a\nb"),
        asyncio.CancelledError(),
    ],
    ids=range(8),
)
def test_a_refusal_that_http_cannot_carry_is_500(run, refusal, caplog):
    async def hook(request):
        raise refusal

    async def main():
        async with site(server(), authenticate=hook) as place:
            peer = await place.connect()
            answer = await peer.ask(place.call("echo", {"text": "x"}))
            assert answer.status == 500 and answer.get("set-cookie") is None
            assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 500

    run(main)


def test_statuses_that_refuse_nothing_are_no_refusals():
    for status in (100, 200, 204, 304, 600):
        with pytest.raises(ValueError):
            HttpRefusal(status)
    assert HttpRefusal(307, [("Location", "/")]).status == 307


def test_what_is_no_async_function_is_500(run, caplog):
    async def main():
        async with site(server(), authenticate=lambda request: "ann") as place:
            peer = await place.connect()
            assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 500

    run(main)


def test_ho34_sessions_belong_to_the_principal(run):
    """HO-34: POST, GET and DELETE of somebody else's session are 404; without a token all three are 401."""

    async def main():
        hook = Hook(0.005)
        async with site(server(), authenticate=hook) as place:
            peer = await place.connect()
            answer = await peer.ask(place.initialize(**ANN))
            sid = answer.get("mcp-session-id")
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await peer.ask(place.request(body=note, mcp_session_id=sid, **ANN))).status == 202
            assert text(await peer.ask(place.legacy_call(sid, "who", **ANN))) == "ann ann"
            assert text(await peer.ask(place.legacy_call(sid, "who", **ANN))) == "ann ann"
            for who, status in ((BOB, 404), ({}, 401)):
                assert (await peer.ask(place.legacy_call(sid, "who", **who))).status == status
                assert (await peer.ask(place.request("GET", mcp_session_id=sid, **who))).status == status
                assert (await peer.ask(place.request("DELETE", mcp_session_id=sid, **who))).status == status
            stream = await place.open_stream(sid, **ANN)
            assert [r.method for r in hook.seen[-2:]] == ["DELETE", "GET"]
            assert (await peer.ask(place.request("DELETE", mcp_session_id=sid, **ANN))).status == 204
            assert await stream.event() is None

    run(main)


@pytest.mark.parametrize("option", ["stateless", "sealed_sessions", "json_only"])
def test_with_the_other_options(run, option):
    async def main():
        async with site(server(), authenticate=Hook(0.005), **{option: True}) as place:
            peer = await place.connect()
            answer = await peer.ask(place.initialize(**ANN))
            sid = answer.get("mcp-session-id")
            assert (sid is None) == (option == "stateless")
            assert text(await peer.ask(place.legacy_call(sid, "who", **ANN))) == "ann ann"
            assert text(await peer.ask(place.call("who", **BOB))) == "bob bob"
            if sid is not None:
                assert (await peer.ask(place.legacy_call(sid, "who", **BOB))).status == 404
            assert (await peer.ask(place.legacy_call(sid, "who"))).status == 401

    run(main)


def test_legacy_sse_asks_too(run):
    """LS-02, LS-03: the stream and each message are asked about; the session is its beginner's."""

    async def main():
        async with site(server(), authenticate=Hook(0.005), legacy_sse=True) as place:
            peer = await place.connect()
            assert (await peer.ask(place.request("GET", "/sse"))).status == 401
            stream = await place.connect()
            stream.send(place.request("GET", "/sse", **ANN))
            assert (await stream.head())[0] == 200
            where = (await stream.chunk()).decode().split("data: ")[1].strip()
            body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
            assert (await peer.ask(place.request(target=where, body=body))).status == 401
            assert (await peer.ask(place.request(target=where, body=body, **BOB))).status == 404
            assert (await peer.ask(place.request(target=where, body=body, **ANN))).status == 202
            assert json.loads((await stream.chunk()).decode().split("data: ")[1])["id"] == 1

    run(main)


def test_cors_preflights_are_not_asked_and_refusals_can_be_read(run):
    """SE-12: a preflight has no credentials; a page may read the challenge of a 401."""

    async def main():
        hook = Hook(0.005)
        async with site(server(), authenticate=hook, cors_origins=["https://app.example"]) as place:
            peer = await place.connect()
            origin = {"origin": "https://app.example"}
            answer = await peer.ask(place.request("OPTIONS", access_control_request_method="POST", **origin))
            assert answer.status == 204 and not hook.seen
            answer = await peer.ask(place.call("echo", {"text": "x"}, **origin))
            assert answer.status == 401 and answer.get("access-control-allow-origin") == "https://app.example"
            assert "WWW-Authenticate" in answer.get("access-control-expose-headers")
            answer = await peer.ask(place.call("echo", {"text": "x"}, **origin, **ANN))
            assert answer.status == 200 and answer.get("access-control-allow-origin") == "https://app.example"
            assert (await peer.ask(place.request("PUT", content_length="0", **ANN))).status == 405
            assert (await peer.ask(place.call("echo", {"text": "x"}, origin="https://evil.example"))).status == 403
            assert len(hook.seen) == 2

    run(main)


def test_pipelined_requests_stay_in_order(run):
    """Requests behind one that waits are stored, and each is asked about in its turn."""

    async def main():
        hook = Hook(0.005)
        async with site(server(), authenticate=hook) as place:
            peer = await place.connect()
            data = b"".join(
                place.call("who", id=i, authorization=f"p{i}") if i % 3 else place.call("echo", {"text": "-"}, id=i)
                for i in range(12)
            )
            for at in range(0, len(data), 700):
                peer.send(data[at : at + 700])
                await asyncio.sleep(0.002)
            for i in range(12):
                answer = await peer.answer()
                assert answer.status == (200 if i % 3 else 401)
                if i % 3:
                    assert text(answer) == f"p{i} p{i}"
            assert len(hook.seen) == 12

    run(main)


@pytest.mark.parametrize("size", [10, 60_000, 600_000])
@pytest.mark.parametrize("chunked", [False, True], ids=["length", "chunked"])
def test_bodies_that_come_while_it_waits(run, size, chunked):
    """Reading pauses, nothing is lost."""

    async def main():
        async with site(server(), authenticate=Hook(0.02)) as place:
            peer = await place.connect()
            for _ in range(2):
                data = place.call("echo", {"text": "y" * size}, **ANN)
                if chunked:
                    head, _, body = data.partition(b"\r\n\r\n")
                    lines = [x for x in head.split(b"\r\n") if not x.lower().startswith(b"content-length")]
                    pieces = [body[i : i + 5000] for i in range(0, len(body), 5000)]
                    data = b"\r\n".join([*lines, b"transfer-encoding: chunked"]) + b"\r\n\r\n"
                    data += b"".join(b"%x\r\n%s\r\n" % (len(x), x) for x in pieces) + b"0\r\n\r\n"
                answer = await peer.ask(data)
                assert len(text(answer)) == size

    run(main)


def test_b51_continue_is_said_to_those_admitted(run):
    """B51: 100 Continue comes when the request was admitted; a refusal instead of it ends the connection."""

    async def main():
        hook = Hook(0.02)
        async with site(server(), authenticate=hook) as place:
            peer = await place.connect()
            data = place.call("echo", {"text": "z"}, expect="100-continue", **ANN)
            head, _, body = data.partition(b"\r\n\r\n")
            peer.send(head + b"\r\n\r\n")
            assert (await peer.answer()).status == 100
            assert text(await peer.ask(body)) == "z"
            data = place.call("echo", {"text": "z"}, expect="100-continue")
            answer = await peer.ask(data.partition(b"\r\n\r\n")[0] + b"\r\n\r\n")
            assert answer.status == 401 and answer.get("connection") == "close"
            assert await peer.ended()

    run(main)


def test_a_disconnect_cancels_it(run):
    """HN-50: for a request of the modern era the hook is cancelled when its client goes, reset or not."""

    async def main():
        hook = Hook()
        hook.gate = asyncio.Event()
        async with site(server(), authenticate=hook) as place:
            for end in ("reset", "close", "eof"):
                peer = await place.connect()
                peer.send(place.call("echo", {"text": "x"}, **ANN))
                before = hook.cancelled
                await place.settled(lambda want=before + 1: len(hook.seen) == want)
                if end == "eof":
                    peer.writer.write_eof()
                else:
                    getattr(peer, end)()
                await place.settled(lambda want=before + 1: hook.cancelled == want)
            await place.settled(lambda: place.listener.connections == 0)
            assert (len(hook.seen), hook.cancelled) == (3, 3)

    run(main)


def test_ho08_half_closed_in_the_handshake_era(run):
    """HO-08: a whole request of the handshake era is answered though its client has ended its side."""

    async def main():
        hook = Hook(0.05)
        async with site(server(), authenticate=hook) as place:
            peer = await place.connect()
            sid = (await peer.ask(place.initialize(**ANN))).get("mcp-session-id")
            peer.send(place.legacy_call(sid, "who", **ANN))
            await place.settled(lambda: len(hook.seen) == 2)
            peer.writer.write_eof()
            assert text(await peer.answer()) == "ann ann"
            assert await peer.ended()
            # ... and one that will never be whole ends with its connection.
            peer = await place.connect()
            peer.send(place.legacy_call(sid, "who", **ANN)[:-5])
            await place.settled(lambda: len(hook.seen) == 3)
            peer.writer.write_eof()
            assert await peer.ended()

    run(main)


def test_time_limits_of_the_peer_do_not_run_while_it_waits(run):
    """B52: the peer is not to blame; its body's time begins when the request is admitted."""

    async def main():
        limits = tiny(body_timeout=0.15, header_timeout=0.15, keep_alive_timeout=0.15)
        hook = Hook(0.6)
        async with site(server(limits), authenticate=hook) as place:
            peer = await place.connect()
            data = place.call("who", **ANN)
            peer.send(data[:-5])
            await asyncio.sleep(0.65)
            answer = await peer.ask(data[-5:])
            assert text(answer) == "ann ann"
            hook.delay = 0.02
            peer = await place.connect()
            peer.send(data[:-5])
            assert (await peer.answer()).status == 408
            assert await peer.ended()

    run(main)


@pytest.mark.parametrize("slow", [False, True], ids=["drains", "gives-up"])
def test_closing_while_it_waits(run, slow):
    """A hook that ends within the drain time lets its request be served; another is cancelled, with 503."""

    async def main():
        hook = Hook(0.1)
        if slow:
            hook.gate = asyncio.Event()
        async with site(server(tiny(drain_timeout=0.3 if slow else 2.0)), authenticate=hook) as place:
            peer = await place.connect()
            peer.send(place.call("who", **ANN))
            await place.settled(lambda: len(hook.seen) == 1)
            closing = asyncio.ensure_future(place.listener.close())
            answer = await peer.answer()
            assert answer.status == (503 if slow else 200) and answer.get("connection") == "close"
            assert await peer.ended()
            peer.close()
            await closing
            assert hook.cancelled == slow

    run(main)


def test_large_answers_in_front_of_a_body_in_pieces(run):
    """4.8: input that was stored because output was full goes on when it has left, in the middle of a body too."""

    async def main():
        from headrace.limits import Limits

        async with site(server(Limits(max_output_bytes=100_000, body_timeout=3.0))) as place:
            peer = await place.connect()
            peer.writer.transport.set_write_buffer_limits(high=1 << 24)
            last = place.call("echo", {"text": "q" * 40_000}, id=9)
            peer.send(place.call("big", {"n": 6_000_000}, id=1) + last[:1000])
            await asyncio.sleep(0.1)
            peer.send(last[1000:])
            await asyncio.sleep(0.1)
            assert len(text(await peer.answer())) == 6_000_000
            assert len(text(await peer.answer())) == 40_000

    run(main)


def test_both_ways_of_saying_who_exclude_each_other():
    async def hook(request):
        return None

    with pytest.raises(UsageError, match="exclude"):
        check_options({"authenticate": hook, "principal_of": lambda fields: None})
    check_options({"authenticate": hook, "principal_of": None})


def test_the_session_of_a_principal_is_not_cached_for_another(run):
    """HO-34: two principals take turns on one connection, as behind a proxy."""

    async def main():
        async with site(server(), authenticate=Hook()) as place:
            peer = await place.connect()
            sids = {}
            for who in ("ann", "bob"):
                sids[who] = (await peer.ask(place.initialize(authorization=who))).get("mcp-session-id")
            for _ in range(3):
                for who, sid in sids.items():
                    answer = await peer.ask(place.legacy_call(sid, "who", authorization=who))
                    assert text(answer) == f"{who} {who}"
                    other = await peer.ask(place.legacy_call(sid, "who", authorization="eve"))
                    assert other.status == 404

    run(main)
