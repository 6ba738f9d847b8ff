"""Spans of a traced server: one a request, by the conventions, with the right parent, whatever the transport (B100)."""

import asyncio
import contextlib
import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("opentelemetry.sdk", reason="the OpenTelemetry SDK is not installed")

from asgi_support import handshake, living, modern, open_session, post
from http_support import META
from opentelemetry import baggage, trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import SpanKind, StatusCode

import headrace
from headrace import connect
from headrace.errors import RpcError, UsageError
from headrace.hosting import tracing
from headrace.jsonrpc import R2, R3, R4, R5

from . import traced
from .traced import Spans, make_app, place, serving

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"
OTHER_TRACE, OTHER_PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
OTHER = f"00-{OTHER_TRACE}-{OTHER_PARENT}-01"
INVALID = {
    "upper case": VALID.upper(),
    "zero trace": f"00-{'0' * 32}-{PARENT}-01",
    "zero parent": f"00-{TRACE}-{'0' * 16}-01",
    "version ff": f"ff-{TRACE}-{PARENT}-01",
    "short": f"00-{TRACE[:-1]}-{PARENT}-01",
    "more": f"{VALID}-extra",
    "no text": 7,
    "nothing": None,
    "object": {"traceparent": VALID},
    "empty": "",
    "words": "not a trace at all",
    "overlong": VALID + " " * 10_000,
    "lone surrogate": "\ud800",
}


@pytest.fixture
def spans():
    return Spans()


@pytest.fixture
def app(spans):
    app = make_app()
    tracing.instrument(app, spans.provider)
    return app


@pytest.fixture(params=["memory", "unix", "http"])
def transport(request):
    return request.param


@pytest.fixture(params=[R4, R5])
def revision(request):
    return request.param


def parent_of(span):
    return None if span.parent is None else (f"{span.parent.trace_id:032x}", f"{span.parent.span_id:016x}")


def test_one_span_a_request_by_the_conventions(run, app, spans, transport, revision, tmp_path):
    """Names, kinds and attributes, on every transport and in both eras; the handler sees the span as current one."""
    told = {}

    async def trial():
        async with serving(app, transport, tmp_path / "s") as where, connect(where, revision=revision) as client:
            for name in ("thread", "inline", "waits", "quick"):
                told[name] = (await client.call_tool(name)).text
            await client.get_prompt("greeting")
            await client.read_resource("docs://intro")
            await client.list_tools()

    run(trial)
    for name in ("thread", "inline", "waits", "quick"):
        span = spans.one(f"tools/call {name}")
        assert told[name] == place(span), name
        assert span.kind is SpanKind.SERVER
        assert span.parent is None
        assert span.status.status_code is StatusCode.UNSET
        facts = dict(span.attributes)
        assert facts.pop("jsonrpc.request.id").isdigit()
        if transport == "http":
            assert facts.pop("network.protocol.name") == "http"
            assert facts.pop("network.protocol.version") == "1.1"
            assert facts.pop("client.address") == "127.0.0.1"
            assert facts.pop("client.port") > 0
            if revision == R4:
                assert len(facts.pop("mcp.session.id")) == 16
        assert facts == {
            "mcp.method.name": "tools/call",
            "mcp.protocol.version": revision,
            "gen_ai.tool.name": name,
            "gen_ai.operation.name": "execute_tool",
            "network.transport": {"memory": "pipe", "unix": "unix", "http": "tcp"}[transport],
        }
    assert spans.one("prompts/get greeting").attributes["gen_ai.prompt.name"] == "greeting"
    assert spans.one("resources/read").attributes["mcp.resource.uri"] == "docs://intro"
    assert spans.one("tools/list").attributes["mcp.method.name"] == "tools/list"
    opening = ["server/discover"] if revision == R5 else ["initialize", "notifications/initialized"]
    assert [span.name for span in spans.all()][: len(opening)] == opening
    # Nothing is glued to anything: every message has a trace of its own.
    assert len({span.context.trace_id for span in spans.all()}) == len(spans.all())


