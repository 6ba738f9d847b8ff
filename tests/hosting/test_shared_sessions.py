"""Sessions of the handshake era that every process serves: on one hub in memory (issue item 5a; B47, B95, B96)."""

import asyncio
import json

import pytest
from http_support import R4, tiny

from headrace.protocol.shared import session as session_module
from hosting.session_support import asking, response, text_of, together

GONE = 404


def scene(run, body, **settings):
    async def whole():
        async with together(**settings) as (hub, *servers):
            await body(hub, *servers)

    run(whole)


def test_b95_a_session_is_served_by_every_server(run):
    async def body(hub, a, b, c):
        sid = await a.begin()
        for n in range(20):
            assert await (a, b, c)[n % 3].echo(sid, f"call {n}") == f"call {n}"
        listed = await b.once(b.legacy(sid, "tools/list"))
        assert {tool["name"] for tool in listed.json["result"]["tools"]} >= {"echo", "roots"}
        said = await c.once(c.legacy_call(sid, "note", {"level": "error"}))
        assert said.events[-1]["result"]["content"][0]["text"] == "raw"
        assert b.session(sid).client_info == {"name": "raw", "version": "1"}

    scene(run, body, count=3)


def test_b95_an_unknown_session_is_404_on_every_server(run):
    async def body(hub, a, b):
        for sid in ("0" * 48, "x", "y" * 128, "z" * 129, "s\xe4"):
            assert await a.echo(sid) == GONE
            assert await b.echo(sid) == GONE
            assert (await b.delete(sid)).status == GONE
            assert (await b.once(b.request("GET", mcp_session_id=sid))).status == GONE
        assert (await a.once(a.legacy_call(None, "echo", {"text": ""}))).status == 400
        assert len(a.sessions) == len(b.sessions) == 0 and not a.sessions._fetching

    scene(run, body)


def test_ho34_a_session_is_unknown_to_other_principals_on_every_server(run):
    def principal_of(fields):
        return dict(fields).get(b"x-user", b"").decode() or None

    async def authenticate(request):
        await asyncio.sleep(0)
        return principal_of(request.headers)

    for option in ({"principal_of": principal_of}, {"authenticate": authenticate}):

        async def body(hub, a, b):
            answer = await a.once(a.initialize(x_user="ann"))
            sid = answer.get("mcp-session-id")
            for server in (b, a):
                assert await server.echo(sid, x_user="bob") == GONE
                assert await server.echo(sid) == GONE
                assert await server.echo(sid, x_user="ann") == "hello"
                assert await server.echo(sid, x_user="bob") == GONE
            assert (await b.delete(sid, x_user="bob")).status == GONE
            assert await b.echo(sid, x_user="ann") == "hello"
            record = hub.records["session:" + sid][1][""]
            assert b"ann" not in record
            assert (await b.delete(sid, x_user="ann")).status == 204
            assert await a.echo(sid, x_user="ann") == GONE

        scene(run, body, **option)


def test_b95_a_session_that_was_deleted_elsewhere_is_gone(run):
    async def body(hub, a, b, c):
        sid = await a.begin()
        for server in (a, b):
            assert await server.echo(sid) == "hello"
        running = await a.connect()
        running.send(a.legacy_call(sid, "sleep", {"ms": 20_000}, id=7))
        await a.settled(lambda: a.app.seen.started == 1)
        wrong = await b.delete(sid, mcp_protocol_version="2025-03-26")
        assert wrong.status == 400 and await c.echo(sid) == "hello"
        assert (await b.delete(sid)).status == 204
        await a.settled(lambda: a.app.seen.cancelled == 1)
        assert (await running.answer()).status in (202, 404)
        await a.settled(lambda: not any(server.session(sid) for server in (a, b, c)))
        for server in (a, b, c):
            assert await server.echo(sid) == GONE
        assert (await b.delete(sid)).status == GONE
        assert hub.records == {} and not hub.groups["sessions"]

    scene(run, body, count=3)


def test_b95_a_session_is_kept_before_initialize_is_answered(run):
    async def body(hub, a, b):
        hub.cut()
        answer = await a.once(a.initialize())
        assert answer.status == 503 and answer.get("retry-after") == "1"
        assert answer.get("mcp-session-id") is None
        assert answer.json["id"] == 1 and "try again" in answer.json["error"]["message"]
        assert len(a.sessions) == 0
        hub.mend()
        sid = await a.begin()
        assert await b.echo(sid) == "hello"
        assert a.app.runtime.refusals["backplane"] == 1

    scene(run, body)


