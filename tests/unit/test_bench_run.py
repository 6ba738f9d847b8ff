"""Whole load runs against our own server on every transport, and against servers that fail (issue 4, part A)."""

import asyncio
import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from headrace import Server
from headrace.bench.fleet import LoadProcessFailed, divide
from headrace.bench.operations import BadOperation, prepare, tool_entry
from headrace.bench.plan import HttpTarget, LineTarget, Operation, Plan, Step
from headrace.bench.run import About, Stop, run, run_processes
from headrace.bench.scenario import scenario_of
from headrace.transports.stream import serve_lines

ECHO = Step(
    before=b'{"jsonrpc":"2.0","id":',
    after=b',"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello"}}}',
    method="tools/call",
    expects=b"hello",
)


def operation(step=ECHO):
    return (Operation(name="echo", steps=(step,)),)


def plan(target, **more):
    more.setdefault("timeout_s", 2.0)
    return Plan(target=target, operations=operation(), revision="2026-07-28", **more)


def fake(body, *arguments):
    """A server that is a few lines of Python: `line` is one request, `out` writes an answer."""
    text = (
        "import sys, json, os, time\n"
        "def out(x):\n    sys.stdout.write((x if isinstance(x, str) else json.dumps(x)) + '\\n'); sys.stdout.flush()\n"
        "def ok(i, text='hello'):\n    out({'jsonrpc': '2.0', 'id': i, 'result': {'content': [{'type': 'text', 'text': text}]}})\n"
        "n = 0\n"
        "for line in sys.stdin:\n"
        "    m = json.loads(line); i = m.get('id'); n += 1\n" + "".join(f"    {row}\n" for row in body.splitlines())
    )
    return LineTarget(command=(sys.executable, "-c", text, *arguments))


def demo():
    app = Server("demo", version="1")

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def fails(text: str) -> str:
        raise ValueError("no")

    return app


COMMAND = (
    sys.executable,
    "-c",
    "from headrace import Server\napp = Server('demo', version='1')\n"
    "@app.tool\nasync def echo(text: str) -> str:\n    return text\n"
    "@app.tool\nasync def steps(ctx: 'Context', text: str) -> str:\n    await ctx.progress(1, 2)\n    return text\n"
    "app.run()".replace("import Server", "import Server, Context").replace("'Context'", "Context"),
)
ENV = {"PYTHONPATH": str(Path(__file__).parents[2] / "src")}


def kinds(report):
    return {error.kind: error.count for error in report.errors}


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25", "2024-11-05"])
def test_stdio_all_answers_right(run, revision):
    async def main():
        entries = [tool_entry("echo", {"text": 'h"é'}, expect='h"é')]
        if revision > "2025":
            entries += scenario_of([{"list": "tools"}, {"call": "steps", "arguments": {"text": "a"}, "progress": True}])
        ready = await prepare(list(COMMAND), entries, revision=revision, env=ENV, inherit_env=True)
        seen = []
        report = await run_it(
            ready.plan(connections=2, in_flight=300, requests=6000, duration_s=None), on_progress=seen.append
        )
        assert kinds(report) == {}
        assert report.totals.ok == 6000 and report.totals.failed == 0
        assert sum(op.ok for op in report.operations) == 6000 and all(op.ok for op in report.operations)
        assert report.target.kind == "stdio" and report.target.revision == revision
        assert report.server is not None and report.server.rss_end > 0
        assert seen[0].phase == "connecting"
        if revision > "2025":
            assert report.totals.notes == report.operations[2].ok

    run(main)


@pytest.mark.parametrize(
    ("revision", "begins"),
    [("2026-07-28", ["server/discover"]), ("2025-11-25", ["initialize", "notifications/initialized"])],
)
def test_the_start_of_a_child_is_no_call(run, revision, begins):
    """A connection is asked something before it is measured, in the modern era too: the first calls of a program that
    takes long to start would have its start for their latency."""

    async def main():
        ready = await prepare(
            list(COMMAND), [tool_entry("echo", {"text": "h"})], revision=revision, env=ENV, inherit_env=True
        )
        assert [step.method for step in ready.opening] == begins
        target = fake(f"if (m['method'] == 'tools/call') == (n <= {len(begins)}): os._exit(1)\nif i: ok(i, 'h')")
        load = Plan(
            target=target, operations=ready.operations, revision=revision, opening=ready.opening,
            in_flight=4, requests=4, duration_s=None, timeout_s=5.0,
        )  # fmt: skip
        report = await run_it(load)
        assert kinds(report) == {} and report.totals.ok == 4

    run(main)


