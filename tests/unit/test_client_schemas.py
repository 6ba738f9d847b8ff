"""Structured content and output schemas (SF-06, JR-50..JR-52, B92, B110)."""

import sys

import msgspec
import pytest
from scripted_peer import MODERN, Script, error, handshake

from headrace import Limits, RemoteProtocolError, connect
from headrace.client.schemas import SchemaUnusable, compile_schema
from headrace.jsonrpc import R2, R4, R5

pytest.importorskip("jsonschema_rs")

POINT = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "label": {"type": ["string", "null"]}},
    "required": ["x"],
}


class Tools(Script):
    """A server whose tools have these output schemas and give `content`."""

    def __init__(self, schemas, revision=R5):
        modern = MODERN if revision == R5 else error(-32601)
        super().__init__(
            discover=modern, initialize=handshake(revision), tools_list=self._list, tools_call=self._call
        )
        self.schemas = schemas
        self.content = {}

    def _list(self, message, writer):
        return {
            "tools": [
                {"name": name, "inputSchema": {"type": "object"}, **({} if s is None else {"outputSchema": s})}
                for name, s in self.schemas.items()
            ]
        }

    def _call(self, message, writer):
        return {"content": [], **self.content}


@pytest.mark.parametrize("revision", [R4, R5])
def test_sf06_b110_only_structured_content_is_checked(run, revision):
    """SF-06, B110: good; bad; none; errors exempt; tools without a schema and unlisted ones are left alone."""

    async def main():
        async with Tools({"t": POINT, "free": None}, revision) as peer, connect(peer.target) as client:
            peer.content = {"structuredContent": {"x": "no"}}
            await client.call_tool("t")  # not listed yet: nothing is known of it
            await client.list_tools()
            for good in ({"x": 1}, {"x": 1, "label": None, "more": [1]}):
                peer.content = {"structuredContent": good}
                assert (await client.call_tool("t")).structured_content == good
            for bad, text in (({"x": "no"}, 'at x: "no" is not of type'), ({}, "required"), ([], "not of type")):
                peer.content = {"structuredContent": bad}
                with pytest.raises(RemoteProtocolError, match=text) as caught:
                    await client.call_tool("t")
                assert "'t'" in str(caught.value) and "\n" not in str(caught.value)
                await client.call_tool("free")
            peer.content = {}
            with pytest.raises(RemoteProtocolError, match="no structured content"):
                await client.call_tool("t")
            with pytest.raises(RemoteProtocolError, match="no structured content"):
                await client.call_tool("t", meta={"a": 1})
            for content in ({}, {"structuredContent": {"x": "no"}}):
                peer.content = {"isError": True, **content}
                assert (await client.call_tool("t")).is_error

    run(main)


def test_sf06_the_option_turns_it_off_and_old_revisions_have_none(run):
    async def main():
        for revision, options in ((R5, {"validate": False}), (R2, {})):
            async with Tools({"t": POINT}, revision) as peer, connect(peer.target, **options) as client:
                await client.list_tools()
                peer.content = {"structuredContent": {"x": "no"}}
                assert (await client.call_tool("t")).structured_content == {"x": "no"}

    run(main)


def test_sf06_any_json_value_in_the_modern_era(run):
    async def main():
        schemas = {"null": {"type": "null"}, "list": {"prefixItems": [{"type": "string"}], "items": False}}
        async with Tools(schemas) as peer, connect(peer.target) as client:
            await client.list_tools()
            peer.content = {"structuredContent": None}
            assert (await client.call_tool("null")).structured_content is None
            peer.content = {"structuredContent": ["a"]}
            assert (await client.call_tool("list")).structured_content == ["a"]
            peer.content = {"structuredContent": [7]}
            with pytest.raises(RemoteProtocolError, match="at 0"):
                await client.call_tool("list")

    run(main)


def test_b92_a_schema_is_compiled_once_for_each_version(run):
    async def main():
        async with Tools({"t": POINT, "u": POINT}) as peer, connect(peer.target) as client:
            peer.content = {"structuredContent": {"x": 1}}
            for _ in range(3):
                await client.list_tools()
                for _ in range(5):
                    await client.call_tool("t")
            assert client._schemas.compilations == 1
            peer.schemas["t"] = {"type": "object", "properties": {"x": {"type": "string"}}}
            await client.list_tools()
            with pytest.raises(RemoteProtocolError):
                await client.call_tool("t")
            assert client._schemas.compilations == 2
            del peer.schemas["t"]
            await client.list_tools()
            await client.call_tool("t")
            assert client._schemas.compilations == 2
            await client.list_tools_page()
            await client.call_tool("u")
            assert client._schemas.compilations == 3

    run(main)


