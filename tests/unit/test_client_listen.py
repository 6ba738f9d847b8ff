"""Subscriptions of the client: listens of the modern era, resources/subscribe of the handshake era."""

import asyncio
import json

import pytest
from http_peer import event, sse_head
from http_script import HttpScript
from scripted_peer import MODERN, Script, error, handshake

from headrace import ConnectionClosed, Limits, LocalProtocolError, NotOffered, RpcError, connect
from headrace.client.listen import Change, Filter
from headrace.client.watch import covers
from headrace.jsonrpc import SUBSCRIPTION_ID

OFFERS = {
    "tools": {"listChanged": True},
    "prompts": {"listChanged": True},
    "resources": {"listChanged": True, "subscribe": True},
}
DISCOVER = {**MODERN, "capabilities": OFFERS}


def note(method, id, **params):
    return {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": {**params, "_meta": {SUBSCRIPTION_ID: id}}}


class Listening(Script):
    """Acknowledges listens; `tell` sends to one of them, by number."""

    def __init__(self, accept=None, **answers):
        super().__init__(discover=DISCOVER, subscriptions_listen=self._listen, **answers)
        self.accept = accept
        self.opened = []
        self.filters = []

    def _listen(self, message, writer):
        wanted = message["params"]["notifications"]
        self.opened.append((message["id"], writer))
        self.filters.append(wanted)
        accepted = wanted if self.accept is None else self.accept
        self.send(writer, note("subscriptions/acknowledged", message["id"], notifications=accepted))

    def send(self, writer, message):
        writer.write(json.dumps(message).encode() + b"\n")

    def tell(self, number, method, *, id=None, **params):
        own, writer = self.opened[number]
        self.send(writer, note(method, own if id is None else id, **params))

    def finish(self, number):
        id, writer = self.opened[number]
        result = {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: id}}
        self.send(writer, {"jsonrpc": "2.0", "id": id, "result": result})

    def cancel(self, number):
        id, writer = self.opened[number]
        self.send(writer, {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})

    @property
    def cancelled(self):
        return [m["params"]["requestId"] for m in self.seen if m["method"] == "notifications/cancelled"]

    async def saw(self, method, count=1):
        for _ in range(500):
            if self.methods.count(method) >= count:
                return
            await asyncio.sleep(0.01)
        raise AssertionError(f"{method} did not come")


def test_sf70_sf71_a_listen_gets_what_it_asked_for(run):
    """SF-70, SF-71, SF-72: the filter on the wire, the accepted subset, only requested kinds; ended by closing."""

    async def main():
        accept = {"toolsListChanged": True, "resourceSubscriptions": ["x://a"], "promptsListChanged": True}
        async with Listening(accept) as peer, connect(peer.target) as client:
            async with client.listen(tools=True, resources=True, uris=["x://b", "x://a"]) as changes:
                assert peer.filters == [
                    {"toolsListChanged": True, "resourcesListChanged": True, "resourceSubscriptions": ["x://a", "x://b"]}
                ]
                assert changes.accepted == Filter(tools=True, uris=frozenset(["x://a"]))
                peer.tell(0, "prompts/list_changed")  # not asked for
                peer.tell(0, "resources/updated", uri="x://other")  # not asked for
                peer.tell(0, "tools/list_changed")
                peer.tell(0, "resources/updated", uri="x://a/part")
                assert await anext(changes) == Change(kind="tools")
                assert await anext(changes) == Change(kind="resource", uri="x://a/part")
            await peer.saw("notifications/cancelled")
            assert peer.cancelled == [peer.opened[0][0]]
            assert changes.closed

    run(main)


def test_st31_sf73_several_listens_are_told_apart_by_exact_ids(run):
    """ST-31, SF-73: ids are compared with their type; strangers' notifications reach nobody."""

    async def main():
        async with (
            Listening() as peer,
            connect(peer.target) as client,
            client.listen(tools=True) as one, client.listen(tools=True, prompts=True) as two,
        ):
            first, second = (id for id, _ in peer.opened)
            for foreign in (str(first), float(first), True, None, [], 999, {"a": 1}):
                peer.tell(0, "tools/list_changed", id=foreign if foreign is not None else "x")
            peer.tell(1, "prompts/list_changed")
            peer.tell(0, "tools/list_changed")
            peer.tell(1, "tools/list_changed")
            assert await anext(two) == Change(kind="prompts")
            assert await anext(one) == Change(kind="tools")
            assert await anext(two) == Change(kind="tools")
            assert not one._changes and not two._changes
            assert type(first) is type(second) is int

    run(main)


