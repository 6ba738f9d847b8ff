"""Interaction, first part: negotiation, lists, calls, errors, progress, logs, cancelling, in every cell of the matrix."""

import asyncio
import json
import uuid

import pytest
from msgspec import UNSET

from headrace import LocalProtocolError, RequestTimeout
from interaction.app import INSTRUCTIONS, PAGE
from interaction.cells import R1, R2, R3, R4, refused, until


def test_vn01_02_04_20_24_negotiation(cell):
    """VN-07, SF-01: the revision asked for is the one spoken; what the server says of itself arrives."""

    async def trial(cell):
        client = cell.client
        assert client.protocol_version == cell.revision
        assert (client.server_info.name, client.server_info.version) == ("everything", "1.2.3")
        assert client.instructions == INSTRUCTIONS
        capabilities = client.capabilities
        assert {"tools", "resources", "prompts", "logging"} <= set(capabilities)
        assert ("completions" in capabilities) == cell.since(R2)
        assert capabilities["tools"] == capabilities["prompts"] == {"listChanged": True}
        assert capabilities["resources"] == {"listChanged": True, "subscribe": True}
        assert capabilities["extensions"]["test.example/thing"] == {"level": 1}
        who = await client.call_tool("who", meta={"test.example/mark": [1]})
        seen = who.structured_content or json.loads(who.text)
        assert seen == {"name": "headrace", "revision": cell.revision, "meta": {"test.example/mark": [1]}}

    cell.run(trial)


def test_vn30_67_members_of_results_by_revision(cell):
    """VN-30, VN-67, SF-51, JR-10: what only the newest revision knows is in its results only."""

    async def trial(cell):
        result = await cell.client.request("tools/list")
        if cell.modern:
            assert (result["resultType"], result["ttlMs"], result["cacheScope"]) == ("complete", 60_000, "public")
            assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "everything"
        else:
            assert set(result) == {"tools", "nextCursor"}
        add = result["tools"][0]
        known = {"name", "description", "inputSchema"}
        known |= {"annotations"} if cell.since(R2) else set()
        known |= {"title", "outputSchema", "_meta"} if cell.since(R3) else set()
        known |= {"icons"} if cell.since(R4) else set()
        assert known - {"outputSchema"} <= set(add) <= known | {"execution"}
        assert add["annotations"]["readOnlyHint"] is True if cell.since(R2) else True

    cell.run(trial)


def test_sf02_50_pages_and_bad_cursors(cell):
    """SF-02, SF-50, JR-35: pages of the server's size in one order, an opaque cursor, -32602 for a wrong one."""

    async def trial(cell):
        client = cell.client
        first = await client.list_tools_page()
        assert len(first.tools) == PAGE
        second = await client.list_tools_page(first.next_cursor)
        everything = await client.list_tools()
        names = [tool.name for tool in everything]
        assert names[:PAGE] == [tool.name for tool in first.tools]
        assert names[PAGE : 2 * PAGE] == [tool.name for tool in second.tools]
        assert len(set(names)) == len(names) > 2 * PAGE
        for method in ("tools/list", "resources/list", "resources/templates/list", "prompts/list"):
            assert (await refused(client.request(method, {"cursor": "nonsense"}))).code == -32602

    cell.run(trial)


def test_sf03_05_06_07_calls_and_blocks(cell):
    """SF-03, SF-05, SF-06, SF-07: content of every kind, and what older revisions get in place of newer kinds."""

    async def trial(cell):
        client = cell.client
        assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
        text = 'é€😀𝄞\n"\\\u2028\x00'
        assert (await client.call_tool("echo", {"text": text})).text == text
        point = await client.call_tool("point", {"x": 1, "y": 2.5})
        assert point.structured_content == ({"x": 1, "y": 2.5} if cell.since(R3) else UNSET)
        assert point.text.replace(" ", "") == '{"x":1,"y":2.5}'
        kinds = [block["type"] for block in (await client.request("tools/call", {"name": "blocks"}))["content"]]
        assert kinds == [
            "text",
            "image",
            "audio" if cell.since(R2) else "text",
            "resource",
            "resource_link" if cell.since(R3) else "text",
        ]

    cell.run(trial)


def test_jr32_35_36_38_errors(cell):
    """JR-09, JR-32, JR-35, JR-36, JR-38, SF-08: tools that fail, that do not exist, methods that do not exist."""

    async def trial(cell):
        client = cell.client
        told = await client.call_tool("fail", {"message": "as told"})
        assert told.is_error and told.text == "as told"
        crashed = await client.call_tool("crash")
        assert crashed.is_error and "secret" not in crashed.text
        bad = await client.call_tool("add", {"a": "x"})
        assert bad.is_error and "a" in bad.text
        assert (await refused(client.call_tool("nobody"))).code == -32602
        own = await refused(client.call_tool("refuse", {"code": 4711}))
        assert (own.code, own.message, own.data) == (4711, "as told", {"why": "told"})
        for method in ("no/such", "shutdown", "tools/nothing"):
            assert (await refused(client.request(method))).code == -32601
        assert (await refused(client.request("tools/call", {"arguments": {}}))).code == -32602

    cell.run(trial)


