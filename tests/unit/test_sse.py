"""SseFramer and the event encoder: every vector whole, byte by byte and with a stream going on behind it."""

import json

import pytest
from vectors import load

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.wire._sse import SseEvent, SseFramer, encode_comment, encode_event

VECTORS = load("sse")
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)


def decoded(text):
    return text.decode("utf-8", "replace") if text else None


def expected(vector):
    names, data, ids = vector.all("event"), vector.all("data"), vector.all("id")
    return [
        SseEvent(name.decode(), value, decoded(i)) for name, value, i in zip(names, data, ids, strict=True)
    ]


def run(vector, pieces):
    framer = SseFramer(int(vector.get("limit") or 1 << 20))
    found, failed = [], False
    for piece in pieces:
        try:
            found += framer.feed(piece)
        except RemoteProtocolError:
            failed = True
            break
    return framer, found, failed


@by_name
@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_in_pieces(vector, size):
    data = vector.get("in")
    framer, found, failed = run(vector, [data[i : i + size] for i in range(0, len(data), size)])
    assert failed == (vector.get("error") is not None)
    if size == 1 or not failed:
        assert found == expected(vector)
    if not failed:
        assert framer.last_event_id == decoded(vector.get("last"))
        retry = vector.get("retry")
        assert framer.retry_ms == (None if retry is None else int(retry))


@by_name
def test_whole(vector):
    framer, found, failed = run(vector, [vector.get("in")])
    assert failed == (vector.get("error") is not None)
    if not failed:
        assert found == expected(vector)
        assert framer.last_event_id == decoded(vector.get("last"))


def between_blocks(vector):
    return vector.get("error") is None and vector.get("in").endswith((b"\n\n", b"\r\r", b"\r\n\r\n"))


@pytest.mark.parametrize("vector", list(filter(between_blocks, VECTORS)), ids=lambda v: v.name)
def test_with_events_behind(vector):
    """What follows is read as if it had been the start of a stream."""
    data = vector.get("in")
    _, found, _ = run(vector, [data + b"data: more\n\n"])
    assert found[:-1] == expected(vector)
    assert found[-1].data == b"more"


def test_b34_both_spellings_decode_equal():
    raw = '{"t":"a\u2028b\u2029c\u0085d"}'.encode()
    sent = encode_event(raw)
    assert raw not in sent
    assert rb'{"t":"a\u2028b\u2029c\u0085d"}' in sent
    (one,) = SseFramer().feed(sent)
    (two,) = SseFramer().feed(b"data: " + raw + b"\n\n")
    assert json.loads(one.data) == json.loads(two.data) == json.loads(raw)


@pytest.mark.parametrize(
    "text",
    ["\u2028", "\u2028\u2028", "\u0085" * 50, "a\u2029", "\u2029a", "\u2027\u202a\u0084\u0086",
     "é—\u00a0\u2003日本", "\u2028é\u0085\u2029" * 20, "", "x" * 5000 + "\u2028"],
)  # fmt: skip
def test_b34_escape(text):
    data = json.dumps({"t": text}, ensure_ascii=False).encode()
    (event,) = SseFramer().feed(encode_event(data))
    plain = event.data.decode()
    assert json.loads(plain)["t"] == text
    assert not set(plain) & {"\u2028", "\u2029", "\u0085"}


def test_b34_truncated_separators_stay():
    for tail in (b"\xe2", b"\xe2\x80", b"\xc2", b"\xe2\x80\xa7"):
        assert encode_event(tail) == b"event: message\ndata: " + tail + b"\n\n"


def test_b37_encoder_names_the_event():
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"{}", event=None) == b"data: {}\n\n"
    assert encode_event(b"/m?s=1", event="endpoint") == b"event: endpoint\ndata: /m?s=1\n\n"


def test_b38_priming_event():
    sent = encode_event(b"", event=None, id="0", retry=50)
    assert sent == b"id: 0\nretry: 50\ndata: \n\n"
    framer = SseFramer()
    assert framer.feed(sent) == [SseEvent("message", b"", "0")]
    assert (framer.last_event_id, framer.retry_ms) == ("0", 50)


@pytest.mark.parametrize("data", [b"a\nb", b"a\r\nb", b"a\rb"])
def test_b37_encoder_splits_lines(data):
    assert encode_event(data, event=None) == b"data: a\ndata: b\n\n"


def test_b39_comments():
    assert encode_comment() == b":\n\n"
    assert encode_comment("ping") == b": ping\n\n"
    framer = SseFramer()
    assert framer.feed((encode_comment() + encode_comment("ping")) * 1000) == []
    with pytest.raises(LocalProtocolError):
        encode_comment("a\nb")


@pytest.mark.parametrize(
    "wrong", [{"event": "a\nb"}, {"event": "a\r"}, {"id": "a\nb"}, {"id": "\0"}, {"retry": -1}]
)
def test_encoder_refuses_injection(wrong):
    with pytest.raises(LocalProtocolError):
        encode_event(b"{}", **wrong)


def test_b40_restart_keeps_the_id_and_drops_the_rest():
    framer = SseFramer()
    framer.feed(b"id: 7\ndata: x\n\nid: 8\ndata: half")
    framer.restart()
    assert framer.feed(b"\xef\xbb\xbfdata: y\n\n") == [SseEvent("message", b"y", "7")]
    framer.restart(keep_id=False)
    assert framer.last_event_id is None
    assert framer.feed(b"data: z\n\n") == [SseEvent("message", b"z")]


def test_large_event_in_pieces_and_after_it():
    framer = SseFramer()
    body = b"x" * 3_000_000
    stream = b"data: " + body + b"\n\n" + b"data: small\n\n"
    found = []
    for i in range(0, len(stream), 65536):
        found += framer.feed(stream[i : i + 65536])
    assert [e.data for e in found] == [body, b"small"]


def test_se08_limit_counts_joined_data():
    framer = SseFramer(5)
    assert framer.feed(b"data: ab\ndata: cd\n\n") == [SseEvent("message", b"ab\ncd")]
    with pytest.raises(RemoteProtocolError, match="limit"):
        framer.feed(b"data: ab\ndata: cde\n\n")


def test_limit_must_be_positive():
    with pytest.raises(ValueError, match="positive"):
        SseFramer(0)


def test_events_compare_by_value():
    assert SseEvent("message", b"a") == SseEvent("message", b"a", None)
    assert SseEvent("message", b"a") != SseEvent("message", b"a", "1")
    assert SseEvent("message", b"a") != 1
    assert repr(SseEvent("ping", b"a", "1")) == "SseEvent('ping', b'a', '1')"