@pytest.mark.parametrize("how", ["result", "cancelled", "both", "both the other way"])
def test_sf74_g01_the_server_ends_a_listen(run, how):
    """SF-74, G-01: by result, by cancelled, or both; iteration ends after what had come; nothing is sent."""

    async def main():
        async with Listening() as peer, connect(peer.target) as client, client.listen(tools=True) as changes:
            peer.tell(0, "tools/list_changed")
            if how in ("result", "both"):
                peer.finish(0)
            if how != "result":
                peer.cancel(0)
            if how == "both the other way":
                peer.finish(0)
            assert [c.kind async for c in changes] == ["tools"]
            assert changes.closed
        assert peer.cancelled == []
        assert peer.methods.count("subscriptions/listen") == 1

    run(main)


def test_sf74_the_connection_goes_under_a_listen(run):
    async def main():
        async with Listening() as peer, connect(peer.target) as client, client.listen(tools=True) as changes:
            peer.writers[0].close()
            with pytest.raises(ConnectionClosed):
                await anext(changes)

    run(main)


def test_sf75_a_refused_listen_raises(run):
    async def main():
        refuse = error(-32601)
        async with Script(discover=DISCOVER, subscriptions_listen=refuse) as peer, connect(peer.target) as client:
            with pytest.raises(RpcError):
                async with client.listen(tools=True):
                    raise AssertionError("it was refused")
        async with Script(discover=error(-32601), initialize=handshake()) as peer, connect(peer.target) as client:
            with pytest.raises(LocalProtocolError, match="no listen"):
                client.listen(tools=True)

    run(main)


def test_changes_that_are_not_read_are_bounded(run, caplog):
    """Equal changes count once; beyond the bound the oldest give way, with one warning."""

    async def main():
        async with (
            Listening() as peer,
            connect(peer.target, limits=Limits(max_listen_changes=3)) as client,
            client.listen(tools=True, uris=["x://a/"]) as changes,
        ):
            for _ in range(50):
                peer.tell(0, "tools/list_changed")
            for i in range(9):
                peer.tell(0, "resources/updated", uri=f"x://a/{i}")
            peer.finish(0)
            while not changes.closed:
                await asyncio.sleep(0.01)
            assert [c.uri async for c in changes] == ["x://a/6", "x://a/7", "x://a/8"]

    run(main)
    assert caplog.text.count("are not read") == 1


def test_callbacks_in_place_of_iteration(run):
    async def main():
        got = asyncio.Queue()
        async with (
            Listening() as peer,
            connect(peer.target) as client,
            client.listen(prompts=True, task_ids=["t1"], on_change=got.put_nowait),
        ):
            assert peer.filters[0]["taskIds"] == ["t1"]
            peer.tell(0, "prompts/list_changed")
            peer.tell(0, "tasks", taskId="t2", status="working")
            peer.tell(0, "tasks", taskId="t1", status="working")
            assert (await got.get()).kind == "prompts"
            change = await got.get()
            assert (change.kind, change.task_id, change.params["status"]) == ("task", "t1", "working")

    run(main)


def test_sf70_on_list_changed_works_in_the_modern_era(run):
    """connect(on_list_changed=...) listens by itself, for what the server reports; bursts are one call (B113)."""

    async def main():
        got = asyncio.Queue()
        async with Listening() as peer, connect(peer.target, on_list_changed=got.put_nowait):
            assert peer.filters == [
                {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}
            ]
            for _ in range(20):
                peer.tell(0, "tools/list_changed")
            assert await got.get() == "tools"
            peer.tell(0, "resources/list_changed")
            assert await got.get() in ("tools", "resources")
        async with Script(discover=MODERN) as peer, connect(peer.target, on_list_changed=print):
            assert "subscriptions/listen" not in peer.methods  # nothing to hear of there

    run(main)


