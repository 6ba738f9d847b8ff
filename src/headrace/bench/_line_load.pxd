# The line side of a load run: many ids in flight on one stdio, unix or TCP stream.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from headrace.bench._load cimport Lane, Load
from headrace.bench._tally cimport Tally
from headrace.wire._cjson cimport hr_envelope
from headrace.wire._lines cimport LineFramer
from headrace.wire._outbuf cimport Outbuf

cdef enum:
    CONN_DOWN       # not connected: lanes that are started wait
    CONN_OPENING    # the steps of the plan's opening go through
    CONN_UP
    CONN_GONE       # given up


@cython.final
cdef class LineStep:
    cdef bytes before, token, after, expects, member
    cdef str method
    cdef int answer
    cdef int64_t hold               # ns; -1: until the end of the run


@cython.final
cdef class LineLane(Lane):
    cdef LineConn conn
    cdef Py_ssize_t slot
    cdef int64_t id                 # of what is waited for, 0: nothing
    cdef int64_t generation
    cdef int64_t acknowledged       # ns; a listen is held open since then, 0: not yet
    cdef uint64_t notes
    cdef LineStep now
    cdef bint waiting               # was started while the connection was down
    cdef int send(self) except -1
    cdef int fail(self, str kind, object sample, bint again) except -1
    cdef int done(self) except -1


@cython.final
cdef class LineConn:
    cdef readonly Load load
    cdef Tally tally
    cdef readonly int state
    cdef readonly object side
    cdef readonly bint useful       # a right answer came since the connection was made
    cdef public object words        # () -> what the server said last on its stderr
    cdef object transport, write, loop
    cdef LineFramer framer
    cdef Outbuf out
    cdef list lanes, ops, opening, after
    cdef Py_ssize_t opened
    cdef int64_t slots              # power of two: id % slots is the slot
    cdef bint fixed_id
    cdef bint in_turn, scheduled, paused
    cdef set late                   # ids given up by us, whose answers may still come
    cdef str why
    cdef int touch(self) except -1
    cdef int open_next(self) except -1
    cdef int on_line(self, const char *p, Py_ssize_t n) except -1
    cdef int on_answer(self, const hr_envelope *env, const char *p, Py_ssize_t n) except -1
    cdef int on_note(self, const hr_envelope *env) except -1
    cdef int on_request(self, const hr_envelope *env) except -1
    cdef int on_opening(self, const hr_envelope *env, const char *p, Py_ssize_t n) except -1
    cdef int stray(self, str kind, object sample) except -1
    cdef LineLane lane_of(self, int64_t id)
