"""headrace.server.schema: JSON Schema from types and by hand."""

import datetime
import enum
import uuid
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from stable_ids import stable_id

from headrace.errors import UsageError
from headrace.server.hints import prepare
from headrace.server.schema import (
    Header,
    HeaderParameter,
    ParameterSchema,
    UnsupportedType,
    check_schema,
    header_parameters,
    object_schema,
    type_schema,
)


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


class Leaf(msgspec.Struct):
    size: Size = Size.SMALL
    kind: Literal["a", "b"] = "a"
    on: Literal[True] = True


class Tree(msgspec.Struct):
    leaf: Leaf
    children: "list[Tree]" = []


class Where(msgspec.Struct):
    region: Annotated[str, Header("Region")]
    zone: Annotated[int | None, Header("Zone")] = None


class Deep(msgspec.Struct):
    where: Where
    note: str = ""


def parameters(**types: Any) -> list[ParameterSchema]:
    return [ParameterSchema(name, prepare(tp), True) for name, tp in types.items()]


def refs(node: Any) -> list[str]:
    if isinstance(node, list):
        return [ref for item in node for ref in refs(item)]
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [ref for value in node.values() for ref in refs(value)]
    return []


# --- from types ----------------------------------------------------------------------------------


def test_definitions_are_local_and_used() -> None:
    schema, custom = object_schema(
        parameters(tree=Tree, leaf=Annotated[Leaf | None, msgspec.Meta(title="L")])
    )
    assert set(schema["$defs"]) == {"Tree", "Leaf", "Size"}
    assert set(refs(schema)) == {"#/$defs/Tree", "#/$defs/Leaf", "#/$defs/Size"}
    assert schema["properties"]["leaf"]["title"] == "L"
    assert not custom
    assert check_schema(schema, "schema", object_root=True) is schema


def test_enums_get_a_type_and_empty_required_goes() -> None:
    schema, _ = type_schema(Leaf)
    assert schema["properties"]["kind"] == {"enum": ["a", "b"], "default": "a", "type": "string"}
    assert schema["properties"]["on"]["type"] == "boolean"
    assert schema["$defs"]["Size"]["type"] == "integer"
    assert "required" not in schema