def test_sf75_on_list_changed_with_a_server_that_refuses_or_is_silent(run, monkeypatch, caplog):
    monkeypatch.setattr("headrace.client.subscriptions.ACK_WAIT", 0.1)

    async def main():
        for answer in (error(-32601), None):
            answers = {"discover": DISCOVER, "subscriptions_listen": answer, "tools_call": {"content": []}}
            async with Script(**answers) as peer, connect(peer.target, on_list_changed=print) as client:
                await client.call_tool("t")

    run(main)
    assert caplog.text.count("are not heard of") == 1


def test_sf23_sf70_subscribe_in_the_modern_era(run):
    """One listen carries all subscriptions; it is replaced before it is ended, so nothing is lost."""

    async def main():
        got = asyncio.Queue()
        every = []
        async with Listening() as peer, connect(peer.target, on_resource_updated=every.append) as client:
            await client.subscribe("x://a", got.put_nowait)
            await client.subscribe("x://b", got.put_nowait)
            assert peer.filters == [{"resourceSubscriptions": ["x://a"]}, {"resourceSubscriptions": ["x://a", "x://b"]}]
            await peer.saw("notifications/cancelled")
            assert peer.cancelled == [peer.opened[0][0]]
            peer.tell(1, "resources/updated", uri="x://b")
            assert await got.get() == "x://b"
            await client.unsubscribe("x://a")
            await client.unsubscribe("x://b")
            await client.unsubscribe("x://never")
            await peer.saw("notifications/cancelled", 3)
            assert peer.filters[2:] == [{"resourceSubscriptions": ["x://b"]}]
            assert every == ["x://b"]
        async with Listening({}) as peer, connect(peer.target) as client:
            with pytest.raises(NotOffered, match="x://a"):
                await client.subscribe("x://a")
            assert client._watch.subscribed == {}

    run(main)


def test_sf70_many_subscriptions_at_once_share_few_listens(run):
    async def main():
        async with Listening() as peer, connect(peer.target) as client:
            await asyncio.gather(*[client.subscribe(f"x://{i}") for i in range(30)])
            assert len(peer.filters) <= 3
            assert len(peer.filters[-1]["resourceSubscriptions"]) == 30

    run(main)


def test_sf23_subscribe_in_the_handshake_era(run):
    async def main():
        got = asyncio.Queue()
        writers = []

        def subscribe(message, writer):
            writers.append(writer)
            return {}

        offers = {**handshake(), "capabilities": OFFERS}
        answers = {"resources_subscribe": subscribe, "resources_unsubscribe": {}}
        async with Script(discover=error(-32601), initialize=offers, **answers) as peer:
            async with connect(peer.target) as client:
                await client.subscribe("x://a", got.put_nowait)
                await client.subscribe("x://a", got.put_nowait)
                for uri in ("x://ab", "x://a", "x://a/b"):
                    message = {"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": uri}}
                    writers[0].write(json.dumps(message).encode() + b"\n")
                assert [await got.get() for _ in range(4)] == ["x://a", "x://a", "x://a/b", "x://a/b"]
                await client.unsubscribe("x://a")
            assert peer.methods.count("resources/subscribe") == 1
            assert peer.methods.count("resources/unsubscribe") == 1

    run(main)


def test_sf23_sub_resources():
    assert covers("x://a", "x://a") and covers("x://a", "x://a/b") and covers("x://a/", "x://a/b")
    assert covers("x://a", "x://a#f") and covers("x://a", "x://a?q")
    assert not covers("x://a", "x://ab") and not covers("x://a/b", "x://a") and not covers("x://a", "")


def test_malformed_notifications_are_ignored(run, caplog):
    async def main():
        async with (
            Listening(tools_call={"content": []}) as peer,
            connect(peer.target) as client,
            client.listen(tools=True) as changes,
        ):
            id, writer = peer.opened[0]
            for params in ([], "x", {"_meta": 7}, {"uri": 7, "_meta": {SUBSCRIPTION_ID: id}}):
                for method in ("resources/updated", "subscriptions/acknowledged", "cancelled"):
                    peer.send(writer, {"jsonrpc": "2.0", "method": f"notifications/{method}", "params": params})
            await client.call_tool("t")
            assert not changes.closed and not changes._changes

    run(main)


# --- over HTTP: a listen can be lost while the connection lives on -----------------------------------


