"""The Server object over a raw pipe: eras on one pipe, registration at run time, lists, lifespan."""

import asyncio
import contextlib

import msgspec
import pytest
from server_pipe import INITIALIZE, META, Pipe

from headrace.errors import RpcError, ToolError, UsageError
from headrace.limits import Limits
from headrace.protocol.context import Context
from headrace.server.app import Server

MISSING = "params._meta must hold"


class Forecast(msgspec.Struct):
    city: str
    days: int


def make(**options):
    app = Server("t", version="1.2.3", **options)

    @app.tool
    async def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @app.tool
    async def forecast(city: str, days: int = 3) -> Forecast:
        return Forecast(city, days)

    @app.tool(inline=True)
    def upper(text: str) -> str:
        return text.upper()

    @app.tool
    def threaded(text: str) -> str:
        return text[::-1]

    return app


def serve(run, app, body):
    async def main():
        async with app.running():
            return await body(Pipe(app))

    return run(main)


def test_vn61_both_eras_on_one_pipe(run):
    """VN-60, VN-61: `_meta` decides per message, also after an initialize."""

    async def body(pipe):
        modern = await pipe.call("add", {"a": 1, "b": 2})
        pipe.handshake()
        legacy = await pipe.call("add", {"a": 1, "b": 2}, meta=None)
        again = await pipe.call("add", {"a": 1, "b": 2})
        return modern["result"], legacy["result"], again["result"]

    modern, legacy, again = serve(run, make(), body)
    assert modern == again
    assert modern["resultType"] == "complete"  # JR-10
    assert modern["structuredContent"] == 3
    assert modern["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "t", "version": "1.2.3"}  # VN-30
    assert legacy == {"content": [{"type": "text", "text": "3"}]}  # VN-67: nothing of the modern era


def test_vn21_vn22_vn66_incomplete_or_foreign_meta(run):
    async def body(pipe):
        version, capabilities = META
        answers = [
            await pipe.ask(1, "tools/list"),
            await pipe.ask(2, "tools/list", meta={version: "2026-07-28"}),
            await pipe.ask(3, "tools/list", meta={capabilities: {}}),
            await pipe.ask(4, "tools/list", meta={version: 5, capabilities: {}}),
            await pipe.ask(5, "tools/list", meta={version: "2026-07-28", capabilities: []}),
            await pipe.ask(6, "tools/list", meta={version: "2030-01-01", capabilities: {}}),
            await pipe.ask(7, "tools/list", meta={version: "2025-11-25", capabilities: {}}),
        ]
        return [answer["error"] for answer in answers]

    errors = serve(run, make(), body)
    assert [error["code"] for error in errors] == [-32602] * 5 + [-32022] * 2
    assert all(error["message"].startswith(MISSING) for error in errors[:5])
    assert errors[5]["data"] == {"supported": ["2026-07-28"], "requested": "2030-01-01"}
    assert errors[6]["data"]["requested"] == "2025-11-25"


def test_vn64_removed_methods_in_the_modern_era(run):
    async def body(pipe):
        pipe.handshake()
        return [
            (await pipe.ask(n, method, INITIALIZE, meta=META))["error"]["code"]
            for n, method in enumerate(("initialize", "ping", "logging/setLevel", "resources/subscribe", "prompts/list"))
        ]

    assert serve(run, make(), body) == [-32601] * 5


def test_vn02_vn08_vn09_initialize(run):
    async def body(pipe):
        ping = await pipe.ask(0, "ping")  # MX-20: before the handshake
        bad = await pipe.ask(1, "initialize", {"capabilities": {}})
        newest = await pipe.ask(2, "initialize", {**INITIALIZE, "protocolVersion": "2026-07-28"})
        second = await pipe.ask(3, "initialize", INITIALIZE)
        return ping, bad, newest, second

    ping, bad, newest, second = serve(run, make(instructions="read me"), body)
    assert ping["result"] == {}
    assert bad["error"]["code"] == -32602
    assert newest["result"]["protocolVersion"] == "2025-11-25"
    assert newest["result"]["instructions"] == "read me"
    assert newest["result"]["capabilities"] == {"tools": {"listChanged": True}, "logging": {}}
    assert second["error"]["code"] == -32600


def test_vn24_discover(run):
    async def body(pipe):
        return (await pipe.ask("d", "server/discover", meta=META))["result"]

    result = serve(run, make(title="T"), body)
    assert result["supportedVersions"] == ["2026-07-28"]
    assert result["ttlMs"] == 0 and result["cacheScope"] == "private"  # SF-51
    assert "serverInfo" not in result
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["title"] == "T"
    assert result["capabilities"]["tools"] == {"listChanged": True}  # told through subscriptions/listen


def test_sf50_pages_and_cursors(run):
    app = Server("t", version="1", limits=Limits(page_size=2))
    for n in range(5):
        app.add_tool(lambda: "x", name=f"tool{n}", inline=True)

    async def body(pipe):
        names, cursor, pages = [], None, 0
        while True:
            params = {} if cursor is None else {"cursor": cursor}
            result = (await pipe.ask(pages, "tools/list", params, meta=META))["result"]
            assert result["ttlMs"] == 0
            names += [tool["name"] for tool in result["tools"]]
            pages += 1
            if "nextCursor" not in result:
                break
            cursor = result["nextCursor"]
        bad = [
            (await pipe.ask(n, "tools/list", {"cursor": c}, meta=META))["error"]["code"]
            for n, c in enumerate(("", "nonsense", 5, "AAAA"), 10)
        ]
        null = await pipe.ask(20, "tools/list", {"cursor": None}, meta=META)
        return names, pages, bad, null

    names, pages, bad, null = serve(run, app, body)
    assert names == [f"tool{n}" for n in range(5)]
    assert pages == 3
    assert bad == [-32602] * 4
    assert len(null["result"]["tools"]) == 2


def test_sf60_b113_list_changed_once_a_burst(run):
    async def body(pipe):
        app = pipe.session.server
        before = Pipe(app)
        pipe.handshake()
        for n in range(100):
            app.add_tool(lambda: "x", name=f"late{n}", inline=True)
        await asyncio.sleep(0.02)
        burst = [m for m in pipe.out if m.get("method") == "notifications/tools/list_changed"]
        listed = await pipe.ask(1, "tools/list")
        called = await pipe.call("late99", meta=None)
        app.remove_tool("late99")
        gone = await pipe.call("late99", meta=None)
        for _ in range(500):
            changes = [m for m in pipe.out if m.get("method") == "notifications/tools/list_changed"]
            if len(changes) > 1:
                break
            await asyncio.sleep(0.01)
        return burst, listed, called, gone, changes, before.out

    burst, listed, called, gone, changes, uninitialized = serve(run, make(), body)
    assert len(burst) == 1 and "id" not in burst[0]
    assert len(listed["result"]["tools"]) == 104
    assert called["result"]["content"][0]["text"] == "x"
    assert gone["error"]["code"] == -32602
    assert len(changes) == 2
    assert uninitialized == []  # VN-05: nothing before `initialized`


def test_jr35_jr36_b84_bad_calls(run):
    async def body(pipe):
        pipe.handshake()
        shapes = [
            {"name": "nope"}, {}, {"name": 5}, {"name": "add", "arguments": []}, {"name": "add", "arguments": "x"},
        ]  # fmt: skip
        codes = [(await pipe.ask(n, "tools/call", p))["error"]["code"] for n, p in enumerate(shapes)]
        null = await pipe.ask(10, "tools/call", {"name": "upper", "arguments": None})
        wrong = await pipe.call("add", {"a": 1, "b": "secret"}, meta=None)
        params = [(await pipe.ask(n, "ping", p)) for n, p in ((20, []), (21, 5), (22, None))]
        return codes, null, wrong, params

    codes, null, wrong, params = serve(run, make(), body)
    assert codes == [-32602] * 5
    assert null["result"]["isError"] is True and "text" in null["result"]["content"][0]["text"]
    text = wrong["result"]["content"][0]["text"]
    assert wrong["result"]["isError"] is True
    assert "b" in text and "int" in text and "secret" not in text
    assert [p.get("error", {}).get("code") for p in params] == [-32602, -32602, None]


def test_every_kind_of_tool_and_result(run):
    async def body(pipe):
        return [
            (await pipe.call("upper", {"text": "abc"}))["result"],
            (await pipe.call("threaded", {"text": "abc"}))["result"],
            (await pipe.call("forecast", {"city": "Oslo"}))["result"],
        ]

    upper, threaded, forecast = serve(run, make(), body)
    assert upper["content"] == [{"type": "text", "text": "ABC"}]
    assert threaded["content"] == [{"type": "text", "text": "cba"}]
    assert forecast["structuredContent"] == {"city": "Oslo", "days": 3}


class Unprintable(Exception):
    def __str__(self):
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    "raised",
    [
        asyncio.CancelledError(), StopIteration(1), RecursionError(), ExceptionGroup("g", [ValueError("leak")]),
        Unprintable(), ValueError("leak"), SystemExit(3), type("Odd", (BaseException,), {})("leak"),
    ],
    ids=lambda e: type(e).__name__,
)  # fmt: skip
@pytest.mark.parametrize("suspends", [False, True])
def test_b86_handler_errors_are_one_answer_each(run, raised, suspends, caplog):
    """B86, JR-38: one error answer, the text of unexpected exceptions stays here, the pipe lives on."""
    if suspends and isinstance(raised, SystemExit):
        pytest.skip("a SystemExit in a later step of a task leaves the event loop, as in asyncio")
    app = make()

    @app.tool
    async def boom() -> str:
        if suspends:
            await asyncio.sleep(0)
        raise raised

    async def body(pipe):
        answer = await pipe.call("boom")
        alive = await pipe.call("add", {"a": 1, "b": 1}, id="alive")
        return answer, alive, pipe.mux.debug_counts()

    answer, alive, counts = serve(run, app, body)
    assert answer["result"]["isError"] is True
    assert "leak" not in str(answer)
    assert alive["result"]["structuredContent"] == 2
    assert set(counts.values()) == {0}


