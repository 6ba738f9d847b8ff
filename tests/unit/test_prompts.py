"""Prompts and completion over a raw pipe: lists, arguments, results by revision (SF-30, SF-31, SF-07, JR-35)."""

import asyncio
import datetime
import enum
import threading
from typing import Annotated, Literal

import msgspec
import pytest
from server_pipe import META, Pipe

from headrace import types
from headrace.errors import UsageError
from headrace.protocol.context import Context
from headrace.server.app import Server
from headrace.server.completion import Completion
from headrace.server.content import Audio, Image
from headrace.server.prompts import AssistantMessage, PromptResult, UserMessage

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


class Style(enum.Enum):
    SHORT = "short"
    LONG = "long"


class Options(msgspec.Struct):
    depth: int


def serve(run, app, body):
    async def main():
        async with app.running():
            return await body(Pipe(app))

    return run(main)


async def get(pipe, name, arguments=None, meta=META):
    params = {"name": name} | ({"arguments": arguments} if arguments is not None else {})
    answer = await pipe.ask("p", "prompts/get", params, meta=meta)
    return answer.get("result") or answer["error"]


def make():
    app = Server("t", version="1")

    @app.prompt
    async def review(code: str, style: Style = Style.SHORT) -> str:
        """Reviews code.

        Args:
            code: what to look at
        """
        return f"{style.value}: {code}"

    @app.prompt(name="typed", title="Typed", icons=[{"src": "https://x/i.png"}], meta={"k": 1})
    def typed(
        count: Annotated[int, "how many"],
        day: datetime.date,
        options: Options,
        tags: list[str] | None = None,
        note: str | None = None,
        on: bool = False,
    ) -> list:
        return [
            UserMessage(f"{count + 1} {day.year} {options.depth} {tags} {note!r} {on}"),
            AssistantMessage(threading.current_thread().name),
        ]

    @app.prompt(inline=True)
    def media() -> list:
        link = types.ResourceLink(name="n", uri="a://b", description="d")
        return [
            "text",
            Image(PNG),
            AssistantMessage(Audio(b"RIFF0000WAVE")),
            link,
            {"role": "assistant", "content": {"type": "text", "text": "raw"}},
            {"x": 1},
        ]

    @app.prompt
    async def whole(ctx: Context) -> PromptResult:
        await asyncio.sleep(0)
        return PromptResult(f"hi {ctx.request_id}", description="other", meta={"m": 1})

    return app


def test_sf30_lists_by_revision():
    app = make()
    old, middle, new = (
        {p["name"]: p for p in msgspec.json.decode(app.prompts.listing.page(r))["prompts"]}
        for r in ("2025-03-26", "2025-06-18", "2026-07-28")
    )
    assert list(new) == ["review", "typed", "media", "whole"]
    assert new["review"] == {
        "name": "review",
        "description": "Reviews code.",
        "arguments": [
            {"name": "code", "description": "what to look at", "required": True},
            {"name": "style", "required": False},
        ],
    }
    assert new["typed"]["arguments"][0] == {"name": "count", "description": "how many", "required": True}
    assert "arguments" not in new["media"]
    assert set(new["typed"]) - set(middle["typed"]) == {"icons"}
    assert set(middle["typed"]) - set(old["typed"]) == {"title", "_meta"}


def test_sf30_arguments_are_strings_of_types(run):
    arguments = {"count": "4", "day": "2026-02-03", "options": '{"depth": 3}', "tags": '["a"]', "note": "null", "on": "true"}

    async def body(pipe):
        good = await get(pipe, "typed", arguments)
        pipe.handshake()
        legacy = await get(pipe, "review", {"code": "x", "unknown": "y"}, None)
        whole = await get(pipe, "whole")
        return good, legacy, whole

    good, legacy, whole = serve(run, make(), body)
    user, assistant = good["messages"]
    assert user == {"role": "user", "content": {"type": "text", "text": "5 2026 3 ['a'] 'null' True"}}
    assert assistant["role"] == "assistant" and assistant["content"]["text"].startswith("t-worker")
    assert good["resultType"] == "complete" and "ttlMs" not in good  # prompts/get is not cacheable
    assert legacy == {
        "description": "Reviews code.",
        "messages": [{"role": "user", "content": {"type": "text", "text": "short: x"}}],
    }
    assert whole["description"] == "other" and whole["_meta"]["m"] == 1
    assert whole["messages"][0]["content"]["text"] == "hi p"


