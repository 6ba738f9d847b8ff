"""A handler asks its client: one API in both eras, live and by replay (MX-30..MX-39, CF, HO-06, HO-43)."""

import asyncio
import dataclasses
import json
import threading
from typing import Annotated, Literal

import msgspec
import pytest
from asking_support import R5, AskPipe, accept, meta, text_of, until

from headrace import (
    CannotAsk,
    ClientCapabilityMissing,
    ClientRefused,
    Context,
    Declined,
    Elicited,
    InvalidAnswer,
    Limits,
    RequestTimeout,
    Server,
    UrlElicitationRequired,
)
from headrace.errors import UsageError
from headrace.protocol.tables import SERVED_HANDSHAKES

R4 = "2025-11-25"
BOTH = (R4, R5)


class Person(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=2, title="Your name")]
    age: int = 7


@dataclasses.dataclass
class Point:
    x: float
    on: bool = True


def make(**how):
    return Server("asker", version="1", **how)


async def serve(app, fn):
    async with app.running():
        return await fn()


def answer(method, params):
    """What an agreeable client answers."""
    if method == "roots/list":
        return {"roots": [{"uri": "file:///work", "name": "work"}]}
    if method == "sampling/createMessage":
        return {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m", "stopReason": "endTurn"}
    if params.get("mode") == "url":
        return {"action": "accept"}
    return accept(**{n: "Ada" if f["type"] == "string" else 1 for n, f in params["requestedSchema"]["properties"].items()})


# --- one handler in both eras ---------------------------------------------------------------------------


@pytest.mark.parametrize("thread", [False, True], ids=["async", "thread"])
@pytest.mark.parametrize("revision", BOTH)
def test_mx39_one_handler_serves_both_eras(run, revision, thread):
    app, runs = make(), []

    async def aio(ctx: Context, town: str) -> str:
        runs.append(town)
        person = await ctx.elicit(f"Who lives in {town}?", Person)
        assert isinstance(person, Elicited) and person.accepted and isinstance(person.content, Person)
        place = await ctx.sample("Capital?", max_tokens=10, system="short")
        roots = await ctx.list_roots()
        seen = await ctx.elicit_url("Look", "https://example.com/x")
        return f"{person.content.name} {place.content.text} {roots[0].uri} {seen.action} {seen.content}"

    def plain(ctx: Context, town: str) -> str:
        runs.append(town)
        person = ctx.elicit(f"Who lives in {town}?", Person)
        place = ctx.sample("Capital?", max_tokens=10, system="short")
        roots = ctx.list_roots()
        seen = ctx.elicit_url("Look", "https://example.com/x")
        return f"{person.content.name} {place.content.text} {roots[0].uri} {seen.action} {seen.content}"

    app.add_tool(plain if thread else aio, name="t")

    async def body():
        pipe = AskPipe(app, revision)
        result = await pipe.tool("t", answer, {"town": "Rome"})
        assert text_of(result) == "Ada Paris file:///work accept None"
        assert [q["method"] for q in pipe.questions] == [
            "elicitation/create", "sampling/createMessage", "roots/list", "elicitation/create",
        ]  # fmt: skip
        form, sampling, roots, url = pipe.questions
        assert form["params"] == {
            "mode": "form",
            "message": "Who lives in Rome?",
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 2, "title": "Your name"},
                    "age": {"type": "integer", "default": 7},
                },
                "required": ["name"],
            },
        }
        assert sampling["params"] == {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Capital?"}}],
            "maxTokens": 10,
            "systemPrompt": "short",
        }
        assert "params" not in roots
        # CF-32: 2025-11-25 requires an elicitationId, 2026-07-28 has none.
        assert ("elicitationId" in url["params"]) == (revision == R4)
        if revision == R5:
            assert len(runs) == 5 and len(pipe.rounds) == 4
            assert result["resultType"] == "complete"
            for question in pipe.questions:
                assert question.keys() <= {"method", "params"}  # MX-31: no id, no jsonrpc
        else:
            assert len(runs) == 1
        assert pipe.mux.debug_counts()["counted"] == 0 and pipe.mux.debug_counts()["pending"] == 0

    run(serve, app, body)


