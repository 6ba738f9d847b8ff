"""Session ids that carry their session: any server with the secret serves them (HO-30..HO-34, B95)."""

import asyncio
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from http_support import BOTH, R4, Site, ask_method, make_server, site, tiny

import headrace
from headrace import Context
from headrace.errors import UsageError
from headrace.jsonrpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, R1, R2, R3
from headrace.protocol import sealed_sessions
from headrace.protocol.seal import Sealer
from headrace.transports.http_server import serve_http

INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}
SECRET = "a secret of the tests that is long enough"


def app(limits=None, secret=SECRET):
    server = make_server(limits)
    server._sealer = Sealer(secret)

    @server.tool
    async def whoami(ctx: Context) -> str:
        return json.dumps([ctx.client_info, ctx.protocol_version, ctx.principal])

    @server.tool
    async def talk(ctx: Context) -> str:
        await ctx.log("emergency", "x")
        return "said"

    return server


def sealed(server=None, **options):
    return site(server or app(), sealed_sessions=True, **options)


async def open_session(s, peer, version=R4, capabilities=None, info=None, **headers):
    body = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": version, "capabilities": capabilities or {},
        "clientInfo": info or {"name": "raw", "version": "1"}}}  # fmt: skip
    answer = await peer.ask(s.request(body=body, **headers))
    assert answer.status == 200, answer
    sid = answer.get("mcp-session-id")
    answer2 = await peer.ask(s.request(body=INITIALIZED, mcp_session_id=sid, **headers))
    assert (answer2.status, answer2.body) == (202, b"")
    return sid, answer.json["result"]


def call(s, sid, tool, arguments=None, id=1, version=R4, **options):
    return s.legacy_call(sid, tool, arguments, id, mcp_protocol_version=version, **options)


def text_of(answer):
    return answer.json["result"]["content"][0]["text"]


@pytest.mark.parametrize("version", [R1, R2, R3, R4])
def test_b95_two_servers_with_one_secret_serve_a_session_in_turns(run, version):
    async def main():
        async with sealed() as one, sealed(app(), alone=False) as two:
            peers = [await one.connect(), await two.connect()]
            info = {"name": "c", "version": "2", "title": "C", "websiteUrl": "x" * 99}
            sid, result = await open_session(one, peers[0], version, {"roots": {}}, info)
            assert result["protocolVersion"] == version and all(0x21 <= ord(c) <= 0x7E for c in sid)
            for turn in range(6):
                s = (two, one)[turn % 2]
                answer = await peers[1 - turn % 2].ask(call(s, sid, "whoami", version=version, id=turn))
                assert json.loads(text_of(answer)) == [{"name": "c", "version": "2", "title": "C"}, version, None]
            gate = next(iter(two.endpoint.sessions.by_id.values()))
            assert gate.client_capabilities == {"roots": {}} and gate.ready
            assert (await peers[1].ask(two.legacy(sid, "ping", mcp_protocol_version=None))).json["result"] == {}

    run(main)


def test_ho32_tampered_foreign_and_expired_ids_are_unknown(run, monkeypatch):
    async def main():
        async with sealed() as s, sealed(app(secret="another secret of the tests"), alone=False) as foreign:
            peer, other = await s.connect(), await foreign.connect()
            sid, _ = await open_session(s, peer)
            bad = [
                sid[:-1] + ("A" if sid[-1] != "A" else "B"), "B" + sid[1:], sid[:40], sid + "A", sid + "=", "x",
                "x" * 8000, sid.swapcase(), s.server.sealer.seal("other", b"[]", lifetime=9),
                s.server.sealer.seal("session", b"[]", lifetime=9),
                s.server.sealer.seal("session", b'[9e9,"2026-07-28",{},{}]', lifetime=9),
            ]  # fmt: skip
            for each in bad:
                answer = await peer.ask(call(s, each, "echo", {"text": "x"}, id=7))
                assert (answer.status, answer.code, answer.json["id"]) == (404, INVALID_REQUEST, 7), each
                assert (await peer.ask(s.request(body=INITIALIZED, mcp_session_id=each))).status == 404
                assert (await peer.ask(s.request("DELETE", mcp_session_id=each))).status == 404
            assert (await other.ask(call(foreign, sid, "echo", {"text": "x"}))).status == 404
            assert text_of(await peer.ask(call(s, sid, "echo", {"text": "x"}))) == "x"
            doubled = (("Mcp-Session-Id", sid),)
            assert (await peer.ask(call(s, sid, "echo", {"text": "x"}, headers=doubled))).status == 404
            real = time.time
            lifetime = s.server.limits.sealed_session_lifetime
            monkeypatch.setattr(sealed_sessions.time, "time", lambda: real() + lifetime + 1)
            for _ in range(2):  # out of the cache, and by its seal
                monkeypatch.setattr(s.server.sealer, "_clock", sealed_sessions.time.time)
                assert (await peer.ask(call(s, sid, "echo", {"text": "x"}))).status == 404
            assert (await open_session(s, peer))[0] != sid
            monkeypatch.undo()

    run(main)


