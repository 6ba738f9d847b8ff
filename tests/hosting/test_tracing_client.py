"""Spans of a traced client, and of what a server asks its client: one trace from caller to handler and back."""

import asyncio
import contextlib
import json

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the OpenTelemetry SDK is not installed")

from opentelemetry import baggage, context, trace
from opentelemetry.trace import SpanKind, StatusCode

import headrace
from headrace import connect
from headrace.errors import ConnectionClosed, RequestTimeout, RpcError
from headrace.hosting import tracing
from headrace.hosting.tracing import Tracing
from headrace.jsonrpc import R4, R5

from .traced import Spans, current, make_app, place, serving


@pytest.fixture
def spans():
    return Spans()


@pytest.fixture(params=["memory", "unix", "http"])
def transport(request):
    return request.param


@pytest.fixture(params=[R4, R5])
def revision(request):
    return request.param


def of(spans, name, kind):
    return [span for span in spans.all(name) if span.kind is kind]


def parent_id(span):
    return None if span.parent is None else span.parent.span_id


def test_one_trace_from_the_caller_to_the_handler(run, spans, transport, revision, tmp_path):
    """The caller's span, the client's, the server's: each the parent of the next, on every transport, in both eras."""
    app = make_app()
    both = Tracing(spans.provider)
    app.observe(both)
    tracer = trace.get_tracer("test", tracer_provider=spans.provider)

    async def trial():
        async with (
            serving(app, transport, tmp_path / "s") as where,
            connect(where, revision=revision, observer=both) as client,
        ):
            with tracer.start_as_current_span("caller"):
                assert (await client.call_tool("waits")).text
                # The long way: with progress, with members of _meta that are the caller's.
                await client.call_tool("thread", on_progress=print, meta={"mine": 1})
                await client.get_prompt("greeting")
                await client.read_resource("docs://intro")
            await client.call_tool("quick")

    run(trial)
    caller = spans.one("caller")
    for name in ("tools/call waits", "tools/call thread", "prompts/get greeting", "resources/read"):
        (sent,), (served,) = of(spans, name, SpanKind.CLIENT), of(spans, name, SpanKind.SERVER)
        assert sent.parent.span_id == caller.context.span_id
        assert served.parent.span_id == sent.context.span_id and served.parent.is_remote
        assert served.context.trace_id == caller.context.trace_id
        assert sent.attributes["jsonrpc.request.id"] == served.attributes["jsonrpc.request.id"]
        assert sent.attributes["mcp.protocol.version"] == revision
    (sent,), (served,) = of(spans, "tools/call quick", SpanKind.CLIENT), of(spans, "tools/call quick", SpanKind.SERVER)
    assert sent.parent is None and served.parent.span_id == sent.context.span_id
    assert sent.context.trace_id != caller.context.trace_id
    facts = sent.attributes
    assert facts["mcp.method.name"] == "tools/call" and facts["gen_ai.tool.name"] == "quick"
    assert facts["gen_ai.operation.name"] == "execute_tool"
    if transport == "http":
        assert facts["server.address"] == "127.0.0.1" and facts["server.port"] > 0
        assert (facts["network.transport"], facts["network.protocol.name"]) == ("tcp", "http")
    else:
        assert facts["network.transport"] == {"memory": "pipe", "unix": "unix"}[transport]
    # The opening of the connection, too.
    opening = "server/discover" if revision == R5 else "initialize"
    assert len(of(spans, opening, SpanKind.CLIENT)) == 1


@pytest.mark.parametrize("tool", ["asks", "asks_in_thread"])
def test_a_question_in_the_middle_stays_in_the_trace(run, spans, transport, revision, tool, tmp_path):
    """Sampling. Era H: the question is the handler's own request, served by the client's callback under its span. Era M:
    it is in the answer; the callback runs for the caller, and the second round is one more request of the call."""
    app = make_app()
    both = Tracing(spans.provider)
    app.observe(both)
    tracer = trace.get_tracer("test", tracer_provider=spans.provider)
    here = {}

    async def sampling(params):
        here["at"] = current()
        await asyncio.sleep(0)
        assert current() == here["at"]
        return "fine"

    async def trial():
        async with (
            serving(app, transport, tmp_path / "s") as where,
            connect(where, revision=revision, observer=both, sampling=sampling) as client,
        ):
            with tracer.start_as_current_span("caller"):
                assert (await client.call_tool(tool)).text == "fine"

    run(trial)
    caller = spans.one("caller")
    calls = of(spans, f"tools/call {tool}", SpanKind.CLIENT)
    served = of(spans, f"tools/call {tool}", SpanKind.SERVER)
    assert {span.context.trace_id for span in [*calls, *served]} == {caller.context.trace_id}
    if revision == R4:
        ((call,), (serve,)) = calls, served
        (asked,) = of(spans, "sampling/createMessage", SpanKind.CLIENT)
        (answered,) = of(spans, "sampling/createMessage", SpanKind.SERVER)
        chain = [caller, call, serve, asked, answered]
        assert [parent_id(span) for span in chain[1:]] == [span.context.span_id for span in chain[:-1]]
        assert here["at"] == place(answered)
    else:
        assert len(calls) == len(served) == 2
        assert [parent_id(span) for span in calls] == [caller.context.span_id] * 2
        assert [parent_id(span) for span in served] == [span.context.span_id for span in calls]
        assert here["at"] == place(caller)


