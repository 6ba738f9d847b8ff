"""What one request of the HTTP client may bring of its own: header lines, an event to go on from; and who watches answers."""

import asyncio
import json

import pytest
from http_peer import END, answer, chunk, connected, event, plain, sse_head

from headrace.errors import HttpStatusError, LocalProtocolError
from headrace.transports._http_request import CallOptions

OWN = b"Authorization: Bearer own\r\n"


class Script:
    """Keeps the requests; `get` and `post` give the answer's bytes."""

    def __init__(self, post=None, get=None):
        self.seen = []
        self.post = post or answer
        self.get = get or (lambda request: plain("405 Method Not Allowed"))

    async def __call__(self, conn):
        while (request := await conn.request()) is not None:
            self.seen.append(request)
            if request.method == "GET":
                conn.send(self.get(request))
            elif request.method == "POST" and "id" in request.body and "method" in request.body:
                conn.send(self.post(request))
            else:
                conn.send(plain("202 Accepted" if request.method == "POST" else "200 OK"))


def stream(*events):
    return sse_head() + b"".join(events) + END


def with_id(id, message):
    return chunk(b"id: " + id + b"\ndata: " + json.dumps(message).encode() + b"\n\n")


async def called(mux, channel, method="tools/call", **options):
    return json.loads(await asyncio.wait_for(mux.call(method, b"{}", channel, **options), 5))


@pytest.mark.parametrize("method", ["initialize", "tools/call"])
def test_own_header_lines_stand_in_place_of_the_users(run, method):
    script = Script()

    async def main():
        async with connected(script) as (_, mux, channel):
            channel.set_headers({"Authorization": "Bearer all", "X-All": "1"})
            channel.protocol_version = "2025-11-25"
            await called(mux, channel, method, extra=CallOptions(own=OWN, fields=b"X-More: 2\r\n"))
            await called(mux, channel, method)

    run(main)
    first, second = script.seen
    assert [v for k, v in first.pairs if k == "authorization"] == ["Bearer own"]
    assert "x-all" not in first.headers
    assert first.headers["x-more"] == "2"
    assert second.headers["authorization"] == "Bearer all"
    assert "x-more" not in second.headers
    assert first.headers["host"] == second.headers["host"]
    assert ("mcp-protocol-version" in first.headers) == (method != "initialize")
    assert first.headers["accept"] == second.headers["accept"]


def test_own_header_lines_of_posts_streams_and_the_end(run):
    script = Script(get=lambda request: sse_head())

    async def main():
        async with connected(script) as (_, mux, channel):
            channel.set_headers({"Authorization": "Bearer all"})
            channel.session_id = "s"
            future = mux.runtime.create_future()
            channel.submit_post(b'{"jsonrpc":"2.0","method":"notifications/initialized"}', future, OWN)
            await asyncio.wait_for(future, 5)
            await asyncio.wait_for(channel.open_stream(None, OWN).answered(), 5)
            await asyncio.wait_for(channel.delete_session(OWN), 5)
            channel.session_id = None

    run(main)
    assert [request.method for request in script.seen] == ["POST", "GET", "DELETE"]
    for request in script.seen:
        assert request.headers["authorization"] == "Bearer own"
        assert request.headers["mcp-session-id"] == "s"


def test_ho24_an_answer_of_earlier_is_asked_for(run):
    """Its id is that of another life, and may be that of another call of this one."""

    def get(request):
        assert request.headers["last-event-id"] == "e7"
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {}}
        return stream(with_id(b"e8", note), with_id(b"e9", {"jsonrpc": "2.0", "id": 1, "result": {"n": 9}}))

    script = Script(lambda request: b"", get)
    told = []

    async def main():
        async with connected(script, modern=False) as (_, mux, channel):
            other = mux.call("tools/call", b"{}", channel)  # has the id 1, and waits
            options = CallOptions(resume=b"e7", on_event_id=told.append)
            assert await called(mux, channel, extra=options) == {"n": 9}
            assert not other.future.done()
            other.cancel()
        assert mux.gate.notes == ["notifications/message"]

    run(main)
    assert told == ["e8", "e9"]
    assert [request.method for request in script.seen][:2] == ["POST", "GET"]


def test_ho24_an_error_of_earlier_too(run):
    error = {"code": -32602, "message": "no"}
    script = Script(get=lambda request: stream(event({"jsonrpc": "2.0", "id": "old", "error": error})))

    async def main():
        async with connected(script, modern=False) as (_, mux, channel):
            with pytest.raises(Exception, match="no") as caught:
                await called(mux, channel, extra=CallOptions(resume=b"e"))
            assert caught.value.code == -32602

    run(main)


def test_event_ids_are_told_of_events_without_a_message_too(run):
    told = []

    def post(request):
        last = with_id(b"b", {"jsonrpc": "2.0", "id": request.id, "result": {}})
        return stream(chunk(b"id: a\ndata:\n\n"), chunk(b"id:\ndata:\n\n"), last)

    async def main():
        async with connected(Script(post), modern=False) as (_, mux, channel):
            await called(mux, channel, extra=CallOptions(on_event_id=told.append))

    run(main)
    assert told == ["a", "b"]


@pytest.mark.parametrize("id", [b"", b"a\nb", b"\x00"])
def test_an_event_id_that_no_header_carries(id):
    with pytest.raises(LocalProtocolError, match="event id"):
        CallOptions(resume=id)


def test_the_watcher_sees_cookies_and_what_has_lines_of_its_own(run):
    seen = []

    def post(request):
        return answer(request).replace(b"\r\n", b"\r\nSet-COOKIE: a=b\r\n", 1) if request.id == 1 else answer(request)

    async def main():
        async with connected(Script(post)) as (_, mux, channel):
            channel.watcher = lambda request, status, lines: seen.append((request.own, status, lines.lower()))
            for options in ({}, {}, {"extra": CallOptions(own=OWN)}):
                await called(mux, channel, **options)
            channel.watcher = lambda *heard: 1 / 0
            await called(mux, channel, extra=CallOptions(own=OWN))  # reported, no more

    run(main)
    assert [(own, status) for own, status, _ in seen] == [(None, 200), (OWN, 200)]
    assert b"set-cookie: a=b" in seen[0][2]
    assert b"content-type:" in seen[1][2]


def test_a_request_that_is_answered_202(run):
    """The status is told, so that who knows better can say what it means."""

    async def main():
        async with connected(Script(lambda request: plain("202 Accepted"))) as (_, mux, channel):
            with pytest.raises(HttpStatusError) as caught:
                await called(mux, channel)
            assert caught.value.status == 202

    run(main)
