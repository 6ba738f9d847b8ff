"""The server under test: everything that the scenarios of the conformance suite ask a server for.

Questions to the client, tasks and skills are in modules of their own beside this one.
"""

import asyncio
import base64
from typing import Annotated, Any

import questions
import skills
import tasks
from msgspec import Meta

from headrace import Context, Server, ToolError
from headrace.server.content import Audio, Image
from headrace.types import EmbeddedResource, TextResourceContents

app = Server("headrace-conformance", version="1.0.0", title="Conformance server")

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
)
WAV = base64.b64decode("UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA=")
SCHEMA_2020_12 = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {
        "address": {
            "$anchor": "addressDef",
            "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}},
        }
    },
    "properties": {
        "name": {"type": "string"},
        "address": {"$ref": "#/$defs/address"},
        "contactMethod": {"type": "string", "enum": ["phone", "email"]},
        "phone": {"type": "string"},
        "email": {"type": "string"},
    },
    "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
    "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
    "then": {"required": ["phone"]},
    "else": {"required": ["email"]},
    "additionalProperties": False,
}


def resource(uri: str, mime_type: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(resource=TextResourceContents(uri=uri, mime_type=mime_type, text=text))


# --- tools that answer -------------------------------------------------------------------------------


@app.tool
async def test_simple_text() -> str:
    """Simple text content."""
    return "This is a simple text response for testing."


@app.tool
async def test_image_content() -> Image:
    """Image content."""
    return Image(PNG)


@app.tool
async def test_audio_content() -> Audio:
    """Audio content."""
    return Audio(WAV)


@app.tool
async def test_embedded_resource() -> list[Any]:
    """Embedded resource content."""
    return [resource("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@app.tool
async def test_multiple_content_types() -> list[Any]:
    """Text, an image and a resource in one result."""
    return [
        "Multiple content types test:",
        Image(PNG),
        resource("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@app.tool
async def test_tool_with_logging(ctx: Context) -> str:
    """Sends log messages while it runs."""
    for number, text in enumerate(("Tool execution started", "Tool processing data", "Tool execution completed")):
        if number:
            await asyncio.sleep(0.05)
        await ctx.log("info", text)
    return "Tool with logging executed successfully"


@app.tool
async def test_error_handling() -> str:
    """Fails always."""
    raise ToolError("This tool intentionally returns an error for testing")


@app.tool
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress while it runs."""
    for done in (0, 50, 100):
        await ctx.progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@app.tool(input_schema=SCHEMA_2020_12)
async def json_schema_2020_12_tool(name: str | None = None, phone: str | None = None, email: str | None = None) -> str:
    """A schema with keywords of JSON Schema 2020-12."""
    return f"called by {name or phone or email}"


@app.tool
async def test_custom_header(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
    """A parameter that clients mirror into a header."""
    return f"region {region}"


@app.tool
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client that can sample."""
    return (await ctx.sample("Are you there?", max_tokens=10)).content.text


@app.tool
async def test_streaming_elicitation(ctx: Context) -> str:
    """A stream of notifications, then the answer."""
    await ctx.progress(50, 100)
    return "Streaming complete"


@app.tool
async def test_logging_tool(ctx: Context) -> str:
    """Logs, for clients that asked for it."""
    await ctx.log("info", "Diagnostic trace")
    return "Logging evaluated"


# --- lists that change -------------------------------------------------------------------------------


@app.tool
async def test_trigger_tool_change() -> str:
    """Changes the list of tools."""

    async def transient() -> str:
        """Here for a moment."""
        return ""

    app.add_tool(transient, name="test_transient")
    app.remove_tool("test_transient")
    return "Mutation triggered"


@app.tool
async def test_trigger_prompt_change() -> str:
    """Changes the list of prompts."""

    async def transient() -> str:
        """Here for a moment."""
        return ""

    app.add_prompt(transient, name="test_transient")
    app.remove_prompt("test_transient")
    return "Mutation triggered"


@app.tool
async def test_reconnection(ctx: Context) -> str:
    """Ends its event stream while it works; the answer waits for the client to come back."""
    await asyncio.sleep(0.05)
    ctx.close_stream(retry=0.5)
    await asyncio.sleep(0.1)
    return "Reconnection test completed successfully."


# --- resources ---------------------------------------------------------------------------------------


@app.resource("test://static-text", name="static-text", title="Static Text Resource", mime_type="text/plain")
async def static_text() -> str:
    """A static text resource."""
    return "This is the content of the static text resource."


@app.resource("test://static-binary", name="static-binary", title="Static Binary Resource", mime_type="image/png")
async def static_binary() -> bytes:
    """A static binary resource."""
    return PNG


@app.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"


@app.resource("test://template/{id}/data", name="template", mime_type="application/json")
async def template(id: str) -> dict[str, Any]:
    """A resource template with a parameter."""
    return {"id": id, "templateTest": True, "data": f"Data for ID: {id}"}


# --- prompts -----------------------------------------------------------------------------------------


@app.prompt
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@app.prompt(complete={"arg1": ["test", "testing", "paris", "park", "party"]})
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@app.prompt
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[Any]:
    """A prompt with an embedded resource."""
    return [
        resource(resourceUri, "text/plain", "Embedded resource content for testing."),
        "Please process the embedded resource above.",
    ]


@app.prompt
async def test_prompt_with_image() -> list[Any]:
    """A prompt with an image."""
    return [Image(PNG), "Please analyze the image above."]


for part in (questions, skills, tasks):
    part.register(app)
