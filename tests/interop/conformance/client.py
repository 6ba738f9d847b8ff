"""The client under test: the suite starts it with the URL of a server and the name of a scenario in the environment."""

import asyncio
import json
import os
import sys

from headrace import connect

CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
REVISION = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]


async def tools(client):
    """Lists the tools and calls each with arguments that its schema asks for."""
    for tool in await client.list_tools():
        properties = tool.input_schema.get("properties", {})
        sample = {"number": 2, "integer": 2, "string": "text", "boolean": True}
        arguments = {name: sample.get(schema.get("type"), "text") for name, schema in properties.items()}
        await client.call_tool(tool.name, arguments)


async def custom_headers(client):
    await client.list_tools()
    for call in CONTEXT["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def list_only(client):
    await client.list_tools()


async def echo_schema(client):
    """What the client saw of a schema goes back to the server."""
    found = {tool.name: tool for tool in await client.list_tools()}
    await client.call_tool("json_schema_echo", {"schema": found["json_schema_2020_12_tool"].input_schema})


SCENARIOS = {
    "initialize": list_only,
    "tools_call": tools,
    "request-metadata": list_only,
    "http-invalid-tool-headers": tools,
    "http-custom-headers": custom_headers,
    "json-schema-ref-no-deref": list_only,
    "json-schema-2020-12-preservation": echo_schema,
    "sse-retry": tools,
}


async def main(url, scenario):
    async with asyncio.timeout(25), connect(url, revision=REVISION) as client:
        await SCENARIOS[scenario](client)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], os.environ["MCP_CONFORMANCE_SCENARIO"]))
    print("client: done")
