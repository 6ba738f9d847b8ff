"""Field faults of event streams and HTTP that a client meets (sections 3 and 4): raw peers, odd bytes, counted requests."""

import asyncio
import gzip
import json
import os

import pytest
from http_peer import END, answer, chunk, event, plain, sse_head
from http_script import DONE, HttpScript
from scripted_peer import MODERN, error, handshake

from headrace import (
    ConnectionClosed,
    HeadraceError,
    HttpStatusError,
    Limits,
    RemoteProtocolError,
    RequestTimeout,
    connect,
)
from headrace.jsonrpc import R4, R5

QUICK = Limits(reconnect_delay=0.01, drain_timeout=0.3)


async def until(condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


def result(id, text):
    return {"jsonrpc": "2.0", "id": id, "result": {"content": [{"type": "text", "text": text}], "resultType": "complete"}}


def legacy(**replies):
    def opened(request):
        return answer(request, json.dumps(handshake()), Mcp_Session_Id="s1")

    return HttpScript(
        **{"discover": error(-32601), "initialize": opened, "DELETE": plain("200 OK"), "ping": {}, **replies}
    )


def modern(**replies):
    return HttpScript(**{"discover": MODERN, **replies})


@pytest.fixture(params=[R4, R5])
def server(request):
    return legacy if request.param == R4 else modern


def raw_stream(body, **headers):
    """A call is answered by an event stream of these bytes; ID stands for the id of the request."""

    def reply(request):
        return sse_head(**headers) + chunk(body.replace(b"ID", str(request.id).encode())) + END

    return reply


async def text_of(script, **options):
    async with script, connect(script.url, limits=options.pop("limits", QUICK), **options) as client:
        return (await client.call_tool("t")).text


# ---------------------------------------------------------------- section 3: the bytes of a stream

ANSWER = b'{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[{"type":"text","text":"TEXT"}]}}'


@pytest.mark.parametrize("raw", ["a\u2028b", "a\u2029b", "a\u0085b", "a\x1cb"])
def test_b34_separators_inside_a_value(run, server, raw):
    text = json.dumps(raw, ensure_ascii=False)[1:-1].encode()

    async def main():
        body = b"data: " + ANSWER.replace(b"TEXT", text) + b"\n\n"
        assert await text_of(server(tools_call=raw_stream(body))) == raw

    run(main)


@pytest.mark.parametrize("ends", [(b"\n",), (b"\r\n",), (b"\r",), (b"\r\n", b"\n", b"\r")], ids=["lf", "crlf", "cr", "mixed"])
@pytest.mark.parametrize("piece", [1, 4096])
def test_b35_line_ends_however_the_bytes_come(run, server, ends, piece):
    """LF, CRLF, CR and all of them, in pieces that cut line ends and characters."""
    lines = [b": hello", b"event: message", b"data: " + ANSWER.replace(b"TEXT", "é世界".encode()), b"", b""]

    def reply(request):
        body = b"".join(
            line.replace(b"ID", str(request.id).encode()) + ends[i % len(ends)] for i, line in enumerate(lines)
        )
        head = sse_head()
        pieces = [body[at : at + piece] for at in range(0, len(body), piece)]

        async def send():
            request.conn.send(head)
            for each in pieces:
                request.conn.send(chunk(each))
                if piece < 4096:
                    await asyncio.sleep(0)
            request.conn.send(END)
            return DONE

        return send()

    async def main():
        assert await text_of(server(tools_call=reply)) == "é世界"

    run(main)


B37 = {
    "several data lines": b'data: {"jsonrpc":"2.0",\ndata:"id":ID,\ndata:  "result":{"resultType":"complete",'
                          b'"content":[]}}\n\n',
    "no space": b'data:{"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}\n\n',
    "unknown field": b'foo: 1\ndata: {"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}\n\n',
    "no colon": b'data\n\ndata: {"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}\n\n',
    "other event": b'event: ping\ndata: {}\n\nevent: ping\ndata: {"jsonrpc":"2.0","id":ID,"result":7}\n\n'
                   b'data: {"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}\n\n',
    "bom": b'\xef\xbb\xbfdata: {"jsonrpc":"2.0","id":ID,"result":{"resultType":"complete","content":[]}}\n\n',
}  # fmt: skip


@pytest.mark.parametrize("kind", B37)
def test_b37_field_rules(run, server, kind):
    async def main():
        assert await text_of(server(tools_call=raw_stream(B37[kind]))) == ""

    run(main)


@pytest.mark.parametrize("tail", [b"\n", b""])
def test_b37_an_unfinished_last_event_is_no_answer(run, server, tail):
    async def main():
        body = b"data: " + ANSWER + tail
        with pytest.raises(ConnectionClosed, match="event stream"):
            await text_of(server(tools_call=raw_stream(body)))

    run(main)


def test_b38_priming_events_on_every_path(run, caplog):
    """On the POST stream, on GET and on a resumed one: recorded, never parsed, no warning."""

    def get(request):
        last = request.headers.get("last-event-id")
        if last == "p-1":
            body = chunk(b"id: p-2\ndata:\n\n") + event(result(resumed[0], "resumed"), id="p-3") + END
            return sse_head() + body
        return sse_head() + chunk(b"id: g-1\nretry: 50\ndata:\n\n")

    def call(request):
        resumed.append(request.id)
        return sse_head() + chunk(b"id: p-1\nretry: 20\ndata:\n\n") + END

    resumed = []

    async def main():
        assert await text_of(legacy(tools_call=call, GET=get)) == "resumed"
        assert not [r for r in caplog.records if r.levelname not in ("DEBUG", "INFO")]

    run(main)


def test_b39_comments_do_nothing(run, server, caplog):
    """Hundreds of keep-alives of both forms while a call runs: no effect, no log line."""

    async def call(request):
        request.conn.send(sse_head())
        for i in range(300):
            request.conn.send(chunk(b":\n\n" if i % 2 else b": ping\r\n\r\n"))
            if i % 20 == 0:
                await asyncio.sleep(0.001)
        request.conn.send(event(result(request.id, "at last")) + END)
        return DONE

    async def main():
        assert await text_of(server(tools_call=call)) == "at last"
        assert not [r for r in caplog.records if r.levelname not in ("DEBUG", "INFO")]

    run(main)


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate", "zstd"])
@pytest.mark.parametrize("kind", ["json", "stream"])
def test_b41_coded_answers_are_refused_clearly(run, server, coding, kind):
    """Nobody asked for a coding (no Accept-Encoding is sent): the call fails and says why; the next one works."""
    calls = []

    def call(request):
        calls.append(request)
        if len(calls) > 1:
            return result(request.id, "plain")["result"]
        body = gzip.compress(json.dumps(result(request.id, "x")).encode())
        if kind == "json":
            return plain("200 OK", body, Content_Type="application/json", Content_Encoding=coding)
        return sse_head(Content_Encoding=coding) + chunk(body) + END

    async def main():
        async with server(tools_call=call) as script, connect(script.url, limits=QUICK) as client:
            with pytest.raises(RemoteProtocolError, match=coding):
                await client.call_tool("t")
            assert (await client.call_tool("t")).text == "plain"
            assert not any("accept-encoding" in r.headers for r in script.seen)

    run(main)


def test_b44_b45_a_half_dead_stream_and_flapping_ones_disturb_no_call(run):
    """The GET stream goes silent without a FIN, or comes and goes: 100 calls are answered all the same."""
    gets = []

    def get(request):
        gets.append(request)
        if len(gets) == 1:
            request.conn.send(sse_head() + chunk(b": and then nothing, for ever\n\n"))
            return DONE
        return plain("405 Method Not Allowed")

    def flapping(request):
        gets.append(request)
        if len(gets) < 5:
            return sse_head() + chunk(b"retry: 1\nid: %d\ndata:\n\n" % len(gets)) + END
        return plain("405 Method Not Allowed") if len(gets) == 5 else None

    async def main():
        for handler in (get, flapping):
            gets.clear()
            script = legacy(tools_call=lambda r: result(r.id, "ok")["result"], GET=handler)
            async with script, connect(script.url, limits=QUICK) as client:
                for _ in range(10):
                    results = await asyncio.gather(*(client.call_tool("t") for _ in range(10)))
                    assert [r.text for r in results] == ["ok"] * 10
                if handler is flapping:
                    await until(lambda: len(gets) == 5)
                await asyncio.sleep(0.03)
                assert len(gets) == (1 if handler is get else 5)  # 405 on a later GET: no more of them
                assert script.methods.count("tools/call") == 100

    run(main)


def test_b76_a_half_dead_call_ends_by_its_limit_and_frees_its_connection(run, server):
    """Headers and a comment, then silence: the call times out, the connection goes, others do not notice."""

    def call(request):
        if request.body["params"]["name"] == "dead":
            request.conn.send(sse_head() + chunk(b": hi\n\n"))
            return DONE
        return result(request.id, "ok")["result"]

    async def main():
        async with server(tools_call=call) as script, connect(script.url, limits=QUICK) as client:
            dead = [asyncio.ensure_future(client.call_tool("dead", timeout=0.15)) for _ in range(5)]
            await until(lambda: script.methods.count("tools/call") == 5)
            assert (await client.call_tool("t")).text == "ok"
            for outcome in await asyncio.gather(*dead, return_exceptions=True):
                assert isinstance(outcome, RequestTimeout)
            # drain_timeout later (era M: at once) their five connections are closed.
            await until(lambda: len(script.peer.tasks) <= 3)
            assert (await client.call_tool("t")).text == "ok"

    run(main)


def test_slow_drip_of_a_whole_answer(run, server):
    """Head, chunks and body byte by byte."""

    async def call(request):
        body = json.dumps(result(request.id, "drip")).encode()
        text = plain("200 OK", body, Content_Type="application/json; charset=utf-8")
        for i in range(len(text)):
            request.conn.send(text[i : i + 1])
            if i % 8 == 0:
                await asyncio.sleep(0.0005)
        return DONE

    async def main():
        assert await text_of(server(tools_call=call)) == "drip"

    run(main)


def test_b93_huge_events_and_bodies(run, server):
    """8 MiB in one event and in one body, cut into odd pieces."""
    big = "x" * (8 << 20)

    async def call(request):
        body = json.dumps(result(request.id, big)).encode()
        if request.body["params"]["name"] == "json":
            return plain("200 OK", body, Content_Type="application/json")
        request.conn.send(sse_head())
        body = b"data: " + body + b"\n\n"
        for at in range(0, len(body), 65_521):
            request.conn.send(chunk(body[at : at + 65_521]))
            await request.conn.writer.drain()
        request.conn.send(END)
        return DONE

    async def main():
        async with server(tools_call=call) as script, connect(script.url, limits=QUICK) as client:
            for name in ("json", "stream"):
                assert (await client.call_tool(name)).text == big

    run(main)


# ---------------------------------------------------------------- section 4: heads, framing, statuses


def http10(request, body, kind):
    return b"HTTP/1.0 200 OK\r\nContent-Type: " + kind + b"\r\n\r\n" + body


WELL_FRAMED = {
    "http/1.0, to the end": lambda r, b: http10(r, b, b"application/json"),
    "http/1.0 stream": lambda r, b: http10(r, b"data: " + b + b"\n\n", b"text/event-stream"),
    "http/1.1, to the end": lambda r, b: b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n" + b,
    "http/1.0 with a length": lambda r, b: (
        b"HTTP/1.0 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(b), b)
    ),
    "no reason phrase": lambda r, b: (
        b"HTTP/1.1 200\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (len(b), b)
    ),
    "early hints": lambda r, b: (
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"
        + plain("200 OK", b, Content_Type="application/json")
    ),
    "chunk extensions and trailers": lambda r, b: (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
        b"%X;a=b\r\n%b\r\n0;c\r\nX-Trailer: 1\r\n\r\n" % (len(b), b)
    ),
    "close": lambda r, b: plain("200 OK", b, Content_Type="application/json", Connection="close"),
    "upper case": lambda r, b: plain("200 OK", b, CONTENT_TYPE="Application/JSON;Charset=UTF-8"),
    "201": lambda r, b: plain("201 Created", b, Content_Type="application/json"),
    "utf-8 bom": lambda r, b: plain("200 OK", b, Content_Type="application/json; charset=utf-8"),
}


@pytest.mark.parametrize("kind", WELL_FRAMED)
def test_b54_b56_answers_as_servers_and_proxies_frame_them(run, server, kind):
    def call(request):
        request.conn.send(WELL_FRAMED[kind](request, json.dumps(result(request.id, "ok")).encode()))
        if "the end" in kind or kind in ("http/1.0 stream", "close"):
            request.conn.close()
        return DONE

    async def main():
        async with server(tools_call=call) as script, connect(script.url, limits=QUICK) as client:
            for _ in range(3):
                assert (await client.call_tool("t")).text == "ok"

    run(main)


BADLY_FRAMED = {
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 5\r\n"
                          b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    "bad chunk size": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    "unknown coding": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: gzip\r\n\r\nhello",
    "no http": b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
    "tls": b"\x15\x03\x01\x00\x02\x02\x28",
    "101": b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n",
    "header without a name": b"HTTP/1.1 200 OK\r\n: x\r\n\r\n",
    "short body": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n{",
    "cut chunk": b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n50\r\n{",
    "nothing": b"",
}  # fmt: skip


@pytest.mark.parametrize("kind", BADLY_FRAMED)
def test_b54_b82_bad_answers_fail_their_call_and_nothing_else(run, server, kind):
    """Each is an error at once; the connection is not used again; other calls are answered."""
    calls = []

    def call(request):
        calls.append(request)
        if request.body["params"]["name"] == "bad":
            request.conn.send(BADLY_FRAMED[kind])
            request.conn.close()
            return DONE
        return result(request.id, "ok")["result"]

    async def main():
        async with server(tools_call=call) as script, connect(script.url, limits=QUICK) as client:
            good = [asyncio.ensure_future(client.call_tool("t")) for _ in range(5)]
            with pytest.raises((RemoteProtocolError, ConnectionClosed)) as caught:
                await client.call_tool("bad")
            assert not isinstance(caught.value, RequestTimeout) and str(caught.value)
            assert [r.text for r in await asyncio.gather(*good)] == ["ok"] * 5
            assert len(calls) == 6  # a tool call is never sent again

    run(main)


def test_b55_what_the_client_accepts_and_sends(run, server):
    async def main():
        async with server(tools_call=lambda r: result(r.id, "ok")["result"], GET=sse_head()) as script:
            async with connect(script.url, limits=QUICK) as client:
                await client.call_tool("t")
            for request in script.seen:
                if request.method == "POST":
                    assert request.headers["accept"] == "application/json, text/event-stream"
                    assert request.headers["content-type"] == "application/json"
                    assert [n for n, _ in request.pairs].count("content-length") == 1
                else:
                    assert request.headers.get("accept", "text/event-stream") == "text/event-stream"
                    assert "content-type" not in request.headers and "content-length" not in request.headers

    run(main)


@pytest.mark.parametrize("status", ["200 OK", "202 Accepted", "204 No Content", "404 Not Found", "405 No", "501 No", "never"])
def test_b64_close_is_bounded(run, status):
    async def forever(request):
        await request.conn.ended()

    async def main():
        script = legacy(DELETE=forever if status == "never" else plain(status))
        async with script:
            async with connect(script.url, limits=QUICK):
                pass
            assert script.methods.count("DELETE") == 1
            assert script.seen[-1].headers["mcp-session-id"] == "s1"

    run(main)


def test_b67_a_proxy_cuts_idle_streams(run):
    """The GET stream and the stream of a long call are cut again and again: each goes on from its last event."""
    streams = {"GET": 0, "resumed": 0}
    changed = []

    def get(request):
        last = request.headers.get("last-event-id", "")
        if last.startswith("call"):
            streams["resumed"] += 1
            if streams["resumed"] < 4:
                return sse_head() + chunk(b"id: call-%d\ndata:\n\n" % streams["resumed"]) + END
            return sse_head() + event(result(ids[0], "after all")) + END
        streams["GET"] += 1
        note = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
        return sse_head() + chunk(b"retry: 5\n\n") + event(note, id=f"get-{streams['GET']}") + (
            END if streams["GET"] < 4 else b""
        )

    def call(request):
        ids.append(request.id)
        return sse_head() + chunk(b"id: call-0\nretry: 5\ndata:\n\n") + END

    ids = []

    async def main():
        async with legacy(tools_call=call, GET=get) as script:
            async with connect(script.url, limits=QUICK, on_list_changed=changed.append) as client:
                assert (await client.call_tool("t")).text == "after all"
                await until(lambda: streams["GET"] == 4 and len(changed) >= 1)
            assert script.methods.count("tools/call") == 1 and streams["resumed"] == 4
            sent = [r.headers.get("last-event-id") for r in script.seen if r.method == "GET"]
            assert [s for s in sent if s and s.startswith("call")] == [f"call-{i}" for i in range(4)]
            assert [s for s in sent if s is None or s.startswith("get")] == [None, "get-1", "get-2", "get-3"]

    run(main)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("where", ["/elsewhere", "http://127.0.0.1:9/mcp", "ftp://h/", ""])
def test_b58_redirects_of_calls(run, server, status, where):
    """Only 307 and 308 within the origin are followed, with method and body; the rest name the new URL."""

    def call(request):
        if request.target == "/elsewhere":
            return result(request.id, "there")["result"]
        return plain(f"{status} Moved", **({"Location": where} if where else {}))

    async def main():
        async with server(tools_call=call) as script, connect(script.url, limits=QUICK) as client:
            if status >= 307 and where == "/elsewhere":
                assert (await client.call_tool("t")).text == "there"
                assert script.seen[-1].method in ("POST", "GET")
                moved = [r for r in script.seen if r.target == "/elsewhere" and r.method == "POST"]
                assert moved[0].body["method"] == "tools/call"
            else:
                with pytest.raises(HttpStatusError, match=str(status)) as caught:
                    await client.call_tool("t")
                assert where in str(caught.value)

    run(main)


@pytest.mark.parametrize(
    "kind", ["comment and end", "cut", "object", "other id", "array", "text", "empty", "202", "204"]
)
def test_b82_an_end_without_an_answer_fails_at_once(run, server, kind):
    replies = {
        "comment and end": sse_head() + chunk(b": nothing\n\n") + END,
        "cut": sse_head() + chunk(b": nothing\n\n"),
        "object": plain("200 OK", b"{}", Content_Type="application/json"),
        "other id": plain("200 OK", b'{"jsonrpc":"2.0","id":999,"result":{}}', Content_Type="application/json"),
        "array": plain("200 OK", b"[]", Content_Type="application/json"),
        "text": plain("200 OK", b"hello", Content_Type="text/plain"),
        "empty": plain("200 OK", b"", Content_Type="application/json"),
        "202": plain("202 Accepted"),
        "204": b"HTTP/1.1 204 No Content\r\n\r\n",
    }

    def call(request):
        request.conn.send(replies[kind])
        if kind == "cut":
            request.conn.close()
        return DONE

    async def main():
        async with server(tools_call=call) as script, connect(script.url, limits=QUICK) as client:
            outcomes = await asyncio.gather(*(client.call_tool("t") for _ in range(3)), return_exceptions=True)
            for outcome in outcomes:
                assert isinstance(outcome, HeadraceError) and not isinstance(outcome, RequestTimeout)
            assert script.methods.count("tools/call") == 3 and not client.closed

    run(main)


def test_b94_many_short_sessions_leave_nothing(run, server):
    """100 x connect, call, close: no descriptor and no task is left, and each costs the same requests."""

    async def main():
        async with server(tools_call=lambda r: result(r.id, "ok")["result"]) as script:
            counts = []
            for n in range(100):
                before = len(script.seen)
                async with connect(script.url, limits=QUICK) as client:
                    assert (await client.call_tool("t")).text == "ok"
                counts.append(len(script.seen) - before)
                if n == 20:
                    await until(lambda: not script.peer.tasks)
                    fds, tasks = len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())
            await until(lambda: not script.peer.tasks)
            assert len(os.listdir("/proc/self/fd")) <= fds and len(asyncio.all_tasks()) <= tasks
            assert max(counts[2:]) <= 6

    run(main)


@pytest.mark.parametrize("kind", ["silent", "head only", "stream head only", "accepted only"])
def test_b116_the_limit_covers_the_whole_connect(run, kind):
    """Ten servers at once, one of them dead: nine are up, one fails and names its phase; nothing is left."""

    async def dead(request):
        if kind == "head only":
            request.conn.send(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 90\r\n\r\n")
        if kind == "stream head only":
            request.conn.send(sse_head())
        await request.conn.ended()

    async def main():
        good = [legacy() if i % 2 else modern() for i in range(9)]
        bad = legacy(initialized=dead) if kind == "accepted only" else modern(discover=dead)
        for script in (*good, bad):
            await script.__aenter__()

        async def one(script):
            async with connect(script.url, limits=Limits(connect_timeout=0.5)) as client:
                return client.protocol_version

        outcomes = await asyncio.gather(*(one(s) for s in (*good, bad)), return_exceptions=True)
        assert sorted(outcomes[:9]) == [R4] * 4 + [R5] * 5
        assert isinstance(outcomes[9], RequestTimeout)
        assert ("initialized" if kind == "accepted only" else "server/discover") in str(outcomes[9])
        await until(lambda: not bad.peer.tasks)
        for script in (*good, bad):
            await script.__aexit__()

    run(main)


def test_b118_b45_the_stream_comes_after_the_handshake_and_comes_back(run):
    """POST initialize, POST initialized (202), GET with id and version; cut after a while: opened again; calls work
    with or without it."""
    gets = []

    def get(request):
        gets.append(request)
        return sse_head() + chunk(b"id: %d\nretry: 30\ndata:\n\n" % len(gets)) + (END if len(gets) == 1 else b"")

    async def main():
        async with legacy(tools_call=lambda r: result(r.id, "ok")["result"], GET=get) as script:
            async with connect(script.url, limits=QUICK) as client:
                assert (await client.call_tool("t")).text == "ok"
                await until(lambda: len(gets) == 2)
                assert (await client.call_tool("t")).text == "ok"
            assert script.methods[:4] == ["server/discover", "initialize", "notifications/initialized", "GET"]
            for request in script.seen[2:]:
                assert request.headers["mcp-session-id"] == "s1"
                assert request.headers["mcp-protocol-version"] == R4
            assert gets[1].headers["last-event-id"] == "1"

    run(main)
