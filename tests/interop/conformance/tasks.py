"""The tools of the task scenarios: io.modelcontextprotocol/tasks (SEP-2663)."""

import asyncio

from msgspec import Struct

from headrace import Context, RpcError, Server, ToolError
from headrace.jsonrpc import INTERNAL_ERROR


class Confirmation(Struct):
    confirm: bool


class Person(Struct):
    name: str


async def greet(name: str) -> str:
    """Answers at once."""
    return f"Hello, {name}!"


async def slow_compute(seconds: float, label: str = "") -> str:
    """Takes its time."""
    await asyncio.sleep(seconds)
    return f"computed {label} in {seconds:g} s"


async def failing_job() -> str:
    """Fails as a tool does, after a second."""
    await asyncio.sleep(1)
    raise ToolError("the job failed")


async def protocol_error_job() -> str:
    """Fails as a request does."""
    raise RpcError(INTERNAL_ERROR, "the job could not run")


async def confirm_delete(ctx: Context, filename: str) -> str:
    """Asks before it does anything."""
    answer = await ctx.elicit(f"Delete {filename}?", Confirmation)
    confirmed = answer.action == "accept" and answer.content.confirm
    return f"deleted {filename}" if confirmed else f"kept {filename}"


async def multi_input(ctx: Context) -> str:
    """Asks two questions at the same time."""
    first, second = await asyncio.gather(ctx.elicit("First?"), ctx.elicit("Second?"))
    return f"{first.action} {second.action}"


async def test_tool_with_task(ctx: Context) -> str:
    """Asks in the call, then goes on as a task."""
    answer = await ctx.elicit("What is your name?", Person)
    await ctx.start_task()
    return f"Hello, {answer.content.name}!" if answer.action == "accept" else "Hello, whoever you are!"


def register(app: Server) -> None:
    app.tasks(poll_interval=0.1)
    app.add_tool(greet)
    app.add_tool(failing_job, task="required")
    app.add_tool(test_tool_with_task, task="required", task_start="handler")
    for tool in (slow_compute, protocol_error_job, confirm_delete, multi_input):
        app.add_tool(tool, task="optional")
