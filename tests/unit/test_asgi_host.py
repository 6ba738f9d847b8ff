"""The host side of ASGI 3: any application on our HTTP server.

Strategy: raw sockets against `headrace.transports.asgi.serve` on both loops. The application sends its messages in
every order, right and wrong, while the peer sends pieces, does not read, or goes away.
"""

import asyncio
import contextlib
import contextvars
import logging
import ssl
import subprocess

import pytest
from asgi_site import App, answer, hosted, whole_body
from http_support import tiny

from headrace.errors import ConnectionClosed, HeadraceError, LocalProtocolError, UsageError
from headrace.limits import Limits
from headrace.transports.asgi import serve

START = {"type": "http.response.start", "status": 200, "headers": []}


def start(*headers, status=200):
    return {"type": "http.response.start", "status": status, "headers": list(headers)}


def piece(body=b"", more=True):
    return {"type": "http.response.body", "body": body, "more_body": more}


# --- the scope ------------------------------------------------------------------------------------------


def test_the_scope_says_what_was_asked(run):
    async def main():
        seen = []

        async def handle(scope, receive, send):
            seen.append(scope)
            await answer(send)

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            await peer.ask(place.get("/a%20b/%C3%BC?x=1&y=%20", headers=[("X-Two", "1"), ("x-two", " 2 ")]))
            scope = seen[0]
            assert scope["type"] == "http" and scope["http_version"] == "1.1"
            assert scope["asgi"] == {"version": "3.0", "spec_version": "2.5"}
            assert scope["method"] == "GET" and scope["scheme"] == "http"
            assert scope["path"] == "/a b/ü" and scope["raw_path"] == b"/a%20b/%C3%BC"
            assert scope["query_string"] == b"x=1&y=%20" and scope["root_path"] == ""
            assert scope["headers"] == [
                (b"host", place.netloc.encode()), (b"x-two", b"1"), (b"x-two", b"2"),
            ]  # fmt: skip
            assert scope["client"] == peer.writer.get_extra_info("sockname")
            assert scope["server"] == ("127.0.0.1", place.port)
            assert scope["state"] == {"began": True} and scope["extensions"] == {}
            await peer.ask(place.get("/?"))
            assert (seen[1]["path"], seen[1]["raw_path"], seen[1]["query_string"]) == ("/", b"/", b"")
            await peer.ask(place.get("/%FF%zz"))
            assert seen[2]["path"] == "/\ufffd%zz"
            await peer.ask(place.get("*", "OPTIONS"))
            assert (seen[3]["method"], seen[3]["path"]) == ("OPTIONS", "*")
            await peer.ask(place.get("/", "brew"))
            assert seen[4]["method"] == "BREW"
            for method in ("DELETE", "PUT", "PATCH", "POST"):
                await peer.ask(place.get("/", method, content_length="0"))
                assert seen[-1]["method"] == method
            # The state is a copy for each request, and nothing else is shared either.
            seen[0]["state"]["mine"] = 1
            seen[0]["asgi"]["mine"] = 1
            seen[0]["extensions"]["mine"] = 1
            await peer.ask(place.get())
            assert "mine" not in seen[-1]["state"] | seen[-1]["asgi"] | seen[-1]["extensions"]

    run(main)


def test_an_absolute_target_names_the_host(run):
    """RFC 9112 3.2.2: the authority of an absolute target replaces Host."""

    async def main():
        seen = []

        async def handle(scope, receive, send):
            seen.append(scope)
            await answer(send)

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            assert (await peer.ask(place.get("http://localhost:1/x?y", host="other"))).status == 200
            assert seen[0]["headers"] == [(b"host", b"localhost:1")]
            assert (seen[0]["path"], seen[0]["query_string"]) == ("/x", b"y")
            assert (await peer.ask(place.get("http://localhost", host="other"))).status == 200
            assert seen[1]["path"] == "/"

    run(main)


def test_root_path_is_put_before_the_path(run):
    async def main():
        seen = []

        async def handle(scope, receive, send):
            seen.append(scope)
            await answer(send)

        async with hosted(handle, root_path="/api") as (place, _):
            peer = await place.connect()
            await peer.ask(place.get("/x%20y"))
            assert (seen[0]["root_path"], seen[0]["path"], seen[0]["raw_path"]) == ("/api", "/api/x y", b"/api/x%20y")
        for wrong in ("api", "/api/", "/ü"):
            with pytest.raises(UsageError):
                await serve(App(handle), host="127.0.0.1", root_path=wrong)

    run(main)


def test_unix_sockets_have_no_client(run, tmp_path):
    async def main():
        seen = []

        async def handle(scope, receive, send):
            seen.append(scope)
            await answer(send, b"unix")

        path = str(tmp_path / "s")
        async with hosted(handle, unix=path) as (listener, _):
            assert listener.url == f"unix:{path}"
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            assert (await reader.read()).endswith(b"unix")
            assert seen[0]["client"] is None and seen[0]["server"] == (path, None)
            writer.close()

    run(main)


# --- bodies of requests ---------------------------------------------------------------------------------


def chunked(pieces, last=True):
    data = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in pieces)
    return data + (b"0\r\n\r\n" if last else b"")


async def echo(scope, receive, send):
    body, events = await whole_body(receive)
    if body is None:
        return
    await answer(send, body, headers=[(b"x-events", str(events).encode())])


