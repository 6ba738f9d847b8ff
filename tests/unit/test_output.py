"""headrace.server.output: what return annotations promise."""

import dataclasses
import datetime
import decimal
import enum
import inspect
import pathlib
import uuid
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import msgspec
import pytest

from headrace import types
from headrace.errors import UsageError
from headrace.server.content import Audio, Image, ToolResult
from headrace.server.output import inspect_output


class Forecast(msgspec.Struct):
    city: str
    days: int = 1


class Sub(Forecast):
    more: int = 0


@dataclasses.dataclass
class Box:
    width: int


class Row(TypedDict):
    a: int


class Pair(NamedTuple):
    a: int


class Level(enum.IntEnum):
    LOW = 1


class Name(enum.StrEnum):
    A = "a"


class Opaque: ...


@pytest.mark.parametrize(
    ("annotation", "is_object"),
    [
        (Forecast, True),
        (Box, True),
        (Row, True),
        (dict[str, int], True),
        (dict, True),
        (dict[str, Any], True),
        (Annotated[Forecast, msgspec.Meta(description="d")], True),
        (Annotated[ToolResult, Forecast], True),
        (list[int], False),
        (list[Forecast], False),
        (tuple[int, str], False),
        (set[int], False),
        (Pair, False),
        (int, False),
        (float, False),
        (bool, False),
        (Level, False),
        (Forecast | None, False),
        (int | str, None),
        (list[str], False),
        (Forecast | Box, False),
        (list[bytes], None),
        (list[Image | str], None),
        (str, None),
        (bytes, None),
        (None, None),
        (type(None), None),
        (Any, None),
        (object, None),
        (Name, None),
        (inspect.Signature.empty, None),
        (str | None, None),
        (Literal["a"], None),
        (datetime.datetime, None),
        (uuid.UUID, None),
        (decimal.Decimal, None),
        (pathlib.Path, None),
        (msgspec.Raw, None),
        (ToolResult, None),
        (Image, None),
        (Audio, None),
        (types.TextContent, None),
        (list[types.TextContent | types.ImageContent], None),
        (Forecast | ToolResult, None),
        (Opaque, None),
        (list[Opaque], None),
        (Annotated[ToolResult, "text"], None),
    ],
    ids=str,
)
def test_annotations(annotation: Any, is_object: bool | None) -> None:
    output = inspect_output(annotation, where="tool 'f'")
    if is_object is None:
        assert output is None
    else:
        assert output is not None and output.is_object is is_object
        assert (output.schema.get("type") == "object") is is_object


def check(annotation: Any, value: Any) -> None:
    output = inspect_output(annotation, where="tool 'f'")
    assert output is not None
    output.check(value, msgspec.json.encode(value))


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Forecast, Forecast("a")),
        (Forecast, Sub("a")),
        (Forecast, {"city": "a", "extra": 1}),
        (Box, Box(1)),
        (Forecast | None, None),
        (list[Forecast], [Forecast("a"), Sub("b")]),
        (list[Forecast], [{"city": "a"}]),
        (list[Forecast], []),
        (dict[str, Forecast], {"a": Forecast("b")}),
        (Row, {"a": 1}),
        (float, 1),
        (dict, {}),
        (dict[str, datetime.date], {"a": datetime.date(2024, 1, 2)}),
        (list[bytes | int], [b"a"]),
    ],
    ids=str,
)
def test_kept_promises(annotation: Any, value: Any) -> None:
    if annotation == list[bytes | int]:
        assert inspect_output(annotation, where="") is None
    else:
        check(annotation, value)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Forecast, {}),
        (Forecast, None),
        (Forecast, []),
        (Forecast, Box(1)),
        (Forecast, {"city": 5}),
        (int, True),
        (list[Forecast], [Forecast("a"), Box(1)]),
        (list[Forecast], {}),
        (Row, {}),
        (dict, []),
        (int, "1"),
    ],
    ids=str,
)
def test_b110_broken_promises(annotation: Any, value: Any) -> None:
    with pytest.raises(msgspec.ValidationError):
        check(annotation, value)


