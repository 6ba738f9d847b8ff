"""The HTTP client channel against our own HTTP server: both eras, load with cancels, large bodies."""

import asyncio
import json
import random

import pytest
from http_peer import ClientGate, log
from http_support import make_server, site

from headrace.limits import Limits
from headrace.mux import Mux
from headrace.transports.http_client import open_http
from headrace.transports.runtime import make_runtime

MODERN = (
    b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28",'
    b'"io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":{"name":"t","version":"1"}'
)


def params(modern, tool, arguments, token=None):
    meta = MODERN if modern else b'"_meta":{'
    if token is not None:
        meta += (b"," if modern else b"") + b'"progressToken":%d' % token
    return b'{"name":"%b","arguments":%b,%b}}' % (tool.encode(), json.dumps(arguments).encode(), meta)


async def opened(url, modern, **limits):
    bounds = Limits(**limits)
    mux = Mux(make_runtime(bounds, log), ClientGate(), bounds)
    channel = await open_http(url, mux, limits=bounds)
    if modern:
        channel.modern = True
        channel.protocol_version = "2026-07-28"
    else:
        hello = b'{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}'
        await mux.call("initialize", hello, channel).future
        channel.protocol_version = "2025-11-25"
        await channel.post("notifications/initialized")
    return mux, channel


@pytest.mark.parametrize("modern", [False, True])
def test_calls_progress_and_large_bodies(run, modern):
    async def main():
        async with site(make_server()) as place:
            mux, channel = await opened(place.listener.url, modern)
            assert (channel.session_id is None) == modern
            for n in (0, 10, 70_000, 3_000_000):
                called = mux.call("tools/call", params(modern, "big", {"n": n}), channel, name="big")
                assert json.loads(await called.future)["content"][0]["text"] == "x" * n
            steps = []
            called = mux.call(
                "tools/call", params(modern, "progress", {"n": 5}, mux.next_call_id), channel, name="progress",
                on_progress=lambda done, total, text: steps.append((done, total)),
            )  # fmt: skip
            await called.future
            assert steps == [(i, 5) for i in range(1, 6)]
            if not modern:
                stream = channel.open_stream()
                async with asyncio.timeout(5):
                    while not stream.opened:
                        await asyncio.sleep(0.005)
            await channel.close()
            assert channel.pool.counts["connections"] == 0 and mux.debug_counts()["pending"] == 0

    run(main)


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("connections", [3, 64])
def test_load_with_cancels_leaves_nothing(run, modern, connections):
    rng = random.Random(7)

    async def main():
        async with site(make_server()) as place:
            mux, channel = await opened(place.listener.url, modern, max_client_connections=connections)

            async def one(i):
                called = mux.call(
                    "tools/call", params(modern, "peek", {"wait": i % 3 == 0}), channel, name="peek",
                    timeout=0.004 if i % 11 == 0 else 0,
                )  # fmt: skip
                if i % 5 == 0:
                    await asyncio.sleep(rng.random() * 0.01)
                    called.cancel()
                try:
                    return json.loads(await called.future)["content"][0]["type"]
                except (TimeoutError, asyncio.CancelledError) as exc:
                    return type(exc).__name__

            found = await asyncio.gather(*(one(i) for i in range(400)))
            assert found.count("text") >= 200 and set(found) <= {"text", "RequestTimeout", "CancelledError"}
            assert mux.debug_counts()["pending"] == 0 and channel.pool.counts["waiting"] == 0
            await channel.close()

    run(main)