def test_mx30_mx37_what_an_input_required_result_looks_like(run):
    app = make()

    @app.tool
    async def t(ctx: Context) -> str:
        await ctx.progress(1, 2)
        first, second = await asyncio.gather(ctx.elicit("A"), ctx.elicit("B"))
        return first.action + second.action

    async def body():
        pipe = AskPipe(app)
        pipe.send(1, "tools/call", {"name": "t"}, meta={**meta(), "progressToken": 5})
        response = await pipe.answer_to(1)
        assert [m["method"] for m in pipe.out] == ["notifications/progress"]
        result = response["result"]
        assert result["resultType"] == "input_required"
        assert result.keys() == {"resultType", "inputRequests", "requestState", "_meta"}  # MX-37: no ttlMs
        assert sorted(q["params"]["message"] for q in result["inputRequests"].values()) == ["A", "B"]
        assert isinstance(result["requestState"], str) and result["requestState"].isascii()
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "asker"

    run(serve, app, body)


def test_concurrent_branches_are_replayed_in_any_order(run):
    app = make()

    @app.tool
    async def t(ctx: Context) -> str:
        async def branch(name: str) -> str:
            got = [await ctx.elicit(f"{name}{n}", {"properties": {"v": {"type": "string"}}}) for n in range(3)]
            return "".join(e.content["v"] for e in got)

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(branch(name)) for name in "abc"]
        return " ".join(task.result() for task in tasks)

    async def body():
        pipe = AskPipe(app)
        result = await pipe.tool("t", lambda _, p: accept(v=p["message"]))
        assert text_of(result) == "a0a1a2 b0b1b2 c0c1c2"
        assert [len(r["inputRequests"]) for r in pipe.rounds] == [3, 3, 3]

    run(serve, app, body)


def test_the_same_question_twice_is_two_questions(run):
    app = make()

    @app.tool
    async def t(ctx: Context) -> str:
        return " ".join([(await ctx.elicit("Go on?")).action for _ in range(3)])

    async def body():
        actions = iter(["accept", "decline", "cancel"])
        pipe = AskPipe(app)
        assert text_of(await pipe.tool("t", lambda *_: {"action": next(actions)})) == "accept decline cancel"

    run(serve, app, body)


# --- state ------------------------------------------------------------------------------------------------


def stateful():
    app, runs = make(), []

    @app.tool
    async def t(ctx: Context, n: int = 0) -> str:
        runs.append(n)
        return (await ctx.elicit(f"Sure of {n}?")).action

    @app.tool
    async def other(ctx: Context, n: int = 0) -> str:
        return (await ctx.elicit(f"Sure of {n}?")).action

    return app, runs


async def first_round(pipe, arguments=None, name="t"):
    response = await pipe.answer_to(pipe.request("tools/call", {"name": name, "arguments": arguments or {}}))
    return response["result"]["requestState"]


OK = {"q1": {"action": "accept"}}


