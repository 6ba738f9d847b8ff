# Cutting a byte stream into messages by their announced length: the base protocol of LSP. Driven as a
# LineFramer is, and gives the same values; one more says that the stream cannot be read any further.
from headrace.wire._lines cimport LineFramer

cdef enum:
    LINE_BROKEN = 4    # the header cannot be understood, or the stream ended inside of a message: it is over

cdef class LengthFramer(LineFramer):
    cdef Py_ssize_t max_header
    cdef Py_ssize_t max_fields
    cdef Py_ssize_t header      # bytes of the header being read, those of its last piece not counted
    cdef Py_ssize_t fields      # its lines so far
    cdef Py_ssize_t length      # Content-Length of the message, -1 while it is not known
    cdef Py_ssize_t missing     # bytes to pass over of a message over the limit
    cdef bint body              # the header is complete
    cdef bint told              # the message passed over was reported
    cdef bint broken
    cdef readonly str reason    # why, when it is broken

    cdef int field(self, const char *p, size_t n) except -1
    cdef int fail(self, str reason) except -1
    cdef int skip(self) except -1
    cdef bint partial(self) noexcept
