# A latency histogram for compiled code: record() is a few instructions and needs no interpreter.
cimport cython
from libc.stdint cimport int64_t, uint64_t

cdef enum:
    HALF = 1024                    # linear cells of one power of two: 3 significant digits
    HALF_BITS = 10
    ROWS = 33                      # rows of cells; the last one ends at 2**43 ns, over two hours
    CELLS = (ROWS + 1) * HALF


@cython.final
cdef class Histogram:
    cdef uint64_t *cells
    cdef readonly uint64_t count
    cdef readonly int64_t max      # ns
    cdef int64_t low
    cdef double total              # ns
    cdef double squares            # of microseconds
    cdef void record_ns(self, int64_t ns) noexcept nogil
    cpdef merge(self, Histogram other)
    cpdef clear(self)