def test_instances_are_not_looked_into() -> None:
    class Costly(msgspec.Struct):
        n: int

        def __post_init__(self) -> None:
            made.append(1)

    made: list[int] = []
    value = Costly(1)
    check(Costly, value)
    check(list[Costly], [value])
    assert made == [1]


def test_schemas_written_by_hand_go_first() -> None:
    schema = {"type": "object", "required": ["x"]}
    output = inspect_output(ToolResult, schema, where="tool 'f'")
    assert output is not None and output.schema is schema and output.is_object
    output.check({"x": 1}, b'{"x":1}')
    with pytest.raises(msgspec.ValidationError):
        output.check([], b"[]")
    output = inspect_output(Forecast, {"type": "array"}, where="tool 'f'")
    assert output is not None and not output.is_object
    with pytest.raises(msgspec.ValidationError):
        output.check({}, b"{}")  # the annotation still holds
    with pytest.raises(UsageError, match=r"^tool 'f': output_schema: .* does not point into"):
        inspect_output(None, {"$ref": "http://127.0.0.1:1/x"}, where="tool 'f'")


def test_pydantic_models_are_promises() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model("Model", a=(int, ...))
    output = inspect_output(model, where="tool 'f'")
    assert output is not None and output.is_object
    output.check(model(a=1), b'{"a":1}')
    with pytest.raises(msgspec.ValidationError):
        output.check({}, b"{}")


HAND = {
    "type": "object",
    "properties": {
        "n": {"type": ["integer", "null"], "minimum": 1},
        "pair": {"type": "array", "prefixItems": [{"type": "string"}, {"$ref": "#/$defs/Leaf"}], "items": False},
    },
    "required": ["n"],
    "$defs": {"Leaf": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Leaf"}}, "additionalProperties": False}},
}


@pytest.mark.parametrize(
    ("value", "place"),
    [
        ({"n": 1}, None),
        ({"n": None, "pair": ["a", {"next": {"next": {}}}]}, None),
        ({"n": 0}, "$.n"),
        ({}, "required"),
        ({"n": 1, "pair": ["a", {"next": {"secret": "value"}}]}, "$.pair[1].next"),
        ({"n": 1, "pair": ["a", {}, 3]}, "$.pair"),
        ([], "type"),
    ],
)
def test_b110_schemas_written_by_hand_are_checked_whole(value, place):
    """2020-12 with prefixItems, null in a list of types, recursion; the message names places, never values."""
    pytest.importorskip("jsonschema_rs")
    output = inspect_output(dict, HAND, where="tool 't'")
    data = msgspec.json.encode(value)
    if place is None:
        output.check(value, data)
        return
    with pytest.raises(msgspec.ValidationError) as caught:
        output.check(value, data)
    assert place in str(caught.value) and "secret" not in str(caught.value) and "value" not in str(caught.value)


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"$schema": "https://example.com/dialect", "type": "object"}, "https://example.com/dialect"),  # JR-50
        ({"type": "nope"}, "nope"),
        ({"$ref": "http://127.0.0.1:1/x"}, "does not point into this schema"),  # JR-51: never fetched
    ],
)
def test_jr50_jr51_schemas_that_cannot_be_checked_are_refused_at_registration(schema, text):
    pytest.importorskip("jsonschema_rs")
    with pytest.raises(UsageError, match=text):
        inspect_output(dict, schema, where="tool 't'")


def test_a_schema_by_hand_goes_before_the_class():
    pytest.importorskip("jsonschema_rs")
    output = inspect_output(int, {"type": "integer", "maximum": 3}, where="tool 't'")
    assert output.instance_class is None and output.checked_whole
    output.check(3, b"3")
    with pytest.raises(msgspec.ValidationError):
        output.check(4, b"4")
