"""Handshake-era sessions on the wire: ids, versions, GET streams, DELETE, idle end (HO-30..HO-41, B39..B64)."""

import asyncio
import json

import pytest
from http_support import BOTH, R4, R5, events_of, make_server, site, tiny

from headrace.jsonrpc import INVALID_PARAMS, INVALID_REQUEST
from headrace.mux import Exchange, FunctionHandler


def text_of(answer):
    return answer.json["result"]["content"][0]["text"]


def test_ho30_initialize_names_a_session(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            ids = set()
            for _ in range(5):
                answer = await peer.ask(s.initialize())
                assert answer.json["result"]["protocolVersion"] == R4
                sid = answer.get("mcp-session-id")
                assert len(sid) >= 32 and all(0x21 <= ord(c) <= 0x7E for c in sid)
                ids.add(sid)
            assert len(ids) == 5 and s.listener.sessions == 5
            answer = await peer.ask(s.initialize(accept="text/event-stream"))
            assert answer.get("mcp-session-id") and answer.events[0]["result"]["protocolVersion"] == R4

    run(main)


@pytest.mark.parametrize("header", [None, "2099-01-01", "2025-06-18", R4])
def test_b61_the_header_of_initialize_is_not_checked(run, header):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.initialize(mcp_protocol_version=header))
            assert answer.status == 200
            assert answer.json["result"]["protocolVersion"] == R4

    run(main)


def test_vn08_initialize_never_agrees_on_the_modern_revision(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.initialize(version=R5))
            assert answer.json["result"]["protocolVersion"] == R4

    run(main)


@pytest.mark.parametrize("header", [None, R4])
def test_b61_later_calls_with_the_sessions_version(run, header):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}, mcp_protocol_version=header))
            assert text_of(answer) == "x"

    run(main)


@pytest.mark.parametrize("header", ["1999-01-01-x", "2025-06-18", "2024-11-05"])
def test_ho41_later_calls_with_another_version_are_400(run, header):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}, id=4, mcp_protocol_version=header))
            assert answer.status == 400
            assert answer.json["id"] == 4
            assert "sleep" not in answer.json
            for method in ("GET", "DELETE"):
                answer = await peer.ask(s.request(method, mcp_session_id=sid, mcp_protocol_version=header))
                assert answer.status == 400
            assert s.listener.sessions == 1

    run(main)


def test_b61_a_doubled_version_header_is_400(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            two = (("MCP-Protocol-Version", R4),)
            assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}, headers=two))).status == 400

    run(main)


def test_ho31_ho32_missing_and_unknown_sessions(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
            for version in (None, R4, "2025-03-26"):
                answer = await peer.ask(s.legacy(None, "tools/list", id=9, mcp_protocol_version=version))
                assert (answer.status, answer.code, answer.json["id"]) == (400, INVALID_REQUEST, 9)
                assert (await peer.ask(s.request(body=note, mcp_protocol_version=version))).status == 400
                answer = await peer.ask(s.legacy("unknown", "tools/list", id=9, mcp_protocol_version=version))
                assert (answer.status, answer.json["id"]) == (404, 9)
                unknown = {"mcp_session_id": "unknown", "mcp_protocol_version": version}
                assert (await peer.ask(s.request(body=note, **unknown))).status == 404
                assert (await peer.ask(s.request("GET", **unknown))).status == 404
                assert (await peer.ask(s.request("DELETE", **unknown))).status == 404
            assert (await peer.ask(s.request("GET", mcp_protocol_version=R4))).status == 400
            assert (await peer.ask(s.request("DELETE", mcp_protocol_version=R4))).status == 400

    run(main)


def test_b47_failed_handshakes_and_probes_leave_no_session(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 7}}
            answer = await peer.ask(s.request(body=body))
            assert (answer.status, answer.code) == (200, INVALID_PARAMS)
            assert "mcp-session-id" not in answer.headers
            for _ in range(20):
                assert (await peer.ask(s.modern("server/discover"))).status == 200
            assert s.listener.sessions == 0

    run(main)


