"""The client under test: the suite starts it with the URL of a server and the name of a scenario in the environment."""

import asyncio
import contextlib
import hashlib
import json
import os
import sys

from headrace import RpcError, connect

CONTEXT = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
SCENARIO = os.environ["MCP_CONFORMANCE_SCENARIO"]
REVISION = os.environ["MCP_CONFORMANCE_PROTOCOL_VERSION"]
SKILLS = "io.modelcontextprotocol/skills"


async def call_tools(client):
    """Lists the tools and calls each with arguments that its schema asks for."""
    for tool in await client.list_tools():
        properties = tool.input_schema.get("properties", {})
        sample = {"number": 2, "integer": 2, "string": "text", "boolean": True}
        arguments = {name: sample.get(schema.get("type"), "text") for name, schema in properties.items()}
        await client.call_tool(tool.name, arguments)


async def list_tools(client):
    await client.list_tools()


async def standard_headers(client):
    """One request of every kind that has a name to put into a header."""
    await call_tools(client)
    for resource in await client.list_resources():
        await client.read_resource(resource.uri)
    for prompt in await client.list_prompts():
        await client.get_prompt(prompt.name)


async def custom_headers(client):
    await client.list_tools()
    for call in CONTEXT["toolCalls"]:
        await client.call_tool(call["name"], call["arguments"])


async def rounds(client):
    """Questions in results, with a tool that asks nothing called meanwhile."""
    await client.list_tools()
    names = "test_mrtr_echo_state", "test_mrtr_unrelated", "test_mrtr_no_state", "test_mrtr_no_result_type"
    await asyncio.gather(*(client.call_tool(name) for name in names))


async def echo_schema(client):
    """What the client saw of a schema goes back to the server."""
    found = {tool.name: tool for tool in await client.list_tools()}
    await client.call_tool("json_schema_echo", {"schema": found["json_schema_2020_12_tool"].input_schema})


async def list_skills(client):
    """Skills are listed, none is loaded."""
    await client.request("skills/list")


async def load_skill(client):
    """Loads a skill: each file is read when it is needed, and not used when it is not what the list said."""
    for skill in (await client.request("skills/list"))["skills"]:
        for file in skill["resources"]:
            text = (await client.read_resource(file["uri"])).contents[0].text
            raw = text.encode()
            if len(raw) != file["size"] or "sha256:" + hashlib.sha256(raw).hexdigest() != file["digest"]:
                raise ValueError(f"{file['uri']} is not what the list said")
            if file["uri"] == skill["uri"] and front_matter(text) != skill["frontmatter"]:
                raise ValueError(f"{file['uri']} has another front matter than the list said")


def front_matter(text):
    lines = text.split("---\n")[1].splitlines()
    return dict(line.split(": ", 1) for line in lines)


SCENARIOS = {
    "initialize": list_tools,
    "tools_call": call_tools,
    "elicitation-sep1034-client-defaults": call_tools,
    "sse-retry": call_tools,
    "request-metadata": list_tools,
    "http-standard-headers": standard_headers,
    "http-custom-headers": custom_headers,
    "http-invalid-tool-headers": call_tools,
    "sep-2322-client-request-state": rounds,
    "json-schema-ref-no-deref": list_tools,
    "json-schema-2020-12-preservation": echo_schema,
    "sep-2640-client-no-prefetch": list_skills,
    "sep-2640-client-verify-digest": load_skill,
    "sep-2640-client-verify-size": load_skill,
    "sep-2640-client-verify-frontmatter": load_skill,
}


async def main(url):
    options = {"roots": [os.getcwd()], "sampling": lambda params: "a thought", "elicitation": lambda params: {}}
    if "skill" in SCENARIO or "sep-2640" in SCENARIO:
        options["extensions"] = {SKILLS: {}}
    async with asyncio.timeout(25), connect(url, revision=REVISION, **options) as client:
        with contextlib.suppress(ValueError) if "verify" in SCENARIO else contextlib.nullcontext():
            await SCENARIOS[SCENARIO](client)


if __name__ == "__main__":
    try:
        asyncio.run(main(sys.argv[1]))
    except RpcError as exc:
        sys.exit(f"the server refused: {exc}")
    print("client: done")
