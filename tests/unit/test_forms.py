"""Forms of elicitation: schemas from types, by revision, and the check of content (CF-30)."""

import dataclasses
import datetime
import enum
import uuid
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Meta
from pydantic import BaseModel, Field

from headrace.errors import CannotAsk, InvalidAnswer, UsageError
from headrace.jsonrpc import R3, R4, R5
from headrace.protocol.forms import form_of, titled


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Full(msgspec.Struct):
    name: Annotated[str, Meta(min_length=2, max_length=9, pattern="^[A-Z]", title="Name", description="Who")]
    age: Annotated[int, Meta(ge=0, lt=150)] = 3
    size: float = 1.5
    sure: bool = True
    day: datetime.date | None = None
    at: datetime.datetime | None = None
    mail: Annotated[str, Meta(extra_json_schema={"format": "email"})] = "a@b"
    key: uuid.UUID | None = None
    colour: Colour = Colour.RED
    pick: Literal["x", "y"] = "x"
    shown: Annotated[Literal["a", "b"], titled({"a": "Alpha", "b": "Beta"})] = "b"
    many: Annotated[list[Literal["p", "q"]], Meta(min_length=1)] = msgspec.field(default_factory=lambda: ["p"])


def test_cf30_every_kind_of_field_in_the_newest_notation():
    schema = form_of(Full).schema(R5)
    assert schema == form_of(Full).schema(R4)
    assert schema["type"] == "object" and schema["required"] == ["name"]
    assert schema.keys() == {"type", "properties", "required"}
    p = schema["properties"]
    assert p["name"] == {
        "type": "string", "minLength": 2, "maxLength": 9, "pattern": "^[A-Z]", "title": "Name", "description": "Who",
    }  # fmt: skip
    assert p["age"] == {"type": "integer", "minimum": 0, "maximum": 149, "default": 3}
    assert p["size"] == {"type": "number", "default": 1.5}
    assert p["sure"] == {"type": "boolean", "default": True}
    assert p["day"] == {"type": "string", "format": "date"}
    assert p["at"] == {"type": "string", "format": "date-time"}
    assert p["mail"] == {"type": "string", "format": "email", "default": "a@b"}
    assert p["key"] == {"type": "string"}
    assert p["colour"] == {"type": "string", "enum": ["r", "g"], "default": "r"}
    assert p["pick"] == {"type": "string", "enum": ["x", "y"], "default": "x"}
    assert p["shown"] == {
        "type": "string", "oneOf": [{"const": "a", "title": "Alpha"}, {"const": "b", "title": "Beta"}], "default": "b",
    }  # fmt: skip
    assert p["many"]["type"] == "array" and p["many"]["items"] == {"type": "string", "enum": ["p", "q"]}
    assert p["many"]["minItems"] == 1


def test_cf30_the_notation_of_2025_06_18():
    class Old(msgspec.Struct):
        shown: Annotated[Literal["a", "b"], titled({"a": "Alpha", "b": "Beta"})] = "b"
        sure: bool = True
        name: Annotated[str, Meta(pattern="^x")] = "x"

    assert form_of(Old).schema(R3)["properties"] == {
        "shown": {"type": "string", "enum": ["a", "b"], "enumNames": ["Alpha", "Beta"]},
        "sure": {"type": "boolean", "default": True},
        "name": {"type": "string"},
    }
    with pytest.raises(CannotAsk, match="'many' takes several choices"):
        form_of(Full).schema(R3)
    # The pattern is checked all the same.
    with pytest.raises(InvalidAnswer, match="pattern"):
        form_of(Old).read({"name": "y"})


def test_cf30_schemas_by_hand_and_enum_names():
    form = form_of({
        "type": "object",
        "properties": {
            "e": {"type": "string", "enum": ["1", "2"], "enumNames": ["One", "Two"]},
            "m": {"type": "array", "items": {"anyOf": [{"const": "1", "title": "One"}]}, "maxItems": 1, "default": ["1"]},
        },
    })  # fmt: skip
    p = form.schema(R5)["properties"]
    assert p["e"] == {"type": "string", "enum": ["1", "2"], "enumNames": ["One", "Two"]}  # as it was written
    assert form.fields["e"] == p["e"]
    assert p["m"] == {"type": "array", "items": {"anyOf": [{"const": "1", "title": "One"}]}, "maxItems": 1, "default": ["1"]}
    assert form.read({"e": "1", "m": ["1"], "more": 1}) == {"e": "1", "m": ["1"]}
    assert form_of(None).schema(R5) == {"type": "object", "properties": {}}
    assert form_of(None).read(None) == {}


