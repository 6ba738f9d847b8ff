"""The client against a real server over every line transport, and against scripted servers."""

import asyncio
import contextlib
import gc
import json
import os
import signal
import sys
import warnings
from pathlib import Path

import client_server
import msgspec
import pytest
from client_server import Point, app
from scripted_peer import MODERN, Script, error, handshake

import headrace
from headrace import (
    ConnectFailed,
    ConnectionClosed,
    InputRequired,
    Limits,
    LocalProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    Server,
    UsageError,
    connect,
)
from headrace.jsonrpc import LOG_LEVEL, R4, R5
from headrace.mux import live_objects
from headrace.transports.stream import serve_lines
from headrace.types import UNSET, TextContent

PROGRAM = str(Path(client_server.__file__))


@contextlib.asynccontextmanager
async def served(transport, loop_name="asyncio", **options):
    """A client of the test server over `transport`."""
    if transport == "memory":
        async with connect(app, **options) as client:
            yield client
    elif transport == "command":
        env = {"PYTHONPATH": str(Path(headrace.__file__).parents[1])}
        async with connect([sys.executable, PROGRAM, loop_name], env=env, **options) as client:
            yield client
    else:
        async with app.running(), contextlib.AsyncExitStack() as stack:
            if transport == "unix":
                path = f"/tmp/headrace-test-{id(stack)}.sock"
                listener = await serve_lines(app, unix=path)
            else:
                listener = await serve_lines(app, host="127.0.0.1", port=0)
            stack.push_async_callback(listener.close)
            async with connect(listener.addresses[0], **options) as client:
                yield client


@pytest.fixture(params=["memory", "unix", "tcp", "command"])
def transport(request):
    return request.param


@pytest.fixture(params=[R4, R5])
def revision(request):
    return request.param


def test_calls_over_every_transport_and_era(run, loop_name, transport, revision):
    async def main():
        async with served(transport, loop_name, revision=revision) as client:
            assert client.protocol_version == revision
            assert (client.server_info.name, client.server_info.version) == ("tester", "3.2")
            assert client.instructions == "be kind"
            assert "tools" in client.capabilities
            assert not client.closed
            names = [tool.name for tool in await client.list_tools()]
            assert "add" in names and "echo" in names
            result = await client.call_tool("add", {"a": 2, "b": 3})
            assert result.content == [TextContent(text="5")] and result.text == "5"
            assert not result.is_error
            assert result.structured_content == (5 if revision == R5 else UNSET)
            assert (await client.call_tool("block", {"seconds": 0.001})).text == "ok"
            many = await asyncio.gather(*(client.call_tool("add", {"a": i, "b": 1}) for i in range(300)))
            assert [r.text for r in many] == [str(i + 1) for i in range(300)]
        assert client.closed
        with pytest.raises(ConnectionClosed, match="the client was closed"):
            await client.call_tool("add", {"a": 1, "b": 1})

    run(main)


def test_b09_large_messages(run, transport):
    async def main():
        async with served(transport) as client:
            text = "x" * 3_000_000 + "ü\n"
            assert (await client.call_tool("echo", {"text": text})).text == text

    run(main)


def test_errors_of_tools_and_errors_of_the_protocol(run, transport, revision):
    async def main():
        async with served(transport, revision=revision) as client:
            result = await client.call_tool("fail")
            assert result.is_error is True and "it went wrong" in result.text
            with pytest.raises(RpcError) as caught:
                await client.call_tool("refuse")
            assert (caught.value.code, caught.value.message, caught.value.data) == (-7, "refused", {"why": "because"})
            with pytest.raises(RpcError) as caught:
                await client.call_tool("no such tool")
            assert caught.value.code == -32602
            with pytest.raises(RpcError) as caught:
                await client.request("no/such/method")
            assert caught.value.code == -32601

    run(main)


