"""Tasks of a client against our server, in both eras and over every kind of transport (TK-01..TK-31)."""

import asyncio
import contextlib

import msgspec
import pytest
from scripted_peer import MODERN, Script, error, handshake

from headrace import (
    Context,
    Elicited,
    InputRequired,
    LocalProtocolError,
    NotOffered,
    RemoteProtocolError,
    RequestTimeout,
    RpcError,
    Server,
    SqliteTaskStore,
    TaskCancelled,
    ToolError,
    UsageError,
    connect,
)
from headrace.client.tasks import TaskState
from headrace.jsonrpc import R3, R4, R5
from headrace.transports.http_server import serve_http
from headrace.transports.stream import serve_lines


class Person(msgspec.Struct):
    name: str


def make(store=None, **options):
    app = Server("t", version="1")
    app.tasks(store, poll_interval=0.01, **options)
    app.running_now = set()

    @app.tool(task="optional")
    async def work(n: int, seconds: float = 0.02) -> int:
        app.running_now.add(n)
        try:
            await asyncio.sleep(seconds)
        finally:
            app.running_now.discard(n)
        return n

    @app.tool(task="required")
    async def heavy(n: int) -> int:
        return n * 2

    @app.tool(task="optional")
    async def fail() -> str:
        raise ToolError("as it does")

    @app.tool(task="optional")
    async def refuse() -> str:
        raise RpcError(-7, "refused", {"why": 1})

    @app.tool(task="optional")
    async def greet(ctx: Context) -> str:
        first = await ctx.elicit("Name?", Person)
        both = await asyncio.gather(ctx.elicit("One?", Person), ctx.sample("Hello", max_tokens=1))
        return f"{first.content.name} {both[0].content.name} {both[1].content.text}"

    @app.tool
    async def plain() -> str:
        return "plain"

    return app


@contextlib.asynccontextmanager
async def served(app, transport, tmp_path, **options):
    async with app.running(), contextlib.AsyncExitStack() as stack:
        target = app
        if transport == "unix":
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            stack.push_async_callback(listener.close)
            target = listener.addresses[0]
        elif transport == "http":
            listener = await serve_http(app, host="127.0.0.1", port=0)
            stack.push_async_callback(listener.close)
            target = listener.url
        async with connect(target, **{"tasks": True, **options}) as client:
            yield client


@pytest.fixture(params=["memory", "unix", "http"])
def transport(request):
    return request.param


@pytest.fixture(params=[R4, R5])
def revision(request):
    return request.param


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return None if request.param == "memory" else SqliteTaskStore(tmp_path / "tasks.db")


def test_tk21_tk29_calls_are_followed_to_their_end(run, transport, revision, tmp_path):
    app = make(SqliteTaskStore(tmp_path / "tasks.db") if transport == "unix" else None)

    async def main():
        async with served(app, transport, tmp_path, revision=revision) as client:
            results = await asyncio.gather(*(client.call_tool("work", {"n": n}) for n in range(8)))
            assert [result.structured_content or int(result.text) for result in results] == list(range(8))
            # TK-01: 2025-11-25 refuses the plain call of a required one; the client then asks for a task.
            assert (await client.call_tool("heavy", {"n": 4})).text == "8"
            failed = await client.call_tool("fail")
            assert failed.is_error and failed.text == "as it does"
            with pytest.raises(RpcError, match="refused") as caught:
                await client.call_tool("refuse")
            assert (caught.value.code, caught.value.data) == (-7, {"why": 1})
            assert (await client.call_tool("plain")).text == "plain"

    run(main)


def test_tk24_questions_are_answered_by_the_callbacks_once_each(run, transport, revision, tmp_path):
    app = make()
    asked = []

    async def elicitation(params):
        asked.append(params.message)
        await asyncio.sleep(0.05)  # several polls go by
        return {"name": params.message.strip("?")}

    async def sampling(params):
        return "hi"

    async def main():
        async with served(
            app, transport, tmp_path, revision=revision, elicitation=elicitation, sampling=sampling
        ) as client:
            handle = await client.start_tool("greet")
            result = await handle.result()
            assert result.text == "Name One hi" and sorted(asked) == ["Name?", "One?"]
            assert handle.status == "completed" or handle.state.status == "completed"

    run(main)


