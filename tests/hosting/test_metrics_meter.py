"""Requests are counted where they end: by method, tool, revision and how they ended."""

import asyncio
import contextlib
import gc
import json
import sys

import pytest

from headrace import Context, RpcError, Server, ToolError
from headrace.errors import LocalProtocolError
from headrace.mux import BUCKETS, STATUSES, AnyMethod, FrameSink, Gate, Meter, Mux, Revision
from headrace.mux.observer import Observer
from headrace.transports.runtime import make_runtime

R5 = "2026-07-28"
META = {"io.modelcontextprotocol/protocolVersion": R5, "io.modelcontextprotocol/clientCapabilities": {}}


def make_server():
    app = Server("m", version="1")

    @app.tool(inline=True)
    def echo(text: str) -> str:
        return text

    @app.tool
    async def slow(ms: int) -> str:
        await asyncio.sleep(ms / 1000)
        return "slept"

    @app.tool
    async def fails(how: str):
        if how == "tool":
            raise ToolError("no")
        if how == "rpc":
            raise RpcError(-32050, "no")
        if how == "fault":
            raise KeyError("x")
        return {"content": [{"type": "text", "text": how}], "structuredContent": {"isError": True}}

    @app.tool
    def threaded(ctx: Context) -> str:
        return "here"

    return app


class Line:
    """A line connection of a running server, whose requests are counted."""

    def __init__(self, app, meter):
        if app.runtime.meter is None:
            app.runtime.measure(meter)
        self.answers = []
        session, self.mux = app.new_session()
        self.sink = session.sink = FrameSink(lambda frame: self.answers.append(json.loads(frame)))
        self.id = 0

    def send(self, method, params=None, **members):
        self.id += 1
        params = dict(params or {}, _meta=META)
        message = {"jsonrpc": "2.0", "id": self.id, "method": method, "params": params} | members
        self.mux.receive_frame(json.dumps(message).encode(), self.sink)

    def call(self, tool, **arguments):
        self.send("tools/call", {"name": tool, "arguments": arguments})

    async def settle(self):
        for _ in range(500):
            if not self.mux.in_flight:
                return
            await asyncio.sleep(0.01)
        raise AssertionError("requests are still in flight")


@contextlib.asynccontextmanager
async def metered():
    """A running server whose requests are counted, the meter, and a line to it."""
    app = make_server()
    async with app.running():
        meter = Meter()
        yield app, meter, Line(app, meter)


def counted(meter):
    """(method, tool) -> numbers by status, of all revisions."""
    found = {}
    for method, tool, _, counts, _, _ in meter.requests():
        known = found.setdefault((method, tool), [0] * len(STATUSES))
        found[method, tool] = [a + b for a, b in zip(known, counts, strict=True)]
    return found


def test_ends_of_calls_are_told_apart(run):
    """A tool's isError is no protocol error, whoever made it; what was inside of structured content is neither."""

    async def main():
        async with metered() as (_, meter, line):
            line.call("echo", text="a")
            line.call("echo", text='"isError":true')
            line.call("echo", wrong=1)
            line.call("fails", how="tool")
            line.call("fails", how="rpc")
            line.call("fails", how="fault")
            line.call("fails", how="neither")
            line.call("threaded")
            await line.settle()
            assert counted(meter) == {
                ("tools/call", "echo"): [2, 1, 0, 0],
                ("tools/call", "fails"): [1, 2, 1, 0],
                ("tools/call", "threaded"): [1, 0, 0, 0],
            }
            assert meter.errors == {-32050: 1}
            assert len(line.answers) == 8

    run(main)


def test_results_that_are_written_whole_say_how_they_ended(run):
    """Middleware that makes a failure of a result, or none."""

    async def main():
        app = Server("m", version="1")

        @app.tool
        async def whole(failed: bool) -> str:
            return ""

        async with app.running():
            meter = Meter()
            line = Line(app, meter)

            async def raw(call, next):
                result = await next(call)
                return result | {"isError": call.arguments["failed"]}

            app.add_middleware(raw)
            line.call("whole", failed=False)
            line.call("whole", failed=True)
            await line.settle()
            assert counted(meter) == {("tools/call", "whole"): [1, 1, 0, 0]}

    run(main)


