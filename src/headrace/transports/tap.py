"""A tap on a client's connections: every message both ways, as bytes, without a cost where there is none.

Strategy: the tap stands between the loop's transport and the protocol of a connection and reads along. What it
shows is cut out of the bytes by the same framers that the connection itself uses, so a line stream, HTTP bodies
and event streams give the same :class:`Traffic`. Nothing is held back or changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from headrace.errors import HeadraceError, RemoteProtocolError
from headrace.limits import Limits
from headrace.transports.framing import LINES, Framing, make_framer
from headrace.wire import SseFramer
from headrace.wire._http1 import ChunkedDecoder, Head, HeadParser, is_event_stream

__all__ = ("Tap", "Traffic", "tapped")

Tap = Callable[["Traffic"], object]
"""Called with each message in the order of the wire; what it raises is reported to the loop and ends the tap."""


class Traffic(msgspec.Struct):
    """One message, or one HTTP exchange that carried none.

    ``time``: the loop's clock in seconds; ``sent``: from us to the server; ``message``: the JSON text as it was
    on the wire, or None; ``http``: over HTTP what carried it, such as ``"POST /mcp"``, ``"200"`` or
    ``"200 event"``; ``connection``: which connection of the client, from 1 on.
    """

    time: float
    sent: bool
    message: bytes | None
    http: str | None
    connection: int


def tapped(
    tap: Tap | None, protocol: Any, limits: Limits, *, http: bool, connection: int = 1, framing: Framing = LINES
) -> Any:
    """``protocol``, or where there is a ``tap`` what stands before it."""
    if tap is None:
        return protocol
    return _Tapped(protocol, tap, limits, http, connection, framing)


class _Tapped:
    """Forwards the callbacks of a protocol and shows what passes."""

    def __init__(
        self, protocol: Any, tap: Tap, limits: Limits, http: bool, connection: int, framing: Framing
    ) -> None:
        self._protocol = protocol
        self._tap: Tap | None = tap
        self._loop = asyncio.get_running_loop()
        self._connection = connection
        reader: Callable[[bool], _Lines | _Http] = (lambda sent: _Http(sent, limits)) if http else (
            lambda sent: _Lines(limits, framing)
        )
        self._readers = (reader(False), reader(True))

    def connection_made(self, transport: Any) -> None:
        self._protocol.connection_made(_TappedTransport(transport, self))

    def data_received(self, data: bytes) -> None:
        self.show(False, data)
        self._protocol.data_received(data)

    def eof_received(self) -> Any:
        self.show(False, None)
        return self._protocol.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.show(False, None)
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()

    def show(self, sent: bool, data: bytes | None) -> None:
        """Gives the tap what ``data`` completes; None is the end of the stream."""
        tap = self._tap
        if tap is None:
            return
        reader = self._readers[sent]
        try:
            for message, http in reader.finish() if data is None else reader.feed(bytes(data)):
                tap(Traffic(self._loop.time(), sent, message, http, self._connection))
        except Exception as exc:
            self._tap = None
            self._loop.call_exception_handler({"message": "the tap failed and is not called again", "exception": exc})


class _TappedTransport:
    """The transport as the protocol sees it."""

    def __init__(self, transport: Any, tapped: _Tapped) -> None:
        self._transport = transport
        self._tapped = tapped

    def write(self, data: bytes) -> Any:
        self._tapped.show(True, data)
        return self._transport.write(data)

    def writelines(self, parts: Any) -> Any:
        parts = [bytes(part) for part in parts]
        self._tapped.show(True, b"".join(parts))
        return self._transport.writelines(parts)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


_Shown = list[tuple[bytes | None, str | None]]


class _Lines:
    """Messages of a line stream."""

    def __init__(self, limits: Limits, framing: Framing) -> None:
        self._framer = make_framer(framing, limits)
        self._ended = False

    def feed(self, data: bytes) -> _Shown:
        return self._shown(self._framer.feed(data)) if not self._ended else []

    def finish(self) -> _Shown:
        if self._ended:
            return []
        self._ended = True
        return self._shown(self._framer.finish())

    def _shown(self, lines: Sequence[bytes | RemoteProtocolError]) -> _Shown:
        return [(line if isinstance(line, bytes) else str(line).encode(), None) for line in lines]


class _Http:
    """Messages in the bodies of one direction of an HTTP/1.1 connection."""

    def __init__(self, sent: bool, limits: Limits) -> None:
        self._sent = sent
        self._limits = limits
        self._heads = self._parser()
        self._head: Head | None = None
        self._label = ""
        self._left: int | None = 0
        self._chunks: ChunkedDecoder | None = None
        self._events: SseFramer | None = None
        self._body = bytearray()
        self._broken = False
        self._seen = False

    def _parser(self) -> HeadParser:
        return HeadParser(response=not self._sent, limits=self._limits)

    def feed(self, data: bytes) -> _Shown:
        shown: _Shown = []
        try:
            while data and not self._broken:
                data = self._body_bytes(data, shown) if self._head is not None else self._head_bytes(data, shown)
        except HeadraceError as exc:
            self._broken = True  # the connection says it in its own words
            shown.append((None, f"unreadable HTTP: {exc}"))
        return shown

    def finish(self) -> _Shown:
        shown: _Shown = []
        if self._head is not None:
            self._end(shown)
        return shown

    def _head_bytes(self, data: bytes, shown: _Shown) -> bytes:
        head = self._heads.feed(data)
        if head is None:
            return b""
        rest = self._heads.trailing
        self._heads = self._parser()
        self._head = head
        self._label = f"{head.method} {head.target}" if self._sent else f"{head.status} {head.reason or ''}".strip()
        self._chunks = ChunkedDecoder(limits=self._limits) if head.chunked else None
        kind = head.get(b"content-type")
        self._events = SseFramer(self._limits.max_message_bytes) if kind and is_event_stream(kind) else None
        self._seen = False
        self._left = None if head.chunked or head.body == "until-close" else head.content_length or 0
        if not self._sent and (head.status < 200 or head.body == "none"):
            self._left = 0
            self._chunks = None
        if self._left == 0 and self._chunks is None:
            self._end(shown)
        return rest

    def _body_bytes(self, data: bytes, shown: _Shown) -> bytes:
        rest = b""
        if self._chunks is not None:
            part = self._chunks.feed(data)
            done = self._chunks.done
            rest = self._chunks.trailing if done else b""
        elif self._left is None:
            part, done = data, False
        else:
            part, rest = data[: self._left], data[self._left :]
            self._left -= len(part)
            done = self._left == 0
        if self._events is not None:
            for event in self._events.feed(part):
                if event.data:
                    self._seen = True
                    named = "" if event.event == "message" else f" {event.event}"
                    shown.append((event.data, f"{self._label} event{named}"))
        elif len(self._body) + len(part) <= self._limits.max_message_bytes:
            self._body += part
        if done:
            self._end(shown)
        return rest

    def _end(self, shown: _Shown) -> None:
        body = bytes(self._body).strip()
        self._body.clear()
        if self._events is None:
            status = 0 if self._head is None or self._sent else self._head.status
            # 1xx and 202 say nothing; everything else without a message is worth a line.
            if body or (status != 202 and status >= 200) or (self._sent and not self._label.startswith("POST")):
                shown.append((body or None, self._label))
        elif not self._seen:
            shown.append((None, f"{self._label}, a stream without events"))
        self._head = None
        self._events = None
        self._chunks = None