def test_b96_without_the_backplane_known_sessions_and_era_m_go_on(run):
    async def body(hub, a, b):
        sid = await a.begin()
        hub.cut()
        assert await a.echo(sid) == "hello"
        refused = await b.once(b.legacy_call(sid, "echo", {"text": "x"}))
        assert refused.status == 503 and refused.get("retry-after") == "1"
        assert "try again" in refused.json["error"]["message"] and "hub" not in refused.json["error"]["message"]
        assert (await a.delete(sid)).status == 503  # not ended everywhere: not said to be
        assert await a.echo(sid) == "hello"
        level = await a.once(a.legacy(sid, "logging/setLevel", {"level": "error"}))
        assert level.status == 503 and a.session(sid).log_level == "info"
        follow = await a.once(a.legacy(sid, "resources/subscribe", {"uri": "data://one"}))
        assert follow.status == 503 and not a.session(sid).subscriptions
        modern = await b.once(b.call("echo", {"text": "modern"}))
        assert modern.json["result"]["content"][0]["text"] == "modern"
        hub.mend()
        assert await b.echo(sid) == "hello"
        assert (await b.delete(sid)).status == 204
        await a.settled(lambda: a.session(sid) is None)

    scene(run, body)


def test_b95_a_session_outlives_the_server_that_began_it(run):
    async def body(hub, a, b):
        sid = await a.begin()
        other = await a.begin()
        assert await b.echo(sid) == "hello"
        a.backplane.die()
        for link in list(a.endpoint.links):
            link.abort()
        for each in (sid, other):
            assert await b.echo(each) == "hello"

    scene(run, body)


def test_a_server_that_shuts_down_leaves_its_sessions_to_the_others(run):
    async def body(hub, a, b):
        sid = await a.begin()
        running = await a.connect()
        running.send(a.legacy_call(sid, "sleep", {"ms": 300}, id=7))
        await a.settled(lambda: a.app.seen.started == 1)
        closing = asyncio.ensure_future(a.listener.close())
        assert (await running.answer()).json["result"]["content"][0]["text"] == "slept"
        await closing
        assert await b.echo(sid) == "hello"

    scene(run, body)


def test_b47_max_sessions_counts_those_of_all_servers(run):
    async def body(hub, a, b):
        kept = [await (a, b)[n % 2].begin() for n in range(4)]
        for server in (a, b):
            answer = await server.once(server.initialize())
            assert answer.status == 503 and answer.get("retry-after") == "1"
            assert answer.json["error"]["message"] == "too many sessions are open"
        assert a.app.runtime.refusals["max_sessions"] == 1
        assert (await b.delete(kept[0])).status == 204
        new = await b.begin()
        assert await a.echo(new) == "hello"
        assert len(hub.records) == 4

    scene(run, body, limits=tiny(max_sessions=4))


def test_a_server_knows_no_more_sessions_than_it_may(run):
    async def body(hub, a, b):
        kept = [await a.begin() for _ in range(3)]
        b.sessions.server.limits = tiny(max_sessions=2)
        for sid in kept:
            assert await b.echo(sid) == "hello"
            assert len(b.sessions) <= 2
        assert b.session(kept[0]) is None and await b.echo(kept[0]) == "hello"

    scene(run, body)


def test_b47_unused_sessions_end_and_used_ones_do_not(run):
    async def body(hub, a, b):
        idle = [await a.begin() for _ in range(20)]
        used, slow, streaming = [await a.begin() for _ in range(3)]
        assert await b.echo(idle[0]) == "hello"
        call = await b.connect()
        call.send(b.legacy_call(slow, "sleep", {"ms": 2500}, id=7))
        await b.open_stream(streaming)
        for n in range(12):
            await asyncio.sleep(0.2)
            assert await (a, b)[n % 2].echo(used) == "hello"
        await a.settled(lambda: len(hub.records) == 3)
        assert {"session:" + sid for sid in (used, slow, streaming)} == set(hub.records)
        assert (await call.answer()).status == 200
        for sid in (slow, streaming):
            assert await a.echo(sid) == "hello"
        for sid in idle:
            assert await a.echo(sid) == GONE
        assert await b.backplane.count("sessions", None, 0) == 3

    scene(run, body, limits=tiny(session_idle_timeout=0.8))


