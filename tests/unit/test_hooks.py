"""Hooks around sessions and requests: when they are entered and left, and what handlers have of them (B98)."""

import asyncio
import contextlib

import anyio
import msgspec
import pytest
from server_pipe import META, Pipe

import headrace
from headrace import Context, Limits, RpcError, Server, ToolError, UsageError, connect

TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def make(**settings):
    app = Server("t", version="1", **settings)
    app.seen = []

    @app.tool
    async def state(ctx: Context) -> dict:
        app.seen.append("handler")
        return {"session": ctx.session_state, "request": ctx.state}

    @app.tool
    def in_thread(ctx: Context) -> dict:
        return {"session": ctx.session_state, "request": ctx.state}

    @app.tool
    async def fails() -> str:
        raise ValueError("no")

    return app


def sessions_of(app, name="s"):
    @app.on_session
    async def opened(session):
        app.seen.append(f"enter {name}")
        session.state["number"] = session.state.get("number", 0) + 1
        session.state["client"] = (session.client_info or {}).get("name")
        session.state["version"] = session.protocol_version
        try:
            yield
        finally:
            app.seen.append(f"leave {name}")


def requests_of(app, name="r", **settings):
    @app.on_request(**settings)
    async def around(call):
        app.seen.append(f"enter {name}")
        call.context.state[name] = call.name
        try:
            yield
        finally:
            app.seen.append(f"leave {name}")


async def drained(app, last, count=1):
    for _ in range(1000):
        if app.seen.count(last) == count:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(app.seen)


# --- sessions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", ["2025-11-25", "2025-03-26"])
def test_b98_a_session_is_entered_once_for_all_its_requests_and_left_at_its_end(run, revision):
    app = make()
    sessions_of(app)

    async def main():
        for _ in range(3):
            async with connect(app, revision=revision) as client:
                for tool in ("state", "in_thread", "state"):
                    found = (await client.call_tool(tool)).content[0].text
                    read = msgspec.json.decode(found)["session"]
                    assert read["number"] == 1 and read["version"] == revision and read["client"]
        await drained(app, "leave s", 3)

    run(main)
    assert app.seen == ["enter s", "handler", "handler", "leave s"] * 3


def test_b98_a_line_connection_of_the_modern_era_is_a_session(run):
    app = make()
    sessions_of(app)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            for _ in range(2):
                found = (await pipe.call("state"))["result"]["content"][0]["text"]
                assert msgspec.json.decode(found)["session"] == {"number": 1, "client": None, "version": None}
            pipe.mux.close()

    run(main)
    assert app.seen == ["enter s", "handler", "handler", "leave s"]


def test_what_the_protocol_serves_itself_enters_no_session(run):
    app = make()
    sessions_of(app)
    requests_of(app)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            await pipe.ask(1, "ping")
            pipe.mux.close()

    run(main)
    assert app.seen == []


def test_a_session_hook_that_fails_is_tried_again(run):
    app = make()

    @app.on_session
    async def opened(session):
        app.seen.append("try")
        if app.seen.count("try") == 1:
            raise RpcError(-32001, "not yet")
        if app.seen.count("try") == 2:
            raise ValueError("a secret")
        yield

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            first = await pipe.ask(1, "tools/list")
            assert first["error"] == {"code": -32001, "message": "not yet"}
            second = await pipe.ask(2, "tools/list")
            assert second["error"]["code"] == -32603 and "secret" not in second["error"]["message"]
            third, fourth = await asyncio.gather(pipe.ask(3, "tools/list"), pipe.ask(4, "tools/list"))
            assert "result" in third and "result" in fourth
            pipe.mux.close()

    run(main)
    assert app.seen == ["try"] * 3


def test_a_session_is_left_behind_its_requests(run):
    app = make()
    sessions_of(app)

    @app.tool
    async def slow() -> str:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0.02)
            app.seen.append("handler ended")
        return ""

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            pipe.send(1, "tools/call", {"name": "slow", "arguments": {}})
            await drained(app, "enter s")
            await asyncio.sleep(0.01)
            pipe.mux.close()
            await drained(app, "leave s")

    run(main)
    assert app.seen == ["enter s", "handler ended", "leave s"]


def test_sessions_that_are_open_are_left_before_the_lifespan(run):
    @contextlib.asynccontextmanager
    async def lifespan(server):
        server.seen = ["enter l"]
        yield
        server.seen.append("leave l")

    app = make(lifespan=lifespan)
    sessions_of(app)

    async def main():
        async with app.running():
            pipes = [Pipe(app) for _ in range(3)]
            for pipe in pipes:
                pipe.handshake()
                await pipe.ask(1, "tools/list")

    run(main)
    assert app.seen == ["enter l", *["enter s"] * 3, *["leave s"] * 3, "leave l"]


