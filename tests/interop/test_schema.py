"""Every message that headrace sends, in real runs, against the official schema of its revision: server and client."""

import asyncio
import contextlib
import uuid

import pytest

from headrace import RpcError, connect
from headrace.jsonrpc import MODERN_REVISIONS
from headrace.protocol.tables import SERVED_HANDSHAKES
from interop import schemas, wire
from interop.exercise import QUESTIONS, until
from interop.support import serve_command

pytestmark = pytest.mark.interop

REVISIONS = [*SERVED_HANDSHAKES, *MODERN_REVISIONS]


async def talk(target, revision):
    """Something of everything that the two can say."""
    logs, changed, touched = [], [], []
    options = QUESTIONS | {
        "log_level": "debug",
        "on_log": logs.append,
        "on_list_changed": changed.append,
        "on_resource_updated": touched.append,
    }
    async with asyncio.timeout(30), connect(target, revision=revision, **options) as client:
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
        asks = revision >= "2025-06-18"
        assert (await client.call_tool("ask_name")).is_error != asks
        assert (await client.call_tool("think", {"prompt": "cats"})).text == "thought about cats"
        assert (await client.call_tool("where")).text == "file:///work"
        await client.list_resources()
        await client.list_resource_templates()
        for uri in ("note://static", "note://blob", "note://named/x"):
            await client.read_resource(uri)
        await client.list_prompts()
        await client.get_prompt("greet", {"name": "Ada"})
        await client.complete("greet", "name", "A")
        for method, params in (
            ("tools/call", {"name": "nobody"}),
            ("no/such", {}),
            ("tools/list", {"cursor": "x"}),
            ("resources/read", {"uri": "note://nowhere"}),
            ("prompts/get", {"name": "nobody"}),
        ):
            with pytest.raises(RpcError):
                await client.request(method, params)
        slow = asyncio.ensure_future(client.call_tool("slow", {"seconds": 20, "tag": "x"}))
        await asyncio.sleep(0.1)
        slow.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await slow
        if revision < "2026":
            await client.ping()
            await client.set_log_level("error")
            client.notify_roots_changed()
        await client.subscribe("note://static")
        await client.call_tool("touch")
        await until(lambda: touched)
        await client.unsubscribe("note://static")
        await client.call_tool("grow", {"name": f"grown_{uuid.uuid4().hex}"})
        await until(lambda: changed)


def complete(said, revision):
    """The talk must have had something of everything; `said` counts what (server, client) sent."""
    server, client = said
    asked = {"tools/list", "tools/call", "resources/list", "resources/templates/list", "resources/read", "prompts/list"}
    asked |= {"prompts/get", "completion/complete"}
    wanted = asked | {"notifications/progress", "notifications/message", "error"}
    wanted |= {"notifications/tools/list_changed", "notifications/resources/updated"}
    if revision < "2026":
        asked |= {"initialize", "notifications/initialized", "ping", "logging/setLevel"}
        asked |= {"resources/subscribe", "resources/unsubscribe", "notifications/roots/list_changed"}
        answers = {"sampling/createMessage", "roots/list"} | ({"elicitation/create"} if revision >= "2025-06-18" else set())
        wanted |= {"initialize", "ping", "logging/setLevel", "resources/subscribe"} | answers
        asked |= answers  # as results
    else:
        wanted |= {"server/discover", "notifications/subscriptions/acknowledged"}
        asked |= {"server/discover", "subscriptions/listen"}
    assert wanted <= set(server), sorted(wanted - set(server))
    assert asked <= set(client), sorted(asked - set(client))


def checked(revision, sent, received):
    return schemas.check(revision, sent, received), schemas.check(revision, received, sent)


@pytest.mark.parametrize("revision", REVISIONS)
def test_stdio(tmp_path, revision):
    asyncio.run(talk(wire.recorded_command(serve_command(), tmp_path), revision))
    said = checked(revision, *wire.recorded_lines(tmp_path))
    complete(said, revision)
    assert "notifications/cancelled" in said[1]


@pytest.mark.parametrize("revision", REVISIONS)
def test_http(toolbox, revision):
    with wire.HttpRecorder(toolbox) as recorder:
        asyncio.run(talk(recorder.url, revision))
    complete(checked(revision, *recorder.messages()), revision)
