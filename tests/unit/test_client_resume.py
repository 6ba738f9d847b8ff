"""Our client and our server across a network that breaks: nothing is lost, nothing runs twice (HO-08, HO-21..HO-24).

Between them stands a proxy that cuts connections after a number of bytes from the server, in the middle of heads,
chunks and events.
"""

import asyncio
import contextlib
import random

import pytest

from headrace import ConnectionClosed, Context, HeadraceError, Limits, Server, connect
from headrace.jsonrpc import R2, R3, R4
from headrace.transports.http_server import serve_http

QUICK = Limits(reconnect_delay=0.01, max_reconnects=50)


class Proxy:
    """Forwards TCP. `budget()` gives for each connection how many bytes of the server get through before it is cut,
    or None for all."""

    def __init__(self, port, budget):
        self.port = port
        self.budget = budget
        self.cuts = 0
        self.connections = 0
        self.tasks = set()

    async def __aenter__(self):
        self.server = await asyncio.start_server(self.serve, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{self.server.sockets[0].getsockname()[1]}/mcp"
        return self

    async def __aexit__(self, *exc):
        self.server.close()
        for task in list(self.tasks):
            task.cancel()
        if self.tasks:
            await asyncio.wait(self.tasks, timeout=5)

    async def serve(self, reader, writer):
        self.connections += 1
        task = asyncio.current_task()
        self.tasks.add(task)
        left = self.budget()
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", self.port)

        async def up():
            with contextlib.suppress(ConnectionError):
                while data := await reader.read(65536):
                    up_writer.write(data)
            up_writer.close()

        upward = asyncio.ensure_future(up())
        try:
            while data := await up_reader.read(65536):
                if left is not None and len(data) >= left:
                    writer.write(data[:left])
                    self.cuts += 1
                    break
                left = None if left is None else left - len(data)
                writer.write(data)
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            upward.cancel()
            writer.close()
            up_writer.close()
            self.tasks.discard(task)


def make_app():
    app = Server("flaky", version="1", limits=Limits(drain_timeout=0.1))
    app.runs = []

    @app.tool
    async def steps(ctx: Context, key: str, to: int = 8) -> str:
        app.runs.append(key)
        for i in range(to):
            ctx.progress(i + 1, to, key)
            await asyncio.sleep(0.004)
        return key

    @app.tool
    async def poll(ctx: Context, key: str, pause: float) -> str:
        """Closes its own stream: the client polls (HO-23)."""
        app.runs.append(key)
        ctx.progress(1, 2)
        ctx.close_stream(0.01)
        await asyncio.sleep(pause)
        ctx.progress(2, 2)
        return key

    @app.tool
    async def ask(ctx: Context, key: str) -> str:
        app.runs.append(key)
        ctx.progress(1, 2)
        ctx.close_stream(0.01)
        await asyncio.sleep(0.03)
        answer = await ctx.elicit("name?", {"type": "object", "properties": {"name": {"type": "string"}}})
        return f"{key}:{answer.content['name']}"

    return app


@contextlib.asynccontextmanager
async def behind_proxy(app, budget, **options):
    allowed = []
    async with app.running(), contextlib.AsyncExitStack() as stack:
        listener = await serve_http(app, host="127.0.0.1", port=0, path="/mcp")
        stack.push_async_callback(listener.close)
        port = int(listener.url.split(":")[2].split("/")[0])
        proxy = await stack.enter_async_context(Proxy(port, lambda: budget() if allowed else None))
        client = await stack.enter_async_context(connect(proxy.url, limits=QUICK, **options))
        allowed.append(1)
        stack.callback(allowed.clear)
        yield client, proxy


@pytest.mark.parametrize("revision", [R4, R3, R2])
@pytest.mark.parametrize("seed", [1, 2])
def test_ho08_ho21_ho24_calls_survive_a_network_that_breaks(run, revision, seed):
    """60 calls with progress: each ends once, with its own answer or with the news that its fate is unknown; no
    tool runs twice; progress comes in order and once."""

    async def main():
        app = make_app()
        rng = random.Random(seed)

        def budget():
            return rng.choice([None, rng.randint(200, 900), rng.randint(900, 2500)])

        async with behind_proxy(app, budget, revision=revision) as (client, proxy):
            seen = {f"k{i}": [] for i in range(60)}

            async def one(key):
                try:
                    result = await client.call_tool(
                        "steps", {"key": key}, on_progress=lambda done, total, message: seen[key].append(done), timeout=20
                    )
                except ConnectionClosed:
                    return None
                assert result.text == key
                return key

            done = []
            for at in range(0, 60, 10):
                done += await asyncio.gather(*(one(f"k{i}") for i in range(at, at + 10)))
            assert proxy.cuts >= 5
            assert len(app.runs) == len(set(app.runs))  # nothing ran twice
            finished = [key for key in done if key is not None]
            assert len(finished) >= 30 and set(finished) <= set(app.runs)
            for key in finished:
                assert seen[key] == sorted(set(seen[key]))
                if revision == R4:  # streams begin with an id there: all of it comes in the end
                    assert seen[key][-1] == 8

    run(main)


def test_ho23_a_tool_that_closes_its_stream_is_polled(run):
    async def main():
        app = make_app()
        async with behind_proxy(app, lambda: None, revision=R4) as (client, _):
            notes = []
            results = await asyncio.gather(
                *(
                    client.call_tool("poll", {"key": f"p{i}", "pause": 0.05}, on_progress=lambda *a: notes.append(a[0]))
                    for i in range(5)
                )
            )
            assert [r.text for r in results] == [f"p{i}" for i in range(5)]
            assert sorted(notes) == [1] * 5 + [2] * 5 and len(app.runs) == 5

    run(main)


def test_ho43_a_question_on_a_resumed_stream_is_answered(run):
    """The server asks after the client came back; the answer goes by POST as always."""

    async def main():
        app = make_app()

        async def elicited(params):
            return {"name": "Ada"}

        async with behind_proxy(app, lambda: None, revision=R4, elicitation=elicited) as (client, _):
            results = await asyncio.gather(*(client.call_tool("ask", {"key": f"a{i}"}) for i in range(3)))
            assert [r.text for r in results] == [f"a{i}:Ada" for i in range(3)]

    run(main)


def test_b48_a_server_that_restarts_is_met_again(run):
    """Same port, no memory: the next call makes a new session; calls under way fail and are not run again."""

    async def main():
        app = make_app()
        async with app.running(), contextlib.AsyncExitStack() as stack:

            async def serve(port):
                listener = await serve_http(app, host="127.0.0.1", port=port, path="/mcp")
                stack.push_async_callback(listener.close)
                return listener

            listener = await serve(0)
            port = int(listener.url.split(":")[2].split("/")[0])
            client = await stack.enter_async_context(connect(listener.url, limits=QUICK, revision=R4))
            under_way = asyncio.ensure_future(client.call_tool("steps", {"key": "lost", "to": 100_000}, timeout=10))
            while "lost" not in app.runs:
                await asyncio.sleep(0.002)
            await listener.close()
            with pytest.raises(HeadraceError):
                await client.call_tool("steps", {"key": "down"})
            await serve(port)
            results = await asyncio.gather(*(client.call_tool("steps", {"key": f"n{i}"}) for i in range(10)))
            assert [r.text for r in results] == [f"n{i}" for i in range(10)]
            with pytest.raises(HeadraceError):
                await under_way
            assert app.runs.count("lost") == 1 and "down" not in app.runs

    run(main)