def test_a_log_level_and_subscriptions_are_the_sessions_on_every_server(run):
    async def body(hub, a, b, c):
        sid = await a.begin()
        assert await b.echo(sid) == "hello"
        assert (await a.once(a.legacy(sid, "logging/setLevel", {"level": "error"}))).json["result"] == {}
        assert (await a.once(a.legacy(sid, "resources/subscribe", {"uri": "data://one"}))).json["result"] == {}
        await b.settled(lambda: b.session(sid).log_level == "error" and "data://one" in b.session(sid).subscriptions)
        for server in (b, c):
            quiet = await server.once(server.legacy_call(sid, "note", {"level": "warning"}))
            assert text_of(quiet.json) == "raw"
            loud = await server.once(server.legacy_call(sid, "note", {"level": "error"}))
            assert [each.get("method") for each in loud.events] == ["notifications/message", None]
        assert c.session(sid).subscriptions == {"data://one"}
        again = await c.once(c.legacy(sid, "resources/subscribe", {"uri": "data://one"}))
        assert again.json["result"] == {}
        await c.once(c.legacy(sid, "resources/unsubscribe", {"uri": "data://one"}))
        await a.settled(lambda: not a.session(sid).subscriptions and not b.session(sid).subscriptions)
        assert set(hub.records["session:" + sid][1]) <= {"", "level", "owner"}

    scene(run, body, count=3)


def test_b95_an_answer_reaches_the_server_that_asked(run):
    async def body(hub, a, b, c):
        sid = (await a.once(asking(a))).get("mcp-session-id")
        other = (await a.once(asking(a))).get("mcp-session-id")
        first, second = await a.connect(), await b.connect()
        first.send(a.legacy_call(sid, "roots", id=5))
        second.send(b.legacy_call(sid, "roots", id=6))
        for peer in (first, second):
            await peer.head()
        questions = [(await peer.event())[1] for peer in (first, second)]
        assert [each["method"] for each in questions] == ["roots/list"] * 2
        assert questions[0]["id"] != questions[1]["id"]
        # One of another session answers nothing.
        taken = await c.once(response(c, other, questions[0]["id"], {"roots": [{"uri": "file:///wrong"}]}))
        assert taken.status == 202
        for n, question in enumerate(questions):
            taken = await c.once(response(c, sid, question["id"], {"roots": [{"uri": f"file:///{n}"}]}))
            assert taken.status == 202 and taken.body == b""
        found = [(await peer.event())[1] for peer in (first, second)]
        assert [each["id"] for each in found] == [5, 6]
        assert [text_of(each) for each in found] == ["file:///0", "file:///1"]

    scene(run, body, count=3)


def test_b95_an_error_answer_reaches_the_server_that_asked(run):
    async def body(hub, a, b):
        sid = (await a.once(asking(a))).get("mcp-session-id")
        peer = await a.connect()
        peer.send(a.legacy_call(sid, "roots", id=5))
        await peer.head()
        question = (await peer.event())[1]
        taken = await b.once(response(b, sid, question["id"], error={"code": -1, "message": "no"}))
        assert taken.status == 202
        message = (await peer.event())[1]
        assert message["id"] == 5 and message["result"]["isError"]

    scene(run, body)


def test_an_answer_too_long_to_be_passed_on_fails_the_call_that_asked(run, monkeypatch):
    """What clients say fills neither Redis nor the other processes."""
    monkeypatch.setattr(session_module, "MAX_ANSWER", 1000)

    async def body(hub, a, b):
        sid = (await a.once(asking(a))).get("mcp-session-id")
        peer = await a.connect()
        peer.send(a.legacy_call(sid, "roots", id=5))
        await peer.head()
        question = (await peer.event())[1]
        roots = {"roots": [{"uri": "file:///" + "x" * 1000}]}
        assert (await b.once(response(b, sid, question["id"], roots))).status == 202
        message = (await peer.event())[1]
        assert message["id"] == 5 and message["result"]["isError"]
        assert "more than 1000 bytes" in text_of(message)

    scene(run, body)


def test_notes_of_clients_that_are_long_are_not_told_to_all(run, monkeypatch):
    """They would be kept in Redis, thousands of them; a cancellation goes without its reason."""

    async def body(hub, a, b):
        told = []
        passed = type(b.sessions).pass_note
        monkeypatch.setattr(
            type(b.sessions), "pass_note", lambda store, session, frame: (told.append(frame), passed(store, session, frame))
        )  # fmt: skip
        sid = await a.begin()
        peer = await a.connect()
        peer.send(a.legacy_call(sid, "sleep", {"ms": 20_000}, id=9))
        await a.settled(lambda: a.app.seen.started == 1)

        async def note(method, **params):
            body = {"jsonrpc": "2.0", "method": method, "params": params}
            return (await b.once(b.request(body=body, mcp_session_id=sid, mcp_protocol_version=R4))).status

        assert await note("notifications/progress", progressToken="p", progress=1, message="x" * 10_000) == 202
        assert await note("notifications/cancelled", requestId="x" * 10_000) == 202
        assert await note("notifications/cancelled", reason="x" * 10_000) == 202
        assert not told and a.app.seen.cancelled == 0
        assert await note("notifications/cancelled", requestId=9, reason="x" * 10_000) == 202
        await a.settled(lambda: a.app.seen.cancelled == 1)
        assert len(told) == 1 and len(told[0]) < 200

    scene(run, body)