run_it = run


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_sockets_all_answers_right(run, tmp_path, kind):
    async def main():
        app = demo()
        path = str(tmp_path / "s")
        async with app.running():
            listener = await serve_lines(app, **({"unix": path} if kind == "unix" else {}))
            address = f"unix:{path}" if kind == "unix" else listener.addresses[0]
            ready = await prepare(address, [tool_entry("echo", payload=2000, expect="quick brown")])
            assert ready.server_name == "demo" and ready.revision == "2026-07-28"
            report = await run_it(ready.plan(connections=3, in_flight=10, requests=500, duration_s=None))
            assert report.totals.ok == 500 and kinds(report) == {}
            assert report.totals.bytes_out > 500 * 2000
            report = await run_it(ready.plan(connections=8, requests=3, duration_s=None))
            assert report.totals.completed == 3
            report = await run_it(ready.plan(connections=1, duration_s=0.0))
            assert report.totals.failed == 0 and report.totals.seconds < 2
            await listener.close()

    run(main)


def test_wrong_operations_are_said_before_any_load(run, tmp_path):
    async def main():
        app = demo()
        path = str(tmp_path / "s")
        async with app.running():
            listener = await serve_lines(app, unix=path)
            for entry, said in (
                (tool_entry("ecko"), "did you mean 'echo'"),
                (tool_entry("zzz"), "it has echo, fails"),
                (tool_entry("echo"), "text"),
                (tool_entry("fails", {"text": "a"}), "the tool fails"),
                (tool_entry("echo", {"text": "a"}, expect="b"), "'b' is not in the answer"),
                (scenario_of([{"ping": True}])[0], "has no ping"),
                (scenario_of([{"read": "demo://x"}])[0], "read demo://x"),
                (scenario_of([{"session": [{"list": "tools"}]}])[0], "no sessions"),
            ):
                with pytest.raises(BadOperation, match=said):
                    await prepare(f"unix:{path}", [entry])
            await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("ok(i, 'other')", "wrong_content"),
        ("out({'jsonrpc': '2.0', 'id': i, 'error': {'code': -32603, 'message': 'no'}})", "rpc_error"),
        ("out({'jsonrpc': '2.0', 'id': i, 'result': {'content': [], 'isError': True}})", "is_error"),
        ("out({'jsonrpc': '2.0', 'id': i, 'result': {'resultType': 'input_required'}})", "unfinished"),
        ("out('garbage')\nok(i)", "not_json"),
        ("ok(i)\nok(i)", "wrong_id"),
        ("ok(str(i))", "wrong_id"),
    ],
)
def test_wrong_answers_are_counted_by_kind(run, body, kind):
    async def main():
        report = await run_it(plan(fake(body), in_flight=4, requests=40, duration_s=None, timeout_s=0.5))
        assert kinds(report)[kind] >= 39
        assert next(error for error in report.errors if error.kind == kind).sample
        assert report.totals.failed >= 39

    run(main)


def test_a_server_that_never_answers_ends_in_time(run):
    async def main():
        report = await run_it(plan(fake("sys.stderr.write('busy\\n')"), in_flight=3, duration_s=0.5, timeout_s=0.4))
        assert report.totals.ok == 0 and set(kinds(report)) == {"timeout"}
        assert 3 <= report.totals.failed < 30
        assert "tools/call" in report.errors[0].sample

    run(main)


def test_a_server_that_dies_is_started_again(run):
    async def main():
        body = "ok(i)\nif n == 50: sys.stderr.write('out of luck\\n'); sys.stderr.flush(); os._exit(3)"
        report = await run_it(plan(fake(body), in_flight=2, requests=150, duration_s=None))
        assert report.totals.completed == 150 and report.totals.reconnects >= 2
        assert kinds(report).get("closed", 0) == report.totals.failed > 0
        assert "status 3" in report.errors[0].sample and "out of luck" in report.errors[0].sample

    run(main)


def test_a_server_that_never_comes_back_ends_the_run(run, tmp_path, monkeypatch):
    from headrace.bench import line_side

    monkeypatch.setattr(line_side, "_PATIENCE", 0.5)
    flag = tmp_path / "flag"
    body = f"ok(i)\nif n == 20: open({str(flag)!r}, 'w').close(); os._exit(1)"

    async def main():
        target = fake(body)
        script = f"import os\nif os.path.exists({str(flag)!r}): os._exit(4)\n" + target.command[2]
        target = LineTarget(command=(sys.executable, "-c", script))
        report = await run_it(plan(target, in_flight=2, requests=10_000, duration_s=None, timeout_s=0.3))
        assert report.totals.ok >= 18
        assert set(kinds(report)) <= {"closed", "connect", "timeout"} and 0 < report.totals.failed < 100
        assert "exited with status" in report.errors[0].sample

    run(main)


