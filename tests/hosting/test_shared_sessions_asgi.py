"""Shared sessions behind ASGI hosts, and a backplane that is given as an option (B95)."""

import asyncio
import json

import pytest
from asgi_support import get, handshake, living, open_session, post

from headrace.errors import UsageError
from headrace.hosting.backplane import MemoryBackplane, MemoryHub
from headrace.transports.http_options import share
from hosting.session_support import shared_server


def test_b95_sessions_are_shared_behind_asgi_hosts(run):
    async def scene():
        hub = MemoryHub()
        servers = [shared_server() for _ in range(2)]
        first, second = (server.asgi(backplane=MemoryBackplane(hub)) for server in servers)
        async with living(first), living(second):
            sid = await open_session(first)
            call = handshake("tools/call", {"name": "echo", "arguments": {"text": "hello"}}, session=sid)
            for app in (second, first, second):
                answer = await post(app, *call).over()
                assert answer.json["result"]["content"][0]["text"] == "hello"
            pieces = await post(second, *call, pieces=3).over()
            assert pieces.status == 200
            unknown = await post(second, *handshake("ping", session="0" * 48)).over()
            assert unknown.status == 404
            hub.cut()
            lost = await post(second, *handshake("ping", session="0" * 48)).over()
            assert lost.status == 503 and lost.get("retry-after") == "1"
            assert (await post(second, *call).over()).status == 200
            hub.mend()
            stream = get(second, sid)
            for _ in range(100):
                if stream.sent:
                    break
                await asyncio.sleep(0.01)
            assert stream.sent[0]["status"] == 200
            stream.disconnect()
            await stream.over()
        assert json.loads(pieces.body)["result"] and hub.members == {}

    run(scene)


def test_a_backplane_is_the_servers_own(run):
    async def scene():
        hub = MemoryHub()
        app = shared_server()
        one = MemoryBackplane(hub)
        share(app, {"backplane": None})
        assert app.backplane is None
        share(app, {"backplane": one})
        async with app.running():
            share(app, {"backplane": one})
            with pytest.raises(RuntimeError, match="running"):
                share(app, {"backplane": MemoryBackplane(hub)})
        with pytest.raises(UsageError, match="no backplane is possible"):
            share(object(), {"backplane": one})

    run(scene)
