from headrace.mux._mux cimport Mux, Sink
from headrace.wire._lines cimport LineFramer


cdef class LineLink(Sink):
    # Protocol object of one line stream (stdio, unix, TCP), and its sink.
    cdef readonly Mux mux
    cdef readonly object transport
    cdef LineFramer framer
    cdef object write
    cdef object limits
    cdef object on_lost
    cdef readonly bint serves
    cdef bint busy
    cdef bint flush_due
    cdef bint overrun_due
    cdef bint continue_due
    cdef bint output_full                # the transport holds max_output_bytes
    cdef bint input_held
    cdef bint reading
    cdef readonly bint at_eof
    cdef bint ending                     # to be closed when everything is answered
    cdef bint awaiting_idle
    cdef bint in_eof
    cdef bint over                       # a client's end was handled
    cdef Py_ssize_t mark
    cdef Py_ssize_t max_inline
    cdef Py_ssize_t max_output
    cdef list drain_waiters
    cdef object stall_timer
    cdef long long handed                # bytes given to the transport
    cdef long long taken                 # of them, taken by the peer at the last look; -1: not looked at
    cdef object drain_timer
    cdef object known_caller             # by its address, once it was asked for

    cdef int wake(self) except -1
    cdef int consume(self) except -1
    cdef int too_long(self) except -1
    cdef int broken(self) except -1
    cdef int end_frame(self) except -1
    cdef int steer(self) except -1
    cdef int settle(self) except -1
    cdef int watch(self) except -1
