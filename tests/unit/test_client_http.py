"""The client over HTTP: against the real server, and negotiation and sessions against scripted peers."""

import asyncio
import contextlib
import json

import pytest
from client_server import app
from http_peer import answer, plain
from http_script import HttpScript, agreed
from scripted_peer import MODERN, error, handshake

from headrace import (
    ConnectFailed,
    ConnectionClosed,
    Header,
    HttpStatusError,
    Limits,
    RequestTimeout,
    RpcError,
    Server,
    connect,
)
from headrace.jsonrpc import R2, R4, R5
from headrace.transports.http_server import serve_http


@contextlib.asynccontextmanager
async def served(server=app, **options):
    async with server.running():
        listener = await serve_http(server, host="127.0.0.1", port=0, path="/mcp")
        try:
            async with connect(listener.url, **options) as client:
                yield client
        finally:
            await listener.close()


@pytest.fixture(params=[R4, R5])
def revision(request):
    return request.param


# --- against the real server -------------------------------------------------------------------------


def test_calls_over_http(run, revision):
    async def main():
        logs, seen = [], []
        async with served(revision=revision, on_log=logs.append) as client:
            assert client.protocol_version == revision and client.server_info.name == "tester"
            assert "add" in [tool.name for tool in await client.list_tools()]
            many = await asyncio.gather(*(client.call_tool("add", {"a": i, "b": 1}) for i in range(200)))
            assert [r.text for r in many] == [str(i + 1) for i in range(200)]
            await client.call_tool("count", {"to": 50}, on_progress=lambda *note: seen.append(note[0]))
            assert seen == list(range(1, 51))
            await client.call_tool("talk")
            assert [m.data for m in logs] == [{"text": "hello"}]
            assert (await client.call_tool("fail")).is_error
            with pytest.raises(RpcError, match="refused"):
                await client.call_tool("refuse")
            with pytest.raises(RpcError) as caught:
                await client.request("no/such/method")
            assert caught.value.code == -32601
            raw = await client.request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
            assert raw["content"][0]["text"] == "hi"
        with pytest.raises(ConnectionClosed, match="closed"):
            await client.call_tool("add", {"a": 1, "b": 1})

    run(main)


def test_b75_giving_up_over_http(run, revision):
    async def main():
        async with served(revision=revision) as client:

            async def wait_for_running(number):
                for _ in range(400):
                    if int((await client.call_tool("active")).text) == number:
                        return True
                    await asyncio.sleep(0.01)
                return False

            calls = [{"seconds": 60, "key": str(i)} for i in range(20)]
            tasks = [asyncio.create_task(client.call_tool("sleep", call)) for call in calls]
            assert await wait_for_running(20)
            for task in tasks:
                task.cancel()
            assert await wait_for_running(0)
            outcomes = await asyncio.gather(
                *(client.call_tool("sleep", call, timeout=0.2) for call in calls), return_exceptions=True
            )
            assert all(isinstance(o, RequestTimeout) for o in outcomes)
            assert await wait_for_running(0)

    run(main)


def test_b21_closing_under_calls_over_http(run, revision):
    async def main():
        async with served(revision=revision) as client:
            waiting = asyncio.create_task(client.call_tool("sleep", {"seconds": 60}))
            await asyncio.sleep(0.05)
            await asyncio.gather(client.close(), client.close())
            with pytest.raises(ConnectionClosed, match="the client was closed"):
                await waiting

    run(main)


def test_hn20_arguments_are_mirrored_into_headers(run):
    from typing import Annotated

    from headrace import Context

    server = Server("mirror", version="1")

    @server.tool
    async def where(ctx: Context, region: Annotated[str, Header("Region")], n: int = 0) -> str:
        return ctx.headers.get("mcp-param-region", "none")

    async def main():
        async with served(server) as client:
            await client.list_tools()
            assert (await client.call_tool("where", {"region": "us"})).text == "us"
            assert (await client.request("tools/call", {"name": "where", "arguments": {"region": "x"}}))["content"]

    run(main)


