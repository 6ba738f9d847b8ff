"""Field faults of hosts under load, at `headrace serve` in processes of its own: bodies (B52), tools that block (B85),
many streams (B90), clients and connections (B91), schemas (B92), stores that fail (B96), lifespans (B98)."""

import asyncio
import collections
import contextlib
import gzip
import itertools
import json
import logging
import os
import signal
import socket

import pytest

from headrace import Server, connect
from headrace.protocol.event_store import EventStore, Replay
from headrace.transports.http_server import serve_http
from hosting.field_support import R4, R5, Peer, app, notes, scrape, start
from hosting.metrics_support import fetch, total
from hosting.processes import eventually
from hosting.redis_support import redis_server

__all__ = ("app",)

MIB = 1 << 20


# --- bodies ---------------------------------------------------------------------------------------------


class Raw:
    """One connection; what is sent may be refused before its end."""

    def __init__(self, port, *parts):
        self.sock = socket.create_connection(("127.0.0.1", port), 20)
        self.stream = self.sock.makefile("rb")
        with contextlib.suppress(ConnectionError):
            for part in parts:
                self.sock.sendall(part)

    def _head(self):
        rows = []
        while (row := self.stream.readline()).strip():
            rows.append(row)
        return b"".join(rows)

    def answer(self):
        """(status, whether the connection ends) of the next answer; None when it was lost with the connection."""
        try:
            head = self._head().lower()
            size = next(int(row[15:]) for row in head.split(b"\r\n") if row.startswith(b"content-length:"))
            self.stream.read(size)
        except (ConnectionError, StopIteration):
            return None
        return int(head.split()[1]), b"connection: close" in head

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stream.close()
        self.sock.close()


def raw(port, *parts):
    with Raw(port, *parts) as connection:
        return connection.answer()


def head(port, *fields):
    rows = ["POST /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", "Content-Type: application/json",
            "Accept: application/json, text/event-stream", *fields]  # fmt: skip
    return "\r\n".join([*rows, "", ""]).encode()


def memory(pids):
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/statm") as file:
            total += int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")
    return total


def test_b52_bodies_are_bounded_in_every_worker(app):
    """The whole trial at two workers: refused unread, refused at the bound, a length that lies, 200 that stall, a bomb;
    memory stays within the bound, what was refused is counted, and the server goes on."""
    length, room = 500_000, 8 * MIB
    options = ["--workers", 2, "--max-message-bytes", length, "--max-buffered-bytes", room, "--body-timeout", 1,
               "--metrics", "/metrics"]  # fmt: skip
    with start(app, *options) as it:
        port = it.port
        with Peer(port) as one, Peer(port) as two:
            assert one.state()["pid"] != two.state()["pid"]
        before = memory(it.workers)
        assert raw(port, head(port, f"Content-Length: {10 * length}")) == (413, True)
        chunk = b"%x\r\n" % 50_000 + b" " * 50_000 + b"\r\n"
        assert raw(port, head(port, "Transfer-Encoding: chunked"), *[chunk] * 40) == (413, True)
        with Raw(port, head(port, "Content-Length: 2") + b"{}GARBAGE\r\n\r\n") as lie:
            assert lie.answer() == (400, False)  # the body was no message
            assert lie.answer() == (400, True)  # what follows it was no request
        bomb = gzip.compress(b" " * 20_000_000)
        assert len(bomb) < length
        assert raw(port, head(port, "Content-Encoding: gzip", f"Content-Length: {len(bomb)}"), bomb)[0] == 415
        with contextlib.ExitStack() as stack:
            most = head(port, f"Content-Length: {length}") + b" " * (length - 1)
            stalled = [stack.enter_context(Raw(port, most)) for _ in range(200)]
            assert memory(it.workers) - before < 2 * room + 32 * MIB  # all bodies: 100 MB
            answers = collections.Counter(connection.answer() for connection in stalled)
        answers.pop(None, None)  # an answer that was lost because its client was still writing
        assert set(answers) == {(408, True), (503, True)}
        with Peer(port) as peer:
            assert peer.call("echo", text="on") == "on"
        eventually(lambda: total(scrape(port), "headrace_body_bytes") == 0)
        refused = scrape(port)["headrace_refusals_total"]
        kinds = {dict(labels)["kind"]: value for labels, value in refused.items()}
        assert kinds["max_message_bytes"] == 2 and kinds["http_415"] == 1
        assert kinds["body_timeout"] >= answers[408, True] and kinds["max_buffered_bytes"] >= answers[503, True]
        assert it.stop() == 0