def test_ho34_a_session_belongs_to_its_principal(run):
    def principal_of(fields):
        return dict(fields).get(b"authorization", b"").decode() or None

    async def main():
        for options in ({"sealed_sessions": True}, {}):
            server = app()
            async with site(server, principal_of=principal_of, **options) as s:
                peer = await s.connect()
                sid, _ = await open_session(s, peer, authorization="Bearer a")
                for _ in range(2):
                    answer = await peer.ask(call(s, sid, "whoami", authorization="Bearer a"))
                    assert json.loads(text_of(answer))[2] == "Bearer a"
                    for who in ({"authorization": "Bearer b"}, {}, {"authorization": "Bearer A"}):
                        answer = await peer.ask(call(s, sid, "echo", {"text": "x"}, **who))
                        assert answer.status == 404
                        assert (await peer.ask(s.request("DELETE", mcp_session_id=sid, **who))).status == 404
                        assert (await peer.ask(s.request("GET", mcp_session_id=sid, **who))).status == 404
                mine = {"mcp_session_id": sid, "authorization": "Bearer a"}
                assert (await peer.ask(s.request("DELETE", **mine))).status == 204

    run(main)


def test_ho10_there_is_no_get_stream_and_delete_ends_what_runs(run):
    async def main():
        async with sealed() as s:
            peer, other = await s.connect(), await s.connect()
            sid, _ = await open_session(s, peer)
            answer = await peer.ask(s.request("GET", mcp_session_id=sid, mcp_protocol_version=R4))
            assert (answer.status, answer.get("allow")) == (405, "POST, DELETE")
            peer.send(call(s, sid, "sleep", {"ms": 60_000}))
            await s.settled(lambda: s.server.seen.started == 1)
            for _ in range(2):
                assert (await other.ask(s.request("DELETE", mcp_session_id=sid))).status == 204
            await s.settled(lambda: s.server.seen.cancelled == 1)
            # No answer, as to a cancelled request: with 404 clients that are on their way out fail at their exit.
            assert (await peer.answer()).status == 202
            answer = await peer.ask(call(s, sid, "echo", {"text": "x"}))
            assert text_of(answer) == "x"  # nothing was kept, so nothing could be forgotten

    run(main)


def test_what_needs_memory_is_not_offered(run):
    async def main():
        async with sealed() as s:
            peer = await s.connect()
            sid, result = await open_session(s, peer)
            assert "logging" not in result["capabilities"] and result["capabilities"]["tools"] == {}
            for method in ("logging/setLevel", "resources/subscribe", "no/such"):
                answer = await peer.ask(s.legacy(sid, method, {"level": "debug", "uri": "a:b"}))
                assert (answer.status, answer.code) == (200, METHOD_NOT_FOUND)
            answer = await peer.ask(call(s, sid, "talk", accept=BOTH))
            assert text_of(answer) == "said"  # one JSON object: nothing was logged before it
            answer = await peer.ask(s.legacy(sid, "tools/list"))
            assert len(answer.json["result"]["tools"]) == 7

    run(main)


def test_ho43_the_client_cannot_be_asked_and_the_handler_is_told(run):
    async def main():
        server = app()
        async with sealed(server) as s:
            told = ask_method(server)
            peer = await s.connect()
            sid, _ = await open_session(s, peer, capabilities={"roots": {}})
            assert (await peer.ask(s.legacy(sid, "x/ask"))).json["result"] == {}
            assert told == ["a sealed session has no channel for requests to the client"]
            stray = {"jsonrpc": "2.0", "id": 1, "result": {}}
            assert (await peer.ask(s.request(body=stray, mcp_session_id=sid))).status == 202

    run(main)