def test_vn64_mx20_sf40_methods_of_other_revisions(cell):
    """VN-64, MX-20, SF-23, SF-40, SF-41, TK-30: a method that this revision does not have is unknown, and that is all."""

    async def trial(cell):
        client = cell.client
        gone = ["ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe", "tasks/result", "tasks/list"]
        new = ["server/discover", "subscriptions/listen", "tasks/update"]
        for method in gone if cell.modern else new:
            assert (await refused(client.request(method, {"level": "info", "uri": "note://static"}))).code == -32601
        if cell.modern:
            with pytest.raises(LocalProtocolError):
                await client.ping()
        else:
            await client.ping()
            assert await client.request("ping") == {}

    cell.run(trial)


@pytest.mark.parametrize("tool", ["count", "count_in_thread"])
def test_mx02_03_progress(cell, tool):
    """MX-02, MX-03, MX-05, B78: every note, in order, before the answer; texts since 2025-03-26."""

    async def trial(cell):
        notes = []
        done = await cell.client.call_tool(tool, {"to": 20}, on_progress=lambda *note: notes.append(note))
        assert done.text == "counted to 20"
        assert [(n, total) for n, total, _ in notes] == [(n, 20) for n in range(1, 21)]
        texts = {text is None for _, _, text in notes}
        assert texts == {not (tool == "count" and cell.since(R2))}
        assert (await cell.client.call_tool(tool, {"to": 3})).text == "counted to 3"  # nobody asked

    cell.run(trial)


def test_sf40_41_log_messages(cell):
    """SF-40, SF-41: from the level on that the client wants; for the connection, or with the request."""

    async def trial(cell):
        client = cell.client
        await client.set_log_level("warning")
        await client.call_tool("log", {"level": "info", "text": "quiet"})
        await client.call_tool("log", {"level": "error", "text": "loud"})
        await until(lambda: cell.logs)
        assert [(each.level, each.data, each.logger) for each in cell.logs] == [("error", "loud", "tests")]
        await client.set_log_level("debug")
        if not cell.modern:
            bad = await refused(client.request("logging/setLevel", {"level": "loud"}))
            assert bad.code == -32602

    cell.run(trial)


def test_mx10_12_13_giving_up(cell):
    """MX-10, MX-11, MX-12, MX-13, HN-50, HN-51, JR-34, B75: a time limit and a cancelled task reach the handler."""

    async def trial(cell):
        client, mark = cell.client, uuid.uuid4().hex
        with pytest.raises(RequestTimeout):
            await client.call_tool("slow", {"seconds": 20, "tag": f"{mark} late"}, timeout=0.05)
        task = asyncio.ensure_future(client.call_tool("slow", {"seconds": 20, "tag": f"{mark} task"}))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        async with asyncio.timeout(5):
            wanted = {f"{mark} late cancelled", f"{mark} task cancelled"}
            while True:
                result = await client.request("tools/call", {"name": "read_journal"})
                text = "".join(block["text"] for block in result["content"])
                if all(each in text for each in wanted):
                    break
                await asyncio.sleep(0.02)
        assert (await client.call_tool("add", {"a": 20, "b": 3})).text == "23"

    cell.run(trial)


def test_mx01_jr04_many_at_once(cell):
    """MX-01, JR-04, JR-05, B70: answers in any order find their callers."""

    async def trial(cell):
        many = 8 if cell.transport in ("http", "sse") else 50  # each is a connection there, and stays for a while
        waits = [0.02 - n / 5000 for n in range(many)]
        calls = [cell.client.call_tool("slow", {"seconds": wait, "tag": str(n)}) for n, wait in enumerate(waits)]
        calls += [cell.client.call_tool("echo", {"text": str(n)}) for n in range(many)]
        answers = await asyncio.gather(*calls)
        assert [answer.text for answer in answers] == [*map(str, range(many)), *map(str, range(many))]

    cell.run(trial)


def test_st03_big_messages(cell):
    """ST-03, HO-42, B09: a megabyte each way."""

    async def trial(cell):
        text = "é" * 500_000
        assert (await cell.client.call_tool("echo", {"text": text})).text == text
        assert len((await cell.client.call_tool("big", {"size": 1_000_000})).text) == 1_000_000

    cell.run(trial)


def test_jr07_16_unknown_notifications_and_members(cell):
    """JR-07, JR-16: notifications nobody knows are silent, members nobody knows harmless."""

    async def trial(cell):
        client = cell.client
        client.notify("notifications/of/nobody", {"a": 1})
        client.notify("notifications/cancelled", {"requestId": "nothing"})
        result = await client.request("tools/call", {"name": "add", "arguments": {"a": 1, "b": 1}, "more": {"x": None}})
        assert result["content"][0]["text"] == "2"

    cell.run(trial)


def test_vn31_32_extensions_of_a_client(cell):
    """VN-31, VN-32: extensions are declared in both eras, and nothing is taken from them that is not there."""

    async def trial(cell):
        async with cell.connect(extensions={"test.example/thing": {}}) as client:
            assert client.protocol_version == cell.revision
            assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"

    if cell.transport in ("memory", "unix") or cell.revision in (R1, R4):
        cell.run(trial)
