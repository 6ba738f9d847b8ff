# The protocol object of one HTTP connection of a server.
from libc.stdint cimport uint32_t

from headrace.transports._http_exchange cimport HttpExchange
from headrace.transports._http_asgi cimport AppLink


cdef class HttpLink(AppLink):
    cdef HttpExchange current            # being answered
    cdef bint reading
    cdef bint continue_due
    cdef bint shut_sent                  # LINGER: our side is closed
    cdef bint counted
    cdef Py_ssize_t stall_size
    cdef uint32_t stall_since

    cdef int take_in(self, const char *p, Py_ssize_t n) except -1
    cdef Py_ssize_t work(self, const char *p, Py_ssize_t n) except -1
    cdef int steer(self) except -1
    cdef Py_ssize_t on_body(self, const char *p, Py_ssize_t n) except -1
    cdef Py_ssize_t on_skip(self, const char *p, Py_ssize_t n) except -1
    cdef int serve(self, const char *p, Py_ssize_t n) except -1
    cdef int serve_body(self) except -1
    cdef int linger(self) except -1
