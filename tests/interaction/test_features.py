"""Interaction, second part: resources, prompts, completion and changes, in every cell of the matrix."""

import uuid

import pytest

from headrace import LocalProtocolError
from headrace.errors import ResourceNotFound
from interaction.cells import R1, R2, R3, R4, R5, refused, until


def test_sf20_resource_lists(cell):
    """SF-20, SF-51, SF-76: what a resource and a template say of themselves, by revision; pages; caching hints."""

    async def trial(cell):
        client = cell.client
        uris = [resource.uri for resource in await client.list_resources()]
        assert {"note://static", "note://blob"} <= set(uris)
        templates = [each.uri_template for each in await client.list_resource_templates()]
        assert "note://named/{name}{?lang}" in templates
        raw = await client.request("resources/list")
        static = next(each for each in raw["resources"] if each["uri"] == "note://static")
        known = {"uri", "name", "description", "mimeType", "annotations"}
        known |= {"size"} if cell.since(R2) else set()
        known |= {"title", "_meta"} if cell.since(R3) else set()
        known |= {"icons"} if cell.since(R4) else set()
        assert known - {"size"} <= set(static) <= known | {"size"}
        for result in (raw, await client.request("resources/templates/list")):
            assert ({"ttlMs", "cacheScope", "resultType"} <= set(result)) == cell.modern

    cell.run(trial)


def test_sf21_22_24_reading(cell):
    """SF-21, SF-22, SF-24, JR-31: text, bytes, templates with their variables; what is not there."""

    async def trial(cell):
        client = cell.client
        assert (await client.read_resource("note://static")).text == "static note"
        assert (await client.read_resource("note://blob")).data == b"\x89PNG\r\n\x1a\n"
        assert (await client.read_resource("note://named/x%20y?lang=de")).text == "note of x y in de"
        assert (await client.read_resource("note://number/3")).text == "note 3"
        raw = await client.request("resources/read", {"uri": "note://static"})
        assert raw["contents"][0]["uri"] == "note://static"
        assert raw["contents"][0]["mimeType"] == "text/plain"
        assert (raw.get("ttlMs"), raw.get("cacheScope")) == ((5000, "private") if cell.modern else (None, None))
        for uri in ("note://nowhere", "note://number/4"):
            error = await refused(client.request("resources/read", {"uri": uri}))
            assert error.code == (-32602 if cell.modern else -32002)
            assert error.data["uri"] == uri
        assert (await refused(client.request("resources/read", {"uri": "note://number/many"}))).code == -32602
        with pytest.raises(ResourceNotFound) as caught:
            await client.read_resource("note://nowhere")
        assert caught.value.uri == "note://nowhere"
        assert (await refused(client.request("resources/read"))).code == -32602

    cell.run(trial)


def test_sf23_70_resource_updates(cell):
    """SF-23, SF-70, SF-72: subscribed resources report their updates; others, and former ones, do not."""

    async def trial(cell):
        client = cell.client
        called = []
        await client.subscribe("note://static", called.append)
        await client.call_tool("touch", {"uri": "note://other"})
        await client.call_tool("touch", {"uri": "note://static"})
        await until(lambda: called and cell.updated)
        assert called == cell.updated == ["note://static"]
        await client.unsubscribe("note://static")
        await client.call_tool("touch", {"uri": "note://static"})
        await client.call_tool("echo", {"text": "a round trip later"})
        assert called == ["note://static"]

    cell.run(trial)


def test_sf70_71_72_73_listening(cell):
    """SF-70, SF-71, SF-72, SF-73, HN-52: several listens at once, each with what it asked for; none before 2026-07-28."""

    async def trial(cell):
        client = cell.client
        if not cell.modern:
            with pytest.raises(LocalProtocolError):
                client.listen(tools=True)
            return
        tools = client.listen(tools=True)
        notes = client.listen(uris=["note://static"])
        async with tools, notes:
            assert tools.accepted.tools and not tools.accepted.prompts
            await client.call_tool("touch", {"uri": "note://static"})
            change = await anext(aiter(notes))
            assert (change.kind, change.uri) == ("resource", "note://static")
            name = f"t_{uuid.uuid4().hex}"
            await client.call_tool("grow", {"name": name})
            assert (await anext(aiter(tools))).kind == "tools"
            await client.call_tool("shrink", {"name": name})
        assert (await client.call_tool("add", {"a": 1, "b": 1})).text == "2"

    cell.run(trial)


