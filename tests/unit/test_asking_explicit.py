"""The explicit form: InputNeeded, one handler for both eras (MX-30..MX-36, MX-39)."""

import msgspec
import pytest
from asking_support import R5, AskPipe, accept, text_of, until

from headrace import (
    Context,
    InputNeeded,
    Limits,
    Server,
    ask_elicit,
    ask_elicit_url,
    ask_roots,
    ask_sample,
)
from headrace.errors import UsageError

R4 = "2025-11-25"
BOTH = (R4, R5)


class Who(msgspec.Struct):
    name: str


class Out(msgspec.Struct):
    text: str


def answer(method, params):
    if method == "roots/list":
        return {"roots": [{"uri": "file:///w"}]}
    if method == "sampling/createMessage":
        return {"role": "assistant", "content": {"type": "text", "text": "hm"}, "model": "m"}
    if params["mode"] == "url":
        return {"action": "decline"}
    return accept(name="Ada")


def first():
    return InputNeeded(
        {
            "who": ask_elicit("Who?", Who),
            "where": ask_elicit_url("Go", "https://example.com"),
            "what": ask_sample("?", max_tokens=3, temperature=0.5),
            "roots": ask_roots(),
        },
        state={"step": 1},
    )


def tell(ctx):
    got = ctx.input_responses
    assert set(got) == {"who", "where", "what", "roots"} and len(got) == 4 and got["who"]["action"] == "accept"
    assert got.elicited("nobody", Who) is None and got.sampled("nobody") is None and got.roots("nobody") is None
    who, where = got.elicited("who", Who), got.elicited("where")
    return f"{who.content.name} {where.action} {got.sampled('what').content.text} {got.roots('roots')[0].uri} {ctx.request_state}"


@pytest.mark.parametrize("kind", ["return", "raise", "thread", "inline"])
@pytest.mark.parametrize("revision", BOTH)
def test_mx39_one_explicit_handler_for_both_eras(run, revision, kind):
    app, runs = Server("s", version="1"), []

    async def aio(ctx: Context, n: int) -> str | InputNeeded:
        runs.append(n)
        if ctx.input_responses is None:
            assert ctx.request_state is None and ctx.raw_request_state is None
            if kind == "raise":
                raise first()
            return first()
        return tell(ctx)

    def plain(ctx: Context, n: int) -> str | InputNeeded:
        runs.append(n)
        return first() if ctx.input_responses is None else tell(ctx)

    if kind in ("return", "raise"):
        app.add_tool(aio, name="t")
    else:
        app.add_tool(plain, name="t", inline=kind == "inline")

    async def body():
        async with app.running():
            pipe = AskPipe(app, revision)
            got = await pipe.tool("t", answer, {"n": 4})
            assert text_of(got) == "Ada decline hm file:///w {'step': 1}"
            assert runs == [4, 4]
            if revision == R5:
                assert list(pipe.rounds[0]["inputRequests"]) == ["who", "where", "what", "roots"]
            form = next(q for q in pipe.questions if q.get("params", {}).get("mode") == "form")
            assert form["params"]["requestedSchema"]["required"] == ["name"]
            url = next(q for q in pipe.questions if q.get("params", {}).get("mode") == "url")
            assert ("elicitationId" in url["params"]) == (revision == R4)
            counts = pipe.mux.debug_counts()
            assert not any(counts.values()), counts

    run(body)


