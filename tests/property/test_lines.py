"""The framer gives the same lines at any split of any stream, and they are the model's (B05, B10, B11)."""

import itertools

from hypothesis import given
from hypothesis import strategies as st
from model import lines as model

from headrace.wire import LineFramer, LineTooLong

PIECES = st.sampled_from(
    [
        b"\n",
        b"\r\n",
        b"\r",
        b" ",
        b"\t",
        b"a",
        b"{}",
        b"\xef\xbb\xbf",
        b"\xef",
        b"\xbb",
        b"12345678",
        b"x" * 40,
        b"\x00",
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)
LIMITS = st.sampled_from([1, 2, 7, 8, 9, 40, 1000])


def plain(found):
    return [model.TOO_LONG if isinstance(line, LineTooLong) else line for line in found]


def cut(stream, places):
    ends = [0, *sorted(p % (len(stream) + 1) for p in places), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(ends)]


@given(STREAMS, LIMITS, st.lists(st.integers(0, 2000), max_size=12))
def test_any_split_gives_the_lines_of_the_model(stream, limit, places):
    framer = LineFramer(limit)
    found = []
    for chunk in cut(stream, places):
        found += framer.feed(chunk)
    assert plain(found) == model.complete_lines(stream, limit)
    assert plain(found + framer.finish()) == model.lines(stream, limit)


@given(st.binary(max_size=300), LIMITS)
def test_any_bytes_byte_by_byte(stream, limit):
    framer = LineFramer(limit)
    found = [line for b in stream for line in framer.feed(bytes([b]))]
    assert plain(found + framer.finish()) == model.lines(stream, limit)


@given(STREAMS, LIMITS, st.lists(st.integers(0, 2000), max_size=6))
def test_every_prefix_gives_a_prefix(stream, limit, places):
    """What was given before never depends on what comes later."""
    framer = LineFramer(limit)
    found, fed = [], b""
    for chunk in cut(stream, places):
        found += framer.feed(chunk)
        fed += chunk
        assert plain(found) == model.complete_lines(fed, limit)
