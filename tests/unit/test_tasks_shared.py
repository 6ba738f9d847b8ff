"""Tasks of two servers that share a store, an SQLite file or Redis: what the client of one asks of a task that the other
runs."""

import asyncio
import json
import secrets

import msgspec
import pytest
from hosting.redis_support import redis_one  # noqa: F401, a fixture
from server_pipe import META, Pipe

from headrace import CannotAsk, ClientCapabilityMissing, ClientRefused, Context, Declined, InvalidAnswer, Server
from headrace.server.tasks.remote import read_refusal, write_refusal
from headrace.server.tasks.sqlite_store import SqliteTaskStore

RELATED = "io.modelcontextprotocol/related-task"


class Person(msgspec.Struct):
    name: str


@pytest.fixture(params=["sqlite", "redis"])
def stores(request, tmp_path):
    """Makes stores that share their tasks."""
    if request.param == "sqlite":
        return lambda: SqliteTaskStore(tmp_path / "t.db")
    from hosting.task_support import OwnRedisStore

    url, prefix = request.getfixturevalue("redis_one").url, f"t{secrets.token_hex(4)}"
    return lambda: OwnRedisStore(url, prefix)


def make(store):
    app = Server("t", version="1")
    app.tasks(store=store, poll_interval=0.01)

    @app.tool(task="optional")
    async def greet(ctx: Context) -> str:
        first = await ctx.elicit("Name?", Person)
        try:
            second = await ctx.elicit("And yours?", Person)
        except CannotAsk as exc:
            return f"{first.content.name}, {exc}"
        except Declined as exc:
            return f"{first.content.name}, declined: {exc.message}"
        return f"{first.content.name} {second.content.name}"

    return app


async def among(pipe, wanted):
    for _ in range(2000):
        for index, message in enumerate(pipe.out):
            if wanted(message):
                return pipe.out.pop(index)
        await asyncio.sleep(0.002)
    raise AssertionError(pipe.out)


async def question(pipe):
    return await among(pipe, lambda m: "id" in m and m.get("method") == "elicitation/create")


def answer(pipe, asked, **member):
    pipe.raw(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **member}).encode())


@pytest.fixture
def two(run, stores):
    def serve(body):
        async def main():
            one, other = make(stores()), make(stores())
            async with one.running(), other.running():
                pipes = Pipe(one), Pipe(other)
                for pipe in pipes:
                    pipe.handshake()
                    pipe.declares({"elicitation": {}})
                created = await pipes[0].ask("c", "tools/call", {"name": "greet", "arguments": {}, "task": {}})
                await body(*pipes, created["result"]["task"]["taskId"])
                for pipe in pipes:
                    pipe.mux.close()

        run(main)

    return serve


ACCEPT = {"action": "accept", "content": {"name": "Ann"}}


@pytest.mark.parametrize(
    ("reply", "text"),
    [
        ({"result": {"action": "accept", "content": {"name": "Bob"}}}, "Ann Bob"),
        ({"error": {"code": -1, "message": "not now"}}, "Ann, declined: not now"),
    ],
)
def test_tk04_questions_of_a_task_are_asked_where_its_result_is_waited_for(two, reply, text):
    async def body(one, other, task):
        other.send("r", "tasks/result", {"taskId": task})
        asked = await question(other)
        assert asked["params"]["message"] == "Name?" and asked["params"]["_meta"][RELATED] == {"taskId": task}
        answer(other, asked, result=ACCEPT)
        answer(other, await question(other), **reply)
        done = await among(other, lambda m: m.get("id") == "r")
        assert done["result"]["content"][0]["text"] == text
        assert not [m for m in one.out if m.get("method") == "elicitation/create"]

    two(body)


def test_tk04_a_question_that_was_given_up_there_goes_out_elsewhere(two):
    """The wait in the other process is cancelled with its question; the process of the task asks it again."""

    async def body(one, other, task):
        other.send("r", "tasks/result", {"taskId": task})
        asked = await question(other)
        other.send(None, "notifications/cancelled", {"requestId": "r"})
        await among(other, lambda m: m.get("method") == "notifications/cancelled")
        one.send("r", "tasks/result", {"taskId": task})
        answer(other, asked, result={"action": "decline"})  # too late
        answer(one, await question(one), result=ACCEPT)
        answer(one, await question(one), result=ACCEPT)
        assert (await among(one, lambda m: m.get("id") == "r"))["result"]["content"][0]["text"] == "Ann Ann"

    two(body)


