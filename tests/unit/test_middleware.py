"""Middleware of a server: refuse, rewrite, look, replace, time; nothing where none is registered."""

import asyncio
import logging
import threading

import pytest
from server_pipe import META, Pipe

from headrace import Context, RpcError, Server, ToolError, UsageError, connect
from headrace.mux import FunctionHandler
from headrace.server._tool import NamedHandler
from headrace.server.middleware import Approval, Audit, Metrics

INFO = {"io.modelcontextprotocol/serverInfo": {"name": "m", "version": "1"}}


def make():
    app = Server("m", version="1")

    @app.tool(inline=True)
    def add(a: int, b: int = 0) -> int:
        return a + b

    @app.tool
    async def slow(ctx: Context, n: int = 1) -> str:
        ctx.progress(1, 2, "first")
        await asyncio.sleep(0)
        ctx.progress(2, 2)
        return f"slow {n} {ctx.request_id}"

    @app.tool
    def threaded(ctx: Context) -> str:
        ctx.progress(1)
        return threading.current_thread().name

    @app.tool
    async def fail() -> str:
        raise ToolError("as it does")

    @app.tool
    async def refuse() -> str:
        raise RpcError(-7, "refused", {"why": 1})

    @app.tool
    async def forever() -> str:
        app.lifespan_state = "running"
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            app.lifespan_state = "ended"

    return app


def text(answer):
    return answer["result"]["content"][0]["text"]


def serve(run, app, body):
    async def main():
        async with app.running():
            pipe = Pipe(app)
            outcome = await body(pipe)
            assert set(pipe.mux.debug_counts().values()) == {0}
            assert app.runtime.in_flight == 0
            pipe.mux.close()
            return outcome

    return run(main)


def test_nothing_is_in_the_way_without_middleware():
    app = make()
    assert type(app.tables.modern.requests[b"tools/call"]) is NamedHandler
    app.add_middleware(Approval(lambda call: True), methods=["tools/list"])
    assert type(app.tables.modern.requests[b"tools/call"]) is NamedHandler
    assert type(app.tables.modern.requests[b"tools/list"]) is FunctionHandler


@pytest.mark.parametrize("meta", [META, None], ids=["modern", "handshake"])
def test_looking_and_passing_changes_no_byte(run, meta):
    plain, wrapped = make(), make()
    seen = []

    @wrapped.add_middleware
    async def look(call, next):
        result = await next(call)
        seen.append((call.method, call.name, call.arguments, result.get("isError", False)))

    async def calls(pipe):
        if meta is None:
            pipe.handshake()
        answers = [await pipe.call("add", {"a": 1, "b": 2}, meta=meta)]
        answers.append(await pipe.call("slow", {"n": 3}, meta=meta))
        answers.append(await pipe.call("fail", meta=meta))
        answers.append(await pipe.call("refuse", meta=meta))
        answers.append(await pipe.call("add", {"a": "x"}, meta=meta))
        answers.append(await pipe.call("nothing", meta=meta))
        answers.append(await pipe.ask(9, "tools/list", meta=meta))
        answers.append((await pipe.call("threaded", meta=meta))["result"]["content"][0]["type"])
        return answers, pipe.out

    assert serve(run, plain, calls) == serve(run, wrapped, calls)
    assert seen == [
        ("tools/call", "add", {"a": 1, "b": 2}, False),
        ("tools/call", "slow", {"n": 3}, False),
        ("tools/call", "fail", {}, True),
        ("tools/call", "add", {"a": "x"}, True),
        ("tools/list", None, {}, False),
        ("tools/call", "threaded", {}, False),
    ]


def test_progress_comes_before_the_answer_and_under_the_token_of_the_request(run):
    app = make()

    @app.add_middleware
    async def around(call, next):
        await call.context.progress(0.5)
        return await next(call)

    async def body(pipe):
        meta = {**META, "progressToken": "p"}
        answer = await pipe.call("slow", meta=meta, id=4)
        return answer, [m["params"] for m in pipe.out]

    answer, notes = serve(run, app, body)
    assert text(answer) == "slow 1 4"
    assert notes == [
        {"progressToken": "p", "progress": 0.5},
        {"progressToken": "p", "progress": 1, "total": 2, "message": "first"},
        {"progressToken": "p", "progress": 2, "total": 2},
    ]


