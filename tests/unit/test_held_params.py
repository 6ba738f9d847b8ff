"""Nothing keeps the raw params of a request once its handler has ended: they may be large (SE-08)."""

import asyncio
import gc

import pytest
from server_pipe import META, Pipe

from headrace import Context, Limits, Server, ToolError

EVERYTHING = {
    **META,
    "io.modelcontextprotocol/clientCapabilities": {
        "extensions": {"io.modelcontextprotocol/tasks": {}},
        "elicitation": {},
    },
}


def make(**limits):
    app = Server("t", version="1", limits=Limits(**limits))
    app.tasks(poll_interval=0.01)
    app.seen = []

    @app.tool(task="optional")
    async def work(ctx: Context, how: str = "") -> str:
        app.seen.append(ctx._exchange)
        await asyncio.sleep(0)
        if how == "ask":
            return (await ctx.elicit("Sure?")).action
        if how == "fail":
            raise ToolError("no")
        if how:
            await asyncio.sleep(60)
        return "done"

    return app


def serve(run, app, body):
    async def main():
        async with app.running():
            pipe = Pipe(app)
            await body(pipe)
            pipe.mux.close()

    run(main)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("how", ["", "fail", "ask", "wait"])
def test_se08_params_and_meta_are_let_go_when_the_handler_has_ended(run, how, legacy):
    app = make()

    async def body(pipe):
        if legacy:
            pipe.handshake()
        params = {"name": "work", "arguments": {"how": how}, "_meta": {"junk": "x" * 1000}}
        if not legacy:
            params["_meta"] |= META
        pipe.send(1, "tools/call", params)
        for _ in range(500):
            if app.seen and (app.seen[0].state or how == "wait"):
                break
            await asyncio.sleep(0.002)
        if how == "wait":
            pipe.send(None, "notifications/cancelled", {"requestId": 1})
        for _ in range(500):
            if not pipe.mux.in_flight:
                break
            await asyncio.sleep(0.002)
        (exchange,) = app.seen
        assert exchange.state and pipe.mux.in_flight == 0
        assert exchange.params is None and exchange.meta is None

    serve(run, app, body)


def test_se08_tk05_params_of_running_tasks_are_bounded_together(run):
    app = make(max_task_params_bytes=3000)

    async def call(pipe, how):
        params = {"name": "work", "arguments": {"how": how}, "junk": "x" * 1000, "_meta": EVERYTHING}
        return await pipe.ask(1, "tools/call", params)

    async def body(pipe):
        first = (await call(pipe, "wait"))["result"]["taskId"]
        assert (await call(pipe, "wait"))["result"]["resultType"] == "task"
        refused = await call(pipe, "wait")
        assert refused["error"]["code"] == -32603 and "max_task_params_bytes" in refused["error"]["message"]
        await pipe.ask(2, "tasks/cancel", {"taskId": first}, meta=EVERYTHING)
        assert (await call(pipe, "ask"))["result"]["resultType"] == "task"
        gc.collect()

    serve(run, app, body)
    assert app._tasks.engine._held == 0
