"""HTTP+SSE of 2024-11-05 from the client's side (LS-01..LS-07, VN-48, B66), against a scripted server."""

import asyncio
import json

import pytest
from http_peer import END, Peer, chunk, plain, sse_head
from scripted_peer import handshake

from headrace import ConnectFailed, ConnectionClosed, HttpStatusError, Limits, RequestTimeout, UsageError, connect
from headrace.client import eras
from headrace.jsonrpc import R1, R2, R3, R4, R5


class SseServer:
    """GET /mcp is the event stream, POST /messages?s=N takes messages; a POST to /mcp gets `other`."""

    def __init__(self, version=R1, endpoint="/messages?s={n}", other=None, accepted=None, tools=True):
        self.version = version
        self.endpoint = endpoint
        self.other = other or plain("405 Method Not Allowed")
        self.accepted = accepted or plain("202 Accepted", b"Accepted", Content_Type="text/plain")
        self.streams = {}
        self.seen = []  # (method of HTTP, target, body)
        self.headers = []
        self.tools = tools
        self.peer = Peer(self.handle)
        self.first = b""

    async def __aenter__(self):
        await self.peer.start()
        return self

    async def __aexit__(self, *exc):
        await self.peer.stop()

    @property
    def url(self):
        return self.peer.url

    @property
    def methods(self):
        return [b.get("method", "answer") if b else m for m, _, b in self.seen]

    def push(self, message, n=None):
        conn = self.streams[n or max(self.streams)]
        conn.send(chunk(b"event: message\r\ndata: " + json.dumps(message).encode() + b"\r\n\r\n"))

    async def handle(self, conn):
        while (request := await conn.request()) is not None:
            self.seen.append((request.method, request.target, request.body))
            self.headers.append(request.headers)
            if request.method == "GET":
                n = len(self.streams) + 1
                self.streams[n] = conn
                place = self.endpoint.format(n=n, url=self.url, port=self.peer.port)
                conn.send(sse_head() + self.first + chunk(f"event: endpoint\r\ndata: {place}\r\n\r\n".encode()))
            elif not request.target.startswith("/messages"):
                conn.send(self.other)
            else:
                n = int(request.target.partition("s=")[2])
                conn.send(self.accepted)
                await self.message(n, request.body)

    async def message(self, n, body):
        result = None
        if body.get("method") == "initialize":
            result = handshake(self.version)
        elif body.get("method") == "tools/list":
            result = {"tools": []}
        elif body.get("method") == "tools/call":
            result = {"content": [{"type": "text", "text": body["params"]["name"]}]}
        elif body.get("method") == "ping":
            result = {}
        if result is not None:
            self.push({"jsonrpc": "2.0", "id": body["id"], "result": result}, n)


async def until(condition):
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to pass")


@pytest.mark.parametrize("version", [R1, R2, R3, R4])
def test_vn48_ls07_found_automatically(run, version):
    """Modern POST, initialize by POST, then the event stream; LS-06: the version header from R3 on."""

    async def main():
        async with SseServer(version) as server:
            async with connect(server.url) as client:
                assert client.protocol_version == version
                assert (await client.call_tool("t")).text == "t"
                await client.ping()
                assert server.methods[:5] == [
                    "server/discover", "initialize", "GET", "initialize", "notifications/initialized"
                ]  # fmt: skip
                assert [t for m, t, _ in server.seen if m == "POST"][2:] == ["/messages?s=1"] * 4
                sent = [h.get("mcp-protocol-version") for h in server.headers[4:]]
                assert sent == [version if version >= R3 else None] * 3
                assert "mcp-protocol-version" not in server.headers[3]  # initialize
                assert not any("mcp-session-id" in h or "mcp-method" in h for h in server.headers[1:])
            await until(lambda: not server.peer.tasks)

    run(main)


