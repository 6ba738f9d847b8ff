"""docs/deploy/haproxy.cfg, run by HAProxy as it stands, its addresses replaced: streams, upstreams, routing, addresses,
PROXY headers, TLS that ends in front and TLS that goes through.

Strategy: as test_front_nginx.
"""

import asyncio
import contextlib
from pathlib import Path

import pytest
from http_support import Peer, make_server, site, tiny
from tls_support import client_context, make_certificate

from headrace.transports.http_server import serve_http
from headrace.transports.tls import Certificate
from interop.front_support import H2, deployed, haproxy, ports, refusals_and_a_break
from interop.test_front_nginx import h2_call

pytestmark = pytest.mark.interop


class Front:
    """HAProxy, and how to reach it: ``port`` where TLS ends there, ``through`` where it goes on."""

    def __init__(self, port, through, cert):
        self.port, self.through, self.cert = port, through, cert
        self.peers = []

    async def connect(self, port=None):
        peer = Peer(*await asyncio.open_connection(
            "127.0.0.1", port or self.port, ssl=client_context(self.cert), server_hostname="localhost", limit=1 << 24))  # fmt: skip
        self.peers.append(peer)
        return peer

    def close(self):
        for peer in self.peers:
            peer.reset()


@contextlib.asynccontextmanager
async def fronted(folder, limits=None, changes=(), app=None, reports=False, **options):
    """Three servers behind HAProxy, one of them on a unix socket, and one that speaks TLS itself behind a PROXY header;
    gives the Front, and the sites by name."""
    cert, key = make_certificate(folder, "mcp.example.com")
    both = folder / "mcp.example.com.pem"
    both.write_bytes(Path(cert).read_bytes() + Path(key).read_bytes())
    async with contextlib.AsyncExitStack() as stack:
        options = {"allowed_hosts": ["localhost"]} | options
        trusting = {"forwarded_allow_ips": ["127.0.0.1", "unix"], "health": True} | options
        app = app or make_server()
        if limits is not None:
            app.set_limits(limits)
        sites = {"one": await stack.enter_async_context(site(app, **trusting))}
        for name in ("two", "local", "reports"):
            sites[name] = await stack.enter_async_context(site(make_server(), alone=False, **trusting))
        ending = {"ssl": Certificate(cert, key), "proxy_protocol": True}
        sites["tls"] = await stack.enter_async_context(site(make_server(), limits, alone=False, **options, **ending))
        listener = await serve_http(sites["local"].server, unix=str(folder / "mcp.sock"), **trusting)
        stack.push_async_callback(listener.close)
        port, through = ports(2)
        text = deployed(
            "haproxy.cfg",
            one=("127.0.0.1:8000\n    server two", f"127.0.0.1:{sites['one'].port}\n    server two"),
            two=("127.0.0.1:8001\n    server local", f"127.0.0.1:{sites['two'].port}\n    server local"),
            local=("unix@/run/headrace/mcp.sock", f"unix@{folder}/mcp.sock"),
            reports=("server reports 127.0.0.1:8010", f"server reports 127.0.0.1:{sites['reports'].port}"),
            tls=("server tls 127.0.0.1:9443", f"server tls 127.0.0.1:{sites['tls'].port}"),
            bind=("bind :443", f"bind 127.0.0.1:{port}"), through=("bind :8443", f"bind 127.0.0.1:{through}"),
            cert=("/etc/haproxy/mcp.example.com.pem", str(both)), descriptors=("maxconn 20000", "maxconn 500"),
            **dict(changes),
        )  # fmt: skip
        front = Front(port, through, cert)
        with haproxy(folder, text, [port, through]):
            try:
                yield front, sites
            finally:
                front.close()


def finished(sites):
    return {name: place.server.seen.finished for name, place in sites.items()}


def test_calls_are_spread_over_servers_and_kept_connections(run, tmp_path):
    """Three servers, one on a unix socket; connections are reused; one that is gone is passed over."""

    async def main():
        async with fronted(tmp_path) as (front, sites):
            place = sites["one"]
            peers = [await front.connect() for _ in range(6)]

            async def work(peer):
                for _ in range(10):
                    answer = await peer.ask(place.call("sleep", {"ms": 5}, host="localhost"))
                    assert answer.status == 200, answer

            await asyncio.gather(*(work(peer) for peer in peers))
            counts = finished(sites)
            assert counts["one"] + counts["two"] + counts["local"] == 60
            assert min(counts["one"], counts["two"], counts["local"]) >= 5, counts
            assert place.listener.connections <= 10  # kept: 60 calls, some connections of checks
            await sites["two"].listener.close()
            await asyncio.sleep(0.2)  # HAProxy may not send a call on an idle connection whose end it has not read yet
            await asyncio.gather(*(work(peer) for peer in peers))
            assert sum(finished(sites).values()) == 120

    run(main)


