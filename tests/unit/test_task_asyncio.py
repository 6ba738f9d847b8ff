"""asyncio's tools with eagerly started coroutines: the list of test_task.py, continued."""

import asyncio
import threading

import pytest
from task_support import HOWS, PLACES, check_behaviour, forever, settle

BEHAVIOURS = []


def behaviour(fn):
    BEHAVIOURS.append(fn)
    return fn


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("check", BEHAVIOURS, ids=lambda fn: fn.__name__)
def test_behaviour(run, check, how, place):
    check_behaviour(run, check, how, place)


@behaviour
async def timeout_fires_in_the_first_step(start):
    async def late():
        try:
            async with asyncio.timeout(0.005) as limit:
                await forever()
        except TimeoutError:
            assert limit.expired() and asyncio.current_task().cancelling() == 0
            await asyncio.sleep(0)
            return "late"

    assert await (await start(late())) == "late"


@behaviour
async def timeout_that_does_not_fire(start):
    async def early():
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        async with asyncio.timeout(None) as limit:
            await asyncio.sleep(0)
            limit.reschedule(asyncio.get_running_loop().time())
            with pytest.raises(asyncio.CancelledError):
                await forever()
            raise asyncio.CancelledError

    with pytest.raises(TimeoutError):
        await (await start(early()))


@behaviour
async def wait_for_both_ways(start):
    async def waits():
        assert await asyncio.wait_for(asyncio.sleep(0, 3), 5) == 3
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(forever(), 0.005)
        return asyncio.current_task().cancelling()

    assert await (await start(waits())) == 0
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(await start(forever()), 0.005)


@behaviour
async def task_group_inside(start):
    async def groups():
        async with asyncio.TaskGroup() as tg:
            a = tg.create_task(asyncio.sleep(0.001, 1))
            b = tg.create_task(asyncio.sleep(0, 2))
        return a.result() + b.result()

    assert await (await start(groups())) == 3


@behaviour
async def task_group_child_failure_cancels_the_body(start):
    async def fails():
        raise ValueError("child")

    async def groups():
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as tg:
                tg.create_task(fails())
                other = tg.create_task(forever())
                await forever()
        assert other.cancelled() and asyncio.current_task().cancelling() == 0
        await asyncio.sleep(0)
        return [str(e) for e in caught.value.exceptions]

    assert await (await start(groups())) == ["child"]


@behaviour
async def cancel_while_in_a_task_group(start):
    children = []

    async def groups():
        async with asyncio.TaskGroup() as tg:
            children.append(tg.create_task(forever()))
            children.append(tg.create_task(forever()))

    task = await start(groups())
    await asyncio.sleep(0)
    task.cancel()
    await settle(task)
    assert task.cancelled() and [c.cancelled() for c in children] == [True, True]


@behaviour
async def gather_shield_wait_and_as_completed(start):
    a, b = await start(asyncio.sleep(0.001, "a")), await start(asyncio.sleep(0, "b"))
    assert await asyncio.gather(a, b) == ["a", "b"]
    slow = await start(asyncio.sleep(0.005, "slow"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(asyncio.shield(slow), 0.0005)
    assert not slow.cancelled() and await slow == "slow"
    tasks = [await start(asyncio.sleep(0, i)) for i in range(3)]
    done, pending = await asyncio.wait(tasks)
    assert done == set(tasks) and not pending
    tasks = [await start(asyncio.sleep(0, i)) for i in range(3)]
    assert sorted([await t for t in asyncio.as_completed(tasks)]) == [0, 1, 2]
    failing = await start(bad_sleep())
    assert [type(r) for r in await asyncio.gather(failing, return_exceptions=True)] == [ValueError]


async def bad_sleep():
    await asyncio.sleep(0)
    raise ValueError


@behaviour
async def synchronisation_primitives(start):
    lock, queue, event = asyncio.Lock(), asyncio.Queue(), asyncio.Event()

    async def worker():
        async with lock:
            event.set()
            return await queue.get()

    first, second = await start(worker()), await start(worker())
    await event.wait()
    assert lock.locked()
    queue.put_nowait(1)
    queue.put_nowait(2)
    assert [await first, await second] == [1, 2]


@behaviour
async def awaited_by_another_thread(start):
    async def child():
        await asyncio.sleep(0)
        return 4

    loop = asyncio.get_running_loop()
    got = []

    async def from_thread():
        return await (await start(child()))

    thread = threading.Thread(
        target=lambda: got.append(asyncio.run_coroutine_threadsafe(from_thread(), loop).result(10))
    )
    thread.start()
    await asyncio.to_thread(thread.join, 10)
    assert got == [4]
