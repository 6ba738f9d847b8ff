"""The experimental tasks of the official Python SDK 1.x as a client: runs the trial and prints what it saw as JSON."""

import asyncio
import json
import sys
import warnings

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client

warnings.simplefilter("ignore")


async def elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ann"})


async def trial(command):
    seen = {}
    parameters = StdioServerParameters(command=command[0], args=command[1:])
    async with stdio_client(parameters) as streams, ClientSession(*streams, elicitation_callback=elicit) as session:
        hello = await session.initialize()
        seen["offered"] = hello.capabilities.tasks.model_dump(exclude_none=True)
        tools = (await session.list_tools()).tools
        seen["support"] = {tool.name: tool.execution.taskSupport for tool in tools}
        tasks = session.experimental

        async def run(name, arguments):
            made = await tasks.call_tool_as_task(name, arguments)
            return made.task.taskId

        async def result(task_id):
            found = await tasks.get_task_result(task_id, types.CallToolResult)
            return [found.content[0].text, bool(found.isError)]

        slow = await run("slow", {"n": 4})
        seen["states"] = [state.status async for state in tasks.poll_task(slow)]
        seen["slow"] = await result(slow)
        greet = await run("greet", {})
        seen["asking"] = (await tasks.get_task(greet)).status
        seen["greet"] = await result(greet)
        fail = await run("fail", {})
        seen["fail"] = await result(fail)
        seen["failed"] = (await tasks.get_task(fail)).status
        seen["listed"] = [task.taskId for task in (await tasks.list_tasks()).tasks] == [slow, greet, fail]
        given_up = await run("greet", {})
        seen["cancelled"] = (await tasks.cancel_task(given_up)).status
    print(json.dumps(seen))


asyncio.run(asyncio.wait_for(trial(sys.argv[1:]), 40))
