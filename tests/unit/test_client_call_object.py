"""The awaitable of `call_tool` is a coroutine in all but type: whatever drives coroutines can drive it."""

import asyncio
import collections.abc
import gc
import inspect
import sys
import warnings

import anyio
import pytest
from client_server import app, running
from scripted_peer import MODERN, Script, error, handshake

from headrace import InputRequired, RequestTimeout, RpcError, UsageError, connect
from headrace.client._calls import ToolCall
from headrace.jsonrpc import R4, R5
from headrace.mux import live_objects

ANSWER = {"resultType": "complete", "content": [{"type": "text", "text": "hi"}]}


def asked(script):
    """How many tool calls the server saw, and what it was told of given up ones."""
    return script.methods.count("tools/call"), script.methods.count("notifications/cancelled")


async def until(condition):
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come to that")


def test_what_it_says_of_itself(run):
    async def main():
        async with connect(app) as client:
            call = client.call_tool("echo", {"text": "x"})
            assert type(call) is ToolCall
            assert asyncio.iscoroutine(call) and inspect.isawaitable(call)
            assert isinstance(call, collections.abc.Coroutine)
            assert (call.__name__, call.__qualname__, call.cr_running) == ("call_tool", "Client.call_tool", False)
            assert repr(call) == "<call of 'echo'>"
            assert (await call).text == "x"

    run(main)


def test_call_tool_is_known_as_a_coroutine_function(run):
    async def main():
        async with connect(app) as client:
            if sys.version_info >= (3, 12):
                assert inspect.iscoroutinefunction(client.call_tool)
            else:
                assert asyncio.iscoroutinefunction(client.call_tool)

    run(main)


def test_driven_by_hand(run):
    async def main():
        async with connect(app) as client:
            call = client.call_tool("echo", {"text": "by hand"})
            future = call.send(None)
            assert asyncio.isfuture(future) and not future.done()
            future._asyncio_future_blocking = False
            await asyncio.wait([future])
            with pytest.raises(StopIteration) as caught:
                call.send(None)
            assert caught.value.value.text == "by hand"
            for again in (lambda: call.send(None), lambda: next(call), lambda: call.throw(ValueError("late"))):
                with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                    again()
            call.close()

    run(main)


def test_the_first_value_sent_is_none(run):
    async def main():
        async with connect(app) as client:
            call = client.call_tool("echo", {"text": "x"})
            with pytest.raises(TypeError, match="just-started coroutine"):
                call.send(1)
            assert (await call).text == "x"

    run(main)


def test_awaited_twice(run):
    async def main():
        async with connect(app) as client:
            call = client.call_tool("echo", {"text": "x"})
            assert (await call).text == "x"
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                await call

    run(main)


def test_awaited_by_two_tasks(run):
    async def main():
        async with connect(app) as client:
            call = client.call_tool("sleep", {"seconds": 0.05, "key": "two"})
            first = asyncio.ensure_future(call)
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError):
                await call
            assert (await first).text == "slept"

    run(main)


def test_never_awaited_is_warned_of_and_sends_nothing(run):
    async def main():
        async with (
            Script(server_discover=MODERN, discover=MODERN, tools_call=ANSWER) as script,
            connect(script.target, revision=R5) as client,
        ):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                client.call_tool("x")
                gc.collect()
            assert [str(w.message) for w in caught] == ["coroutine 'Client.call_tool' was never awaited"]
            assert caught[0].category is RuntimeWarning
            assert asked(script) == (0, 0)

    run(main)


@pytest.mark.parametrize("how", ["close", "throw", "task"])
def test_given_up_before_it_is_sent(run, how):
    async def main():
        async with Script(discover=MODERN, tools_call=ANSWER) as script, connect(script.target, revision=R5) as client:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                call = client.call_tool("x")
                if how == "close":
                    call.close()
                elif how == "throw":
                    with pytest.raises(KeyError):
                        call.throw(KeyError("why"))
                else:
                    task = asyncio.ensure_future(call)
                    task.cancel()
                    with pytest.raises(asyncio.CancelledError):
                        await task
                    del task
                del call
                gc.collect()
            assert (await client.call_tool("y")).text == "hi"
            assert asked(script) == (1, 0)

    run(main)


def test_b75_closed_or_thrown_into_while_it_waits(run):
    async def main():
        async with Script(discover=MODERN, tools_call=None) as script, connect(script.target, revision=R5) as client:
            closed = client.call_tool("x")
            closed.send(None)._asyncio_future_blocking = False
            closed.close()
            thrown = client.call_tool("x")
            thrown.send(None)._asyncio_future_blocking = False
            with pytest.raises(LookupError, match="enough"):
                thrown.throw(LookupError("enough"))
            of_type = client.call_tool("x")
            of_type.send(None)._asyncio_future_blocking = False
            with pytest.raises(LookupError):
                of_type.throw(LookupError)
            await until(lambda: asked(script) == (3, 3))
            assert not client._mux.pending

    run(main)


