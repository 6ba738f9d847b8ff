"""What a server offers and how it says so: capabilities, extensions, codes, keys of `_meta` (SF-01, VN-31, VN-32, JR-30..41)."""

import asyncio
import json
import logging

import msgspec
import pytest
from server_pipe import INITIALIZE, META, Pipe

from headrace import types
from headrace.errors import ResourceNotFound, UsageError
from headrace.protocol.context import Context
from headrace.server.app import Server
from headrace.server.content import Image
from headrace.server.extensions import Extension
from headrace.server.features import CacheHint, check_extensions

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
SPEAKS = META | {CAPABILITIES: {"extensions": {"com.example/search": {"v": 1}}}}


def serve(run, app, body):
    async def main():
        async with app.running():
            return await body(Pipe(app))

    return run(main)


def make(**options):
    app = Server("t", version="1", **options)
    app.add_tool(lambda: "x", name="tool", inline=True)
    app.add_resource("a://1", "x")
    app.add_prompt(lambda a: "x", name="p", complete={"a": ["x"]})
    return app


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_sf01_sf31_sf40_capabilities_by_revision(run, revision):
    """SF-01, SF-40: what is offered is declared, and what is declared is served (VN-27)."""
    app = make()

    async def body(pipe):
        meta = None
        if revision == "2026-07-28":
            meta = META
            found = (await pipe.ask(1, "server/discover", meta=meta))["result"]["capabilities"]
        else:
            found = (await pipe.ask(1, "initialize", INITIALIZE | {"protocolVersion": revision}))["result"]["capabilities"]
            pipe.send(None, "notifications/initialized")
        lists = [await pipe.ask(m, m, {}, meta=meta) for m in ("tools/list", "resources/list", "resources/templates/list", "prompts/list")]
        return found, lists

    found, lists = serve(run, app, body)
    expected = {
        "logging": {},
        "tools": {"listChanged": True},
        "resources": {"subscribe": True, "listChanged": True},
        "prompts": {"listChanged": True},
    }
    if revision != "2024-11-05":
        expected["completions"] = {}
    assert found == expected
    assert all("result" in answer for answer in lists)


def test_sf02_lists_do_not_vary_by_connection_or_earlier_calls(run):
    """SF-02 and, for prompts and resources, SF-01: every connection sees the same bytes, before and after calls."""
    app = make()

    async def body(pipe):
        other = Pipe(app)
        other.handshake()
        methods = ("tools/list", "resources/list", "prompts/list")
        first = [await pipe.ask(m, m, meta=META) for m in methods]
        await pipe.call("tool")
        await other.call("tool", meta=None)
        return first, [await pipe.ask(m, m, meta=META) for m in methods], [await other.ask(m, m, meta=META) for m in methods]

    first, again, other = serve(run, app, body)
    assert first == again == other


def test_jr30_jr31_jr32_codes_of_the_modern_era(run):
    """JR-30..32: nothing of the reserved ranges, never -32002, -32601 for what is not offered."""
    app = make()
    bare = Server("t", version="1")
    asked = [
        ("resources/read", {"uri": "a://no"}), ("resources/read", {}), ("prompts/get", {"name": "no"}), ("prompts/get", {"name": "p"}),
        ("tools/call", {"name": "no"}), ("completion/complete", {}), ("tools/list", {"cursor": "x"}), ("nope", {}),
        ("subscriptions/listen", {}), ("resources/subscribe", {"uri": "a://1"}), ("logging/setLevel", {"level": "info"}),
    ]  # fmt: skip

    async def body(pipe):
        one = [(await pipe.ask(n, m, p, meta=META))["error"]["code"] for n, (m, p) in enumerate(asked)]
        other = Pipe(bare)
        two = [(await other.ask(m, m, {"uri": "a://1", "name": "p"}, meta=META)) for m in ("prompts/list", "prompts/get", "resources/list", "resources/read")]
        return one, two

    async def main():
        async with bare.running(), app.running():
            return await body(Pipe(app))

    one, two = run(main)
    assert one == [-32602] * 7 + [-32601, -32602, -32601, -32601]
    assert [answer["error"]["code"] for answer in two] == [-32601] * 4


