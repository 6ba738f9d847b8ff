"""The official TypeScript SDK: its client against headrace, headrace's client against its servers."""

import pytest

from headrace import connect
from interop.exercise import exercise, unknown_tool, until
from interop.support import HERE, TOOLBOX, command_text, peer_over_http, run_json

pytestmark = pytest.mark.interop

SERVER = HERE / "node" / "server.mjs"


@pytest.fixture(scope="module", params=["stdio", "http"])
def seen(request, node):
    """What one run of the client saw."""
    if request.param == "http":
        targets = [request.getfixturevalue("toolbox"), request.getfixturevalue("paged")]
    else:
        targets = [command_text(request.getfixturevalue("serving")()), command_text(request.getfixturevalue("serving")(f"{TOOLBOX}:paged"))]
    return run_json([node, HERE / "node" / "client.mjs", *targets]) | {"transport": request.param}


def test_client_start(seen):
    assert seen["server"]["name"] == "toolbox"
    assert seen["server"]["title"] == "Toolbox"
    assert seen["instructions"] == "Tools to test clients with."
    assert seen["capabilities"]["tools"] == {"listChanged": True}
    assert (seen["session"] is not None) == (seen["transport"] == "http")


def test_client_calls(seen):
    assert {"add", "echo", "count", "point", "slow"} <= set(seen["tools"])
    assert seen["add"]["text"] == ["3"]
    assert seen["echo"]["text"] == ['é€😀𝄞\n"\\\u2028']
    assert seen["point"]["structured"] == {"x": 1, "y": 2.5, "label": None}
    assert seen["fail"] == {"text": ["as told"], "structured": None, "is_error": True}
    assert seen["unknown"]["code"] == -32602
    assert seen["together"]


def test_client_progress_and_logs(seen):
    """B78: every note, in order, before the answer."""
    assert seen["count"]["text"] == ["counted to 20"]
    assert seen["progress"] == [[n, 20, f"at {n}"] for n in range(1, 21)]
    assert ["warning", "careful", "toolbox"] in seen["logs"]


def test_client_cancellation(seen):
    """B75: an abort signal and a time limit reach the server."""
    assert "enough" in seen["aborted"]
    assert seen["timeout"] == -32001
    assert sorted(seen["journal"]) == ["by signal cancelled", "by timeout cancelled"]


def test_client_list_changed_and_pages(seen):
    assert seen["changed"] >= 1
    assert seen["grown"] == ["grown_ts"]
    assert [len(page) for page in seen["pages"]] == [3, 3, 3, 1]


def test_client_saw_no_error(seen):
    """The SDK's onerror hears of every message it could not read; its own end of the event stream is none."""
    assert [each for each in seen["errors"] if "AbortError" not in each] == []


def test_server_stdio(run, node):
    async def trial():
        logs, changed = [], []
        async with connect(
            [str(node), str(SERVER), "stdio"], on_log=logs.append, on_list_changed=changed.append
        ) as client:
            assert client.server_info.name == "ts-peer"
            assert client.protocol_version == "2025-11-25"
            await exercise(client)
            await unknown_tool(client)
            await client.ping()
            await client.call_tool("log", {"level": "warning", "text": "careful"})
            await until(lambda: logs)
            assert (logs[0].level, logs[0].data) == ("warning", "careful")
            await client.call_tool("grow", {"name": "grown"})
            await until(lambda: changed)
            assert "grown" in {tool.name for tool in await client.list_tools()}

    run(trial)


@pytest.fixture(scope="module")
def ts_url(node):
    with peer_over_http([node, SERVER]) as url:
        yield url


@pytest.mark.parametrize("revision", [None, "2025-11-25", "2025-03-26"])
def test_server_http(run, ts_url, revision):
    """Sessions of the handshake era; the modern probe is answered in the old way (VN-45..48)."""

    async def trial():
        changed = []
        async with connect(ts_url, revision=revision, on_list_changed=changed.append) as client:
            assert client.protocol_version == (revision or "2025-11-25")
            await exercise(client)
            await unknown_tool(client)
            await client.ping()
            await client.call_tool("grow", {"name": "grown"})
            await until(lambda: changed)

    run(trial)
