"""Lists, resources, prompts, completion of the client against scripted servers, in both eras."""

import asyncio
import base64
import json

import pytest
from scripted_peer import MODERN, Script, error, handshake

from headrace import NotOffered, RemoteProtocolError, RequestTimeout, ResourceNotFound, RpcError, UsageError, connect
from headrace.jsonrpc import R1, R3, R4, R5
from headrace.types import PromptReference

CAPABILITIES = {"tools": {}, "resources": {"subscribe": True}, "prompts": {}, "completions": {}}


def script(revision, **answers):
    if revision == R5:
        return Script(discover={**MODERN, "capabilities": CAPABILITIES}, **answers)
    return Script(
        discover=error(-32601), initialize={**handshake(revision), "capabilities": CAPABILITIES}, **answers
    )


LISTS = [
    ("list_tools", "tools_list", "tools", lambda i: {"name": f"n{i}", "inputSchema": {"type": "object"}}),
    ("list_resources", "resources_list", "resources", lambda i: {"uri": f"file:///n{i}", "name": f"n{i}"}),
    (
        "list_resource_templates",
        "resources_templates_list",
        "resourceTemplates",
        lambda i: {"uriTemplate": "file:///{x}", "name": f"n{i}"},
    ),
    ("list_prompts", "prompts_list", "prompts", lambda i: {"name": f"n{i}", "arguments": [{"name": "a"}]}),
]


@pytest.mark.parametrize("revision", [R4, R5])
@pytest.mark.parametrize(("method", "wire", "member", "entry"), LISTS, ids=lambda v: v if isinstance(v, str) else "")
def test_sf50_lists_of_all_kinds_page_by_page(run, revision, method, wire, member, entry):
    """SF-20, SF-30, SF-50: an empty string is a cursor, only its absence or null ends a list."""

    def pages(message, writer):
        cursor = message.get("params", {}).get("cursor", "start")
        following = {"start": "", "": "0", "0": None}[cursor]
        number = {"start": 0, "": 1, "0": 2}[cursor]
        return {member: [entry(number)], "nextCursor": following, "resultType": "complete", "ttlMs": 0}

    async def main():
        async with script(revision, **{wire: pages}) as peer, connect(peer.target) as client:
            assert [e.name for e in await getattr(client, method)()] == ["n0", "n1", "n2"]
            page = await getattr(client, f"{method}_page")()
            assert page.next_cursor == ""
            page = await getattr(client, f"{method}_page")("")
            assert page.next_cursor == "0"

    run(main)


@pytest.mark.parametrize(("method", "wire", "member", "entry"), LISTS, ids=lambda v: v if isinstance(v, str) else "")
def test_sf50_pages_that_do_not_end_and_entries_that_are_wrong(run, caplog, method, wire, member, entry):
    async def main():
        answers = {wire: {member: [{"name": 7}, entry(1)], "nextCursor": "x"}}
        async with script(R5, **answers) as peer, connect(peer.target) as client:
            page = await getattr(client, f"{method}_page")()
            attribute = "resource_templates" if member == "resourceTemplates" else member
            assert [e.name for e in getattr(page, attribute)] == ["n1"]
            assert page.next_cursor == "x"
            with pytest.raises(RemoteProtocolError, match="do not end"):
                await getattr(client, method)()

    run(main)
    assert "left out" in caplog.text


@pytest.mark.parametrize("revision", [R1, R4, R5])
def test_sf21_resources_are_read_as_text_and_bytes(run, revision):
    async def main():
        contents = [
            {"uri": "x://a", "text": "héllo", "mimeType": "text/plain"},
            {"uri": "x://a/b", "blob": base64.b64encode(b"\x00\xff").decode(), "_meta": {"k": 1}},
        ]
        answer = {"contents": contents, "ttlMs": 5, "cacheScope": "public"}
        async with script(revision, resources_read=answer) as peer, connect(peer.target) as client:
            result = await client.read_resource("x://a")
            assert result.text == "héllo"
            assert result.data == "héllo".encode() + b"\x00\xff"
            assert result.contents[1].meta == {"k": 1}
            assert peer.seen[-1]["params"]["uri"] == "x://a"

    run(main)