def test_tool_errors_and_rpc_errors_reach_the_client(run):
    app = make()

    @app.tool
    async def refuses() -> str:
        raise ToolError("no such city: Ösløs")

    @app.tool
    async def protocol() -> str:
        raise RpcError(1234, "quota", {"left": 0})

    async def body(pipe):
        return await pipe.call("refuses"), await pipe.call("protocol")

    refused, error = serve(run, app, body)
    assert refused["result"]["content"] == [{"type": "text", "text": "no such city: Ösløs"}]
    assert refused["result"]["isError"] is True
    assert error["error"] == {"code": 1234, "message": "quota", "data": {"left": 0}}


@pytest.mark.parametrize("value", [float("nan"), {"x": float("inf")}, object(), (n for n in range(3)), "\ud800"])
def test_b105_b111_results_without_json_form(run, value, caplog):
    app = Server("t", version="1")

    @app.tool
    async def odd():
        return value

    async def body(pipe):
        return await pipe.call("odd"), await pipe.call("odd", id="again")

    for answer in serve(run, app, body):
        assert answer["result"]["isError"] is True
        assert "NaN" not in str(answer)


def test_mx02_mx03_progress_and_sf41_log(run):
    app = Server("t", version="1")

    @app.tool
    async def work(ctx: Context) -> str:
        await ctx.progress(1, 3)
        await ctx.progress(1, 3)  # not an increase: dropped
        await ctx.progress(2.5, 3, "half")
        await ctx.log("debug", {"a": 1}, "l")
        await ctx.log("error", "bad")
        with pytest.raises(ValueError, match="use one of"):
            ctx.log("loud", 1)
        return f"{ctx.protocol_version} {ctx.client_info} {ctx.headers} {ctx.request_id!r}"

    async def body(pipe):
        silent = await pipe.call("work", id=0)
        none = list(pipe.out)
        pipe.out.clear()
        meta = {**META, "progressToken": "", "io.modelcontextprotocol/logLevel": "error"}
        answer = await pipe.call("work", id="x", meta=meta)
        some = list(pipe.out)
        bad = await pipe.call("work", id=3, meta={**META, "io.modelcontextprotocol/logLevel": "loud"})
        return silent, none, answer, some, bad

    silent, none, _, some, bad = serve(run, app, body)
    assert none == []  # B79, SF-41: nobody asked
    assert silent["result"]["content"][0]["text"] == "2026-07-28 None {} 0"
    assert [m["method"] for m in some] == ["notifications/progress"] * 2 + ["notifications/message"]
    assert [m["params"]["progress"] for m in some[:2]] == [1, 2.5]
    assert some[0]["params"]["progressToken"] == ""
    assert some[2]["params"] == {"level": "error", "data": "bad"}
    assert bad["error"]["code"] == -32602


