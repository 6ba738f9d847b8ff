"""Every block of docs/embedding.md is run and prints what the page says, and so is the example that it shows."""

import asyncio
import os
import re
import signal
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from ports import free_port

import headrace
from headrace.limits import Limits
from headrace.transports.plain import McpHost, PlainExchange

ROOT = Path(__file__).parent.parent
GUIDE = (ROOT / "docs" / "embedding.md").read_text()
EXAMPLE = ROOT / "examples" / "embed_sdk.py"
BLOCKS = re.findall(r"```(\w*)\n(.*?)```", GUIDE, re.S)
PROGRAMS = {re.match(r"# (\w+\.py)\n", body)[1]: body for kind, body in BLOCKS if kind == "python"}
PRINTED = {
    re.match(r"# (\w+\.py)\n", body)[1]: printed
    for (kind, body), (then, printed) in pairwise(BLOCKS)
    if kind == "python" and then == "text"
}
COMMANDS = [line for kind, body in BLOCKS if kind == "" for line in body.splitlines()]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, body in PROGRAMS.items():
        (tmp_path / name).write_text(body)
    (tmp_path / "embed_sdk.py").write_text(EXAMPLE.read_text())
    source = os.environ.get("PYTHONPATH", str(ROOT / "src"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(str(Path(p).resolve()) for p in source.split(os.pathsep)))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*words, **options):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=50, **options)


def test_the_guide_shows_programs():
    assert set(PROGRAMS) == {"echo.py", "client.py", "http_client.py", "lsp.py", "streams.py", "websocket.py"}
    assert set(PRINTED) == set(PROGRAMS) - {"echo.py"}
    assert COMMANDS == ["python embed_sdk.py call"]


@pytest.mark.parametrize("name", PRINTED)
def test_programs_of_the_guide(folder, name):
    done = run("-W", "error", name)
    assert (done.returncode, done.stdout, done.stderr) == (0, PRINTED[name], "")


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_of_the_guide(folder, command):
    done = run(*command.split()[1:])
    assert (done.returncode, done.stdout, done.stderr) == (0, "1 2 half\n3\n", "")


def test_the_example_over_http(folder):
    """Its own client, and headrace's in both eras."""
    port = free_port()
    child = subprocess.Popen([sys.executable, "-u", "embed_sdk.py", f"127.0.0.1:{port}"], stdout=subprocess.PIPE, text=True)
    try:
        url = f"http://127.0.0.1:{port}/mcp"
        assert child.stdout.readline() == f"['{url}']\n"
        done = run("embed_sdk.py", "call", url)
        assert (done.returncode, done.stdout) == (0, "1 2 half\n3\n")

        async def main():
            for revision in ("2026-07-28", "2025-11-25", "2025-03-26"):
                async with headrace.connect(url, revision=revision) as client:
                    assert client.protocol_version == revision
                    assert [tool.name for tool in await client.list_tools()] == ["add"]
                    assert (await client.call_tool("add", {"a": 20, "b": 22})).text == "42"
                    with pytest.raises(headrace.RpcError):
                        await client.call_tool("subtract", {})

        asyncio.run(asyncio.wait_for(main(), 30))
        child.send_signal(signal.SIGINT)
        assert child.wait(15) == 0
    finally:
        if child.poll() is None:
            child.kill()
            child.wait()
        child.stdout.close()


def test_the_example_is_short_enough_to_copy():
    lines = [line for line in EXAMPLE.read_text().splitlines() if line.strip() and not line.startswith(('"', " " * 4 + "python"))]
    assert len(lines) <= 70


def test_the_guide_names_what_there_is():
    for name in re.findall(r"`(?:limits\.)?(max_\w+|\w+_timeout)`", GUIDE):
        assert name in Limits.__struct_fields__, name
    rows = re.findall(r"^\| (`.+?) \|", GUIDE, re.M)
    members = {re.sub(r"await |\(.*", "", each) for row in rows for each in re.findall(r"`([^`]+)`", row)}
    for name in members & set(dir(PlainExchange)):
        assert hasattr(PlainExchange, name)
    assert {"tell", "notify", "progress", "request", "session", "principal", "cancelled"} <= members
    assert hasattr(McpHost, "asgi")
    import headrace.transports as transports
    from headrace.transports import messages

    for name in transports.__all__:
        assert getattr(transports, name) is not None
    for name in re.findall(r"`(open_\w+|serve\w*)(?:\(.*?\))?`", GUIDE):
        assert name in (*transports.__all__, *messages.__all__, "serve_http"), name
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        transports.nothing_of_the_kind  # noqa: B018
    assert "open_http" in dir(transports)