def test_sf21_a_broken_blob_is_told(run):
    async def main():
        answer = {"contents": [{"uri": "x://a", "blob": "a=b"}]}
        async with script(R5, resources_read=answer) as peer, connect(peer.target) as client:
            result = await client.read_resource("x://a")
            with pytest.raises(ValueError, match="x://a is not Base64"):
                result.data  # noqa: B018

    run(main)


@pytest.mark.parametrize(
    ("revision", "code", "data", "missing"),
    [
        (R4, -32002, None, True),
        (R5, -32002, None, True),
        (R5, -32602, {"uri": "x://a"}, True),
        (R5, -32602, None, True),
        (R4, -32602, {"uri": "x://a"}, True),
        (R4, -32602, None, False),
        (R5, -32603, None, False),
    ],
)
def test_sf22_jr31_both_codes_for_a_missing_resource(run, revision, code, data, missing):
    async def main():
        async with script(revision, resources_read=error(code, data)) as peer, connect(peer.target) as client:
            with pytest.raises(RpcError) as caught:
                await client.read_resource("x://a")
            assert isinstance(caught.value, ResourceNotFound) is missing
            assert caught.value.code == code
            if missing:
                assert caught.value.uri == "x://a"

    run(main)


@pytest.mark.parametrize("revision", [R4, R5])
def test_sf30_prompts(run, revision):
    async def main():
        answer = {
            "description": "d",
            "messages": [
                {"role": "user", "content": {"type": "text", "text": "hi"}},
                {"role": "assistant", "content": {"type": "resource", "resource": {"uri": "x://a", "text": "t"}}},
            ],
        }
        async with script(revision, prompts_get=answer) as peer, connect(peer.target) as client:
            result = await client.get_prompt("p", {"a": "1"})
            assert result.messages[0].content.text == "hi"
            assert result.messages[1].content.resource.text == "t"
            params = peer.seen[-1]["params"]
            assert (params["name"], params["arguments"]) == ("p", {"a": "1"})
            with pytest.raises(UsageError, match="'a' must be a string"):
                await client.get_prompt("p", {"a": 1})

    run(main)


@pytest.mark.parametrize(("revision", "context"), [(R1, False), (R3, True), (R5, True)])
def test_sf31_completion(run, revision, context):
    """SF-31: values, total, hasMore; context only where the revision has it."""

    async def main():
        answer = {"completion": {"values": ["a", "b"], "total": 7, "hasMore": True}}
        async with script(revision, completion_complete=answer) as peer, connect(peer.target) as client:
            found = await client.complete("p", "arg", "x", context={"other": "1"})
            assert (found.values, found.total, found.has_more) == (["a", "b"], 7, True)
            params = peer.seen[-1]["params"]
            assert params["ref"] == {"type": "ref/prompt", "name": "p"}
            assert params["argument"] == {"name": "arg", "value": "x"}
            assert params.get("context") == ({"arguments": {"other": "1"}} if context else None)
            await client.complete("x://{a}", "a", "")
            assert peer.seen[-1]["params"]["ref"] == {"type": "ref/resource", "uri": "x://{a}"}
            await client.complete(PromptReference(name="x://p"), "a", "")
            assert peer.seen[-1]["params"]["ref"] == {"type": "ref/prompt", "name": "x://p"}

    run(main)


@pytest.mark.parametrize("revision", [R4, R5])
def test_vn07_only_what_the_server_offers_is_asked_for(run, revision):
    """VN-07: nothing is sent; tools are asked for all the same (many servers forget to declare them)."""

    async def main():
        tools = {"tools": []}
        bare = {**MODERN, "capabilities": {}} if revision == R5 else error(-32601)
        peer = Script(discover=bare, initialize=handshake(), tools_list=tools)
        async with peer, connect(peer.target) as client:
            for call in (
                client.list_prompts(),
                client.list_resources(),
                client.list_resource_templates_page(),
                client.read_resource("x://a"),
                client.get_prompt("p"),
                client.complete("p", "a", "b"),
                client.subscribe("x://a"),
            ):
                with pytest.raises(NotOffered, match="does not offer"):
                    await call
            assert await client.list_tools() == []
            assert not [m for m in peer.methods if m.split("/")[0] in ("prompts", "resources", "completion")]

    run(main)


