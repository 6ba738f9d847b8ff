"""Tasks when the store fails, hangs or is locked, and where there is no session to tell (TK-05, TK-22, HO-35)."""

import asyncio
import logging
import sqlite3

import pytest
from server_pipe import META, Pipe

from headrace import Limits, MemoryTaskStore, Server, SqliteTaskStore

TASKS = {**META, "io.modelcontextprotocol/clientCapabilities": {"extensions": {"io.modelcontextprotocol/tasks": {}}}}


class Flaky(MemoryTaskStore):
    """Fails while ``broken`` is set; the methods in ``hanging`` never come back."""

    broken = False
    hanging = ()

    async def _check(self, name):
        if name in self.hanging:
            await asyncio.get_running_loop().create_future()
        if self.broken:
            raise OSError("the disk is on fire")

    async def get(self, task_id):
        await self._check("get")
        return await super().get(task_id)

    async def change(self, task_id, fields):
        await self._check("change")
        return await super().change(task_id, fields)

    async def stop(self):
        await self._check("stop")
        await super().stop()


def make(store, **limits):
    app = Server("t", version="1", limits=Limits(**limits))
    app.tasks(store, poll_interval=0.01)

    @app.tool(task="optional")
    async def work() -> str:
        await asyncio.sleep(60)

    return app


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_se08_a_store_that_fails_is_one_line_and_a_plain_answer(run, caplog, method):
    store = Flaky()
    app = make(store)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            task = (await pipe.call("work", meta=TASKS))["result"]["taskId"]
            store.broken = True
            answer = await pipe.ask(1, method, {"taskId": task, "inputResponses": {}}, meta=TASKS)
            assert answer["error"] == {"code": -32603, "message": "the task store cannot be used now"}
            store.broken = False
            found = (await pipe.ask(2, "tasks/get", {"taskId": task}, meta=TASKS))["result"]
            assert found["status"] == "working"
            pipe.mux.close()

    with caplog.at_level(logging.ERROR):
        run(main)
    assert [(r.getMessage(), r.exc_info) for r in caplog.records] == [
        ("the task store failed: the disk is on fire", None)
    ]


@pytest.mark.parametrize("hanging", [("change",), ("change", "stop")])
def test_a_store_that_hangs_does_not_keep_the_server_from_ending(run, caplog, hanging):
    store = Flaky()
    app = make(store, drain_timeout=0.1)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            assert (await pipe.call("work", meta=TASKS))["result"]["status"] == "working"
            store.hanging = hanging
            pipe.mux.close()
        assert app._tasks.engine.runs == {}

    run(main)
    assert "the last states of tasks could not be kept in time" in caplog.text
    assert ("did not close in time" in caplog.text) == ("stop" in hanging)


def test_a_locked_file_does_not_keep_the_server_from_ending(run, tmp_path, caplog):
    app = make(SqliteTaskStore(tmp_path / "t.db"), drain_timeout=0.1)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            assert (await pipe.call("work", meta=TASKS))["result"]["status"] == "working"
            other = sqlite3.connect(tmp_path / "t.db")
            other.execute("BEGIN EXCLUSIVE")
            pipe.mux.close()
        return other

    async def released():
        other = await main()
        other.close()  # the store's thread comes to its end now

    run(released)
    assert "the last states of tasks could not be kept in time" in caplog.text


def test_who_waits_for_a_task_is_told_when_the_store_fails_at_its_end(run):
    """A cancel of somebody else was faster, and then the store cannot be asked what it was."""
    store = Flaky()
    app = make(store)

    async def main():
        async with app.running():
            pipe = Pipe(app)
            pipe.handshake()
            params = {"name": "work", "arguments": {}, "task": {}}
            task = (await pipe.ask(1, "tools/call", params))["result"]["task"]["taskId"]
            pipe.send(2, "tasks/result", {"taskId": task})
            await asyncio.sleep(0.01)
            run_ = app._tasks.engine.runs[task]
            await store.delete(task)
            store.hanging = ()
            get = store.get

            async def failing(task_id):
                raise OSError("gone")

            store.get = failing
            with pytest.raises(OSError, match="gone"):
                await run_.finish({"status": "cancelled"})
            store.get = get
            for _ in range(500):
                if any(message.get("id") == 2 for message in pipe.out):
                    break
                await asyncio.sleep(0.002)
            answers = [message for message in pipe.out if message.get("id") == 2]
            assert [answer["error"]["code"] for answer in answers] == [-32602]
            pipe.mux.close()

    run(main)


def test_the_store_that_was_given_is_used_empty_as_it_is():
    store = MemoryTaskStore()
    assert len(store) == 0 and make(store)._tasks.engine.store is store


@pytest.mark.parametrize("instead", [False, True])
def test_tk22_tasks_go_to_the_file_of_that_name_when_the_old_one_was_deleted(run, tmp_path, instead):
    """What is acknowledged after that is found by the next process."""
    path = tmp_path / "t.db"

    async def main():
        store = SqliteTaskStore(path)
        app = make(store)
        async with app.running():
            pipe = Pipe(app)
            old = (await pipe.call("work", meta=TASKS))["result"]["taskId"]
            for name in ("t.db", "t.db-wal", "t.db-shm"):
                (tmp_path / name).unlink(missing_ok=True)
            if instead:
                path.touch(mode=0o600)
            gone = await pipe.ask(1, "tasks/get", {"taskId": old}, meta=TASKS)
            assert gone["error"]["code"] == -32602
            new = (await pipe.call("work", meta=TASKS))["result"]["taskId"]
            pipe.mux.close()
        again = make(SqliteTaskStore(path))
        async with again.running():
            found = await Pipe(again).ask(1, "tasks/get", {"taskId": new}, meta=TASKS)
            assert found["result"]["status"] == "failed"  # its server was stopped

    run(main)
