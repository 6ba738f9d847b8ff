"""Tasks of a server: the extension of 2026-07-28 (TK-20..TK-31) and the experimental ones of 2025-11-25 (TK-01..TK-05)."""

import asyncio
import json

import msgspec
import pytest
from server_pipe import META, Pipe

from headrace import Context, Limits, RpcError, Server, ToolError, UsageError

EXT = "io.modelcontextprotocol/tasks"
RELATED = "io.modelcontextprotocol/related-task"
TASKS = {
    **META,
    "io.modelcontextprotocol/clientCapabilities": {"extensions": {EXT: {}}, "elicitation": {}, "sampling": {}},
}
SAMPLED = {"role": "assistant", "content": {"type": "text", "text": "Bob"}, "model": "m"}


class Person(msgspec.Struct):
    name: str


def make(**options):
    limits = options.pop("limits", None)
    app = Server("t", version="1", limits=limits)
    app.tasks(**{"poll_interval": 0.01, **options})
    app.seen = []

    @app.tool(task="optional")
    async def work(ctx: Context, n: int = 1) -> str:
        app.seen.append(n)
        await ctx.progress(1, 2, "half way")
        try:
            await app.go.wait()
        except asyncio.CancelledError:
            app.seen.append("cancelled")
            raise
        return f"done {n}"

    @app.tool(task="required")
    async def heavy() -> int:
        return 7

    @app.tool(task="optional")
    async def fail() -> str:
        raise ToolError("as it does")

    @app.tool(task="optional")
    async def refuse() -> str:
        raise RpcError(-7, "refused", {"why": 1})

    @app.tool(task="optional")
    async def greet(ctx: Context) -> str:
        first = await ctx.elicit("Name?", Person)
        second = await ctx.sample("Hello", max_tokens=1)
        return f"{first.content.name} {second.content.text}"

    @app.tool(task="optional", task_after=0.05)
    async def maybe(wait: bool, asks: bool, ctx: Context) -> str:
        if asks:
            await ctx.elicit("Sure?")
        if wait:
            await app.go.wait()
        return "maybe"

    @app.tool(task="optional")
    def threaded() -> str:
        return "from a thread"

    @app.tool
    async def plain() -> str:
        return "plain"

    return app


def serve(run, app, body, legacy=False):
    async def main():
        app.go = asyncio.Event()
        async with app.running():
            pipe = Pipe(app)
            if legacy:
                pipe.handshake()
            await body(pipe)
            await settled(pipe, app)
            pipe.mux.close()
            assert app.runtime.in_flight == 0
        assert app._tasks.engine.runs == {} and not app._tasks.engine._jobs

    run(main)


async def settled(pipe, app):
    app.go.set()
    for _ in range(500):
        if not app._tasks.engine.runs and not set(pipe.mux.debug_counts().values()) - {0}:
            return
        await asyncio.sleep(0.002)
    raise AssertionError(f"left: {app._tasks.engine.runs} {pipe.mux.debug_counts()}")


async def until(pipe, task_id, *states, legacy=False):
    for _ in range(500):
        answer = await pipe.ask("poll", "tasks/get", {"taskId": task_id}, meta=None if legacy else TASKS)
        if answer["result"]["status"] in states:
            return answer["result"]
        await asyncio.sleep(0.002)
    raise AssertionError(answer)


# --- the extension ------------------------------------------------------------------------------------


def test_tk20_tk21_tk23_a_declared_call_becomes_a_flat_task_and_completes(run):
    app = make()

    async def body(pipe):
        created = (await pipe.call("work", {"n": 5}, meta=TASKS))["result"]
        assert created["resultType"] == "task" and created["status"] == "working" and "task" not in created
        assert created["_meta"] == {"io.modelcontextprotocol/serverInfo": {"name": "t", "version": "1"}}
        assert created["ttlMs"] == 3_600_000 and created["pollIntervalMs"] == 10 and len(created["taskId"]) >= 32
        assert created["createdAt"].endswith("Z") and created["createdAt"] == created["lastUpdatedAt"]
        # TK-22: it is there at once.
        found = (await pipe.ask(2, "tasks/get", {"taskId": created["taskId"]}, meta=TASKS))["result"]
        assert found["status"] == "working" and found["resultType"] == "complete"
        assert not {"result", "error", "inputRequests"} & found.keys()
        assert pipe.mux.in_flight == 0 and app.seen == [5]
        app.go.set()
        done = await until(pipe, created["taskId"], "completed")
        assert done["result"]["content"] == [{"type": "text", "text": "done 5"}]
        assert done["result"]["structuredContent"] == "done 5" if "structuredContent" in done["result"] else True
        assert pipe.out == []  # MX-04: no progress of a task

    serve(run, app, body)


