"""Timeouts, bounds, shutdown and TLS of the HTTP server."""

import asyncio
import os
import ssl
import subprocess
import sys

import pytest
from http_support import Peer, make_server, site, tiny

from headrace.errors import UsageError
from headrace.transports.http_server import serve_http


def test_header_timeout_is_408(run):
    async def main():
        async with site(limits=tiny(header_timeout=0.3)) as s:
            peer = await s.connect()
            peer.send(b"POST /mcp HT")
            for _ in range(20):
                await asyncio.sleep(0.03)
                if peer.reader._buffer:
                    break
                peer.send(b"X")  # dripping bytes do not buy time
            answer = await peer.answer()
            assert (answer.status, answer.get("connection")) == (408, "close")
            assert await peer.ended()

    run(main)


@pytest.mark.parametrize("kind", ["length", "chunked", "refused"])
def test_body_timeout_is_408(run, kind):
    async def main():
        async with site(limits=tiny(body_timeout=0.3)) as s:
            peer = await s.connect()
            if kind == "chunked":
                head = s.request(body=b"", content_length=None, transfer_encoding="chunked", mcp_protocol_version="x")
                peer.send(head + b"5\r\n{")
            elif kind == "length":
                peer.send(s.request(body=b"{", content_length="100", mcp_protocol_version="x"))
            else:
                peer.send(s.request(body=b"{", content_length="100", target="/x"))
                assert (await peer.answer()).status == 404
            if kind != "refused":
                answer = await peer.answer()
                assert (answer.status, answer.get("connection")) == (408, "close")
            assert await peer.ended()

    run(main)


def test_a_slow_body_that_moves_is_served(run):
    async def main():
        async with site(limits=tiny(body_timeout=0.4)) as s:
            peer = await s.connect()
            data = s.call("echo", {"text": "moving"})
            head, _, body = data.partition(b"\r\n\r\n")
            peer.send(head + b"\r\n\r\n")
            step = len(body) // 8 + 1
            for at in range(0, len(body), step):
                peer.send(body[at : at + step])
                await asyncio.sleep(0.1)
            assert (await peer.answer()).status == 200

    run(main)


def test_idle_connections_end_quietly(run):
    async def main():
        async with site(limits=tiny(keep_alive_timeout=0.3)) as s:
            fresh, used = await s.connect(), await s.connect()
            assert (await used.ask(s.call("echo", {"text": "x"}))).status == 200
            assert await fresh.ended() and await used.ended()
            await s.settled(lambda: s.listener.connections == 0)

    run(main)


def test_connections_over_the_bound_are_503(run):
    async def main():
        async with site(limits=tiny(max_connections=3)) as s:
            peers = [await s.connect() for _ in range(3)]
            for peer in peers:
                assert (await peer.ask(s.call("echo", {"text": "x"}))).status == 200
            extra = await s.connect()
            answer = await extra.answer()
            assert (answer.status, answer.get("connection"), answer.get("retry-after")) == (503, "close", "1")
            assert await extra.ended()
            peers[0].close()
            await s.settled(lambda: s.endpoint.served == 2)
            again = await s.connect()
            assert (await again.ask(s.call("echo", {"text": "x"}))).status == 200

    run(main)


def test_shutdown_drains_and_says_close(run):
    async def main():
        async with site(limits=tiny(drain_timeout=3.0)) as s:
            idle, busy, stream = [await s.connect() for _ in range(3)]
            assert (await idle.ask(s.call("echo", {"text": "x"}))).status == 200
            sid = await s.open_session(stream)
            stream.send(s.request("GET", mcp_session_id=sid))
            await stream.head()
            busy.send(s.call("sleep", {"ms": 300}))
            await s.settled(lambda: s.server.seen.started == 1)
            closing = asyncio.ensure_future(s.listener.close())
            assert await idle.ended()
            assert (await stream.chunk()).startswith(b"id: ")  # the first event of a stream that can be resumed
            assert await stream.chunk() == b""
            answer = await busy.answer()
            assert (answer.status, answer.get("connection")) == (200, "close")
            assert await busy.ended()
            await closing
            await s.listener.wait_closed()
            with pytest.raises(OSError):
                await s.connect()

    run(main)


def test_shutdown_gives_up_after_the_drain_timeout(run):
    async def main():
        async with site(limits=tiny(drain_timeout=0.3)) as s:
            one, two = await s.connect(), await s.connect()
            sid = await s.open_session(two)
            one.send(s.call("sleep", {"ms": 20_000}))
            two.send(s.legacy_call(sid, "sleep", {"ms": 20_000}))
            await s.settled(lambda: s.server.seen.started == 2)
            await s.listener.close()
            await s.settled(lambda: s.server.seen.cancelled == 2)
            assert (await one.answer()).status == 503
            assert (await two.answer()).status == 404

    run(main)


def test_busy_port_is_an_os_error(run):
    async def main():
        async with site() as s:
            with pytest.raises(OSError) as caught:
                await serve_http(s.server, host="127.0.0.1", port=s.port)
            assert caught.value.errno is not None

    run(main)


@pytest.mark.parametrize(
    "options",
    [{}, {"host": "127.0.0.1", "unix": "/x"}, {"host": "127.0.0.1", "path": "mcp"},
     {"host": "127.0.0.1", "path": "/m p"}, {"host": "127.0.0.1", "allowed_hosts": ["http://x"]},
     {"host": "127.0.0.1", "allowed_origins": ["x.com"]}],
)  # fmt: skip
def test_wrong_arguments_are_named(run, options):
    async def main():
        app = make_server()
        async with app.running():
            with pytest.raises(UsageError):
                await serve_http(app, **options)

    run(main)


