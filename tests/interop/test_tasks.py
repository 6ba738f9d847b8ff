"""Tasks of 2025-11-25 against the official Python SDK 1.x, both ways (TK-01..TK-05)."""

import pytest

from headrace import connect
from interop.support import HERE, run_json, serve_command

pytestmark = pytest.mark.interop


def test_tk01_05_its_client_on_our_server(peers_1):
    """TK-01..TK-05: creation, states, results with questions, list and cancel, as its client reads them."""
    command = serve_command(HERE / "apps" / "tasks.py")
    seen = run_json([peers_1, HERE / "peers" / "sdk1_tasks_client.py", *command])
    assert seen["offered"] == {"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}
    assert seen["support"] == {"slow": "required", "greet": "optional", "fail": "optional"}
    assert seen["states"][-1] == "completed" and seen["slow"] == ["8", False]
    assert seen["asking"] == "input_required" and seen["greet"] == ["Hello Ann", False]
    assert seen["fail"] == ["broken", True] and seen["failed"] == "failed"
    assert seen["listed"] is True and seen["cancelled"] == "cancelled"


def test_tk01_05_our_client_on_its_server(run, peers_1):
    """TK-01..TK-05: what its tools are good for is known from their list."""

    async def trial():
        server = [str(peers_1), str(HERE / "peers" / "sdk1_tasks_server.py")]
        async with connect(server, tasks=True, elicitation=lambda params: {"name": "Bob"}, timeout=20) as client:
            assert client.protocol_version == "2025-11-25"
            tools = await client.list_tools()
            assert [tool.execution["taskSupport"] for tool in tools] == ["required", "required"]
            assert (await client.call_tool("slow")).text == "slow done"
            assert (await client.call_tool("greet")).text == "Hello Bob"
            handle = await client.start_tool("slow", ttl=60)
            assert (await handle.get()).status == "working"
            assert (await handle.result()).text == "slow done"
            handle = await client.start_tool("greet")
            await handle.cancel()
            assert handle.status == "cancelled"

    run(trial)
