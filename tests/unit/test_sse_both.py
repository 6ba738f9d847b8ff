"""Our client and our server over HTTP+SSE of 2024-11-05, every revision that it carries (LS-01..LS-07, VN-48)."""

import asyncio
import contextlib

import pytest

from headrace import ConnectFailed, ConnectionClosed, Context, Limits, RpcError, Server, ToolError, connect
from headrace.jsonrpc import R1, R2, R3, R4
from headrace.transports.http_server import serve_http


def make_app():
    app = Server("old", version="1", limits=Limits(drain_timeout=0.1))
    app.running_now = set()

    @app.tool
    async def echo(text: str) -> str:
        return text

    @app.tool
    async def fail() -> str:
        raise ToolError("it went wrong")

    @app.tool
    async def refuse() -> str:
        raise RpcError(-7, "refused", {"why": "because"})

    @app.tool
    async def count(ctx: Context, to: int) -> str:
        for i in range(to):
            ctx.progress(i + 1, to)
        ctx.log("info", {"n": to})
        return "counted"

    @app.tool
    async def name(ctx: Context) -> str:
        answer = await ctx.elicit("name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return answer.content["name"]

    @app.tool
    async def hang(key: str) -> str:
        app.running_now.add(key)
        try:
            await asyncio.sleep(60)
        finally:
            app.running_now.discard(key)
        return "never"

    return app


@contextlib.asynccontextmanager
async def served(app):
    async with app.running():
        listener = await serve_http(app, host="127.0.0.1", port=0, path="/mcp", legacy_sse=True)
        try:
            yield listener, listener.url.replace("/mcp", "/sse")
        finally:
            await listener.close()


async def until(condition, seconds=5.0):
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.002)


@pytest.mark.parametrize("revision", [R1, R2, R3, R4])
def test_ls06_every_revision_and_feature(run, revision):
    async def main():
        logs, notes = [], []

        async def elicited(params):
            return {"name": "Ada"}

        async with served(make_app()) as (_, url), connect(
            url, transport="sse", revision=revision, on_log=lambda m: logs.append(m.data), elicitation=elicited
        ) as client:
            assert client.protocol_version == revision and client.server_info.name == "old"
            assert {t.name for t in await client.list_tools()} >= {"echo", "fail", "count"}
            texts = await asyncio.gather(*(client.call_tool("echo", {"text": str(i)}) for i in range(50)))
            assert [t.text for t in texts] == [str(i) for i in range(50)]
            failed = await client.call_tool("fail")
            assert failed.is_error and failed.text == "it went wrong"
            with pytest.raises(RpcError, match="refused"):
                await client.call_tool("refuse")
            result = await client.call_tool("count", {"to": 5}, on_progress=lambda done, *_: notes.append(done))
            assert result.text == "counted" and notes == [1, 2, 3, 4, 5] and logs == [{"n": 5}]
            await client.ping()
            big = "é" * 500_000
            assert (await client.call_tool("echo", {"text": big})).text == big
            if revision >= R3:
                assert (await client.call_tool("name")).text == "Ada"

    run(main)


def test_vn48_found_where_only_the_old_transport_is(run):
    """The URL of the stream answers POST with 404 or 405: found by itself, then remembered."""

    async def main():
        async with served(make_app()) as (_, url):
            for _ in range(2):
                async with connect(url) as client:
                    assert client.protocol_version == R4
                    assert (await client.call_tool("echo", {"text": "x"})).text == "x"

    run(main)


def test_b75_cancel_and_b76_the_end_of_the_client(run):
    async def main():
        app = make_app()
        async with served(app) as (_, url):
            async with connect(url, transport="sse") as client:
                waiting = asyncio.ensure_future(client.call_tool("hang", {"key": "a"}))
                await until(lambda: app.running_now == {"a"})
                waiting.cancel()
                await until(lambda: not app.running_now)
                other = asyncio.ensure_future(client.call_tool("hang", {"key": "b"}))
                await until(lambda: app.running_now == {"b"})
            with pytest.raises(ConnectionClosed):
                await other
            await until(lambda: not app.running_now)  # the stream's end ends the session (LS-04)

    run(main)


def test_ls04_the_end_of_the_server(run):
    async def main():
        async with served(make_app()) as (listener, url), connect(url, transport="sse") as client:
            waiting = asyncio.ensure_future(client.call_tool("hang", {"key": "a"}))
            await asyncio.sleep(0.02)
            await listener.close()
            with pytest.raises((ConnectionClosed, RpcError)):
                await waiting
            await until(lambda: client.closed)
            with pytest.raises(ConnectFailed):
                async with connect(url, transport="sse"):
                    pass

    run(main)
