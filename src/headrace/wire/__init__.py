"""The wire layer (L2): bytes to frames, heads and events, without I/O."""

from headrace.wire._envelope import Envelope, scan_envelope, split_batch
from headrace.wire._http1 import ChunkedDecoder, parse_request, parse_response
from headrace.wire._sse import SseFramer, encode_event
from headrace.wire.lengths import BrokenFraming, LengthFramer, frame_message
from headrace.wire.lines import LineFramer, LineTooLong

__all__ = (
    "BrokenFraming",
    "ChunkedDecoder",
    "Envelope",
    "LengthFramer",
    "LineFramer",
    "LineTooLong",
    "SseFramer",
    "encode_event",
    "frame_message",
    "parse_request",
    "parse_response",
    "scan_envelope",
    "split_batch",
)