def test_values_that_arguments_may_hold(run):
    import dataclasses
    import datetime

    import pydantic

    class Model(pydantic.BaseModel):
        x: int
        y: int = 4

    @dataclasses.dataclass
    class Data:
        x: int

    class Whole(msgspec.Struct):
        text: str

    async def main():
        async with served("memory") as client:
            for point, seen in ((Point(1, 2), "1,2"), ({"x": 3}, "3,0"), (Model(x=5), "5,4"), (Data(7), "7,0")):
                arguments = {"point": point, "when": datetime.date(2026, 1, 2)}
                assert (await client.call_tool("norm", arguments)).text == f"{seen},2026-01-02"
            assert (await client.call_tool("echo", Whole("whole"))).text == "whole"
            assert (await client.call_tool("echo", {"text": Path("/a/b")})).text == "/a/b"
            for wrong in ([1], "x", 7, {"a": object()}, {"a": {1: {object()}}}):
                with pytest.raises(UsageError, match="arguments"):
                    await client.call_tool("echo", wrong)
            assert live_objects()["calls"] == 0

    run(main)


def test_meta_is_sent_beside_what_the_era_demands(run, revision):
    async def main():
        async with served("memory", revision=revision) as client:
            seen = json.loads((await client.call_tool("meta", meta={"traceparent": "00-a", "n": None})).text)
            assert seen["traceparent"] == "00-a" and seen["n"] is None
            for reserved in ("progressToken", LOG_LEVEL):
                with pytest.raises(UsageError, match=reserved):
                    await client.call_tool("meta", meta={reserved: 1})

    run(main)


# --- progress ----------------------------------------------------------------------------------------


def test_b78_progress_comes_in_order_before_the_result(run, transport, revision):
    async def main():
        seen, slow = [], []

        async def callback(done, total, message):
            await asyncio.sleep(0.0005)
            slow.append(done)

        async with served(transport, revision=revision) as client:
            await client.call_tool("count", {"to": 1000}, on_progress=lambda *note: seen.append(note))
            assert seen == [(i, 1000, f"step {i}") for i in range(1, 1001)]
            await client.call_tool("count", {"to": 100}, on_progress=callback)
            assert slow == list(range(1, 101))

    run(main)


def test_progress_callbacks_that_raise_do_not_break_the_call(run, caplog):
    async def main():
        def bad(*note):
            raise ValueError("from a callback")

        async def worse(*note):
            raise KeyError("from an async callback")

        async with served("memory") as client:
            for callback in (bad, worse):
                assert (await client.call_tool("count", {"to": 3}, on_progress=callback)).text == "counted"

    run(main)
    assert len([r for r in caplog.records if r.name == "headrace.client" and r.exc_info]) == 6


def test_b79_b80_tokens_are_sent_only_when_wanted(run):
    """B80: restarting the clock asks for progress without any callback."""

    async def main():
        async with Script(discover=MODERN, tools_call={"content": []}) as script:
            async with connect(script.target) as client:
                await client.call_tool("t")
                await client.call_tool("t", reset_timeout_on_progress=True)
                await client.call_tool("t", on_progress=print)
            tokens = [m["params"]["_meta"].get("progressToken") for m in script.seen[1:]]
            assert tokens == [None, script.seen[2]["id"], script.seen[3]["id"]]

    run(main)


def test_b80_progress_restarts_the_clock_up_to_the_maximum(run):
    async def main():
        async with served("memory") as client:
            slow = {"to": 12, "pause": 0.05}
            with pytest.raises(RequestTimeout):
                await client.call_tool("count", slow, timeout=0.2)
            result = await client.call_tool("count", slow, timeout=0.2, reset_timeout_on_progress=True)
            assert result.text == "counted"
            with pytest.raises(RequestTimeout, match="absolute"):
                await client.call_tool(
                    "count", slow, timeout=0.2, reset_timeout_on_progress=True, max_total_timeout=0.3
                )

    run(main)


