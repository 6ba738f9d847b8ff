"""headrace.server.results: return values on the wire."""

import collections
import dataclasses
import datetime
import decimal
import enum
import ipaddress
import json
import pathlib
import types as std_types
import uuid
from typing import Any, TypedDict

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from stable_ids import stable_id

from headrace import types
from headrace.jsonrpc import R1, R2, R3, R4, R5, REVISIONS, SERVER_INFO
from headrace.server.content import Audio, Image, ToolResult
from headrace.server.output import inspect_output
from headrace.server.results import (
    CONTENT,
    STRUCTURED,
    TEXT,
    OutputMismatch,
    ResultRenderer,
    UnserializableResult,
    encode_json,
    error_result,
    wire_result,
)

PNG = b"\x89PNG\r\n\x1a\n"
FREE = ResultRenderer("f")


class Forecast(msgspec.Struct):
    city: str
    days: int = 1


@dataclasses.dataclass
class Box:
    width: int


class Row(TypedDict):
    a: int


class Colour(enum.Enum):
    RED = "red"


class Word(str, enum.Enum):  # noqa: UP042
    A = "a"


class Number(enum.IntEnum):
    ONE = 1


def wire(value: Any, revision: str = R5, annotation: Any = None) -> Any:
    renderer = FREE if annotation is None else ResultRenderer("f", inspect_output(annotation, where="f"))
    data = renderer.wire(value, revision)
    assert isinstance(data, bytes) and data.startswith(b"{") and data.endswith(b"}") and b"\n" not in data
    return json.loads(data, parse_constant=lambda name: pytest.fail(name))


def text(value: str) -> dict[str, str]:
    return {"type": "text", "text": value}


# --- the mapping ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("a\n\u00e9\U0001f600", "a\n\u00e9\U0001f600"),
        ("", ""),
        (5, "5"),
        (2**70, str(2**70)),
        (1.5, "1.5"),
        (True, "true"),
        (datetime.datetime(2024, 1, 2, 3, 4, 5, tzinfo=datetime.UTC), "2024-01-02T03:04:05Z"),
        (datetime.date(2024, 1, 2), "2024-01-02"),
        (datetime.time(3, 4), "03:04:00"),
        (datetime.timedelta(minutes=1), "PT60S"),
        (uuid.UUID(int=1), str(uuid.UUID(int=1))),
        (decimal.Decimal("1.50"), "1.50"),
        (Colour.RED, "red"),
        (Word.A, "a"),
        (Number.ONE, "1"),
        (pathlib.PurePosixPath("/a"), "/a"),
        (ipaddress.ip_address("127.0.0.1"), "127.0.0.1"),
        (type("Sub", (str,), {})("sub"), "sub"),
        (type("Sub", (int,), {})(7), "7"),
    ],
    ids=stable_id,
)
def test_b111_values_that_are_text(value: Any, expected: str) -> None:
    for revision in REVISIONS:
        assert wire(value, revision) == {"content": [text(expected)]}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"a": 1}, {"a": 1}),
        ({}, {}),
        ({1: "a", 1.5: "b"}, {"1": "a", "1.5": "b"}),
        ({Number.ONE: 1, Colour.RED: 2}, {"1": 1, "red": 2}),
        ({"b": b"a", "d": decimal.Decimal("1.0")}, {"b": "YQ==", "d": "1.0"}),
        (Forecast("a"), {"city": "a", "days": 1}),
        (Box(1), {"width": 1}),
        (std_types.MappingProxyType({"a": 1}), {"a": 1}),
        (collections.OrderedDict(a=1), {"a": 1}),
        (collections.ChainMap({"a": 1}), {"a": 1}),
        ({"n": None}, {"n": None}),
        ({"n": "null"}, {"n": "null"}),
        (msgspec.Raw(b'{\n "a": [1,\r\n 2]}'), {"a": [1, 2]}),
        ({"raw": msgspec.Raw(b"[1,\n2]")}, {"raw": [1, 2]}),
    ],
    ids=stable_id,
)
def test_b111_values_that_are_objects(value: Any, expected: Any) -> None:
    for revision in REVISIONS:
        result = wire(value, revision)
        ((block),) = result["content"]
        assert block["type"] == "text" and json.loads(block["text"]) == expected
        assert result.get("structuredContent", ...) == (... if revision in (R1, R2) else expected)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ([1, 2], [1, 2]),
        ([], []),
        (["a", "b"], ["a", "b"]),
        ((1, "a"), [1, "a"]),
        ({1}, [1]),
        (frozenset({1}), [1]),
        (collections.deque([1]), [1]),
        (range(3), [0, 1, 2]),
        ({"a": 1}.keys(), ["a"]),
        ({"a": 1}.values(), [1]),
        ([Forecast("a")], [{"city": "a", "days": 1}]),
    ],
    ids=stable_id,
)
def test_sf06_other_values_are_structured_from_2026_on(value: Any, expected: Any) -> None:
    for revision in REVISIONS:
        result = wire(value, revision)
        assert json.loads(result["content"][0]["text"]) == expected and len(result["content"]) == 1
        assert result.get("structuredContent", ...) == (expected if revision == R5 else ...)


