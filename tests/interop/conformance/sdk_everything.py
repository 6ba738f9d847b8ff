"""The server under test once more, written with the official SDK: under the SDK's own host and under headrace's.

`sdk_everything.py theirs PORT` or `sdk_everything.py ours PORT`.
"""

import asyncio
import base64
import json
import sys
from typing import Annotated, Any

from mcp.server import ServerRequestContext
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.prompts.base import Prompt, UserMessage
from mcp.server.streamable_http import EventMessage, EventStore
from mcp.shared.exceptions import MCPError
from mcp_types import (
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    AudioContent,
    Completion,
    CreateMessageRequest,
    CreateMessageRequestParams,
    CreateMessageResult,
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    EmbeddedResource,
    EmptyResult,
    ImageContent,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
    SamplingMessage,
    SetLevelRequestParams,
    SubscribeRequestParams,
    TextContent,
    TextResourceContents,
    UnsubscribeRequestParams,
)
from pydantic import BaseModel, Field

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg=="
WAV = "UklGRiYAAABXQVZFZm10IBAAAAABAAEAQB8AAAB9AAACABAAZGF0YQIAAAA="
SCHEMA_2020_12: dict[str, Any] = {
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

app = MCPServer("sdk-everything", version="1.0.0", log_level="WARNING")


def text_of(text: str) -> TextContent:
    return TextContent(type="text", text=text)


def embedded(uri: str, kind: str, text: str) -> EmbeddedResource:
    return EmbeddedResource(type="resource", resource=TextResourceContents(uri=uri, mime_type=kind, text=text))


# --- tools that answer -------------------------------------------------------------------------------


@app.tool()
def test_simple_text() -> str:
    """Simple text content."""
    return "This is a simple text response for testing."


@app.tool()
async def test_image_content() -> list[ImageContent]:
    """Image content."""
    return [ImageContent(type="image", data=PNG, mime_type="image/png")]


@app.tool()
async def test_audio_content() -> list[AudioContent]:
    """Audio content."""
    return [AudioContent(type="audio", data=WAV, mime_type="audio/wav")]


@app.tool()
async def test_embedded_resource() -> list[EmbeddedResource]:
    """Embedded resource content."""
    return [embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")]


@app.tool()
async def test_multiple_content_types() -> list[TextContent | ImageContent | EmbeddedResource]:
    """Text, an image and a resource in one result."""
    return [
        text_of("Multiple content types test:"),
        ImageContent(type="image", data=PNG, mime_type="image/png"),
        embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}'),
    ]


@app.tool()
async def test_tool_with_logging(ctx: Context) -> str:
    """Sends log messages while it runs."""
    for text in ("Tool execution started", "Tool processing data", "Tool execution completed"):
        await ctx.info(text)
        await asyncio.sleep(0.05)
    return "Tool with logging executed successfully"


@app.tool()
async def test_tool_with_progress(ctx: Context) -> str:
    """Reports progress while it runs."""
    for done in (0, 50, 100):
        await ctx.report_progress(done, 100, f"Completed step {done} of 100")
        await asyncio.sleep(0.05)
    return "done"


@app.tool()
def test_error_handling() -> str:
    """Fails always."""
    raise RuntimeError("This tool intentionally returns an error for testing")


@app.tool()
async def test_custom_header(
    region: Annotated[str, Field(description="mirrored", json_schema_extra={"x-mcp-header": "Region"})],
) -> str:
    """A parameter that clients mirror into a header."""
    return f"region {region}"


@app.tool()
async def test_missing_capability(ctx: Context) -> str:
    """Needs a client that can sample."""
    capabilities = ctx.session.client_capabilities
    if capabilities is None or capabilities.sampling is None:
        raise MCPError(
            MISSING_REQUIRED_CLIENT_CAPABILITY, "a client that samples is needed", {"requiredCapabilities": {"sampling": {}}}
        )
    return "the client can sample"


@app.tool()
async def test_streaming_elicitation(ctx: Context) -> str:
    """A stream of notifications, then the answer."""
    await ctx.report_progress(50, 100)
    return "Streaming complete"


@app.tool()
async def test_logging_tool(ctx: Context) -> str:
    """Logs, for clients that asked for it."""
    await ctx.info("Diagnostic trace")
    return "Logging evaluated"


@app.tool()
async def test_reconnection(ctx: Context) -> str:
    """Ends its event stream while it works; the answer waits for the client to come back."""
    await ctx.info("before")
    await ctx.close_sse_stream()
    await asyncio.sleep(0.2)
    return "Reconnection test completed successfully."


@app.tool(name="json_schema_2020_12_tool")
async def json_schema_tool() -> str:
    """A schema with keywords of JSON Schema 2020-12."""
    return "called"


app._tool_manager._tools["json_schema_2020_12_tool"].parameters = SCHEMA_2020_12


# --- questions of the handshake era ------------------------------------------------------------------


@app.tool()
async def test_sampling(prompt: str, ctx: Context) -> str:
    """Lets the client's model write."""
    result = await ctx.session.create_message(
        messages=[SamplingMessage(role="user", content=text_of(prompt))], max_tokens=100, related_request_id=ctx.request_id
    )
    return f"LLM response: {result.content.text}"


class Response(BaseModel):
    response: str = Field(description="User's response")


class Defaults(BaseModel):
    """A default of every kind (SEP-1034)."""

    name: str = Field(default="John Doe")
    age: int = Field(default=30)
    score: float = Field(default=95.5)
    status: str = Field(default="active", json_schema_extra={"enum": ["active", "inactive", "pending"]})
    verified: bool = Field(default=True)


def titles(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in pairs]


OPTIONS = ["option1", "option2", "option3"]


class Choices(BaseModel):
    """Every notation of a choice (SEP-1330)."""

    untitledSingle: str = Field(json_schema_extra={"enum": OPTIONS})
    titledSingle: str = Field(
        json_schema_extra={"oneOf": titles(("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option"))}
    )
    untitledMulti: list[str] = Field(json_schema_extra={"items": {"type": "string", "enum": OPTIONS}})
    titledMulti: list[str] = Field(
        json_schema_extra={
            "items": {"anyOf": titles(("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice"))}
        }
    )
    legacyEnum: str = Field(
        json_schema_extra={"enum": ["opt1", "opt2", "opt3"], "enumNames": ["Option One", "Option Two", "Option Three"]}
    )


async def elicited(ctx: Context, message: str, schema: type[BaseModel]) -> str:
    result = await ctx.elicit(message=message, schema=schema)
    return f"action={result.action}, content={result.data.model_dump_json() if result.action == 'accept' else '{}'}"


@app.tool()
async def test_elicitation(message: str, ctx: Context) -> str:
    """Asks the user."""
    return f"User response: {await elicited(ctx, message, Response)}"


@app.tool()
async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user with a default for everything."""
    return f"Elicitation completed: {await elicited(ctx, 'Please review the defaults', Defaults)}"


@app.tool()
async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user to choose."""
    return f"Elicitation completed: {await elicited(ctx, 'Please select options', Choices)}"


# --- questions of the modern era ---------------------------------------------------------------------


def form(message: str, **properties: str) -> ElicitRequest:
    schema = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in properties.items()},
        "required": list(properties),
    }
    return ElicitRequest(params=ElicitRequestFormParams(message=message, requested_schema=schema))


