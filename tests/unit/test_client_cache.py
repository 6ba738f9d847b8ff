"""Results that are used again: by the client's own rules, and by the client against scripted servers (SF-51..54)."""

import asyncio
import json

import pytest
from http_script import HttpScript
from scripted_peer import MODERN, Script, error, handshake

from headrace import Limits, RpcError, connect
from headrace.client.cache import ResultCache, SharedCache, Store
from headrace.jsonrpc import R4, SUBSCRIPTION_ID

OFFERS = {
    "tools": {"listChanged": True},
    "prompts": {},
    "resources": {"subscribe": True, "listChanged": True},
}
DISCOVER = {**MODERN, "capabilities": OFFERS}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


# --- the rules ---------------------------------------------------------------------------------------


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def cache(clock):
    return ResultCache(Store(Limits(), clock))


def put(cache, method="tools/list", params="", raw=b"{}", ttl=1000, scope="private", uri=None):
    cache.put(method, params, raw, ttl, scope, cache.now(), uri)


def test_sf52_fresh_until_ttl_is_over_by_a_monotonic_clock(cache, clock):
    put(cache, ttl=1500)
    clock.now += 1.4
    assert cache.get("tools/list", "") == b"{}"
    clock.now += 0.1
    assert cache.get("tools/list", "") is None


@pytest.mark.parametrize("ttl", [0, -1, None, "1000", True, float("nan"), [], {}])
def test_sf52_no_usable_ttl_is_stale_at_once(cache, ttl):
    put(cache, ttl=ttl)
    assert cache.get("tools/list", "") is None


@pytest.mark.parametrize("ages", [1e300, 10**400, float("inf")], ids=["float", "int", "inf"])
def test_a_ttl_of_ages_is_a_day(cache, clock, ages):
    put(cache, ttl=ages)
    clock.now += 86_399
    assert cache.get("tools/list", "") == b"{}"
    clock.now += 2
    assert cache.get("tools/list", "") is None


def test_sf52_keys_are_method_and_params(cache):
    put(cache, params='"cursor":"a"', raw=b"a")
    put(cache, params='"cursor":""', raw=b"e")
    put(cache, params="", raw=b"0")
    assert cache.get("tools/list", '"cursor":"a"') == b"a"
    assert cache.get("tools/list", '"cursor":""') == b"e"
    assert cache.get("tools/list", "") == b"0"
    assert cache.get("prompts/list", "") is None


def test_sf54_changes_invalidate_what_they_concern(cache):
    for method in ("tools/list", "prompts/list", "resources/list", "resources/templates/list"):
        put(cache, method)
    for uri in ("x://a", "x://a/b", "x://c"):
        put(cache, "resources/read", uri, uri=uri)
    cache.changed("resources", None)
    assert cache.get("tools/list", "") and cache.get("prompts/list", "")
    assert not cache.get("resources/list", "") and not cache.get("resources/templates/list", "")
    assert cache.get("resources/read", "x://a")
    cache.changed("resource", "x://a/b")
    assert not cache.get("resources/read", "x://a/b") and not cache.get("resources/read", "x://a")
    assert cache.get("resources/read", "x://c")


def test_sf54_an_answer_that_a_change_has_overtaken_is_not_kept(cache):
    asked = cache.now()
    cache.changed("tools", None)
    cache.put("tools/list", "", b"old", 1000, "private", asked)
    assert cache.get("tools/list", "") is None
    cache.put("prompts/list", "", b"fine", 1000, "private", asked)
    assert cache.get("prompts/list", "") == b"fine"


def test_entries_and_bytes_are_bounded(clock):
    store = Store(Limits(max_cache_entries=3), clock)
    for i in range(5):
        store.put(("m", str(i)), b"x", 9, "tools", None)
        store.get(("m", "2"))
    assert [k[1] for k in store._entries] == ["3", "4", "2"]
    assert store.get(("m", "2")) == b"x"
    store = Store(Limits(max_cache_bytes=80_000), clock)
    for i in range(100):
        store.put(("m", str(i)), b"x" * 5_000, 9, "tools", None)
        assert store.size <= 80_000
    store.put(("m", "big"), b"x" * 20_000, 9, "tools", None)
    assert store.get(("m", "big")) is None
    while len(store):
        store.drop(next(iter(store._entries)))
    assert store.size == 0


def test_sf53_only_public_results_are_shared(clock):
    shared = SharedCache(clock=clock)
    one, two, other = (ResultCache(Store(Limits(), clock), shared.store, origin) for origin in ("o", "o", "p"))
    put(one, "tools/list", raw=b"public", scope="public")
    put(one, "prompts/list", raw=b"private")
    put(one, "resources/list", raw=b"absent", scope=None)
    put(one, "resources/templates/list", raw=b"odd", scope="everyone")
    assert two.get("tools/list", "") == b"public"
    for method in ("prompts/list", "resources/list", "resources/templates/list"):
        assert one.get(method, "") and two.get(method, "") is None
    assert other.get("tools/list", "") is None
    one.clear()  # another token: what is private goes
    assert one.get("prompts/list", "") is None and one.get("tools/list", "") == b"public"
    two.changed("tools", None)
    assert one.get("tools/list", "") is None


# --- the client --------------------------------------------------------------------------------------


def listed(*names, ttl=60_000, scope="private", **more):
    tools = [{"name": n, "inputSchema": {"type": "object"}} for n in names]
    return {"resultType": "complete", "tools": tools, "ttlMs": ttl, "cacheScope": scope, **more}