def test_b100_the_context_is_the_one_of_the_message(run, app, spans, transport, revision, tmp_path):
    """B100: _meta first, then the header of the same HTTP request; invalid ones are passed over, no call fails; each
    message of a session has its own parent."""

    async def call(client, traceparent=None, **others):
        meta = dict(others) if traceparent is None else {"traceparent": traceparent, **others}
        before = len(spans.all("tools/call inline"))
        result = await client.call_tool("inline", meta=meta or None)
        assert not result.is_error
        span = (await spans.until("tools/call inline", before + 1))[-1]
        assert result.text == place(span)
        return span

    async def trial():
        async with serving(app, transport, tmp_path / "s") as where:
            headers = {"traceparent": OTHER, "tracestate": "a=b"} if transport == "http" else None
            of_header = (OTHER_TRACE, OTHER_PARENT) if transport == "http" else None
            async with connect(where, revision=revision, headers=headers) as client:
                # Both, and different: _meta wins.
                span = await call(client, VALID, tracestate="rojo=1", more={"k": 1})
                assert parent_of(span) == (TRACE, PARENT)
                assert span.parent.is_remote
                assert span.context.trace_state.get("rojo") == "1" and span.context.trace_state.get("a") is None
                # The header alone, or nothing at all.
                span = await call(client)
                assert parent_of(span) == of_header
                # Another one: no message continues the message before it.
                span = await call(client, f"00-{TRACE}-{OTHER_PARENT}-01")
                assert parent_of(span) == (TRACE, OTHER_PARENT)
                for what, wrong in INVALID.items():
                    if what == "lone surrogate":
                        continue
                    span = await call(client, wrong, tracestate="rojo=1")
                    assert parent_of(span) == of_header, what
                # Keys that only look like it.
                span = await call(client, Traceparent=VALID, traceParent=VALID)
                assert parent_of(span) == of_header

    run(trial)


def test_b100_meta_reaches_the_handler_untouched(run, app, revision):
    """B100: what the tracer reads and what nobody knows pass to the handler as they came."""
    meta = {"traceparent": VALID.upper(), "tracestate": "x=y", "baggage": "a=1", "example.com/odd": [1, {"two": None}]}

    async def trial():
        async with connect(app, revision=revision) as client:
            return json.loads((await client.call_tool("meta", meta=meta)).text)

    seen = run(trial)
    assert {key: seen[key] for key in meta} == meta


def test_b100_over_stdio(run, tmp_path, loop_name, revision):
    """The same on the standard streams of a program, on both loops."""
    path = tmp_path / "spans"
    path.touch()
    argv = [sys.executable, "-m", "hosting.traced", str(path), loop_name]
    env = {"PYTHONPATH": f"{Path(headrace.__file__).parents[1]}:{Path(traced.__file__).parents[1]}"}

    async def trial():
        told = {}
        async with connect(argv, env=env, revision=revision) as client:
            told["continued"] = (await client.call_tool("waits", meta={"traceparent": VALID})).text
            told["wrong"] = (await client.call_tool("thread", meta={"traceparent": VALID.upper()})).text
            told["none"] = (await client.call_tool("inline")).text
        return told

    told = run(trial)
    spans = {span["name"]: span for span in map(json.loads, path.read_text().splitlines())}
    assert spans["tools/call waits"]["parent"] == f"{TRACE}-{PARENT}"
    assert spans["tools/call waits"]["at"] == told["continued"]
    assert spans["tools/call thread"]["parent"] is None and spans["tools/call thread"]["at"] == told["wrong"]
    assert spans["tools/call inline"]["parent"] is None and spans["tools/call inline"]["at"] == told["none"]
    assert spans["tools/call inline"]["facts"]["network.transport"] == "pipe"


def test_b100_a_span_around_the_server_is_no_parent(run, app, spans, transport, tmp_path):
    """B100: one endless trace: what was current when a server began, or a connection, is the parent of no message."""

    async def trial():
        tracer = trace.get_tracer("test", tracer_provider=spans.provider)
        with tracer.start_as_current_span("startup"):
            async with serving(app, transport, tmp_path / "s") as where, connect(where) as client:
                await client.call_tool("quick")
                await client.call_tool("thread")

    run(trial)
    startup = spans.one("startup")
    served = [span for span in spans.all() if span is not startup]
    assert all(span.parent is None for span in served)
    assert startup.context.trace_id not in {span.context.trace_id for span in served}


def test_calls_at_the_same_time_keep_apart(run, app, spans, transport, tmp_path):
    """Many calls in flight on one connection: each handler sees its own span, before and after it waits."""

    async def trial():
        async with serving(app, transport, tmp_path / "s") as where, connect(where) as client:
            meta = [{"traceparent": f"00-{TRACE}-{n:016x}-01"} for n in range(1, 101)]
            return await asyncio.gather(
                *(client.call_tool(("waits", "thread")[n % 2], meta=each) for n, each in enumerate(meta))
            )

    results = run(trial)
    by_parent = {span.parent.span_id: place(span) for span in spans.all() if span.parent is not None}
    assert len(by_parent) == 100
    assert [result.text for result in results] == [by_parent[n] for n in range(1, 101)]


