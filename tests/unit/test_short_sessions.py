"""What sessions and refusals leave behind: no session, task, table entry, descriptor or object (B47, B64, B94, SE-08)."""

import asyncio
import gc
import os

import pytest
from http_support import BOTH, R4, R5, make_server, site, tiny

from headrace.jsonrpc import HANDSHAKE_REVISIONS, R2
from headrace.protocol.http_sessions import HttpSession

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
MODES = [{}, {"sealed_sessions": True}, {"stateless": True}, {"json_only": True}, {"event_store": False}]


def held(s):
    """Everything that could be left behind, counted."""
    gc.collect()
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "tasks": len(asyncio.all_tasks()),
        "sessions": s.listener.sessions,
        "announced": len(s.server.sessions),
        "in flight": s.server.runtime.in_flight,
        "objects": sum(isinstance(each, HttpSession) for each in gc.get_objects()),
        **s.endpoint.mux.debug_counts(),
    }


def refused(s, sid):
    """Requests of which none may be served."""
    named = {"mcp_session_id": sid} if sid else {}
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    yield s.request(body=b"{", **named)
    yield s.request(body=b"", **named)
    yield s.request(body=b"[]", **named)
    yield s.request(body=[ping] * 3, mcp_protocol_version=R4, **named)
    yield s.request(body={"jsonrpc": "1.0", "id": 1, "method": "ping"}, **named)
    yield s.request(body={"jsonrpc": "2.0", "id": 1, "method": "initialize"}, **named)
    yield s.request(body={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": 4}})
    yield s.request(body=ping, mcp_protocol_version="1999-01-01", **named)
    yield s.request(body=ping, content_type="text/plain", **named)
    yield s.request(body=ping, accept="text/html", **named)
    yield s.request(body=ping, host="evil.example", **named)
    yield s.request(body=ping, origin="https://evil.example", **named)
    yield s.request(body={"jsonrpc": "2.0", "id": 1, "method": "no/such"}, **named)
    yield s.request(body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nobody"}}, **named)
    yield s.request(body={"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": []}, **named)
    yield s.modern("initialize", {"protocolVersion": R4})
    yield s.modern("tools/call", {"name": "echo"}, name="other")
    yield s.modern("no/such")
    yield s.request("GET", mcp_session_id="nobody")
    yield s.request("GET", mcp_protocol_version=R5)
    yield s.request("GET", accept="text/html", **named)
    yield s.request("GET", last_event_id="nothing", **(named or {"mcp_session_id": "nobody"}))
    yield s.request("DELETE", mcp_session_id="nobody")
    yield s.request("PUT", **named)
    if sid:
        yield s.request(body=ping, mcp_session_id="nobody")
        yield s.request(body=INITIALIZED, mcp_session_id="nobody")


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: next(iter(mode), "plain"))
def test_refused_requests_leave_nothing(run, mode):
    async def main():
        async with site(**mode) as s:
            peer = await s.connect()
            sid = (await peer.ask(s.initialize())).get("mcp-session-id")
            if sid:
                assert (await peer.ask(s.request(body=INITIALIZED, mcp_session_id=sid))).status == 202
            before = None
            for turn in range(2):
                for request in refused(s, sid):
                    if peer.reader.at_eof():
                        peer.close()
                        peer = await s.connect()
                    answer = await peer.ask(request)
                    assert answer.status >= 400 or "error" in answer.json, (request, answer)
                    if answer.get("connection") == "close":
                        assert await peer.ended()
                        peer.close()
                        peer = await s.connect()
                await asyncio.sleep(0.01)
                if turn == 0:
                    before = held(s)
            await s.settled(lambda: held(s) == before)
            if sid:
                answer = await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))
                assert answer.json["result"]["content"][0]["text"] == "x"

    run(main)


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: next(iter(mode), "plain"))
def test_b94_many_short_sessions(run, mode):
    async def main():
        async with site(**mode) as s:
            peer = await s.connect()

            async def one(version, number):
                answer = await peer.ask(s.initialize(version))
                sid = answer.get("mcp-session-id")
                named = {"mcp_session_id": sid, "mcp_protocol_version": version}
                assert (await peer.ask(s.request(body=INITIALIZED, **named))).status == 202
                assert (await peer.ask(s.legacy(sid, "tools/list", id=1, **named))).status == 200
                answer = await peer.ask(s.legacy_call(sid, "progress", {"n": 2}, id=2, accept=BOTH, **named))
                assert answer.status == 200
                if sid and number % 2:
                    # As many clients do, it vanishes with a call running and a stream open.
                    stream, caller = await s.connect(), await s.connect()
                    stream.send(s.request("GET", **named))
                    caller.send(s.legacy_call(sid, "sleep", {"ms": 60_000}, id=3, **named))
                    await s.settled(lambda n=s.server.seen.started: s.server.seen.started >= n)
                    await stream.head()
                    stream.reset()
                    caller.reset()
                answer = await peer.ask(s.request("DELETE", **named))
                assert answer.status == (204 if sid else 405)

            for number in range(4):
                await one(R4, number)
            await asyncio.sleep(0.02)
            before = held(s)
            for number in range(12):
                await one(HANDSHAKE_REVISIONS[number % 4], number)
            if "sealed_sessions" in mode:
                before["sessions"] = s.listener.sessions  # a cache, bounded
                await s.settled(lambda: s.server.runtime.in_flight == 0)
            else:
                await s.settled(lambda: held(s) == before)

    run(main)


def test_b47_over_max_sessions_is_a_refusal_that_leaves_nothing(run):
    async def main():
        async with site(limits=tiny(max_sessions=2)) as s:
            peer = await s.connect()
            sids = [(await peer.ask(s.initialize())).get("mcp-session-id") for _ in range(2)]
            before = held(s)
            for _ in range(10):
                answer = await peer.ask(s.initialize(R2))
                assert (answer.status, answer.get("retry-after")) == (503, "1")
                assert answer.get("mcp-session-id") is None
            assert held(s) == before
            assert (await peer.ask(s.request("DELETE", mcp_session_id=sids[0]))).status == 204
            assert (await peer.ask(s.initialize(R2))).status == 200

    run(main)


def test_b64_delete_of_a_session_with_everything_open(run):
    async def main():
        server = make_server()
        async with site(server) as s:
            peer, stream, caller = [await s.connect() for _ in range(3)]
            before = None
            for _ in range(3):
                sid = await s.open_session(peer)
                named = {"mcp_session_id": sid, "mcp_protocol_version": R4}
                stream.send(s.request("GET", **named))
                await stream.head()
                count = server.seen.started
                caller.send(s.legacy_call(sid, "sleep", {"ms": 60_000}, accept="application/json"))
                await s.settled(lambda n=count: server.seen.started == n + 1)
                assert (await peer.ask(s.request("DELETE", **named))).status == 204
                assert (await peer.ask(s.request("DELETE", **named))).status == 404
                while await stream.chunk():
                    pass
                # Clients of mcp 1.x cannot bear a 404 for what their own DELETE cut off.
                assert (await caller.answer()).status == 202
                await s.settled(lambda n=count: server.seen.cancelled == n + 1)
                assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))).status == 404
                if before is None:
                    await asyncio.sleep(0.02)
                    before = held(s)
            await s.settled(lambda: held(s) == before)

    run(main)