def test_made_up_names_make_no_series(run):
    """Unknown tools count as one, unknown methods as refused."""

    async def main():
        async with metered() as (_, meter, line):
            for i in range(50):
                line.call(f"made-up-{i}")
                line.send(f"made/up-{i}")
            line.send("tools/call", {"arguments": {}})
            await line.settle()
            assert counted(meter) == {
                ("tools/call", "(unknown)"): [0, 0, 51, 0],
                ("(refused)", ""): [0, 0, 50, 0],
            }
            assert meter.errors == {-32602: 51, -32601: 50}
            assert set(meter.table) == set(counted(meter))

    run(main)


@pytest.mark.parametrize("known", [True, False])
def test_behind_middleware_tools_keep_their_names(run, known):
    """One handler then serves all tools: a name is believed when it is a tool, or was answered well."""

    async def main():
        app = make_server()

        @app.add_middleware
        async def passing(call, next):
            await next(call)

        async with app.running():
            meter = Meter(knows=app.tools.__contains__ if known else None)
            line = Line(app, meter)
            line.call("fails", how="tool")
            line.call("echo", text="a")
            line.call("echo", text="b")
            line.call("nothing")
            await line.settle()
            unknown = [0, 0, 1, 0] if known else [0, 1, 1, 0]
            expected = {("tools/call", "echo"): [2, 0, 0, 0], ("tools/call", "(unknown)"): unknown}
            if known:
                expected["tools/call", "fails"] = [0, 1, 0, 0]
            assert counted(meter) == expected

    run(main)


def test_a_host_that_serves_any_method(run):
    """What a host of another SDK answers well gets a name; what it refuses does not, unless it is a method of MCP."""

    async def main():
        meter = Meter(frozenset({"resources/read"}))
        runtime = make_runtime_of_nothing()
        runtime.measure(meter)

        def serve(exchange):
            params = json.loads(exchange.params or b"{}")
            if params.get("refuse"):
                raise RpcError(-32601, "no")
            return {"content": [], "isError": bool(params.get("fail"))}

        class Any(Gate):
            def classify(self, envelope, sink):
                return revision

        revision = Revision("2025-11-25", modern=False, fallback=AnyMethod(serve))
        from headrace.limits import DEFAULT

        mux = Mux(runtime, Any(), DEFAULT)
        answers = []
        sink = FrameSink(answers.append)

        def send(method, **params):
            message = {"jsonrpc": "2.0", "id": len(answers), "method": method, "params": params}
            mux.receive_frame(json.dumps(message).encode(), sink)

        send("tools/call", name="weather")
        send("tools/call", name="weather", fail=True)
        send("tools/call", name="nonsense", fail=True)
        send("tools/call", name="nonsense 2", refuse=True)
        send("tools/call", name="we\\ather \u00e9", refuse=True)
        send("custom/method")
        send("custom/method", refuse=True)
        send("custom/nonsense", refuse=True)
        send("resources/read", refuse=True)
        assert len(answers) == 9
        assert counted(meter) == {
            ("tools/call", "weather"): [1, 1, 0, 0],
            ("tools/call", "(unknown)"): [0, 1, 2, 0],
            ("custom/method", ""): [1, 0, 1, 0],
            ("(unknown)", ""): [0, 0, 1, 0],
            ("resources/read", ""): [0, 0, 1, 0],
        }
        assert {revision for _, _, revision, *_ in meter.requests()} == {"2025-11-25"}

    run(main)


def make_runtime_of_nothing():
    import logging

    from headrace.limits import DEFAULT

    return make_runtime(DEFAULT, logging.getLogger("headrace.test"))


def test_names_that_are_told_apart_are_bounded(run):
    """A host that answers everything well cannot be made to remember everything."""

    async def main():
        meter = Meter()
        runtime = make_runtime_of_nothing()
        runtime.measure(meter)
        revision = Revision("2025-11-25", modern=False, fallback=AnyMethod(lambda exchange: b"{}"))

        class Any(Gate):
            def classify(self, envelope, sink):
                return revision

        from headrace.limits import DEFAULT

        mux = Mux(runtime, Any(), DEFAULT)
        sink = FrameSink(lambda frame: None)
        for i in range(6_000):
            frame = b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t%d"}}' % i
            mux.receive_frame(frame, sink)
        assert 4_000 < len(meter.table) < 4_200
        total = sum(sum(counts) for counts in counted(meter).values())
        assert total == 6_000
        assert counted(meter)["tools/call", "(unknown)"][0] > 1_800

    run(main)


