"""``headrace trace``, run as people run it."""

import json
import re
import signal
import subprocess
import sys

from test_cli import ENV, HEADRACE, SERVER, headrace, plain_failure


def lines_of(text):
    return [re.match(r" *(\d+\.\d{4}) (->|<-) ([^{]*?)(?:  (\{.*))?$", line).groups() for line in text.splitlines()]


def test_a_session_is_shown_message_by_message():
    done = headrace("trace", "add", "a=1", "b=2", *SERVER, check=0)
    lines = lines_of(done.stdout)
    what = [f"{way} {re.sub(' .*', '', text)}" for _, way, text, _ in lines]
    assert what == ["-> server/discover", "<- result", "-> tools/list", "<- result", "-> tools/call", "<- result"]
    assert re.fullmatch(r"result #3 of tools/call \(\d+\.\d ms\)", lines[-1][2])
    assert json.loads(lines[-2][3])["params"]["arguments"] == {"a": 1, "b": 2}
    assert json.loads(lines[-1][3])["result"]["content"][0]["text"] == "3"
    assert [float(t) for t, *_ in lines] == sorted(float(t) for t, *_ in lines)


def test_machines_get_one_object_a_line(tmp_path):
    log = tmp_path / "log"
    headrace("trace", "--json", "--revision", "2025-11-25", "-o", str(log), *SERVER, check=0)
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    assert [each["direction"] for each in seen[:3]] == ["to-server", "to-client", "to-server"]
    assert seen[0]["message"]["method"] == "initialize" and seen[0]["time"] == 0
    assert seen[1]["message"]["result"]["protocolVersion"] == "2025-11-25" and seen[1]["seconds"] >= 0


def test_pretty_and_short():
    assert '\n  "jsonrpc": "2.0"' in headrace("trace", "--pretty", *SERVER, check=0).stdout
    assert all(len(line) <= 100 for line in headrace("trace", "--short", *SERVER, check=0).stdout.splitlines())


def test_what_was_said_before_a_failure_is_shown():
    done = headrace("trace", "--connect-timeout", "20", "--", sys.executable, "-c", "input(); import os; os._exit(3)")
    assert done.returncode == 1
    assert "server/discover" in done.stdout and "exited with status 3" in done.stderr.splitlines()[-1]


def test_a_failed_tool_is_status_1():
    assert "it went wrong" in headrace("trace", "fail", *SERVER, check=1).stdout


def test_bad_usage():
    for arguments, status, text in (
        ([], 2, "name a server"),
        (["--proxy"], 2, "needs the command behind '--'"),
        (["--proxy", "add", *SERVER], 2, "nothing else to do"),
        (["a=1", *SERVER], 2, "name of the tool"),
        (["--proxy", "--", "no-such-program-anywhere"], 1, "No such file"),
    ):
        assert text in plain_failure(headrace("trace", *arguments), status)


FRAMES = [
    '{"jsonrpc":"2.0","id":"é","method":"ping"}',
    "not json",
    '{"jsonrpc":"2.0","id":7,"method":"nope","params":{}}',
]


def test_a_proxy_passes_bytes_unchanged_and_shows_them(tmp_path):
    log = tmp_path / "log"
    direct = subprocess.run(SERVER[1:], input="\n".join(FRAMES), capture_output=True, text=True, env=ENV, timeout=60)
    through = headrace("trace", "--proxy", "--json", "-o", str(log), *SERVER, stdin="\n".join(FRAMES), check=0)
    assert through.stdout == direct.stdout and len(direct.stdout.splitlines()) == 3
    seen = [json.loads(line) for line in log.read_text().splitlines()]
    sent = [each for each in seen if each["direction"] == "to-server"]
    assert [each.get("message", each.get("text")) for each in sent] == [json.loads(FRAMES[0]), "not json", json.loads(FRAMES[2])]
    answers = [each["message"] for each in seen if each["direction"] == "to-client"]
    assert answers == [json.loads(line) for line in direct.stdout.splitlines()]
    shown = headrace("trace", "--proxy", *SERVER, stdin=FRAMES[0], check=0).stderr
    assert "-> ping #é" in shown and "<- result #é of ping" in shown


def test_a_proxy_ends_with_its_command():
    done = headrace("trace", "--proxy", "--", sys.executable, "-c", "import sys; sys.exit(5)")
    assert done.returncode == 5
    code = "import time; print('x', flush=True); time.sleep(60)"
    process = subprocess.Popen(
        [*HEADRACE, "trace", "--proxy", "--", sys.executable, "-c", code],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV,
    )  # fmt: skip
    assert process.stdout.readline() == "x\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=30)
    assert process.returncode == 128 + signal.SIGTERM


def test_a_reader_that_has_enough_ends_a_trace_quietly():
    for more in ([], ["--stay"]):
        with subprocess.Popen(
            [*HEADRACE, "trace", *more, *SERVER], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV
        ) as process:
            process.stdout.read(5)
            process.stdout.close()
            complaints = process.stderr.read()
            assert process.wait(60) in (0, 141) and complaints == b""


def test_a_proxy_whose_reader_is_gone_ends():
    """A command that writes more than a pipe holds is told, instead of waiting for a reader for ever."""
    code = "import sys\nwhile True: sys.stdout.write('x' * 80 + '\\n')"
    with subprocess.Popen(
        [*HEADRACE, "trace", "--proxy", "--", sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENV,
    ) as process:
        process.stdout.read(5)
        process.stdout.close()
        assert process.wait(30) != 0
