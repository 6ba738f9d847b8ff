"""Rules of line streams that the newest revision adds: cancelling, no headers, and other byte streams than stdio."""

import asyncio
import json
from typing import Annotated

from server_pipe import META, Pipe

from headrace import Context, Header, Server, connect
from headrace.transports.stream import serve_lines


def make():
    app = Server("lines", version="1")
    app.seen = []

    @app.tool
    async def stubborn(ctx: Context) -> str:
        """Does not take the hint, and reports all the same."""
        app.seen.append("started")
        try:
            await asyncio.sleep(20)
        except asyncio.CancelledError:
            await ctx.progress(1, 2)
            await ctx.log("error", "still here")
            app.seen.append("cancelled")
        return "done all the same"

    @app.tool
    async def route(region: Annotated[str, Header("Region")]) -> str:
        return region

    return app


async def settled(check):
    async with asyncio.timeout(5):
        while not check():
            await asyncio.sleep(0.002)


def test_st32_mx12_after_a_cancel_nothing_comes(run):
    """ST-32, ST-30, MX-12, MX-15: no answer, no progress, no log, whatever the handler does; the reason may be missing."""

    async def trial():
        app = make()
        async with app.running():
            pipe = Pipe(app)
            meta = META | {"progressToken": "p", "io.modelcontextprotocol/logLevel": "debug"}
            pipe.send(1, "tools/call", {"name": "stubborn"}, meta=meta)
            await settled(lambda: app.seen == ["started"])
            pipe.send(None, "notifications/cancelled", {"requestId": 1})
            await settled(lambda: "cancelled" in app.seen)
            answer = await pipe.ask(2, "tools/list", {}, meta=META)
            assert "result" in answer and pipe.out == []

    run(trial)


def test_st32_the_client_says_which_request_it_gave_up(run):
    """ST-32, MX-10, MX-11: by a notification on the same stream, in the modern era too."""

    async def trial():
        reader, writer, seen = None, None, []
        connected = asyncio.Event()

        async def serve(r, w):
            nonlocal reader, writer
            reader, writer = r, w
            connected.set()
            while line := await r.readline():
                message = json.loads(line)
                seen.append(message)
                if message["method"] == "server/discover":
                    result = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
                    result |= {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
                    w.write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}).encode() + b"\n")
            w.close()

        listener = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        async with connect(f"tcp:127.0.0.1:{port}") as client:
            task = asyncio.ensure_future(client.call_tool("anything"))
            await settled(lambda: any(each["method"] == "tools/call" for each in seen))
            task.cancel()
            await settled(lambda: any(each["method"] == "notifications/cancelled" for each in seen))
            call = next(each for each in seen if each["method"] == "tools/call")
            cancel = next(each for each in seen if each["method"] == "notifications/cancelled")
            assert cancel["params"]["requestId"] == call["id"]
        listener.close()
        await listener.wait_closed()

    run(trial)


def test_st34_09_no_headers_on_lines(run, tmp_path):
    """ST-34, ST-09: parameters that HTTP clients mirror are nothing special here; a unix socket has the framing of stdio."""

    async def trial():
        app = make()
        async with app.running():
            listener = await serve_lines(app, unix=str(tmp_path / "s"))
            reader, writer = await asyncio.open_unix_connection(str(tmp_path / "s"))
            for number, name in enumerate(("route", "route"), start=1):
                params = {"name": name, "arguments": {"region": "eu"}, "_meta": META}
                frame = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
                writer.write(json.dumps(frame).encode() + b"\r\n")
                answer = json.loads(await reader.readline())
                assert (answer["id"], answer["result"]["content"][0]["text"]) == (number, "eu")
            writer.close()
            async with connect(f"unix:{tmp_path / 's'}") as client:
                assert (await client.call_tool("route", {"region": "us"})).text == "us"
            await listener.close()

    run(trial)


def test_each_request_is_judged_by_its_own_meta(run):
    """VN-30, HN-03: what one request says of itself holds for no other, however alike they look."""
    version, capabilities, level = (f"io.modelcontextprotocol/{name}" for name in ("protocolVersion", "clientCapabilities", "logLevel"))
    good = META | {"io.modelcontextprotocol/clientInfo": {"name": "a", "version": "1"}}
    metas = [
        good, good, good | {version: "2026-07-29"}, good, {version: "2026-07-28"}, good | {capabilities: []},
        good | {level: "no such"}, good | {level: "info"}, good | {"progressToken": 1}, good, META, good,
    ]  # fmt: skip

    async def answers(pipes):
        found = []
        for number, meta in enumerate(metas, start=1):
            answer = await next(pipes).call("route", {"region": "eu"}, meta=meta, id=number)
            found.append(answer.get("error", {}).get("code") or answer["result"]["content"][0]["text"])
        return found

    async def trial():
        app = make()
        async with app.running():
            one = Pipe(app)
            together = await answers(iter(lambda: one, None))
            alone = await answers(iter(lambda: Pipe(app), None))
        return together, alone

    together, alone = run(trial)
    assert together == alone
    assert together[:4] == ["eu", "eu", -32022, "eu"]
    assert together[4] < 0 and together[5] < 0 and together[6] == -32602 and together[7:] == ["eu"] * 5
