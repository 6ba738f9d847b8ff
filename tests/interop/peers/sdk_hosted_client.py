"""The official SDK's client against `sdk_hosted.py`; prints what it saw as one JSON object.

`sdk_hosted_client.py MODE TARGET`, where a target is a URL, `unix:PATH` or a JSON list (a command). What is printed is the
same whoever hosts the server.
"""

import contextlib
import json
import os
import sys
import warnings
from typing import Any

import anyio
from mcp import Client, MCPError, StdioServerParameters
from mcp.shared.message import SessionMessage
from mcp_types import (
    CreateMessageResult,
    ElicitResult,
    EmptyResult,
    ListRootsResult,
    Request,
    RequestParams,
    Root,
    TextContent,
    jsonrpc_message_adapter,
)

warnings.simplefilter("ignore")


@contextlib.asynccontextmanager
async def unix_lines(path):
    """A transport over a unix socket, framed as standard streams are."""
    to_session, read = anyio.create_memory_object_stream(0)
    write, from_session = anyio.create_memory_object_stream(0)
    async with await anyio.connect_unix(path) as stream, anyio.create_task_group() as group:

        async def receive():
            rest = b""
            async with to_session:
                with contextlib.suppress(anyio.EndOfStream, anyio.ClosedResourceError, anyio.BrokenResourceError):
                    while True:
                        rest += await stream.receive()
                        *lines, rest = rest.split(b"\n")
                        for line in lines:
                            await to_session.send(SessionMessage(jsonrpc_message_adapter.validate_json(line)))

        async def send():
            async with from_session:
                async for item in from_session:
                    text = item.message.model_dump_json(by_alias=True, exclude_unset=True)
                    await stream.send(text.encode() + b"\n")

        group.start_soon(receive)
        group.start_soon(send)
        yield read, write
        group.cancel_scope.cancel()


def place(text):
    if text.startswith("http"):
        return text
    if text.startswith("unix:"):
        return unix_lines(text.removeprefix("unix:"))
    command, *args = json.loads(text)
    return StdioServerParameters(command=command, args=args, env=dict(os.environ))


async def attempt(call):
    try:
        result = await call
    except MCPError as exc:
        return {"code": exc.code, "message": exc.message, "data": exc.error.data}
    return {
        "text": [getattr(block, "text", None) for block in result.content],
        "structured": result.structured_content,
        "is_error": bool(result.is_error),
    }


class Wild(RequestParams, extra="allow"):
    pass


class Raw(Request[Wild, str]):
    method: str = "acme/raw"


class Answer(EmptyResult, extra="allow"):
    pass


async def raw(client, **params):
    try:
        result = await client.session.send_request(Raw(method="acme/raw", params=Wild(**params)), Answer)
    except MCPError as exc:
        return {"code": exc.code, "message": exc.message}
    found = result.model_dump(by_alias=True, exclude_none=True)
    return {key: value for key, value in found.items() if key not in ("_meta", "resultType")}


async def noted(client, least, name=None):
    """The journal once it has so many lines (that name `name`), or after two seconds."""
    found: list[Any] = []
    for _ in range(40):
        found += (await client.call_tool("journal")).structured_content["result"]
        if len([line for line in found if name is None or line[0] == name]) >= least:
            break
        await anyio.sleep(0.05)
    return [line for line in found if name is None or line[0] == name]


async def on_elicit(context, params):
    return ElicitResult(action="accept", content={"name": "Ada"})


async def on_sample(context, params):
    return CreateMessageResult(role="assistant", model="none", content=TextContent(type="text", text="of cats"))


async def on_roots(context):
    return ListRootsResult(roots=[Root(uri="file:///work", name="work")])


