"""Rules of Streamable HTTP that clients and proxies rely on, byte by byte on the server, in both eras."""

import asyncio
import json
from typing import Annotated

import pytest
from http_peer import plain
from http_script import HttpScript
from http_support import R4, R5, make_server, site

from headrace import Context, Header, connect

REFUSED = -32020


@pytest.mark.parametrize("name", ["Mcp-Method", "mcp-method", "MCP-METHOD", "mCp-MeThOd"])
def test_hn04_names_of_headers_in_any_case(run, name):
    async def trial():
        async with site() as place:
            peer = await place.connect()
            answer = await peer.ask(place.modern("tools/list", mcp_method=None, headers=[(name, "tools/list")]))
            assert answer.status == 200

    run(trial)


@pytest.mark.parametrize("value", ["TOOLS/LIST", "Tools/list", "tools/list/", "tools list"])
def test_hn04_31_values_of_headers_count_as_they_are(run, value):
    async def trial():
        async with site() as place:
            peer = await place.connect()
            answer = await peer.ask(place.modern("tools/list", id="x", mcp_method=value))
            assert (answer.status, answer.code, answer.json["id"]) == (400, REFUSED, "x")
            padded = await peer.ask(place.modern("tools/list", mcp_method=f"  {'tools/list'}\t "))
            assert padded.status == 200

    run(trial)


def test_hn05_posted_notifications(run):
    """HN-05, HO-04: accepted with 202 and nothing, without the headers of requests, and never acted on."""

    async def trial():
        async with site() as place:
            caller = await place.connect()
            caller.send(place.call("sleep", {"ms": 50}, id=7))
            await place.settled(lambda: place.server.seen.started)
            peer = await place.connect()
            for method, params in (("notifications/cancelled", {"requestId": 7}), ("notifications/of/nobody", {})):
                body = {"jsonrpc": "2.0", "method": method, "params": params}
                answer = await peer.ask(place.request(body=body, mcp_protocol_version=R5))
                assert (answer.status, answer.body) == (202, b"")
            bad = await peer.ask(place.request(body=b'{"jsonrpc":"2.0","method":5}', mcp_protocol_version=R5))
            assert 400 <= bad.status < 500
            # A stranger's id is no handle on somebody's request.
            assert (await caller.answer()).json["result"]["content"][0]["text"] == "slept"
            assert place.server.seen.cancelled == 0

    run(trial)


def test_hn06_41_answers_and_streams(run):
    """HN-06, HN-40, HN-41, HN-43: JSON, or an event stream where there is something to stream, not buffered by proxies and
    without ids, and with nothing after its answer."""

    async def trial():
        async with site() as place:
            peer = await place.connect()
            plain_answer = await peer.ask(place.call("echo", {"text": "a"}))
            assert plain_answer.get("content-type") == "application/json"
            streamed = await peer.ask(place.call("progress", {"n": 3}, meta={"progressToken": 0}))
            assert streamed.get("content-type") == "text/event-stream"
            assert streamed.get("x-accel-buffering") == "no"
            assert "no-cache" in streamed.get("cache-control") or "no-store" in streamed.get("cache-control")
            assert b"\nid:" not in streamed.body and not streamed.body.startswith(b"id:")
            assert b"retry:" not in streamed.body
            kinds = [message.get("method", "answer") for message in streamed.events]
            assert kinds == ["notifications/progress"] * 3 + ["answer"]

    run(trial)


