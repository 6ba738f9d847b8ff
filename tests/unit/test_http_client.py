"""The HTTP client channel: requests as they are sent, answers in every form, errors by status."""

import asyncio
import json

import pytest
from http_peer import END, call, chunk, connected, event, plain, result_event, sse_head
from http_peer import answer as answered

from headrace.errors import ConnectionClosed, HttpStatusError, RemoteProtocolError, RpcError
from headrace.transports.http_client import param_headers


def serving(reply, seen=None):
    """A handler that answers each request with `reply(request)`: bytes, or None to close."""

    async def handler(conn):
        while (request := await conn.request()) is not None:
            if seen is not None:
                seen.append(request)
            data = reply(request)
            if data is None:
                return
            conn.send(data)

    return handler


def test_hn02_hn03_modern_request(run):
    """One write, the headers of HN-02 and HN-03, and nothing of the handshake era."""
    seen = []

    async def main():
        async with connected(serving(answered, seen)) as (peer, mux, channel):
            assert json.loads(await call(mux, channel, params=b'{"name":"add"}', name="add").future) == {"ok": True}
            extra = param_headers({"Region": "us east", "Count": 42, "Flag": True, "None": None, "N": "ü"})
            await call(mux, channel, extra=extra).future
            await call(mux, channel, "tools/list", None).future
            assert peer.conns == 1
        first, second, third = seen
        assert (first.method, first.target) == ("POST", "/mcp")
        assert first.body == {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "add"}}
        assert first.headers["accept"] == "application/json, text/event-stream"
        assert first.headers["content-type"] == "application/json"
        assert first.headers["mcp-protocol-version"] == "2026-07-28"
        assert first.headers["mcp-method"] == "tools/call" and first.headers["mcp-name"] == "add"
        assert first.headers["host"].startswith("127.0.0.1:") and "mcp-session-id" not in first.headers
        assert len(first.pairs) == len(first.headers)
        assert "mcp-name" not in second.headers and second.headers["mcp-param-region"] == "us east"
        assert second.headers["mcp-param-count"] == "42" and second.headers["mcp-param-flag"] == "true"
        assert second.headers["mcp-param-n"] == "=?base64?w7w=?=" and "mcp-param-none" not in second.headers
        assert third.body == {"jsonrpc": "2.0", "id": 3, "method": "tools/list"}

    run(main)


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("plain name", "plain name"), ("", ""), (" lead", "=?base64?IGxlYWQ=?="), ("tail ", "=?base64?dGFpbCA=?="),
        ("a\tb", "=?base64?YQli?="), ("ü", "=?base64?w7w=?="), ("=?base64?x?=", "=?base64?PT9iYXNlNjQ/eD89?="),
        ("=?base64?x", "=?base64?x"), ("a\r\nX: y", "=?base64?YQ0KWDogeQ==?="),
    ],
)  # fmt: skip
def test_hn11_names_are_encoded(run, name, sent):
    seen = []

    async def main():
        async with connected(serving(answered, seen)) as (_, mux, channel):
            await call(mux, channel, name=name).future
        assert seen[0].headers["mcp-name"] == sent

    run(main)