# --- tools that block --------------------------------------------------------------------------------------


def test_b85_blocked_threads_hold_up_nothing_else(app):
    """Three plain functions run at once. Two hundred wait for four threads; pings, handshakes, async tools and health
    are answered meanwhile; each sees the context variable that was set for it."""
    with start(app, "--worker-threads", 4) as it, contextlib.ExitStack() as stack:
        port = it.port
        peers = [stack.enter_context(Peer(port)) for _ in range(200)]
        for peer in peers[:3]:
            peer.tool("meet")
        assert [peer.text() for peer in peers[:3]] == ["met"] * 3
        params = {"name": "block", "arguments": {"gate": str(app / "gate")}}
        for number, peer in enumerate(peers):
            peer.request("tools/call", params, X_Who=f"caller {number}")
        other = stack.enter_context(Peer(port))
        for _ in range(20):
            assert other.call("echo", text="on") == "on"
            assert fetch(f"http://127.0.0.1:{port}/healthz")[0] == 200
        threads = other.state()["threads"]
        legacy = stack.enter_context(Peer(port))
        legacy.begin()
        for _ in range(20):
            assert legacy.ask("ping") == (200, {"jsonrpc": "2.0", "id": 1, "result": {}})
        # All that was answered while every thread was blocked.
        assert threads <= 4 + 2
        (app / "gate").touch()
        assert [peer.text() for peer in peers] == [f"caller {number}" for number in range(200)]
        assert it.stop() == 0


# --- streams, clients, connections -------------------------------------------------------------------------


def test_b90_thousands_of_short_streams_leave_the_process_as_it_was(app):
    with start(app) as it, Peer(it.port) as peer:
        port = it.port
        sid = peer.begin()
        get = (
            f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAccept: text/event-stream\r\nMcp-Session-Id: {sid}\r\n"
            f"MCP-Protocol-Version: {R4}\r\n\r\n"
        ).encode()

        def streams(count):
            for _ in range(count):
                with socket.create_connection(("127.0.0.1", port), 20) as sock:
                    sock.sendall(get)
                    assert sock.recv(4096).startswith(b"HTTP/1.1 200 ")

        def held():
            state = peer.state()
            return {name: state[name] for name in ("tasks", "threads", "descriptors")}

        before = held()
        streams(2000)
        first = peer.state()["memory"]
        streams(8000)
        eventually(lambda: held() == before, "the state before")
        assert peer.state()["memory"] - first < 4 * MIB
        assert it.stop() == 0


@pytest.mark.parametrize("revision", [R4, R5])
def test_b91_one_client_is_one_handshake_and_few_connections(app, revision):
    """Our client at concurrency 1, 50 and 500: handshakes 1, connections no more than calls at once."""
    with start(app, "--workers", 1, "--metrics", "/metrics") as it:

        async def main():
            async with connect(f"http://127.0.0.1:{it.port}/mcp", revision=revision) as client:
                for at_once, count in [(1, 200), (50, 500), (500, 1000)]:
                    numbers = iter(range(count))

                    async def caller(numbers=numbers):
                        for number in numbers:
                            assert (await client.call_tool("echo", {"text": str(number)})).text == str(number)

                    await asyncio.gather(*(caller() for _ in range(at_once)))

        asyncio.run(main())
        samples = scrape(it.port)
        assert total(samples, "headrace_requests_total", method="tools/call", tool="echo", status="ok") == 1700
        hello = {R4: "initialize", R5: "server/discover"}
        assert total(samples, "headrace_requests_total", method=hello[revision]) == 1
        other = hello[R5 if revision == R4 else R4]
        assert total(samples, "headrace_requests_total", method=other) == 0
        assert it.stop() == 0
        # 500 for calls; one may be the session's stream, one says goodbye, and two are the scrapes.
        assert int(it.line(r"worker 0 .* on (\d+) connections? ")[1]) <= 500 + 4