def test_b98_a_hook_may_hold_a_task_group(run):
    app = make()

    @app.on_session
    @contextlib.asynccontextmanager
    async def opened(session):
        async with anyio.create_task_group() as group:
            session.state["group"] = group
            yield
            group.cancel_scope.cancel()

    @app.on_request
    @contextlib.asynccontextmanager
    async def around(call):
        async with anyio.create_task_group() as group:
            group.start_soon(anyio.sleep, 0)
            yield

    @app.tool
    async def background(ctx: Context) -> str:
        ctx.session_state["group"].start_soon(anyio.sleep, 60)
        return "started"

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            answer = await pipe.call("background", meta=None)
            assert answer["result"]["content"][0]["text"] == "started"
            pipe.mux.close()

    run(main)
    assert not app.hooks._scopes


@pytest.mark.parametrize("sealed", [False, True])
def test_http_sessions_are_left_when_they_are_deleted(run, sealed, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", "x" * 40)
    app = make()
    sessions_of(app)

    async def main():
        ready = asyncio.get_running_loop().create_future()
        serving = asyncio.ensure_future(app.serve(http="127.0.0.1:0", on_ready=ready.set_result, sealed_sessions=sealed))
        (url,) = await ready
        async with connect(url, revision="2025-11-25") as client:
            for _ in range(2):
                found = msgspec.json.decode((await client.call_tool("state")).content[0].text)
                assert found["session"]["number"] == 1
        await drained(app, "leave s")
        async with connect(url, revision="2026-07-28") as client:
            found = msgspec.json.decode((await client.call_tool("state")).content[0].text)
            assert found == {"session": {}, "request": {}}  # of no session
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving

    run(main)
    assert app.seen == ["enter s", "handler", "handler", "leave s", "handler"]


# --- requests -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("meta", [META, None])
def test_b98_a_request_has_its_hooks_in_order_and_before_the_answer(run, meta):
    app = make()
    requests_of(app, "one")
    requests_of(app, "two")

    @app.add_middleware
    async def between(call, next):
        app.seen.append("middleware")
        await next(call)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            if meta is None:
                pipe.handshake()
            for tool in ("state", "in_thread"):
                found = msgspec.json.decode((await pipe.call(tool, meta=meta))["result"]["content"][0]["text"])
                assert found["request"] == {"one": tool, "two": tool}
            pipe.mux.close()

    run(main)
    around = ["enter one", "enter two", "middleware", "handler", "leave two", "leave one"]
    assert app.seen == [*around, *[each for each in around if each != "handler"]]


def test_methods_pick_requests(run):
    app = make()
    requests_of(app, methods=["tools/list"])

    async def main():
        async with app.running():
            pipe = Pipe(app)
            await pipe.call("state")
            await pipe.ask(1, "tools/list", {}, meta=META)
            pipe.mux.close()

    run(main)
    assert app.seen == ["handler", "enter r", "leave r"]


def test_a_hook_sees_failures_and_refuses(run):
    app = make()

    @app.on_request
    async def around(call):
        if call.name == "refused":
            raise ToolError("not you")
        try:
            yield
        except RpcError as exc:
            app.seen.append(exc.code)
            raise
        app.seen.append(call.tool_failed)
        if call.name == "state":
            raise RpcError(-32005, "the commit failed")

    async def main():
        async with app.running():
            pipe = Pipe(app)
            assert (await pipe.call("state"))["error"] == {"code": -32005, "message": "the commit failed"}
            refused = (await pipe.call("refused"))["result"]
            assert refused["isError"] and refused["content"][0]["text"] == "not you"
            assert refused["resultType"] == "complete"
            assert (await pipe.call("unknown"))["error"]["code"] == -32602
            assert (await pipe.call("fails"))["result"]["isError"]
            assert (await pipe.ask(1, "tools/list", {"cursor": "x"}, meta=META))["error"]["code"] == -32602
            pipe.mux.close()

    run(main)
    assert app.seen == ["handler", False, -32602, True, -32602]


def test_a_hook_that_keeps_a_failure_is_a_failure(run):
    app = make()

    @app.on_request
    async def around(call):
        with contextlib.suppress(RpcError):
            yield

    async def main():
        async with app.running():
            pipe = Pipe(app)
            assert (await pipe.call("unknown"))["error"]["code"] == -32603
            pipe.mux.close()

    run(main)
    assert app.seen == []


def test_mx15_a_cancelled_request_leaves_its_hooks(run):
    app = make()
    requests_of(app)

    @app.tool
    async def slow() -> str:
        app.seen.append("slow")
        await asyncio.sleep(60)
        return ""

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.send(1, "tools/call", {"name": "slow", "arguments": {}}, meta=META)
            await drained(app, "slow")
            pipe.send(None, "notifications/cancelled", {"requestId": 1})
            await drained(app, "leave r")
            assert pipe.out == [] and pipe.mux.in_flight == 0
            pipe.mux.close()

    run(main)
    assert app.seen == ["enter r", "slow", "leave r"]


@pytest.mark.parametrize("end", ["done", "cancel", "stop"])
def test_hooks_stay_around_a_call_that_becomes_a_task(run, end):
    """Its client has the handle long before; the handler still finds what the hook has opened."""
    app = make()
    requests_of(app)
    app.go = asyncio.Event()

    @app.tool(task="optional")
    async def work(ctx: Context) -> str:
        try:
            await app.go.wait()
        finally:
            app.seen.append(f"work {ctx.state}")
        return "done"

    async def main():
        async with app.running():
            pipe = Pipe(app)
            task = (await pipe.call("work", meta=TASKS))["result"]["taskId"]
            assert app.seen == ["enter r"] and pipe.mux.in_flight == 0
            if end == "done":
                app.go.set()
            elif end == "cancel":
                await pipe.ask(1, "tasks/cancel", {"taskId": task}, meta=TASKS)
            if end != "stop":
                await drained(app, "leave r", 1 if end == "done" else 2)
            pipe.mux.close()

    run(main)
    assert [each for each in app.seen if "work" in each] == ["work {'r': 'work'}"]
    assert app.seen[2] == "leave r"


def test_input_needed_runs_the_hooks_for_each_round(run):
    app = make()
    requests_of(app)

    class Person(msgspec.Struct):
        name: str

    @app.tool
    async def greet(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Person)).content.name + str(ctx.state)

    async def main():
        async def answer(*_):
            return {"name": "Ann"}

        for revision in ("2026-07-28", "2025-11-25"):
            async with connect(app, revision=revision, elicitation=answer) as client:
                assert (await client.call_tool("greet")).content[0].text == "Ann{'r': 'greet'}"

    run(main)
    assert app.seen == ["enter r", "leave r"] * 3


