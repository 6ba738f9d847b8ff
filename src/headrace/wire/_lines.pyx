"""Bytes to lines: the framing of stdio, unix and TCP streams (ST-01..ST-08).

Every byte is searched once. A line that lies wholly in one chunk is given out as a span of that
chunk; only a line that crosses chunks is copied, into one buffer that grows geometrically and is
given back after a large line. So the cost is linear however the stream is cut (B10, B11).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.string cimport memchr, memcpy

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

from headrace.errors import LocalProtocolError, UsageError

cdef enum:
    SMALL = 512         # first size of the buffer
    KEEP = 64 * 1024    # a larger buffer is given back after its line

cdef const char *BOM = b"\xef\xbb\xbf"


cdef inline bint _blank(const char *p, const char *e) noexcept:
    while p < e:
        if p[0] != c' ' and p[0] != c'\t' and p[0] != c'\r':
            return False
        p += 1
    return True


cdef class LineFramer:
    """Cuts a byte stream into lines; for compiled code, Python code uses :class:`headrace.wire.LineFramer`.

    Lines end with LF; one CR before it belongs to the end (B02). Blank lines are passed over (B03),
    and so is one UTF-8 byte order mark at the start of the stream (B06).

    :param max_line_bytes: the longest line in bytes, its end not counted.
    :raises UsageError: the limit is not positive.
    """

    def __cinit__(self):
        self.later = []

    def __init__(self, max_line_bytes):
        # half of what is addressable: sums of a limit and a chunk cannot overflow
        if not 0 < max_line_bytes <= PY_SSIZE_T_MAX // 2:
            raise UsageError(f"max_line_bytes must be positive, not {max_line_bytes!r}")
        self.limit = max_line_bytes

    def __dealloc__(self):
        PyMem_RawFree(self.buf)

    cdef bint pending(self) noexcept:
        return self.p != self.e or self.later_at < len(self.later) or (
            self.finished and (self.bom > 0 or (self.n != 0 and not self.given)))

    cdef int feed(self, bytes chunk) except -1:
        if self.finished:
            raise LocalProtocolError("bytes after the end of the stream")
        if self.p == self.e and not self.later:
            self.chunk = chunk
            self.p = PyBytes_AS_STRING(chunk)
            self.e = self.p + PyBytes_GET_SIZE(chunk)
            if self.bom >= 0:
                self.skip_bom()
        else:
            self.later.append(chunk)
        return 0

    cdef int finish(self) except -1:
        self.finished = True
        return 0

    cdef int next(self, const char **p, Py_ssize_t *n) except -1:
        cdef const char *line
        cdef const char *end
        cdef size_t length
        if self.given:
            self.give_back()
        while True:
            if self.p == self.e and not self.load():
                if not self.finished or self.n == 0:
                    return LINE_NONE
                line = self.buf
                length = self.n
                self.given = True
            else:
                line = self.p
                end = <const char *>memchr(line, c'\n', self.e - line)
                if end is NULL:
                    self.p = self.e
                    if self.skipping:
                        if self.tells_end:
                            self.note_tail(line, self.e - line)
                        continue
                    length = self.n + <size_t>(self.e - line)
                    if length - ((self.e - 1)[0] == c'\r') > self.limit:
                        self.skipping = True
                        if self.tells_end:
                            self.note_head(line, self.e - line)
                        self.give_back()
                        return LINE_TOO_LONG
                    self.keep(line, self.e - line)
                    continue
                self.p = end + 1
                if self.skipping:
                    self.skipping = False
                    if self.tells_end:
                        self.note_tail(line, end - line)
                        return LINE_SKIPPED
                    continue
                length = end - line
                if self.n:
                    if self.n + length > self.limit + 1:  # even if it ends in CR
                        if self.tells_end:
                            self.note_head(line, length)
                        self.give_back()
                        return LINE_TOO_LONG
                    self.keep(line, length)
                    line = self.buf
                    length = self.n
                    self.given = True
            if length and line[length - 1] == c'\r':
                length -= 1
            if length > self.limit:  # only the line's own bytes count, however the chunk goes on (B10)
                if self.tells_end:
                    self.n = 0
                    self.note_head(line, length)
                if self.given:
                    self.give_back()
                return LINE_TOO_LONG
            if length == 0 or (line[0] <= c' ' and _blank(line, line + length)):
                if self.given:
                    self.give_back()
                continue
            p[0] = line
            n[0] = <Py_ssize_t>length
            return LINE_FRAME

    cdef bint load(self) except -1:
        """Goes on to the next chunk that has bytes; False: there is none."""
        cdef bytes chunk
        while self.later_at < len(self.later):
            chunk = self.later[self.later_at]
            self.later[self.later_at] = None
            self.later_at += 1
            self.chunk = chunk
            self.p = PyBytes_AS_STRING(chunk)
            self.e = self.p + PyBytes_GET_SIZE(chunk)
            if self.bom >= 0:
                self.skip_bom()
            if self.p != self.e:
                return True
        if self.later_at:
            self.later.clear()
            self.later_at = 0
        self.chunk = None
        self.p = self.e = NULL
        if self.finished and self.bom > 0:
            self.keep(BOM, self.bom)  # a mark cut short is a line like any other
            self.bom = -1
        return False

    cdef int skip_bom(self) except -1:
        while self.p != self.e:
            if self.p[0] != BOM[self.bom]:
                if self.bom:
                    self.keep(BOM, self.bom)
                self.bom = -1
                return 0
            self.p += 1
            self.bom += 1
            if self.bom == 3:
                self.bom = -1
                return 0
        return 0

    cdef int keep(self, const char *p, size_t n) except -1:
        cdef size_t need = self.n + n, cap
        cdef char *buf
        if need > self.cap:
            cap = self.cap * 2
            if cap > self.limit + 1:
                cap = self.limit + 1  # a line within the limit and its CR
            if cap < need:
                cap = need
            if cap < SMALL:
                cap = SMALL
            buf = <char *>PyMem_RawRealloc(self.buf, cap)
            if buf is NULL:
                raise MemoryError
            self.buf = buf
            self.cap = cap
        if n:
            memcpy(self.buf + self.n, p, n)
            self.n = need
        return 0

    cdef int note_head(self, const char *line, size_t length) except -1:
        """Keeps both ends of a line over the limit: what the buffer holds and [line, line + length)."""
        cdef bytes held = PyBytes_FromStringAndSize(self.buf, min(self.n, <size_t>LINE_EDGE))
        self.head = (held + PyBytes_FromStringAndSize(line, min(length, <size_t>LINE_EDGE)))[:LINE_EDGE]
        self.tail = b""
        if self.n:
            self.note_tail(self.buf, self.n)
        return self.note_tail(line, length)

    cdef int note_tail(self, const char *line, size_t length) except -1:
        cdef size_t taken = min(length, <size_t>LINE_EDGE)
        self.tail = (self.tail + PyBytes_FromStringAndSize(line + length - taken, taken))[-LINE_EDGE:]
        return 0

    cdef int give_back(self) noexcept:
        self.given = False
        self.n = 0
        if self.cap > KEEP:
            PyMem_RawFree(self.buf)
            self.buf = NULL
            self.cap = 0
        return 0

    def _feed(self, tuple chunks, marker):
        """``feed`` of the Python class: the lines as bytes, ``marker()`` in place of one too long."""
        cdef list exact = [c if type(c) is bytes else bytes(memoryview(c)) for c in chunks]
        for chunk in exact:
            self.feed(chunk)
        return _drain(self, marker)

    def _finish(self, marker):
        self.finish()
        return _drain(self, marker)


cdef list _drain(LineFramer framer, marker):
    cdef list lines = []
    cdef const char *p
    cdef Py_ssize_t n
    cdef int got
    while True:
        got = framer.next(&p, &n)
        if got == LINE_NONE:
            return lines
        lines.append(PyBytes_FromStringAndSize(p, n) if got == LINE_FRAME else marker())