def test_a_definition_at_the_root_stands_in_place() -> None:
    schema, _ = type_schema(Tree)
    assert schema["type"] == "object" and "$ref" not in schema
    assert schema["$defs"]["Tree"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    schema, _ = type_schema(Where, mode="serialization")
    assert "$defs" not in schema and schema["properties"]["region"] == {"type": "string"}


def test_unions_msgspec_refuses_share_the_definitions() -> None:
    class A(msgspec.Struct):
        tree: Tree

    class B(msgspec.Struct):
        leaf: Leaf

    schema, custom = object_schema(parameters(x=A | B, y=datetime.date | str))
    assert schema["properties"]["x"]["anyOf"] == [{"$ref": "#/$defs/A"}, {"$ref": "#/$defs/B"}]
    assert {"A", "B", "Tree", "Leaf"} <= set(schema["$defs"])
    assert len(custom) == 2
    check_schema(schema, "schema", object_root=True)


def test_pydantic_definitions_give_way_to_equal_names() -> None:
    pydantic = pytest.importorskip("pydantic")
    inner = pydantic.create_model("Leaf", colour=(str, ...))
    outer = pydantic.create_model("Outer", leaf=(inner, ...), leaves=(list[inner], []))
    schema, custom = object_schema(parameters(a=Leaf, b=outer, c=list[outer]))
    assert schema["properties"]["b"]["properties"]["leaf"] == {"$ref": "#/$defs/Leaf_2"}
    assert schema["$defs"]["Leaf_2"]["required"] == ["colour"]
    assert "colour" not in schema["$defs"]["Leaf"]["properties"]
    assert custom == {outer}
    check_schema(schema, "schema", object_root=True)


def test_a_type_without_json_form_is_named() -> None:
    class Opaque: ...

    with pytest.raises(UnsupportedType) as info:
        object_schema(parameters(x=list[Opaque]))
    assert info.value.type is Opaque


def test_schemas_are_valid_2020_12_and_agree_with_the_decoder() -> None:
    jsonschema_rs = pytest.importorskip("jsonschema_rs")
    schema, _ = object_schema(
        parameters(tree=Tree, when=datetime.date | str, pair=tuple[int, str], n=dict[int, str])
    )
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    validator = jsonschema_rs.Draft202012Validator(schema)
    good = {
        "tree": {"leaf": {"size": 2}, "children": [{"leaf": {}}]},
        "when": "x",
        "pair": [1, "a"],
        "n": {"1": "a"},
    }
    assert validator.is_valid(good)
    for change in ({"tree": {"leaf": {"size": 3}}}, {"pair": [1]}, {"when": 1}):
        assert not validator.is_valid({**good, **change})


# --- headers -------------------------------------------------------------------------------------


def test_hn20_headers_of_parameters_and_nested_objects() -> None:
    schema, _ = object_schema(
        parameters(deep=Deep, tenant=Annotated[str, Header("Tenant")], on=Annotated[bool, Header("On")])
    )
    assert header_parameters(schema) == [
        HeaderParameter("Region", ("deep", "where", "region"), "string"),
        HeaderParameter("Zone", ("deep", "where", "zone"), "integer"),
        HeaderParameter("Tenant", ("tenant",), "string"),
        HeaderParameter("On", ("on",), "boolean"),
    ]
    assert "$defs" not in schema  # HN-21: no reference on the way
    assert schema["properties"]["deep"]["properties"]["where"]["properties"]["zone"] == {
        "x-mcp-header": "Zone", "type": "integer",
    }  # fmt: skip


def test_hn21_an_enum_can_be_mirrored() -> None:
    schema, _ = object_schema(
        parameters(size=Annotated[Size, Header("Size")], kind=Annotated[Literal["a"] | None, Header("K")])
    )
    assert [item.type for item in header_parameters(schema)] == ["integer", "string"]


def with_header(value: Any, **rest: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": value, **rest}}}


@pytest.mark.parametrize(
    "schema",
    [
        with_header(""),
        with_header("a b"),
        with_header("a:b"),
        with_header("a\r\nb"),
        with_header("ä"),
        with_header(5),
        with_header("A", type="number"),
        with_header("A", type="object"),
        with_header("A", type=["string", "null"]),
        {"type": "object", "properties": {"a": {"x-mcp-header": "A"}}},
        {"type": "object", "x-mcp-header": "A"},
        {
            "type": "object",
            "properties": {
                "a": {"type": "string", "x-mcp-header": "Same"},
                "b": {"type": "object", "properties": {"c": {"type": "string", "x-mcp-header": "SAME"}}},
            },
        },
        {
            "type": "object",
            "properties": {"a": {"type": "array", "items": {"type": "string", "x-mcp-header": "A"}}},
        },
        {"type": "object", "anyOf": [with_header("A")]},
        {"type": "object", "not": with_header("A")},
        {"type": "object", "if": with_header("A")},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/D"}}, "$defs": {"D": with_header("A")}},
        {"type": "object", "patternProperties": {"a": {"type": "string", "x-mcp-header": "A"}}},
    ],
    ids=stable_id,
)
def test_hn21_rules(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="x-mcp-header"):
        header_parameters(schema)


def test_hn21_headers_inside_lists_and_alternatives_are_refused() -> None:
    for hint in (list[Where], Where | None, dict[str, Where]):
        schema, _ = object_schema(parameters(a=hint))
        with pytest.raises(UsageError, match="objects only"):
            header_parameters(schema)


def test_a_property_that_is_called_like_the_keyword_is_none() -> None:
    assert header_parameters({"type": "object", "properties": {"x-mcp-header": {"type": "string"}}}) == []
    assert header_parameters(
        {"type": "object", "properties": {"Method": {"type": "string", "x-mcp-header": "Method"}}}
    )


# --- by hand -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "properties": {"a": True}, "additionalProperties": False},
        {
            "type": "object",
            "$defs": {"A": {}},
            "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"$ref": "#"}},
        },
        {"type": "object", "$defs": {"A": {"$anchor": "x"}}, "allOf": [{"$ref": "#x"}]},
        {"type": "object", "$defs": {"A": {"$id": "urn:a"}}, "allOf": [{"$ref": "urn:a"}]},
        {
            "type": "object",
            "definitions": {"a/b": {}},
            "allOf": [{"$ref": "#/definitions/a~1b"}, {"$ref": "#/allOf/0"}],
        },
        {"type": "object", "$schema": "http://json-schema.org/draft-07/schema#", "x-anything": [1]},
    ],
    ids=stable_id,
)
def test_usable_schemas_pass_untouched(schema: dict[str, Any]) -> None:
    before = msgspec.json.encode(schema)
    assert check_schema(schema, "input_schema", object_root=True) is schema
    assert msgspec.json.encode(schema) == before


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        (None, "must be a dict"),
        ([], "must be a dict"),
        ({}, 'must have "type": "object"'),
        ({"type": "array"}, 'must have "type": "object"'),
        ({"type": "object", "default": object()}, "cannot be written as JSON"),
        ({"type": "object", "$schema": 5}, r"\$schema must be a string"),
        ({"type": "object", "properties": []}, "properties must be an object"),
        ({"type": "object", "properties": {"a": 5}}, "/properties/a must be an object or a boolean"),
        ({"type": "object", "required": "a"}, "required must be a list"),
        ({"type": "object", "required": [1]}, "required must be a list"),
        ({"type": "object", "anyOf": {}}, "anyOf must be a list"),
        ({"type": "object", "properties": {"a": {"type": 5}}}, "type must be a string"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}}, "does not point into this schema"),
        ({"type": "object", "properties": {"a": {"$ref": 5}}}, "does not point into this schema"),
        ({"type": "object", "$ref": "http://127.0.0.1:1/x"}, "does not point into this schema"),
        ({"type": "object", "$ref": "other.json"}, "does not point into this schema"),
    ],
    ids=stable_id,
)
def test_b110_unusable_schemas_are_refused(schema: Any, text: str) -> None:
    with pytest.raises(UsageError, match=f"^input_schema.*{text}"):
        check_schema(schema, "input_schema", object_root=True)


