"""Cancellation and anyio in eagerly started coroutines: the list of test_task.py, continued."""

import asyncio

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from task_support import HOWS, PLACES, VAR, check_behaviour, forever, settle

BEHAVIOURS = []


def behaviour(fn):
    BEHAVIOURS.append(fn)
    return fn


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("how", HOWS)
@pytest.mark.parametrize("check", BEHAVIOURS, ids=lambda fn: fn.__name__)
def test_behaviour(run, check, how, place):
    check_behaviour(run, check, how, place)


# -- cancel ----------------------------------------------------------------------------------------


@behaviour
async def cancel_right_after_the_first_suspension(start):
    """A cancel in the same loop turn as the start is seen by the coroutine."""
    seen = []

    async def waits(what):
        try:
            await what
        except asyncio.CancelledError as e:
            seen.append(e.args)
            raise

    loop = asyncio.get_running_loop()
    inner = loop.create_task(forever())
    for what in (asyncio.sleep(0), asyncio.sleep(5), loop.create_future(), inner):
        task = await start(waits(what))
        assert task.cancel("why") is True
        assert task.cancelling() == 1 and not task.done()
        await settle(task)
        assert task.cancelled()
        with pytest.raises(asyncio.CancelledError):
            task.result()
        with pytest.raises(asyncio.CancelledError):
            task.exception()
        assert task.cancel() is False
    await settle(inner)
    assert inner.cancelled()
    assert seen == [("why",)] * 4


@behaviour
async def cancel_without_message(start):
    seen = []

    async def waits():
        try:
            await forever()
        except asyncio.CancelledError as e:
            seen.append(e.args)
            raise

    task = await start(waits())
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert seen == [()] and caught.value.args == ()


@behaviour
async def swallowed_cancel_goes_on(start):
    async def stubborn():
        try:
            await forever()
        except asyncio.CancelledError:
            await asyncio.sleep(0)
        left = asyncio.current_task().uncancel()
        await asyncio.sleep(0.001)
        return left, asyncio.current_task().cancelling()

    task = await start(stubborn())
    task.cancel()
    assert await task == (0, 0) and not task.cancelled()


@behaviour
async def cancel_twice_during_cleanup(start):
    seen = []

    async def cleans():
        try:
            await forever()
        finally:
            try:
                await forever()
            except asyncio.CancelledError as e:
                seen.append(e.args[0])
                raise

    task = await start(cleans())
    task.cancel("one")
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel("two")
    await settle(task)
    assert task.cancelled() and task.cancelling() == 2 and seen == ["two"]


@behaviour
async def cancel_and_uncancel_count(start):
    task = await start(forever())
    assert task.uncancel() == 0
    task.cancel()
    task.cancel()
    assert task.cancelling() == 2 and task.uncancel() == 1 and task.uncancel() == 0 and task.uncancel() == 0
    await settle(task)
    assert task.cancelled()


@behaviour
async def cancel_between_result_and_wakeup(start):
    """T17: the awaited future has its result, the task has not run yet: the cancel still arrives."""
    gate = asyncio.get_running_loop().create_future()
    seen = []

    async def waits():
        try:
            await gate
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    task = await start(waits())
    gate.set_result(1)
    assert task.cancel() is True
    await settle(task)
    assert task.cancelled() and seen == ["cancelled"]


@behaviour
async def result_after_cancel_of_the_future(start):
    gate = asyncio.get_running_loop().create_future()

    async def waits():
        try:
            await gate
        except asyncio.CancelledError:
            return asyncio.current_task().cancelling()

    task = await start(waits())
    gate.cancel()
    assert await task == 0


@behaviour
async def cancels_itself_in_the_first_step(start):
    async def suicidal():
        asyncio.current_task().cancel("self")
        await asyncio.sleep(0)
        raise AssertionError("not reached")

    task = await start(suicidal())
    with pytest.raises(asyncio.CancelledError, match="self"):
        await task


@behaviour
async def cancels_itself_and_waits_on_a_future(start):
    gate = asyncio.get_running_loop().create_future()

    async def suicidal():
        asyncio.current_task().cancel()
        await gate

    task = await start(suicidal())
    await settle(task)
    assert task.cancelled() and gate.cancelled()


@behaviour
async def cancels_itself_and_returns(start):
    async def suicidal():
        asyncio.current_task().cancel("late")
        return 5

    task = await start(suicidal())
    assert task.done() and task.cancelled()


@behaviour
async def cancels_itself_and_raises(start):
    async def suicidal():
        asyncio.current_task().cancel()
        raise KeyError("wins")

    task = await start(suicidal())
    with pytest.raises(KeyError):
        await task


@behaviour
async def cancel_from_within_a_nested_start(start):
    spawn = start.now
    seen = []

    async def killer(victim):
        victim.cancel("nested")

    async def outer():
        await spawn(killer(asyncio.current_task()))
        await asyncio.sleep(0)
        seen.append("not reached")

    task = await start(outer())
    with pytest.raises(asyncio.CancelledError, match="nested"):
        await task
    assert seen == []