def test_mx35_tampered_state_is_refused_before_the_handler_runs(run):
    app, runs = stateful()

    async def body():
        pipe = AskPipe(app)
        state = await first_round(pipe)
        for at in (0, 5, 20, 40, len(state) // 2, len(state) - 1):
            for bad in (state[:at] + ("A" if state[at] != "A" else "B") + state[at + 1 :], state[:at], state + "A"):
                runs.clear()
                call = pipe.request("tools/call", {"name": "t", "arguments": {}}, inputResponses=OK, requestState=bad)
                response = await pipe.answer_to(call)
                assert response["error"]["code"] == -32602
                assert runs == []

    run(serve, app, body)


def test_mx35_state_of_other_arguments_other_tool_or_other_process(run):
    app, runs = stateful()
    twin, _ = stateful()

    async def body():
        pipe = AskPipe(app)
        state = await first_round(pipe, {"n": 1})
        runs.clear()
        for name, arguments in (("t", {"n": 2}), ("t", {}), ("other", {"n": 1})):
            call = pipe.request("tools/call", {"name": name, "arguments": arguments}, inputResponses=OK, requestState=state)
            assert (await pipe.answer_to(call))["error"]["code"] == -32602
        async with twin.running():
            call = (theirs := AskPipe(twin)).request(
                "tools/call", {"name": "t", "arguments": {"n": 1}}, inputResponses=OK, requestState=state
            )
            assert (await theirs.answer_to(call))["error"]["code"] == -32602
        assert runs == []
        call = pipe.request("tools/call", {"name": "t", "arguments": {"n": 1}}, inputResponses=OK, requestState=state)
        assert text_of((await pipe.answer_to(call))["result"]) == "accept"

    run(serve, app, body)


def test_mx35_processes_with_one_secret_serve_one_another(run, monkeypatch):
    monkeypatch.setenv("HEADRACE_SECRET", "one-secret-for-all-of-us")
    app, _ = stateful()
    twin, _ = stateful()

    async def body():
        state = await first_round(AskPipe(app))
        async with twin.running():
            pipe = AskPipe(twin)
            call = pipe.request("tools/call", {"arguments": {}, "name": "t"}, inputResponses=OK, requestState=state)
            assert text_of((await pipe.answer_to(call))["result"]) == "accept"

    run(serve, app, body)


def test_mx35_expired_state(run):
    app, _ = stateful()

    async def body():
        pipe = AskPipe(app)
        state = await first_round(pipe)
        app.sealer._clock = lambda: 4e9
        call = pipe.request("tools/call", {"name": "t", "arguments": {}}, inputResponses=OK, requestState=state)
        error = (await pipe.answer_to(call))["error"]
        assert error["code"] == -32602 and "expired" in error["message"]

    run(serve, app, body)


def test_mx36_missing_and_unknown_keys(run):
    app = make()

    @app.tool
    async def t(ctx: Context) -> str:
        a, b = await asyncio.gather(ctx.elicit("A"), ctx.elicit("B"))
        return a.action + " " + b.action

    async def body():
        pipe = AskPipe(app)
        result = (await pipe.answer_to(pipe.request("tools/call", {"name": "t"})))["result"]
        keys = list(result["inputRequests"])
        # Only A is answered, with company: B is asked again, alone, and A is not forgotten.
        answers = {keys[0]: {"action": "accept"}, "unknown": {"action": "accept"}, "q99": {}}
        call = pipe.request("tools/call", {"name": "t"}, inputResponses=answers, requestState=result["requestState"])
        again = (await pipe.answer_to(call))["result"]
        assert list(again["inputRequests"]) == [keys[1]]
        assert again["inputRequests"][keys[1]] == result["inputRequests"][keys[1]]
        # No answers at all: the same question, not an error.
        call = pipe.request("tools/call", {"name": "t"}, requestState=again["requestState"])
        third = (await pipe.answer_to(call))["result"]
        assert third["inputRequests"] == again["inputRequests"]
        answers = {keys[1]: {"action": "decline"}}
        call = pipe.request("tools/call", {"name": "t"}, inputResponses=answers, requestState=third["requestState"])
        assert text_of((await pipe.answer_to(call))["result"]) == "accept decline"

    run(serve, app, body)


@pytest.mark.parametrize("bad", [[], "x", 1, {"q1": []}, {"q1": "accept"}, {"q1": None}])
def test_mx36_unparsable_responses(run, bad):
    app, runs = stateful()

    async def body():
        pipe = AskPipe(app)
        state = await first_round(pipe)
        runs.clear()
        for more in ({"requestState": state}, {}):
            call = pipe.request("tools/call", {"name": "t", "arguments": {}}, inputResponses=bad, **more)
            assert (await pipe.answer_to(call))["error"]["code"] == -32602
        call = pipe.request("tools/call", {"name": "t", "arguments": {}}, requestState=bad)
        assert (await pipe.answer_to(call))["error"]["code"] == -32602
        assert runs == []

    run(serve, app, body)


def test_requests_that_did_not_ask_ignore_stray_members(run):
    app = make()

    @app.tool
    def plain(n: int) -> int:
        return n

    async def body():
        pipe = AskPipe(app)
        call = pipe.request("tools/call", {"name": "plain", "arguments": {"n": 1}}, inputResponses=3, requestState=4)
        assert text_of((await pipe.answer_to(call))["result"]) == "1"

    run(serve, app, body)


def test_limits_of_rounds_and_state(run):
    app = make(limits=Limits(max_input_rounds=3, max_request_state_bytes=4096))
    caught = []

    @app.tool
    async def endless(ctx: Context) -> str:
        n = 0
        while True:
            n += 1
            await ctx.elicit(f"And {n}?")

    @app.tool
    async def degrades(ctx: Context) -> str:
        try:
            for n in range(9):
                await ctx.elicit(f"And {n}?")
        except CannotAsk as exc:
            caught.append(str(exc))
        return "enough"

    @app.tool
    async def long(ctx: Context) -> str:
        await ctx.record("noise", lambda: __import__("secrets").token_hex(3000))
        return (await ctx.elicit("?")).action

    async def body():
        pipe = AskPipe(app)
        result = await pipe.tool("endless", answer)
        assert result["isError"] and "max_input_rounds" in text_of(result) and len(pipe.rounds) == 3
        assert text_of(await AskPipe(app).tool("degrades", answer)) == "enough"
        assert "max_input_rounds" in caught[0]
        result = await AskPipe(app).tool("long", answer)
        assert result["isError"] and "max_request_state_bytes" in text_of(result)
        call = pipe.request("tools/call", {"name": "endless"}, requestState="A" * 5000)
        assert (await pipe.answer_to(call))["error"]["code"] == -32602

    run(serve, app, body)


def test_long_answers_are_compressed_and_survive(run):
    app = make()

    @app.tool
    async def t(ctx: Context) -> int:
        one = await ctx.sample("?", max_tokens=5)
        two = await ctx.sample("again?", max_tokens=5)
        return len(one.content.text) + len(two.content.text)

    async def body():
        pipe = AskPipe(app)
        said = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "ha" * 50_000}}
        assert text_of(await pipe.tool("t", lambda *_: said)) == "200000"
        assert len(pipe.rounds[1]["requestState"]) < 5000

    run(serve, app, body)