def test_jr35_bad_requests(run):
    bad = [
        ("nope", {}), ("review", None), ("review", {}), ("review", {"code": 5}), ("review", {"code": "x", "style": "wide"}),
        ("typed", {"count": "x", "day": "2026-02-03", "options": "{}"}),
        ("typed", {"count": "1", "day": "2026-02-03", "options": "{"}),
    ]  # fmt: skip

    async def body(pipe):
        errors = [await get(pipe, name, arguments) for name, arguments in bad]
        shape = await pipe.ask(1, "prompts/get", {"name": 5}, meta=META)
        return errors, shape

    errors, shape = serve(run, make(), body)
    assert [e["code"] for e in errors] == [-32602] * len(bad)
    assert errors[4]["message"] == "prompt 'review': style: not one of the allowed values: \"short\", \"long\""
    assert errors[5]["message"] == "prompt 'typed': count: expected int, got 'x'"
    assert errors[6]["message"] == "prompt 'typed': argument 'options': it is no JSON"
    assert "nope" in errors[0]["message"] and "'code' is missing" in errors[1]["message"]
    assert "'options'" in errors[6]["message"]
    assert shape["error"]["code"] == -32602


def test_sf07_blocks_by_revision(run):
    app = make()

    async def body(pipe):
        modern = await get(pipe, "media")
        entry = app.prompts.entry("media")
        value = entry.signature.function()
        return modern, {r: msgspec.json.decode(app.prompts._render(entry, r, value)) for r in ("2024-11-05", "2025-03-26")}

    modern, legacy = serve(run, app, body)
    assert [m["content"]["type"] for m in modern["messages"]] == ["text", "image", "audio", "resource_link", "text", "text"]
    assert [m["role"] for m in modern["messages"]] == ["user", "user", "assistant", "user", "assistant", "user"]
    assert modern["messages"][5]["content"]["text"] == '{"x":1}'
    assert [m["content"]["type"] for m in legacy["2024-11-05"]["messages"]] == ["text", "image", "text", "text", "text", "text"]
    assert [m["content"]["type"] for m in legacy["2025-03-26"]["messages"]] == ["text", "image", "audio", "text", "text", "text"]


def test_usage_errors_and_removal(run):
    app = make()
    for bad in (make, Options, 5):
        with pytest.raises(UsageError):
            app.add_prompt(bad if bad is not make else (lambda *args: "x"))
    with pytest.raises(UsageError, match="registered already"):
        app.add_prompt(lambda: "x", name="review")
    with pytest.raises(UsageError, match="has no argument"):
        app.add_prompt(lambda: "x", name="new", complete={"a": ["x"]})
    assert "new" not in app.prompts
    app.remove_prompt("review")
    with pytest.raises(KeyError):
        app.remove_prompt("review")

    async def body(pipe):
        return await get(pipe, "review", {"code": "x"})

    assert serve(run, app, body)["code"] == -32602


async def complete(pipe, ref, name, value, context=None, meta=META):
    params = {"ref": ref, "argument": {"name": name, "value": value}}
    if context is not None:
        params["context"] = {"arguments": context}
    answer = await pipe.ask("c", "completion/complete", params, meta=meta)
    return answer["result"]["completion"] if "result" in answer else answer["error"]


