"""The code of docs/client.md is run against a server of this process."""

import asyncio
import re
import textwrap
from pathlib import Path

import pytest

import headrace
from headrace import Context, Limits, Server
from headrace.client import Client

GUIDE = (Path(__file__).parent.parent / "docs" / "client.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", GUIDE, re.S)


@pytest.fixture
def app():
    app = Server("guide", version="1")

    @app.tool
    def add(a: int, b: int) -> int:
        """Adds."""
        return a + b

    @app.tool
    async def book(day: str, ctx: Context) -> str:
        """Books."""
        form = {"type": "object", "properties": {"seats": {"type": "integer"}}}
        answer = await ctx.elicit("how many?", form)
        return f"{day}: {answer.content['seats']}"

    @app.resource("file:///config", name="config")
    def config() -> str:
        return "x"

    return app


def defined(block, **names):
    """The names that a block of the guide defines; what it awaits at the top is awaited."""
    body = textwrap.indent(block, "    ")
    source = f"async def _block():\n{body}\n    return locals()\n"
    exec(compile(source, "docs/client.md", "exec"), names)
    return names["_block"]()


def test_the_guide_runs(app, monkeypatch, capsys):
    first, offers, by_hand, follow = BLOCKS
    real = headrace.connect

    async def main():
        monkeypatch.setattr(headrace, "connect", lambda url, **options: real(app, **options))
        await defined(first)
        assert capsys.readouterr().out == "3 3\n"
        names = await defined(offers)
        async with names["client"] as client:
            assert client._offer.capabilities == b'{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{}}}'
        names = await defined(by_hand)
        async with real(app, capabilities={"elicitation": {}}) as client:
            assert isinstance(client, Client)
            assert (await names["by_hand"](client)).text == "monday: 2"
        names = await defined(follow)
        async with real(app) as client:
            task = asyncio.ensure_future(names["follow"](client))
            while not client._watch.listens or not next(iter(client._watch.listens.values())).accepted.tools:
                await asyncio.sleep(0.01)
            app.add_tool(lambda: 1, name="more", description="x")
            app.notify_resource_updated("file:///config")
            await asyncio.sleep(0.1)
            task.cancel()
            await asyncio.wait([task])
        assert "tools None False\nresource file:///config False" in capsys.readouterr().out

    asyncio.run(asyncio.wait_for(main(), 30))


def test_the_guide_names_what_there_is():
    for name in re.findall(r"`(max_\w+)`", GUIDE):
        assert hasattr(Limits(), name) or name == "max_total_timeout", name
    for name in re.findall(r"client\.(\w+)\(", GUIDE):
        assert hasattr(Client, name), name