def test_hn24_stale_headers_are_cured_once(run):
    """The schema was never read: the server refuses, the client reads it and tries once more."""
    schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}}

    async def main():
        def call(request):
            if request.headers.get("mcp-param-region") != "eu":
                return "400 Bad Request", error(-32020)
            return {"content": []}

        listing = {"tools": [{"name": "t", "inputSchema": schema}]}
        async with HttpScript(discover=MODERN, tools_list=listing, tools_call=call) as script:
            async with connect(script.url) as client:
                await client.call_tool("t", {"r": "eu"})
                await client.call_tool("t", {"r": "eu"})
                with pytest.raises(RpcError):
                    await client.call_tool("t", {"r": "us"})
            calls = ["tools/call", "tools/list", "tools/call", "tools/call", "tools/call", "tools/list", "tools/call"]
            assert script.methods == ["server/discover", *calls]
            ids = [r.id for r in script.seen]
            assert len(set(ids)) == len(ids)

    run(main)


def test_hn22_tools_with_bad_header_annotations_are_left_out(run, caplog):
    async def main():
        bad = {"type": "object", "properties": {"a": {"type": "number", "x-mcp-header": "A"}}}
        tools = [{"name": "bad", "inputSchema": bad}, {"name": "good", "inputSchema": {"type": "object"}}]
        async with HttpScript(discover=MODERN, tools_list={"tools": tools}) as script, connect(script.url) as client:
            assert [t.name for t in await client.list_tools()] == ["good"]

    run(main)
    assert any("'bad'" in r.getMessage() for r in caplog.records)


# --- negotiation -------------------------------------------------------------------------------------

LEGACY = {"initialize": handshake(), "tools_list": {"tools": []}}


@pytest.mark.parametrize(
    "probe",
    [
        error(-32601),
        error(-32603),
        ("404 Not Found", error(-32601)),
        ("400 Bad Request", error(-32600)),
        ("400 Bad Request", error(-32000)),
        ("400 Bad Request", error(-32004)),
        ("500 Internal Server Error", error(-32601)),
        ("400 Bad Request", error(-32022, {"supported": [R4]})),
        plain("400 Bad Request"),
        plain("400 Bad Request", b"<html>no</html>", Content_Type="text/html"),
        plain("404 Not Found"),
        plain("405 Method Not Allowed"),
        plain("406 Not Acceptable"),
        plain("202 Accepted"),
        plain("200 OK", b"hello", Content_Type="text/plain"),
    ],
    ids=repr,
)
def test_vn45_vn46_evidence_of_the_handshake_era(run, probe):
    async def main():
        async with HttpScript(discover=probe, **LEGACY) as script:
            async with connect(script.url) as client:
                assert client.protocol_version == R4
                assert await client.list_tools() == []
            initialize = next(r for r in script.seen if r.body and r.body["method"] == "initialize")
            assert "mcp-protocol-version" not in initialize.headers  # VN-49, B61
            assert "mcp-method" not in initialize.headers and "_meta" not in initialize.body["params"]
            listing = next(r for r in script.seen if r.body and r.body["method"] == "tools/list")
            assert listing.headers["mcp-protocol-version"] == R4

    run(main)


@pytest.mark.parametrize("status", ["401 Unauthorized", "403 Forbidden", "429 Too Many Requests", "500 Oops", "503 No"])
def test_vn47_no_evidence_ends_the_connect(run, status):
    async def main():
        refused = plain(status, b'{"why":"because"}', Content_Type="application/json")
        async with HttpScript(discover=refused, **LEGACY) as script:
            with pytest.raises(ConnectFailed, match=status[:3]) as caught:
                await agreed(script)
            assert script.methods == ["server/discover"]
            assert isinstance(caught.value.__cause__, HttpStatusError | ConnectFailed)

    run(main)