def test_calls_are_routed_by_their_headers(run, tmp_path):
    async def main():
        async with fronted(tmp_path) as (front, sites):
            got = []
            for name, place in sites.items():

                def add(name=name, place=place):
                    @place.server.tool
                    def report() -> str:
                        got.append(name)
                        return "report"

                add()
            place = sites["one"]
            peer = await front.connect()
            for _ in range(3):
                assert (await peer.ask(place.call("report", host="localhost"))).status == 200
                assert (await peer.ask(place.call("echo", {"text": "x"}, host="localhost"))).status == 200
            assert got == ["reports"] * 3
            assert (await peer.ask(place.call("echo", {"text": "x"}, host="localhost", mcp_name="report"))).status == 400

    run(main)


@pytest.mark.parametrize("way", ["port", "through"])
def test_b41_events_leave_as_they_come(run, tmp_path, way):
    async def main():
        async with fronted(tmp_path) as (front, sites):
            apps = []
            for place in sites.values():
                place.server.gate = asyncio.Event()
                apps.append(place.server)
                _add_staged(place.server)
            peer = await front.connect(getattr(front, way))
            peer.send(sites["one"].call("staged", {}, meta={"progressToken": 1}, host="localhost", accept_encoding="gzip"))
            status, headers = await peer.head()
            assert status == 200 and "content-encoding" not in headers and "content-length" not in headers
            buffer = b""
            for step in range(3):
                while buffer.count(b"notifications/progress") <= step:
                    buffer += await peer.chunk()
                for app in apps:
                    app.gate.set()
            while data := await peer.chunk():
                buffer += data
            assert b'"text":"done"' in buffer

    run(main)


def _add_staged(app):
    from headrace.protocol.context import Context

    @app.tool
    async def staged(ctx: Context) -> str:
        for step in range(3):
            app.gate.clear()
            await ctx.progress(step + 1, 3, "step")
            await app.gate.wait()
        return "done"


@pytest.mark.parametrize("way", ["port", "through"])
def test_b67_silence_is_no_error(run, tmp_path, way):
    """HTTP and TCP alike: comments keep a silent call alive for longer than HAProxy waits."""
    changes = {"client": ("timeout client 60s", "timeout client 2s"), "server": ("timeout server 60s", "timeout server 2s"),
               "tunnel": ("timeout tunnel 1h", "timeout tunnel 2s")}  # fmt: skip

    async def main():
        limits = tiny(sse_keep_alive=0.5)
        async with fronted(tmp_path, limits, changes) as (front, sites):
            for place in sites.values():
                assert place.server.limits.sse_keep_alive in (0.5, 15.0)
            for name in ("two", "local"):
                await sites[name].listener.close()
            peer = await front.connect(getattr(front, way))
            answer = await peer.ask(sites["one"].call("sleep", {"ms": 4000}, host="localhost"), timeout=15)
            assert answer.status == 200 and answer.events[-1]["result"]["content"][0]["text"] == "slept"

    run(main)


def test_b67_errors_are_the_servers_own(run, tmp_path):
    """Statuses, bodies and headers of refusals come through; what breaks in the middle ends without a clean last chunk."""

    async def main():
        async with fronted(tmp_path) as (front, sites):
            for name in ("two", "local"):
                await sites[name].listener.close()
            place = sites["one"]
            peer = await front.connect()
            await refusals_and_a_break(place, peer)
            assert place.server.seen.cancelled == 1

    run(main)


