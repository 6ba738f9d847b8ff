"""What docs/integrations.md and the README say of servers of other SDKs is run: every program, every command line."""

import ast
import os
import re
import shlex
import signal
import subprocess

import pytest
from ports import free_port

from interop.support import SOURCE, TOP, hosted, wait_for_port

pytestmark = pytest.mark.interop

GUIDE = (TOP / "docs" / "integrations.md").read_text()
README = (TOP / "README.md").read_text()
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", GUIDE, re.S)
PROGRAMS = {body.split()[1]: body for kind, body in BLOCKS if kind == "python"}
COMMANDS = [
    line.partition("#")[0].strip()
    for kind, body in BLOCKS if kind == ""
    for line in body.splitlines() if line.startswith("headrace ")
]  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch, peers):
    """A folder with the programs of the guide, and a `headrace` on the PATH that runs on the counterparts' Python."""
    for name, body in PROGRAMS.items():
        (tmp_path / name).write_text(body)
    script = tmp_path / "bin" / "headrace"
    script.parent.mkdir()
    script.write_text(f"#!/bin/sh\nPYTHONPATH={shlex.quote(str(SOURCE))} exec {peers} -m headrace \"$@\"\n")
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{script.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(SOURCE))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_guide_has_what_is_run():
    assert sorted(PROGRAMS) == ["asks.py", "kitchen.py", "library.py", "session.py"]
    assert sum(c.startswith("headrace serve") for c in COMMANDS) == 3 and len(COMMANDS) == 6


@pytest.mark.parametrize("command", COMMANDS)
def test_commands(folder, command):
    if "--http" in command:
        port = free_port()
        child = subprocess.Popen(shlex.split(command.replace(":8000", f":{port}")), stderr=subprocess.DEVNULL)
        try:
            wait_for_port(port, child)
            done = subprocess.run(
                ["headrace", "call", f"http://127.0.0.1:{port}/mcp", "echo", "text=hello"], capture_output=True, timeout=50
            )
            assert done.stdout == b"hello\n", done
            child.send_signal(signal.SIGINT)
            assert child.wait(20) == 0
        finally:
            child.kill()
            child.wait()
        return
    if command.startswith("headrace serve"):
        command = f"headrace call echo text=hello -- {command}"
    done = subprocess.run(
        shlex.split(command.replace("headrace bench", "headrace bench --requests 50")), capture_output=True, text=True, timeout=55
    )
    assert done.returncode == 0, done.stderr
    assert {"ls": "echo(text", "bench": "50 right, 0 failed"}.get(command.split()[1], "hello") in done.stdout


@pytest.mark.parametrize("server", ["library.py", "kitchen.py"])
def test_programs(folder, peers, server):
    """A server that starts itself on headrace, and the official client on headrace's transports."""
    port = free_port()
    for name in (server, "asks.py"):
        (folder / name).write_text(PROGRAMS[name].replace(":8000", f":{port}"))
    child = subprocess.Popen([peers, server], stderr=subprocess.DEVNULL)
    try:
        wait_for_port(port, child)
        done = subprocess.run([peers, "asks.py"], capture_output=True, text=True, timeout=50)
        assert done.stdout == "hello\nhello\n", done
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
    finally:
        child.kill()
        child.wait()


def test_a_session(folder, peers):
    """A session of the official SDK on the dispatcher, with a hosted server as its child."""
    done = subprocess.run([peers, "session.py"], capture_output=True, text=True, timeout=50)
    assert done.stdout == "hello\n", done


def test_the_lines_of_the_readme(folder, peers):
    """Each line that the README changes is in the guide's programs, and its ASGI mount works."""
    block = next(body for body in re.findall(r"```python\n(.*?)```", README, re.S) if "integrations.mcp_sdk" in body)
    ast.parse(block)
    for line in re.findall(r"^from headrace.*|^run\(.*", block, re.M):
        assert any(line in body for body in PROGRAMS.values()), line
    mount = "\n".join(line for line in block.splitlines() if line.startswith("web"))
    (folder / "web.py").write_text(
        "from headrace import Server\nfrom starlette.applications import Starlette as FastAPI\n"
        "app = Server('inner', version='1')\n@app.tool\ndef echo(text: str) -> str:\n    return text\n"
        f"{mount}\ndel app\n"
    )
    with hosted("web.py:web", python=peers) as url:
        base = url.rstrip("/").removesuffix("/mcp")
        done = subprocess.run(["headrace", "call", f"{base}/tools/mcp", "echo", "text=hello"], capture_output=True, timeout=50)
        assert done.stdout == b"hello\n", done