def test_sf31_completion(run):
    app = Server("t", version="1")

    @app.prompt(complete={"lang": ["English", "Estonian", "German"], "word": lambda typed: [typed + "!"]})
    def translate(lang: str, word: str, style: Style = Style.SHORT, mode: Literal["a", "b"] = "a", free: str = "") -> str:
        return ""

    @app.resource("repo://{owner}/{name}")
    async def repo(owner: str, name: str) -> str:
        return ""

    @app.completion(resource="repo://{owner}/{name}", argument="name")
    async def names(value: str, arguments: dict, ctx: Context) -> list[str]:
        await asyncio.sleep(0)
        return [f"{arguments.get('owner')}-{value}{n}" for n in range(250)]

    @app.completion(resource="repo://{owner}/{name}", argument="owner")
    def owners(value: str) -> Completion:
        return Completion([value, threading.current_thread().name], total=9, has_more=True)

    prompt = {"type": "ref/prompt", "name": "translate"}
    resource = {"type": "ref/resource", "uri": "repo://{owner}/{name}"}

    async def body(pipe):
        found = [
            await complete(pipe, prompt, "lang", "e"),
            await complete(pipe, prompt, "word", "x"),
            await complete(pipe, prompt, "style", ""),
            await complete(pipe, prompt, "mode", "B"),
            await complete(pipe, prompt, "free", "x"),
            await complete(pipe, resource, "name", "v", {"owner": "me"}),
            await complete(pipe, resource, "owner", "o"),
        ]
        bad = [
            await complete(pipe, {"type": "ref/prompt", "name": "nope"}, "a", ""),
            await complete(pipe, {"type": "ref/resource", "uri": "nope://"}, "a", ""),
            await complete(pipe, {"type": "ref/tool", "name": "x"}, "a", ""),
            await complete(pipe, prompt, 5, ""),
        ]

        @app.completion
        def anything(ref, argument, value):
            return [f"{ref.kind} {ref.name} {argument} {value}"]

        return found, bad, await complete(pipe, prompt, "free", "x")

    (lang, word, style, mode, free, name, owner), bad, general = serve(run, app, body)
    assert lang == {"values": ["English", "Estonian"], "total": 2, "hasMore": False}
    assert word["values"] == ["x!"]
    assert style["values"] == ["short", "long"] and mode["values"] == ["b"] and free["values"] == []
    assert len(name["values"]) == 100 and name["total"] == 250 and name["hasMore"] is True
    assert name["values"][0] == "me-v0"
    assert owner["total"] == 9 and owner["hasMore"] is True and owner["values"][1].startswith("t-worker")
    assert [error["code"] for error in bad] == [-32602] * 4
    assert general["values"] == ["prompt translate free x"]


def test_sf31_capability_by_revision(run):
    """Completions are a capability since 2025-03-26; without a completer the method is unknown."""
    app = Server("t", version="1")

    async def body(pipe):
        before = await complete(pipe, {"type": "ref/prompt", "name": "p"}, "a", "")
        app.add_prompt(lambda a: "x", name="p", complete={"a": ["x"]})
        return before, await complete(pipe, {"type": "ref/prompt", "name": "p"}, "a", "")

    before, after = serve(run, app, body)
    assert before["code"] == -32601 and after["values"] == ["x"]
    assert ["completions" in app.capabilities(r) for r in ("2024-11-05", "2025-03-26", "2026-07-28")] == [False, True, True]
    assert all(b"completion/complete" in app.completions.methods(r) for r in ("2024-11-05", "2026-07-28"))
    for bad, text in ((dict(prompt="p", resource="r", argument="a"), "not both"), (dict(prompt="p"), "argument"),
                      (dict(prompt="p", argument="a"), "already")):  # fmt: skip
        with pytest.raises(UsageError, match=text):
            app.add_completion(["x"], **bad)
    with pytest.raises(UsageError, match="no meaning"):
        app.add_completion(lambda value, other: [], prompt="q", argument="a")
