"""A server as an ASGI application: lifespans, clients that go away, slow hosts, timers, and hosts that misbehave."""

import asyncio
import contextlib
import gc
import json
import logging
import signal
import weakref

import pytest
from asgi_support import (
    HELLO,
    LOCAL,
    Call,
    Life,
    ask,
    get,
    handshake,
    living,
    modern,
    open_session,
    post,
    scope_of,
)
from http_support import events_of, make_server, tiny
from test_asgi_app import call_of, nothing_left, served, text_of

from headrace import Context, Server
from headrace.transports.asgi import asgi_scope
from headrace.transports.plain import McpHost


async def settled(check, timeout=5.0):
    """Waits until `check()` is true; fails otherwise."""
    for _ in range(int(timeout / 0.01)):
        if check():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that in time")


def server_with_life(steps, fail=None):
    @contextlib.asynccontextmanager
    async def life(server):
        if fail == "start" and steps.count("start") < 1:
            steps.append("start")
            raise RuntimeError("no database")
        steps.append("start")
        yield "state"
        steps.append("end")
        if fail == "end":
            raise RuntimeError("lost the database")

    server = Server("life", version="1", lifespan=life)
    server.log = logging.getLogger("headrace.test")

    @server.tool
    async def state(ctx: Context) -> str:
        return ctx.lifespan

    return server


# --- lifespan ---------------------------------------------------------------------------------------------


def test_b98_lifespan_is_entered_once(run):
    steps = []
    app = server_with_life(steps).asgi()

    async def main():
        life = Life(app)
        assert steps == []
        assert await life.step("startup") == {"type": "lifespan.startup.complete"}
        assert steps == ["start"]
        for _ in range(3):
            assert text_of(await post(app, *call_of("state")).over()) == "state"
        assert await life.step("shutdown") == {"type": "lifespan.shutdown.complete"}
        assert steps == ["start", "end"]
        await asyncio.wait_for(life.task, 5)
        # The host is done: nothing starts again by itself.
        assert (await post(app, *call_of("state")).over()).status == 503
        async with living(app):
            assert text_of(await post(app, *call_of("state")).over()) == "state"

    run(main)
    assert steps == ["start", "end"] * 2


def test_lifespan_that_fails(run, caplog):
    app = server_with_life([], "start").asgi()

    async def main():
        life = Life(app)
        answer = await life.step("startup")
        assert answer == {"type": "lifespan.startup.failed", "message": "RuntimeError: no database"}
        await asyncio.wait_for(life.task, 5)

    run(main)
    assert "no database" in caplog.text
    caplog.clear()


def test_lifespan_that_fails_at_the_end(run, caplog):
    app = server_with_life([], "end").asgi()

    async def main():
        life = Life(app)
        await life.step("startup")
        assert (await life.step("shutdown"))["type"] == "lifespan.shutdown.failed"
        await asyncio.wait_for(life.task, 5)

    run(main)
    assert "lost the database" in caplog.text
    caplog.clear()


def test_host_that_is_cancelled_in_its_lifespan(run):
    steps = []
    app = server_with_life(steps).asgi()

    async def main():
        life = Life(app)
        await life.step("startup")
        life.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await life.task
        assert steps == ["start", "end"]

    run(main)


def test_without_lifespan_events_the_first_request_starts(run, caplog):
    """The server says so, once; it stops with the loop, and starts again on another one (test clients)."""
    steps = []
    app = server_with_life(steps).asgi()

    async def main():
        calls = [post(app, *call_of("state")) for _ in range(5)]
        for call in calls:
            assert text_of(await call.over()) == "state"
        assert steps[-1] == "start"

    run(main)
    assert steps == ["start", "end"]
    run(main)
    assert steps == ["start", "end"] * 2
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "starts with its first request" in caplog.text
    caplog.clear()


def test_loop_that_just_ends(run):
    """Nobody cancelled its tasks: the next loop finds a server that can be started."""
    server = make_server()
    app = server.asgi()
    loop = asyncio.new_event_loop()

    async def main():
        assert (await ask(app, "tools/list")).status == 200

    loop.run_until_complete(main())
    keeper = app._keeper
    keeper._log_destroy_pending = False
    loop.close()
    run(main)


def test_first_request_that_cannot_start(run, caplog):
    steps = []
    app = server_with_life(steps, "start").asgi()

    async def main():
        answer = await post(app, *call_of("state")).over()
        assert answer.status == 503 and answer.get("retry-after") == "1"
        assert answer.json["error"]["message"] == "the server could not be started"
        # The next one tries again.
        assert text_of(await post(app, *call_of("state")).over()) == "state"

    run(main)
    assert "no database" in caplog.text
    caplog.clear()


