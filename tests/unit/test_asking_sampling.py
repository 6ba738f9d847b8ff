"""Sampling requests: shapes, tools, and what the client's revision knows (CF-20..CF-22)."""

import msgspec
import pytest
from asking_support import R5, AskPipe, text_of

from headrace import Context, Server
from headrace.errors import CannotAsk, UsageError
from headrace.protocol.sampling import sampling_params
from headrace.types import SamplingMessage, TextContent, Tool, ToolChoice

TOOL = {"name": "x", "inputSchema": {"type": "object"}}
USE = {"type": "tool_use", "id": "u1", "name": "x", "input": {}}
USE2 = {**USE, "id": "u2"}
RESULT = {"type": "tool_result", "toolUseId": "u1", "content": []}
RESULT2 = {**RESULT, "toolUseId": "u2"}
TEXT = {"type": "text", "text": "t"}


def params(messages, revision=R5, **options):
    rest = dict.fromkeys(
        ("system", "temperature", "stop_sequences", "model_preferences", "include_context", "metadata", "tools", "tool_choice")
    )
    return sampling_params(messages, revision=revision, **{"max_tokens": 5, **rest, **options})


def said(role, *blocks):
    return {"role": role, "content": list(blocks)}


def test_cf20_all_members():
    made = params(
        [SamplingMessage(role="assistant", content=TextContent(text="a")), "b", {"role": "user", "content": "c"}],
        max_tokens=7, system="s", temperature=0.5, stop_sequences=("x",), model_preferences={"speedPriority": 1},
        include_context="none", metadata={"k": 1}, tools=[TOOL, Tool(name="y", input_schema={"type": "object"})],
        tool_choice="required",
    )  # fmt: skip
    assert made == {
        "messages": [
            {"role": "assistant", "content": {"type": "text", "text": "a"}},
            {"role": "user", "content": {"type": "text", "text": "b"}},
            {"role": "user", "content": {"type": "text", "text": "c"}},
        ],
        "maxTokens": 7, "systemPrompt": "s", "temperature": 0.5, "stopSequences": ["x"],
        "modelPreferences": {"speedPriority": 1}, "includeContext": "none", "metadata": {"k": 1},
        "tools": [TOOL, {"name": "y", "inputSchema": {"type": "object"}}], "toolChoice": {"mode": "required"},
    }  # fmt: skip
    assert params("q", tool_choice=ToolChoice(mode="none"))["toolChoice"] == {"mode": "none"}
    assert params("q") == {"messages": [{"role": "user", "content": {"type": "text", "text": "q"}}], "maxTokens": 5}


@pytest.mark.parametrize(
    "messages",
    [
        ["q", said("assistant", USE), said("user", RESULT)],
        ["q", said("assistant", TEXT, USE, USE2), said("user", RESULT2, RESULT), said("assistant", TEXT)],
        ["q", {"role": "assistant", "content": USE}, {"role": "user", "content": RESULT}],
    ],
)
def test_cf22_balanced_tool_use(messages):
    assert params(messages)["messages"][1:] == messages[1:]


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([said("assistant", USE)], "no tool result answers"),
        (["q", said("assistant", USE), "next"], "must be answered"),
        (["q", said("assistant", USE, USE2), said("user", RESULT)], "must be answered"),
        (["q", said("assistant", USE), said("user", RESULT, TEXT)], "beside other content"),
        (["q", said("assistant", USE), said("user", RESULT2)], "must be answered"),
        (["q", said("user", RESULT)], "must be answered"),
        (["q", said("assistant", USE), said("assistant", RESULT)], "not the user's"),
        ([said("user", USE), said("user", RESULT)], "not the assistant's"),
        ([], "at least one"),
        ([{"role": "system", "content": "x"}], "role"),
        ([5], "a message is"),
        ([said("user", {"type": "resource_link"})], "resource_link"),
        ([{"role": "user"}], "None"),
    ],
)
def test_cf22_broken_requests_are_refused_before_they_are_sent(messages, text):
    with pytest.raises(UsageError, match=r"^sample: ") as caught:
        params(messages)
    assert text in str(caught.value)


@pytest.mark.parametrize("options", [{"max_tokens": 0}, {"max_tokens": 1.5}, {"max_tokens": True}, {"include_context": "all"}, {"tools": [object()]}])
def test_cf20_wrong_options(options):
    with pytest.raises(UsageError, match=r"^sample: "):
        params("q", **options)


def test_cf21_old_revisions_take_less():
    audio = {"type": "audio", "data": "", "mimeType": "audio/wav"}
    assert params([said("user", audio)], "2025-03-26")["messages"][0]["content"] == audio
    with pytest.raises(CannotAsk, match="audio"):
        params([said("user", audio)], "2024-11-05")
    with pytest.raises(CannotAsk, match="tool_use"):
        params(["q", said("assistant", USE), said("user", RESULT)], "2025-06-18")
    with pytest.raises(CannotAsk, match="one content block"):
        params([said("user", TEXT, TEXT)], "2025-06-18")
    assert params([said("user", TEXT)], "2025-06-18")["messages"] == [{"role": "user", "content": TEXT}]


@pytest.mark.parametrize("revision", ["2025-11-25", R5])
def test_cf21_a_loop_with_tools(run, revision):
    app = Server("s", version="1")

    @app.tool
    async def weather(ctx: Context) -> str:
        messages = [{"role": "user", "content": "Weather?"}]
        for _ in range(4):
            got = await ctx.sample(messages, max_tokens=100, tools=[TOOL])
            if got.stop_reason != "toolUse":
                return got.content.text
            uses = got.content if isinstance(got.content, list) else [got.content]
            messages.append({"role": "assistant", "content": uses})
            results = [{"type": "tool_result", "toolUseId": u.id, "content": [TEXT]} for u in uses]
            messages.append({"role": "user", "content": results})
        return "too long"

    def model(_, p):
        if len(p["messages"]) == 1:
            return {"role": "assistant", "model": "m", "stopReason": "toolUse", "content": [USE, USE2]}
        assert [b["toolUseId"] for b in p["messages"][-1]["content"]] == ["u1", "u2"]
        return {"role": "assistant", "model": "m", "stopReason": "endTurn", "content": {"type": "text", "text": "fine"}}

    async def body():
        async with app.running():
            pipe = AskPipe(app, revision)
            assert text_of(await pipe.tool("weather", model)) == "fine" and len(pipe.questions) == 2

    run(body)


def test_results_keep_unknown_stop_reasons_and_tolerate_null():
    from headrace.protocol.answers import read_sample

    got = read_sample({"role": "assistant", "model": "m", "content": TEXT, "stopReason": "odd", "_meta": None})
    assert got.stop_reason == "odd" and got.meta is msgspec.UNSET
