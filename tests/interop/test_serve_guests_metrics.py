"""Metrics and health of servers of other SDKs: what the messages tell."""

import asyncio
import contextlib
import shutil
import subprocess
from pathlib import Path

import prometheus_client
import pytest
from hosting.metrics_support import fetch, parsed, total

from headrace import RpcError, ToolError, connect
from interop import support
from interop.test_serve_guests import GUESTS, SDK_1

pytestmark = pytest.mark.interop


@contextlib.contextmanager
def served(target, *options, python, folder):
    """The base URL of a hosted guest, on whose Python prometheus_client need not be installed."""
    shutil.copytree(Path(prometheus_client.__file__).parent, folder / "extra" / "prometheus_client")
    command = support.serve_command(target, "--http", "127.0.0.1:0", *options, python=python)
    command[1] += f":{folder / 'extra'}"
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, bufsize=0)
    try:
        while "serving " not in (line := support.read_line(process.stderr, 40)):
            assert line, "the server ended"
        yield line.strip().rpartition(" ")[2].removesuffix("/mcp")
    finally:
        support.end(process)
        process.stderr.close()


@pytest.mark.parametrize("kind", GUESTS)
def test_calls_of_a_guest_are_counted(kind, tmp_path, request):
    """By tool once one was answered well; made-up names count as unknown, in both eras that it speaks."""
    fixture, target, name = GUESTS[kind]
    python = request.getfixturevalue(fixture)
    if target is None:
        target = tmp_path / "first.py"
        target.write_text(SDK_1)

    async def talk(url):
        async with connect(f"{url}/mcp", revision="2025-11-25") as client:
            assert client.server_info.name == name
            for _ in range(3):
                await client.call_tool("echo", {"text": "a"})
            for i in range(5):
                with contextlib.suppress(RpcError, ToolError):
                    await client.call_tool(f"made up {i}", {})
            with contextlib.suppress(RpcError, ToolError):
                await client.call_tool("echo", {"wrong": 1})

    with served(target, "--metrics", "/numbers", python=python, folder=tmp_path) as url:
        asyncio.run(asyncio.wait_for(talk(url), 40))
        samples, _ = parsed(fetch(f"{url}/numbers")[1])
        requests = "headrace_requests_total"
        mine = {"method": "tools/call", "tool": "echo", "revision": "2025-11-25"}
        assert total(samples, requests, **mine, status="ok") == 3
        assert total(samples, requests, **mine, status="tool_error") + total(samples, requests, **mine, status="error") == 1
        assert total(samples, requests, tool="(unknown)") == 5
        assert total(samples, requests, tool="(unknown)", status="ok") == 0
        assert total(samples, requests, method="initialize", status="ok") >= 1
        assert {dict(labels)["tool"] for labels in samples[requests]} <= {"", "echo", "(unknown)"}
        assert total(samples, "headrace_request_duration_seconds_count", tool="echo") == 4
        assert total(samples, "headrace_connections", transport="http") >= 1
        for path in ("healthz", "readyz"):
            assert fetch(f"{url}/{path}")[:2] == (200, "ok\n")