def test_jr20_arrays_in_a_sealed_session(run):
    async def main():
        async with sealed() as s:
            peer = await s.connect()
            sid, _ = await open_session(s, peer, R2)
            array = [{"jsonrpc": "2.0", "id": i, "method": "ping"} for i in range(3)]
            assert len((await peer.ask(s.request(body=array, mcp_session_id=sid))).events) == 3
            sid, _ = await open_session(s, peer, R4)
            assert (await peer.ask(s.request(body=array, mcp_session_id=sid))).status == 400

    run(main)


def test_vn09_refused_handshakes_leave_nothing(run):
    async def main():
        async with sealed() as s:
            peer = await s.connect()
            start = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
            answer = await peer.ask(s.request(body=start))
            assert answer.code == INVALID_PARAMS and answer.get("mcp-session-id") is None
            huge = {"experimental": {"x": "y" * 5000}}
            start["params"] = {"protocolVersion": R4, "capabilities": huge, "clientInfo": {"name": "n", "version": "1"}}
            answer = await peer.ask(s.request(body=start))
            assert answer.code == INVALID_PARAMS and answer.get("mcp-session-id") is None
            assert "too long for a sealed session id" in answer.json["error"]["message"]
            for _ in range(20):
                assert (await peer.ask(s.initialize())).get("mcp-session-id")
            assert s.listener.sessions == 0 and not s.server.sessions
            sid, _ = await open_session(s, peer)
            again = await peer.ask(s.initialize(mcp_session_id=sid))
            assert (again.status, again.code) == (400, INVALID_REQUEST)

    run(main)


def test_the_cache_is_bounded_and_forgets(run):
    async def main():
        limits = tiny(max_sessions=3, session_idle_timeout=0.2)
        async with sealed(app(limits)) as s:
            peer, busy = await s.connect(), await s.connect()
            first, _ = await open_session(s, peer)
            busy.send(call(s, first, "sleep", {"ms": 100}))
            await s.settled(lambda: s.server.seen.started == 1)
            for _ in range(5):
                sid, _ = await open_session(s, peer)
                assert text_of(await peer.ask(call(s, sid, "echo", {"text": "x"}))) == "x"
                assert s.listener.sessions <= 3
            assert text_of(await busy.answer()) == "slept"
            assert text_of(await peer.ask(call(s, first, "echo", {"text": "y"}))) == "y"
            await s.settled(lambda: s.listener.sessions == 0)
            assert text_of(await peer.ask(call(s, first, "echo", {"text": "z"}))) == "z"

    run(main)


def test_sealed_and_stateless_exclude_each_other(run):
    async def main():
        server = app()
        async with server.running():
            with pytest.raises(UsageError, match="exclude each other"):
                await serve_http(server, host="127.0.0.1", sealed_sessions=True, stateless=True)

    run(main)


PROGRAM = """
import os
from headrace import Server
app = Server("p", version="1")
@app.tool(inline=True)
def pid() -> str:
    return str(os.getpid())
"""


@pytest.fixture
def processes(tmp_path):
    """Two servers in processes of their own that share a secret; their ports."""
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    source = str(Path(headrace.__file__).resolve().parents[1])
    env = os.environ | {"HEADRACE_SECRET": SECRET, "PYTHONPATH": source}
    children, ports = [], []
    try:
        for _ in range(2):
            command = [sys.executable, "-m", "headrace", "serve", str(program), "--http", "0", "--sealed-sessions"]
            children.append(subprocess.Popen(command, env=env, stderr=subprocess.PIPE))
        for child in children:
            line = child.stderr.readline().decode()
            ports.append(int(line.partition("http://127.0.0.1:")[2].partition("/")[0]))
        yield ports
    finally:
        for child in children:
            child.terminate()
            child.communicate(timeout=20)


def test_b95_two_processes_share_a_secret(processes):
    class There:
        def __init__(self, port):
            self.netloc = f"127.0.0.1:{port}"

        request, legacy, legacy_call, initialize = Site.request, Site.legacy, Site.legacy_call, Site.initialize

    async def main():
        from http_support import Peer

        places = [There(port) for port in processes]
        peers = [Peer(*await asyncio.open_connection("127.0.0.1", port)) for port in processes]
        sids = [(await peers[i % 2].ask(places[i % 2].initialize())).get("mcp-session-id") for i in range(4)]
        seen = set()
        for turn in range(24):
            i = turn % 2
            answer = await peers[i].ask(places[i].legacy_call(sids[turn // 2 % 4], "pid", id=turn))
            assert answer.status == 200
            seen.add((turn // 2 % 4, text_of(answer)))
        assert len(seen) == 8  # each session in each process
        for peer in peers:
            peer.close()

    asyncio.run(asyncio.wait_for(main(), 30))