def test_b96_an_answer_that_cannot_be_passed_on_is_not_acknowledged(run):
    async def body(hub, a, b):
        sid = (await a.once(asking(a))).get("mcp-session-id")
        assert await b.echo(sid) == "hello"
        peer = await a.connect()
        peer.send(a.legacy_call(sid, "roots", id=5))
        await peer.head()
        question = (await peer.event())[1]
        hub.cut()
        answer = response(b, sid, question["id"], {"roots": [{"uri": "file:///x"}]})
        refused = await b.once(answer)
        assert refused.status == 503 and refused.get("retry-after") == "1"
        hub.mend()
        assert (await b.once(answer)).status == 202  # said twice, taken once
        assert text_of((await peer.event())[1]) == "file:///x"

    scene(run, body)


@pytest.mark.parametrize("id", ["w", "w.", ".1", "w.x", "nobody.1", "w" * 80 + ".1", "a b.1", "\u00e4.1", 7, "7"])
def test_answers_to_nothing_are_taken_and_go_nowhere(run, id):
    async def body(hub, a, b):
        sid = await a.begin()
        assert (await b.once(response(b, sid, id))).status == 202
        assert await b.echo(sid) == "hello"

    scene(run, body)


def test_b95_a_cancellation_reaches_the_server_that_works(run):
    async def body(hub, a, b):
        sid = await a.begin()
        other = await a.begin()
        peer = await a.connect()
        peer.send(a.legacy_call(sid, "sleep", {"ms": 20_000}, id=9))
        await a.settled(lambda: a.app.seen.started == 1)

        def cancel(sid, id):
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
            return b.request(body=note, mcp_session_id=sid, mcp_protocol_version=R4)

        for wrong in (cancel(other, 9), cancel(sid, 8), cancel(sid, "9")):
            assert (await b.once(wrong)).status == 202
        await asyncio.sleep(0.05)
        assert a.app.seen.cancelled == 0
        assert (await b.once(cancel(sid, 9))).status == 202
        await a.settled(lambda: a.app.seen.cancelled == 1)
        assert (await peer.answer()).status == 202

    scene(run, body)


def test_progress_reaches_the_server_that_asked(run):
    async def body(hub, a, b):
        sid = await a.begin()
        told = []
        mux = a.session(sid).mux
        stream = await a.open_stream(sid)
        call = mux.call(
            "x/long", b'{"_meta":{"progressToken":"%b"}}' % mux.next_call_id.encode(), a.session(sid).sink,
            on_progress=lambda done, total, message: told.append(done), timeout=10,
        )  # fmt: skip
        question = (await stream.event())[1]
        assert question["id"] == question["params"]["_meta"]["progressToken"]
        note = {
            "jsonrpc": "2.0", "method": "notifications/progress",
            "params": {"progressToken": question["id"], "progress": 3},
        }  # fmt: skip
        assert (await b.once(b.request(body=note, mcp_session_id=sid, mcp_protocol_version=R4))).status == 202
        await a.settled(lambda: told == [3])
        assert (await b.once(response(b, sid, question["id"], {"x": 1}))).status == 202
        assert json.loads(await call) == {"x": 1}

    scene(run, body)


def test_b96_after_lost_messages_each_session_is_looked_at_again(run):
    async def body(hub, a, b):
        kept, ended = await a.begin(), await a.begin()
        for sid in (kept, ended):
            assert await b.echo(sid) == "hello"
        peer = await b.connect()  # whose last session is remembered by the connection
        assert (await peer.ask(b.legacy_call(ended, "echo", {"text": "x"}))).status == 200
        b.sessions.backplane.receive("session", lambda sender, parts: None)  # what is told now is lost for b
        assert (await a.delete(ended)).status == 204
        assert (await a.once(a.legacy(kept, "logging/setLevel", {"level": "error"}))).status == 200
        assert await b.echo(ended) == "hello" and b.session(kept).log_level == "info"
        b.backplane._missed()
        assert (await peer.ask(b.legacy_call(ended, "echo", {"text": "x"}))).status == GONE
        assert await b.echo(kept) == "hello"
        assert b.session(kept).log_level == "error"

    scene(run, body)


