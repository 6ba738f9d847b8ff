"""Section 1 of the field faults: frames on standard input and output, end to end."""

import json
import socket

import pytest

from field.child import (
    INITED,
    META,
    Child,
    call,
    head,
    hosted,
    init,
    line,
    peak_rss,
    ping,
    read_answer,
    rss,
)

MIB = 1 << 20
TEXT = "é€😀𝄞"


def test_b02_line_ends():
    with Child(ready=False) as child:
        child.send(init(1).rstrip() + b"\r\n", b'{"jsonrpc":"2.0","id":2,\r"method":"ping"}\n')
        child.answer(1)
        assert child.answer(2)["result"] == {}
    assert not any(b"\r" in raw for raw in child.lines)
    assert len(child.lines) == 2


def test_b03_blank_lines():
    with Child(ready=False) as child:
        child.send(b"\n", b"\r\n", b"  \t\n", init(1))
        child.answer(1)
        child.alive()
        assert len(child.lines) == 1
    assert child.log == b"a stray line at import\n"


@pytest.mark.parametrize("bad", [b"\xff\xfe", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"])
def test_b04_bad_bytes(bad):
    with Child() as child:
        framed = call(7, "echo", {"text": "@"}).replace(b"@", bad)
        child.send(bad + b"\n", framed, ping(8), framed, ping(9))
        child.answer(8)
        child.answer(9)
        child.alive()
        for message in child.messages():
            assert message.get("result") == {} or message["error"]["code"] == -32700
        assert len(child.lines) <= 5
        assert b"\xef\xbf\xbd" not in b"".join(child.lines)


def test_b05_split_characters():
    with Child() as child:
        raw = call(2, "echo", {"text": TEXT})
        child.send(*(raw[at : at + 1] for at in range(len(raw))))
        assert child.text(2) == TEXT


def test_b05_split_characters_http():
    params = {"name": "echo", "arguments": {"text": TEXT}, "_meta": META}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}, ensure_ascii=False)
    with hosted() as (port, _), socket.create_connection(("127.0.0.1", port), 10) as peer:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        peer.sendall(head("tools/call", params, "Transfer-Encoding: chunked"))
        for byte in body.encode():
            peer.sendall(b"1\r\n%c\r\n" % byte)
        peer.sendall(b"0\r\n\r\n")
        with peer.makefile("rb") as stream:
            status, answer = read_answer(stream)
    assert status == 200
    assert json.loads(answer)["result"]["content"][0]["text"] == TEXT


def test_b06_byte_order_mark():
    bom = b"\xef\xbb\xbf"
    with Child(ready=False) as child:
        child.send(bom + init(1), INITED)
        assert "result" in child.answer(1)
        child.send(bom + ping(2), bom + b"\n", ping(3))
        child.answer(3)
        child.alive()
        assert child.find(2) is None or "error" in child.find(2)
    assert not any(raw.startswith(bom) for raw in child.lines)


def test_b07_parse_error_once():
    with Child() as child:
        child.send(b"not json\n")
        child.alive()
        assert len(child.lines) <= 1
        for message in child.messages():
            assert message["error"]["code"] == -32700
            assert message.get("id") is None


def test_b07_errors_are_not_answered():
    with Child() as child:
        child.send(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"x"}}\n' * 1000)
        child.alive()
        assert child.lines == []


def test_b08_prints_go_to_stderr():
    with Child() as child:
        child.send(call(1, "print_", {"s": "hello\nworld\n"}), call(2, "spawn", {"argv": ["echo", "from a child"]}))
        assert child.text(1) == "printed"
        assert child.text(2) == "0"
        child.send(call(3, "output_of", {"argv": ["cat"]}), call(4, "read_input"))
        assert child.text(3) == ""  # neither children nor handlers read the protocol's input
        assert child.text(4) == ""
        child.alive()
        assert len(child.lines) == 4
    assert b"a stray line at import\n" in child.log
    assert child.log.count(b"hello\nworld\n") == 3
    assert b"from a child\n" in child.log


