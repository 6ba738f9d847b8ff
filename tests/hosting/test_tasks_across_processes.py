"""Tasks of servers that run as programs of their own, as on several machines, with one Redis: made at one, asked for,
answered, followed and cancelled at another, until the one that runs them is killed."""

import asyncio
import signal

import pytest

from headrace import RpcError, TaskCancelled, connect
from headrace.protocol.tasks.store import ORPHANED
from hosting.processes import ENV, serving
from hosting.redis_support import redis_server

APP = """
import asyncio, os
import msgspec
from headrace import Context, Server
from headrace.hosting.backplane import RedisBackplane

app = Server("tasks", version="1")
app.set_backplane(RedisBackplane(os.environ["TASKS_REDIS"], lease=1.0))
app.tasks(poll_interval=0.05)

class Person(msgspec.Struct):
    name: str

@app.tool(task="optional")
async def greet(ctx: Context) -> str:
    answer = await ctx.elicit("Who?", Person)
    return f"Hello {answer.content.name} from {os.getpid()}"

@app.tool(task="optional")
async def work() -> str:
    open(f"working-{os.getpid()}", "w").close()
    try:
        await asyncio.sleep(600)
    finally:
        open(f"ended-{os.getpid()}", "w").close()
    return "never"
"""


async def appears(path):
    for _ in range(3000):
        if path.exists():
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{path.name} did not appear")


@pytest.fixture
def two(tmp_path):
    """Two programs that serve `APP`: what each is, and its URL."""
    (tmp_path / "app.py").write_text(APP)
    with redis_server(keeps=True) as redis:
        env = {**ENV, "TASKS_REDIS": redis.url}
        with (
            serving("app.py", "--http", "127.0.0.1:0", cwd=tmp_path, env=env) as one,
            serving("app.py", "--http", "127.0.0.1:0", cwd=tmp_path, env=env) as other,
        ):
            yield one, other, [f"http://127.0.0.1:{each.port}/mcp" for each in (one, other)], tmp_path


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_a_task_is_made_here_and_answered_there(two, revision):
    one, _, urls, _ = two

    async def ann(*_):
        return {"name": "Ann"}

    async def main():
        settings = {"tasks": True, "revision": revision, "elicitation": ann}
        async with connect(urls[0], **settings) as here, connect(urls[1], **settings) as there:
            handle = await here.start_tool("greet")
            result = await there.task(handle.id).result()
            assert result.content[0].text == f"Hello Ann from {one.pid}"

    asyncio.run(asyncio.wait_for(main(), 60))


def test_a_cancel_there_ends_the_handler_here(two):
    one, _, urls, directory = two

    async def main():
        async with connect(urls[0], tasks=True) as here, connect(urls[1], tasks=True) as there:
            handle = await here.start_tool("work")
            await appears(directory / f"working-{one.pid}")
            await there.task(handle.id).cancel()
            await appears(directory / f"ended-{one.pid}")
            with pytest.raises(TaskCancelled):
                await here.task(handle.id).result()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_tasks_of_a_killed_program_fail_with_a_word_and_a_listen_hears_of_it(two):
    one, _, urls, directory = two

    async def main():
        async with connect(urls[1], tasks=True) as there:
            async with connect(urls[0], tasks=True) as here:
                handle = await here.start_tool("work")
                await appears(directory / f"working-{one.pid}")
                own = await there.start_tool("work")
                async with there.listen(task_ids=[handle.id]) as listen:
                    one.send(signal.SIGKILL)
                    async for change in listen:
                        if change.params["status"] == "failed":
                            break
            with pytest.raises(RpcError, match=ORPHANED):
                await there.task(handle.id).result()
            assert (await there.task(own.id).get()).status == "working"

    asyncio.run(asyncio.wait_for(main(), 60))