def test_several_nest_in_the_order_of_registration(run):
    app = make()
    order = []

    def layer(name):
        async def around(call, next):
            order.append(name)
            result = await next(call)
            order.append(name.upper())
            result.setdefault("_meta", {})[name] = len(order)
            return result

        return around

    app.add_middleware(layer("a"))
    app.add_middleware(layer("b"), methods=["tools/call"])
    app.add_middleware(layer("c"), methods=["tools/list"])

    async def body(pipe):
        return await pipe.call("add", {"a": 1})

    answer = serve(run, app, body)
    assert order == ["a", "b", "B", "A"]
    assert answer["result"]["_meta"] == {**INFO, "b": 3, "a": 4}


def test_arguments_and_even_the_tool_can_be_rewritten(run):
    app = make()

    @app.add_middleware
    async def rewrite(call, next):
        if call.name == "other":
            call.params = {"name": "add", "arguments": {"a": 40, "b": 2}}
        else:
            call.arguments["a"] += 100
        return await next(call)

    async def body(pipe):
        return text(await pipe.call("add", {"a": 1, "b": 2})), text(await pipe.call("other"))

    assert serve(run, app, body) == ("103", "42")


@pytest.mark.parametrize("meta", [META, None], ids=["modern", "handshake"])
def test_a_result_can_be_replaced_and_still_carries_what_its_era_asks(run, meta):
    app = make()

    @app.add_middleware
    async def cached(call, next):
        return {"content": [{"type": "text", "text": "from the cache"}], "_meta": {"hit": True}}

    async def body(pipe):
        if meta is None:
            pipe.handshake()
        return (await pipe.call("add", meta=meta))["result"]

    result = serve(run, app, body)
    assert result["content"][0]["text"] == "from the cache"
    if meta is None:
        assert result["_meta"] == {"hit": True} and "resultType" not in result
    else:
        assert result["_meta"] == {**INFO, "hit": True} and result["resultType"] == "complete"


def test_refusals_are_errors_or_failed_tools(run):
    app = make()

    @app.add_middleware
    async def guard(call, next):
        if call.method != "tools/call":
            raise RpcError(-32050, "not now")
        if call.name == "add":
            raise ToolError("ask your administrator")
        raise RpcError(-32051, "never", {"tool": call.name})

    async def body(pipe):
        return (
            (await pipe.call("add"))["result"],
            (await pipe.call("slow"))["error"],
            (await pipe.ask(1, "tools/list", meta=META))["error"],
            (await pipe.ask(2, "server/discover", meta=META))["result"]["supportedVersions"],
        )

    failed, refused, listed, discovered = serve(run, app, body)
    assert failed["isError"] is True and failed["content"][0]["text"] == "ask your administrator"
    assert failed["resultType"] == "complete" and failed["_meta"] == INFO
    assert refused == {"code": -32051, "message": "never", "data": {"tool": "slow"}}
    assert listed == {"code": -32050, "message": "not now"}
    assert discovered == ["2026-07-28"]


def test_errors_of_the_handler_can_be_caught_and_calls_repeated(run):
    app = make()
    tries = []

    @app.add_middleware
    async def retry(call, next):
        try:
            return await next(call)
        except RpcError as exc:
            tries.append(exc.code)
            call.params = {"name": "add", "arguments": {"a": len(tries)}}
            return await next(call)

    async def body(pipe):
        return text(await pipe.call("refuse"))

    assert serve(run, app, body) == "1" and tries == [-7]


def test_mx12_a_cancel_reaches_the_tool_through_all_layers(run):
    app = make()
    left = []

    @app.add_middleware
    async def around(call, next):
        try:
            return await next(call)
        finally:
            left.append(call.context.cancelled)

    async def body(pipe):
        pipe.send(5, "tools/call", {"name": "forever"}, meta=META)
        assert app.lifespan_state == "running" and pipe.mux.in_flight == 1
        pipe.send(None, "notifications/cancelled", {"requestId": 5})
        for _ in range(5):
            await asyncio.sleep(0)
        return pipe.out

    assert serve(run, app, body) == [] and left == [True] and app.lifespan_state is None


def test_a_layer_may_bound_the_time_of_a_call(run):
    app = make()

    @app.add_middleware
    async def impatient(call, next):
        try:
            return await asyncio.wait_for(next(call), 0.01)
        except TimeoutError:
            raise ToolError("too slow") from None

    async def body(pipe):
        return text(await pipe.call("forever"))

    assert serve(run, app, body) == "too slow"


