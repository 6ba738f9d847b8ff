"""Streams of sessions that are resumed: ids, priming, polling, requests of the server (HO-08..HO-23, B43, B76)."""

import asyncio
import contextlib
import json

import pytest
from http_support import R4, events_of, id_of, make_server, site, tiny

from headrace.errors import ConnectionClosed, LocalProtocolError
from headrace.mux import Exchange, FunctionHandler
from headrace.protocol.context import Context

PROGRESS = {"progressToken": "t"}


def progress(s, sid, n, id=1, gap_ms=0, **changes):
    params = {"name": "progress", "arguments": {"n": n, "gap_ms": gap_ms}, "_meta": PROGRESS}
    return s.legacy(sid, "tools/call", params, id, **changes)


def steps(events):
    return [message["params"]["progress"] for _, message in events if "params" in message]


def gated(app):
    """Tool ``steps``: sends 1, 2, ... whenever the test lets it, and ends at its word."""
    queue = asyncio.Queue()

    @app.tool
    async def steps(ctx: Context, name: str = "") -> str:
        app.seen.started += 1
        done = 0
        try:
            while (word := await queue.get()) != "end":
                for _ in range(word):
                    done += 1
                    await ctx.progress(done)
        except asyncio.CancelledError:
            app.seen.cancelled += 1
            raise
        app.seen.finished += 1
        return f"{name}{done}"

    return queue


def call_steps(s, sid, id=1, **changes):
    params = {"name": "steps", "arguments": {}, "_meta": PROGRESS}
    return s.legacy(sid, "tools/call", params, id, **changes)


def test_ho20_ho22_a_stream_begins_with_an_id_and_all_ids_differ(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            seen = []
            for i in range(3):
                answer = await peer.ask(progress(s, sid, 5, i))
                assert answer.get("cache-control") == "no-cache, no-transform"  # HO-26
                first = answer.chunks[0].decode()
                assert first.startswith("id: ") and first.endswith("\ndata: \n\n") and "event:" not in first
                ids = [id_of(chunk) for chunk in answer.chunks]
                assert all(ids)
                seen += ids
            assert len(set(seen)) == len(seen) == 21

    run(main)


def test_ho22_b38_no_first_event_without_an_event_store(run):
    async def main():
        async with site(event_store=False) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(progress(s, sid, 2))
            assert len(answer.events) == 3 and b"id: " not in answer.body
            stream = await s.connect()
            stream.send(s.request("GET", mcp_session_id=sid))
            await stream.head()
            assert await stream.chunk() == b":\n\n"
            # ids that were never given cannot be resumed from
            assert (await peer.ask(s.request("GET", mcp_session_id=sid, last_event_id="a.p1.1"))).status == 400

    run(main)


@pytest.mark.parametrize("after", range(6))
@pytest.mark.parametrize("how", ["reset", "close"])
def test_ho08_ho21_resume_behind_every_event(run, after, how):
    """The connection dies behind event `after`; the rest comes on another one, each event once (B43)."""

    async def main():
        app = make_server()
        queue = gated(app)
        async with site(app, limits=tiny(resume_after=0.05)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(call_steps(s, sid, id="x"))
            await peer.head()
            last = id_of(await peer.chunk()) if after == 0 else None
            queue.put_nowait(5)
            got = []
            for _ in range(after):
                last, message = await peer.event()
                got.append((last, message))
            getattr(peer, how)()
            if how == "reset":
                await s.settled(lambda: s.listener.connections == 0)
            queue.put_nowait(3)
            resumed = await s.open_stream(sid, last)
            await s.settled(queue.empty)
            queue.put_nowait(2)
            queue.put_nowait("end")
            got += await resumed.events()
            assert steps(got) == list(range(1, 11))
            assert got[-1][1]["id"] == "x" and got[-1][1]["result"]["content"][0]["text"] == "10"
            assert len({each for each, _ in got}) == 11
            assert app.seen.cancelled == 0
            # the connection goes on
            assert (await resumed.ask(s.legacy_call(sid, "echo", {"text": "on"}))).status == 200
            assert s.endpoint.sessions.by_id[sid.encode()].resume(last) is not None

    run(main)


def test_b43_the_final_answer_is_still_there_when_it_was_sent_to_nobody(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(progress(s, sid, 2, gap_ms=100))
            await peer.head()
            last = id_of(await peer.chunk())
            peer.reset()
            await s.settled(lambda: s.server.seen.finished == 1)
            await s.settled(lambda: s.endpoint.sessions.by_id[sid.encode()].mux.in_flight == 0)
            for _ in range(2):  # it can be asked for again
                resumed = await s.open_stream(sid, last)
                events = await resumed.events()
                assert steps(events) == [1, 2] and events[-1][1]["result"]["content"][0]["text"] == "done"
            resumed = await s.open_stream(sid, events[-1][0])
            assert await resumed.events() == []  # nothing follows the answer

    run(main)


def test_b43_only_the_stream_of_the_id_is_replayed(run):
    async def main():
        async with site() as s:
            one, two, three = [await s.connect() for _ in range(3)]
            sid = await s.open_session(three)
            listen = await s.open_stream(sid)
            one.send(progress(s, sid, 8, "a", gap_ms=40))
            two.send(progress(s, sid, 8, "b", gap_ms=40))
            await one.head(), await two.head()
            await one.event()
            last, _ = await one.event()
            one.reset()
            s.server.add_tool(lambda x: x, name="extra", description="d", inline=True)
            assert len(await two.events()) == 9
            assert (await listen.event())[1]["method"] == "notifications/tools/list_changed"
            resumed = await s.open_stream(sid, last)
            events = await resumed.events()
            assert steps(events) == [3, 4, 5, 6, 7, 8] and events[-1][1]["id"] == "a"

    run(main)


@pytest.mark.parametrize("bad", ["nothing", "a.b.c", "%", "x" * 3000, "\xe9\xff", "0", "g1"])
def test_b43_unknown_ids_are_400_and_replay_nothing(run, bad):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            assert (await peer.ask(progress(s, sid, 2))).status == 200
            answer = await peer.ask(s.request("GET", mcp_session_id=sid, last_event_id=bad))
            assert answer.status == 400 and "Last-Event-ID" in answer.json["error"]["message"]
            assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "on"}))).status == 200

    run(main)


