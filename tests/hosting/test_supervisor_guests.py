"""Servers of other SDKs and ASGI applications, unchanged, in several processes."""

import os
import signal
import subprocess

import pytest

from hosting.processes import ENV, HEADRACE, eventually, serving

ASGI = """
import os

async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while (await receive())["type"] != "lifespan.shutdown":
            await send({"type": "lifespan.startup.complete"})
        await send({"type": "lifespan.shutdown.complete"})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
"""

FASTMCP = """
import os
from fastmcp import FastMCP
mcp = FastMCP("guest")

@mcp.tool
def pid() -> int:
    return os.getpid()
"""

MCP = """
import os
try:
    from mcp.server.mcpserver import MCPServer as Server
except ImportError:
    from mcp.server.fastmcp import FastMCP as Server
mcp = Server("guest")

@mcp.tool()
def pid() -> int:
    return os.getpid()
"""

GUESTS = {"mcp": MCP, "fastmcp": FASTMCP}


def test_an_asgi_application_is_served_by_workers(tmp_path):
    (tmp_path / "app.py").write_text(ASGI)
    with serving("app.py:app", "--http", "127.0.0.1:0", "--workers", "2", cwd=tmp_path) as it:
        it.line(r"serving \S+ on http://127\.0\.0\.1:\d+ with 2 workers")
        callers = [it.caller() for _ in range(4)]

        def pids():
            found = []
            for caller in callers:
                caller.connection.request("GET", "/anything")
                found.append(int(caller.connection.getresponse().read()))
            return found

        first = pids()
        assert set(first) == set(it.workers)
        assert all(first.count(pid) == 2 for pid in it.workers)
        sockets = [caller.connection.sock for caller in callers]
        it.send(signal.SIGHUP)
        it.line("all 2 workers were replaced")
        assert not set(pids()) & set(first)
        assert [caller.connection.sock for caller in callers] == sockets
        assert it.stop() == 0
        it.line("2 workers served 8 requests on 8 connections")


def test_an_asgi_worker_is_replaced_after_max_requests(tmp_path):
    (tmp_path / "app.py").write_text(ASGI)
    with serving("app.py:app", "--http", "0", "--workers", "1", "--max-requests", "5", cwd=tmp_path) as it:
        [pid] = it.workers
        caller = it.caller()

        def other():
            caller.connection.request("GET", "/")
            return {int(caller.connection.getresponse().read())} - {pid}

        [new] = eventually(other)
        assert new in it.workers


@pytest.mark.parametrize("kind", GUESTS)
def test_a_guest_with_sessions_of_its_own_needs_stateless(tmp_path, kind):
    pytest.importorskip(kind)
    (tmp_path / "guest.py").write_text(GUESTS[kind])
    done = subprocess.run(
        [*HEADRACE, "serve", "guest.py", "--http", "0", "--workers", "2"],
        cwd=tmp_path, env=ENV, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 2
    line = done.stderr.splitlines()[-1]
    assert "--workers 2: a session of this" in line
    assert "say --stateless as well" in line


@pytest.mark.parametrize("kind", GUESTS)
def test_a_stateless_guest_is_served_by_workers(tmp_path, kind):
    pytest.importorskip(kind)
    (tmp_path / "guest.py").write_text(GUESTS[kind])
    with serving("guest.py", "--http", "0", "--workers", "2", "--stateless", cwd=tmp_path) as it:
        callers = [it.caller() for _ in range(2)]
        found = set()
        for caller in callers:
            caller.send("pid")
            text = caller.connection.getresponse().read().decode()
            found |= {pid for pid in it.workers if str(pid) in text}
        assert found == set(it.workers)
        os.kill(it.workers[0], signal.SIGKILL)
        eventually(lambda: len(it.children) == 2)
        assert it.stop() == 0
