"""Resources over a raw pipe: lists, templates, reading, errors by era, subscriptions (SF-20..SF-24, SF-51)."""

import asyncio
import base64
import datetime
import enum
import threading
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import pytest
from server_pipe import INITIALIZE, META, Pipe

from headrace import types
from headrace.errors import RpcError, ToolError, UsageError
from headrace.limits import Limits
from headrace.protocol.context import Context
from headrace.server.app import Server
from headrace.server.contents import ResourceResult
from headrace.server.features import CacheHint

PNG = b"\x89PNG\r\n\x1a\n" + bytes(8)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


def serve(run, app, body):
    async def main():
        async with app.running():
            return await body(Pipe(app))

    return run(main)


async def read(pipe, uri, meta=META):
    answer = await pipe.ask("r", "resources/read", {"uri": uri}, meta=meta)
    return answer.get("result") or answer["error"]


def make():
    app = Server("t", version="1")
    app.add_resource("config://text", "hello")
    app.add_resource("config://bytes", PNG)
    app.add_resource("config://json", {"a": [1, 2]}, mime_type="application/vnd.x+json")

    @app.resource("data://async")
    async def soon() -> str:
        """Says it soon."""
        await asyncio.sleep(0)
        return "soon"

    @app.resource("data://thread", mime_type="text/markdown", title="T", size=5, meta={"ui": {"csp": {}}},
                  annotations={"audience": ["user"], "priority": 1, "lastModified": "2026-01-01T00:00:00Z"},
                  icons=[{"src": "https://x/i.png"}])  # fmt: skip
    def threaded() -> str:
        return threading.current_thread().name

    @app.resource("data://inline", inline=True)
    def inline() -> dict:
        return {"x": 1}

    @app.resource("users://{user}/{number}{?flag,when}")
    async def user(user: str, number: int, flag: bool = False, when: datetime.date | None = None) -> dict:
        return {"user": user, "number": number, "flag": flag, "when": when}

    @app.resource("paint://{color}")
    async def paint(color: Color, ctx: Context) -> list:
        return [
            types.TextResourceContents(uri="paint://one", text=f"{color} for {ctx.request_id}"),
            b"\x00\x01",
            types.BlobResourceContents(uri="paint://two", blob="AA==", meta={"k": 1}),
        ]

    return app


def test_sf21_text_and_blob(run):
    async def body(pipe):
        uris = ("config://text", "config://bytes", "config://json", "data://async", "data://thread", "data://inline",
                "users://ann/7?when=2026-01-02&flag=true", "paint://red")  # fmt: skip
        return [await read(pipe, uri) for uri in uris]

    results = serve(run, make(), body)
    for result in results:
        assert result["resultType"] == "complete"
        assert (result["ttlMs"], result["cacheScope"]) == (0, "private")  # SF-51
    text, blob, json, soon, thread, inline, user, paint = [result["contents"] for result in results]
    assert text == [{"uri": "config://text", "mimeType": "text/plain", "text": "hello"}]
    assert blob[0]["mimeType"] == "image/png" and base64.b64decode(blob[0]["blob"]) == PNG
    assert json == [{"uri": "config://json", "mimeType": "application/vnd.x+json", "text": '{"a":[1,2]}'}]
    assert soon[0]["text"] == "soon"
    assert thread[0]["text"].startswith("t-worker") and thread[0]["mimeType"] == "text/markdown"
    assert thread[0]["_meta"] == {"ui": {"csp": {}}}  # SF-78
    assert inline == [{"uri": "data://inline", "mimeType": "application/json", "text": '{"x":1}'}]
    assert msgspec.json.decode(user[0]["text"]) == {"user": "ann", "number": 7, "flag": True, "when": "2026-01-02"}
    assert paint == [
        {"uri": "paint://one", "text": "Color.RED for r"},
        {"uri": "paint://red", "mimeType": "application/octet-stream", "blob": "AAE="},
        {"uri": "paint://two", "blob": "AA==", "_meta": {"k": 1}},
    ]