def test_sf40_set_level_in_the_handshake_era(run):
    app = Server("t", version="1")

    @app.tool
    async def speak(ctx: Context) -> str:
        for level in ("debug", "info", "warning"):
            await ctx.log(level, level)
        return str(ctx.client_info)

    async def body(pipe):
        pipe.handshake()
        bad = await pipe.ask(1, "logging/setLevel", {"level": "loud"})
        await pipe.call("speak", meta=None)
        first, pipe.out[:] = [m["params"]["level"] for m in pipe.out], []
        await pipe.ask(2, "logging/setLevel", {"level": "warning"})
        answer = await pipe.call("speak", meta=None)
        return bad, first, [m["params"]["level"] for m in pipe.out], answer

    bad, first, second, answer = serve(run, app, body)
    assert bad["error"]["code"] == -32602
    assert first == ["info", "warning"]
    assert second == ["warning"]
    assert answer["result"]["content"][0]["text"] == "{'name': 't', 'version': '0'}"


def test_tool_timeout_is_an_error_result(run):
    app = Server("t", version="1")
    ended = []

    @app.tool(timeout=0.02)
    async def slow() -> str:
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return "late"

    async def body(pipe):
        answer = await pipe.call("slow")
        await asyncio.sleep(0.01)
        return answer, pipe.mux.debug_counts()

    answer, counts = serve(run, app, body)
    assert answer["result"]["isError"] is True and "0.02 s" in answer["result"]["content"][0]["text"]
    assert ended == ["cancelled"]
    assert set(counts.values()) == {0}


