"""A fast wrong server never looks good: what counts as right, and sums that say what they are (issue 4, part A)."""

import asyncio
import io
import json

import msgspec
import pytest
from bench_http_support import Server, answer, drive, http, kinds, operation, plan_for, step
from bench_samples import sample
from test_bench_run import fake, plan
from test_cli import HEADRACE, headrace

from headrace.bench._http_load import fault_of
from headrace.bench._tally import Tally
from headrace.bench.html import page
from headrace.bench.operations import prepare, tool_entry
from headrace.bench.plan import HttpTarget, Operation, Step
from headrace.bench.run import Stop
from headrace.bench.run import run as run_bench
from headrace.cli.bench_table import show_report

TEXT = b'{"resultType":"complete","content":[{"type":"text","text":"hello \\"y\\" \\\\"}],"structuredContent":{"size":-4.5}}'


@pytest.mark.parametrize(
    ("expects", "fault"),
    [
        (b"hello", None), (b'\\"y\\"', None), (b"\\\\", None), (b"-4.5", None), (b'"hello', None),
        (b"x", "wrong_content"), (b"text", "wrong_content"), (b"complete", "wrong_content"), (b"size", "wrong_content"),
        (b"content", "wrong_content"),
    ],
)  # fmt: skip
def test_an_expected_text_is_looked_for_in_what_an_answer_holds(expects, fault):
    assert fault_of(TEXT, expects) == fault


def test_faults_of_a_result():
    assert fault_of(TEXT, None, b"content") is None
    assert fault_of(b"{}", None, b"content") == "wrong_content"
    assert fault_of(b'{"content":"none"}', None, b"content") == "wrong_content"
    assert fault_of(b'{"content":[{"type":"text","text":"x"}],"is\\u0045rror":true}', b"x") == "is_error"
    assert fault_of(b'{"resultType":"task"}') == "unfinished"
    assert fault_of(b'{"_meta":{"note":"x"},"content":[]}', b"x") == "wrong_content"
    for text in (b"", b"[]", b'{"a":', b"7"):
        with pytest.raises(ValueError):
            fault_of(text)


WRONG = '{"content":[{"type":"text","text":"y"}]}'


def test_a_short_expected_text_is_not_found_in_the_words_of_the_protocol(run):
    """`"type":"text"` has an x in every answer."""

    async def body():
        async with Server(lambda r: http(answer(r["id"], WRONG))) as server:
            tally = await drive(plan_for(server.port, operation(step(expects=b"x"))))
            assert (tally.ok_total, kinds(tally)) == (0, {"wrong_content": 5})
        wrong = plan(fake("ok(i, 'y')"), requests=10, duration_s=None)
        report = await run_bench(msgspec.structs.replace(wrong, operations=_expecting(expects=b"x")))
        assert [(each.kind, each.count) for each in report.errors] == [("wrong_content", 10)]

    run(body)


def _expecting(**more):
    step = Step(before=b'{"jsonrpc":"2.0","id":', after=b',"method":"m"}', method="m", **more)
    return (Operation(name="echo", steps=(step,)),)


def test_an_answer_without_its_list_is_wrong(run):
    async def body():
        async with Server(lambda r: http(answer(r["id"], "{}"))) as server:
            tally = await drive(plan_for(server.port, operation(step(member=b"content"))))
            assert (tally.ok_total, kinds(tally)) == (0, {"wrong_content": 5})
        target = fake("out({'jsonrpc': '2.0', 'id': i, 'result': {}})")
        wrong = plan(target, requests=10, duration_s=None)
        report = await run_bench(msgspec.structs.replace(wrong, operations=_expecting(member=b"content")))
        assert [(each.kind, each.count) for each in report.errors] == [("wrong_content", 10)]

    run(body)


def test_answers_to_nobody_do_not_make_calls_cheaper(run):
    """CPU per call is divided by calls, not by all that a server says besides."""

    async def body():
        target = fake("ok(i)\nout('debugging')\nok(i)")
        report = await run_bench(plan(target, requests=400, duration_s=None))
        assert report.totals.ok == 400 and report.totals.strays == report.totals.failed >= 790
        assert report.generator.cpu_us_per_call == pytest.approx(report.generator.cpu_s / 400 * 1e6, rel=0.2, abs=5)

    run(body)


def test_failures_of_the_warmup_are_told_apart(run):
    async def body():
        target = fake("time.sleep(0.002)\nout({'jsonrpc': '2.0', 'id': i, 'error': {'code': 1, 'message': 'no'}})")
        report = await run_bench(plan(target, duration_s=1.2, warmup_s=0.6))
        assert report.totals.early > 10
        assert report.totals.failed - report.totals.early == sum(each.failed for each in report.over_time) > 10

    run(body)


def test_a_tally_travels_whole():
    tally = Tally(["a"])
    tally.add(0, 5)
    tally.add(0, kind="closed", sample="gone")
    again = Tally.load(tally.dump())
    assert (again.ok_total, again.failed_total, again.early, again.strays) == (1, 1, 0, 0)


def test_calls_beyond_the_number_asked_for_are_not_unsent(run):
    async def body():
        target = fake("time.sleep(0.05)\nok(i)")
        report = await run_bench(plan(target, requests=30, duration_s=0.5, rate=1000.0))
        assert report.totals.completed + report.totals.unsent == 30 and report.totals.unsent > 5

    run(body)