def certificate(tmp_path):
    key, cert = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(key), "-out", str(cert),
               "-days", "2", "-subj", "/CN=localhost"]  # fmt: skip
    try:
        done = subprocess.run(command, capture_output=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("no openssl")
    if done.returncode:
        pytest.skip("openssl cannot make a certificate here")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    return context


def test_tls(run, tmp_path):
    context = certificate(tmp_path)
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname = False
    client.verify_mode = ssl.CERT_NONE

    async def main():
        async with site(ssl=context) as s:
            assert s.listener.url.startswith("https://")
            peer = await s.connect(ssl=client)
            for n in (10, 300_000):
                answer = await peer.ask(s.call("big", {"n": n}))
                assert len(answer.json["result"]["content"][0]["text"]) == n
            answer = await peer.ask(s.call("progress", {"n": 3}, meta={"progressToken": 1}))
            assert len(answer.events) == 4
            peer.send(s.call("sleep", {"ms": 20_000}))
            await s.settled(lambda: s.server.seen.started >= 2)
            peer.reset()
            await s.settled(lambda: s.server.seen.cancelled == 1)
            peer = await s.connect(ssl=client)
            answer = await peer.ask(s.request(body=b"{}", content_length="2, 3"))
            assert answer.status == 400
            plain = Peer(*await asyncio.open_connection(s.host, s.port))
            plain.send(s.call("echo", {"text": "x"}))
            assert await plain.ended()
            plain.close()

    run(main)


def test_idle_connections_hold_no_buffers(run):
    """Whatever a connection carried before, between requests it costs its own object alone."""

    async def main():
        async with site() as s:
            peers = [await s.connect() for _ in range(10)]
            for peer in peers:
                await peer.ask(s.call("echo", {"text": "x" * 300_000}), timeout=10)
                data = s.call("echo", {"text": "y" * 3000}) * 2
                peer.send(data[:500])
                await s.settled(lambda: any(link.held_bytes for link in s.endpoint.links))
                peer.send(data[500:])
                await peer.answer()
                await peer.answer()
            for link in s.endpoint.links:
                assert link.held_bytes == 0
                assert sys.getsizeof(link) < 2048
            assert s.endpoint.buffered_bytes == 0
            # what the endpoint keeps to lend is bounded, too
            assert s.endpoint.pooled_bytes <= 65 * 64 * 1024

    run(main)


def test_an_idle_server_has_no_timer(run):
    async def main():
        async with site() as s:
            assert s.listener._timer is None
            peer = await s.connect()
            assert (await peer.ask(s.call("echo", {"text": "x"}))).status == 200
            assert s.listener._timer is not None
            peer.close()
            await s.settled(lambda: s.listener._timer is None)

    run(main)


def test_curl(run):
    async def main():
        async with site() as s:
            body = s.call("echo", {"text": "from curl"}).partition(b"\r\n\r\n")[2]
            command = [
                "curl", "-sS", "-m", "10", "-D", "-", "-H", "Content-Type: application/json",
                "-H", "MCP-Protocol-Version: 2026-07-28", "-H", "Mcp-Method: tools/call", "-H", "Mcp-Name: echo",
                "--data-binary", "@-", s.listener.url,
            ]  # fmt: skip
            try:
                env = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env | {"no_proxy": "*"}
                )
            except FileNotFoundError:
                pytest.skip("no curl")
            out, _ = await process.communicate(body)
            assert out.startswith(b"HTTP/1.1 200 OK")
            assert b'"text":"from curl"' in out

    run(main)


def test_b52_a_body_that_drips_is_bounded_in_time(run):
    """Each byte comes within body_timeout; the whole body does not within body_total_timeout."""

    async def main():
        async with site(limits=tiny(body_timeout=5.0, body_total_timeout=0.3)) as s:
            peer = await s.connect()
            whole = s.call("echo", {"text": "x" * 1000})
            peer.send(whole[:-900])
            for at in range(900, 800, -1):
                peer.send(whole[-at : -at + 1])
                await asyncio.sleep(0.02)
                if peer.reader._buffer:
                    break
            answer = await peer.answer()
            assert (answer.status, answer.get("connection")) == (408, "close")
            # one that comes in pieces but in time is served
            other = await s.connect()
            other.send(whole[:-900])
            await asyncio.sleep(0.02)
            assert (await other.ask(whole[-900:])).status == 200

    run(main)


def test_jr02_a_byte_order_mark_before_a_body_is_tolerated(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            head, _, body = s.call("echo", {"text": "x"}).partition(b"\r\n\r\n")
            marked = b"\xef\xbb\xbf" + body
            head = head.replace(b"content-length: %d" % len(body), b"content-length: %d" % len(marked))
            assert len(marked) == len(body) + 3 and b"%d" % len(marked) in head
            answer = await peer.ask(head + b"\r\n\r\n" + marked)
            assert answer.json["result"]["content"][0]["text"] == "x"
            for junk in (b"\xef\xbb\xbf", b"\xef\xbb", b"\xef\xbb\xbf{"):
                assert (await peer.ask(s.request(body=junk))).status == 400

    run(main)