def test_tk20_undeclared_calls_run_as_ever_and_task_params_mean_nothing(run):
    app = make()

    async def body(pipe):
        app.go.set()
        answer = (await pipe.call("work", meta=META))["result"]
        assert answer["resultType"] == "complete" and answer["content"][0]["text"] == "done 1"
        legacy = {**META, "io.modelcontextprotocol/clientCapabilities": {"tasks": {"requests": {"tools": {"call": {}}}}}}
        answer = await pipe.ask(3, "tools/call", {"name": "plain", "task": {"ttl": 5}}, meta=legacy)
        assert answer["result"]["resultType"] == "complete"  # TK-30
        answer = await pipe.ask(4, "tools/call", {"name": "work", "task": {"ttl": 5}}, meta=legacy)
        assert answer["result"]["resultType"] == "complete"

    serve(run, app, body)


def test_tk26_required_tools_and_task_methods_want_the_declaration(run):
    app = make()

    async def body(pipe):
        answers = [(await pipe.call("heavy", meta=META))["error"]]
        for method, params in (
            ("tasks/get", {"taskId": "x"}),
            ("tasks/update", {"taskId": "x", "inputResponses": {}}),
            ("tasks/cancel", {"taskId": "x"}),
            ("subscriptions/listen", {"notifications": {"taskIds": ["x"]}}),
        ):
            answers.append((await pipe.ask(1, method, params, meta=META))["error"])
        for error in answers:
            assert error["code"] == -32021
            assert error["data"] == {"requiredCapabilities": {"extensions": {EXT: {}}}}
        created = (await pipe.call("heavy", meta=TASKS))["result"]
        assert (await until(pipe, created["taskId"], "completed"))["result"]["structuredContent"] == 7

    serve(run, app, body)


def test_tk30_removed_methods_and_capabilities_of_both_eras(run):
    app = make(listing=True)

    async def body(pipe):
        for method in ("tasks/result", "tasks/list"):
            assert (await pipe.ask(1, method, {"taskId": "x"}, meta=TASKS))["error"]["code"] == -32601
        discovered = (await pipe.ask(2, "server/discover", meta=META))["result"]["capabilities"]
        assert discovered["extensions"] == {EXT: {}} and "tasks" not in discovered
        pipe.send("i", "initialize", {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "c", "version": "0"}})
        offered = pipe.out.pop()["result"]["capabilities"]
        assert offered["tasks"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
        assert EXT not in offered.get("extensions", {})
        pipe.send(None, "notifications/initialized")
        tools = (await pipe.ask(3, "tools/list"))["result"]["tools"]
        support = {tool["name"]: tool.get("execution") for tool in tools}
        assert support["work"] == {"taskSupport": "optional"} and support["heavy"] == {"taskSupport": "required"}
        assert support["plain"] is None
        modern = (await pipe.ask(4, "tools/list", meta=META))["result"]["tools"]
        assert all("execution" not in tool for tool in modern)

    serve(run, app, body)


def test_without_tools_for_tasks_nothing_of_them_is_offered(run):
    app = Server("t", version="1")
    assert app.capabilities("2026-07-28").get("extensions") is None
    assert b"tasks/get" not in app.tables.modern.requests
    app.add_tool(lambda: None, name="x", task="optional")
    assert b"tasks/get" in app.tables.modern.requests
    with pytest.raises(UsageError, match="before the first tool"):
        app.tasks()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"task": "maybe"}, "forbidden"),
        ({"task_after": 1.0}, "task_after"),
        ({"task": "required", "task_after": 1.0}, "begins at once"),
        ({"task": "optional", "task_ttl": 0}, "task_ttl"),
    ],
)
def test_wrong_task_options_are_refused(options, words):
    with pytest.raises(UsageError, match=words):
        Server("t", version="1").add_tool(lambda: None, name="x", **options)


