"""LengthFramer: every vector whole, byte by byte and with trailing data; limits; memory; random streams."""

import random
import tracemalloc

import pytest
from model import lengths as model
from vectors import load

from headrace.errors import LocalProtocolError, UsageError
from headrace.jsonrpc import PARSE_ERROR
from headrace.wire import BrokenFraming, LengthFramer, LineTooLong, frame_message

VECTORS = load("lengths")
by_name = pytest.mark.parametrize("vector", VECTORS, ids=lambda v: v.name)


def limits(vector):
    return int(vector.get("limit") or 64), int(vector.get("header") or 80), int(vector.get("count") or 8)


def expected(vector):
    signs = {"body": lambda v: v, "long": lambda v: model.TOO_LONG, "broken": bytes.decode}
    return [signs[key](value) for key, value in vector.fields if key in signs]


def plain(found):
    return [
        model.TOO_LONG if isinstance(each, LineTooLong) else str(each) if isinstance(each, BrokenFraming) else each
        for each in found
    ]


def feed_all(bounds, chunks):
    framer = LengthFramer(*bounds)
    found = [each for chunk in chunks for each in framer.feed(chunk)]
    return plain(found + framer.finish())


@by_name
def test_vector(vector):
    assert feed_all(limits(vector), vector.all("in")) == expected(vector)


@by_name
def test_vector_whole(vector):
    assert feed_all(limits(vector), [b"".join(vector.all("in"))]) == expected(vector)


@by_name
def test_vector_byte_by_byte_b11(vector):
    assert feed_all(limits(vector), [bytes([b]) for b in b"".join(vector.all("in"))]) == expected(vector)


@by_name
def test_vector_queued_bytes(vector):
    """Chunks that wait behind one that is not used up."""
    framer = LengthFramer(*limits(vector))
    found = framer.feed(*(bytes([b]) for b in b"".join(vector.all("in"))))
    assert plain(found + framer.finish()) == expected(vector)


@by_name
def test_vector_on_the_model(vector):
    assert model.messages(b"".join(vector.all("in")), *limits(vector)) == expected(vector)


@by_name
def test_vector_with_trailing_data(vector):
    """What follows changes nothing about the messages before it."""
    wanted = expected(vector)
    if wanted and isinstance(wanted[-1], str):
        if "ended" in wanted[-1]:
            return
    else:
        wanted = [*wanted, b"[1]"]
    assert feed_all(limits(vector), [b"".join(vector.all("in")) + frame_message(b"[1]")]) == wanted


def test_random_streams_mean_what_the_model_says():
    """Pieces of headers, right and wrong, cut anywhere."""
    dice = random.Random(7)
    pieces = [
        b"Content-Length: 3\r\n\r\nabc", b"Content-Length: 3\r\n", b"\r\n", b"\n", b"\r", b"X: y\r\n", b"abc", b"Content-",
        b"Length: 1", b"Content-Length: 70\r\n\r\n" + b"z" * 70, b"Content-Type: a; charset=utf-8\r\n", b" ", b":", b"5",
        b"Content-Length:0\r\n\r\n", b"Content-Length: 9\r\n\r\n", b"\x00", b"Content-Type: a; charset=x\r\n",
    ]  # fmt: skip
    for _ in range(3000):
        stream = b"".join(dice.choices(pieces, k=dice.randint(1, 7)))
        cuts = sorted(dice.choices(range(len(stream) + 1), k=dice.randint(0, 4)))
        chunks = [stream[a:b] for a, b in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
        assert feed_all((64, 60, 3), chunks) == model.messages(stream, 64, 60, 3), (stream, cuts)


def test_what_an_error_says():
    framer = LengthFramer(4)
    (long,) = framer.feed(b"Content-Length: 5\r\n\r\n")
    assert isinstance(long, LineTooLong) and str(long) == "message larger than 4 bytes" and long.http_status == 413
    assert framer.feed(b"12345") == []
    (broken,) = framer.feed(b"?\r\n")
    assert broken.rpc_code == PARSE_ERROR
    assert framer.feed(frame_message(b"{}")) == framer.finish() == []
    with pytest.raises(LocalProtocolError):
        framer.feed(b"x")


@pytest.mark.parametrize("bounds", [(0,), (1, 0), (1, 1, 0), (-1,)])
def test_limits_are_positive(bounds):
    with pytest.raises(UsageError, match="positive"):
        LengthFramer(*bounds)


def test_b10_what_is_announced_is_not_allocated():
    """A header of 100 MB and no body costs nothing; a body that comes costs itself once."""
    framer = LengthFramer(128 << 20)
    tracemalloc.start()
    try:
        framer.feed(b"Content-Length: 100000000\r\n\r\n", b"x" * 1000)
        framer.feed(b"y")
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()
    large = bytes(range(256)) * 4096
    framer = LengthFramer(1 << 20)
    stream = frame_message(large)
    found = [each for at in range(0, len(stream), 4096) for each in framer.feed(stream[at : at + 4096])]
    assert found == [large]


def test_anything_with_a_buffer_is_read():
    framer = LengthFramer(64)
    assert framer.feed(bytearray(b"Content-Length: 2\r\n\r\n"), memoryview(b"{}")) == [b"{}"]
