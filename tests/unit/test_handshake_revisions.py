"""A server in each handshake revision: negotiation, what each one knows, arrays on lines (VN-02..VN-09, B83, B84)."""

import asyncio
import json

import pytest
from server_pipe import Pipe

from headrace import Context, Server
from headrace.jsonrpc import HANDSHAKE_REVISIONS, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, R1, R2, R3, R4
from headrace.protocol.tables import implementation

INFO = {"name": "t", "version": "0"}


def make() -> Server:
    app = Server(
        "rev", version="2", title="Rev", description="d", website_url="https://a.example", instructions="be kind"
    )

    @app.tool(title="Twice", meta={"m": 1}, icons=[{"src": "https://a.example/i.png"}])
    async def twice(n: int) -> dict[str, int]:
        return {"n": 2 * n}

    @app.tool
    async def steps(ctx: Context) -> str:
        await ctx.progress(1, 2, "half")
        return "done"

    @app.tool
    async def wait(seconds: float) -> str:
        await asyncio.sleep(seconds)
        return "waited"

    return app


def opened(app, version, **changes):
    pipe = Pipe(app)
    pipe.send("i", "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO} | changes)
    result = pipe.out.pop()["result"]
    pipe.send(None, "notifications/initialized")
    return pipe, result


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_vn02_a_known_version_is_answered_with_itself(run, version):
    async def main():
        app = make()
        async with app.running():
            pipe, result = opened(app, version)
            assert result["protocolVersion"] == version and result["instructions"] == "be kind"
            members = {R1: set(), R2: set(), R3: {"title"}, R4: {"title", "description", "websiteUrl"}}
            assert set(result["serverInfo"]) == {"name", "version"} | members[version]
            answer = await pipe.ask(1, "tools/call", {"name": "twice", "arguments": {"n": 4}})
            assert "resultType" not in answer["result"] and "_meta" not in answer["result"]
            structured = answer["result"].get("structuredContent")
            assert structured == ({"n": 8} if version >= R3 else None)
            assert json.loads(answer["result"]["content"][0]["text"]) == {"n": 8}

    run(main)


@pytest.mark.parametrize("version", ["2026-07-28", "2099-01-01", "", "2025-11-25 ", "draft"])
def test_vn08_any_other_version_is_answered_with_the_newest(run, version):
    async def main():
        app = make()
        async with app.running():
            assert opened(app, version)[1]["protocolVersion"] == R4

    run(main)


def test_vn09_initialize_without_a_version_and_twice(run):
    async def main():
        app = make()
        async with app.running():
            pipe = Pipe(app)
            for params in (None, {}, {"protocolVersion": 3}, {"protocolVersion": None}):
                pipe.send(1, "initialize", params)
                error = pipe.out.pop()["error"]
                assert error["code"] == INVALID_PARAMS and error["data"]["supported"] == [R4, R3, R2, R1]
            assert not pipe.session.initialized
            pipe, _ = opened(app, R1)
            pipe.send(2, "initialize", {"protocolVersion": R4, "capabilities": {}, "clientInfo": INFO})
            assert pipe.out.pop()["error"]["code"] == INVALID_REQUEST
            pipe.send(3, "ping")
            assert pipe.out.pop()["result"] == {}
            assert pipe.mux.current.name == R1

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_sf03_definitions_by_revision(run, version):
    async def main():
        app = make()
        async with app.running():
            pipe, _ = opened(app, version)
            tool = (await pipe.ask(1, "tools/list"))["result"]["tools"][0]
            assert ("title" in tool, "_meta" in tool, "outputSchema" in tool) == (version >= R3,) * 3
            assert ("icons" in tool) == (version >= R4)
            assert ("annotations" in tool) == (version == R2)  # the title's place there
            assert set((await pipe.ask(2, "tools/list"))["result"]) == {"tools"}

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_mx03_progress_has_a_message_from_the_second_revision_on(run, version):
    async def main():
        app = make()
        async with app.running():
            pipe, _ = opened(app, version)
            pipe.send(1, "tools/call", {"name": "steps", "_meta": {"progressToken": "p"}})
            note = next(m for m in pipe.out if m.get("method") == "notifications/progress")
            assert note["params"] == {"progressToken": "p", "progress": 1, "total": 2} | (
                {"message": "half"} if version > R1 else {}
            )

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_jr13_errors_without_a_readable_id(run, version):
    async def main():
        app = make()
        async with app.running():
            pipe, _ = opened(app, version)
            for bad in (b"{", b"7", b'{"jsonrpc":"2.0","id":null,"method":"ping"}'):
                pipe.raw(bad)
                answer = pipe.out.pop()
                assert answer["error"]["code"] in (-32700, -32600)
                assert ("id" in answer) == (version < R4) and answer.get("id") is None

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
@pytest.mark.parametrize("method", ["shutdown", "exit", "server/discover", "subscriptions/listen", "tools/nope", "", "é"])
def test_b84_unknown_methods_do_no_harm(run, version, method):
    async def main():
        app = make()
        async with app.running():
            pipe, _ = opened(app, version)
            pipe.send(5, method, {"x": 1})
            answer = pipe.out.pop()
            assert (answer["id"], answer["error"]["code"]) == (5, METHOD_NOT_FOUND)
            pipe.send(None, method, {"x": 1})
            pipe.send(None, "notifications/" + method)
            assert pipe.out == []
            pipe.send(6, "ping")
            assert pipe.out.pop()["result"] == {}
            assert (await pipe.ask(7, "tools/call", {"name": "twice", "arguments": {"n": 1}}))["result"]

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_jr16_unknown_members_of_a_handshake_are_tolerated(run, version):
    async def main():
        app = make()
        async with app.running():
            capabilities = {"roots": {"listChanged": True, "x": 1}, "sampling": {}, "zig": {"zag": [1]}, "tasks": None}
            pipe, result = opened(
                app, version, capabilities=capabilities, clientInfo={**INFO, "title": 3, "odd": [1]}, more={"a": 1}
            )
            assert result["protocolVersion"] == version
            assert pipe.session.client_capabilities == capabilities

    run(main)


@pytest.mark.parametrize("version", HANDSHAKE_REVISIONS)
def test_sf40_log_levels_and_ping_in_every_revision(run, version):
    async def main():
        app = make()
        async with app.running():
            pipe, _ = opened(app, version)
            for level in ("debug", "emergency"):
                pipe.send(1, "logging/setLevel", {"level": level})
                assert pipe.out.pop()["result"] == {} and pipe.session.log_level == level
            for params in ({"level": "loud"}, {"level": 3}, {}, None):
                pipe.send(2, "logging/setLevel", params)
                assert pipe.out.pop()["error"]["code"] == INVALID_PARAMS
            pipe.send(3, "ping", {"_meta": {"a": 1}})
            assert pipe.out.pop()["result"] == {}

    run(main)


ARRAYS = [[], [1], [{"jsonrpc": "2.0", "id": 1, "method": "ping"}]]


@pytest.mark.parametrize("version", [None, R1, R3, R4])
@pytest.mark.parametrize("array", ARRAYS)
def test_jr20_jr23_arrays_are_refused_elsewhere(run, version, array):
    async def main():
        app = make()
        async with app.running():
            pipe = Pipe(app) if version is None else opened(app, version)[0]
            pipe.raw(json.dumps(array).encode())
            (answer,) = pipe.out
            assert answer["error"]["code"] == INVALID_REQUEST and answer.get("id") is None

    run(main)


def test_jr20_arrays_of_2025_03_26_on_lines(run):
    async def main():
        app = make()
        async with app.running():
            pipe, _ = opened(app, R2)
            call = {"name": "wait", "arguments": {"seconds": 0.01}}
            array = [
                {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call},
                {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
                {"jsonrpc": "2.0", "id": "a", "method": "ping"},
                5,
            ]
            pipe.raw(json.dumps(array).encode())
            for _ in range(1000):
                if pipe.out:
                    break
                await asyncio.sleep(0.002)
            (answers,) = pipe.out
            assert [a["id"] for a in answers] == ["a", None, 1]
            assert answers[1]["error"]["code"] == INVALID_REQUEST

    run(main)


def test_b83_an_array_with_the_handshake_in_it_is_refused(run):
    async def main():
        app = make()
        async with app.running():
            pipe = Pipe(app)
            params = {"protocolVersion": R2, "capabilities": {}, "clientInfo": INFO}
            pipe.raw(json.dumps([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}]).encode())
            assert pipe.out.pop()["error"]["code"] == INVALID_REQUEST
            assert not pipe.session.initialized

    run(main)


def test_sf07_the_implementation_object_by_revision():
    info = {"name": "n", "version": "1", "title": "N", "description": "d", "icons": [], "websiteUrl": "u"}
    assert implementation(info, R1) == implementation(info, R2) == {"name": "n", "version": "1"}
    assert set(implementation(info, R3)) == {"name", "version", "title"}
    assert implementation(info, R4) == info
