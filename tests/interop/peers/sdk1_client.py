"""The ClientSession of version 1 of the official Python SDK against a server; prints what it saw as one JSON object.

    sdk1_client.py TARGET      a URL (of Streamable HTTP, or of HTTP+SSE when it ends in /sse) or a JSON list (a command)
"""

import contextlib
import json
import os
import sys
import warnings
from datetime import timedelta

import anyio
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.sse import sse_client
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from pydantic import AnyUrl

warnings.simplefilter("ignore")


@contextlib.asynccontextmanager
async def open_streams(target):
    if target.endswith("/sse"):
        async with sse_client(target) as (reader, writer):
            yield reader, writer
    elif target.startswith("http"):
        async with streamablehttp_client(target) as (reader, writer, _):
            yield reader, writer
    else:
        command, *args = json.loads(target)
        async with stdio_client(StdioServerParameters(command=command, args=args)) as (reader, writer):
            yield reader, writer


async def attempt(call):
    try:
        r = await call
    except McpError as exc:
        return {"code": exc.error.code, "message": exc.error.message}
    texts = [getattr(block, "text", None) for block in r.content]
    return {"text": texts, "structured": r.structuredContent, "is_error": bool(r.isError)}


async def until(condition):
    for _ in range(100):
        if condition():
            return
        await anyio.sleep(0.05)


async def explore(target):
    seen = {"logs": [], "messages": [], "progress": [], "updated": []}

    async def on_log(params):
        seen["logs"].append([params.level, params.data])

    async def on_message(message):
        if isinstance(message, types.ServerNotification):
            seen["messages"].append(message.root.method)
            if isinstance(message.root, types.ResourceUpdatedNotification):
                seen["updated"].append(str(message.root.params.uri))

    async def on_elicit(context, params):
        seen["question"] = params.message
        return types.ElicitResult(action="accept", content={"name": "Ada"})

    async def on_sample(context, params):
        text = f"about {params.messages[0].content.text}"
        return types.CreateMessageResult(role="assistant", model="none", content=types.TextContent(type="text", text=text))

    async def on_roots(context):
        return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])

    async def on_progress(done, total, message):
        seen["progress"].append([done, total, message])

    async with open_streams(target) as (reader, writer), ClientSession(
        reader,
        writer,
        logging_callback=on_log,
        message_handler=on_message,
        elicitation_callback=on_elicit,
        sampling_callback=on_sample,
        list_roots_callback=on_roots,
    ) as client:
        hello = await client.initialize()
        seen["protocol"] = hello.protocolVersion
        seen["server"] = hello.serverInfo.name
        seen["instructions"] = hello.instructions
        seen["capabilities"] = hello.capabilities.model_dump(exclude_none=True)
        seen["tools"] = [tool.name for tool in (await client.list_tools()).tools]
        seen["add"] = await attempt(client.call_tool("add", {"a": 1, "b": 2}))
        seen["echo"] = await attempt(client.call_tool("echo", {"text": "é€😀𝄞\n\"\\\u0000\u2028"}))
        seen["point"] = await attempt(client.call_tool("point", {"x": 1, "y": 2.5}))
        seen["fail"] = await attempt(client.call_tool("fail", {"message": "as told"}))
        seen["unknown"] = await attempt(client.call_tool("no_such_tool"))
        seen["count"] = await attempt(client.call_tool("count", {"to": 20}, progress_callback=on_progress))
        await client.send_ping()
        await client.set_logging_level("debug")
        await client.call_tool("log", {"level": "warning", "text": "careful"})
        await until(lambda: seen["logs"])
        tag = str(os.getpid())
        slow = {"seconds": 20, "tag": tag}
        seen["timeout"] = await attempt(client.call_tool("slow", slow, read_timeout_seconds=timedelta(seconds=0.3)))
        together = [None] * 200

        async def one(number):
            together[number] = (await client.call_tool("echo", {"text": str(number)})).content[0].text

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(one, number)
        seen["together"] = together == [str(number) for number in range(200)]
        if "ask_name" in seen["tools"]:
            seen["ask_name"] = await attempt(client.call_tool("ask_name"))
            seen["think"] = await attempt(client.call_tool("think", {"prompt": "cats"}))
            seen["where"] = await attempt(client.call_tool("where"))
            seen["resources"] = [str(each.uri) for each in (await client.list_resources()).resources]
            templates = (await client.list_resource_templates()).resourceTemplates
            seen["templates"] = [each.uriTemplate for each in templates]
            seen["read"] = (await client.read_resource(AnyUrl("note://static"))).contents[0].text
            seen["blob"] = (await client.read_resource(AnyUrl("note://blob"))).contents[0].blob
            seen["named"] = (await client.read_resource(AnyUrl("note://named/x"))).contents[0].text
            try:
                await client.read_resource(AnyUrl("note://nowhere"))
            except McpError as exc:
                seen["missing"] = {"code": exc.error.code, "data": exc.error.data}
            prompts = (await client.list_prompts()).prompts
            seen["prompts"] = [[each.name, [a.name for a in each.arguments or []]] for each in prompts]
            seen["prompt"] = (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text
            ref = types.PromptReference(type="ref/prompt", name="greet")
            seen["completion"] = (await client.complete(ref, {"name": "name", "value": "A"})).completion.values
            await client.subscribe_resource(AnyUrl("note://static"))
            await anyio.sleep(0.2)  # over HTTP the stream for messages without a request opens by the way
            await client.call_tool("touch")
            await until(lambda: seen["updated"])
            await client.unsubscribe_resource(AnyUrl("note://static"))
        await client.call_tool("grow", {"name": f"grown_{tag}"})
        await until(lambda: "notifications/tools/list_changed" in seen["messages"])
        seen["grown"] = f"grown_{tag}" in [tool.name for tool in (await client.list_tools()).tools]
    return seen


async def main():
    with anyio.fail_after(50):
        seen = await explore(sys.argv[1])
    print(json.dumps(seen))


if __name__ == "__main__":
    anyio.run(main)