def test_sf22_jr31_not_found_by_era(run):
    app = make()

    @app.resource("maybe://{key}")
    async def maybe(key: str) -> str | None:
        return None

    async def body(pipe):
        modern = [await read(pipe, uri) for uri in ("config://nope", "maybe://x", "users://ann/seven", "paint://green")]
        shapes = [(await pipe.ask(n, "resources/read", p, meta=META))["error"]["code"] for n, p in enumerate(({}, {"uri": 5}))]
        pipe.handshake()
        legacy = [await read(pipe, uri, None) for uri in ("config://nope", "maybe://x")]
        found = await read(pipe, "config://text", None)
        return modern, shapes, legacy, found

    modern, shapes, legacy, found = serve(run, app, body)
    assert [(e["code"], e["data"]["uri"]) for e in modern[:2]] == [(-32602, "config://nope"), (-32602, "maybe://x")]
    assert modern[2]["code"] == -32602 and "int" in modern[2]["message"]
    assert modern[3]["code"] == -32602
    assert shapes == [-32602, -32602]
    assert [(e["code"], e["data"]["uri"]) for e in legacy] == [(-32002, "config://nope"), (-32002, "maybe://x")]
    assert found == {"contents": [{"uri": "config://text", "mimeType": "text/plain", "text": "hello"}]}  # VN-67


def test_sf20_sf76_lists_by_revision(run):
    app = make()
    registry = app.resources
    pages = {r: msgspec.json.decode(registry.listing.page(r)) for r in ("2024-11-05", "2025-06-18", "2026-07-28")}
    old, middle, new = ({r["uri"]: r for r in page["resources"]} for page in pages.values())
    assert list(new) == ["config://text", "config://bytes", "config://json", "data://async", "data://thread", "data://inline"]
    assert new["config://text"] == {"uri": "config://text", "name": "text", "size": 5}
    assert new["data://async"]["description"] == "Says it soon." and new["data://async"]["name"] == "soon"
    rich = new["data://thread"]
    assert rich["title"] == "T" and rich["icons"] == [{"src": "https://x/i.png"}] and rich["size"] == 5
    assert rich["annotations"]["lastModified"] and rich["_meta"] == {"ui": {"csp": {}}}
    assert set(middle["data://thread"]) == set(rich) - {"icons"}
    assert set(old["data://thread"]) == {"uri", "name", "mimeType", "size", "annotations"}
    assert "lastModified" not in old["data://thread"]["annotations"]
    assert "ttlMs" not in pages["2025-06-18"] and pages["2026-07-28"]["ttlMs"] == 0
    templates = msgspec.json.decode(registry.template_listing.page("2026-07-28"))["resourceTemplates"]
    assert [t["uriTemplate"] for t in templates] == ["users://{user}/{number}{?flag,when}", "paint://{color}"]

    async def body(pipe):
        pipe.handshake()
        return [await pipe.ask(n, m) for n, m in enumerate(("resources/list", "resources/templates/list"))]

    answers = serve(run, app, body)
    assert len(answers[0]["result"]["resources"]) == 6 and len(answers[1]["result"]["resourceTemplates"]) == 2


@pytest.mark.parametrize("uri", [
    "file:///../secret", "file:///a/../../secret", "file:///%2e%2e/secret", "file:///..%2fsecret", "file:////etc/passwd",
    "file:///%2fetc/passwd", "file:///a%00b", "file:///link", "file:///C:/x", "file:///..%5csecret", "file:///a",
])  # fmt: skip
def test_sf24_nothing_leads_out_of_a_directory(run, tmp_path, uri):
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (tmp_path / "secret").write_text("no")
    (root / "a" / "b.txt").write_text("yes")
    (root / "link").symlink_to(tmp_path / "secret")
    app = Server("t", version="1")
    app.add_resource("file:///{+path}", root)

    async def body(pipe):
        return await read(pipe, uri), await read(pipe, "file:///a/b.txt")

    refused, good = serve(run, app, body)
    assert refused["code"] == -32602 and refused["data"] == {"uri": uri}
    assert good["contents"] == [{"uri": "file:///a/b.txt", "mimeType": "text/plain", "text": "yes"}]


def test_files_are_bounded_and_read_anew(run, tmp_path):
    big = tmp_path / "big.bin"
    big.write_bytes(bytes(2000))
    note = tmp_path / "note.md"
    note.write_text("one")
    app = Server("t", version="1", limits=Limits(max_resource_bytes=1000))
    app.add_resource("file:///big", big)
    app.add_resource("file:///note", note)
    app.add_resource("file:///gone", tmp_path / "gone")

    async def body(pipe):
        first = await read(pipe, "file:///note")
        note.write_text("two")
        return first, await read(pipe, "file:///note"), await read(pipe, "file:///big"), await read(pipe, "file:///gone")

    first, second, large, gone = serve(run, app, body)
    assert [r["contents"][0]["text"] for r in (first, second)] == ["one", "two"]
    assert first["contents"][0]["mimeType"] == "text/markdown"
    assert large["code"] == -32603 and "1000" in large["message"]
    assert gone["code"] == -32602


