# What a load run has seen so far, counted by compiled code without a Python object per call.
cimport cython
from libc.stdint cimport int64_t, uint64_t

from headrace.bench._histogram cimport Histogram


@cython.final
cdef class Tally:
    cdef readonly tuple names          # of the operations
    cdef readonly list histograms      # of the operations
    cdef uint64_t *ok                  # [operations]
    cdef uint64_t *failed              # [operations]
    cdef Py_ssize_t n
    cdef dict errors                   # kind -> [count, sample]
    cdef readonly uint64_t bytes_in, bytes_out, reconnects, notes, requests, unsent, early, strays
    cdef readonly Histogram second     # what the current second has brought
    cdef uint64_t second_ok, second_failed
    cdef bint recording                # False during warm-up: calls are not counted, failures are
    cdef int right(self, Py_ssize_t op, int64_t ns) except -1
    cdef int wrong(self, Py_ssize_t op, str kind, object sample) except -1
    cdef int stray(self, Py_ssize_t op, str kind, object sample) except -1
