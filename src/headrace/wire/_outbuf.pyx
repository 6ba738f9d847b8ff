"""The output buffer that replies are written into: one per connection, one write per loop turn."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

from headrace.wire._cjson cimport hr_json_escape

__all__ = ("Outbuf", "live_bytes")

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object s, Py_ssize_t *n) except NULL

cdef extern from *:
    """
    #ifndef HR_DEBUG
    #define HR_DEBUG 0
    #endif
    """
    const int HR_DEBUG

cdef enum:
    START = 512            # bytes of a fresh buffer: an idle connection stays small
    KEEP = 64 * 1024       # capacity kept after a flush; what a large reply took is given back


cdef set living = set()    # addresses of all buffers, in debug builds


def live_bytes():
    """Bytes in use in all buffers; debug builds only, zero otherwise."""
    cdef Py_ssize_t total = 0
    cdef size_t address
    for address in living:
        total += (<Outbuf><void *>address).n
    return total


cdef class Outbuf:
    """A growing output buffer: compiled code appends in place."""

    def __cinit__(self):
        if HR_DEBUG:
            living.add(<size_t><void *>self)
        self.store = bytearray()
        self.base = PyByteArray_AS_STRING(self.store)
        self.cap = 0
        self.n = 0

    def __dealloc__(self):
        if HR_DEBUG:
            living.discard(<size_t><void *>self)

    def __len__(self):
        return self.n

    def write(self, bytes data not None):
        """Appends `data`."""
        self.put_bytes(data)

    def getvalue(self):
        """A copy of the content, which stays."""
        return self.slice(0, self.n)

    cdef int room(self, Py_ssize_t more) except -1:
        cdef Py_ssize_t want = self.n + more
        if want > self.cap:
            if want < self.cap + (self.cap >> 1):
                want = self.cap + (self.cap >> 1)
            if want < START:
                want = START
            PyByteArray_Resize(self.store, want)
            self.base = PyByteArray_AS_STRING(self.store)
            self.cap = want
        return 0

    cdef int put(self, const char *p, Py_ssize_t n) except -1:
        if self.n + n > self.cap:
            self.room(n)
        memcpy(self.base + self.n, p, n)
        self.n += n
        return 0

    cdef int put_bytes(self, bytes b) except -1:
        return self.put(PyBytes_AS_STRING(b), PyBytes_GET_SIZE(b))

    cdef int put_int(self, long long v) except -1:
        cdef char digits[24]
        cdef int i = 24
        cdef unsigned long long u = <unsigned long long>v
        if v < 0:
            u = 0 - u
        while True:
            i -= 1
            digits[i] = <char>(48 + u % 10)
            u //= 10
            if u == 0:
                break
        if v < 0:
            i -= 1
            digits[i] = c'-'
        return self.put(digits + i, 24 - i)

    cdef int put_text(self, str s) except -1:
        cdef Py_ssize_t n
        # A lone surrogate has no UTF-8: UnicodeEncodeError goes to the caller, nothing was written.
        cdef const char *p = PyUnicode_AsUTF8AndSize(s, &n)
        return self.put_escaped(p, n)

    cdef int put_escaped(self, const char *p, Py_ssize_t n) except -1:
        # Escaping can grow a byte to six; long texts go piecewise so that the reserve stays small.
        cdef Py_ssize_t step
        while n > 0:
            step = n if n < 8192 else 8192
            self.room(6 * step + 16 if n <= 8192 else n + 6 * step + 16)
            self.n += <Py_ssize_t>hr_json_escape(self.base + self.n, p, step)
            p += step
            n -= step
        return 0

    cdef bytes take(self):
        cdef bytes all_ = PyBytes_FromStringAndSize(self.base, self.n)
        self.clear()
        return all_

    cdef bytes slice(self, Py_ssize_t start, Py_ssize_t end):
        return PyBytes_FromStringAndSize(self.base + start, end - start)

    cdef int clear(self) except -1:
        self.n = 0
        if self.cap > KEEP:
            PyByteArray_Resize(self.store, START)
            self.base = PyByteArray_AS_STRING(self.store)
            self.cap = START
        return 0