def test_tk23_failed_tools_complete_and_errors_fail(run):
    app = make()

    async def body(pipe):
        failed_tool = (await pipe.call("fail", meta=TASKS))["result"]["taskId"]
        refused = (await pipe.call("refuse", meta=TASKS))["result"]["taskId"]
        bad = (await pipe.call("work", {"n": "x"}, meta=TASKS))["result"]["taskId"]
        done = await until(pipe, failed_tool, "completed")
        assert done["result"]["isError"] is True and done["statusMessage"] == "as it does"
        failed = await until(pipe, refused, "failed")
        assert failed["error"] == {"code": -7, "message": "refused", "data": {"why": 1}}
        assert failed["statusMessage"] == "refused" and "result" not in failed
        assert (await until(pipe, bad, "completed"))["result"]["isError"] is True  # JR-36

    serve(run, app, body)


def test_tk23_tk31_unknown_ids_and_bad_params(run):
    app = make()

    async def body(pipe):
        for method in ("tasks/get", "tasks/cancel", "tasks/update"):
            extra = {"inputResponses": {}} if method == "tasks/update" else {}
            for task_id in ("nope", "", "x" * 100_000):
                error = (await pipe.ask(1, method, {"taskId": task_id, **extra}, meta=TASKS))["error"]
                assert error["code"] == -32602 and "unknown task" in error["message"]
            for params in ({}, {"taskId": 7}, {"taskId": None}):
                assert (await pipe.ask(1, method, params, meta=TASKS))["error"]["code"] == -32602
        task = (await pipe.call("work", meta=TASKS))["result"]["taskId"]
        for responses in (7, {"input-1": 7}, None):
            params = {"taskId": task, "inputResponses": responses}
            assert (await pipe.ask(1, "tasks/update", params, meta=TASKS))["error"]["code"] == -32602

    serve(run, app, body)


def test_tk23_tk24_questions_are_input_requests_with_keys_never_used_twice(run):
    app = make()

    async def body(pipe):
        task = (await pipe.call("greet", meta=TASKS))["result"]["taskId"]
        asked = await until(pipe, task, "input_required")
        assert asked == await until(pipe, task, "input_required")
        (key,) = asked["inputRequests"]
        assert asked["inputRequests"][key]["method"] == "elicitation/create"
        assert asked["inputRequests"][key]["params"]["message"] == "Name?"
        answer = {"action": "accept", "content": {"name": "Ann"}}
        update = {"taskId": task, "inputResponses": {key: answer, "other": {}}}
        assert (await pipe.ask(1, "tasks/update", update, meta=TASKS))["result"]["resultType"] == "complete"
        for _ in range(100):
            asked = await until(pipe, task, "input_required", "working")
            if asked["status"] == "input_required":
                break
            await asyncio.sleep(0.002)
        (second,) = asked["inputRequests"]
        assert second != key and asked["inputRequests"][second]["method"] == "sampling/createMessage"
        # An answered key is ignored.
        assert "result" in await pipe.ask(1, "tasks/update", update, meta=TASKS)
        assert list((await until(pipe, task, "input_required"))["inputRequests"]) == [second]
        update = {"taskId": task, "inputResponses": {second: SAMPLED}}
        await pipe.ask(1, "tasks/update", update, meta=TASKS)
        done = await until(pipe, task, "completed")
        assert done["result"]["content"][0]["text"] == "Ann Bob"
        assert "result" in await pipe.ask(1, "tasks/update", update, meta=TASKS)

    serve(run, app, body)


def test_tk25_cancel_is_acknowledged_and_reaches_the_handler(run):
    app = make()

    async def body(pipe):
        task = (await pipe.call("work", meta=TASKS))["result"]["taskId"]
        ack = (await pipe.ask(1, "tasks/cancel", {"taskId": task}, meta=TASKS))["result"]
        assert ack["resultType"] == "complete" and "taskId" not in ack
        found = await until(pipe, task, "cancelled")
        assert not {"result", "error"} & found.keys()
        await asyncio.sleep(0.01)
        assert app.seen == [1, "cancelled"]
        assert "result" in await pipe.ask(1, "tasks/cancel", {"taskId": task}, meta=TASKS)
        assert (await until(pipe, task, "cancelled"))["lastUpdatedAt"] == found["lastUpdatedAt"]

    serve(run, app, body)


