"""The HTTP link against cut and damaged input: cuts change nothing, damage never raises (B11, B50, B54)."""

import asyncio
import logging
import random
import re

import pytest
from http_support import Site, make_server, tiny

from headrace.transports._http_server import HttpLink
from headrace.transports.http_server import serve_http


class Wire:
    """A transport that keeps what is written."""

    def __init__(self):
        self.data = bytearray()
        self.closed = False

    def write(self, data):
        assert not self.closed
        self.data += data

    def close(self):
        self.closed = True

    abort = write_eof = close

    def can_write_eof(self):
        return False

    def set_write_buffer_limits(self, high=None):
        pass

    def get_write_buffer_size(self):
        return 0

    def get_extra_info(self, name):
        return None

    def pause_reading(self):
        pass

    resume_reading = pause_reading


def requests(s):
    chunked = s.call("echo", {"text": "c" * 50}).partition(b"\r\n\r\n")
    head = re.sub(rb"\r\ncontent-length: \d+", b"", chunked[0]) + b"\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"5;x=y\r\n%b\r\n%X\r\n%b\r\n0\r\nT: r\r\n\r\n" % (chunked[2][:5], len(chunked[2]) - 5, chunked[2][5:])
    return [
        s.call("echo", {"text": "a"}), s.call("echo", {"text": "b" * 3000}, id="long"), head + body,
        s.call("echo", target="/nope"), s.request("PUT", body=b"12345"), s.request(body=b"{", mcp_protocol_version="x"),
        s.call("echo", {"text": "x"}, accept="text/event-stream"), s.modern("tools/list"), s.initialize(),
        s.request("GET"), head.replace(b"/mcp", b"/nah") + body,
        s.request(body={"jsonrpc": "2.0", "method": "notifications/x"}, mcp_protocol_version="2026-07-28"),
    ]  # fmt: skip


async def feed(endpoint, pieces):
    link, wire = HttpLink(endpoint), Wire()
    link.connection_made(wire)
    for piece in pieces:
        if wire.closed:
            break
        link.data_received(piece)
        for _ in range(4):
            await asyncio.sleep(0)
    link.connection_lost(None)
    data = re.sub(rb"Date: [^\r]*\r\n", b"", bytes(wire.data))
    return re.sub(rb"Mcp-Session-Id: [^\r]*", b"Mcp-Session-Id: *", data)


def cut(rng, data):
    pieces = []
    while data:
        n = rng.choice((1, 2, 5, 40, 700, 5000, len(data)))
        pieces.append(data[:n])
        data = data[n:]
    return pieces


@pytest.fixture
def place(run):
    def runner(check):
        async def main():
            app = make_server(tiny())
            async with app.running():
                listener = await serve_http(app, host="127.0.0.1", port=0)
                try:
                    await check(Site(app, listener))
                    assert listener.endpoint.buffered_bytes == 0
                    assert not any(listener.endpoint.mux.debug_counts().values())
                finally:
                    await listener.close()

        run(main)

    return runner


def test_cuts_change_nothing(place):
    async def check(s):
        rng = random.Random(1)
        for _ in range(40):
            stream = b"".join(rng.choice(requests(s)) for _ in range(rng.randrange(1, 12)))
            whole = await feed(s.endpoint, [stream])
            assert await feed(s.endpoint, cut(rng, stream)) == whole
        one = b"".join(requests(s))
        assert await feed(s.endpoint, [bytes((b,)) for b in one]) == await feed(s.endpoint, [one])

    place(check)


def test_damage_never_raises(place, caplog):
    async def check(s):
        rng = random.Random(2)
        for _ in range(400):
            stream = bytearray(b"".join(rng.choice(requests(s)) for _ in range(rng.randrange(1, 5))))
            for _ in range(rng.randrange(1, 6)):
                at = rng.randrange(len(stream))
                what = rng.randrange(4)
                if what == 0:
                    stream[at] = rng.randrange(256)
                elif what == 1:
                    del stream[at : at + rng.randrange(1, 30)]
                elif what == 2:
                    stream[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 8)))
                else:
                    stream[at:at] = rng.choice((b"\r\n", b"\r\n\r\n", b": ", b"0\r\n", b"\x00", b'"', b"}"))
            out = await feed(s.endpoint, cut(rng, bytes(stream)))
            assert out == b"" or out.startswith(b"HTTP/1.1 ")

    with caplog.at_level(logging.ERROR):
        place(check)
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR]