def test_sf60_54_list_changes(cell):
    """SF-60, SF-54: unsolicited in the handshake era, by a listen of the client's own in the modern one."""

    async def trial(cell):
        client = cell.client
        name = f"t_{uuid.uuid4().hex}"
        await client.call_tool("grow", {"name": name})
        await until(lambda: {"tools", "prompts", "resources"} <= set(cell.changed))
        assert name in [tool.name for tool in await client.list_tools()]
        assert name in [prompt.name for prompt in await client.list_prompts()]
        assert f"grown://{name}" in [each.uri for each in await client.list_resources()]
        assert (await client.call_tool(name)).text == name
        cell.changed.clear()
        await client.call_tool("shrink", {"name": name})
        await until(lambda: {"tools", "prompts", "resources"} <= set(cell.changed))
        assert name not in [tool.name for tool in await client.list_tools()]
        assert (await refused(client.call_tool(name))).code == -32602

    cell.run(trial)


def test_sf30_prompts(cell):
    """SF-30, JR-35, SF-01: arguments are strings, those without default are required."""

    async def trial(cell):
        client = cell.client
        greet = next(each for each in await client.list_prompts() if each.name == "greet")
        assert [(each.name, bool(each.required)) for each in greet.arguments] == [("name", True), ("tone", False)]
        got = await client.get_prompt("greet", {"name": "Ada"})
        assert got.messages[0].content.text == "Greet Ada, kind"
        raw = await client.request("prompts/get", {"name": "greet", "arguments": {"name": "Ada", "tone": "curt"}})
        assert raw["messages"][0] == {"role": "user", "content": {"type": "text", "text": "Greet Ada, curt"}}
        assert "ttlMs" not in raw and ("resultType" in raw) == cell.modern
        for params in ({"name": "nobody"}, {"name": "greet"}, {"name": "greet", "arguments": {"name": 1}}, {}):
            assert (await refused(client.request("prompts/get", params))).code == -32602

    cell.run(trial)


def test_sf31_completion(cell):
    """SF-31: of prompts and templates, at most 100 with the total, with what is known of other arguments since 2025-06-18."""

    async def trial(cell):
        client = cell.client
        some = await client.complete("greet", "name", "Al")
        assert some.values == ["Alan"]
        many = await client.complete("greet", "name", "A")
        assert (len(many.values), many.total, many.has_more) == (100, 152, True)
        assert (await client.complete("note://named/{name}{?lang}", "lang", "e")).values == ["en", "es"]
        assert (await client.complete("greet", "tone", "k")).values == ["kind"]
        if cell.since(R3):
            known = await client.complete("greet", "name", "A", context={"tone": "curt"})
            assert known.values == ["A-curt"]
        wrong = {"ref": {"type": "ref/prompt", "name": "nobody"}, "argument": {"name": "x", "value": ""}}
        assert (await refused(client.request("completion/complete", wrong))).code == -32602

    cell.run(trial)


def test_jr40_42_meta_reaches_the_other_side(cell):
    """JR-40, JR-42: `_meta` of a request arrives, keys of tracing included; objects carry theirs since 2025-06-18."""

    async def trial(cell):
        client = cell.client
        trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "test.example/k": 1}
        who = await client.call_tool("who", meta=trace)
        assert "test.example/k" in who.text
        tool = next(each for each in await client.list_tools() if each.name == "add")
        assert tool.meta == ({"test.example/a": 1} if cell.since(R3) else tool.meta)

    cell.run(trial)


@pytest.mark.parametrize("field", ["server", "tool", "resource", "prompt"])
def test_sf76_icons(cell, field):
    """SF-76: icons since 2025-11-25, on everything that has a face."""

    async def trial(cell):
        client = cell.client
        found = {
            "server": lambda: [client.server_info],
            "tool": client.list_tools,
            "resource": client.list_resources,
            "prompt": client.list_prompts,
        }[field]()
        entries = found if isinstance(found, list) else await found
        name = {"server": "everything", "tool": "add", "resource": "static", "prompt": "greet"}[field]
        icons = next(each for each in entries if each.name == name).icons
        assert bool(icons) == cell.since(R4)
        if icons:
            assert icons[0].src == "https://example.test/icon.png"

    if cell.transport == "memory" or cell.revision in (R1, R5):
        cell.run(trial)
