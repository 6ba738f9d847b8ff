"""Interaction, third part: what a server asks of its client, in every cell of the matrix."""

import asyncio

import pytest

from headrace import Elicited, RpcError
from headrace.errors import InputRefused
from interaction.cells import R3, R4, R5, TRANSPORTS, cells

_ALL, _NAMES = cells([each for each in TRANSPORTS if each != "stdio"])


@pytest.fixture(params=_ALL, ids=_NAMES)
def light_cell(request, worlds):
    """Cells in which one more connection is cheap."""
    loop_name, transport, revision = request.param
    return worlds(loop_name).cell(transport, revision)


async def says(cell, tool, **arguments):
    result = await cell.client.call_tool(tool, arguments)
    return ("failed: " if result.is_error else "") + result.text


@pytest.mark.parametrize("tool", ["ask_person", "ask_person_in_thread"])
def test_cf30_31_33_forms(cell, tool):
    """CF-01, CF-30, CF-31, CF-33, MX-30, MX-31, MX-32, MX-39: since 2025-06-18; before, the tool hears that it cannot ask."""

    async def trial(cell):
        said = await says(cell, tool)
        if not cell.since(R3):
            assert said.startswith("failed: ") and cell.answers.asked == []
            return
        assert "name='Ada', age=30, color='red'" in said
        (asked,) = cell.answers.asked
        assert asked.message == "Who are you?"
        properties = asked.requested_schema["properties"]
        assert properties["name"] == {"type": "string"}
        assert properties["color"]["enum"] == ["red", "green"]
        assert ("default" in properties["age"]) == cell.since(R4)
        assert asked.requested_schema["required"] == ["name"]

    cell.run(trial)


@pytest.mark.parametrize("action", ["decline", "cancel"])
def test_cf31_mx38_declining(cell, action):
    """CF-31, MX-38: no and no choice are answers, not errors."""

    async def trial(cell):
        cell.answers.elicit = lambda params: Elicited(action)
        assert await says(cell, "ask_person") == action

    if cell.since(R3):
        cell.run(trial)


def test_cf32_34_urls(cell):
    """CF-32, CF-33, CF-34: URLs since 2025-11-25."""

    async def trial(cell):
        said = await says(cell, "ask_url")
        if cell.since(R4):
            assert said == "accept"
            (asked,) = cell.answers.asked
            assert (asked.mode, asked.url) == ("url", "https://example.test/signin")
            assert (asked.elicitation_id is not None) == (cell.revision == R4)
        else:
            assert said.startswith("failed: ") and cell.answers.asked == []

    cell.run(trial)


def test_cf20_21_23_sampling(cell):
    """CF-20, CF-21, CF-23: in every revision; a refusal is not an answer."""

    async def trial(cell):
        assert await says(cell, "think", prompt="of cats") == "a thought"
        (asked,) = cell.answers.asked
        assert asked.messages[0].content.text == "of cats"
        assert asked.max_tokens == 10
        cell.answers.sample = lambda params: None
        if cell.modern:
            # There is no room for a refusal in a retry: the client gives the call up.
            with pytest.raises(InputRefused):
                await says(cell, "think", prompt="of dogs")
        else:
            assert await says(cell, "think", prompt="of dogs") == "declined"

    cell.run(trial)


def test_cf10_roots(cell):
    """CF-10: in every revision."""

    async def trial(cell):
        assert await says(cell, "where") == "file:///work"
        cell.answers.roots = lambda: ["/a", "file:///b%20c"]
        assert await says(cell, "where") == "file:///a file:///b%20c"
        cell.client.notify_roots_changed() if not cell.modern else None
        assert await says(cell, "where") == "file:///a file:///b%20c"

    cell.run(trial)


def test_mx32_33_39_several_questions_and_rounds(cell):
    """MX-30, MX-31, MX-32, MX-33, MX-39: three at once, and one that depends on them; the same handler in both eras."""

    async def trial(cell):
        if not cell.since(R3):
            assert (await says(cell, "ask_all")).startswith("failed: ")
            return
        assert await says(cell, "ask_all") == "Ada a thought 1 True"
        assert len(cell.answers.asked) == 4
        assert "Ada" in cell.answers.asked[-1].message

    cell.run(trial)


def test_mx30_36_explicit_form(cell):
    """MX-30, MX-36: what the handler says it needs, and its state, in both eras."""

    async def trial(cell):
        said = await says(cell, "explicit")
        assert said == "Ada 1 {'step': 1}" if cell.since(R3) else said.startswith("failed: ")

    cell.run(trial)


def test_mx30_prompts_and_resources_ask(cell):
    """MX-30: not tools alone."""

    async def trial(cell):
        client = cell.client
        if not cell.since(R3):
            for asking in (client.get_prompt("asking"), client.read_resource("asking://cats")):
                with pytest.raises(RpcError) as caught:
                    await asking
                assert caught.value.code == -32603
            return
        assert (await client.get_prompt("asking")).messages[0].content.text == "Write to Ada"
        assert (await client.read_resource("asking://cats")).text == "cats for Ada"

    cell.run(trial)


def test_many_questions_at_once(cell):
    """CF-01, MX-01: calls that ask do not mix up their answers."""

    async def trial(cell):
        cell.answers.sample = lambda params: f"a thought {params.messages[0].content.text}"
        many = 6 if cell.transport in ("http", "sse") else 20
        calls = [says(cell, "think", prompt=f"of {n}") for n in range(many)]
        assert await asyncio.gather(*calls) == [f"a thought of {n}" for n in range(many)]

    cell.run(trial)


@pytest.mark.parametrize("tool", ["ask_person", "think", "where"])
def test_vn29_undeclared_capabilities(light_cell, tool):
    """VN-29, VN-07, CF-02, CF-33, MX-31: a client that declared nothing is asked nothing; -32021 in the newest revision."""

    async def trial(cell):
        arguments = {"prompt": "x"} if tool == "think" else {}
        async with cell.connect() as client:
            if cell.modern:
                with pytest.raises(RpcError) as caught:
                    await client.call_tool(tool, arguments)
                needed = {"ask_person": "elicitation", "think": "sampling", "where": "roots"}[tool]
                assert caught.value.code == -32021
                assert list(caught.value.data["requiredCapabilities"]) == [needed]
            else:
                assert (await client.call_tool(tool, arguments)).is_error
            assert (await client.call_tool("does_without")).text == "did without"

    light_cell.run(trial)


def test_cf02_url_mode_is_declared_apart(light_cell):
    """CF-02, CF-33: a client that shows forms only is sent no URL."""

    async def trial(cell):
        asked = []

        def elicit(params):
            asked.append(params.mode)
            return {"name": "Ada"}

        async with cell.connect(elicitation=elicit) as client:
            assert (await client.call_tool("ask_person")).is_error == (not cell.since(R3))
            if cell.revision == R5:
                with pytest.raises(RpcError):
                    await client.call_tool("ask_url")
            else:
                assert (await client.call_tool("ask_url")).is_error
        assert asked == (["form"] if cell.since(R3) else [])

    light_cell.run(trial)