def test_a_handler_that_is_not_deterministic_is_told(run, caplog):
    app, count = make(), iter(range(100))

    @app.tool
    async def t(ctx: Context) -> str:
        return (await ctx.elicit(f"Number {next(count)}?")).action

    async def body():
        pipe = AskPipe(app)
        error = await pipe.tool("t", answer)
        assert error["code"] == -32603 and "other questions" in error["message"]
        assert len(pipe.rounds) == 1

    run(serve, app, body)
    assert "elicitation/create" in caplog.text and '"t"' in caplog.text and "ctx.record" in caplog.text


def test_record_keeps_steps_that_must_not_repeat(run):
    app, made = make(), []

    def step():
        made.append(1)
        return (len(made), "x")

    async def slow():
        await asyncio.sleep(0)
        return step()

    @app.tool
    async def aio(ctx: Context) -> str:
        first = await ctx.record("a", step)
        second = await ctx.record("b", slow)
        third = await ctx.record("c", slow())
        await ctx.elicit(f"{first} {second} {third}?")
        return json.dumps([first, second, third])

    @app.tool
    def plain(ctx: Context) -> str:
        first = ctx.record("a", step)
        ctx.elicit(f"{first}?")
        return json.dumps(first)

    @app.tool
    async def twice(ctx: Context) -> str:
        await ctx.record("a", step)
        return str(await ctx.record("b", lambda: 1)) + str(await ctx.record("b", lambda: 2))

    async def body():
        for revision in BOTH:
            made.clear()
            assert text_of(await AskPipe(app, revision).tool("aio", answer)) == '[[1, "x"], [2, "x"], [3, "x"]]'
            assert len(made) == 3
            assert text_of(await AskPipe(app, revision).tool("plain", answer)) == '[4, "x"]'
            assert len(made) == 4

    run(serve, app, body)


# --- capabilities -----------------------------------------------------------------------------------------

CASES = [
    ("form", {}, {"elicitation": {"form": {}}}),
    ("form", {"elicitation": {"url": {}}}, {"elicitation": {"form": {}}}),
    ("url", {"elicitation": {}}, {"elicitation": {"url": {}}}),
    ("url", {"elicitation": {"form": {}}}, {"elicitation": {"url": {}}}),
    ("sample", {"elicitation": {}}, {"sampling": {}}),
    ("sample_tools", {"sampling": {}}, {"sampling": {"tools": {}}}),
    ("sample_context", {"sampling": {"tools": {}}}, {"sampling": {"context": {}}}),
    ("roots", {"roots": None}, {"roots": {}}),
]


