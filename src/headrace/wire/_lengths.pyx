"""Bytes to messages under ``Content-Length`` framing: the base protocol of LSP, for any JSON-RPC peer.

    Content-Length: 52\\r\\n
    \\r\\n
    {"jsonrpc":"2.0","id":1,"method":"ping","params":{}}

Strategy: header lines are read one by one wherever the stream is cut, so that a stream means the same whole and
byte by byte. A body that lies in one chunk is given out as a span of it. The header is strict, since nothing can be
found again behind one that two readers understand differently: every line ends in CR LF, Content-Length comes once
and is digits alone. What is announced is not allocated before it comes.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr

from headrace.errors import LocalProtocolError, UsageError

from headrace.wire._lines cimport LINE_EDGE, LINE_FRAME, LINE_NONE, LINE_SKIPPED, LINE_TOO_LONG, LineFramer

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cdef enum:
    DIGITS = 18         # of a length; more is a number nobody sends

cdef const char *EMPTY = b""


cdef inline bint is_token(unsigned char c) noexcept:
    """A character of a field name (RFC 9110, section 5.6.2)."""
    if c <= 0x20 or c >= 0x7F:
        return False
    return memchr(b'"(),/:;<=>?@[\\]{}', c, 17) is NULL


cdef inline unsigned char lower(unsigned char c) noexcept:
    return c | 0x20 if c'A' <= c <= c'Z' else c


cdef bint same(const char *p, size_t n, bytes name) noexcept:
    """Whether [p, p + n) is `name`, which is in lower case."""
    cdef const char *q = PyBytes_AS_STRING(name)
    cdef size_t i
    if n != <size_t>PyBytes_GET_SIZE(name):
        return False
    for i in range(n):
        if lower(p[i]) != <unsigned char>q[i]:
            return False
    return True


cdef bint foreign(bytes kind):
    """Whether a Content-Type names a charset that is not UTF-8 (which some call utf8)."""
    cdef bytes each, name, value
    for each in kind.lower().split(b";")[1:]:
        name, _, value = each.partition(b"=")
        if name.strip() == b"charset" and value.strip().strip(b'"') not in (b"utf-8", b"utf8"):
            return True
    return False


cdef class LengthFramer(LineFramer):
    """Cuts a byte stream into messages; for compiled code, Python code uses :class:`headrace.wire.LengthFramer`.

    :param max_message_bytes: the longest body. One over it is passed over, the messages behind it are not.
    :param max_header_bytes: the longest header, its empty line included.
    :param max_header_count: its fields.
    :raises UsageError: a limit is not positive.
    """

    def __init__(self, max_message_bytes, max_header_bytes, max_header_count):
        LineFramer.__init__(self, max_message_bytes)
        if max_header_bytes <= 0 or max_header_count <= 0:
            raise UsageError("max_header_bytes and max_header_count must be positive")
        self.max_header = min(max_header_bytes, PY_SSIZE_T_MAX // 2)
        self.max_fields = min(max_header_count, PY_SSIZE_T_MAX // 2)
        self.length = -1
        self.bom = -1

    cdef bint partial(self) noexcept:
        """The stream stands inside of a message."""
        return self.body or self.missing != 0 or self.header != 0 or (self.n != 0 and not self.given)

    cdef bint pending(self) noexcept:
        return not self.broken and (
            self.p != self.e or self.later_at < len(self.later) or (self.finished and self.partial()))

    cdef int feed(self, bytes chunk) except -1:
        if self.finished:
            raise LocalProtocolError("bytes after the end of the stream")
        return 0 if self.broken else LineFramer.feed(self, chunk)

    cdef int next(self, const char **p, Py_ssize_t *n) except -1:
        cdef const char *at
        cdef const char *end
        cdef Py_ssize_t have
        cdef Py_ssize_t want
        cdef int kind
        if self.given:
            self.give_back()
        while not self.broken:
            if self.p == self.e and not (self.body and self.length == 0) and not self.load():
                if self.finished and self.partial():
                    return self.fail("the stream ended inside of a message")
                return LINE_NONE
            at = self.p
            if self.missing:
                kind = self.skip()
                if kind != LINE_NONE:
                    return kind
                continue
            if self.body:
                have = self.e - at
                want = self.length - <Py_ssize_t>self.n
                if have < want:
                    self.keep(at, have)
                    self.p = self.e
                    continue
                self.p = at + want
                if self.n:
                    self.keep(at, want)
                    self.given = True
                    at = self.buf
                p[0] = at if want or self.given else EMPTY
                n[0] = self.length
                self.body = False
                self.length = -1
                return LINE_FRAME
            end = <const char *>memchr(at, c'\n', self.e - at)
            if end is NULL:
                have = self.e - at
                if self.header + <Py_ssize_t>self.n + have >= self.max_header:
                    return self.fail(f"a header longer than {self.max_header} bytes")
                self.keep(at, have)
                self.p = self.e
                continue
            end += 1
            self.p = end
            have = end - at
            if self.header + <Py_ssize_t>self.n + have > self.max_header:
                return self.fail(f"a header longer than {self.max_header} bytes")
            if self.n:
                self.keep(at, have)
                at = self.buf
                have = <Py_ssize_t>self.n
            self.header += have
            kind = self.field(at, have)
            self.n = 0
            if kind != LINE_NONE:
                return kind
        return LINE_NONE

    cdef int field(self, const char *p, size_t n) except -1:
        """One line of a header, its end included."""
        cdef const char *colon
        cdef size_t i
        cdef unsigned char c
        cdef Py_ssize_t length = 0
        if n < 2 or p[n - 2] != c'\r':
            return self.fail("a header line does not end in CR LF")
        n -= 2
        if n == 0:
            if self.length < 0:
                return self.fail("a header without Content-Length")
            self.header = self.fields = 0
            self.body = True
            if <size_t>self.length > self.limit:
                self.missing = self.length
                self.body = self.told = False
                self.length = -1
                self.head = self.tail = b""
                if not self.tells_end:
                    self.told = True
                    return LINE_TOO_LONG
            return LINE_NONE
        self.fields += 1
        if self.fields > self.max_fields:
            return self.fail(f"a header of more than {self.max_fields} fields")
        colon = <const char *>memchr(p, c':', n)
        if colon is NULL or colon == p:
            return self.fail("a header line is no field")
        for i in range(<size_t>(colon - p)):
            if not is_token(p[i]):
                return self.fail("a header line is no field")
        i = colon - p + 1
        while i < n and (p[i] == c' ' or p[i] == c'\t'):
            i += 1
        while n > i and (p[n - 1] == c' ' or p[n - 1] == c'\t'):
            n -= 1
        if same(p, colon - p, b"content-length"):
            if self.length >= 0:
                return self.fail("Content-Length occurs twice")
            if n == i or n - i > DIGITS:
                return self.fail("Content-Length is no length")
            while i < n:
                c = p[i]
                if c < c'0' or c > c'9':
                    return self.fail("Content-Length is no length")
                length = length * 10 + (c - c'0')
                i += 1
            self.length = length
            return LINE_NONE
        for c in p[i:n]:
            if (c < 0x20 and c != c'\t') or c == 0x7F:
                return self.fail("a control character in a header")
        if same(p, colon - p, b"content-type") and foreign(PyBytes_FromStringAndSize(p + i, n - i)):
            return self.fail("the messages are not in UTF-8")
        return LINE_NONE

    cdef int skip(self) except -1:
        """Passes over what is here of a message over the limit. With `tells_end` both ends of it are kept, and it
        is reported once its first bytes are known, then at its end."""
        cdef Py_ssize_t have = min(self.missing, <Py_ssize_t>(self.e - self.p))
        cdef Py_ssize_t room
        cdef bytes end
        if self.tells_end:
            room = LINE_EDGE - PyBytes_GET_SIZE(self.head)
            if room:
                self.head += PyBytes_FromStringAndSize(self.p, min(have, room))
            end = PyBytes_FromStringAndSize(
                self.p + (have - LINE_EDGE if have > LINE_EDGE else 0), min(have, <Py_ssize_t>LINE_EDGE))
            self.tail = (self.tail + end)[-LINE_EDGE:]
        self.p += have
        self.missing -= have
        self.skipping = self.missing != 0
        if self.told:
            return LINE_SKIPPED if self.tells_end and not self.missing else LINE_NONE
        if self.missing and PyBytes_GET_SIZE(self.head) < LINE_EDGE:
            return LINE_NONE
        self.told = True
        return LINE_TOO_LONG

    cdef int fail(self, str reason) except -1:
        """Nothing behind this point can be read."""
        self.broken = True
        self.reason = reason
        self.give_back()
        self.later.clear()
        self.later_at = 0
        self.chunk = None
        self.p = self.e = NULL
        return LINE_BROKEN

    def _feed(self, tuple chunks, marker):
        """``feed`` of the Python class: the messages as bytes, ``marker(reason)`` in place of what is none; the
        reason is None for a message too long."""
        cdef list exact = [c if type(c) is bytes else bytes(memoryview(c)) for c in chunks]
        for chunk in exact:
            self.feed(chunk)
        return drain(self, marker)

    def _finish(self, marker):
        self.finish()
        return drain(self, marker)


cdef list drain(LengthFramer framer, marker):
    cdef list messages = []
    cdef const char *p
    cdef Py_ssize_t n
    cdef int got
    while True:
        got = framer.next(&p, &n)
        if got == LINE_NONE:
            return messages
        messages.append(PyBytes_FromStringAndSize(p, n) if got == LINE_FRAME
                        else marker(framer.reason if got == LINE_BROKEN else None))