# --- both ---------------------------------------------------------------------------------------------


def test_hooks_that_do_not_end_do_not_keep_the_server(run, caplog):
    app = make(limits=Limits(drain_timeout=0.1))

    @app.on_session
    async def opened(session):
        yield
        await asyncio.sleep(60)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            await pipe.call("state")

    run(main)
    assert "did not end in time" in caplog.text


def test_a_session_hook_that_fails_at_the_end_is_logged(run, caplog):
    app = make()

    @app.on_session
    async def opened(session):
        yield
        raise ValueError("at the end")

    async def main():
        async with app.running():
            pipe = Pipe(app)
            await pipe.call("state")
            pipe.mux.close()
            await asyncio.sleep(0.02)

    run(main)
    assert "a hook failed at the end of a session" in caplog.text


def test_wrong_hooks_are_refused(run):
    app = make()

    async def no_yield(session):
        pass

    for wrong in (no_yield, 7):
        with pytest.raises(UsageError, match="one yield"):
            app.on_session(wrong)
        with pytest.raises(UsageError, match="one yield"):
            app.on_request(wrong)
    with pytest.raises(UsageError, match="ping"):
        app.on_request(contextlib.asynccontextmanager(no_yield), methods=["ping"])

    async def main():
        async with app.running():
            for register in (app.on_session, app.on_request):
                with pytest.raises(UsageError, match="before the server runs"):
                    register(contextlib.asynccontextmanager(no_yield))

    run(main)


def test_without_hooks_nothing_is_around_a_handler():
    app = make()
    plain = {name: type(handler) for name, handler in app.tables.modern.requests.items()}
    assert not app.hooks and plain[b"tools/call"] is not headrace.mux.FunctionHandler
    requests_of(app, methods=["tools/call"])
    assert {name: type(handler) for name, handler in app.tables.modern.requests.items()} == {
        **plain,
        b"tools/call": headrace.mux.FunctionHandler,
    }
