"""What a started coroutine sees and what its task does (design: eager start of async handlers).

One list of behaviours. Each runs on `create_task` (which says what asyncio does) and on `spawner`, started
from inside a task and from a bare loop callback, on every loop. `start(coro)` gives the task when its first
step has run, and for `spawner` no other turn of the loop has passed.
"""

import asyncio
import contextvars
import io
import types
from collections.abc import Coroutine

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


@types.coroutine
def bare_yield(value):
    return (yield value)


# -- results ---------------------------------------------------------------------------------------


@behaviour
async def returns_without_suspending(start):
    async def quick():
        return "value"

    task = await start(quick())
    assert task.done() and not task.cancelled() and task.exception() is None and task.result() == "value"
    assert await task == "value"


@behaviour
async def raises_without_suspending(start):
    async def fails():
        raise ValueError("no")

    task = await start(fails())
    assert task.done() and not task.cancelled()
    with pytest.raises(ValueError, match="no"):
        task.result()
    assert isinstance(task.exception(), ValueError)
    with pytest.raises(ValueError):
        await task


@behaviour
async def raises_cancelled_without_suspending(start):
    async def stops():
        raise asyncio.CancelledError("mine")

    task = await start(stops())
    assert task.cancelled()
    with pytest.raises(asyncio.CancelledError, match="mine"):
        task.result()


@behaviour
async def pending_task_has_no_result(start):
    task = await start(forever())
    with pytest.raises(asyncio.InvalidStateError):
        task.result()
    with pytest.raises(asyncio.InvalidStateError):
        task.exception()
    with pytest.raises(RuntimeError):
        task.set_result(1)
    with pytest.raises(RuntimeError):
        task.set_exception(ValueError())
    task.cancel()
    await settle(task)


@behaviour
async def stop_iteration_becomes_runtime_error(start):
    async def stops():
        raise StopIteration(3)

    async def stops_later():
        await asyncio.sleep(0)
        raise StopIteration(3)

    for fn in stops, stops_later:
        task = await start(fn())
        with pytest.raises(RuntimeError, match="StopIteration"):
            await task


@behaviour
async def result_after_many_suspensions(start):
    async def counts():
        total = 0
        for i in range(50):
            await asyncio.sleep(0)
            total += i
        return total

    assert await (await start(counts())) == sum(range(50))


@behaviour
async def future_result_and_exception_reach_the_coroutine(start):
    loop = asyncio.get_running_loop()
    good, bad = loop.create_future(), loop.create_future()

    async def waits():
        first = await good
        try:
            await bad
        except KeyError as e:
            return first, e.args[0]

    task = await start(waits())
    good.set_result(1)
    await asyncio.sleep(0)
    bad.set_exception(KeyError("k"))
    assert await task == (1, "k")


# -- identity --------------------------------------------------------------------------------------


@behaviour
async def current_task_is_the_same_object_throughout(start):
    seen = []

    async def looks():
        for _ in range(3):
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)

    task = await start(looks())
    await task
    assert seen == [task, task, task]


@behaviour
async def is_an_asyncio_task(start):
    coro = forever()
    task = await start(coro)
    assert isinstance(task, asyncio.Task) and isinstance(task, asyncio.Future)
    assert asyncio.isfuture(task) and asyncio.ensure_future(task) is task
    assert task.get_loop() is asyncio.get_running_loop()
    assert task.get_coro() is coro
    assert task in asyncio.all_tasks()
    assert "pending" in repr(task) and "forever" in repr(task)
    out = io.StringIO()
    task.print_stack(file=out)
    assert "forever" in out.getvalue() and task.get_stack()
    task.cancel()
    await settle(task)
    assert task not in asyncio.all_tasks()
    assert "cancelled" in repr(task)


@behaviour
async def names_differ_and_can_be_set(start):
    names = []
    gate = asyncio.get_running_loop().create_future()

    async def named():
        names.append(asyncio.current_task().get_name())
        await asyncio.shield(gate)
        names.append(asyncio.current_task().get_name())

    a, b = await start(named()), await start(named())
    assert a.get_name() != b.get_name() and isinstance(a.get_name(), str)
    a.set_name(17)
    gate.set_result(None)
    await asyncio.gather(a, b)
    assert names.count(b.get_name()) == 2 and "17" in names


@behaviour
async def finished_task_is_not_in_all_tasks(start):
    async def quick():
        assert asyncio.current_task() in asyncio.all_tasks() | {asyncio.current_task()}

    task = await start(quick())
    assert task.done() and task not in asyncio.all_tasks() and task.exception() is None


