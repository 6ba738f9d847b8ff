"""What headrace's client does with every counterpart that offers the common tools, and what must come of it."""

import asyncio
import uuid

import pytest

from headrace import RequestTimeout, RpcError

TEXT = 'é€😀𝄞\n"\\\u2028'


async def exercise(client, *, cancels=True, structured=True, progress=True):
    """Lists, calls, fails, times out and cancels; the options name what a counterpart does not offer."""
    tools = {tool.name: tool for tool in await client.list_tools()}
    assert {"add", "echo", "count", "point", "fail"} <= set(tools)
    assert tools["add"].input_schema["properties"].keys() == {"a", "b"}

    assert (await client.call_tool("add", {"a": 1, "b": 2})).text == "3"
    assert (await client.call_tool("echo", {"text": TEXT})).text == TEXT
    point = await client.call_tool("point", {"x": 1, "y": 2.5})
    if structured:
        assert point.structured_content == {"x": 1, "y": 2.5}
    failed = await client.call_tool("fail", {"message": "as told"})
    assert failed.is_error
    assert "as told" in failed.text

    notes = []
    counted = await client.call_tool("count", {"to": 20}, on_progress=lambda *note: notes.append(note))
    assert counted.text == "counted to 20"
    if progress:
        assert notes == [(n, 20, f"at {n}") for n in range(1, 21)]

    answers = await asyncio.gather(*(client.call_tool("echo", {"text": str(n)}) for n in range(200)))
    assert [answer.text for answer in answers] == [str(n) for n in range(200)]

    if cancels:
        await give_up(client)
    # The connection is as good as before.
    assert (await client.call_tool("add", {"a": 20, "b": 3})).text == "23"


QUESTIONS = {
    "elicitation": lambda params: {"name": "Ada"},
    "sampling": lambda params: f"about {params.messages[0].content.text}",
    "roots": ["/work"],
}
"""Options of `connect` that answer the questions of `features`."""


async def features(client, *, asks=True, subscribes=True, touched=None):
    """Questions, resources, prompts, completion, updates, with a counterpart that has them; `touched` is what
    `on_resource_updated` of the connection fills."""
    if asks:
        assert (await client.call_tool("ask_name")).text == "Hello Ada"
        assert (await client.call_tool("think", {"prompt": "cats"})).text == "thought about cats"
        assert (await client.call_tool("where")).text == "file:///work"
    assert {"note://static", "note://blob"} <= {each.uri for each in await client.list_resources()}
    assert "note://named/{name}" in [each.uri_template for each in await client.list_resource_templates()]
    assert (await client.read_resource("note://static")).text == "static note"
    assert (await client.read_resource("note://blob")).data == b"\x89PNG\r\n"
    assert (await client.read_resource("note://named/x")).text == "note of x"
    with pytest.raises(RpcError):
        await client.read_resource("note://nowhere")
    prompts = {each.name: each for each in await client.list_prompts()}
    assert [each.name for each in prompts["greet"].arguments] == ["name"]
    assert (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text == "Greet Ada"
    assert (await client.complete("greet", "name", "A")).values == ["Ada", "Alan"]
    if subscribes:
        await client.subscribe("note://static")
        await client.call_tool("touch")
        await until(lambda: touched)
        assert touched == ["note://static"]
        await client.unsubscribe("note://static")


async def unknown_tool(client):
    """A tool nobody has: an error answer, or from some servers an error result."""
    try:
        result = await client.call_tool("no_such_tool")
    except RpcError as exc:
        assert exc.code == -32602
    else:
        assert result.is_error
        assert "no_such_tool" in result.text


async def give_up(client):
    """B75: a time limit and a cancelled task reach the server, whose journal says so."""
    mark = uuid.uuid4().hex
    with pytest.raises(RequestTimeout):
        await client.call_tool("slow", {"seconds": 20, "tag": f"{mark} timeout"}, timeout=0.3)
    task = asyncio.ensure_future(client.call_tool("slow", {"seconds": 20, "tag": f"{mark} task"}))
    await asyncio.sleep(0.3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wanted = {f"{mark} timeout cancelled", f"{mark} task cancelled"}
    for _ in range(50):
        found = set((await client.call_tool("read_journal")).text.split("|"))
        if wanted <= found:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"not cancelled: {wanted - found}")


async def until(condition, seconds=5):
    """Waits for `condition()` to become true."""
    for _ in range(int(seconds * 20)):
        if condition():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("it did not happen in time")
