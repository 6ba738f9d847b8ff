"""Ending things under an anyio cancel scope, which cancels again at every await (B21)."""

import asyncio
import contextlib
import sys

import anyio
import pytest

from headrace import Server
from headrace.transports import hosting
from headrace.transports.plain import McpHost
from headrace.transports.shield import shielded


def test_what_is_awaited_inside_is_not_cancelled(run):
    async def trial():
        ended = []
        with anyio.CancelScope() as scope:
            scope.cancel()
            try:
                await anyio.sleep(0)
            finally:
                with shielded():
                    await asyncio.sleep(0.01)
                    ended.append(True)
        return ended

    assert run(trial) == [True]


def test_a_task_can_still_be_cancelled(run):
    async def trial():
        async def waits():
            with shielded():
                await asyncio.sleep(60)

        task = asyncio.get_running_loop().create_task(waits())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(trial)


def test_nothing_is_done_where_anyio_is_not_used(monkeypatch):
    monkeypatch.delitem(sys.modules, "anyio")
    assert isinstance(shielded(), contextlib.nullcontext)


HOSTS = {
    "server": lambda lifespan: Server("s", version="1", lifespan=lifespan),
    "host": lambda lifespan: McpHost(None, lifespan=lifespan),
}


@pytest.mark.parametrize("make", HOSTS.values(), ids=HOSTS)
def test_b21_a_cancelled_scope_ends_listeners_and_lifespan(run, make, tmp_path):
    """The lifespan is left to its end, and nothing listens any more."""
    seen = []

    @contextlib.asynccontextmanager
    async def lifespan(_):
        try:
            yield {}
        finally:
            await asyncio.sleep(0.01)
            seen.append("left")

    async def trial():
        ready = anyio.Event()

        async def serving():
            path = str(tmp_path / "socket")
            await hosting.serve(make(lifespan), http="127.0.0.1:0", unix=path, on_ready=lambda _: ready.set())

        before = asyncio.all_tasks()
        async with anyio.create_task_group() as tg:
            tg.start_soon(serving)
            await ready.wait()
            tg.cancel_scope.cancel()
        assert seen == ["left"]
        assert asyncio.all_tasks() == before

    run(trial)
    assert not (tmp_path / "socket").exists()
