"""Choices in schemas stand in the order in which they were written."""

import dataclasses
import enum
from typing import Annotated, Literal, NewType, TypedDict

import msgspec
import pytest
from server_pipe import Pipe

from headrace import Server
from headrace.server.schema import type_schema


class Size(enum.Enum):
    SMALL = "small"
    MEDIUM = "medium"
    LARGE = "large"


class Level(enum.IntEnum):
    HIGH = 2
    LOW = 1


class Order(msgspec.Struct):
    size: Size
    how: Literal["walk", "drive"] = "walk"
    next: "Order | None" = None


@dataclasses.dataclass
class Box:
    orders: list[Order]


class Row(TypedDict):
    number: Literal[3, 1]


Way = NewType("Way", Literal["walk", "drive"])


def enums(node):
    if isinstance(node, dict):
        if isinstance(node.get("enum"), list):
            yield node["enum"]
        for value in node.values():
            yield from enums(value)
    elif isinstance(node, list):
        for value in node:
            yield from enums(value)


@pytest.mark.parametrize(
    ("tp", "values"),
    [
        (Literal["walk", "drive"], ["walk", "drive"]),
        (Literal["walk", "drive"] | None, ["walk", "drive"]),
        (Literal["z", None, "a"], ["z", None, "a"]),
        (list[Annotated[Literal["z", "a"], msgspec.Meta(description="d")]], ["z", "a"]),
        (Way, ["walk", "drive"]),
        (dict[str, Size], ["small", "medium", "large"]),
        (Level, [2, 1]),
        (Row, [3, 1]),
    ],
)
def test_choices_stand_in_written_order(tp, values):
    assert list(enums(type_schema(tp)[0])) == [values]


def test_choices_of_records_within_records():
    found = list(enums(type_schema(Box)[0]))
    assert found and all(each in (["small", "medium", "large"], ["walk", "drive"]) for each in found)


def test_a_property_called_enum_is_left_alone():
    kind = msgspec.defstruct("kind", [("enum", Size), ("other", list[str])])
    schema = type_schema(kind)[0]
    assert schema["properties"]["enum"] == {"$ref": "#/$defs/Size"}
    assert schema["$defs"]["Size"]["enum"] == ["small", "medium", "large"]


def test_parameters_of_tools(run):
    app = Server("t", version="1")

    @app.tool
    def send(one: Literal["b", "a"], two: Literal["a", "b"], size: Size = Size.MEDIUM) -> str:
        return ""

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            (tool,) = (await pipe.ask(1, "tools/list"))["result"]["tools"]
            schema = tool["inputSchema"]
            assert schema["properties"]["one"]["enum"] == ["b", "a"]
            assert schema["properties"]["two"]["enum"] == ["a", "b"]
            assert schema["$defs"]["Size"]["enum"] == ["small", "medium", "large"]
            pipe.mux.close()

    run(main)