@behaviour
async def exception_in_place_of_the_cancel(start):
    async def turns():
        try:
            await forever()
        except asyncio.CancelledError:
            raise ValueError("instead") from None

    task = await start(turns())
    task.cancel()
    with pytest.raises(ValueError, match="instead"):
        await task
    assert not task.cancelled()


@behaviour
async def context_is_right_when_cancelled(start):
    seen = []

    async def waits():
        VAR.set(3)
        try:
            await forever()
        finally:
            seen.append(VAR.get())

    task = await start(waits())
    task.cancel()
    await settle(task)
    assert seen == [3] and VAR.get() == 0


@behaviour
async def timeout_and_outer_cancel_together(start):
    async def waits():
        async with asyncio.timeout(0):
            await forever()

    task = await start(waits())
    task.cancel("outer")
    await settle(task)
    assert task.cancelled()


@behaviour
async def shield_inside_a_cancelled_task(start):
    gate = asyncio.get_running_loop().create_future()

    async def waits():
        await asyncio.shield(gate)

    task = await start(waits())
    task.cancel()
    await settle(task)
    assert task.cancelled() and not gate.cancelled()
    gate.cancel()


# -- anyio -----------------------------------------------------------------------------------------


@behaviour
async def anyio_scopes_in_the_first_step(start):
    async def scoped():
        me = asyncio.current_task()
        with anyio.move_on_after(0.005) as scope:
            await anyio.sleep(5)
        assert scope.cancelled_caught
        with pytest.raises(TimeoutError):
            with anyio.fail_after(0.005):
                await forever()
        with anyio.CancelScope() as scope:
            scope.cancel()
            await anyio.sleep(5)
        assert scope.cancelled_caught and me.cancelling() == 0
        await anyio.sleep(0)
        return asyncio.current_task() is me

    assert await (await start(scoped()))


@behaviour
async def anyio_scope_cancelled_from_outside(start):
    scopes = []

    async def scoped():
        with anyio.CancelScope() as scope:
            scopes.append(scope)
            await forever()
        await anyio.lowlevel.checkpoint()
        return scope.cancelled_caught

    task = await start(scoped())
    scopes[0].cancel()
    assert await task is True


@behaviour
async def anyio_scope_of_the_starter_is_not_inherited(start):
    async def child():
        await anyio.sleep(0.003)
        return "whole"

    with anyio.CancelScope() as scope:
        task = start.now(child())
        scope.cancel()
        await anyio.sleep(5)
    assert scope.cancelled_caught
    assert await task == "whole"


@behaviour
async def anyio_task_group(start):
    seen = []

    async def child(n):
        await anyio.sleep(0.001 * n)
        seen.append(n)

    async def groups():
        async with anyio.create_task_group() as tg:
            tg.start_soon(child, 1)
            tg.start_soon(child, 2)
        with pytest.raises(ExceptionGroup):
            async with anyio.create_task_group() as tg:
                tg.start_soon(forever)
                raise ValueError
        async with anyio.create_task_group() as tg:
            tg.start_soon(forever)
            tg.cancel_scope.cancel()
        return sorted(seen)

    assert await (await start(groups())) == [1, 2]


@behaviour
async def anyio_task_group_cancelled_natively(start):
    seen = []

    async def child():
        try:
            await forever()
        finally:
            seen.append("child")

    async def groups():
        async with anyio.create_task_group() as tg:
            tg.start_soon(child)
            await forever()

    task = await start(groups())
    await asyncio.sleep(0.001)
    task.cancel()
    await settle(task)
    assert task.cancelled() and seen == ["child"]


@behaviour
async def anyio_shielded_cleanup(start):
    async def cleans():
        with anyio.move_on_after(0.002):
            try:
                await forever()
            finally:
                with anyio.CancelScope(shield=True):
                    await anyio.sleep(0.002)
                    VAR.set("clean")
        return VAR.get()

    assert await (await start(cleans())) == "clean"


@behaviour
async def anyio_threads(start):
    async def on_loop(n):
        await anyio.sleep(0)
        return n + VAR.get()

    def in_thread():
        return anyio.from_thread.run(on_loop, 1) + anyio.from_thread.run_sync(lambda: VAR.get())

    async def threads():
        VAR.set(10)
        return await anyio.to_thread.run_sync(in_thread)

    assert await (await start(threads())) == 21


@behaviour
async def anyio_streams_and_events(start):
    send, receive = anyio.create_memory_object_stream(0)
    event = anyio.Event()

    async def producer():
        async with send:
            for i in range(3):
                await send.send(i)
        event.set()

    async def consumer():
        async with receive:
            return [item async for item in receive]

    first = await start(producer())
    second = await start(consumer())
    assert await second == [0, 1, 2]
    await first
    await event.wait()
    info = anyio.get_current_task()
    assert info.id == id(asyncio.current_task())


@behaviour
async def anyio_sees_the_tasks(start):
    async def me():
        await anyio.sleep(0)
        return anyio.get_current_task().id

    task = await start(me())
    assert id(task) in {info.id for info in anyio.get_running_tasks()}
    assert await task == id(task)
