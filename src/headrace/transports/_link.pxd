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
    cdef bint continue_due
    cdef bint output_full
    cdef bint input_held
    cdef bint reading
    cdef readonly bint at_eof
    cdef Py_ssize_t mark
    cdef Py_ssize_t max_inline
    cdef Py_ssize_t max_output
    cdef list drain_waiters
    cdef object stall_timer
    cdef Py_ssize_t stall_size
    cdef object drain_timer

    cdef int wake(self) except -1
    cdef int consume(self) except -1
    cdef int steer(self) except -1
