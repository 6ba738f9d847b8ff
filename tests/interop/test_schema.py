"""Every message that headrace's server sends, in real runs, against the official schema of its revision."""

import asyncio

import pytest

from headrace import RpcError, connect
from headrace.jsonrpc import MODERN_REVISIONS
from headrace.protocol.tables import SERVED_HANDSHAKES
from interop import schemas, wire
from interop.support import serve_command

pytestmark = pytest.mark.interop

REVISIONS = [*SERVED_HANDSHAKES, *MODERN_REVISIONS]


async def talk(target, revision):
    """Something of everything that the server can say."""
    async with asyncio.timeout(30), connect(target, revision=revision, log_level="debug", on_log=lambda entry: None) as client:
        assert client.protocol_version == revision
        await client.list_tools()
        await client.call_tool("add", {"a": 1, "b": 2})
        await client.call_tool("point", {"x": 1, "y": 2.5, "label": "é"})
        assert (await client.call_tool("fail", {"message": "as told"})).is_error
        assert (await client.call_tool("crash")).is_error
        assert (await client.call_tool("add", {"a": "x"})).is_error
        await client.call_tool("count", {"to": 3}, on_progress=lambda *note: None)
        await client.call_tool("log", {"level": "info", "text": "x"})
        await client.call_tool("who")
        for method, params in (("tools/call", {"name": "nobody"}), ("no/such", {}), ("tools/list", {"cursor": "x"})):
            with pytest.raises(RpcError):
                await client.request(method, params)
        if revision < "2026":
            await client.ping()
            await client.set_log_level("error")
            await client.call_tool("grow", {"name": f"grown_{revision}"})
            await client.ping()  # what the growth made the server say is on its way before this answer


def complete(kinds, revision, *, pushed=True):
    wanted = {"tools/list", "tools/call", "notifications/progress", "notifications/message", "error"}
    if revision < "2026":
        wanted |= {"initialize", "ping", "logging/setLevel"}
        wanted |= {"notifications/tools/list_changed"} if pushed else set()
    assert wanted <= set(kinds), kinds


@pytest.mark.parametrize("revision", REVISIONS)
def test_stdio(tmp_path, revision):
    asyncio.run(talk(wire.recorded_command(serve_command(), tmp_path), revision))
    kinds = schemas.check(revision, *wire.recorded_lines(tmp_path))
    complete(kinds, revision)


@pytest.mark.parametrize("revision", [each for each in REVISIONS if each > "2024-11-05"])  # it had another HTTP
def test_http(toolbox, revision):
    with wire.HttpRecorder(toolbox) as recorder:
        asyncio.run(talk(recorder.url, revision))
    kinds = schemas.check(revision, *recorder.messages())
    complete(kinds, revision, pushed=False)
