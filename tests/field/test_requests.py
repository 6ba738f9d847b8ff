"""Field faults about requests: ids, batches, order, back-pressure, blocking and failing tools, end to end."""

import json
import signal
import socket
import threading
import time

import pytest

from field.child import (
    INITED,
    Child,
    call,
    hosted,
    init,
    line,
    peak_rss,
    ping,
    post,
    read_answer,
    rss,
)

MIB = 1 << 20


def test_b70_in_flight_is_bounded():
    """Calls beyond the bound wait outside, memory stays flat, and all are answered in the end."""
    with Child("--max-in-flight", "64", "--max-parked", "16", reading=False) as child:
        before = rss(child.pid)
        frames = [call(n, "sleep", {"ms": 5, "pad": "x" * 1000}) for n in range(5000)]
        child.send(*(b"".join(frames[at : at + 100]) for at in range(0, 5000, 100)))
        child.until(child.written)
        child.read()
        child.count(5000)
        assert sorted(message["id"] for message in child.messages()) == list(range(5000))
        assert peak_rss(child.pid) - before < 16 * MIB
        child.send(call("s", "stat"))
        assert child.answer("s")["result"]["structuredContent"]["peak"] <= 64


def test_b70_reading_stops():
    """Calls that do not end are left in the pipe, and with them their sender."""
    with Child("--max-in-flight", "64", "--max-parked", "16", "--drain-timeout", "0.2") as child:
        before = rss(child.pid)
        child.send(*[call(n, "sleep", {"ms": 600_000, "pad": "x" * 1000}) for n in range(5000)])
        time.sleep(1)  # long enough to take all of them, for one that would
        assert not child.written()
        assert rss(child.pid) - before < 8 * MIB
        assert child.lines == []
        child.signal(signal.SIGTERM)


def test_b70_pings_and_cancels_pass():
    """A connection at its bound still answers pings and obeys cancels."""
    with Child("--max-in-flight", "8", "--max-parked", "8") as child:
        child.send(*(call(n, "sleep", {"ms": 600_000}) for n in range(12)))
        child.send(ping("p"))
        child.answer("p")
        for n in range(12):
            child.send(line(method="notifications/cancelled", params={"requestId": n}))
        child.send(call("after", "echo", {"text": "x"}))
        assert child.text("after") == "x"
        assert len(child.lines) == 2


def test_b70_pipelined_http():
    with hosted() as (port, pid), socket.create_connection(("127.0.0.1", port), 20) as peer:
        before = rss(pid)
        requests = b"".join(post("tools/call", {"name": "echo", "arguments": {"text": str(n)}}, n) for n in range(2000))
        writer = threading.Thread(target=peer.sendall, args=(requests,), daemon=True)
        writer.start()
        with peer.makefile("rb") as stream:
            for n in range(2000):
                status, body = read_answer(stream)
                message = json.loads(body)
                assert (status, message["id"]) == (200, n)
                assert message["result"]["content"][0]["text"] == str(n)
        writer.join(10)
        assert rss(pid) - before < 16 * MIB


IDS = ["1", '"1"', '"01"', "0", '"0"', '""', "-1", '"null"', "9007199254740993", '"a\\u0000b"', '"' + "k" * 4000 + '"']


def test_b71_ids_are_kept():
    """Eleven calls in flight together; each answer carries the very bytes of its id."""
    with Child() as child:
        for n, id in enumerate(IDS):
            frame = call("@", "sleep", {"ms": 200 - 10 * n}) if n % 2 else call("@", "echo", {"text": f"t{n}"})
            child.send(frame.replace(b'"@"', id.encode()))
        child.count(len(IDS))
        for n, id in enumerate(IDS):
            own = [raw for raw in child.lines if b'"id":' + id.encode() + b"," in raw]
            assert len(own) == 1, id
            assert (b'"finished"' if n % 2 else f'"t{n}"'.encode()) in own[0]


BIG_IDS = [
    "1774232524389", "2147483648", "9007199254740993", "9223372036854775807", "18446744073709551615",
    "18446744073709551616", "-9223372036854775809",
]  # fmt: skip


