"""Refusals are counted by kind, once each, wherever they are made (issue 6, item 4)."""

import asyncio

import pytest
from http_support import make_server, site, tiny
from server_pipe import META, Pipe

from headrace import Limits, RpcError, Server
from headrace.errors import HttpRefusal
from headrace.limits import DEFAULT
from headrace.transports.refusals import BOUNDS, KINDS, kind_of
from headrace.transports.stream import serve_lines


def test_kinds_are_bounds_or_explained():
    """A kind that is a bound is called as the field of Limits; every kind says what it counts."""
    fields = set(DEFAULT.__struct_fields__)
    assert set(BOUNDS) <= fields
    assert not (set(KINDS) - set(BOUNDS)) & fields
    assert all(text and not text.endswith(".") for text in KINDS.values())
    assert {kind_of(status) for status in range(300, 600)} <= set(KINDS)
    assert [kind_of(status) for status in (404, 408, 413, 414, 431, 418)] == [
        "http_404", "body_timeout", "max_message_bytes", "max_target_bytes", "max_header_bytes", "http_other",
    ]  # fmt: skip


REFUSED = {
    "http_421": ({"host": "evil.example"}, 421),
    "http_403": ({"origin": "http://evil.example"}, 403),
    "http_404": ({"target": "/nowhere"}, 404),
    "http_405": ({"method": "PUT", "body": None}, 405),
    "http_406": ({"accept": "text/html"}, 406),
    "http_415": ({"content_type": "text/plain"}, 415),
    "http_417": ({"expect": "coffee"}, 417),
    "max_message_bytes": ({"content_length": "999999"}, 413),
    "max_target_bytes": ({"target": "/mcp?" + "x" * 500}, 414),
    "max_header_bytes": ({"x_big": "x" * 5000}, 431),
    "bad_message": ({"body": b"{"}, 400),
    "max_depth": ({"body": b"[" * 300 + b"]" * 300}, 400),
    "unknown_method": ({"modern": "no/such"}, 404),
    "bad_request": ({"mcp_protocol_version": "2026-07-28", "mcp_method": "tools/list",
                     "body": {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}}, 400),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_http_refusals_are_counted_once(run, kind):
    changes, status = REFUSED[kind]

    async def main():
        bounds = tiny(max_message_bytes=10_000, max_target_bytes=400, max_header_bytes=4_000)
        async with site(make_server(), limits=bounds) as s:
            peer = await s.connect()
            assert s.server.runtime.refusals == {}
            data = s.modern(changes["modern"]) if "modern" in changes else s.request(**({"body": b"{}"} | changes))
            answer = await peer.ask(data)
            assert answer.status == status
            assert s.server.runtime.refusals == {kind: 1}
            assert kind in KINDS

    run(main)


def test_sessions_and_unknown_ids(run):
    async def main():
        async with site(make_server(), limits=tiny(max_sessions=1)) as s:
            peer = await s.connect()
            await s.open_session(peer)
            refused = await peer.ask(s.initialize(id=2))
            assert (refused.status, refused.get("retry-after")) == (503, "1")
            assert (await peer.ask(s.legacy("0" * 48, "ping"))).status == 404
            assert s.server.runtime.refusals == {"max_sessions": 1, "http_404": 1}

    run(main)


def test_authenticate_that_refuses_is_counted_by_status(run):
    async def authenticate(request):
        raise HttpRefusal(int(dict(request.headers)[b"x-status"]))

    async def main():
        async with site(make_server(), authenticate=authenticate) as s:
            peer = await s.connect()
            for status in ("401", "403", "418", "401"):
                answer = await peer.ask(s.call("echo", {"text": "x"}, x_status=status))
                assert answer.status == int(status)
            assert s.server.runtime.refusals == {"http_401": 2, "http_403": 1, "http_other": 1}

    run(main)


def test_errors_of_handlers_are_no_refusals(run):
    """Only what names itself one is: RpcError(refusal=)."""
    app = Server("t", version="1")

    @app.tool
    async def plain() -> str:
        raise RpcError(-32603, "no")

    @app.tool
    async def bound() -> str:
        await asyncio.sleep(0)
        raise RpcError(-32603, "no", refusal="max_uri_bytes", retry_after=2.5)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            answer = await pipe.ask(1, "tools/call", {"name": "plain", "arguments": {}}, meta=META)
            assert "data" not in answer["error"] and app.runtime.refusals == {}
            answer = await pipe.ask(2, "tools/call", {"name": "bound", "arguments": {}}, meta=META)
            assert answer["error"]["data"] == {"retryAfter": 2.5}
            assert app.runtime.refusals == {"max_uri_bytes": 1}
            pipe.mux.close()

    run(main)


def test_lines_count_too(run, tmp_path):
    app = Server("t", version="1", limits=Limits(max_connections=1, max_message_bytes=1000))

    async def main():
        path = str(tmp_path / "s")
        async with app.running():
            listener = await serve_lines(app, unix=path)
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(b"x" * 5000 + b"\n{\n" + b'{"jsonrpc":"2.0","id":1,"method":"nope"}\n')
            answers = [await asyncio.wait_for(reader.readline(), 5) for _ in range(3)]
            assert b"longer than 1000 bytes" in answers[0]
            other, more = await asyncio.open_unix_connection(path)
            assert await asyncio.wait_for(other.read(), 5) == b""
            assert app.runtime.refusals == {
                "max_message_bytes": 1, "bad_message": 1, "bad_request": 1, "max_connections": 1,
            }  # fmt: skip
            more.close()
            writer.close()
            await listener.close()

    run(main)