def test_b96_sessions_are_restored_when_everything_that_was_kept_is_gone(run):
    async def body(hub, a, b):
        sid, follower = await a.begin(), await a.begin()
        await a.once(a.legacy(follower, "resources/subscribe", {"uri": "data://one"}))
        await a.once(a.legacy(follower, "logging/setLevel", {"level": "debug"}))
        hub.cut()
        hub.mend(empty=True)
        await a.settled(lambda: len(hub.records) == 2)
        for each in (sid, follower):
            assert await b.echo(each) == "hello"
        assert b.session(follower).subscriptions == {"data://one"} and b.session(follower).log_level == "debug"
        assert await b.backplane.count("sessions", None, 0) == 2
        # One that nobody knows may be restored in a moment.
        assert await b.echo("0" * 48) == 503
        b.sessions._emptied_at -= 10
        assert await b.echo("0" * 48) == GONE

    scene(run, body)


def test_a_session_is_looked_up_once_for_all_who_wait(run, monkeypatch):
    async def body(hub, a, b):
        sid = await a.begin()
        asked = []
        parts = b.backplane.parts
        go = asyncio.Event()

        async def slow(key):
            asked.append(key)
            found = await parts(key)
            await go.wait()
            return found

        monkeypatch.setattr(b.backplane, "parts", slow)
        peers = [await b.connect() for _ in range(5)]
        for n, peer in enumerate(peers):
            peer.send(b.legacy_call(sid, "echo", {"text": f"{n}"}, id=n))
        await b.settled(lambda: asked == ["session:" + sid])
        peers[0].reset()  # who goes away takes nothing from the others
        await asyncio.sleep(0.02)
        go.set()
        for n, peer in enumerate(peers[1:], 1):
            assert (await peer.answer()).json["result"]["content"][0]["text"] == str(n)
        assert asked == ["session:" + sid]

    scene(run, body)


def test_a_session_that_ends_while_it_is_looked_up_is_not_taken_for_alive(run, monkeypatch):
    async def body(hub, a, b):
        sid = await a.begin()
        parts = b.backplane.parts
        go = asyncio.Event()

        async def slow(key):
            found = await parts(key)
            await go.wait()
            return found

        monkeypatch.setattr(b.backplane, "parts", slow)
        answer = asyncio.ensure_future(b.echo(sid))
        await b.settled(lambda: b.sessions._fetching)
        assert (await a.delete(sid)).status == 204
        await asyncio.sleep(0.02)
        go.set()
        assert await answer == GONE
        assert b.session(sid) is None

    scene(run, body)


def test_a_body_in_pieces_is_served_by_the_session_that_was_looked_up(run):
    async def body(hub, a, b):
        sid = await a.begin()
        data = b.legacy_call(sid, "echo", {"text": "x" * 2000})
        peer = await b.connect()
        for at in range(0, len(data), 700):
            peer.send(data[at : at + 700])
            await asyncio.sleep(0.02)
        assert (await peer.answer()).status == 200
        behind = b.legacy_call(sid, "echo", {"text": "1"}, id=1) + b.legacy_call(sid, "echo", {"text": "2"}, id=2)
        other = await a.begin()
        peer.send(b.legacy_call(other, "echo", {"text": "0"}, id=0) + behind)
        assert [(await peer.answer()).json["id"] for _ in range(3)] == [0, 1, 2]

    scene(run, body)


def test_an_initialize_that_says_too_much_cannot_be_kept(run):
    async def body(hub, a, b):
        body = {
            "jsonrpc": "2.0", "id": 1, "method": "initialize",
            "params": {
                "protocolVersion": R4, "capabilities": {"experimental": {"x": {"y": "z" * 300_000}}},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        }  # fmt: skip
        answer = await a.once(a.request(body=body))
        assert answer.json["error"]["code"] == -32602 and answer.get("mcp-session-id") is None
        assert len(a.sessions) == 0 and hub.records == {}

    scene(run, body)


def test_a_principal_that_cannot_be_told_is_500_and_the_connection_goes_on(run):
    def principal_of(fields):
        if b"x-bad" in dict(fields):
            raise ValueError("secret")
        return None

    async def body(hub, a, b):
        sid = await a.begin()
        peer = await b.connect()
        answer = await peer.ask(b.legacy_call(sid, "echo", {"text": "x"}, x_bad="1"))
        assert answer.status == 500 and "secret" not in answer.body.decode()
        assert (await peer.ask(b.legacy_call(sid, "echo", {"text": "x"}))).status == 200

    scene(run, body, principal_of=principal_of)