@pytest.mark.parametrize("size", [65_535, 65_536, 65_537, 131_072, 16 * MIB])
def test_b09_frame_sizes(size):
    with Child() as child:
        empty = len(call(1, "echo", {"text": ""}))
        text = "x" * (size - empty)
        frame = call(1, "echo", {"text": text})
        assert len(frame) == size
        child.send(frame)
        assert child.text(1) == text
        # And an answer of exactly this size.
        extra = len(child.lines[0]) + 1 - len(text)
        child.send(call(1, "big", {"n": size - extra}))
        child.count(2)
        assert len(child.lines[1]) + 1 == size


def test_b09_two_frames_end_at_64_kib():
    with Child() as child:
        empty = len(call(1, "length", {"text": ""}))
        first = call(1, "length", {"text": "x" * (65_536 - empty)})
        assert len(first) == 65_536
        child.send(first + ping(2))
        assert child.text(1) == str(65_536 - empty)
        child.answer(2)


def test_b10_endless_line():
    """a: memory is bounded, one error, and the line after it is served."""
    with Child("--max-message-bytes", str(MIB)) as child:
        child.alive()
        before = rss(child.pid)
        child.send(*[b"a" * MIB] * 64, b"\n", ping(1))
        child.answer(1)
        assert peak_rss(child.pid) - before < 4 * MIB
        errors = [message for message in child.messages() if "error" in message]
        assert len(errors) == 1
        assert errors[0].get("id") is None


def test_b10_near_the_limit():
    """b: a frame just below the limit shares a write with the next one."""
    with Child("--max-message-bytes", "100000") as child:
        empty = len(call(1, "length", {"text": ""}))
        frame = call(1, "length", {"text": "x" * (100_000 - empty)})
        child.send(frame + ping(2))
        assert "result" in child.answer(1)
        child.answer(2)
        assert len(child.lines) == 2


def test_b10_memory_after_a_large_frame():
    """d: the buffer of a large frame is given back."""
    with Child() as child:
        child.send(call(0, "length", {"text": "x"}))
        child.answer(0)
        before = rss(child.pid)
        child.send(call(1, "length", {"text": "x" * (48 * MIB)}), line(id=2, method="ping", params={"pad": "y" * MIB}))
        assert child.text(1) == str(48 * MIB)
        child.answer(2)
        child.until(lambda: rss(child.pid) - before < 8 * MIB)


def test_b11_many_in_one_and_one_in_many():
    with Child() as child:
        child.send(b"".join(ping(n) for n in range(500)))
        assert [message["id"] for message in child.count(500)] == list(range(500))
        long = line(id="cut", method="ping", params={"pad": "x" * 150})
        assert len(long) > 200
        child.send(*(long[at : at + 1] for at in range(len(long))))
        child.answer("cut")
        assert len(child.lines) == 501


def test_b12_whole_line_without_newline():
    child = Child()
    child.send(ping(2).rstrip())
    assert child.close() == 0
    assert child.messages() == [{"jsonrpc": "2.0", "id": 2, "result": {}}]


def test_b12_cut_line():
    child = Child()
    child.send(b'{"jsonrpc":"2.0","id":2,"meth')
    assert child.close() == 0
    assert not any("result" in message for message in child.messages())
    assert b"Traceback" not in child.log


def test_b13_content_length_framing():
    with Child(ready=False) as child:
        child.send(b"Content-Length: 52\r\n\r\n" + init(1))
        assert "result" in child.answer(1)
        child.alive()
        assert sum("error" in message for message in child.messages()) <= 1


def test_b14_pretty_printed():
    with Child() as child:
        pretty = json.dumps(json.loads(ping(1)), indent=2).encode() + b"\n"
        child.send(pretty)
        child.alive()
        assert not any("result" in message for message in child.messages())
        child.lines.clear()
        child.send(call(2, "echo", {"text": "a\nb\r\nc"}), call(3, "json", {"v": {"k": '{\n "x": 1\n}'}}))
        assert child.text(2) == "a\nb\r\nc"
        assert child.answer(3)["result"]["structuredContent"] == {"v": {"k": '{\n "x": 1\n}'}}
        assert len(child.lines) == 2