def test_hn10_23_mirrored_values(run):
    """HN-10, HN-23: text as it is, integers in decimal, booleans in small letters, from their place in the arguments;
    what is null or missing is left out."""

    async def trial():
        schema = {
            "type": "object",
            "properties": {
                "region": {"type": "string", "x-mcp-header": "Region"},
                "count": {"type": "integer", "x-mcp-header": "Count"},
                "dry": {"type": "boolean", "x-mcp-header": "Dry"},
                "inner": {"type": "object", "properties": {"zone": {"type": "string", "x-mcp-header": "Zone"}}},
                "none": {"type": "string", "x-mcp-header": "None"},
            },
        }
        tools = {"tools": [{"name": "t", "inputSchema": schema}], "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        found = {"supportedVersions": [R5], "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        done = {"content": [], "resultType": "complete"}
        async with HttpScript(discover=lambda r: found, tools_list=lambda r: tools, tools_call=lambda r: done) as script:
            async with connect(script.url, revision=R5) as client:
                await client.list_tools()
                arguments = {"region": "a b", "count": -7, "dry": True, "inner": {"zone": "z", "Zone": "q"}, "none": None}
                await client.call_tool("t", arguments)
            (call,) = [request for request in script.seen if request.body and request.body["method"] == "tools/call"]
            mirrored = {name: value for name, value in call.pairs if name.startswith("mcp-param-")}
            assert mirrored == {
                "mcp-param-region": "a b",
                "mcp-param-count": "-7",
                "mcp-param-dry": "true",
                "mcp-param-zone": "z",
            }

    run(trial)


def test_ho02_each_message_is_a_post_that_accepts_both_kinds(run):
    """HO-02, HO-03, HN-02, HO-31, HO-40: what the client sends, in the handshake era."""

    async def trial():
        hello = {"protocolVersion": R4, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}

        def greeted(request):
            body = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": hello}).encode()
            return plain("200 OK", body, Content_Type="application/json", Mcp_Session_Id="s1")

        async with HttpScript(initialize=greeted, tools_list={"tools": []}) as script:
            async with connect(script.url, revision=R4) as client:
                await client.list_tools()
            for request in script.seen:
                accepts = request.headers.get("accept", "")
                if request.method == "POST":
                    assert isinstance(request.body, dict)
                    assert "application/json" in accepts and "text/event-stream" in accepts
                    assert request.headers["content-type"].startswith("application/json")
                if request.method == "GET":
                    assert accepts == "text/event-stream"
                first = request.method == "POST" and request.body["method"] == "initialize"
                assert request.headers.get("mcp-session-id") == (None if first else "s1")
                assert request.headers.get("mcp-protocol-version") == (None if first else R4)

    run(trial)


def test_ho02_what_a_request_must_say(run):
    """HO-01, HO-02, HN-01: what cannot be answered is refused before it is read."""

    async def trial():
        async with site() as place:
            peer = await place.connect()
            for changes, status in (
                ({"accept": "text/html"}, 406),
                ({"content_type": "text/plain"}, 415),
                ({"content_type": None}, 415),
            ):
                assert (await peer.ask(place.initialize(**changes))).status == status
            assert (await peer.ask(place.initialize(accept="*/*"))).status == 200
            for method in ("PUT", "PATCH"):
                refused = await peer.ask(place.request(method))
                assert refused.status == 405 and "POST" in refused.get("allow")
            assert (await peer.ask(place.request("POST", target="/other", body={}))).status == 404

    run(trial)


def test_ho07_a_stream_ends_with_its_answer(run):
    """HO-07: in the handshake era as well."""

    async def trial():
        async with site() as place:
            peer = await place.connect()
            sid = await place.open_session(peer)
            params = {"name": "progress", "arguments": {"n": 2}, "_meta": {"progressToken": "p"}}
            streamed = await peer.ask(place.legacy(sid, "tools/call", params, id=5))
            messages = [message for message in streamed.events if message]
            assert messages[-1]["id"] == 5 and "result" in messages[-1]
            assert [m["params"]["progress"] for m in messages[:-1]] == [1, 2]
            # The connection is as good as before.
            assert (await peer.ask(place.legacy_call(sid, "echo", {"text": "a"}, id=6))).status == 200

    run(trial)


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_se01_ho42_origins_and_hosts(run, era):
    """SE-01, HO-42, LS-05: strangers of the web are refused, whatever they ask for; programs without an Origin are not."""

    async def trial():
        async with site() as place:
            peer = await place.connect()

            def ask(**changes):
                return place.initialize(**changes) if era == "handshake" else place.modern("server/discover", **changes)

            for good in ({}, {"origin": f"http://{place.netloc}"}, {"origin": "http://localhost:1"}, {"host": "localhost"}):
                assert (await peer.ask(ask(**good))).status == 200, good
            for bad in ({"origin": "http://evil.example"}, {"origin": "null"}):
                assert (await peer.ask(ask(**bad))).status == 403, bad
            assert (await peer.ask(ask(host="evil.example"))).status == 421
            for method in ("GET", "DELETE", "OPTIONS"):
                assert (await peer.ask(place.request(method, origin="http://evil.example"))).status == 403

    run(trial)


def test_se02_ho30_34_ids_of_sessions(run):
    """SE-02, HO-30, HO-32, HO-34: long and random, of visible ASCII, and no two alike."""

    async def trial():
        async with site() as place:
            peer = await place.connect()
            ids = [(await peer.ask(place.initialize())).get("mcp-session-id") for _ in range(20)]
            assert len(set(ids)) == 20
            assert all(len(each) >= 22 and all(0x21 <= ord(c) <= 0x7E for c in each) for each in ids)
            guess = ids[0][:-1] + ("A" if ids[0][-1] != "A" else "B")
            assert (await peer.ask(place.legacy_call(guess, "echo", {"text": "a"}))).status == 404

    run(trial)


def test_se09_the_body_is_the_truth(run):
    """SE-09, HN-25, HN-26, HN-31: a header that says something else than the body is refused, and is never an argument."""

    async def trial():
        app = make_server()

        @app.tool
        async def route(ctx: Context, region: Annotated[str, Header("Region")]) -> str:
            return region

        async with site(app) as place:
            peer = await place.connect()
            told = await peer.ask(place.call("route", {"region": "eu"}, headers=[("Mcp-Param-Region", "eu")]))
            assert told.json["result"]["content"][0]["text"] == "eu"
            for headers in ([("Mcp-Param-Region", "us")], [], [("Mcp-Param-Region", "eu"), ("Mcp-Param-Region", "us")]):
                refused = await peer.ask(place.call("route", {"region": "eu"}, headers=headers))
                assert (refused.status, refused.code) == (400, REFUSED), headers
            twice = place.call("route", {"region": "eu"}, headers=[("Mcp-Param-Region", "eu")])
            twice = twice.replace(b'"name": "route"', b'"name": "echo", "name": "route"')
            length = len(twice.partition(b"\r\n\r\n")[2])
            head, _, body = twice.partition(b"\r\n\r\n")
            head = b"\r\n".join(
                b"content-length: %d" % length if line.lower().startswith(b"content-length") else line
                for line in head.split(b"\r\n")
            )
            assert (await peer.ask(head + b"\r\n\r\n" + body)).status == 400

    run(trial)


def test_vn28_every_request_stands_for_itself(run):
    """VN-28, JR-43: nothing is remembered of an earlier request on the same connection: not its capabilities, not its
    client, not its era."""

    async def trial():
        app = make_server()

        @app.tool
        async def who(ctx: Context) -> str:
            return f"{(ctx.client_info or {}).get('name')} {sorted(ctx.client_capabilities)}"

        async with site(app) as place:
            peer = await place.connect()
            key = "io.modelcontextprotocol/"
            rich = {f"{key}clientInfo": {"name": "a", "version": "1"}, f"{key}clientCapabilities": {"roots": {}}}
            first = await peer.ask(place.call("who", meta=rich))
            assert first.json["result"]["content"][0]["text"] == "a ['roots']"
            second = await peer.ask(place.call("who"))
            assert second.json["result"]["content"][0]["text"] == "None []"
            sid = await place.open_session(peer)
            third = await peer.ask(place.call("who"))
            assert third.json["result"]["content"][0]["text"] == "None []"
            # ... also beside a session's id, which means nothing here.
            fourth = await peer.ask(place.call("who", mcp_session_id=sid))
            assert fourth.json["result"]["content"][0]["text"] == "None []"
            other = await place.connect()
            answers = await asyncio.gather(peer.ask(place.call("who", meta=rich)), other.ask(place.call("who")))
            assert [a.json["result"]["content"][0]["text"] for a in answers] == ["a ['roots']", "None []"]

    run(trial)


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_tk28_tasks_are_named_in_a_header(run, method):
    """TK-28, HN-03, HN-31: `Mcp-Name` is the task's id; the client sends it, the server compares it."""

    async def trial():
        found = {"supportedVersions": [R5], "capabilities": {}, "ttlMs": 0, "cacheScope": "private", "resultType": "complete"}
        params = {"taskId": "t-1"} | ({"inputResponses": {}} if method == "tasks/update" else {})
        replies = {"discover": lambda r: found, method.replace("/", "_"): lambda r: {"resultType": "complete"}}
        async with HttpScript(**replies) as script:
            async with connect(script.url, revision=R5) as client:
                await client.request(method, params)
            assert script.seen[-1].headers["mcp-name"] == "t-1"

        app = make_server()
        app.tasks()

        @app.tool(task="required")
        async def job() -> str:
            return "done"

        meta = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
        async with site(app) as place:
            peer = await place.connect()
            for name, code in (("t-2", REFUSED), (None, REFUSED), ("t-1", -32602)):
                assert (await peer.ask(place.modern(method, params, name=name, meta=meta))).code == code

    run(trial)
