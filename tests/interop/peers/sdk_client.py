"""The official Python SDK's Client against a server; prints what it saw as one JSON object.

    sdk_client.py MODE PAGED-TARGET TARGET     where a target is a URL or a JSON list (a command)
"""

import json
import os
import sys
import warnings

import anyio
from mcp import Client, MCPError, StdioServerParameters, types

warnings.simplefilter("ignore")


def place(text):
    if text.startswith("http"):
        return text
    command, *args = json.loads(text)
    return StdioServerParameters(command=command, args=args)


def result(r):
    return {
        "text": [getattr(block, "text", None) for block in r.content],
        "structured": r.structured_content,
        "is_error": bool(r.is_error),
    }


async def attempt(call):
    try:
        return result(await call)
    except MCPError as exc:
        return {"code": exc.code, "message": exc.message}


async def features(client, seen, legacy):
    """Questions of the server, resources, prompts, completion: with servers that have them."""
    seen["ask_name"] = await attempt(client.call_tool("ask_name"))
    seen["think"] = await attempt(client.call_tool("think", {"prompt": "cats"}))
    seen["where"] = await attempt(client.call_tool("where"))
    seen["resources"] = [str(each.uri) for each in (await client.list_resources()).resources]
    seen["templates"] = [each.uri_template for each in (await client.list_resource_templates()).resource_templates]
    seen["read"] = (await client.read_resource("note://static")).contents[0].text
    seen["blob"] = (await client.read_resource("note://blob")).contents[0].blob
    seen["named"] = (await client.read_resource("note://named/x")).contents[0].text
    try:
        await client.read_resource("note://nowhere")
    except MCPError as exc:
        seen["missing"] = {"code": exc.code, "data": exc.error.data}
    prompts = (await client.list_prompts()).prompts
    seen["prompts"] = [[each.name, [a.name for a in each.arguments or []]] for each in prompts]
    seen["prompt"] = (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text
    ref = types.PromptReference(type="ref/prompt", name="greet")
    seen["completion"] = (await client.complete(ref, {"name": "name", "value": "A"})).completion.values
    if legacy:
        try:
            await client.subscribe_resource("note://static")
        except MCPError as exc:  # a server without subscriptions
            seen["updated"] = exc.code
            return
        await anyio.sleep(0.2)
        await client.call_tool("touch")
        for _ in range(100):
            if any("updated" in each or "Updated" in each for each in seen["messages"]):
                seen["updated"] = True
                break
            await anyio.sleep(0.05)
        await client.unsubscribe_resource("note://static")
    else:
        async with client.listen(resource_subscriptions=["note://static"], tools_list_changed=True) as subscription:
            seen["honored"] = subscription.honored.model_dump(by_alias=True, exclude_none=True)
            await client.call_tool("touch")
            async for event in subscription:
                seen["updated"] = type(event).__name__
                break


async def on_elicit(context, params):
    return types.ElicitResult(action="accept", content={"name": "Ada"})


async def on_sample(context, params):
    content = types.TextContent(type="text", text=f"about {params.messages[0].content.text}")
    return types.CreateMessageResult(role="assistant", model="none", content=content)


async def on_roots(context):
    return types.ListRootsResult(roots=[types.Root(uri="file:///work", name="work")])


async def explore(target, mode):
    seen = {"logs": [], "messages": []}

    async def on_log(params):
        seen["logs"].append([params.level, params.data, params.logger])

    async def on_message(message):
        seen["messages"].append(getattr(message, "method", type(message).__name__))

    legacy = mode == "legacy"
    options = {"elicitation_callback": on_elicit, "sampling_callback": on_sample, "list_roots_callback": on_roots}
    options |= {} if legacy else {"log_level": "debug"}
    async with Client(target, mode=mode, logging_callback=on_log, message_handler=on_message, **options) as client:
        seen["protocol"] = client.protocol_version
        info = client.server_info
        seen["server"] = info and [info.name, info.version, info.title]
        seen["instructions"] = client.instructions
        seen["capabilities"] = client.server_capabilities.model_dump(exclude_none=True)
        listed = await client.list_tools()
        seen["tools"] = {tool.name: tool.input_schema for tool in listed.tools}
        seen["outputs"] = [tool.name for tool in listed.tools if tool.output_schema]
        seen["add"] = await attempt(client.call_tool("add", {"a": 1, "b": 2}))
        seen["echo"] = await attempt(client.call_tool("echo", {"text": "é€😀𝄞\n\"\\\u0000\u2028"}))
        seen["point"] = await attempt(client.call_tool("point", {"x": 1, "y": 2.5}))
        seen["fail"] = await attempt(client.call_tool("fail", {"message": "as told"}))
        seen["crash"] = await attempt(client.call_tool("crash"))
        seen["bad_arguments"] = await attempt(client.call_tool("add", {"a": "one"}))
        seen["unknown"] = await attempt(client.call_tool("no_such_tool"))
        seen["who"] = await attempt(client.call_tool("who"))

        progress = []

        async def on_progress(done, total, message):
            progress.append([done, total, message])

        seen["count"] = await attempt(client.call_tool("count", {"to": 20}, progress_callback=on_progress))
        seen["progress"] = progress
        await client.call_tool("log", {"level": "warning", "text": "careful"})

        with anyio.move_on_after(0.3) as scope:
            await client.call_tool("slow", {"seconds": 20, "tag": f"{os.getpid()} by scope"})
        seen["scope_cancelled"] = scope.cancelled_caught
        try:
            await client.call_tool("slow", {"seconds": 20, "tag": f"{os.getpid()} by timeout"}, read_timeout_seconds=0.3)
            seen["timeout"] = None
        except MCPError as exc:
            seen["timeout"] = exc.message
        for _ in range(50):
            journal = (await client.call_tool("read_journal")).content[0].text.split("|")
            own = f"{os.getpid()} "
            seen["journal"] = [line.removeprefix(own) for line in journal if line.startswith(own)]
            if len(seen["journal"]) >= 2:
                break
            await anyio.sleep(0.1)

        together = [None] * 200

        async def one(number):
            together[number] = (await client.call_tool("echo", {"text": str(number)})).content[0].text

        async with anyio.create_task_group() as group:
            for number in range(200):
                group.start_soon(one, number)
        seen["together"] = together == [str(number) for number in range(200)]

        if "ask_name" in seen["tools"]:
            await features(client, seen, legacy)
        if legacy:
            await client.send_ping()
            seen["ping"] = True
            try:
                await client.set_logging_level("error")
                before = len(seen["logs"])
                await client.call_tool("log", {"level": "info", "text": "unwanted"})
                seen["quiet"] = len(seen["logs"]) == before
            except MCPError as exc:  # a server that cannot be told
                seen["quiet"] = exc.code
            await anyio.sleep(0.2)  # over HTTP the stream for messages without a request opens by the way
            await client.call_tool("grow", {"name": f"grown_{mode}"})
            for _ in range(50):
                if any("list_changed" in each or "ToolListChanged" in each for each in seen["messages"]):
                    break
                await anyio.sleep(0.1)
        else:
            await client.call_tool("grow", {"name": f"grown_{mode.replace('-', '_')}"})
        again = await client.list_tools(cache_mode="bypass")
        seen["grown"] = [tool.name for tool in again.tools if tool.name not in seen["tools"]]
    return seen


async def pages(target, mode):
    async with Client(target, mode=mode) as client:
        cursor, found = None, []
        while True:
            page = await client.list_tools(cursor=cursor)
            found.append([tool.name for tool in page.tools])
            cursor = page.next_cursor
            if cursor is None:
                break
        try:
            await client.list_tools(cursor="nonsense")
            refused = None
        except MCPError as exc:
            refused = exc.code
        return {"pages": found, "bad_cursor": refused}


async def main():
    mode, paged, target = sys.argv[1:]
    with anyio.fail_after(50):
        seen = await explore(place(target), mode)
        seen |= await pages(place(paged), mode)
    print(json.dumps(seen))


if __name__ == "__main__":
    anyio.run(main)
