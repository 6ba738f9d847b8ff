"""WorkerPool: blocking functions off the loop."""

import asyncio
import contextvars
import gc
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

import headrace
from headrace.transports.workers import WorkerPool

VAR = contextvars.ContextVar("VAR", default="unset")
SRC = Path(headrace.__file__).parents[1]


@pytest.fixture
def pool():
    made = WorkerPool(4, "test-worker")
    yield made
    made.close()
    until(lambda: made.active == 0)


def until(condition):
    """Waits in this thread, at most 10 s, until `condition()` holds."""
    end = time.monotonic() + 10
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    assert condition()


async def until_async(condition):
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.001)


def test_result_arguments_and_thread_name(run, pool):
    async def main():
        future = pool.run(lambda a, b: (a + b, threading.current_thread()), 1, 2)
        assert asyncio.isfuture(future) and type(future) is type(asyncio.get_running_loop().create_future())
        total, thread = await future
        assert total == 3 and thread.name == "test-worker-1" and thread.daemon

    run(main)


def test_b85_contextvar_of_the_caller_is_seen(run, pool):
    def job():
        seen = VAR.get()
        VAR.set("thread")
        return seen

    async def main():
        VAR.set("caller")
        assert await pool.run(job) == "caller"
        assert VAR.get() == "caller"
        assert await pool.run(job) == "caller"

    run(main)


def test_b85_two_hundred_jobs_are_limited_by_the_pool(run, pool):
    lock, peak, now = threading.Lock(), 0, 0

    def job(n):
        nonlocal peak, now
        with lock:
            now += 1
            peak = max(peak, now)
        time.sleep(0.001)
        with lock:
            now -= 1
        return n

    async def main():
        ticks = 0
        futures = [pool.run(job, n) for n in range(200)]
        assert pool.active == 4 and pool.queued >= 1
        while not all(f.done() for f in futures):
            await asyncio.sleep(0)
            ticks += 1
        assert [f.result() for f in futures] == list(range(200))
        assert ticks > 1 and pool.queued == 0

    run(main)
    assert peak == 4


def test_b85_blocked_jobs_do_not_block_the_loop(run, pool):
    gate = threading.Event()

    async def main():
        futures = [pool.run(gate.wait, 10) for _ in range(3)]
        for _ in range(20):
            await asyncio.sleep(0)
        assert not any(f.done() for f in futures) and pool.active == 3
        gate.set()
        assert await asyncio.gather(*futures) == [True] * 3

    run(main)


def test_backlog_is_served_in_order_and_idle_threads_are_reused(run):
    pool = WorkerPool(1)
    order, threads = [], set()

    def job(n):
        order.append(n)
        threads.add(threading.current_thread())

    async def main():
        await asyncio.gather(*(pool.run(job, n) for n in range(20)))
        await until_async(lambda: pool.active == 0)
        await pool.run(job, 20)

    run(main)
    pool.close()
    assert order == list(range(21)) and len(threads) == 1


def test_idle_thread_is_preferred_to_a_new_one(run, pool):
    async def main():
        names = set()
        for _ in range(10):
            names.add(await pool.run(lambda: threading.current_thread().name))
            await until_async(lambda: pool.active == 0)
        assert names == {"test-worker-1"}

    run(main)


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "error",
    [StopIteration(5), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), Odd(), asyncio.CancelledError()],
    ids=lambda e: type(e).__name__,
)
def test_b86_what_would_mean_something_else_becomes_runtime_error(run, pool, error):
    def job():
        raise error

    async def main():
        with pytest.raises(RuntimeError, match=type(error).__name__) as caught:
            await pool.run(job)
        assert caught.value.__cause__ is error
        assert asyncio.current_task().cancelling() == 0
        assert await pool.run(lambda: "alive") == "alive"

    run(main)


def test_exception_keeps_its_traceback_without_the_pool(run, pool):
    def job():
        raise ValueError("mine")

    async def main():
        with pytest.raises(ValueError, match="mine") as caught:
            await pool.run(job)
        return [entry.name for entry in caught.traceback]

    assert run(main)[-1] == "job" and "execute" not in run(main)


def test_cancelled_job_in_the_backlog_never_runs(run):
    pool = WorkerPool(1)
    gate, ran = threading.Event(), []

    async def main():
        first = pool.run(gate.wait, 10)
        waiting = [pool.run(ran.append, n) for n in range(100)]
        assert pool.queued == 100
        for future in waiting[:99]:
            future.cancel()
        await asyncio.sleep(0)
        assert pool.queued == 1
        gate.set()
        assert await first is True
        await waiting[99]
        assert ran == [99] and pool.dropped == 0

    run(main)
    pool.close()


@pytest.mark.parametrize("fails", [False, True])
def test_t17_result_after_cancel_is_dropped_and_counted(run, pool, fails):
    gate = threading.Event()
    complaints = []

    def job():
        gate.wait(10)
        if fails:
            raise ValueError
        return 1

    async def main():
        asyncio.get_running_loop().set_exception_handler(lambda loop, c: complaints.append(c))
        future = pool.run(job)
        await asyncio.sleep(0)
        future.cancel()
        with pytest.raises(asyncio.CancelledError):
            await future
        assert pool.active == 1
        gate.set()
        await until_async(lambda: pool.dropped == 1)
        del future
        gc.collect()

    run(main)
    assert complaints == []