def test_vn09_second_initialize_in_a_session_is_refused(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.initialize(mcp_session_id=sid))
            assert (answer.status, answer.code) == (400, INVALID_REQUEST)
            assert s.listener.sessions == 1

    run(main)


def test_b47_sessions_over_the_bound_are_503_with_retry_after(run):
    async def main():
        async with site(limits=tiny(max_sessions=10)) as s:
            peer = await s.connect()
            statuses = []
            for _ in range(15):
                answer = await peer.ask(s.initialize())
                statuses.append(answer.status)
            assert statuses == [200] * 10 + [503] * 5
            assert answer.get("retry-after") == "1"
            assert "mcp-session-id" not in answer.headers
            assert s.listener.sessions == 10

    run(main)


def test_b47_idle_sessions_end_and_used_ones_do_not(run):
    async def main():
        async with site(limits=tiny(session_idle_timeout=0.4)) as s:
            peer = await s.connect()
            for _ in range(50):
                await peer.ask(s.initialize())
            running, streaming = await s.connect(), await s.connect()
            busy = await s.open_session(running)
            running.send(s.legacy_call(busy, "sleep", {"ms": 1500}))
            open_ = await s.open_session(streaming)
            streaming.send(s.request("GET", mcp_session_id=open_))
            await s.settled(lambda: s.listener.sessions == 2)
            assert (await running.answer()).events[-1]["result"]["content"][0]["text"] == "slept"
            await s.settled(lambda: s.listener.sessions == 1)
            assert (await peer.ask(s.legacy_call(busy, "echo", {"text": "x"}))).status == 404
            assert (await peer.ask(s.legacy_call(open_, "echo", {"text": "x"}))).status == 200

    run(main)


def test_b39_get_stream_shows_life_at_once_and_then_in_intervals(run):
    async def main():
        async with site(limits=tiny(sse_keep_alive=0.1)) as s:
            peer, stream = await s.connect(), await s.connect()
            sid = await s.open_session(peer)
            stream.send(s.request("GET", mcp_session_id=sid, mcp_protocol_version=R4))
            status, headers = await stream.head()
            assert (status, headers["content-type"]) == (200, ["text/event-stream"])
            assert (await stream.chunk()).endswith(b"\ndata: \n\n")
            for _ in range(4):
                assert await stream.chunk() == b":\n\n"

    run(main)


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_ho10_get_needs_an_accept_that_allows_events(run, accept):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            assert (await peer.ask(s.request("GET", mcp_session_id=sid, accept=accept))).status == 406
            # and the connection goes on
            assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))).status == 200

    run(main)


def test_ho12_b44_a_change_goes_to_exactly_one_stream(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            streams = []
            for _ in range(3):
                streams.append(await s.open_stream(sid))
            s.server.add_tool(lambda x: x, name="one", description="d", inline=True)
            (message,) = events_of(await streams[2].chunk())
            assert message == {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
            # the newest dies: an older one takes over
            streams[2].reset()
            await s.settled(lambda: s.listener.connections == 3)
            s.server.remove_tool("one")
            (message,) = events_of(await streams[1].chunk())
            assert message["method"] == "notifications/tools/list_changed"
            # too many streams: the oldest ends, whole
            for _ in range(3):
                await s.open_stream(sid)
            assert await streams[0].chunk() == b""
            assert (await streams[0].ask(s.legacy_call(sid, "echo", {"text": "x"}))).status == 200

    run(main)


def test_other_sessions_hear_of_changes_as_well(run):
    async def main():
        async with site() as s:
            streams = []
            for _ in range(3):
                peer, stream = await s.connect(), await s.connect()
                sid = await s.open_session(peer)
                stream.send(s.request("GET", mcp_session_id=sid))
                await stream.head()
                await stream.chunk()
                streams.append(stream)
            s.server.add_tool(lambda x: x, name="one", description="d", inline=True)
            for stream in streams:
                assert b"list_changed" in await stream.chunk()

    run(main)


@pytest.mark.parametrize("how", ["close", "reset", "eof"])
def test_ho08_disconnect_does_not_cancel_in_the_old_era(run, how):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(s.legacy_call(sid, "sleep", {"ms": 200}))
            await s.settled(lambda: s.server.seen.started == 1)
            if how == "eof":
                peer.writer.write_eof()
                assert text_of(await peer.answer()) == "slept"
                assert await peer.ended()
            else:
                getattr(peer, how)()
            await s.settled(lambda: s.server.seen.finished == 1)
            assert s.server.seen.cancelled == 0
            other = await s.connect()
            assert (await other.ask(s.legacy_call(sid, "echo", {"text": "x"}))).status == 200

    run(main)


def test_mx12_cancelled_notification_cancels_in_its_session_only(run):
    async def main():
        async with site() as s:
            one, two = await s.connect(), await s.connect()
            mine, theirs = await s.open_session(one), await s.open_session(two)
            one.send(s.legacy_call(mine, "sleep", {"ms": 300}, id=5))
            two.send(s.legacy_call(theirs, "sleep", {"ms": 20_000}, id=5))
            await s.settled(lambda: s.server.seen.started == 2)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}}
            other = await s.connect()
            assert (await other.ask(s.request(body=note, mcp_session_id=theirs))).status == 202
            # the cancelled POST is not answered with a message, but it ends
            answer = await two.answer()
            assert (answer.status, answer.body) == (202, b"")
            assert text_of(await one.answer()) == "slept"
            assert (s.server.seen.cancelled, s.server.seen.finished) == (1, 1)
            assert (await two.ask(s.legacy_call(theirs, "echo", {"text": "x"}))).status == 200

    run(main)