@pytest.mark.parametrize("revision", BOTH)
def test_prompts_and_resources_ask_too(run, revision):
    app = Server("s", version="1")

    @app.prompt
    async def hello(ctx: Context, town: str) -> str:
        return f"{(await ctx.elicit(f'Who in {town}?', Who)).content.name}"

    @app.prompt
    def explicit(ctx: Context) -> str | InputNeeded:
        got = ctx.input_responses
        return InputNeeded({"who": ask_elicit("Who?", Who)}) if got is None else got.elicited("who", Who).content.name

    @app.resource("file:///r")
    def read(ctx: Context) -> str:
        return str(ctx.list_roots()[0].uri)

    @app.resource("x://{name}")
    async def template(ctx: Context, name: str) -> str | InputNeeded:
        got = ctx.input_responses
        return InputNeeded({"r": ask_roots()}) if got is None else name + got.roots("r")[0].uri

    async def body():
        async with app.running():
            for method, params, expected in [
                ("prompts/get", {"name": "hello", "arguments": {"town": "Rome"}}, "Ada"),
                ("prompts/get", {"name": "explicit"}, "Ada"),
                ("resources/read", {"uri": "file:///r"}, "file:///w"),
                ("resources/read", {"uri": "x://y"}, "yfile:///w"),
            ]:
                pipe = AskPipe(app, revision)
                result = (await pipe.run(method, params, answer))["result"]
                found = result["messages"][0]["content"] if "messages" in result else result["contents"][0]
                assert found["text"] == expected
                assert len(pipe.questions) == 1
                if revision == R5:
                    assert "ttlMs" not in pipe.rounds[0]  # MX-37

    run(body)


@pytest.mark.parametrize("revision", BOTH)
def test_state_alone_lets_the_client_come_back(run, revision):
    app = Server("s", version="1")

    @app.tool
    async def t(ctx: Context) -> str | InputNeeded:
        done = ctx.request_state or 0
        return InputNeeded(state=done + 1) if done < 3 else f"after {done}"

    async def body():
        async with app.running():
            pipe = AskPipe(app, revision)
            assert text_of(await pipe.tool("t", answer)) == "after 3"
            assert all("inputRequests" not in r for r in pipe.rounds)

    run(body)


@pytest.mark.parametrize("revision", BOTH)
def test_rounds_are_bounded(run, revision):
    app = Server("s", version="1", limits=Limits(max_input_rounds=3))

    @app.tool
    async def t(ctx: Context) -> str | InputNeeded:
        return InputNeeded({"r": ask_roots()})

    async def body():
        async with app.running():
            pipe = AskPipe(app, revision)
            got = await pipe.tool("t", answer)
            assert got["isError"] and "max_input_rounds" in text_of(got)
            assert len(pipe.questions) == 3

    run(body)


def test_mx35_sealed_and_raw_states_do_not_mix(run):
    app = Server("s", version="1")

    @app.tool
    async def t(ctx: Context, raw: bool) -> str | InputNeeded:
        if ctx.input_responses is None:
            return InputNeeded({"r": ask_roots()}, state="mine", state_raw=raw)
        return f"{ctx.request_state} {ctx.raw_request_state}"

    async def body():
        async with app.running():
            assert text_of(await AskPipe(app).tool("t", answer, {"raw": True})) == "None mine"
            assert text_of(await AskPipe(app).tool("t", answer, {"raw": False})) == "mine None"
            assert text_of(await AskPipe(app, R4).tool("t", answer, {"raw": True})) == "None mine"
            pipe = AskPipe(app)
            # Whoever forges a raw state reaches the raw one alone.
            call = pipe.request(
                "tools/call", {"name": "t", "arguments": {"raw": False}}, inputResponses={"r": {"roots": []}}, requestState="raw.forged"
            )
            assert text_of((await pipe.answer_to(call))["result"]) == "None forged"

    run(body)


@pytest.mark.parametrize("revision", BOTH)
def test_vn29_undeclared_questions_are_not_asked(run, revision):
    app = Server("s", version="1")

    @app.tool
    async def t(ctx: Context) -> str | InputNeeded:
        return InputNeeded({"a": ask_elicit("?"), "b": ask_roots()})

    async def body():
        async with app.running():
            pipe = AskPipe(app, revision, {"elicitation": {}})
            got = await pipe.tool("t", answer)
            if revision == R5:
                assert got["code"] == -32021 and got["data"] == {"requiredCapabilities": {"roots": {}}}
            else:
                assert got["isError"] and "roots" in text_of(got)
            assert pipe.questions == []

    run(body)