def sampled(text: str) -> CreateMessageRequest:
    message = SamplingMessage(role="user", content=text_of(text))
    return CreateMessageRequest(params=CreateMessageRequestParams(messages=[message], max_tokens=50))


def answer_of(ctx: Context, key: str, kind: type) -> Any:
    found = (ctx.input_responses or {}).get(key)
    return found if isinstance(found, kind) else None


@app.tool()
async def test_input_required_result_elicitation(ctx: Context) -> str | InputRequiredResult:
    """One question to the user."""
    answer = answer_of(ctx, "user_name", ElicitResult)
    if answer is None:
        return InputRequiredResult(input_requests={"user_name": form("What is your name?", name="string")})
    return f"Hello, {(answer.content or {}).get('name')}!"


@app.tool()
async def test_input_required_result_sampling(ctx: Context) -> str | InputRequiredResult:
    """One question to the client's model."""
    answer = answer_of(ctx, "capital_question", CreateMessageResult)
    if answer is None:
        return InputRequiredResult(input_requests={"capital_question": sampled("What is the capital of France?")})
    return answer.content.text


@app.tool()
async def test_input_required_result_list_roots(ctx: Context) -> str | InputRequiredResult:
    """Asks for the client's roots."""
    answer = answer_of(ctx, "client_roots", ListRootsResult)
    if answer is None:
        return InputRequiredResult(input_requests={"client_roots": ListRootsRequest()})
    return f"Found {len(answer.roots)} root(s)"