def test_b81_progress_for_finished_or_unknown_calls_is_ignored(run):
    async def main():
        def call(message, writer):
            for token in (message["id"], 0, 99999, '"x"', -1, 1.5, "null"):
                note = '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":%s,"progress":1}}'
                writer.write((note % token).encode() + b"\n")
            return {"content": []}

        async with Script(discover=MODERN, tools_call=call) as script, connect(script.target) as client:
            seen = []
            for _ in range(20):
                await client.call_tool("t", on_progress=lambda *n: seen.append(n))
            await client.call_tool("t")
            assert len(seen) == 20

    run(main)


# --- timeouts and cancelling -------------------------------------------------------------------------


def test_b75_giving_up_tells_the_server(run, transport, revision):
    async def main():
        async with served(transport, revision=revision) as client:

            async def running():
                return int((await client.call_tool("active")).text)

            async def settled():
                for _ in range(300):
                    if await running() == 0:
                        return True
                    await asyncio.sleep(0.01)
                return False

            tasks = [asyncio.create_task(client.call_tool("sleep", {"seconds": 60, "key": str(i)})) for i in range(50)]
            while await running() < 50:
                await asyncio.sleep(0.01)
            for task in tasks:
                task.cancel()
            outcomes = await asyncio.gather(*tasks, return_exceptions=True)
            assert all(isinstance(o, asyncio.CancelledError) for o in outcomes)
            assert await settled()
            timed = [client.call_tool("sleep", {"seconds": 60, "key": str(i)}, timeout=0.2) for i in range(50)]
            outcomes = await asyncio.gather(*timed, return_exceptions=True)
            assert all(isinstance(o, RequestTimeout) and isinstance(o, TimeoutError) for o in outcomes)
            assert await settled()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.call_tool("sleep", {"seconds": 60})
            assert await settled()
            assert client._mux.debug_counts()["pending"] == 0

    run(main)


def test_b33_timeouts_are_per_call(run):
    async def main():
        async with served("memory", timeout=0.1) as client:
            with pytest.raises(RequestTimeout, match="tools/call"):
                await client.call_tool("sleep", {"seconds": 5})
            assert (await client.call_tool("sleep", {"seconds": 0.3}, timeout=5)).text == "slept"
            assert (await client.call_tool("sleep", {"seconds": 0.3}, timeout=float("inf"))).text == "slept"
            for wrong in (0, -1, float("nan")):
                with pytest.raises(UsageError, match="positive"):
                    await client.call_tool("sleep", {"seconds": 0}, timeout=wrong)

    run(main)


def test_late_answers_are_dropped(run):
    async def main():
        async def late(message, writer):
            await asyncio.sleep(0.15)
            return {"content": []}

        answers = {"discover": MODERN, "tools_call": late, "tools_list": {"tools": []}}
        async with Script(**answers) as script, connect(script.target) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("t", timeout=0.05)
            assert await client.list_tools() == []
            assert "notifications/cancelled" in script.methods

    run(main)


# --- answers -----------------------------------------------------------------------------------------


async def result_of(answer, discover=MODERN, **options):
    answers = {"discover": discover, "initialize": handshake(), "tools_call": answer}
    async with Script(**answers) as script, connect(script.target, **options) as client:
        return await client.call_tool("t")


def test_jr11_result_types(run):
    async def main():
        ok = await result_of({"content": []})  # an absent resultType is complete
        assert ok.content == [] and ok.result_type == "complete"
        with pytest.raises(RemoteProtocolError, match="task"):
            await result_of({"resultType": "task", "taskId": "1"})
        asked = {"resultType": "input_required", "inputRequests": {"a": {"method": "elicitation/create"}}}
        with pytest.raises(InputRequired, match=r"client input \(elicitation/create\)"):
            await result_of(asked)
        # The handshake era has no result types.
        assert (await result_of({"content": [], "resultType": "task"}, error(-32601))).content == []

    run(main)


def test_sf06_absent_and_null_structured_content_differ(run):
    async def main():
        assert (await result_of({"content": []})).structured_content is UNSET
        assert (await result_of({"content": [], "structuredContent": None})).structured_content is None
        assert (await result_of({"content": [], "structuredContent": [1]})).structured_content == [1]

    run(main)


