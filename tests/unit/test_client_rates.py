"""A client that is told to wait: the error names the wait, and `retries=` keeps to it (429, Retry-After, retryAfter)."""

import asyncio

import pytest
from http_peer import plain
from http_script import HttpScript
from http_support import make_server, site, tiny
from scripted_peer import Script, error, handshake

from headrace import ConnectFailed, HttpStatusError, Limits, RpcError, Server, connect
from headrace.transports._rates import caller_of
from headrace.transports.stream import serve_lines

MODERN = {
    "resultType": "complete", "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}},
    "serverInfo": {"name": "s", "version": "1"}, "ttlMs": 0, "cacheScope": "private",
}  # fmt: skip
US = caller_of(None, "127.0.0.1")


def test_the_error_of_a_caller_names_the_wait(run):
    """Against a server of ours: the JSON-RPC error with its exact seconds; the client lives on."""

    async def main():
        async with site(make_server(), limits=tiny(rate_limit=0.01, rate_burst=3)) as s:
            async with connect(s.listener.url) as client:
                for _ in range(2):
                    assert (await client.call_tool("echo", {"text": "x"})).text == "x"
                for call in (lambda: client.call_tool("echo", {"text": "x"}), client.list_tools):
                    with pytest.raises(RpcError, match=r"too many requests: 0.01 a second.*ask again in \d+ s") as caught:
                        await call()
                    assert caught.value.http_status == 429 and caught.value.code == -32603
                    assert 90 < caught.value.retry_after <= 100
                assert not client.closed
            assert s.server.runtime.refusals == {"rate_limit": 2}

    run(main)


def test_retries_wait_as_long_as_they_are_told(run):
    """Every call comes through, tools that may not run twice too: what is turned away with 429 did not run."""

    async def main():
        async with site(make_server(), limits=tiny(rate_limit=40.0, rate_burst=1)) as s:
            async with connect(s.listener.url, retries=20) as client:
                results = await asyncio.gather(*[client.call_tool("sleep", {"ms": 1}) for _ in range(6)])
                assert [each.text for each in results] == ["slept"] * 6
            assert s.server.seen.started == 6
            assert s.server.runtime.refusals["rate_limit"] >= 5

    run(main)


@pytest.mark.parametrize("with_body", [True, False], ids=["json-rpc", "text"])
def test_servers_that_say_it_in_a_header_alone(run, with_body):
    """Whose body has no seconds: the field Retry-After is what the error names and what is waited for."""
    body = b'{"jsonrpc":"2.0","error":{"code":-32000,"message":"slow down"}}' if with_body else b"slow down"
    kind = "application/json" if with_body else "text/plain"
    refused = plain("429 Too Many Requests", body, Retry_After="7", Content_Type=kind)

    async def main():
        async with HttpScript(discover=MODERN, tools_call=refused) as peer, connect(peer.url) as client:
            with pytest.raises((RpcError, HttpStatusError), match=r"slow down.*; it asks to be tried again in 7 s$") as caught:
                await client.call_tool("t")
            assert caught.value.retry_after == 7.0
            assert isinstance(caught.value, RpcError) is with_body
            if with_body:
                assert (caught.value.message, caught.value.http_status) == ("slow down", 429)

    run(main)


def test_a_wait_that_is_too_long_is_cut(run):
    """At most max_reconnect_wait (B40)."""
    refused = plain("429 Too Many Requests", Retry_After="86400")

    async def main():
        answers = iter([refused, {"resultType": "complete", "content": [{"type": "text", "text": "done"}]}])
        limits = Limits(max_reconnect_wait=0.05)
        async with (
            HttpScript(discover=MODERN, tools_call=lambda request: next(answers)) as peer,
            connect(peer.url, retries=1, limits=limits) as client,
        ):
            assert (await client.call_tool("t")).text == "done"

    run(main)


