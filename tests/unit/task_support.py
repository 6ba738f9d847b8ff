"""Helpers of the task tests: how a coroutine is started, and coroutines to start."""

import asyncio
import contextvars

from headrace.transports._task import spawner

VAR = contextvars.ContextVar("VAR", default=0)
HOWS = ["create_task", "spawner", "exchange"]
PLACES = ["task", "callback"]


def started_by_exchange(loop):
    """`spawn` as exchanges do it; what ended in its first step has no task: a future has its outcome."""
    starter = spawner(loop).__self__

    def spawn(coro):
        ended = loop.create_future()
        try:
            finished, found = starter.start_now(coro)
        except asyncio.CancelledError as exc:
            ended.cancel(*exc.args)
            return ended
        except Exception as exc:
            if not asyncio.iscoroutine(coro):
                raise
            ended.set_exception(exc)
            return ended
        if not finished:
            return found
        ended.set_result(found)
        return ended

    return spawn


def make_start(how, place):
    """An async `start(coro)` that gives the task of `coro` after its first step; `start.now` is the bare call."""
    loop = asyncio.get_running_loop()
    spawn = {
        "create_task": lambda: loop.create_task,
        "spawner": lambda: spawner(loop),
        "exchange": lambda: started_by_exchange(loop),
    }[how]()

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
