cdef class Outbuf:
    """Growing output buffer: compiled code appends in place."""
    cdef bytearray store      # its len() is the capacity; `n` is what is used
    cdef char *base           # storage of `store`; refreshed by every call that may resize
    cdef Py_ssize_t cap
    cdef Py_ssize_t n         # bytes in use

    cdef int room(self, Py_ssize_t more) except -1          # at least `more` free bytes after n
    cdef int put(self, const char *p, Py_ssize_t n) except -1
    cdef int put_bytes(self, bytes b) except -1
    cdef int put_int(self, long long v) except -1
    cdef int put_text(self, str s) except -1                # inside of a JSON string, escaped, no quotes
    cdef int put_escaped(self, const char *p, Py_ssize_t n) except -1
    cdef bytes take(self)                                   # everything, and empty again
    cdef bytes slice(self, Py_ssize_t start, Py_ssize_t end)
    cdef int clear(self) except -1
