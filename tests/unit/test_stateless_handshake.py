"""The handshake era without sessions: each POST stands for itself (HO-35, HO-41, VN-62, VN-63)."""

import json

import pytest
from http_support import BOTH, R4, R5, ask_method, make_server, site, tiny

from headrace import Context, Server
from headrace.jsonrpc import HANDSHAKE_REVISIONS, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, R1, R2, R3

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


def app(limits=None):
    server = make_server(limits)

    @server.tool
    async def version(ctx: Context) -> dict[str, str | None]:
        await ctx.log("emergency", "x")
        return {"v": ctx.protocol_version, "c": ctx.client_info}

    return server


def stateless(server=None, **options):
    return site(server or app(), stateless=True, **options)


def call(s, tool, arguments=None, version=None, id=1, **options):
    return s.legacy_call(None, tool, arguments, id, mcp_protocol_version=version, **options)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_ho35_handshake_and_calls_of_each_revision(run, version):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            answer = await peer.ask(s.initialize(version))
            result = answer.json["result"]
            assert result["protocolVersion"] == version and answer.get("mcp-session-id") is None
            assert "logging" not in result["capabilities"] and result["capabilities"]["tools"] == {}
            answer = await peer.ask(s.request(body=INITIALIZED, mcp_protocol_version=version))
            assert (answer.status, answer.body) == (202, b"")
            answer = await peer.ask(call(s, "version", version=version))
            result = answer.json["result"]
            assert json.loads(result["content"][0]["text"]) == {"v": version, "c": None}
            assert ("structuredContent" in result) == (version >= R3)
            assert (await peer.ask(s.legacy(None, "ping", mcp_protocol_version=version))).json["result"] == {}
            tool = (await peer.ask(s.legacy(None, "tools/list", mcp_protocol_version=version))).json["result"]
            assert set(tool) == {"tools"}
            assert s.listener.sessions == 0 and not s.server.sessions

    run(main)


def test_ho41_without_a_header_it_is_2025_03_26(run):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            answer = await peer.ask(call(s, "version"))
            assert json.loads(answer.json["result"]["content"][0]["text"])["v"] == R2
            answer = await peer.ask(call(s, "version", mcp_session_id="whatever"))  # of another server, or old
            assert answer.status == 200 and answer.get("mcp-session-id") is None

    run(main)


@pytest.mark.parametrize("header", ["1999-01-01-x", "2099-01-01", "2025-11-25 x"])
def test_ho41_unknown_versions_are_400(run, header):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            assert (await peer.ask(call(s, "sleep", {"ms": 1}, version=header))).status == 400
            two = (("MCP-Protocol-Version", R4),)
            assert (await peer.ask(call(s, "sleep", {"ms": 1}, version=R4, headers=two))).status == 400
            assert s.server.seen.started == 0
            assert (await peer.ask(s.initialize(mcp_protocol_version=header))).status == 200  # B61

    run(main)


def test_ho35_get_and_delete_are_405(run):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            for method in ("GET", "DELETE"):
                for fields in ({}, {"mcp_session_id": "x"}, {"mcp_protocol_version": R4}):
                    answer = await peer.ask(s.request(method, **fields))
                    assert (answer.status, answer.get("allow")) == (405, "POST")

    run(main)


def test_errors_have_the_statuses_of_the_handshake_era(run):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            for version in (None, R1, R4):
                answer = await peer.ask(s.legacy(None, "no/such", id="q", mcp_protocol_version=version))
                assert (answer.status, answer.code, answer.json["id"]) == (200, METHOD_NOT_FOUND, "q")
                answer = await peer.ask(s.legacy(None, "logging/setLevel", mcp_protocol_version=version))
                assert (answer.status, answer.code) == (200, METHOD_NOT_FOUND)
                answer = await peer.ask(s.legacy(None, "tools/call", mcp_protocol_version=version))
                assert (answer.status, answer.code) == (200, INVALID_PARAMS)
            answer = await peer.ask(s.request(body=b"{", mcp_protocol_version=R4))
            assert (answer.status, answer.code) == (400, -32700)
            answer = await peer.ask(s.request(body={"jsonrpc": "2.0", "id": 1, "result": {}}))
            assert answer.status == 400

    run(main)


def test_vn60_both_eras_on_one_endpoint(run):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            for _ in range(2):
                modern = await peer.ask(s.call("version"))
                assert modern.json["result"]["structuredContent"]["v"] == R5
                assert modern.json["result"]["resultType"] == "complete"
                assert (await peer.ask(call(s, "version", version=R3))).json["result"]["structuredContent"]["v"] == R3
            answer = await peer.ask(s.modern("ping"))
            assert (answer.status, answer.code) == (404, METHOD_NOT_FOUND)

    run(main)


