"""The eager start of coroutines: the behaviour must be that of an ordinary asyncio.Task."""

import asyncio

from headrace.transports._task import EAGER, spawner


def test_first_step_runs_at_once(run):
    async def main():
        spawn = spawner(asyncio.get_running_loop())
        seen = []

        async def quick():
            seen.append(1)
            return 7

        task = spawn(quick())
        assert seen == [1] and task.done() and task.result() == 7 and isinstance(task, asyncio.Task)

    assert EAGER
    run(main)


def test_suspended_task_goes_on(run):
    async def main():
        spawn = spawner(asyncio.get_running_loop())

        async def waits():
            me = asyncio.current_task()
            async with asyncio.timeout(0.01):
                await asyncio.sleep(5)
            return me

        task = spawn(waits())
        assert not task.done() and task in asyncio.all_tasks() and asyncio.current_task() is not task
        try:
            await task
        except TimeoutError:
            return
        raise AssertionError("asyncio.timeout did not fire")

    run(main)
