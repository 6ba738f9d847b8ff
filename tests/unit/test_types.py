"""The generated message types against the official schemas, the official examples and hand-made messages."""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from mcp_messages import TOOL_SCHEMA, messages

from headrace import types
from headrace.jsonrpc import R1, R2, R3, R4, R5, REVISIONS

try:
    import jsonschema
except ImportError:  # the round trips are tested without it
    jsonschema = None

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "tests" / "vectors" / "examples"
EXAMPLE_FILES = sorted(EXAMPLES.glob("*/*.json"))


@cache
def schema(revision: str) -> dict[str, Any]:
    return json.loads((ROOT / "tools" / "schemas" / f"{revision}.json").read_bytes())


def definitions(revision: str) -> dict[str, Any]:
    return schema(revision).get("$defs") or schema(revision)["definitions"]


def spelled(raw: bytes | str) -> Any:
    """Parsed JSON in which a number is its own spelling."""
    return json.loads(raw, parse_int=lambda s: ("int", s), parse_float=lambda s: ("float", s))


def again(kind: Any, raw: bytes) -> bytes:
    return msgspec.json.encode(msgspec.json.decode(raw, type=kind))


@cache
def validator(revision: str, name: str) -> Any:
    key = "$defs" if "$defs" in schema(revision) else "definitions"
    cls = jsonschema.validators.validator_for(schema(revision))
    return cls({**schema(revision), "$ref": f"#/{key}/{name}"})


def check(revision: str, name: str, raw: bytes) -> None:
    """What we send is valid by the official schema."""
    if jsonschema is not None:
        validator(revision, name).validate(json.loads(raw))


# The official examples.

UNKNOWN_MEMBERS = {"list-roots-request.json": {"id"}}
"""Members of an example that its definition does not have."""


