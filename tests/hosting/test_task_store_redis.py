"""Tasks in Redis: what several processes make of it, and what a loss of Redis or of a process leaves.

Two servers of one process stand for two processes: each has a store and a backplane of its own. What all stores do alike
is in tests/unit/test_task_stores.py and test_tasks_shared.py, which run over this one too.
"""

import asyncio
import logging
import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from server_pipe import META, Pipe
from test_task_stores import task

import headrace
from headrace import Limits, Server
from headrace.hosting.backplane import RedisBackplane
from headrace.protocol.backplane import BackplaneLost
from headrace.protocol.tasks.store import ORPHANED, MemoryTaskStore, Signal, TasksFull
from hosting.backplane_support import until
from hosting.redis_support import redis_cluster, redis_server
from hosting.task_support import OwnRedisStore

TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}
TESTS = Path(__file__).parents[1]
UNUSABLE = {"code": -32603, "message": "the task store cannot be used now"}


async def one_store(shared, prefix):
    """As a process has it, started."""
    store = OwnRedisStore(shared.url, prefix)
    await store.start(Limits())
    return store


async def two_stores(shared, prefix):
    return [await one_store(shared, prefix) for _ in range(2)]


@pytest.fixture(scope="module")
def shared():
    """A Redis for all tests of the file that do not stop it."""
    with redis_server(keeps=False) as server:
        yield server


@pytest.fixture
def prefix():
    return f"t{secrets.token_hex(4)}"


def make(store, **limits):
    """A server with a tool that waits for its event ``go`` and then answers with its text."""
    app = Server("t", version="1", limits=Limits(**limits))
    app.tasks(store, poll_interval=0.01)
    app.go = asyncio.Event()
    app.stopped = []

    @app.tool(task="optional")
    async def work(text: str = "done") -> str:
        try:
            await app.go.wait()
        except asyncio.CancelledError:
            app.stopped.append(text)
            raise
        return text

    return app


async def started(pipe, **arguments):
    return (await pipe.call("work", arguments, meta=TASKS))["result"]["taskId"]


async def state(pipe, task_id):
    answer = await pipe.ask("get", "tasks/get", {"taskId": task_id}, meta=TASKS)
    return answer.get("result") or answer["error"]


async def becomes(pipe, task_id, status):
    for _ in range(3000):
        found = await state(pipe, task_id)
        if found.get("status") == status:
            return found
        await asyncio.sleep(0.005)
    raise AssertionError(found)


async def settled(pipe, task_id):
    for _ in range(3000):
        found = await state(pipe, task_id)
        if found.get("status") in ("completed", "failed"):
            return found
        await asyncio.sleep(0.005)
    raise AssertionError(found)


def news(pipe):
    return [message["params"]["status"] for message in pipe.out if message.get("method") == "notifications/tasks"]


# --- many at once -------------------------------------------------------------------------------------


def test_tk05_bounds_hold_for_all_processes_together(run, shared, prefix):
    async def main():
        stores = [OwnRedisStore(shared.url, prefix) for _ in range(2)]
        for store in stores:
            await store.start(Limits(max_tasks=20, max_task_bytes=1000))
        made = [task(stores[n % 2], owner=f"u:{n}") for n in range(60)]
        outcomes = await asyncio.gather(
            *(stores[n % 2].create(each) for n, each in enumerate(made)), return_exceptions=True
        )
        kept = [each for each, outcome in zip(made, outcomes, strict=True) if outcome is None]
        assert len(kept) == 20
        assert {type(outcome) for outcome in outcomes} == {type(None), TasksFull}
        fields = {"status": "completed", "payload": b"x" * 100}
        outcomes = await asyncio.gather(
            *(stores[n % 2].change(each.id, fields) for n, each in enumerate(kept)), return_exceptions=True
        )
        assert sum(isinstance(outcome, TasksFull) for outcome in outcomes) == 10
        for store in stores:
            await store.stop()

    run(main)


def test_tk04_of_two_ends_at_once_one_counts(run, shared, prefix):
    async def main():
        one, two = await two_stores(shared, prefix)
        for _ in range(50):
            made = task(one)
            await one.create(made)
            outcomes = await asyncio.gather(
                one.change(made.id, {"status": "completed", "payload": b"{}"}),
                two.change(made.id, {"status": "cancelled", "message": "x"}),
            )
            (winner,) = [outcome for outcome in outcomes if outcome is not None]
            assert await two.get(made.id) == winner
        await one.stop()
        await two.stop()

    run(main)