def test_tk25_a_cancel_while_input_is_asked_for(run):
    app = make()

    async def body(pipe):
        task = (await pipe.call("greet", meta=TASKS))["result"]["taskId"]
        await until(pipe, task, "input_required")
        await pipe.ask(1, "tasks/cancel", {"taskId": task}, meta=TASKS)
        assert "inputRequests" not in await until(pipe, task, "cancelled")

    serve(run, app, body)


def test_task_after_answers_directly_or_hands_out_a_task(run):
    app = make()

    async def body(pipe):
        quick = (await pipe.call("maybe", {"wait": False, "asks": False}, meta=TASKS))["result"]
        assert quick["resultType"] == "complete" and quick["content"][0]["text"] == "maybe"
        assert len(app._tasks.engine.store) == 0
        slow = (await pipe.call("maybe", {"wait": True, "asks": False}, meta=TASKS))["result"]
        assert slow["resultType"] == "task" and slow["status"] == "working"
        asking = (await pipe.call("maybe", {"wait": False, "asks": True}, meta=TASKS))["result"]
        assert asking["resultType"] == "task" and asking["status"] == "input_required"
        asked = (await until(pipe, asking["taskId"], "input_required"))["inputRequests"]
        update = {"taskId": asking["taskId"], "inputResponses": {key: {"action": "decline"} for key in asked}}
        await pipe.ask(1, "tasks/update", update, meta=TASKS)
        app.go.set()
        for created in (slow, asking):
            assert (await until(pipe, created["taskId"], "completed"))["result"]["content"][0]["text"] == "maybe"

    serve(run, app, body)


def test_task_after_a_request_given_up_early_leaves_no_task(run):
    app = make()

    async def body(pipe):
        pipe.send(9, "tools/call", {"name": "maybe", "arguments": {"wait": True, "asks": False}}, meta=TASKS)
        pipe.send(None, "notifications/cancelled", {"requestId": 9})
        await asyncio.sleep(0.08)
        assert len(app._tasks.engine.store) == 0 and pipe.out == []

    serve(run, app, body)


@pytest.mark.parametrize("kind", ["async", "thread"])
def test_tk22_questions_first_then_a_task_when_the_handler_says_so(run, kind):
    app = make()
    went_on = []

    @app.tool(task="required", task_start="handler")
    async def order(ctx: Context, ask: bool = True) -> str:
        name = (await ctx.elicit("Name?", Person)).content.name if ask else "nobody"
        went_on.append(await ctx.start_task())
        assert await ctx.start_task() is True
        second = await ctx.elicit("Sure?")
        return f"{name} {second.action}"

    @app.tool(task="optional", task_start="handler")
    def threaded_order(ctx: Context, ask: bool = True) -> str:
        name = ctx.elicit("Name?", Person).content.name if ask else "nobody"
        went_on.append(ctx.start_task())
        return f"{name} {ctx.elicit('Sure?').action}"

    @app.tool(task="required", task_start="handler")
    async def never() -> str:
        return "at once"

    tool = "order" if kind == "async" else "threaded_order"

    async def body(pipe):
        assert (await pipe.call("never", meta=TASKS))["result"]["content"][0]["text"] == "at once"
        asked = (await pipe.call(tool, meta=TASKS))["result"]
        assert asked["resultType"] == "input_required" and "taskId" not in asked and went_on == []
        (key,) = asked["inputRequests"]
        params = {
            "name": tool,
            "arguments": {},
            "inputResponses": {key: {"action": "accept", "content": {"name": "Ann"}}},
            "requestState": asked["requestState"],
        }
        created = (await pipe.ask(5, "tools/call", params, meta=TASKS))["result"]
        assert created["resultType"] == "task" and "requestState" not in created and "inputRequests" not in created
        waiting = await until(pipe, created["taskId"], "input_required")
        assert went_on == [True]
        answers = {key: {"action": "decline"} for key in waiting["inputRequests"]}
        await pipe.ask(6, "tasks/update", {"taskId": created["taskId"], "inputResponses": answers}, meta=TASKS)
        done = await until(pipe, created["taskId"], "completed")
        assert done["result"]["content"][0]["text"] == "Ann decline"
        if kind == "thread":
            declared = {"elicitation": {}}
            meta = {**META, "io.modelcontextprotocol/clientCapabilities": declared}
            answer = (await pipe.ask(7, "tools/call", {"name": tool, "arguments": {"ask": False}}, meta=meta))["result"]
            assert answer["resultType"] == "input_required" and went_on[-1] is False

    serve(run, app, body)