def test_what_the_first_request_brought_is_not_the_server_s(run, caplog):
    seen = []

    @contextlib.asynccontextmanager
    async def life(server):
        seen.append(asgi_scope())
        yield

    server = Server("s", version="1", lifespan=life)
    app = server.asgi()

    async def main():
        scope = scope_of("POST", "/mcp", modern("tools/list")[0])
        kept = weakref.ref(state := type("State", (), {})())
        scope["state"]["kept"] = state
        call = Call(app, scope)
        call.tell(modern("tools/list")[1])
        assert (await call.start().over()).status == 200
        del scope, state, call
        await asyncio.sleep(0.05)
        gc.collect()
        assert kept() is None

    run(main)
    assert seen == [None]
    caplog.clear()


def test_lifespan_inside_that_of_a_host(run):
    """What is mounted gets no events: its lifespan is entered in the host's."""
    steps = []
    app = server_with_life(steps).asgi()

    async def main():
        async with app.lifespan(object()):
            assert steps == ["start"]
            async with app.lifespan():
                assert text_of(await post(app, *call_of("state")).over()) == "state"
            assert text_of(await post(app, *call_of("state")).over()) == "state"
        assert steps == ["start", "end"]

    run(main)


def test_requests_in_flight_are_answered_at_the_end(run):
    server = make_server(tiny(drain_timeout=3))
    app = server.asgi()

    async def main():
        async with living(app):
            call = post(app, *call_of("sleep", {"ms": 200}))
            await settled(lambda: server.seen.started)
        assert text_of(await call.over()) == "slept"

    run(main)


def test_requests_that_do_not_end_are_cancelled(run):
    server = make_server(tiny(drain_timeout=0.2))
    app = server.asgi()

    async def main():
        async with living(app):
            listener = app._listener
            call = post(app, *call_of("sleep", {"ms": 20_000}))
            await settled(lambda: server.seen.started)
        assert (await call.over()).status == 503
        assert server.seen.cancelled == 1
        nothing_left(app, listener)

    run(main)


def test_streams_end_when_uvicorn_begins_to_leave(run):
    """It waits for its connections before it says that the lifespan is over; streams would keep it for ever."""

    class Leaving:
        should_exit = False

        def handle(self, signum, frame):
            self.should_exit = True

    leaving = Leaving()

    async def body(app):
        session = await open_session(app)
        stream = get(app, session)
        await stream.until(lambda call: len(call.sent) > 1)
        before = signal.signal(signal.SIGTERM, leaving.handle)
        try:
            leaving.handle(signal.SIGTERM, None)
            await stream.over()
        finally:
            signal.signal(signal.SIGTERM, before)
        assert stream.whole
        answer = await ask(app, "tools/list")
        assert answer.status == 503 and answer.json["error"]["message"] == "the server is shutting down"

    served(run, body, limits=tiny(linger_timeout=0.2))


# --- clients that go away ---------------------------------------------------------------------------------


def test_disconnect_cancels_in_the_modern_era(run):
    """HN-50."""

    async def body(app):
        seen = app.server.seen
        call = post(app, *call_of("sleep", {"ms": 20_000}))
        await settled(lambda: seen.started)
        call.disconnect()
        await asyncio.wait_for(call.task, 5)
        assert seen.cancelled == 1
        assert call.answer.status == 499  # for middleware that takes no answer for a fault

    served(run, body)


def test_disconnect_does_not_cancel_in_the_handshake_era(run):
    """HO-08."""

    async def body(app):
        seen = app.server.seen
        session = await open_session(app)
        params = {"name": "sleep", "arguments": {"ms": 300}}
        call = post(app, *handshake("tools/call", params, session=session))
        await settled(lambda: seen.started)
        call.disconnect()
        await asyncio.wait_for(call.task, 5)
        await settled(lambda: seen.finished)
        assert seen.cancelled == 0

    served(run, body)


def test_host_that_cancels_its_call(run):
    """As a disconnect: some hosts and middleware cancel instead of saying so."""

    async def body(app):
        seen = app.server.seen
        call = post(app, *call_of("sleep", {"ms": 20_000}))
        await settled(lambda: seen.started)
        call.task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call.task
        await settled(lambda: seen.cancelled)
        assert (await post(app, *call_of("echo", {"text": "a"})).over()).status == 200

    served(run, body)


