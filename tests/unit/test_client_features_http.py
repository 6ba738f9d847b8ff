"""Features of the client that differ over HTTP: rounds with headers, lost sessions, requests in answers."""

import asyncio
import json

import pytest
from http_peer import event, plain, sse_head
from http_script import DONE, HttpScript
from scripted_peer import MODERN, error, handshake

from headrace import RemoteProtocolError, connect

FORM = {"type": "object", "properties": {"a": {"type": "string"}}}
ASK = {"method": "elicitation/create", "params": {"message": "m", "requestedSchema": FORM}}


def test_mx34_headers_and_ids_of_each_round(run):
    """MX-34, HN-03, HN-20: Mcp-Name and Mcp-Param headers go with every round, ids and tokens are new."""
    schema = {"type": "object", "properties": {"r": {"type": "string", "x-mcp-header": "Region"}}}

    async def main():
        rounds = [
            {"resultType": "input_required", "inputRequests": {"k": ASK}, "requestState": "s"},
            {"resultType": "input_required", "requestState": "t"},
            {"resultType": "complete", "content": []},
        ]
        replies = {
            "discover": MODERN,
            "tools_list": {"tools": [{"name": "t", "inputSchema": schema}]},
            "tools_call": lambda request: rounds.pop(0),
        }
        async with HttpScript(**replies) as peer:
            async with connect(peer.url, elicitation=lambda p: {"a": "b"}) as client:
                await client.list_tools()
                await client.call_tool("t", {"r": "eu"}, on_progress=print)
            calls = [r for r in peer.seen if r.method == "POST" and r.body["method"] == "tools/call"]
            assert len(calls) == 3
            for request in calls:
                assert request.headers["mcp-name"] == "t"
                assert request.headers["mcp-method"] == "tools/call"
                assert request.headers["mcp-param-region"] == "eu"
            assert len({r.id for r in calls}) == 3
            assert len({r.body["params"]["_meta"]["progressToken"] for r in calls}) == 3
            assert [r.body["params"].get("requestState") for r in calls] == [None, "s", "t"]
            assert "inputResponses" not in calls[2].body["params"]

    run(main)


def test_jr15_a_request_in_an_answer_fails_the_call_it_came_on(run):
    """JR-15: never answered, told by the owning call, others go on."""

    async def main():
        def call(request):
            if request.body["params"]["name"] == "fine":
                return {"content": []}
            ask = {"jsonrpc": "2.0", "id": 1, "method": "sampling/createMessage", "params": {}}
            request.conn.send(sse_head() + event(ask))
            return DONE

        async with HttpScript(discover=MODERN, tools_call=call) as peer:
            async with connect(peer.url, sampling=lambda p: "x") as client:
                with pytest.raises(RemoteProtocolError, match=r"sent a request \(sampling/createMessage\)"):
                    await client.call_tool("bad")
                await client.call_tool("fine")
            assert all("method" in r.body for r in peer.seen if r.method == "POST")

    run(main)


def test_jr15_only_one_line_is_logged(run, caplog):
    async def main():
        def call(request):
            ask = {"jsonrpc": "2.0", "id": 1, "method": "roots/list"}
            request.conn.send(sse_head() + event(ask) * 20)
            return DONE

        async with HttpScript(discover=MODERN, tools_call=call) as peer, connect(peer.url) as client:
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("bad")
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("bad")

    run(main)
    assert caplog.text.count("against the protocol") == 1


def test_b48_a_new_session_is_told_what_the_old_one_was(run):
    """B48, SF-23, SF-40: subscriptions and the log level are made again, what was learnt of tools is void."""

    async def main():
        state = {"session": 0}
        offers = {**handshake(), "capabilities": {"resources": {"subscribe": True}, "logging": {}, "tools": {}}}

        def initialize(request):
            state["session"] += 1
            body = json.dumps({"jsonrpc": "2.0", "id": request.id, "result": offers}).encode()
            return plain("200 OK", body, Content_Type="application/json", Mcp_Session_Id=f"s{state['session']}")

        def served(result):
            def reply(request):
                lost = request.headers.get("mcp-session-id") != f"s{state['session']}"
                return plain("404 Not Found") if lost else result

            return reply

        replies = {
            "discover": error(-32601),
            "initialize": initialize,
            "tools_call": served({"content": []}),
            "resources_subscribe": served({}),
            "logging_setLevel": served({}),
        }
        async with HttpScript(**replies) as peer, connect(peer.url, log_level="debug") as client:
            await client.subscribe("x://a")
            await client.subscribe("x://b")
            state["session"] += 1
            await asyncio.gather(*[client.call_tool("t") for _ in range(5)])
            again = [r for r in peer.seen if r.headers.get("mcp-session-id") == "s3"]
            methods = [r.body["method"] for r in again if r.method == "POST"]
            assert methods.count("logging/setLevel") == 1
            uris = [r.body["params"]["uri"] for r in again if r.method == "POST" and "subscribe" in r.body["method"]]
            assert uris == ["x://a", "x://b"]
            assert methods.index("resources/subscribe") < methods.index("tools/call")
            assert peer.methods.count("initialize") == 2

    run(main)


def test_cf01_requests_on_the_stream_of_a_call_are_answered_by_posts(run):
    """CF-01, HO-12: the answer is a POST of its own while the call goes on."""

    async def main():
        answered = asyncio.Event()
        conns = []

        async def call(request):
            conns.append(request.conn)
            ask = {"jsonrpc": "2.0", "id": "q", **ASK}
            request.conn.send(sse_head() + event(ask))
            await answered.wait()
            request.conn.send(event({"jsonrpc": "2.0", "id": request.id, "result": {"content": []}}))
            return None

        class Answering(HttpScript):
            @property
            def methods(self):
                return [
                    (r.body.get("method", "answer")) if r.method == "POST" else r.method for r in self.seen
                ]

        def answer(request):
            answered.set()
            return plain("202 Accepted")

        replies = {"discover": error(-32601), "initialize": handshake(), "tools_call": call, "answer": answer}
        async with Answering(**replies) as peer:
            async with connect(peer.url, elicitation=lambda p: {"a": "b"}) as client:
                await client.call_tool("t")
            (given,) = [r.body for r in peer.seen if r.method == "POST" and "method" not in r.body]
            assert given == {"jsonrpc": "2.0", "id": "q", "result": {"action": "accept", "content": {"a": "b"}}}

    run(main)