def test_tk22_no_room_for_the_task_is_told_to_the_handler(run):
    app = make(limits=Limits(max_tasks=1))

    @app.tool(task="optional", task_start="handler")
    async def order(ctx: Context) -> str:
        try:
            await ctx.start_task()
        except RpcError as exc:
            return f"direct: {exc.code}"
        return "task"

    async def body(pipe):
        assert (await pipe.call("order", meta=TASKS))["result"]["resultType"] == "task"
        answer = (await pipe.call("order", meta=TASKS))["result"]
        assert answer["resultType"] == "complete" and answer["content"][0]["text"] == "direct: -32603"

    serve(run, app, body)


def test_tools_in_threads_run_as_tasks(run):
    app = make()

    async def body(pipe):
        task = (await pipe.call("threaded", meta=TASKS))["result"]["taskId"]
        assert (await until(pipe, task, "completed"))["result"]["content"][0]["text"] == "from a thread"

    serve(run, app, body)


def test_progress_of_a_task_becomes_its_status_message(run):
    app = make()

    async def body(pipe):
        task = (await pipe.call("work", meta={**TASKS, "progressToken": 4}))["result"]["taskId"]
        for _ in range(1000):
            found = await until(pipe, task, "working")
            if "statusMessage" in found:
                break
            await asyncio.sleep(0.005)
        assert found["statusMessage"] == "half way" and pipe.out == []

    serve(run, app, body)


def test_tk27_notifications_on_a_listen(run):
    app = make()

    async def body(pipe):
        task = (await pipe.call("greet", meta=TASKS))["result"]["taskId"]
        await until(pipe, task, "input_required")
        pipe.send("L", "subscriptions/listen", {"notifications": {"taskIds": [task, "unknown"]}}, meta=TASKS)
        await asyncio.sleep(0.02)
        ack, present = pipe.out
        assert ack["params"]["notifications"] == {"taskIds": [task]}
        assert present["method"] == "notifications/tasks" and present["params"]["status"] == "input_required"
        pipe.out.clear()
        (key,) = present["params"]["inputRequests"]
        update = {"taskId": task, "inputResponses": {key: {"action": "accept", "content": {"name": "B"}}}}
        await pipe.ask(1, "tasks/update", update, meta=TASKS)
        await pipe.ask(1, "tasks/cancel", {"taskId": task}, meta=TASKS)
        await asyncio.sleep(0.02)
        last = pipe.out[-1]
        assert last["params"]["status"] == "cancelled" and last["params"]["taskId"] == task
        assert last["params"]["_meta"] == {"io.modelcontextprotocol/subscriptionId": "L"}
        pipe.send(None, "notifications/cancelled", {"requestId": "L"})

    serve(run, app, body)


def test_tk05_bounds_of_tasks(run):
    app = make(limits=Limits(max_tasks=2, max_task_result_bytes=300))

    @app.tool(task="optional")
    async def big(size: int) -> str:
        return "x" * size

    async def body(pipe):
        first = (await pipe.call("big", {"size": 10}, meta=TASKS))["result"]["taskId"]
        second = (await pipe.call("big", {"size": 1000}, meta=TASKS))["result"]["taskId"]
        error = (await pipe.call("big", {"size": 1}, meta=TASKS))["error"]
        assert error["code"] == -32603 and "max_tasks" in error["message"]
        assert app.seen == []
        await until(pipe, first, "completed")
        failed = await until(pipe, second, "failed")
        assert "max_task_result_bytes" in failed["statusMessage"] and failed["error"]["code"] == -32603
        # task_after falls back to a direct answer.
        app.go.set()
        answer = (await pipe.call("maybe", {"wait": False, "asks": False}, meta=TASKS))["result"]
        assert answer["resultType"] == "complete"

    serve(run, app, body)


