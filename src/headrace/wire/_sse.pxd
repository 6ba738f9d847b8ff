# Server-sent events for the links: iteration without Python objects, and events written in place.
cimport cython

from headrace.wire._chttp cimport hr_sse, hr_sse_event
from headrace.wire._outbuf cimport Outbuf


@cython.final
cdef class SseFramer:
    """Decoder of one event stream; the public feed() is made of next()."""
    cdef hr_sse s
    # True: out is an event, whose spans hold until the next call. False: the chunk is used up.
    # Raises RemoteProtocolError when a bound is exceeded.
    cdef bint next(self, const char **p, const char *e, hr_sse_event *out) except -1
    cdef bytes last_id(self)            # None when there is none
    cdef int begin(self, bytes id) except -1    # a new connection; id is the stream's last event id so far, or None


cdef int begin_event(Outbuf out) except -1      # "event: message\ndata: "; the JSON text follows
# Ends the event whose JSON text starts at `start` of out: makes it one line, escapes raw line
# separators (B34), and adds the empty line.
cdef int finish_event(Outbuf out, Py_ssize_t start) except -1

# A whole event; data is one line without raw separators. id may be None; retry_ms < 0: none.
cdef int put_event(Outbuf out, bytes id, bytes data, long long retry_ms) except -1