def test_handles_give_state_result_and_survive_the_client(run, revision, store, tmp_path):
    app = make(store)

    async def main():
        async with app.running():
            async with connect(app, tasks=True, revision=revision) as client:
                handle = await client.start_tool("work", {"n": 3, "seconds": 0.1}, ttl=60)
                assert handle.id and handle.status == "working" and "working" in repr(handle)
                assert (await handle.get()).status == "working"
                kept = handle.id
            async with connect(app, tasks=True, revision=revision) as client:
                handle = client.task(kept)
                assert handle.status == "unknown"
                assert (await handle.wait()).status == "completed"
                assert (await handle.result()).text == "3" and (await handle.result()).text == "3"
                for call in (client.task("nope").result, client.task("nope").get, client.task("nope").cancel):
                    with pytest.raises(RpcError) as caught:
                        await call()
                    assert caught.value.code == -32602

    run(main)


def test_tk25_cancelled_tasks(run, revision, tmp_path):
    app = make()

    async def main():
        async with served(app, "memory", tmp_path, revision=revision) as client:
            handle = await client.start_tool("work", {"n": 1, "seconds": 20})
            waiting = asyncio.ensure_future(handle.result())
            await asyncio.sleep(0.03)
            await handle.cancel()
            with pytest.raises(TaskCancelled):
                await waiting
            assert (await handle.get()).status == "cancelled" and app.running_now == set()
            if revision == R4:
                with pytest.raises(RpcError):
                    await handle.cancel()
            else:
                await handle.cancel()

    run(main)


def test_b75_who_stops_waiting_cancels_the_task(run, transport, tmp_path):
    app = make()

    async def main():
        async with served(app, transport, tmp_path, revision=R5) as client:
            call = asyncio.ensure_future(client.call_tool("work", {"n": 1, "seconds": 20}))
            await until(lambda: app.running_now)
            if transport == "http":
                await asyncio.sleep(0.2)  # the handle has to be there: over HTTP a cancel closes the way it comes
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            await until(lambda: not app.running_now)
            with pytest.raises(RequestTimeout, match="the task took longer"):
                await client.call_tool("work", {"n": 2, "seconds": 20}, max_total_timeout=0.1)
            await until(lambda: not app.running_now)
            call = asyncio.ensure_future(client.call_tool("work", {"n": 3, "seconds": 20}))
            await until(lambda: app.running_now)
            if transport == "http":
                await asyncio.sleep(0.2)
            call.cancel()
            await asyncio.sleep(0)
        await until(lambda: not app.running_now)
        with contextlib.suppress(asyncio.CancelledError):
            await call

    run(main)


async def until(condition):
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.002)
    raise AssertionError("it did not come")


def test_questions_without_a_callback(run, tmp_path):
    app = make()

    async def main():
        async with served(
            app, "memory", tmp_path, revision=R5, capabilities={"elicitation": {}, "sampling": {}}
        ) as client:
            with pytest.raises(InputRequired):
                await client.call_tool("greet")
            # By hand, key by key.
            handle = await client.start_tool("greet")
            names = iter("ABC")
            for _ in range(2):
                with pytest.raises(InputRequired) as caught:
                    await handle.wait()
                for key, request in caught.value.requests.items():
                    if request["method"] == "elicitation/create":
                        await handle.update({key: Elicited("accept", {"name": next(names)})})
                    else:
                        sampled = {"role": "assistant", "content": {"type": "text", "text": "yo"}, "model": "m"}
                        await handle.update({key: sampled})
            assert (await handle.result()).text == "A B yo"
            await until(lambda: not app._tasks.engine.runs)

    run(main)


def test_tk20_without_the_declaration_nothing_becomes_a_task(run, transport, revision, tmp_path):
    app = make()

    async def main():
        async with served(app, transport, tmp_path, revision=revision, tasks=False) as client:
            assert (await client.call_tool("work", {"n": 1})).text == "1"
            assert len(app._tasks.engine.store) == 0
            with pytest.raises(RpcError) as caught:
                await client.call_tool("heavy", {"n": 1})
            assert caught.value.code == (-32601 if revision == R4 else -32021)
            with pytest.raises(UsageError, match="tasks=True"):
                await client.start_tool("work")
            with pytest.raises(UsageError, match="tasks=True"):
                client.task("x")

    run(main)


def test_servers_and_tools_without_tasks(run, tmp_path):
    app = Server("t", version="1")

    @app.tool
    async def plain() -> str:
        return "plain"

    async def main():
        for revision in (R3, R4):
            async with connect(app, tasks=True, revision=revision) as client:
                assert (await client.call_tool("plain")).text == "plain"
                with pytest.raises(NotOffered):
                    await client.start_tool("plain")
                with pytest.raises(RpcError, match="unknown tool"):
                    await client.call_tool("nothing")
        async with connect(app, tasks=True, revision=R5) as client:
            handle = await client.start_tool("plain")
            assert handle.id == "" and handle.status == "completed" and (await handle.result()).text == "plain"
            for call in (handle.get, handle.cancel, handle.wait):
                with pytest.raises(LocalProtocolError):
                    await call()
        with_tasks = make()
        async with connect(with_tasks, tasks=True, revision=R4) as client:
            with pytest.raises(RpcError) as caught:
                await client.start_tool("plain")
            assert caught.value.code == -32601
            with pytest.raises(LocalProtocolError, match="requests of the server"):
                await (await client.start_tool("work", {"n": 1})).update({})

    run(main)