def capability_app():
    app = make()

    @app.tool
    async def t(ctx: Context, kind: str, catch: bool = False) -> str:
        try:
            if kind == "form":
                await ctx.elicit("?")
            elif kind == "url":
                await ctx.elicit_url("?", "https://example.com")
            elif kind == "sample":
                await ctx.sample("?", max_tokens=1)
            elif kind == "sample_tools":
                await ctx.sample("?", max_tokens=1, tools=[{"name": "x", "inputSchema": {"type": "object"}}])
            elif kind == "sample_context":
                await ctx.sample("?", max_tokens=1, include_context="thisServer")
            else:
                await ctx.list_roots()
        except ClientCapabilityMissing as exc:
            if not catch:
                raise
            return json.dumps(exc.required)
        return "asked"

    return app


@pytest.mark.parametrize("revision", BOTH)
@pytest.mark.parametrize(("kind", "declared", "required"), CASES)
def test_vn29_mx31_cf22_cf33_what_was_not_declared_is_not_asked(run, revision, kind, declared, required):
    app = capability_app()

    async def body():
        pipe = AskPipe(app, revision, declared)
        assert json.loads(text_of(await pipe.tool("t", answer, {"kind": kind, "catch": True}))) == required
        result = await pipe.tool("t", answer, {"kind": kind})
        if revision == R5:
            assert result["code"] == -32021 and result["data"] == {"requiredCapabilities": required}
        else:
            assert result["isError"] and "did not declare" in text_of(result)
        assert pipe.questions == []

    run(serve, app, body)


def test_t20_the_capability_counts_on_this_very_request(run):
    app = capability_app()

    async def body():
        pipe = AskPipe(app, R5, {"elicitation": {}})
        assert await pipe.tool("t", answer, {"kind": "form"})
        pipe.capabilities = {}
        assert (await pipe.tool("t", answer, {"kind": "form"}))["code"] == -32021

    run(serve, app, body)


@pytest.mark.parametrize("revision", [r for r in SERVED_HANDSHAKES if r < R4])
def test_old_revisions_know_less(run, revision):
    app = capability_app()

    @app.tool
    async def form(ctx: Context) -> str:
        kind = {"properties": {"c": {"type": "string", "oneOf": [{"const": "r", "title": "Red"}], "default": "r"}}}
        return (await ctx.elicit("?", kind)).action

    async def body():
        pipe = AskPipe(app, revision)
        assert "did not declare" in text_of(await pipe.tool("t", answer, {"kind": "url"}))
        result = await pipe.tool("form", lambda *_: {"action": "accept", "content": {"c": "r"}})
        if revision < "2025-06-18":
            assert "did not declare" in text_of(result)
        else:
            asked = pipe.questions[-1]["params"]
            assert asked == {
                "message": "?",
                "requestedSchema": {"type": "object", "properties": {"c": {"type": "string", "enum": ["r"], "enumNames": ["Red"]}}},
            }

    run(serve, app, body)


# --- answers ----------------------------------------------------------------------------------------------

BAD = [
    ("elicit", {"action": "maybe"}),
    ("elicit", {}),
    ("elicit", {"action": "accept"}),
    ("elicit", {"action": "accept", "content": {"name": "x"}}),
    ("elicit", {"action": "accept", "content": {"name": 5}}),
    ("elicit", {"action": "accept", "content": {"name": "Ada", "age": 1.5}}),
    ("elicit", {"action": "accept", "content": [1]}),
    ("sample", {"role": "assistant"}),
    ("sample", {"role": "system", "content": {"type": "text", "text": ""}, "model": "m"}),
    ("roots", {"roots": [{"uri": "https://example.com"}]}),
    ("roots", {"roots": 5}),
]