@behaviour
async def custom_coroutine_objects_are_accepted(start):
    class Twice:
        """A coroutine by interface: suspends twice, then returns what it was sent."""

        def __init__(self):
            self.sent = []

        def send(self, value):
            self.sent.append(value)
            if len(self.sent) == 3:
                raise StopIteration(self.sent)

        def throw(self, *exc):
            raise exc[0]

        def close(self):
            pass

        def __await__(self):
            return self

        __iter__ = __await__

        def __next__(self):
            return self.send(None)

    Coroutine.register(Twice)
    assert await (await start(Twice())) == [None, None, None]


# -- context ---------------------------------------------------------------------------------------


@behaviour
async def context_is_copied_and_kept(start):
    seen = []

    async def sets():
        seen.append(VAR.get())
        token = VAR.set(5)
        await asyncio.sleep(0)
        seen.append(VAR.get())
        await asyncio.sleep(0.001)
        seen.append(VAR.get())
        VAR.reset(token)
        seen.append(VAR.get())
        VAR.set(6)

    token = VAR.set(1)
    task = await start(sets())
    VAR.set(2)
    await task
    assert seen == [1, 5, 5, 1]
    assert VAR.get() == 2
    VAR.reset(token)


@behaviour
async def context_set_in_the_first_step_stays_inside(start):
    async def sets():
        VAR.set(9)

    await (await start(sets()))
    assert VAR.get() == 0


@behaviour
async def done_callback_runs_in_its_context(start):
    seen = []
    loop = asyncio.get_running_loop()
    gate = loop.create_future()

    async def waits():
        await gate

    task = await start(waits())
    ctx = contextvars.copy_context()
    ctx.run(VAR.set, 33)
    got = lambda t: seen.append((t, VAR.get()))  # noqa: E731
    gone = lambda t: seen.append("gone")  # noqa: E731
    task.add_done_callback(got, context=ctx)
    task.add_done_callback(got)
    task.add_done_callback(gone)
    task.add_done_callback(gone)
    assert task.remove_done_callback(gone) == 2
    assert task.remove_done_callback(gone) == 0
    gate.set_result(None)
    await task
    await asyncio.sleep(0)
    assert seen == [(task, 33), (task, 0)]
    task.add_done_callback(got, context=ctx)
    assert len(seen) == 2
    await asyncio.sleep(0)
    assert seen[2] == (task, 33)


# -- misuse ----------------------------------------------------------------------------------------


@behaviour
async def bad_yields_raise_in_the_coroutine(start):
    loop = asyncio.get_running_loop()
    other = asyncio.new_event_loop()

    async def yields(value):
        with pytest.raises(RuntimeError) as caught:
            await bare_yield(value)
        return str(caught.value)

    async def on_other_loop():
        with pytest.raises(RuntimeError) as caught:
            await asyncio.Future(loop=other)
        return str(caught.value)

    async def on_itself():
        with pytest.raises(RuntimeError) as caught:
            await asyncio.current_task()
        return str(caught.value)

    def generator():
        yield

    try:
        assert "got bad yield: 42" in await (await start(yields(42)))
        assert "yield was used instead of yield from" in await (await start(yields(loop.create_future())))
        assert "yield was used instead of yield from for gen" in await (await start(yields(generator())))
        assert "attached to a different loop" in await (await start(on_other_loop()))
        task = await start(on_itself())
        while not task.done():  # asyncio leaves such a task impossible to await
            await asyncio.sleep(0)
        assert "cannot await on itself" in task.result()
    finally:
        other.close()


@behaviour
async def what_is_not_a_coroutine_is_refused(start):
    for thing in (None, 3, forever, asyncio.get_running_loop().create_future()):
        with pytest.raises(TypeError, match="coroutine was expected"):
            start.now(thing)


# -- nesting ---------------------------------------------------------------------------------------


@behaviour
async def nested_starts_restore_the_outer_task(start):
    spawn = start.now
    order = []

    async def level(n):
        me = asyncio.current_task()
        VAR.set(n)
        child = spawn(level(n - 1)) if n else None
        assert asyncio.current_task() is me and VAR.get() == n
        await asyncio.sleep(0)
        assert asyncio.current_task() is me and VAR.get() == n
        if child is not None:
            await child
        order.append(n)
        return n

    assert await (await start(level(40))) == 40
    assert order == list(range(41)) and VAR.get() == 0


@behaviour
async def nested_start_that_fails_at_once(start):
    spawn = start.now

    async def fails():
        raise ValueError("inner")

    async def outer():
        me = asyncio.current_task()
        inner = spawn(fails())
        assert asyncio.current_task() is me
        with pytest.raises(ValueError):
            await inner
        async with asyncio.timeout(5):
            await asyncio.sleep(0)
        return asyncio.current_task() is me

    assert await (await start(outer()))
