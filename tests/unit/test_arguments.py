"""headrace.server.arguments: arguments that do not fit."""

import enum
import uuid
from typing import Annotated, Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.server.signature import ToolSignature, inspect_tool


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Tagged(msgspec.Struct, tag="tagged"):
    n: int = 0


class Other(msgspec.Struct, tag="other"):
    n: int = 0


class Item(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    colour: Colour = Colour.RED


class Even(msgspec.Struct):
    n: int

    def __post_init__(self) -> None:
        if self.n % 2:
            raise ValueError("n must be even")


def tool(
    a: int,
    b: Annotated[str, msgspec.Meta(max_length=3, pattern="^x")] = "x",
    item: Item | None = None,
    items: list[Item] = [],  # noqa: B006
    table: dict[str, dict[int, Colour]] = {},  # noqa: B006
    mode: Literal["on", "off"] = "on",
    level: Literal[1, 2] = 1,
    key: uuid.UUID | None = None,
    pair: tuple[int, Colour] | None = None,
    even: Even | None = None,
    some: Tagged | Other | None = None,
    ratio: float = 0.5,
    flag: bool = False,
    anything: Any = None,
) -> None: ...


TOOL = inspect_tool(tool)


def fail(signature: ToolSignature, raw: bytes) -> str:
    with pytest.raises(msgspec.ValidationError) as info:
        signature.decoder.decode(raw)
    text = signature.describe(info.value, raw)
    assert text.startswith(f"invalid arguments for tool '{signature.name}': ")
    assert "\n" not in text and len(text.encode()) < 1024
    return text.partition(": ")[2]


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ('{"a":"secret"}', "a: expected int, got str"),
        ('{"a":null}', "a: expected int, got null"),
        ('{"a":1,"b":"secret"}', "b: expected str of length <= 3"),
        ('{"a":1,"b":"y"}', "b: expected str matching regex '^x'"),
        ("{}", "missing required argument 'a'"),
        ('{"a":1,"item":{}}', "item: missing required member 'name'"),
        ('{"a":1,"items":[{"name":"a"},{"name":5}]}', "items[1].name: expected str, got int"),
        ('{"a":1,"items":[{"name":"a","more":"secret"}]}', "items[0]: unknown member 'more'"),
        (
            '{"a":1,"items":[{"name":"a","colour":"secret"}]}',
            'items[0].colour: not one of the allowed values: "red", "blue"',
        ),
        (
            '{"a":1,"item":{"name":"a","colour":"secret"}}',
            'item.colour: not one of the allowed values: "red", "blue"',
        ),
        (
            '{"a":1,"table":{"k":{"1":"secret"}}}',
            'table[...][...]: not one of the allowed values: "red", "blue"',
        ),
        ('{"a":1,"table":{"k":{"secret":"red"}}}', "key of table[...]: expected int, got str"),
        ('{"a":1,"mode":"secret"}', 'mode: not one of the allowed values: "on", "off"'),
        ('{"a":1,"level":77}', "level: not one of the allowed values: 1, 2"),
        ('{"a":1,"key":"secret"}', "key: invalid UUID"),
        ('{"a":1,"pair":[1,"secret"]}', 'pair[1]: not one of the allowed values: "red", "blue"'),
        ('{"a":1,"pair":[1]}', "pair: expected array of length 2"),
        ('{"a":1,"even":{"n":3}}', "even: n must be even"),
        ('{"a":1,"some":{"type":"secret"}}', 'some.type: not one of the allowed values: "tagged", "other"'),
        ('{"a":1e400}', "a: number out of range"),
        ("[]", "expected object, got array"),
    ],
)
def test_jr36_arguments_that_do_not_fit(raw: str, text: str) -> None:
    got = fail(TOOL, raw.encode())
    assert got == text
    assert "secret" not in got


def test_every_missing_argument_is_named() -> None:
    def f(a: int, b: int, c: int, d: int = 0) -> None: ...

    assert fail(inspect_tool(f), b'{"b":1}') == "missing required arguments 'a', 'c'"


def test_b84_texts_are_bounded() -> None:
    scope: dict[str, Any] = {}
    names = [f"parameter_with_a_long_name_{n}_{'x' * 200}" for n in range(50)]
    exec(f"def f({', '.join(name + ': int' for name in names)}): ...", scope)
    fail(inspect_tool(scope["f"]), b"{}")
    with pytest.raises(msgspec.ValidationError) as info:
        TOOL.decoder.decode(b"{}")
    assert len(inspect_tool(scope["f"], name="n" * 5000).describe(info.value)) <= 1000

    def g(x: Literal[tuple(str(n) * 50 for n in range(100))]) -> None: ...  # type: ignore[valid-type]

    assert fail(inspect_tool(g), b'{"x":"secret"}').endswith("...")
    strict = inspect_tool(tool, forbid_unknown=True)
    unknown = msgspec.json.encode({"a": 1, "k" * 5000 + "\n\x00": 1})
    assert fail(strict, unknown).startswith("unknown argument 'kkk")


@settings(max_examples=150, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(list(TOOL.input_schema["properties"])),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers()
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.just("sEcReT"),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["name", "n", "1"]), inner, max_size=3)
            ),
            max_leaves=6,
        ),
    )
)
def test_b84_no_value_is_ever_repeated(arguments: dict[str, Any]) -> None:
    raw = msgspec.json.encode(arguments)
    try:
        TOOL.decoder.decode(raw)
    except msgspec.ValidationError as exc:
        text = TOOL.describe(exc, raw)
        assert "sEcReT" not in text and "\n" not in text and len(text.encode()) < 1024
        try:
            TOOL.retry(raw, exc)
        except msgspec.ValidationError as again:
            assert "sEcReT" not in TOOL.describe(again, raw)


# --- the second look -----------------------------------------------------------------------------


def retry(signature: ToolSignature, raw: str) -> Any:
    data = raw.encode()
    with pytest.raises(msgspec.ValidationError) as info:
        signature.decoder.decode(data)
    return signature.retry(data, info.value)


def test_whole_numbers_written_as_floats_are_integers() -> None:
    got = retry(TOOL, '{"a":3.0,"ratio":2.0,"even":{"n":4e0},"table":{},"pair":[1.0,"red"]}')
    assert (got.a, got.ratio, got.even, got.pair) == (3, 2.0, Even(4), (1, Colour.RED))
    assert type(got.a) is int and type(got.ratio) is float


def test_lists_and_objects_inside_strings_are_read() -> None:
    got = retry(TOOL, '{"a":1.0,"items":"[{\\"name\\":\\"a\\"}]","item":"{\\"name\\":\\"b\\"}"}')
    assert got.items == [Item("a")] and got.item == Item("b")


@pytest.mark.parametrize(
    "raw",
    [
        '{"a":3.5}', '{"a":"3"}', '{"a":1,"items":"secret"}', '{"a":1,"items":"[1]"}', '{"a":1,"items":"5"}',
        '{"a":1,"item":{"name":"[]","colour":"[]"}}', '{"a":1,"flag":"true"}', '{"a":1e300}', "{}", "[]",
        '{"a":1,"items":"' + "[" * 5000 + '"}',
    ],
)  # fmt: skip
def test_everything_else_stays_an_error(raw: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        retry(TOOL, raw)


def test_strings_stay_strings_where_strings_fit() -> None:
    def f(a: str | list[int], n: int = 0) -> None: ...

    assert retry(inspect_tool(f), '{"a":"[1]","n":1.0}').a == "[1]"
