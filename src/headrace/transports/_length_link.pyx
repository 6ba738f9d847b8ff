"""A link whose messages are framed by ``Content-Length``, as LSP does it, instead of by lines.

All of the rest is the line link's. A message is written first and its header put before it, since its length is not
known sooner; what is moved for that was just written.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcpy, memmove

from headrace.errors import RemoteProtocolError
from headrace.jsonrpc import PARSE_ERROR

from headrace.transports._link cimport LineLink
from headrace.wire._lengths cimport LengthFramer
from headrace.wire._outbuf cimport Outbuf

__all__ = ("LengthLink",)


cdef class LengthLink(LineLink):
    """Protocol of one stream under ``Content-Length`` framing. Parameters as :class:`LineLink`.

    A header that cannot be understood is answered with one error (without an id), and no more is read: what is in
    flight is answered, then the connection closes.
    """

    def __init__(self, mux not None, limits, *, bint serves=True, on_lost=None):
        LineLink.__init__(self, mux, limits, serves=serves, on_lost=on_lost)
        self.framer = LengthFramer(limits.max_message_bytes, limits.max_header_bytes, limits.max_header_count)
        self.framer.tells_end = not serves

    cdef int end_frame(self) except -1:
        cdef Outbuf out = self.out
        cdef Py_ssize_t n = out.n - self.mark
        cdef bytes header = b"Content-Length: %d\r\n\r\n" % n
        cdef Py_ssize_t room = PyBytes_GET_SIZE(header)
        cdef char *at
        out.room(room)
        at = out.base + self.mark
        memmove(at + room, at, n)
        memcpy(at, PyBytes_AS_STRING(header), room)
        out.n += room
        return 0

    cdef int broken(self) except -1:
        cdef str reason = (<LengthFramer>self.framer).reason
        if not self.serves:
            self.mux.close(RemoteProtocolError(f"the peer's messages cannot be told apart: {reason}"))
            self.close()
            return 0
        self.at_eof = True
        self.mux.refuse_frame(PARSE_ERROR, f"{reason}; nothing more is read", self)
        self.end()
        return 0
