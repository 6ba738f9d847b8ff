"""What `spawner` itself promises: when the first step runs, what it falls back to, what it leaves behind."""

import asyncio
import gc
import sys
import threading
import tracemalloc
import weakref

import pytest
from task_support import HOWS, PLACES, VAR, forever, make_start

from headrace.transports import _task
from headrace.transports._task import EAGER, spawner


async def quick():
    return 1


async def suspends():
    await asyncio.sleep(0)
    return 2


def test_first_step_runs_at_once(run):
    async def main():
        spawn = spawner(asyncio.get_running_loop())
        seen = []

        async def two_steps():
            seen.append(asyncio.current_task())
            await asyncio.sleep(0)
            seen.append("second")

        task = spawn(two_steps())
        assert seen == [task] and not task.done() and type(task) is asyncio.Task
        await task
        assert seen == [task, "second"]

    assert EAGER
    run(main)


def test_first_step_in_a_bare_callback(run):
    async def main():
        loop = asyncio.get_running_loop()
        spawn = spawner(loop)
        seen = []

        def callback():
            task = spawn(quick())
            assert task.done()
            try:
                seen.append(asyncio.current_task())
            finally:
                done.set_result(task.result())

        done = loop.create_future()
        loop.call_soon(callback)
        assert await done == 1 and seen == [None]

    run(main)


def test_reader_callback(run):
    """The place it is made for: a callback of `add_reader`."""
    import socket

    async def main():
        loop = asyncio.get_running_loop()
        spawn = spawner(loop)
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        got = loop.create_future()

        async def handle(data):
            async with asyncio.timeout(5):
                await asyncio.sleep(0.001)
            return data

        def readable():
            task = spawn(handle(ours.recv(100)))
            loop.remove_reader(ours)
            task.add_done_callback(lambda t: got.set_result(t.result()))

        loop.add_reader(ours, readable)
        theirs.send(b"hello")
        try:
            assert await got == b"hello"
        finally:
            ours.close()
            theirs.close()

    run(main)


@pytest.mark.parametrize("how", ["create_task", "spawner"])
@pytest.mark.parametrize("place", PLACES)
def test_exception_never_retrieved_is_reported(run, how, place):
    async def main():
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        start = make_start(how, place)

        async def fails(suspend):
            if suspend:
                await asyncio.sleep(0)
            raise ValueError("lost")

        for suspend in False, True:
            task = await start(fails(suspend))
            await asyncio.wait([task])
            del task
            gc.collect()
            (context,) = complaints
            assert context["message"] == "Task exception was never retrieved"
            assert str(context["exception"]) == "lost"
            complaints.clear()
            del context
        task = await start(fails(False))
        assert task.exception() is not None
        del task
        gc.collect()
        assert complaints == []

    run(main)


@pytest.mark.parametrize("how", HOWS)
def test_pending_task_that_is_lost_is_reported(run, how):
    async def main():
        complaints = []
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
        task = await make_start(how, "task")(forever())
        ref = weakref.ref(task)
        del task
        gc.collect()
        assert ref() is None
        assert [c["message"] for c in complaints] == ["Task was destroyed but it is pending!"]
        complaints.clear()

    run(main)


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt])
@pytest.mark.parametrize("suspend", [False, True])
@pytest.mark.parametrize("how", HOWS)
def test_end_of_the_process_passes_through(loop_name, how, suspend, error):
    """SystemExit and KeyboardInterrupt end the task and leave the loop, in any step."""
    uv = loop_name == "uvloop"
    loop = pytest.importorskip("uvloop").new_event_loop() if uv else asyncio.new_event_loop()
    tasks = []

    async def ends():
        tasks.append(asyncio.current_task())
        if suspend:
            await asyncio.sleep(0)
        raise error(3)

    async def main():
        spawn = loop.create_task if how == "create_task" else spawner(loop)
        loop.call_soon(lambda: spawn(ends()))
        await asyncio.sleep(5)

    try:
        waits = loop.create_task(main())
        with pytest.raises(error):
            loop.run_until_complete(waits)
        (task,) = tasks
        assert task.done() and isinstance(task.exception(), error)

        async def after():
            waits.cancel()
            await asyncio.wait([waits])
            return asyncio.current_task() is not None and await spawner(loop)(quick())

        assert loop.run_until_complete(after()) == 1
    finally:
        loop.close()


def test_outer_task_is_restored_after_system_exit(run):
    async def main():
        me = asyncio.current_task()

        async def ends():
            VAR.set("inner")
            raise SystemExit(1)

        with pytest.raises(SystemExit):
            spawner(asyncio.get_running_loop())(ends())
        assert asyncio.current_task() is me and VAR.get() == 0
        async with asyncio.timeout(5):
            await asyncio.sleep(0)

    run(main)


