"""What users meet every day, end to end: registries of thousands of tools, and peers whose capabilities are odd (JR-16)."""

import pytest
from asking_support import AskPipe, text_of
from scripted_peer import MODERN, Script, error, handshake

from headrace import CannotAsk, Context, NotOffered, Server, connect
from headrace.jsonrpc import R1, R3, R4, R5
from headrace.transports.http_server import serve_http
from headrace.transports.stream import serve_lines

MANY = 5_000
ODD = [
    {"tools": True, "foo": 3, "prompts": None, "logging": "x", "extensions": [1], "tasks": 5, "experimental": 0},
    {"tools": {"listChanged": "yes", "zig": {"zag": 1}}, "resources": {"subscribe": None}, "": {}},
    [],
    None,
    "tools",
    7,
]


@pytest.fixture(scope="module")
def crowded():
    """(app, names of its tools in their order)"""
    app = Server("crowded", version="1")
    names = [f"tool_{number:04}" for number in range(MANY)]
    for number, name in enumerate(names):

        def tool(n: int = number) -> int:
            return n

        app.add_tool(tool, name=name, inline=True)
    return app, names


@pytest.mark.parametrize("revision", [R1, R4, R5])
@pytest.mark.parametrize("kind", ["unix", "http"])
def test_sf02_sf50_five_thousand_tools(run, crowded, tmp_path, revision, kind):
    """SF-02, SF-50: all of them, in one order, over pages that do not shift; the last one as callable as the first."""
    app, names = crowded

    async def main():
        async with app.running():
            if kind == "http":
                listener = await serve_http(app, host="127.0.0.1", port=0)
                target = listener.url
            else:
                listener = await serve_lines(app, unix=str(tmp_path / "s"))
                target = f"unix:{tmp_path / 's'}"
            async with connect(target, revision=revision) as client:
                assert [tool.name for tool in await client.list_tools()] == names
                first = await client.list_tools_page()
                size = len(first.tools)
                assert 0 < size < MANY / 2
                app.remove_tool(names[0])  # between two pages: nothing is skipped, nothing comes twice
                second = await client.list_tools_page(first.next_cursor)
                assert [tool.name for tool in second.tools] == names[size : 2 * size]
                del names[0]
                assert [tool.name for tool in await client.list_tools(refresh=True)] == names
                assert (await client.call_tool(names[-1])).text == str(MANY - 1)
            await listener.close()

    run(main)


@pytest.mark.parametrize("odd", ODD, ids=range(len(ODD)))
@pytest.mark.parametrize("era", ["handshake", "modern"])
def test_jr16_servers_with_odd_capabilities(run, era, odd):
    """JR-16: what nobody knows is left alone, what is no object offers nothing, and the tools work all the same."""

    async def main():
        tools = {"tools": [{"name": "t", "inputSchema": {"type": "object"}}]}
        answers = {"tools_list": tools, "tools_call": {"content": [], "resultType": "complete"}, "logging_setLevel": {}}
        if era == "modern":
            answers["discover"] = {**MODERN, "capabilities": odd}
        else:
            answers |= {"discover": error(-32601), "initialize": {**handshake(), "capabilities": odd}}
        options = {"on_list_changed": print, "on_log": print, "log_level": "info", "tasks": True, "timeout": 5}
        async with Script(**answers) as peer, connect(peer.target, **options) as client:
            assert client.capabilities == (odd if isinstance(odd, dict) else {})
            assert [tool.name for tool in await client.list_tools()] == ["t"]
            assert (await client.call_tool("t")).content == []
            for refused in (client.list_prompts, lambda: client.subscribe("a://x")):
                with pytest.raises(NotOffered):
                    await refused()

    run(main)


@pytest.mark.parametrize("revision", [R4, R5])
@pytest.mark.parametrize("odd", [True, "x", 7, [], None])
def test_jr16_clients_with_odd_capabilities(run, revision, odd):
    """JR-16: a capability that is no object is none, members of it that nobody knows do no harm, and the session goes on."""
    app = Server("t", version="1")

    @app.tool
    async def ask(ctx: Context, what: str) -> str:
        try:
            if what == "elicit":
                return (await ctx.elicit("?")).action
            if what == "sample":
                return (await ctx.sample("?", max_tokens=1)).model
            return str(len(await ctx.list_roots()))
        except CannotAsk as exc:
            return f"cannot: {exc}"

    def answer(method, params):
        if method == "sampling/createMessage":
            return {"role": "assistant", "content": {"type": "text", "text": "x"}, "model": "m"}
        return {"roots": []} if method == "roots/list" else {"action": "accept", "content": {}}

    async def main():
        async with app.running():
            none = AskPipe(app, revision, {"elicitation": odd, "sampling": odd, "roots": odd, "zig": odd})
            some = AskPipe(app, revision, {"elicitation": {"zig": odd}, "sampling": {"zig": odd}, "roots": {"zig": odd}, "zig": odd})
            for what, answered in (("elicit", "accept"), ("sample", "m"), ("roots", "0")):
                said = text_of(await none.tool("ask", answer, {"what": what}))
                assert said.startswith("cannot: the client did not declare")
                assert what == "elicit" or text_of(await some.tool("ask", answer, {"what": what})) == answered
            none.mux.close()
            some.mux.close()

    run(main)


@pytest.mark.parametrize("revision", [R1, R3, R4, R5])
def test_sf78_mcp_apps_pass_through(run, revision):
    """SF-78: `_meta.ui` of tools and resources, `ui://` addresses and the type of their pages arrive as they are; a tool
    sees whether its client shows pages, and text is what others get."""
    ui, page, csp = "io.modelcontextprotocol/ui", "text/html;profile=mcp-app", {"csp": {"connectDomains": ["https://x.example"]}}
    app = Server("apps", version="1", extensions={ui: {}})

    @app.tool(meta={"ui": {"resourceUri": "ui://apps/clock", "visibility": ["model", "app"]}})
    async def clock(ctx: Context) -> str:
        shows = (ctx.client_capabilities.get("extensions") or {}).get(ui, {})
        return "a page" if page in shows.get("mimeTypes", []) else "12:00"

    @app.resource("ui://apps/clock", mime_type=page, meta={"ui": csp})
    async def clock_page() -> str:
        return "<!doctype html><p>é</p>"

    async def main():
        settings = {ui: {"mimeTypes": [page]}}
        async with connect(app, revision=revision, extensions=settings) as client, connect(app, revision=revision) as plain:
            assert client.capabilities["extensions"][ui] == {}
            (tool,) = await client.list_tools()
            (resource,) = await client.list_resources()
            assert (resource.uri, resource.mime_type) == ("ui://apps/clock", page)
            if revision >= R3:  # before, objects have no _meta
                assert tool.meta == {"ui": {"resourceUri": "ui://apps/clock", "visibility": ["model", "app"]}}
                assert resource.meta == {"ui": csp}
            (content,) = (await client.read_resource(tool.meta["ui"]["resourceUri"] if revision >= R3 else resource.uri)).contents
            assert (content.uri, content.mime_type, content.text) == ("ui://apps/clock", page, "<!doctype html><p>é</p>")
            assert (await client.call_tool("clock")).text == "a page"
            assert (await plain.call_tool("clock")).text == "12:00"

    run(main)