def test_nothing_is_held_by_requests_that_are_over(run):
    """However they end: answered, cancelled, or dropped with their connection while they run."""

    async def main():
        app = make_server()

        @app.add_middleware
        async def passing(call, next):
            await next(call)

        async with app.running():
            meter = Meter(knows=app.tools.__contains__)
            line = Line(app, meter)
            line.call("echo", text="a")
            line.call("slow", ms=1)
            await line.settle()
            gc.collect()
            series = meter.table["tools/call", "slow"]
            held = sys.getrefcount(series)
            for _ in range(20):
                line.call("slow", ms=1)
                line.call("slow", ms=60_000)
                note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": line.id}}
                line.mux.receive_frame(json.dumps(note).encode(), line.sink)
            await line.settle()
            line.call("slow", ms=60_000)
            line.mux.close("gone")
            await line.settle()
            assert counted(meter)["tools/call", "slow"] == [21, 0, 0, 21]
            del line
            gc.collect()
            assert sys.getrefcount(series) == held

    run(main)


def test_beside_an_observer(run):
    """Requests that are traced or logged count as others do."""

    class Watching(Observer):
        def __init__(self):
            self.ends = []

        def begin(self, exchange):
            return None

        def end(self, exchange, seen):
            self.ends.append(exchange.outcome)

    async def main():
        app = make_server()
        async with app.running():
            app.runtime.observer = watching = Watching()
            meter = Meter()
            line = Line(app, meter)
            line.call("echo", text="a")
            line.call("fails", how="tool")
            line.call("fails", how="rpc")
            line.call("slow", ms=60_000)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": line.id}}
            line.mux.receive_frame(json.dumps(note).encode(), line.sink)
            await line.settle()
            assert watching.ends == ["ok", "tool_error", "error", "cancelled"]
            assert counted(meter) == {
                ("tools/call", "echo"): [1, 0, 0, 0],
                ("tools/call", "fails"): [0, 1, 1, 0],
                ("tools/call", "slow"): [0, 0, 0, 1],
            }

    run(main)


def test_cancelled_and_abandoned_requests(run):
    """A cancel of the peer, and the end of its connection."""

    async def main():
        async with metered() as (_, meter, line):
            line.call("slow", ms=60_000)
            note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
            line.mux.receive_frame(json.dumps(note).encode(), line.sink)
            await line.settle()
            line.call("slow", ms=60_000)
            line.mux.close("gone")
            await line.settle()
            assert counted(meter) == {("tools/call", "slow"): [0, 0, 0, 2]}
            assert meter.errors == {}

    run(main)


def test_times_fall_into_buckets(run):
    """Each request is in one bucket; their sum is the time it took."""

    async def main():
        async with metered() as (_, meter, line):
            line.call("echo", text="a")
            line.call("slow", ms=30)
            await line.settle()
            rows = {tool: (buckets, seconds) for _, tool, _, _, buckets, seconds in meter.requests()}
            fast, quick = rows["echo"]
            assert sum(fast) == 1 and len(fast) == len(BUCKETS) + 1
            slow, seconds = rows["slow"]
            at = slow.index(1)
            assert sum(slow) == 1 and seconds > 0.02 > quick
            assert (BUCKETS[at - 1] if at else 0) < seconds
            assert at == len(BUCKETS) or seconds <= BUCKETS[at]

    run(main)


def test_only_what_changed(run):
    """For those who send figures every second."""

    async def main():
        async with metered() as (_, meter, line):
            line.call("echo", text="a")
            line.call("fails", how="tool")
            await line.settle()
            assert len(meter.requests(changed=True)) == 2
            assert meter.requests(changed=True) == []
            line.call("echo", text="a")
            assert [row[1:4] for row in meter.requests(changed=True)] == [("echo", R5, [2, 0, 0, 0])]
            assert len(meter.requests()) == 2

    run(main)


def test_a_handler_counts_in_the_meter_of_its_runtime(run):
    """A server that runs again with another meter counts there."""

    async def main():
        app = make_server()
        meters = [Meter(), Meter()]
        for meter in meters:
            async with app.running():
                Line(app, meter).call("echo", text="a")
                with pytest.raises(LocalProtocolError):
                    app.runtime.measure(Meter())
        assert [counted(meter) for meter in meters] == [{("tools/call", "echo"): [1, 0, 0, 0]}] * 2

    run(main)