@pytest.mark.parametrize("path", EXAMPLE_FILES, ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_official_example_survives(path: Path) -> None:
    raw = path.read_bytes()
    out = again(getattr(types.of(R5), path.parent.name), raw)
    expected = spelled(raw)
    for member in UNKNOWN_MEMBERS.get(path.name, ()):
        del expected[member]
    assert spelled(out) == expected
    check(R5, path.parent.name, out)


def test_every_official_example_is_here() -> None:
    assert len(EXAMPLE_FILES) == 129


# Every definition of every revision, with made-up instances.


class Sampler:
    """Makes instances of a definition: all members or only the required ones, and any alternative."""

    EXTRA = ("a", "com.example/b")

    def __init__(self, revision: str, seed: int, full: bool) -> None:
        self.defs = definitions(revision)
        self.random = random.Random(seed)
        self.full = full

    def make(self, node: Any, depth: int = 0) -> Any:
        if isinstance(node, bool) or not (node.keys() - {"description"}):
            return self.random.choice([None, 0, "", 1.5, [1, {"x": None}], {"big": 2**70}])
        if "$ref" in node:
            return self.make(self.defs[node["$ref"].rsplit("/", 1)[-1]], depth)
        if "const" in node:
            return node["const"]
        if "enum" in node:
            return self.random.choice(node["enum"])
        if "anyOf" in node:
            flat = [n for n in node["anyOf"] if depth < 8 or n.get("type") not in ("array", "object")]
            return self.make(self.random.choice(flat or node["anyOf"]), depth)
        if "allOf" in node:
            made = {k: v for part in node["allOf"] for k, v in self.make(part, depth).items()}
            return {k: v for k, v in made.items() if k not in self.EXTRA}  # a result of a kind is not open
        kind = node["type"]
        return getattr(self, self.random.choice(kind) if isinstance(kind, list) else kind)(node, depth + 1)

    def object(self, node: Any, depth: int) -> Any:
        required = node.get("required", ())
        made = {
            k: self.make(v, depth)
            for k, v in node.get("properties", {}).items()
            if k in required or self.full
        }
        if "additionalProperties" in node and self.full and depth < 8:
            made |= {k: self.make(node["additionalProperties"], depth) for k in self.EXTRA}
        return made

    def array(self, node: Any, depth: int) -> Any:
        return [self.make(node.get("items", {}), depth) for _ in range(2 if self.full and depth < 8 else 0)]

    def string(self, node: Any, depth: int) -> str:
        return self.random.choice(["", "text", "Zürich \U0001f30a", "aGVhZA=="])

    def integer(self, node: Any, depth: int) -> int:
        return self.random.choice([0, 1, 100, 2**53 + 1] if "minimum" in node else [0, -1, 100, 2**53 + 1])

    def number(self, node: Any, depth: int) -> float:
        return self.random.choice([0, 1] if "maximum" in node else [0, 100, 0.5, -1.25])

    def boolean(self, node: Any, depth: int) -> bool:
        return self.random.random() < 0.5

    def null(self, node: Any, depth: int) -> None:
        return None


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_definition_round_trips(revision: str) -> None:
    module = types.of(revision)
    for name, node in definitions(revision).items():
        kind = getattr(module, name)
        assert name in module.__all__
        decoder = msgspec.json.Decoder(kind)
        for seed in range(6):
            value = Sampler(revision, seed, seed % 2 == 0).make(node)
            raw = json.dumps(value).encode()
            assert spelled(msgspec.json.encode(decoder.decode(raw))) == spelled(raw), (name, seed)


@pytest.mark.parametrize("revision", REVISIONS)
def test_every_generated_name_is_usable(revision: str) -> None:
    module = types.of(revision)
    assert list(module.__all__) == sorted(set(module.__all__))
    for name in module.__all__:
        kind = getattr(module, name)
        msgspec.json.Decoder(kind)
        if isinstance(kind, type) and issubclass(kind, types.Message):
            assert kind.__doc__
            assert not kind.__struct_config__.omit_defaults


# Hand-made messages of every revision, checked by the official schema too.

MESSAGES = [
    pytest.param(r, n, m, id=f"{r}-{n}-{i}") for r in REVISIONS for i, (n, m) in enumerate(messages(r))
]


@pytest.mark.parametrize(("revision", "name", "message"), MESSAGES)
def test_message_survives_and_is_valid(revision: str, name: str, message: dict[str, Any]) -> None:
    raw = json.dumps(message).encode()
    out = again(getattr(types.of(revision), name), raw)
    assert spelled(out) == spelled(raw)
    if name != "InputResponses" or revision != R5:  # the schema forgets that an answer may be a fraction
        check(revision, name, out)


# Rules.


def test_trap23_empty_zero_and_null_are_not_absent() -> None:
    v5 = types.of(R5)
    page = v5.ListToolsResult(tools=[], ttl_ms=0, cache_scope="private", next_cursor="")
    assert spelled(msgspec.json.encode(page)) == spelled(
        b'{"tools":[],"resultType":"complete","ttlMs":0,"cacheScope":"private","nextCursor":""}'
    )
    result = msgspec.json.decode(b'{"content":[],"structuredContent":null}', type=v5.CallToolResult)
    assert result.structured_content is None
    assert b'"structuredContent":null' in msgspec.json.encode(result)
    absent = msgspec.json.decode(b'{"content":[]}', type=v5.CallToolResult)
    assert absent.structured_content is types.UNSET
    assert not absent.structured_content
    assert b"structuredContent" not in msgspec.json.encode(absent)
    task = types.of(R4).Task
    raw = b'{"taskId":"","status":"working","createdAt":"","lastUpdatedAt":"","ttl":null}'
    assert spelled(again(task, raw)) == spelled(raw)


def test_sf50_null_cursor_ends_a_list() -> None:
    for revision in REVISIONS:
        kind = types.of(revision).PaginatedResult
        assert msgspec.json.decode(b'{"nextCursor":null}', type=kind).next_cursor is None


def test_jr10_result_type_is_always_sent_and_jr11_may_be_missing() -> None:
    v5 = types.of(R5)
    assert b'"resultType":"complete"' in msgspec.json.encode(types.CallToolResult(content=[]))
    assert b'"resultType":"input_required"' in msgspec.json.encode(v5.InputRequiredResult(request_state=""))
    assert msgspec.json.decode(b'{"content":[]}', type=v5.CallToolResult).result_type == "complete"


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("bad", [b"true", b"null", b"1.5", b"1.0", b"[]", b"{}"])
def test_jr03_ids_and_tokens_are_strings_or_integers(revision: str, bad: bytes) -> None:
    for name in ("RequestId", "ProgressToken"):
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(bad, type=getattr(types.of(revision), name))
    for good in (b"0", b'""', b'"1"', b"1", b"-1", b"9007199254740993", b"123456789012345678901234567890"):
        assert again(types.of(revision).RequestId, good) == good


@pytest.mark.parametrize("revision", [R4, R5])
def test_jr13_error_id_may_be_missing_or_null(revision: str) -> None:
    kind = types.of(revision).JSONRPCErrorResponse
    for member in (b"", b',"id":null', b',"id":0'):
        raw = b'{"jsonrpc":"2.0","error":{"code":-32700,"message":""}' + member + b"}"
        assert spelled(again(kind, raw)) == spelled(raw)


@pytest.mark.parametrize("revision", [R1, R2, R3])
def test_jr13_error_id_may_be_null_before_r4(revision: str) -> None:
    raw = b'{"jsonrpc":"2.0","error":{"code":-32700,"message":""},"id":null}'
    assert spelled(again(types.of(revision).JSONRPCError, raw)) == spelled(raw)


@pytest.mark.parametrize("revision", REVISIONS)
def test_jr16_unknown_members_are_ignored(revision: str) -> None:
    module = types.of(revision)
    block = msgspec.json.decode(b'{"zz":[1],"type":"text","text":"a","later":null}', type=module.TextContent)
    assert block.text == "a"
    result = msgspec.json.decode(
        b'{"content":[{"x":1,"type":"text","text":""}],"y":{}}', type=module.CallToolResult
    )
    assert isinstance(result.content[0], module.TextContent)
    assert msgspec.json.decode(b'{"x":[true,1e3,null]}', type=module.Result) == {"x": [True, 1e3, None]}


@pytest.mark.parametrize("revision", REVISIONS)
def test_jr53_tool_schema_passes_unchanged(revision: str) -> None:
    raw = json.dumps({"name": "t", "inputSchema": TOOL_SCHEMA}).encode()
    tool = msgspec.json.decode(raw, type=types.of(revision).Tool)
    assert tool.input_schema == TOOL_SCHEMA
    assert list(tool.input_schema) == list(TOOL_SCHEMA)
    assert spelled(msgspec.json.encode(tool)) == spelled(raw)


@pytest.mark.parametrize("revision", REVISIONS)
def test_numbers_keep_kind_and_booleans_are_not_numbers(revision: str) -> None:
    params = types.of(revision).ProgressNotificationParams
    for spelling in (b"100", b"0.5", b"-1", b"1.0", b"123456789012345678901"):
        raw = b'{"progressToken":1,"progress":' + spelling + b"}"
        assert spelled(again(params, raw)) == spelled(raw)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"progressToken":1,"progress":true}', type=params)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"maxTokens":true,"messages":[]}', type=types.of(revision).CreateMessageRequestParams
        )