def test_b43_a_nul_in_the_id_is_a_bad_head(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            assert (await peer.ask(s.request("GET", mcp_session_id=sid, last_event_id="a\0b"))).status == 400
            assert await peer.ended()

    run(main)


def test_b43_ids_of_another_session_are_refused(run):
    """SE-02: stores belong to one session, which belongs to one principal."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            mine, theirs = await s.open_session(peer), await s.open_session(peer)
            last = id_of((await peer.ask(progress(s, theirs, 3))).chunks[0])
            await peer.ask(progress(s, mine, 3))
            assert (await peer.ask(s.request("GET", mcp_session_id=mine, last_event_id=last))).status == 400
            assert (await peer.ask(s.request("GET", mcp_session_id="x", last_event_id=last))).status == 404
            two = (("Last-Event-ID", last),)
            asked = s.request("GET", mcp_session_id=theirs, last_event_id=last, headers=two)
            assert (await peer.ask(asked)).status == 400
            assert len(await (await s.open_stream(theirs, last)).events()) == 4

    run(main)


def test_b43_resumed_twice_at_once_the_last_one_has_it(run):
    async def main():
        app = make_server()
        queue = gated(app)
        async with site(app, limits=tiny(resume_after=0.05)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(call_steps(s, sid))
            await peer.head()
            queue.put_nowait(2)
            last, _ = await peer.event()
            # the first connection is still there: it loses its stream, whole, and can be used again
            first = await s.open_stream(sid, last)
            assert steps([await peer.event()]) == [2] and await peer.event() is None
            second = await s.open_stream(sid, last)
            assert steps(await first.events()) == [2]
            queue.put_nowait(1)
            queue.put_nowait("end")
            events = await second.events()
            assert steps(events) == [2, 3] and "result" in events[-1][1]
            for each in (peer, first, second):
                assert (await each.ask(s.legacy_call(sid, "echo", {"text": "on"}))).status == 200

    run(main)


def test_ho08_without_an_id_in_its_hands_the_client_loses_the_answer_but_not_the_work(run):
    async def main():
        async with site(limits=tiny(resume_after=5.0)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(s.legacy_call(sid, "sleep", {"ms": 150}))
            await s.settled(lambda: s.server.seen.started == 1)
            peer.reset()
            await s.settled(lambda: s.server.seen.finished == 1)
            assert s.server.seen.cancelled == 0
            session = s.endpoint.sessions.by_id[sid.encode()]
            await s.settled(lambda: session.mux.in_flight == 0)
            assert session.events is None or len(session.events) == 0

    run(main)


def test_ho22_a_slow_request_gets_an_id_before_its_answer(run):
    async def main():
        async with site(limits=tiny(resume_after=0.1)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(s.legacy_call(sid, "sleep", {"ms": 500}))
            assert (await peer.head())[1]["content-type"] == ["text/event-stream"]
            last = id_of(await peer.chunk())
            assert last and s.server.seen.finished == 0
            peer.reset()
            events = await (await s.open_stream(sid, last)).events()
            assert events[-1][1]["result"]["content"][0]["text"] == "slept"
            # who takes no event streams gets JSON, however long it takes
            other = await s.connect()
            answer = await other.ask(s.legacy_call(sid, "sleep", {"ms": 300}, accept="application/json"))
            assert answer.json["result"]["content"][0]["text"] == "slept"

    run(main)


def test_ho23_a_handler_lets_the_client_poll(run):
    async def main():
        app = make_server()
        go = asyncio.Event()

        @app.tool
        async def long(ctx: Context, retry: float | None = None) -> str:
            closed = ctx.close_stream(retry)
            await ctx.progress(1)
            await go.wait()
            again = ctx.close_stream()
            return f"{closed} {again}"

        async with site(app, retry_interval=2.5) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            params = {"name": "long", "arguments": {"retry": 0.25}, "_meta": PROGRESS}
            answer = await peer.ask(s.legacy(sid, "tools/call", params, "x"))
            assert [b"retry: 2500\n" in answer.chunks[0], b"retry: 250\n" in answer.chunks[1]] == [True, True]
            assert len(answer.chunks) == 2 and answer.events == []
            ids = [id_of(chunk) for chunk in answer.chunks]
            assert ids[0] != ids[1]
            # polling: nothing yet but what was sent meanwhile, and the connection goes on
            resumed = await s.open_stream(sid, ids[1])
            last, message = await resumed.event()
            assert message["params"]["progress"] == 1
            go.set()
            assert await resumed.event() is None  # the handler closed it once more
            events = await (await s.open_stream(sid, last)).events()
            assert [m.get("id") for _, m in events] == ["x"]
            assert events[0][1]["result"]["content"][0]["text"] == "True True"
            # from either id
            assert len(await (await s.open_stream(sid, ids[0])).events()) == 2
            # the connection of the call was not closed
            assert (await peer.ask(s.legacy_call(sid, "echo", {"text": "on"}))).status == 200

    run(main)


@pytest.mark.parametrize("case", ["modern", "json", "no store"])
def test_ho23_where_the_client_cannot_come_back_nothing_is_closed(run, caplog, case):
    caplog.set_level(100, logger="headrace.test")  # a kept traceback would hold its exchange

    async def main():
        app = make_server()

        @app.tool
        async def long(ctx: Context) -> str:
            return str(ctx.close_stream(1))

        @app.tool
        async def wrong(ctx: Context) -> str:
            ctx.close_stream(-1)
            return "no"

        async with site(app, event_store=case != "no store") as s:
            peer = await s.connect()
            if case == "modern":
                answer = await peer.ask(s.call("long"))
            else:
                sid = await s.open_session(peer)
                accept = {"accept": "application/json"} if case == "json" else {}
                answer = await peer.ask(s.legacy_call(sid, "long", **accept))
            assert answer.json["result"]["content"][0]["text"] == "False"
            if case == "json":
                assert (await peer.ask(s.legacy_call(sid, "wrong"))).json["result"]["isError"]

    run(main)


def test_ho23_from_a_worker_thread(run):
    async def main():
        app = make_server()

        @app.tool
        def long(ctx: Context) -> str:
            return str(ctx.close_stream(0.1))

        async with site(app, limits=tiny(resume_after=0.05)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.legacy_call(sid, "long"))
            last = id_of(answer.body)
            assert b"retry: 100\n" in answer.body and answer.events == []
            events = await (await s.open_stream(sid, last)).events()
            assert events[-1][1]["result"]["content"][0]["text"] == "True"

    run(main)


def asking(app, **options):
    """Method x/ask: a request of ours inside of it."""

    def asks(exchange: Exchange):
        async def work():
            app.seen.started += 1
            try:
                call = exchange.mux.call("elicitation/create", b'{"message":"?"}', exchange.sink, **options)
                return b'{"echo":' + await call + b"}"
            except (LocalProtocolError, ConnectionClosed) as exc:
                app.seen.error = exc.with_traceback(None)
                return b'{"failed":true}'

        return work()

    app.tables.by_name[R4].requests[b"x/ask"] = FunctionHandler(asks)
    return app


def reply(s, sid, request, value="yes"):
    return s.request(
        body={"jsonrpc": "2.0", "id": request["id"], "result": {"value": value}}, mcp_session_id=sid
    )


def test_ho06_ho43_a_question_survives_its_connection(run):
    async def main():
        async with site(asking(make_server())) as s:
            peer, other = await s.connect(), await s.connect()
            sid = await s.open_session(peer)
            peer.send(s.legacy(sid, "x/ask", id="outer"))
            await peer.head()
            first = id_of(await peer.chunk())
            last, question = await peer.event()
            assert question["method"] == "elicitation/create" and last != first
            peer.reset()
            await s.settled(lambda: s.listener.connections == 1)
            # lost on the way: it is replayed; answered meanwhile: the answer is the request's result
            again = await s.open_stream(sid, first)
            assert (await again.event())[1] == question
            again.reset()
            answer = await other.ask(reply(s, sid, question))
            assert (answer.status, answer.body) == (202, b"")
            events = await (await s.open_stream(sid, last)).events()
            assert [m for _, m in events] == [{"jsonrpc": "2.0", "id": "outer", "result": {"echo": {"value": "yes"}}}]

    run(main)


def test_ho43_without_a_channel_the_handler_is_told(run):
    async def main():
        async with site(asking(make_server())) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.legacy(sid, "x/ask", accept="application/json"))
            assert answer.json["result"] == {"failed": True}
            assert isinstance(s.server.seen.error, LocalProtocolError) and "one JSON object" in str(s.server.seen.error)
        async with site(asking(make_server()), json_only=True) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            assert (await peer.ask(s.legacy(sid, "x/ask"))).json["result"] == {"failed": True}

    run(main)


def test_ho43_a_question_nobody_can_answer_any_more_fails(run):
    """Without an event store a dropped connection takes its questions with it."""

    async def main():
        async with site(asking(make_server()), event_store=False) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(s.legacy(sid, "x/ask"))
            await peer.head()
            await peer.event()
            session = s.endpoint.sessions.by_id[sid.encode()]
            assert len(session.mux.pending) == 1
            peer.reset()
            await s.settled(lambda: session.mux.in_flight == 0)
            assert isinstance(s.server.seen.error, ConnectionClosed) and not session.mux.pending

    run(main)


def test_ho11_requests_of_the_session_go_on_its_get_stream(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            session = s.endpoint.sessions.by_id[sid.encode()]
            with pytest.raises(LocalProtocolError):
                session.request("ping")
            old, new = await s.open_stream(sid), await s.open_stream(sid)
            call = session.request("ping", timeout=5)
            _, message = await new.event()
            assert message["method"] == "ping"
            assert (await peer.ask(reply(s, sid, message))).status == 202
            assert json.loads(await call) == {"value": "yes"}
            with pytest.raises(asyncio.TimeoutError):
                await old.chunk(timeout=0.1)

    run(main)


def test_ho11_news_waits_for_a_stream_once(run):
    async def main():
        async with site(limits=tiny(max_waiting_notices=3)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            session = s.endpoint.sessions.by_id[sid.encode()]
            for _ in range(5):
                assert session.announce(b"notifications/tools/list_changed")
            stream = await s.open_stream(sid)
            last, message = await stream.event()
            assert message["method"] == "notifications/tools/list_changed"
            with pytest.raises(asyncio.TimeoutError):
                await stream.chunk(timeout=0.1)
            # gone: what comes now waits, up to a bound, and follows the replay
            stream.reset()
            await s.settled(lambda: not session.streams)
            sent = [session.announce(b"x/news", b'{"n":%d}' % i) for i in range(5)]
            assert sent == [True] * 3 + [False] * 2
            resumed = await s.open_stream(sid, last)
            assert [(await resumed.event())[1]["params"]["n"] for _ in range(3)] == [0, 1, 2]

    run(main)


def test_b43_b44_a_get_stream_goes_on_elsewhere(run):
    """News that went into a dead connection comes again; a half-dead stream is taken over, not refused."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            session = s.endpoint.sessions.by_id[sid.encode()]
            dead = await s.open_stream(sid)
            session.announce(b"x/news", b'{"n":0}')
            last, _ = await dead.event()
            dead.reader._transport.pause_reading()  # no FIN, nothing is read
            for n in range(1, 4):
                session.announce(b"x/news", b'{"n":%d}' % n)
            alive = await s.open_stream(sid, last)
            assert len(session.streams) == 1
            session.announce(b"x/news", b'{"n":4}')
            got = [await alive.event() for _ in range(4)]
            assert [m["params"]["n"] for _, m in got] == [1, 2, 3, 4]
            assert {each.split(".")[1] for each, _ in got} == {last.split(".")[1]}  # the same stream
            call = await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))
            assert call.status == 200

    run(main)