def test_task_factory_makes_the_task(run):
    class Mine(asyncio.Task):
        pass

    async def main():
        loop = asyncio.get_running_loop()
        loop.set_task_factory(lambda loop, coro, **kw: Mine(coro, loop=loop, **kw))
        VAR.set("seen")

        async def looks():
            return VAR.get()

        task = spawner(loop)(looks())
        assert type(task) is Mine and not task.done()
        assert await task == "seen"

    run(main)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="asyncio.eager_task_factory is new in 3.12")
def test_eager_task_factory_stays_eager(run):
    async def main():
        loop = asyncio.get_running_loop()
        loop.set_task_factory(asyncio.eager_task_factory)
        task = spawner(loop)(quick())
        loop.set_task_factory(None)
        assert task.done() and task.result() == 1

    run(main)


def test_replaced_task_class_is_respected(run, monkeypatch):
    async def main():
        monkeypatch.setattr(asyncio, "Task", type("Patched", (asyncio.Task,), {}))
        task = spawner(asyncio.get_running_loop())(quick())
        assert not task.done()
        assert await task == 1
        monkeypatch.undo()

    run(main)


def test_debug_mode_knows_where_the_task_was_made(run):
    async def main():
        loop = asyncio.get_running_loop()
        loop.set_debug(True)
        task = spawner(loop)(suspends())
        assert f"created at {__file__}" in repr(task)
        assert await task == 2

    run(main)


def test_each_thread_has_its_loop(run):
    """The step function is shared by all loops of the process."""
    failures = []

    async def many():
        spawn = spawner(asyncio.get_running_loop())

        async def job(n):
            child = spawn(suspends())
            assert asyncio.current_task().get_loop() is asyncio.get_running_loop()
            return n + await child

        for n in range(300):
            assert await spawn(job(n)) == n + 2

    def other():
        try:
            asyncio.run(many())
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=other) for _ in range(3)]
    for thread in threads:
        thread.start()
    run(many)
    for thread in threads:
        thread.join(20)
    assert failures == []


@pytest.mark.parametrize("fn", [quick, suspends])
def test_finished_task_is_freed_without_the_collector(run, fn):
    async def main():
        spawn = spawner(asyncio.get_running_loop())
        gc.disable()
        try:
            coro = fn()
            refs = [weakref.ref(coro)]
            task = spawn(coro)
            await task
            refs.append(weakref.ref(task))
            del coro, task
            await asyncio.sleep(0)
            assert [ref() for ref in refs] == [None, None]
        finally:
            gc.enable()

    run(main)


def test_nothing_is_left_of_many_tasks(run):
    """Memory and reference counts are flat over 100 000 tasks of every ending."""

    async def main():
        loop = asyncio.get_running_loop()
        spawn = spawner(loop)

        async def fails():
            raise ValueError

        async def outer():
            return spawn(quick()).result()

        async def rounds(n):
            for _ in range(n):
                assert spawn(quick()).result() == 1
                assert spawn(fails()).exception() is not None
                assert spawn(outer()).result() == 1
                cancelled, finished = spawn(forever()), spawn(suspends())
                cancelled.cancel()
                await finished
                await asyncio.sleep(0)
                assert cancelled.cancelled()
                del cancelled, finished

        await rounds(500)
        gc.collect()
        tracemalloc.start()
        try:
            await rounds(100)
            gc.collect()
            counts = [sys.getrefcount(x) for x in (loop, asyncio.Task, quick, asyncio.current_task())]
            before = tracemalloc.get_traced_memory()[0]
            await rounds(2000)
            gc.collect()
            after = tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()
        assert counts == [sys.getrefcount(x) for x in (loop, asyncio.Task, quick, asyncio.current_task())]
        assert after - before < 20_000
        await rounds(14_000)
        assert len(asyncio.all_tasks()) <= 2

    run(main)


def test_cycle_through_a_pending_task_is_collected(run):
    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, context: None)
        spawn = spawner(asyncio.get_running_loop())

        class Holder:
            pass

        async def waits(holder):
            holder.task = asyncio.current_task()
            await forever()

        holder = Holder()
        ref = weakref.ref(holder)
        spawn(waits(holder))
        del holder
        gc.collect()
        assert ref() is None

    run(main)


def test_collector_runs_inside_a_first_step(run):
    async def main():
        spawn = spawner(asyncio.get_running_loop())

        async def collects(depth):
            gc.collect()
            inner = spawn(collects(depth - 1)) if depth else None
            gc.collect()
            await asyncio.sleep(0)
            return depth + (await inner if inner else 0)

        assert await spawn(collects(5)) == 15

    run(main)


def test_public_names():
    assert _task.__all__ == ["EAGER", "spawner"]