@app.tool()
async def test_input_required_result_request_state(ctx: Context) -> str | InputRequiredResult:
    """A question, and the state that comes back with its answer."""
    if ctx.request_state == "asked" and answer_of(ctx, "confirm", ElicitResult) is not None:
        return "state-ok: accept"
    return InputRequiredResult(input_requests={"confirm": form("Please confirm", ok="boolean")}, request_state="asked")


@app.tool()
async def test_input_required_result_multiple_inputs(ctx: Context) -> str | InputRequiredResult:
    """Three questions of different kinds in one round."""
    if {"user_name", "greeting", "client_roots"} <= set(ctx.input_responses or ()):
        return "all is answered"
    requests = {
        "user_name": form("What is your name?", name="string"),
        "greeting": sampled("Generate a greeting"),
        "client_roots": ListRootsRequest(),
    }
    return InputRequiredResult(input_requests=requests, request_state="three")


@app.tool()
async def test_input_required_result_multi_round(ctx: Context) -> str | InputRequiredResult:
    """Two rounds."""
    state = json.loads(ctx.request_state or "{}")
    if state.get("name") and (color := answer_of(ctx, "step2", ElicitResult)) is not None:
        return f"{state['name']} likes {(color.content or {}).get('color')}"
    if state.get("round") == 1 and (name := answer_of(ctx, "step1", ElicitResult)) is not None:
        return InputRequiredResult(
            input_requests={"step2": form("Step 2: What is your favorite color?", color="string")},
            request_state=json.dumps({"name": (name.content or {}).get("name")}),
        )
    return InputRequiredResult(
        input_requests={"step1": form("Step 1: What is your name?", name="string")}, request_state=json.dumps({"round": 1})
    )


@app.tool()
async def test_input_required_result_tampered_state(ctx: Context) -> str | InputRequiredResult:
    """State that nobody can change."""
    if ctx.request_state is None:
        return InputRequiredResult(input_requests={"confirm": form("Please confirm", ok="boolean")}, request_state="sealed")
    return f"integrity-ok: {ctx.request_state}"


@app.tool()
async def test_input_required_result_capabilities(ctx: Context) -> str | InputRequiredResult:
    """Asks what the client can answer, and nothing else."""
    if ctx.input_responses:
        return "capabilities-ok"
    declared = ctx.client_capabilities
    possible = {
        "elicitation": form("Elicitation input", name="string"),
        "sampling": sampled("Sample request"),
        "roots": ListRootsRequest(),
    }
    asked = {key: each for key, each in possible.items() if declared is None or getattr(declared, key) is not None}
    return InputRequiredResult(input_requests=asked, request_state="asked")


@app.prompt()
async def test_input_required_result_prompt(ctx: Context) -> list[UserMessage] | InputRequiredResult:
    """A prompt that needs to know more."""
    answer = answer_of(ctx, "user_context", ElicitResult)
    if answer is None:
        return InputRequiredResult(input_requests={"user_context": form("Which context?", context="string")})
    return [UserMessage(content=text_of(f"Prompt with context: {(answer.content or {}).get('context')}"))]


# --- lists that change -------------------------------------------------------------------------------


def transient() -> str:
    """Here for a moment."""
    return ""


