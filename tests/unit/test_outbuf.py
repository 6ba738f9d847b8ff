"""The output buffer by what Python sees of it; the rest is covered through links and tools."""

import pytest

from headrace.wire._outbuf import Outbuf, live_bytes


def test_what_is_written_is_kept_in_order():
    out = Outbuf()
    parts = [bytes([65 + n % 26]) * n for n in range(300)]
    for part in parts:
        out.write(part)
    assert out.getvalue() == b"".join(parts)
    assert len(out) == sum(map(len, parts))


def test_a_fresh_buffer_is_empty():
    out = Outbuf()
    assert (len(out), out.getvalue()) == (0, b"")
    out.write(b"")
    assert (len(out), out.getvalue()) == (0, b"")


def test_large_parts():
    out = Outbuf()
    out.write(b"x" * 3_000_000)
    out.write(b"y")
    assert out.getvalue() == b"x" * 3_000_000 + b"y"


def test_only_bytes():
    with pytest.raises(TypeError):
        Outbuf().write("text")
    with pytest.raises(TypeError):
        Outbuf().write(None)


def test_live_bytes_are_counted_in_debug_builds_only():
    before = live_bytes()
    out = Outbuf()
    out.write(b"12345")
    assert live_bytes() - before in (0, 5)
    del out
    assert live_bytes() == before
