# Requests per second of each caller.

cpdef object caller_of(object principal, object peer)


cdef class Rates:
    cdef readonly double rate, burst
    cdef readonly Py_ssize_t most
    cdef double step                     # seconds that one request is worth
    cdef double slack                    # how far ahead of now a bucket may be full again, and one more be taken
    cdef object clock
    cdef dict full_at                    # caller -> when its bucket is full again

    cpdef double take(self, object caller) except? -1
    cpdef int owe(self, object caller, Py_ssize_t more) except -1
    cdef str text(self, double wait)
    cdef int make_room(self, double now) except -1
