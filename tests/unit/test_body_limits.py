"""Bounds under load that means harm: bodies (B52) and sessions (B47 d) at the size of their trials; and an answer for
each status of the table of refusals."""

import asyncio
import gzip
import json

import pytest
from http_support import make_server, site, tiny

from headrace import Limits, Server
from headrace.transports.stream import serve_lines

L = 20_000
"""max_message_bytes of these tests."""


def padded(s, size, **fields):
    """A call whose body has exactly `size` bytes."""
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    text = json.dumps(body).encode()
    return s.request(body=text + b" " * (size - len(text)), **fields)


def test_b52_chunks_without_end_are_413_at_the_bound(run):
    """Up to the bound nothing is wrong; one byte more is. What is kept never exceeds twice the bound."""

    async def main():
        async with site(make_server(), limits=tiny(max_message_bytes=L)) as s:
            peer = await s.connect()
            peer.send(s.request(body=None, transfer_encoding="chunked"))
            most = 0
            for _ in range(L // 1000):
                peer.send(b"3e8\r\n" + b" " * 1000 + b"\r\n")
                await asyncio.sleep(0)
                most = max(most, s.endpoint.buffered_bytes)
            await s.settled(lambda: s.endpoint.buffered_bytes >= L)
            assert s.server.runtime.refusals == {} and most <= 2 * L + 4096
            peer.send(b"1\r\n \r\n")
            answer = await peer.answer()
            assert (answer.status, answer.get("connection")) == (413, "close")
            assert s.endpoint.buffered_bytes == 0
            for _ in range(200):
                if peer.writer.transport.is_closing():
                    break
                peer.send(b"3e8\r\n" + b" " * 1000 + b"\r\n")
                await asyncio.sleep(0.005)
            assert await peer.ended()
            assert s.server.runtime.refusals == {"max_message_bytes": 1}

    run(main)


@pytest.mark.parametrize("room", ["for-all", "for-some"])
def test_b52_two_hundred_stalled_bodies_time_out_and_are_bounded(run, room):
    """Each sends all but one byte and stalls: together they hold no more than max_buffered_bytes (beyond: 503), and
    after body_timeout nothing (408)."""

    async def main():
        most = 200 * 2 * L if room == "for-all" else 50 * L
        bounds = tiny(max_message_bytes=L, body_timeout=0.6, max_buffered_bytes=most)
        async with site(make_server(), limits=bounds) as s:
            peers = [await s.connect() for _ in range(200)]
            held = 0
            for peer in peers:
                peer.send(padded(s, L)[:-1])
                await asyncio.sleep(0)
                held = max(held, s.endpoint.buffered_bytes)
            answers = await asyncio.gather(*[peer.answer(timeout=10) for peer in peers])
            statuses = [answer.status for answer in answers]
            assert all(answer.get("connection") == "close" for answer in answers)
            assert 0 < held <= most
            if room == "for-all":
                assert set(statuses) == {408}
            else:
                assert set(statuses) == {408, 503} and statuses.count(408) >= 20
                assert {a.get("retry-after") for a in answers if a.status == 503} == {"1"}
            assert s.endpoint.buffered_bytes == 0
            refusals = s.server.runtime.refusals
            assert refusals.get("body_timeout") == statuses.count(408)
            assert refusals.get("max_buffered_bytes", 0) == statuses.count(503)
            other = await s.connect()
            assert (await other.ask(s.call("echo", {"text": "x"}))).status == 200

    run(main)


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "gzip, identity", "x-made-up"])
def test_b52_encoded_bodies_are_415_unread(run, coding):
    """A bomb is not even looked at: no coding is understood, so none is unpacked."""

    async def main():
        async with site(make_server(), limits=tiny(max_message_bytes=L)) as s:
            peer = await s.connect()
            bomb = gzip.compress(b" " * 5_000_000)
            assert len(bomb) < L
            answer = await peer.ask(s.request(body=bomb, content_encoding=coding))
            assert answer.status == 415 and "Content-Encoding" in answer.json["error"]["message"]
            assert (await peer.ask(s.call("echo", {"text": "x"}, content_encoding="identity"))).status == 200
            assert s.server.runtime.refusals == {"http_415": 1}

    run(main)