@pytest.mark.parametrize("status", ["404 Not Found", "405 Method Not Allowed", "400 Bad Request"])
def test_b66_what_leads_to_the_old_transport(run, status):
    async def main():
        other = plain(status, b"nothing here", Content_Type="text/plain")
        async with SseServer(other=other) as server, connect(server.url) as client:
            assert client.protocol_version == R1
        # A refusal in JSON-RPC keeps the client with what it is.
        body = json.dumps({"jsonrpc": "2.0", "id": 2, "error": {"code": -32600, "message": "enable X at Y"}}).encode()
        async with SseServer(other=plain("400 Bad Request", body, Content_Type="application/json")) as server:
            with pytest.raises(ConnectFailed, match="enable X at Y"):
                async with connect(server.url):
                    pass
            assert "GET" not in server.methods

    run(main)


@pytest.mark.parametrize(
    "status", ["401 Unauthorized", "403 Forbidden", "429 Too Many Requests", "500 Oops", "503 No", "200 OK"]
)
def test_b66_vn47_what_does_not(run, status):
    """No evidence, or an answer of a wrong type: the old transport is not tried, the body is told."""

    async def main():
        async with SseServer(other=plain(status, b"the cure", Content_Type="text/plain")) as server:
            with pytest.raises(ConnectFailed) as caught:
                async with connect(server.url):
                    pass
            assert "GET" not in server.methods
            assert status.startswith("401") or "the cure" in str(caught.value)

    run(main)


def test_b66_all_failures_are_told(run):
    """The first failure and its body stay in the message when the old transport fails as well."""

    async def main():
        async def handler(conn):
            while (request := await conn.request()) is not None:
                if request.method == "GET":
                    conn.send(plain("404 Not Found", b"no stream", Content_Type="text/plain"))
                else:
                    conn.send(plain("404 Not Found", b"try /v2/mcp instead", Content_Type="text/plain"))

        peer = Peer(handler)
        await peer.start()
        with pytest.raises(ConnectFailed) as caught:
            async with connect(peer.url):
                pass
        assert "try /v2/mcp instead" in str(caught.value) and "no stream" in str(caught.value)
        assert "HTTP+SSE" in str(caught.value)
        await peer.stop()

    run(main)


@pytest.mark.parametrize(
    "endpoint", ["http://127.0.0.1:1/messages?s={n}", "https://127.0.0.1:{port}/messages?s={n}", "//evil.test/messages",
                 "http://user@127.0.0.1:{port}/messages?s={n}", "file:///etc/passwd", "http://[/"]
)  # fmt: skip
def test_ls02_an_endpoint_elsewhere_is_refused(run, endpoint):
    async def main():
        async with SseServer(endpoint=endpoint) as server:
            with pytest.raises(ConnectFailed, match="endpoint"):
                async with connect(server.url, transport="sse"):
                    pass
            assert server.methods == ["GET"]
            await until(lambda: not server.peer.tasks)

    run(main)


@pytest.mark.parametrize("endpoint", ["/messages?s={n}", "messages?s={n}", "http://127.0.0.1:{port}/messages?s={n}"])
def test_ls02_endpoints_are_resolved(run, endpoint):
    async def main():
        async with SseServer(endpoint=endpoint) as server, connect(server.url, transport="sse") as client:
            assert (await client.call_tool("t")).text == "t"
            assert server.methods[0] == "GET" and "server/discover" not in server.methods

    run(main)


@pytest.mark.parametrize("accepted", ["200 OK", "202 Accepted", "204 No Content"])
def test_ls03_any_2xx_is_taken_and_only_messages_are_read(run, accepted):
    """LS-03: bodies are ignored; B37: events of other names carry no JSON-RPC."""

    async def main():
        answer = plain(accepted) if accepted.startswith("204") else plain(accepted, b"whatever {")
        async with SseServer(accepted=answer) as server:
            server.first = chunk(b": hello\n\nevent: ping\ndata: {}\n\n")
            async with connect(server.url, transport="sse") as client:
                stream = server.streams[1]
                stream.send(chunk(b'event: other\ndata: {"jsonrpc":"2.0","id":3,"result":{}}\n\n: ping\n\ndata:\n\n'))
                stream.send(chunk(b"event: endpoint\ndata: http://evil.test/\n\n"))
                results = await asyncio.gather(*(client.call_tool(f"t{i}") for i in range(20)))
                assert [r.text for r in results] == [f"t{i}" for i in range(20)]

    run(main)