@pytest.mark.parametrize("safe", [True, False])
def test_on_lines_only_what_may_run_twice_is_repeated(run, tmp_path, safe):
    """There an error with retryAfter may be the tool's own."""
    app = Server("t", version="1", limits=Limits(rate_limit=20.0, rate_burst=4))

    @app.tool(annotations={"readOnlyHint": safe})
    async def look() -> str:
        return "seen"

    async def main():
        path = str(tmp_path / "s")
        async with app.running():
            listener = await serve_lines(app, unix=path)
            async with connect(f"unix:{path}", retries=20) as client:
                await client.list_tools()
                calls = [client.call_tool("look") for _ in range(8)]
                results = await asyncio.gather(*calls, return_exceptions=True)
                texts = [getattr(each, "text", "refused") for each in results]
                assert (texts == ["seen"] * 8) is safe
                if not safe:
                    assert all(each.retry_after > 0 for each in results if isinstance(each, RpcError))
            await listener.close()

    run(main)


@pytest.mark.parametrize(
    ("data", "wait"),
    [({"retryAfter": 2.5}, 2.5), ({"retryAfter": 0}, 0.0), ({"retryAfter": -1}, None), ({"retryAfter": True}, None),
     ({"retryAfter": "5"}, None), ({"retryAfter": 1e300}, None), ("later", None), (None, None)],
)  # fmt: skip
def test_what_data_says_of_the_wait(data, wait):
    assert RpcError(-32603, "m", data).retry_after == wait
    assert RpcError(-32603, "m", retry_after=1.5).data == {"retryAfter": 1.5}


@pytest.mark.parametrize("revision", ["2026-07-28", "2025-11-25"])
def test_looks_at_a_task_that_are_refused_are_repeated(run, revision):
    """A task has not failed because it was asked for too often: neither for polls nor for tasks/result."""
    app = make_server(tiny(rate_limit=20.0, rate_burst=20))
    app.tasks(poll_interval=0.02)
    began, over = asyncio.Event(), asyncio.Event()

    @app.tool(task="required")
    async def job() -> str:
        began.set()
        app.runtime.rates.owe(US, 20)  # half a second without a request
        await over.wait()
        return "done"

    async def main():
        async with site(app) as s, connect(s.listener.url, revision=revision, tasks=True) as client:
            await client.list_tools()
            call = asyncio.ensure_future(client.call_tool("job"))
            await began.wait()
            await s.settled(lambda: app.runtime.refusals.get("rate_limit", 0) > 0)
            over.set()
            assert (await asyncio.wait_for(call, 20)).text == "done"

    run(main)


def test_a_server_that_is_asked_too_often_is_not_taken_for_an_old_one(run):
    """On lines a probe that is refused says nothing of the era: connecting fails with the wait."""

    async def main():
        refused = error(-32603, {"retryAfter": 7})
        async with Script(discover=refused, initialize=handshake()) as script:
            with pytest.raises(ConnectFailed, match=r"no \(-32603\); it asks to be tried again in 7 s"):
                async with connect(script.target):
                    pass
            assert [message["method"] for message in script.seen] == ["server/discover"]

    run(main)


def test_a_listen_is_taken_up_again_as_late_as_the_server_says(run):
    """SF-74: one that broke and is refused with 429 is asked for again, and what may have been missed is told."""

    async def main():
        app = make_server(tiny(rate_limit=10.0, rate_burst=10))
        drops = []
        async with (
            site(app) as s,
            connect(s.listener.url) as client,
            client.listen(tools=True, on_drop=drops.append) as changes,
        ):
            await s.settled(lambda: len(app.hub.listens) == 1)
            app.runtime.rates.owe(US, 15)
            for link in list(s.endpoint.links):
                link.abort()
            change = await asyncio.wait_for(anext(aiter(changes)), 20)
            assert change.kind == "tools" and len(app.hub.listens) == 1
            refused = [drop for drop in drops if isinstance(drop, RpcError)]
            assert refused and all(drop.http_status == 429 and drop.retry_after > 0 for drop in refused)

    run(main)