def test_none_is_no_content() -> None:
    assert FREE.wire(None, R1) == b'{"content":[]}'
    assert FREE.render(None).kind == CONTENT


def test_numpy_values() -> None:
    numpy = pytest.importorskip("numpy")
    assert wire(numpy.float64(1.5)) == {"content": [text("1.5")]}
    assert wire(numpy.int32(3)) == {"content": [text("3")]}
    assert wire({"a": numpy.arange(3), "b": numpy.float32(2)})["structuredContent"] == {
        "a": [0, 1, 2],
        "b": 2.0,
    }
    assert wire(numpy.float64(2), annotation=float)["structuredContent"] == 2.0
    with pytest.raises(UnserializableResult, match="NaN"):
        wire({"a": numpy.array([float("nan")])})


def test_pydantic_values() -> None:
    pydantic = pytest.importorskip("pydantic")
    model = pydantic.create_model(
        "Model", a=(int, ...), when=(datetime.date, datetime.date(2024, 1, 2)), f=(float, 0.0)
    )
    expected = {"a": 1, "when": "2024-01-02", "f": 0.0}
    assert wire(model(a=1))["structuredContent"] == expected
    assert wire([model(a=1)], annotation=list[model])["structuredContent"] == [expected]
    assert wire({"a": 1}, annotation=model)["structuredContent"] == {"a": 1}
    with pytest.raises(UnserializableResult, match="NaN"):
        wire(model(a=1, f=float("nan")))


# --- what has no JSON form -----------------------------------------------------------------------


def cycle() -> Any:
    value: list[Any] = []
    value.append({"again": value})
    return value


def deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


class Bad:
    def __str__(self) -> str:
        raise RuntimeError("secret")


class BadMapping(collections.UserDict[str, int]):
    def __getitem__(self, key: str) -> int:
        raise RuntimeError("broken mapping")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (float("nan"), "NaN"),
        (float("-inf"), "NaN"),
        ({"a": [1, {"b": float("nan")}]}, "NaN"),
        ([Forecast(float("inf"))], "NaN"),  # type: ignore[arg-type]
        (msgspec.Raw(b"NaN"), "written as JSON"),
        (msgspec.Raw(b"{"), "written as JSON"),
        ((n for n in (1,)), "'generator' have no JSON form"),
        ({"a": object()}, "'object' have no JSON form"),
        ([Bad()], "'Bad' have no JSON form"),
        (1j, "'complex' have no JSON form"),
        (print, "have no JSON form"),
        ({(1, 2): 3}, "keys must be"),
        ([{True: 3}], "keys must be"),
        ({"a": {None: 3}}, "keys must be"),
        ({"a": BadMapping(a=1)}, "broken mapping"),
        (cycle(), "contains itself"),
        (deep(100_000), "contains itself"),
        ({"a": "\ud800"}, "lone surrogates"),
        ("\udfff", "lone surrogates"),
        ([types.TextContent(text="\udfff")], "lone surrogates"),
        (ToolResult("a", meta={"n": object()}), "no JSON form"),
        (ToolResult([object()]), "no JSON form"),
        (ToolResult("a", structured_content={"n": float("nan")}), "NaN"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_b105_b111_values_without_json_form(value: Any, reason: str) -> None:
    for revision in (R1, R5):
        with pytest.raises(UnserializableResult, match=reason) as info:
            FREE.wire(value, revision)
        assert "secret" not in str(info.value)


def test_b105_decimals_are_strings_whatever_they_hold() -> None:
    assert wire({"a": decimal.Decimal("NaN")})["structuredContent"] == {"a": "NaN"}


@settings(max_examples=150, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=12,
    )
)
def test_b105_json_values_arrive_or_are_refused(value: Any) -> None:
    finite = True
    try:
        json.dumps(value, allow_nan=False)
    except ValueError:
        finite = False
    try:
        data = encode_json(value)
    except UnserializableResult:
        assert not finite
        return
    assert finite and b"\n" not in data
    assert json.loads(data) == value


