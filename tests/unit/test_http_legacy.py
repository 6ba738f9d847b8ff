"""The HTTP+SSE transport of 2024-11-05 at a server (LS-01..LS-07, HO-42)."""

import asyncio
import json

import pytest
from http_support import R4, R5, Peer, make_server, site, tiny

from headrace.errors import UsageError
from headrace.limits import Limits
from headrace.mux import Exchange, FunctionHandler
from headrace.protocol.context import Context

R1 = "2024-11-05"


class Old:
    """A client of the old transport: its stream and a connection for posts."""

    def __init__(self, place, stream, poster, target):
        self.site, self.stream, self.poster, self.target = place, stream, poster, target

    async def post(self, body, **changes):
        return await self.poster.ask(self.site.request("POST", self.target, body=body, **changes))

    async def message(self, timeout=5.0):
        found = await self.stream.event(timeout)
        assert found is not None
        assert found[0] is None  # no ids: there is nothing to resume
        return found[1]

    async def request(self, method, params=None, id=1):
        body = {"jsonrpc": "2.0", "id": id, "method": method}
        if params is not None:
            body["params"] = params
        answer = await self.post(body)
        assert (answer.status, answer.body) == (202, b"Accepted")
        return await self.message()

    async def call(self, tool, arguments=None, id=1):
        return await self.request("tools/call", {"name": tool, "arguments": arguments or {}}, id)

    async def initialize(self, version=R1):
        info = {"name": "old", "version": "0"}
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": info}
        found = await self.request("initialize", params)
        assert (await self.post({"jsonrpc": "2.0", "method": "notifications/initialized"})).status == 202
        return found["result"]


async def open_old(place, path="/sse", **changes):
    stream, poster = await place.connect(), await place.connect()
    stream.send(place.request("GET", path, **changes))
    status, headers = await stream.head()
    assert (status, headers["content-type"]) == (200, ["text/event-stream"])
    first = (await stream.chunk()).decode()
    assert first.startswith("event: endpoint\ndata: /") and first.endswith("\n\n")  # LS-02
    return Old(place, stream, poster, first[22:-2])


