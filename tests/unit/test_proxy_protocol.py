"""PROXY protocol: headers of both versions, read to the byte, from a socket that brings them in any pieces.

Strategy: headers by the specification and every way to break them against the parser; then a served endpoint on both
loops, with and without TLS.
"""

import asyncio
import random
import socket
import struct

import pytest
from http_support import Peer, make_server, site, tiny
from hypothesis import given, settings
from hypothesis import strategies as st
from tls_support import client_context, make_certificate

from headrace.transports.proxy_protocol import SIGNATURE, Announced, ProxyHeaderError, parse_v1, parse_v2, read_header
from headrace.transports.tls import Certificate


def v2(host="198.51.100.1", port=4711, *, command=1, extras=b"", family=None, rest=None):
    six = ":" in host
    pack = socket.AF_INET6 if six else socket.AF_INET
    if rest is None:
        rest = socket.inet_pton(pack, host) + socket.inet_pton(pack, "::1" if six else "10.0.0.1") + struct.pack("!HH", port, 443)
    rest += extras
    return SIGNATURE + struct.pack("!BBH", 0x20 | command, family or (0x21 if six else 0x11), len(rest)) + rest


def tlv(kind, value):
    return struct.pack("!BH", kind, len(value)) + value


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (b"PROXY TCP4 198.51.100.1 10.0.0.1 4711 443\r\n", Announced("198.51.100.1", 4711)),
        (b"PROXY TCP6 2001:DB8:0:0::1 ::1 0 65535\r\n", Announced("2001:db8::1", 0)),
        (b"PROXY TCP6 ::ffff:198.51.100.1 ::1 1 2\r\n", Announced("198.51.100.1", 1)),
        (b"PROXY UNKNOWN\r\n", Announced(None)),
        (b"PROXY UNKNOWN ffff:f...f:ffff ::1 65535 65535\r\n", Announced(None)),
    ],
)
def test_version_1(line, said):
    assert parse_v1(line) == said


@pytest.mark.parametrize(
    "line",
    [b"PROXY TCP4 198.51.100.1 10.0.0.1 4711 443\n", b"PROXY TCP4 198.51.100.1 10.0.0.1 4711\r\n", b"PROXY \r\n",
     b"PROXY TCP4 ::1 ::1 1 1\r\n", b"PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n", b"PROXY TCP4 1.2.3 1.2.3.4 1 1\r\n",
     b"PROXY TCP4 1.2.3.4 1.2.3.4 01 1\r\n", b"PROXY TCP4 1.2.3.4 1.2.3.4 65536 1\r\n", b"proxy TCP4 1.2.3.4 1.2.3.4 1 1\r\n",
     b"PROXY  TCP4 1.2.3.4 1.2.3.4 1 1\r\n", b"PROXY UDP4 1.2.3.4 1.2.3.4 1 1\r\n", b"PROXY UNKNOWNX\r\n",
     b"PROXY UNKNOWN " + b"x" * 100 + b"\r\n"],
)  # fmt: skip
def test_version_1_malformed(line):
    with pytest.raises(ProxyHeaderError):
        parse_v1(line)


@pytest.mark.parametrize(
    ("header", "said"),
    [
        (v2(), Announced("198.51.100.1", 4711)),
        (v2("2001:db8::1", 1), Announced("2001:db8::1", 1)),
        (v2("::ffff:198.51.100.1", 1), Announced("198.51.100.1", 1)),
        (v2(command=0), Announced(None)),
        (v2(command=0, rest=b"", family=0x11), Announced(None)),
        (SIGNATURE + b"\x21\x00\x00\x00", Announced(None)),
        (SIGNATURE + b"\x20\x00\x00\x00", Announced(None)),
        (v2(rest=b"x" * 216, family=0x31), Announced("unix", 0)),
        (v2(extras=tlv(0x01, b"h2") + tlv(0x04, b"\0" * 9)), Announced("198.51.100.1", 4711)),
        (v2(extras=tlv(0x20, b"\x01\0\0\0\0" + tlv(0x21, b"TLSv1.3"))), Announced("198.51.100.1", 4711, True)),
        (v2(extras=tlv(0x20, b"\x00\0\0\0\0")), Announced("198.51.100.1", 4711, False)),
    ],
)
def test_version_2(header, said):
    assert parse_v2(header) == said