@app.tool()
async def test_trigger_tool_change(ctx: Context) -> str:
    """Changes the list of tools."""
    app.add_tool(transient, name="test_transient")
    app.remove_tool("test_transient")
    await ctx.notify_tools_changed()
    return "Mutation triggered"


@app.tool()
async def test_trigger_prompt_change(ctx: Context) -> str:
    """Changes the list of prompts."""
    app.add_prompt(Prompt.from_function(transient, name="test_transient"))
    app.remove_prompt("test_transient")
    await ctx.notify_prompts_changed()
    return "Mutation triggered"


# --- resources and prompts ---------------------------------------------------------------------------


@app.resource("test://static-text", name="static-text", title="Static Text Resource", mime_type="text/plain")
async def static_text() -> str:
    """A static text resource."""
    return "This is the content of the static text resource."


@app.resource("test://static-binary", name="static-binary", mime_type="image/png")
async def static_binary() -> bytes:
    """A static binary resource."""
    return base64.b64decode(PNG)


@app.resource("test://watched-resource", name="watched-resource", mime_type="text/plain")
async def watched_resource() -> str:
    """A resource to subscribe to."""
    return "Watched resource content"


@app.resource("test://template/{id}/data", name="template", mime_type="application/json")
async def template(id: str) -> str:
    """A resource template with a parameter."""
    return json.dumps({"id": id, "templateTest": True, "data": f"Data for ID: {id}"})


@app.prompt()
async def test_simple_prompt() -> str:
    """A prompt without arguments."""
    return "This is a simple prompt for testing."


@app.prompt()
async def test_prompt_with_arguments(arg1: str, arg2: str) -> str:
    """A prompt with arguments."""
    return f"Prompt with arguments: arg1='{arg1}', arg2='{arg2}'"


@app.prompt()
async def test_prompt_with_embedded_resource(resourceUri: str) -> list[UserMessage]:
    """A prompt with an embedded resource."""
    return [
        UserMessage(content=embedded(resourceUri, "text/plain", "Embedded resource content for testing.")),
        UserMessage(content=text_of("Please process the embedded resource above.")),
    ]


@app.prompt()
async def test_prompt_with_image() -> list[UserMessage]:
    """A prompt with an image."""
    return [
        UserMessage(content=ImageContent(type="image", data=PNG, mime_type="image/png")),
        UserMessage(content=text_of("Please analyze the image above.")),
    ]


@app.completion()
async def complete(ref: Any, argument: Any, context: Any) -> Completion:
    """Values that begin as the argument does."""
    known = ["test", "testing", "paris", "park", "party"]
    return Completion(values=[value for value in known if value.startswith(argument.value)])


# --- methods of the handshake era that MCPServer leaves to its user ----------------------------------


async def nothing(ctx: ServerRequestContext, params: Any) -> EmptyResult:
    return EmptyResult()


for method, kind in (
    ("logging/setLevel", SetLevelRequestParams),
    ("resources/subscribe", SubscribeRequestParams),
    ("resources/unsubscribe", UnsubscribeRequestParams),
):
    app._lowlevel_server.add_request_handler(method, kind, nothing)


class Events(EventStore):
    """An event store as the SDK wants it."""

    def __init__(self):
        self.kept = []

    async def store_event(self, stream_id, message):
        self.kept.append((stream_id, message))
        return str(len(self.kept))

    async def replay_events_after(self, last_event_id, send_callback):
        if not last_event_id.isdigit() or not 0 < int(last_event_id) <= len(self.kept):
            return None
        stream = self.kept[int(last_event_id) - 1][0]
        for number, (stream_id, message) in enumerate(self.kept, 1):
            if number > int(last_event_id) and stream_id == stream and message is not None:
                await send_callback(EventMessage(message, str(number)))
        return stream


if __name__ == "__main__":
    host, port = sys.argv[1], int(sys.argv[2])
    if host == "theirs":
        app.run("streamable-http", port=port, event_store=Events(), retry_interval=500)
    else:
        from headrace.integrations.mcp_sdk import run

        run(app, http=("127.0.0.1", port), event_store=Events(), retry_interval=500)
