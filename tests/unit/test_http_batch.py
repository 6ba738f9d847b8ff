"""JSON arrays over HTTP: an event each or one array, 202, what is refused, clients that vanish (JR-20..JR-23, G-15, B83)."""

import asyncio

import pytest
from http_support import BOTH, R4, site, tiny

from headrace.jsonrpc import INVALID_REQUEST, R1, R2, R3

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def ping(id):
    return {"jsonrpc": "2.0", "id": id, "method": "ping"}


def call(id, tool, arguments=None, **meta):
    params = {"name": tool, "arguments": arguments or {}}
    if meta:
        params["_meta"] = meta
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


async def session(s, peer, version=R2):
    answer = await peer.ask(s.initialize(version=version))
    assert answer.json["result"]["protocolVersion"] == version
    sid = answer.get("mcp-session-id")
    assert (await peer.ask(s.request(body=INITIALIZED, mcp_session_id=sid))).status == 202
    return sid


def test_jr22_an_event_for_each_answer(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await session(s, peer)
            array = [ping(1), call(2, "sleep", {"ms": 20}), INITIALIZED, call("3", "echo", {"text": "x"}), 4]
            answer = await peer.ask(s.request(body=array, mcp_session_id=sid))
            assert answer.status == 200 and answer.get("content-type") == "text/event-stream"
            assert [e.get("id") for e in answer.events] == [1, "3", None, 2]
            assert answer.events[2]["error"]["code"] == INVALID_REQUEST
            assert (await peer.ask(s.request(body=ping(9), mcp_session_id=sid))).json["result"] == {}

    run(main)


@pytest.mark.parametrize("accept", ["application/json", None])
def test_g15_one_json_array_where_only_json_is_accepted(run, accept):
    async def main():
        async with site(json_only=accept is None) as s:
            peer = await s.connect()
            sid = await session(s, peer)
            array = [ping(1), call(2, "sleep", {"ms": 20}), call(3, "progress", {"n": 2}, progressToken=1)]
            answer = await peer.ask(s.request(body=array, mcp_session_id=sid, accept=accept or BOTH))
            assert answer.status == 200 and answer.get("content-type") == "application/json"
            assert [each["id"] for each in answer.json] == [1, 3, 2]
            answer = await peer.ask(s.request(body=[ping(1)], mcp_session_id=sid, accept=accept or BOTH))
            assert answer.json == [{"jsonrpc": "2.0", "id": 1, "result": {}}]

    run(main)


def test_jr22_notifications_come_before_their_answer(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await session(s, peer)
            array = [call(i, "progress", {"n": 2, "gap_ms": 5}, progressToken=i) for i in (1, 2)]
            events = (await peer.ask(s.request(body=array, mcp_session_id=sid))).events
            for i in (1, 2):
                mine = [e for e in events if e.get("id") == i or e.get("params", {}).get("progressToken") == i]
                assert ["method" in e for e in mine] == [True, True, False]

    run(main)


def test_jr22_only_notifications_and_responses_are_202(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await session(s, peer)
            stray = {"jsonrpc": "2.0", "id": 77, "result": {}}
            for array in ([INITIALIZED], [INITIALIZED] * 3, [stray, stray]):
                answer = await peer.ask(s.request(body=array, mcp_session_id=sid))
                assert (answer.status, answer.body) == (202, b"")

    run(main)


@pytest.mark.parametrize("array", [[], [ping(1), {"jsonrpc": "2.0", "id": 7, "result": {}}], [ping(1)] * 5])
def test_jr21_what_is_no_batch_is_one_error(run, array):
    async def main():
        async with site(limits=tiny(max_batch=4)) as s:
            peer = await s.connect()
            sid = await session(s, peer)
            answer = await peer.ask(s.request(body=array, mcp_session_id=sid))
            assert (answer.status, answer.code) == (400, INVALID_REQUEST)
            assert (await peer.ask(s.request(body=[ping(1)], mcp_session_id=sid))).status == 200

    run(main)


@pytest.mark.parametrize("version", [R1, R3, R4])
def test_jr20_arrays_under_other_revisions_are_400(run, version):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await session(s, peer, version)
            for array in ([], [1], [ping(1)], [call(1, "sleep", {"ms": 1})]):
                answer = await peer.ask(s.request(body=array, mcp_session_id=sid))
                assert (answer.status, answer.code) == (400, INVALID_REQUEST)
            assert s.server.seen.started == 0

    run(main)


def test_jr23_arrays_without_a_session_are_400(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            start = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": R2}}
            for array in ([], [start], [ping(1)]):
                for version in (None, R2, "2026-07-28", "2099-01-01"):
                    answer = await peer.ask(s.request(body=array, mcp_protocol_version=version))
                    assert (answer.status, answer.code) == (400, INVALID_REQUEST)
            assert s.listener.sessions == 0

    run(main)


def test_jr21_initialize_inside_of_an_array(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await session(s, peer)
            start = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": R2}}
            events = (await peer.ask(s.request(body=[start, ping(2)], mcp_session_id=sid))).events
            assert events[0]["error"]["code"] == INVALID_REQUEST and events[1]["result"] == {}
            assert s.listener.sessions == 1

    run(main)


def test_mx12_cancel_of_one_and_of_all_entries(run):
    async def main():
        async with site() as s:
            peer, other = await s.connect(), await s.connect()
            sid = await session(s, peer)

            async def cancel(id):
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}}
                assert (await other.ask(s.request(body=note, mcp_session_id=sid))).status == 202

            for accept in (BOTH, "application/json"):
                started = s.server.seen.started
                array = [call(i, "sleep", {"ms": 60_000 if i < 3 else 30}) for i in (1, 2, 3)]
                peer.send(s.request(body=array, mcp_session_id=sid, accept=accept))
                await s.settled(lambda n=started: s.server.seen.started == n + 3)
                await cancel(1)
                await cancel(2)
                answer = await peer.answer()
                answers = answer.events if accept == BOTH else answer.json
                assert [each["id"] for each in answers] == [3]
                peer.send(s.request(body=array[:2], mcp_session_id=sid, accept=accept))
                await s.settled(lambda n=started: s.server.seen.started == n + 5)
                await cancel(1)
                await cancel(2)
                answer = await peer.answer()
                assert (answer.status, answer.body) == ((200, b"") if accept == BOTH else (202, b""))

    run(main)


def test_ho08_a_client_that_vanishes_cancels_nothing(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await session(s, peer)
            for accept in (BOTH, "application/json"):
                before = s.server.seen.finished
                gone = await s.connect()
                array = [call(i, "sleep", {"ms": 40}) for i in range(3)]
                gone.send(s.request(body=array, mcp_session_id=sid, accept=accept))
                await s.settled(lambda n=before: s.server.seen.started == n + 3)
                gone.reset()
                await s.settled(lambda n=before: s.server.seen.finished == n + 3)
            await s.settled(lambda: s.server.runtime.in_flight == 0)
            assert s.server.seen.cancelled == 0
            assert (await peer.ask(s.request(body=ping(1), mcp_session_id=sid))).json["result"] == {}

    run(main)


def test_b64_the_end_of_the_session_cancels_all_entries(run):
    async def main():
        async with site() as s:
            peer, other = await s.connect(), await s.connect()
            sid = await session(s, peer)
            peer.send(s.request(body=[call(i, "sleep", {"ms": 60_000}) for i in range(3)], mcp_session_id=sid))
            await s.settled(lambda: s.server.seen.started == 3)
            assert (await other.ask(s.request("DELETE", mcp_session_id=sid))).status in (200, 204)
            assert (await peer.answer()).body == b""
            await s.settled(lambda: s.server.seen.cancelled == 3)

    run(main)


def test_entries_beyond_the_bound_fail_alone(run):
    async def main():
        async with site(limits=tiny(max_in_flight=2)) as s:
            peer = await s.connect()
            sid = await session(s, peer)
            array = [call(i, "sleep", {"ms": 20}) for i in range(4)]
            events = (await peer.ask(s.request(body=array, mcp_session_id=sid))).events
            assert {e["id"]: "error" in e for e in events} == {0: False, 1: False, 2: True, 3: True}

    run(main)


def test_shutdown_ends_an_array_in_flight(run):
    async def main():
        async with site(limits=tiny(drain_timeout=0.1)) as s:
            peer = await s.connect()
            sid = await session(s, peer)
            array = [call(i, "sleep", {"ms": 60_000}) for i in range(3)]
            peer.send(s.request(body=array, mcp_session_id=sid, accept="application/json"))
            await s.settled(lambda: s.server.seen.started == 3)
            closing = asyncio.ensure_future(s.listener.close())
            assert (await peer.answer()).status in (404, 503)
            await closing
            assert s.server.seen.cancelled == 3

    run(main)


def test_ls06_arrays_over_the_old_transport(run):
    """LS-06, JR-22: where 2025-03-26 is spoken over HTTP+SSE, the answers to an array are one event."""
    from test_http_legacy import open_old

    async def main():
        async with site(legacy_sse=True) as s:
            old = await open_old(s)
            assert (await old.initialize(R2))["protocolVersion"] == R2
            array = [ping(1), call(2, "sleep", {"ms": 20}), INITIALIZED]
            assert (await old.post(array)).status == 202
            assert [each["id"] for each in await old.message()] == [1, 2]
            assert (await old.post([INITIALIZED])).status == 202
            assert (await old.request("ping", id=3))["result"] == {}
            old = await open_old(s)
            await old.initialize(R1)
            assert (await old.post(array)).status == 202
            assert (await old.message())["error"]["code"] == INVALID_REQUEST
            assert s.server.seen.started == 1

    run(main)
