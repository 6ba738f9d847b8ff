"""Rules of the handshake era that hold in each of its revisions, on lines and over HTTP (sections 2 and 4)."""

import asyncio
import json

import msgspec
import pytest
from http_support import R4, R5, make_server, site
from server_pipe import Pipe

from headrace import Audio, Context, Image, Server, types
from headrace.errors import LocalProtocolError
from headrace.jsonrpc import HANDSHAKE_REVISIONS, INVALID_REQUEST, METHOD_NOT_FOUND, R1, R2, R3
from headrace.mux import FunctionHandler

INFO = {"name": "t", "version": "0"}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


def ping(id):
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def begin(app, version, capabilities=None):
    pipe = Pipe(app)
    pipe.send("i", "initialize", {"protocolVersion": version, "capabilities": capabilities or {}, "clientInfo": INFO})
    return pipe, pipe.out.pop()["result"]


async def session(s, peer, version):
    sid = (await peer.ask(s.initialize(version=version))).get("mcp-session-id")
    assert (await peer.ask(s.request(body=INITIALIZED, mcp_session_id=sid))).status == 202
    return sid


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_vn05_nothing_is_sent_before_initialized(run, version):
    """VN-05: until notifications/initialized the server sends nothing by itself; what it was asked it answers."""

    async def main():
        app = make_server()
        async with app.running():
            pipe, _ = begin(app, version)
            app.add_tool(lambda: "x", name="one")
            await asyncio.sleep(0.01)
            with pytest.raises(LocalProtocolError):
                pipe.session.request("ping")
            assert pipe.out == []
            pipe.send(1, "ping")
            assert pipe.out.pop()["result"] == {}
            pipe.send(None, "notifications/initialized")
            app.add_tool(lambda: "x", name="two")
            for _ in range(1000):
                if pipe.out:
                    break
                await asyncio.sleep(0.005)
            assert {m["method"] for m in pipe.out} == {"notifications/tools/list_changed"}

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_vn07_only_what_was_negotiated(run, version):
    """VN-07: methods of other revisions, and of features that are not offered, do not exist in a session."""

    async def main():
        app = make_server()
        async with app.running():
            pipe, result = begin(app, version)
            assert set(result["capabilities"]) == {"tools", "logging"}
            for number, method in enumerate(
                ["server/discover", "subscriptions/listen", "prompts/list", "resources/list", "completion/complete"]
            ):
                answer = await pipe.ask(number, method, {"ref": {}, "argument": {}})
                assert answer["error"]["code"] == METHOD_NOT_FOUND
            for key in ("resultType", "ttlMs", "cacheScope", "_meta"):
                assert key not in (await pipe.ask(9, "tools/list"))["result"]

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_jr14_both_sides_send_requests_and_each_has_its_own_ids(run, version):
    """JR-14, JR-05: a request of the server's may carry the id that one of the client's has."""

    async def main():
        app = make_server()
        async with app.running():
            pipe, _ = begin(app, version, {"roots": {}})
            pipe.send(None, "notifications/initialized")

            async def ask(exchange):
                return await exchange.mux.call("roots/list", None, exchange.sink)

            app.tables.by_name[version].requests[b"x/ask"] = FunctionHandler(ask)
            pipe.send(1, "x/ask")
            question = pipe.out.pop()
            assert (question["method"], question["id"]) == ("roots/list", 1)
            pipe.send(2, "ping")
            assert pipe.out.pop() == {"jsonrpc": "2.0", "id": 2, "result": {}}
            pipe.raw(b'{"jsonrpc":"2.0","id":1,"result":{"roots":[]}}')
            for _ in range(500):
                if pipe.out:
                    break
                await asyncio.sleep(0.002)
            assert pipe.out.pop() == {"jsonrpc": "2.0", "id": 1, "result": {"roots": []}}

    run(main)