def test_a_body_that_is_here_is_one_event(run):
    async def main():
        async with hosted(echo) as (place, _):
            peer = await place.connect()
            for body in (b"", b"x", b"y" * 5000):
                got = await peer.ask(place.post(body))
                assert got.body == body and got.get("x-events") == "1"
                assert got.get("content-length") == str(len(body))
                got = await peer.ask(place.get(method="POST", transfer_encoding="chunked") + chunked([body] if body else []))
                assert got.body == body and got.get("x-events") == "1"
            assert (await peer.ask(place.get())).get("x-events") == "1"

    run(main)


@pytest.mark.parametrize("coded", [False, True], ids=["length", "chunked"])
@pytest.mark.parametrize("step", [1, 7, 1000])
def test_a_body_in_pieces(run, coded, step):
    async def main():
        async with hosted(echo) as (place, _):
            peer = await place.connect()
            body = bytes(range(256)) * (1 if step == 1 else 40)
            if coded:
                data = place.get(method="POST", transfer_encoding="chunked")
                data += chunked([body[i : i + 100] for i in range(0, len(body), 100)])
            else:
                data = place.post(body)
            for _ in range(2):
                for at in range(0, len(data), step):
                    peer.send(data[at : at + step])
                    if at % (97 * step) == 0:
                        await asyncio.sleep(0.001)
                got = await peer.answer()
                assert got.body == body

    run(main)