async def explore(target, mode):
    seen: dict[str, Any] = {"logs": [], "messages": []}
    legacy = mode == "legacy"
    http = isinstance(target, str)

    async def on_log(params):
        seen["logs"].append([params.level, params.data])

    async def on_message(message):
        seen["messages"].append(getattr(message, "method", type(message).__name__))

    options = {"elicitation_callback": on_elicit, "sampling_callback": on_sample, "list_roots_callback": on_roots}
    options |= {} if legacy else {"log_level": "debug"}
    async with Client(target, mode=mode, logging_callback=on_log, message_handler=on_message, **options) as client:
        seen["protocol"] = client.protocol_version
        info = client.server_info
        seen["server"] = info and [info.name, info.version]
        seen["instructions"] = client.instructions
        seen["capabilities"] = client.server_capabilities.model_dump(by_alias=True, exclude_none=True)
        seen["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
        seen["echo"] = await attempt(client.call_tool("echo", {"text": 'é€😀𝄞\n"\\\x00\u2028'}))
        seen["plain"] = await attempt(client.call_tool("plain", {"text": "in a thread"}))
        traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
        meta = {"traceparent": traceparent, "com.example/own": {"a": 1}}
        seen["context"] = await attempt(client.call_tool("context", meta=meta))
        bad = {"traceparent": "00-0AF7651916CD43DD8448EB211C80319C-00-01"}
        seen["context_2"] = await attempt(client.call_tool("context", meta=bad))
        for each in ("context", "context_2"):
            seen[each]["structured"].pop("calls", None)
            seen[each].pop("text")

        progress = []

        async def on_progress(done, total, message):
            progress.append([done, total, message])

        seen["count"] = await attempt(client.call_tool("count", {"n": 50}, progress_callback=on_progress))
        seen["progress"] = progress
        mixed = []

        async def on_mixed(done, total, message):
            mixed.append(done)

        seen["mixed"] = await attempt(client.call_tool("mixed", progress_callback=on_mixed))
        seen["mixed_progress"] = mixed

        seen["fail"] = {how: await attempt(client.call_tool("fail", {"how": how})) for how in ("mcp", "value")}
        seen["unknown"] = await attempt(client.call_tool("no_such_tool"))
        seen["bad_arguments"] = (await attempt(client.call_tool("echo", {"text": {}})))["is_error"]
        seen["raw"] = {how: await raw(client, how=how) for how in ("raise", "model", "odd")}
        seen["raw_params"] = await raw(client, a=1, b={"c": [1.5, None, "ü"]})

        await client.call_tool("journal")
        with anyio.move_on_after(0.3) as scope:
            await client.call_tool("slow", {"name": "scope"})
        seen["scope_cancelled"] = scope.cancelled_caught
        seen["cancelled"] = await noted(client, 2, "scope")

        holds = [None] * 8

        async def one(number):
            holds[number] = (await client.call_tool("hold", {"key": f"key {number}"})).structured_content["result"]

        async with anyio.create_task_group() as group:
            for number in range(8):
                group.start_soon(one, number)
        seen["holds"] = holds

        together = [None] * 100

        async def another(number):
            together[number] = (await client.call_tool("echo", {"text": str(number)})).content[0].text

        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(another, number)
        seen["together"] = together == [str(number) for number in range(100)]

        seen["read"] = (await client.read_resource("note://one")).contents[0].text
        seen["prompt"] = (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text
        if legacy:
            seen |= await of_handshakes(client, seen, http)
        else:
            seen |= await of_modern(client)
    seen["messages"] = sorted(set(seen["messages"]))
    return seen


async def of_handshakes(client, seen, http):
    found: dict[str, Any] = {}
    await client.send_ping()
    await client.set_logging_level("error")
    found["level"] = await noted(client, 1, "level")
    found["ask_name"] = await attempt(client.call_tool("ask_name"))
    found["think"] = await attempt(client.call_tool("think", {"alone": False}))
    if http:
        await anyio.sleep(0.3)  # the standalone stream opens by the way
    found["think_alone"] = await attempt(client.call_tool("think", {"alone": True}))
    found["where"] = await attempt(client.call_tool("where"))
    if http:
        before = len(seen["logs"])
        found["left"] = await attempt(client.call_tool("leave_stream"))
        found["meanwhile"] = seen["logs"][before:]
    await client.call_tool("journal")
    await client.send_roots_list_changed()
    found["roots_changed"] = await noted(client, 1, "roots changed")
    await client.call_tool("announce")
    for _ in range(40):
        if any("list_changed" in each or "ToolListChanged" in each for each in seen["messages"]):
            break
        await anyio.sleep(0.05)
    if http:
        before = len(seen["messages"])
        found["left_standalone"] = await attempt(client.call_tool("leave_standalone"))
        for _ in range(60):
            if found["left_standalone"]["text"] == ["cannot"] or "notifications/tools/list_changed" in seen["messages"][before:]:
                break
            await anyio.sleep(0.05)
        found["after_leaving"] = "notifications/tools/list_changed" in seen["messages"][before:]
    return found


async def of_modern(client):
    found: dict[str, Any] = {}
    found["ask_name"] = await attempt(client.call_tool("ask_name"))
    async with client.listen(tools_list_changed=True, resource_subscriptions=["note://one"]) as subscription:
        found["honored"] = subscription.honored.model_dump(by_alias=True, exclude_none=True)
        await client.call_tool("announce")
        await client.call_tool("touch", {"uri": "note://other", "times": 1})
        await client.call_tool("touch", {"uri": "note://one", "times": 1})
        events = []
        async for event in subscription:
            events.append(type(event).__name__)
            if len(events) == 2:
                break
        found["events"] = events
    async with client.listen(resource_subscriptions=["note://one"]) as subscription:
        await client.call_tool("touch", {"uri": "note://one", "times": 100})  # a burst
        async for _ in subscription:
            break
    found["after_burst"] = len((await client.list_tools(cache_mode="bypass")).tools)
    return found


async def main():
    mode, target = sys.argv[1:]
    with anyio.fail_after(50):
        print(json.dumps(await explore(place(target), mode)))


anyio.run(main)