def test_b73_big_ids():
    with Child() as child:
        child.send(*(ping("@").replace(b'"@"', id.encode()) for id in BIG_IDS))
        child.count(len(BIG_IDS))
        assert [raw[len(b'{"jsonrpc":"2.0","id":') :].partition(b",")[0].decode() for raw in child.lines] == BIG_IDS


@pytest.mark.parametrize("id", ["null", "true", "[]", "{}", "1.5", "1.0", "1e0"])
def test_b72_wrong_ids(id):
    """Refused with the error that says so, and never run."""
    with Child() as child:
        child.send(call("@", "print_", {"s": "it ran"}).replace(b'"@"', id.encode()))
        message = child.count(1)[0]
        assert message["error"]["code"] == -32600
        assert message.get("id") is None
        child.alive()
    assert b"it ran" not in child.log


def test_b72_shapes():
    with Child() as child:
        child.send(ping(0))
        assert child.answer(0)["result"] == {}
        child.send(b'{"jsonrpc":"2.0","method":"ping"}\n')  # a notification: silent
        child.send(b'{"jsonrpc":"2.0","id":4,"method":"ping","extra":{"a":[1]}}\n')
        assert child.answer(4)["result"] == {}
        for id, raw in enumerate(
            [
                b'{"jsonrpc":"1.0","id":@,"method":"ping"}',
                b'{"id":@,"method":"ping"}',
                b'{"jsonrpc":"2.0","id":@,"method":"ping","result":{}}',
                b'{"jsonrpc":"2.0","id":@,"method":5}',
            ],
            10,
        ):
            child.send(raw.replace(b"@", str(id).encode()) + b"\n")
            assert child.answer(id)["error"]["code"] == -32600
        # Answers to nothing are dropped.
        child.send(b'{"jsonrpc":"2.0","id":5,"result":{},"error":{"code":1,"message":"x"}}\n')
        child.send(b'{"jsonrpc":"2.0","id":5,"result":{}}\n')
        child.alive()
        assert len(child.lines) == 6


@pytest.mark.parametrize("tool", ["progress", "threaded_progress"])
def test_b78_notes_before_the_answer(tool):
    with Child() as child:
        child.send(call(1, tool, {"n": 1000}, token="t"))
        messages = child.count(1001)
        assert [message["params"]["progress"] for message in messages[:-1]] == list(range(1, 1001))
        assert {message["params"]["progressToken"] for message in messages[:-1]} == {"t"}
        assert messages[-1]["id"] == 1


BATCHES = [b"[]", b"[1]", b"[" + ping(1).strip() + b"]", b"[" + ping(1).strip() + b"," + INITED.strip() + b"]"]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_b83_batches(version):
    """Only 2025-03-26 has batches, where it is offered; else one refusal each, and no part of it runs."""
    with Child(ready=False) as child:
        child.send(init("i", version), INITED)
        batches = child.answer("i")["result"]["protocolVersion"] == "2025-03-26"
        for n, batch in enumerate(BATCHES, 2):
            child.send(batch + b"\n")
            answer = child.count(n)[-1]
            if batches and b"ping" in batch:
                assert answer == [{"jsonrpc": "2.0", "id": 1, "result": {}}]
            elif batches and batch != b"[]":
                assert [each["error"]["code"] for each in answer] == [-32600]
            else:
                assert answer["error"]["code"] == -32600
        child.alive()
        assert len(child.lines) == 1 + len(BATCHES)


