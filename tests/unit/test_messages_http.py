"""A stream of messages over HTTP looks like one connection, whatever HTTP makes of it."""

import asyncio
import contextlib

import anyio
import pytest
from test_plain_http import HELLO, META, App

from headrace.errors import ConnectFailed, HttpStatusError, LocalProtocolError
from headrace.limits import Limits
from headrace.transports import McpHost, messages
from headrace.transports.http_server import serve_http


@contextlib.asynccontextmanager
async def served(app, **options):
    host = McpHost(app.handler, on_notify=app.notified)
    async with host.running():
        listener = await serve_http(host, host="127.0.0.1")
        async with messages.open_http(listener.url, **options) as stream:
            yield stream
        await listener.close()


async def began(stream):
    await stream.send({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": HELLO})
    assert (await stream.receive())["result"]["protocolVersion"] == "2025-11-25"
    await stream.send({"jsonrpc": "2.0", "method": "notifications/initialized"})


def test_a_session_of_messages(run):
    async def main():
        app = App()
        async with served(app) as stream:
            await began(stream)
            await stream.send({"jsonrpc": "2.0", "id": "a", "method": "x", "params": {"n": 10**30}})
            answer = await stream.receive()
            assert answer == {"jsonrpc": "2.0", "id": "a", "result": {"method": "x", "params": {"n": 10**30}}}
            await stream.send({"jsonrpc": "2.0", "id": 2, "method": "refuse"})
            assert (await stream.receive())["error"] == {"code": -32001, "message": "no", "data": {"why": 1}}
            await stream.send({"jsonrpc": "2.0", "id": 3, "method": "note", "params": {"_meta": {"progressToken": "t"}}})
            got = [await stream.receive() for _ in range(4)]
            assert [each.get("method") for each in got] == [
                "notifications/message", "notifications/progress", "notifications/message", None,
            ]  # fmt: skip
            assert got[1]["params"] == {"progressToken": "t", "progress": 1, "total": 2, "message": "half"}
            assert got[3]["id"] == 3
            assert app.told == [("notifications/initialized", None)]

    run(main)


def test_questions_of_the_server_are_messages(run):
    async def main():
        async with served(App()) as stream:
            await began(stream)
            for n in (1, 2):
                await stream.send({"jsonrpc": "2.0", "id": n, "method": "ask"})
                asked = await stream.receive()
                assert (asked["method"], asked["params"]) == ("roots/list", {"n": 10**30})
                if n == 1:
                    await stream.send({"jsonrpc": "2.0", "id": asked["id"], "result": {"roots": []}})
                    assert (await stream.receive())["result"] == {"roots": {"roots": []}}
                else:
                    await stream.send({"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -1, "message": "no"}})
                    assert "error" in await stream.receive()
            await stream.send({"jsonrpc": "2.0", "id": "unknown", "result": {}})

    run(main)


def test_modern_requests_and_cancelling(run):
    async def main():
        app = App()
        async with served(app) as stream:
            await stream.send({"jsonrpc": "2.0", "id": 5, "method": "slow", "params": {"_meta": META}})
            while not app.seen:
                await asyncio.sleep(0.005)
            await stream.send({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 5}})
            while not app.cancelled:
                await asyncio.sleep(0.005)
            await stream.send({"jsonrpc": "2.0", "id": 6, "method": "x", "params": {"_meta": META}})
            assert (await stream.receive())["id"] == 6

    run(main)


def test_errors_of_http_are_answers(run):
    async def main():
        async with served(App()) as stream:
            await began(stream)
            stream.peer.session_id = "gone"
            await stream.send({"jsonrpc": "2.0", "id": 1, "method": "x"})
            answer = await stream.receive()
            assert answer["id"] == 1 and "error" in answer
            with pytest.raises(HttpStatusError) as refused:
                await stream.send({"jsonrpc": "2.0", "method": "notifications/x"})
            assert refused.value.status == 404
            with pytest.raises(LocalProtocolError):
                await stream.send({"jsonrpc": "2.0"})
            stream.peer.session_id = None
        with pytest.raises(anyio.ClosedResourceError):
            await stream.send({"jsonrpc": "2.0", "id": 1, "method": "x"})
        with pytest.raises(anyio.ClosedResourceError):
            await stream.receive()
        with pytest.raises(ConnectFailed):
            await messages.open_http("http://127.0.0.1:1/mcp")

    run(main)


def test_nothing_is_read_while_much_waits(run):
    """Notifications of one long answer: the server stands still until they are received."""

    async def main():
        told = 0

        async def handler(method, params, exchange):
            nonlocal told
            for n in range(3000):
                await exchange.notify("notifications/message", {"n": n, "pad": "x" * 4000})
                told = n
            return {}

        host = McpHost(handler, limits=Limits(max_output_bytes=64 * 1024))
        async with host.running():
            listener = await serve_http(host, host="127.0.0.1")
            limits = Limits(max_output_bytes=64 * 1024)
            async with messages.open_http(listener.url, limits=limits) as stream:
                await stream.send({"jsonrpc": "2.0", "id": 1, "method": "x", "params": {"_meta": META}})
                last = -1
                while last != told or not told:
                    last = told
                    await asyncio.sleep(0.1)
                assert told < 2900
                for n in range(3000):
                    assert (await stream.receive())["params"]["n"] == n
                assert (await stream.receive())["id"] == 1
            await listener.close()

    run(main)
