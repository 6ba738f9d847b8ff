"""subscriptions/listen on lines and HTTP, the hub, slow readers, ends (SF-70..SF-75, HN-52, ST-30, B113, B115)."""

import asyncio
import gc
import json
import threading
import weakref

from http_support import site, tiny
from server_pipe import META, Pipe

from headrace.limits import Limits
from headrace.server.app import Server
from headrace.transports._link import LineLink
from headrace.transports.memory import memory_pair

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
ALL = {"toolsListChanged": True, "promptsListChanged": True, "resourcesListChanged": True}


def make(limits=None):
    app = Server("t", version="1", limits=limits or Limits(notify_interval=0.001))
    app.add_tool(lambda: "x", name="tool", inline=True)
    app.add_resource("a://1", "x")
    app.add_prompt(lambda: "x", name="p")
    return app


def serve(run, app, body):
    async def main():
        async with app.running():
            result = await body(Pipe(app))
            return result

    return run(main)


async def until(check):
    for _ in range(1000):
        if check():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not come to that in time")


def tag(message):
    params = message.get("params") or message.get("result")
    return params["_meta"][SUBSCRIPTION]


def test_sf71_sf72_acknowledged_first_and_tagged(run):
    """The id keeps its type; several listens at once get a copy each of what they asked for (SF-73)."""
    app = make()
    ids = ["1", 1, 2**70, "é\\u0000", 0]

    async def body(pipe):
        for id in ids[:4]:
            pipe.send(id, "subscriptions/listen", {"notifications": ALL}, meta=META)
        pipe.send(0, "subscriptions/listen", {"notifications": {"toolsListChanged": True, "unknown": 1}}, meta=META)
        acks, pipe.out = pipe.out, []
        app.add_tool(lambda: "x", name="new", inline=True)
        await until(lambda: len(pipe.out) >= 5)
        tools, pipe.out = pipe.out, []
        app.remove_prompt("p")
        await until(lambda: len(pipe.out) >= 4)
        await asyncio.sleep(0.02)
        return acks, tools, pipe.out

    acks, tools, prompts = serve(run, app, body)
    assert [m["method"] for m in acks] == ["notifications/subscriptions/acknowledged"] * 5
    assert [(tag(m), type(tag(m))) for m in acks] == [(id, type(id)) for id in ids]
    assert acks[0]["params"]["notifications"] == ALL
    assert acks[4]["params"]["notifications"] == {"toolsListChanged": True}
    assert sorted(map(str, map(tag, tools))) == sorted(map(str, ids))
    assert {m["method"] for m in tools} == {"notifications/tools/list_changed"}
    assert {m["method"] for m in prompts} == {"notifications/prompts/list_changed"} and len(prompts) == 4


def test_sf71_only_what_is_supported_is_accepted(run):
    app = Server("t", version="1", limits=Limits(max_subscriptions=2, max_uri_bytes=20))

    async def ack(pipe, notifications):
        pipe.send(len(pipe.out), "subscriptions/listen", {"notifications": notifications}, meta=META)
        return pipe.out[-1]["params"]["notifications"]

    async def body(pipe):
        asked = ALL | {"resourceSubscriptions": ["a://1"], "taskIds": ["t"]}
        bare = await ack(pipe, asked)
        app.add_resource("a://1", "x")
        more = await ack(pipe, {"resourceSubscriptions": ["a://1", "a://1", "a://" + "x" * 30, "a://2", "a://3"]})
        off = await ack(pipe, {"toolsListChanged": False, "promptsListChanged": None})
        bad = []
        for n, params in enumerate(({}, {"notifications": []}, {"notifications": {"resourceSubscriptions": [1]}}, {"notifications": {"toolsListChanged": "yes"}})):
            bad.append((await pipe.ask(f"bad{n}", "subscriptions/listen", params, meta=META))["error"]["code"])
        pipe.handshake()
        legacy = await pipe.ask("l", "subscriptions/listen", {"notifications": {}})
        return bare, more, off, bad, legacy

    bare, more, off, bad, legacy = serve(run, app, body)
    assert bare == {"toolsListChanged": True}
    assert more == {"resourceSubscriptions": ["a://1", "a://2"]}
    assert off == {}  # SF-75
    assert bad == [-32602] * 4  # SF-70
    assert legacy["error"]["code"] == -32601