def content_server():
    app = Server("content", version="1")

    @app.tool
    async def everything() -> list:
        link = types.ResourceLink(uri="file:///a", name="a")
        return ["text", Image(PNG, "image/png"), Audio(PNG, "audio/wav"), link, {"x": 1}]

    return app


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_sf05_content_that_a_revision_does_not_know_becomes_text(run, version):
    """SF-05, SF-07: audio from R2 on, resource links from R3 on; each result fits the schema of its revision."""

    async def main():
        app = content_server()
        async with app.running():
            pipe, _ = begin(app, version)
            result = (await pipe.ask(1, "tools/call", {"name": "everything"}))["result"]
            kinds = [block["type"] for block in result["content"]]
            assert kinds == [
                "text",
                "image",
                "audio" if version >= R2 else "text",
                "resource_link" if version >= R3 else "text",
                "text",
            ]
            decoded = msgspec.convert(result, types.of(version).CallToolResult)
            assert len(decoded.content) == 5

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_ho01_ho04_ho05_one_path_for_post_get_and_delete(run, version):
    """HO-01, HO-04, HO-05: requests are answered with JSON or events, notifications and answers with 202."""

    async def main():
        async with site() as s:
            peer, stream = await s.connect(), await s.connect()
            sid = await session(s, peer, version)
            named = {"mcp_session_id": sid, "mcp_protocol_version": version if version >= R3 else None}
            for accept, kind in (("application/json", "application/json"), ("text/event-stream", "text/event-stream")):
                answer = await peer.ask(s.request(body=ping(1), accept=accept, **named))
                assert (answer.status, answer.get("content-type")) == (200, kind)
            for body in (INITIALIZED, {"jsonrpc": "2.0", "method": "x/y"}, {"jsonrpc": "2.0", "id": 5, "result": {}}):
                answer = await peer.ask(s.request(body=body, **named))
                assert (answer.status, answer.body) == (202, b"")
            assert (await peer.ask(s.request(body=INITIALIZED, mcp_session_id="nobody"))).status == 404
            assert (await peer.ask(s.request(body=INITIALIZED))).status == 400
            stream.send(s.request("GET", **named))
            status, headers = await stream.head()
            assert status == 200 and headers["content-type"] == ["text/event-stream"]
            assert (await peer.ask(s.request("PATCH", **named))).status == 405
            assert (await peer.ask(s.request(target="/other", body=ping(1), **named))).status == 404
            assert (await peer.ask(s.request("DELETE", **named))).status == 204

    run(main)