def test_two_processes_with_one_store_answer_for_each_others_tasks(run, revision, tmp_path):
    """A task runs on one server, and is looked at, answered and cancelled through another."""
    path = tmp_path / "tasks.db"
    one, two = make(SqliteTaskStore(path)), make(SqliteTaskStore(path))

    async def main():
        options = {"tasks": True, "revision": revision, "capabilities": {"elicitation": {}, "sampling": {}}}
        async with connect(one, **options) as here, connect(two, **options) as there:
            long = await here.start_tool("work", {"n": 5, "seconds": 0.1})
            assert (await there.task(long.id).result()).text == "5"
            endless = await here.start_tool("work", {"n": 6, "seconds": 20})
            await until(lambda: one.running_now)
            await there.task(endless.id).cancel()
            assert (await here.task(endless.id).get()).status == "cancelled"
            await until(lambda: not one.running_now)
            if revision == R5:
                asking = await here.start_tool("greet")
                far = there.task(asking.id)
                with pytest.raises(InputRequired) as caught:
                    await far.wait()
                (key,) = caught.value.requests
                await far.update({key: Elicited("accept", {"name": "Far"})})
                for _ in range(500):
                    state = await far.get()
                    if key not in msgspec.json.decode(state.input_requests or b"{}"):
                        break
                    await asyncio.sleep(0.005)
                assert state.status in ("working", "input_required")
                await far.cancel()

    run(main)


def test_mx04_progress_of_a_2025_11_25_task_reaches_the_callback(run, transport, tmp_path):
    app = make()

    @app.tool(task="required")
    async def steps(ctx: Context) -> str:
        for step in range(3):
            await asyncio.sleep(0.02)
            await ctx.progress(step + 1, 3)
        return "ok"

    async def main():
        async with served(app, transport, tmp_path, revision=R4) as client:
            seen = []
            result = await client.call_tool("steps", on_progress=lambda done, total, text: seen.append(done), timeout=5)
            assert result.text == "ok" and seen == sorted(seen) and seen[-1:] == [3]
            assert client._mux.debug_counts()["pending"] == 0

    run(main)


# --- middleware of the client -------------------------------------------------------------------------


def test_client_middleware_sees_every_request_and_the_end_of_tasks(run, transport, revision, tmp_path):
    app = make()
    seen = []

    async def audit(call, next):
        value = await next(call)
        seen.append((call.method, call.name, call.arguments, type(value).__name__))

    async def main():
        async with served(app, transport, tmp_path, revision=revision, middleware=[audit]) as client:
            assert (await client.call_tool("work", {"n": 3})).text == "3"
            assert (await client.list_tools())[0].name == "work"
            handle = await client.start_tool("work", {"n": 4})
            assert (await handle.result()).text == "4"
        assert seen == [
            ("tools/call", "work", {"n": 3}, "CallResult"),
            ("tools/list", None, {}, "ToolsPage"),
            ("tools/call", "work", {"n": 4}, "TaskHandle"),
        ]

    run(main)


def test_client_middleware_refuses_rewrites_and_replaces_in_order(run, revision, tmp_path):
    app = make()
    order = []

    async def outer(call, next):
        order.append("outer")
        if call.name == "plain":
            raise ToolError("not approved")
        value = await next(call)
        order.append("outer again")
        return value

    async def inner(call, next):
        order.append("inner")
        if call.arguments.get("n") == 0:
            call.params = {"name": "heavy", "arguments": {"n": 21}}
        else:
            call.arguments["n"] += 1
        value = await next(call)
        return msgspec.structs.replace(value, meta={"seen": True})

    async def main():
        async with served(app, "memory", tmp_path, revision=revision, middleware=[outer, inner]) as client:
            result = await client.call_tool("work", {"n": 1})
            assert result.text == "2" and result.meta == {"seen": True}
            assert (await client.call_tool("work", {"n": 0})).text == "42"
            with pytest.raises(ToolError, match="not approved"):
                await client.call_tool("plain")
        assert order == ["outer", "inner", "outer again", "outer", "inner", "outer again", "outer"]

    run(main)