def test_jr53_tool_schemas_arrive_as_the_server_sent_them(run):
    """JR-53: unknown keywords, key order and exact numbers survive."""
    schema = {
        "type": "object",
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$defs": {"a": {"$anchor": "A", "x-vendor": [None, 1.5, {"deep": True}]}},
        "properties": {"z": {"$ref": "#/$defs/a"}, "a": {"const": 12345678901234567890}},
        "allOf": [{"if": {}, "then": {"minimum": 1.0}}],
        "unevaluatedProperties": False,
    }

    async def main():
        tool = {"name": "t", "inputSchema": schema, "outputSchema": {**schema, "prefixItems": []}, "execution": {"a": 1}}
        for revision in (R4, R5):
            async with script(revision, tools_list={"tools": [tool]}) as peer, connect(peer.target) as client:
                (found,) = await client.list_tools()
                assert found.input_schema == schema
                assert list(found.input_schema) == list(schema)
                assert list(found.input_schema["properties"]) == ["z", "a"]
                assert found.output_schema == tool["outputSchema"]
                assert found.execution == {"a": 1}

    run(main)


@pytest.mark.parametrize("method", ["tools/call", "prompts/list", "ping", "x/y"])
def test_b80_the_switch_of_the_connection_works_alone_for_every_method(run, method):
    """B80: no callback is given; the request carries a token and progress restarts its clock; the absolute
    maximum holds all the same."""
    async def slow(message, writer):
        token = message["params"]["_meta"]["progressToken"]
        for step in range(steps):
            note = {"progressToken": token, "progress": step}
            writer.write(
                json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": note}).encode() + b"\n"
            )
            await asyncio.sleep(0.05)
        return {"content": []}

    async def main():
        nonlocal steps
        answers = {method.replace("/", "_"): slow}
        async with script(R4, **answers) as peer:
            async with connect(peer.target, timeout=0.3, reset_timeout_on_progress=True) as client:
                await client.request(method, {})
            steps = 16
            options = {"timeout": 0.3, "reset_timeout_on_progress": True, "max_total_timeout": 0.5}
            async with connect(peer.target, **options) as client:
                with pytest.raises(RequestTimeout, match="absolute limit"):
                    await client.request(method, {})
                for _ in range(200):
                    if "notifications/cancelled" in peer.methods:
                        break
                    await asyncio.sleep(0.02)
                assert "notifications/cancelled" in peer.methods

    steps = 10
    run(main)


def test_thousands_of_invalid_definitions_are_told_of_briefly_and_lists_end(run, caplog, monkeypatch):
    """One line each for the first, one for the rest; a list that grows for ever is refused."""
    monkeypatch.setattr("headrace.client.lists.MAX_ENTRIES", 50)
    good = {"name": "t", "inputSchema": {"type": "object"}}
    cursors = iter(range(1_000))

    def tools(message, writer):
        if "cursor" not in message["params"] and not endless:
            return {"resultType": "complete", "tools": [5] * 3_000 + [good]}
        return {"resultType": "complete", "tools": [good] * 20, "nextCursor": str(next(cursors))}

    endless = []

    async def main():
        async with Script(discover=MODERN, tools_list=tools) as peer, connect(peer.target) as client:
            assert [t.name for t in await client.list_tools()] == ["t"]
            assert caplog.text.count("was left out") == 20 and "2980 more tool definitions" in caplog.text
            endless.append(True)
            with pytest.raises(RemoteProtocolError, match="do not end"):
                await client.list_tools()
            assert peer.methods.count("tools/list") == 4

    run(main)