def test_tk29_tasks_end_and_vanish_with_their_time(run):
    app = make(ttl=0.05)

    async def body(pipe):
        created = (await pipe.call("work", meta=TASKS))["result"]
        assert created["ttlMs"] == 50
        await asyncio.sleep(0.06)
        assert (await pipe.ask(1, "tasks/get", {"taskId": created["taskId"]}, meta=TASKS))["error"]["code"] == -32602
        await app._tasks.engine.sweep()
        await asyncio.sleep(0.02)
        assert app.seen == [1, "cancelled"] and len(app._tasks.engine.store) == 0

    serve(run, app, body)


def test_tasks_that_run_when_the_server_stops_fail_with_a_word(run):
    app = make()

    async def main():
        app.go = asyncio.Event()
        async with app.running():
            pipe = Pipe(app)
            task = (await pipe.call("work", meta=TASKS))["result"]["taskId"]
            pipe.mux.close()
        async with app.running():
            pipe = Pipe(app)
            found = await until(pipe, task, "failed")
            assert "stopped" in found["statusMessage"] and app.seen == [1, "cancelled"]
            pipe.mux.close()

    run(main)


# --- 2025-11-25 ---------------------------------------------------------------------------------------


async def create(pipe, tool, arguments=None, *, task=None, id="c", meta=None):
    params = {"name": tool, "arguments": arguments or {}, "task": task or {}}
    return (await pipe.ask(id, "tools/call", params, meta=meta))["result"]


def test_tk02_tk03_a_call_that_asks_for_a_task(run):
    app = make()

    async def body(pipe):
        created = await create(pipe, "work", {"n": 2}, task={"ttl": 60_000})
        task = created["task"]
        assert task["status"] == "working" and task["ttl"] == 60_000 and task["pollInterval"] == 10
        assert set(created) == {"task", "_meta"} and created["_meta"][RELATED] == {"taskId": task["taskId"]}
        found = (await pipe.ask(1, "tasks/get", {"taskId": task["taskId"]}))["result"]
        assert found == {**found, "taskId": task["taskId"], "status": "working"} and "_meta" not in found
        pipe.send("r", "tasks/result", {"taskId": task["taskId"]})
        await asyncio.sleep(0.02)
        assert [m for m in pipe.out if m.get("id") == "r"] == []  # it blocks
        app.go.set()
        for _ in range(500):
            answers = [m for m in pipe.out if m.get("id") == "r"]
            if answers:
                break
            await asyncio.sleep(0.002)
        assert answers[0]["result"]["content"][0]["text"] == "done 2"
        assert answers[0]["result"]["_meta"][RELATED] == {"taskId": task["taskId"]}
        again = (await pipe.ask(2, "tasks/result", {"taskId": task["taskId"]}))["result"]
        assert again == answers[0]["result"]
        states = [m["params"]["status"] for m in pipe.out if m.get("method") == "notifications/tasks/status"]
        assert states[-1] == "completed"

    serve(run, app, body, legacy=True)


def test_tk01_tool_level_support(run):
    app = make()

    async def body(pipe):
        assert (await pipe.call("heavy", meta=None))["error"]["code"] == -32601
        params = {"name": "plain", "task": {}}
        assert (await pipe.ask(1, "tools/call", params))["error"]["code"] == -32601
        # The letters alone ask for nothing.
        params = {"name": "plain", "arguments": {"task": 1}}
        assert "result" in await pipe.ask(2, "tools/call", params)
        app.go.set()
        assert (await pipe.call("work", meta=None))["result"]["content"][0]["text"] == "done 1"
        for ttl in (0, -1, "x", True, 2**60):
            params = {"name": "work", "task": {"ttl": ttl}}
            assert (await pipe.ask(3, "tools/call", params))["error"]["code"] == -32602

    serve(run, app, body, legacy=True)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18"])
