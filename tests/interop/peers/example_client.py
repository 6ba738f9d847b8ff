"""The clients of the official SDK and of FastMCP against the example servers; prints a JSON list of what was seen.

    example_client.py sdk|fastmcp library|kitchen [TARGET MODE]...      TARGET: a URL or a JSON list (a command)
"""

import asyncio
import json
import sys
import warnings

warnings.simplefilter("ignore")


async def with_sdk(target, mode, calls, uri, prompt):
    from mcp import Client, StdioServerParameters

    if not target.startswith("http"):
        command, *args = json.loads(target)
        target = StdioServerParameters(command=command, args=args)
    seen = {"progress": [], "calls": []}

    async def on_progress(done, total, message):
        seen["progress"].append([done, total, message])

    async with Client(target, mode=mode) as client:
        seen["name"], seen["protocol"] = client.server_info.name, client.protocol_version
        seen["tools"] = sorted(tool.name for tool in (await client.list_tools()).tools)
        for name, arguments in calls:
            answer = await client.call_tool(name, arguments, progress_callback=on_progress)
            seen["calls"].append([answer.is_error, answer.content[0].text, answer.structured_content])
        seen["resource"] = (await client.read_resource(uri)).contents[0].text
        seen["prompt"] = (await client.get_prompt(*prompt)).messages[0].content.text
    return seen


async def with_fastmcp(target, mode, calls, uri, prompt):
    from fastmcp import Client
    from fastmcp.client.transports import StdioTransport

    if not target.startswith("http"):
        command, *args = json.loads(target)
        target = StdioTransport(command=command, args=args)
    seen = {"progress": [], "calls": []}

    async def on_progress(done, total, message):
        seen["progress"].append([done, total, message])

    async with Client(target, progress_handler=on_progress) as client:
        seen["tools"] = sorted(tool.name for tool in await client.list_tools())
        for name, arguments in calls:
            answer = await client.call_tool(name, arguments, raise_on_error=False)
            seen["calls"].append([answer.is_error, answer.content[0].text, answer.structured_content])
        seen["resource"] = (await client.read_resource(uri))[0].text
        seen["prompt"] = (await client.get_prompt(*prompt)).messages[0].content.text
    return seen


EXAMPLES = {
    "library": (
        [["echo", {"text": "é€😀"}], ["add", {"a": 1, "b": 2}], ["lend", {"title": "Emma"}], ["lend", {"title": "Ulysses"}],
         ["read_aloud", {"pages": 3}], ["add", {"a": "x"}]],
        "book://Emma", ("review", {"title": "Emma"}),
    ),
    "kitchen": (
        [["echo", {"text": "é€😀"}], ["add", {"a": 1, "b": 2}], ["pantry_stock", {"item": "rice"}], ["cook", {"name": "rice"}],
         ["cook", {"name": "stone soup"}], ["calls_so_far", {}], ["add", {"a": "x"}]],
        "recipe://rice", ("menu", {"guests": "3"}),
    ),
}  # fmt: skip


async def main(kind, example, *where):
    talk = with_sdk if kind == "sdk" else with_fastmcp
    return [await talk(target, mode, *EXAMPLES[example]) for target, mode in zip(where[::2], where[1::2], strict=True)]


if __name__ == "__main__":
    print(json.dumps(asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 50))))