def test_nulls_for_absent_members_are_read(run):
    async def main():
        odd = {"content": [{"type": "text", "text": "x", "annotations": None, "_meta": None}], "isError": None}
        for discover in (MODERN, error(-32601)):
            result = await result_of(odd, discover)
            assert result.text == "x" and result.is_error is False

    run(main)


@pytest.mark.parametrize("answer", [{"content": 7}, {"content": [{"type": "text"}]}, {"isError": "no"}])
def test_answers_that_are_no_tool_results(run, answer):
    async def main():
        with pytest.raises(RemoteProtocolError, match="tools/call"):
            await result_of(answer)

    run(main)


def test_b82_the_server_goes_away_under_a_call(run):
    async def main():
        async def drop(message, writer):
            await asyncio.sleep(0.02)
            writer.close()

        async with Script(discover=MODERN, tools_call=drop) as script, connect(script.target) as client:
            outcomes = await asyncio.gather(*(client.call_tool("t") for _ in range(3)), return_exceptions=True)
            assert all(isinstance(o, ConnectionClosed) for o in outcomes)
            assert client.closed
            with pytest.raises(ConnectionClosed):
                client.notify("x/y")

    run(main)


def test_b82_a_lost_line_connection_is_closed_without_a_call(run):
    async def main():
        async with connect([sys.executable, PROGRAM], inherit_env=True) as client:
            assert not client.closed
            os.kill(client._channel.child.pid, signal.SIGKILL)
            for _ in range(1000):
                if client.closed:
                    break
                await asyncio.sleep(0.01)
            assert client.closed
            with pytest.raises(ConnectionClosed, match="SIGKILL"):
                await client.call_tool("add", {"a": 1, "b": 2})

    run(main)


def test_b82_a_command_that_exits_under_a_call_names_its_status(run):
    async def main():
        program = "import sys,os;sys.stdin.readline();print('boom', file=sys.stderr);os._exit(3)"
        with pytest.raises(ConnectFailed, match="status 3") as caught:
            async with connect([sys.executable, "-c", program]):
                pass
        assert caught.value.exit_code == 3
        with pytest.raises(ConnectFailed, match="no such command"):
            async with connect(["/nonexistent/program"]):
                pass

    run(main)


# --- lists -------------------------------------------------------------------------------------------


def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}


def test_sf50_pages_with_an_empty_cursor(run):
    async def main():
        pages = [
            {"tools": [tool("a")], "nextCursor": ""},
            {"tools": [tool("b")], "nextCursor": "2"},
            {"tools": [tool("c")], "nextCursor": None},
        ]
        given = []

        def page(message, writer):
            given.append(message["params"].get("cursor"))
            return pages[len(given) - 1]

        async with Script(discover=MODERN, tools_list=page) as script, connect(script.target) as client:
            assert [t.name for t in await client.list_tools()] == ["a", "b", "c"]
            assert given == [None, "", "2"]

    run(main)


def test_pages_that_do_not_end(run):
    async def main():
        endless = {"tools": [], "nextCursor": "again"}
        async with Script(discover=MODERN, tools_list=endless) as script, connect(script.target) as client:
            with pytest.raises(RemoteProtocolError, match="do not end"):
                await client.list_tools()

    run(main)


def test_one_invalid_tool_does_not_hide_the_others(run, caplog):
    async def main():
        page = {"tools": [tool("a"), {"name": "bad"}, {**tool("b"), "description": None}], "nextCursor": None}
        async with Script(discover=MODERN, tools_list=page) as script, connect(script.target) as client:
            assert [t.name for t in await client.list_tools()] == ["a", "b"]

    run(main)
    assert any("left out" in r.message for r in caplog.records)


def test_many_pages_of_a_real_server(run, revision):
    async def main():
        server = Server("many", version="1", limits=Limits(page_size=7))
        for i in range(50):
            server.add_tool(lambda: None, name=f"t{i}", description="x")
        async with connect(server, revision=revision) as client:
            assert len(await client.list_tools()) == 50

    run(main)