def test_b75_cancelled_tasks_stop_the_tool(run):
    async def main():
        async with app.running(), connect(app) as client:
            task = asyncio.ensure_future(client.call_tool("sleep", {"seconds": 20, "key": "cancelled"}))
            await until(lambda: "cancelled" in running)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            await until(lambda: "cancelled" not in running)

    run(main)


def test_cancelled_in_the_turn_of_its_answer(run):
    async def main():
        async with connect(app) as client:
            tasks = [asyncio.ensure_future(client.call_tool("echo", {"text": "x"})) for _ in range(50)]
            done, waiting = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
            assert len(done) >= 1
            assert all(isinstance(end, asyncio.CancelledError) or end.text == "x" for end in ends)
            assert not client._mux.pending
            assert (await client.call_tool("echo", {"text": "after"})).text == "after"

    run(main)


def test_mx11_its_own_time_limit(run):
    async def main():
        async with Script(discover=MODERN, tools_call=None) as script, connect(script.target, revision=R5) as client:
            with pytest.raises(RequestTimeout):
                await client.call_tool("x", timeout=0.05)
            await until(lambda: asked(script) == (1, 1))
            for wrong in (0, -1, float("nan")):
                with pytest.raises(UsageError):
                    await client.call_tool("x", timeout=wrong)
            assert asked(script) == (1, 1)

    run(main)


def test_b75_time_limits_of_asyncio_and_anyio(run):
    async def main():
        async with Script(discover=MODERN, tools_call=None) as script, connect(script.target, revision=R5) as client:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.call_tool("x"), 0.05)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await client.call_tool("x")
            with pytest.raises(TimeoutError):
                with anyio.fail_after(0.05):
                    await client.call_tool("x")
            with anyio.move_on_after(0.05) as scope:
                await client.call_tool("x")
            assert scope.cancelled_caught
            await until(lambda: asked(script) == (4, 4))

    run(main)


def test_task_groups(run):
    async def main():
        async with connect(app) as client:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(client.call_tool("add", {"a": i, "b": 1})) for i in range(20)]
            assert [task.result().text for task in tasks] == [str(i + 1) for i in range(20)]

            found = []

            async def keep(i):
                found.append((await client.call_tool("add", {"a": i, "b": 0})).text)

            async with anyio.create_task_group() as group:
                for i in range(20):
                    group.start_soon(keep, i)
            assert sorted(found, key=int) == [str(i) for i in range(20)]

            with pytest.raises(ExceptionGroup) as caught:
                async with asyncio.TaskGroup() as group:
                    slow = group.create_task(client.call_tool("sleep", {"seconds": 20, "key": "group"}))
                    group.create_task(client.call_tool("refuse"))
            assert [type(e) for e in caught.value.exceptions] == [RpcError]
            assert slow.cancelled()

    run(main)


def test_shield_and_callbacks(run):
    async def main():
        async with connect(app) as client:
            inner = asyncio.ensure_future(client.call_tool("sleep", {"seconds": 0.1, "key": "shield"}))
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(asyncio.shield(inner), 0.01)
            assert (await inner).text == "slept"
            assert inner.get_coro().__qualname__ == "Client.call_tool" and inner.get_stack() == []
            assert "Client.call_tool" in repr(inner)

    run(main)


def test_a_call_as_the_main_of_a_runner(loop_name):
    async def opened():
        return await connect(app).__aenter__()

    with asyncio.Runner(debug=True) as runner:
        client = runner.run(opened())
        assert runner.run(client.call_tool("echo", {"text": "run"})).text == "run"
        runner.run(client.close())


def test_sf06_exceptions_raised_into_it_and_by_it(run):
    async def main():
        before = live_objects()
        async with (
            Script(initialize=handshake(), tools_call=lambda m, w: error(-7)) as script,
            connect(script.target, revision=R4) as client,
        ):
            with pytest.raises(RpcError) as caught:
                await client.call_tool("x")
            assert caught.value.code == -7
            with pytest.raises(UsageError):
                await client.call_tool("x", {"bad": object()})
            with pytest.raises(UsageError):
                await client.call_tool("x", [1])
            assert script.methods.count("tools/call") == 1
            del caught
        gc.collect()
        assert live_objects()["calls"] == before["calls"]

    run(main)


def test_mx32_the_long_way_is_driven_through_the_same_object(run):
    async def main():
        question = {
            "resultType": "input_required",
            "inputRequests": {"k": {"method": "elicitation/create", "params": {"message": "?", "requestedSchema": {}}}},
        }
        async with (
            Script(discover=MODERN, tools_call=question) as script,
            connect(script.target, revision=R5, capabilities={"elicitation": {}}) as client,
        ):
            with pytest.raises(InputRequired) as caught:
                await client.call_tool("x")
            assert list(caught.value.requests) == ["k"]
            call = client.call_tool("x")
            with pytest.raises(InputRequired):
                await call
            with pytest.raises(RuntimeError, match="cannot reuse already awaited coroutine"):
                await call

    run(main)
