"""`headrace serve` on servers of other SDKs: where they are served, options that were typed, and what is refused."""

import asyncio
import json
import os
import re
import signal
import subprocess

import pytest

from headrace import connect
from interop import support
from interop.support import TOP

pytestmark = pytest.mark.interop

SDK_1 = """
from mcp.server.fastmcp import FastMCP

tool_box = FastMCP("first")


@tool_box.tool()
async def echo(text: str) -> str:
    return text
"""
GUESTS = {
    "MCPServer": ("peers", TOP / "examples" / "official_sdk_server.py", "library"),
    "FastMCP 4": ("peers", TOP / "examples" / "fastmcp_server.py", "kitchen"),
    "FastMCP 3": ("peers_1", TOP / "examples" / "fastmcp_server.py", "kitchen"),
    "SDK 1": ("peers_1", None, "first"),
}


@pytest.fixture(scope="module", params=GUESTS)
def guest(request, tmp_path_factory):
    """A Python, a target for `headrace serve` on it, and the name of the server."""
    python, target, name = GUESTS[request.param]
    if target is None:
        target = tmp_path_factory.mktemp("sdk1") / "first.py"
        target.write_text(SDK_1)
    return request.getfixturevalue(python), target, name


def talk(url, name, **options):
    """A call with our client; gives the revision that was spoken."""

    async def trial():
        async with connect(url, **options) as client:
            assert client.server_info.name == name
            assert (await client.call_tool("echo", {"text": "é"})).text == "é"
            return client.protocol_version

    return asyncio.run(asyncio.wait_for(trial(), 40))


def test_options_for_http(guest):
    python, target, name = guest
    options = ("--path", "/here", "--json-only", "--stateless", "--retry-interval", "1.5", "--allow-host", "example.com")
    with support.hosted(target, *options, "--max-message-bytes", "2000", python=python) as url:
        assert url.endswith("/here")
        talk(url, name, revision="2025-11-25")
        hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello})

        def post(body, host):
            command = ["curl", "-si", url, "-H", f"Host: {host}", "-H", "Content-Type: application/json",
                       "-H", "Accept: application/json, text/event-stream", "-d", body]  # fmt: skip
            return subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.lower()

        answer = post(body, "example.com")
        assert answer.startswith("http/1.1 200") and "content-type: application/json" in answer and f'"{name}"' in answer
        assert "mcp-session-id" not in answer
        assert re.match(r"http/1.1 4\d\d", post(body, "elsewhere.com"))
        assert post(body.replace("test", "x" * 3000), "example.com").startswith("http/1.1 413")


def test_everywhere_at_once(guest, tmp_path):
    """HTTP with sessions and event streams, as the server has them on its own host, and line streams beside it; the newest
    revision where the SDK has it."""
    python, target, name = guest
    where = ("--http", "127.0.0.1:0", "--unix", str(tmp_path / "s"), "--tcp", "127.0.0.1:0")
    process = subprocess.Popen(
        support.serve_command(target, *where, python=python), stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0
    )
    try:
        found = []
        while len(found) < 3:
            line = support.read_line(process.stderr, 40)
            assert line, "the server ended"
            found += re.findall(rf"^headrace: serving {name} on (\S+)$", line.strip())
        newest = "2025-11-25" if python == support.PEERS_1 else "2026-07-28"
        for address in found:
            assert talk(address, name) == newest
            assert talk(address, name, revision="2025-11-25") == "2025-11-25"
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        support.end(process)


def test_standard_streams(guest):
    """They are served without an option, whatever settings the SDK finds in the environment."""
    python, target, name = guest
    command = ["env", "FASTMCP_TRANSPORT=http", *support.serve_command(target, python=python)]
    assert talk(command, name) == ("2025-11-25" if python == support.PEERS_1 else "2026-07-28")


def test_what_it_has_not_is_refused(peers):
    _, target, _ = GUESTS["MCPServer"]
    command = support.serve_command(target, "--http", "127.0.0.1:0", "--sealed-sessions", python=peers)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50)
    assert done.returncode == 2 and "lives in its process; use --stateless" in done.stderr.splitlines()[-1]


def test_asgi_alone(peers, curl, tmp_path):
    (tmp_path / "web.py").write_text(
        "from starlette.applications import Starlette\nfrom starlette.responses import PlainTextResponse\n"
        "from starlette.routing import Route\n"
        "async def health(request): return PlainTextResponse(f'well {request.url.path}')\n"
        "app = Starlette(routes=[Route('/health', health)])\n"
    )
    target = tmp_path / "web.py"
    with support.hosted(target, "--allow-host", "web.example.com", python=peers) as url:
        for host, answer in (("127.0.0.1", "well /health"), ("web.example.com", "well /health"), ("other.example.com", "")):
            command = [curl, "-s", f"{url.rstrip('/')}/health", "-H", f"Host: {host}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=30)
            assert done.stdout == answer if answer else "well" not in done.stdout
    for options, text in (((), "say --http HOST:PORT"), (("--http", "0", "--stateless"), "--stateless is for MCP servers")):
        command = support.serve_command(target, *options, python=peers)
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=50, env=dict(os.environ))
        assert done.returncode == 2 and text in done.stderr
