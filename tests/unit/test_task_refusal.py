"""Tasks of a server whose other processes would not know of them: refused with the reason, never half there."""

import pytest
from server_pipe import META, Pipe

from headrace import Server, SqliteTaskStore

TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
WHY = "tasks need --backplane"


def make(store=None):
    app = Server("t", version="1")
    app.tasks(store, listing=True)

    @app.tool(task="optional")
    async def maybe() -> str:
        return "plain"

    @app.tool(task="required")
    async def must() -> str:
        return "never"

    return app


@pytest.mark.parametrize("legacy", [False, True])
def test_refused_tasks_are_not_advertised_and_answered_with_the_reason(run, legacy):
    app = make()
    assert app.refuse_tasks(WHY)
    meta = None if legacy else TASKS

    async def main():
        async with app.running():
            pipe = Pipe(app)
            if legacy:
                pipe.handshake()
            else:
                offered = (await pipe.ask(1, "server/discover", {}, meta=TASKS))["result"]["capabilities"]
                assert "io.modelcontextprotocol/tasks" not in offered.get("extensions", {})
            more = {"task": {}} if legacy else {}
            plain = await pipe.ask(2, "tools/call", {"name": "maybe", "arguments": {}, **more}, meta=meta)
            assert plain["result"]["content"][0]["text"] == "plain" and "task" not in plain["result"]
            refused = await pipe.ask(3, "tools/call", {"name": "must", "arguments": {}, **more}, meta=meta)
            assert refused["error"]["code"] == -32601 and WHY in refused["error"]["message"]
            for method in ("tasks/get", "tasks/cancel", "tasks/list" if legacy else "tasks/update"):
                answer = await pipe.ask(4, method, {"taskId": "x", "inputResponses": {}}, meta=meta)
                assert answer["error"] == {"code": -32601, "message": WHY}
            pipe.mux.close()

    run(main)
    assert "tasks" not in app.capabilities("2025-11-25")


def test_nothing_is_refused_where_processes_share_a_store_or_there_are_no_tasks(tmp_path):
    shared = make(SqliteTaskStore(tmp_path / "t.db"))
    assert not shared.refuse_tasks(WHY) and "tasks" in shared.capabilities("2025-11-25")
    assert not Server("t", version="1").refuse_tasks(WHY)