def test_jr52_depth_and_size_are_bounded() -> None:
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"items": deep}
    with pytest.raises(UsageError, match="too large"):
        check_schema({"type": "object", "not": deep}, "schema", object_root=True)
    wide = {"type": "object", "properties": {str(n): {} for n in range(10_001)}}
    with pytest.raises(UsageError, match="too large"):
        check_schema(wide, "schema", object_root=True)


class _Visit(msgspec.Struct):
    when: datetime.datetime | None
    next: "list[_Visit]" = []


class _Slot(TypedDict):
    at: datetime.time
    visit: _Visit


@pytest.mark.parametrize(
    ("tp", "expected"),
    [
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (datetime.time, {"type": "string", "format": "time"}),
        (datetime.timedelta, {"type": "string", "format": "duration"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (list[datetime.datetime], {"type": "array", "items": {"type": "string", "format": "date-time"}}),
        (dict[str, datetime.time], {"type": "object", "additionalProperties": {"type": "string", "format": "time"}}),
        (datetime.datetime | None, {"anyOf": [{"type": "string", "format": "date-time"}, {"type": "null"}]}),
    ],
)
def test_formats_of_dates_and_times(tp, expected):
    assert type_schema(prepare(tp))[0] == expected


def test_formats_reach_into_records():
    schema = type_schema(_Slot)[0]
    assert schema["properties"]["at"] == {"type": "string", "format": "time"}
    when = schema["$defs"]["_Visit"]["properties"]["when"]
    assert when["anyOf"][0] == {"type": "string", "format": "date-time"}
