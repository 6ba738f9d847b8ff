"""The official Python SDK's client against headrace: both eras, over stdio and HTTP."""

import pytest

from interop import schemas, wire
from interop.support import HERE, TOOLBOX, command_text, run_json, serve_command

pytestmark = pytest.mark.interop

TEXT = 'é€😀𝄞\n"\\\x00\u2028'
EXPECTED_TOOLS = [
    "add", "echo", "count", "fail", "crash", "point", "slow", "block", "read_journal", "log", "who", "grow",
    "ask_name", "think", "where", "touch",
]  # fmt: skip


@pytest.fixture(scope="module", params=["stdio-legacy", "stdio-auto", "http-legacy", "http-auto", "http-2026-07-28"])
def run(request, peers, tmp_path_factory):
    """What one run of the client saw, and what went over the wire: all tests of a combination look at it."""
    transport, _, mode = request.param.partition("-")
    client = [peers, HERE / "peers" / "sdk_client.py", mode]
    if transport == "http":
        with wire.HttpRecorder(request.getfixturevalue("toolbox")) as recorder:
            seen = run_json([*client, request.getfixturevalue("paged"), recorder.url])
        seen["wire"] = recorder.messages()
    else:
        folder = tmp_path_factory.mktemp("wire")
        paged = command_text(serve_command(f"{TOOLBOX}:paged"))
        seen = run_json([*client, paged, command_text(wire.recorded_command(serve_command(), folder))])
        seen["wire"] = wire.recorded_lines(folder)
    return seen | {"mode": mode}


def test_negotiation(run):
    """VN-40..50: the newest revision of the era that the client asks for."""
    assert run["protocol"] == ("2025-11-25" if run["mode"] == "legacy" else "2026-07-28")
    if run["mode"] != "2026-07-28":  # a pinned version asks nothing before the first call
        assert run["server"] == ["toolbox", "1.2.3", "Toolbox"]
        assert run["instructions"] == "Tools to test clients with."
        assert "tools" in run["capabilities"]


def test_list(run):
    names = list(run["tools"])
    assert [name for name in names if not name.startswith("grown")] == EXPECTED_TOOLS
    assert run["tools"]["add"]["required"] == ["a", "b"]
    assert run["tools"]["add"]["properties"]["a"]["type"] == "integer"
    assert "point" in run["outputs"]


def test_call(run):
    assert run["add"]["text"] == ["3"]
    assert not run["add"]["is_error"]
    assert run["echo"]["text"] == [TEXT]


def test_structured(run):
    assert run["point"]["structured"] == {"x": 1, "y": 2.5, "label": None}


def test_tool_errors(run):
    """JR-36, JR-38: failures of tools are results; nothing of an unexpected exception leaks."""
    assert run["fail"]["is_error"]
    assert run["fail"]["text"] == ["as told"]
    assert run["crash"]["is_error"]
    assert "secret" not in run["crash"]["text"][0]
    assert run["bad_arguments"]["is_error"]
    assert "a" in run["bad_arguments"]["text"][0]


def test_unknown_tool(run):
    assert run["unknown"]["code"] == -32602


def test_progress_order(run):
    """B78: every note, in order, before the answer."""
    assert run["count"]["text"] == ["counted to 20"]
    assert run["progress"] == [[n, 20, f"at {n}"] for n in range(1, 21)]


def test_log(run):
    assert ["warning", "careful", "toolbox"] in run["logs"]


def test_cancellation(run):
    """B75: giving a call up reaches the server, by notification, or by the end of its stream."""
    assert run["scope_cancelled"]
    assert run["timeout"]
    assert sorted(run["journal"]) == ["by scope cancelled", "by timeout cancelled"]


def test_concurrent_calls(run):
    assert run["together"]


def test_who(run):
    who = run["who"]["structured"]
    assert who["version"] == run["protocol"]
    assert who["name"]


def test_list_after_growth(run):
    """SF-60: a tool registered at run time is listed."""
    assert run["grown"]


def test_handshake_extras(run):
    """ping, logging/setLevel and list_changed exist in the handshake era only."""
    if run["mode"] != "legacy":
        assert run["protocol"] == "2026-07-28"
        return
    assert run["ping"]
    assert run["quiet"]
    assert any("list_changed" in each or "ToolListChanged" in each for each in run["messages"])


def test_pages(run):
    """SF-50: pages of three, a bad cursor refused."""
    assert [len(page) for page in run["pages"]] == [3, 3, 3, 1]
    assert [name for page in run["pages"] for name in page] == [f"tool_{n:02}" for n in range(10)]
    assert run["bad_cursor"] == -32602


def test_questions(run):
    """CF-01, MX-30..33: requests in the handshake era, results in the modern one; the same tools."""
    assert run["ask_name"]["text"] == ["Hello Ada"]
    assert run["think"]["text"] == ["thought about cats"]
    assert run["where"]["text"] == ["file:///work"]


def test_resources_and_prompts(run):
    """SF-20..24, SF-30, SF-31."""
    assert {"note://static", "note://blob"} <= set(run["resources"])
    assert "note://named/{name}" in run["templates"]
    assert (run["read"], run["blob"], run["named"]) == ("static note", "iVBORw0K", "note of x")
    missing = -32002 if run["mode"] == "legacy" else -32602
    assert run["missing"] == {"code": missing, "data": {"uri": "note://nowhere"}}
    assert ["greet", ["name"]] in run["prompts"]
    assert run["prompt"] == "Greet Ada"
    assert run["completion"] == ["Ada", "Alan"]


def test_updates(run):
    """SF-23, SF-70..72: by subscription or by listening."""
    assert run["updated"]
    if run["mode"] != "legacy":
        assert run["honored"] == {"toolsListChanged": True, "resourceSubscriptions": ["note://static"]}


def test_messages_are_valid(run):
    """Everything that the server sent fits the official schema of the revision."""
    kinds = schemas.check(run["protocol"], *run["wire"])
    assert kinds["tools/call"] > 200
    assert kinds["notifications/progress"] == 20
    assert kinds["error"] >= 1