@pytest.mark.parametrize("revision", REVISIONS)
def test_constants_stay_on_the_wire(revision: str) -> None:
    module = types.of(revision)
    assert json.loads(msgspec.json.encode(module.TextContent(text=""))) == {"type": "text", "text": ""}
    assert module.TextContent(text="").type == "text"
    params = module.CallToolRequestParams(name="t", **({"meta": {}} if revision == R5 else {}))
    made = module.CallToolRequest(id=1, jsonrpc="2.0", params=params)
    out = json.loads(msgspec.json.encode(made))
    assert (out["method"], out["jsonrpc"], made.method) == ("tools/call", "2.0", "tools/call")
    for name in ("ClientRequest", "ServerNotification"):
        methods = [k.method for k in get_args(getattr(module, name))]
        assert len(methods) == len(set(methods)) > 5


@pytest.mark.parametrize("revision", REVISIONS)
def test_request_union_is_told_apart_by_method(revision: str) -> None:
    module = types.of(revision)
    for name, message in messages(revision):
        if name in ("CallToolRequest", "CompleteRequest", "InitializeRequest", "DiscoverRequest"):
            found = msgspec.json.decode(json.dumps(message).encode(), type=module.ClientRequest)
            assert type(found) is getattr(module, name)
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(
            b'{"jsonrpc":"2.0","id":1,"method":"nope","params":{}}', type=module.ClientRequest
        )


def test_union_alternatives_are_accepted_where_the_union_is_asked_for() -> None:
    v5 = types.of(R5)
    assert issubclass(types.StringSchema, types.PrimitiveSchemaDefinition)
    assert issubclass(types.TextResourceContents, types.ResourceContents)
    assert issubclass(types.ElicitRequestURLParams, types.ElicitRequestParams)
    form = types.ElicitRequestFormParams(
        message="m",
        requested_schema=v5.ElicitRequestFormParamsRequestedSchema(
            properties={
                "a": types.StringSchema(min_length=0),
                "b": types.NumberSchema(type="integer", minimum=1),
            }
        ),
    )
    raw = msgspec.json.encode(v5.ElicitRequest(params=form))
    assert json.loads(raw)["params"]["requestedSchema"] == {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 0}, "b": {"type": "integer", "minimum": 1}},
    }
    asked = msgspec.json.decode(raw, type=v5.InputRequest)
    assert asked.params.requested_schema.properties["a"].min_length == 0
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"uri":"x://"}', type=types.TextResourceContents)


