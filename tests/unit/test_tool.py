"""The compiled path of tools/call: results byte for byte as the renderer writes them, arguments, time limits."""

import asyncio
import enum
import json
import threading
import time

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mux_support import StubLoop, stable_id

from headrace.errors import RpcError, ToolError
from headrace.limits import Limits
from headrace.mux import FrameSink, RawResult
from headrace.protocol.context import Context
from headrace.server.app import Server
from headrace.server.content import ToolResult

MODERN = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Forecast(msgspec.Struct):
    city: str
    temperature: float = 0.0
    tags: list[str] = []
    note: str | None = None


class Colour(enum.Enum):
    RED = "red"


class Line:
    """A server whose tool returns whatever a test puts into `value`, and a sink of the raw frames."""

    def __init__(self, annotation, *, threads=False):
        self.app = Server("t", version="1")
        self.value = None
        self.frames = []

        def give():
            return self.value

        if annotation is not None:
            give.__annotations__["return"] = annotation
        self.app.add_tool(give, inline=not threads)
        self.renderer_of = self.app.tools

    def call(self, revision, value):
        """The bytes of the answer's result object, as sent."""
        self.value = value
        loop = StubLoop()
        from headrace.mux import Mux, Runtime

        runtime = Runtime(
            create_future=loop.create_future, call_soon=loop.call_soon, call_at=loop.call_at, time=loop.time,
            spawn=loop.spawn, run_thread=None, post=loop.call_soon, report=lambda *a: None,
        )
        from headrace.protocol.session import Hello, ServerSession

        session = ServerSession(self.app, self.app.tables)
        mux = Mux(runtime, session, Limits())
        session.bind(mux)
        frames = []
        sink = FrameSink(frames.append)
        if revision == "2026-07-28":
            params = {"name": "give", "arguments": {}, "_meta": MODERN}
        else:
            session.opened(self.app.tables.by_name[revision], Hello(self.app.tables.by_name[revision], b"{}"))
            params = {"name": "give", "arguments": {}}
        mux.receive_frame(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).encode(), sink)
        (frame,) = frames
        prefix = b'{"jsonrpc":"2.0","id":1,"result":'
        assert frame.startswith(prefix), frame
        return frame[len(prefix):-1]


def expected(line, revision, value):
    """The same made of the renderer's bytes and the revision's tail."""
    tables = line.app.tables
    revision_table = tables.modern if revision == "2026-07-28" else tables.by_name[revision]
    from headrace.jsonrpc import SERVER_INFO
    from headrace.server.results import ResultRenderer

    signature = line.app.tools._entries["give"].signature
    renderer = ResultRenderer("give", signature.output, modern_meta={SERVER_INFO: line.app.info}, complete=RawResult)
    body = renderer.wire(value, revision)
    if isinstance(body, RawResult):
        return body.body
    return body[:-1] + revision_table.result_tail


REVISIONS = ["2025-11-25", "2026-07-28"]
texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
scalars = st.one_of(
    st.integers(), st.integers(-(2**70), 2**70), st.booleans(), st.floats(allow_nan=False, allow_infinity=False), texts)
forecasts = st.builds(
    Forecast, texts, st.floats(allow_nan=False, allow_infinity=False), st.lists(texts, max_size=3), st.none() | texts)