def test_how_requests_fail(run, app, spans, revision):
    """error.type, the status code of the protocol, the message; an exception is an event of its span."""

    async def trial():
        async with connect(app, revision=revision) as client:
            assert (await client.call_tool("breaks")).is_error
            assert (await client.call_tool("refuses")).is_error
            for name in ("errs", "there-is-none-such"):
                with pytest.raises(RpcError):
                    await client.call_tool(name)
            with pytest.raises(RpcError):
                await client.request("no/such")
            task = asyncio.create_task(client.call_tool("hangs"))
            await asyncio.sleep(0.01)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            await spans.until("tools/call hangs")

    run(trial)

    def failed(name):
        span = spans.one(name)
        assert span.status.status_code is StatusCode.ERROR
        return (
            span.attributes["error.type"], span.attributes.get("rpc.response.status_code"), span.status.description,
            [event.attributes["exception.type"] for event in span.events],
        )  # fmt: skip

    assert failed("tools/call breaks") == ("tool_error", None, None, ["ValueError"])
    assert failed("tools/call refuses") == ("tool_error", None, None, [])
    assert failed("tools/call errs") == ("-32050", "-32050", "no such luck", [])
    assert failed("tools/call hangs") == ("cancelled", None, None, [])
    # Names that clients make up name no span.
    kind, code, text, events = failed("tools/call")
    assert (kind, code, events) == ("-32602", "-32602", []) and text
    assert "gen_ai.tool.name" not in spans.one("tools/call").attributes
    assert failed("_OTHER")[:2] == ("-32601", "-32601")


def test_exceptions_are_told_where_that_is_wanted(run, spans):
    app = make_app()
    tracing.instrument(app, spans.provider, exceptions=False)

    async def trial():
        async with connect(app) as client:
            await client.call_tool("breaks")

    run(trial)
    assert spans.one("tools/call breaks").events == ()


def test_notifications_have_spans(run, app, spans):
    """With the parent that they name; progress and log messages belong to calls, and have none."""

    async def trial():
        async with connect(app, revision=R4, roots=["/tmp"]) as client:
            params = {"_meta": {"traceparent": VALID}}
            client._mux.notify(b"notifications/roots/list_changed", json.dumps(params).encode(), client._sink)
            client._mux.notify(b"notifications/progress", b'{"progressToken":9,"progress":1}', client._sink)
            client._mux.notify(b"made/up", None, client._sink)
            await client.ping()

    run(trial)
    span = spans.one("notifications/roots/list_changed")
    assert parent_of(span) == (TRACE, PARENT) and span.kind is SpanKind.SERVER
    assert spans.all("notifications/progress") == [] and spans.all("made/up") == []
    assert len(spans.all("_OTHER")) == 1


def test_messages_of_an_array_have_parents_of_their_own(run, app, spans):
    """2025-03-26: every entry of one HTTP body (B100: not all glued to the first)."""

    async def trial():
        async with serving(app, "http") as where, connect(where, revision=R2) as client:
            session = client._http.session_id
            entries = [
                {"jsonrpc": "2.0", "id": 71, "method": "tools/call", "params": {"name": "quick", "_meta": {"traceparent": VALID}}},
                {"jsonrpc": "2.0", "id": 72, "method": "tools/call", "params": {"name": "thread"}},
                {"jsonrpc": "2.0", "id": 73, "method": "tools/call", "params": {"name": "waits", "_meta": {"traceparent": "00-x"}}},
            ]  # fmt: skip
            body = json.dumps(entries).encode()
            host, port = where.split("/")[2].split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(
                b"POST /mcp HTTP/1.1\r\nHost: %b:%b\r\nContent-Type: application/json\r\nConnection: close\r\n"
                b"Accept: application/json, text/event-stream\r\nMcp-Session-Id: %b\r\nTraceparent: %b\r\n"
                b"Content-Length: %d\r\n\r\n%b"
                % (host.encode(), port.encode(), session.encode(), OTHER.encode(), len(body), body)
            )
            await reader.read()
            writer.close()

    run(trial)
    assert parent_of(spans.one("tools/call quick")) == (TRACE, PARENT)
    assert parent_of(spans.one("tools/call thread")) == (OTHER_TRACE, OTHER_PARENT)
    assert parent_of(spans.one("tools/call waits")) == (OTHER_TRACE, OTHER_PARENT)


def test_a_stream_of_http_sse_is_no_parent(run, app, spans):
    """2024-11-05 over HTTP+SSE: the headers of the one GET say nothing of the messages posted later (B100)."""

    async def trial():
        async with app.running():
            from headrace.transports.http_server import serve_http

            listener = await serve_http(app, host="127.0.0.1", port=0, path="/mcp", legacy_sse=True)
            try:
                url = listener.url.replace("/mcp", "/sse")
                async with connect(url, transport="sse", headers={"traceparent": VALID}) as client:
                    await client.call_tool("quick")
                    await client.call_tool("thread", meta={"traceparent": OTHER})
            finally:
                await listener.close()

    run(trial)
    assert spans.one("tools/call quick").parent is None
    assert parent_of(spans.one("tools/call thread")) == (OTHER_TRACE, OTHER_PARENT)