def test_sf51_cache_hints(run):
    app = Server("t", version="1")
    app.add_resource("a://plain", "x")
    app.add_resource("a://own", "x", cache=CacheHint(60, "public"))

    @app.resource("a://result")
    async def result():
        return ResourceResult("x", cache=CacheHint(1.5), meta={"k": 1})

    async def body(pipe):
        before = await read(pipe, "a://plain")
        app.cache_hints(discover=CacheHint(5, "public"), tools=CacheHint(6), resources=CacheHint(7), templates=CacheHint(8),
                        read=CacheHint(9, "public"))  # fmt: skip
        methods = ("server/discover", "tools/list", "resources/list", "resources/templates/list")
        lists = [(await pipe.ask(m, m, meta=META))["result"] for m in methods]
        reads = [await read(pipe, f"a://{n}") for n in ("plain", "own", "result")]
        pipe.handshake()
        return before, lists, reads, await read(pipe, "a://result", None)

    before, lists, reads, legacy = serve(run, app, body)
    assert before["ttlMs"] == 0
    assert [r["ttlMs"] for r in lists] == [5000, 6000, 7000, 8000]
    assert [r["cacheScope"] for r in lists] == ["public", "private", "private", "private"]
    assert [(r["ttlMs"], r["cacheScope"]) for r in reads] == [(9000, "public"), (60000, "public"), (1500, "private")]
    assert reads[2]["_meta"]["k"] == 1 and reads[2]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "t"
    assert legacy == {"contents": [{"uri": "a://result", "mimeType": "text/plain", "text": "x"}], "_meta": {"k": 1}}
    for bad in ({"ttl": -1}, {"ttl": float("nan")}, {"scope": "all"}):
        with pytest.raises(UsageError):
            CacheHint(**bad)


def test_jr38_errors_of_functions(run, caplog):
    app = Server("t", version="1")

    @app.resource("a://boom")
    def boom() -> str:
        raise ValueError("leak")

    @app.resource("a://tool", inline=True)
    def tool() -> str:
        raise ToolError("try later")

    @app.resource("a://rpc")
    async def rpc() -> str:
        raise RpcError(7, "mine")

    @app.resource("a://slow", timeout=0.02)
    async def slow() -> str:
        await asyncio.sleep(30)
        return ""

    @app.resource("a://nan")
    async def nan() -> dict:
        return {"x": float("nan")}

    async def body(pipe):
        return [await read(pipe, f"a://{n}") for n in ("boom", "tool", "rpc", "slow", "nan")]

    boom_, tool_, rpc_, slow_, nan_ = serve(run, app, body)
    assert boom_ == {"code": -32603, "message": "internal error"}
    logged = [line for record in caplog.records if record.exc_info for line in record.exc_info[1].__notes__]
    assert logged == ["resource 'a://boom' failed", "resource 'a://nan' failed"]  # whose fault it was
    assert tool_ == {"code": -32603, "message": "try later"}
    assert rpc_ == {"code": 7, "message": "mine"}
    assert "0.02 s" in slow_["message"]
    assert nan_["code"] == -32603


def test_usage_errors_name_the_cure():
    app = Server("t", version="1")
    app.add_resource("a://x", "x")

    async def one(a: str) -> str:
        return a

    bad = [
        ("a://x", "again", "registered already"),
        ("noscheme", "x", "scheme"),
        ("a://{b}", one, "no parameter 'b'"),
        ("a://y", one, "is no variable"),
        ("a://{a}{b}", one, "cannot be told apart"),
        ("a://{a}", "text", "function"),
        ("a://{a}", Path("/nonexistent-directory"), "no directory"),
        ("a://z", None, "None"),
    ]
    for uri, content, text in bad:
        with pytest.raises(UsageError, match=text):
            app.add_resource(uri, content)
    with pytest.raises(UsageError, match="unknown resource option 'mime'"):
        app.add_resource("a://q", "x", mime="y")
    with pytest.raises(UsageError, match="inline"):
        app.add_resource("a://{a}", one, inline=True)
    with pytest.raises(UsageError, match="has no argument 'c'"):
        app.add_resource("a://{a}", one, complete={"c": ["x"]})
    with pytest.raises(UsageError, match="JSON"):
        app.add_resource("a://m", "x", meta={"x": object()})
    assert app.resources.uris() == ["a://x"]