def test_tk04_a_client_that_cannot_be_asked_is_told_to_the_handler(two):
    async def body(one, other, task):
        one.send("r", "tasks/result", {"taskId": task})
        answer(one, await question(one), result=ACCEPT)
        await question(one)
        one.send(None, "notifications/cancelled", {"requestId": "r"})
        other.declares({})
        done = await other.ask("r", "tasks/result", {"taskId": task})
        assert "Ann, the client did not declare" in done["result"]["content"][0]["text"]

    two(body)


TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


def test_tk27_a_task_is_followed_where_it_does_not_run(two):
    """Its present state, its questions and its end reach the listen; what the listen's client answers and cancels
    reaches the task."""

    async def body(one, other, task):
        other.send("L", "subscriptions/listen", {"notifications": {"taskIds": [task, "unknown"]}}, meta=TASKS)
        acknowledged = await among(other, lambda m: m.get("method") == "notifications/subscriptions/acknowledged")
        assert acknowledged["params"]["notifications"] == {"taskIds": [task]}

        async def told(wanted):
            return (await among(other, lambda m: m.get("method") == "notifications/tasks" and wanted(m["params"])))["params"]

        first = await told(lambda state: "input-1" in state.get("inputRequests", {}))
        assert first["status"] == "input_required" and first["taskId"] == task
        update = {"taskId": task, "inputResponses": {"input-1": ACCEPT, "unknown": ACCEPT}}
        assert "error" not in await other.ask("u", "tasks/update", update, meta=TASKS)
        await told(lambda state: "input-2" in state.get("inputRequests", {}))
        assert "error" not in await other.ask("c", "tasks/cancel", {"taskId": task}, meta=TASKS)
        assert (await told(lambda state: state["status"] == "cancelled"))["taskId"] == task

    two(body)


def test_tk25_a_cancel_elsewhere_stops_the_handler(run, stores):
    ended = []

    async def main():
        apps = make(stores()), make(stores())
        for app in apps:

            @app.tool(task="optional")
            async def work() -> str:
                try:
                    await asyncio.sleep(60)
                finally:
                    ended.append(True)
                return "never"

        async with apps[0].running(), apps[1].running():
            one, other = Pipe(apps[0]), Pipe(apps[1])
            task = (await one.call("work", meta=TASKS))["result"]["taskId"]
            assert "error" not in await other.ask(1, "tasks/cancel", {"taskId": task}, meta=TASKS)
            for _ in range(2000):
                if ended:
                    break
                await asyncio.sleep(0.002)
            found = await one.ask(2, "tasks/get", {"taskId": task}, meta=TASKS)
            assert found["result"]["status"] == "cancelled"
            one.mux.close()
            other.mux.close()

    run(main)
    assert ended == [True]


def test_tk05_tasks_of_all_processes_are_listed_everywhere(run, stores):
    async def main():
        apps = make(stores()), make(stores())
        for app in apps:
            app._tasks.listing = True
            app.features_changed()
        async with apps[0].running(), apps[1].running():
            pipes = [Pipe(app) for app in apps]
            made = []
            for number in range(4):
                pipe = pipes[number % 2]
                if number < 2:
                    pipe.handshake()
                params = {"name": "greet", "arguments": {}, "task": {}}
                made.append((await pipe.ask(number, "tools/call", params))["result"]["task"]["taskId"])
            for pipe in pipes:
                listed = (await pipe.ask("l", "tasks/list"))["result"]["tasks"]
                assert [each["taskId"] for each in listed] == made
                pipe.mux.close()

    run(main)


@pytest.mark.parametrize(
    "exc",
    [
        ClientRefused("sampling/createMessage", -7, "no", {"why": 1}),
        Declined("elicitation/create", -1, "not now"),
        ClientCapabilityMissing("it cannot", {"roots": {}}),
        InvalidAnswer("no object"),
        CannotAsk("no channel"),
    ],
)
def test_a_refusal_is_the_same_on_the_other_side(exc):
    told = read_refusal(write_refusal(exc))
    assert type(told) is type(exc) and str(told) == str(exc)
    for name in ("code", "message", "data", "method", "required"):
        assert getattr(told, name, None) == getattr(exc, name, None)
