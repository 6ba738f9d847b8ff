"""FastMCP's Client with all its handlers against `fastmcp_features.py`; prints what it saw as one JSON object for each
target: `fastmcp_features_client.py TARGET... [token=TOKEN] [mode=MODE]`. What differs from run to run is left out."""

import asyncio
import contextlib
import json
import sys
import warnings

warnings.simplefilter("ignore")

from fastmcp import Client  # noqa: E402
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport  # noqa: E402


async def attempt(seen, name, call):
    """The outcome of a call under a name: what came, or how it failed."""
    try:
        found = await asyncio.wait_for(call, 15)
    except Exception as exc:
        seen[name] = [type(exc).__name__, str(exc)[:300]]
        return None
    if hasattr(found, "content"):
        seen[name] = [[getattr(each, "text", None) for each in found.content], found.structured_content]
    else:
        seen[name] = found
    return found


async def main(target, token=None, **options):
    if target.startswith("http"):
        transport = StreamableHttpTransport(target, headers={"X-Own": "mine"}, auth=token)
    else:
        command, *args = json.loads(target)
        transport = StdioTransport(command=command, args=args)
    seen, progress, logs, messages = {}, [], [], []

    async def on_progress(done, total, message):
        progress.append([done, total, message])

    async def on_log(message):
        data = message.data
        logs.append([message.level, message.logger, data if isinstance(data, str) else dict(data)])

    async def on_message(message):
        root = getattr(message, "root", message)
        messages.append(getattr(root, "method", type(root).__name__))

    async def sampled(prompts, params, context):
        return f"about {prompts[0].content.text}"

    async def elicited(message, response_type, params, context):
        return {"name": "Ada"}

    client = Client(
        transport,
        progress_handler=on_progress,
        log_handler=on_log,
        message_handler=on_message,
        sampling_handler=sampled,
        elicitation_handler=elicited,
        roots=["file:///work"],
        **options,
    )
    async with client:
        found = client.initialize_result
        if found is not None:
            info = getattr(found, "serverInfo", None) or found.server_info
            seen["server"] = [info.name, info.version, found.instructions]
            seen["capabilities"] = found.capabilities.model_dump(exclude_none=True)
        tools = await client.list_tools()
        seen["tools"] = {tool.name: tool.model_dump(exclude_none=True) for tool in tools}
        seen["resources"] = sorted(str(each.uri) for each in await client.list_resources())
        seen["templates"] = sorted(
            str(vars(each).get("uri_template") or vars(each).get("uriTemplate"))
            for each in await client.list_resource_templates()
        )
        seen["prompts"] = sorted(each.name for each in await client.list_prompts())
        for name, arguments in {
            "echo": {"text": "é€😀"}, "add": {"a": 1}, "shaped": {}, "point": {"x": 1, "y": 2.5},
            "fail": {"message": "as told"}, "crash": {}, "forbidden": {}, "no_such_tool": {}, "count": {"to": 5},
            "log": {}, "ask_name": {}, "think": {"prompt": "cats"}, "where": {}, "child_inner": {},
            "via_far": {"n": 3}, "via_far_name": {}, "plus": {"first": 4}, "context": {}, "server_name": {},
        }.items():  # fmt: skip
            await attempt(seen, name, client.call_tool(name, arguments))
        await attempt(seen, "bad arguments", client.call_tool("add", {"a": "one"}))
        trace = {
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "com.example/own": {"a": [1]},
        }
        await attempt(seen, "meta", client.call_tool("meta", {}, meta=trace))
        await attempt(seen, "no meta", client.call_tool("meta", {}))
        await attempt(seen, "remember 1", client.call_tool("remember", {"value": "first"}))
        await attempt(seen, "remember 2", client.call_tool("remember", {"value": "second"}))
        ids = {(await client.call_tool("session")).content[0].text for _ in range(2)}
        seen["session ids"] = len(ids)
        read = await client.read_resource("note://static")
        seen["read"] = [read[0].text, (await client.read_resource("note://named/x"))[0].text]
        seen["child read"] = (await client.read_resource("child://child/thing"))[0].text
        await attempt(seen, "missing", client.read_resource("note://nowhere"))
        prompt = await client.get_prompt("greet", {"name": "Ada"})
        seen["prompt"] = prompt.messages[0].content.text
        await attempt(seen, "ping", client.ping())
        answers = await asyncio.gather(*(client.call_tool("add", {"a": n}) for n in range(100)))
        seen["together"] = [answer.data for answer in answers] == list(range(2, 102))
        with contextlib.suppress(Exception):
            await client.call_tool("slow", {"seconds": 10, "tag": "timed out"}, timeout=0.3)
        await client.call_tool("grow", {"name": "grown"})
        await asyncio.sleep(0.5)
        seen["grown"] = "grown" in {tool.name for tool in await client.list_tools()}
        journal = (await client.call_tool("read_journal")).structured_content["result"]
        seen["journal"] = sorted({each for each in journal if "tools" in each or "initialize" in each})
        seen["cancelled"] = "timed out cancelled" in journal
    seen["progress"], seen["logs"] = progress, logs
    seen["messages"] = sorted(set(messages))
    print(json.dumps(seen), flush=True)


async def everywhere():
    targets = [word for word in sys.argv[1:] if word.startswith(("http", "["))]
    options = dict(word.split("=", 1) for word in sys.argv[1:] if word not in targets)
    for target in targets:
        await main(target, **options)


asyncio.run(asyncio.wait_for(everywhere(), 100))