def test_b40_a_refused_connect_says_what_failed_once_and_when_to_come_back(run):
    async def main():
        refused = plain("429 Too Many Requests", b"slow down", Content_Type="text/plain", Retry_After="7")
        async with HttpScript(discover=refused, **LEGACY) as script:
            with pytest.raises(ConnectFailed, match="slow down; it asks to be tried again in 7 s") as caught:
                await agreed(script)
            assert str(caught.value).count("server/discover") == 1

    run(main)


def test_vn40_vn23_modern_errors_over_http(run):
    async def main():
        for code in (-32020, -32021):
            async with HttpScript(discover=("400 Bad Request", error(code)), **LEGACY) as script:
                with pytest.raises(ConnectFailed, match=str(code)):
                    await agreed(script)
                assert script.methods == ["server/discover"]
        answers = [("400 Bad Request", error(-32022, {"supported": [R5]})), MODERN]
        async with HttpScript(discover=lambda r: answers.pop(0)) as script:
            assert await agreed(script) == R5
        async with HttpScript(discover=("400 Bad Request", error(-32022, {"supported": ["2031-01-01"]}))) as script:
            with pytest.raises(ConnectFailed, match="2031-01-01"):
                await agreed(script)

    run(main)


def test_b66_both_failures_are_told(run):
    async def main():
        first = plain("400 Bad Request", b"enable X at Y", Content_Type="text/plain")
        async with HttpScript(discover=first, initialize=plain("405 Method Not Allowed")) as script:
            with pytest.raises(ConnectFailed) as caught:
                await agreed(script)
            assert "405" in str(caught.value) and "enable X at Y" in str(caught.value)

    run(main)


def test_vn03_unknown_revision_over_http(run):
    async def main():
        async with HttpScript(discover=error(-32601), initialize=handshake("2099-01-01")) as script:
            with pytest.raises(ConnectFailed, match="2099-01-01"):
                await agreed(script)
        async with HttpScript(discover=error(-32601), initialize=handshake(R2)) as script:
            assert await agreed(script) == R2

    run(main)


def test_b116_silence_over_http(run):
    async def main():
        async def silent(request):
            await asyncio.sleep(30)

        async with HttpScript(discover=silent) as script:
            with pytest.raises(RequestTimeout, match="while waiting for the answer to server/discover"):
                await agreed(script, limits=Limits(connect_timeout=0.4))
        async with HttpScript(discover=error(-1), initialize=handshake(), initialized=silent) as script:
            with pytest.raises(RequestTimeout, match="initialized"):
                await agreed(script, limits=Limits(connect_timeout=0.4))
        with pytest.raises(ConnectFailed, match="connection refused; is the server running"):
            await agreed(script)

    run(main)


# --- sessions ----------------------------------------------------------------------------------------


class Sessions(HttpScript):
    """A handshake-era server with sessions that can be lost."""

    def __init__(self, **replies):
        self.count = 0
        self.current = None
        self.gone = plain("404 Not Found")
        replies = {"discover": error(-32601), "initialize": self.open, "tools_call": self.call, **replies}
        super().__init__(**replies)

    def open(self, request):
        assert "mcp-session-id" not in request.headers
        self.count += 1
        self.current = f"s{self.count}"
        return answer(request, json.dumps(handshake()), Mcp_Session_Id=self.current)

    def call(self, request):
        if request.headers.get("mcp-session-id") != self.current:
            return self.gone
        return {"content": [{"type": "text", "text": self.current}]}


def test_b118_order_of_the_first_requests(run):
    async def main():
        async with Sessions() as script, connect(script.url) as client:
            assert (await client.call_tool("t")).text == "s1"
            for _ in range(100):
                if "GET" in script.methods:
                    break
                await asyncio.sleep(0.01)
            order = [m for m in script.methods if m != "tools/call"]
            assert order == ["server/discover", "initialize", "notifications/initialized", "GET"]
            for request in script.seen[2:]:
                assert request.headers["mcp-session-id"] == "s1"
                assert request.headers["mcp-protocol-version"] == R4

    run(main)


