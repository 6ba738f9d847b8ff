"""Questions over HTTP and over line streams, in both eras (HO-06, HO-43, VN-29, HN-32, MX-35)."""

import asyncio
import json

import pytest
from asking_support import ALL, accept, meta
from http_support import R4, make_server, site

from headrace import CannotAsk, Context
from headrace.transports.stream import serve_lines


def asking_server():
    app = make_server()

    @app.tool
    async def ask(ctx: Context, quiet: bool = True) -> str:
        if not quiet:
            await ctx.progress(1)
        try:
            got = await ctx.elicit("Who?", {"properties": {"name": {"type": "string"}}, "required": ["name"]})
        except CannotAsk as exc:
            if "channel" in str(exc):
                return f"cannot: {exc}"
            raise
        return got.content["name"]

    @app.tool
    def thread(ctx: Context) -> str:
        return ctx.list_roots()[0].uri

    return app


def initialize(place, capabilities):
    body = {
        "jsonrpc": "2.0", "id": 1, "method": "initialize",
        "params": {"protocolVersion": R4, "capabilities": capabilities, "clientInfo": {"name": "raw", "version": "1"}},
    }  # fmt: skip
    return place.request(body=body)


async def session(place, peer, capabilities=ALL):
    opened = await peer.ask(initialize(place, capabilities))
    sid = opened.get("mcp-session-id")
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert (await peer.ask(place.request(body=note, mcp_session_id=sid))).status == 202
    return sid


def text_of(message):
    return message["result"]["content"][0]["text"]


@pytest.mark.parametrize(("tool", "result", "expected"), [("ask", accept(name="Ada"), "Ada"), ("thread", {"roots": [{"uri": "file:///w"}]}, "file:///w")])
def test_ho06_ho43_the_question_goes_on_the_stream_of_its_request(run, tool, result, expected):
    async def main():
        async with site(asking_server()) as s:
            peer, other = await s.connect(), await s.connect()
            sid = await session(s, peer)
            stream = await s.open_stream(sid)  # HO-06: never there
            peer.send(s.legacy_call(sid, tool, id=7))
            status, headers = await peer.head()
            assert (status, headers["content-type"]) == (200, ["text/event-stream"])
            _, question = await peer.event()
            assert question["method"] in ("elicitation/create", "roots/list") and "id" in question
            # The answer is a POST of its own, over another connection.
            body = {"jsonrpc": "2.0", "id": question["id"], "result": result}
            assert (await other.ask(s.request(body=body, mcp_session_id=sid))).status == 202
            _, response = await peer.event()
            assert response["id"] == 7 and text_of(response) == expected
            assert await peer.event() is None
            stream.close()
            assert (await other.ask(s.request("DELETE", mcp_session_id=sid))).status in (200, 204)

    run(main)


