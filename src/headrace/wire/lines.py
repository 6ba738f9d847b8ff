"""The Python face of the line framer: chunks in, lines out."""

from headrace.errors import RemoteProtocolError
from headrace.wire import _lines

__all__ = ("LineFramer", "LineTooLong")


class LineTooLong(RemoteProtocolError):
    """A line over the limit: its bytes are gone, the lines around it are not (B10).

    Stands in the list of lines at the place of the line; raise it, or answer and go on.
    """


class LineFramer(_lines.LineFramer):
    """Cuts a byte stream into lines (ST-01..ST-08), at linear cost however the stream is cut.

    Lines end with LF; one CR before it belongs to the end (B02). Blank lines are passed over (B03),
    and so is one UTF-8 byte order mark at the start of the stream (B06). Nothing is decoded.

    :param max_line_bytes: the longest line in bytes, its end not counted.
    :raises UsageError: the limit is not positive.
    """

    __slots__ = ("_limit",)

    def __init__(self, max_line_bytes: int) -> None:
        super().__init__(max_line_bytes)
        self._limit = max_line_bytes

    def feed(self, *chunks: bytes) -> list[bytes | LineTooLong]:
        """Takes the next bytes of the stream, in one or more chunks, and gives the lines they complete.

        A line over the limit is a :class:`LineTooLong` in the list, said as soon as the limit is
        passed and once a line; what is left of the line is skipped. Anything that is not exactly
        ``bytes`` is copied once.

        :raises LocalProtocolError: after :meth:`finish`.
        """
        return self._feed(chunks, self._too_long)

    def finish(self) -> list[bytes | LineTooLong]:
        """Ends the stream: a last line without a line end counts as a line (B12)."""
        return self._finish(self._too_long)

    def _too_long(self) -> LineTooLong:
        return LineTooLong(f"message larger than {self._limit} bytes", http_status=413)
