# The host side of ASGI 3 on an HTTP connection: see _http_asgi.pyx.
from libc.stdint cimport uint32_t, uint64_t

from headrace.mux._mux cimport Runtime
from headrace.transports._http_gate cimport GateLink


cdef class AsgiHost:
    # One application as the connections of an endpoint see it.
    cdef readonly object app             # the ASGI 3 application
    cdef Runtime runtime
    cdef readonly dict state             # its lifespan's namespace
    cdef readonly set running            # requests whose coroutine has not ended
    cdef public object on_idle           # called when the last of them ends, or None
    cdef str root_path
    cdef dict template                   # what all scopes have in common

    cdef int forget(self, AsgiRequest request) except -1


cdef class AppLink(GateLink):
    cdef AsgiRequest app                 # being answered (phase APP), or None
    cdef uint32_t body_since             # tick at which the body became due
    cdef object server                   # of the scopes
    cdef bint knows_server

    cdef Py_ssize_t start_app(self, const char *p, Py_ssize_t n) except -1
    cdef Py_ssize_t on_app(self, const char *p, Py_ssize_t n) except -1
    cdef int app_answered(self) except -1
    cdef int app_failed(self) except -1
    cdef int app_refused(self, int status, str text, str kind=*) except -1
    cdef int app_eof(self) except -1
    cdef int app_retired(self) except -1
    cdef int check_app(self) except -1
    cdef int turn_over(self) except -1
    cdef int drop_app(self) except -1
    # of the link itself
    cdef int shut(self) except -1


cdef class AsgiRequest:
    # One request, from its head to the end of the application's coroutine.
    cdef AsgiHost host
    cdef AppLink link                    # None once it is answered, or the connection is gone
    cdef dict scope
    cdef object task                     # of the application; None where it ended in its first step
    cdef list waiters                    # receive() calls that wait, or None
    cdef object timer                    # sends a head whose body does not come
    # The request's body.
    cdef object pending                  # bytes, a list of them, or None
    cdef Py_ssize_t held                 # bytes in `pending`
    cdef uint64_t left                   # bytes still to come, of a body with a length
    cdef uint64_t seen                   # bytes that came, of a chunked one
    cdef bint whole                      # all of it is here
    cdef bint told                       # ... and the application has it
    cdef bint half                       # the peer sends no more
    cdef bint may_continue               # it waits for 100 Continue
    # The answer.
    cdef bint started, head_sent, complete
    cdef bint lost                       # the connection went first
    cdef bint stopped                    # the server has cancelled it
    cdef bint head_only                  # the request was HEAD
    cdef bint bodyless                   # as are answers to it, 204 and 304
    cdef bint chunked, old, close, dated
    cdef int status
    cdef bytes fields                    # header lines
    cdef long long length                # Content-Length, or -1
    cdef long long sent

    cdef int open(self, AppLink link, bytes target, bytes host) except -1
    cdef int start(self) except -1
    cdef int over(self, object exc) except -1
    cdef int feed(self, const char *p, Py_ssize_t n) except -1
    cdef int wake(self) except -1
    cdef bint full(self) noexcept
    cdef dict take(self)
    cdef bint put(self, object message) except -1
    cdef int put_start(self, dict message) except -1
    cdef bint put_body(self, dict message) except -1
    cdef int put_head(self, Py_ssize_t n, bint more) except -1
    cdef object drained(self)
    cdef int gone(self) except -1