@pytest.mark.parametrize("revision", BOTH)
@pytest.mark.parametrize(("kind", "bad"), BAD)
def test_cf30_cf10_cf21_bad_answers_are_found(run, revision, kind, bad):
    app = make()

    @app.tool
    async def t(ctx: Context, catch: bool = False) -> str:
        try:
            if kind == "elicit":
                await ctx.elicit("?", Person)
            elif kind == "sample":
                await ctx.sample("?", max_tokens=1)
            else:
                await ctx.list_roots()
        except InvalidAnswer as exc:
            if catch:
                return str(exc)
            raise
        return "fine"

    async def body():
        pipe = AskPipe(app, revision)
        caught = text_of(await pipe.tool("t", lambda *_: bad, {"catch": True}))
        assert "the answer to" in caught and "\n" not in caught
        result = await pipe.tool("t", lambda *_: bad)
        if revision == R5:
            assert result["code"] == -32602 and "the answer to" in result["message"]
        else:
            assert result["isError"] and "the answer to" in text_of(result)

    run(serve, app, body)


@pytest.mark.parametrize("revision", BOTH)
def test_cf31_all_three_actions(run, revision):
    app = make()

    @app.tool
    async def t(ctx: Context) -> str:
        got = await ctx.elicit("?", Person)
        return f"{got.action} {got.content} {got.accepted}"

    async def body():
        for action in ("decline", "cancel"):
            # Content of what was not accepted is not looked at.
            got = await AskPipe(app, revision).tool("t", lambda *_: {"action": action, "content": {"name": 5}})  # noqa: B023
            assert text_of(got) == f"{action} None False"

    run(serve, app, body)


# --- era H ------------------------------------------------------------------------------------------------


def test_cf23_errors_of_the_client_reach_the_handler(run):
    app = make()

    @app.tool
    async def t(ctx: Context, catch: bool) -> str:
        try:
            await ctx.sample("?", max_tokens=1)
        except Declined as exc:
            if catch:
                return f"declined {exc.code}"
            raise
        except ClientRefused as exc:
            if catch:
                return f"refused {exc.code} {exc.data}"
            raise
        return "fine"

    async def body():
        pipe = AskPipe(app, R4)
        for code, caught in ((-1, "declined -1"), (-32601, "refused -32601 {'why': 1}")):
            for catch in (True, False):
                call = pipe.request("tools/call", {"name": "t", "arguments": {"catch": catch}})
                pipe.reply(await pipe.question(), error={"code": code, "message": "no", "data": {"why": 1}})
                result = (await pipe.answer_to(call))["result"]
                if catch:
                    assert text_of(result) == caught
                else:
                    assert result["isError"] and f"the client refused sampling/createMessage: no ({code})" == text_of(result)

    run(serve, app, body)


@pytest.mark.parametrize("thread", [False, True], ids=["async", "thread"])
def test_b75_cancelling_the_request_cancels_the_question(run, thread):
    app, ends = make(), []

    async def aio(ctx: Context) -> str:
        try:
            return (await ctx.elicit("?")).action
        finally:
            ends.append("ended")

    def plain(ctx: Context) -> str:
        try:
            return ctx.elicit("?").action
        except Exception:
            ends.append("must not be caught")
            raise
        finally:
            ends.append("ended")

    app.add_tool(plain if thread else aio, name="t")

    async def body():
        pipe = AskPipe(app, R4)
        call = pipe.request("tools/call", {"name": "t"})
        question = await pipe.question()
        pipe.send(None, "notifications/cancelled", {"requestId": call})
        note = await until(lambda: pipe.take(lambda m: m.get("method") == "notifications/cancelled"))
        assert note["params"]["requestId"] == question["id"]
        await until(lambda: ends == ["ended"])
        pipe.reply(question, {"action": "accept"})  # late: dropped
        assert pipe.out == [] and pipe.mux.debug_counts()["pending"] == 0

    run(serve, app, body)


@pytest.mark.parametrize("thread", [False, True], ids=["async", "thread"])
def test_mx13_a_question_has_a_time_limit(run, thread):
    app = make()

    async def aio(ctx: Context) -> str:
        try:
            await ctx.elicit("?", timeout=0.02)
        except RequestTimeout:
            return "gave up"
        return ""

    def plain(ctx: Context) -> str:
        try:
            ctx.elicit("?", timeout=0.02)
        except RequestTimeout:
            return "gave up"
        return ""

    app.add_tool(plain if thread else aio, name="t")

    async def body():
        pipe = AskPipe(app, R4)
        call = pipe.request("tools/call", {"name": "t"})
        question = await pipe.question()
        assert text_of((await pipe.answer_to(call))["result"]) == "gave up"
        note = pipe.take(lambda m: m.get("method") == "notifications/cancelled")
        assert note["params"]["requestId"] == question["id"]

    run(serve, app, body)