@pytest.mark.parametrize(
    "header",
    [v2(command=2), v2(family=0x12), v2(family=0x13), v2(family=0x41), v2(rest=b"x" * 11, family=0x11),
     v2(rest=b"x" * 35, family=0x21), v2(rest=b"x" * 215, family=0x31), v2(extras=b"\x01"), v2(extras=b"\x01\x00\x05abcd"),
     v2(extras=tlv(0x20, b"\x01")), v2(extras=tlv(0x03, b"\0\0\0\0")), v2(extras=tlv(0x03, b"\0")),
     SIGNATURE + b"\x11\x11\x00\x0c" + b"x" * 12],
)  # fmt: skip
def test_version_2_malformed(header):
    with pytest.raises(ProxyHeaderError):
        parse_v2(header)


def test_version_2_checksum():
    """CRC32C of the example of RFC 3720, appendix B.4: 32 bytes of zeros are 0x8A9136AA."""
    from headrace.transports.proxy_protocol import _crc32c

    assert _crc32c(bytes(32)) == 0x8A9136AA
    blank = v2(extras=tlv(0x03, bytes(4)))
    assert parse_v2(blank[:-4] + _crc32c(blank).to_bytes(4, "big")) == Announced("198.51.100.1", 4711)


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(data):
    for whole in (SIGNATURE + data, SIGNATURE + b"\x21" + data, v2(extras=data)[:16] + data, data):
        try:
            if len(whole) >= 16 and whole.startswith(SIGNATURE):
                assert isinstance(parse_v2(whole), Announced)
            assert isinstance(parse_v1(b"PROXY " + data + b"\r\n"), Announced)
        except ProxyHeaderError:
            continue


HEADERS = [b"PROXY TCP4 198.51.100.1 10.0.0.1 4711 443\r\n", v2(), b"PROXY UNKNOWN\r\n", v2("2001:db8::1"),
           SIGNATURE + b"\x20\x00\x00\x00", v2(extras=tlv(0x04, bytes(3000)))]  # fmt: skip


@pytest.mark.parametrize("header", HEADERS, ids=range(len(HEADERS)))
def test_no_byte_behind_it_is_taken(run, header):
    """Whatever pieces it comes in: what follows (a TLS hello) must still be in the socket."""

    async def main():
        loop = asyncio.get_running_loop()
        dice = random.Random(7)
        for cuts in ([], list(range(1, min(len(header), 120))), *[sorted(dice.sample(range(1, len(header)), 3)) for _ in range(5)]):
            ours, theirs = socket.socketpair()
            with ours, theirs:
                ours.setblocking(False)
                reading = loop.create_task(read_header(ours))
                whole = header + b"\r\nAFTER\n"
                for start, end in zip([0, *cuts], [*cuts, len(whole)], strict=True):
                    theirs.send(whole[start:end])
                    await asyncio.sleep(0)
                    await asyncio.sleep(0)
                assert (await reading) == (parse_v2(header) if header.startswith(SIGNATURE) else parse_v1(header))
                assert ours.recv(100) == b"\r\nAFTER\n"

    run(main)


def test_every_beginning_of_one_is_refused_at_its_end(run):
    async def main():
        for header in (HEADERS[0], HEADERS[1]):
            for cut in range(len(header)):
                ours, theirs = socket.socketpair()
                with ours, theirs:
                    ours.setblocking(False)
                    theirs.send(header[:cut])
                    theirs.close()
                    if cut == 0:
                        assert await read_header(ours) is None
                        continue
                    with pytest.raises(ProxyHeaderError):
                        await read_header(ours)

    run(main)


