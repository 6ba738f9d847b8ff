"""The read streams between our transports and sessions of the official SDK, without the SDK."""

import asyncio
import importlib.util
from pathlib import Path

import anyio
import pytest

import headrace

ENOUGH = 2000


@pytest.fixture(params=["mcp_sdk", "mcp_sdk_1"])
def stream(request):
    """From its file: the package of the second wants the SDK."""
    file = Path(headrace.__file__).parent / "integrations" / request.param / "streams.py"
    spec = importlib.util.spec_from_file_location(f"{request.param}_streams", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.ReadStream()


def offer(stream, item):
    (stream.put if hasattr(stream, "put") else stream.feed)(item)


@pytest.mark.parametrize("burst", [1, 3])
def test_b21_a_reader_is_cancelled_while_messages_never_cease(run, stream, burst):
    """A peer that never stops sending does not keep a session open: its scope is heard between two messages."""

    async def main():
        loop = asyncio.get_running_loop()
        turns = 0
        got = []

        def feed():
            nonlocal turns
            turns += 1
            for _ in range(burst):
                offer(stream, turns)
            if turns < ENOUGH:
                loop.call_soon(feed)
            if turns == 10:
                group.cancel_scope.cancel()

        async def read():
            async for item in stream:
                got.append(item)

        async with anyio.create_task_group() as group:
            group.start_soon(read)
            await asyncio.sleep(0)
            feed()
        assert 10 <= turns < ENOUGH
        assert got == sorted(got)

    run(main)


def test_b21_a_reader_that_never_waits_is_cancelled(run, stream):
    """Also where all that it reads is here already."""

    async def main():
        for number in range(ENOUGH):
            offer(stream, number)
        got = []
        with anyio.CancelScope() as scope:
            async for item in stream:
                got.append(item)
                if item == 10:
                    scope.cancel()
        assert scope.cancelled_caught
        assert 10 < len(got) < ENOUGH
        assert await stream.receive() == len(got)

    run(main)
