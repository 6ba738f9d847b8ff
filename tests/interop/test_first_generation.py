"""Version 1 of the official Python SDK and FastMCP 3: what most servers and clients in use are built on."""

import pytest

from headrace import connect
from interop import schemas, wire
from interop.exercise import QUESTIONS, exercise, features, unknown_tool, until
from interop.support import HERE, command_text, peer_over_http, run_json

pytestmark = pytest.mark.interop

SDK = HERE / "peers" / "sdk1_server.py"
FASTMCP = HERE / "peers" / "fastmcp_server.py"


@pytest.fixture(scope="module")
def sdk_http(peers_1):
    with peer_over_http([peers_1, SDK]) as url:
        yield url


@pytest.fixture(scope="module")
def sdk_sse(peers_1):
    with peer_over_http([peers_1, SDK], path="/sse", kind="sse") as url:
        yield url


@pytest.mark.parametrize(
    ("transport", "revision"),
    [
        ("stdio", None),
        ("http", None),
        ("http", "2025-06-18"),
        ("http", "2025-03-26"),
        ("sse", "2024-11-05"),
        ("sse", None),
    ],
)
def test_sdk_server(run, request, peers_1, transport, revision):
    """VN-02, VN-40..50, LS-02, LS-03: a server that knows only handshakes, with every revision it knows."""
    sdk = [str(peers_1), str(SDK), "stdio"] if transport == "stdio" else request.getfixturevalue(f"sdk_{transport}")

    async def trial(sdk):
        logs, changed, touched = [], [], []
        options = QUESTIONS | {
            "on_log": logs.append,
            "on_list_changed": changed.append,
            "on_resource_updated": touched.append,
        }
        async with connect(sdk, revision=revision, **options) as client:
            assert client.protocol_version == (revision or "2025-11-25")
            assert client.server_info.name == "sdk1-peer"
            assert client.instructions == "A peer."
            structured = client.protocol_version >= "2025-06-18"
            await exercise(client, structured=structured)
            await unknown_tool(client)
            # It has subscriptions but does not declare them.
            await features(client, asks=client.protocol_version >= "2025-06-18", subscribes=False)
            await client.ping()
            await client.set_log_level("debug")
            await client.call_tool("log", {"level": "warning", "text": "careful"})
            await until(lambda: logs)
            assert (logs[0].level, logs[0].data, logs[0].logger) == ("warning", "careful", "peer")
            await client.call_tool("grow", {"name": f"grown_{id(changed)}"})
            await until(lambda: changed)
            assert changed == ["tools"]

    with wire.recorded(sdk) as (place, messages):
        run(trial, place)
        if (said := messages()) is not None:
            assert schemas.check(revision or "2025-11-25", said[1], said[0])["tools/call"] > 200


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_sdk_client(request, peers_1, transport):
    target = request.getfixturevalue("toolbox") if transport == "http" else command_text(request.getfixturevalue("serving")())
    seen = run_json([peers_1, HERE / "peers" / "sdk1_client.py", target])
    assert seen["protocol"] == "2025-11-25"
    assert seen["server"] == "toolbox"
    assert seen["instructions"] == "Tools to test clients with."
    assert seen["add"]["text"] == ["3"]
    assert seen["echo"]["text"] == ['é€😀𝄞\n"\\\x00\u2028']
    assert seen["point"]["structured"] == {"x": 1, "y": 2.5, "label": None}
    assert seen["fail"] == {"text": ["as told"], "structured": None, "is_error": True}
    assert seen["unknown"]["code"] == -32602
    assert seen["progress"] == [[n, 20, f"at {n}"] for n in range(1, 21)]
    assert seen["logs"] == [["warning", "careful"]]
    assert seen["timeout"]["code"] == 408
    assert seen["together"]
    assert seen["grown"]
    assert "notifications/tools/list_changed" in seen["messages"]
    assert seen["ask_name"]["text"] == ["Hello Ada"]
    assert seen["think"]["text"] == ["thought about cats"]
    assert seen["where"]["text"] == ["file:///work"]
    assert {"note://static", "note://blob"} <= set(seen["resources"])
    assert (seen["read"], seen["blob"], seen["named"]) == ("static note", "iVBORw0K", "note of x")
    assert seen["missing"] == {"code": -32002, "data": {"uri": "note://nowhere"}}
    assert seen["prompt"] == "Greet Ada"
    assert seen["completion"] == ["Ada", "Alan"]
    assert seen["updated"] == ["note://static"]


@pytest.fixture(scope="module", params=["stdio", "http"])
def fastmcp(request, peers_1):
    if request.param == "stdio":
        yield [str(peers_1), str(FASTMCP), "stdio"]
    else:
        with peer_over_http([peers_1, FASTMCP]) as url:
            yield url


def test_fastmcp_server(run, fastmcp):
    async def trial():
        async with connect(fastmcp) as client:
            assert client.protocol_version == "2025-11-25"
            assert client.server_info.name == "fastmcp-peer"
            await exercise(client, cancels=False)
            await unknown_tool(client)

    run(trial)


@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_fastmcp_client(request, peers_1, transport):
    target = request.getfixturevalue("toolbox") if transport == "http" else command_text(request.getfixturevalue("serving")())
    seen = run_json([peers_1, HERE / "peers" / "fastmcp_client.py", target])
    assert {"add", "echo", "count", "point"} <= set(seen["tools"])
    assert seen["add"] == "3"
    assert seen["point"] == {"x": 1, "y": 2.5, "label": None}
    assert seen["progress"] == [[n, 10, f"at {n}"] for n in range(1, 11)]
    assert seen["fail"] == "as told"
    assert "no_such_tool" in seen["unknown"]
    assert seen["together"]
