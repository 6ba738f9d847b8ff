"""Scenario files (issue 4, part A): what is read, and that a mistake names its place and what is accepted."""

import re
import textwrap

import pytest

from headrace.bench import scenario
from headrace.bench.scenario import BadScenario, read_scenario, scenario_of


def test_the_documented_example_is_one(tmp_path):
    example = textwrap.dedent(scenario.__doc__.partition("::\n\n")[2].partition("\nJSON is the same")[0])
    path = tmp_path / "load.toml"
    path.write_text(example)
    entries = read_scenario(path)
    assert [e.kind for e in entries] == [
        "call", "call", "list", "read", "prompt", "ping", "call", "listen", "session",
    ]  # fmt: skip
    first, big, *_ = entries
    assert (first.what, first.weight, first.expect, first.arguments) == ("echo", 70, "hello", {"text": "hello"})
    assert (big.name, big.payload) == ("echo 64 KB", 65536)
    assert entries[6].progress and entries[7].hold_s == 2.0 and entries[7].listen == ("tools", "demo://readme")
    assert [e.kind for e in entries[8].calls] == ["call", "list"]
    assert len({e.name for e in entries}) == len(entries)


def test_json_is_the_same(tmp_path):
    path = tmp_path / "load.json"
    path.write_text('{"operations": [{"call": "echo", "arguments": {"text": "a"}}, {"call": "echo"}]}')
    one, two = read_scenario(path)
    assert one.arguments == {"text": "a"} and one.name == "call echo" and two.name == "call echo (2)"


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({}, "exactly one of call, list, .*; none is there"),
        ({"call": "a", "read": "b"}, "call and read are two"),
        ({"call": ""}, 'call must be a text, not ""'),
        ({"call": "a", "weight": 0}, "weight must be a whole number from 1 to 1000000, not 0"),
        ({"call": "a", "weight": True}, "weight must be"),
        ({"call": "a", "payload": -1}, "payload must be"),
        ({"call": "a", "arguments": [1]}, r"arguments must be a table by name, not \[1\]"),
        ({"call": "a", "wieght": 2}, "call has no field 'wieght'; it takes arguments, expect"),
        ({"call": "a", "progress": 1}, "progress must be true or false"),
        ({"list": "tool"}, 'list must be "tools" or "resources"'),
        ({"prompt": "p", "arguments": {"a": 1}}, "arguments must be texts"),
        ({"ping": 1}, "ping must be true"),
        ({"listen": []}, "listen must be a list"),
        ({"listen": ["tool"]}, 'listen must be "tools", "resources", "prompts" or a URI, not "tool"'),
        ({"listen": "tools", "hold": 0}, "hold must be seconds, more than 0"),
        ({"session": []}, "session must be a list"),
        ({"session": [{"session": []}]}, "session entry 1: a session cannot hold a session"),
        ("echo", "a table is needed"),
    ],
)
def test_mistakes_name_the_place_and_what_is_accepted(entry, said):
    with pytest.raises(BadScenario, match=said) as caught:
        scenario_of([{"list": "tools"}, entry], "load.toml")
    assert str(caught.value).startswith("load.toml, operation 2")


@pytest.mark.parametrize("data", [[], {}, {"operation": []}, {"operation": [{"ping": True}], "x": 1}, 5])
def test_no_scenario(data):
    with pytest.raises(BadScenario):
        scenario_of(data)


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "a.toml"
    with pytest.raises(BadScenario, match="No such file"):
        read_scenario(path)
    path.write_text("[[operation]]\ncall = 'a'\n\n[[operation]]\ncall = 5\n")
    with pytest.raises(BadScenario, match=re.escape("a.toml, line 4, operation 2: call must be a text, not 5")):
        read_scenario(path)
    path.write_text("[[operation\n")
    with pytest.raises(BadScenario, match=r"is not TOML: .*line 1"):
        read_scenario(path)
    path.write_bytes(b"\xff")
    with pytest.raises(BadScenario, match="not UTF-8"):
        read_scenario(path)
    path = tmp_path / "a.json"
    path.write_text("{")
    with pytest.raises(BadScenario, match="is not JSON"):
        read_scenario(path)
