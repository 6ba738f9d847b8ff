"""What the README shows is run: its server, its client, every command line, and its numbers are not stale."""

import contextlib
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from ports import free_port

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", README, re.S)
SERVER = next(body for kind, body in BLOCKS if kind == "python" and body.startswith("# weather.py"))
CLIENT = next(body for kind, body in BLOCKS if kind == "python" and "connect(" in body)
COMMANDS = [
    line.partition("#")[0].strip()
    for kind, body in BLOCKS if kind == ""
    for line in body.splitlines() if line.startswith("headrace ")
]  # fmt: skip
SERVE = [c for c in COMMANDS if c.startswith("headrace serve weather.py")]
SHOP = [c for c in COMMANDS if c.startswith("headrace serve examples/shop.py")]  # tests/hosting/test_shop.py
BENCH = [c for c in COMMANDS if c.startswith("headrace bench")]
CALL = [c for c in COMMANDS if not c.startswith(("headrace serve", "headrace bench"))]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with weather.py and a `headrace` on the PATH."""
    (tmp_path / "weather.py").write_text(SERVER)
    script = tmp_path / "bin" / "headrace"
    script.parent.mkdir()
    # The path goes into the script: children of a client get a small environment.
    source = os.environ.get("PYTHONPATH", str(ROOT / "src"))
    path = os.pathsep.join(str(Path(p).resolve()) for p in source.split(os.pathsep))
    script.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(path)} exec {sys.executable} -m headrace \"$@\"\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@contextlib.contextmanager
def running(command: str):
    """A server command on a socket; yields once it says that it serves, ends it with one SIGINT."""
    child = subprocess.Popen(shlex.split(command), stderr=subprocess.PIPE, text=True)
    try:
        line = child.stderr.readline()
        if "--workers" in command:  # what takes a backplane is not offered
            assert line.startswith("headrace: warning: several workers without --backplane"), line
            line = child.stderr.readline()
        assert line.startswith("headrace: serving weather on "), line
        yield line
        child.send_signal(signal.SIGINT)
        assert child.wait(15) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stderr.close()


def test_commands_are_shown():
    assert len(SERVE) == 4 and len(SHOP) == 1 and len(CALL) == 4 and len(BENCH) == 2


@pytest.mark.parametrize("command", SERVE)
def test_serve_commands(folder, command):
    if "--" not in command:
        request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
        done = subprocess.run(shlex.split(command), input=request, capture_output=True, timeout=30)
        assert done.returncode == 0
        assert done.stdout == b'{"jsonrpc":"2.0","id":1,"result":{}}\n'
        return
    command = command.replace("127.0.0.1:8000", f"127.0.0.1:{free_port()}").replace("/tmp/", f"{folder}/")
    with running(command) as line:
        where = line.split(" on ")[1].split()[0]
        done = subprocess.run(["headrace", "ls", where], capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith("forecast(")


@pytest.mark.parametrize("command", CALL)
def test_call_commands(folder, command):
    def check(command):
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=30)
        assert done.returncode == 0, done.stderr
        assert "forecast(" in done.stdout or '"day 1": 24' in done.stdout or '"day 1":24' in done.stdout

    if "http://" in command:
        port = free_port()
        with running(f"headrace serve weather.py --http 127.0.0.1:{port}"):
            check(command.replace(":8000", f":{port}"))
    else:
        check(command)


@pytest.mark.parametrize("command", BENCH)
def test_bench_commands(folder, command):
    port = free_port()
    command = command.replace(" --duration 10s", "").replace("headrace bench", "headrace bench --duration 500ms")
    with running(f"headrace serve weather.py --http 127.0.0.1:{port}"):
        command = command.replace(":8000", f":{port}")
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
    assert "right, 0 failed" in done.stdout
    assert "--html" not in command or (folder / "report.html").exists()


def test_the_curl_line(folder):
    if shutil.which("curl") is None:
        pytest.skip("curl is not installed")
    port = free_port()
    line = next(body for kind, body in BLOCKS if kind == "" and body.startswith("curl "))
    with running(f"headrace serve weather.py --http 127.0.0.1:{port}"):
        command = line.replace(":8000", f":{port}").replace("\\\n", " ")
        done = subprocess.run(shlex.split(command), capture_output=True, text=True, timeout=30)
    assert '"structuredContent":{"day 1":24' in done.stdout


def test_the_client(folder):
    (folder / "client.py").write_text(CLIENT)
    done = subprocess.run([sys.executable, "client.py"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "['forecast']" in done.stdout
    assert "{'day 1': 24, 'day 2': 24, 'day 3': 24}" in done.stdout


def test_make_targets_exist():
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.M)):
        assert re.search(rf"^{target}:", makefile, re.M), target
    ci = (ROOT / ".ci" / "run").read_text()
    assert "make test" in ci and "make demo" in ci


def test_numbers_are_not_stale():
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "render.py"), "--check"], capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 0, done.stderr


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / target).exists(), target
