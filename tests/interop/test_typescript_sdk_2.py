"""Version 2 of the official TypeScript SDK: its client against headrace, headrace's client against its server."""

import pytest

from headrace import connect
from interop import schemas, wire
from interop.exercise import QUESTIONS, exercise, features, unknown_tool
from interop.support import HERE, command_text, peer_over_http, run_json

pytestmark = pytest.mark.interop

SERVER = HERE / "node" / "server2.mjs"


@pytest.fixture(scope="module", params=["stdio-legacy", "stdio-auto", "http-legacy", "http-auto"])
def seen(request, node):
    """What one run of the client saw."""
    transport, mode = request.param.split("-")
    target = request.getfixturevalue("toolbox") if transport == "http" else command_text(request.getfixturevalue("serving")())
    return run_json([node, HERE / "node" / "client2.mjs", mode, target]) | {"mode": mode, "transport": transport}


def test_client_negotiation(seen):
    assert seen["protocol"] == ("2025-11-25" if seen["mode"] == "legacy" else "2026-07-28")
    assert seen["server"] == "toolbox"
    assert seen["instructions"] == "Tools to test clients with."


def test_client_calls(seen):
    assert {"add", "echo", "count", "point", "slow"} <= set(seen["tools"])
    assert seen["add"]["text"] == ["3"]
    assert seen["echo"]["text"] == ['é€😀𝄞\n"\\\u2028']
    assert seen["point"]["structured"] == {"x": 1, "y": 2.5, "label": None}
    assert seen["fail"] == {"text": ["as told"], "structured": None, "is_error": True}
    assert seen["unknown"]["code"] == -32602
    assert seen["together"]


def test_client_progress_and_logs(seen):
    # Over stdio this client loses notes that share a read with the answer, whoever the server is.
    expected = list(range(1, 21))
    assert seen["progress"] == (expected if seen["transport"] == "http" else expected[: len(seen["progress"])])
    assert seen["count"]["text"] == ["counted to 20"]
    assert seen["logs"] == [["warning", "careful"]]


def test_client_gives_up(seen):
    """B75: its time limit reaches the tool."""
    assert "timed out" in seen["timeout"]
    assert seen["cancelled"]


def test_client_hears_of_changes(seen):
    """SF-60, SF-70: unsolicited in the handshake era, on the listen that its option opens in the modern one."""
    assert seen["grown"]
    assert seen["changed"] == ["tools"]


def test_client_answers_questions(seen):
    """CF-01, MX-30..33: requests in the handshake era, results in the modern one; the same tools."""
    assert seen["ask_name"]["text"] == ["Hello Ada"]
    assert seen["think"]["text"] == ["thought about cats"]
    assert seen["where"]["text"] == ["file:///work"]


def test_client_resources_prompts_and_updates(seen):
    """SF-20..24, SF-30, SF-31, SF-70."""
    assert {"note://static", "note://blob"} <= set(seen["resources"])
    assert "note://named/{name}" in seen["templates"]
    assert (seen["read"], seen["blob"], seen["named"]) == ("static note", "iVBORw0K", "note of x y")
    assert seen["missing"]["code"] == -32602  # as this client says it in both eras
    assert ["greet", ["name"]] in seen["prompts"]
    assert seen["prompt"] == "Greet Ada"
    assert seen["completion"] == ["Ada", "Alan"]
    assert seen["updated"] == ["note://static"]
    if seen["mode"] == "auto":
        assert seen["honored"] == {"toolsListChanged": True, "resourceSubscriptions": ["note://static"]}


@pytest.fixture(scope="module")
def server_url(node):
    with peer_over_http([node, SERVER]) as url:
        yield url


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_server(run, request, node, transport, revision):
    """Over HTTP this server has no sessions in the handshake era: a cancel cannot find its request."""
    target = request.getfixturevalue("server_url") if transport == "http" else [str(node), str(SERVER), "stdio"]

    async def trial(target):
        touched = []
        stateless = transport == "http" and revision is not None
        options = QUESTIONS | {"on_resource_updated": touched.append}
        async with connect(target, revision=revision, **options) as client:
            assert client.protocol_version == (revision or "2026-07-28")
            assert client.server_info.name == "ts2-peer"
            await exercise(client, cancels=not stateless)
            await unknown_tool(client)
            # Over stdio its modern era publishes changes through no notifier of ours.
            subscribes = not stateless and not (transport == "stdio" and revision is None)
            await features(client, asks=not stateless, subscribes=subscribes, touched=touched)

    with wire.recorded(target) as (place, messages):
        run(trial, place)
        if (said := messages()) is not None:
            assert schemas.check(revision or "2026-07-28", said[1], said[0])["tools/call"] > 200