def test_mx12_a_cancelled_stream_ends_whole_without_an_answer(run):
    async def main():
        async with site() as s:
            peer, other = await s.connect(), await s.connect()
            sid = await s.open_session(peer)
            params = {"name": "progress", "arguments": {"n": 1000, "gap_ms": 50}, "_meta": {"progressToken": 1}}
            peer.send(s.legacy(sid, "tools/call", params, id="x"))
            assert (await peer.head())[0] == 200
            assert (await peer.event())[1]["method"] == "notifications/progress"
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "x"}}
            assert (await other.ask(s.request(body=note, mcp_session_id=sid))).status == 202
            while data := await peer.chunk():
                assert b'"result"' not in data and b'"error"' not in data
            assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))).status == 200

    run(main)


def test_jr06_an_id_in_flight_is_refused_and_the_first_goes_on(run):
    async def main():
        async with site() as s:
            one, two = await s.connect(), await s.connect()
            sid = await s.open_session(one)
            one.send(s.legacy_call(sid, "sleep", {"ms": 200}, id=5))
            await s.settled(lambda: s.server.seen.started == 1)
            answer = await two.ask(s.legacy_call(sid, "sleep", {"ms": 1}, id=5))
            assert (answer.status, answer.code, answer.json["id"]) == (400, INVALID_REQUEST, 5)
            assert text_of(await one.answer()) == "slept"

    run(main)


def test_b64_delete_ends_streams_and_calls(run):
    async def main():
        async with site() as s:
            peer, stream, call = [await s.connect() for _ in range(3)]
            sid = await s.open_session(peer)
            stream.send(s.request("GET", mcp_session_id=sid))
            await stream.head()
            call.send(s.legacy_call(sid, "sleep", {"ms": 20_000}))
            await s.settled(lambda: s.server.seen.started == 1)
            answer = await peer.ask(s.request("DELETE", mcp_session_id=sid, mcp_protocol_version=R4))
            assert (answer.status, answer.body) == (204, b"")
            assert "content-length" not in answer.headers
            assert (await stream.chunk()).endswith(b"\ndata: \n\n")
            assert await stream.chunk() == b""
            answer = await call.answer()
            assert (answer.status, answer.body) == (202, b"")  # its client has given it up
            assert s.server.seen.cancelled == 1
            assert (await peer.ask(s.request("DELETE", mcp_session_id=sid))).status == 404
            assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))).status == 404
            assert s.listener.sessions == 0

    run(main)


