# What a server does with a request head: refuse it, open a stream, or find where its body belongs.
from libc.stdint cimport uint32_t, uint64_t

from headrace.mux._mux cimport Mux
from headrace.transports._http_endpoint cimport Connection
from headrace.transports._http_exchange cimport HttpExchange
from headrace.wire._chttp cimport hr_chunked


cdef class RequestLink(Connection):
    cdef HttpExchange spare              # free for the next request
    cdef bytes host, accept, type        # header values that were accepted last
    cdef int accept_bits
    cdef bint remembered                 # the four above can be compared with
    cdef bytes extra                     # header lines for the answer of this request, or None
    # The session of the request before: good for the next one with the same two header values.
    cdef bytes known_id, known_version
    cdef object known_session
    cdef Mux known_mux                   # closed once the session has ended
    cdef uint32_t known_tick             # when the session was last told that it is used
    cdef object guest                    # the HTTP+SSE session that the body is for, or None
    cdef object caller                   # what `authenticate` said
    cdef object fetched                  # the session that was looked up for this request, or None
    cdef object context                  # the context it said so in, or None: the handler's
    cdef bint plain                      # refusals are plain text: the request is none of MCP
    cdef bint expects                    # 100 Continue is awaited
    cdef hr_chunked chunked
    cdef bint is_chunked                 # of the body being received or skipped
    cdef uint64_t skip                   # bytes of a refused body still to come

    # A request whose body comes in pieces: its head, then the decoded body.
    cdef char *body
    cdef Py_ssize_t body_size, body_cap, body_need

    cdef bint usual(self) noexcept
    cdef int check(self) except -1
    cdef int show_health(self, bytes target) except -2
    cdef int check_content(self) except -1
    cdef bint for_legacy(self, bytes target) except -1
    cdef object principal(self)
    cdef object look_up(self)
    cdef object find_session(self)
    cdef int know(self, object session, bytes version) except -1
    cdef int forget(self) except -1
    cdef int open_app(self, bytes target, bytes host) except -1
    cdef int open_stream(self) except -1
    cdef int resume_stream(self, object session) except -1
    cdef int open_shared(self, object session) except -1
    cdef int end_session(self) except -1
    cdef int check_legacy(self, bytes path, bytes query) except -2
    cdef int open_legacy(self) except -1
    cdef int legacy_message(self, const char *p, Py_ssize_t n) except -1
    cdef int keep_body(self, const char *p, Py_ssize_t n) except -1
    cdef int drop_body(self) except -1
    cdef int preflight(self, str origin) except -1
    cdef int admit(self) except -1
    cdef int receive(self, Mux mux, const char *p, Py_ssize_t n, HttpExchange exchange) except -1
    cdef int before_refusal(self) except -1
    cdef int refuse(self, int status, str text, bytes fields=*, str kind=*) except -1
    cdef int refuse_error(self, object error) except -1
    cdef int refuse_as(self, object refusal) except -1
    cdef int answered_head(self) except -1
    cdef int refuse_message(self, const char *p, Py_ssize_t n, int status, str text, str kind=*) except -1
    cdef HttpExchange fresh_exchange(self)
    cdef Mux choose(self, HttpExchange exchange, const char *p, Py_ssize_t n)
    # of the link itself
    cdef int answered(self, bint last, bint body_due) except -1
    cdef int streaming(self, HttpExchange exchange) except -1
