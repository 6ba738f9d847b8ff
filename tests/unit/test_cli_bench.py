"""``headrace bench`` run as people run it: what it prints, what it writes, how it ends."""

import contextlib
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

import pytest
from bench_samples import sample
from test_cli import ENV, HEADRACE, headrace, plain_failure

from headrace.bench.report import encode, read_report
from headrace.cli.bench_table import live_line, show_report
from headrace.cli.bench_values import COUNT, RATE, SECONDS, SIZE, WARMUP

DEMO = """
import asyncio, itertools
from headrace import Server
app = Server("demo", version="1.0")
turn = itertools.count()

@app.tool
async def echo(text: str) -> str:
    return text

@app.tool
async def add(a: int, b: int) -> int:
    return a + b

@app.tool
async def flaky() -> str:
    if next(turn) % 3 == 2:
        raise ValueError("every third call")
    return "fine"

@app.tool
async def fickle() -> str:
    return "right" if next(turn) < 3 else "wrong"

@app.tool
async def slow() -> str:
    await asyncio.sleep(0.05)
    return "done"

empty = Server("empty", version="1.0")
"""


@pytest.fixture
def demo(tmp_path):
    (tmp_path / "demo.py").write_text(DEMO)
    return ["--", *HEADRACE, "serve", str(tmp_path / "demo.py")]


def bench(*arguments, check=None, cwd=None):
    return headrace("bench", *arguments, check=check, cwd=cwd)


def test_a_command_is_measured_and_the_table_says_everything(demo):
    done = bench("echo", "text=x", "--expect", "x", "--requests", "500", "--in-flight", "8", *demo, check=0)
    assert done.stderr == ""
    for text in (
        r"demo 1\.0 at .*serve .*demo\.py, revision 2026-07-28", r"1 connection x 8 in flight, closed loop",
        r"calls +500 right, 0 failed", r"throughput +[\d,.]+ /s", r"p50 +p75 +p90 +p99 +p99\.9 +max",
        r"server +[\d.]+ (us|ms) CPU per call, [\d.]+ cores, [\d.]+ MB", r"generator +.* CPU per call", r"bytes +.* sent",
    ):  # fmt: skip
        assert re.search(text, done.stdout), (text, done.stdout)


def test_json_on_standard_output_is_json_alone(demo):
    done = bench("--tool", "add", "--args", '{"a": 1}', "b:=2", "--requests", "200", "--json", "-", *demo, check=0)
    report = read_report(done.stdout)
    assert (report.totals.ok, report.totals.failed) == (200, 0)
    assert report.target.kind == "stdio" and report.target.server.name == "demo"
    assert report.load.requests == 200 and report.load.duration_s is None and report.load.warmup_s == 0
    assert report.server.cpu_us_per_call >= 0 and report.server.rss_max > 1_000_000
    assert report.operations[0].name == "call add"
    assert "200 right" in done.stderr


def test_the_bare_command_lists_tools_and_says_so(demo):
    done = bench("-n", "50", *demo, check=0)
    assert "no tool was named: measures tools/list" in done.stderr
    assert "50 right" in done.stdout


def test_failures_are_counted_with_a_sample_and_status_1(demo, tmp_path):
    page = tmp_path / "page.html"
    done = bench("--tool", "flaky", "-n", "300", "--in-flight", "4", "--html", str(page), "--json", str(tmp_path / "r.json"), *demo, check=1)
    report = read_report((tmp_path / "r.json").read_bytes())
    assert report.totals.failed >= 99 and report.totals.ok + report.totals.failed == 300
    [error] = report.errors
    assert error.kind == "is_error" and error.count == report.totals.failed and error.sample
    assert re.search(r"\d+ x is_error: a tool result that says isError", done.stdout)
    assert "Speed means little" in page.read_text()


def test_a_wrong_content_is_no_answer(demo):
    done = bench("--tool", "fickle", "--expect", "right", "-n", "100", *demo, check=1)
    assert re.search(r"\d+ x wrong_content", done.stdout)


