"""Event streams, cancellation by disconnect, slow readers of the HTTP server (HN-32..HN-51, B34, B39, B76)."""

import asyncio
import contextlib
import json

import pytest
from http_support import BOTH, Peer, make_server, site, tiny

from headrace.errors import RpcError
from headrace.protocol.context import Context


def test_b78_progress_comes_before_the_answer_in_order(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("progress", {"n": 1000}, id="p", meta={"progressToken": "tok"}))
            assert answer.status == 200
            assert answer.get("content-type") == "text/event-stream"
            assert answer.get("cache-control") == "no-cache, no-transform"
            assert answer.get("x-accel-buffering") == "no"
            events = answer.events
            assert [e["params"]["progress"] for e in events[:-1]] == list(range(1, 1001))
            assert {e["params"]["progressToken"] for e in events[:-1]} == {"tok"}
            assert events[-1]["id"] == "p"
            assert b"\nid:" not in answer.body and b"retry:" not in answer.body
            # the stream ended as a whole chunked body: the connection goes on
            assert (await peer.ask(s.call("echo", {"text": "on"}))).status == 200

    run(main)


def test_b78_notifications_of_a_turn_leave_together(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("progress", {"n": 50}, meta={"progressToken": 1}))
            assert len(answer.chunks) == 51  # one event a chunk

    run(main)


def test_hn43_without_sse_notifications_are_dropped(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            request = s.call("progress", {"n": 5}, meta={"progressToken": 1}, accept="application/json")
            answer = await peer.ask(request)
            assert answer.get("content-type") == "application/json"
            assert answer.json["result"]["content"][0]["text"] == "done"

    run(main)


def test_progress_of_a_slow_handler_arrives_while_it_runs(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            peer.send(s.call("progress", {"n": 3, "gap_ms": 100}, meta={"progressToken": 1}))
            status, headers = await peer.head()
            assert (status, headers["transfer-encoding"]) == (200, ["chunked"])
            assert b'"progress":1' in await peer.chunk()
            assert s.server.seen.finished == 0
            rest = [await peer.chunk() for _ in range(4)]
            assert rest[-1] == b"" and b'"result"' in rest[-2]

    run(main)


def test_b34_separators_are_escaped_in_events(run):
    async def main():
        async with site() as s:
            peer = await s.connect()
            text = "a\u2028b\u2029c\u0085d"
            answer = await peer.ask(s.call("progress", {"n": 1, "text": text}, meta={"progressToken": 1}))
            for raw in (b"\xe2\x80\xa8", b"\xe2\x80\xa9", b"\xc2\x85"):
                assert raw not in answer.body
            assert answer.events[0]["params"]["message"] == text
            answer = await peer.ask(s.call("echo", {"text": text * 100}, accept="text/event-stream"))
            assert answer.events[0]["result"]["content"][0]["text"] == text * 100

    run(main)


def test_hn32_errors_keep_their_status_until_a_notification_was_sent(run):
    async def main():
        app = make_server()

        @app.tool
        async def needy(ctx: Context, first: bool) -> str:
            await asyncio.sleep(0)
            if first:
                await ctx.progress(1)
            raise RpcError(-32021, "needs elicitation", {"requiredCapabilities": {"elicitation": {}}})

        async with site(app) as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("needy", {"first": False}, meta={"progressToken": 1}))
            assert (answer.status, answer.code) == (400, -32021)
            answer = await peer.ask(s.call("needy", {"first": True}, meta={"progressToken": 1}))
            assert answer.status == 200
            assert answer.events[-1]["error"]["code"] == -32021
            only_sse = s.call("needy", {"first": False}, accept="text/event-stream")
            assert (await peer.ask(only_sse)).status == 400

    run(main)


def test_b39_silent_posts_get_comments(run):
    """(c): comments before the result; the answer is then an event."""

    async def main():
        async with site(limits=tiny(sse_keep_alive=0.1)) as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("sleep", {"ms": 600}))
            assert answer.get("content-type") == "text/event-stream"
            assert answer.chunks[0] == b":\n\n" and answer.chunks.count(b":\n\n") >= 3
            assert answer.events[0]["result"]["content"][0]["text"] == "slept"
            plain = await peer.ask(s.call("sleep", {"ms": 300}, accept="application/json"))
            assert plain.json["result"]["content"][0]["text"] == "slept"

    run(main)


@pytest.mark.parametrize("how", ["close", "reset", "eof"])
@pytest.mark.parametrize("accept", [BOTH, "application/json"])
def test_hn50_disconnect_cancels_in_the_modern_era(run, how, accept):
    """B76: POST sleep, then the peer goes away."""

    async def main():
        async with site() as s:
            peer = await s.connect()
            peer.send(s.call("sleep", {"ms": 20_000}, accept=accept))
            await s.settled(lambda: s.server.seen.started == 1)
            assert s.endpoint.mux.in_flight == 1
            if how == "eof":
                peer.writer.write_eof()
            else:
                getattr(peer, how)()
            await s.settled(lambda: s.server.seen.cancelled == 1)
            await s.settled(lambda: s.endpoint.mux.in_flight == 0)
            if how == "eof":
                assert await peer.ended()  # nothing was sent
            await s.settled(lambda: s.listener.connections == 0)

    run(main)


def test_b76_a_handler_that_ignores_the_disconnect_sends_nothing(run, caplog):
    async def main():
        app = make_server()
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        @app.tool
        async def stubborn(ctx: Context) -> str:
            await ctx.progress(1)
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(20)
            for i in range(1000):
                await ctx.progress(i + 2)
                await ctx.log("error", "still here")
            ended.set_result(ctx.cancelled)
            raise ValueError("nobody hears this")

        async with site(app) as s:
            peer = await s.connect()
            peer.send(s.call("stubborn", meta={"progressToken": 1}))
            assert (await peer.head())[0] == 200
            peer.reset()
            assert await asyncio.wait_for(ended, 5)
            other = await s.connect()
            assert (await other.ask(s.call("echo", {"text": "fine"}))).status == 200

    run(main)
    assert "Traceback" not in caplog.text