def test_vn27_nothing_registered_is_not_offered(run):
    app = Server("t", version="1")
    early = Server("t", version="1", offers=("resources", "prompts"))

    async def body(pipe):
        before = [(await pipe.ask(m, m, {"uri": "a://x"}, meta=META))["error"]["code"] for m in ("resources/list", "resources/read", "completion/complete")]
        capabilities = (await pipe.ask(1, "server/discover", meta=META))["result"]["capabilities"]
        app.add_resource("a://x", "x")
        after = await pipe.ask(2, "resources/list", meta=META)
        app.remove_resource("a://x")
        empty = await pipe.ask(3, "resources/list", meta=META)
        return before, capabilities, after, empty

    before, capabilities, after, empty = serve(run, app, body)
    assert before == [-32601] * 3
    assert set(capabilities) == {"tools", "logging"}
    assert len(after["result"]["resources"]) == 1 and empty["result"]["resources"] == []
    assert set(early.capabilities("2025-11-25")) == {"logging", "resources", "prompts"}
    with pytest.raises(UsageError, match="there is no feature"):
        Server("t", version="1", offers=("tool",))


def test_b113_lists_change_while_running_from_threads(run):
    """B113: each kind is told once a burst, templates as resources (SF-54)."""
    app = make()

    async def body(pipe):
        pipe.handshake()

        def many():
            for n in range(50):
                app.add_resource(f"late://{n}", "x")
            app.add_resource("late://{n}", lambda n: "x", name="late")
            app.add_prompt(lambda: "x", name="p")

        await asyncio.to_thread(many)
        for _ in range(500):
            notes = {m["method"] for m in pipe.out}
            if len(notes) > 1:
                break
            await asyncio.sleep(0.005)
        listed = await pipe.ask(1, "resources/list")
        return [m["method"] for m in pipe.out], listed

    notes, listed = serve(run, app, body)
    assert set(notes) == {"notifications/resources/list_changed", "notifications/prompts/list_changed"}
    assert len(notes) <= 4
    assert len(listed["result"]["resources"]) == 56


def test_sf23_subscribe_and_unsubscribe(run):
    app = make()
    app.set_limits(Limits(max_subscriptions=2, max_uri_bytes=100))

    async def body(pipe):
        other = Pipe(app)
        for each in (pipe, other):
            each.handshake()
        assert (await pipe.ask(1, "resources/subscribe", {"uri": "config://text"}))["result"] == {}
        assert (await pipe.ask(2, "resources/subscribe", {"uri": "config://text"}))["result"] == {}
        assert (await pipe.ask(3, "resources/subscribe", {"uri": "x://2"}))["result"] == {}
        over = await pipe.ask(4, "resources/subscribe", {"uri": "x://3"})
        long = await pipe.ask(5, "resources/subscribe", {"uri": "x://" + "y" * 100})
        modern = await pipe.ask(6, "resources/subscribe", {"uri": "config://text"}, meta=META)
        for _ in range(20):
            app.notify_resource_updated("config://text")
        app.notify_resource_updated("x://unwatched")
        for _ in range(500):
            if pipe.out:
                break
            await asyncio.sleep(0.005)
        notes = list(pipe.out)
        pipe.out.clear()
        assert (await pipe.ask(7, "resources/unsubscribe", {"uri": "config://text"}))["result"] == {}
        assert (await pipe.ask(8, "resources/unsubscribe", {"uri": "never"}))["result"] == {}
        app.notify_resource_updated("config://text")
        app.notify_resource_updated("x://2")
        for _ in range(500):
            if pipe.out:
                break
            await asyncio.sleep(0.005)
        later = list(pipe.out)
        pipe.mux.close("gone")
        app.notify_resource_updated("x://2")
        watched = len(app.hub._watchers), len(app.hub._receivers)
        return over, long, modern, notes, later, other.out, watched

    over, long, modern, notes, later, others, watched = serve(run, app, body)
    assert over["error"]["code"] == -32602 and "2" in over["error"]["message"]
    assert long["error"]["code"] == -32602
    assert modern["error"]["code"] == -32601  # VN-64
    assert notes == [{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": "config://text"}}]
    assert [m["params"]["uri"] for m in later] == ["x://2"]
    assert others == []
    assert watched[0] == 0


def test_literal_and_enum_variables():
    app = Server("t", version="1")

    @app.resource("a://{mode}")
    async def mode(mode: Annotated[Literal["fast", "slow"], "how"]) -> str:
        return mode

    assert "completions" in app.capabilities("2025-03-26")
    assert "completions" not in app.capabilities("2024-11-05")
    assert INITIALIZE["protocolVersion"] == "2025-11-25"