def test_tk02_a_revision_without_tasks_ignores_the_wish(run, revision):
    app = make()
    if revision not in app.tables.by_name:
        pytest.skip("not served yet")

    async def body(pipe):
        pipe.send("i", "initialize", {"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "0"}})
        assert "tasks" not in pipe.out.pop()["result"]["capabilities"]
        pipe.send(None, "notifications/initialized")
        app.go.set()
        for name in ("plain", "work"):
            answer = await pipe.ask(1, "tools/call", {"name": name, "task": {}})
            assert answer["result"]["content"][0]["type"] == "text"
        assert (await pipe.ask(2, "tasks/get", {"taskId": "x"}))["error"]["code"] == -32601

    serve(run, app, body)


def test_tk04_a_failed_tool_is_a_failed_task_with_its_own_result(run):
    app = make()

    async def body(pipe):
        tool = (await create(pipe, "fail"))["task"]["taskId"]
        error = (await create(pipe, "refuse"))["task"]["taskId"]
        found = await until(pipe, tool, "failed", legacy=True)
        assert found["statusMessage"] == "as it does"
        result = (await pipe.ask(1, "tasks/result", {"taskId": tool}))["result"]
        assert result["isError"] is True and result["content"][0]["text"] == "as it does"
        await until(pipe, error, "failed", legacy=True)
        answer = await pipe.ask(2, "tasks/result", {"taskId": error})
        assert answer["error"] == {"code": -7, "message": "refused", "data": {"why": 1}}

    serve(run, app, body, legacy=True)


def test_tk03_cancel_answers_with_the_cancelled_task_and_once_only(run):
    app = make()

    async def body(pipe):
        task = (await create(pipe, "work"))["task"]["taskId"]
        pipe.send("r", "tasks/result", {"taskId": task})
        cancelled = (await pipe.ask(1, "tasks/cancel", {"taskId": task}))["result"]
        assert cancelled["status"] == "cancelled" and cancelled["taskId"] == task
        assert (await pipe.ask(2, "tasks/cancel", {"taskId": task}))["error"]["code"] == -32602
        await asyncio.sleep(0.01)
        (blocked,) = [m for m in pipe.out if m.get("id") == "r"]
        assert blocked["error"]["message"] == "the task was cancelled"
        assert app.seen == [1, "cancelled"]
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            assert (await pipe.ask(3, method, {"taskId": "nope"}))["error"]["code"] == -32602

    serve(run, app, body, legacy=True)


def test_mx10_giving_up_tasks_result_leaves_the_task(run):
    app = make()

    async def body(pipe):
        task = (await create(pipe, "work"))["task"]["taskId"]
        pipe.send("r", "tasks/result", {"taskId": task})
        pipe.send(None, "notifications/cancelled", {"requestId": "r"})
        await asyncio.sleep(0.01)
        assert (await until(pipe, task, "working", legacy=True))["status"] == "working" and pipe.mux.in_flight == 0
        app.go.set()
        assert "result" in await pipe.ask(2, "tasks/result", {"taskId": task})

    serve(run, app, body, legacy=True)


def test_mx04_progress_of_a_task_goes_on_under_the_token_and_is_related(run):
    app = make()

    @app.tool(task="optional")
    async def steps(ctx: Context) -> str:
        await app.go.wait()
        await ctx.progress(1, 2, "one")
        await ctx.log("info", {"a": 1})
        return "ok"

    async def body(pipe):
        task = (await create(pipe, "steps", meta={"progressToken": 9}))["task"]["taskId"]
        app.go.set()
        await pipe.ask(2, "tasks/result", {"taskId": task})
        notes = [m for m in pipe.out if m["method"] in ("notifications/progress", "notifications/message")]
        assert notes[0]["params"] == {
            "progressToken": 9, "progress": 1, "total": 2, "message": "one", "_meta": {RELATED: {"taskId": task}},
        }  # fmt: skip
        assert notes[1]["params"]["_meta"] == {RELATED: {"taskId": task}}
        statuses = [m for m in pipe.out if m["method"] == "notifications/tasks/status"]
        assert statuses and all("_meta" not in m["params"] for m in statuses)

    serve(run, app, body, legacy=True)


def test_tk04_questions_go_out_with_tasks_result_related_to_the_task(run):
    app = make()

    async def body(pipe):
        pipe.declares({"elicitation": {}, "sampling": {}})
        task = (await create(pipe, "greet"))["task"]["taskId"]
        await until(pipe, task, "input_required", legacy=True)
        assert not [m for m in pipe.out if "id" in m]
        # The first tasks/result is given up while its question is out: the next one asks again.
        pipe.send("r0", "tasks/result", {"taskId": task})
        await asyncio.sleep(0.01)
        assert [m["method"] for m in pipe.out if "id" in m] == ["elicitation/create"]
        pipe.send(None, "notifications/cancelled", {"requestId": "r0"})
        await asyncio.sleep(0.01)
        pipe.out.clear()
        pipe.send("r", "tasks/result", {"taskId": task})
        for content in ({"action": "accept", "content": {"name": "Ann"}}, SAMPLED):
            for _ in range(500):
                asked = [m for m in pipe.out if "id" in m and "method" in m]
                if asked:
                    break
                await asyncio.sleep(0.002)
            (question,) = asked
            assert question["params"]["_meta"][RELATED] == {"taskId": task}
            pipe.out.clear()
            pipe.raw(json.dumps({"jsonrpc": "2.0", "id": question["id"], "result": content}).encode())
        for _ in range(500):
            done = [m for m in pipe.out if m.get("id") == "r"]
            if done:
                break
            await asyncio.sleep(0.002)
        assert done[0]["result"]["content"][0]["text"] == "Ann Bob"

    serve(run, app, body, legacy=True)


def test_tk05_tasks_list_pages_in_order_and_only_where_offered(run):
    app = make(listing=True, limits=Limits(page_size=2))

    async def body(pipe):
        made = [(await create(pipe, "threaded", id=i))["task"]["taskId"] for i in range(5)]
        found, cursor = [], None
        for _ in range(3):
            page = (await pipe.ask(1, "tasks/list", {"cursor": cursor} if cursor else {}))["result"]
            found += [task["taskId"] for task in page["tasks"]]
            cursor = page.get("nextCursor")
        assert found == made and cursor is None
        for bad in ("x", "", "dDE=x", "t1", "dDAx"):
            assert (await pipe.ask(2, "tasks/list", {"cursor": bad}))["error"]["code"] == -32602

    serve(run, app, body, legacy=True)


def test_tasks_list_is_not_offered_by_itself(run):
    app = make()

    async def body(pipe):
        assert (await pipe.ask(1, "tasks/list"))["error"]["code"] == -32601

    serve(run, app, body, legacy=True)


def test_trap25_one_task_seen_by_both_eras(run):
    app = make()

    async def body(pipe):
        task = (await create(pipe, "fail"))["task"]["taskId"]
        await until(pipe, task, "failed", legacy=True)
        assert (await until(pipe, task, "completed"))["result"]["isError"] is True

    serve(run, app, body, legacy=True)


def test_tk31_se03_tasks_are_bound_to_the_caller(run):
    app = make(listing=True)

    class As(str):
        pass

    async def body(pipe):
        engine = app._tasks.engine

        class Someone:
            def __init__(self, principal):
                self.principal = principal

        from headrace.protocol.tasks.states import Task

        await engine.store.create(Task(id="t-of-ann", owner="u:ann", name="x"))
        assert (await engine.find(Someone("ann"), "t-of-ann")).name == "x"
        for other in (None, "bob", "u:ann"):
            with pytest.raises(RpcError, match="unknown task"):
                await engine.find(Someone(other), "t-of-ann")
        engine._owners["t-of-ann"] = "u:ann", float("inf")
        assert engine.followed(Someone("bob"), ["t-of-ann"]) == []
        assert engine.followed(Someone("ann"), ["t-of-ann"]) == ["t-of-ann"]
        assert (await pipe.ask(1, "tasks/list"))["result"]["tasks"] == []
        assert (await pipe.ask(2, "tasks/get", {"taskId": "t-of-ann"}))["error"]["code"] == -32602

    serve(run, app, body, legacy=True)