def test_task_cancelled_while_it_waits_for_a_job(run, pool):
    gate = threading.Event()

    async def main():
        async def handler():
            return await pool.run(gate.wait, 10)

        task = asyncio.create_task(handler())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()
        gate.set()
        await until_async(lambda: pool.dropped == 1)

    run(main)


def test_loop_closed_before_the_result(loop_name, run, pool):
    gate = threading.Event()

    async def main():
        pool.run(gate.wait, 10)
        pool.run(gate.wait, 10)

    run(main)
    gate.set()
    until(lambda: pool.dropped == 2 and pool.active == 0)

    async def again():
        return await pool.run(lambda: 5)

    assert run(again) == 5


def test_several_results_share_a_wake_up(run, pool):
    async def main():
        loop = asyncio.get_running_loop()
        futures = [pool.run(lambda: 1) for _ in range(50)]
        outlet = pool._outlet
        calls = 0

        class Counting:
            def call_soon_threadsafe(self, fn):
                nonlocal calls
                calls += 1
                return loop.call_soon_threadsafe(fn)

        outlet.loop = Counting()
        until(lambda: pool.active == 0)  # the loop does not turn meanwhile
        assert not any(f.done() for f in futures)
        assert await asyncio.gather(*futures) == [1] * 50
        assert calls <= 4  # one, or one a thread where they raced for the flag

    run(main)


def test_two_loops_share_a_pool(run, pool):
    results = []

    def other():
        async def inner():
            return [await pool.run(lambda: threading.current_thread().name) for _ in range(20)]

        results.append(asyncio.run(inner()))

    async def main():
        thread = threading.Thread(target=other)
        thread.start()
        for n in range(50):
            assert await pool.run(lambda n: n, n) == n
        await asyncio.to_thread(thread.join, 10)

    run(main)
    assert len(results[0]) == 20


def test_close(run):
    pool = WorkerPool(1)
    gate = threading.Event()

    async def main():
        running = pool.run(gate.wait, 10)
        waiting = pool.run(gate.wait, 10)
        pool.close()
        pool.close()
        assert waiting.cancelled() and pool.queued == 0
        with pytest.raises(RuntimeError, match="closed"):
            pool.run(gate.wait)
        gate.set()
        assert await running is True
        await until_async(lambda: pool.active == 0)

    run(main)


def test_close_ends_idle_threads(run):
    pool = WorkerPool(2, "closing-worker")

    async def main():
        await asyncio.gather(pool.run(time.sleep, 0.001), pool.run(time.sleep, 0.001))
        await until_async(lambda: pool.active == 0)

    run(main)
    pool.close()
    until(lambda: not any(t.name.startswith("closing-worker") for t in threading.enumerate()))
    assert pool.active == 0


def test_limit_is_checked():
    with pytest.raises(ValueError, match="at least 1"):
        WorkerPool(0)


def test_run_needs_a_loop(pool):
    with pytest.raises(RuntimeError):
        pool.run(print)


def test_thread_refused_by_the_system(run, pool, monkeypatch):
    gate = threading.Event()

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    async def main():
        first = pool.run(gate.wait, 10)
        monkeypatch.setattr(threading.Thread, "start", refuse)
        second = pool.run(lambda: "later")
        assert pool.queued == 1 and pool.active == 1
        gate.set()
        assert await first is True and await second == "later"

    run(main)
    monkeypatch.undo()
    monkeypatch.setattr(threading.Thread, "start", refuse)
    fresh = WorkerPool(1)

    async def alone():
        with pytest.raises(RuntimeError, match="can't start"):
            fresh.run(print)
        assert fresh.active == 0

    run(alone)


class Thing:
    pass


def test_nothing_is_kept_of_a_finished_job(run, pool):
    def ok(thing):
        return thing

    def fails(thing):
        raise ValueError(thing)

    async def one(fn):
        thing = Thing()
        ref = weakref.ref(thing)
        try:
            await pool.run(fn, thing)
        except ValueError as e:
            assert e.args[0] is thing
        del thing
        await until_async(lambda: pool.active == 0)
        return ref

    async def main():
        gc.collect()
        gc.disable()
        try:
            for fn in ok, fails:
                ref = await one(fn)
                await asyncio.sleep(0)
                assert ref() is None, fn
        finally:
            gc.enable()

    run(main)


STUCK = """
import asyncio, sys, threading
sys.path.insert(0, sys.argv[1])
from headrace.transports.workers import WorkerPool

async def main():
    pool = WorkerPool(2)
    started = threading.Event()
    def stuck():
        started.set()
        threading.Event().wait()
    pool.run(stuck)
    pool.run(stuck)
    pool.run(stuck)
    while not started.is_set():
        await asyncio.sleep(0.001)
    pool.close()
    print("left", pool.active)

if sys.argv[2] == "uvloop":
    import uvloop
    uvloop.run(main())
else:
    asyncio.run(main())
"""


def test_b19_stuck_thread_does_not_keep_the_process(loop_name):
    done = subprocess.run([sys.executable, "-c", STUCK, str(SRC), loop_name], capture_output=True, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"left 2\n", b"")
