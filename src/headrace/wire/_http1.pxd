# What the HTTP links share: results as exceptions, header access, negotiation, writing heads.
from headrace.wire._chttp cimport hr_head, hr_http1_limits, hr_span
from headrace.wire._outbuf cimport Outbuf


cdef hr_http1_limits head_limits(object limits) except *        # from a headrace.limits.Limits
cdef int status_of(int code) noexcept                           # HTTP status that answers an HR_BAD_* code
cdef object head_error(int code)                                # a RemoteProtocolError for it, not raised

cdef bytes known_bytes(const hr_head *h, int which)             # None when absent; the first line only
cdef str known_text(const hr_head *h, int which)                # the same as str (latin-1)
cdef bytes known_joined(const hr_head *h, int which, bytes lower_name)  # all lines of it, joined with ", "
cdef list header_list(const hr_head *h)                         # [(name, value)] as bytes, names in lower case

# Bits of accept_bits.
cdef enum:
    ACCEPT_JSON = 1
    ACCEPT_SSE = 2
cdef int accept_bits(const char *p, Py_ssize_t n) noexcept      # Accept value -> bits with q > 0 (B55)
cdef bint json_type(const char *p, Py_ssize_t n) noexcept       # application/json [; charset=utf-8] (B56)
cdef bint sse_type(const char *p, Py_ssize_t n) noexcept        # text/event-stream, any parameters

cdef bytes status_line(int status)                              # b"HTTP/1.1 200 OK\r\n", prepared
# A response head. fields: prepared header lines, each with its CRLF. length < 0: no Content-Length
# (chunked says Transfer-Encoding instead). close: adds "Connection: close".
cdef int put_response_head(Outbuf out, int status, bytes fields, long long length, bint chunked,
                           bint close) except -1
# A request head. line: b"POST /mcp HTTP/1.1\r\nHost: ...\r\n" prepared, fields as above.
cdef int put_request_head(Outbuf out, bytes line, bytes fields, long long length) except -1
cdef int put_chunk_size(Outbuf out, Py_ssize_t n) except -1     # hex and CRLF
