"""docs/deploy/nginx.conf, run by nginx as it stands, its addresses replaced: streams, upstreams, routing, addresses.

Strategy: the servers run in this process, so that a test sees what arrives there; the client speaks HTTP/1.1 and
HTTP/2 to nginx byte by byte.
"""

import asyncio
import contextlib
import json

import pytest
from http_support import META, R5, Peer, make_server, site, tiny
from tls_support import client_context, make_certificate

from headrace import Limits
from headrace.transports.http_server import serve_http
from interop.front_support import H2, deployed, nginx, ports, refusals_and_a_break

pytestmark = pytest.mark.interop


class Front:
    """nginx, and how to reach it."""

    def __init__(self, place, port, cert):
        self.place, self.port, self.cert = place, port, cert
        self.peers = []

    async def connect(self):
        peer = Peer(*await asyncio.open_connection(
            "127.0.0.1", self.port, ssl=client_context(self.cert), server_hostname="localhost", limit=1 << 24))  # fmt: skip
        self.peers.append(peer)
        return peer

    def close(self):
        for peer in self.peers:
            peer.reset()


@contextlib.asynccontextmanager
async def fronted(folder, limits=None, changes=(), app=None, unix=False, others=0, reports=False, **options):
    """One server (or several) behind nginx; gives the Front and the sites."""
    cert, key = make_certificate(folder, "mcp.example.com")
    async with contextlib.AsyncExitStack() as stack:
        options = {"forwarded_allow_ips": ["127.0.0.1", "unix"], "allowed_hosts": ["localhost"]} | options
        app = app or make_server()
        if limits is not None:
            app.set_limits(limits)
        sites = [await stack.enter_async_context(site(app, **options))]
        for _ in range(others):
            sites.append(await stack.enter_async_context(site(make_server(), alone=False, **options)))
        where = [f"127.0.0.1:{each.port}" for each in sites]
        if unix:
            listener = await serve_http(app, unix=str(folder / "mcp.sock"), **options)
            stack.push_async_callback(listener.close)
            where = [f"unix:{folder}/mcp.sock"]
        lines = "".join(f"    server {each};\n" for each in (where[:-1] if reports else where))
        [port] = ports(1)
        text = deployed(
            "nginx.conf",
            servers=("    server 127.0.0.1:8000;\n    server 127.0.0.1:8001;\n    server unix:/run/headrace/mcp.sock;\n", lines),
            reports=("127.0.0.1:8010", where[-1]), listen=("listen 443", f"listen 127.0.0.1:{port}"),
            cert=("/etc/ssl/mcp.example.com.crt", cert), key=("/etc/ssl/mcp.example.com.key", key),
            name=("server_name mcp.example.com", "server_name localhost"), **dict(changes),
        )  # fmt: skip
        front = Front(sites[0], port, cert)
        with nginx(folder, text, port):
            try:
                yield front, sites
            finally:
                front.close()


@pytest.mark.parametrize("unix", [False, True], ids=["tcp", "unix"])
def test_calls_go_over_kept_connections(run, tmp_path, unix):
    """Keep-alive upstreams: many calls of several clients, few connections; over a unix socket too."""

    async def main():
        async with fronted(tmp_path, unix=unix) as (front, [place]):
            peers = [await front.connect() for _ in range(3)]
            for n in range(10):
                for peer in peers:
                    answer = await peer.ask(place.call("echo", {"text": str(n)}, host="localhost"))
                    assert answer.json["result"]["content"][0]["text"] == str(n), answer
            if not unix:
                assert place.listener.connections == 1
            peer = await front.connect()
            for n in (200_000, 3_000_000):
                answer = await peer.ask(place.call("big", {"n": n}, host="localhost"), timeout=20)
                assert len(answer.json["result"]["content"][0]["text"]) == n
                answer = await peer.ask(place.call("echo", {"text": "x" * n}, host="localhost"), timeout=20)
                assert len(answer.json["result"]["content"][0]["text"]) == n

    run(main)


def staged_server():
    from headrace.protocol.context import Context

    app = make_server()
    app.gate = asyncio.Event()

    @app.tool
    async def staged(ctx: Context) -> str:
        for step in range(3):
            await ctx.progress(step + 1, 3, "step")
            await app.gate.wait()
            app.gate.clear()
        return "done"

    return app


DEFAULT = """
server {{
    listen 127.0.0.1:{port} ssl http2;
    ssl_certificate {cert};
    ssl_certificate_key {key};
    gzip on;
    location / {{ proxy_pass http://127.0.0.1:{server}; proxy_set_header Host localhost; }}
}}
"""


