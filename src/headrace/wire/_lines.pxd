# Cutting a byte stream into lines (ST-01..ST-08). Who drives it: feed(), then next() until
# LINE_NONE, and so on; at the end of the stream finish(), then next() until LINE_NONE.

cdef enum:
    LINE_NONE = 0      # no complete line now
    LINE_FRAME = 1     # one line, without its end
    LINE_TOO_LONG = 2  # a line over the limit was met; said once, what is left of it is skipped
    LINE_SKIPPED = 3   # its end was met, when that was not known before; only with `tells_end`
    LINE_EDGE = 96     # bytes of a line over the limit that are kept of each of its ends

cdef class LineFramer:
    cdef size_t limit           # bytes of one line without its end
    cdef bytes chunk            # being read; None when used up
    cdef const char *p          # unread rest of `chunk`
    cdef const char *e
    cdef list later             # chunks fed before `chunk` was used up
    cdef Py_ssize_t later_at    # first of them that is not read yet
    cdef char *buf              # a line that began in an earlier chunk
    cdef size_t n
    cdef size_t cap
    cdef int bom                # bytes of a byte order mark seen at the start of the stream; -1: past that
    cdef bint given             # `buf` is the frame that next() gave last
    cdef bint skipping          # inside a line that was reported as too long
    cdef bint finished
    cdef bint tells_end
    cdef bytes head             # the start of the last line over the limit, with `tells_end`
    cdef bytes tail             # and its end, as far as it was met

    # Takes a chunk (a reference is held); behind what was fed before and is not read yet.
    cdef int feed(self, bytes chunk) except -1
    # One of the LINE_ values. *p and *n are valid until the next call of feed, next or finish.
    cdef int next(self, const char **p, Py_ssize_t *n) except -1
    # End of the stream: a last line without a line end becomes available through next() (B12).
    cdef int finish(self) except -1
    # Something is left that next() has not looked at.
    cdef bint pending(self) noexcept

    cdef int keep(self, const char *p, size_t n) except -1
    cdef int give_back(self) noexcept
    cdef bint load(self) except -1
    cdef int skip_bom(self) except -1
    cdef int note_head(self, const char *line, size_t length) except -1
    cdef int note_tail(self, const char *line, size_t length) except -1