# --- messages of the server --------------------------------------------------------------------------


def test_log_messages(run, transport, revision):
    async def main():
        logs = []
        async with served(transport, revision=revision, on_log=logs.append) as client:
            await client.call_tool("talk", {"level": "info"})
            await client.call_tool("talk", {"level": "debug"})
            await client.set_log_level("debug")
            await client.call_tool("talk", {"level": "debug"})
            await client.set_log_level("error")
            await client.call_tool("talk", {"level": "warning"})
        assert [m.level for m in logs] == ["info", "debug"]
        assert logs[0].data == {"text": "hello"} and logs[0].logger == "talker"

    run(main)


def test_sf41_no_log_level_without_wish(run):
    async def main():
        async with Script(discover=MODERN, tools_call={"content": []}) as script:
            async with connect(script.target) as client:
                await client.call_tool("t")
            async with connect(script.target, on_log=print) as client:
                await client.call_tool("t")
            async with connect(script.target, log_level="error") as client:
                await client.call_tool("t")
            levels = [m["params"]["_meta"].get(LOG_LEVEL) for m in script.seen if m["method"] == "tools/call"]
            assert levels == [None, "info", "error"]
        with pytest.raises(UsageError, match="emergency"):
            connect(script.target, log_level="loud")

    run(main)


def test_b113_a_burst_of_list_changes_is_few_callbacks(run):
    async def main():
        calls = []
        entered = asyncio.Event()
        release = asyncio.Event()

        async def changed(kind):
            calls.append(kind)
            entered.set()
            await release.wait()

        note = b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n'

        def call(message, writer):
            writer.write(note * 100)
            return {"content": []}

        answers = {"discover": error(-32601), "initialize": handshake(), "tools_call": call}
        async with Script(**answers) as script, connect(script.target, on_list_changed=changed) as client:
            await client.call_tool("t")
            await entered.wait()
            await client.call_tool("t")
            await client.call_tool("t")
            release.set()
            await asyncio.sleep(0.05)
            assert calls == ["tools", "tools"]

    run(main)


def test_list_changed_of_a_real_server(run):
    async def main():
        server = Server("changing", version="1")
        changes = asyncio.Queue()
        async with connect(server, revision=R4, on_list_changed=changes.put_nowait) as client:
            assert await client.list_tools() == []
            server.add_tool(lambda: None, name="new", description="x")
            assert await changes.get() == "tools"
            assert [t.name for t in await client.list_tools()] == ["new"]

    run(main)


async def answers_to(discover, *requests):
    """What the client wrote back to requests of the server."""
    frames = "".join(json.dumps({"jsonrpc": "2.0", **r}) + "\n" for r in requests).encode()

    def call(message, writer):
        writer.write(frames)
        return {"content": []}

    answers = {"discover": discover, "initialize": handshake(), "tools_call": call}
    async with Script(**answers) as script:
        async with connect(script.target) as client:
            await client.call_tool("t")
        await script.ended()
        return [m for m in script.seen if "method" not in m]


REQUESTS = (
    {"id": "p", "method": "ping"},
    {"id": 7, "method": "sampling/createMessage", "params": {}},
    {"id": "1", "method": "what/ever"},
)


def test_mx20_requests_of_the_server_in_the_handshake_era(run):
    async def main():
        ping, sampling, unknown = await answers_to(error(-32601), *REQUESTS)
        assert ping == {"jsonrpc": "2.0", "id": "p", "result": {}}
        assert (sampling["id"], sampling["error"]["code"]) == (7, -32601)
        assert (unknown["id"], unknown["error"]["code"]) == ("1", -32601)

    run(main)


def test_a_request_that_nothing_answers_is_no_broken_message(run, caplog):
    """What the server asks for is named, to it and once in the log."""

    async def main():
        _, sampling, unknown = await answers_to(error(-32601), *REQUESTS)
        assert sampling["error"]["message"] == "this client does not answer sampling/createMessage"
        assert unknown["error"]["message"] == "this client does not answer what/ever"

    with caplog.at_level("WARNING"):
        run(main)
    assert [r.getMessage() for r in caplog.records] == [
        "the server asked for 'sampling/createMessage', which nothing here answers: refused, as are more of them"
    ]