def test_an_open_loop_counts_from_when_calls_were_due(demo):
    # 100 a second are due, one lane of 50 ms answers 20: the others wait, and their waiting counts.
    done = bench("--tool", "slow", "--rate", "100/s", "-d", "1s", "--warmup", "0", "--in-flight", "1", "--json", "-", *demo)
    report = read_report(done.stdout)
    assert done.returncode == 0, done
    assert report.latency.corrected and report.load.rate == 100
    assert report.latency.max > 300_000
    assert report.totals.unsent > 10
    assert "counted from when each call was due" in done.stderr and "never sent" in done.stderr


@pytest.mark.parametrize(
    "arguments, says",
    [
        ((), "name a server"),
        (("http://127.0.0.1:1/mcp", "--duration", "10x"), "--duration '10x': use a time such as 10s"),
        (("http://127.0.0.1:1/mcp", "--rate", "fast"), "--rate 'fast': use calls such as"),
        (("http://127.0.0.1:1/mcp", "-c", "0"), "use a whole number from 1"),
        (("http://127.0.0.1:1/mcp", "--payload", "1t", "--tool", "x"), "--payload '1t': use bytes"),
        (("http://127.0.0.1:1/mcp", "--in-flight", "5"), "--in-flight: HTTP/1.1 carries one call"),
        (("http://127.0.0.1:1/mcp", "--expect", "x"), "--expect stands beside --tool"),
        (("http://127.0.0.1:1/mcp", "--args", "{}"), "arguments need a tool"),
        (("http://127.0.0.1:1/mcp", "--tool", "x", "--args", "[]"), "--args must be a JSON object"),
        (("http://127.0.0.1:1/mcp", "x", "--tool", "y"), "name one tool"),
        (("http://127.0.0.1:1/mcp", "--scenario", "nope.toml"), "nope.toml: No such file"),
        (("http://127.0.0.1:1/mcp", "--scenario", "nope.toml", "--tool", "x"), "--scenario says what to call"),
        (("http://127.0.0.1:1/mcp", "--pid", "4194305"), "there is no such process"),
        (("http://127.0.0.1:1/mcp", "--json", "/nope/x.json"), "there is no folder /nope"),
        (("http://127.0.0.1:1/mcp", "--json", "-", "--html", "-"), "cannot both be standard output"),
        (("http://127.0.0.1:1/mcp", "--processes", "3", "-c", "2"), "need a connection each"),
        (("http://127.0.0.1:1/mcp", "--revision", "1", "--tool", "x"), "revision '1'"),
        (("--compare", "nope.json"), "nope.json: No such file"),
        (("demo.py", "--tool", "x"), "put the command after --"),
        (("a=1", "--tool", "x"), "where the server should be"),
        (("http://127.0.0.1:1/mcp", "--bogus"), "No such option"),
    ],
)
def test_wrong_usage_is_one_plain_line(arguments, says, tmp_path):
    assert says in plain_failure(bench(*arguments, cwd=tmp_path), 2)


@pytest.mark.parametrize(
    "arguments, says",
    [
        (("--tool", "ech"), "no tool 'ech'; did you mean 'echo'"),
        (("ech", "text=x"), "unknown tool: ech; did you mean echo"),
        (("--tool", "add", "--args", '{"a": 1}'), "missing required argument 'b'"),
        (("echo", "text=a", "--expect", "b"), "'b' is not in the answer"),
        (("--tool", "add", "--payload", "10"), "no string argument that a payload could fill"),
    ],
)
def test_what_a_server_cannot_do_is_said_before_any_load(demo, arguments, says):
    assert says in plain_failure(bench(*arguments, *demo), 1)


def test_servers_that_are_not_there():
    assert "connection refused" in plain_failure(bench("http://127.0.0.1:1/mcp"), 1)
    assert "no such command" in plain_failure(bench("--", "headrace-no-such-program"), 1)
    assert "exited with status 3" in plain_failure(bench("--", sys.executable, "-c", "raise SystemExit(3)"), 1)