@pytest.mark.parametrize("version", [R1, R3, R4])
def test_ho03_st08_one_message_a_body_and_a_line(run, version):
    """HO-03, ST-08, JR-20: arrays outside of 2025-03-26 are one error, over HTTP with status 400."""

    async def main():
        app = make_server()
        async with site(app) as s:
            peer = await s.connect()
            sid = await session(s, peer, version)
            answer = await peer.ask(s.request(body=[ping(1), ping(2)], mcp_session_id=sid))
            assert (answer.status, answer.code) == (400, INVALID_REQUEST)
            two = json.dumps(ping(1)).encode() * 2
            answer = await peer.ask(s.request(body=two, mcp_session_id=sid))
            assert (answer.status, answer.code) == (400, -32700)
            pipe, _ = begin(app, version)
            pipe.raw(json.dumps([ping(1)]).encode())
            assert pipe.out.pop()["error"]["code"] == INVALID_REQUEST
            pipe.mux.close()

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_ho42_the_origin_is_checked_on_everything(run, version):
    """HO-42: a foreign Origin is 403 with every method; no Origin is no browser."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await session(s, peer, version)
            for data in (
                s.initialize(version=version, origin="https://evil.example"),
                s.request(body=ping(1), mcp_session_id=sid, origin="null"),
                s.request("GET", mcp_session_id=sid, origin="https://evil.example"),
                s.request("DELETE", mcp_session_id=sid, origin="https://evil.example"),
            ):
                assert (await peer.ask(data)).status == 403
            assert s.listener.sessions == 1
            assert (await peer.ask(s.request(body=ping(1), mcp_session_id=sid))).status == 200

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_vn63_a_missing_header_means_the_version_of_the_session(run, version):
    """VN-63, HO-41: the session knows its version; another one, or one that is none, is 400."""

    async def main():
        app = make_server()

        @app.tool
        async def which(ctx: Context) -> str:
            return ctx.protocol_version

        async with site(app) as s:
            peer = await s.connect()
            sid = await session(s, peer, version)
            for header in (None, version):
                answer = await peer.ask(s.legacy_call(sid, "which", mcp_protocol_version=header))
                assert answer.json["result"]["content"][0]["text"] == version
            for header in {*HANDSHAKE_REVISIONS, "2099-01-01", "x"} - {version}:
                answer = await peer.ask(s.legacy_call(sid, "which", mcp_protocol_version=header))
                assert answer.status == 400
            answer = await peer.ask(s.legacy_call(sid, "which", mcp_protocol_version=R5))
            assert answer.status == 400  # the modern era, where the session means nothing (VN-62)

    run(main)


@pytest.mark.parametrize("version", [R2, R4])
def test_b68_clients_with_the_same_ids_and_tokens_do_not_meet(run, version):
    """B68: two sessions over shared connections use ids 1 to 20 and the same progress tokens at once."""

    async def main():
        app = make_server()
        async with site(app) as s:
            first = await s.connect()
            sids = [await session(s, first, version) for _ in range(2)]

            async def one(sid, id, text):
                peer = await s.connect()
                params = {"name": "progress", "arguments": {"n": 3, "gap_ms": 2, "text": text}, "_meta": {"progressToken": id}}
                answer = await peer.ask(s.legacy(sid, "tools/call", params, id, mcp_protocol_version=version))
                peer.close()
                return id, text, answer.events

            asked = [one(sid, id, f"of {sid} {id}") for id in range(1, 11) for sid in sids]
            for id, text, events in await asyncio.gather(*asked):
                *notes, answer = events
                assert answer["id"] == id and answer["result"]
                assert [n["params"]["message"] for n in notes] == [text] * 3
                assert {n["params"]["progressToken"] for n in notes} == {id}

    run(main)


def test_jr22_an_entry_of_an_array_asks_its_client(run):
    """JR-22, HO-43: a question goes out alone while the array is open, its answer comes alone or in an array."""

    async def main():
        app = make_server()

        async def ask(exchange):
            return await exchange.mux.call("roots/list", None, exchange.sink)

        async with site(app) as s:
            app.tables.by_name[R2].requests[b"x/ask"] = FunctionHandler(ask)
            peer, other = await s.connect(), await s.connect()
            sid = await session(s, peer, R2)
            array = [{"jsonrpc": "2.0", "id": i, "method": "x/ask"} for i in range(2)] + [ping(7)]
            peer.send(s.request(body=array, mcp_session_id=sid))
            await peer.head()
            messages = []
            while len(messages) < 3:
                lines = (await peer.chunk()).decode().split("\n")
                messages += [json.loads(line[6:]) for line in lines if line.startswith("data: {")]
            questions = [m["id"] for m in messages if m.get("method") == "roots/list"]
            assert len(questions) == 2 and [m["id"] for m in messages if "result" in m] == [7]
            answers = [{"jsonrpc": "2.0", "id": id, "result": {"roots": [], "n": id}} for id in questions]
            assert (await other.ask(s.request(body=answers, mcp_session_id=sid))).status == 202
            rest = b""
            while data := await peer.chunk():
                rest += data
            found = [json.loads(line[6:]) for line in rest.decode().split("\n") if line.startswith("data: {")]
            assert {m["id"]: m["result"]["n"] for m in found} == dict(zip((0, 1), questions, strict=True))

    run(main)


def test_ho21_an_array_whose_connection_broke_is_resumed(run):
    """HO-21, JR-22: what is left of the answers to an array comes on the stream that resumes it."""

    async def main():
        async with site() as s:
            peer, other = await s.connect(), await s.connect()
            sid = await session(s, peer, R2)
            array = [ping(1)] + [
                {"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {"name": "sleep", "arguments": {"ms": 60}}}
                for i in (2, 3)
            ]
            peer.send(s.request(body=array, mcp_session_id=sid))
            await peer.head()
            first = (await peer.chunk()).decode()
            last = next(line[4:] for line in first.split("\n") if line.startswith("id: "))
            peer.reset()
            answer = await other.ask(s.request("GET", mcp_session_id=sid, last_event_id=last))
            assert sorted(m["id"] for m in answer.events) == [2, 3]

    run(main)