@pytest.mark.parametrize("coded", [False, True], ids=["length", "chunked"])
def test_reading_pauses_while_the_application_does_not_take_the_body(run, coded):
    """Back-pressure: what waits for the application is bounded; nothing is lost."""

    async def main():
        gate = asyncio.Event()
        got = []

        async def handle(scope, receive, send):
            await gate.wait()
            total, events = 0, 0
            while True:
                event = await receive()
                total += len(event["body"])
                events += 1
                if events % 50 == 0:
                    await asyncio.sleep(0)
                if not event["more_body"]:
                    break
            got.append((total, events))
            await answer(send, str(total).encode())

        async with hosted(handle) as (place, app):
            peer = await place.connect()
            size = 24 * 1024 * 1024
            block = b"z" * 65536
            if coded:
                peer.send(place.get(method="POST", transfer_encoding="chunked"))
            else:
                peer.send(place.get(method="POST", content_length=str(size)))

            async def pump():
                for _ in range(size // len(block)):
                    peer.send(chunked([block], last=False) if coded else block)
                    await peer.writer.drain()
                if coded:
                    peer.send(b"0\r\n\r\n")

            pumping = asyncio.ensure_future(pump())
            await place.settled(lambda: app.running == 1)
            await asyncio.sleep(0.3)
            assert not pumping.done()
            (link,) = place.endpoint.links
            assert link.held_bytes < 2 * 1024 * 1024
            gate.set()
            await pumping
            assert (await peer.answer()).body == str(size).encode()
            assert got[0][0] == size

    run(main)


def test_b51_continue_is_sent_when_the_application_first_receives(run):
    """B51: 100 Continue is the answer to the first receive(); an answer without one ends the connection."""

    async def main():
        reads = asyncio.Event()

        async def handle(scope, receive, send):
            if scope["path"] == "/no":
                await answer(send, b"no", 403)
                return
            await reads.wait()
            await echo(scope, receive, send)

        async with hosted(handle) as (place, app):
            peer = await place.connect()
            head, _, body = place.post(b"hello", expect="100-continue").partition(b"\r\n\r\n")
            peer.send(head + b"\r\n\r\n")
            await place.settled(lambda: app.running == 1)
            with pytest.raises(asyncio.TimeoutError):
                await peer.head(timeout=0.1)
            reads.set()
            assert (await peer.answer()).status == 100
            got = await peer.ask(body)
            assert got.body == b"hello" and got.get("connection") is None
            # A peer that does not wait needs no permission.
            got = await peer.ask(place.post(b"at once", expect="100-continue"))
            assert got.status == 200 and got.body == b"at once"
            head = place.post(b"hello", "/no", expect="100-continue").partition(b"\r\n\r\n")[0]
            got = await peer.ask(head + b"\r\n\r\n")
            assert got.status == 403 and got.get("connection") == "close"
            assert await peer.ended()
            peer = await place.connect()
            assert (await peer.ask(place.post(b"x", expect="rain"))).status == 417

    run(main)


@pytest.mark.parametrize("coded", [False, True], ids=["length", "chunked"])
def test_early_answers_leave_the_rest_of_the_body(run, coded):
    """An answer before the end of the body: a small rest is read away, a large one ends the connection."""

    async def main():
        async def handle(scope, receive, send):
            if scope["path"] == "/first":
                await receive()
            await answer(send, b"early")
            assert (await receive())["type"] == "http.disconnect"

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            for path in ("/", "/first") * 2:
                if coded:
                    data = place.get(path, "POST", transfer_encoding="chunked") + chunked([b"r" * 3000] * 4)
                else:
                    data = place.post(b"r" * 12000, path)
                peer.send(data[:2000])
                assert (await peer.answer()).body == b"early"
                peer.send(data[2000:])
            assert (await peer.ask(place.get())).body == b"early"
            if not coded:
                peer.send(place.get(method="POST", content_length="9000000") + b"r" * 100)
                got = await peer.answer()
                assert got.body == b"early" and got.get("connection") == "close"
                assert await peer.ended()

    run(main)


def test_bodies_over_the_limit(run):
    """SE-08: 413 before the application is called where the length says so, in the middle of a chunked body else."""

    async def main():
        async with hosted(echo, Limits(max_message_bytes=1000, drain_timeout=2.0)) as (place, app):
            peer = await place.connect()
            got = await peer.ask(place.post(b"x" * 1001))
            assert got.status == 413 and got.get("content-type").startswith("text/plain") and app.running == 0
            assert await peer.ended()
            peer = await place.connect()
            assert (await peer.ask(place.post(b"x" * 1000))).status == 200
            peer.send(place.get(method="POST", transfer_encoding="chunked") + chunked([b"x" * 600], last=False))
            await asyncio.sleep(0.02)
            got = await peer.ask(chunked([b"x" * 600]))
            assert got.status == 413
            assert await peer.ended()

    run(main)


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_broken_chunks(run, after):
    """B50: 400 while there is no answer yet, else the connection ends; the application hears of a disconnect."""

    async def main():
        told = []

        async def handle(scope, receive, send):
            if after:
                await send(START)
                await send(piece(b"some"))
            while (event := await receive())["type"] != "http.disconnect":
                told.append(event["body"])
            told.append(None)

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            peer.send(place.get(method="POST", transfer_encoding="chunked") + chunked([b"good"], last=False))
            await place.settled(lambda: told == [b"good"])
            peer.send(b"zz\r\n")
            if after:
                assert (await peer.head())[0] == 200
                assert await peer.chunk() == b"some"
            else:
                assert (await peer.answer()).status == 400
            assert await peer.ended()
            await place.settled(lambda: told == [b"good", None])

    run(main)


def test_b52_bodies_have_their_time(run):
    """B52: the peer is waited for as long as the limits say, but not for the application's own slowness."""

    async def main():
        gate = asyncio.Event()
        told = []

        async def handle(scope, receive, send):
            if scope["path"] == "/slow":
                await gate.wait()
            body, _ = await whole_body(receive)
            told.append(body if body is None else len(body))
            if body is not None:
                await answer(send)

        async with hosted(handle, tiny(body_timeout=0.2)) as (place, _):
            peer = await place.connect()
            peer.send(place.post(b"half of it")[:-4])
            got = await peer.answer()
            assert got.status == 408 and got.get("connection") == "close"
            assert await peer.ended()
            await place.settled(lambda: told == [None])
            peer = await place.connect()
            data = place.post(b"s" * 1_000_000, "/slow")
            peer.send(data[:400_000])
            await asyncio.sleep(0.6)
            gate.set()
            assert (await peer.ask(data[400_000:])).status == 200
            assert told == [None, 1_000_000]

    run(main)


# --- answers --------------------------------------------------------------------------------------------


def test_framing_follows_from_what_is_known(run):
    async def main():
        messages = []

        async def handle(scope, receive, send):
            for message in messages:
                await send(message)

        async with hosted(handle) as (place, _):
            peer = await place.connect()

            async def ask(*given, method="GET", **options):
                messages[:] = given
                return await peer.ask(place.get(method=method), **options)

            got = await ask(START, piece(b"all", False))
            assert got.get("content-length") == "3" and got.get("transfer-encoding") is None
            assert "GMT" in got.get("date")
            got = await ask(START, piece(b"some"), piece(b""), piece(b" more"), piece(b"", False))
            assert got.chunks == [b"some", b" more"]
            got = await ask(START, piece(b"some"), piece(b" more", False))
            assert got.chunks == [b"some", b" more"]
            got = await ask(start((b"content-length", b"9")), piece(b"some"), piece(b" more", False))
            assert got.body == b"some more" and got.get("content-length") == "9"
            got = await ask({"type": "http.response.start", "status": 201}, {"type": "http.response.body"})
            assert got.status == 201 and got.get("content-length") == "0" and got.body == b""
            got = await ask(start((b"Date", b"now"), (b"X", b"y")), piece(b"", False))
            assert got.get("date") == "now"
            got = await ask(start(status=299), piece(bytearray(b"ab"), True), piece(memoryview(b"cd"), False))
            assert got.status == 299 and got.body == b"abcd"
            # What belongs to the connection is not the application's.
            got = await ask(
                start((b"transfer-encoding", b"gzip"), (b"Keep-Alive", b"5"), (b"connection", b"keep-alive")),
                piece(b"all", False),
            )
            assert got.get("transfer-encoding") is None and got.get("keep-alive") is None
            assert got.get("connection") is None and got.body == b"all"
            got = await ask(start((b"set-cookie", b"a=1"), (b"set-cookie", b"b=2")), piece(b"", False))
            assert got.headers["set-cookie"] == ["a=1", "b=2"]
            # HEAD, 204, 304: no body, and the length only where it says something.
            got = await ask(START, piece(b"12345", False), method="HEAD", head_only=True)
            assert got.get("content-length") == "5"
            got = await ask(START, piece(b"12"), piece(b"3", False), method="HEAD", head_only=True)
            assert got.get("content-length") is None and got.get("transfer-encoding") is None
            got = await ask(start((b"content-length", b"7")), piece(b"", False), method="HEAD", head_only=True)
            assert got.get("content-length") == "7"
            got = await ask(start((b"content-length", b"7"), status=204), piece(b"1234567", False))
            assert got.status == 204 and got.get("content-length") is None
            got = await ask(start((b"content-length", b"7"), status=304), piece(b"", False))
            assert got.status == 304 and got.get("content-length") == "7"
            got = await ask(start((b"connection", b"x, Close")), piece(b"bye", False))
            assert got.get("connection") == "close" and got.body == b"bye"
            assert await peer.ended()

    run(main)


def test_http_1_0_ends_with_the_connection(run):
    """RFC 9112: no chunks for 1.0; the end of the connection is the end of the body."""

    async def main():
        async def handle(scope, receive, send):
            assert scope["http_version"] == "1.0"
            await send(START)
            if scope["path"] == "/many":
                await send(piece(b"one "))
                await asyncio.sleep(0.01)
            await send(piece(b"two", False))

        async with hosted(handle) as (place, _):
            for path, body in (("/many", b"one two"), ("/", b"two")):
                peer = await place.connect()
                got = await peer.ask(place.get(path, version="1.0"))
                assert got.body == body and got.get("transfer-encoding") is None
                assert got.get("connection") == "close"
                assert await peer.ended()

    run(main)


WRONG = [
    ("body first", [piece(b"x", False)]),
    ("start twice", [START, START]),
    ("unknown", [{"type": "http.response.trailers"}]),
    ("no type", [{}]),
    ("websocket", [{"type": "websocket.accept"}]),
    ("status 100", [start(status=100)]),
    ("status 1000", [start(status=1000)]),
    ("status text", [start(status="200")]),
    ("no status", [{"type": "http.response.start"}]),
    ("name", [start((b"a b", b"c"))]),
    ("colon", [start((b"a:", b"c"))]),
    ("empty name", [start((b"", b"c"))]),
    ("pseudo", [start((b":status", b"200"))]),
    ("line feed", [start((b"a", b"b\nSet-Cookie: x"))]),
    ("carriage return", [start((b"a", b"b\rx"))]),
    ("nul", [start((b"a", b"b\0"))]),
    ("text", [start(("a", "b"))]),
    ("triple", [start((b"a", b"b", b"c"))]),
    ("numbers", [start((b"a", 3))]),
    ("length", [start((b"content-length", b"-1"))]),
    ("length 2", [start((b"content-length", b"1, 1"))]),
    ("length 3", [start((b"content-length", b"9" * 30))]),
    ("lengths", [start((b"content-length", b"1"), (b"content-length", b"2"))]),
    ("too long", [start((b"content-length", b"2")), piece(b"abc", False)]),
    ("too long, more", [start((b"content-length", b"2")), piece(b"abc")]),
    ("too short", [start((b"content-length", b"2")), piece(b"a", False)]),
    ("body text", [START, piece("text", False)]),
    ("body none", [START, piece(None, False)]),
    ("trailers", [START | {"trailers": True}]),
    ("not a message", [None]),
    ("nothing", []),
    ("only a start", [START]),
]


@pytest.mark.parametrize("messages", [m for _, m in WRONG], ids=[n for n, _ in WRONG])
@pytest.mark.parametrize("wait", [False, True], ids=["at-once", "later"])
def test_what_is_wrong_is_500_and_never_on_the_wire(run, messages, wait, caplog):
    """Nothing of a wrong answer is sent; the connection goes on."""

    async def main():
        async def handle(scope, receive, send):
            if scope["path"] == "/good":
                await answer(send)
                return
            if wait:
                await asyncio.sleep(0)
            for message in messages:
                await send(message)

        async with hosted(handle) as (place, app):
            peer = await place.connect()
            for method in ("GET", "HEAD"):
                got = await peer.ask(place.get(method=method), head_only=method == "HEAD")
                if method == "GET" or messages[-1:] not in ([piece(b"a", False)], [piece(b"abc", False)]):
                    if method == "HEAD" and messages[-1:] == [piece(b"abc")]:
                        break  # a HEAD has no body to count: the answer had begun
                    assert got.status == 500, (method, got)
                    assert got.get("content-type") == "text/plain; charset=utf-8"
                    assert got.get("set-cookie") is None
                    if method == "GET":
                        assert got.body == b"Internal Server Error"
            else:
                assert (await peer.ask(place.get("/good"))).body == b"ok"
            if messages and messages != [START] and messages != [None]:
                assert isinstance(app.errors[0], LocalProtocolError | ValueError)

    run(main)
    assert "an ASGI application failed" in caplog.text


@pytest.mark.parametrize("how", ["raise", "return", "short", "long", "cancel"])
@pytest.mark.parametrize("version", ["1.0", "1.1"])
def test_an_answer_that_breaks_off_can_be_told_from_a_whole_one(run, how, version, caplog):
    """Once the head is sent, a failure ends the connection: no last chunk, fewer bytes than promised, or a reset."""

    async def main():
        async def handle(scope, receive, send):
            known = how in ("short", "long")
            await send(start((b"content-length", b"10")) if known else START)
            await send(piece(b"some"))
            await asyncio.sleep(0.02)
            if how == "raise":
                raise RuntimeError("swordfish")
            if how == "cancel":
                raise asyncio.CancelledError
            if known:
                await send(piece(b"x" * (3 if how == "short" else 7), False))

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            peer.send(place.get(version=version))
            status, _headers = await peer.head()
            assert status == 200
            if version == "1.1" and how not in ("short", "long"):
                assert await peer.chunk() == b"some"
                assert await peer.ended()
            elif how in ("short", "long"):
                assert await peer.reader.read(-1) == b"some"
            else:
                with pytest.raises(ConnectionError):
                    assert await asyncio.wait_for(peer.reader.read(-1), 5) is None

    run(main)
    assert "an ASGI application failed" in caplog.text


class Odd(BaseException):
    """No Exception, as groups of anyio can be."""


@pytest.mark.parametrize("kind", [RuntimeError, Odd, lambda text: BaseExceptionGroup(text, [Odd()])])
@pytest.mark.parametrize("wait", [False, True], ids=["at-once", "later"])
@pytest.mark.parametrize("started", [False, True])
def test_errors_before_the_head_are_500(run, started, wait, kind, caplog):
    """The text of the error is in the log alone."""

    async def main():
        async def handle(scope, receive, send):
            if started:
                await send(start((b"x-mine", b"1")))
            if wait:
                await asyncio.sleep(0)
            raise kind("swordfish")

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            for _ in range(2):
                got = await peer.ask(place.get())
                assert got.status == 500 and b"swordfish" not in got.body and got.get("x-mine") is None

    run(main)
    assert "swordfish" in caplog.text


def test_errors_behind_the_answer_are_logged(run, caplog):
    async def main():
        async def handle(scope, receive, send):
            await answer(send)
            await asyncio.sleep(0.01)
            raise RuntimeError("swordfish")

        async with hosted(handle) as (place, app):
            peer = await place.connect()
            assert (await peer.ask(place.get())).status == 200
            assert (await peer.ask(place.get())).status == 200
            await place.settled(lambda: app.running == 0)

    run(main)
    assert caplog.text.count("RuntimeError: swordfish") == 2


def test_messages_behind_the_answer_are_ignored(run):
    """ASGI: further messages on the channel are ignored once the answer is complete."""

    async def main():
        async def handle(scope, receive, send):
            await answer(send)
            await send(piece(b"more"))
            await send(START)
            assert (await receive())["type"] == "http.disconnect"

        async with hosted(handle) as (place, app):
            peer = await place.connect()
            for _ in range(3):
                assert (await peer.ask(place.get())).body == b"ok"
            assert not app.errors

    run(main)


def test_what_is_called_may_give_any_awaitable(run):
    async def main():
        class Awaitable:
            def __init__(self, coro):
                self.coro = coro

            def __await__(self):
                return self.coro.__await__()

        class Odd(App):
            def __call__(self, scope, receive, send):
                if scope["type"] == "http" and scope["path"] == "/future":
                    return asyncio.ensure_future(super().__call__(scope, receive, send))
                if scope["type"] == "http" and scope["path"] == "/none":
                    return None
                if scope["type"] == "http" and scope["path"] == "/raise":
                    raise RuntimeError("called")
                return Awaitable(super().__call__(scope, receive, send))

        async with hosted(Odd(echo)) as (place, _):
            peer = await place.connect()
            assert (await peer.ask(place.post(b"a"))).body == b"a"
            assert (await peer.ask(place.post(b"b", "/future"))).body == b"b"
            assert (await peer.ask(place.get("/none"))).status == 500
            assert (await peer.ask(place.get("/raise"))).status == 500

    run(main)


def test_a_head_without_a_body_leaves_soon(run):
    """Event streams: their head does not wait for the first event."""

    async def main():
        gate = asyncio.Event()

        async def handle(scope, receive, send):
            if scope["path"] == "/later":
                await asyncio.sleep(0.01)
            await send(start((b"content-type", b"text/event-stream")))
            await gate.wait()
            await send(piece(b"data: 1\n\n", False))

        async with hosted(handle) as (place, _):
            for path in ("/", "/later"):
                gate.clear()
                peer = await place.connect()
                peer.send(place.get(path))
                status, headers = await peer.head(timeout=2)
                assert status == 200 and headers["transfer-encoding"] == ["chunked"]
                gate.set()
                assert await peer.chunk() == b"data: 1\n\n"
                assert await peer.chunk() == b""

    run(main)


def test_send_waits_while_the_peer_does_not_read(run):
    """Back-pressure: what is queued for a peer is bounded, in time too (B112)."""

    async def main():
        sent = []

        async def handle(scope, receive, send):
            sent.clear()
            await send(START)
            for i in range(200):
                await send(piece(b"w" * 100_000))
                sent.append(i)
            await send(piece(b"", False))

        async with hosted(handle, tiny(max_output_bytes=300_000, write_timeout=1.0)) as (place, app):
            peer = await place.connect()
            peer.writer.transport.pause_reading()
            peer.send(place.get())
            await asyncio.sleep(0.3)
            count = len(sent)
            assert count < 150 and app.running == 1
            peer.writer.transport.resume_reading()
            got = await peer.answer()
            assert len(got.body) == 20_000_000
            # One that never reads again is given up, and the application is told.
            peer = await place.connect()
            peer.writer.transport.pause_reading()
            peer.send(place.get())
            await place.settled(lambda: app.running == 1)
            await place.settled(lambda: app.running == 0)
            assert isinstance(app.errors[-1], ConnectionClosed) and isinstance(app.errors[-1], OSError)

    run(main)


# --- peers that go ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["reset", "close"])
def test_a_peer_that_goes_is_told_by_receive_and_send(run, how, caplog):
    """ASGI 2.4: http.disconnect from receive(), OSError from send(); neither is an error in the log."""

    async def main():
        told = []

        async def handle(scope, receive, send):
            await receive()
            await send(START)
            await send(piece(b"some"))
            event = await receive()
            told.append(event["type"])
            for _ in range(100):
                await send(piece(b"x" * 1000))
                await asyncio.sleep(0.01)

        async with hosted(handle) as (place, app):
            peer = await place.connect()
            peer.send(place.get())
            await peer.head()
            getattr(peer, how)()
            await place.settled(lambda: app.running == 0)
            assert told == ["http.disconnect"]
            assert isinstance(app.errors[0], OSError)

    with caplog.at_level(logging.INFO):
        run(main)
    assert "failed" not in caplog.text


def test_errors_that_come_of_a_disconnect_are_not_logged(run, caplog):
    """Frameworks wrap the OSError of send(): in another exception, or in a group."""

    async def main():
        class Wrapped(Exception):
            pass

        async def handle(scope, receive, send):
            await receive()
            await receive()
            await asyncio.sleep(0.05)
            try:
                await send(START)
            except OSError as exc:
                if scope["path"] == "/group":
                    raise BaseExceptionGroup("several", [exc, Wrapped()]) from exc
                raise Wrapped from None if scope["path"] == "/none" else exc

        async with hosted(handle) as (place, app):
            for path in ("/", "/group", "/none"):
                peer = await place.connect()
                peer.send(place.get(path))
                await place.settled(lambda: app.running == 1)
                peer.reset()
                await place.settled(lambda: app.running == 0)
            assert len(app.errors) == 3

    run(main)
    assert caplog.text.count("an ASGI application failed") == 0


def test_a_half_closed_peer_gets_its_answer(run):
    """The end of input is a disconnect for receive(); what is sent all the same still arrives."""

    async def main():
        told = []

        async def handle(scope, receive, send):
            told.append(await whole_body(receive))
            if scope["path"] == "/wait":
                told.append((await receive())["type"])
            await asyncio.sleep(0.02)
            await answer(send, b"for you")

        async with hosted(handle) as (place, app):
            for path in ("/", "/wait"):
                for send in (place.get(path), place.post(b"body", path)):
                    peer = await place.connect()
                    peer.send(send)
                    peer.writer.write_eof()
                    assert (await peer.answer()).body == b"for you"
                    assert await peer.ended()
            assert told.count("http.disconnect") == 2
            # Requests behind it are answered as well.
            peer = await place.connect()
            peer.send(place.get() * 3)
            peer.writer.write_eof()
            for _ in range(3):
                assert (await peer.answer()).body == b"for you"
            assert await peer.ended()
            # A body that will never be whole is no request.
            peer = await place.connect()
            peer.send(place.post(b"body")[:-1])
            await place.settled(lambda: app.running == 1)
            peer.writer.write_eof()
            await place.settled(lambda: app.running == 0)
            assert app.errors == [] or isinstance(app.errors[-1], OSError)

    run(main)


def test_receive_can_be_cancelled_and_asked_again(run):
    """Starlette asks for a disconnect under a cancelled scope; nothing may get lost by that."""

    async def main():
        async def handle(scope, receive, send):
            got = []
            for _ in range(3):
                waiting = asyncio.ensure_future(receive())
                await asyncio.sleep(0)
                waiting.cancel()
                try:
                    got.append(await waiting)
                except asyncio.CancelledError:
                    pass
            gate.set()
            both = await asyncio.gather(receive(), asyncio.wait_for(receive(), 5))
            got += both
            await answer(send, repr([m["body"] for m in got]).encode())

        gate = asyncio.Event()
        async with hosted(handle) as (place, _):
            peer = await place.connect()
            data = place.post(b"abcdef")
            peer.send(data[:-6])
            await asyncio.wait_for(gate.wait(), 5)
            peer.send(data[-6:-3])
            await asyncio.sleep(0.02)
            got = await peer.ask(data[-3:])
            assert got.body == b"[b'abc', b'def']"

    run(main)


def test_looking_for_a_disconnect_leaves_nothing_behind(run):
    """A request that polls receive() under cancelled scopes for hours holds no more than one that waits once."""

    async def main():
        import gc

        def futures():
            return sum(type(each).__name__ == "Future" for each in gc.get_objects())

        async def handle(scope, receive, send):
            await receive()
            for _ in range(10):
                before = futures()
                for _ in range(100):
                    waiting = asyncio.ensure_future(receive())
                    await asyncio.sleep(0)
                    waiting.cancel()
                    await asyncio.wait([waiting])
                grown.append(futures() - before)
            await answer(send)

        grown = []
        async with hosted(handle) as (place, _):
            peer = await place.connect()
            assert (await peer.ask(place.get())).status == 200
        assert sum(grown) < 50

    run(main)


# --- the connection ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wait", [0, 0.002], ids=["at-once", "later"])
def test_pipelined_requests_are_answered_in_order(run, wait):
    async def main():
        async def handle(scope, receive, send):
            body, _ = await whole_body(receive)
            if wait:
                await asyncio.sleep(wait * (len(body) % 3))
            await send(START)
            if scope["query_string"]:
                await send(piece(b"*"))
            await send(piece(body + scope["path"].encode(), False))

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            data = b"".join(
                place.post(b"b" * i, f"/{i}{'?s' if i % 2 else ''}")
                if i % 5
                else place.get(f"/{i}", "POST", transfer_encoding="chunked") + chunked([b"c" * i] if i else [])
                for i in range(40)
            )
            for at in range(0, len(data), 997):
                peer.send(data[at : at + 997])
                await asyncio.sleep(0)
            for i in range(40):
                got = await peer.answer()
                letter = b"b" if i % 5 else b"c"
                assert got.body == (b"*" if i % 2 and i % 5 else b"") + letter * i + f"/{i}".encode()

    run(main)


def test_large_pipelined_answers(run):
    async def main():
        async def handle(scope, receive, send):
            await answer(send, b"L" * 1_000_000)

        async with hosted(handle, tiny(max_output_bytes=100_000)) as (place, _):
            peer = await place.connect()
            peer.send(place.get() * 30)
            for _ in range(30):
                assert len((await peer.answer()).body) == 1_000_000

    run(main)


def test_refusals_are_plain_text(run):
    """Without MCP there is no JSON-RPC error: malformed heads, foreign hosts, WebSocket."""

    async def main():
        async with hosted(echo) as (place, _):
            peer = await place.connect()
            got = await peer.ask(b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n")
            assert got.status == 400 and got.get("content-type").startswith("text/plain")
            peer = await place.connect()
            got = await peer.ask(place.get(host="evil.example"))
            assert got.status == 421 and got.get("content-type").startswith("text/plain")
            got = await peer.ask(
                place.get(connection="Upgrade", upgrade="websocket", sec_websocket_key="x", sec_websocket_version="13")
            )
            assert got.status == 501 and b"WebSocket" in got.body
            # Other upgrades are ignored (B54), and a foreign Origin is the application's own matter.
            assert (await peer.ask(place.get(connection="Upgrade", upgrade="h2c"))).status == 200
            assert (await peer.ask(place.get(origin="https://evil.example"))).status == 200
        async with hosted(echo, allowed_hosts=["api.example"]) as (place, _app):
            peer = await place.connect()
            assert (await peer.ask(place.get(host="api.example"))).status == 200
            assert (await peer.ask(place.get(host="localhost"))).status == 200
            assert (await peer.ask(place.get(host="evil.example"))).status == 421

    run(main)


def test_too_many_connections(run):
    async def main():
        async with hosted(echo, tiny(max_connections=2)) as (place, _):
            first, second, third = [await place.connect() for _ in range(3)]
            got = await third.answer()
            assert got.status == 503 and got.get("retry-after") == "1" and b"jsonrpc" not in got.body
            assert (await first.ask(place.get())).status == 200
            assert (await second.ask(place.get())).status == 200

    run(main)


def test_context_variables_stay_with_their_request(run):
    async def main():
        name = contextvars.ContextVar("name", default=None)
        seen = []

        async def handle(scope, receive, send):
            seen.append(name.get())
            name.set(scope["path"])
            await asyncio.sleep(0.001)
            await answer(send, name.get().encode())

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            for i in range(5):
                assert (await peer.ask(place.get(f"/{i}"))).body == f"/{i}".encode()
            assert seen == [None] * 5

    run(main)


def test_the_application_runs_in_a_task(run):
    """asyncio.timeout and anyio need a current task, in the first step too."""

    async def main():
        async def handle(scope, receive, send):
            first = asyncio.current_task()
            async with asyncio.timeout(5):
                await asyncio.sleep(0)
            assert asyncio.current_task() is first and first is not None
            await answer(send)

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            assert (await peer.ask(place.get())).status == 200

    run(main)


def test_tls(run, tmp_path):
    """HTTPS: the scheme, bodies in pieces, the end of a connection, and answers that break off."""
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
               "-keyout", str(key), "-out", str(cert), "-days", "2", "-subj", "/CN=localhost",
               "-addext", "subjectAltName=DNS:localhost"]  # fmt: skip
    try:
        subprocess.run(command, check=True, capture_output=True, timeout=20)
    except FileNotFoundError:
        pytest.skip("no openssl command")
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context(cafile=str(cert))
    server.load_cert_chain(cert, key)

    async def main():
        async def handle(scope, receive, send):
            assert scope["scheme"] == "https"
            if scope["path"] == "/break":
                await send(START)
                await send(piece(b"some"))
                raise RuntimeError("swordfish")
            await echo(scope, receive, send)

        async with hosted(handle, ssl=server) as (place, _):
            assert place.listener.url.startswith("https://")
            peer = await place.connect(ssl=client, server_hostname="localhost")
            data = place.post(b"t" * 50_000, host=f"localhost:{place.port}")
            for _ in range(2):
                for at in range(0, len(data), 9000):
                    peer.send(data[at : at + 9000])
                    await asyncio.sleep(0.001)
                assert len((await peer.answer()).body) == 50_000
            local = {"host": f"localhost:{place.port}"}
            got = await peer.ask(place.get("/break", **local), head_only=True)
            assert got.status == 200 and await peer.chunk() == b"some" and await peer.ended()
            peer = await place.connect(ssl=client, server_hostname="localhost")
            peer.send(place.get("/break", version="1.0", **local))
            with contextlib.suppress(ConnectionError, ssl.SSLError):
                await asyncio.wait_for(peer.reader.read(-1), 5)
            peer = await place.connect(ssl=client, server_hostname="localhost")
            peer.send(place.post(b"half of it", **local)[:-2])
            await asyncio.sleep(0.02)
            peer.close()
            await place.settled(lambda: place.listener.connections <= 1)

    run(main)


# --- the end ----------------------------------------------------------------------------------------------


def test_closing_lets_requests_be_answered(run):
    async def main():
        gate = asyncio.Event()
        after = []

        async def handle(scope, receive, send):
            await gate.wait()
            await answer(send)
            await asyncio.sleep(0.1)
            after.append(True)

        async with hosted(handle) as (place, app):
            busy, idle = await place.connect(), await place.connect()
            busy.send(place.get())
            await place.settled(lambda: app.running == 1)
            closing = asyncio.ensure_future(place.listener.close())
            assert await idle.ended()
            gate.set()
            got = await busy.answer()
            assert got.status == 200 and got.get("connection") == "close"
            assert await busy.ended()
            await closing
            # What the application does behind its answer is waited for too, and its lifespan ends last.
            assert after == [True] and app.events == ["up", "down"]

    run(main)


@pytest.mark.parametrize("where", ["before", "head", "after"])
def test_closing_cancels_what_takes_too_long(run, where, caplog):
    """503 where nothing was sent yet; the task is cancelled, and that is no error in the log."""

    async def main():
        async def handle(scope, receive, send):
            if where == "head":
                await send(START)
                await send(piece(b"some"))
            if where == "after":
                await answer(send)
            await asyncio.sleep(60)

        async with hosted(handle, tiny(drain_timeout=0.3)) as (place, app):
            peer = await place.connect()
            peer.send(place.get())
            if where == "head":
                assert (await peer.head())[0] == 200
                assert await peer.chunk() == b"some"
            elif where == "after":
                assert (await peer.answer()).status == 200
            await place.settled(lambda: app.running == 1)
            closing = asyncio.ensure_future(place.listener.close())
            if where == "before":
                assert (await peer.answer()).status == 503
                peer.close()
            else:
                assert await peer.ended()
            await closing
            assert isinstance(app.errors[0], asyncio.CancelledError)

    run(main)
    assert "failed" not in caplog.text


def test_closing_with_a_peer_that_was_reset_unnoticed(run):
    """Reading was paused, so nobody heard of the reset: closing our side of such a connection is no error."""

    async def main():
        async def handle(scope, receive, send):
            await asyncio.sleep(60)

        async with hosted(handle, tiny(drain_timeout=0.2)) as (place, app):
            peer = await place.connect()
            peer.send(place.post(b"x" * 1_000_000))
            await place.settled(lambda: app.running == 1)
            await asyncio.sleep(0.05)
            peer.reset()
            await asyncio.sleep(0.05)
            await place.listener.close()
            assert place.listener.connections == app.running == 0

    run(main)


# --- lifespan ---------------------------------------------------------------------------------------------


def test_lifespan_state_reaches_requests(run):
    async def main():
        async def handle(scope, receive, send):
            await answer(send, str(scope["state"]["began"]).encode())

        async with hosted(handle) as (place, app):
            assert app.events == ["up"]
            peer = await place.connect()
            assert (await peer.ask(place.get())).body == b"True"
        assert app.events == ["up", "down"]

    run(main)


@pytest.mark.parametrize("how", ["raises", "returns", "raises-after-receive"])
def test_applications_without_a_lifespan_are_served(run, how):
    async def main():
        async def app(scope, receive, send):
            if scope["type"] != "http":
                if how == "returns":
                    return
                if how == "raises-after-receive":
                    await receive()
                raise AssertionError(scope["type"])
            await answer(send)

        listener = await serve(app, host="127.0.0.1", port=0)
        reader, writer = await asyncio.open_connection("127.0.0.1", int(listener.url.rsplit(":", 1)[1]))
        writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"ok")
        writer.close()
        await listener.close()
        await listener.close()

    run(main)