@pytest.mark.parametrize("told", [0, 10])
def test_disconnect_in_the_middle_of_a_body(run, told):
    async def body(app):
        headers, data = call_of("sleep", {"ms": 10})
        call = Call(app, scope_of("POST", "/mcp", headers)).start()
        if told:
            call.tell(data[:told], True)
        await asyncio.sleep(0.01)
        call.disconnect()
        await asyncio.wait_for(call.task, 5)
        assert call.answer.status == 499 and app.server.seen.started == 0
        assert app._listener.endpoint.buffered_bytes == 0 and app._listener.connections == 0

    served(run, body)


def test_stream_whose_client_went_away(run):
    async def body(app):
        session = await open_session(app)
        stream = get(app, session)
        await stream.until(lambda call: len(call.sent) > 1)
        stream.disconnect()
        await asyncio.wait_for(stream.task, 5)
        # Hosts may take half an answer for a fault, even where nobody reads it.
        assert stream.whole and app._listener.connections == 0

    served(run, body)


@pytest.mark.parametrize("error", [BrokenPipeError(), OSError("gone")])
def test_send_that_says_the_client_is_gone(run, error):
    """ASGI 2.4: an OSError of `send` is a disconnect."""

    async def body(app):
        seen = app.server.seen
        headers, data = modern("tools/call", {"name": "progress", "arguments": {"n": 1000, "gap_ms": 20}})
        data = json.loads(data)
        data["params"]["_meta"]["progressToken"] = 1
        data = json.dumps(data).encode()
        headers = [field for field in headers if field[0] != b"content-length"]

        async def send(message):
            raise error

        call = Call(app, scope_of("POST", "/mcp", headers))
        call.send = send
        call.tell(data)
        call.start()
        await asyncio.wait_for(call.task, 5)
        await settled(lambda: seen.cancelled)
        assert call.sent == [] and app._listener.connections == 0

    served(run, body)


def test_send_that_fails(run):
    """Other errors are the host's, and it gets them back."""

    async def body(app):
        async def send(message):
            raise ZeroDivisionError

        headers, data = call_of("echo", {"text": "a"})
        call = Call(app, scope_of("POST", "/mcp", headers))
        call.send = send
        call.tell(data)
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(call.start().task, 5)
        assert text_of(await post(app, headers, data).over()) == "a"

    served(run, body)


# --- slow hosts and silent clients --------------------------------------------------------------------------


def progress(n, text="", **changes):
    headers, data = modern("tools/call", {"name": "progress", "arguments": {"n": n, "text": text, **changes}})
    message = json.loads(data)
    message["params"]["_meta"]["progressToken"] = 1
    return [field for field in headers if field[0] != b"content-length"], json.dumps(message).encode()


def test_slow_consumer_bounds_memory(run):
    """Awaited notifications wait while the host does not take what there is."""

    async def body(app):
        call = post(app, *progress(400, "x" * 10_000))
        call.may_send.clear()
        link = None
        for _ in range(20):
            await asyncio.sleep(0.01)
            link = max(app._listener.endpoint.links, key=lambda link: link.unsent_bytes)
        assert 0 < link.unsent_bytes < 200_000
        assert app.server.seen.finished == 0
        call.may_send.set()
        answer = await call.over(20)
        assert len(events_of(answer.body)) == 401

    served(run, body, limits=tiny(max_output_bytes=50_000))


def test_b112_host_that_takes_nothing(run):
    """write_timeout: the answer is given up, and what it was for is cancelled."""

    async def body(app):
        seen = app.server.seen
        call = post(app, *progress(400, "x" * 10_000))
        call.may_send.clear()
        await asyncio.wait_for(call.task, 10)
        assert seen.cancelled == 1 and not call.whole

    served(run, body, limits=tiny(max_output_bytes=50_000, write_timeout=0.3))


def test_host_that_takes_little_is_no_host_that_takes_nothing(run):
    """Twice write_timeout and more with something always waiting: as long as it is taken, the stream lives."""

    async def body(app):
        headers, data = progress(60, "x" * 2_000, gap_ms=20)
        call = Call(app, scope_of("POST", "/mcp", headers))
        call.tell(data)
        inner = call.send

        async def send(message):
            await asyncio.sleep(0.1)
            await inner(message)

        call.send = send
        answer = await call.start().over(20)
        assert len(events_of(answer.body)) == 61

    served(run, body, limits=tiny(write_timeout=0.4))