def test_replay_and_explicit_form_in_one_handler(run):
    app = Server("s", version="1")

    @app.tool
    async def t(ctx: Context) -> str | InputNeeded:
        who = await ctx.elicit("Who?", Who)
        if ctx.input_responses is None or "r" not in ctx.input_responses:
            return InputNeeded({"r": ask_roots()}, state=who.content.name)
        return f"{ctx.request_state} {ctx.input_responses.roots('r')[0].uri}"

    async def body():
        async with app.running():
            for revision in BOTH:
                assert text_of(await AskPipe(app, revision).tool("t", answer)) == "Ada file:///w"

    run(body)


def test_errors_of_a_live_client_fail_the_request(run):
    app = Server("s", version="1")

    @app.tool
    async def t(ctx: Context) -> str | InputNeeded:
        return InputNeeded({"a": ask_sample("?", max_tokens=1), "b": ask_roots()})

    async def body():
        async with app.running():
            pipe = AskPipe(app, R4)
            call = pipe.request("tools/call", {"name": "t"})
            one, two = await pipe.question(), await pipe.question()
            pipe.reply(one, error={"code": -1, "message": "no"})
            got = (await pipe.answer_to(call))["result"]
            assert got["isError"] and "refused sampling/createMessage" in text_of(got)
            note = await until(lambda: pipe.take(lambda m: m.get("method") == "notifications/cancelled"))
            assert note["params"]["requestId"] == two["id"]
            assert not any(pipe.mux.debug_counts().values())
            # And a cancel of the request takes its questions back.
            call = pipe.request("tools/call", {"name": "t"})
            await pipe.question()
            await pipe.question()
            pipe.send(None, "notifications/cancelled", {"requestId": call})
            for _ in range(2):
                await until(lambda: pipe.take(lambda m: m.get("method") == "notifications/cancelled"))
            await until(lambda: not any(pipe.mux.debug_counts().values()))
            assert pipe.out == []

    run(body)


def test_output_schemas_survive_an_input_needed_annotation(run):
    app = Server("s", version="1")

    @app.tool
    async def t(ctx: Context) -> Out | InputNeeded:
        return InputNeeded({"r": ask_roots()}) if ctx.input_responses is None else Out("done")

    @app.tool
    async def blind() -> InputNeeded:
        return InputNeeded({"r": ask_roots()})

    async def body():
        async with app.running():
            pipe = AskPipe(app)
            tools = {t["name"]: t for t in (await pipe.ask(1, "tools/list", {}, meta=pipe_meta()))["result"]["tools"]}
            assert tools["t"]["outputSchema"]["properties"] == {"text": {"type": "string"}}
            assert "outputSchema" not in tools["blind"]
            assert (await pipe.tool("t", answer))["structuredContent"] == {"text": "done"}
            # A tool that cannot see the answers would ask for ever.
            got = await pipe.tool("blind", answer)
            assert got["isError"]

    def pipe_meta():
        from asking_support import meta

        return meta()

    run(body)


@pytest.mark.parametrize(
    "make",
    [
        lambda: InputNeeded(),
        lambda: InputNeeded({"a": 5}),
        lambda: InputNeeded({5: ask_roots()}),
        lambda: InputNeeded({"a": ask_roots()}, state=5, state_raw=True),
        lambda: ask_sample("?", max_tokens=1, heat=3),
        lambda: ask_elicit("?", int),
    ],
)
def test_wrong_use_is_told_at_once(make):
    with pytest.raises(UsageError):
        make()


def test_middleware_and_handler_share_one_state(run):
    """A middleware that asks, around a handler that asks, in both eras: nothing is asked twice."""
    app, seen = Server("s", version="1"), []

    async def gatekeeper(call, following):
        if (await call.context.elicit("Allow?")).accepted:
            seen.append((await following(call)).get("resultType", "complete"))

    app.add_middleware(gatekeeper, methods=["tools/call"])

    @app.tool
    async def t(ctx: Context) -> str:
        return (await ctx.elicit("Who?", Who)).content.name

    async def body():
        async with app.running():
            for revision in BOTH:
                pipe = AskPipe(app, revision)
                assert text_of(await pipe.tool("t", answer)) == "Ada"
                assert [q["params"]["message"] for q in pipe.questions] == ["Allow?", "Who?"]
            assert seen == ["complete", "input_required", "complete"]

    run(body)