def test_ho21_a_get_stream_of_which_nothing_is_left_starts_afresh(run):
    async def main():
        async with site(limits=tiny(max_resume_events=3)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            session = s.endpoint.sessions.by_id[sid.encode()]
            stream = await s.open_stream(sid)
            session.announce(b"x/news")
            last, _ = await stream.event()
            stream.reset()
            await s.settled(lambda: not session.streams)
            answer = await peer.ask(progress(s, sid, 5))
            fresh = await s.open_stream(sid, last)
            assert (await fresh.chunk()).startswith(b"id: ")
            # of the POST stream the last events are left, then nothing
            assert len(await (await s.open_stream(sid, id_of(answer.chunks[0]))).events()) == 2
            session.announce(b"x/more", b'{"n":1}')
            session.announce(b"x/more", b'{"n":2}')
            session.announce(b"x/more", b'{"n":3}')
            gone = s.request("GET", mcp_session_id=sid, last_event_id=id_of(answer.chunks[0]))
            assert (await peer.ask(gone)).status == 400

    run(main)


def test_se08_a_stream_without_a_connection_holds_a_bounded_amount(run):
    async def main():
        app = make_server()
        queue = gated(app)
        async with site(app, limits=tiny(max_resume_bytes=20_000, max_resume_total_bytes=30_000)) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            peer.send(call_steps(s, sid))
            await peer.head()
            last = id_of(await peer.chunk())
            peer.reset()
            await s.settled(lambda: s.listener.connections == 0)
            pool = s.endpoint.sessions.pool
            for _ in range(10):
                queue.put_nowait(500)
                await s.settled(queue.empty)
                assert pool.size <= 20_000
            queue.put_nowait("end")
            await s.settled(lambda: app.seen.finished == 1)
            events = await (await s.open_stream(sid, last)).events()
            # the newest are there, in order, and the answer with them
            numbers = steps(events)
            assert 10 < len(numbers) < 100 and numbers == list(range(5001 - len(numbers), 5001))
            assert events[-1][1]["result"]["content"][0]["text"] == "5000"
            s.endpoint.sessions.end(s.endpoint.sessions.by_id[sid.encode()])
            assert pool.size == 0

    run(main)


@pytest.mark.parametrize("how", ["DELETE", "idle", "shutdown", "cancelled"])
def test_ho32_ho33_streams_end_with_their_session(run, how):
    async def main():
        app = make_server()
        gated(app)
        limits = tiny(session_idle_timeout=0.3) if how == "idle" else None
        async with site(app, limits=limits) as s:
            peer, call = await s.connect(), await s.connect()
            sid = await s.open_session(peer)
            call.send(call_steps(s, sid, id=7))
            await s.settled(lambda: app.seen.started == 1)
            away = await s.connect()
            away.send(progress(s, sid, 1000, id=8, gap_ms=20))
            await away.head()
            last = id_of(await away.chunk())
            away.reset()
            stream = await s.open_stream(sid)
            if how == "DELETE":
                assert (await peer.ask(s.request("DELETE", mcp_session_id=sid))).status == 204
                assert (await peer.ask(s.request("GET", mcp_session_id=sid, last_event_id=last))).status == 404
            elif how == "idle":
                assert s.listener.sessions == 1  # in use: it does not end
                s.endpoint.sessions.end(s.endpoint.sessions.by_id[sid.encode()], "idle")
            elif how == "shutdown":
                await asyncio.wait_for(s.listener.close(), 10)
            else:
                for id_ in (7, 8):
                    note = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id_}}
                    assert (await peer.ask(s.request(body=note, mcp_session_id=sid))).status == 202
            await s.settled(lambda: app.seen.cancelled == 2)
            if how == "cancelled":
                # the stream is over, without an answer
                events = await (await s.open_stream(sid, last)).events()
                assert not any("result" in message for _, message in events)
                assert (await call.answer()).status == 202
            else:
                assert await stream.events() == []
                with contextlib.suppress(asyncio.IncompleteReadError):
                    await call.answer()

    run(main)


