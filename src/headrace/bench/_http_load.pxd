# The HTTP side of a load run: connections that are lanes of headrace.bench._load.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from headrace.bench._load cimport Lane, Load
from headrace.wire._chttp cimport hr_chunked, hr_head, hr_http1_limits
from headrace.wire._cjson cimport hr_envelope
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer


@cython.final
cdef class Shot:
    # A step as it goes over the wire: head, the session's line if there is one, tail with the id patched in.
    cdef bytes head
    cdef bytes tail
    cdef Py_ssize_t id_at, token_at     # of the digits in tail, -1: none
    cdef int answer
    cdef bytes expects, member
    cdef bint opens, is_get
    cdef int64_t hold                   # ns; of an acknowledged listen, 0: to the end of the run
    cdef str method


@cython.final
cdef class HttpLink:
    # The asyncio protocol of one socket; a lane that has let it go is None.
    cdef HttpLane lane
    cdef object transport
    cdef int fd                         # for sending beside the transport, -1: not so
    cdef uint64_t uses


@cython.final
cdef class HttpLane(Lane):
    cdef HttpSide side
    cdef HttpLink link
    cdef object task                    # connecting
    cdef object waiter                  # future of HttpSide.open
    cdef object pause                   # timer before the next attempt to connect
    cdef tuple script                   # of Shots: the opening, or the operation's
    cdef bint opening, opened
    cdef bytes session, base            # header line of the operation's session, and of the connection's
    cdef int state
    cdef bint had_link, retried, given_up
    cdef int64_t id
    cdef int64_t failing                # ns; since when no connection comes up, 0: not so
    cdef int64_t answered_at, acked_at
    cdef bint stale                     # the request went out on a link that had been silent for a while
    # the answer being read
    cdef hr_head head
    cdef hr_chunked chunks
    cdef int reading, mode
    cdef bint touched, persist, answered, reported
    cdef uint64_t left, interim
    cdef uint64_t notes
    cdef str kind
    cdef object sample
    cdef Outbuf held
    cdef Outbuf body
    cdef SseFramer framer

    cdef str what(self)
    cdef int send(self) except -1
    cdef int dial(self) except -1
    cdef int consume(self, const char *p, const char *e) except -1
    cdef int on_head(self) except -1
    cdef int take(self, const char *p, Py_ssize_t n) except -1
    cdef int on_event(self, const char *p, Py_ssize_t n) except -1
    cdef int whole(self, const char *p, Py_ssize_t n) except -1
    cdef bint judge(self, const char *p, Py_ssize_t n) except -1
    cdef int message_over(self, bint more) except -1
    cdef int step_over(self) except -1
    cdef int tail(self) except -1
    cdef int acknowledged(self) except -1
    cdef int end_listen(self) except -1
    cdef int verdict(self, str kind, object sample) except -1
    cdef int bad(self, str kind, object sample) except -1
    cdef int failed(self, str kind, object sample) except -1
    cdef int next(self) except -1
    cdef int drop(self) except -1
    cdef int lost(self, object exc) except -1
    cdef int release(self) except -1


@cython.final
cdef class HttpSide:
    cdef readonly Load load
    cdef readonly object plan
    cdef readonly object limits
    cdef readonly list lanes
    cdef readonly Py_ssize_t alive
    cdef hr_http1_limits head_limits
    cdef unsigned int max_depth
    cdef uint64_t max_body, max_kept, kept      # bytes of answers that are not complete
    cdef object ssl
    cdef list addresses
    cdef tuple operations, opening, closing
    cdef bint fixed_id
    cdef bint closed
    cdef char *scratch
    cdef size_t room
    cdef hr_envelope env

    cdef int reserve(self, size_t n) except -1
    cdef object hush(self, HttpLane lane)