def test_b98_lifespan_once_for_all_users(run):
    events = []

    @contextlib.asynccontextmanager
    async def lifespan(server):
        events.append("enter")
        await asyncio.sleep(0.01)
        yield {"model": server.name}
        events.append("exit")

    app = Server("t", version="1", lifespan=lifespan)

    @app.tool
    async def state(ctx: Context) -> str:
        return ctx.lifespan["model"]

    async def main():
        async def user():
            async with app.running():
                return (await Pipe(app).call("state"))["result"]["content"][0]["text"]

        return await asyncio.gather(user(), user(), user())

    assert run(main) == ["t"] * 3
    assert events == ["enter", "exit"]
    assert run(main) == ["t"] * 3  # a second run, on a second loop
    assert events == ["enter", "exit"] * 2


def test_b98_lifespan_that_fails(run):
    @contextlib.asynccontextmanager
    async def lifespan(server):
        raise OSError("no database")
        yield

    app = Server("t", version="1", lifespan=lifespan)

    async def main():
        with pytest.raises(OSError, match="no database"):
            async with app.running():
                pass
        with pytest.raises(RuntimeError, match="not running"):
            _ = app.runtime

    run(main)


def test_registration_errors_say_what_to_do():
    app = make()
    with pytest.raises(UsageError, match="registered already"):
        app.add_tool(lambda: "x", name="add")
    with pytest.raises(UsageError, match="unknown tool option 'titel'"):
        app.add_tool(lambda: "x", name="y", titel="z")
    with pytest.raises(UsageError, match="inline=True is for plain functions"):

        @app.tool(inline=True)
        async def bad() -> str:
            return ""

    with pytest.raises(UsageError, match="positive number of seconds"):
        app.add_tool(lambda: "x", name="y", timeout=0)
    with pytest.raises(KeyError):
        app.remove_tool("nope")
    assert app.tools.names() == ["add", "forecast", "upper", "threaded"]


