"""The Python face of the framer by ``Content-Length``: chunks in, messages out."""

from headrace.errors import RemoteProtocolError
from headrace.jsonrpc import PARSE_ERROR
from headrace.wire import _lengths
from headrace.wire.lines import LineTooLong

__all__ = ("BrokenFraming", "LengthFramer", "frame_message")


class BrokenFraming(RemoteProtocolError):
    """The stream cannot be read from here on: a header that cannot be understood, or an end inside of a message."""


class LengthFramer(_lengths.LengthFramer):
    """Cuts a byte stream into messages whose length goes before them: the base protocol of LSP.

    A header is lines ``Name: value``, each ended by CR LF, and an empty one. Content-Length must come once; the
    charset of a Content-Type must be UTF-8; other fields are passed over. Nothing is decoded.

    :param max_message_bytes: the longest body in bytes.
    :param max_header_bytes: the longest header in bytes, its empty line included.
    :param max_header_count: the most fields of one header.
    :raises UsageError: a limit is not positive.
    """

    __slots__ = ("_limit",)

    def __init__(self, max_message_bytes: int, max_header_bytes: int = 32768, max_header_count: int = 100) -> None:
        super().__init__(max_message_bytes, max_header_bytes, max_header_count)
        self._limit = max_message_bytes

    def feed(self, *chunks: bytes) -> list[bytes | LineTooLong | BrokenFraming]:
        """Takes the next bytes of the stream, in one or more chunks, and gives the messages they complete.

        A body over the limit is a :class:`~headrace.wire.LineTooLong` in the list, and is passed over. A
        :class:`BrokenFraming` is the last entry there ever is. Anything that is not exactly ``bytes`` is copied
        once.

        :raises LocalProtocolError: after :meth:`finish`.
        """
        return self._feed(chunks, self._refused)

    def finish(self) -> list[bytes | LineTooLong | BrokenFraming]:
        """Ends the stream, which must not stand inside of a message."""
        return self._finish(self._refused)

    def _refused(self, reason: str | None) -> LineTooLong | BrokenFraming:
        if reason is None:
            return LineTooLong(f"message larger than {self._limit} bytes", http_status=413)
        return BrokenFraming(reason, rpc_code=PARSE_ERROR)


def frame_message(body: bytes) -> bytes:
    """``body`` behind its header."""
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
