"""A latency histogram with three significant digits from a nanosecond to two hours (HDR, after G. Tene).

Strategy: values below 2,048 have a cell each; above, every power of two has 1,024 linear cells, so that a cell is
never wider than a thousandth of its value. The cells are one flat array, found by the position of the highest bit.
Values beyond the last cell are kept in it (``max`` stays exact).
"""

cimport cython
from libc.math cimport sqrt
from libc.stdint cimport int64_t, uint64_t
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import struct

__all__ = ("Histogram",)

cdef extern from *:
    """
    static inline int highest_bit(uint64_t v) { return 63 - __builtin_clzll(v | 1); }
    """
    int highest_bit(uint64_t v) noexcept nogil

cdef inline Py_ssize_t cell_of(int64_t ns) noexcept nogil:
    cdef int shift = highest_bit(<uint64_t>ns) - HALF_BITS
    if shift <= 0:
        return <Py_ssize_t>ns
    return <Py_ssize_t>shift * HALF + <Py_ssize_t>(ns >> shift)

cdef inline int64_t highest_of(Py_ssize_t cell) noexcept nogil:
    """The highest value that falls into a cell."""
    cdef Py_ssize_t shift
    if cell < 2 * HALF:
        return cell
    shift = (cell >> HALF_BITS) - 1
    return ((<int64_t>(cell - shift * HALF) + 1) << shift) - 1

HEADER = struct.Struct("<QqqddI")
PAIR = struct.Struct("<IQ")


@cython.final
cdef class Histogram:
    """Counts of latencies in nanoseconds. Recording never fails and never allocates."""

    def __cinit__(self):
        self.cells = <uint64_t *>calloc(CELLS, sizeof(uint64_t))
        if self.cells == NULL:
            raise MemoryError
        self.low = 0

    def __dealloc__(self):
        free(self.cells)

    cdef void record_ns(self, int64_t ns) noexcept nogil:
        cdef Py_ssize_t cell
        cdef double us
        if ns < 0:
            ns = 0
        cell = cell_of(ns)
        if cell >= CELLS:
            cell = CELLS - 1
        self.cells[cell] += 1
        if self.count == 0 or ns < self.low:
            self.low = ns
        if ns > self.max:
            self.max = ns
        self.count += 1
        us = <double>ns / 1000.0
        self.total += <double>ns
        self.squares += us * us

    def record(self, ns):
        """Counts one latency of ``ns`` nanoseconds (negative ones count as 0)."""
        self.record_ns(min(int(ns), (1 << 62)))

    @property
    def min(self):
        """The smallest value in nanoseconds; 0 when nothing was recorded."""
        return self.low

    @property
    def mean(self):
        """The mean in nanoseconds; 0.0 when nothing was recorded."""
        return self.total / self.count if self.count else 0.0

    @property
    def stdev(self):
        """The standard deviation in nanoseconds."""
        cdef double mean, variance
        if self.count == 0:
            return 0.0
        mean = self.total / self.count / 1000.0
        variance = self.squares / self.count - mean * mean
        return sqrt(variance) * 1000.0 if variance > 0 else 0.0

    def value_at(self, double percentile):
        """The value in nanoseconds that ``percentile`` percent (0..100) of all values do not exceed, to three
        significant digits; 0 when nothing was recorded."""
        cdef uint64_t wanted, seen = 0
        cdef Py_ssize_t i
        if self.count == 0:
            return 0
        wanted = <uint64_t>(self.count * (percentile / 100.0) + 0.5)
        wanted = max(1, min(wanted, self.count))
        for i in range(CELLS):
            seen += self.cells[i]
            if seen >= wanted:
                # The last cell also keeps what lies beyond it.
                return self.max if i == CELLS - 1 else min(highest_of(i), self.max)
        return self.max

    def buckets(self):
        """``(highest value in nanoseconds, count)`` of every cell that holds something, in rising order."""
        cdef Py_ssize_t i
        return [(highest_of(i), self.cells[i]) for i in range(CELLS) if self.cells[i]]

    cpdef merge(self, Histogram other):
        """Adds all counts of another histogram."""
        cdef Py_ssize_t i
        if other.count == 0:
            return
        for i in range(CELLS):
            self.cells[i] += other.cells[i]
        self.low = other.low if self.count == 0 else min(self.low, other.low)
        self.max = max(self.max, other.max)
        self.count += other.count
        self.total += other.total
        self.squares += other.squares

    cpdef clear(self):
        """Forgets everything."""
        if self.count:
            memset(self.cells, 0, CELLS * sizeof(uint64_t))
        self.count = 0
        self.max = 0
        self.low = 0
        self.total = 0
        self.squares = 0

    def dump(self):
        """The content as bytes for :meth:`load`; short when few cells are used."""
        cdef Py_ssize_t i
        pairs = [PAIR.pack(i, self.cells[i]) for i in range(CELLS) if self.cells[i]]
        return HEADER.pack(self.count, self.max, self.low, self.total, self.squares, len(pairs)) + b"".join(pairs)

    @staticmethod
    def load(bytes data not None):
        """The histogram that :meth:`dump` wrote. Raises ValueError for anything else."""
        cdef Histogram made = Histogram.__new__(Histogram)
        try:
            made.count, made.max, made.low, made.total, made.squares, n = HEADER.unpack_from(data)
            if len(data) != HEADER.size + n * PAIR.size:
                raise ValueError("wrong length")
            for i, value in PAIR.iter_unpack(data[HEADER.size:]):
                if i >= CELLS:
                    raise ValueError("no such cell")
                made.cells[<Py_ssize_t>i] = value
        except struct.error as exc:
            raise ValueError(f"no dumped histogram: {exc}") from None
        return made
