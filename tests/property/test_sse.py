"""SseFramer against the WHATWG algorithm at any split, and the encoder against the decoder."""

import json
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from model import sse as model

from headrace.errors import RemoteProtocolError
from headrace.wire._sse import SseFramer, encode_event

PIECES = st.sampled_from([
    b"\n", b"\n\n", b"\r", b"\r\n", b"\r\n\r\n", b":", b" ", b"data", b"data:", b"data: ", b"data:  x",
    b"event: ", b"event: message", b"event: ping",
    b"id: ", b"id: 1", b"id:", b"retry: ", b"retry: 5", b"99", b"x", b"\0",
    b"\xef\xbb\xbf", b"\xef", b"\xbb", b"\xe2\x80\xa8", b"\xc2\x85", b"y" * 70, b"dat", b"foo: 1",
    b"data: {}\n\n",
])  # fmt: skip
SEPARATORS = {b"\xe2\x80\xa8": rb"\u2028", b"\xe2\x80\xa9": rb"\u2029", b"\xc2\x85": rb"\u0085"}
STREAMS = st.lists(PIECES, max_size=30).map(b"".join)
LIMITS = st.sampled_from([1, 5, 80, 1000])


def by_framer(parts, limit):
    framer = SseFramer(limit)
    events = []
    try:
        for part in parts:
            events += [(e.event.encode(), e.data, (e.id or "").encode()) for e in framer.feed(part)]
    except RemoteProtocolError:
        return ("too large",)
    return (events, (framer.last_event_id or "").encode(), framer.retry_ms)


def by_model(stream, limit):
    def text(raw):  # as the Python attributes show it
        return raw.decode("utf-8", "replace").encode()

    try:
        events, last, retry = model.interpret(stream, limit)
    except model.TooLarge:
        return ("too large",)
    return ([(text(name), data, text(i)) for name, data, i in events], text(last), retry)


@given(STREAMS, LIMITS, st.lists(st.integers(0, 3000), max_size=10))
def test_b35_any_split_gives_the_events_of_the_model(stream, limit, cuts):
    want = by_model(stream, limit)
    ends = [0, *sorted(c % (len(stream) + 1) for c in cuts), len(stream)]
    assert by_framer([stream], limit) == want
    assert by_framer([stream[a:b] for a, b in pairwise(ends)], limit) == want
    assert by_framer([stream[i : i + 1] for i in range(len(stream))], limit) == want


@given(st.recursive(st.text() | st.sampled_from("\u2028\u2029\u0085é—\u2027"), st.lists, max_leaves=8))
def test_b34_what_is_encoded_decodes_equal(value):
    data = json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")
    (event,) = SseFramer().feed(encode_event(data))
    assert json.loads(event.data) == value
    assert not any(mark.encode() in event.data for mark in "\u2028\u2029\u0085")


@given(st.lists(PIECES, max_size=12).map(b"".join) | st.binary(max_size=60))
def test_b37_any_data_comes_back_with_lf(data):
    (event,) = SseFramer().feed(encode_event(data))
    plain = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    for raw, sent in SEPARATORS.items():
        plain = plain.replace(raw, sent)
    assert event.data == plain
