"""Line streams in other encodings than UTF-8, and lines that are no text.

Strategy: nothing stands between transport and link for UTF-8 with strict errors, the usual case: there a bad line
is found by the message parser. Everything else is decoded and encoded again on the way.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable
from typing import Any

__all__ = ("recoded",)


def recoded(link: Any, encoding: str, errors: str, take: Callable[[Any], Any] | None) -> Any:
    """``link``, or what stands before it as the protocol of its transport.

    ``take(exc)`` is told of what cannot be decoded. Raises LookupError for an unknown encoding or handler.
    """
    name = codecs.lookup(encoding).name
    codecs.lookup_error(errors)
    if name == "utf-8" and errors == "strict":
        return link
    return _Recoder(link, name, errors, take)


class _Recoder:
    """Forwards the callbacks of a protocol; bytes are UTF-8 on its side."""

    def __init__(self, protocol: Any, encoding: str, errors: str, take: Callable[[Any], Any] | None) -> None:
        self._protocol = protocol
        self._encoding = encoding
        self._errors = errors
        self._decoder = codecs.getincrementaldecoder(encoding)(errors)
        self._take = take

    def connection_made(self, transport: Any) -> None:
        self._protocol.connection_made(_Encoder(transport, self._encoding, self._errors))

    def data_received(self, data: bytes) -> None:
        try:
            text = self._decoder.decode(data)
        except UnicodeDecodeError as exc:
            self._bad(exc, data)
            return
        self._protocol.data_received(text.encode("utf-8", "surrogatepass"))

    def _bad(self, exc: UnicodeDecodeError, data: bytes) -> None:
        # The lines around it are good: only what cannot be decoded is lost.
        if self._take is not None:
            self._take(exc)
        self._decoder.reset()
        text = data.decode(self._encoding, "replace")
        self._protocol.data_received(text.encode())

    def eof_received(self) -> Any:
        return self._protocol.eof_received()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._protocol.connection_lost(exc)

    def pause_writing(self) -> None:
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._protocol.resume_writing()


class _Encoder:
    """The transport as the link sees it."""

    def __init__(self, transport: Any, encoding: str, errors: str) -> None:
        self._transport = transport
        self._encoding = encoding
        self._errors = errors

    def write(self, data: bytes) -> Any:
        return self._transport.write(bytes(data).decode().encode(self._encoding, self._errors))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