def test_vn03_a_forced_revision_is_not_traded_for_another(run):
    """The server answers an unknown revision with one it knows (VN-02); a client that was told which one to
    speak gives up instead of speaking another (VN-03)."""
    from headrace import ConnectFailed, connect

    async def main():
        older = make()
        del older.tables.by_name["2025-06-18"]
        with pytest.raises(ConnectFailed, match="does not speak 2025-06-18"):
            async with connect(older, revision="2025-06-18"):
                pass
        async with connect(make(), revision="2025-11-25") as client:
            return client.protocol_version

    assert run(main) == "2025-11-25"


def test_a_bare_list_annotation_may_hold_content(run):
    """`list`, `list[Any]` and `list[object]` promise nothing: content blocks may be among the values."""
    from headrace import Image

    app = Server("t", version="1")
    png = b"\x89PNG\r\n\x1a\n" + bytes(8)

    @app.tool
    async def bare() -> list:
        return ["text", Image(png)]

    @app.tool
    async def objects() -> list[object]:
        return [1, "two"]

    async def body(pipe):
        return (await pipe.call("bare"))["result"], (await pipe.call("objects"))["result"]

    mixed, plain = serve(run, app, body)
    assert [block["type"] for block in mixed["content"]] == ["text", "image"]
    assert "structuredContent" not in mixed
    assert plain["structuredContent"] == [1, "two"]


def test_run_inside_a_loop_says_what_to_do(run):
    async def main():
        with pytest.raises(UsageError, match=r"await serve\(\.\.\.\)"):
            make().run(http=0)

    run(main)


def test_b17_a_handler_that_only_sends_lets_others_in(run):
    """B17, B70: `await ctx.progress()` is a real suspension now and then, so one sender cannot hold the loop."""
    app = make()
    seen = []

    @app.tool
    async def chatter(ctx: Context) -> str:
        for n in range(10_000):
            await ctx.progress(n)
            if ctx.cancelled:
                return "stopped"
            seen.append(n)
        return "done"

    async def body(pipe):
        pipe.send("a", "tools/call", {"name": "chatter"}, meta=META)
        other = await pipe.call("add", {"a": 1, "b": 1}, id="b")
        at = len(seen)
        pipe.send(None, "notifications/cancelled", {"requestId": "a"})
        await asyncio.sleep(0.05)
        return other, at, len(seen), pipe.mux.debug_counts()

    other, at, end, counts = serve(run, app, body)
    assert other["result"]["structuredContent"] == 2
    assert at < 10_000 and end < 10_000
    assert set(counts.values()) == {0}


@pytest.mark.parametrize("number", ["1e400", "9" * 5000, "-1e999"])
def test_b105_numbers_out_of_range_in_meta_do_not_fail_a_tool(run, number):
    app = Server("t", version="1")

    @app.tool
    async def look(ctx: Context) -> str:
        await ctx.log("info", "x")
        return str(sorted(ctx.meta)[-1])

    async def body(pipe):
        frame = (
            '{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"look","_meta":{'
            '"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
            '"io.modelcontextprotocol/clientCapabilities":{},"x":' + number + "}}}"
        )
        pipe.raw(frame.encode())
        return pipe.out

    [answer] = serve(run, app, body)
    assert answer["result"]["content"][0]["text"] == "x"


@pytest.mark.parametrize("bad", [b'{"a":nonsense}', b'{"a":"\xff\xfe"}', b'{"a":"\\ud800"}'])
@pytest.mark.parametrize("method", ["tools/list", "server/discover", "tools/call"])
def test_jr02_st07_long_frames_are_checked_whole(run, method, bad):
    """JR-02, ST-07, B84: broken JSON is -32700 in long frames as in short ones, also where nobody decodes it."""

    async def body(pipe):
        pad = b'"pad":"' + b"x" * 5000 + b'"'
        meta = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
        meta += b'"io.modelcontextprotocol/clientCapabilities":{}}'
        pipe.raw(
            b'{"jsonrpc":"2.0","id":1,"method":"' + method.encode() + b'","params":{"name":"add",' + pad + b","
            + meta + b',"arguments":' + bad + b"}}"
        )
        return pipe.out, await pipe.call("add", {"a": 1, "b": 1}, id="alive")

    out, alive = serve(run, make(), body)
    assert out[0]["error"]["code"] == -32700
    assert alive["result"]["structuredContent"] == 2