def test_a_get_while_its_session_ends(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            for _ in range(5):
                sid = await s.open_session(peer)
                last = id_of((await peer.ask(progress(s, sid, 1))).body)
                stream = await s.connect()
                both = s.request("DELETE", mcp_session_id=sid) + s.request(
                    "GET", mcp_session_id=sid, last_event_id=last
                )
                stream.send(both)
                assert [(await stream.answer()).status, (await stream.answer()).status] == [204, 404]
            assert s.listener.sessions == 0 and s.endpoint.sessions.pool.size == 0

    run(main)


def test_http10_streams_are_resumed_as_well(run):
    async def main():
        app = make_server()
        queue = gated(app)
        async with site(app, limits=tiny(resume_after=0.05)) as s:
            peer, other = await s.connect(), await s.connect()
            sid = await s.open_session(peer)
            peer.send(call_steps(s, sid))
            await peer.head()
            last = id_of(await peer.chunk())
            other.send(s.request("GET", mcp_session_id=sid, last_event_id=last, version="1.0"))
            status, headers = await other.head()
            assert status == 200 and "transfer-encoding" not in headers
            queue.put_nowait(2)
            queue.put_nowait("end")
            body = await asyncio.wait_for(other.reader.read(-1), 5)
            assert len(events_of(body)) == 3

    run(main)


def test_a_store_of_ones_own_and_one_that_fails(run, caplog):
    """B96: an event store that raises costs its events their ids, never the messages."""

    from headrace.limits import Limits
    from headrace.protocol._event_memory import EventPool

    caplog.set_level(100, logger="headrace.test")
    made = []

    def make(session_id):
        made.append((session_id, EventPool(Limits()).open()))
        return made[-1][1]

    class Broken:
        def append(self, stream, data):
            raise OSError("disk full")

        replay = end = append

        def close(self):
            raise OSError("disk full")

    async def main():
        async with site(event_store=make) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            assert made == []  # none before a stream needs it
            answer = await peer.ask(progress(s, sid, 2))
            assert len(made) == 1 and made[0][0] == sid and len(made[0][1]) == 4
            assert id_of(answer.body).startswith(made[0][1].tag)
        async with site(event_store=lambda sid: Broken()) as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(progress(s, sid, 2))
            assert len(answer.events) == 3 and b"id: " not in answer.body
            assert (await peer.ask(s.request("GET", mcp_session_id=sid, last_event_id="x"))).status == 400
            assert (await peer.ask(s.request("DELETE", mcp_session_id=sid))).status == 204

    run(main)


def test_ho05_plain_answers_of_sessions_stay_json_and_cost_no_store(run):
    """A stream is only begun where something precedes the answer, and ends behind it (HO-07)."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            sid = await s.open_session(peer)
            answer = await peer.ask(s.legacy_call(sid, "echo", {"text": "x"}))
            assert answer.get("content-type") == "application/json"
            session = s.endpoint.sessions.by_id[sid.encode()]
            assert session.keeper is None and s.endpoint.sessions.pool.size == 0
            answer = await peer.ask(progress(s, sid, 2))
            assert "result" in answer.events[-1] and len(answer.events) == 3

    run(main)