def test_se08_uris_of_all_listens_and_sessions_are_bounded_together(run):
    """Each may be within its own bounds; what ends gives its room back."""
    app = make(Limits(max_subscription_bytes=1500, max_uri_bytes=300))
    uris = [f"a://{n}" + "x" * 295 for n in range(5)]  # 300 bytes and 200 more

    async def listen(pipe, id, *wanted):
        pipe.send(id, "subscriptions/listen", {"notifications": {"resourceSubscriptions": wanted}}, meta=META)
        return pipe.out.pop()["params"]["notifications"]["resourceSubscriptions"]

    async def body(pipe):
        first = await listen(pipe, 1, "a://" + "é" * 149, *uris[:2])  # 302 bytes: one URI is too long
        second = await listen(pipe, 2, *uris)
        pipe.handshake()
        full = await pipe.ask("s", "resources/subscribe", {"uri": uris[0]})
        pipe.send(None, "notifications/cancelled", {"requestId": 1})
        await until(lambda: len(app.hub.listens) == 1)
        room = await pipe.ask("t", "resources/subscribe", {"uri": uris[0]})
        again = await pipe.ask("u", "resources/subscribe", {"uri": uris[0]})
        await pipe.ask("v", "resources/unsubscribe", {"uri": uris[0]})
        await pipe.ask("w", "resources/unsubscribe", {"uri": uris[0]})
        third = await listen(pipe, 3, *uris)
        pipe.mux.close()
        return first, second, full, room, again, third

    first, second, full, room, again, third = serve(run, app, body)
    assert first == uris[:2] and second == uris[:1] and third == uris[:2]
    assert full["error"] == {"code": -32603, "message": "too many resources are followed on this server"}
    assert room["result"] == again["result"] == {}
    assert app.hub._followed == 0


def test_se08_a_listen_keeps_nothing_of_its_request_but_what_it_follows(run):
    app = make()

    async def body(pipe):
        pipe.send(1, "subscriptions/listen", {"notifications": {}, "junk": "x" * 100_000}, meta=META)
        (listen,) = app.hub.listens
        return listen.exchange.params, listen.exchange.meta

    assert serve(run, app, body) == (None, None)


