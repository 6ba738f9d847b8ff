# The protocol object of one HTTP connection of a server.
from libc.stdint cimport uint32_t

from headrace.transports._http_exchange cimport HttpExchange
from headrace.transports._http_admission cimport RequestLink


cdef class HttpLink(RequestLink):
    cdef int phase
    cdef uint32_t since                  # tick at which the phase began (BODY, SKIP: of its last byte)
    cdef uint32_t body_since             # tick at which the body became due
    cdef HttpExchange current            # being answered
    # Input that waits: the start of a head, or requests behind the one being answered.
    cdef char *buf
    cdef Py_ssize_t off, size, cap
    cdef bint eof
    cdef bint reading
    cdef bint continue_due
    cdef bint shut_sent                  # LINGER: our side is closed
    cdef bint counted
    cdef Py_ssize_t stall_size
    cdef uint32_t stall_since

    cdef int take_in(self, const char *p, Py_ssize_t n) except -1
    cdef Py_ssize_t work(self, const char *p, Py_ssize_t n) except -1
    cdef int work_stored(self) except -1
    cdef int settle(self) except -1
    cdef int steer(self) except -1
    cdef int store(self, const char *p, Py_ssize_t n) except -1
    cdef int drop_stored(self) except -1
    cdef Py_ssize_t on_head(self, const char *p, Py_ssize_t n) except -1
    cdef Py_ssize_t on_body(self, const char *p, Py_ssize_t n) except -1
    cdef Py_ssize_t on_skip(self, const char *p, Py_ssize_t n) except -1
    cdef int serve(self, const char *p, Py_ssize_t n) except -1
    cdef int serve_body(self) except -1
    cdef int linger(self) except -1
    cdef int shut(self) except -1