def test_a_failed_start_is_raised_and_nothing_listens(run):
    async def main():
        ended = []

        async def app(scope, receive, send):
            await receive()
            await send({"type": "lifespan.startup.failed", "message": "no database"})
            ended.append(True)
            raise RuntimeError("no database")

        with pytest.raises(HeadraceError, match="no database"):
            await serve(app, host="127.0.0.1", port=0)
        assert ended == [True]

    run(main)


def test_an_address_that_cannot_be_had_ends_the_lifespan(run):
    async def main():
        async def handle(scope, receive, send):
            await answer(send)

        async with hosted(handle) as (place, _):
            other = App(handle)
            with pytest.raises(OSError):
                await serve(other, host="127.0.0.1", port=place.port)
            assert other.events == ["up", "down"]

    run(main)


@pytest.mark.parametrize("how", ["failed", "raises", "hangs", "early", "twice", "odd", "group"])
def test_ends_of_a_lifespan_that_go_wrong(run, how, caplog):
    """They are logged; the listener closes all the same."""

    async def main():
        async def app(scope, receive, send):
            if scope["type"] == "http":
                await answer(send)
                return
            await receive()
            await send({"type": "lifespan.startup.complete"})
            if how == "early":
                raise RuntimeError("too early")
            if how == "twice":
                await send({"type": "lifespan.startup.complete"})
            if how == "odd":
                await send({"type": "lifespan.odd"})
            await receive()
            if how == "raises":
                raise RuntimeError("in the end")
            if how == "group":
                raise BaseExceptionGroup("no more", [Odd()])
            if how == "hangs":
                await asyncio.sleep(60)
            await send({"type": "lifespan.shutdown.failed", "message": "it broke"})

        listener = await serve(app, host="127.0.0.1", port=0, limits=tiny(drain_timeout=0.2))
        await asyncio.sleep(0.01)
        await asyncio.wait_for(listener.close(), 10)

    with caplog.at_level(logging.ERROR):
        run(main)
    assert {
        "failed": "failed to shut down: it broke", "raises": "in the end", "hangs": "did not shut down within",
        "early": "too early", "twice": "was not expected", "odd": "lifespan.odd",
        "group": "no more",
    }[how] in caplog.text  # fmt: skip