def test_tk29_nothing_stays_in_redis_for_ever(run, shared, prefix):
    """Every key has an end, also where no server is left to sweep; what is swept leaves no key but the counter."""

    async def main():
        store = await one_store(shared, prefix)
        made = task(store, ttl=60_000, owner="u:a")
        short = task(store, ttl=20)
        await store.create(made)
        await store.create(short)
        await store.follow(made.id)
        await store.post(Signal(made.id, "cancel", "", b""))
        await store.change(made.id, {"status": "completed", "payload": b"{}"})
        ends = {key: shared.ask("TTL", key) for key in shared.ask("KEYS", f"{{{prefix}}}:tasks:*")}
        assert ends and all(0 < end < 60 + 3602 for end in ends.values()), ends
        await asyncio.sleep(0.03)
        assert await store.sweep() == [short.id]
        await store.delete(made.id)
        assert shared.ask("GET", f"{{{prefix}}}:tasks:bytes") == b"0"
        assert await store.signals() != [] and await store.signals() == []
        left = shared.ask("KEYS", f"{{{prefix}}}:tasks:*")
        assert sorted(key.rpartition(b":")[2] for key in left) == [b"bytes", b"seq"]
        await store.stop()

    run(main)


def test_a_task_whose_hash_ended_by_itself_is_swept_all_the_same(run, shared, prefix):
    async def main():
        store = await one_store(shared, prefix)
        made = task(store, ttl=20, owner="u:a")
        await store.create(made)
        await store.change(made.id, {"status": "completed", "payload": b"12345"})
        shared.ask("DEL", f"{{{prefix}}}:tasks:t:{made.id}")
        await asyncio.sleep(0.03)
        assert await store.sweep() == [made.id]
        assert shared.ask("GET", f"{{{prefix}}}:tasks:bytes") == b"0"
        assert await store.page("u:a", 0, 10) == ([], None)
        await store.stop()

    run(main)


def test_signals_come_again_until_the_next_look(run, shared, prefix):
    """An answer of Redis that gets lost takes no signal with it."""

    async def main():
        one, two = await two_stores(shared, prefix)
        made = task(one)
        await one.create(made)
        await two.post(Signal(made.id, "input", "k", b'{"\xff":1}'))
        first = await one.signals()
        one._taken = 0  # as if that answer had not come
        assert first == await one.signals() == [Signal(made.id, "input", "k", b'{"\xff":1}')]
        assert await one.signals() == []
        await one.stop()
        await two.stop()

    run(main)


def test_a_script_that_redis_has_forgotten_is_sent_again(run, shared, prefix):
    async def main():
        store = await one_store(shared, prefix)
        made = task(store)
        await store.create(made)
        shared.ask("SCRIPT", "FLUSH")
        assert await store.get(made.id) == made
        await store.stop()
        with pytest.raises(BackplaneLost, match="closed"):
            await store.get(made.id)

    run(main)


# --- a process dies -----------------------------------------------------------------------------------


def test_tasks_of_a_dead_process_fail_and_who_follows_them_is_told(run, shared, prefix):
    """The death is known to somebody, as a supervisor knows it: nobody waits for the lease to end."""

    async def main():
        stores = [OwnRedisStore(shared.url, prefix, lease=60.0) for _ in range(3)]
        apps = [make(store) for store in stores]
        async with apps[1].running(), apps[2].running():
            await stores[0].start(Limits())  # nothing of it runs in a server: it ends without a word
            mine = [task(stores[0], ttl=60_000) for _ in range(450)]
            await asyncio.gather(*(stores[0].create(each) for each in mine))
            pipe = Pipe(apps[1])
            other = await started(pipe)
            wanted = {"notifications": {"taskIds": [mine[0].id, mine[449].id]}}
            pipe.send("L", "subscriptions/listen", wanted, meta=TASKS)
            await until(lambda: news(pipe) == ["working", "working"])
            await stores[2].backplane.bury(stores[0].worker)
            await until(lambda: news(pipe)[2:] == ["failed", "failed"])
            for each in (mine[0], mine[200], mine[449]):
                found = await state(pipe, each.id)
                assert found["status"] == "failed" and found["statusMessage"] == ORPHANED
                assert found["error"] == {"code": -32603, "message": ORPHANED}
            assert (await state(pipe, other))["status"] == "working"
            assert shared.ask("SMEMBERS", f"{{{prefix}}}:tasks:run:{stores[0].worker}") in ([], set())
            pipe.mux.close()
        await stores[0].stop()

    run(main)


