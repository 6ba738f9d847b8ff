"""Every command of docs/bench.md is run, its scenario files as well, and its tables name what there is."""

import contextlib
import json
import re
import shlex
import subprocess
from pathlib import Path

import msgspec
import pytest
from ports import free_port
from test_readme import folder  # noqa: F401

from headrace.bench import report as reports
from headrace.bench._tally import ERROR_KINDS
from headrace.bench.scenario import _FIELDS, _KINDS

GUIDE = (Path(__file__).parent.parent / "docs" / "bench.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", GUIDE, re.S)
COMMANDS = [line for kind, body in BLOCKS if kind == "" for line in body.splitlines() if line.startswith("headrace bench")]


@pytest.fixture
def demo(folder):  # noqa: F811
    """The files of the guide, and its server on a port: gives the port and the pid."""
    for _, body in BLOCKS:
        if name := re.match(r"# (\S+\.(py|toml))\n", body):
            (folder / name[1]).write_text(body)
    port = free_port()
    child = subprocess.Popen(
        ["headrace", "serve", "demo.py", "--http", f"127.0.0.1:{port}"], stderr=subprocess.PIPE, text=True
    )
    try:
        assert "serving demo on" in child.stderr.readline()
        yield port, child.pid
    finally:
        child.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(15)
        child.kill()
        child.wait()
        child.stderr.close()


def words(command, port, pid):
    """The command as the test runs it: on the test's port, for a short time."""
    command = command.replace(":8000", f":{port}").replace("4242", str(pid))
    before, _, behind = command.partition(" -- ")
    before = before.replace("--duration 10s", "--duration 400ms --warmup 0")
    if "--compare before.json after" not in before and "--duration" not in before:
        before += " --duration 400ms"
    return shlex.split(before + (f" -- {behind}" if behind else ""))


def test_the_guide_shows_commands():
    assert len(COMMANDS) == 15


@pytest.mark.parametrize("command", [c for c in COMMANDS if "before.json" not in c and "after.json" not in c])
def test_commands_of_the_guide(demo, folder, command):  # noqa: F811
    done = subprocess.run(words(command, *demo), capture_output=True, text=True, timeout=50)
    assert done.returncode == 0, (done.stdout, done.stderr)
    if "--json -" in command:
        assert json.loads(done.stdout)["totals"]["failed"] == 0
        assert "throughput" in done.stderr
    else:
        assert re.search(r"calls +[\d,]+ right, 0 failed", done.stdout)
    if "mix.toml" in command:
        assert "echo 64 KB" in done.stdout and "CPU per call" in done.stdout
        assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")


def test_comparing_as_in_the_guide(demo, folder):  # noqa: F811
    commands = [c for c in COMMANDS if "before.json" in c or "after.json" in c]
    assert len(commands) == 4
    for command in commands:
        done = subprocess.run(words(command, *demo), capture_output=True, text=True, timeout=50)
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        if "--compare" in command:
            assert "noise" in done.stdout and "calls per second" in done.stdout
    assert 'id="comparison"' in (folder / "compared.html").read_text()


def test_the_tables_of_the_guide_are_whole():
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|$", GUIDE, re.M))
    for field in msgspec.structs.fields(reports.Report):
        kind = field.type
        for struct in (kind, *getattr(kind, "__args__", ())):
            if isinstance(struct, type) and issubclass(struct, msgspec.Struct):
                for inner in struct.__struct_fields__:
                    assert f"`{inner}`" in rows[field.name], (field.name, inner)
        assert field.name in rows
    for kind, meaning in ERROR_KINDS.items():
        assert rows[kind] == meaning
    for member in {*_KINDS, *(name for names in _FIELDS.values() for name in names)}:
        assert f"`{member}`" in GUIDE, member