def wide_schema(count):
    """A schema of so many properties, in chains of references."""
    defs = {"d0": {"type": "integer"}} | {f"d{n}": {"$ref": f"#/$defs/d{n - 1}"} for n in range(1, 50)}
    return {
        "type": "object", "$defs": defs,
        "properties": {f"p{n}": {"$ref": f"#/$defs/d{n % 50}"} for n in range(count)},
    }  # fmt: skip


def test_b92_schemas_are_made_once_however_many_calls(run):
    """A small output schema and a very large one, over thousands of calls: each is compiled once; a list that changed
    costs one more for what is called of it, and is what later results are held against."""
    pytest.importorskip("jsonschema_rs")
    small = {
        "type": "object", "required": list("abcde"),
        "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "boolean"},
                       "d": {"type": "array", "items": {"type": "number"}}, "e": {"type": ["string", "null"]}},
    }  # fmt: skip
    value = {"a": 1, "b": "x", "c": True, "d": [1.5], "e": None}

    async def main():
        server = Server("schemas", version="1")

        @server.tool(output_schema=small)
        async def narrow() -> dict:
            return value

        @server.tool(output_schema=wide_schema(2000))
        async def wide() -> dict:
            return {f"p{n}": n for n in range(0, 2000, 100)}

        async with server.running():
            listener = await serve_http(server, host="127.0.0.1", port=0)
            changed = asyncio.Event()
            async with connect(listener.url, revision=R4, on_list_changed=lambda kind: changed.set()) as client:
                await client.list_tools()
                for _ in range(1000):
                    assert (await client.call_tool("narrow")).structured_content == value
                for _ in range(100):
                    assert len((await client.call_tool("wide")).structured_content) == 20
                assert client._schemas.compilations == 2
                server.remove_tool("narrow")
                server.add_tool(narrow_2, name="narrow", output_schema={"type": "object", "required": ["z"]})
                await asyncio.wait_for(changed.wait(), 20)
                await client.list_tools()
                for _ in range(100):
                    assert (await client.call_tool("narrow")).structured_content == {"z": 1}
                    await client.call_tool("wide")
                assert client._schemas.compilations <= 4
            await listener.close()

    async def narrow_2() -> dict:
        return {"z": 1}

    run(main)


# --- stores, lifespans -------------------------------------------------------------------------------------


class Tenth(EventStore):
    """Keeps events, but for each tenth of all."""

    turns = itertools.count(1)

    def __init__(self, session_id):
        self.kept = []

    def append(self, stream, data):
        if next(Tenth.turns) % 10 == 0:
            raise OSError("the disk is full")
        self.kept.append((f"{stream}-{len(self.kept)}", stream, data))
        return self.kept[-1][0]

    def replay(self, last_id):
        for at, (id, stream, _) in enumerate(self.kept):
            if id == last_id:
                return Replay(stream, [(i, data) for i, of, data in self.kept[at + 1 :] if of == stream and data])
        return None