def test_tasks_of_a_process_without_a_lease_fail_by_themselves(run, shared, prefix):
    async def main():
        dead, store = (OwnRedisStore(shared.url, prefix, lease=0.3) for _ in range(2))
        await dead.start(Limits())
        await store.start(Limits())
        made = task(dead, ttl=60_000)
        await dead.create(made)
        for each in dead.backplane._tasks:
            each.cancel()  # it renews its lease no more
        for _ in range(400):
            found = await store.get(made.id)
            if found.terminal:
                break
            await asyncio.sleep(0.02)
        assert found.status == "failed" and found.message == ORPHANED
        await store.stop()
        await dead.stop()

    run(main)


def test_a_store_that_stops_leaves_no_task_behind(run, shared, prefix):
    async def main():
        one, two = await two_stores(shared, prefix)
        made = task(one)
        await one.create(made)
        await one.stop()
        assert (await two.get(made.id)).message == ORPHANED
        await two.stop()

    run(main)


# --- Redis is lost ------------------------------------------------------------------------------------


def test_se08_without_redis_tasks_fail_clearly_and_results_are_kept_when_it_is_back(run, caplog):
    with redis_server(keeps=True) as redis:

        async def main():
            store = OwnRedisStore(redis.url, lease=2.0)
            app = make(store)
            app.tool(lambda: "plain", name="plain")
            async with app.running():
                pipe = Pipe(app)
                done = await started(pipe, text="before")
                app.go.set()
                await becomes(pipe, done, "completed")
                app.go.clear()
                ids = [await started(pipe, text=str(n)) for n in range(20)]
                redis.kill()
                app.go.set()  # they end while there is no Redis
                await until(lambda: not store.backplane.available)
                assert await state(pipe, done) == UNUSABLE
                refused = await pipe.call("work", meta=TASKS)
                assert refused["error"] == {"code": -32603, "message": "the task could not be kept"}
                for method in ("tasks/cancel", "tasks/update"):
                    params = {"taskId": ids[0], "inputResponses": {}}
                    assert (await pipe.ask("x", method, params, meta=TASKS))["error"] == UNUSABLE
                assert (await pipe.call("plain"))["result"]["content"][0]["text"] == "plain"
                assert len(app._tasks.engine.runs) == 20
                redis.restart()
                await until(lambda: store.backplane.available)
                for n, task_id in enumerate(ids):
                    found = await becomes(pipe, task_id, "completed")
                    assert found["result"]["content"][0]["text"] == str(n)
                assert (await state(pipe, done))["result"]["content"][0]["text"] == "before"
                assert app._tasks.engine.unkept == 0 and app._tasks.engine.runs == {}
                pipe.mux.close()

        with caplog.at_level(logging.ERROR):
            run(main)
    assert 1 <= len([r for r in caplog.records if r.name == "headrace.server"]) <= 10  # not one for each task


def test_a_cancel_that_could_not_be_kept_leaves_the_task_running(run):
    with redis_server(keeps=True) as redis:

        async def main():
            store = OwnRedisStore(redis.url)
            app = make(store)
            async with app.running():
                pipe = Pipe(app)
                task_id = await started(pipe)
                redis.kill()
                answer = await pipe.ask("c", "tasks/cancel", {"taskId": task_id}, meta=TASKS)
                assert answer["error"] == UNUSABLE and app.stopped == []
                redis.restart()
                await until(lambda: store.backplane.available)
                app.go.set()
                await becomes(pipe, task_id, "completed")
                pipe.mux.close()

        run(main)


def test_tasks_that_run_are_kept_anew_in_a_redis_that_came_back_empty(run):
    """Without persistence what had ended is gone; what runs is not."""
    with redis_server(keeps=False) as redis:

        async def main():
            store = OwnRedisStore(redis.url)
            app = make(store)
            async with app.running():
                pipe = Pipe(app)
                ids = [await started(pipe, text=str(n)) for n in range(3)]
                redis.restart()
                for task_id in ids:
                    assert (await becomes(pipe, task_id, "working"))["taskId"] == task_id
                assert app.stopped == []
                app.go.set()
                for n, task_id in enumerate(ids):
                    found = await becomes(pipe, task_id, "completed")
                    assert found["result"]["content"][0]["text"] == str(n)
                pipe.mux.close()

        run(main)


