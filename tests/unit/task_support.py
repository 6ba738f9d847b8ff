"""Helpers of the task tests: how a coroutine is started, and coroutines to start."""

import asyncio
import contextvars

from headrace.transports._task import spawner

VAR = contextvars.ContextVar("VAR", default=0)
HOWS = ["create_task", "spawner"]
PLACES = ["task", "callback"]


def make_start(how, place):
    """An async `start(coro)` that gives the task of `coro` after its first step; `start.now` is the bare call."""
    loop = asyncio.get_running_loop()
    spawn = loop.create_task if how == "create_task" else spawner(loop)

    async def start(coro):
        if place == "task":
            task = spawn(coro)
        else:
            made = loop.create_future()

            def begin():
                try:
                    made.set_result(spawn(coro))
                except Exception as e:
                    made.set_exception(e)

            loop.call_soon(begin)
            while not made.done():
                await asyncio.sleep(0)
            task = made.result()
        if how == "create_task":
            await asyncio.sleep(0)
        return task

    start.now = spawn
    return start


def check_behaviour(run, check, how, place):
    async def main():
        outer = asyncio.current_task()
        await check(make_start(how, place))
        assert asyncio.current_task() is outer
        assert outer.cancelling() == 0

    run(main)


async def settle(task):
    """Waits until `task` is done without taking its result."""
    await asyncio.wait([task], timeout=10)
    assert task.done()


async def forever():
    await asyncio.get_running_loop().create_future()