CASES = [
    (None, st.one_of(scalars, forecasts, st.none(), st.dictionaries(texts, scalars, max_size=3), st.lists(scalars, max_size=3))),
    (str, texts),
    (int, st.integers(-(2**64), 2**64)),
    (float, st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53)),
    (bool, st.booleans()),
    (Forecast, forecasts),
    (dict[str, int], st.dictionaries(texts, st.integers(-5, 5), max_size=3)),
    (list[Forecast], st.lists(forecasts, max_size=3)),
    (int | None, st.none() | st.integers()),
]


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("case", range(len(CASES)), ids=lambda n: str(CASES[n][0]))
def test_results_are_what_the_renderer_makes(case, revision):
    annotation, values = CASES[case]
    line = Line(annotation)

    @settings(max_examples=60, deadline=None)
    @given(values)
    def same(value):
        sent = line.call(revision, value)
        assert sent == expected(line, revision, value)
        json.loads(sent)

    same()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, 1e22), (float, -0.0), (float, 5e-324), (int, 2**63 - 1), (int, 2**63), (int, -(2**63)), (None, True),
        (Forecast, Forecast("null \n \u2028 \x7f \\ \" null")), (Forecast, Forecast("n" * 20_000 + "é" * 5000)),
        (None, "\x00\x1f\u2028\U0001f600"), (str, ""), (None, Colour.RED), (None, ToolResult(content="x", is_error=True)),
        (Forecast, ToolResult(structured_content=Forecast("x"), meta={"a": 1})), (None, msgspec.Raw(b'{"a":\n1}')),
    ],
    ids=stable_id,
)
def test_results_at_the_edges(annotation, value, revision):
    line = Line(annotation)
    assert line.call(revision, value) == expected(line, revision, value)


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (float, float("nan")), (float, float("inf")), (None, float("-inf")), (None, float("nan")), (int, True), (int, "5"),
        (int, 1.5), (bool, 1), (float, "x"), (float, True), (float, 10**400), (Forecast, Forecast("x", float("nan"))),
        (Forecast, {"city": 5}), (str, "\ud800"), (None, "\ud800"), (Forecast, Forecast("\udfff")),
        (None, {"a": float("inf")}), (None, object()), (int, None), (Forecast, None), (None, (x for x in ())),
    ],
    ids=stable_id,
)
def test_b105_b110_what_breaks_the_promise_or_json_is_one_error_result(annotation, value, revision):
    line = Line(annotation)
    sent = json.loads(line.call(revision, value))
    assert sent["isError"] is True
    assert "structuredContent" not in sent
    assert "internal error" in sent["content"][0]["text"]


# --- calls ------------------------------------------------------------------------------------------



def serve(run, app, work):
    """Runs `work(call, frames, mux)` against one session of `app`."""

    async def main():
        async with app.running():
            session, mux = app.new_session()
            frames = []
            sink = FrameSink(lambda frame: frames.append(json.loads(frame)))
            session.sink = sink

            def call(id, name, arguments="{}", meta=None):
                meta = json.dumps(MODERN | (meta or {}))
                mux.receive_frame(
                    f'{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}",'
                    f'"arguments":{arguments},"_meta":{meta}}}}}'.encode(), sink)

            async def until(n):
                for _ in range(3000):
                    if len(frames) >= n:
                        return frames
                    await asyncio.sleep(0.002)
                raise AssertionError(f"{n} frames expected, got {frames}")

            await work(call, until, mux)
            for _ in range(1000):
                if mux.in_flight == 0:
                    break
                await asyncio.sleep(0.002)
            assert set(mux.debug_counts().values()) == {0}

    run(main)


def shapes():
    app = Server("t", version="1")

    @app.tool(inline=True)
    def none() -> str:
        return "none"

    @app.tool(inline=True)
    def first(ctx: Context, a: int, b: int) -> str:
        return f"{ctx.request_id} {a} {b}"

    @app.tool(inline=True)
    def middle(a: int, ctx: Context, b: int = 7) -> str:
        return f"{a} {ctx.request_id} {b}"

    @app.tool(inline=True)
    def last(a: int, b: int, ctx: Context) -> str:
        return f"{a} {b} {ctx.request_id}"

    @app.tool(inline=True)
    def keyword(a: int, *, b: int, ctx: Context) -> str:
        return f"{a} {b} {ctx.request_id}"

    @app.tool
    def thread(a: int, ctx: Context, *, b: int) -> str:
        return f"{a} {ctx.request_id} {b}"

    class Bound:
        def method(self, a: int, b: int) -> str:
            return f"bound {a} {b}"

    app.add_tool(Bound().method, inline=True)
    space = {}
    names = [f"p{n}" for n in range(30)]
    exec(f"def wide({', '.join(n + ': int' for n in names)}) -> str: return ' '.join(map(str, ({', '.join(names)})))", space)
    app.add_tool(space["wide"], inline=True)
    exec(f"def sixteen({', '.join(n + ': int' for n in names[:16])}) -> str: return str(p0 + p15)", space)
    app.add_tool(space["sixteen"], inline=True)
    return app