def test_client_middleware_must_be_a_list_of_functions():
    for wrong in (lambda call, next: None, ["x"], [1]):
        with pytest.raises(UsageError, match="middleware must be a list"):
            connect(Server("t", version="1"), middleware=wrong)


def test_tk01_a_listed_tool_that_needs_a_task_is_called_as_one(run):
    """2025-11-25: what the list says is known at the first call; without a list the refusal tells."""
    app = Server("t", version="1")
    app.tasks()

    @app.tool(task="required")
    async def slow() -> str:
        return "done"

    async def main():
        for listed in (True, False):
            seen = []
            async with connect(app, revision="2025-11-25", tasks=True, tap=seen.append) as client:
                if listed:
                    await client.list_tools()
                assert (await client.call_tool("slow")).content[0].text == "done"
            calls = [m.message for m in seen if m.sent and b'"tools/call"' in m.message]
            assert [b'"task":{}' in call for call in calls] == ([True] if listed else [False, True])

    run(main)


# --- servers that are not ours ------------------------------------------------------------------------

CREATED = {
    "resultType": "task",
    "taskId": "t-1",
    "status": "working",
    "createdAt": "2026-01-01T00:00:00Z",
    "lastUpdatedAt": "2026-01-01T00:00:00Z",
    "ttlMs": None,
    "pollIntervalMs": 1,
}
EXTENSION = "io.modelcontextprotocol/tasks"


def state(**members):
    return {**CREATED, "resultType": "complete", **members}


def test_jr11_tk21_a_task_nobody_negotiated_is_an_invalid_answer(run):
    async def main():
        offers = {**MODERN, "capabilities": {"tools": {}, "prompts": {}}}
        async with Script(discover=offers, tools_call=CREATED, prompts_get=CREATED) as script:
            async with connect(script.target) as client:
                with pytest.raises(RemoteProtocolError, match="unknown resultType 'task'"):
                    await client.call_tool("x")
            async with connect(script.target, tasks=True) as client:
                with pytest.raises(RemoteProtocolError, match="unknown resultType 'task'"):
                    await client.get_prompt("x")
                with pytest.raises(RemoteProtocolError, match="unknown resultType 'task'"):
                    await client.request("tools/call", {"name": "x"})

    run(main)


def test_tk20_every_request_declares_the_extension_and_no_legacy_capability(run):
    async def main():
        done = {"content": [], "resultType": "complete"}
        async with Script(discover=MODERN, tools_call=done) as script, connect(script.target, tasks=True) as client:
            await client.call_tool("x")
            declared = script.seen[-1]["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
            assert declared["extensions"] == {EXTENSION: {}} and "tasks" not in declared
        legacy = Script(initialize=handshake(), discover=error(-32601), tools_call={"content": []})
        async with legacy as script, connect(script.target, tasks=True, revision=R4) as client:
            (hello,) = [m for m in script.seen if m["method"] == "initialize"]
            assert hello["params"]["capabilities"] == {}
            await client.call_tool("x")
            assert "task" not in script.seen[-1]["params"]

    run(main)


def test_b75_a_task_that_comes_after_its_call_was_given_up_is_cancelled(run):
    """The server's handle and the client's cancel cross: nobody else would ever stop that task."""
    given_up = asyncio.Event()

    async def call(message, writer):
        await given_up.wait()
        return CREATED

    async def main():
        given_up.clear()
        script = Script(discover=MODERN, tools_call=call, tasks_cancel={"resultType": "complete"})
        async with script, connect(script.target, tasks=True) as client:
            waiting = asyncio.ensure_future(client.call_tool("x"))
            await until(lambda: "tools/call" in script.methods)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            given_up.set()
            await until(lambda: "tasks/cancel" in script.methods)
            assert "notifications/cancelled" not in script.methods[: script.methods.index("tools/call")]
            assert script.seen[-1]["params"]["taskId"] == "t-1"
            await until(lambda: not client._jobs)
            assert client._mux.debug_counts()["pending"] == 0

    run(main)


def test_tk29_the_pace_is_the_servers_and_odd_paces_are_bounded():
    wishes = [(50, 0.05), (0, 1.0), (-1, 1.0), (None, 1.0), (True, 1.0), ("x", 1.0), (1, 0.02), (1e9, 60.0), (1500.5, 1.5005)]
    for wish, seconds in wishes:
        assert TaskState(task_id="t", status="working", poll_interval_ms=wish).pause == pytest.approx(seconds)
    assert TaskState(task_id="t", status="working", poll_interval=300).pause == 0.3


def test_tk24_a_key_is_answered_once_though_it_stays_listed(run):
    question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
    updates, asked = [], []

    def get(message, writer):
        assert message["params"]["taskId"] == "t-1"
        if len(updates) == 0:
            return state(status="input_required", inputRequests={"a": question})
        get.after += 1
        if get.after < 4:  # eventually consistent: still there for a while, then one more
            return state(status="input_required", inputRequests={"a": question})
        if len(updates) == 1:
            return state(status="input_required", inputRequests={"a": question, "b": question})
        return state(status="completed", result={"content": [{"type": "text", "text": "ok"}]})

    get.after = 0

    def update(message, writer):
        updates.append(message["params"]["inputResponses"])
        return {"resultType": "complete"}

    async def main():
        script = Script(discover=MODERN, tools_call=CREATED, tasks_get=get, tasks_update=update)
        async with script, connect(
            script.target, tasks=True, elicitation=lambda params: asked.append(1) or {}
        ) as client:
            assert (await client.call_tool("x")).text == "ok"
        assert [list(each) for each in updates] == [["a"], ["b"]] and len(asked) == 2

    run(main)


def test_tk24_a_task_that_never_stops_asking_is_not_asked_in_a_storm(run):
    question = {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {"type": "object"}}}
    asked = []

    def get(message, writer):
        return state(status="input_required", inputRequests={f"k{len(asked)}": question}, pollIntervalMs=1)

    async def main():
        done = {"resultType": "complete"}
        script = Script(discover=MODERN, tools_call=CREATED, tasks_get=get, tasks_update=done, tasks_cancel=done)
        async with script, connect(
            script.target, tasks=True, elicitation=lambda params: asked.append(1) or {}
        ) as client:
            with pytest.raises(RequestTimeout, match="the task took longer"):
                await client.call_tool("x", max_total_timeout=0.7)
        assert 1 <= len(asked) <= 12

    run(main)