def test_a_start_that_is_given_up_is_cancelled(run):
    async def main():
        cancelled = []

        async def app(scope, receive, send):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.append(True)
                raise

        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(serve(app, host="127.0.0.1", port=0), 0.1)
        assert cancelled == [True]

    run(main)


def test_wrong_arguments(run):
    async def main():
        async def app(scope, receive, send):
            raise AssertionError

        for wrong in ({}, {"host": "127.0.0.1", "unix": "/x"}):
            with pytest.raises(UsageError):
                await serve(app, **wrong)
        with pytest.raises(UsageError, match="cannot be called"):
            await serve(3, host="127.0.0.1")

    run(main)


def test_requests_leave_nothing_behind(run):
    """Memory: a request that is over is freed with all that belongs to it, without a collection of cycles."""

    async def main():
        import gc
        import weakref

        left = []

        async def handle(scope, receive, send):
            marker = App(None)
            scope["state"]["marker"] = marker
            left.append(weakref.ref(marker))
            if scope["path"] == "/wait":
                await asyncio.sleep(0)
            await whole_body(receive)
            await answer(send)

        async with hosted(handle) as (place, _):
            peer = await place.connect()
            gc.collect()
            gc.disable()
            try:
                for path in ("/", "/wait") * 3:
                    assert (await peer.ask(place.post(b"x", path))).status == 200
                await asyncio.sleep(0.02)
                assert [r() for r in left] == [None] * 6
            finally:
                gc.enable()

    run(main)