def test_sf22_resource_not_found_of_another_server_passes_as_ours(run):
    """SF-22: a proxy that lets the client's exception through answers with the code of its own era."""
    app = Server("t", version="1")

    @app.resource("a://{x}")
    async def proxy(x: str) -> str:
        raise ResourceNotFound(-32002, "theirs", uri=f"b://{x}")

    async def body(pipe):
        modern = await pipe.ask(1, "resources/read", {"uri": "a://1"}, meta=META)
        pipe.handshake()
        return modern, await pipe.ask(2, "resources/read", {"uri": "a://1"})

    modern, legacy = serve(run, app, body)
    assert (modern["error"]["code"], legacy["error"]["code"]) == (-32602, -32002)


def test_sf05_st30_every_message_is_an_answer_or_belongs_to_a_request(run):
    """SF-05: all kinds of content; ST-30: with a listen open nothing else appears on the pipe, and no request ever."""
    app = make()

    @app.tool
    async def all_kinds(ctx: Context) -> list:
        await ctx.progress(1, 2)
        await ctx.log("error", "x")
        return [
            "text",
            Image(b"\x89PNG\r\n\x1a\n"),
            types.ResourceLink(uri="a://1", name="n"),
            types.EmbeddedResource(resource=types.TextResourceContents(uri="a://1", text="x")),
        ]

    async def body(pipe):
        pipe.send("l", "subscriptions/listen", {"notifications": {"toolsListChanged": True}}, meta=META)
        result = await pipe.call("all_kinds", meta=META | {"progressToken": "t"})
        app.hub.changed("tools")
        for _ in range(500):
            if len(pipe.out) > 2:
                break
            await asyncio.sleep(0.005)
        return result, pipe.out

    result, out = serve(run, app, body)
    assert [block["type"] for block in result["result"]["content"]] == ["text", "image", "resource_link", "resource"]
    assert [m["method"].removeprefix("notifications/") for m in out] == ["subscriptions/acknowledged", "progress", "tools/list_changed"]
    assert all("id" not in m for m in out)  # and no log message: it was not asked for (SF-41)


def test_vn31_vn32_extensions_in_both_eras(run):
    app = make(extensions={"com.example/search": {"fuzzy": True}})
    seen = []

    @app.tool(inline=True)
    def look(ctx: Context) -> str:
        seen.append(ctx.client_extensions)
        return ""

    async def body(pipe):
        modern = (await pipe.ask(1, "server/discover", meta=META))["result"]["capabilities"]
        await pipe.call("look", meta=SPEAKS)
        await pipe.call("look")  # VN-28: nothing is kept from the request before
        params = INITIALIZE | {"capabilities": {"extensions": {"x.y/z": {}}}}
        legacy = (await pipe.ask(2, "initialize", params))["result"]["capabilities"]
        pipe.send(None, "notifications/initialized")
        await pipe.call("look", meta=None)
        return modern, legacy

    modern, legacy = serve(run, app, body)
    assert modern["extensions"] == legacy["extensions"] == {"com.example/search": {"fuzzy": True}}
    assert seen == [{"com.example/search": {"v": 1}}, {}, {"x.y/z": {}}]
    assert "extensions" not in make().capabilities("2026-07-28")  # off by default
    for bad in ({"noprefix": {}}, {"/x": {}}, {"x/": {}}, {"a/b": 5}):
        with pytest.raises(UsageError):
            check_extensions(bad)