def test_sf23_resource_updates_on_a_listen(run):
    """Updates from any thread, coalesced, only of the resources asked for (MX-05: nothing else on it)."""
    app = make()

    async def body(pipe):
        pipe.send("s", "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["a://1", "a://2"]}}, meta=META)
        pipe.out.clear()

        def work():
            for _ in range(100):
                app.notify_resource_updated("a://1")
                app.notify_resource_updated("a://3")

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        app.add_resource("a://9", "x")
        await until(lambda: pipe.out)
        app.notify_resource_updated("a://2")
        await until(lambda: any(m["params"]["uri"] == "a://2" for m in pipe.out))
        return pipe.out

    out = serve(run, app, body)
    assert {m["method"] for m in out} == {"notifications/resources/updated"}
    assert [m["params"]["uri"] for m in out] == ["a://1", "a://2"]
    assert all(tag(m) == "s" for m in out)


def test_sf74_g01_graceful_end_on_lines(run):
    """The result, then notifications/cancelled; the id is free afterwards and no table keeps anything."""
    app = make()

    async def body(pipe):
        for id in (7, "x"):
            pipe.send(id, "subscriptions/listen", {"notifications": ALL | {"resourceSubscriptions": ["a://1"]}}, meta=META)
        pipe.out.clear()
        app.hub.changed("tools")  # due, not told yet
        app.hub.close()
        app.hub.close()
        ended, pipe.out = pipe.out, []
        changes = [m["method"] for m in ended[:2]]
        assert changes == ["notifications/tools/list_changed"] * 2 and [tag(m) for m in ended[:2]] == [7, "x"]
        del ended[:2]
        await asyncio.sleep(0.01)
        counts = pipe.mux.debug_counts()
        app.notify_resource_updated("a://1")
        pipe.send(7, "subscriptions/listen", {"notifications": {}}, meta=META)
        return ended, counts, dict(app.hub._watchers), pipe.out

    ended, counts, watchers, again = serve(run, app, body)
    assert [m.get("id", m.get("method")) for m in ended] == [7, "notifications/cancelled", "x", "notifications/cancelled"]
    assert ended[0]["result"]["resultType"] == "complete"
    assert ended[0]["result"]["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "t"
    assert [tag(m) for m in ended] == [7, 7, "x", "x"]
    assert [m["params"]["requestId"] for m in ended[1::2]] == [7, "x"]
    assert set(counts.values()) == {0} and watchers == {}
    assert again[0]["params"]["notifications"] == {}


def test_sf74_cancelled_by_the_client(run):
    app = make()

    async def body(pipe):
        pipe.send(7, "subscriptions/listen", {"notifications": ALL}, meta=META)
        pipe.send(8, "subscriptions/listen", {"notifications": ALL}, meta=META)
        pipe.out.clear()
        pipe.send(None, "notifications/cancelled", {"requestId": 7}, meta=META)
        app.add_tool(lambda: "x", name="new", inline=True)
        await until(lambda: pipe.out)
        await asyncio.sleep(0.01)
        listening = len(app.hub.listens)
        pipe.mux.close("gone")
        await asyncio.sleep(0.01)
        return pipe.out, listening, len(app.hub.listens), pipe.mux.debug_counts()

    out, listening, left, counts = serve(run, app, body)
    assert [tag(m) for m in out] == [8]
    assert (listening, left) == (1, 0)
    assert set(counts.values()) == {0}


def test_listens_of_a_connection_and_of_the_server_are_bounded(run):
    app = make(Limits(max_listens=2, max_listens_total=3))

    async def body(pipe):
        other = Pipe(app)
        for n in range(2):
            pipe.send(n, "subscriptions/listen", {"notifications": ALL}, meta=META)
        own = await pipe.ask("own", "subscriptions/listen", {"notifications": ALL}, meta=META)
        other.send(0, "subscriptions/listen", {"notifications": ALL}, meta=META)
        all_ = await other.ask("all", "subscriptions/listen", {"notifications": ALL}, meta=META)
        # What ends gives its place back, to the connection and to the server.
        for id in (1, 0):
            pipe.send(None, "notifications/cancelled", {"requestId": id})
        await until(lambda: len(app.hub.listens) == 1)
        assert sum(app.hub._open.values()) == 1
        pipe.out.clear()
        for n in range(2):
            pipe.send(n, "subscriptions/listen", {"notifications": ALL}, meta=META)
        assert [tag(message) for message in pipe.out] == [0, 1]
        pipe.mux.close()
        await until(lambda: len(app.hub.listens) == 1)
        other.mux.close()
        await until(lambda: not app.hub.listens and not app.hub._open)
        return own, all_, await Pipe(app).call("tool")

    own, all_, call = serve(run, app, body)
    assert own["error"]["code"] == all_["error"]["code"] == -32603
    assert "2 of one connection" in own["error"]["message"]
    assert call["result"]["content"]


def test_a_slow_reader_costs_a_bounded_amount_and_gets_the_last_state(run):
    """What waits for a peer that does not read is one entry a key, whatever happens meanwhile."""
    app = make(Limits(notify_interval=0.0001, max_output_bytes=2000, write_timeout=30))

    class Reader(asyncio.Protocol):
        def __init__(self):
            self.data = bytearray()

        def connection_made(self, transport):
            self.transport = transport
            transport.pause_reading()

        def data_received(self, data):
            self.data += data

    async def main():
        async with app.running():
            session, mux = app.new_session()
            link = LineLink(mux, app.limits)
            session.sink = link
            reader = Reader()
            memory_pair(link, reader)
            listen = {"notifications": ALL | {"resourceSubscriptions": [f"a://{n}" for n in range(20)]}, "_meta": META}
            frame = {"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": listen}
            reader.transport.write(json.dumps(frame).encode() + b"\n")
            await until(lambda: app.hub.listens)
            (one,) = app.hub.listens
            most = 0
            for n in range(600):
                app.notify_resource_updated(f"a://{n % 20}")
                app.hub.changed("tools")
                if n % 20 == 0:
                    await asyncio.sleep(0.001)
                most = max(most, len(one.due))
            await until(lambda: len(one.due) == 21 and not app.hub._uris and not app.hub._kinds)
            reader.transport.resume_reading()
            await until(lambda: not one.due)
            await asyncio.sleep(0.02)
            messages = [json.loads(line) for line in reader.data.splitlines()]
            link.abort()
            await asyncio.sleep(0.01)
            return messages, most

    messages, most = run(main)
    assert most <= 21
    assert messages[0]["method"] == "notifications/subscriptions/acknowledged"
    assert all(tag(m) == "s" for m in messages)
    assert {m["params"]["uri"] for m in messages[-21:] if "uri" in m["params"]} == {f"a://{n}" for n in range(20)}
    assert len(messages) < 200


def test_st21_listens_end_when_a_line_connection_drains(run):
    """Shutdown and end of input do not wait for listens: they get their result (SF-74)."""
    app = make()

    async def main(how):
        async with app.running():
            lost = []
            session, mux = app.new_session()
            link = LineLink(mux, app.limits, on_lost=lost.append)
            session.sink = link
            data = bytearray()

            class Reader(asyncio.Protocol):
                def connection_made(self, transport):
                    self.transport = transport

                def data_received(self, chunk):
                    data.extend(chunk)

                def eof_received(self):
                    return True

            reader = Reader()
            memory_pair(link, reader)
            frame = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": {"notifications": ALL, "_meta": META}}
            reader.transport.write(json.dumps(frame).encode() + b"\n")
            if how == "eof":
                reader.transport.write_eof()
            else:
                await until(lambda: app.hub.listens)
                link.drain()
            await until(lambda: b"cancelled" in data)
            reader.transport.close()
            await until(lambda: lost)
            return [json.loads(line) for line in data.splitlines()]

    for how in ("eof", "drain"):
        messages = run(main, how)
        assert [m.get("method", "result") for m in messages] == [
            "notifications/subscriptions/acknowledged", "result", "notifications/cancelled",
        ]  # fmt: skip


def listen(s, notifications, id=1, **changes):
    return s.modern("subscriptions/listen", {"notifications": notifications}, id=id, **changes)


def test_hn52_listen_over_http(run):
    app = make(tiny(notify_interval=0.001))

    async def main():
        async with site(app) as s:
            peer = await s.connect()
            peer.send(listen(s, ALL | {"resourceSubscriptions": ["a://1"]}, id="abc"))
            status, headers = await peer.head()
            ack = (await peer.event())[1]
            app.notify_resource_updated("a://1")
            note = (await peer.event())[1]
            other = await s.connect()
            assert (await other.ask(s.call("tool"))).status == 200
            app.hub.close()
            end = [message for _, message in await peer.events()]
            # the connection goes on behind the stream
            again = await peer.ask(s.call("tool"))
            return status, headers, ack, note, end, again

    status, headers, ack, note, end, again = run(main)
    assert status == 200 and headers["content-type"] == ["text/event-stream"]
    assert ack["method"] == "notifications/subscriptions/acknowledged" and tag(ack) == "abc"
    assert note["params"]["uri"] == "a://1" and tag(note) == "abc"
    assert [m["id"] for m in end] == ["abc"]  # G-02: the result, no notifications/cancelled
    assert tag(end[0]) == "abc"
    assert again.status == 200


def test_hn52_errors_before_the_acknowledgement_keep_their_status(run):
    app = make(tiny(max_listens_total=1))

    async def main():
        async with site(app) as s:
            peer = await s.connect()
            bad = await peer.ask(s.modern("subscriptions/listen", {}))
            mismatch = await peer.ask(s.modern("subscriptions/listen", {"notifications": {}}, mcp_method="tools/list"))
            plain = await peer.ask(listen(s, {}, accept="application/json"))
            holder = await s.connect()
            holder.send(listen(s, ALL))
            await holder.head()
            over = await peer.ask(listen(s, ALL))
            removed = await peer.ask(s.modern("resources/subscribe", {"uri": "a://1"}))
            return bad, mismatch, plain, over, removed

    bad, mismatch, plain, over, removed = run(main)
    assert (bad.status, bad.code) == (200, -32602)
    assert (mismatch.status, mismatch.code) == (400, -32020)
    assert plain.status == 406
    assert (over.status, over.code) == (503, -32603)
    assert (removed.status, removed.code) == (404, -32601)  # VN-64


def test_hn50_a_client_that_closes_is_forgotten(run):
    app = make(tiny())

    async def main():
        async with site(app) as s:
            peers = [await s.connect() for _ in range(5)]
            for n, peer in enumerate(peers):
                peer.send(listen(s, ALL | {"resourceSubscriptions": ["a://1"]}, id=n))
                await peer.head()
            assert len(app.hub.listens) == 5
            for peer in peers[:4]:
                peer.reset()
            await s.settled(lambda: len(app.hub.listens) == 1)
            peers[4].close()
            await s.settled(lambda: not app.hub.listens)
            return dict(app.hub._watchers)

    assert run(main) == {}


def test_b39_silent_listens_get_comments(run):
    app = make(tiny(sse_keep_alive=0.1))

    async def main():
        async with site(app) as s:
            peer = await s.connect()
            peer.send(listen(s, ALL))
            await peer.head()
            await peer.event()
            return await peer.chunk(), await peer.chunk()

    assert run(main) == (b":\n\n", b":\n\n")


def test_b115_sf74_one_listener_closes_the_other_goes_on(run):
    """A listener that closes ends its listens with their result at once; those of another stay."""
    app = make(Limits(drain_timeout=20, notify_interval=0.001))

    async def main():
        async with site(app, alone=False) as s:
            pipe = Pipe(app)
            pipe.send(1, "subscriptions/listen", {"notifications": ALL}, meta=META)
            peer = await s.connect()
            peer.send(listen(s, ALL))
            await peer.head()
            await peer.event()
            closing = asyncio.ensure_future(s.listener.close())
            end = [message for _, message in await peer.events()]
            await asyncio.wait_for(closing, 5)
            pipe.out.clear()
            app.hub.changed("tools")
            await until(lambda: pipe.out)
            out = list(pipe.out)
            pipe.mux.close("done")
            await asyncio.sleep(0.01)
            return end, out

    end, out = run(main)
    assert [m["id"] for m in end] == [1]
    assert [m["method"] for m in out] == ["notifications/tools/list_changed"]


def test_tasks_can_be_followed(run):
    """The hook of the tasks extension: a filter accepts ids, the newest state of each is told (SF-70, TK-27)."""
    app = make()
    app.hub.task_filter = lambda exchange, ids: [id for id in ids if id.startswith("mine")]

    async def body(pipe):
        pipe.send("s", "subscriptions/listen", {"notifications": {"taskIds": ["mine1", "other", "mine2"]}}, meta=META)
        ack = pipe.out.pop()
        app.hub.task("mine1", b'{"taskId":"mine1","status":"working"}')
        app.hub.task("other", b'{"taskId":"other"}')
        await until(lambda: pipe.out)
        app.hub.task("mine1", b'{"taskId":"mine1","status":"completed"}')
        await until(lambda: len(pipe.out) > 1)
        return ack, pipe.out

    ack, out = serve(run, app, body)
    assert ack["params"]["notifications"] == {"taskIds": ["mine1", "mine2"]}
    assert [(m["method"], m["params"]["status"], tag(m)) for m in out] == [
        ("notifications/tasks", "working", "s"), ("notifications/tasks", "completed", "s"),
    ]  # fmt: skip


def test_a_stopped_server_forgets_and_starts_again(run):
    app = make()

    async def main():
        for _ in range(2):
            async with app.running():
                pipe = Pipe(app)
                pipe.send(1, "subscriptions/listen", {"notifications": ALL}, meta=META)
                assert len(app.hub.listens) == 1
                pipe.mux.close("over")
        app.hub.changed("tools")
        app.notify_resource_updated("a://1")
        return len(app.hub.listens)

    assert run(main) == 0


def test_sf23_sf60_updates_and_list_changes_on_a_get_stream(run):
    """Handshake-era sessions over HTTP: each gets what it subscribed to, on its own stream."""
    app = make(tiny(notify_interval=0.001))

    async def main():
        async with site(app) as s:
            peer = await s.connect()
            one, two = await s.open_session(peer), await s.open_session(peer)
            streams = [await s.open_stream(sid) for sid in (one, two)]
            subscribed = await peer.ask(s.legacy(one, "resources/subscribe", {"uri": "a://1"}))
            app.notify_resource_updated("a://1")
            first = [(await streams[0].event())[1]]
            app.add_prompt(lambda: "x", name="q")
            first.append((await streams[0].event())[1])
            second = (await streams[1].event())[1]
            ended = await peer.ask(s.request("DELETE", mcp_session_id=one))
            watched = dict(app.hub._watchers)
            return subscribed, first, second, ended, watched

    subscribed, first, second, ended, watched = run(main)
    assert subscribed.json["result"] == {}
    assert [m["method"] for m in first] == ["notifications/resources/updated", "notifications/prompts/list_changed"]
    assert first[0]["params"] == {"uri": "a://1"}
    assert second["method"] == "notifications/prompts/list_changed"
    assert ended.status in (200, 204) and watched == {}


def test_many_listeners_are_told_a_part_a_turn_and_leave_nothing_behind(run):
    """A change among a thousand listens and sessions reaches each once; nobody else waits for all of them."""
    app = make(Limits(notify_interval=0.001, max_listens=2000))

    async def body(pipe):
        others = [Pipe(app) for _ in range(300)]
        for each in others:
            each.handshake()
        for n in range(700):
            pipe.send(n, "subscriptions/listen", {"notifications": ALL}, meta=META)
        pipe.out.clear()
        app.hub.changed("tools")
        turns = 0
        while len(pipe.out) + sum(len(each.out) for each in others) < 1000:
            await asyncio.sleep(0)
            turns += 1
            assert turns < 5000
        await asyncio.sleep(0.02)
        told = len(pipe.out), {len(each.out) for each in others}
        refs = [weakref.ref(listen) for listen in app.hub.listens]
        for n in range(700):
            pipe.send(None, "notifications/cancelled", {"requestId": n}, meta=META)
        for each in others:
            each.mux.close("gone")
        app.hub.changed("tools")
        await asyncio.sleep(0.02)
        gc.collect()
        return told, turns, sum(ref() is not None for ref in refs), len(app.hub._receivers), len(app.sessions)

    told, turns, left, receivers, sessions = serve(run, app, body)
    assert told == (700, {1})
    assert turns > 3
    assert (left, receivers, sessions) == (0, 0, 1)