def test_nothing_listens(run, tmp_path, monkeypatch):
    from headrace.bench import line_side

    monkeypatch.setattr(line_side, "_PATIENCE", 0.2)

    async def main():
        where = str(tmp_path / "none")
        report = await run_it(plan(LineTarget(unix=where), connections=2, duration_s=5.0, timeout_s=0.2))
        assert set(kinds(report)) == {"connect"} and where in report.errors[0].sample
        assert report.totals.ok == 0 and report.totals.seconds < 4

    run(main)


def test_a_server_that_asks_gets_answers(run):
    body = (
        "if 'method' not in m:\n        continue\n"
        "out({'jsonrpc': '2.0', 'id': 'q', 'method': 'roots/list'})\n"
        "a = json.loads(sys.stdin.readline())\n"
        "out({'jsonrpc': '2.0', 'id': 9, 'method': 'ping'})\n"
        "b = json.loads(sys.stdin.readline())\n"
        "ok(i, 'hello' if a['error']['code'] == -32601 and b['result'] == {} else 'wrong')"
    )

    async def main():
        report = await run_it(plan(fake(body), requests=20, duration_s=None))
        assert report.totals.ok == 20 and kinds(report) == {}

    run(main)


def test_rate_is_kept_and_latency_counts_from_the_intended_start(run):
    async def main():
        report = await run_it(plan(fake("if n == 20: time.sleep(0.3)\nok(i)"), rate=100.0, duration_s=1.0))
        assert report.latency.corrected and report.totals.ok + report.totals.unsent >= 95
        assert report.totals.ok <= 102
        # Of the calls that were due while the server slept, not one alone was slow (coordinated omission).
        assert sum(count for up_to, count in report.latency.histogram if up_to > 50_000) >= 15

    run(main)


def test_divide_is_even():
    whole = plan(LineTarget(unix="x"), connections=7, requests=100, duration_s=None, rate=70.0, processes=3)
    shares = divide(whole)
    assert [s.connections for s in shares] == [3, 2, 2]
    assert sum(s.requests for s in shares) == 100 and sum(s.rate for s in shares) == pytest.approx(70)
    assert len({s.seed for s in shares}) == 3 and all(s.processes == 1 for s in shares)
    assert len(divide(plan(LineTarget(unix="x"), connections=2, processes=8))) == 2


def test_several_load_processes(run, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", ENV["PYTHONPATH"])

    async def main():
        report = await run_it(plan(fake("ok(i)"), connections=3, in_flight=2, requests=301, duration_s=None, processes=2))
        assert report.totals.ok == 301 and report.load.processes == 2 and kinds(report) == {}

    run(main)


def test_death_of_a_load_process_is_an_error(run, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/nonexistent")
    monkeypatch.setattr(sys, "executable", "/bin/false")

    async def main():
        with pytest.raises(LoadProcessFailed, match="status"):
            await run_it(plan(LineTarget(unix="x"), connections=2, duration_s=1.0, processes=2))

    run(main)


def test_ctrl_c_keeps_what_was_measured():
    stop = Stop()
    timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    report = run_processes(plan(fake("ok(i)"), in_flight=4, duration_s=25.0), stop=stop, about=About(name="typed"))
    timer.join()
    assert stop.requested == 1 and report.totals.seconds < 20
    assert report.totals.ok > 0 and report.totals.failed == 0 and report.target.name == "typed"


def test_second_stop_ends_at_once(run):
    async def main():
        stop = Stop()
        loop = asyncio.get_running_loop()
        loop.call_later(0.6, stop.request)
        loop.call_later(0.7, stop.request)
        body = "if n > 5: time.sleep(100)\nok(i)"
        report = await run_it(plan(fake(body), duration_s=25.0, timeout_s=25.0), stop=stop)
        assert stop.requested == 2 and report.totals.ok == 5

    run(main)


def test_a_run_needs_an_end(run):
    async def main():
        with pytest.raises(ValueError, match="duration"):
            await run_it(plan(HttpTarget(host="x", port=1), duration_s=None))

    run(main)
