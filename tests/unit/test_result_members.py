"""What every result of the modern era carries, method by method, and that no result of the handshake era does (VN-30,
VN-67, JR-10, SF-51)."""

import pytest
from server_pipe import META, Pipe

from headrace import Context, Server

TASKS = META | {"io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}, "elicitation": {}}}
CACHED = {"server/discover", "tools/list", "prompts/list", "resources/list", "resources/templates/list", "resources/read"}
BOTH = [
    ("tools/list", {}),
    ("tools/call", {"name": "add", "arguments": {"a": 1}}),
    ("tools/call", {"name": "text", "arguments": {}}),
    ("tools/call", {"name": "text", "arguments": {"x": 1}}),
    ("tools/call", {"name": "fail", "arguments": {}}),
    ("tools/call", {"name": "thread", "arguments": {}}),
    ("resources/list", {}),
    ("resources/templates/list", {}),
    ("resources/read", {"uri": "a://1"}),
    ("resources/read", {"uri": "b://2"}),
    ("prompts/list", {}),
    ("prompts/get", {"name": "greet", "arguments": {"who": "a"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "greet"}, "argument": {"name": "who", "value": "A"}}),
]
MODERN = [("server/discover", {}), ("tools/call", {"name": "ask", "arguments": {}})]
HANDSHAKE = [
    ("ping", {}),
    ("logging/setLevel", {"level": "info"}),
    ("resources/subscribe", {"uri": "a://1"}),
    ("resources/unsubscribe", {"uri": "a://1"}),
]


def make():
    app = Server("all", version="3")
    app.tasks()

    @app.tool
    async def add(a: int) -> int:
        return a

    @app.tool(inline=True)
    def text() -> str:
        return "x"

    @app.tool
    async def fail() -> str:
        raise ValueError("no")

    @app.tool
    def thread() -> str:
        return "x"

    @app.tool(task="required")
    async def job() -> str:
        return "x"

    @app.tool
    async def ask(ctx: Context) -> str:
        return (await ctx.elicit("?")).action

    app.add_resource("a://1", "x")

    @app.resource("b://{n}")
    async def b(n: int) -> str:
        return str(n)

    @app.prompt
    async def greet(who: str) -> str:
        return who

    @app.completion(prompt="greet", argument="who")
    async def whom(value: str) -> list[str]:
        return [value + "da"]

    return app


def run_with(run, body):
    async def main():
        app = make()
        async with app.running():
            pipe = Pipe(app)
            outcome = await body(pipe)
            pipe.mux.close()
            return outcome

    return run(main)


@pytest.mark.parametrize(("method", "params"), BOTH + MODERN)
def test_vn30_jr10_sf51_modern_results(run, method, params):
    """The type of the result and who answers are in every one; for how long it holds in those of the six lists alone."""

    async def body(pipe):
        return (await pipe.ask(1, method, params, meta=TASKS))["result"]

    result = run_with(run, body)
    asks = params.get("name") == "ask"
    assert result["resultType"] == ("input_required" if asks else "complete")
    assert result["_meta"]["io.modelcontextprotocol/serverInfo"] == {"name": "all", "version": "3"}
    assert ("ttlMs" in result) == ("cacheScope" in result) == (method in CACHED)


def test_vn30_jr10_results_of_tasks(run):
    """Handles, looks, and acknowledgements of updates and cancels."""

    async def body(pipe):
        made = (await pipe.ask(1, "tools/call", {"name": "job", "arguments": {}}, meta=TASKS))["result"]
        assert made["resultType"] == "task"
        results = [made]
        for number, (method, more) in enumerate(
            (("tasks/get", {}), ("tasks/update", {"inputResponses": {}}), ("tasks/cancel", {})), start=2
        ):
            answer = await pipe.ask(number, method, {"taskId": made["taskId"], **more}, meta=TASKS)
            assert answer["result"]["resultType"] == "complete", method
            results.append(answer["result"])
        return results

    for result in run_with(run, body):
        assert result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "all"


@pytest.mark.parametrize(("method", "params"), BOTH + HANDSHAKE)
def test_vn67_handshake_results(run, method, params):
    """Nothing of that in 2025-11-25."""

    async def body(pipe):
        pipe.handshake()
        return (await pipe.ask(1, method, params))["result"]

    result = run_with(run, body)
    assert not {"resultType", "ttlMs", "cacheScope", "_meta"} & set(result)