BROKEN = {
    "both": {"result": {"action": "decline"}, "error": {"code": 1, "message": "x"}},
    "no object": {"result": []},
    "no code": {"error": {"message": "x"}},
    "error is text": {"error": "x"},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_jr08_jr09_an_answer_that_is_no_response_is_the_clients_fault(run, caplog, broken):
    """The model is told what was wrong; a client cannot fill the log with tracebacks."""

    async def main():
        async with site(asking_server()) as s:
            peer, other = await s.connect(), await s.connect()
            sid = await session(s, peer)
            peer.send(s.legacy_call(sid, "ask", id=7))
            await peer.head()
            _, question = await peer.event()
            body = {"jsonrpc": "2.0", "id": question["id"], **broken}
            assert (await other.ask(s.request(body=body, mcp_session_id=sid))).status == 202
            _, response = await peer.event()
            assert response["result"]["isError"] is True
            assert text_of(response).startswith("the answer to elicitation/create cannot be read: ")

    run(main)
    assert not caplog.records


def test_ho43_no_channel_in_json_mode(run):
    async def main():
        async with site(asking_server(), json_only=True) as s:
            peer = await s.connect()
            sid = await session(s, peer)
            answer = await peer.ask(s.legacy_call(sid, "ask", id=7))
            assert "cannot: there is no channel" in text_of(answer.json)

    run(main)


@pytest.mark.parametrize("how", ["sealed_sessions", "stateless"])
def test_ho35_no_channel_without_a_session_in_this_process(run, how):
    async def main():
        async with site(asking_server(), **{how: True}) as s:
            peer = await s.connect()
            opened = await peer.ask(initialize(s, ALL))
            sid = opened.get("mcp-session-id")
            answer = await peer.ask(s.legacy_call(sid, "ask", id=7) if sid else s.legacy_call(None, "ask", id=7))
            message = answer.json
            assert "cannot: there is no channel" in text_of(message) or "did not declare" in text_of(message)
            assert (how == "sealed_sessions") == ("no channel" in text_of(message))

    run(main)


def test_ho43_an_answer_of_another_session_is_not_taken(run):
    async def main():
        async with site(asking_server()) as s:
            peer, other = await s.connect(), await s.connect()
            mine, theirs = await session(s, peer), await session(s, other)
            peer.send(s.legacy_call(mine, "ask", id=7))
            await peer.head()
            _, question = await peer.event()
            forged = {"jsonrpc": "2.0", "id": question["id"], "result": accept(name="Mallory")}
            await other.ask(s.request(body=forged, mcp_session_id=theirs))
            body = {"jsonrpc": "2.0", "id": question["id"], "result": accept(name="Ada")}
            assert (await other.ask(s.request(body=body, mcp_session_id=mine))).status == 202
            _, response = await peer.event()
            assert text_of(response) == "Ada"

    run(main)


@pytest.mark.parametrize("accept_header", ["application/json, text/event-stream", "text/event-stream"])
@pytest.mark.parametrize("quiet", [True, False])
def test_mx30_rounds_over_http(run, quiet, accept_header):
    async def main():
        async with site(asking_server()) as s:
            peer = await s.connect()
            more = {}
            for round in range(2):
                params = {"name": "ask", "arguments": {"quiet": quiet}, **more}
                how = {} if quiet else {"progressToken": f"p{round}"}
                request = s.modern("tools/call", params, id=round, name="ask", meta=meta() | how, accept=accept_header)
                answer = await peer.ask(request)
                assert answer.status == 200
                messages = answer.events if answer.get("content-type") == "text/event-stream" else [answer.json]
                if not quiet:
                    assert messages.pop(0)["method"] == "notifications/progress"
                (message,) = messages
                assert message["id"] == round
                result = message["result"]
                if round == 0:
                    assert result["resultType"] == "input_required" and "ttlMs" not in result
                    # JR-14: no request of ours is ever on the wire.
                    assert all("method" not in m or "id" not in m for m in messages)
                    more = {
                        "requestState": result["requestState"],
                        "inputResponses": {key: accept(name="Ada") for key in result["inputRequests"]},
                    }
                else:
                    assert text_of(message) == "Ada" and result["resultType"] == "complete"

    run(main)


def test_vn29_a_missing_capability_is_http_400(run):
    async def main():
        async with site(asking_server()) as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("ask", id=3))
            assert answer.status == 400 and answer.json["id"] == 3
            assert answer.json["error"]["code"] == -32021
            assert answer.json["error"]["data"] == {"requiredCapabilities": {"elicitation": {"form": {}}}}
            # After the stream has begun it is the last event (HN-32).
            request = s.call("ask", {"quiet": False}, meta=meta({}) | {"progressToken": 1})
            answer = await peer.ask(request)
            assert answer.status == 200 and answer.events[-1]["error"]["code"] == -32021

    run(main)


def test_mx35_tampered_state_over_http(run):
    async def main():
        async with site(asking_server()) as s:
            peer = await s.connect()
            params = {"name": "ask", "arguments": {}, "requestState": "AAAA", "inputResponses": {}}
            answer = await peer.ask(s.modern("tools/call", params, name="ask", meta=meta()))
            assert answer.json["error"]["code"] == -32602

    run(main)


def test_hn50_the_client_goes_while_the_handler_asks(run):
    """Era M has nothing to wait for: whoever disconnects after a round leaves nothing behind (HN-50)."""

    async def main():
        async with site(asking_server()) as s:
            peer = await s.connect()
            peer.send(s.call("ask", meta=meta()))
            await peer.head()
            peer.reset()
            await s.settled(lambda: s.listener.connections == 0)
            assert not any(s.endpoint.mux.debug_counts().values())
            assert s.server.runtime.in_flight == 0

    run(main)


@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_questions_over_a_line_stream(run, era, tmp_path):
    async def main():
        app = asking_server()
        path = str(tmp_path / "s")
        async with app.running():
            listener = await serve_lines(app, unix=path)
            reader, writer = await asyncio.open_unix_connection(path)

            def send(**message):
                writer.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

            async def receive():
                return json.loads(await asyncio.wait_for(reader.readline(), 10))

            try:
                call = {"name": "ask", "arguments": {}}
                if era == "handshake":
                    hello = {"protocolVersion": R4, "capabilities": ALL, "clientInfo": {"name": "l", "version": "1"}}
                    send(id=1, method="initialize", params=hello)
                    await receive()
                    send(method="notifications/initialized")
                    send(id=2, method="tools/call", params=call)
                    question = await receive()
                    assert question["method"] == "elicitation/create"
                    send(id=question["id"], result=accept(name="Ada"))
                else:
                    send(id=1, method="tools/call", params={**call, "_meta": meta()})
                    result = (await receive())["result"]
                    answers = {key: accept(name="Ada") for key in result["inputRequests"]}
                    again = {**call, "_meta": meta(), "inputResponses": answers, "requestState": result["requestState"]}
                    send(id=2, method="tools/call", params=again)
                response = await receive()
                assert response["id"] == 2 and text_of(response) == "Ada"
            finally:
                writer.close()
                await listener.close()

    run(main)