def test_b84_errors():
    with Child() as child:
        big = "z" * 100_000
        cases = [
            (-32601, line(id=1, method="foo/bar", params={"x": big})),
            (-32601, line(id=2, method="f" * 5000)),
            (-32602, line(id=3, method="ping", params=[])),
            (-32602, line(id=4, method="ping", params=5)),
            (-32602, line(id=5, method="tools/call", params={"arguments": {}})),
            (-32602, line(id=6, method="tools/call", params={"name": 5})),
            (-32602, line(id=7, method="tools/call", params={"name": big})),
        ]
        for id, (code, frame) in enumerate(cases, 1):
            child.send(frame)
            assert child.answer(id)["error"]["code"] == code, frame[:80]
            assert len(child.lines[-1]) < 1024
        child.send(line(id=20, method="tools/call", params={"name": "stat", "arguments": None}))
        assert "peak" in child.answer(20)["result"]["structuredContent"]
        child.send(line(id=21, method="tools/call", params={"name": "stat", "arguments": [1]}))
        refused = child.answer(21)
        assert "error" in refused or refused["result"]["isError"]
        child.send(line(id=22, method="ping", params=None))
        child.answer(22)
        child.send(line(method="notifications/nobody_knows", params={"x": big}))
        child.alive()
    assert len(child.log) < 2000
    assert b"zzzz" not in child.log


def test_b85_blocking_tools():
    """Pings are answered while threads are blocked, also when there are more calls than threads."""
    with Child("--worker-threads", "4") as child:
        child.send(*(call(n, "block", {"ms": 300}) for n in range(3)))
        child.send(*(ping(f"p{n}") for n in range(20)))
        messages = child.count(23)
        assert [message["id"] for message in messages[:20]] == [f"p{n}" for n in range(20)]
        child.lines.clear()
        child.send(*(call(n, "block", {"ms": 20}) for n in range(40)), ping("late"))
        messages = child.count(41)
        assert "late" in [message["id"] for message in messages[:8]]
        assert {message["id"] for message in messages} == {*range(40), "late"}
        child.send(call("v", "context_variable"))
        assert child.text("v") == "nobody"


KINDS = ["cancelled", "base", "stop", "recursion", "group", "unprintable", "object", "nan", "cycle", "bytes", "other"]


@pytest.mark.parametrize("tool", ["boom", "boom_in_thread"])
def test_b86_failing_handlers(tool):
    """One answer each, with its id and without a secret, and the server goes on."""
    kinds = KINDS if tool == "boom" else ["stop", "base", "exit", "other"]
    with Child() as child:
        for n, kind in enumerate(kinds):
            child.send(call(n, tool, {"kind": kind}))
            message = child.answer(n)
            failed = "error" in message or message["result"].get("isError")
            assert failed or kind == "nan", kind
            assert b"secret" not in child.lines[-1]
            assert b"NaN" not in child.lines[-1]
        child.alive()
        assert len(child.lines) == len(kinds)


def test_b93_large_result_stdio():
    payload = 32 * MIB
    with Child() as child:
        child.send(call(0, "big", {"n": 10}))
        child.answer(0)
        before = rss(child.pid)
        child.send(call(1, "big", {"n": payload}), ping(2))
        assert child.text(1) == "x" * payload
        child.answer(2)
        assert peak_rss(child.pid) - before < 4 * payload


def test_b93_large_result_http():
    """The other connection is served while the large answer goes out."""
    payload = 32 * MIB
    with (
        hosted() as (port, pid),
        socket.create_connection(("127.0.0.1", port), 20) as one,
        socket.create_connection(("127.0.0.1", port), 20) as other,
        one.makefile("rb") as large,
        other.makefile("rb") as small,
    ):
        other.sendall(post("tools/call", {"name": "echo", "arguments": {"text": "a"}}))
        assert read_answer(small)[0] == 200
        before = rss(pid)
        one.sendall(post("tools/call", {"name": "big", "arguments": {"n": payload}}))
        first = large.readline()
        assert b" 200 " in first
        for n in range(20):  # the large answer is not read meanwhile
            other.sendall(post("tools/call", {"name": "echo", "arguments": {"text": str(n)}}, n))
            assert json.loads(read_answer(small)[1])["result"]["content"][0]["text"] == str(n)
        body = b""
        while (row := large.readline()) != b"\r\n":
            if row.lower().startswith(b"content-length"):
                body = row
        answer = json.loads(large.read(int(body.split(b":")[1])))
        assert len(answer["result"]["content"][0]["text"]) == payload
        assert peak_rss(pid) - before < 4 * payload
