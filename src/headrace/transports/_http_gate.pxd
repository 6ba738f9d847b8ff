# What an HTTP connection does with input that cannot be looked at yet.
from libc.stdint cimport uint32_t

from headrace.transports._http_admission cimport RequestLink

cdef enum:
    IDLE = 0                 # between requests
    HEAD = 1                 # a head has begun
    BODY = 2                 # a body is due
    SKIP = 3                 # the body of a refused request is due
    APP = 4                  # an application works on a request, whose body may still be due
    BUSY = 5                 # a request is being answered, or waits to be admitted
    LINGER = 6               # last answer given; input is dropped so that it arrives
    CLOSED = 7               # closing or gone


cdef class GateLink(RequestLink):
    cdef int phase
    cdef uint32_t since                  # tick at which the phase began (BODY, SKIP: of its last byte)
    # Input that waits: the start of a head, or requests behind the one being answered.
    cdef char *buf
    cdef Py_ssize_t off, size, cap
    cdef bint eof                        # no more will come
    # A request that waits to be admitted (BUSY, without an exchange).
    cdef const char *head_at             # the head being judged
    cdef object waiting                  # the task of `authenticate`, or None
    cdef bytes kept_head                 # its copy, until the task is done
    cdef bint passed                     # the head is judged once more, this time as admitted
    cdef bint patient                    # the end of input does not cancel it (HO-08)

    cdef object wanted(self)
    cdef int store(self, const char *p, Py_ssize_t n) except -1
    cdef int drop_stored(self) except -1
    cdef int stop_waiting(self) except -1
    cdef int afford(self) except -1
    cdef int turned_away(self, object exc) except -1
    cdef int time_out(self, str text, str kind) except -1
    # of the link itself
    cdef Py_ssize_t on_head(self, const char *p, Py_ssize_t n) except -1
    cdef int work_stored(self) except -1
    cdef int settle(self) except -1
