# What HTTP and line connections of a load run share: which operation comes next, when, and how it ended.
cimport cython
from libc.stdint cimport int64_t, uint32_t, uint64_t

from headrace.bench._tally cimport Tally

cdef int64_t now_ns() noexcept nogil

cdef enum:
    LOAD_IDLE
    LOAD_RUNNING
    LOAD_DRAINING       # nothing new is started
    LOAD_OVER


cdef class Lane:
    # One slot of concurrency: at most one operation at a time.
    cdef Load load
    cdef Py_ssize_t op
    cdef Py_ssize_t step
    cdef int64_t began              # ns; the operation's start, in an open loop the intended one
    cdef int64_t deadline           # ns; of what is waited for, 0: nothing
    cdef bint busy                  # an operation is under way
    cdef bint parked                # waits in load.idle
    cdef int start(self) except -1      # sends the first step of `op`
    cdef int expired(self) except -1    # `deadline` has passed
    cdef int leave(self) except -1      # draining: an operation without an end of its own (listen) ends now


@cython.final
cdef class Load:
    cdef readonly object plan
    cdef readonly Tally tally
    cdef readonly object loop
    cdef list lanes, idle
    cdef Py_ssize_t busy
    cdef readonly int phase
    cdef int64_t origin             # ns; when the schedule of an open loop starts
    cdef double interval            # ns between two operations of an open loop, 0 in a closed one
    cdef uint64_t scheduled         # operations of the schedule started so far
    cdef int64_t quota              # operations still to be started, -1: no bound
    cdef int64_t timeout            # ns
    cdef uint32_t *upto             # [operations] running sums of the weights
    cdef uint32_t weights
    cdef uint64_t random
    cdef Py_ssize_t n_ops
    cdef object over                # future: nothing is under way any more
    cdef int timer                  # timerfd, -1: none
    cdef object handle              # timer of the loop where there is no timerfd

    cdef int add(self, Lane lane) except -1
    cdef int ready(self, Lane lane) except -1           # the lane is free: it gets the next operation, or waits
    cdef int right(self, Lane lane) except -1           # its operation ended well, now
    cdef int wrong(self, Lane lane, str kind, object sample) except -1   # it failed; `ready` is not called
    cdef int settle(self) except -1
    cdef Py_ssize_t pick(self) noexcept
    cdef int arm(self) except -1