def test_ls01_ls07_off_unless_asked(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            assert (await peer.ask(s.request("GET", "/sse"))).status == 404
            assert (await peer.ask(s.request("POST", "/messages?session=x", body=b"{}"))).status == 404

    run(main)


@pytest.mark.parametrize("version", [R1, "2025-03-26", "2025-06-18", R4])
def test_ls02_ls03_ls06_a_session_in_every_handshake_revision(run, version):
    async def main():
        async with site(legacy_sse=True) as s:
            old = await open_old(s)
            assert old.target.startswith("/messages?session=") and len(old.target) > 48
            assert (await old.initialize(version))["protocolVersion"] == version
            answer = await old.call("echo", {"text": "a\u2028b"}, id="i")
            assert answer["id"] == "i" and answer["result"]["content"][0]["text"] == "a\u2028b"
            assert (await old.request("ping"))["result"] == {}
            assert (await old.request("no/such"))["error"]["code"] == -32601
            params = {"name": "progress", "arguments": {"n": 2}, "_meta": {"progressToken": 7}}
            assert (await old.request("tools/call", params))["params"]["progress"] == 1
            assert (await old.message())["params"]["progress"] == 2
            assert (await old.message())["result"]["content"][0]["text"] == "done"
            # what cannot be read is answered on the stream as well
            answer = await old.post(b"{")
            assert answer.status == 202
            assert (await old.message())["error"]["code"] == -32700
            assert s.listener.sessions == 1 and len(s.endpoint.sessions) == 0

    run(main)


def test_ls06_2026_07_28_is_never_spoken_here(run):
    async def main():
        async with site(legacy_sse=True) as s:
            old = await open_old(s)
            meta = {
                "io.modelcontextprotocol/protocolVersion": R5, "io.modelcontextprotocol/clientCapabilities": {},
            }  # fmt: skip
            assert "error" in await old.request("server/discover", {"_meta": meta})
            assert "error" in await old.request("tools/list", {})
            assert (await old.initialize(R5))["protocolVersion"] == R4
            assert "resultType" not in (await old.request("tools/list", {"_meta": meta}))["result"]
            assert (await old.request("server/discover", {"_meta": meta}))["error"]["code"] == -32601
            assert (await old.post(b"{}", mcp_protocol_version=R5)).status == 400
            peer = await s.connect()
            assert (await peer.ask(s.request("GET", "/sse", mcp_protocol_version=R5))).status == 400
            # the MCP endpoint beside it speaks both eras (LS-07)
            assert (await peer.ask(s.call("echo", {"text": "x"}))).status == 200
            assert (await s.open_session(peer)) is not None

    run(main)


def test_jr20_batches_of_2025_03_26(run):
    async def main():
        async with site(legacy_sse=True) as s:
            old = await open_old(s)
            await old.initialize("2025-03-26")
            batch = [{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(3)]
            assert (await old.post(json.dumps(batch).encode())).status == 202
            assert [each["id"] for each in await old.message()] == [0, 1, 2]

    run(main)


def test_vn09_a_second_initialize_is_refused(run):
    async def main():
        async with site(legacy_sse=True) as s:
            old = await open_old(s)
            await old.initialize()
            params = {"protocolVersion": R1, "capabilities": {}, "clientInfo": {"name": "o", "version": "0"}}
            assert (await old.request("initialize", params))["error"]["code"] == -32600

    run(main)


@pytest.mark.parametrize("how", ["close", "reset", "eof"])
def test_ls04_the_end_of_the_stream_ends_the_session(run, how):
    async def main():
        async with site(legacy_sse=True) as s:
            old = await open_old(s)
            await old.initialize()
            body = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
            assert (await old.post(body | {"params": {"name": "sleep", "arguments": {"ms": 20_000}}})).status == 202
            await s.settled(lambda: s.server.seen.started == 1)
            if how == "eof":
                old.stream.writer.write_eof()
            else:
                getattr(old.stream, how)()
            await s.settled(lambda: s.server.seen.cancelled == 1)
            await s.settled(lambda: s.listener.sessions == 0)
            answer = await old.post(body | {"method": "ping"})
            assert answer.status == 404
            assert not s.server.sessions

    run(main)


@pytest.mark.parametrize("query", ["", "?", "?session=", "?session=x", "?x=1", "?session=%00", "?sessionx=1&&="])
def test_ls04_unknown_sessions_are_404(run, query):
    async def main():
        async with site(legacy_sse=True) as s:
            await open_old(s)
            peer = await s.connect()
            ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
            assert (await peer.ask(s.request("POST", f"/messages{query}", body=ping))).status == 404
            # a session of the other transport is no session here, nor the other way round
            sid = await s.open_session(peer)
            assert (await peer.ask(s.request("POST", f"/messages?session={sid}", body=ping))).status == 404
            token = (await open_old(s)).target.partition("=")[2]
            assert (await peer.ask(s.legacy(token, "ping"))).status == 404
            assert (await peer.ask(s.request("DELETE", mcp_session_id=token))).status == 404

    run(main)


def test_ls04_ho34_tokens_belong_to_their_principal(run):
    async def main():
        def who(fields):
            return dict(fields).get(b"x-user")

        async with site(legacy_sse=True, principal_of=who) as s:
            old = await open_old(s, headers=(("X-User", "ann"),))
            ping = {"jsonrpc": "2.0", "id": 5, "method": "ping"}
            assert (await old.post(ping, headers=(("X-User", "bob"),))).status == 404
            assert (await old.post(ping)).status == 404
            assert (await old.post(ping, headers=(("X-User", "ann"),))).status == 202
            assert (await old.message())["id"] == 5

    run(main)


def test_ls05_ho42_guards_apply_to_both_endpoints(run):
    async def main():
        async with site(legacy_sse=True, cors_origins=["https://app.example"]) as s:
            old = await open_old(s)
            peer = await s.connect()
            for method, target in (("GET", "/sse"), ("POST", old.target)):
                body = None if method == "GET" else b"{}"
                assert (await peer.ask(s.request(method, target, body=body, origin="http://evil.com"))).status == 403
                assert (await peer.ask(s.request(method, target, body=body, host="evil.com"))).status == 421
                asked = s.request("OPTIONS", target, origin="https://app.example")
                answer = await peer.ask(asked)
                assert answer.status == 204 and answer.get("access-control-allow-origin") == "https://app.example"
            answer = await old.post({"jsonrpc": "2.0", "id": 1, "method": "ping"}, origin="https://app.example")
            assert answer.status == 202 and answer.get("access-control-allow-origin") == "https://app.example"

    run(main)


def test_ls01_other_methods_types_and_forms_are_refused(run):
    async def main():
        async with site(legacy_sse=True) as s:
            old = await open_old(s)
            peer = await s.connect()
            answer = await peer.ask(s.initialize(target="/sse"))  # how clients find out which transport it is
            assert (answer.status, answer.get("allow")) == (405, "GET")
            assert (await peer.ask(s.request("DELETE", "/sse"))).status == 405
            assert (await peer.ask(s.request("GET", old.target))).status == 405
            assert (await peer.ask(s.request("GET", "/sse", accept="application/json"))).status == 406
            assert (await old.post(b"{}", content_type="text/plain")).status == 415
            assert (await old.post(b"{}", content_encoding="gzip")).status == 415
            # Accept of a post says nothing: it is answered elsewhere; bodies in pieces and marked ones are fine
            ping = b'{"jsonrpc":"2.0","id":9,"method":"ping"}'
            assert (await old.post(b"\xef\xbb\xbf" + ping, accept="text/html")).status == 202
            assert (await old.message())["id"] == 9
            whole = s.request("POST", old.target, body=ping)
            old.poster.send(whole[:-10])
            await asyncio.sleep(0.02)
            assert (await old.poster.ask(whole[-10:])).status == 202
            assert (await old.message())["id"] == 9

    run(main)


def test_se08_sessions_are_bounded_together(run):
    async def main():
        async with site(legacy_sse=True, limits=tiny(max_sessions=3)) as s:
            first = await open_old(s)
            await open_old(s)
            peer = await s.connect()
            await s.open_session(peer)
            answer = await peer.ask(s.request("GET", "/sse"))
            assert (answer.status, answer.get("retry-after")) == (503, "1")
            assert (await peer.ask(s.initialize())).status == 503
            first.stream.reset()
            await s.settled(lambda: s.listener.sessions == 2)
            await open_old(s)
            assert s.listener.sessions == 3

    run(main)


def test_b39_silent_streams_get_comments(run):
    async def main():
        async with site(legacy_sse=True, limits=tiny(sse_keep_alive=0.1)) as s:
            old = await open_old(s)
            for _ in range(3):
                assert await old.stream.chunk() == b":\n\n"

    run(main)


def test_b70_b112_a_stream_nobody_reads_is_bounded(run):
    async def main():
        async with site(legacy_sse=True, limits=tiny(max_output_bytes=100_000, write_timeout=0.6)) as s:
            old = await open_old(s)
            await old.initialize()
            old.stream.writer.transport.pause_reading()
            body = {"jsonrpc": "2.0", "method": "tools/call", "params": {"name": "big", "arguments": {"n": 200_000}}}
            statuses = []
            for i in range(200):
                statuses.append((await old.post(body | {"id": i})).status)
                if statuses[-1] != 202:
                    break
            assert statuses[-1] == 503 and len(statuses) < 100
            # and it loses its connection, and with it the session
            await s.settled(lambda: s.listener.sessions == 0)

    run(main)


def test_requests_of_the_server_go_on_the_stream(run):
    async def main():
        app = make_server()

        def asks(exchange: Exchange):
            async def work():
                call = exchange.mux.call("roots/list", None, exchange.sink, timeout=5)
                return b'{"echo":' + await call + b"}"

            return work()

        app.tables.by_name[R1].requests[b"x/ask"] = FunctionHandler(asks)
        async with site(app, legacy_sse=True) as s:
            old = await open_old(s)
            await old.initialize()
            question = await old.request("x/ask", id="q")
            assert question["method"] == "roots/list"
            answer = await old.post({"jsonrpc": "2.0", "id": question["id"], "result": {"roots": []}})
            assert answer.status == 202
            assert await old.message() == {"jsonrpc": "2.0", "id": "q", "result": {"echo": {"roots": []}}}
            # changes are told there, too
            s.server.add_tool(lambda x: x, name="more", description="d", inline=True)
            assert (await old.message())["method"] == "notifications/tools/list_changed"

    run(main)


def test_the_context_of_a_request(run):
    async def main():
        app = make_server()

        @app.tool
        async def look(ctx: Context) -> str:
            return f"{ctx.headers['x-old']} {ctx.close_stream(1)} {ctx.protocol_version}"

        async with site(app, legacy_sse=True) as s:
            old = await open_old(s, headers=(("X-Old", "yes"),))
            await old.initialize()
            assert (await old.call("look"))["result"]["content"][0]["text"] == f"yes False {R1}"

    run(main)


def test_shutdown_answers_what_is_in_flight_and_ends_the_streams(run):
    async def main():
        async with site(legacy_sse=True) as s:
            busy, idle = await open_old(s), await open_old(s)
            await busy.initialize()
            body = {"jsonrpc": "2.0", "id": 5, "method": "tools/call"}
            await busy.post(body | {"params": {"name": "sleep", "arguments": {"ms": 200}}})
            await s.settled(lambda: s.server.seen.started == 1)
            closing = asyncio.ensure_future(s.listener.close())
            assert await idle.stream.event() is None
            assert (await busy.message())["result"]["content"][0]["text"] == "slept"
            assert await busy.stream.event() is None
            await asyncio.wait_for(closing, 5)
            assert s.listener.sessions == 0

    run(main)


def test_http10_streams(run):
    async def main():
        async with site(legacy_sse=True) as s:
            stream = await s.connect()
            stream.send(s.request("GET", "/sse", version="1.0"))
            status, headers = await stream.head()
            assert status == 200 and "transfer-encoding" not in headers
            assert (await stream.reader.readuntil(b"\n\n")).startswith(b"event: endpoint\ndata: /messages?session=")

    run(main)


@pytest.mark.parametrize(
    ("path", "option", "stream", "post"),
    [
        ("/mcp", True, "/sse", "/messages"),
        ("/api/mcp", True, "/api/sse", "/api/messages"),
        ("/", True, "/sse", "/messages"),
        ("/mcp", "/old/events", "/old/events", "/old/messages"),
    ],
)
def test_ls07_the_endpoints_stand_beside_the_mcp_endpoint(run, path, option, stream, post):
    async def main():
        async with site(path=path, legacy_sse=option) as s:
            old = await open_old(s, stream)
            assert old.target.partition("?")[0] == post
            assert (await old.request("ping"))["result"] == {}

    run(main)


@pytest.mark.parametrize(("path", "option"), [("/sse", True), ("/messages", True), ("/mcp", "/mcp"), ("/mcp", "x"),
                                              ("/mcp", "/a b"), ("/mcp", "/x/messages")])  # fmt: skip
def test_paths_that_cannot_be(run, path, option):
    async def main():
        with pytest.raises(UsageError):
            async with site(path=path, legacy_sse=option):
                pass

    run(main)


def test_b94_many_short_sessions_leave_nothing(run):
    async def main():
        async with site(legacy_sse=True) as s:
            for _ in range(50):
                old = await open_old(s)
                await old.initialize()
                old.stream.close()
                old.poster.close()
            await s.settled(lambda: s.listener.connections == 0)
            assert s.listener.sessions == 0 and not s.server.sessions and not s.endpoint.legacy.by_id

    run(main)


def test_the_options_of_serve(run):
    async def main():
        app = make_server(Limits(drain_timeout=1.0))
        ready = asyncio.get_running_loop().create_future()
        task = asyncio.ensure_future(
            app.serve(
                http="127.0.0.1:0", legacy_sse=True, event_store=False, retry_interval=1.0, on_ready=ready.set_result
            )
        )
        (url,) = await asyncio.wait_for(ready, 5)
        host, _, port = url.partition("://")[2].partition("/")[0].rpartition(":")
        peer = Peer(*await asyncio.open_connection(host, int(port)))
        peer.send(f"GET /sse HTTP/1.1\r\nHost: {host}:{port}\r\nAccept: text/event-stream\r\n\r\n".encode())
        assert (await peer.head())[0] == 200
        peer.close()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)