# --- content -------------------------------------------------------------------------------------

LINK = types.ResourceLink(
    name="main.rs",
    uri="file:///main.rs",
    description="The entry.",
    icons=[types.Icon(src="https://a/b")],
    meta={"m": 1},
)
NOTED = types.TextContent(
    text="t", annotations=types.Annotations(priority=1, last_modified="2024-01-02T00:00:00Z"), meta={"m": 1}
)
EMBEDDED = types.EmbeddedResource(resource=types.TextResourceContents(uri="a:b", text="t", meta={"m": 1}))


def test_lists_with_content_are_content() -> None:
    result = wire(["a", Image(PNG), types.TextContent(text="b"), 5, {"k": 1}, b"raw"])
    assert [block["type"] for block in result["content"]] == [
        "text",
        "image",
        "text",
        "text",
        "text",
        "resource",
    ]
    assert [block.get("text") for block in result["content"]] == ["a", None, "b", "5", '{"k":1}', None]
    assert "structuredContent" not in result


def test_sf07_audio_before_2025_03() -> None:
    audio = Audio(b"abc", "audio/wav")
    assert wire(audio, R1) == {"content": [text("[audio/wav, 3 bytes: this client cannot take audio]")]}
    for revision in (R2, R3, R4, R5):
        assert wire(audio, revision) == {
            "content": [{"type": "audio", "data": "YWJj", "mimeType": "audio/wav"}]
        }


def test_sf07_links_before_2025_06() -> None:
    for revision in (R1, R2):
        assert wire(LINK, revision) == {"content": [text("main.rs: file:///main.rs\nThe entry.")]}
    block = {
        "type": "resource_link", "name": "main.rs", "uri": "file:///main.rs", "description": "The entry.",
        "_meta": {"m": 1},
    }  # fmt: skip
    assert wire(LINK, R3) == {"content": [block]}
    for revision in (R4, R5):
        assert wire(LINK, revision) == {"content": [{**block, "icons": [{"src": "https://a/b"}]}]}


def test_sf07_members_that_came_later_are_left_out() -> None:
    old, new = wire(NOTED, R2)["content"][0], wire(NOTED, R3)["content"][0]
    assert old == {**text("t"), "annotations": {"priority": 1}}
    assert new["_meta"] == {"m": 1} and new["annotations"]["lastModified"] == "2024-01-02T00:00:00Z"
    assert wire(EMBEDDED, R1)["content"][0]["resource"] == {"uri": "a:b", "text": "t"}
    assert wire(EMBEDDED, R3)["content"][0]["resource"]["_meta"] == {"m": 1}
    assert NOTED.meta == {"m": 1}  # the author's block is untouched


def test_every_result_fits_the_types_of_its_revision() -> None:
    values = [
        "a",
        5,
        None,
        Forecast("a"),
        [1],
        Image(PNG),
        Audio(b"a", "audio/wav"),
        LINK,
        NOTED,
        EMBEDDED,
        b"blob",
        ToolResult("a", {"k": 1}, True, {"m": 1}),
    ]
    for revision in REVISIONS:
        decoder = msgspec.json.Decoder(types.of(revision).CallToolResult)
        for value in values:
            found = decoder.decode(FREE.wire(value, revision))
            assert isinstance(found.content, list) and (found.content or value is None)
            assert getattr(found, "is_error", False) is True or not isinstance(value, ToolResult)


# --- whole results -------------------------------------------------------------------------------


def test_whole_results() -> None:
    assert wire(ToolResult()) == {"content": []}
    assert wire(ToolResult("a", is_error=True)) == {"content": [text("a")], "isError": True}
    assert wire(ToolResult(["a", Image(PNG)]))["content"][1]["type"] == "image"
    assert wire(ToolResult(structured_content={"a": 1})) == {
        "content": [text('{"a":1}')], "structuredContent": {"a": 1},
    }  # fmt: skip
    assert wire(ToolResult("mine", {"a": 1})) == {"content": [text("mine")], "structuredContent": {"a": 1}}


def test_sf06_null_and_absent_differ() -> None:
    assert wire(ToolResult("a", None)) == {"content": [text("a")], "structuredContent": None}
    assert wire(ToolResult("a")) == {"content": [text("a")]}
    assert wire(ToolResult("a", None), R4) == {"content": [text("a")]}


def test_sep2106_structured_content_always_comes_with_text() -> None:
    for revision in (R4, R5):
        blocks = wire(ToolResult(Image(PNG), [1]), revision)["content"]
        assert [block["type"] for block in blocks] == ["image", "text"] and blocks[1]["text"] == "[1]"


