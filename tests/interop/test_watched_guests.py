"""The access log and tracing of servers of other SDKs: the connections are headrace's, whoever serves."""

import asyncio
import json
import subprocess

import pytest

from headrace import connect
from interop import support
from interop.test_serve_guests import guest  # noqa: F401 - a fixture

pytestmark = pytest.mark.interop

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def test_requests_of_guests_are_logged_and_traced(guest):  # noqa: F811
    """One line and one span a request, with the parent that it names; nothing of its arguments is in either."""
    python, target, _ = guest
    there = subprocess.run([str(python), "-c", "import opentelemetry.sdk"], capture_output=True).returncode == 0
    command = support.serve_command(target, "--access-log", "--log-format", "json", python=python)
    if there:
        command = ["env", "OTEL_TRACES_EXPORTER=console", *command, "--otel"]
    written = []

    async def trial():
        async with connect(command, revision="2025-11-25", stderr=written.append) as client:
            meta = {"traceparent": f"00-{TRACE}-{PARENT}-01"}
            assert (await client.call_tool("echo", {"text": "4111-1111"}, meta=meta)).text == "4111-1111"

    asyncio.run(asyncio.wait_for(trial(), 50))
    text = b"".join(written).decode()
    lines = [json.loads(line) for line in text.splitlines() if line.startswith('{"time"')]
    calls = [line for line in lines if line.get("log") == "access" and line["method"] == "tools/call"]
    assert [(line["tool"], line["outcome"], line["revision"]) for line in calls] == [("echo", "ok", "2025-11-25")]
    assert "4111" not in text
    if there:
        assert '"name": "tools/call echo"' in text and f'"parent_id": "0x{PARENT}"' in text