def test_values_reach_their_parameters(run):
    async def work(call, until, mux):
        call(1, "none")
        call(2, "first", '{"b":2,"a":1}')
        call(3, "middle", '{"a":1}')
        call(4, "last", '{"a":1,"b":2}')
        call(5, "keyword", '{"a":1,"b":2}')
        call(6, "method", '{"a":1,"b":2}')
        call(7, "wide", json.dumps({f"p{n}": n for n in range(30)}))
        call(8, "sixteen", json.dumps({f"p{n}": n for n in range(16)}))
        call(9, "thread", '{"a":1,"b":2}')
        frames = await until(9)
        assert {f["id"]: f["result"]["content"][0]["text"] for f in frames} == {
            1: "none", 2: "2 1 2", 3: "1 3 7", 4: "1 2 4", 5: "1 2 5", 6: "bound 1 2", 7: " ".join(map(str, range(30))),
            8: "15", 9: "1 9 2",
        }

    serve(run, shapes(), work)


@pytest.mark.parametrize("text", ["1e400", "-1e400", "9" * 5000, "NaN", "Infinity", "01", "+1", ".5", "-0", "1.0"])
def test_b105_numbers_in_arguments(run, text):
    app = Server("t", version="1")

    @app.tool(inline=True)
    def number(n: int) -> str:
        return str(n)

    async def work(call, until, mux):
        started = time.perf_counter()
        call(1, "number", f'{{"n":{text}}}')
        call(2, "number", '{"n":5}')
        (first, second) = await until(2)
        assert second["result"]["content"][0]["text"] == "5"
        if text in ("-0", "1.0"):
            assert first["result"]["content"][0]["text"] in ("0", "1")
        else:
            assert first.get("error", {}).get("code") in (-32700, -32602) or first["result"]["isError"]
            assert len(json.dumps(first)) < 1024
        assert time.perf_counter() - started < 5

    serve(run, app, work)


@pytest.mark.parametrize("size", [10, 5000])
def test_b108_arguments_too_deep_or_not_json_are_answered(run, size):
    app = Server("t", version="1")

    @app.tool(inline=True)
    def take(v: object, pad: str = "") -> str:
        return "ok"

    async def work(call, until, mux):
        pad = "x" * size
        call(1, "take", f'{{"v":{"[" * 250}{"]" * 250},"pad":"{pad}"}}')
        call(2, "take", f'{{"v":[1,,2],"pad":"{pad}"}}')
        call(3, "take", f'{{"v":"{chr(0xfffd)}","pad":"{pad}"}}')
        call(4, "take", '{"v":1}')
        frames = await until(4)
        codes = {f["id"]: f.get("error", {}).get("code") for f in frames}
        assert codes[2] == -32700
        assert codes[3] is None and codes[4] is None

    serve(run, app, work)


def test_sf41_unknown_log_levels_are_refused_in_the_modern_era(run):
    app = Server("t", version="1")

    @app.tool(inline=True)
    def noisy(ctx: Context) -> str:
        ctx.log("error", "x")
        return "done"

    async def work(call, until, mux):
        for n, level in enumerate(("loud", "", 5, None, ["error"])):
            call(n, "noisy", meta={"io.modelcontextprotocol/logLevel": level})
        call(8, "noisy", meta={"io.modelcontextprotocol/logLevel": "warning"})
        call(9, "noisy")
        frames = await until(8)
        assert [f["error"]["code"] for f in frames[:5]] == [-32602] * 5
        assert [f.get("method") for f in frames[5:]] == ["notifications/message", None, None]

    serve(run, app, work)


# --- ends -------------------------------------------------------------------------------------------


def test_time_limit_and_end_in_the_same_turn(run):
    app = Server("t", version="1")
    gates = []
    # The thread ends after the answer for certain: a loop that is late would find both at once.
    answered = threading.Event()

    @app.tool(timeout=0.05)
    async def wait() -> str:
        gates.append(asyncio.get_running_loop().create_future())
        return await gates[-1]

    @app.tool(timeout=0.05)
    async def stubborn() -> str:
        while True:
            try:
                await asyncio.sleep(0.15)
                return "late"
            except asyncio.CancelledError:
                pass

    @app.tool(timeout=0.02)
    def block() -> str:
        answered.wait(20)
        return "late"

    @app.tool(timeout=30)
    async def quick() -> str:
        await asyncio.sleep(0)
        return "quick"

    async def work(call, until, mux):
        call(1, "quick")
        call(2, "wait")
        gates[-1].set_result("in time")
        call(3, "wait")
        call(4, "stubborn")
        call(5, "block")
        frames = await until(5)
        answered.set()
        texts = {f["id"]: f["result"]["content"][0]["text"] for f in frames}
        assert texts[1] == "quick" and texts[2] == "in time"
        for id, name in ((3, "wait"), (4, "stubborn"), (5, "block")):
            assert texts[id].startswith(f"tool {name!r} took longer than 0.0")
        # answered: the id is free although the handler may still run
        call(4, "quick")
        frames = await until(6)
        assert frames[5]["result"]["content"][0]["text"] == "quick"
        await asyncio.sleep(0.3)
        assert len(frames) == 6

    serve(run, app, work)