def test_typed_view_of_open_objects() -> None:
    found = types.of(R4).InitializeResult(
        capabilities={"tools": {"listChanged": True}, "own": 1},
        protocol_version=R4,
        server_info=types.of(R4).Implementation(name="a", version="1"),
    )
    view = msgspec.convert(found.capabilities, types.of(R4).ServerCapabilities)
    assert view.tools.list_changed is True
    assert view.prompts is types.UNSET
    meta = {"io.modelcontextprotocol/protocolVersion": R5, "io.modelcontextprotocol/clientCapabilities": {}}
    assert msgspec.convert(meta, types.of(R5).RequestMetaObject).protocol_version == R5


# The second reading.


def test_relaxed_null_means_absent_where_null_has_no_meaning() -> None:
    v5 = types.of(R5)
    raw = b"""{"tools":[{"name":"t","title":null,"description":null,"annotations":{"title":null},
        "_meta":null,"inputSchema":{"type":"object","default":null}}],"nextCursor":null,"ttlMs":60000.0,"cacheScope":"public"}"""
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(raw, type=v5.ListToolsResult)
    found = types.decode_relaxed(raw, v5.ListToolsResult)
    assert found == v5.ListToolsResult(
        tools=[
            types.Tool(
                name="t",
                annotations=types.ToolAnnotations(),
                input_schema={"type": "object", "default": None},
            )
        ],
        next_cursor=None,
        ttl_ms=60000,
        cache_scope="public",
    )
    assert isinstance(found.ttl_ms, int)


def test_relaxed_keeps_null_that_has_a_meaning_and_walks_tagged_blocks() -> None:
    v5 = types.of(R5)
    raw = b"""{"structuredContent":null,"isError":null,"content":[
        {"type":"text","text":"a","annotations":null},
        {"type":"resource_link","name":"n","uri":"x://","size":3.0,"mimeType":null},
        {"type":"resource","resource":{"uri":"x://","text":"","mimeType":null}}]}"""
    found = types.decode_relaxed(raw, v5.CallToolResult)
    assert found.structured_content is None
    assert found.is_error is types.UNSET
    assert found.content == [
        types.TextContent(text="a"),
        types.ResourceLink(name="n", uri="x://", size=3),
        types.EmbeddedResource(resource=types.ResourceContents(uri="x://", text="")),
    ]


@pytest.mark.parametrize(
    "raw",
    [b'{"content":null}', b'{"content":[null]}', b'{"content":[{"type":"text","text":null}]}', b"[]", b"5"],
)
def test_relaxed_still_refuses_what_is_wrong(raw: bytes) -> None:
    with pytest.raises(msgspec.ValidationError):
        types.decode_relaxed(raw, types.CallToolResult)


@pytest.mark.parametrize("number", [b"3.5", b"1e300", b"true", b'"3"'])
def test_relaxed_integer_is_whole_and_exact(number: bytes) -> None:
    raw = b'{"name":"n","uri":"x://","type":"resource_link","size":' + number + b"}"
    with pytest.raises(msgspec.ValidationError):
        types.decode_relaxed(raw, types.ResourceLink)


@pytest.mark.parametrize("revision", REVISIONS)
def test_relaxed_agrees_with_strict_on_good_messages(revision: str) -> None:
    for name, message in messages(revision):
        kind = getattr(types.of(revision), name)
        raw = json.dumps(message).encode()
        assert types.decode_relaxed(raw, kind) == msgspec.json.decode(raw, type=kind)


def test_json_trees_are_not_tracked_by_the_collector() -> None:
    assert not gc.is_tracked(types.TextContent(text=""))
    assert not gc.is_tracked(types.Tool(name="", input_schema={}))
    assert gc.is_tracked(types.CallToolResult(content=[], structured_content=object()))


def test_import_is_lazy_and_names_come_from_the_newest_revision() -> None:
    code = (
        "import sys, headrace.types as t\n"
        "assert not [m for m in sys.modules if m.startswith('headrace.types.v')]\n"
        "from headrace.types import TextContent, v2024_11_05\n"
        "assert sorted(m for m in sys.modules if m.startswith('headrace.types.v')) == "
        "['headrace.types.v2024_11_05', 'headrace.types.v2026_07_28']\n"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, timeout=30, env={"PYTHONPATH": ":".join(sys.path)}
    )
    for name in types.__all__:
        assert getattr(types, name) is not None
    assert types.TextContent is types.of(R5).TextContent
    assert set(types.__all__) <= set(dir(types))
    with pytest.raises(AttributeError):
        types.NoSuchName  # noqa: B018
    with pytest.raises(ValueError, match="2031"):
        types.of("2031-01-01")


def test_generated_modules_are_current() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tools" / "generate_types.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
