"""Field faults of event streams and HTTP sessions at a server in a process of its own, on bare sockets (sections 3, 4)."""

import contextlib
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time

import pytest

from field.child import WAIT, hosted

R4 = "2025-11-25"


class Http:
    """One connection."""

    def __init__(self, port):
        self.port = port
        self.sock = socket.create_connection(("127.0.0.1", port), WAIT)
        self.sock.settimeout(WAIT)
        self.stream = self.sock.makefile("rb")
        self.status = self.fields = None

    def send(self, method="POST", body=None, sid=None, **fields):
        rows = [f"{method} /mcp HTTP/1.1", f"Host: 127.0.0.1:{self.port}"]
        fields = {"accept": "text/event-stream" if method == "GET" else "application/json, text/event-stream"} | fields
        if sid:
            fields |= {"mcp_session_id": sid, "mcp_protocol_version": R4}
        if body is not None:
            body = json.dumps({"jsonrpc": "2.0"} | body).encode()
            fields |= {"content_type": "application/json", "content_length": len(body)}
        rows += [f"{name.replace('_', '-')}: {value}" for name, value in fields.items()]
        self.sock.sendall("\r\n".join(rows).encode() + b"\r\n\r\n" + (body or b""))
        return self

    def call(self, sid, tool, arguments, id=1, **fields):
        params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": f"t{id}"}}
        return self.send(body={"id": id, "method": "tools/call", "params": params}, sid=sid, **fields)

    def head(self):
        self.status = int(self.stream.readline().split()[1])
        self.fields = {}
        while row := self.stream.readline().strip():
            name, _, value = row.decode().partition(":")
            self.fields[name.lower()] = value.strip()
        return self.status

    def body(self):
        self.head()
        return self.stream.read(int(self.fields.get("content-length", 0)))

    def chunk(self):
        size = int(self.stream.readline(), 16)
        return self.stream.read(size + 2)[:-2]

    def event(self):
        """(id, message) of the next event with data; None at the end."""
        while data := self.chunk():
            rows = dict(row.split(": ", 1) for row in data.decode().split("\n") if ": " in row)
            if rows.get("data"):
                return rows.get("id"), json.loads(rows["data"])
        return None

    def events(self):
        return list(iter(self.event, None))

    def json(self):
        """The message of an answer that is JSON or a stream."""
        if self.head() and self.fields.get("content-type") == "text/event-stream":
            return self.events()[-1][1]
        return json.loads(self.stream.read(int(self.fields["content-length"])))

    def reset(self):
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close()

    def close(self):
        self.stream.close()
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def session(peer):
    info = {"protocolVersion": R4, "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
    peer.send(body={"id": 0, "method": "initialize", "params": info})
    assert json.loads(peer.body())["result"]["protocolVersion"] == R4
    sid = peer.fields["mcp-session-id"]
    peer.send(body={"method": "notifications/initialized"}, sid=sid)
    assert (peer.body(), peer.status) == (b"", 202)
    return sid


def stat(port, sid):
    with Http(port) as peer:
        return peer.call(sid, "stat", {}).json()["result"]["structuredContent"]


def steps(events):
    return [message["params"]["progress"] for _, message in events if "params" in message]


def test_b43_interleaved_streams_are_resumed_apart():
    """Two calls and the session's stream at once; one connection dies behind its second event."""
    with hosted() as (port, _), Http(port) as peer, Http(port) as b, Http(port) as listen:
        sid = session(peer)
        other = session(peer)
        listen.send("GET", sid=sid).head()
        a = Http(port).call(sid, "progress", {"n": 40, "gapms": 10}, "a")
        b.call(sid, "progress", {"n": 40, "gapms": 10}, "b").head()
        a.head()
        first, _ = a.event()
        second, _ = a.event()
        a.reset()
        assert steps(b.events()) == list(range(1, 41))
        for bad in ("unknown", f"{second}0000", second.replace(".", "-"), "%00", "x" * 5000):
            assert peer.send("GET", sid=sid, last_event_id=bad).body() and peer.status == 400
        assert peer.send("GET", sid=other, last_event_id=second).body() and peer.status == 400
        assert peer.send("GET", sid="0" * 48, last_event_id=second).body() and peer.status == 404
        with Http(port) as back:
            assert back.send("GET", sid=sid, last_event_id=second).head() == 200
            assert steps(back.events()) == list(range(3, 41))
        # twice at the same time behind the end: each gets what followed its id, and the answer
        with Http(port) as one, Http(port) as two:
            one.send("GET", sid=sid, last_event_id=second)
            two.send("GET", sid=sid, last_event_id=first)
            one.head(), two.head()
            for got, start in ((one.events(), 3), (two.events(), 2)):
                assert steps(got) == list(range(start, 41))
                assert got[-1][1]["id"] == "a" and {m.get("id", "a") for _, m in got} == {"a"}


def test_b43_b76_a_client_that_is_killed_comes_back_for_its_answer():
    """SIGKILL in the middle of a stream; a new process of the client resumes where the old one was."""
    program = """
import socket, sys, time
sock = socket.create_connection(("127.0.0.1", int(sys.argv[1])))
sock.sendall(sys.stdin.buffer.read())
got = b""
while got.count(b"event: message") < 3:
    got += sock.recv(65536)
sys.stdout.buffer.write(got)
sys.stdout.flush()
time.sleep(60)
"""
    with hosted() as (port, _), Http(port) as peer:
        sid = session(peer)

        class Recorded(Http):
            def __init__(self):
                self.port, self.sent = port, b""
                self.sock = self

            def sendall(self, data):
                self.sent += data

        raw = Recorded()
        raw.call(sid, "progress", {"n": 30, "gapms": 20}, 7)
        child = subprocess.Popen(
            [sys.executable, "-c", program, str(port)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        try:
            child.stdin.write(raw.sent)
            child.stdin.close()
            seen = b""
            while seen.count(b"event: message") < 3:
                piece = os.read(child.stdout.fileno(), 65536)
                assert piece
                seen += piece
        finally:
            child.send_signal(signal.SIGKILL)
            child.wait(WAIT)
            child.stdout.close()
        last = [row[4:].decode() for row in seen.split(b"\n") if row.startswith(b"id: ")][-1]
        done = seen.count(b"event: message")
        with Http(port) as back:
            assert back.send("GET", sid=sid, last_event_id=last).head() == 200
            got = back.events()
        assert steps(got) == list(range(done + 1, 31)) and got[-1][1]["id"] == 7


def test_b44_a_stream_that_is_silently_cut_is_taken_over():
    """No FIN, nobody reads: each reconnect is accepted, one stream gets the news, calls go on."""
    with hosted() as (port, _), Http(port) as peer:
        sid = session(peer)
        with contextlib.ExitStack() as stack:
            for _ in range(12):
                stream = stack.enter_context(Http(port))
                assert stream.send("GET", sid=sid).head() == 200
                assert peer.call(sid, "echo", {"text": "on"}).json()["result"]["content"][0]["text"] == "on"


def test_b45_streams_that_come_and_go_do_not_disturb_calls():
    with hosted() as (port, _), Http(port) as peer:
        sid = session(peer)
        for n in range(100):
            stream = Http(port).send("GET", sid=sid)
            if n % 3:
                assert stream.head() == 200
            (stream.reset if n % 2 else stream.close)()
            assert peer.call(sid, "echo", {"text": str(n)}, n).json()["id"] == n
        assert stat(port, sid)["fds"] < 60


def test_b41_nothing_on_the_way_may_hold_events_back():
    with hosted() as (port, _), Http(port) as peer:
        sid = session(peer)
        peer.call(sid, "progress", {"n": 5, "gapms": 100}, accept_encoding="gzip, br").head()
        assert peer.fields["cache-control"] == "no-cache, no-transform"
        assert peer.fields["x-accel-buffering"] == "no"
        assert peer.fields["content-type"] == "text/event-stream"
        assert not {"content-length", "content-encoding"} & set(peer.fields)
        assert [peer.event()[1]["params"]["progress"] for _ in range(5)] == [1, 2, 3, 4, 5]
        assert "result" in peer.event()[1] and peer.event() is None


def test_b39_silence_is_filled_with_comments():
    """(a) and (c): a stream, and a call that is quiet."""
    with hosted("--sse-keep-alive", "0.2") as (port, _), Http(port) as peer, Http(port) as stream:
        sid = session(peer)
        stream.send("GET", sid=sid).head()
        assert stream.chunk().endswith(b"\ndata: \n\n")
        assert [stream.chunk() for _ in range(3)] == [b":\n\n"] * 3
        peer.call(sid, "sleep", {"ms": 2500}).head()
        chunks = [peer.chunk() for _ in range(4)]
        assert chunks[1:] == [b":\n\n"] * 3
        assert peer.events()[-1][1]["result"]["content"][0]["text"] == "finished"


@pytest.mark.parametrize("accept", ["application/json", "application/json, text/event-stream"])
def test_b76_a_reset_cancels_nothing_in_the_old_era(tmp_path, accept):
    record = tmp_path / "record"
    with hosted("--resume-after", "0.1") as (port, _), Http(port) as peer:
        sid = session(peer)
        call = Http(port).call(sid, "sleep", {"ms": 700, "record": str(record)}, accept=accept)
        time.sleep(0.1)
        last = None
        if "event" in accept:
            call.head()
            last = call.chunk().decode().split("\n")[0][4:]
        call.reset()
        for _ in range(100):
            if record.exists():
                break
            time.sleep(0.05)
        assert record.read_text() == "finished\n"
        if last:
            with Http(port) as back:
                assert back.send("GET", sid=sid, last_event_id=last).head() == 200
                assert back.events()[-1][1]["result"]["content"][0]["text"] == "finished"
        assert peer.call(sid, "echo", {"text": "on"}).json()["result"]


def test_b76_b81_messages_after_the_disconnect_hurt_nobody():
    """1,000 notes and a failure after the client is gone, with and without a way back."""
    for options in ((), ("--no-resume",)):
        with hosted(*options) as (port, _), Http(port) as peer:
            sid = session(peer)
            for n in range(20):
                away = Http(port).call(sid, "progress", {"n": 1000, "gapms": 0.01}, f"p{n}")
                if n % 2:
                    away.head(), away.event()
                away.reset()
                away = Http(port).call(sid, "boom", {"kind": "object"}, f"b{n}")
                away.reset()
            assert peer.call(sid, "echo", {"text": "on"}).json()["result"]
            for _ in range(100):
                if stat(port, sid)["tasks"] <= 5:
                    break
                time.sleep(0.05)
            assert stat(port, sid)["tasks"] <= 5


def test_b47_a_long_call_outlives_the_idle_limit_and_lost_sessions_do_not():
    """(a), (b), (c) at once."""
    with contextlib.ExitStack() as stack:
        port, _ = stack.enter_context(hosted("--session-idle-timeout", "0.5", "--resume-after", "9"))
        peer, busy, stream = [stack.enter_context(Http(port)) for _ in range(3)]
        sids = [session(peer) for _ in range(100)]
        running, listening = session(busy), session(stream)
        busy.call(running, "sleep", {"ms": 2000})
        stream.send("GET", sid=listening).head()
        assert busy.json()["result"]["content"][0]["text"] == "finished"
        assert peer.call(listening, "echo", {"text": "on"}).json()["result"]
        for sid in sids:
            assert peer.call(sid, "echo", {"text": "x"}).json()["error"] and peer.status == 404


def test_b64_delete_ends_everything_once():
    with hosted() as (port, _), Http(port) as peer, Http(port) as stream, Http(port) as call:
        sid = session(peer)
        stream.send("GET", sid=sid).head()
        call.call(sid, "progress", {"n": 10_000, "gapms": 10}).head()
        last, _ = call.event()
        assert peer.send("DELETE", sid=sid).head() == 204
        assert stream.events() == []
        assert not any("result" in message for _, message in call.events())
        for method in ("DELETE", "GET"):
            assert peer.send(method, sid=sid, last_event_id=last).body() and peer.status == 404
        assert peer.send("DELETE", sid="0" * 48).body() and peer.status == 404


def test_shutdown_ends_streams_whole():
    """SIGINT with a GET stream, a polled call and a running one: hosted() sees the exit status."""
    with hosted("--drain-timeout", "0.3") as (port, _), Http(port) as peer:
        sid = session(peer)
        stream, call = Http(port).send("GET", sid=sid), Http(port)
        stream.head()
        call.call(sid, "progress", {"n": 10_000, "gapms": 10}).head()
        assert call.event()
    assert stream.events() == []
    with contextlib.suppress(ConnectionError, ValueError):
        assert not any("result" in message for _, message in call.events())
    stream.close()
    call.close()