@pytest.mark.parametrize(
    ("answer", "raised", "words"),
    [
        (state(status="failed", error={"code": -5, "message": "broke", "data": [1]}), RpcError, "broke"),
        (state(status="failed", statusMessage="no error given"), RpcError, "no error given"),
        (state(status="cancelled", statusMessage="by the admin"), TaskCancelled, "by the admin"),
        (state(status="completed", result={"content": 7}), RemoteProtocolError, "result of the task"),
        (state(status="completed"), RemoteProtocolError, "gives no result"),
        (
            state(status="completed", result={"resultType": "input_required", "requestState": "x"}),
            RemoteProtocolError,
            "client input where it must not",
        ),
        (state(status="sleeping"), RemoteProtocolError, "unknown task status"),
        (state(taskId="t-2", status="working"), RemoteProtocolError, "another task"),
        (state(status="input_required", inputRequests=[1]), RemoteProtocolError, "inputRequests"),
        (CREATED, RemoteProtocolError, "unknown resultType"),
        (error(-32602), RpcError, "no"),
    ],
)
def test_ends_of_tasks_and_answers_that_break_the_rules(run, answer, raised, words):
    async def main():
        script = Script(discover=MODERN, tools_call=CREATED, tasks_get=answer, tasks_cancel={"resultType": "complete"})
        async with script, connect(script.target, tasks=True) as client:
            with pytest.raises(raised, match=words):
                await client.call_tool("x")

    run(main)


def test_tk28_hn03_the_header_names_the_task(run, tmp_path):
    """Our server refuses task requests whose Mcp-Name is not the id (HN-30), so the client must send it: also raw ones."""
    app = make()

    async def main():
        async with served(app, "http", tmp_path, revision=R5) as client:
            handle = await client.start_tool("work", {"n": 1, "seconds": 20})
            found = await client.request("tasks/get", {"taskId": handle.id})
            assert found["status"] == "working"
            await client.request("tasks/cancel", {"taskId": handle.id})
            assert (await handle.get()).status == "cancelled"

    run(main)


def test_tk28_middleware_knows_which_task_is_meant(run):
    app = Server("t", version="1")
    app.tasks(poll_interval=0.01)
    seen = []

    @app.tool(task="required")
    async def slow() -> str:
        return "done"

    async def audit(call, next):
        seen.append((call.method, call.name))
        return await next(call)

    async def main():
        async with connect(app, tasks=True, middleware=[audit]) as client:
            handle = await client.start_tool("slow")
            await handle.wait()
            await client.request("tasks/get", {"taskId": handle.id})
            # polls belong to the call; what the application asks for itself is seen
            assert seen == [("tools/call", "slow"), ("tasks/get", handle.id)]

    run(main)
