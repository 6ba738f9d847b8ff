"""The HTTP client channel: connecting, the pool, the server's stream, resuming, server requests, the end."""

import asyncio
import json
import logging
import socket
import ssl
import subprocess
from contextlib import suppress

import pytest
from http_peer import END, ClientGate, Peer, call, chunk, connected, event, log, plain, result_event, sse_head
from http_peer import answer as answered

from headrace.errors import (
    ConnectFailed,
    ConnectionClosed,
    HttpStatusError,
    LocalProtocolError,
    OverloadedError,
    RequestTimeout,
    UsageError,
)
from headrace.limits import Limits
from headrace.mux import FunctionHandler, Mux, Revision
from headrace.transports.address import why_not_connected
from headrace.transports.http_client import HttpChannel, open_http, parse_url
from headrace.transports.runtime import make_runtime


async def until(condition, seconds=5.0):
    """Waits for `condition()`, bounded."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def make_mux(**limits):
    bounds = Limits(**limits)
    return bounds, Mux(make_runtime(bounds, log), ClientGate(), bounds)


# ---------------------------------------------------------------- URLs and headers


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://example.test", ("http", "example.test", 80, "/", "example.test", None)),
        ("http://example.test:8080/mcp?a=b#c", ("http", "example.test", 8080, "/mcp?a=b", "example.test:8080", None)),
        ("https://Example.test:443/x y".replace(" ", "%20"), ("https", "example.test", 443, "/x%20y", "example.test", None)),
        ("http://[::1]:9/mcp", ("http", "::1", 9, "/mcp", "[::1]:9", None)),
        ("http://[fe80::1%25eth0]/mcp", ("http", "fe80::1%25eth0", 80, "/mcp", "[fe80::1]", None)),
        ("http://bücher.test/ä", ("http", "xn--bcher-kva.test", 80, "/%C3%A4", "xn--bcher-kva.test", None)),
        ("unix:/tmp/a.sock", ("http", "", 0, "/mcp", "localhost", "/tmp/a.sock")),
        ("unix:/tmp/a.sock:/v1/mcp", ("http", "", 0, "/v1/mcp", "localhost", "/tmp/a.sock")),
        ("unix:///tmp/a.sock", ("http", "", 0, "/mcp", "localhost", "/tmp/a.sock")),
        ("http+unix://%2Ftmp%2Fa.sock/x?y", ("http", "", 0, "/x?y", "localhost", "/tmp/a.sock")),
    ],
)
def test_urls(url, expected):
    found = parse_url(url)
    assert (found.scheme, found.host, found.port, found.target, found.authority, found.path) == expected


@pytest.mark.parametrize(
    "url",
    [
        "", "ftp://x/", "http://", "http://user:pw@host/", "http://host:0/", "http://host:99999/", "http://a b/",
        "http://host/\r\nX: y", "//host/mcp", "host:8000", "http://[::1", "unix:", "http+unix:///mcp", "http://a_|b/",
        "unix:/a:b",
    ],
)  # fmt: skip
def test_bad_urls(url):
    with pytest.raises(UsageError):
        parse_url(url)


def test_user_headers(run):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request)
            conn.send(answered(request))

    async def main():
        peer = Peer(handler)
        await peer.start()
        bounds, mux = make_mux()
        channel = await open_http(
            peer.url, mux, limits=bounds, headers={"Authorization": "Bearer a", "User-Agent": "me", "Host": "h.test"}
        )
        await call(mux, channel).future
        channel.set_headers([("Authorization", "Bearer b"), ("X-Two", "1"), ("X-Two", "2")])
        await call(mux, channel).future
        await channel.close()
        await peer.stop()
        assert seen[0].headers["authorization"] == "Bearer a" and seen[0].headers["host"] == "h.test"
        assert seen[0].headers["user-agent"] == "me" and seen[1].headers["authorization"] == "Bearer b"
        assert [v for k, v in seen[1].pairs if k == "x-two"] == ["1", "2"]
        for bad in ({"Content-Length": "1"}, {"mcp-session-id": "x"}, {"Transfer-Encoding": "chunked"}):
            with pytest.raises(UsageError):
                await open_http(peer.url, mux, limits=bounds, headers=bad)
        for bad in ({"X": "a\r\nY: b"}, {"X Y": "a"}, {"": "a"}):
            with pytest.raises(LocalProtocolError):
                await open_http(peer.url, mux, limits=bounds, headers=bad)
        with pytest.raises(LocalProtocolError):
            channel.session_id = "a b"

    run(main)


# ---------------------------------------------------------------- connecting


def test_refused(run):
    async def main():
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        bounds, mux = make_mux()
        with pytest.raises(ConnectFailed, match=f"127.0.0.1:{port}"):
            await open_http(f"http://127.0.0.1:{port}/mcp", mux, limits=bounds)
        with pytest.raises(ConnectFailed):
            await open_http("unix:/nonexistent/a.sock", mux, limits=bounds)

    run(main)


def test_b116_connect_timeout_names_the_phase(run, monkeypatch):
    async def main():
        bounds, mux = make_mux(connect_timeout=0.4)
        with socket.socket() as full, socket.socket() as silent:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            fillers = []
            for _ in range(3):
                s = socket.socket()
                s.setblocking(False)
                with suppress(BlockingIOError):
                    s.connect(full.getsockname())
                fillers.append(s)
            with pytest.raises(RequestTimeout, match="TCP connection"):
                await open_http(f"http://127.0.0.1:{full.getsockname()[1]}/", mux, limits=bounds)
            for s in fillers:
                s.close()
            silent.bind(("127.0.0.1", 0))
            silent.listen(5)
            with pytest.raises(RequestTimeout, match="TLS handshake"):
                await open_http(f"https://127.0.0.1:{silent.getsockname()[1]}/", mux, limits=bounds)

        async def resolve(self):
            await asyncio.sleep(10)

        monkeypatch.setattr(HttpChannel, "_resolve", resolve)
        with pytest.raises(RequestTimeout, match=r"looking up slow\.test"):
            await open_http("http://slow.test/", mux, limits=bounds)

    run(main)


def test_server_that_goes_away_fails_all_that_wait(run):
    """No listener any more: calls that wait for a connection end with ConnectFailed, none hangs."""

    async def handler(conn):
        while (request := await conn.request()) is not None:
            conn.send(answered(request, Connection="close"))
            conn.close()

    async def main():
        async with connected(handler, max_client_connections=4) as (peer, mux, channel):
            await call(mux, channel).future
            peer.server.close()
            await asyncio.sleep(0.02)
            calls = [call(mux, channel) for _ in range(10)]
            done = await asyncio.gather(*(c.future for c in calls), return_exceptions=True)
            assert all(isinstance(x, ConnectFailed) for x in done)
            assert channel.pool.counts == {"connections": 0, "idle": 0, "waiting": 0}

    run(main)


def test_several_addresses_of_one_host(run, monkeypatch):
    """The first address refuses, or does not answer: the next one serves."""

    async def handler(conn):
        while (request := await conn.request()) is not None:
            conn.send(answered(request))

    async def main():
        peer = Peer(handler)
        await peer.start()
        served = 0
        with socket.socket() as full:
            full.bind(("127.0.0.1", 0))
            full.listen(0)
            fillers = [socket.socket() for _ in range(3)]
            for s in fillers:
                s.setblocking(False)
                with suppress(BlockingIOError):
                    s.connect(full.getsockname())
            for first in (("127.0.0.1", 1), full.getsockname()):
                addresses = [(socket.AF_INET, first), (socket.AF_INET, ("127.0.0.1", peer.port))]

                async def resolve(self, addresses=addresses):
                    return addresses

                monkeypatch.setattr(HttpChannel, "_resolve", resolve)
                bounds, mux = make_mux()
                channel = await open_http(f"http://two.test:{peer.port}/mcp", mux, limits=bounds)
                assert b"result" not in await call(mux, channel).future  # the result itself
                served += 1
                await channel.close()
            assert served == 2
            for s in fillers:
                s.close()
        await peer.stop()

    run(main)


def test_unix_socket_and_ipv6(run, tmp_path):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append((request.headers["host"], request.target))
            conn.send(answered(request))

    async def main():
        path = str(tmp_path / "s")
        peer = Peer(handler)
        await peer.start(path=path)
        for url in (f"unix:{path}", "http+unix://" + path.replace("/", "%2F") + "/a"):
            bounds, mux = make_mux()
            channel = await open_http(url, mux, limits=bounds)
            await call(mux, channel).future
            await channel.close()
        await peer.stop()
        assert seen == [("localhost", "/mcp"), ("localhost", "/a")]
        if socket.has_ipv6:
            peer = Peer(handler)
            try:
                await peer.start(host="::1")
            except OSError:
                return
            bounds, mux = make_mux()
            channel = await open_http(f"http://[::1]:{peer.port}/mcp", mux, limits=bounds)
            await call(mux, channel).future
            await channel.close()
            await peer.stop()
            assert seen[-1] == (f"[::1]:{peer.port}", "/mcp")

    run(main)


def test_https(run, tmp_path):
    key, cert = tmp_path / "key", tmp_path / "cert"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=20)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no openssl command")
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(cert))
    server.load_cert_chain(cert, key)

    async def handler(conn):
        while (request := await conn.request()) is not None:
            conn.send(answered(request))

    async def main():
        peer = Peer(handler)
        await peer.start(ssl=server)
        url = peer.url.replace("http:", "https:")
        bounds, mux = make_mux()
        with pytest.raises(ConnectFailed, match="TLS handshake"):
            await open_http(url, mux, limits=bounds)
        channel = await open_http(url, mux, limits=bounds, ssl=client)
        await asyncio.sleep(0.05)
        for _ in range(3):
            assert json.loads(await call(mux, channel).future) == {"ok": True}
        assert channel.pool.opened == 1
        big = call(mux, channel, params=b'{"x":"' + b"y" * 2_000_000 + b'"}')
        await big.future
        await channel.close()
        await peer.stop()

    logging.getLogger("asyncio").setLevel(logging.CRITICAL)
    run(main)


def test_an_answer_that_is_no_tls_is_told_in_plain_words():
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    talk = ssl.create_default_context().wrap_bio(incoming, outgoing, server_hostname="localhost")
    with pytest.raises(ssl.SSLWantReadError):
        talk.do_handshake()
    incoming.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with pytest.raises(ssl.SSLError) as caught:
        talk.do_handshake()
    assert why_not_connected(caught.value) == "the answer is no TLS; is it an http:// URL?"


# ---------------------------------------------------------------- the pool


def test_b91_connections_stay_within_concurrency_and_limit(run):
    async def handler(conn):
        while (request := await conn.request()) is not None:
            await asyncio.sleep(0)
            conn.send(answered(request))

    async def main():
        async with connected(handler, max_client_connections=5) as (peer, mux, channel):
            for _ in range(20):
                await call(mux, channel).future
            assert peer.conns == 1

            async def worker():
                for _ in range(20):
                    await call(mux, channel).future

            await asyncio.gather(*(worker() for _ in range(3)))
            assert peer.conns <= 3
            await asyncio.gather(*(worker() for _ in range(40)))
            assert peer.conns <= 5
            assert channel.pool.counts["waiting"] == 0 and mux.debug_counts()["pending"] == 0

    run(main)


def test_max_pending_bounds_the_queue(run):
    release = asyncio.Event()

    async def handler(conn):
        while (request := await conn.request()) is not None:
            await release.wait()
            conn.send(answered(request))

    async def main():
        async with connected(handler, max_client_connections=1, max_pending=3) as (_, mux, channel):
            calls = [call(mux, channel) for _ in range(3)]
            with pytest.raises(OverloadedError):
                call(mux, channel)
            release.set()
            for each in calls:
                await each.future

    run(main)


def test_server_request_at_the_connection_limit_is_answered(run):
    """Every connection waits for a call that waits for our answer: the answer gets one beyond the limit."""
    answers = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if "result" in request.body:
                answers.append(request.body)
                conn.send(plain("202 Accepted"))
                continue
            conn.send(sse_head() + event({"jsonrpc": "2.0", "id": "q1", "method": "roots/list"}))
            await until(lambda: answers)
            conn.send(result_event(request) + END)

    async def main():
        async with connected(handler, modern=False, max_client_connections=1) as (_, mux, channel):
            mux.current = Revision(
                "2025-11-25", modern=False, requests={b"roots/list": FunctionHandler(lambda ex: b'{"roots":[]}')}
            )
            await call(mux, channel).future
            assert answers == [{"jsonrpc": "2.0", "id": "q1", "result": {"roots": []}}]
            assert channel.pool.counts["connections"] == 1

    run(main)


NOTE_ANSWERS = {
    "202": lambda: plain("202 Accepted"),
    "202 text": lambda: plain("202 Accepted", b"", Content_Type="text/plain"),
    "202 object": lambda: plain("202 Accepted", b"{}", Content_Type="application/json"),
    "204": lambda: b"HTTP/1.1 204 No Content\r\n\r\n",
    "200 empty": lambda: plain("200 OK"),
    "200 null": lambda: plain("200 OK", b"null", Content_Type="application/json"),
    "chunked": lambda: b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n" + END,
    "old answer": lambda: plain("200 OK", b'{"jsonrpc":"2.0","id":1,"result":{}}', Content_Type="application/json"),
    "stream": lambda: sse_head() + chunk(b": hi\n\n"),
    "large": lambda: plain("200 OK", b"x" * 300_000),
}


@pytest.mark.parametrize("kind", NOTE_ANSWERS)
def test_b56_b57_notifications_are_accepted_in_every_form(run, kind):
    async def handler(conn):
        while (request := await conn.request()) is not None:
            conn.send(NOTE_ANSWERS[kind]() if "id" not in request.body else answered(request))

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            waiting = call(mux, channel, params=b"{}")
            await channel.post("notifications/initialized", b'{"a":1}')
            assert mux.notify(b"notifications/roots/list_changed", None, channel)
            await waiting.future
            await call(mux, channel).future
            assert mux.stray == 0 and mux.gate.bad == []

    run(main)


def test_refused_notification_says_so(run):
    async def handler(conn):
        while await conn.request() is not None:
            conn.send(plain("404 Not Found", b"no such session"))

    async def main():
        async with connected(handler, modern=False) as (_, _mux, channel):
            with pytest.raises(HttpStatusError, match="no such session") as caught:
                await channel.post("notifications/initialized")
            assert caught.value.status == 404

    run(main)


def test_b48_404_tells_the_session_it_was_sent_under(run):
    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.headers.get("mcp-session-id") == "old":
                conn.send(plain("404 Not Found", b'{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"x"}}'))
            else:
                conn.send(answered(request, Mcp_Session_Id="new") if request.body else plain("200 OK"))

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            channel.session_id = "old"
            calls = [call(mux, channel) for _ in range(5)]
            failed = await asyncio.gather(*(c.future for c in calls), return_exceptions=True)
            assert {x.http_status for x in failed} == {404}
            assert {c.attached.session_id for c in calls} == {"old"}
            await call(mux, channel, "initialize").future
            assert channel.session_id == "new"
            await call(mux, channel).future

    run(main)


# ---------------------------------------------------------------- event streams


def test_ho10_server_stream_is_reopened_from_its_last_event(run):
    gets = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.method == "GET":
                gets.append(request)
                conn.send(sse_head() + chunk(b"retry: 20\n\n"))
                note = {"jsonrpc": "2.0", "method": f"notifications/n{len(gets)}"}
                conn.send(event(note, id=f"e{len(gets)}"))
                if len(gets) == 1:
                    conn.send(END)
                elif len(gets) == 2:
                    conn.reset()
                    return
            elif request.method == "POST":
                conn.send(answered(request))
            else:
                conn.send(plain("200 OK"))

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            channel.session_id = "s"
            ended = []
            stream = channel.open_stream(ended.append)
            await until(lambda: len(gets) == 3 and len(mux.gate.notes) == 3)
            await call(mux, channel).future
            assert mux.gate.notes == [f"notifications/n{i}" for i in (1, 2, 3)]
            assert "last-event-id" not in gets[0].headers and gets[1].headers["last-event-id"] == "e1"
            assert gets[2].headers["last-event-id"] == "e2"
            assert gets[0].headers["accept"] == "text/event-stream" and "content-type" not in gets[0].headers
            assert gets[0].headers["mcp-session-id"] == "s" and stream.opened
            stream.close()
            stream.close()
            await asyncio.sleep(0.05)
            assert len(gets) == 3 and ended == []

    run(main)


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "404 Not Found", "200 OK"])
@pytest.mark.parametrize("first", [True, False])
def test_b45_stream_failure_touches_no_call(run, status, first):
    """405 at once or on reopening is no error; others are told to on_end; calls go on."""
    gets = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.method == "GET":
                gets.append(1)
                if first or len(gets) > 1:
                    conn.send(plain(status, b"gone"))
                else:
                    conn.send(sse_head() + chunk(b"retry: 10\n\n") + END)
            else:
                conn.send(answered(request) if request.body else plain("200 OK"))

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            ended = []
            stream = channel.open_stream(ended.append)
            for _ in range(100):
                await call(mux, channel).future
            await until(lambda: ended)
            assert stream.ended and len(ended) == 1
            if status.startswith("405"):
                assert ended == [None]
            else:
                assert isinstance(ended[0], HttpStatusError) and ended[0].status == int(status[:3])

    run(main)


def test_server_stream_survives_errors_of_the_server(run):
    gets = []

    async def handler(conn):
        while await conn.request() is not None:
            gets.append(1)
            conn.send(plain("503 Service Unavailable"))

    async def main():
        async with connected(handler, modern=False) as (_, _mux, channel):
            ended = []
            channel.open_stream(ended.append)
            await until(lambda: len(gets) == 2)
            assert ended == []

    run(main)


def test_ho21_ho23_call_stream_is_resumed(run):
    """A POST stream that broke after an event with an id goes on by GET, after the time asked for."""
    seen = []
    times = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request)
            times.append(asyncio.get_running_loop().time())
            if request.method == "POST":
                conn.send(sse_head() + chunk(b"id: p-1\nretry: 50\ndata:\n\n"))
                if request.id == 1:
                    conn.send(END)
                else:
                    conn.reset()
            else:
                id = len([r for r in seen if r.method == "POST"])
                assert request.headers["last-event-id"] == "p-1"
                conn.send(sse_head() + event({"jsonrpc": "2.0", "id": id, "result": {"id": id}}, id="p-2") + END)

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            for id in (1, 2):
                assert json.loads(await call(mux, channel).future) == {"id": id}
            assert [r.method for r in seen] == ["POST", "GET"] * 2
            assert times[1] - times[0] >= 0.045 and times[3] - times[2] >= 0.045

    run(main)


def test_ho23_polling_goes_on_while_the_server_wants_it(run):
    """A stream that the server closes again and again without news is no failure."""
    gets = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.method == "GET":
                gets.append(request.headers["last-event-id"])
            done = len(gets) == 20
            conn.send(sse_head() + chunk(b"id: e%d\nretry: 1\ndata:\n\n" % len(gets)))
            conn.send((event({"jsonrpc": "2.0", "id": 1, "result": {}}) if done else b"") + END)

    async def main():
        async with connected(handler, modern=False) as (peer, mux, channel):
            assert await call(mux, channel).future == b"{}"
            assert gets == [f"e{i}" for i in range(20)] and peer.conns == 1

    run(main)


@pytest.mark.parametrize("status", ["405 Method Not Allowed", "400 Bad Request"])
def test_ho24_refused_resume_fails_the_call(run, status):
    async def handler(conn):
        while (request := await conn.request()) is not None:
            if request.method == "POST":
                conn.send(sse_head() + chunk(b"id: 1\nretry: 1\ndata:\n\n") + END)
            else:
                conn.send(plain(status))

    async def main():
        async with connected(handler, modern=False) as (_, mux, channel):
            with pytest.raises(HttpStatusError):
                await call(mux, channel).future
        async with connected(handler, modern=True) as (_, mux, channel):
            with pytest.raises(ConnectionClosed):     # HN-41: no resuming in era M
                await call(mux, channel).future

    run(main)


# ---------------------------------------------------------------- the end


@pytest.mark.parametrize("status", ["200 OK", "202 Accepted", "204 No Content", "404 Not Found",
                                    "405 Method Not Allowed", "501 Not Implemented", "never", "reset"])  # fmt: skip
def test_b64_close_deletes_the_session_and_never_raises(run, status):
    seen = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            seen.append(request.method)
            if request.method == "DELETE" and status == "reset":
                conn.reset()
                return
            if request.method == "DELETE" and status != "never":
                conn.send(plain(status) if not status.startswith("204") else b"HTTP/1.1 204 No Content\r\n\r\n")

    async def main():
        async with connected(handler, modern=False) as (peer, mux, channel):
            channel.session_id = "s"
            stream = channel.open_stream()
            waiting = [call(mux, channel) for _ in range(3)]
            await until(lambda: len(seen) == 4)
            closing = [asyncio.create_task(channel.close()) for _ in range(3)]
            for each in waiting:
                with pytest.raises(ConnectionClosed):
                    await each.future
            await asyncio.gather(*closing)
            await channel.close()
            assert seen.count("DELETE") == 1 and stream.ended
            assert channel.pool.counts == {"connections": 0, "idle": 0, "waiting": 0}
            with pytest.raises(ConnectionClosed):
                call(mux, channel)
            with pytest.raises(ConnectionClosed):
                channel.open_stream()
            assert isinstance(mux.gate.lost_with, ConnectionClosed)
            await until(lambda: not peer.tasks)

    run(main)


def test_close_while_connecting_and_cancelled_close(run):
    async def main():
        with socket.socket() as silent:
            silent.bind(("127.0.0.1", 0))
            silent.listen(5)
            bounds, mux = make_mux()
            channel = HttpChannel(parse_url(f"https://127.0.0.1:{silent.getsockname()[1]}/"), mux, limits=bounds)
            waiting = call(mux, channel)
            await asyncio.sleep(0.05)
            await channel.close()
            with pytest.raises(ConnectionClosed):
                await waiting.future
            await until(lambda: not channel._connects)

        async def handler(conn):
            while await conn.request() is not None:
                pass

        async with connected(handler, modern=False) as (_, _mux, channel):
            channel.session_id = "s"
            posted = channel.post("notifications/initialized")
            closing = asyncio.create_task(channel.close())
            await asyncio.sleep(0.02)
            closing.cancel()
            with pytest.raises(asyncio.CancelledError):
                await closing
            await channel.close()
            assert channel.pool.counts["connections"] == 0
            with pytest.raises(ConnectionClosed):
                await posted

    run(main)


def test_server_that_reads_nothing_is_given_up(run):
    """A large request that the peer takes no byte of ends after write_timeout."""
    stop = asyncio.Event()

    async def handler(conn):
        conn.writer.transport.pause_reading()
        await stop.wait()

    async def main():
        async with connected(handler, write_timeout=0.1) as (_, mux, channel):
            with pytest.raises(ConnectionClosed, match="took no byte"):
                await call(mux, channel, params=b'{"x":"' + b"y" * 30_000_000 + b'"}').future
            stop.set()

    run(main)