def test_b48_a_lost_session_is_renewed_once_for_all(run):
    async def main():
        async with Sessions() as script, connect(script.url) as client:
            assert (await client.call_tool("t")).text == "s1"
            script.current = "lost"
            results = await asyncio.gather(*(client.call_tool("t") for _ in range(20)))
            assert {r.text for r in results} == {"s2"}
            assert script.methods.count("initialize") == 2
            assert (await client.call_tool("t")).text == "s2"

    run(main)


def test_b48_the_error_body_of_a_404_does_not_matter(run):
    async def main():
        async with Sessions() as script, connect(script.url) as client:
            script.gone = ("404 Not Found", error(-32001))
            script.current = "lost"
            assert (await client.call_tool("t")).text == "s2"

    run(main)


def test_b48_endless_404_is_an_error_after_one_try(run):
    async def main():
        async with Sessions() as script, connect(script.url) as client:
            script.replies["tools_call"] = plain("404 Not Found")
            with pytest.raises(HttpStatusError, match="404"):
                await client.call_tool("t")
            assert script.methods.count("initialize") == 2
            script.replies["initialize"] = plain("404 Not Found")
            outcomes = await asyncio.gather(*(client.call_tool("t") for _ in range(5)), return_exceptions=True)
            assert all(isinstance(o, HttpStatusError) for o in outcomes)
            assert script.methods.count("initialize") == 3
            # The server is back: the next call recovers.
            script.replies.update(initialize=script.open, tools_call=script.call)
            assert (await client.call_tool("t")).text == script.current

    run(main)


def test_closing_while_a_session_is_renewed(run):
    async def main():
        asked = asyncio.Event()

        async def never(request):
            asked.set()
            await asyncio.sleep(30)

        async with Sessions() as script, connect(script.url) as client:
            script.current = "lost"
            script.replies["initialize"] = never
            waiting = [asyncio.create_task(client.call_tool("t")) for _ in range(3)]
            await asked.wait()
            late = asyncio.create_task(client.call_tool("t"))
            await asyncio.sleep(0.02)
            waiting[0].cancel()
            await client.close()
            outcomes = await asyncio.gather(*waiting, late, return_exceptions=True)
            assert isinstance(outcomes[0], asyncio.CancelledError)
            assert all(isinstance(o, ConnectionClosed) for o in outcomes[1:])

    run(main)


def test_b48_a_404_without_a_session_is_the_servers_answer(run):
    async def main():
        missing = ("404 Not Found", error(-32602))
        async with HttpScript(discover=error(-32601), initialize=handshake(), tools_call=missing) as script:
            async with connect(script.url) as client:
                with pytest.raises(RpcError):
                    await client.call_tool("t")
            assert script.methods.count("initialize") == 1

    run(main)


@pytest.mark.parametrize("status", ["200 OK", "204 No Content", "404 Not Found", "405 No", "501 No", "never"])
def test_b64_delete_on_close(run, status):
    async def main():
        async def delete(request):
            if status == "never":
                await asyncio.sleep(30)
            return plain(status)

        async with Sessions(DELETE=delete) as script:
            loop = asyncio.get_running_loop()
            async with connect(script.url) as client:
                await client.call_tool("t")
                start = loop.time()
            assert loop.time() - start < 5  # bounded: the limit itself is 1 s
            assert script.methods[-1] == "DELETE" and script.seen[-1].headers["mcp-session-id"] == "s1"

    run(main)


def test_b91_connections_are_used_again(run):
    async def main():
        async with HttpScript(discover=MODERN, tools_call={"content": []}) as script, connect(script.url) as client:
            for _ in range(50):
                await client.call_tool("t")
            assert script.peer.conns == 1
            await asyncio.gather(*(client.call_tool("t") for _ in range(50)))
            assert script.peer.conns <= 51
            assert script.methods.count("server/discover") == 1

    run(main)


def test_headers_go_with_every_request(run):
    async def main():
        async with Sessions() as script:
            async with connect(script.url, headers={"Authorization": "Bearer x"}) as client:
                await client.call_tool("t")
            assert all(r.headers["authorization"] == "Bearer x" for r in script.seen)

    run(main)