def test_a_changed_list_voids_what_was_learnt(run):
    async def main():
        async with Tools({"t": POINT}) as peer, connect(peer.target) as client:
            await client.list_tools()
            client._watch.list_changed("tools")
            peer.content = {"structuredContent": {"x": "now a string"}}
            assert (await client.call_tool("t")).structured_content == {"x": "now a string"}

    run(main)


UNUSABLE = [
    ({"$schema": "http://example.com/mine"}, r"dialect 'http://example.com/mine' is not supported"),
    ({"$schema": "http://json-schema.org/draft-03/schema#"}, "draft-03"),
    ({"$schema": 7}, "not a string"),
    ({"$ref": "http://127.0.0.1:1/x"}, r"'http://127.0.0.1:1/x', which is never fetched"),
    ({"properties": {"a": {"$ref": "file:///etc/passwd"}}}, "never fetched"),
    ({"properties": {"a": {"$ref": "other.json"}}}, "never fetched"),
    ({"$id": "http://127.0.0.1:1/base/", "properties": {"a": {"$ref": "other.json"}}}, "never fetched"),
    ({"$ref": "#/$defs/missing"}, "does not exist"),
    ({"type": "wat"}, "wat"),
]


@pytest.mark.parametrize(("schema", "text"), UNUSABLE, ids=lambda v: str(v)[:40])
def test_jr50_jr51_b110_unusable_schemas_fail_their_own_tool_only(run, schema, text):
    """JR-50: the dialect is named; JR-51: nothing is fetched, and such a schema is not permissive."""
    with pytest.raises(SchemaUnusable, match=text):
        compile_schema(schema, Limits())

    async def main():
        async with Tools({"bad": schema, "good": POINT}) as peer, connect(peer.target) as client:
            assert [t.name for t in await client.list_tools()] == ["bad", "good"]
            peer.content = {"structuredContent": {"x": 1}}
            await client.call_tool("good")
            for _ in range(2):
                with pytest.raises(RemoteProtocolError, match=text) as caught:
                    await client.call_tool("bad")
                assert "'bad'" in str(caught.value) and "validate=False" in str(caught.value)
            peer.content = {"isError": True}
            await client.call_tool("bad")

    run(main)