@pytest.mark.parametrize("bad", [7, "text", ["list"]])
def test_a_layer_that_gives_no_result_is_an_internal_error(run, bad, caplog):
    app = make()

    @app.add_middleware
    async def wrong(call, next):
        return bad if call.name == "add" else None

    async def body(pipe):
        return (await pipe.call("add"))["error"], (await pipe.call("slow"))["error"]

    assert serve(run, app, body) == ({"code": -32603, "message": "internal error"},) * 2
    assert "must give a dict or None" in caplog.text and "did not call next" in caplog.text
    caplog.clear()


def test_methods_that_the_protocol_serves_itself_are_refused():
    app = make()
    with pytest.raises(UsageError, match="initialize"):
        app.add_middleware(Approval(lambda call: True), methods=["initialize", "tools/call"])
    with pytest.raises(UsageError, match="list of method names"):
        app.add_middleware(Approval(lambda call: True), methods="tools/call")


def test_ready_made_approval_audit_and_metrics(run, caplog):
    app = make()
    metrics = Metrics(most=3)

    async def decide(call):
        return call.name != "slow" or "not today"

    log = logging.getLogger("headrace.test.audit")
    app.add_middleware(metrics)
    app.add_middleware(Audit(log))
    app.add_middleware(Approval(decide), methods=["tools/call"])

    async def body(pipe):
        with caplog.at_level(logging.INFO, log.name):
            answers = [await pipe.call("add", {"a": 1}), await pipe.call("slow"), await pipe.call("refuse")]
            await pipe.call("no\nsuch")
            await pipe.ask("l", "tools/list", meta=META)
        return answers

    fine, refused, error = serve(run, app, body)
    assert text(fine) == "1" and text(refused) == "not today" and refused["result"]["isError"]
    assert error["error"]["code"] == -7
    assert [r.getMessage().split(":")[0] for r in caplog.records] == [
        "tools/call 'add'", "tools/call 'slow'", "tools/call 'refuse'", "tools/call 'no\\nsuch'", "tools/list",
    ]  # fmt: skip
    assert metrics.counts == {
        ("tools/call", "add", "ok"): 1,
        ("tools/call", "slow", "error"): 1,
        ("tools/call", "refuse", "error"): 1,
        ("tools/call", "(other)", "error"): 1,
        ("tools/list", "(other)", "ok"): 1,
    }


def test_layers_may_be_added_while_the_server_runs(run):
    app = make()

    async def body(pipe):
        first = text(await pipe.call("add", {"a": 1}))

        @app.add_middleware
        async def double(call, next):
            call.arguments["a"] *= 2
            return await next(call)

        return first, text(await pipe.call("add", {"a": 1}))

    assert serve(run, app, body) == ("1", "2")


def test_b105_numbers_beyond_the_fast_decoder_pass(run):
    app = make()
    seen = []

    @app.add_middleware
    async def look(call, next):
        seen.append(call.arguments["a"])
        return await next(call)

    async def body(pipe):
        pipe.raw(
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"add","arguments":'
            b'{"a":123456789012345678901234567890},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            b'"io.modelcontextprotocol/clientCapabilities":{}}}}'
        )
        return pipe.out.pop()

    assert text(serve(run, app, body)) == "123456789012345678901234567890"
    assert seen == [123456789012345678901234567890]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_mx39_questions_of_tools_and_of_middleware_reach_the_client(run, revision):
    """In 2026-07-28 both are replayed, in one order: answers of one are never taken for the other's."""
    app = Server("m", version="1")
    asked, runs = [], []

    @app.tool
    async def ask(ctx: Context, what: str) -> str:
        runs.append("tool")
        first = await ctx.elicit(f"{what} 1?", {"type": "object", "properties": {"a": {"type": "string"}}})
        second = await ctx.elicit(f"{what} 2?", {"type": "object", "properties": {"a": {"type": "string"}}})
        return f"{first.content['a']} {second.content['a']}"

    @app.add_middleware
    async def approve(call, next):
        runs.append("layer")
        sure = await call.context.elicit("Sure?")
        if sure.action != "accept":
            raise ToolError("not approved")
        result = await next(call)
        after = await call.context.elicit("Still?") if call.arguments["what"] == "after" else None
        if after is not None:
            result["content"][0]["text"] += f" {after.action}"
        return result

    def elicitation(params):
        asked.append(params.message)
        return {"a": params.message[:-1]} if params.requested_schema.get("properties") else {}

    async def main():
        async with connect(app, revision=revision, elicitation=elicitation) as client:
            result = await client.call_tool("ask", {"what": "Q"})
            assert result.text == "Q 1 Q 2", result
            assert asked == ["Sure?", "Q 1?", "Q 2?"]

    run(main)
    if revision == "2025-11-25":
        assert runs == ["layer", "tool"]