@pytest.mark.parametrize("length", [True, False])
def test_body_that_never_comes(run, length):
    """B48: a body is waited for as long as on a socket."""

    async def body(app):
        headers, data = call_of("echo", {"text": "a"})
        if not length:
            headers = [field for field in headers if field[0] != b"content-length"]
        call = Call(app, scope_of("POST", "/mcp", headers))
        call.tell(data[:5], True)
        answer = await call.start().over()
        assert answer.status == 408
        assert call.task.cancelling() == 0

    served(run, body, limits=tiny(body_timeout=0.2))


def test_silent_streams_get_comments(run):
    """B39: the timers run here too."""

    async def body(app):
        session = await open_session(app)
        stream = get(app, session)
        await stream.until(lambda call: call.body.count(b":\n\n") >= 3)
        stream.disconnect()
        await asyncio.wait_for(stream.task, 5)
        assert b"data: {" not in stream.body and stream.whole

    served(run, body, limits=tiny(sse_keep_alive=0.1))


def test_kept_connections_end_after_a_while(run):
    async def body(app):
        calls = [post(app, *call_of("sleep", {"ms": 20})) for _ in range(10)]
        for call in calls:
            await call.over()
        listener = app._listener
        assert listener.connections == len(app._links) == 10
        await settled(lambda: listener.connections == 0)
        assert app._links == []
        await settled(lambda: listener._timer is None)
        assert text_of(await post(app, *call_of("echo", {"text": "again"})).over()) == "again"

    served(run, body, limits=tiny(keep_alive_timeout=0.2))


def test_sessions_end_after_a_while(run):
    """B47."""

    async def body(app):
        await open_session(app)
        assert app._listener.sessions == 1
        await settled(lambda: app._listener.sessions == 0)

    served(run, body, limits=tiny(session_idle_timeout=0.2))


def test_request_that_is_answered_at_once_asks_the_host_once(run):
    """Whether the client is there is asked only for requests that take longer."""

    async def body(app):
        call = post(app, *call_of("echo", {"text": "a"}))
        await call.over()
        assert call.asked == 1
        call = post(app, *call_of("sleep", {"ms": 200}))
        await call.over()
        assert call.asked == 2

    served(run, body)


# --- hosts that misbehave -------------------------------------------------------------------------------


EVIL = b"a\r\nmcp-session-id: stolen"


@pytest.mark.parametrize(
    "change",
    [
        {"headers": [(b"x-a", EVIL)]},
        {"headers": [(b"x-a", b"a\nb: c")]},
        {"headers": [(b"x-a", b"a\0b")]},
        {"headers": [(b"x-a", b"a\r")]},
        {"headers": [(EVIL, b"a")]},
        {"headers": [(b"host: a", b"b")]},
        {"headers": [(b"x a", b"b")]},
        {"headers": [(b"", b"b")]},
        {"headers": [("x-a", "b")]},
        {"headers": [(b"x-a",)]},
        {"headers": [None]},
        {"headers": 7},
        {"headers": [(b"host", b"127.0.0.1"), (b"content-length", b"-5")]},
        {"headers": [(b"host", b"127.0.0.1"), (b"content-length", b"5"), (b"content-length", b"6")]},
        {"headers": [(b"host", b"127.0.0.1"), (b"host", b"localhost")]},
        {"method": "POST / HTTP/1.1\r\nhost: a\r\n\r\nGET"},
        {"method": "PO ST"},
        {"method": ""},
        {"method": "P\xd6ST"},
        {"method": None},
        {"query_string": b"a b"},
        {"query_string": b"a\r\nb: c"},
        {"query_string": b"\x7f"},
        {"query_string": "text"},
    ],
)
def test_b54_scope_that_no_request_can_have(run, change):
    """Nothing of a scope becomes a header line or a request of its own."""
    seen = []

    async def body(app):
        call = Call(app, scope_of("POST") | change)
        call.tell(b"{}")
        answer = await call.start().over()
        assert answer.status == 400, answer
        assert answer.code == -32600

    served(run, body, principal_of=seen.append)
    assert seen == []


@pytest.mark.parametrize(
    ("declared", "pieces"),
    [
        (10, [(b"x" * 11, False)]),
        (10, [(b"x" * 5, True), (b"x" * 6, True)]),
        (10, [(b"x" * 9, False)]),
        (10, [(b"x" * 5, True), (b"", False)]),
        (2, [(b"{}POST /mcp HTTP/1.1\r\nhost: localhost\r\n\r\n", False)]),
        (10, [("text", False)]),
        (10, [(None, False)]),
    ],
)
def test_b50_body_of_another_length(run, declared, pieces):
    async def body(app):
        headers = [(name, value) for name, value in modern("tools/list")[0] if name != b"content-length"]
        call = Call(app, scope_of("POST", "/mcp", [*headers, (b"content-length", b"%d" % declared)]))
        for piece, more in pieces:
            call.tell(piece, more)
        assert (await call.start().over()).status == 400
        assert app._listener.connections == 0

    served(run, body)


