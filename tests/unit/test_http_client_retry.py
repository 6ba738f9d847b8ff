"""The HTTP client channel: stale connections and repeats, cancelling, time limits, redirects."""

import asyncio
import json
import os
import socket

import pytest
from http_peer import END, ClientGate, call, connected, event, log, plain, result_event, sse_head
from http_peer import answer as answered

from headrace.errors import ConnectionClosed, HttpStatusError, RequestTimeout, UsageError
from headrace.limits import Limits
from headrace.mux import Mux
from headrace.transports.http_client import HttpChannel, parse_url
from headrace.transports.runtime import make_runtime


async def until(condition, seconds=5.0):
    """Waits for `condition()`, bounded."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def end_of_stream(conn, how=socket.SHUT_RDWR):
    """The server's FIN, on the wire when this returns: the client's loop has not seen it yet."""
    sock = socket.socket(fileno=os.dup(conn.writer.get_extra_info("socket").fileno()))
    try:
        sock.shutdown(how)
    finally:
        sock.close()


# ---------------------------------------------------------------- repeats


def test_stale_connection_never_gets_the_request(run):
    """The end waits on the socket when the call is made: it goes to a new connection, unsent before."""
    seen = []
    conns = []

    async def handler(conn):
        conns.append(conn)
        while (request := await conn.request()) is not None:
            seen.append((conn.number, request.id))
            conn.send(answered(request))

    async def main():
        async with connected(handler) as (peer, mux, channel):
            await call(mux, channel).future
            end_of_stream(conns[0])
            assert json.loads(await call(mux, channel).future) == {"ok": True}
            assert seen == [(1, 1), (2, 2)] and peer.conns == 2

    run(main)


def test_bytes_on_an_idle_connection_close_it(run):
    """A 408 before the close, or garbage, is no answer to the next request."""
    conns = []

    async def handler(conn):
        conns.append(conn)
        while (request := await conn.request()) is not None:
            conn.send(answered(request))
            if conn.number == 1:
                conn.send(b"" if request.id == 1 else b"x")

    async def main():
        async with connected(handler) as (peer, mux, channel):
            await call(mux, channel).future
            os.write(conns[0].writer.get_extra_info("socket").fileno(), plain("408 Request Timeout"))
            await call(mux, channel).future      # found before the write
            assert peer.conns == 2
            os.write(conns[1].writer.get_extra_info("socket").fileno(), plain("408 Request Timeout"))
            await until(lambda: channel.pool.counts["connections"] == 0)

    run(main)


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize(("method", "repeated"), [
    ("tools/call", False), ("resources/read", False), ("tools/list", True), ("ping", True),
    ("server/discover", True), ("initialize", True),
])  # fmt: skip
def test_request_that_raced_with_a_close(run, method, repeated, reset):
    """Read by the server and not answered: only what changes nothing is sent again, once."""
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append((conn.number, request.id))
            if conn.number == 1 and request.id == 2:
                if reset:
                    conn.reset()
                return
            conn.send(answered(request))

    async def main():
        async with connected(handler) as (_, mux, channel):
            await call(mux, channel).future
            second = call(mux, channel, method)
            if repeated:
                assert json.loads(await second.future) == {"ok": True}
                assert seen == [(1, 1), (1, 2), (2, 2)]
            else:
                with pytest.raises(ConnectionClosed) as caught:
                    await second.future
                assert method in str(caught.value) and seen == [(1, 1), (1, 2)]

    run(main)


@pytest.mark.parametrize("method", ["ping", "tools/call"])
def test_new_connection_that_is_closed_is_not_repeated(run, method):
    seen = []

    async def handler(conn):
        if (request := await conn.request()) is not None:
            seen.append(request.id)

    async def main():
        async with connected(handler) as (_, mux, channel):
            with pytest.raises(ConnectionClosed):
                await call(mux, channel, method).future
            assert seen == [1]

    run(main)


def test_repeated_once_only(run):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request.id)
            if request.id == 2:
                return
            conn.send(answered(request))

    async def main():
        async with connected(handler) as (_, mux, channel):
            await call(mux, channel).future
            with pytest.raises(ConnectionClosed):
                await call(mux, channel, "ping").future
            assert seen == [1, 2, 2]

    run(main)


def test_one_byte_of_an_answer_forbids_the_repeat(run):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request.id)
            if request.id == 2:
                conn.send(b"H")
                return
            conn.send(answered(request))

    async def main():
        async with connected(handler) as (_, mux, channel):
            await call(mux, channel).future
            with pytest.raises(ConnectionClosed):
                await call(mux, channel, "ping").future
            assert seen == [1, 2]

    run(main)


def test_keep_alive_header_bounds_the_idle_time(run):
    async def handler(conn):
        while (request := await conn.request()) is not None:
            conn.send(answered(request, Keep_Alive="timeout=1, max=100"))

    async def main():
        async with connected(handler) as (_, mux, channel):
            await call(mux, channel).future
            assert channel.pool.counts["idle"] == 1
            await until(lambda: channel.pool.counts["connections"] == 0)

    run(main)


# ---------------------------------------------------------------- cancelling and time limits


@pytest.mark.parametrize("how", ["cancel", "timeout"])
@pytest.mark.parametrize("begun", [False, True])
def test_hn51_era_m_closes_the_connection(run, how, begun):
    """No notification; the server sees the end of that connection only (HN-50, B75)."""
    seen, ends = [], []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request)
            if request.body["method"] == "ping":
                conn.send(answered(request))
                continue
            if begun:
                conn.send(sse_head() + event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}))
            ends.append(await conn.ended())
            return

    async def main():
        async with connected(handler) as (_, mux, channel):
            calls = [call(mux, channel, timeout=1.5 if how == "timeout" else 0) for _ in range(20)]
            await until(lambda: len(seen) == 20)
            if how == "cancel":
                for each in calls:
                    each.cancel("enough")
            for each in calls:
                with pytest.raises(RequestTimeout if how == "timeout" else asyncio.CancelledError):
                    await each.future
            await until(lambda: len(ends) == 20)
            assert all(ends) and mux.debug_counts()["pending"] == 0
            assert channel.pool.counts["connections"] == 0
            await call(mux, channel, "ping").future
            assert {r.body["method"] for r in seen} == {"tools/call", "ping"}

    run(main)


@pytest.mark.parametrize("how", ["cancel", "timeout"])
def test_b75_era_h_posts_cancelled(run, how):
    """The right ids, the connection is read on and used again; a late answer does no harm."""
    started, cancelled = [], []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.body["method"] == "notifications/cancelled":
                cancelled.append(request.body["params"])
                conn.send(plain("202 Accepted"))
            elif request.body["method"] == "tools/call":
                started.append(request.id)
                await until(lambda id=request.id: any(c["requestId"] == id for c in cancelled))
                conn.send(answered(request))
            else:
                conn.send(answered(request))

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            calls = [call(mux, channel, timeout=1.5 if how == "timeout" else 0) for _ in range(20)]
            await until(lambda: len(started) == 20)
            if how == "cancel":
                for each in calls:
                    each.cancel("enough")
            await asyncio.gather(*(each.future for each in calls), return_exceptions=True)
            await until(lambda: len(cancelled) == 20)
            assert sorted(c["requestId"] for c in cancelled) == sorted(started) == [c.id for c in calls]
            assert {c["reason"] for c in cancelled} == {"enough" if how == "cancel" else "timeout"}
            await until(lambda: channel.pool.counts["idle"] == channel.pool.counts["connections"])
            await call(mux, channel, "ping").future
            assert mux.debug_counts()["pending"] == 0 and mux.stray == 0

    run(main)


def test_vn06_initialize_is_never_cancelled_by_note(run):
    seen, ends = [], []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request.body["method"])
            ends.append(await conn.ended())
            return

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            channel.session_id = None
            called = call(mux, channel, "initialize")
            await until(lambda: seen)
            called.cancel()
            await until(lambda: ends)
            assert seen == ["initialize"] and ends == [True]

    run(main)


@pytest.mark.parametrize("modern", [False, True])
def test_cancel_of_a_call_that_waits_for_a_connection(run, modern):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request.body["method"])
            await asyncio.sleep(0.05)
            conn.send(answered(request))

    async def main():
        async with connected(handler, modern=modern, max_client_connections=1) as (_, mux, channel):
            first, second, third = (call(mux, channel) for _ in range(3))
            assert channel.pool.counts["waiting"] == 2
            second.cancel()
            assert channel.pool.counts["waiting"] == 1
            await first.future
            await third.future
            assert seen == ["tools/call"] * 2

    run(main)


def test_era_h_stream_that_never_ends_is_cut(run):
    """After a cancel, and after an answer: nobody reads for ever (Limits.drain_timeout)."""
    ends = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if "id" not in request.body:
                conn.send(plain("202 Accepted"))
                continue
            conn.send(sse_head() + (result_event(request) if request.body["params"] else b""))
            ends.append(await conn.ended())
            return

    async def main():
        async with connected(handler, modern=False, drain_timeout=0.05) as (_, mux, channel):
            cancelled = call(mux, channel)
            await asyncio.sleep(0.02)
            cancelled.cancel()
            await call(mux, channel, params=b'{"a":1}').future
            await until(lambda: len(ends) == 2)
            assert ends == [True, True]

    run(main)


@pytest.mark.parametrize("modern", [False, True])
def test_cancel_and_call_from_inside_a_progress_callback(run, modern):
    """The parser survives a call that is given up while its stream is being read."""

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.body["method"] == "ping":
                conn.send(answered(request))
            elif "id" not in request.body:
                conn.send(plain("202 Accepted"))
            else:
                params = {"progressToken": request.id, "progress": 1}
                note = event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
                conn.send(sse_head() + note * 3 + result_event(request) + END)

    async def main():
        async with connected(handler, modern=modern) as (_, mux, channel):
            steps, pings = [], []

            def step(done, total, text):
                steps.append(done)
                pings.append(call(mux, channel, "ping"))
                called.cancel()

            called = call(mux, channel, on_progress=step)
            with pytest.raises(asyncio.CancelledError):
                await called.future
            assert steps == [1]
            for each in pings:
                await each.future
            await call(mux, channel, "ping").future
            assert mux.debug_counts()["pending"] == 0

    run(main)


def test_b80_timeout_counts_from_progress(run):
    async def handler(conn):
        while (request := await conn.request()) is not None:
            conn.send(sse_head())
            for i in range(10):
                params = {"progressToken": request.id, "progress": i}
                conn.send(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                await asyncio.sleep(0.1)
            conn.send(result_event(request) + END)

    async def main():
        async with connected(handler) as (_, mux, channel):
            assert await call(mux, channel, timeout=0.6, extend=True).future
            with pytest.raises(RequestTimeout):
                await call(mux, channel, timeout=0.6, extend=True, latest=0.7).future

    run(main)


# ---------------------------------------------------------------- redirects


@pytest.mark.parametrize("status", ["307 Temporary Redirect", "308 Permanent Redirect"])
def test_b58_redirects_within_the_origin_are_followed_and_kept(run, status):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append((request.method, request.target, request.body["id"]))
            if request.target == "/mcp":
                conn.send(plain(status, b"moved", Location="/mcp/"))
            elif request.target == "/mcp/":
                conn.send(plain(status, b"", Location=f"http://{request.headers['host']}/v2/mcp?x=1"))
            else:
                conn.send(answered(request))

    async def main():
        async with connected(handler) as (peer, mux, channel):
            for _ in range(2):
                assert json.loads(await call(mux, channel).future) == {"ok": True}
            assert seen == [
                ("POST", "/mcp", 1), ("POST", "/mcp/", 1), ("POST", "/v2/mcp?x=1", 1), ("POST", "/v2/mcp?x=1", 2),
            ]  # fmt: skip
            assert peer.conns == 1

    run(main)


@pytest.mark.parametrize("location", ["http://127.0.0.1:1/mcp", "https://{host}/mcp", "http://localhost:{port}/mcp", "//evil.test/"])
def test_b58_redirects_elsewhere_are_refused(run, location):
    seen = []

    async def main():
        async def handler(conn):
            while (request := await conn.request()) is not None:
                seen.append(request.target)
                where = location.format(host=request.headers["host"], port=peer.port)
                conn.send(plain("307 Temporary Redirect", Location=where))

        async with connected(handler) as (peer, mux, channel):
            with pytest.raises(HttpStatusError) as caught:
                await call(mux, channel).future
            assert caught.value.status == 307 and caught.value.headers["location"]
            assert caught.value.headers["location"] in str(caught.value) and seen == ["/mcp"]

    run(main)


@pytest.mark.parametrize("status", ["301 Moved Permanently", "302 Found", "303 See Other"])
def test_b58_other_redirects_name_the_new_url(run, status):
    async def handler(conn):
        while await conn.request() is not None:
            conn.send(plain(status, Location="/new"))

    async def main():
        async with connected(handler) as (_, mux, channel):
            with pytest.raises(HttpStatusError, match="'/new'"):
                await call(mux, channel).future

    run(main)


def test_b58_redirect_loops_end(run):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request.target)
            conn.send(plain("307 Temporary Redirect", Location=request.target + "/x"))

    async def main():
        async with connected(handler) as (_, mux, channel):
            with pytest.raises(HttpStatusError, match="redirects"):
                await call(mux, channel).future
            assert len(seen) == 6

    run(main)


def test_b58_never_downgrades_the_scheme(run):
    async def main():
        bounds = Limits()
        mux = Mux(make_runtime(bounds, log), ClientGate(), bounds)
        channel = HttpChannel(parse_url("https://example.test/mcp"), mux, limits=bounds)
        with pytest.raises(UsageError):
            channel.locate("http://example.test/mcp")
        assert channel.locate("https://example.test:443/a") == b"/a"
        assert channel.locate("b") == b"/b"
        channel.abort()

    run(main)


def test_requests_leave_no_cycles(run):
    """Answered, cancelled, timed out and failed calls are freed by their reference counts alone."""
    import gc

    from headrace.transports._http_request import ClientCall

    async def handler(conn):
        while (request := await conn.request()) is not None:
            what = (request.body.get("params") or {}).get("k")
            if "id" not in request.body:
                conn.send(plain("202 Accepted"))
            elif what == "close":
                return
            elif what == "events":
                conn.send(sse_head() + result_event(request) + END)
            elif what == "error":
                conn.send(plain("500 Oops", b"x"))
            elif what != "wait":
                conn.send(answered(request))

    async def main():
        for modern in (True, False):
            async with connected(handler, modern=modern, drain_timeout=0.05) as (_, mux, channel):
                gc.collect()
                gc.disable()
                others = {id(x) for x in gc.get_objects() if type(x) is ClientCall}
                try:
                    for kind in ("plain", "events", "error", "close", "wait"):
                        body = json.dumps({"k": kind}).encode()
                        done = await asyncio.gather(
                            *(call(mux, channel, params=body, timeout=0.1).future for _ in range(10)),
                            return_exceptions=True,
                        )
                        assert len(done) == 10
                        del done
                    each = call(mux, channel, params=b'{"k":"wait"}')
                    each.cancel()
                    del each
                    await until(lambda: channel.pool.counts["idle"] == channel.pool.counts["connections"])

                    def left(others=others):
                        return [x for x in gc.get_objects() if type(x) is ClientCall and id(x) not in others]

                    await until(lambda: left() == [])
                    assert left() == []
                finally:
                    gc.enable()

    run(main)