@pytest.mark.parametrize("config", ["deployed", "default"])
def test_b41_events_leave_as_they_come(run, tmp_path, config):
    """Each note arrives before the next is sent: nothing of a stream is kept back, compressed or counted, with our file
    and also with what Debian's nginx does by itself: it buffers answers, and compresses."""

    async def read_all(front, place):
        peer = await front.connect()
        peer.send(place.call("staged", {}, meta={"progressToken": 1}, host="localhost", accept_encoding="gzip, br"))
        status, headers = await peer.head()
        assert status == 200 and headers["content-type"] == ["text/event-stream"]
        assert "content-encoding" not in headers and "content-length" not in headers
        assert "no-transform" in headers["cache-control"][0]
        buffer = b""
        chunked = "transfer-encoding" in headers
        assert chunked
        for step in range(3):
            while buffer.count(b"notifications/progress") <= step:
                buffer += await peer.chunk()
            place.server.gate.set()
        while data := await peer.chunk():
            buffer += data
        assert b'"text":"done"' in buffer

    async def main():
        app = staged_server()
        if config == "deployed":
            async with fronted(tmp_path, app=app) as (front, [place]):
                await read_all(front, place)
            return
        cert, key = make_certificate(tmp_path)
        [port] = ports(1)
        async with site(app) as place:
            with nginx(tmp_path, DEFAULT.format(port=port, cert=cert, key=key, server=place.port), port):
                front = Front(place, port, cert)
                await read_all(front, place)
                front.close()

    run(main)


def test_b67_silence_is_no_error(run, tmp_path):
    """A call and a stream that are silent for longer than nginx waits are kept alive by comments; the answer comes."""
    limits = tiny(sse_keep_alive=0.5)
    changes = {"read": ("proxy_read_timeout 60s", "proxy_read_timeout 2s")}

    async def main():
        async with fronted(tmp_path, limits, changes) as (front, [place]):
            opener = await front.connect()
            answer = await opener.ask(place.initialize(host="localhost"))
            sid = answer.get("mcp-session-id")
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            assert (await opener.ask(place.request(body=note, mcp_session_id=sid, host="localhost"))).status == 202
            stream = await front.connect()
            stream.send(place.request("GET", mcp_session_id=sid, host="localhost"))
            assert (await stream.head())[0] == 200
            caller = await front.connect()
            answer = await caller.ask(place.call("sleep", {"ms": 4000}, host="localhost"), timeout=15)
            assert answer.status == 200 and answer.events[-1]["result"]["content"][0]["text"] == "slept"
            seen = b""
            with contextlib.suppress(TimeoutError):
                while True:
                    data = await stream.chunk(timeout=1.0)
                    assert data != b"", seen
                    seen += data
                    if seen.count(b":") > 6:
                        break
            assert seen.count(b":") > 6

    run(main)


def test_b67_errors_are_the_servers_own(run, tmp_path):
    """Statuses, bodies and headers of refusals come through; what breaks in the middle ends without a clean last chunk."""

    async def main():
        async with fronted(tmp_path) as (front, [place]):
            peer = await front.connect()
            await refusals_and_a_break(place, peer)
            assert place.server.seen.cancelled == 1

    run(main)


def test_a_request_is_its_clients(run, tmp_path):
    """The client's own X-Forwarded-For is not believed, nginx's is; the scheme is that of the client."""
    seen = []

    async def authenticate(request):
        seen.append((request.client[0], request.scheme, request.header(b"x-forwarded-for")))

    async def main():
        async with fronted(tmp_path, authenticate=authenticate) as (front, [place]):
            peer = await front.connect()
            forged = [("X-Forwarded-For", "6.6.6.6, 127.0.0.1"), ("X-Forwarded-Proto", "http")]
            for headers in ([], forged):
                assert (await peer.ask(place.call("echo", {"text": "x"}, headers=headers, host="localhost"))).status == 200
        # The client of this test is on the loopback address itself, which is trusted: that is why it is given "6.6.6.6".
        assert seen == [("127.0.0.1", "https", b"127.0.0.1"), ("6.6.6.6", "https", b"6.6.6.6, 127.0.0.1, 127.0.0.1")]

    run(main)


def test_a_forged_address_is_not_believed(run, tmp_path):
    """nginx on a unix socket, which alone is trusted: the address that nginx saw counts, not what the client wrote."""
    seen = []

    async def authenticate(request):
        seen.append(request.client[0])

    async def main():
        options = {"authenticate": authenticate, "forwarded_allow_ips": ["unix"]}
        async with fronted(tmp_path, unix=True, **options) as (front, [place]):
            peer = await front.connect()
            forged = [("X-Forwarded-For", "6.6.6.6"), ("Forwarded", "for=6.6.6.6")]
            assert (await peer.ask(place.call("echo", {"text": "x"}, headers=forged, host="localhost"))).status == 200
        assert seen == ["127.0.0.1"]

    run(main)