def test_b52_long_lines_are_bounded_too(run, tmp_path):
    """The same on lines: an error, the rest is skipped, and the next message is served; without end nothing is kept."""
    app = Server("t", version="1", limits=Limits(max_message_bytes=L))

    async def main():
        path = str(tmp_path / "s")
        async with app.running():
            listener = await serve_lines(app, unix=path)
            reader, writer = await asyncio.open_unix_connection(path)
            for _ in range(100):
                writer.write(b" " * L)
                await writer.drain()
            writer.write(b'\n{"jsonrpc":"2.0","id":7,"method":"ping"}\n')
            error = json.loads(await asyncio.wait_for(reader.readline(), 5))
            assert error["error"]["message"] == f"message longer than {L} bytes"
            assert json.loads(await asyncio.wait_for(reader.readline(), 5))["id"] == 7
            assert app.runtime.refusals["max_message_bytes"] == 1
            writer.close()
            await listener.close()

    run(main)


def test_b47_sessions_over_the_bound_are_refused_clearly(run):
    """(d) 150 clients on a server of 100 sessions: 100 get one, 50 get 503 with Retry-After; those that have one are
    served all the while, and one that leaves makes room."""

    async def main():
        async with site(make_server(), limits=tiny(max_sessions=100)) as s:
            peer = await s.connect()
            answers = [await peer.ask(s.initialize(id=n)) for n in range(150)]
            assert [a.status for a in answers] == [200] * 100 + [503] * 50
            refused = answers[-1]
            assert refused.get("retry-after") == "1" and refused.get("mcp-session-id") is None
            assert refused.json["error"] == {"code": -32603, "message": "too many sessions are open"}
            assert refused.json["id"] == 149
            assert s.listener.sessions == 100
            ids = [a.get("mcp-session-id") for a in answers[:100]]
            assert (await peer.ask(s.legacy(ids[0], "ping"))).status == 200
            assert (await peer.ask(s.call("echo", {"text": "no session"}))).status == 200
            assert (await peer.ask(s.request("DELETE", mcp_session_id=ids[0]))).status == 204
            assert (await peer.ask(s.initialize(id=200))).status == 200
            assert s.server.runtime.refusals == {"max_sessions": 50}

    run(main)


def test_every_status_of_a_refusal_has_its_fields(run):
    """One request for each: a JSON-RPC error as the body, Retry-After where waiting helps, the connection kept where
    the request is over."""
    bounds = {"max_message_bytes": L, "max_target_bytes": 300, "max_header_bytes": 2000, "rate_limit": 0.01,
              "rate_burst": 2, "max_connections": 2, "header_timeout": 0.3}  # fmt: skip

    async def main():
        async with site(make_server(), limits=tiny(**bounds)) as s:

            async def ask(data, keeps):
                peer = await s.connect()
                answer = await peer.ask(data)
                error = answer.json["error"]
                assert answer.json["jsonrpc"] == "2.0" and set(error) <= {"code", "message", "data"}
                assert error["message"] and answer.get("content-type") == "application/json"
                assert (answer.get("connection") == "close") is not keeps
                assert (answer.get("retry-after") is not None) is (answer.status in (429, 503))
                if not keeps:
                    assert await peer.ended()
                peer.reset()
                await s.settled(lambda: s.endpoint.served == 0)
                return answer.status, error["code"]

            good = s.call("echo", {"text": "x"})
            assert await ask(s.request(body=b"", content_length=str(L + 1)), False) == (413, -32600)
            assert await ask(s.request(body=b"{}", target="/mcp?" + "x" * 300), False) == (414, -32600)
            assert await ask(s.request(body=b"{}", x_long="x" * 2000), False) == (431, -32600)
            assert await ask(s.call("echo", {"text": "x"}, host="evil.example"), True) == (421, -32600)
            assert await ask(b"POST /mcp HT", False) == (408, -32600)
            peer = await s.connect()
            while (await peer.ask(good)).status == 200:
                pass
            peer.reset()
            await s.settled(lambda: s.endpoint.served == 0)
            assert await ask(good, True) == (429, -32603)
            others = [await s.connect() for _ in range(2)]
            await s.settled(lambda: s.endpoint.served == 2)
            extra = await s.connect()
            answer = await extra.answer()
            assert (answer.status, answer.get("retry-after"), answer.get("connection")) == (503, "1", "close")
            for each in others:
                each.reset()
            refusals = s.server.runtime.refusals
            assert {kind for kind in refusals if kind != "rate_limit"} == {
                "max_message_bytes", "max_target_bytes", "max_header_bytes", "http_421", "header_timeout",
                "max_connections",
            }  # fmt: skip
            assert refusals["rate_limit"] == 2

    run(main)