def test_sf52_lists_and_reads_are_used_again(run):
    async def main():
        read = {"contents": [{"uri": "x://a", "text": "t"}], "ttlMs": 60_000, "cacheScope": "private"}
        answers = {"tools_list": listed("a"), "resources_read": read, "prompts_list": {"prompts": [], "ttlMs": 0}}
        async with Script(discover=DISCOVER, **answers) as peer, connect(peer.target) as client:
            for _ in range(3):
                (tool,) = await client.list_tools()
                assert tool.name == "a"
                tool.name = "changed by its owner"
                assert (await client.read_resource("x://a")).text == "t"
                await client.list_prompts()

            def count(method):
                return peer.methods.count(method)

            assert (count("tools/list"), count("resources/read"), count("prompts/list")) == (1, 1, 3)
            await client.list_tools(refresh=True)
            await client.read_resource("x://b")
            await client.read_resource("x://a", meta={"k": 1})
            assert (count("tools/list"), count("resources/read")) == (2, 3)
            client.clear_cache()
            await client.list_tools()
            assert count("tools/list") == 3
        async with Script(discover=DISCOVER, **answers) as peer, connect(peer.target, cache=False) as client:
            await client.list_tools()
            await client.list_tools()
            assert peer.methods.count("tools/list") == 2

    run(main)


def test_the_handshake_era_has_no_cache(run):
    async def main():
        answers = {"discover": error(-32601), "initialize": handshake(R4), "tools_list": listed("a")}
        async with Script(**answers) as peer, connect(peer.target) as client:
            await client.list_tools()
            await client.list_tools()
            assert peer.methods.count("tools/list") == 2

    run(main)


def test_mx37_what_came_after_client_input_is_never_kept(run):
    async def main():
        done = {"contents": [], "ttlMs": 60_000, "cacheScope": "public", "resultType": "complete"}

        def read(message, writer):
            if "requestState" in message["params"]:
                return done
            return {"resultType": "input_required", "requestState": "s", "ttlMs": 60_000}

        async with Script(discover=DISCOVER, resources_read=read) as peer, connect(peer.target) as client:
            await client.read_resource("x://a")
            await client.read_resource("x://a")
            assert peer.methods.count("resources/read") == 4
            await client.read_resource("x://a", request_state="s")
            assert peer.methods.count("resources/read") == 5

    run(main)


def test_sf54_reported_changes_go_through_at_once(run):
    """SF-54: by a listen of one's own, and by the one behind on_list_changed."""

    async def main():
        opened = []

        def listen(message, writer):
            opened.append((message["id"], writer))
            note("subscriptions/acknowledged", notifications=message["params"]["notifications"])

        def note(method, **params):
            id, writer = opened[-1]
            params["_meta"] = {SUBSCRIPTION_ID: id}
            message = {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params}
            writer.write(json.dumps(message).encode() + b"\n")

        read = {"contents": [], "ttlMs": 60_000}
        answers = {"tools_list": listed("a"), "resources_read": read, "subscriptions_listen": listen}
        async with Script(discover=DISCOVER, **answers) as peer:
            async with connect(peer.target) as client, client.listen(tools=True, uris=["x://a"]) as changes:
                await client.list_tools()
                await client.read_resource("x://a")
                note("tools/list_changed")
                note("resources/updated", uri="x://a")
                await anext(changes)
                await anext(changes)
                await client.list_tools()
                await client.read_resource("x://a")
                assert peer.methods.count("tools/list") == peer.methods.count("resources/read") == 2
            changed = asyncio.Queue()
            async with connect(peer.target, on_list_changed=changed.put_nowait) as client:
                await client.list_tools()
                note("tools/list_changed")
                await changed.get()
                await client.list_tools()
                assert peer.methods.count("tools/list") == 4

    run(main)


def test_sf54_an_invalid_cursor_drops_all_pages_and_starts_again(run):
    async def main():
        state = {"valid": "c1"}

        def pages(message, writer):
            cursor = message["params"].get("cursor")
            if cursor is None:
                return listed("first", nextCursor=state["valid"])
            return listed("second", ttl=0) if cursor == state["valid"] else error(-32602)

        async with Script(discover=DISCOVER, tools_list=pages) as peer, connect(peer.target) as client:
            assert len(await client.list_tools()) == 2
            state["valid"] = "c2"
            assert [t.name for t in await client.list_tools()] == ["first", "second"]
            assert peer.methods.count("tools/list") == 5
            state["valid"] = None
            peer.answers["tools_list"] = error(-32602)
            with pytest.raises(RpcError):
                await client.list_tools(refresh=True)
            assert peer.methods.count("tools/list") == 6

    run(main)


def test_sf53_public_lists_are_shared_by_clients_of_one_server(run):
    async def main():
        shared = SharedCache()
        public = listed("a", scope="public")
        async with HttpScript(discover=DISCOVER, tools_list=public) as peer, HttpScript(
            discover=DISCOVER, tools_list=listed("b", scope="public")
        ) as other:
            for _ in range(3):
                async with connect(peer.url, cache=shared) as client:
                    assert [t.name for t in await client.list_tools()] == ["a"]
            async with connect(other.url, cache=shared) as client:
                assert [t.name for t in await client.list_tools()] == ["b"]
            assert peer.methods.count("tools/list") == other.methods.count("tools/list") == 1
            shared.clear()
            async with connect(peer.url, cache=shared) as client:
                await client.list_tools()
            assert peer.methods.count("tools/list") == 2

    run(main)
