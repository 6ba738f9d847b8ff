"""ClientSession of mcp 1.x against `sdk1_hosted.py`; prints what it saw as one JSON object for
each target: `sdk1_hosted_client.py TARGET...`. What differs from run to run is left out."""

import asyncio
import contextlib
import json
import sys
import warnings
from datetime import timedelta

warnings.simplefilter("ignore")

import mcp.types as types  # noqa: E402
from mcp import ClientSession, McpError, StdioServerParameters  # noqa: E402
from mcp.client.stdio import stdio_client  # noqa: E402
from mcp.client.streamable_http import streamablehttp_client  # noqa: E402


async def attempt(seen, name, call):
    """The outcome of a call under a name: what came, or how it failed."""
    try:
        found = await asyncio.wait_for(call, 15)
    except McpError as exc:
        seen[name] = ["McpError", exc.error.code, exc.error.message]
    except TimeoutError:
        seen[name] = "no answer"
    else:
        content = getattr(found, "content", None)
        seen[name] = [content[0].text, found.isError] if content else type(found).__name__


async def main(target):
    seen, messages, progress = {}, [], []
    async with contextlib.AsyncExitStack() as stack:
        if target.startswith("http"):
            read, write, _ = await stack.enter_async_context(streamablehttp_client(target, headers={"X-Own": "mine"}))
        else:
            command, *args = json.loads(target)
            read, write = await stack.enter_async_context(
                stdio_client(StdioServerParameters(command=command, args=args))
            )

        async def roots(context):
            return types.ListRootsResult(roots=[types.Root(uri="file:///work")])

        async def elicited(context, params):
            note = types.ProgressNotification(
                params=types.ProgressNotificationParams(progressToken=context.request_id, progress=0.5)
            )
            await session.send_notification(types.ClientNotification(note))
            return types.ElicitResult(action="accept", content={"n": 3})

        async def message(received):
            root = getattr(received, "root", received)
            method = getattr(root, "method", type(received).__name__)
            messages.append([method, getattr(root.params, "data", None) if hasattr(root, "params") else None])

        async def progressed(*note):
            progress.append(list(note))

        session = await stack.enter_async_context(
            ClientSession(
                read,
                write,
                list_roots_callback=roots,
                elicitation_callback=elicited,
                message_handler=message,
                client_info=types.Implementation(name="a client", version="1"),
            )
        )
        hello = await session.initialize()
        seen["hello"] = hello.model_dump(mode="json")
        await asyncio.sleep(0.5)  # for its GET stream to open
        call = session.call_tool
        await session.list_tools()
        for name, arguments in {
            "echo": {"text": "é€😀"}, "context": {}, "crash": {}, "ask": {}, "roots": {},
        }.items():  # fmt: skip
            await attempt(seen, name, call(name, arguments))
        await attempt(seen, "ask alone", call("ask", {"alone": 1}))
        await attempt(seen, "part", call("part", {}))
        await attempt(seen, "with meta", call("context", {}, meta={"com.example/own": [1]}))
        await attempt(seen, "ping", session.send_ping())
        answers = await asyncio.gather(*(call("echo", {"text": str(n)}) for n in range(100)))
        seen["together"] = [each.content[0].text for each in answers] == [str(n) for n in range(100)]
        found = await asyncio.gather(*(call("mark", {"text": f"m{n}"}) for n in range(5)))
        seen["marks"] = [each.content[0].text for each in found]
        messages.clear()
        await attempt(seen, "order", call("order", {}, progress_callback=progressed))
        await asyncio.sleep(0.3)
        seen["messages"] = [each for each in messages if each[0] != "notifications/tools/list_changed"]
        seen["changed"] = ["notifications/tools/list_changed", None] in messages
        seen["progress"] = progress
        for name in ("slow", "stubborn"):
            task = asyncio.ensure_future(call(name, {}, read_timeout_seconds=timedelta(seconds=5)))
            await asyncio.sleep(0.3)
            note = types.CancelledNotification(
                params=types.CancelledNotificationParams(requestId=session._request_id - 1, reason="enough")
            )
            await session.send_notification(types.ClientNotification(note))
            await asyncio.sleep(0.3)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, McpError):
                await task
        await session.send_roots_list_changed()
        request = types.ClientRequest(types.PingRequest())
        request.root.method = "resources/list"
        await attempt(seen, "not offered", session.send_request(request, types.EmptyResult))
        request = types.ClientRequest(types.CallToolRequest(params=types.CallToolRequestParams(name="echo")))
        request.root.params.__dict__["name"] = 5
        await attempt(seen, "invalid", session.send_request(request, types.CallToolResult))
        await call("late", {})
        await asyncio.sleep(0.4)
        seen["journal"] = (await call("journal", {})).content[0].text.split("|")
    print(json.dumps(seen), flush=True)


async def everywhere():
    for target in sys.argv[1:]:
        await main(target)


asyncio.run(asyncio.wait_for(everywhere(), 100))