def test_mx13_a_question_that_nobody_answers_fails_the_call(run):
    app = make(limits=Limits(ask_timeout=0.02))

    @app.tool
    async def t(ctx: Context) -> str:
        return (await ctx.elicit("?")).action

    async def body():
        pipe = AskPipe(app, R4)
        result = (await pipe.answer_to(pipe.request("tools/call", {"name": "t"})))["result"]
        assert result["isError"] and "did not answer" in text_of(result)

    run(serve, app, body)


def test_threads_are_freed_when_the_connection_goes(run):
    app, ends = make(), []

    @app.tool
    def t(ctx: Context) -> str:
        try:
            return ctx.elicit("?").action
        finally:
            ends.append(threading.current_thread().name)

    async def body():
        pipe = AskPipe(app, R4)
        pipe.request("tools/call", {"name": "t"})
        await pipe.question()
        pipe.mux.close("gone")
        await until(lambda: ends)
        assert len(ends) == 1 and ends[0] != threading.main_thread().name
        assert app.runtime.in_flight == 0

    run(serve, app, body)


# --- era M: the end of a handler ---------------------------------------------------------------------------


@pytest.mark.parametrize("thread", [False, True], ids=["async", "thread"])
def test_the_handler_is_ended_and_its_finally_runs(run, thread):
    app, ends = make(), []

    async def aio(ctx: Context) -> str:
        try:
            return (await ctx.elicit("?")).action
        except Exception:
            ends.append("must not be caught")
            raise
        finally:
            ends.append("ended")

    def plain(ctx: Context) -> str:
        try:
            return ctx.elicit("?").action
        except Exception:
            ends.append("must not be caught")
            raise
        finally:
            ends.append("ended")

    app.add_tool(plain if thread else aio, name="t")

    async def body():
        pipe = AskPipe(app)
        response = await pipe.answer_to(pipe.request("tools/call", {"name": "t"}))
        assert response["result"]["resultType"] == "input_required"
        await until(lambda: ends == ["ended"])
        await until(lambda: pipe.mux.debug_counts()["counted"] == 0)

    run(serve, app, body)


@pytest.mark.parametrize("thread", [False, True], ids=["async", "thread"])
def test_handlers_that_swallow_their_end_break_nothing(run, thread):
    app, asked = make(), []

    async def aio(ctx: Context) -> str:
        for _ in range(5):
            try:
                await ctx.elicit("?")
                return "answered"
            except BaseException:
                asked.append(1)
        return "stubborn"

    def plain(ctx: Context) -> str:
        for _ in range(5):
            try:
                ctx.elicit("?")
                return "answered"
            except BaseException:
                asked.append(1)
        return "stubborn"

    app.add_tool(plain if thread else aio, name="t")

    async def body():
        pipe = AskPipe(app)
        assert text_of(await pipe.tool("t", answer)) == "answered"
        await until(lambda: len(asked) == 5)
        await until(lambda: pipe.mux.debug_counts()["counted"] == 0)
        assert pipe.out == []

    run(serve, app, body)


def test_a_question_nobody_waits_for_any_more_is_not_asked(run):
    app = make()

    @app.tool
    async def t(ctx: Context) -> str:
        task = asyncio.ensure_future(ctx.elicit("?"))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0.01)
        return "went on"

    async def body():
        pipe = AskPipe(app)
        assert text_of(await pipe.tool("t", answer)) == "went on" and pipe.rounds == []

    run(serve, app, body)


# --- urls and usage ---------------------------------------------------------------------------------------