def test_vn49_handshake_era_headers(run):
    """initialize goes bare; the session of its answer is echoed, with the version (HO-30, HO-31, HO-40)."""
    seen = []

    def reply(request):
        if request.method == "DELETE":
            return b"HTTP/1.1 204 No Content\r\n\r\n"
        if "id" not in request.body:
            return plain("202 Accepted")
        return answered(request, Mcp_Session_Id="s-1")

    async def main():
        async with connected(serving(reply, seen), modern=False) as (_, mux, channel):
            channel.session_id = "old"
            await call(mux, channel, "initialize").future
            assert channel.session_id == "s-1"
            await channel.post("notifications/initialized")
            called = call(mux, channel, name="x")
            await called.future
            assert called.attached.session_id == "s-1" and called.attached.status == 200
        init, note, tool, delete = seen
        for name in ("mcp-protocol-version", "mcp-session-id", "mcp-method"):
            assert name not in init.headers
        for request in (note, tool, delete):
            assert request.headers["mcp-session-id"] == "s-1"
            assert request.headers["mcp-protocol-version"] == "2025-11-25"
        assert note.body == {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert "mcp-name" not in tool.headers and "mcp-method" not in tool.headers
        assert delete.method == "DELETE" and "content-type" not in delete.headers

    run(main)


FORMS = {
    "length": lambda r: answered(r),
    "charset": lambda r: answered(r, Content_Type="Application/JSON; charset=utf-8"),
    "interim": lambda r: b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + answered(r),
    "chunked": lambda r: chunked(r),
    "events": lambda r: sse_head() + result_event(r) + END,
    "events with noise": lambda r: (
        sse_head() + chunk(b": hi\r\n\r\nretry: 5\r\nid: 1\r\ndata:\r\n\r\nevent: other\r\ndata: {}\r\n\r\n")
        + event({"jsonrpc": "2.0", "method": "notifications/message", "params": {}}) + result_event(r) + END
    ),
    "events charset": lambda r: (sse_head() + result_event(r) + END).replace(b"stream\r", b"stream;charset=utf-8\r"),
}  # fmt: skip


def chunked(request):
    head, body = answered(request).split(b"\r\n\r\n", 1)
    head = head.split(b"Content-Length")[0] + b"Transfer-Encoding: chunked\r\n\r\n"
    return head + b"".join(chunk(body[i : i + 7]) for i in range(0, len(body), 7)) + END


@pytest.mark.parametrize("pieces", [0, 1, 13])
@pytest.mark.parametrize("form", FORMS)
def test_ho05_answers_in_every_form(run, form, pieces):
    """Whole, byte by byte and in odd pieces; the connection is used again (B35, B38, B56)."""

    async def handler(conn):
        while (request := await conn.request()) is not None:
            data = FORMS[form](request)
            for i in range(0, len(data), pieces or len(data)):
                conn.send(data[i : i + (pieces or len(data))])
                if pieces:
                    await asyncio.sleep(0)

    async def main():
        async with connected(handler) as (peer, mux, channel):
            for _ in range(3):
                assert json.loads(await call(mux, channel).future) == {"ok": True}
                async with asyncio.timeout(5):
                    while not channel.pool.counts["idle"]:  # the end of the answer comes after its message
                        await asyncio.sleep(0.001)
            assert peer.conns == 1 and mux.debug_counts()["pending"] == 0
            assert channel.pool.counts == {"connections": 1, "idle": 1, "waiting": 0}
            assert len(mux.gate.notes) == (3 if form == "events with noise" else 0)

    run(main)


@pytest.mark.parametrize("kind", ["close", "http/1.0", "events"])
def test_answer_ended_by_close(run, kind):
    """A body without a length ends with the connection; so does an event stream."""

    def reply(request):
        body = answered(request).split(b"\r\n\r\n", 1)[1]
        if kind == "events":
            return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + body + b"\n\n"
        version = b"HTTP/1.1" if kind == "close" else b"HTTP/1.0"
        return version + b" 200 OK\r\nContent-Type: application/json\r\n\r\n" + body

    async def handler(conn):
        request = await conn.request()
        if request is not None:
            conn.send(reply(request))
            conn.close()

    async def main():
        async with connected(handler) as (peer, mux, channel):
            for _ in range(2):
                assert json.loads(await call(mux, channel).future) == {"ok": True}
                await asyncio.sleep(0.02)
            assert peer.conns == 2

    run(main)


@pytest.mark.parametrize("raw", ["\u2028", "\u0085", "\u2029"])
def test_b34_unicode_separators_stay_whole(run, raw):
    def reply(request):
        text = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": {"t": f"a{raw}b"}}, ensure_ascii=False)
        return sse_head() + event(text) + END

    async def main():
        async with connected(serving(reply)) as (_, mux, channel):
            assert json.loads(await call(mux, channel).future) == {"t": f"a{raw}b"}

    run(main)


def test_progress_arrives_before_the_answer(run):
    async def handler(conn):
        while (request := await conn.request()) is not None:
            conn.send(sse_head())
            for i in (1, 2):
                params = {"progressToken": request.id, "progress": i, "total": 2}
                conn.send(event({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}))
                await asyncio.sleep(0.01)
            conn.send(result_event(request) + END)

    async def main():
        async with connected(handler) as (_, mux, channel):
            steps = []
            done = call(mux, channel, on_progress=lambda done, total, text: steps.append((done, total)))
            await done.future
            assert steps == [(1, 2), (2, 2)]

    run(main)


ERRORS = {
    "matching": ("400 Bad Request", '{"jsonrpc":"2.0","id":%d,"error":{"code":-32020,"message":"no","data":1}}'),
    "null id": ("400 Bad Request", '{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no","data":1}}'),
    "without id": ("404 Not Found", '{"jsonrpc":"2.0","error":{"code":-32020,"message":"no","data":1}}'),
    "made-up id": ("500 Oops", '{"jsonrpc":"2.0","id":"server-error","error":{"code":-32020,"message":"no","data":1}}'),
    "200": ("200 OK", '{"jsonrpc":"2.0","id":%d,"error":{"code":-32020,"message":"no","data":1}}'),
    "200 null id": ("200 OK", '{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no","data":1}}'),
    "403 of JSON-RPC": ("403 Forbidden", '{"jsonrpc":"2.0","id":null,"error":{"code":-32020,"message":"no","data":1}}'),
}  # fmt: skip


@pytest.mark.parametrize("kind", ERRORS)
def test_jr13_errors_reach_their_call(run, kind):
    status, body = ERRORS[kind]

    def reply(request):
        return plain(status, body.replace("%d", str(request.id)).encode(), Content_Type="application/json")

    async def main():
        async with connected(serving(reply)) as (peer, mux, channel):
            for _ in range(2):
                with pytest.raises(RpcError) as caught:
                    await call(mux, channel).future
                error = caught.value
                assert (error.code, error.message, error.data) == (-32020, "no", 1)
                assert error.http_status == (None if status.startswith("200") else int(status[:3]))
            assert peer.conns == 1 and mux.debug_counts()["pending"] == 0 and mux.stray == 0

    run(main)


STATUSES = {
    "401": ("401 Unauthorized", b'{"jsonrpc":"2.0","error":{"code":1,"message":"m"}}', {"WWW_Authenticate": "Bearer x"}),
    "403": ("403 Forbidden", b"no", {"WWW_Authenticate": 'Bearer error="insufficient_scope"'}),
    "404": ("404 Not Found", b"<html>not here</html>", {"Content_Type": "text/html"}),
    "400 empty": ("400 Bad Request", b"", {}),
    "400 other JSON": ("400 Bad Request", b'{"detail":"enable X at Y"}', {"Content_Type": "application/json"}),
    "500": ("500 Internal Server Error", b"x" * 200_000, {}),
    "503": ("503 Service Unavailable", b"later", {"Retry_After": "7"}),
    "299 type": ("299 Odd", b"hello", {"Content_Type": "text/plain"}),
    "200 jsonp": ("200 OK", b"{}", {"Content_Type": "application/jsonp"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", STATUSES)
def test_vn47_b66_status_errors_keep_the_first_failure(run, kind):
    status, body, headers = STATUSES[kind]

    async def main():
        async with connected(serving(lambda r: plain(status, body, **headers))) as (_, mux, channel):
            called = call(mux, channel)
            with pytest.raises(HttpStatusError) as caught:
                await called.future
            error = caught.value
            assert error.status == int(status[:3]) and isinstance(error, RemoteProtocolError)
            assert error.body == body[:1024].decode() and called.attached.status == error.status
            assert str(error.status) in str(error) and "tools/call" in str(error)
            assert body[:20].decode() in str(error)
            for name, value in headers.items():
                assert error.headers[name.lower().replace("_", "-")] == value
            assert mux.debug_counts()["pending"] == 0

    run(main)


BAD = {
    "empty object": lambda r: plain("200 OK", b"{}", Content_Type="application/json"),
    "not JSON": lambda r: plain("200 OK", b"{nope", Content_Type="application/json"),
    "empty": lambda r: plain("200 OK", b"", Content_Type="application/json"),
    "other id": lambda r: plain("200 OK", b'{"jsonrpc":"2.0","id":77,"result":{}}', Content_Type="application/json"),
    "202": lambda r: plain("202 Accepted"),
    "204": lambda r: b"HTTP/1.1 204 No Content\r\n\r\n",
    "gzip": lambda r: plain("200 OK", b"\x1f\x8b", Content_Type="application/json", Content_Encoding="gzip"),
    "not HTTP": lambda r: b"SSH-2.0-OpenSSH_9.2p1\r\n",
    "two lengths": lambda r: answered(r).replace(b"Content-Length", b"Content-Length: 5\r\nContent-Length"),
    "bad chunk": lambda r: sse_head() + b"zz\r\n",
    "101": lambda r: b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n",
    "long head": lambda r: b"HTTP/1.1 200 OK\r\nX: " + b"x" * 40_000,
}  # fmt: skip


@pytest.mark.parametrize("kind", BAD)
def test_b82_what_is_no_answer_fails_the_call(run, kind):
    async def main():
        async with connected(serving(BAD[kind])) as (_, mux, channel):
            with pytest.raises(RemoteProtocolError) as caught:
                await call(mux, channel).future
            assert str(caught.value)
            assert mux.debug_counts()["pending"] == 0

    run(main)


def test_b82_an_answer_for_another_call_is_not_taken(run):
    """The body of one POST cannot answer another call that is waiting."""
    ids = []

    async def handler(conn):
        while (request := await conn.request()) is not None:
            ids.append(request.id)
            if len(ids) == 1:
                while len(ids) < 2:
                    await asyncio.sleep(0.001)
                conn.send(answered(request, '{"mine":1}'))
            else:
                conn.send(answered(request).replace(b'"id": 2', b'"id": 1').replace(b'"id":2', b'"id":1'))

    async def main():
        async with connected(handler) as (_, mux, channel):
            first = call(mux, channel)
            second = call(mux, channel)
            with pytest.raises(RemoteProtocolError):
                await second.future
            assert json.loads(await first.future) == {"mine": 1}

    run(main)


STREAM_ENDS = {
    "comment, clean end": lambda r: sse_head() + chunk(b": hi\n\n") + END,
    "unfinished event": lambda r: sse_head() + chunk(b'data: {"jsonrpc"') + END,
    "cut": lambda r: sse_head() + chunk(b": hi\n\n"),
    "cut inside a chunk": lambda r: sse_head() + b"50\r\ndata: ",
    "cut body": lambda r: plain("200 OK", b"{}", Content_Type="application/json", Content_Length="50"),
    "cut head": lambda r: b"HTTP/1.1 200 OK\r\nContent-Ty",
}  # fmt: skip


@pytest.mark.parametrize("reset", [False, True])
@pytest.mark.parametrize("kind", STREAM_ENDS)
def test_b82_hn42_a_stream_that_ends_fails_the_call(run, kind, reset):
    async def handler(conn):
        if (request := await conn.request()) is not None:
            conn.send(STREAM_ENDS[kind](request))
            await asyncio.sleep(0.01)
            if reset:
                conn.reset()

    async def main():
        async with connected(handler) as (peer, mux, channel):
            called = call(mux, channel)
            with pytest.raises(ConnectionClosed) as caught:
                await called.future
            assert "tools/call" in str(caught.value)
            assert peer.conns == 1 and mux.debug_counts()["pending"] == 0

    run(main)


def test_bounds_of_answers(run):
    """Over max_message_bytes: by length, by chunks, by one event."""
    big = b"x" * 3000

    def reply(request):
        kind = request.body["params"]["k"]
        if kind == "length":
            return plain("200 OK", big, Content_Type="application/json")
        if kind == "chunks":
            head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
            return head + chunk(big) + END
        return sse_head() + chunk(b"data: " + big) + chunk(b"\n\n") + END

    async def main():
        async with connected(serving(reply), max_message_bytes=2000) as (_, mux, channel):
            for kind in ("length", "chunks", "event"):
                with pytest.raises(RemoteProtocolError):
                    await call(mux, channel, params=b'{"k":"%b"}' % kind.encode()).future

    run(main)
