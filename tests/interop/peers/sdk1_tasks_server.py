"""The experimental tasks of the official Python SDK 1.x as a server, on stdio."""

import asyncio
import warnings

from mcp import types
from mcp.server import Server
from mcp.server.experimental.task_context import ServerTaskContext
from mcp.server.stdio import stdio_server

warnings.simplefilter("ignore")
server = Server("sdk1-tasks")
server.experimental.enable_tasks()
NAMES = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def text(words: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=words)])


@server.list_tools()
async def tools():
    required = types.ToolExecution(taskSupport="required")
    return [types.Tool(name=name, inputSchema={"type": "object"}, execution=required) for name in ("slow", "greet")]


@server.call_tool()
async def call(name, arguments):
    context = server.request_context
    context.experimental.validate_task_mode(types.TASK_REQUIRED)

    async def work(task: ServerTaskContext):
        if name == "greet":
            answer = await task.elicit(message="Name?", requestedSchema=NAMES)
            return text(f"Hello {answer.content['name']}")
        await asyncio.sleep(0.1)
        return text("slow done")

    return await context.experimental.run_task(work)


async def main():
    async with stdio_server() as streams:
        await server.run(*streams, server.create_initialization_options())


asyncio.run(main())