@pytest.mark.parametrize("tls", [False, True])
@pytest.mark.parametrize(
    ("header", "client", "scheme"),
    [(HEADERS[0], "198.51.100.1", "http"), (v2("2001:db8::1"), "2001:db8::1", "http"), (b"PROXY UNKNOWN\r\n", "127.0.0.1", "http"),
     (v2(extras=tlv(0x20, b"\x01\0\0\0\0")), "198.51.100.1", "https")],
)  # fmt: skip
def test_a_connection_is_its_clients(run, tmp_path, header, client, scheme, tls):
    """The header stands before TLS, and what it says is seen by `authenticate`."""
    cert, key = make_certificate(tmp_path) if tls else (None, None)
    seen = []

    async def authenticate(request):
        seen.append((request.client, request.scheme))

    async def main():
        options = {"ssl": Certificate(cert, key)} if tls else {}
        async with site(proxy_protocol=True, authenticate=authenticate, **options) as place:
            sock = socket.create_connection((place.host, place.port))
            sock.sendall(header)
            sock.setblocking(False)
            options = {"ssl": client_context(cert), "server_hostname": "localhost"} if tls else {}
            peer = Peer(*await asyncio.open_connection(sock=sock, **options))
            place.peers.append(peer)
            for _ in range(2):
                assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 200
            assert {(host, how) for (host, _), how in seen} == {(client, "https" if tls else scheme)}
            assert place.server.runtime.refusals == {}

    run(main)


def test_a_proxy_that_is_named_behind_a_balancer_of_tcp(run):
    """Whom the PROXY header names is who must be trusted for the headers of the request."""
    seen = []

    async def authenticate(request):
        seen.append(request.client[0])

    async def main():
        options = {"proxy_protocol": True, "forwarded_allow_ips": ["203.0.113.0/24"], "authenticate": authenticate}
        async with site(**options) as place:
            for proxy in ("203.0.113.9", "203.0.114.9"):
                peer = await place.connect()
                peer.send(f"PROXY TCP4 {proxy} 10.0.0.1 1 2\r\n".encode())
                call = place.call("echo", {"text": "x"}, headers=[("X-Forwarded-For", "198.51.100.1")])
                assert (await peer.ask(call)).status == 200
        assert seen == ["198.51.100.1", "203.0.114.9"]

    run(main)


def test_what_does_not_begin_with_one_is_closed_and_counted(run, caplog):
    async def main():
        async with site(make_server(), tiny(handshake_timeout=0.3), proxy_protocol=True) as place:
            broken = [place.call("echo", {"text": "x"}), b"PROXY TCP4 nonsense\r\n", v2(family=0x41), b"\x16\x03\x01",
                      SIGNATURE + b"\x21\x11\xff\xff", b"PROXY " + b"x" * 200]  # fmt: skip
            for data in broken:
                peer = await place.connect()
                peer.send(data)
                assert await peer.ended(), data
            refusals = place.server.runtime.refusals
            assert refusals == {"proxy_header": len(broken)}
            for data in (b"", b"PRO", b"PROXY TCP4 1.2.3.4", v2()[:-1]):  # silence in the middle
                peer = await place.connect()
                peer.send(data)
                assert await peer.ended(), data
            assert refusals == {"proxy_header": len(broken), "handshake_timeout": 4}
            probe = await place.connect()  # a balancer that only looks whether somebody listens
            probe.close()
            await place.settled(lambda: place.listener.arrivals.pending == 0)
            assert refusals == {"proxy_header": len(broken), "handshake_timeout": 4}
            assert place.server.seen.started == 0 and place.listener.connections == 0
        told = [each for each in caplog.records if "a connection was closed" in each.getMessage()]
        assert len([each for each in told if each.levelname == "WARNING"]) == 1  # a setting, most likely: said once

    run(main)


def test_off_it_is_no_http(run):
    """Where it is not switched on a header is what it is there: a bad request. Nobody can claim an address."""

    async def main():
        async with site() as place:
            peer = await place.connect()
            assert (await peer.ask(HEADERS[0])).status == 400

    run(main)
