# One client connection of HTTP/1.1 and the pool of them: sockets and framing, no JSON-RPC.
from libc.stdint cimport uint64_t

from headrace.wire._chttp cimport hr_chunked, hr_head, hr_http1_limits, hr_sse_event
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer

# How the body of an answer is read; the result of HttpRequest.on_head.
cdef enum:
    BODY_DISCARD = 0
    BODY_WHOLE = 1        # on_body gets it in one piece; beyond Limits.max_message_bytes the request is lost
    BODY_EXCERPT = 2      # the same, but only the first bytes of a longer one
    BODY_EVENTS = 3       # on_event for each event, on_end behind the last
    BODY_DROP = 4         # nobody wants it: the connection is closed at once


cdef class HttpRequest:
    # One request and where its answer goes. Subclasses override the callbacks.
    cdef HttpConn conn                   # while it is being answered
    cdef bint dropped                    # nobody waits any more: not to be sent
    cdef bint urgent                     # may open a connection beyond the limit, goes before others

    cdef bytes render(self)                                             # the bytes to send
    cdef int on_head(self, const hr_head *h) except -1                  # -> BODY_...
    cdef int on_body(self, const char *p, Py_ssize_t n) except -1
    cdef int on_event(self, const hr_sse_event *event) except -1
    cdef bytes resume_id(self)                                          # last event id of the stream so far, or None
    cdef int on_end(self, SseFramer framer) except -1                   # framer: of BODY_EVENTS, else None
    # The connection ended first; exc is None for a plain end. untouched: no byte of an answer came;
    # reused: the connection had served another request before.
    cdef int on_lost(self, object exc, bint untouched, bint reused, SseFramer framer) except -1


cdef class HttpConn:
    # The asyncio protocol of one connection: one request at a time.
    cdef readonly HttpPool pool
    cdef readonly object transport
    cdef object write
    cdef HttpRequest request             # being answered, or None
    cdef HttpRequest reserved            # the connection is being opened for this one
    cdef readonly Py_ssize_t uses        # requests sent
    cdef readonly bint closed
    cdef bint counted                    # in pool.open
    cdef bint shared                     # in pool.connecting: being opened for whichever request waits
    cdef bint tls
    cdef int fd
    cdef double idle_until               # idle: closed then
    cdef double drain_until              # nobody wants the rest of the answer: closed then, 0: not so
    cdef double keep                     # seconds that the server keeps it idle
    cdef object stall_timer
    cdef Py_ssize_t stall_size
    # the answer being read
    cdef hr_head head
    cdef hr_chunked chunks
    cdef int state
    cdef int mode
    cdef bint touched
    cdef bint persist
    cdef uint64_t left
    cdef uint64_t seen                   # body bytes so far
    cdef Outbuf held                     # an unfinished head
    cdef Outbuf body
    cdef SseFramer framer

    cdef int joined(self) except -1
    cdef bint alive(self)
    cdef int start(self, HttpRequest request) except -1
    cdef int consume(self, const char *p, const char *e) except -1
    cdef int begin_body(self, const char **p, const char *e) except -1
    cdef int take(self, const char *p, Py_ssize_t n) except -1
    cdef int finish(self, const char *p, Py_ssize_t n, bint more) except -1
    cdef int lose(self, object exc) except -1
    cdef int abandon(self) except -1
    cdef int shut(self) except -1


cdef class HttpPool:
    # The connections of one origin.
    cdef readonly object runtime
    cdef readonly object limits
    cdef hr_http1_limits head_limits
    cdef object opener                   # (HttpConn) -> None, starts to connect
    cdef readonly set conns              # every connection, also while it is being opened
    cdef list idle                       # HttpConn, the last used at the end
    cdef set draining
    cdef object waiting                  # OrderedDict of HttpRequest
    cdef readonly Py_ssize_t open        # counted connections
    cdef readonly Py_ssize_t connecting  # connections being opened that are not reserved
    cdef readonly Py_ssize_t opened      # ever
    cdef Py_ssize_t max_open
    cdef object timer
    cdef double timer_at
    cdef readonly bint closed

    cdef HttpConn ready(self)
    cdef int submit(self, HttpRequest request) except -1
    cdef int submit_alone(self, HttpRequest request) except -1
    cdef bint submit_away(self, HttpRequest request) except -1
    cdef int withdraw(self, HttpRequest request) except -1
    cdef HttpConn open_one(self, HttpRequest reserved, bint counted)
    cdef int release(self, HttpConn conn) except -1
    cdef int gone(self, HttpConn conn) except -1
    cdef int drain(self, HttpConn conn) except -1
    cdef int arm(self, double when) except -1