def test_a_redis_that_hangs_holds_nobody_for_long(run):
    with redis_server() as redis:

        async def main():
            store = OwnRedisStore(redis.url, timeout=0.3)
            app = make(store)
            async with app.running():
                pipe = Pipe(app)
                task_id = await started(pipe)
                redis.pause()
                try:
                    answers = await asyncio.gather(
                        *(pipe.ask(n, "tasks/get", {"taskId": task_id}, meta=TASKS) for n in range(40))
                    )
                finally:
                    redis.resume()
                assert [answer["error"] for answer in answers] == [UNUSABLE] * 40
                app.go.set()
                await becomes(pipe, task_id, "completed")
                pipe.mux.close()

        run(main)


def test_processes_that_outlived_redis_keep_their_tasks(run):
    """While Redis was away all leases ran out, of processes that live: the first one back must not fail the tasks of the
    others."""
    with redis_server(keeps=True) as redis:

        async def main():
            prefix = "both"
            stores = [OwnRedisStore(redis.url, prefix, lease=0.6) for _ in range(2)]
            apps = [make(store) for store in stores]
            async with apps[0].running(), apps[1].running():
                pipes = [Pipe(app) for app in apps]
                ids = [await started(pipe) for pipe in pipes]
                redis.kill()
                await asyncio.sleep(1.5)
                redis.restart()
                for store in stores:
                    await until(lambda store=store: store.backplane.available)
                await asyncio.sleep(1.5)
                for pipe in pipes:
                    assert [(await state(pipe, task_id))["status"] for task_id in ids] == ["working", "working"]
                for app in apps:
                    app.go.set()
                for task_id in ids:
                    await becomes(pipes[0], task_id, "completed")
                for pipe in pipes:
                    pipe.mux.close()

        run(main)


CHILD = """
import asyncio, sys, time
from headrace import Limits
from headrace.protocol.tasks.states import Task
from hosting.task_support import OwnRedisStore

async def main():
    store = OwnRedisStore(sys.argv[1], "killed")
    await store.start(Limits(max_tasks=10**6, max_tasks_per_principal=10**6))
    print("worker", store.worker, flush=True)

    async def one(number):
        for step in range(10**6):
            now = time.time()
            task = Task(id=f"{number}-{step}", owner="", name="t", worker=store.worker, created=now, updated=now, ttl=10**6)
            await store.create(task)
            print("created", task.id, flush=True)
            if step % 2:
                await store.change(task.id, {"status": "completed", "payload": b'{"n":%d}' % step})
                print("completed", task.id, flush=True)

    await asyncio.gather(*(one(number) for number in range(8)))

asyncio.run(main())
"""