def test_b70_b112_a_peer_that_reads_nothing_costs_bounded_memory(run):
    async def main():
        limits = tiny(max_output_bytes=100_000, write_timeout=0.6)
        async with site(limits=limits) as s:
            peer = await s.connect()
            peer.writer.transport.pause_reading()
            request = s.call("progress", {"n": 100_000, "text": "x" * 2000}, meta={"progressToken": 1})
            peer.send(request)
            await s.settled(lambda: s.server.seen.started == 1)
            other = await s.connect()
            for _ in range(20):
                assert (await other.ask(s.call("echo", {"text": "quick"}))).status == 200
                (link,) = [k for k in s.endpoint.links if k.transport.get_write_buffer_size() > 0] or [None]
                if link is not None:
                    assert link.transport.get_write_buffer_size() < 2_000_000
            # the handler waits for the reader; a reader that never comes loses its connection
            await s.settled(lambda: s.server.seen.cancelled == 1)
            assert s.server.seen.finished == 0

    run(main)


def test_slow_readers_get_everything(run):
    async def main():
        async with site(limits=tiny(max_output_bytes=50_000)) as s:
            peer = await s.connect()
            peer.send(s.call("progress", {"n": 3000, "text": "y" * 500}, meta={"progressToken": 1}))
            await asyncio.sleep(0.2)
            answer = await peer.answer(timeout=20)
            assert len(answer.events) == 3001

    run(main)


def test_b16_many_large_answers_to_a_late_reader(run):
    async def main():
        async with site(limits=tiny(max_output_bytes=200_000)) as s:
            peer = await s.connect()
            peer.writer.transport.pause_reading()
            peer.send(b"".join(s.call("big", {"n": 200_000}, id=i) for i in range(50)))
            peer.send(b"".join(s.call("echo", {"text": "p"}, id=i) for i in range(50, 100)))
            await asyncio.sleep(0.3)
            (link,) = s.endpoint.links
            assert link.transport.get_write_buffer_size() < 1_000_000
            peer.writer.transport.resume_reading()
            for i in range(100):
                answer = await peer.answer(timeout=20)
                assert answer.json["id"] == i
                assert len(answer.json["result"]["content"][0]["text"]) == (200_000 if i < 50 else 1)

    run(main)


def test_b112_a_stalled_answer_ends_with_its_connection(run):
    async def main():
        async with site(limits=tiny(write_timeout=0.4)) as s:
            peer = await s.connect()
            peer.writer.transport.pause_reading()
            for _ in range(8):
                peer.send(s.call("big", {"n": 4_000_000}))
            await s.settled(lambda: s.listener.connections == 1)
            await s.settled(lambda: s.listener.connections == 0)
            assert s.server.runtime.in_flight == 0 and not any(s.endpoint.mux.debug_counts().values())

    run(main)


def test_b112_peer_closes_in_the_middle_of_an_answer(run, caplog):
    async def main():
        async with site() as s:
            for _ in range(5):
                peer = await s.connect()
                peer.send(s.call("big", {"n": 3_000_000}))
                await peer.reader.readexactly(10)
                peer.reset()
            await s.settled(lambda: s.listener.connections == 0)
            peer = await s.connect()
            assert (await peer.ask(s.call("echo", {"text": "x"}))).status == 200

    run(main)
    assert not [r for r in caplog.records if r.levelno >= 40]


def test_b70_requests_over_the_total_bound_are_503(run):
    async def main():
        async with site(limits=tiny(max_in_flight_total=3)) as s:
            peers = [await s.connect() for _ in range(5)]
            for i, peer in enumerate(peers):
                peer.send(s.call("sleep", {"ms": 300}, id=i))
                await asyncio.sleep(0.01)
            answers = [await peer.answer() for peer in peers]
            assert [a.status for a in answers] == [200, 200, 200, 503, 503]
            assert answers[-1].get("retry-after") == "1"
            assert answers[-1].json["id"] == 4
            assert (await peers[4].ask(s.call("echo", {"text": "again"}))).status == 200

    run(main)


def test_messages_from_worker_threads_keep_their_order(run):
    """B78: a plain tool sends from its thread; all of it comes before the answer."""

    async def main():
        app = make_server()

        @app.tool
        def threaded(ctx: Context, n: int) -> str:
            for i in range(n):
                ctx.progress(i + 1)
            return "threaded"

        async with site(app) as s:
            peer = await s.connect()
            answer = await peer.ask(s.call("threaded", {"n": 200}, meta={"progressToken": 5}))
            assert [e["params"]["progress"] for e in answer.events[:-1]] == list(range(1, 201))

    run(main)


def test_unix_sockets_are_served(run, tmp_path):
    async def main():
        path = str(tmp_path / "s.sock")
        app = make_server()
        async with app.running():
            from headrace.transports.http_server import serve_http

            listener = await serve_http(app, unix=path)
            assert listener.addresses == [f"unix:{path}"]
            peer = Peer(*await asyncio.open_unix_connection(path))
            body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"}).encode()
            peer.send(
                b"POST /mcp HTTP/1.1\r\nHost: whatever\r\nContent-Type: application/json\r\n"
                b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
            )
            assert (await peer.answer()).status == 400  # no session, no modern _meta
            peer.close()
            await listener.close()
            assert not (tmp_path / "s.sock").exists()

    run(main)
