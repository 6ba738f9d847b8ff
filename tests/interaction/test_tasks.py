"""Interaction, fourth part: tool calls that become tasks, where a revision has tasks, and plain calls where it has none."""

import asyncio

import pytest

from headrace import RpcError
from interaction.cells import R4, R5, TRANSPORTS, cells, refused

_ALL, _NAMES = cells([each for each in TRANSPORTS if each != "stdio"])


@pytest.fixture(params=_ALL, ids=_NAMES)
def task_cell(request, worlds):
    loop_name, transport, revision = request.param
    return worlds(loop_name).cell(transport, revision)


def test_tk01_20_21_22_calls_become_tasks(task_cell):
    """TK-01, TK-02, TK-20, TK-21, TK-22, TK-23: the caller sees a result either way; who has no tasks runs the tool at once."""

    async def trial(cell):
        async with cell.connect(tasks=True) as client:
            assert (await client.call_tool("job", {"seconds": 0.01})).text == "job done"
            if not cell.since(R4):
                assert (await refused(client.call_tool("big_job"))).code == -32601
                return
            assert (await client.call_tool("big_job")).text == "big job done"
            failed = await client.call_tool("big_job", {"fail": True})
            assert failed.is_error and failed.text == "the job failed"
            handle = await client.start_tool("job", {"seconds": 0.05})
            assert handle.status == "working"
            assert (await handle.result()).text == "job done"

    task_cell.run(trial)


def test_tk20_26_undeclared(task_cell):
    """TK-20, TK-26, TK-30: without the client's word nothing becomes a task, and what can only be one is refused."""

    async def trial(cell):
        async with cell.connect() as client:
            assert (await client.call_tool("job", {"seconds": 0})).text == "job done"
            error = await refused(client.request("tools/call", {"name": "big_job", "arguments": {}}))
            if cell.modern:
                needed = {"extensions": {"io.modelcontextprotocol/tasks": {}}}
                assert (error.code, error.data["requiredCapabilities"]) == (-32021, needed)
                for method in ("tasks/get", "tasks/cancel"):
                    assert (await refused(client.request(method, {"taskId": "x"}))).code == -32021
            else:
                assert error.code == -32601

    task_cell.run(trial)


def test_tk23_24_25_questions_and_cancels(task_cell):
    """TK-04, TK-23, TK-24, TK-25, TK-31: a task's questions reach the client; a cancelled one ends; ids of nobody are unknown."""

    async def trial(cell):
        if not cell.since(R4):
            return
        async with cell.connect(tasks=True, elicitation=lambda params: {"name": "Ada"}) as client:
            assert (await client.call_tool("asking_job")).text == "job of Ada"
            handle = await client.start_tool("job", {"seconds": 20})
            await handle.cancel()
            async with asyncio.timeout(5):
                while (await handle.get()).status != "cancelled":
                    await asyncio.sleep(0.01)
            assert len(handle.id) >= 22
            with pytest.raises(RpcError) as caught:
                await client.request("tasks/get", {"taskId": "nobody"})
            assert caught.value.code == -32602

    task_cell.run(trial)


def test_tk03_30_methods_of_each_revision(task_cell):
    """TK-03, TK-05, TK-30: `tasks/result` and `tasks/list` in 2025-11-25 only, `tasks/update` in 2026-07-28 only."""

    async def trial(cell):
        async with cell.connect(tasks=True) as client:
            known = {R4: {"tasks/list", "tasks/result", "tasks/get", "tasks/cancel"}, R5: {"tasks/get", "tasks/update", "tasks/cancel"}}
            for method in ("tasks/list", "tasks/result", "tasks/get", "tasks/cancel", "tasks/update"):
                params = {} if method == "tasks/list" else {"taskId": "nobody", "inputResponses": {}}
                try:
                    result = await client.request(method, params)
                except RpcError as exc:
                    assert exc.code == (-32602 if method in known.get(cell.revision, ()) else -32601), method
                else:
                    assert (method, cell.revision) == ("tasks/list", R4) and isinstance(result["tasks"], list)

    task_cell.run(trial)
