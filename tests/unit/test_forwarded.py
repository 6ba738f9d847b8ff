"""Forwarded addresses: whom they are believed from, and which of them counts.

Strategy: tables of header values against the reader, then raw sockets against a served endpoint on both loops, with
what `authenticate` and an application beside the endpoint see of it.
"""

import ipaddress
import json

import pytest
from asgi_site import App, answer
from http_support import make_server, site, tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.errors import UsageError
from headrace.transports.forwarded import Trusted, Whence
from headrace.transports.http_options import check_options

CAME = Whence("10.0.0.9", 4711, "http")


def read(addresses, scheme="", entries=("10.0.0.0/8", "192.0.2.7", "2001:db8::7"), header="x-forwarded-for", came=CAME):
    found = Trusted(entries, header).whence(came, addresses.encode("latin-1"), scheme.encode())
    return found.host, found.port, found.scheme


@pytest.mark.parametrize(
    ("value", "client"),
    [
        ("198.51.100.1", ("198.51.100.1", 0)),
        ("6.6.6.6, 198.51.100.1", ("198.51.100.1", 0)),  # the left one is what the client claimed
        ("6.6.6.6,198.51.100.1,192.0.2.7, 10.1.1.1", ("198.51.100.1", 0)),
        ("10.3.3.3, 10.2.2.2", ("10.3.3.3", 0)),  # all of them ours: the farthest
        ("198.51.100.1:1234", ("198.51.100.1", 1234)),
        ("2001:db8::1", ("2001:db8::1", 0)),
        ("[2001:DB8:0::1]:80", ("2001:db8::1", 80)),
        ("198.51.100.1, 2001:db8:0::7", ("198.51.100.1", 0)),
        ("::ffff:198.51.100.1", ("198.51.100.1", 0)),
        ("", ("10.0.0.9", 4711)),
        ("unknown", ("10.0.0.9", 4711)),
        ("198.51.100.1, ", ("10.0.0.9", 4711)),
        ("198.51.100.1, _secret, 10.1.1.1", ("10.1.1.1", 0)),
        ("198.51.100.1, 1.2.3, 10.1.1.1", ("10.1.1.1", 0)),
        ("198.51.100.1:99999", ("10.0.0.9", 4711)),
        ("evil.example", ("10.0.0.9", 4711)),
        ("\xff\xfe", ("10.0.0.9", 4711)),
        (", ".join(["1.1.1.1"] + ["10.1.1.1"] * 100), ("10.1.1.1", 0)),  # too long a chain ends within itself
    ],
)
def test_the_rightmost_address_that_is_no_proxy_of_ours_counts(value, client):
    assert read(value)[:2] == client


@pytest.mark.parametrize(
    ("addresses", "schemes", "scheme"),
    [
        ("198.51.100.1", "https", "https"),
        ("198.51.100.1", "HTTPS", "https"),
        ("198.51.100.1", "", "http"),
        ("198.51.100.1", "gopher", "http"),
        ("6.6.6.6, 198.51.100.1, 10.1.1.1", "http, https, http", "https"),  # one for each hop: the client's
        ("6.6.6.6, 198.51.100.1, 10.1.1.1", "http, https", "https"),
        ("", "https", "https"),
    ],
)
def test_the_scheme_is_that_of_the_same_hop(addresses, schemes, scheme):
    assert read(addresses, schemes)[2] == scheme


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("for=198.51.100.1;proto=https", ("198.51.100.1", 0, "https")),
        ('For="[2001:db8::1]:4711"; Proto=HTTPS', ("2001:db8::1", 4711, "https")),
        ("for=6.6.6.6;proto=http, for=198.51.100.1;proto=https;by=10.0.0.1, for=10.1.1.1;proto=http", ("198.51.100.1", 0, "https")),
        ('for=198.51.100.1, for="a,b\\"c";x="y;z", for=10.1.1.1', ("10.1.1.1", 0, "http")),
        ("for=198.51.100.1;for=6.6.6.6", ("10.0.0.9", 4711, "http")),
        ('for="198.51.100.1', ("10.0.0.9", 4711, "http")),
        ("for=_hidden", ("10.0.0.9", 4711, "http")),
        ("198.51.100.1", ("10.0.0.9", 4711, "http")),
        ("", ("10.0.0.9", 4711, "http")),
    ],
)  # fmt: skip
def test_rfc_7239(value, found):
    assert read(value, header="forwarded") == found


PIECES = st.sampled_from([b"198.51.100.1", b"10.1.1.1", b"::1", b"[::1]:80", b"for=", b'"', b",", b";", b" ", b"\\", b"proto=https",
                          b"https", b":", b"unknown", b"\xff", b"1.2.3.4:99999", b"=", b"fe80::1%eth0", b"%"])  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES | st.binary(max_size=8), max_size=12).map(b"".join), st.lists(PIECES, max_size=4).map(b"".join))
def test_whatever_stands_there_gives_an_address(addresses, scheme):
    """SE: hostile values are read to a plain address and one of two schemes, never to what they say themselves."""
    for header in ("x-forwarded-for", "forwarded"):
        found = Trusted(["10.0.0.0/8"], header).whence(CAME, addresses, scheme)
        assert ipaddress.ip_address(found.host)
        assert Trusted([found.host]).believes(found.host)
        assert 0 <= found.port <= 65535 and found.scheme in ("http", "https")