def test_jr15_st33_requests_of_the_server_in_the_modern_era_are_never_answered(run):
    async def main():
        assert await answers_to(MODERN, *REQUESTS) == []

    run(main)


def test_b71_an_id_of_another_type_is_no_answer(run):
    async def main():
        def call(message, writer):
            wrong = {"jsonrpc": "2.0", "id": str(message["id"]), "result": {"content": [], "isError": True}}
            writer.write(json.dumps(wrong).encode() + b"\n")
            return {"content": []}

        assert (await result_of(call)).is_error is False

    run(main)


# --- the rest of the surface -------------------------------------------------------------------------


def test_ping(run):
    async def main():
        async with served("memory", revision=R4) as client:
            assert await client.ping() is None
        async with served("memory", revision=R5) as client:
            with pytest.raises(LocalProtocolError, match="no ping"):
                await client.ping()

    run(main)


def test_raw_requests_and_notifications(run, revision):
    async def main():
        async with served("memory", revision=revision) as client:
            raw = await client.request("tools/call", {"name": "echo", "arguments": {"text": "hi"}})
            assert raw["content"][0] == {"type": "text", "text": "hi"}
            client.notify("notifications/custom", {"a": 1})
            with pytest.raises(LocalProtocolError):
                await client.request("initialize", {})
            with pytest.raises(UsageError, match="params"):
                await client.request("tools/list", {"a": object()})

    run(main)


@pytest.mark.parametrize(
    "target, options, text",
    [
        ("ftp://x", {}, "http://"),
        ("somewhere", {}, "unix:PATH"),
        ("unix:", {}, "unix:PATH"),
        ("tcp:host", {}, "HOST:PORT"),
        ("tcp:host:99999", {}, "65535"),
        ([], {}, "must be a list"),
        ([7], {}, "must be a list"),
        (["a", 7], {}, "strings"),
        (7, {}, "cannot connect to a int"),
        ("tcp:h:1", {"headers": {"a": "b"}}, "headers"),
        ("tcp:h:1", {"env": {}}, "commands"),
        ("http://h", {"headers": {"a b": "c"}}, "headers: not a header name: 'a b'"),
        ("http://h", {"headers": {"a": "b\nc"}}, "headers: header 'a' holds a control character"),
        ("http://h", {"headers": {"a": 7}}, "headers: "),
        ("tcp:h:1", {"timeout": 0}, "positive"),
        ("tcp:h:1", {"client_info": {"name": "x"}}, "client_info"),
    ],
)
def test_usage_errors_are_one_plain_line(target, options, text):
    with pytest.raises(UsageError, match=text) as caught:
        connect(target, **options)
    assert "\n" not in str(caught.value)


def test_a_connect_that_was_not_entered_says_so(run):
    async def main():
        waiting = connect("http://127.0.0.1:1/mcp")
        with pytest.raises(AttributeError, match=r"`async with connect\(\.\.\.\) as client:`; then client.call_tool"):
            await waiting.call_tool("x")
        with pytest.raises(AttributeError, match=r"is to be entered: [^;]*$"):
            waiting.nothing_of_ours()
        with pytest.raises(TypeError, match="entered, not awaited"):
            await waiting

    run(main)


# --- closing -----------------------------------------------------------------------------------------


def test_b21_closing_in_any_order_from_any_task_and_twice(run, transport):
    async def main():
        async with contextlib.AsyncExitStack() as stack:
            one = await stack.enter_async_context(served(transport))
            two = await stack.enter_async_context(served(transport))
            waiting = asyncio.create_task(one.call_tool("sleep", {"seconds": 60}))
            await asyncio.sleep(0.05)
            await asyncio.create_task(one.close())
            with pytest.raises(ConnectionClosed, match="closed"):
                await waiting
            await one.close()
            assert (await two.call_tool("echo", {"text": "still here"})).text == "still here"
            await asyncio.gather(two.close(), two.close(), one.close())

    run(main)