def test_meta_of_results() -> None:
    value = ToolResult("a", meta={"m": 1, SERVER_INFO: "no"})
    marked: list[bytes] = []
    renderer = ResultRenderer(
        "f", modern_meta={SERVER_INFO: {"name": "s"}}, complete=lambda b: marked.append(b) or b
    )
    assert json.loads(renderer.wire(value, R4)) == {
        "content": [text("a")],
        "_meta": {"m": 1, SERVER_INFO: "no"},
    }
    assert not marked
    modern = json.loads(renderer.wire(value, R5))
    assert modern["_meta"] == {"m": 1, SERVER_INFO: {"name": "s"}} and modern["resultType"] == "complete"
    assert len(marked) == 1
    renderer.wire("plain", R5)
    assert len(marked) == 1


def test_error_results() -> None:
    for revision in REVISIONS:
        assert json.loads(wire_result(error_result("no"), revision)) == {
            "content": [text("no")],
            "isError": True,
        }


# --- output schemas ------------------------------------------------------------------------------


def test_sf06_promised_values_by_revision() -> None:
    for annotation, value, expected in (
        (Forecast, Forecast("a"), {"city": "a", "days": 1}),
        (int, 5, 5),
        (list[str], ["a"], ["a"]),
    ):
        for revision in REVISIONS:
            result = wire(value, revision, annotation)
            assert json.loads(result["content"][0]["text"]) == expected
            object_only = revision in (R3, R4) and isinstance(expected, dict)
            assert ("structuredContent" in result) is (object_only or revision == R5)
    assert wire(None, R5, Forecast | None) == {"content": [text("null")], "structuredContent": None}


@pytest.mark.parametrize(
    "value",
    [
        None,
        {},
        {"city": 5},
        [],
        "text",
        Box(1),
        Image(PNG),
        types.TextContent(text="a"),
        b"a",
        ToolResult("a"),
        ToolResult(structured_content={}),
        ToolResult(structured_content=None),
    ],
)
def test_b110_results_that_break_the_promise(value: Any) -> None:
    renderer = ResultRenderer("f", inspect_output(Forecast, where="f"))
    with pytest.raises(OutputMismatch, match=r"^the result of tool 'f' does not fit its output schema: "):
        renderer.render(value)


def test_b110_errors_are_exempt_and_values_are_not_quoted() -> None:
    class Choice(msgspec.Struct):
        word: Colour

    renderer = ResultRenderer("f", inspect_output(Choice, where="f"))
    assert renderer.render(ToolResult("failed", is_error=True)).is_error
    with pytest.raises(OutputMismatch) as info:
        renderer.render({"word": "secret"})
    assert str(info.value).endswith("Not one of the allowed values - at $.word")


def test_b110_annotated_tool_results() -> None:
    from typing import Annotated

    renderer = ResultRenderer("f", inspect_output(Annotated[ToolResult, Forecast], where="f"))
    assert renderer.render(ToolResult(Image(PNG), Forecast("a"))).structured == b'{"city":"a","days":1}'
    with pytest.raises(OutputMismatch):
        renderer.render(ToolResult("a", {"days": 1}))


def test_kinds_for_the_compiled_writer() -> None:
    assert FREE.render("a").kind == TEXT and FREE.render("a").text == "a"
    rendered = FREE.render({"a": 1})
    assert rendered.kind == STRUCTURED and rendered.structured == b'{"a":1}'
    assert FREE.plain_text and not ResultRenderer("f", inspect_output(list[str], where="f")).plain_text


def test_values_that_need_a_closer_look_on_the_short_way() -> None:
    class Row(msgspec.Struct, array_like=True):
        a: int

    class Mine(ToolResult):
        pass

    assert wire(Row(1), R4) == {"content": [text("[1]")]}
    assert wire(Row(1), R5)["structuredContent"] == [1]
    assert wire(Mine("a", is_error=True)) == {"content": [text("a")], "isError": True}
    assert wire(ToolResult(structured_content={"a": 1}, is_error=True), R4) == {
        "content": [text('{"a":1}')], "structuredContent": {"a": 1}, "isError": True,
    }  # fmt: skip
    with pytest.raises(KeyError):
        FREE.wire({}, "2020-01-01")


def test_classes_made_for_every_call_do_not_pile_up() -> None:
    renderer = ResultRenderer("f")
    for n in range(200):
        made = msgspec.defstruct(f"Made{n}", [("n", int)])
        assert json.loads(renderer.wire(made(n), R5))["structuredContent"] == {"n": n}
    assert len(renderer._direct) <= 64
