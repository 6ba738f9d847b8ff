"""headrace's client against a server on the official Python SDK: both eras, over stdio and HTTP, on both loops."""

import pytest

from headrace import connect
from interop import schemas, wire
from interop.exercise import QUESTIONS, exercise, features, give_up, unknown_tool, until
from interop.support import HERE, peer_over_http

pytestmark = pytest.mark.interop

SERVER = HERE / "peers" / "sdk_server.py"
REVISIONS = [None, "2025-11-25", "2025-06-18"]


@pytest.fixture(scope="module", params=["sse", "json", "stateless", "json stateless"])
def http(request, peers):
    """The server's four ways to answer over HTTP."""
    flags = [] if request.param == "sse" else request.param.split()
    with peer_over_http([peers, SERVER], *flags) as url:
        yield request.param, url


@pytest.mark.parametrize("revision", REVISIONS)
def test_stdio(run, peers, revision):
    async def trial():
        touched = []
        options = QUESTIONS | {"on_resource_updated": touched.append}
        async with connect([str(peers), str(SERVER), "stdio"], revision=revision, **options) as client:
            assert client.protocol_version == (revision or "2026-07-28")
            assert client.server_info.name == "sdk-peer"
            await exercise(client)
            await unknown_tool(client)
            await features(client, subscribes=revision is None, touched=touched)

    run(trial)


@pytest.mark.parametrize("revision", [None, "2025-11-25"])
def test_http(run, http, revision):
    """VN-40..50, B45, B78: event streams and JSON answers, with sessions and without."""
    kind, url = http
    modern = revision in (None, "2026-07-28")

    async def trial(url):
        touched = []
        async with connect(url, revision=revision, **QUESTIONS, on_resource_updated=touched.append) as client:
            assert client.protocol_version == (revision or "2026-07-28")
            # A JSON answer has no room for notifications, and this server does not look whether its reader
            # is still there; without a session a notification cannot find the request it cancels.
            cancels = "json" not in kind if modern else "stateless" not in kind
            await exercise(client, cancels=cancels, progress="json" not in kind)
            await unknown_tool(client)
            # Without an event stream or a session it cannot ask clients of the handshake era.
            await features(client, asks=modern or kind == "sse", subscribes=modern, touched=touched)

    with wire.HttpRecorder(url) as recorder:
        run(trial, recorder.url)
    sent, received = recorder.messages()
    assert schemas.check(revision or "2026-07-28", received, sent)["tools/call"] > 200


def test_logs_and_list_changed(run, peers):
    """SF-40, SF-60: messages that belong to no answer reach the callbacks (handshake era)."""

    async def trial():
        logs, changed = [], []
        async with connect(
            [str(peers), str(SERVER), "stdio"],
            revision="2025-11-25",
            on_log=logs.append,
            on_list_changed=changed.append,
        ) as client:
            await client.ping()
            await client.call_tool("log", {"level": "warning", "text": "careful"})
            await until(lambda: logs)
            assert (logs[0].level, logs[0].data, logs[0].logger) == ("warning", "careful", "peer")
            await client.call_tool("grow", {"name": "grown"})
            await until(lambda: changed)
            assert changed == ["tools"]
            assert "grown" in {tool.name for tool in await client.list_tools()}

    run(trial)


def test_logs_modern(run, peers):
    """SF-41: log messages come with the request that asks for them."""

    async def trial():
        logs = []
        async with connect([str(peers), str(SERVER), "stdio"], on_log=logs.append) as client:
            assert client.protocol_version == "2026-07-28"
            await client.call_tool("log", {"level": "warning", "text": "careful"})
            await until(lambda: logs)
            assert (logs[0].level, logs[0].data) == ("warning", "careful")
            await give_up(client)

    run(trial)
