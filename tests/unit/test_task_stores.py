"""Stores of tasks: all kinds by the same rules, and what only the one in a file can do."""

import asyncio
import os
import signal
import sqlite3
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import msgspec
import pytest
from hosting.redis_support import redis_one  # noqa: F401, a fixture

import headrace
from headrace import Limits, UsageError
from headrace.protocol.tasks.states import Task, new_id
from headrace.protocol.tasks.store import ORPHANED, MemoryTaskStore, Signal, TasksFull
from headrace.server.tasks.sqlite_store import SqliteTaskStore


@pytest.fixture(params=["memory", "sqlite", "redis"])
def make(request, tmp_path):
    if request.param == "redis":
        url = request.getfixturevalue("redis_one").url
        from hosting.task_support import OwnRedisStore

        return lambda: OwnRedisStore(url)
    return MemoryTaskStore if request.param == "memory" else lambda: SqliteTaskStore(tmp_path / "tasks.db")


def task(store, **fields):
    now = time.time()
    return Task(**{"id": new_id(), "owner": "", "name": "t", "worker": store.worker, "created": now, "updated": now, **fields})


def using(run, make, body, **limits):
    async def main():
        store = make()
        await store.start(Limits(**limits))
        try:
            await body(store)
        finally:
            await store.stop()

    run(main)


def test_tk22_a_created_task_is_found_with_all_its_fields(run, make):
    async def body(store):
        made = task(store, ttl=60_000, poll=5, message="m", owner="u:x")
        await store.create(made)
        assert await store.get(made.id) == made
        assert await store.get("other") is None
        changed = await store.change(
            made.id, {"status": "input_required", "inputs": {"k": msgspec.Raw(b'{"method":"x","params":{"a":1}}')}}
        )
        found = await store.get(made.id)
        assert found.status == "input_required" and bytes(found.inputs["k"]) == b'{"method":"x","params":{"a":1}}'
        assert found.updated >= made.updated and changed.status == found.status
        await store.delete(made.id)
        await store.delete(made.id)
        assert await store.get(made.id) is None and await store.change(made.id, {"message": "x"}) is None

    using(run, make, body)


@pytest.mark.parametrize("final", ["completed", "failed", "cancelled"])
def test_tk04_a_final_state_never_changes(run, make, final):
    async def body(store):
        made = task(store)
        await store.create(made)
        assert (await store.change(made.id, {"status": final, "payload": b"{}"})).terminal
        for fields in ({"status": "working"}, {"status": "completed", "payload": b'{"a":1}'}, {"message": "x"}):
            assert await store.change(made.id, fields) is None
        found = await store.get(made.id)
        assert found.status == final and found.payload == b"{}" and found.message is None

    using(run, make, body)


def test_tk05_bounds_of_number_owner_and_bytes(run, make):
    async def body(store):
        mine = [task(store, owner="u:a") for _ in range(3)]
        await store.create(mine[0])
        await store.create(mine[1])
        with pytest.raises(TasksFull, match="max_tasks_per_principal"):
            await store.create(mine[2])
        last = task(store, owner="u:b", ttl=1, created=time.time() - 1)
        await store.create(last)
        # One whose time is over makes room.
        other = task(store, owner="u:c")
        await store.create(other)
        with pytest.raises(TasksFull, match="max_tasks"):
            await store.create(task(store, owner="u:d"))
        await store.change(mine[0].id, {"status": "completed", "payload": b"x" * 60})
        with pytest.raises(TasksFull, match="max_task_bytes"):
            await store.change(mine[1].id, {"status": "completed", "payload": b"x" * 60})
        assert (await store.get(mine[1].id)).status == "working"
        await store.delete(mine[0].id)
        assert (await store.change(mine[1].id, {"status": "completed", "payload": b"x" * 60})).terminal
        await store.create(mine[2])

    using(run, make, body, max_tasks=3, max_tasks_per_principal=2, max_task_bytes=100)


def test_tk29_time_ends_tasks(run, make):
    async def body(store):
        short = task(store, ttl=30)
        long = task(store, ttl=60_000)
        keep = task(store, ttl=None)
        for each in (short, long, keep):
            await store.create(each)
        await asyncio.sleep(0.04)
        assert await store.get(short.id) is None and await store.get(long.id) is not None
        assert await store.sweep() == [short.id] and await store.sweep() == []
        assert (await store.page("", 0, 10))[0] == [long, keep]

    using(run, make, body)


def test_tk05_pages_by_owner_in_order_of_creation(run, make):
    async def body(store):
        mine = [task(store, owner="u:a", name=str(i)) for i in range(5)]
        for each in mine:
            await store.create(each)
            await store.create(task(store, owner="u:b"))
        names, after = [], 0
        while after is not None:
            tasks, after = await store.page("u:a", after, 2)
            names += [each.name for each in tasks]
        assert names == ["0", "1", "2", "3", "4"]
        assert await store.page("u:none", 0, 2) == ([], None)

    using(run, make, body)


def test_many_changes_at_once(run, make):
    async def body(store):
        made = [task(store) for _ in range(200)]
        await asyncio.gather(*(store.create(each) for each in made))
        await asyncio.gather(*(store.change(each.id, {"status": "completed", "payload": b"{}"}) for each in made))
        found = await asyncio.gather(*(store.get(each.id) for each in made))
        assert all(each.status == "completed" for each in found)

    using(run, make, body)