def test_baggage_reaches_the_handler(run, spans):
    app = headrace.Server("b", version="1")

    @app.tool
    def who() -> str:
        """Whose request it is."""
        return f"{baggage.get_baggage('user')}"

    tracing.instrument(app, spans.provider)

    async def trial():
        async with connect(app) as client:
            return [
                (await client.call_tool("who", meta=meta)).text
                for meta in ({"baggage": "user=alice,b=2", "traceparent": VALID}, {"baggage": "user=bob"}, None)
            ]

    assert run(trial) == ["alice", "bob", "None"]


def test_a_request_that_is_not_sampled_is_not_recorded_but_goes_on(run, app, spans):
    """The flags of the parent decide with the usual sampler; the context goes on all the same."""

    async def trial():
        async with connect(app) as client:
            return (await client.call_tool("inline", meta={"traceparent": VALID[:-2] + "00"})).text

    assert run(trial).startswith(TRACE)
    assert spans.all("tools/call inline") == []


def test_the_global_provider_is_used_by_default(run):
    """Without one that was set there is only the API: nothing is recorded, and the context of the caller goes on."""
    app = make_app()
    tracing.instrument(app)

    async def trial():
        async with connect(app) as client:
            return (await client.call_tool("thread", meta={"traceparent": VALID})).text

    assert run(trial) == f"{TRACE}-{PARENT}"


def test_where_nothing_is_instrumented_nothing_runs(run, monkeypatch):
    """Neither a span is made, nor does anything look at what comes."""

    def never(*args, **kwargs):
        raise AssertionError("it ran")

    monkeypatch.setattr(tracing.Tracing, "begin", never)
    monkeypatch.setattr(tracing.Tracing, "sending", never)
    app = make_app()

    async def trial():
        async with connect(app) as client:
            assert app.runtime.observer is None and client._mux.runtime.observer is None
            return (await client.call_tool("thread", meta={"traceparent": VALID})).text

    assert run(trial) == f"{'0' * 32}-{'0' * 16}"


def test_only_servers_and_clients_can_be_traced():
    with pytest.raises(UsageError, match="not a int"):
        tracing.instrument(7)


def test_spans_of_an_asgi_host_are_linked(run, app, spans, revision):
    """Under a host that traces HTTP: its span is the parent, unless _meta names another; then it is linked."""
    tracer = trace.get_tracer("host", tracer_provider=spans.provider)
    inner = app.asgi()

    async def host(scope, receive, send):
        if scope["type"] != "http":
            return await inner(scope, receive, send)
        with tracer.start_as_current_span("POST /mcp"):
            await inner(scope, receive, send)

    async def trial():
        async with living(host):
            session = await open_session(host) if revision == R4 else None
            for number, (name, meta) in enumerate((("quick", {}), ("thread", {"traceparent": VALID})), 10):
                params = {"name": name, "_meta": meta}
                if session is None:
                    request = modern("tools/call", params | {"_meta": META | meta}, number)
                else:
                    request = handshake("tools/call", params, number, session)
                headers = [*request[0], (b"traceparent", OTHER.encode())]
                assert (await post(host, headers, request[1]).over()).status == 200

    run(trial)
    hosts = {span.context.span_id: span for span in spans.all("POST /mcp")}
    first, second = spans.one("tools/call quick"), spans.one("tools/call thread")
    assert first.parent.span_id in hosts and first.links == ()
    assert parent_of(second) == (TRACE, PARENT)
    assert [link.context.span_id in hosts for link in second.links] == [True]


def test_r3_and_earlier_are_traced_too(run, app, spans):
    async def trial():
        for revision in (R2, R3):
            async with connect(app, revision=revision) as client:
                await client.call_tool("inline")

    run(trial)
    assert [span.attributes["mcp.protocol.version"] for span in spans.all("tools/call inline")] == [R2, R3]


def test_another_provider_for_another_server(run):
    """Two servers of one process keep their spans apart."""
    one, other = Spans(), Spans()
    first, second = make_app(), make_app()
    tracing.instrument(first, one.provider)
    tracing.instrument(second, other.provider)

    async def trial():
        async with connect(first) as a, connect(second) as b:
            await a.call_tool("quick")
            await b.call_tool("thread")

    run(trial)
    assert one.all("tools/call quick") and not one.all("tools/call thread")
    assert other.all("tools/call thread") and not other.all("tools/call quick")
    assert isinstance(one.provider, TracerProvider)