USABLE = [
    ({"$defs": {"n": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/n"}}}, {"x": 1}, {"x": "a"}),
    ({"properties": {"next": {"$ref": "#"}, "x": {"type": "integer"}}}, {"next": {"x": 1}}, {"next": {"x": "a"}}),
    ({"$anchor": "top", "properties": {"next": {"$ref": "#top"}, "x": {"type": "integer"}}}, {}, {"next": {"x": "a"}}),
    (
        {"$id": "http://h.example/a", "$defs": {"b": {"$id": "b", "type": "integer"}}, "items": {"$ref": "b"}},
        [1],
        ["a"],
    ),
    ({"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "integer"}]}, [1], ["a"]),
    ({"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "integer"}]}, [1], ["a"]),
    ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, {"type": "string"}, {"type": "wat"}),
    ({"properties": {"a": {"pattern": "^(a+)+$"}}}, {"a": "aaa"}, {"a": "a" * 64 + "b"}),
]


@pytest.mark.parametrize(("schema", "good", "bad"), USABLE, ids=lambda v: str(v)[:40])
def test_jr51_local_references_and_known_dialects_work(schema, good, bad):
    validator = compile_schema(schema, Limits())
    assert validator.is_valid(good)
    assert not validator.is_valid(bad)


def test_jr52_schemas_are_bounded():
    """JR-52: size, depth, and references that multiply; large honest schemas are fine (B92)."""
    with pytest.raises(SchemaUnusable, match="max_schema_nodes"):
        compile_schema({"enum": [[] for _ in range(100)]}, Limits(max_schema_nodes=50))
    deep = {}
    for _ in range(100_000):
        deep = {"not": deep}
    with pytest.raises(SchemaUnusable):
        compile_schema(deep, Limits())
    while deep:  # taken apart by hand: its own destructor would go as deep
        deep = deep.get("not")
    deep = {}
    for _ in range(5_000):
        deep = {"not": deep}
    with pytest.raises(SchemaUnusable):
        compile_schema(deep, Limits())
    bomb = {f"a{i}": {"allOf": [{"$ref": f"#/$defs/a{i + 1}"}] * 2} for i in range(60)}
    bomb["a60"] = {"type": "integer"}
    with pytest.raises(SchemaUnusable, match="apply to one value"):
        compile_schema({"$ref": "#/$defs/a0", "$defs": bomb}, Limits())
    for circle in ({"$ref": "#"}, {"allOf": [{"$ref": "#"}]}, {"$defs": {"a": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}):
        assert compile_schema(circle, Limits()).is_valid(1)
    chains = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} if i % 50 else {"type": "integer"} for i in range(600)}
    chains["d600"] = {"type": "integer"}
    wide = {"properties": {f"p{i}": {"$ref": f"#/$defs/d{i}"} for i in range(600)}, "$defs": chains}
    assert compile_schema(wide, Limits()).is_valid({"p1": 1})


def nested(depth, leaf):
    for _ in range(depth):
        leaf = {"a": leaf}
    return leaf


TWICE = [{"properties": {"a": {"$ref": "#"}}}, {"properties": {"a": {"$ref": "#"}}, "required": ["a"]}]


def bomb(name, ref):
    """26 levels, each of which applies the next one twice."""
    levels = {f"a{i}": {**name(i), "allOf": [{"$ref": ref(i + 1)}] * 2} for i in range(26)}
    return {"$id": "http://h.example/", "$ref": ref(0), "$defs": {**levels, "a26": {**name(26), "type": "object"}}}


@pytest.mark.parametrize(
    "schema",
    [
        bomb(lambda i: {"$anchor": f"a{i}"}, lambda i: f"#a{i}"),
        bomb(lambda i: {"$id": f"a{i}"}, lambda i: f"a{i}"),
        bomb(lambda i: {}, lambda i: f"http://h.example/#/$defs/a{i}"),
    ],
    ids=["anchor", "id", "absolute"],
)
def test_jr52_references_that_multiply_under_other_names(schema):
    with pytest.raises(SchemaUnusable, match="apply to one value"):
        compile_schema(schema, Limits())


@pytest.mark.parametrize("word", ["anyOf", "oneOf", "allOf"])
def test_jr52_a_small_schema_and_a_small_value_cannot_hold_the_loop(word):
    """What is wrong inside of a recursive schema is not looked for where that takes exponential time."""
    schema = compile_schema({"type": "object", word: TWICE}, Limits())
    assert "entangled" in schema.wrong(nested(60, 1))
    simple = compile_schema({"type": "object", "properties": {"a": {"$ref": "#"}}}, Limits())
    assert simple.wrong(nested(60, {})) is None
    assert '"x" is not of type' in simple.wrong(nested(3, "x"))


def test_jr52_layers_of_schemas_times_values_are_bounded():
    layer = {"properties": {"a": {"$ref": "#/$defs/a%d"}}, "patternProperties": {"a": {"$ref": "#/$defs/a%d"}}}
    text = str(layer).replace("'", '"')
    defs = {f"a{i}": msgspec.json.decode(text.replace("%d", str(i + 1))) for i in range(40)}
    layered = compile_schema({"$ref": "#/$defs/a0", "$defs": {**defs, "a40": {"type": "integer"}}}, Limits())
    with pytest.raises(SchemaUnusable, match="too long"):
        layered.is_valid(nested(40, 1))
    rows = {"items": {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"anyOf": [{}, {}]}}}}
    honest = compile_schema(rows, Limits())
    assert "at 50000/x" in honest.wrong([{"x": i} for i in range(50_000)] + [{"x": "no"}])


def test_jr52_patterns_take_linear_time_or_short_texts():
    linear = compile_schema({"pattern": "^(a+)+$"}, Limits())
    assert not linear.is_valid("a" * 500_000 + "!")
    looking = compile_schema({"pattern": "(?=(.*)*z)a(.*a){5}b"}, Limits())
    assert looking.is_valid("aaaaaabz") and not looking.is_valid("a" * 100)
    with pytest.raises(SchemaUnusable, match="too long"):
        looking.is_valid("a" * 100_000)


def test_without_the_package_nothing_is_checked_and_that_is_said_once(run, monkeypatch, caplog):
    monkeypatch.setitem(sys.modules, "jsonschema_rs", None)

    async def main():
        async with Tools({"t": POINT}) as peer, connect(peer.target) as client:
            peer.content = {"structuredContent": {"x": "no"}}
            for _ in range(3):
                await client.list_tools()
                await client.call_tool("t")

    run(main)
    assert caplog.text.count("headrace[schema]") == 1