def test_ls03_requests_of_the_server_are_answered_by_post(run):
    async def main():
        async with SseServer() as server, connect(server.url, transport="sse") as client:
            server.push({"jsonrpc": "2.0", "id": "p1", "method": "ping"})
            server.push({"jsonrpc": "2.0", "id": 7, "method": "nothing/known"})
            await until(lambda: server.methods.count("answer") == 2)
            answers = {b["id"]: b for m, _, b in server.seen if m == "POST" and "method" not in b}
            assert answers["p1"]["result"] == {} and answers[7]["error"]["code"] == -32601
            await client.ping()

    run(main)


@pytest.mark.parametrize("how", ["end", "reset", "close"])
def test_ls04_b82_the_end_of_the_stream_is_the_end(run, how):
    """Waiting calls fail at once; nothing is resumed (LS-06)."""

    async def main():
        async with SseServer() as server:
            async with connect(server.url, transport="sse", limits=Limits(request_timeout=20)) as client:
                server.message = lambda n, body: asyncio.sleep(0)
                waiting = [asyncio.ensure_future(client.call_tool("t")) for _ in range(3)]
                await until(lambda: server.methods.count("tools/call") == 3)
                stream = server.streams[1]
                if how == "end":
                    stream.send(END)
                elif how == "reset":
                    stream.reset()
                else:
                    stream.close()
                for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                    assert type(outcome) is ConnectionClosed and "stream" in str(outcome)
                assert client.closed
                with pytest.raises(ConnectionClosed):
                    await client.call_tool("t")
            assert server.methods.count("GET") == 1

    run(main)


@pytest.mark.parametrize("status", ["404 Not Found", "401 Unauthorized", "413 Too Large", "500 Oops"])
def test_ls04_a_refused_post_fails_its_call_alone(run, status):
    async def main():
        async with SseServer() as server, connect(server.url, transport="sse") as client:
            accepted, server.accepted = server.accepted, plain(status, b"because")
            message, server.message = server.message, lambda n, body: asyncio.sleep(0)
            with pytest.raises(HttpStatusError, match="because") as caught:
                await client.call_tool("t")
            assert caught.value.status == int(status[:3])
            server.accepted, server.message = accepted, message
            assert (await client.call_tool("t")).text == "t"

    run(main)


def test_b75_giving_up_tells_the_server(run):
    async def main():
        async with SseServer() as server, connect(server.url, transport="sse") as client:
            server.message = lambda n, body: asyncio.sleep(0)
            waiting = asyncio.ensure_future(client.call_tool("t"))
            await until(lambda: "tools/call" in server.methods)
            waiting.cancel()
            await until(lambda: "notifications/cancelled" in server.methods)
            with pytest.raises(RequestTimeout):
                await client.call_tool("t", timeout=0.05)
            await until(lambda: server.methods.count("notifications/cancelled") == 2)
            ids = [b["params"]["requestId"] for _, _, b in server.seen if b and b.get("method", "").endswith("cancelled")]
            calls = [b["id"] for _, _, b in server.seen if b and b.get("method") == "tools/call"]
            assert ids == calls

    run(main)


@pytest.mark.parametrize("kind", ["silent", "no endpoint", "message first", "json", "long"])
def test_b116_a_stream_that_does_not_begin_is_bounded(run, kind):
    async def main():
        async def handler(conn):
            while await conn.request() is not None:
                if kind == "silent":
                    await conn.ended()
                elif kind == "json":
                    conn.send(plain("200 OK", b"{}", Content_Type="application/json"))
                else:
                    conn.send(sse_head() + chunk(b": hi\n\n"))
                    if kind == "message first":
                        conn.send(chunk(b'data: {"jsonrpc":"2.0","method":"x"}\n\n'))
                    if kind == "long":
                        conn.send(chunk(b"event: endpoint\ndata: /" + b"x" * 9000 + b"\n\n"))

        peer = Peer(handler)
        await peer.start()
        with pytest.raises((ConnectFailed, RequestTimeout)) as caught:
            async with connect(peer.url, transport="sse", limits=Limits(connect_timeout=0.3)):
                pass
        assert isinstance(caught.value, RequestTimeout) == (kind in ("silent", "no endpoint"))
        assert "endpoint" in str(caught.value) or kind == "json"
        await until(lambda: not peer.tasks)
        await peer.stop()

    run(main)