def test_calls_are_routed_by_their_headers(run, tmp_path):
    """Era M names method and tool in headers: one tool has servers of its own. The server checks that they are true."""

    async def main():
        apps = []
        async with fronted(tmp_path, others=1, reports=True) as (front, sites):
            for place in sites:
                place.got = []

                def add(place=place):
                    @place.server.tool
                    def report() -> str:
                        place.got.append("report")
                        return "report"

                add()
                apps.append(place.server)
            peer = await front.connect()
            main_site, reports = sites
            for _ in range(3):
                answer = await peer.ask(main_site.call("report", host="localhost"))
                assert answer.json["result"]["content"][0]["text"] == "report"
                assert (await peer.ask(main_site.call("echo", {"text": "x"}, host="localhost"))).status == 200
            assert (main_site.got, reports.got) == ([], ["report"] * 3)
            assert main_site.listener.connections == reports.listener.connections == 1
            lying = await peer.ask(main_site.call("echo", {"text": "x"}, host="localhost", mcp_name="report"))
            assert lying.status == 400

    run(main)


def test_servers_share_the_calls_and_one_that_is_gone_is_passed_over(run, tmp_path):
    async def main():
        async with fronted(tmp_path, others=1) as (front, sites):
            peers = [await front.connect() for _ in range(4)]

            async def work(peer):
                for _ in range(10):
                    answer = await peer.ask(sites[0].call("sleep", {"ms": 5}, host="localhost"))
                    assert answer.status == 200, answer

            await asyncio.gather(*(work(peer) for peer in peers))
            counts = [place.server.seen.finished for place in sites]
            assert sum(counts) == 40 and min(counts) >= 5, counts
            await sites[1].listener.close()
            await asyncio.sleep(0.2)  # nginx may not send a call on an idle connection whose end it has not read yet
            await asyncio.gather(*(work(peer) for peer in peers))
            assert sites[0].server.seen.finished + sites[1].server.seen.finished == 80

    run(main)


def h2_call(tool, arguments=None, token=None):
    meta = META | ({"progressToken": token} if token is not None else {})
    params = {"name": tool, "arguments": arguments or {}, "_meta": meta}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream",
               "mcp-protocol-version": R5, "mcp-method": "tools/call", "mcp-name": tool, "content-length": str(len(body))}  # fmt: skip
    return "POST", "/mcp", headers, body


def test_b114_a_stream_that_is_reset_ends_its_call(run, tmp_path):
    """HTTP/2: only the stream goes, its connection stays; the handler is cancelled, other streams go on."""

    async def main():
        async with fronted(tmp_path) as (front, [place]):
            client = await H2.connect(front.port, client_context(front.cert))
            other = client.request(*h2_call("sleep", {"ms": 1500}))
            for started, call in ((2, h2_call("sleep", {"ms": 20_000})), (3, h2_call("progress", {"n": 2, "gap_ms": 20_000}, 7))):
                stream = client.request(*call)
                await place.settled(lambda started=started: place.server.seen.started == started)
                client.reset(stream)
                await place.settled(lambda started=started: place.server.seen.cancelled == started - 1)
            data = b""
            while piece := await client.data(other):
                data += piece
            assert b"slept" in data and place.server.seen.finished == 1
            client.close()

    run(main)


def test_b114_a_flood_of_resets_is_bounded(run, tmp_path):
    """A thousand streams opened and reset at once: nothing is left of them, and calls go on."""

    async def main():
        async with fronted(tmp_path, Limits(drain_timeout=2.0)) as (front, [place]):
            sent = 0
            most = 0
            while sent < 1000:
                client = await H2.connect(front.port, client_context(front.cert))
                for _ in range(100):
                    client.reset(client.request(*h2_call("sleep", {"ms": 20_000})))
                    sent += 1
                with contextlib.suppress(ConnectionError):
                    await client.writer.drain()
                most = max(most, place.listener.connections)
                client.close()
            await place.settled(lambda: place.server.runtime.in_flight == 0, timeout=15)
            seen = place.server.seen
            assert seen.started == seen.cancelled and seen.finished == 0
            assert most <= 1000
            peer = await front.connect()
            assert (await peer.ask(place.call("echo", {"text": "x"}, host="localhost"))).status == 200
            await place.settled(lambda: place.listener.connections <= 65)

    run(main)
