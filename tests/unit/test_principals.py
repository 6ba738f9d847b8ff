"""Whose state it is: what one caller was given is nothing in the hands of another; and what logs never tell.

Strategy: a server whose principal is the Authorization field, spoken to by hand over HTTP (SE-02, SE-03, MX-35, TK-31).
"""

import asyncio
import logging

import pytest
from asking_support import accept, meta
from http_support import make_server, site

from headrace import Context

TASKS = "io.modelcontextprotocol/tasks"
ANN, BOB = {"authorization": "Bearer token-of-ann"}, {"authorization": "Bearer token-of-bob"}


def principal_of(fields):
    return dict(fields).get(b"authorization", b"").decode() or None


def asking_server():
    app = make_server()

    @app.tool
    async def ask(ctx: Context) -> str:
        got = await ctx.elicit("Who?", {"properties": {"name": {"type": "string"}}, "required": ["name"]})
        return f"{ctx.principal}: {got.content['name']}"

    @app.tool
    async def crash(ctx: Context) -> str:
        await ctx.log("error", "about to fail")
        raise RuntimeError("the word is swordfish")

    return app


def call(place, tool, who, **more):
    return place.modern("tools/call", {"name": tool, "arguments": {}, **more}, name=tool, meta=meta(), **who)


@pytest.mark.parametrize("thief", [BOB, {}], ids=["another", "nobody"])
def test_mx35_se03_request_state_belongs_to_its_caller(run, thief):
    """MX-35, SE-03: answers that Ann was asked for finish Ann's call only, whoever holds the state."""

    async def main():
        async with site(asking_server(), principal_of=principal_of) as place:
            peer = await place.connect()
            first = (await peer.ask(call(place, "ask", ANN))).json["result"]
            (key,) = first["inputRequests"]
            more = {"requestState": first["requestState"], "inputResponses": {key: accept(name="Eve")}}
            refused = (await peer.ask(call(place, "ask", thief, **more))).json
            assert refused["error"]["code"] == -32602 and "inputRequests" not in str(refused)
            mine = (await peer.ask(call(place, "ask", ANN, **more))).json
            assert mine["result"]["content"][0]["text"] == "Bearer token-of-ann: Eve"
            # ... and the other way round: what nobody was given is not Ann's.
            first = (await peer.ask(call(place, "ask", {}))).json["result"]
            more["requestState"] = first["requestState"]
            assert (await peer.ask(call(place, "ask", ANN, **more))).code == -32602

    run(main)


def test_tk31_se03_tasks_belong_to_their_caller(run):
    """TK-31, SE-03: a task id of Ann's is unknown to everybody else, in every method and on listens."""

    async def main():
        app = make_server()
        app.tasks()
        gate = asyncio.Event()

        @app.tool(task="required")
        async def job() -> str:
            await gate.wait()
            return "done"

        declared = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
        async with site(app, principal_of=principal_of) as place:
            peer = await place.connect()

            def task(method, who, **params):
                params = {"taskId": task_id, **params}
                return place.modern(method, params, name=task_id, meta=declared, **who)

            made = await peer.ask(place.call("job", meta=declared, **ANN))
            task_id = made.json["result"]["taskId"]
            for who in (BOB, {}):
                assert (await peer.ask(task("tasks/get", who))).code == -32602
                assert (await peer.ask(task("tasks/update", who, inputResponses={}))).code == -32602
                assert (await peer.ask(task("tasks/cancel", who))).code == -32602
                other = await place.connect()
                wish = {"notifications": {"taskIds": [task_id]}}
                other.send(place.modern("subscriptions/listen", wish, meta=declared, **who))
                assert (await other.head())[0] == 200
                _, acknowledged = await other.event()
                assert acknowledged["params"]["notifications"].get("taskIds", []) == []
                other.reset()
            assert (await peer.ask(task("tasks/get", ANN))).json["result"]["status"] == "working"
            gate.set()
            await place.settled(lambda: not app.runtime.in_flight)
            for _ in range(500):
                seen = (await peer.ask(task("tasks/get", ANN))).json["result"]
                if seen["status"] == "completed":
                    break
                await asyncio.sleep(0.005)
            assert seen["result"]["content"][0]["text"] == "done"

    run(main)


def test_sf42_se11_secrets_are_in_no_log(run, caplog):
    """SF-42, SE-11: tokens, session ids, states and answers are not logged at any level, and what a handler's own
    exception says is for our log, never for the client's."""
    caplog.set_level(logging.DEBUG)

    async def main():
        secrets = ["token-of-ann", "answer-of-ann"]
        async with site(asking_server(), principal_of=principal_of) as place:
            peer = await place.connect()
            first = (await peer.ask(call(place, "ask", ANN))).json["result"]
            (key,) = first["inputRequests"]
            state = first["requestState"]
            secrets.append(state)
            answers = {"inputResponses": {key: accept(name="answer-of-ann")}}
            for bad in (state[:-4], state + "AAAA"):
                assert (await peer.ask(call(place, "ask", ANN, requestState=bad, **answers))).code == -32602
            await peer.ask(call(place, "ask", BOB, requestState=state, **answers))
            await peer.ask(call(place, "ask", ANN, requestState=state, inputResponses={key: "answer-of-ann"}))
            sid = await place.open_session(peer)
            secrets.append(sid)
            assert (await peer.ask(place.request("GET", mcp_session_id=sid, last_event_id=f"{sid}.1.2"))).status == 400
            for fields in (BOB, {}):
                await peer.ask(place.legacy_call(sid, "echo", {"text": 5}, **fields))
            await peer.ask(place.legacy_call(sid + "x", "echo", {"text": "a"}))
            assert (await peer.ask(place.request("DELETE", mcp_session_id=sid))).status == 204
            await peer.ask(place.legacy_call(sid, "echo", {"text": "a"}))
            levels = {"io.modelcontextprotocol/logLevel": "debug"}
            said = await peer.ask(place.call("crash", meta=levels))
            assert b"about to fail" in said.body and b"swordfish" not in said.body
        return secrets

    secrets = run(main)
    assert "swordfish" in caplog.text  # so that its author can find it
    assert [each for each in secrets if each in caplog.text] == []
    caplog.clear()
