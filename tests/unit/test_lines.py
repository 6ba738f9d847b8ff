"""LineFramer: every vector whole, byte by byte and with trailing data; limits; memory."""

import json
import os
import tracemalloc
from array import array
from pathlib import Path

import pytest
from model import lines as model
from vectors import load

from headrace.errors import HeadraceError, LocalProtocolError, RemoteProtocolError, UsageError
from headrace.wire import LineFramer, LineTooLong

VECTORS = load("lines")
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)


def limit(vector):
    return int(vector.get("limit") or 64)


def expected(vector):
    return [
        value if key == "line" else model.TOO_LONG for key, value in vector.fields if key in ("line", "long")
    ]


def plain(found):
    """The list of a framer, with the model's sign for a line too long."""
    return [model.TOO_LONG if isinstance(line, LineTooLong) else line for line in found]


def feed_all(max_line_bytes, chunks):
    framer = LineFramer(max_line_bytes)
    found = [line for chunk in chunks for line in framer.feed(chunk)]
    return plain(found + framer.finish())


@by_name
def test_vector(vector):
    assert feed_all(limit(vector), vector.all("in")) == expected(vector)


@by_name
def test_vector_whole(vector):
    assert feed_all(limit(vector), [b"".join(vector.all("in"))]) == expected(vector)


@by_name
def test_vector_byte_by_byte_b11(vector):
    stream = b"".join(vector.all("in"))
    assert feed_all(limit(vector), [bytes([b]) for b in stream]) == expected(vector)


@by_name
def test_vector_queued_bytes(vector):
    """Chunks that wait behind one that is not used up."""
    stream = b"".join(vector.all("in"))
    framer = LineFramer(limit(vector))
    found = framer.feed(*(bytes([b]) for b in stream))
    assert plain(found + framer.finish()) == expected(vector)
    framer = LineFramer(limit(vector))
    found = framer.feed(*vector.all("in"), b"") + framer.feed() + framer.finish()
    assert plain(found) == expected(vector)


@by_name
def test_vector_on_the_model(vector):
    assert model.lines(b"".join(vector.all("in")), limit(vector)) == expected(vector)


@by_name
def test_vector_with_trailing_data(vector):
    """What follows changes nothing about the lines before it."""
    stream = b"".join(vector.all("in"))
    if not stream.endswith(b"\n"):
        stream += b"\n"
    framer = LineFramer(limit(vector))
    assert plain(framer.feed(stream + b"tail")) == expected(vector)
    assert framer.feed(b" end\n") == [b"tail end"]


def test_b10_said_as_soon_as_the_limit_is_passed():
    framer = LineFramer(100)
    assert framer.feed(b"x" * 100) == []
    (marker,) = framer.feed(b"x")
    assert isinstance(marker, RemoteProtocolError)
    assert (str(marker), marker.http_status) == ("message larger than 100 bytes", 413)
    assert framer.feed(b"x" * 1000) == []
    assert framer.feed(b"x\nnext\n") == [b"next"]


def _resident():
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


needs_plain_memory = pytest.mark.skipif(
    not Path("/proc/self/status").exists() or "asan" in os.environ.get("LD_PRELOAD", ""),
    reason="needs /proc, and an allocator that gives back at once what is freed (AddressSanitizer's does not)",
)


@needs_plain_memory
def test_b10_endless_line_is_bounded():
    """256 MiB without a newline: memory grows by at most the limit and 2 MiB, one report."""
    bound = 4 * 1024 * 1024
    framer = LineFramer(bound)
    chunk = b"a" * 65536
    found = list(framer.feed(chunk))
    before = peak = _resident()
    for _ in range(4096):
        found += framer.feed(chunk)
        peak = max(peak, _resident())
    assert len(found) == 1
    assert peak - before <= bound + 2 * 1024 * 1024


@needs_plain_memory
def test_b10_large_line_is_given_back():
    framer = LineFramer(128 * 1024 * 1024)
    before = _resident()
    chunk = b"a" * 65536
    for _ in range(1024):
        assert framer.feed(chunk) == []
    during = _resident()
    (line,) = framer.feed(b"\n")
    assert len(line) == 64 * 1024 * 1024
    del line
    assert during - before >= 60 * 1024 * 1024
    assert _resident() - before <= 8 * 1024 * 1024


def test_b10_chunks_are_not_kept():
    framer = LineFramer(1024)
    framer.feed(b"warm\n" * 10)
    tracemalloc.start()
    try:
        for _ in range(100):
            framer.feed(b"x" * 100 + b"\n" + b" " * 100_000 + b"\n")
        current, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert current < 50_000


def test_b10_near_limit_line_shares_a_chunk():
    frame = json.dumps({"x": "y" * 1000}).encode()
    framer = LineFramer(len(frame))
    assert framer.feed(frame + b"\n" + b"z" * 60 + b"\n") == [frame, b"z" * 60]
    assert framer.feed(frame[:500]) == []
    assert framer.feed(frame[500:] + b"\n" + b"z" * 60 + b"\n") == [frame, b"z" * 60]


def test_b11_many_in_one_and_one_in_many():
    ping = b'{"jsonrpc":"2.0","id":%d,"method":"ping"}'
    framer = LineFramer(1024)
    assert framer.feed(b"".join(ping % i + b"\n" for i in range(500))) == [ping % i for i in range(500)]
    long = b'{"pad":"' + b"p" * 190 + b'"}\n'
    found = [line for b in long for line in framer.feed(bytes([b]))]
    assert found == [long[:-1]]


def test_b12_finish():
    framer = LineFramer(64)
    assert framer.feed(b"a\n" + b"b") == [b"a"]
    assert framer.finish() == [b"b"]
    assert framer.finish() == []
    with pytest.raises(LocalProtocolError, match="after the end"):
        framer.feed(b"c\n")


def test_b12_finish_inside_a_long_line_says_nothing_more():
    framer = LineFramer(4)
    assert len(framer.feed(b"123456")) == 1
    assert framer.finish() == []


def test_empty_chunks_change_nothing():
    framer = LineFramer(64)
    assert framer.feed(b"") == framer.feed(b"") == []
    assert framer.feed(b"\xef") == framer.feed(b"") == framer.feed(b"\xbb\xbfa") == []
    assert framer.feed(b"\n") == [b"a"]


@pytest.mark.parametrize("make", [bytearray, memoryview, lambda b: array("B", b)])
def test_other_buffers_are_copied(make):
    source = make(b"one\ntw")
    framer = LineFramer(64)
    assert framer.feed(source) == [b"one"]
    if isinstance(source, bytearray):
        source[:] = b"xxxxxx"
    assert framer.feed(b"o\n") == [b"two"]


@pytest.mark.parametrize("wrong", ["a\n", 5, None])
def test_only_bytes_like(wrong):
    framer = LineFramer(64)
    with pytest.raises(TypeError):
        framer.feed(b"not taken\n", wrong)
    assert framer.feed(b"next\n") == [b"next"]


@pytest.mark.parametrize("bound", [0, -1, 2**63])
def test_limit_is_checked(bound):
    with pytest.raises(UsageError, match="max_line_bytes"):
        LineFramer(bound)


def test_largest_limit():
    assert LineFramer(2**62 - 1).feed(b"a\n") == [b"a"]


def test_marker_is_an_error_of_the_tree():
    assert issubclass(LineTooLong, RemoteProtocolError)
    assert issubclass(LineTooLong, HeadraceError)