def test_a_plain_program_and_a_scenario(tmp_path):
    (tmp_path / "server.py").write_text(DEMO + "\nif __name__ == '__main__':\n    app.run()\n")
    (tmp_path / "mix.json").write_text(json.dumps({"operations": [{"call": "echo", "arguments": {"text": "a"}, "weight": 3}, {"list": "tools"}]}))
    (tmp_path / "bad.toml").write_text('[[operation]]\ncall = "echo"\nweight = 0\n')
    command = ["--", sys.executable, str(tmp_path / "server.py")]
    done = bench("--scenario", str(tmp_path / "mix.json"), "-n", "400", "--seed", "7", "--json", "-", *command, check=0)
    report = read_report(done.stdout)
    assert [each.name for each in report.operations] == ["call echo", "list tools"]
    assert report.load.seed == 7
    assert report.operations[0].ok > report.operations[1].ok > 0
    assert re.search(r"operation +share +right", done.stderr)
    plain_failure(bench("--scenario", str(tmp_path / "bad.toml"), *command), 2, r"bad.toml, line 1, operation 1: weight must be")


# --- comparing -----------------------------------------------------------------------------------------


def test_two_reports_are_compared(tmp_path):
    for name, made in (("a.json", sample()), ("b.json", sample(seed=2, speed=1.4)), ("c.json", sample(seed=3)),
                       ("bad.json", sample(errors=[("timeout", 9, "x")]))):  # fmt: skip
        (tmp_path / name).write_bytes(encode(made))
    done = bench("--compare", "a.json", "b.json", "--html", "page.html", cwd=tmp_path, check=0)
    assert re.search(r"calls per second +[\d,]+ /s +[\d,]+ /s +\+\d\d\.\d % +\+-\d+\.\d %  better", done.stdout)
    assert 'id="comparison"' in (tmp_path / "page.html").read_text()
    assert "No difference beyond noise." in bench("--compare", "a.json", "c.json", cwd=tmp_path, check=0).stdout
    assert "9 of" in bench("--compare", "a.json", "--compare", "bad.json", cwd=tmp_path, check=1).stdout
    (tmp_path / "x.json").write_text("[]")
    plain_failure(bench("--compare", "a.json", "x.json", cwd=tmp_path), 2, "x.json is no report of headrace bench")
    plain_failure(bench("--compare", "a.json", cwd=tmp_path), 2, "name the second report")
    plain_failure(bench("--compare", "a.json", "b.json", "c.json", cwd=tmp_path), 2, "one or two reports, not 3")


def test_a_run_is_compared_with_the_one_before(demo, tmp_path):
    before, page = str(tmp_path / "before.json"), tmp_path / "page.html"
    bench("echo", "text=x", "-n", "300", "--json", before, *demo, check=0)
    done = bench("echo", "text=x", "-n", "300", "--compare", before, "--html", str(page), *demo, check=0)
    assert "before.json" in done.stdout and "this run" in done.stdout
    assert "run at least 4 s" in done.stdout
    assert "this run" in page.read_text()


# --- while it runs -------------------------------------------------------------------------------------