def test_chunks_cannot_be_written_by_the_client(run):
    """What looks like the end of a chunked body is a part of it."""

    async def body(app):
        headers = [(name, value) for name, value in modern("tools/list")[0] if name != b"content-length"]
        call = Call(app, scope_of("POST", "/mcp", headers))
        for piece in (b"0\r\n\r\n", b"POST /mcp HTTP/1.1\r\n\r\n"):
            call.tell(piece, True)
        call.tell(b"")
        answer = await call.start().over()
        assert answer.status == 400 and answer.code == -32700

    served(run, body)


def test_unknown_messages_and_scopes(run):
    async def body(app):
        call = Call(app, scope_of("POST", "/mcp", modern("tools/list")[0]), {"type": "websocket.receive"})
        with pytest.raises(RuntimeError, match=r"websocket\.receive"):
            await call.start().task
        with pytest.raises(ValueError, match="'x'"):
            await app({"type": "x"}, None, None)
        call = Call(app, {"type": "websocket"}, {"type": "websocket.connect"})
        await call.start().task
        assert call.sent[0]["type"] == "websocket.close"
        assert (await ask(app, "tools/list")).status == 200

    served(run, body)


@pytest.mark.parametrize("more", [True, False])
def test_host_that_never_waits(run, more):
    """Its `receive` returns at once, always: it is asked a bounded number of times."""

    async def body(app):
        call = Call(app, scope_of("POST", "/mcp", (request := call_of("sleep", {"ms": 300}))[0]))
        call.tell(request[1])
        inner = call.receive

        async def receive():
            if call.asked == 0:
                return await inner()
            call.asked += 1
            return {"type": "http.request", "body": b"", "more_body": more}

        call.receive = receive
        assert text_of(await call.start().over()) == "slept"
        assert call.asked < 100

    served(run, body)


def test_host_that_swallows_cancellation(run):
    """Its `receive` answers a cancel with a message: the request goes on, and is not cancelled later."""

    async def body(app):
        headers, data = call_of("echo", {"text": "a"})
        call = Call(app, scope_of("POST", "/mcp", headers))

        async def receive():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(10)
            return {"type": "http.request", "body": data[:5], "more_body": True}

        call.receive = receive
        assert (await call.start().over()).status == 408
        assert call.task.cancelling() == 0

    served(run, body, limits=tiny(body_timeout=0.2))


def test_old_and_other_hosts(run):
    """HTTP/1.0 without Host, HTTP/2 without Content-Length, optional keys left out."""

    async def body(app):
        headers, data = modern("tools/list")
        scope = scope_of("POST", "/mcp", headers, server=("10.0.0.1", 80))
        scope["headers"] = [field for field in scope["headers"] if field[0] != b"host"]
        for key in ("root_path", "query_string", "client", "server", "state", "raw_path", "scheme"):
            del scope[key]
        call = Call(app, scope | {"http_version": "1.0"})
        call.inbox.put_nowait({"type": "http.request", "body": data})
        assert (await call.start().over()).status == 200
        headers = [field for field in headers if field[0] != b"content-length"]
        assert (await post(app, headers, data, http_version="2").over()).status == 200

    served(run, body)


def test_server_that_starts_on_one_loop_is_not_served_on_another(caplog):
    server = make_server()
    app = server.asgi()
    other = asyncio.new_event_loop()

    async def main():
        async with living(app):
            await asyncio.get_running_loop().run_in_executor(None, elsewhere)

    def elsewhere():
        async def asked():
            assert (await ask(app, "tools/list")).status == 503

        other.run_until_complete(asked())
        other.close()

    asyncio.run(main())
    assert "another event loop" in caplog.text
    caplog.clear()


def test_mcp_host_restarts_too(run, caplog):
    async def handler(method, params, exchange):
        return {}

    app = McpHost(handler).asgi()

    async def main():
        answer = await post(app, *handshake("initialize", HELLO), server=LOCAL).over()
        assert answer.status in (200, 500)
        assert (await ask(app, "x/y")).status == 200

    run(main)
    run(main)
    caplog.clear()
