"""docs/asgi.md: its server runs as an ASGI application and does what the page says. Its web application: tests/interop."""

import re
from pathlib import Path

import pytest
from asgi_support import living, modern, post

from headrace import connect
from headrace.transports.asgi import serve

BLOCKS = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[2] / "docs" / "asgi.md").read_text(), re.S)


@pytest.fixture
def page():
    names = {"__name__": "orders"}
    exec(BLOCKS[0], names)
    return names["mcp"]


def test_behind_our_own_host(run, page):
    async def main():
        listener = await serve(page, host="127.0.0.1", port=0)
        try:
            async with connect(f"{listener.url.rstrip('/')}/mcp") as client:
                assert (await client.call_tool("stock", {"item": "tea"})).text == "the shop has 3 tea"
        finally:
            await listener.close()

    run(main)


@pytest.mark.parametrize(("host", "status"), [(b"shop.example", 200), (b"localhost", 200), (b"evil.example", 421)])
def test_scope_and_hosts(run, page, host, status):
    async def main():
        async with living(page):
            headers, data = modern("tools/call", {"name": "stock", "arguments": {"item": "milk"}})
            answer = await post(page, [(b"host", host), *headers], data, state={"shop": "Ann"}).over()
            assert answer.status == status
            if status == 200:
                assert answer.json["result"]["content"][0]["text"] == "Ann has 1 milk"

    run(main)


def test_without_asgi_there_is_no_scope(run, page):
    async def main():
        async with connect(page.server) as client:
            assert (await client.call_tool("stock", {"item": "tea"})).text == "the shop has 3 tea"

    run(main)


def test_the_page_has_the_program_that_interop_runs():
    assert [block.splitlines()[0] for block in BLOCKS] == ["# orders.py", "# web.py"]