def test_cf32_url_elicitation_required(run):
    app, opened = make(), []

    @app.tool
    async def t(ctx: Context) -> str:
        if not opened:
            raise UrlElicitationRequired("Connect first.", "https://example.com/connect", "id-1")
        return "connected"

    async def body():
        error = await AskPipe(app, R4).tool("t", answer)
        assert error["code"] == -32042
        assert error["data"] == {
            "elicitations": [
                {"mode": "url", "elicitationId": "id-1", "url": "https://example.com/connect", "message": "Connect first."}
            ]
        }
        # A client without url mode must not get that error.
        result = await AskPipe(app, R4, {"elicitation": {}}).tool("t", answer)
        assert result["isError"] and "https://example.com/connect" in text_of(result)
        # 2026-07-28 has no such error: the URL is asked for, and the retry may find it done.
        pipe = AskPipe(app)

        def open_it(method, params):
            assert params == {"mode": "url", "url": "https://example.com/connect", "message": "Connect first."}
            opened.append(1)
            return {"action": "accept"}

        assert text_of(await pipe.tool("t", open_it)) == "connected" and len(pipe.rounds) == 1
        opened.clear()
        assert (await AskPipe(app, R5, {}).tool("t", answer))["code"] == -32021

    run(serve, app, body)


def test_cf32_elicitation_complete_goes_to_2025_11_25_alone(run):
    app, kept = make(), []

    @app.tool
    async def t(ctx: Context) -> str:
        kept.append(ctx)
        await ctx.elicit_url("?", "https://example.com", "mine")
        await ctx.elicitation_complete("mine")
        return "ok"

    @app.tool
    def plain(ctx: Context) -> str:
        ctx.elicitation_complete("thread")
        return "ok"

    async def body():
        pipe = AskPipe(app, R4)
        await pipe.tool("t", answer)
        assert pipe.questions[0]["params"]["elicitationId"] == "mine"
        # Also long after the request.
        kept[0].elicitation_complete("later")
        await pipe.tool("plain", answer)
        notes = [m["params"]["elicitationId"] for m in pipe.out if m["method"] == "notifications/elicitation/complete"]
        assert notes == ["mine", "later", "thread"]
        modern = AskPipe(app)
        await modern.tool("t", answer)
        kept[-1].elicitation_complete("later")
        assert modern.out == []

    run(serve, app, body)


@pytest.mark.parametrize("url", ["", "example.com", "file:///etc/passwd", "javascript:alert(1)", "https://", "https://u:p@example.com", "https://exa mple.com", "https://a:99999999/", 5])
def test_cf33_se06_urls_that_are_not_sent(run, url):
    app = make()

    @app.tool
    async def t(ctx: Context) -> str:
        try:
            await ctx.elicit_url("?", url)
        except UsageError as exc:
            return str(exc)
        return ""

    async def body():
        assert "URL" in text_of(await AskPipe(app).tool("t", answer))

    run(serve, app, body)


def test_mx30_other_methods_cannot_ask(run):
    from headrace.mux import FunctionHandler
    from headrace.protocol.asking import ask

    app = make()

    async def asks(exchange):
        return {"x": (await ask(exchange, "elicitation/create", {"message": "?"}))["action"]}

    async def body():
        app.tables.modern.requests[b"custom/method"] = FunctionHandler(asks)
        app.tables.modern.requests[b"custom/method"].method = "custom/method"
        pipe = AskPipe(app)
        error = (await pipe.answer_to(pipe.request("custom/method", {})))["error"]
        assert error["code"] == -32603 and "cannot ask for input" in error["message"]

    run(serve, app, body)


def test_literal_choices_come_back_typed(run):
    app = make()

    class Pick(msgspec.Struct):
        size: Literal["s", "l"]
        colours: list[Literal["r", "g"]]

    @app.tool
    async def t(ctx: Context) -> str:
        got = await ctx.elicit("?", Pick)
        point = await ctx.elicit("?", Point)
        return f"{got.content} {point.content}"

    async def body():
        for revision in BOTH:

            def fill(_, p):
                return accept(size="l", colours=["g"]) if "size" in p["requestedSchema"]["properties"] else accept(x=2, extra=1)

            got = text_of(await AskPipe(app, revision).tool("t", fill))
            assert got == "Pick(size='l', colours=['g']) Point(x=2.0, on=True)".replace("Point(", "Point(")

    run(serve, app, body)


