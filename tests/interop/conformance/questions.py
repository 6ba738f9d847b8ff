"""Tools and a prompt that ask the client: by a call where they stand, and by the explicit form with its keys."""

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from headrace import Context, InputNeeded, Server, ask_elicit, ask_roots, ask_sample


class Response(msgspec.Struct):
    response: Annotated[str, Meta(description="User's response")]


class Name(msgspec.Struct):
    name: str


class Color(msgspec.Struct):
    color: str


class Confirmation(msgspec.Struct):
    ok: bool


class Wanted(msgspec.Struct):
    context: str


class Defaults(msgspec.Struct):
    """A default of every kind (SEP-1034)."""

    name: Annotated[str, Meta(description="User name")] = "John Doe"
    age: Annotated[int, Meta(description="User age")] = 30
    score: Annotated[float, Meta(description="User score")] = 95.5
    status: Annotated[Literal["active", "inactive", "pending"], Meta(description="User status")] = "active"
    verified: Annotated[bool, Meta(description="Verification status")] = True


def titles(*pairs: tuple[str, str]) -> list[dict[str, str]]:
    return [{"const": value, "title": title} for value, title in pairs]


OPTIONS = ["option1", "option2", "option3"]
# Every notation of a choice, the legacy one included (SEP-1330).
CHOICES = {
    "type": "object",
    "properties": {
        "untitledSingle": {"type": "string", "enum": OPTIONS},
        "titledSingle": {
            "type": "string",
            "oneOf": titles(("value1", "First Option"), ("value2", "Second Option"), ("value3", "Third Option")),
        },
        "legacyEnum": {
            "type": "string",
            "enum": ["opt1", "opt2", "opt3"],
            "enumNames": ["Option One", "Option Two", "Option Three"],
        },
        "untitledMulti": {"type": "array", "minItems": 1, "maxItems": 3, "items": {"type": "string", "enum": OPTIONS}},
        "titledMulti": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"anyOf": titles(("value1", "First Choice"), ("value2", "Second Choice"), ("value3", "Third Choice"))},
        },
    },
}


def register(app: Server) -> None:
    """Puts them all on `app`."""
    for tool in (
        test_sampling,
        test_elicitation,
        test_elicitation_sep1034_defaults,
        test_elicitation_sep1330_enums,
        test_input_required_result_elicitation,
        test_input_required_result_sampling,
        test_input_required_result_list_roots,
        test_input_required_result_request_state,
        test_input_required_result_multiple_inputs,
        test_input_required_result_multi_round,
        test_input_required_result_tampered_state,
        test_input_required_result_capabilities,
    ):
        app.add_tool(tool)
    app.add_prompt(test_input_required_result_prompt)


async def test_sampling(ctx: Context, prompt: str) -> str:
    """Lets the client's model write."""
    return f"LLM response: {(await ctx.sample(prompt, max_tokens=100)).content.text}"


async def test_elicitation(ctx: Context, message: str) -> str:
    """Asks the user."""
    answer = await ctx.elicit(message, {"type": "object", "properties": {}})
    return f"User response: action={answer.action}, content={answer.content}"


async def test_elicitation_sep1034_defaults(ctx: Context) -> str:
    """Asks the user with a default for everything."""
    answer = await ctx.elicit("Please review and update the form fields with defaults", Defaults)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


async def test_elicitation_sep1330_enums(ctx: Context) -> str:
    """Asks the user to choose."""
    answer = await ctx.elicit("Please select options from the enum fields", CHOICES)
    return f"Elicitation completed: action={answer.action}, content={answer.content}"


async def test_input_required_result_elicitation(ctx: Context) -> str | InputNeeded:
    """The explicit form, without state: the first call may bring the answer along."""
    answers = ctx.input_responses
    name = answers.elicited("user_name", Name) if answers is not None else None
    if name is None:
        return InputNeeded({"user_name": ask_elicit("What is your name?", Name)})
    return f"Hello, {name.content.name}!"


async def test_input_required_result_sampling(ctx: Context) -> str:
    """Lets the client's model answer."""
    return (await ctx.sample("What is the capital of France?", max_tokens=100)).content.text


async def test_input_required_result_list_roots(ctx: Context) -> str:
    """Asks for the client's roots."""
    return f"Found {len(await ctx.list_roots())} root(s)"


async def test_input_required_result_request_state(ctx: Context) -> str:
    """A question, and the state that comes back with its answer."""
    answer = await ctx.elicit("Please confirm", Confirmation)
    return f"state-ok: {answer.action}"


async def test_input_required_result_multiple_inputs(ctx: Context) -> str:
    """Three questions of different kinds in one round."""
    name, greeting, roots = await asyncio.gather(
        ctx.elicit("What is your name?", Name), ctx.sample("Generate a greeting", max_tokens=50), ctx.list_roots()
    )
    return f"{greeting.content.text} {name.content.name}, {len(roots)} root(s)"


async def test_input_required_result_multi_round(ctx: Context) -> str:
    """Two rounds."""
    name = await ctx.elicit("Step 1: What is your name?", Name)
    color = await ctx.elicit("Step 2: What is your favorite color?", Color)
    return f"{name.content.name} likes {color.content.color}"


async def test_input_required_result_tampered_state(ctx: Context) -> str:
    """State that nobody can change."""
    answer = await ctx.elicit("Please confirm", Confirmation)
    return f"integrity-ok: {answer.action}"


async def test_input_required_result_capabilities(ctx: Context) -> str | InputNeeded:
    """Asks what the client can answer, and nothing else."""
    possible: dict[str, Any] = {
        "elicitation": ask_elicit("Elicitation input", Name),
        "sampling": ask_sample("Sample request", max_tokens=50),
        "roots": ask_roots(),
    }
    if ctx.input_responses is not None:
        return f"capabilities-ok: {', '.join(ctx.input_responses)}"
    return InputNeeded({key: each for key, each in possible.items() if key in ctx.client_capabilities}, state="asked")


async def test_input_required_result_prompt(ctx: Context) -> str:
    """A prompt that needs to know more."""
    answer = await ctx.elicit("What context should the prompt use?", Wanted)
    return f"Prompt with context: {answer.content.context}"