def test_b21_opened_in_one_task_and_closed_in_another(run, transport):
    async def main():
        manager = served(transport) if transport != "memory" else connect(app)
        client = await asyncio.create_task(manager.__aenter__())
        assert (await client.call_tool("echo", {"text": "x"})).text == "x"
        await asyncio.create_task(manager.__aexit__(None, None, None))
        assert client.closed

    run(main)


@pytest.mark.parametrize("target", ["memory", "tcp", "command"])
def test_b21_dropped_and_left_open_at_the_end_of_the_loop(run, target):
    """No exception and no warning: pytest turns both into failures."""
    kept = []

    async def main():
        if target == "command":
            where = [sys.executable, PROGRAM]
            options = {"env": {"PYTHONPATH": str(Path(headrace.__file__).parents[1])}}
        else:
            where, options = app, {}
        if target == "tcp":
            script = Script(discover=MODERN)
            await script.__aenter__()
            kept.append(script)
            where = script.target
        client = await connect(where, **options).__aenter__()
        child = getattr(client._channel, "child", None)
        if child is not None:
            kept.append(child)
        del client
        gc.collect()
        await asyncio.sleep(0.05)
        kept.append(await connect(where, **options).__aenter__())
        if target == "tcp":
            script.server.close()

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(main)
        gc.collect()
    assert kept[-1].closed
    if target == "command":
        assert kept[0].exit_code is not None


def test_a_dropped_client_is_closed_by_the_garbage_collector(run):
    async def main():
        async with Script(discover=MODERN) as script:
            client = await connect(script.target).__aenter__()
            assert not client.closed
            del client
            gc.collect()
            await script.ended()

    run(main)


def test_b21_cancelled_inside_the_context(run, transport):
    async def main():
        started = asyncio.Event()

        async def body():
            async with served(transport) as client:
                started.set()
                await client.call_tool("sleep", {"seconds": 60})

        task = asyncio.create_task(body())
        await started.wait()
        await asyncio.sleep(0.02)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main)


def test_under_anyio(loop_name):
    import anyio

    async def main():
        async with served("memory") as client, anyio.create_task_group() as group:
            for i in range(5):
                group.start_soon(client.call_tool, "add", {"a": i, "b": i})
        with anyio.move_on_after(0.05) as scope:
            async with served("command") as client:
                await client.call_tool("sleep", {"seconds": 60})
        assert scope.cancelled_caught

    anyio.run(main, backend="asyncio", backend_options={"use_uvloop": loop_name == "uvloop"})


def test_b94_many_short_sessions_leave_nothing(run):
    async def main():
        before = len(asyncio.all_tasks())
        async with app.running():
            listener = await serve_lines(app, host="127.0.0.1", port=0)
            for i in range(150):
                async with connect(listener.addresses[0], revision=R4 if i % 2 else None) as client:
                    assert (await client.call_tool("add", {"a": i, "b": 0})).text == str(i)
            await listener.close()
        del client
        gc.collect()  # sessions of the server and their links refer to each other
        assert live_objects() == dict.fromkeys(live_objects(), 0)
        assert len(asyncio.all_tasks()) == before

    run(main)


def test_the_lifespan_of_an_embedded_server_is_left_and_its_failure_is_told(run):
    async def main():
        events = []

        @contextlib.asynccontextmanager
        async def lifespan(server):
            events.append(asyncio.current_task())
            yield
            events.append(asyncio.current_task())

        async with connect(Server("s", version="1", lifespan=lifespan)) as client:
            assert await client.list_tools() == []
        assert len(events) == 2 and events[0] is events[1]

        @contextlib.asynccontextmanager
        async def broken(server):
            raise ValueError("no database")
            yield

        with pytest.raises(ConnectFailed, match="no database"):
            async with connect(Server("s", version="1", lifespan=broken)):
                pass

    run(main)