def test_b96_a_store_that_fails_now_and_then_costs_no_message(run, caplog):
    """Each tenth event is not kept: every message arrives all the same, in every session, and a warning is written; a
    session whose store cannot even be made is served too."""
    caplog.set_level(logging.DEBUG)

    def make(session_id):
        if len(made) == 3:
            raise OSError("no store today")
        made.append(session_id)
        return Tenth(session_id)

    made = []

    async def one(url, seen):
        async with connect(url, revision=R4) as client:
            result = await client.call_tool("steps", {"n": 25}, on_progress=lambda step, *_: seen.append(step))
            assert result.text == "done"
            assert (await client.call_tool("steps", {"n": 0})).text == "done"

    async def main():
        from headrace import Context

        server = Server("stores", version="1")

        @server.tool
        async def steps(ctx: Context, n: int) -> str:
            for step in range(n):
                await ctx.progress(step + 1, n)
                await asyncio.sleep(0)
            return "done"

        async with server.running():
            listener = await serve_http(server, host="127.0.0.1", port=0, event_store=make)
            seen = [[] for _ in range(4)]
            await asyncio.gather(*(one(listener.url, each) for each in seen))
            assert seen == [list(range(1, 26))] * 4
            await listener.close()

    run(main)
    assert len(made) == 3
    said = [record for record in caplog.records if record.levelno >= logging.WARNING and "store" in record.getMessage()]
    assert said


@pytest.mark.parametrize("how", ["hangs", "dies"])
def test_b96_events_are_delivered_live_while_redis_is_away(app, how):
    """Redis keeps the events; it hangs, or dies, in the middle of a stream. All of them and the answer arrive all the
    same, and meanwhile other sessions and other clients are served."""
    with redis_server(keeps=False) as redis, start(app, "--workers", 2, "--backplane", redis.url) as it:
        port = it.port
        with Peer(port) as streaming, Peer(port) as other, Peer(port) as modern:
            streaming.begin()
            other.begin()
            assert other.call("echo", text="on") == "on"
            response = streaming.request(
                "tools/call",
                {"name": "gated", "arguments": {"n": 20, "gate": str(app / "gate")}, "_meta": {"progressToken": 1}},
            ).connection.getresponse()
            first = next(line for line in iter(response.readline, b"") if b"notifications/progress" in line)
            assert b'"progress":1' in first
            redis.pause() if how == "hangs" else redis.kill()
            (app / "gate").touch()
            told = [json.loads(line[6:]) for line in iter(response.readline, b"") if line.startswith(b"data: {")]
            assert [message["params"]["progress"] for message in told[:-1]] == list(range(2, 21))
            assert told[-1]["result"]["content"][0]["text"] == "done"
            assert other.call("echo", text="still on") == "still on"
            assert modern.call("echo", text="still on") == "still on"
            redis.resume() if how == "hangs" else redis.start()
            eventually(lambda: streaming.initialize()[0] == 200, "Redis is back")
            assert streaming.call("echo", text="on again") == "on again"


def test_b98_a_lifespan_is_each_workers_own_once(app):
    """Three workers: three times entered and left, whatever was called; a replaced worker has its own."""
    with start(app, "--workers", 3, "--stateless") as it:
        it.line("serving")
        pids = it.workers
        for revision in (R4, R5):
            for _ in range(50):
                with Peer(it.port) as peer:
                    if revision == R4:
                        assert peer.initialize()[0] == 200 and peer.sid is None
                    assert peer.call("echo", text="on") == "on"
        assert it.stop() == 0
        assert collections.Counter(notes(app)) == {f"{what} {pid}": 1 for what in ("enter", "exit") for pid in pids}


def test_b98_a_killed_workers_place_is_taken_with_a_lifespan_of_its_own(app):
    with start(app, "--workers", 2) as it:
        it.line("serving")
        before = it.workers
        os.kill(before[0], signal.SIGKILL)
        after = eventually(lambda: (found := it.workers) and before[0] not in found and len(found) == 2 and found)
        eventually(lambda: len(notes(app)) == 3, "the lifespan of the third")
        it.line(r"takes its place")

        def all_serve():
            with Peer(it.port) as one, Peer(it.port) as other:
                return {one.state()["pid"], other.state()["pid"]} == set(after)

        eventually(all_serve)
        assert it.stop() == 0
        counts = collections.Counter(notes(app))
        assert counts == {f"enter {pid}": 1 for pid in {*before, *after}} | {f"exit {pid}": 1 for pid in after}
