"""The programs and commands of docs/tracing.md and docs/logs.md are run, and print what the pages say."""

import json
import os
import re
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from headrace.hosting.access_log import AccessLog
from headrace.jsonrpc import R5
from headrace.mux import Observer

ROOT = Path(__file__).parent.parent
TRACING = (ROOT / "docs" / "tracing.md").read_text()
LOGS = (ROOT / "docs" / "logs.md").read_text()
BLOCKS = {name: re.findall(r"```(\w*)\n(.*?)```", text, re.S) for name, text in (("tracing", TRACING), ("logs", LOGS))}
PROGRAMS = {
    re.match(r"# (\w+\.py)\n", body)[1]: body for blocks in BLOCKS.values() for kind, body in blocks if kind == "python"
}
COMMANDS = {
    body.strip(): printed
    for (kind, body), (then, printed) in pairwise(BLOCKS["logs"])
    if kind == "" and then == "text"
}
META = {"io.modelcontextprotocol/protocolVersion": R5, "io.modelcontextprotocol/clientCapabilities": {}}
CALL = {"name": "forecast", "arguments": {"city": "Oslo"}, "_meta": META}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, body in PROGRAMS.items():
        (tmp_path / name).write_text(body)
    source = os.environ.get("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(p).resolve()) for p in source.split(os.pathsep)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, **options):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=50, **options)


def masked(text):
    """A log without what differs from run to run: times and sizes."""
    text = re.sub(r"\d{4}-\d\d-\d\dT[\d:.]+Z", "TIME", text)
    text = re.sub(r'"(ms|bytes_in|bytes_out)":[\d.]+', r'"\1":N', text)
    return re.sub(r"[\d.]+ms in=\d+ out=\d+", "COST", text)


def test_the_pages_show_programs():
    assert set(PROGRAMS) == {"traced.py", "weather.py", "logged.py"}
    assert len(COMMANDS) == 2


def test_the_traced_program(folder):
    pytest.importorskip("opentelemetry.sdk", reason="the OpenTelemetry SDK is not installed")
    (printed,) = [body for kind, body in BLOCKS["tracing"] if kind == "text"]
    done = run("-W", "error", "traced.py")
    assert (done.returncode, done.stdout, done.stderr) == (0, printed, "")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_page_on_logs(folder, command):
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
    done = run("-m", *command.split(), input=request + "\n")
    assert done.returncode == 0
    assert json.loads(done.stdout)["result"]["content"][0]["text"] == "rain"
    assert masked(done.stderr) == masked(COMMANDS[command])


def test_the_logged_program(folder):
    done = run("-W", "error", "logged.py")
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line for line in done.stdout.splitlines() if line]
    assert "tools/call who" in lines
    access = [json.loads(line) for line in lines if line.startswith("{")]
    assert [line["tool"] for line in access if "tool" in line] == ["who"]


def test_the_command_that_traces_is_one(folder):
    """The example of docs/tracing.md, with an exporter that needs no collector."""
    pytest.importorskip("opentelemetry.sdk", reason="the OpenTelemetry SDK is not installed")
    (commands,) = [body for kind, body in BLOCKS["tracing"] if kind == ""]
    (command,) = [line for line in commands.splitlines() if " serve " in line]
    words = command.split()
    words = words[words.index("headrace") : words.index("--http")] + words[words.index("--otel") :]
    request = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": CALL})
    done = run("-m", *words, input=request + "\n", env={**os.environ, "OTEL_TRACES_EXPORTER": "console"})
    assert done.returncode == 0 and '"name": "tools/call forecast"' in done.stderr


def test_the_pages_name_what_there_is():
    from headrace.cli.serving import logs
    from headrace.cli.serving import tracing as option

    known = {name for group in (logs.group, option.group) for each in group.options for name in names_of(each)}
    named = set(re.findall(r"`(--[\w-]+)", LOGS + TRACING)) - {"--workers"}
    assert named <= known
    assert {"--log-level", "--log-format", "--access-log", "--otel"} <= named
    assert issubclass(AccessLog, Observer)


def names_of(option):
    """The names of what click.option makes."""
    import click

    return click.command()(option(lambda **_: None)).params[0].opts


def test_outcomes_of_the_page_are_those_that_there_are():
    for word in ("ok", "tool_error", "error", "cancelled", "refused"):
        assert f"`{word}`" in LOGS
    source = (ROOT / "src" / "headrace" / "mux" / "_observed.pxi").read_text()
    assert all(f'"{word}"' in source for word in ("ok", "tool_error", "error", "cancelled"))