def test_progress_of_a_thread_comes_before_its_answer(run):
    app = Server("t", version="1")

    @app.tool
    def work_hard(ctx: Context) -> str:
        for n in range(100):
            ctx.progress(n)
        return "done"

    async def work(call, until, mux):
        for n in range(5):
            call(n, "work_hard", meta={"progressToken": n})
        frames = await until(505)
        for n in range(5):
            mine = [f["params"]["progress"] if "method" in f else None for f in frames
                    if f.get("id") == n or f.get("params", {}).get("progressToken") == n]
            assert mine == [*range(100), None]

    serve(run, app, work)


def test_b75_cancel_of_a_call_in_a_thread_drops_its_result(run):
    app = Server("t", version="1")
    go, seen = threading.Event(), []

    @app.tool
    def block(ctx: Context) -> str:
        go.wait(10)
        seen.append(ctx.cancelled)
        ctx.progress(1)
        return "late"

    async def work(call, until, mux):
        call(1, "block", meta={"progressToken": 1})
        mux.receive_frame(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}', FrameSink(print))
        await asyncio.sleep(0.02)
        assert mux.in_flight == 0
        go.set()
        for _ in range(500):
            if seen:
                break
            await asyncio.sleep(0.01)
        assert seen == [True]
        call(2, "block")
        assert [f["id"] for f in await until(1)] == [2]

    serve(run, app, work)


class BadText(ToolError):
    def __str__(self):
        raise ValueError


@pytest.mark.parametrize(
    ("exc", "text"),
    [
        (ToolError("no such city"), "no such city"), (ToolError("\ud800"), None), (BadText("x"), None),
        (ValueError("secret"), "tool 'boom' failed: internal error"), (SystemExit(1), "tool 'boom' failed: internal error"),
        (asyncio.CancelledError(), "tool 'boom' failed: internal error"),
        (ExceptionGroup("secret", [ValueError("secret")]), "tool 'boom' failed: internal error"),
        (RpcError(-32099, "m"), None), (RpcError(5, "\ud800", object()), None),
    ],
    ids=stable_id,
)
@pytest.mark.parametrize("kind", ["inline", "async", "thread"])
def test_b86_jr36_errors_of_tools(run, caplog, exc, text, kind):
    app = Server("t", version="1")
    if kind == "async":
        async def boom() -> str:
            raise exc
    else:
        def boom() -> str:
            raise exc
    app.add_tool(boom, inline=kind == "inline")

    async def work(call, until, mux):
        call(1, "boom")
        call(2, "boom")
        frames = await until(2)
        for frame in frames:
            assert "secret" not in json.dumps(frame)
            if text is None:
                assert frame["error"]["code"] == (exc.code if isinstance(exc, RpcError) else -32603)
            else:
                assert frame["result"]["isError"] and frame["result"]["content"][0]["text"] == text

    serve(run, app, work)
    exc.__traceback__ = exc.__context__ = exc.__cause__ = None  # it outlives the test
    caplog.clear()


def test_a_tool_is_removed_while_it_runs_and_added_anew(run):
    app = Server("t", version="1")
    gate = []

    @app.tool
    async def work_(a: int) -> str:
        gate.append(asyncio.get_running_loop().create_future())
        return f"old {await gate[0]}"

    async def work(call, until, mux):
        call(1, "work_", '{"a":1}')
        app.remove_tool("work_")
        call(2, "work_", '{"a":1}')

        async def work_(a: int) -> str:
            return "new"

        app.add_tool(work_)
        call(3, "work_", '{"a":1}')
        gate[0].set_result("one")
        frames = await until(3)
        assert {f["id"]: f.get("error", {}).get("code") or f["result"]["content"][0]["text"] for f in frames} == {
            1: "old one", 2: -32602, 3: "new"}

    serve(run, app, work)