def listen_over_http(*plays):
    """Each listen plays one of `plays` after its acknowledgement: "end" (result), "drop", "stay"."""
    left = list(plays)
    opened = []
    ends = asyncio.Queue()

    async def answer(request):
        play = left.pop(0) if left else "stay"
        if isinstance(play, tuple):
            return play
        id = request.id
        opened.append((id, request))
        ack = note("subscriptions/acknowledged", id, notifications=request.body["params"]["notifications"])
        request.conn.send(sse_head() + event(ack))
        if play == "end":
            result = {"resultType": "complete", "_meta": {SUBSCRIPTION_ID: id}}
            request.conn.send(event({"jsonrpc": "2.0", "id": id, "result": result}))
        if play == "stay":
            ends.put_nowait(await request.conn.ended())
        return None

    answer.opened = opened
    answer.ends = ends
    return answer


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("headrace.client.listen.FIRST_PAUSE", 0.01)
    monkeypatch.setattr("headrace.client.listen.LAST_PAUSE", 0.02)


def test_sf74_a_dropped_listen_is_opened_again_and_all_counts_as_changed(run, quick):
    """SF-74: no replay: what may have been missed is reported as such; the caller is told of each drop."""

    async def main():
        drops = []
        listen = listen_over_http("drop", "drop", "stay")
        async with HttpScript(discover=DISCOVER, subscriptions_listen=listen) as peer, connect(peer.url) as client:
            async with client.listen(tools=True, uris=["x://a"], on_drop=drops.append) as changes:
                missed = [Change(kind="tools", missed=True), Change(kind="resource", uri="x://a", missed=True)]
                got = [await anext(changes) for _ in range(4)]
                assert got == missed * 2
                assert len(drops) == 2 and all(isinstance(d, ConnectionClosed) for d in drops)
            assert len({id for id, _ in listen.opened}) == 3
            assert await listen.ends.get()

    run(main)


def test_b75_hn51_closing_a_listen_over_http_closes_its_stream(run):
    async def main():
        listen = listen_over_http("stay")
        async with HttpScript(discover=DISCOVER, subscriptions_listen=listen) as peer, connect(peer.url) as client:
            async with client.listen(tools=True):
                pass
            assert await listen.ends.get()
            assert "notifications/cancelled" not in peer.methods

    run(main)


def test_listens_are_not_opened_again_for_ever(run, quick):
    async def main():
        listen = listen_over_http(*["drop"] * 100)
        async with HttpScript(discover=DISCOVER, subscriptions_listen=listen) as peer, connect(peer.url) as client:
            async with client.listen(tools=True) as changes:
                with pytest.raises(ConnectionClosed):
                    while True:
                        await anext(changes)
            assert len(listen.opened) == 9
        listen = listen_over_http(*["drop"] * 100)
        async with HttpScript(discover=DISCOVER, subscriptions_listen=listen) as peer, connect(peer.url) as client:
            async with client.listen(tools=True, reconnect=False) as changes:
                with pytest.raises(ConnectionClosed):
                    await anext(changes)
            assert len(listen.opened) == 1

    run(main)


def test_b21_closing_ends_listens_that_wait_to_come_back(run):
    """Neither the task of a dropped listen nor whoever iterates over it outlives the client."""

    async def main():
        before = asyncio.all_tasks()
        dropped = asyncio.Event()
        async with HttpScript(discover=DISCOVER, subscriptions_listen=listen_over_http("drop", "drop")) as peer:
            async with connect(peer.url, on_list_changed=print) as client:
                changes = client.listen(tools=True, on_drop=lambda end: dropped.set())
                async with changes:
                    await dropped.wait()
                    await client.close()
                    assert changes.closed
                    with pytest.raises(StopAsyncIteration):
                        await anext(changes)
            await asyncio.sleep(0.05)
            left = [t for t in asyncio.all_tasks() - before if "Listen._run" in repr(t)]
            assert not left

    run(main)


def test_b113_callbacks_survive_the_servers_restarts(run, quick):
    """A graceful end and a drop: the listen behind the callbacks comes back, and the lists count as changed."""

    async def main():
        got = asyncio.Queue()
        listen = listen_over_http("end", ("503 Service Unavailable", error(-32603)), "drop", "stay")
        peer = HttpScript(discover=DISCOVER, subscriptions_listen=listen)
        async with peer, connect(peer.url, on_list_changed=got.put_nowait):
            kinds = {await got.get() for _ in range(3)}
            assert kinds == {"tools", "prompts", "resources"}
            while len(listen.opened) < 3:
                await asyncio.sleep(0.01)

    run(main)