# --- the durable one ----------------------------------------------------------------------------------


def test_the_file_is_its_owners_alone_and_survives(run, tmp_path):
    path = tmp_path / "tasks.db"
    made = []

    async def first(store):
        made.append(task(store))
        await store.create(made[0])
        await store.change(made[0].id, {"status": "completed", "payload": b'{"content":[]}'})

    async def second(store):
        found = await store.get(made[0].id)
        assert found.payload == b'{"content":[]}' and found.status == "completed"

    using(run, lambda: SqliteTaskStore(path), first)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list((tmp_path / "tasks.db.workers").iterdir()) == []
    using(run, lambda: SqliteTaskStore(path), second)


def test_two_processes_share_a_store_and_tell_each_other(run, tmp_path):
    async def main():
        one, two = SqliteTaskStore(tmp_path / "t.db"), SqliteTaskStore(tmp_path / "t.db")
        await one.start(Limits())
        await two.start(Limits())
        made = task(one)
        await one.create(made)
        assert (await two.get(made.id)).worker == one.worker
        await two.sweep()  # one lives: its task stays
        assert (await two.get(made.id)).status == "working"
        await two.post(Signal(made.id, "cancel", "", b""))
        await two.post(Signal(made.id, "input", "k", b"{}"))
        await two.post(Signal("unknown", "cancel", "", b""))
        assert await two.signals() == []
        assert [s.kind for s in await one.signals()] == ["cancel", "input"] and await one.signals() == []
        await one.stop()
        await two.sweep()  # one is gone, and with it who ran the task
        found = await two.get(made.id)
        assert found.status == "failed" and found.message == ORPHANED
        await two.stop()

    run(main)


def test_a_store_that_cannot_be_opened_or_is_of_another_layout(run, tmp_path):
    async def main():
        with pytest.raises(OSError):
            await SqliteTaskStore(tmp_path / "no" / "such" / "dir.db").start(Limits())
        path = tmp_path / "t.db"
        with sqlite3.connect(path) as db:
            db.execute("PRAGMA user_version = 77")
        db.close()
        store = SqliteTaskStore(path)
        with pytest.raises(OSError, match="layout 77"):
            await store.start(Limits())
        (tmp_path / "junk.db").write_bytes(b"this is no database, whatever its name says" * 100)
        with pytest.raises(OSError, match="task store"):
            await SqliteTaskStore(tmp_path / "junk.db").start(Limits())
        with pytest.raises(OSError, match="closed"):
            await store.get("x")

    run(main)
    with pytest.raises(UsageError, match="MemoryTaskStore"):
        SqliteTaskStore(":memory:")


def test_one_store_serves_one_server_at_a_time(run, tmp_path):
    async def main():
        store = SqliteTaskStore(tmp_path / "t.db")
        await store.start(Limits())
        with pytest.raises(UsageError, match="in use"):
            await store.start(Limits())
        await store.stop()
        await store.stop()
        await store.start(Limits())
        await store.stop()

    run(main)


CHILD = textwrap.dedent(
    """
    import asyncio, sys, time
    from headrace import Limits
    from headrace.server.tasks.sqlite_store import SqliteTaskStore
    from headrace.protocol.tasks.states import Task

    async def main():
        store = SqliteTaskStore(sys.argv[1])
        await store.start(Limits(max_tasks=10**6, max_tasks_per_principal=10**6))

        async def one(number):
            for step in range(10**6):
                now = time.time()
                task = Task(id=f"{number}-{step}", owner="", name="t", worker=store.worker, created=now, updated=now)
                await store.create(task)
                print("created", task.id, flush=True)
                if step % 2:
                    await store.change(task.id, {"status": "completed", "payload": b'{"n":%d}' % step})
                    print("completed", task.id, flush=True)

        await asyncio.gather(*(one(number) for number in range(8)))

    asyncio.run(main())
    """
)


def test_a_killed_process_loses_nothing_that_was_acknowledged(tmp_path):
    path = tmp_path / "t.db"
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(Path(headrace.__file__).parents[1])},
        text=True,
    )
    lines = []
    for line in child.stdout:
        lines.append(line)
        if len(lines) == 120:
            child.send_signal(signal.SIGKILL)
            break
    lines += [line for line in child.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    assert child.wait(20) == -signal.SIGKILL
    child.stdout.close()

    async def main():
        store = SqliteTaskStore(path)
        await store.start(Limits())
        states = {}
        for line in lines:
            what, task_id = line.split()
            states[task_id] = what
        for task_id, what in states.items():
            found = await store.get(task_id)
            if what == "completed":
                assert found.status == "completed"
                assert found.payload == b'{"n":%d}' % int(task_id.split("-")[1])
            elif found.status != "completed":  # its last change may have been on the way
                assert found.status == "failed" and found.message == ORPHANED and b"-32603" in found.payload
        await store.stop()
        assert list((tmp_path / "t.db.workers").iterdir()) == []
        return len(states)

    assert asyncio.run(main()) >= 60