def test_ids_of_different_requests_share_no_scope(run):
    async def main():
        async with stateless() as s:
            peers = [await s.connect() for _ in range(3)]
            for peer in peers:
                peer.send(call(s, "sleep", {"ms": 30}, id=1))
            await s.settled(lambda: s.server.seen.started == 3)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            assert (await (await s.connect()).ask(s.request(body=note))).status == 202
            for peer in peers:
                assert (await peer.answer()).json["result"]["content"][0]["text"] == "slept"
            assert s.server.seen.cancelled == 0

    run(main)


def test_ho08_a_disconnect_cancels_nothing(run):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            peer.send(call(s, "sleep", {"ms": 40}, version=R4))
            await s.settled(lambda: s.server.seen.started == 1)
            peer.reset()
            await s.settled(lambda: s.server.runtime.in_flight == 0)
            assert (s.server.seen.finished, s.server.seen.cancelled) == (1, 0)

    run(main)


def test_progress_comes_on_the_requests_own_stream(run):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
                "name": "progress", "arguments": {"n": 2}, "_meta": {"progressToken": "t"}}}  # fmt: skip
            answer = await peer.ask(s.request(body=body, mcp_protocol_version=R4))
            assert [e.get("method") for e in answer.events] == ["notifications/progress"] * 2 + [None]
            assert all(line.startswith((b"event:", b"data:")) for line in answer.body.split(b"\n") if line)

    run(main)


def test_jr20_arrays_where_the_version_has_them(run):
    async def main():
        async with stateless() as s:
            peer = await s.connect()
            array = [{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(2)]
            for version in (None, R2):
                answer = await peer.ask(s.request(body=array, mcp_protocol_version=version))
                assert [e["id"] for e in answer.events] == [0, 1]
                answer = await peer.ask(s.request(body=array, mcp_protocol_version=version, accept="application/json"))
                assert [e["id"] for e in answer.json] == [0, 1]
                answer = await peer.ask(s.request(body=[INITIALIZED], mcp_protocol_version=version))
                assert answer.status == 202
                stray = [{"jsonrpc": "2.0", "id": 1, "result": {}}]
                assert (await peer.ask(s.request(body=stray, mcp_protocol_version=version))).status == 400
            for version in (R1, R3, R4, R5, "2099-01-01"):
                answer = await peer.ask(s.request(body=array, mcp_protocol_version=version))
                assert (answer.status, answer.code) == (400, INVALID_REQUEST)

    run(main)


def test_an_array_in_flight_ends_with_the_server(run):
    async def main():
        async with stateless(app(tiny(drain_timeout=0.1))) as s:
            peer = await s.connect()
            array = [{"jsonrpc": "2.0", "id": i, "method": "tools/call", "params": {
                "name": "sleep", "arguments": {"ms": 60_000}}} for i in range(3)]  # fmt: skip
            for accept in (BOTH, "application/json"):
                before = s.server.seen.started
                peer = await s.connect()
                peer.send(s.request(body=array, accept=accept))
                await s.settled(lambda n=before: s.server.seen.started == n + 3)
            await s.listener.close()
            await s.settled(lambda: s.server.runtime.in_flight == 0)
            assert (s.server.seen.cancelled, s.server.seen.finished) == (6, 0)

    run(main)


def test_ho43_the_client_cannot_be_asked(run):
    async def main():
        server = app()
        async with stateless(server) as s:
            told = ask_method(server)
            peer = await s.connect()
            for version in HANDSHAKE_REVISIONS:
                assert (await peer.ask(s.legacy(None, "x/ask", mcp_protocol_version=version))).json["result"] == {}
            assert len(told) == 4 and all("sends no requests" in text for text in told)

    run(main)


def test_ho35_tk03_a_task_without_a_session_is_polled(run, caplog):
    """There is nobody to tell of its states, and that is no fault."""
    server = Server("t", version="1")
    server.tasks(poll_interval=0.01)

    @server.tool(task="optional")
    async def work(ctx: Context) -> str:
        await ctx.log("emergency", "on the way")
        await ctx.progress(1)
        return "done"

    async def main():
        async with stateless(server) as s:
            peer = await s.connect()

            def ask(method, params):
                return peer.ask(s.legacy(None, method, params, mcp_protocol_version=R4))

            made = (await ask("tools/call", {"name": "work", "arguments": {}, "task": {}})).json["result"]["task"]
            result = (await ask("tasks/result", {"taskId": made["taskId"]})).json["result"]
            assert result["content"] == [{"type": "text", "text": "done"}]
            assert (await ask("tasks/get", {"taskId": made["taskId"]})).json["result"]["status"] == "completed"

    run(main)
    assert not caplog.records
