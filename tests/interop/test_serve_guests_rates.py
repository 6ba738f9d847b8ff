"""Bounds of one caller for servers of other SDKs behind `headrace serve`: 429, in both eras, and what the client makes of
it."""

import asyncio

import pytest

from headrace import RpcError, connect
from interop import support
from interop.test_serve_guests import GUESTS, SDK_1

pytestmark = pytest.mark.interop


@pytest.mark.parametrize("kind", GUESTS)
def test_rates_hold_for_guests(kind, tmp_path, request):
    fixture, target, name = GUESTS[kind]
    python = request.getfixturevalue(fixture)
    if target is None:
        target = tmp_path / "first.py"
        target.write_text(SDK_1)

    async def talk(url):
        async with connect(url, revision="2025-11-25") as client:
            assert client.server_info.name == name
            answered = 0
            with pytest.raises(RpcError, match="too many requests") as caught:
                for _ in range(20):
                    assert (await client.call_tool("echo", {"text": "a"})).text == "a"
                    answered += 1
            assert (caught.value.http_status, caught.value.code) == (429, -32603)
            assert caught.value.retry_after > 60 and 1 <= answered < 10

    with support.hosted(target, "--rate-limit", "1/h", "--rate-burst", "10", python=python) as url:
        asyncio.run(asyncio.wait_for(talk(url), 40))