def interrupted(arguments, when, number=signal.SIGINT):
    """Runs until ``when`` is on stderr, then one signal; gives status, stdout, stderr."""
    child = subprocess.Popen([*HEADRACE, "bench", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV)
    lines = []
    try:
        for line in child.stderr:
            lines.append(line)
            if re.search(when, line):
                break
        child.send_signal(number)
        out, err = child.communicate(timeout=30)
        return child.returncode, out, "".join(lines) + err
    finally:
        if child.poll() is None:
            child.kill()
            child.communicate()


@pytest.mark.parametrize("number, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["ctrl-c", "term"])
def test_a_signal_shows_what_was_measured(demo, tmp_path, number, status):
    report = tmp_path / "r.json"
    ended, out, err = interrupted(
        ["echo", "text=x", "-d", "1h", "--warmup", "0", "--progress", "--json", str(report), *demo], r"/s .* in flight .* left", number
    )
    assert ended == status, (out, err)
    assert re.search(r"calls +[\d,]+ right, 0 failed", out)
    assert read_report(report.read_bytes()).totals.ok > 0


def test_progress_in_a_pipe_is_shown_when_asked_for_only(demo):
    quiet = bench("echo", "text=x", "-d", "1200ms", "--warmup", "0", *demo, check=0)
    assert quiet.stderr == ""
    # More than one second's line: the first one may come before the first answer.
    told = bench("echo", "text=x", "-d", "2500ms", "--warmup", "0", "--progress", *demo, check=0)
    assert re.search(r"headrace: .*/s  .*in flight  p50 .*  p99 .*  0 errors", told.stderr)
    assert "\r" not in told.stderr


def test_a_terminal_has_a_live_line_and_the_table_is_whole(demo):
    master, slave = pty.openpty()
    child = subprocess.Popen(
        [*HEADRACE, "bench", "echo", "text=x", "-d", "1500ms", "--warmup", "0", *demo],
        stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, env={**ENV, "COLUMNS": "200"},
    )  # fmt: skip
    os.close(slave)
    seen, end = b"", time.monotonic() + 40
    with contextlib.suppress(OSError):
        while time.monotonic() < end and (select.select([master], [], [], 1)[0] or child.poll() is None):
            if select.select([master], [], [], 0)[0]:
                piece = os.read(master, 65536)
                if not piece:
                    break
                seen += piece
    os.close(master)
    assert child.wait(20) == 0
    text = seen.decode()
    assert re.search(r"\r[^\r\n]*/s  [^\r\n]*in flight", text)
    assert "right, 0 failed" in text.rpartition("\r ")[2]


# --- parts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "kind, text, value",
    [
        (SECONDS, "10s", 10), (SECONDS, "500ms", 0.5), (SECONDS, "2m", 120), (SECONDS, "1h", 3600), (SECONDS, "1.5", 1.5),
        (SECONDS, "0", None), (SECONDS, "-1", None), (SECONDS, "", None), (SECONDS, "1d", None), (WARMUP, "0", 0),
        (RATE, "1000", 1000), (RATE, "1000/s", 1000), (RATE, "2k/s", 2000), (RATE, "600/min", 10), (RATE, "0.5", 0.5),
        (RATE, "0", None), (RATE, "5/x", None), (RATE, "/s", None), (SIZE, "64k", 65536), (SIZE, "1m", 1048576),
        (SIZE, "0", 0), (SIZE, "64KiB", 65536), (SIZE, "1g", None), (SIZE, "0.3", None), (SIZE, "999m", None),
        (COUNT, "10k", 10_000), (COUNT, "1_000", 1000), (COUNT, "1.5k", 1500), (COUNT, "1.5", None), (COUNT, "x", None),
    ],
)  # fmt: skip
def test_values_as_people_write_them(kind, text, value):
    assert kind.read(text) == value


def test_help_teaches_with_examples():
    done = headrace("bench", "--help", check=0)
    for text in ("--tool echo --args", "--rate 2000/s", "--compare before.json after.json", "-- headrace serve", "Exit status"):
        assert text in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 100


def test_texts_of_servers_do_not_move_the_cursor():
    import io

    class Terminal(io.StringIO):
        encoding = "utf-8"

        def isatty(self):
            return True

    file = Terminal()
    show_report(sample(name="x\x1b[2Jy", names=("a\x1b[1m", "b"), errors=[("rpc_error", 1, "\x1b]0;title\x07 \r\n more")]), file)
    ours = re.sub(r"\x1b\[\d*m", "", file.getvalue())
    assert ours.replace("\n", "").isprintable()
    assert "more" in ours


def test_the_live_line_says_where_a_run_is():
    from headrace.bench.report import Progress

    line = live_line(Progress(phase="running", elapsed_s=7.2, left_s=2.8, ok=30_000, in_flight=64, per_second=34_941.0,
                              p50=120.0, p99=3970.0, server_cpu=0.92))  # fmt: skip
    assert line == "7.2 s  34,941/s  64 in flight  p50 120 us  p99 3.97 ms  0 errors  server 0.92 cores  2.8 s left"
    assert "warm-up" in live_line(Progress(phase="warmup"))
