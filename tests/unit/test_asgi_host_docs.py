"""docs/asgi-host.md: its programs run, and what it says of paths, checks and bounds is so."""

import asyncio
import re
from pathlib import Path

import pytest
from http_support import Site, site

from headrace import connect
from headrace.transports.asgi import serve

PAGE = Path(__file__).parents[2] / "docs" / "asgi-host.md"


@pytest.fixture(scope="module")
def blocks():
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)


@pytest.fixture
def shop(blocks, tmp_path, monkeypatch):
    (tmp_path / "shop.py").write_text(blocks[0])
    monkeypatch.syspath_prepend(str(tmp_path))
    import importlib
    import sys

    sys.modules.pop("shop", None)
    yield importlib.import_module("shop")
    sys.modules.pop("shop", None)


def test_the_shop_has_tools_and_pages(run, shop):
    async def main():
        async with site(shop.app, beside=shop.web) as place:
            peer = await place.connect()
            got = await peer.ask(place.request("GET", "/health"))
            assert (got.status, got.body, got.get("x-shop")) == (200, b"open", "1")
            assert (await peer.ask(place.request("GET", "/other"))).status == 404
            assert (await peer.ask(place.request("GET", "/health", host="evil.example"))).status == 421
            assert (await peer.ask(place.request("GET", "/health", origin="https://evil.example"))).status == 200
            assert (await peer.ask(place.request("POST", body={}, origin="https://evil.example"))).status == 403
            async with connect(f"http://{place.netloc}/mcp") as client:
                assert (await client.call_tool("price", {"item": "tea"})).content[0].text == "300"

    run(main)


def test_the_pages_alone(run, shop, blocks, capsys):
    async def main():
        scope = {}
        exec(compile(blocks[1].replace("port=8000", "port=0"), str(PAGE), "exec"), scope)
        serving = asyncio.ensure_future(scope["main"]())
        for _ in range(500):
            if "serving" in (out := capsys.readouterr().out):
                break
            await asyncio.sleep(0.01)
        port = int(out.strip().rpartition(":")[2])
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).endswith(b"open")
        writer.close()
        serving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await serving

    run(main)


def test_what_it_says_of_bounds(run):
    """About 128 KiB wait unreceived; what is left of a body is read away up to 256 KiB; a head waits 10 ms."""
    text = PAGE.read_text()
    source = (Path(__file__).parents[2] / "src/headrace/transports/_http_asgi.pyx").read_text()
    assert "MUCH = 64 * 1024" in source and "At about 128 KiB" in text
    assert "MAX_SKIP = 256 * 1024" in source and "up to 256 KiB" in text
    assert "HEAD_WAIT = 0.01" in source and "after 10 ms" in text

    async def main():
        seen = []

        async def app(scope, receive, send):
            seen.append(scope["asgi"]["spec_version"])
            await send({"type": "http.response.start", "status": 204})
            await send({"type": "http.response.body"})

        listener = await serve(app, host="127.0.0.1", port=0)
        place = Site(None, listener)
        peer = await place.connect()
        assert (await peer.ask(place.request("GET", "/"))).status == 204
        peer.reset()
        await listener.close()
        assert f"Spec version {seen[-1]} of ASGI" in text

    run(main)