def test_questions_of_many_threads_keep_apart(run, spans):
    """What threads ask at the same time is put on the loop in one go: each question keeps its own parent."""
    app = make_app()
    both = Tracing(spans.provider)
    app.observe(both)

    async def sampling(params):
        await asyncio.sleep(0.01)
        return "fine"

    async def trial():
        async with connect(app, revision=R4, observer=both, sampling=sampling) as client:
            await asyncio.gather(*(client.call_tool("asks_in_thread") for _ in range(16)))

    run(trial)
    served = [span.context.span_id for span in of(spans, "tools/call asks_in_thread", SpanKind.SERVER)]
    asked = [parent_id(span) for span in of(spans, "sampling/createMessage", SpanKind.CLIENT)]
    assert len(served) == 16 and sorted(asked) == sorted(served)


def test_elicitation_is_traced_as_sampling_is(run, spans):
    app = make_app()
    both = Tracing(spans.provider)
    app.observe(both)

    async def trial():
        async with connect(app, revision=R4, observer=both, elicitation=lambda params: {"a": "b"}) as client:
            assert (await client.call_tool("elicits")).text == "accept"

    run(trial)
    (serve,) = of(spans, "tools/call elicits", SpanKind.SERVER)
    (asked,) = of(spans, "elicitation/create", SpanKind.CLIENT)
    (answered,) = of(spans, "elicitation/create", SpanKind.SERVER)
    assert parent_id(asked) == serve.context.span_id and parent_id(answered) == asked.context.span_id


def test_a_client_that_is_connected_can_be_traced(run, spans, revision):
    """From then on; and a server that nobody traces sees the context in _meta."""
    app = make_app()

    async def trial():
        async with connect(app, revision=revision) as client:
            before = json.loads((await client.call_tool("meta")).text)
            tracing.instrument(client, spans.provider)
            return before, json.loads((await client.call_tool("meta", meta={"mine": [1]})).text)

    before, after = run(trial)
    assert "traceparent" not in before
    span = spans.one("tools/call meta")
    assert after["traceparent"].startswith(f"00-{place(span)}-0") and after["mine"] == [1]
    assert {key: after[key] for key in before} == before


def test_what_the_caller_says_of_the_trace_stays(run, spans):
    """A traceparent that the application put into _meta itself is sent as it is."""
    app = make_app()
    mine = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

    async def trial():
        async with connect(app, observer=Tracing(spans.provider)) as client:
            return json.loads((await client.call_tool("meta", meta={"traceparent": mine, "tracestate": "q=1"})).text)

    seen = run(trial)
    assert (seen["traceparent"], seen["tracestate"]) == (mine, "q=1")


def test_baggage_travels(run, spans):
    app = make_app()

    async def trial():
        token = context.attach(baggage.set_baggage("user", "alice smith"))
        try:
            async with connect(app, observer=Tracing(spans.provider)) as client:
                return json.loads((await client.call_tool("meta")).text)
        finally:
            context.detach(token)

    assert run(trial)["baggage"] == "user=alice+smith"


def test_how_calls_fail(run, spans, revision):
    app = make_app()

    async def trial():
        async with connect(app, revision=revision, observer=Tracing(spans.provider)) as client:
            assert (await client.call_tool("refuses")).is_error
            with pytest.raises(RpcError):
                await client.call_tool("errs")
            with pytest.raises(RequestTimeout):
                await client.call_tool("hangs", timeout=0.02)
            task = asyncio.create_task(client.call_tool("asks"))
            await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            last = asyncio.create_task(client.call_tool("hangs"))
            await asyncio.sleep(0.01)
        with pytest.raises(ConnectionClosed):
            await last
        await asyncio.sleep(0)

    run(trial)
    seen = {}
    for span in spans.all():
        if span.kind is SpanKind.CLIENT and "error.type" in span.attributes:
            assert span.status.status_code is StatusCode.ERROR
            seen.setdefault(span.name, []).append(span.attributes["error.type"])
    assert seen == {
        "tools/call refuses": ["tool_error"],
        "tools/call errs": ["-32050"],
        "tools/call hangs": ["timeout", "ConnectionClosed"],
        "tools/call asks": ["cancelled"],
    }
    (span,) = of(spans, "tools/call errs", SpanKind.CLIENT)
    assert span.attributes["rpc.response.status_code"] == "-32050" and span.status.description == "no such luck"


def test_nothing_of_ended_calls_is_kept(run, spans):
    both = Tracing(spans.provider)
    app = make_app()

    async def trial():
        async with connect(app, observer=both) as client:
            await asyncio.gather(*(client.call_tool("quick") for _ in range(50)))
            with pytest.raises(RequestTimeout):
                await client.call_tool("hangs", timeout=0.01)

    run(trial)
    assert both._calls == {}
    assert len(spans.all("tools/call quick")) == 50


def test_tasks_go_on_in_the_trace_of_their_call(run, spans, revision):
    """A tool that became a task runs on behind its request: what it starts is still a child of that."""
    app = headrace.Server("t", version="1")
    seen = {}

    @app.tool(task="required")
    async def long() -> str:
        """Takes its time."""
        await asyncio.sleep(0.02)
        seen["at"] = current()
        return "done"

    both = Tracing(spans.provider)
    app.observe(both)

    async def trial():
        async with connect(app, revision=revision, tasks=True, observer=both) as client:
            assert (await client.call_tool("long")).text == "done"

    run(trial)
    served = of(spans, "tools/call long", SpanKind.SERVER)[-1]
    assert seen["at"] == place(served)


def test_everything_of_a_process(run, spans, monkeypatch):
    """instrument() without a target: servers and clients that start later."""
    from headrace.transports import runtime

    monkeypatch.setattr(runtime, "_everyone", [])
    tracing.instrument(None, spans.provider)
    app = make_app()

    async def trial():
        async with connect(app) as client:
            await client.call_tool("quick")

    run(trial)
    (sent,), (served,) = (of(spans, "tools/call quick", kind) for kind in (SpanKind.CLIENT, SpanKind.SERVER))
    assert parent_id(served) == sent.context.span_id