def test_a_request_is_its_clients(run, tmp_path):
    """TLS ends in front: X-Forwarded-For is HAProxy's alone. TLS goes through: the PROXY header says who it is."""
    seen = []

    async def authenticate(request):
        seen.append((request.client, request.scheme, request.header(b"x-forwarded-for")))

    async def main():
        async with fronted(tmp_path, authenticate=authenticate) as (front, sites):
            forged = [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-Proto", "http")]
            peer = await front.connect()
            assert (await peer.ask(sites["one"].call("echo", {"text": "x"}, headers=forged, host="localhost"))).status == 200
            assert seen == [(("127.0.0.1", 0), "https", b"127.0.0.1")]
            seen.clear()
            peer = await front.connect(front.through)
            assert (await peer.ask(sites["tls"].call("echo", {"text": "x"}, headers=forged, host="localhost"))).status == 200
            mine = peer.writer.get_extra_info("sockname")
            assert seen == [(mine, "https", b"6.6.6.6")]
            assert sites["tls"].server.runtime.refusals == {}

    run(main)


def test_version_1_of_the_proxy_protocol(run, tmp_path):
    seen = []

    async def authenticate(request):
        seen.append(request.client)

    async def main():
        changes = {"v1": ("send-proxy-v2 check", "send-proxy check")}
        async with fronted(tmp_path, changes=changes, authenticate=authenticate) as (front, sites):
            peer = await front.connect(front.through)
            assert (await peer.ask(sites["tls"].call("echo", {"text": "x"}, host="localhost"))).status == 200
            assert seen == [peer.writer.get_extra_info("sockname")]

    run(main)


def test_http_with_a_proxy_header_that_tells_of_tls(run, tmp_path):
    """`send-proxy-v2-ssl` in HTTP mode, with checksums: address and scheme without any header of HTTP."""
    seen = []

    async def authenticate(request):
        seen.append((request.client, request.scheme))

    async def main():
        cert, key = make_certificate(tmp_path, "mcp.example.com")
        both = tmp_path / "both.pem"
        both.write_bytes(Path(cert).read_bytes() + Path(key).read_bytes())
        [port] = ports(1)
        async with site(authenticate=authenticate, proxy_protocol=True, allowed_hosts=["localhost"]) as place:
            config = f"""
defaults
    mode http
    timeout connect 2s
    timeout client 10s
    timeout server 10s
listen mcp
    bind 127.0.0.1:{port} ssl crt {both}
    server one 127.0.0.1:{place.port} send-proxy-v2-ssl proxy-v2-options crc32c,unique-id
"""
            with haproxy(tmp_path, config, [port]):
                front = Front(port, port, cert)
                peer = await front.connect()
                assert (await peer.ask(place.call("echo", {"text": "x"}, host="localhost"))).status == 200
                assert seen == [(peer.writer.get_extra_info("sockname"), "https")]
                assert place.server.runtime.refusals == {}
                front.close()

    run(main)


def test_b114_a_stream_that_is_reset_ends_its_call(run, tmp_path):
    async def main():
        async with fronted(tmp_path) as (front, sites):
            client = await H2.connect(front.port, client_context(front.cert))
            stream = client.request(*h2_call("progress", {"n": 2, "gap_ms": 20_000}, 7))

            def total(what):
                return sum(getattr(place.server.seen, what) for place in sites.values())

            await sites["one"].settled(lambda: total("started") == 1)
            client.reset(stream)
            await sites["one"].settled(lambda: total("cancelled") == 1)
            other = client.request(*h2_call("echo", {"text": "after"}))
            data = b""
            while piece := await client.data(other):
                data += piece
            assert b"after" in data
            client.close()

    run(main)


def test_a_server_that_is_not_ready_gets_no_calls(run, tmp_path):
    """/readyz is what HAProxy looks at: calls go elsewhere while a server says that it is not ready, and come back."""
    from headrace.transports.health import Health

    async def main():
        health = Health()
        async with fronted(tmp_path, health=health) as (front, sites):
            place = sites["one"]
            peer = await front.connect()

            async def status():
                return (await peer.ask(place.call("echo", {"text": "x"}, host="localhost"))).status

            async def until(wanted):
                for _ in range(100):
                    if await status() == wanted:
                        return True
                    await asyncio.sleep(0.05)
                return False

            assert await until(200)
            health.hold("test")  # of all of them: they share it here
            assert await until(503)
            health.release("test")
            assert await until(200)

    run(main)


def test_sessions_stay_where_they_began(run, tmp_path):
    """haproxy-sticky.cfg: servers that share nothing, one connection for each request, and every session is found."""

    async def main():
        cert, key = make_certificate(tmp_path, "mcp.example.com")
        both = tmp_path / "both.pem"
        both.write_bytes(Path(cert).read_bytes() + Path(key).read_bytes())
        [port] = ports(1)
        options = {"allowed_hosts": ["localhost"], "forwarded_allow_ips": ["127.0.0.1"], "health": True}
        async with site(**options) as one, site(alone=False, **options) as two:
            text = deployed(
                "haproxy-sticky.cfg", one=("127.0.0.1:8000", f"127.0.0.1:{one.port}"), bind=("bind :443", f"bind 127.0.0.1:{port}"),
                two=("127.0.0.1:8001", f"127.0.0.1:{two.port}"), cert=("/etc/haproxy/mcp.example.com.pem", str(both)),
                descriptors=("maxconn 20000", "maxconn 500"),
            )  # fmt: skip
            with haproxy(tmp_path, text, [port]):
                front = Front(port, port, cert)

                async def ask(data):
                    peer = await front.connect()
                    answer = await peer.ask(data)
                    peer.reset()
                    return answer

                for _ in range(50):
                    if (await ask(one.call("echo", {"text": "x"}, host="localhost"))).status == 200:
                        break
                    await asyncio.sleep(0.05)
                sessions = []
                for _ in range(8):
                    answer = await ask(one.initialize(host="localhost"))
                    assert answer.status == 200, answer
                    sessions.append(answer.get("mcp-session-id"))
                assert min(one.listener.sessions, two.listener.sessions) >= 1
                for _ in range(3):
                    for sid in sessions:
                        answer = await ask(one.legacy_call(sid, "echo", {"text": "x"}, host="localhost"))
                        assert answer.status == 200, answer
                front.close()

    run(main)