def test_nothing_acknowledged_is_lost_when_a_process_and_redis_are_killed(run):
    """Both are killed while tasks are made; Redis comes back with its append-only file, the process does not."""
    with redis_server(keeps=True) as redis:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, redis.url],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(headrace.__file__).parents[1]), str(TESTS)])},
            text=True,
        )
        lines = []
        for line in child.stdout:
            lines.append(line)
            if len(lines) == 150:
                redis.kill()
                child.send_signal(signal.SIGKILL)
                break
        lines += [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
        assert child.wait(20) == -signal.SIGKILL
        child.stdout.close()
        redis.restart()
        worker = lines.pop(0).split()[1]
        states = dict(reversed(line.split()) for line in lines)

        async def main():
            store = OwnRedisStore(redis.url, "killed")
            await store.start(Limits())
            for task_id, what in states.items():
                found = await store.get(task_id)
                if what == "completed":
                    assert found.status == "completed" and found.payload == b'{"n":%d}' % int(task_id.split("-")[1])
            await store.backplane.bury(worker)
            for task_id, what in states.items():
                for _ in range(1000):
                    found = await store.get(task_id)
                    if found.terminal:
                        break
                    await asyncio.sleep(0.005)
                # The last change of a task may have been made without its answer.
                assert found.status == "completed" or (found.message == ORPHANED and what == "created")
            await store.stop()

        run(main)
    assert len(states) >= 60


def test_a_store_in_a_cluster(run):
    with redis_cluster() as (url, _):

        async def main():
            one, two = (OwnRedisStore(url, "cluster") for _ in range(2))
            await one.start(Limits())
            await two.start(Limits())
            made = [task(one, owner="u:a", ttl=60_000) for _ in range(5)]
            for each in made:
                await one.create(each)
            signalled = []
            one.attach(lambda: signalled.append(True), lambda task_id: None, lambda: None)
            assert await two.follow(made[0].id) == made[0]
            await two.post(Signal(made[0].id, "cancel", "", b""))
            await until(lambda: signalled)
            assert [each.kind for each in await one.signals()] == ["cancel"]
            assert (await two.change(made[1].id, {"status": "completed", "payload": b"{}"})).terminal
            assert [each.id for each in (await two.page("u:a", 0, 10))[0]] == [each.id for each in made]
            await one.stop()
            assert (await two.get(made[0].id)).message == ORPHANED
            await two.stop()

        run(main)


# --- the server ---------------------------------------------------------------------------------------


def test_a_server_with_a_backplane_keeps_its_tasks_there_by_itself(run, shared, prefix):
    """Unless it was given a store; with another start, and with the backplane taken away, too."""

    async def main():
        app = make(None)
        mine = MemoryTaskStore()
        own = make(mine)
        for server in (app, own):
            server.set_backplane(RedisBackplane(shared.url, prefix=prefix))
        async with own.running():
            assert own._tasks.engine.store is mine
        for _ in range(2):
            async with app.running():
                pipe = Pipe(app)
                task_id = await started(pipe)
                assert shared.ask("EXISTS", f"{{{prefix}}}:tasks:t:{task_id}") == 1
                pipe.mux.close()
            assert shared.ask("HGET", f"{{{prefix}}}:tasks:t:{task_id}", "s") == b"failed"
        app.set_backplane(None)
        async with app.running():
            assert type(app._tasks.engine.store) is MemoryTaskStore

    run(main)


def test_what_the_store_takes_for_running_here_is_compared_with_what_runs(run, shared, prefix):
    """A creation whose answer was lost ends as failed; a run whose task has ended elsewhere, unheard, is stopped."""

    async def main():
        store = OwnRedisStore(shared.url, prefix)
        app = make(store)
        async with app.running():
            lost = task(store, ttl=60_000)
            await store.create(lost)
            pipe = Pipe(app)
            stopped, runs = await started(pipe, text="stopped"), await started(pipe, text="runs")
            await store.change(stopped, {"status": "cancelled", "message": "by somebody"})
            await app._tasks.engine.sweep()
            assert (await store.get(lost.id)).message == "the task could not be kept"
            await until(lambda: app.stopped == ["stopped"])
            assert set(app._tasks.engine.runs) == {runs}
            assert (await state(pipe, stopped))["statusMessage"] == "by somebody"
            pipe.mux.close()

    run(main)


def test_results_that_wait_for_redis_are_bounded(run):
    with redis_server(keeps=True) as redis:

        async def main():
            store = OwnRedisStore(redis.url)
            app = make(store, max_task_bytes=1000)
            async with app.running():
                pipe = Pipe(app)
                ids = [await started(pipe, text="x" * 300) for _ in range(4)]
                redis.kill()
                app.go.set()
                await until(lambda: all(each._unkept for each in app._tasks.engine.runs.values()))
                assert 600 < app._tasks.engine.unkept <= 1000
                redis.restart()
                found = [await settled(pipe, task_id) for task_id in ids]
                kept = [each for each in found if each["status"] == "completed"]
                assert len(kept) == 2
                assert {each["statusMessage"] for each in found if each not in kept} == {
                    "the task store cannot be used now"
                }
                assert app._tasks.engine.unkept == 0
                pipe.mux.close()

        run(main)


def test_what_is_asked_when_the_last_answers_came_is_not_forgotten(run, shared, prefix):
    async def main():
        store = await one_store(shared, prefix)
        made = task(store, ttl=60_000)
        await store.create(made)

        async def ask(count):
            return [await store.get(made.id) for _ in range(count)]

        for found in await asyncio.gather(*(ask(150) for _ in range(3))):
            assert found == [made] * 150
        await store.stop()

    run(main)
