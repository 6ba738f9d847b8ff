"""headrace.server.definitions: tools in lists."""

import logging
from typing import Any

import msgspec
import pytest

from headrace import types
from headrace.jsonrpc import R1, R2, R3, R4, R5, REVISIONS
from headrace.server.definitions import tool_definition, warn_tool_name
from headrace.server.signature import inspect_tool


def objects(a: int) -> dict[str, int]:
    """Objects."""
    return {}


def numbers(a: int) -> list[int]:
    return []


EVERYTHING: dict[str, Any] = {
    "title": "T",
    "annotations": types.ToolAnnotations(read_only_hint=True),
    "icons": [types.Icon(src="https://a/b", mime_type="image/png")],
    "execution": {"taskSupport": "optional"},
    "meta": {"m": 1},
}


def test_sf03_members_by_revision() -> None:
    signature = inspect_tool(objects)
    base = {"name", "description", "inputSchema"}
    expected = {
        R1: base,
        R2: base | {"annotations"},
        R3: base | {"annotations", "title", "outputSchema", "_meta"},
        R4: base | {"annotations", "title", "outputSchema", "_meta", "icons", "execution"},
        R5: base | {"annotations", "title", "outputSchema", "_meta", "icons"},
    }
    for revision in REVISIONS:
        tool = tool_definition(signature, revision, **EVERYTHING)
        assert set(tool) == expected[revision]
        data = msgspec.json.encode(tool)
        assert msgspec.json.decode(data, type=types.of(revision).Tool).name == "objects"
    assert tool_definition(signature, R2, **EVERYTHING)["annotations"] == {"readOnlyHint": True, "title": "T"}
    assert tool_definition(signature, R3, **EVERYTHING)["annotations"] == {"readOnlyHint": True}
    assert tool_definition(signature, R4, **EVERYTHING)["icons"] == [
        {"src": "https://a/b", "mimeType": "image/png"}
    ]


def test_sf06_output_schemas_that_are_no_objects() -> None:
    signature = inspect_tool(numbers)
    for revision in REVISIONS:
        assert ("outputSchema" in tool_definition(signature, revision)) is (revision == R5)
    assert set(tool_definition(signature, R4)) == {"name", "inputSchema"}


@pytest.mark.parametrize("name", ["getUser", "DATA_EXPORT_v2", "admin.tools.list", "a-b", "x" * 128])
def test_sf04_good_names(name: str, caplog: pytest.LogCaptureFixture) -> None:
    assert warn_tool_name(name) and not caplog.records


@pytest.mark.parametrize("name", ["", "a b", "a,b", "ä", "x" * 129, "a\n"])
def test_sf04_odd_names_are_warned_about(name: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "headrace.server"):
        assert not warn_tool_name(name)
    assert len(caplog.records) == 1
