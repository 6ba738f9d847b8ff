"""How messages follow one another on a byte stream: one a line, or each behind its length."""

from __future__ import annotations

from typing import Final, Literal

from headrace.errors import UsageError
from headrace.limits import Limits
from headrace.transports._link import LineLink
from headrace.wire import LengthFramer, LineFramer

__all__ = ("CONTENT_LENGTH", "LINES", "Framing", "link_class", "make_framer")

Framing = Literal["lines", "content-length"]
LINES: Final = "lines"
"""One JSON text a line, as MCP has it."""
CONTENT_LENGTH: Final = "content-length"
"""A header with ``Content-Length`` before each JSON text: the base protocol of LSP."""


def link_class(framing: Framing) -> type[LineLink]:
    """The link of a stream with that framing. Raises UsageError for another name."""
    if framing == LINES:
        return LineLink
    if framing == CONTENT_LENGTH:
        from headrace.transports._length_link import LengthLink

        return LengthLink
    raise UsageError(f"framing {framing!r}: use {LINES!r} or {CONTENT_LENGTH!r}")


def make_framer(framing: Framing, limits: Limits) -> LineFramer | LengthFramer:
    """A framer for what comes in on a stream with that framing. Raises UsageError for another name."""
    if framing == LINES:
        return LineFramer(limits.max_message_bytes)
    if framing == CONTENT_LENGTH:
        return LengthFramer(limits.max_message_bytes, limits.max_header_bytes, limits.max_header_count)
    raise UsageError(f"framing {framing!r}: use {LINES!r} or {CONTENT_LENGTH!r}")
