"""docs/server.md is one program that runs, and examples/everything.py does all that it says, in every revision."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from headrace import ResourceNotFound, connect

ROOT = Path(__file__).parent.parent.parent
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "server.md").read_text(), re.S)


def load(path, name):
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    finally:
        del sys.modules[name]
    return module


@pytest.fixture
def notes(tmp_path):
    (tmp_path / "notes.py").write_text("".join(BLOCKS))
    return load(tmp_path / "notes.py", "notes")


def test_the_program_of_the_page(run, notes):
    async def main():
        async with connect(notes.app) as client:
            found = await client.call_tool("find", {"word": "milk"})
            assert found.structured_content == {"key": "milk", "text": "Buy milk."} or found.structured_content == [
                {"key": "milk", "text": "Buy milk."}
            ]
            assert (await client.read_resource("note://milk")).text == "Buy milk."
            assert (await client.read_resource("note://about")).text == "Notes of one person."
            assert "tax" in (await client.read_resource("search://notes?word=taxes")).text
            assert (await client.read_resource("docs:///notes.py")).text == "".join(BLOCKS)
            for gone in ("note://nope", "docs:///../x"):
                with pytest.raises(ResourceNotFound):
                    await client.read_resource(gone)
            prompt = await client.get_prompt("review", {"key": "milk", "tone": "strict"})
            assert [m.role for m in prompt.messages] == ["user", "assistant"]
            assert (await client.complete("review", "key", "m")).values == ["milk"]
            assert (await client.complete("review", "tone", "k")).values == ["kind"]
            assert (await client.complete("note://{key}", "key", "t")).values == ["tax"]
            assert await notes.follow(client) == "note://milk"
            async with connect(notes.greeter) as other:
                assert (await other.call_tool("greet")).text == "Hello"
            assert [t.uri_template for t in await client.list_resource_templates()] == [
                "note://{key}", "search://notes{?word,limit}", "docs:///{+path}",
            ]  # fmt: skip
            (page,) = [r for r in await client.list_resources() if r.uri.startswith("ui:")]
            assert page.meta == {"ui": {"csp": {"connectDomains": []}}}  # SF-78
            (show,) = [t for t in await client.list_tools() if t.name == "show"]
            assert show.meta == {"ui": {"resourceUri": "ui://notes/list"}}

    run(main)


@pytest.fixture
def everything():
    return load(ROOT / "examples" / "everything.py", "everything").app


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
def test_everything_in_every_revision(run, everything, revision):
    """SF-07, VN-67, SF-20, SF-30, SF-31: one registry, rendered as each revision knows it."""

    async def main():
        async with connect(everything, revision=revision) as client:
            assert client.protocol_version == revision
            assert len(await client.list_tools()) == 14
            kinds = [block.__struct_config__.tag for block in (await client.call_tool("media")).content]
            weather = await client.call_tool("weather", {"city": "Oslo"})
            who = (await client.call_tool("whoami")).content[0].text
            await client.call_tool("grow", {"name": "extra"})
            assert (await client.read_resource("grown://extra")).text == "extra"
            await client.call_tool("shrink", {"name": "extra"})
            for uri in ("grown://extra", "city://Atlantis"):
                with pytest.raises(ResourceNotFound):
                    await client.read_resource(uri)
            assert (await client.read_resource("image://dot")).data.startswith(b"\x89PNG")
            assert len((await client.read_resource("tree://root/a/b")).contents) == 2
            assert '"unit":"fahrenheit"' in (await client.read_resource("city://Oslo?unit=fahrenheit")).text
            assert len((await client.get_prompt("picture")).messages) == 4
            assert (await client.get_prompt("greet", {"name": "Ada"})).messages[0].content.text.endswith("for Ada.")
            assert (await client.complete("city://{name}{?unit}", "name", "os")).values == ["Oslo", "Osaka"]
            assert (await client.complete("city://{name}{?unit}", "unit", "c")).values == ["celsius"]
            formal = await client.complete("greet", "name", "ada", context={"tone": "formal"})
            return kinds, weather, who, formal.values

    kinds, weather, who, formal = run(main)
    old = revision < "2025-06-18"
    assert kinds == ["text", "image", "text" if revision == "2024-11-05" else "audio", "resource", "text" if old else "resource_link"]
    assert (weather.structured_content is not None and "Oslo" in str(weather.structured_content)) != old
    assert revision in who
    assert formal == (["Ada"] if old else ["Dr. Ada", "Prof. Ada"])