def test_vn48_a_silent_stream_does_not_hide_the_first_failure(run):
    """A GET stream that never names an endpoint belongs to another kind of server."""

    async def main():
        async def handler(conn):
            while (request := await conn.request()) is not None:
                conn.send(sse_head() if request.method == "GET" else plain("404 Not Found", b"moved away"))

        peer = Peer(handler)
        await peer.start()
        with pytest.raises(ConnectFailed, match="moved away"):
            async with connect(peer.url, limits=Limits(connect_timeout=0.6)):
                pass
        await peer.stop()

    run(main)


def test_b58_redirects_of_stream_and_posts_stay_in_the_origin(run):
    async def main():
        server = SseServer()

        async def handler(conn):
            while (request := await conn.request()) is not None:
                if request.target == "/mcp":
                    conn.send(plain("307 Temporary Redirect", Location="/real"))
                elif request.target.startswith("/messages"):
                    conn.send(plain("308 Permanent Redirect", Location="/there?s=1"))
                elif request.method == "GET":
                    server.streams[1] = conn
                    conn.send(sse_head() + chunk(b"event: endpoint\ndata: /messages?s=1\n\n"))
                else:
                    conn.send(plain("202 Accepted"))
                    await server.message(1, request.body)

        peer = Peer(handler)
        await peer.start()
        async with connect(peer.url, transport="sse") as client:
            assert (await client.call_tool("t")).text == "t"
        await peer.stop()

    run(main)


def test_transport_can_be_forced(run):
    async def main():
        async with SseServer() as server:
            with pytest.raises(ConnectFailed, match="405"):
                async with connect(server.url, transport="http"):
                    pass
            assert "GET" not in server.methods
            async with connect(server.url, transport="sse", revision=R1) as client:
                assert client.protocol_version == R1
        with pytest.raises(UsageError, match="transport"):
            connect("http://h/mcp", transport="websocket")
        with pytest.raises(UsageError, match="transport"):
            connect("unix:/tmp/x", transport="sse")
        with pytest.raises(UsageError, match=R5):
            connect("http://h/mcp", transport="sse", revision=R5)

    run(main)


def test_vn50_the_transport_is_remembered_and_forgotten(run):
    async def main():
        async with SseServer() as server:
            for _ in range(3):
                async with connect(server.url) as client:
                    await client.ping()
            assert server.methods.count("server/discover") == 1 and server.methods.count("GET") == 3
            assert server.methods.count("initialize") == 4  # the one that was refused, and three
            # The server learns Streamable HTTP: one failing GET, then it is found out about anew.
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "result": handshake(R4)}).encode()
            server.seen.clear()
            peer_handle = server.peer.handler

            async def handler(conn):
                while (request := await conn.request()) is not None:
                    server.seen.append((request.method, request.target, request.body))
                    if request.method == "GET":
                        conn.send(plain("405 Method Not Allowed"))
                    elif request.body["method"] == "server/discover":
                        conn.send(plain("400 Bad Request"))
                    elif request.body["method"] == "initialize":
                        text = body.replace(b'"id": 1', b'"id": %d' % request.id)
                        conn.send(plain("200 OK", text, Content_Type="application/json"))
                    else:
                        conn.send(plain("202 Accepted"))

            server.peer.handler = handler
            async with connect(server.url) as client:
                assert client.protocol_version == R4
            assert server.methods[:3] == ["GET", "server/discover", "initialize"]
            assert eras.recall(("http", None, server.url)) == "handshake"
            server.peer.handler = peer_handle

    run(main)


def test_b94_many_sessions_one_after_the_other(run):
    async def main():
        async with SseServer() as server:
            for _ in range(100):
                async with connect(server.url, transport="sse") as client:
                    assert (await client.call_tool("t")).text == "t"
            await until(lambda: not server.peer.tasks)
            assert server.methods.count("GET") == 100

    run(main)
