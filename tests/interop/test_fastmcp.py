"""FastMCP 4: its client against headrace, and headrace's client against its server."""

import pytest

from headrace import connect
from interop.exercise import exercise, unknown_tool
from interop.support import HERE, command_text, peer_over_http, run_json

pytestmark = pytest.mark.interop

SERVER = HERE / "peers" / "fastmcp_server.py"


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_client(request, peers, transport):
    target = request.getfixturevalue("toolbox") if transport == "http" else command_text(request.getfixturevalue("serving")())
    seen = run_json([peers, HERE / "peers" / "fastmcp_client.py", target])
    assert {"add", "echo", "count", "point"} <= set(seen["tools"])
    assert seen["add"] == "3"
    assert seen["echo"] == "é€😀"
    assert seen["point"] == {"x": 1, "y": 2.5, "label": None}
    assert seen["count"] == "counted to 10"
    assert seen["progress"] == [[n, 10, f"at {n}"] for n in range(1, 11)]
    assert seen["fail"] == "as told"
    assert "no_such_tool" in seen["unknown"]
    assert seen["together"]


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
def test_server_stdio(run, peers, revision):
    async def trial():
        async with connect([str(peers), str(SERVER), "stdio"], revision=revision) as client:
            assert client.server_info.name == "fastmcp-peer"
            await exercise(client, cancels=False)
            await unknown_tool(client)

    run(trial)


@pytest.fixture(scope="module")
def fastmcp_url(peers):
    with peer_over_http([peers, SERVER]) as url:
        yield url


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
def test_server_http(run, fastmcp_url, revision):
    async def trial():
        async with connect(fastmcp_url, revision=revision) as client:
            assert client.server_info.name == "fastmcp-peer"
            await exercise(client, cancels=False)
            await unknown_tool(client)

    run(trial)