def test_hn01_modern_requests_do_not_touch_sessions(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.call("echo", {"text": "x"}, mcp_session_id=sid))
            assert answer.json["result"]["resultType"] == "complete"
            answer = await peer.ask(s.request("DELETE", mcp_session_id=sid, mcp_protocol_version=R5))
            assert answer.status == 405
            assert s.listener.sessions == 1

    run(main)


def test_ho43_server_requests_go_on_the_posts_own_stream(run, caplog):
    caplog.set_level(100, logger="headrace.test")  # a kept traceback would hold its exchange

    async def main():
        app = make_server()

        def asks(exchange: Exchange):
            async def work():
                call = exchange.mux.call("elicitation/create", b'{"message":"?"}', exchange.sink, timeout=5)
                return b'{"echo":' + await call.future + b"}"

            return work()

        app.tables.by_name[R4].requests[b"x/ask"] = FunctionHandler(asks)
        async with site(app) as s:
            peer, other = await s.connect(), await s.connect()
            sid = await s.open_session(peer)
            peer.send(s.legacy(sid, "x/ask", id="outer"))
            assert (await peer.head())[0] == 200
            _, request = await peer.event()
            assert request["method"] == "elicitation/create"
            body = {"jsonrpc": "2.0", "id": request["id"], "result": {"action": "accept"}}
            answer = await other.ask(s.request(body=body, mcp_session_id=sid))
            assert (answer.status, answer.body) == (202, b"")
            (final,) = events_of(await peer.chunk())
            assert final == {"jsonrpc": "2.0", "id": "outer", "result": {"echo": {"action": "accept"}}}
            assert await peer.chunk() == b""
            # B57: an answer nobody waits for is taken all the same
            assert (await other.ask(s.request(body=body, mcp_session_id=sid))).status == 202
            # without a stream there is no channel: the handler is told
            answer = await peer.ask(s.legacy(sid, "x/ask", accept="application/json"))
            assert answer.code == -32603

    run(main)


def test_ping_and_notifications_inside_a_session(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.legacy(sid, "ping"))
            assert answer.json["result"] == {}
            answer = await peer.ask(s.legacy(sid, "nope"))
            assert (answer.status, answer.code) == (200, -32601)
            answer = await peer.ask(s.request(body=b"{", mcp_session_id=sid))
            assert (answer.status, answer.code) == (400, -32700)
            for method in ("notifications/cancelled", "notifications/roots/list_changed"):
                note = {"jsonrpc": "2.0", "method": method, "params": {"requestId": 99}}
                assert (await peer.ask(s.request(body=note, mcp_session_id=sid))).status == 202

    run(main)


def test_vn62_a_legacy_header_with_a_modern_body_is_legacy(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            meta = {
                "io.modelcontextprotocol/protocolVersion": R5,
                "io.modelcontextprotocol/clientCapabilities": {},
            }
            params = {"name": "echo", "arguments": {"text": "x"}, "_meta": meta}
            answer = await peer.ask(s.legacy(sid, "tools/call", params, accept=BOTH))
            assert "resultType" not in answer.json["result"]

    run(main)


def test_progress_goes_on_the_posts_stream_and_not_on_the_sessions(run):
    async def main():
        async with site() as s:
            peer, stream = await s.connect(), await s.connect()
            sid = await s.open_session(peer)
            stream.send(s.request("GET", mcp_session_id=sid))
            await stream.head()
            await stream.chunk()
            params = {"name": "progress", "arguments": {"n": 3}, "_meta": {"progressToken": "t"}}
            answer = await peer.ask(s.legacy(sid, "tools/call", params))
            assert [e["params"]["progress"] for e in answer.events[:-1]] == [1, 2, 3]
            with pytest.raises(asyncio.TimeoutError):
                await stream.chunk(timeout=0.1)

    run(main)


def test_b94_many_short_sessions_leave_nothing(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for _ in range(200):
                sid = await s.open_session(peer)
                assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))).status == 200
                assert (await peer.ask(s.request("DELETE", mcp_session_id=sid))).status == 204
            assert s.listener.sessions == 0
            assert len(s.server.sessions) == 0
            assert json.loads(json.dumps(s.endpoint.mux.debug_counts()))["inflight"] == 0

    run(main)
