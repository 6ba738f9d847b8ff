# One request of an ASGI host as a connection of an HTTP endpoint.
from libc.stdint cimport uint64_t

from headrace.transports._http_server cimport HttpLink
from headrace.wire._chttp cimport hr_chunked, hr_http1_limits
from headrace.wire._outbuf cimport Outbuf


cdef class AsgiLink:
    cdef readonly HttpLink link
    cdef object loop
    cdef object on_idle_close            # called when it was closed between two requests
    cdef hr_http1_limits head_limits
    cdef Outbuf buffer
    cdef readonly object scope           # of the request being served, or None
    cdef readonly bint idle              # between two requests
    cdef readonly bint closed            # by the endpoint
    cdef readonly bint deserted          # the client went away
    cdef readonly bint gone              # the endpoint was told that the connection is lost
    cdef readonly Py_ssize_t turn        # requests begun
    cdef public object watch             # the task that waits for the end of the client, or None
    cdef public Py_ssize_t watched       # the turn that is, or will be, watched
    # the request
    cdef readonly bytes host
    cdef readonly bint body_due
    cdef readonly bint reading           # the link wants more of it now
    cdef bint head_only
    cdef long long declared              # Content-Length of the request, -1: in chunks
    cdef long long taken
    # the answer
    cdef object start                    # http.response.start, until it is taken
    cdef readonly bint started
    cdef readonly bint handed            # its beginning was given to the host
    cdef readonly bint complete
    cdef bint chunked
    cdef uint64_t left
    cdef hr_chunked chunks
    cdef list pieces
    cdef Py_ssize_t queued               # bytes in `pieces`
    cdef Py_ssize_t sending              # bytes in the hands of the host
    cdef Py_ssize_t high
    cdef bint paused
    # the task that serves it
    cdef object waiter
    cdef object task
    cdef int cancels                     # of the task before we cancelled it
    cdef int blocked                     # WAITS_...
    cdef readonly bint interrupted

    cdef int build(self, str method, bytes target, bytes query, object headers) except -1
    cdef int take_answer(self, const char *p, Py_ssize_t n) except -1
    cdef int wake(self) except -1
    cdef int lose(self) except -1