def test_vn29_vn31_methods_of_an_extension(run):
    """An extension serves methods of its own; clients that do not speak it get -32021 with what is missing."""
    app = make()
    extension = Extension("com.example/search", {"fuzzy": True}, needs_client=True)

    class Query(msgspec.Struct):
        word: str

    @extension.method("search/count", cache=CacheHint(1))
    async def count(query: Query, ctx: Context) -> dict:
        return {"count": len(query.word), "id": ctx.request_id}

    @extension.method("search/raw", inline=True)
    def raw(params) -> dict:
        return {"given": sorted(params)}

    @extension.method("search/none")
    def none() -> None:
        return None

    app.add_extension(extension)

    async def body(pipe):
        good = [
            (await pipe.ask(n, m, p, meta=SPEAKS))["result"]
            for n, (m, p) in enumerate((("search/count", {"word": "abc"}), ("search/raw", {"k": 1}), ("search/none", {})))
        ]
        bad = await pipe.ask("b", "search/count", {"word": 5}, meta=SPEAKS)
        missing = await pipe.ask("m", "search/count", {"word": "abc"}, meta=META)
        pipe.handshake()
        return good, bad, missing, await pipe.ask("l", "search/count", {"word": "abc"})

    good, bad, missing, legacy = serve(run, app, body)
    assert good[0]["count"] == 3 and good[0]["ttlMs"] == 1000 and good[0]["resultType"] == "complete"
    assert good[1]["given"] == ["_meta", "k"] and "ttlMs" not in good[1]
    assert set(good[2]) == {"resultType", "_meta"}
    assert bad["error"]["code"] == -32602
    assert missing["error"]["code"] == -32021
    assert missing["error"]["data"] == {"requiredCapabilities": {"extensions": {"com.example/search": {}}}}
    assert legacy["error"]["code"] == -32601
    assert app.capabilities("2025-11-25")["extensions"] == {"com.example/search": {"fuzzy": True}}
    with pytest.raises(UsageError, match="served already"):
        app.add_extension(extension)
    with pytest.raises(UsageError, match="nothing else"):
        extension.method("search/two")(_two)


def _two(a: int, b: int) -> dict:
    return {}


@pytest.mark.parametrize("key", ["", "a b", "-x", "x-", "1a/x", "a./x", "a//x", "a/b/c", "é", "a-/x"])
def test_jr40_keys_of_meta_are_judged_where_they_are_made(key):
    app = Server("t", version="1")
    for add in (
        lambda: app.add_tool(lambda: "x", name="t", meta={key: 1}),
        lambda: app.add_resource("a://x", "x", meta={key: 1}),
        lambda: app.add_prompt(lambda: "x", name="p", meta={key: 1}),
    ):
        with pytest.raises(UsageError, match="_meta"):
            add()
    assert len(app.tools) == len(app.resources) == len(app.prompts) == 0


def test_jr41_reserved_keys_are_warned_of(caplog):
    """`dev.mcp/` and `com.mcp.tools/` are reserved, `com.example.mcp/` is not; odd keys of peers pass (JR-16)."""
    app = Server("t", version="1")
    with caplog.at_level(logging.WARNING, "headrace.server"):
        app.add_resource("a://ok", "x", meta={"ui": 1, "com.example.mcp/x": 1, "com.example/": 2, "x_y.z-1": 3})
        assert caplog.records == []
        app.add_resource("a://no", "x", meta={"dev.mcp/x": 1})
        app.add_resource("a://no2", "x", meta={"com.modelcontextprotocol.tools/x": 1})
    assert len(caplog.records) == 2


def test_jr42_jr43_trace_context_and_names_pass_untouched(run):
    """JR-42: un-prefixed trace members reach the handler; JR-43: what a client says of itself changes nothing."""
    app = make()
    seen = []

    @app.resource("t://x", inline=True)
    def look(ctx: Context) -> str:
        seen.append({key: ctx.meta.get(key) for key in ("traceparent", "tracestate", "baggage")})
        return "x"

    trace = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=b", "baggage": "k=v"}

    async def body(pipe):
        names = ({"name": "a", "version": "1"}, {"name": "headrace", "version": "0"})
        info = "io.modelcontextprotocol/clientInfo"
        return [await pipe.ask(1, "resources/read", {"uri": "t://x"}, meta=META | trace | {info: n}) for n in names]

    answers = serve(run, app, body)
    assert seen == [trace, trace] and answers[0] == answers[1]


def test_rendering_follows_registration_on_every_revision():
    app = Server("t", version="1", offers=())
    assert b"tools/list" not in app.tables.modern.requests
    app.add_tool(lambda: "x", name="t")
    for revision in (app.tables.modern, *app.tables.by_name.values()):
        assert b"tools/list" in revision.requests
        assert b"resources/list" not in revision.requests
    assert json.loads(app.tools.listing.page("2026-07-28"))["tools"][0]["name"] == "t"