def test_a_child_that_closes_its_output_and_lives_on(run):
    async def body():
        target = fake("if n > 5:\n    os.close(1); time.sleep(60)\nok(i)")
        report = await asyncio.wait_for(
            run_bench(plan(target, requests=20, duration_s=None, timeout_s=25.0)), 20
        )
        assert report.totals.ok and {each.kind for each in report.errors} == {"closed"}
        assert "closed its output" in report.errors[0].sample

    run(body)


def test_half_an_answer_is_told_from_none(run):
    async def body():
        async with Server(lambda r: http(answer(r["id"]))[:-5]) as server:
            tally = await drive(plan_for(server.port, requests=1, timeout_s=0.3))
            [(kind, count, sample)] = tally.error_list
            assert (kind, count) == ("timeout", 1) and "only a part of the answer" in sample

    run(body)


def test_a_redirect_is_followed_before_the_load(run):
    """Many servers send /mcp to /mcp/: the load goes where the calls went."""

    def reply(request):
        message = request["message"]
        if "id" not in (message or {}):
            return http("", status="202 Accepted")
        if request["path"] == "/mcp":
            return http("", status="307 Temporary Redirect", more="Location: /mcp/\r\n")
        result = {"content": [{"type": "text", "text": "x"}], "resultType": "complete"}
        if message["method"] == "server/discover":
            result = {
                "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "s", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
            }  # fmt: skip
        elif message["method"] == "tools/list":
            result = {
                "resultType": "complete", "tools": [{"name": "echo", "inputSchema": {"type": "object"}}],
                "ttlMs": 0, "cacheScope": "private",
            }  # fmt: skip
        return http(answer(message["id"], json.dumps(result)))

    async def body():
        async with Server(reply) as server:
            prepared = await prepare(f"http://127.0.0.1:{server.port}/mcp", [tool_entry("echo")])
            assert isinstance(prepared.target, HttpTarget) and prepared.target.path == "/mcp/"
            tally = await drive(prepared.plan(duration_s=None, requests=5))
            assert (tally.ok_total, tally.failed_total) == (5, 0), tally.error_list

    run(body)


def _bench(*arguments):
    return headrace("bench", *arguments)


DEMO = """
import asyncio
from headrace import Server
app = Server("demo", version="1.0")

@app.tool
async def slow() -> str:
    await asyncio.sleep(0.05)
    return "done"
"""


def test_a_run_is_shown_even_when_its_file_cannot_be_written(tmp_path):
    (tmp_path / "demo.py").write_text(DEMO)
    demo = ["--", *HEADRACE, "serve", str(tmp_path / "demo.py")]
    done = _bench("slow", "-n", "5", "--json", "/proc/report.json", *demo)
    assert done.returncode == 1 and "5 right" in done.stdout
    assert done.stderr.startswith("headrace: --json /proc/report.json: ") and done.stderr.count("\n") == 1


def test_a_server_behind_its_rate_is_said(tmp_path):
    (tmp_path / "demo.py").write_text(DEMO)
    demo = ["--", *HEADRACE, "serve", str(tmp_path / "demo.py")]
    done = _bench("slow", "--rate", "400", "-d", "1s", "--warmup", "0", "--in-flight", "1", *demo)
    assert done.returncode == 0 and "The server was too slow for 400 calls a second" in done.stdout


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--rate", "1e30"), ("--rate", "99999999999k"), ("--timeout", "999999999h"), ("--duration", "999999999h"),
        ("--requests", "9999999999999999999999"), ("--connections", "999999999"), ("--json", "/"), ("--html", "/"),
        ("--expect", ""),
    ],
)  # fmt: skip
def test_values_beyond_reason_are_one_plain_line(option, value):
    done = _bench("http://127.0.0.1:1/mcp", "--tool", "echo", option, value)
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr.count("\n") == 1 and option in done.stderr and value in done.stderr


def test_calls_without_an_answer_are_told_when_a_run_is_ended(run):
    async def body():
        stop = Stop()
        asyncio.get_running_loop().call_later(0.6, stop.request)
        asyncio.get_running_loop().call_later(0.7, stop.request)
        report = await run_bench(plan(fake("time.sleep(60)"), in_flight=3, duration_s=30.0), stop=stop)
        assert (report.totals.completed, report.totals.unanswered) == (0, 3)

    run(body)


def test_a_hostile_server_does_not_rearrange_the_page():
    name = "e</script><img src=x onerror=alert(1)>\u202e\"'\x00"
    report = sample(names=(name, "b"), errors=[("rpc_error", 1, name)])
    report.target.name = name
    text = page(report)
    assert "<script" not in text and "<img" not in text and "&lt;img src=x" in text
    assert not {c for c in text if c in "\x00\u202e"} and "\ufffd" in text


def test_a_run_that_ended_early_is_said():
    report = sample(seconds=4)
    report.load.duration_s = 60.0
    report.totals.reconnects = 1
    out = io.StringIO()
    show_report(report, out)
    assert "The run ended early: after 4 s of 1 min" in out.getvalue()
    assert "1 reconnect\n" in out.getvalue() or "1 reconnect," in out.getvalue()
    report.load.duration_s = 4.0
    out = io.StringIO()
    show_report(report, out)
    assert "ended early" not in out.getvalue()