def test_forms_of_all_kinds_of_classes():
    @dataclasses.dataclass
    class D:
        a: int
        b: str = "x"

    class T(TypedDict):
        a: int

    class P(BaseModel):
        a: int = Field(title="A", ge=1)
        b: str | None = None
        c: Literal["x", "y"] = "x"

    assert form_of(D).read({"a": 1}) == D(1)
    assert form_of(T).read({"a": 1.0}) == {"a": 1}
    assert form_of(P).read({"a": 2, "c": "y"}) == P(a=2, c="y")
    assert form_of(P).schema(R5)["properties"]["a"] == {"type": "integer", "minimum": 1, "title": "A"}
    assert form_of(P).schema(R5)["required"] == ["a"]
    with pytest.raises(InvalidAnswer):
        form_of(P).read({"a": 0})
    full = form_of(Full).read({"name": "Ada", "day": "2026-07-28", "colour": "g", "many": ["q"]})
    assert full.day == datetime.date(2026, 7, 28) and full.colour is Colour.GREEN and full.many == ["q"]


class Inner(msgspec.Struct):
    x: int


BAD_FIELDS = [
    (Inner, "is an object; a form is flat"),
    (list[str], "a list must be one of choices"),
    (list[Inner], "a list must be one of choices"),
    (dict[str, int], "is an object"),
    (int | str, "has one type"),
    (Literal[1, 2], "choices must be texts"),
    (Any, "of no single type"),
]


@pytest.mark.parametrize(("tp", "text"), BAD_FIELDS)
def test_cf30_what_no_form_has_is_refused_by_name(tp, text):
    bad = msgspec.defstruct("Bad", [("fine", str), ("field7", tp)])
    with pytest.raises(UsageError, match="'field7'") as caught:
        form_of(bad)
    assert text in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", [int, "text", 5, list[int], dict[str, int], int | None, {"type": "array"}, {"properties": [1]}, {"properties": {"a": 1}}, {"properties": {"a": {"$ref": "#/$defs/no"}}}, {"properties": {"a": {"oneOf": [1]}}}, {"properties": {"a": {"enum": ["a"], "enumNames": []}}}])
def test_what_is_no_form_at_all(kind):
    with pytest.raises(UsageError) as caught:
        form_of(kind)
    assert "\n" not in str(caught.value)


BAD_CONTENT = [
    ({}, "'name'"), ({"name": None}, "'name'"), ({"name": "A"}, "short"), ({"name": "A" * 10}, "long"),
    ({"name": "ada"}, "pattern"), ({"name": ["A"]}, "text"), ({"name": "Ada", "age": -1}, "range"),
    ({"name": "Ada", "age": 150}, "range"), ({"name": "Ada", "age": 1.5}, "whole"), ({"name": "Ada", "age": True}, "number"),
    ({"name": "Ada", "age": "5"}, "number"), ({"name": "Ada", "size": float("inf")}, "finite"),
    ({"name": "Ada", "sure": 1}, "true or false"), ({"name": "Ada", "day": "28.7.2026"}, "date"),
    ({"name": "Ada", "at": "noon"}, "date-time"), ({"name": "Ada", "mail": "nobody"}, "email"),
    ({"name": "Ada", "colour": "blue"}, "choices"), ({"name": "Ada", "many": []}, "choices"),
    ({"name": "Ada", "many": ["z"]}, "choices"), ({"name": "Ada", "many": "p"}, "choices"),
    ({"name": "Ada", "many": [{}]}, "choices"), ({"name": "Ada", "key": "no uuid"}, "fit"), ([], "object"), ("x", "object"),
]  # fmt: skip


@pytest.mark.parametrize(("content", "text"), BAD_CONTENT)
def test_cf30_content_is_checked_again(content, text):
    with pytest.raises(InvalidAnswer) as caught:
        form_of(Full).read(content)
    assert text in str(caught.value) and "\n" not in str(caught.value)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(st.dictionaries(st.sampled_from([f.name for f in msgspec.structs.fields(Full)]), JSON) | JSON)
def test_hostile_content_is_an_instance_or_an_invalid_answer(content):
    try:
        assert isinstance(form_of(Full).read(content), Full)
    except InvalidAnswer as exc:
        assert "\n" not in str(exc)


def test_cf30_choices_keep_the_order_in_which_they_were_written():
    class Size(enum.Enum):
        SMALL = "s"
        LARGE = "l"
        HUGE = "h"

    class Order(msgspec.Struct):
        color: Literal["red", "green", "blue"]
        size: Size = Size.SMALL
        extras: list[Literal["b", "a"]] = []
        maybe: Literal["z", "y"] | None = None

    @dataclasses.dataclass
    class Other:
        color: Literal["red", "green", "blue"]

    p = form_of(Order).schema(R5)["properties"]
    assert p["color"]["enum"] == ["red", "green", "blue"]
    assert p["size"]["enum"] == ["s", "l", "h"]
    assert p["extras"]["items"]["enum"] == ["b", "a"]
    assert p["maybe"]["enum"] == ["z", "y"]
    assert form_of(Other).schema(R5)["properties"]["color"]["enum"] == ["red", "green", "blue"]