def test_everybody_is_a_choice_that_believes_the_client():
    assert read("6.6.6.6, 198.51.100.1", entries=["*"])[0] == "6.6.6.6"
    assert Trusted("127.0.0.1, unix").believes("unix") and not Trusted(["127.0.0.1"]).believes("unix")
    assert Trusted(["::FFFF:10.0.0.1", "2001:DB8:0::1"]).believes("10.0.0.1") and Trusted(["2001:DB8:0::1"]).believes("2001:db8::1")
    assert not Trusted(["10.0.0.0/8"]).believes("unix") and not Trusted(["10.0.0.0/8"]).believes("10.no")


@pytest.mark.parametrize("entry", ["localhost", "", "10.0.0.1/8", "10.0.0.0/99", "1.2.3"])
def test_a_wrong_entry_is_named(entry):
    with pytest.raises(UsageError) as failed:
        Trusted([entry])
    assert repr(entry) in str(failed.value)
    with pytest.raises(UsageError):
        check_options({"forwarded_allow_ips": [entry]})


def test_another_header_is_refused():
    with pytest.raises(UsageError, match="x-forwarded-for or forwarded"):
        check_options({"forwarded_header": "x-real-ip"})


@pytest.mark.parametrize(
    ("options", "client", "scheme"),
    [
        ({}, "127.0.0.1", "http"),
        ({"forwarded_allow_ips": ["10.0.0.1"]}, "127.0.0.1", "http"),
        ({"forwarded_allow_ips": ["127.0.0.1"]}, "198.51.100.1", "https"),
        ({"forwarded_allow_ips": ["127.0.0.0/8"], "forwarded_header": "forwarded"}, "198.51.100.2", "http"),
    ],
)
def test_a_request_is_its_clients(run, options, client, scheme):
    """None is believed by default, loopback neither; what is believed holds for one request, not for the connection.
    Whoever asks sees the same: `authenticate`, an application beside, the link."""
    seen = []

    async def authenticate(request):
        seen.append((request.client and request.client[0], request.scheme))

    async def pages(scope, receive, send):
        await answer(send, json.dumps([scope["client"][0], scope["scheme"]]).encode())

    headers = [("X-Forwarded-For", "6.6.6.6"), ("x-forwarded-for", "198.51.100.1"), ("X-Forwarded-Proto", "https"),
               ("Forwarded", "for=198.51.100.2")]  # fmt: skip

    async def main():
        async with site(make_server(), authenticate=authenticate, beside=App(pages), **options) as place:
            peer = await place.connect()
            for _ in range(2):  # a head that is like the last one too
                assert (await peer.ask(place.call("echo", {"text": "x"}, headers=headers))).status == 200
            [link] = place.endpoint.links
            assert (link.peer, link.scheme) == (client, scheme)
            page = await peer.ask(place.request("GET", "/who", accept=None, headers=headers))
            assert page.json == [client, scheme]
            assert (await peer.ask(place.call("echo", {"text": "x"}))).status == 200
            assert (link.peer, link.scheme) == ("127.0.0.1", "http")
        assert seen == [(client, scheme)] * 2 + [("127.0.0.1", "http")]

    run(main)


def test_behind_an_asgi_host_each_request_has_its_own_peer(run):
    """The host's connections share links of ours: what was true of one request says nothing about the next."""
    from asgi_support import living, modern, post

    seen = []

    async def authenticate(request):
        seen.append((request.client and request.client[0], request.scheme))

    async def main():
        app = make_server().asgi(authenticate=authenticate, forwarded_allow_ips=["10.0.0.1"])
        async with living(app):
            headers, body = modern("tools/list")
            said = [*headers, (b"x-forwarded-for", b"198.51.100.1"), (b"x-forwarded-proto", b"https")]
            for client in (("10.0.0.1", 1), ("10.0.0.2", 2), None, ("10.0.0.1", 3)):
                answer = await post(app, said, body, client=client).over()
                assert answer.status == 200
        assert seen == [("198.51.100.1", "https"), ("10.0.0.2", "http"), (None, "http"), ("198.51.100.1", "https")]

    run(main)


@pytest.mark.parametrize("data", [b"POST /mcp HTTP/1.1\r\nbad header\r\n\r\n", b"POST /mcp HT"], ids=["bad", "late"])
def test_what_is_no_request_is_nobodys(run, data):
    """A head that cannot be read, or does not come, behind a proxy: it is not the client's of the request before."""

    async def main():
        async with site(make_server(), tiny(header_timeout=0.3), forwarded_allow_ips=["127.0.0.1"]) as place:
            peer = await place.connect()
            headers = [("X-Forwarded-For", "198.51.100.1")]
            assert (await peer.ask(place.call("echo", {"text": "x"}, headers=headers))).status == 200
            [link] = place.endpoint.links
            assert link.peer == "198.51.100.1"
            assert (await peer.ask(data)).status in (400, 408)
            assert link.peer == "127.0.0.1"

    run(main)


def test_callers_behind_one_proxy_have_rates_of_their_own(run):
    """What bounds a caller counts the clients, not the proxy whose one connection carries them all."""

    async def main():
        limits = tiny(rate_limit=0.01, rate_burst=2)
        async with site(make_server(), limits, forwarded_allow_ips=["127.0.0.1"]) as place:
            peer = await place.connect()

            async def status(client, forged=""):
                headers = [("X-Forwarded-For", forged + client)]
                return (await peer.ask(place.call("echo", {"text": "x"}, headers=headers))).status

            for client in ("198.51.100.1", "198.51.100.2", "2001:db8::1"):
                assert [await status(client) for _ in range(3)] == [200, 200, 429], client
            assert await status("198.51.100.1", forged="203.0.113.7, ") == 429  # another name on the left changes nothing
            assert await status("198.51.100.3") == 200

    run(main)
