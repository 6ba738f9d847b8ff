"""Random peers against random applications: requests in pieces, damaged or cut, kills, slow readers, early answers.

Strategy: a seeded application behind `serve` and beside an MCP endpoint with an erratic `authenticate`; afterwards a
plain request still works, everything closes, nothing is left and nothing was logged but the application's own faults.
"""

import asyncio
import contextlib
import gc
import logging
import random

import pytest
from asgi_site import answer
from http_support import Site, make_server

from headrace.errors import HttpRefusal
from headrace.limits import Limits
from headrace.transports.asgi import serve
from headrace.transports.http_server import serve_http

PEERS = 150
LIMITS = Limits(
    drain_timeout=1.0, linger_timeout=0.2, max_output_bytes=100_000, max_message_bytes=200_000, body_timeout=0.3,
    header_timeout=0.3, write_timeout=2.0, keep_alive_timeout=1.0,
)  # fmt: skip
EXPECTED = ("an ASGI application failed", "authenticate failed")


class Erratic:
    """What it does follows from the query."""

    def __init__(self):
        self.running = 0

    async def __call__(self, scope, receive, send):
        assert scope["type"] == "http"
        if scope["path"] == "/fine":
            await answer(send)
            return
        self.running += 1
        try:
            await self.work(random.Random(scope["query_string"]), receive, send)
        finally:
            self.running -= 1

    async def work(self, r, receive, send):
        for _ in range(r.randrange(6)):
            what = r.randrange(8)
            if what == 0:
                await asyncio.sleep(0)
            elif what == 1:
                await asyncio.sleep(r.random() * 0.01)
            elif what in (2, 3, 4):
                await receive()
            elif what == 5:
                waiting = asyncio.ensure_future(receive())
                await asyncio.sleep(0)
                waiting.cancel()
            elif r.random() < 0.1:
                if what == 6:
                    raise RuntimeError("before")
                return
        size, parts = r.choice([0, 1, 100, 70_000, 700_000]), r.randrange(1, 5)
        headers = [(b"x", b"y")]
        if r.random() < 0.3:
            headers.append((b"content-length", str(size * parts).encode()))
        if r.random() < 0.05:
            headers.append((b"content-length", b"7"))
        if r.random() < 0.05:
            headers.append((b"connection", b"close"))
        status = r.choice([200, 200, 200, 204, 304, 404, 500])
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for i in range(parts):
            if r.random() < 0.3:
                await asyncio.sleep(r.random() * 0.02)
            if r.random() < 0.2:
                await receive()
            if r.random() < 0.03:
                raise RuntimeError("inside")
            await send({"type": "http.response.body", "body": b"z" * size, "more_body": i < parts - 1})
        if r.random() < 0.3:
            await asyncio.sleep(r.random() * 0.02)


def chunked(r, body):
    data = b""
    while body:
        n = r.randrange(1, 5000)
        data += b"%x\r\n%s\r\n" % (len(body[:n]), body[:n])
        body = body[n:]
    return data + b"0\r\n\r\n"


def request(r, place):
    if place.server is not None and r.random() < 0.2:
        return place.call("echo", {"text": "x" * r.choice([1, 100, 100_000])})
    body = b"b" * r.choice([0, 1, 500, 5000, 300_000])
    method = r.choice(["GET", "POST", "PUT", "HEAD", "OPTIONS", "DELETE"])
    version = r.choice("1111110")
    head = f"{method} /p?{r.randrange(10**6)} HTTP/1.{version}\r\nHost: localhost\r\n"
    if r.random() < 0.1:
        head += "Expect: 100-continue\r\n"
    if r.random() < 0.05:
        head += "Connection: close\r\n"
    if r.random() < 0.5:
        return head.encode() + b"\r\n"
    if version == "1" and r.random() < 0.5:
        return f"{head}Transfer-Encoding: chunked\r\n\r\n".encode() + chunked(r, body)
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


async def peer(r, place):
    """One connection, whatever becomes of it."""
    reader, writer = await asyncio.open_connection(place.host, place.port, limit=1 << 16)

    async def read():
        if r.random() < 0.2:
            await asyncio.sleep(r.random() * 0.2)
        with contextlib.suppress(OSError, RuntimeError):
            while await reader.read(r.choice([100, 65536])):
                if r.random() < 0.05:
                    await asyncio.sleep(0.01)

    reading = asyncio.ensure_future(read())
    data = b"".join(request(r, place) for _ in range(r.randrange(1, 6)))
    if r.random() < 0.3:
        damaged = bytearray(data)
        for _ in range(r.randrange(1, 4)):
            damaged[r.randrange(len(data))] = r.randrange(256)
        data = bytes(damaged)
    if r.random() < 0.2:
        data = data[: r.randrange(len(data))]
    while data and r.random() > 0.02:
        n = r.choice([1, 10, 1000, 100_000, 10_000_000])
        with contextlib.suppress(RuntimeError):  # uvloop, of a transport that is closed
            writer.write(data[:n])
        data = data[n:]
        if r.random() < 0.3:
            await asyncio.sleep(r.random() * 0.005)
    end = r.randrange(4)
    if end == 1:
        with contextlib.suppress(OSError, RuntimeError):
            writer.write_eof()
    if end:
        await asyncio.wait([reading], timeout=r.random() * 0.2)
    reading.cancel()
    writer.transport.abort()
    with contextlib.suppress(asyncio.CancelledError):
        await reading


@pytest.mark.parametrize("seed", [1, 2])
def test_random_peers_leave_nothing_behind(run, seed, caplog):
    async def main():
        r = random.Random(seed)

        async def authenticate(asked):
            what = r.randrange(6)
            if what == 0:
                await asyncio.sleep(r.random() * 0.02)
            if what == 1:
                raise HttpRefusal(401, [("WWW-Authenticate", "x")], b"{}")
            if what == 2:
                raise RuntimeError("erratic")

        app, server = Erratic(), make_server()
        server.set_limits(LIMITS)
        where = {"host": "127.0.0.1", "port": 0}
        async with server.running():
            alone = await serve(app, limits=LIMITS, log=server.log, **where)
            beside = await serve_http(server, beside=app, authenticate=authenticate, **where)
            places = Site(None, alone), Site(server, beside)
            live = set()
            for _ in range(PEERS):
                if len(live) >= 30:
                    await asyncio.wait(live, return_when=asyncio.FIRST_COMPLETED)
                task = asyncio.ensure_future(peer(random.Random(r.random()), r.choice(places)))
                live.add(task)
                task.add_done_callback(live.discard)
            await asyncio.gather(*live)
            for place in places:
                fine = await place.connect()
                fine.send(b"GET /fine HTTP/1.1\r\nHost: localhost\r\n\r\n")
                assert (await fine.answer()).body == b"ok"
                fine.reset()
            for listener in (alone, beside):
                await asyncio.wait_for(listener.close(), 10)
                assert listener.connections == 0 and listener.endpoint.served == 0
                assert listener.endpoint.buffered_bytes == 0 and not listener.endpoint.beside.running
            await asyncio.sleep(0)
            assert app.running == 0

    with caplog.at_level(logging.WARNING):
        run(main)
    odd = [each for each in caplog.records if each.getMessage() not in EXPECTED and "socket.send()" not in each.getMessage()]
    assert not odd, odd
    for record in caplog.get_records("call"):
        record.exc_info = None  # a traceback holds everything
    gc.collect()
    assert not [each for each in gc.get_objects() if type(each).__name__ in ("AsgiRequest", "HttpLink")]
