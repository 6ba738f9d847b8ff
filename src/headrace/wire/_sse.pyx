"""Server-sent events without I/O: the decoder for clients, and events written in place for servers.

The rules are those of WHATWG HTML 9.2 (HO-25, B34, B35, B37..B40); see csrc/hr_sse.h.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport uint16_t
from libc.string cimport memcpy

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.limits import DEFAULT

from headrace.wire._chttp cimport *
from headrace.wire._outbuf cimport Outbuf

__all__ = ("SseEvent", "SseFramer", "encode_comment", "encode_event")

cdef enum:
    KEEP = 64 * 1024        # what a large event took beyond this is given back after it


@cython.final
@cython.auto_pickle(False)
cdef class SseEvent:
    """One event: ``event`` (str, ``"message"`` by default), ``data`` (bytes, lines joined with LF)
    and ``id`` (str or ``None``: the stream's last event id when it came)."""

    cdef readonly str event
    cdef readonly bytes data
    cdef readonly str id

    def __init__(self, str event not None: str, bytes data not None: bytes, str id: str | None = None) -> None:
        self.event = event
        self.data = data
        self.id = id

    def __eq__(self, other: object) -> bool:
        if type(other) is not SseEvent:
            return NotImplemented
        return (
            self.event == (<SseEvent>other).event
            and self.data == (<SseEvent>other).data
            and self.id == (<SseEvent>other).id
        )

    __hash__ = None

    def __repr__(self) -> str:
        return f"SseEvent({self.event!r}, {self.data!r}, {self.id!r})"


cdef str text_of(const char *p, size_t n):
    return PyBytes_FromStringAndSize(p, <Py_ssize_t>n).decode("utf-8", "replace")


@cython.final
cdef class SseFramer:
    """Decoder of one event stream.

    ``max_event_bytes`` bounds the joined data of one event; event names are bounded at 256 bytes,
    ids at 1024. At the end of the stream an unfinished event is simply dropped.
    """

    def __cinit__(self, max_event_bytes=None):
        cdef object bound = DEFAULT.max_message_bytes if max_event_bytes is None else max_event_bytes
        if not bound > 0:
            raise ValueError(f"max_event_bytes must be positive, not {bound!r}")
        self.s.max_event = <size_t>bound

    def __dealloc__(self):
        PyMem_Free(self.s.buf)

    cdef bint next(self, const char **p, const char *e, hr_sse_event *out) except -1:
        cdef int rc
        cdef char *grown
        if self.s.cap > KEEP and self.s.used == 0 and self.s.ref == NULL and self.s.lines == 0:
            PyMem_Free(self.s.buf)
            self.s.buf = NULL
            self.s.cap = 0
        while True:
            rc = hr_sse_next(&self.s, p, e, out)
            if rc == HR_OK:
                return True
            if rc == HR_NEED_MORE:
                return False
            if rc != HR_SSE_GROW:
                raise RemoteProtocolError("event over the limit")
            grown = <char *>PyMem_Realloc(self.s.buf, self.s.need)
            if grown == NULL:
                raise MemoryError
            self.s.buf = grown
            self.s.cap = self.s.need

    cdef bytes last_id(self):
        if self.s.id_n == 0:
            return None
        return PyBytes_FromStringAndSize(self.s.id, self.s.id_n)

    cdef int begin(self, bytes id) except -1:
        hr_sse_restart(&self.s, False)
        if id is not None and PyBytes_GET_SIZE(id) <= HR_SSE_ID_MAX:
            memcpy(&self.s.id[0], PyBytes_AS_STRING(id), <size_t>PyBytes_GET_SIZE(id))
            self.s.id_n = <uint16_t>PyBytes_GET_SIZE(id)
        return 0

    def feed(self, bytes data not None: bytes) -> list[SseEvent]:
        """Takes bytes in and gives the events that they complete.

        Raises :class:`RemoteProtocolError` when an event, its name or an id is over its bound; the
        stream is unusable then.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef const char *e = p + PyBytes_GET_SIZE(data)
        cdef hr_sse_event ev
        cdef list out = []
        cdef SseEvent event
        while self.next(&p, e, &ev):
            event = SseEvent.__new__(SseEvent)
            event.event = text_of(ev.event.p, ev.event.n) if ev.event.n else "message"
            event.data = PyBytes_FromStringAndSize(ev.data.p, <Py_ssize_t>ev.data.n)
            event.id = text_of(ev.id.p, ev.id.n) if ev.id.n else None
            out.append(event)
        return out

    def restart(self, *, bint keep_id: bool = True) -> None:
        """Begins a new connection of the same stream: drops what is unfinished, keeps the id."""
        hr_sse_restart(&self.s, keep_id)

    @property
    def last_event_id(self) -> str | None:
        """The last event id for ``Last-Event-ID``; ``None`` when there is none or it was cleared (B40)."""
        return text_of(self.s.id, self.s.id_n) if self.s.id_n else None

    @property
    def retry_ms(self) -> int | None:
        """The last valid ``retry`` in milliseconds, at most 2**32 - 1; ``None`` when there was none."""
        return self.s.retry_ms if self.s.has_retry else None


cdef int begin_event(Outbuf out) except -1:
    return out.put("event: message\ndata: ", 21)


cdef int finish_event(Outbuf out, Py_ssize_t start) except -1:
    cdef Py_ssize_t n = out.n - start
    cdef size_t growth
    hr_sse_flatten(out.base + start, <size_t>n)
    growth = hr_sse_escape_growth(out.base + start, <size_t>n)
    if growth:
        out.room(<Py_ssize_t>growth)
        hr_sse_escape(out.base + start, <size_t>n, growth)
        out.n += <Py_ssize_t>growth
    return out.put("\n\n", 2)


cdef int put_event(Outbuf out, bytes id, bytes data, long long retry_ms) except -1:
    if PyBytes_GET_SIZE(data):
        out.put("event: message\n", 15)
    if id is not None:
        out.put("id: ", 4)
        out.put_bytes(id)
        out.put("\n", 1)
    if retry_ms >= 0:
        out.put("retry: ", 7)
        out.put_int(retry_ms)
        out.put("\n", 1)
    out.put("data: ", 6)
    out.put_bytes(data)
    return out.put("\n\n", 2)


cdef int put_field(list out, str name, str value) except -1:
    if "\n" in value or "\r" in value or "\0" in value:
        raise LocalProtocolError(f"{name} of an event holds a line end or NUL")
    out.append(f"{name}: {value}\n".encode())
    return 0


def encode_event(
    bytes data not None: bytes,
    str event: str | None = "message",
    str id: str | None = None,
    retry: int | None = None,
) -> bytes:
    """One event as bytes.

    ``data`` is split into data lines at LF, CRLF and CR. For a JSON text in UTF-8, raw U+2028,
    U+2029 and U+0085 are sent escaped (B34). ``event=None`` leaves the event field out; ``retry``
    is milliseconds. Raises :class:`LocalProtocolError` for a name or id with a line end or NUL.
    """
    cdef list out = []
    if event is not None:
        put_field(out, "event", event)
    if id is not None:
        put_field(out, "id", id)
    if retry is not None:
        if retry < 0:
            raise LocalProtocolError("retry of an event must not be negative")
        out.append(b"retry: %d\n" % retry)
    for line in data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n"):
        out.append(b"data: %b\n" % escaped(line))
    out.append(b"\n")
    return b"".join(out)


cdef bytes escaped(bytes line):
    cdef Py_ssize_t n = PyBytes_GET_SIZE(line)
    cdef size_t growth = hr_sse_escape_growth(PyBytes_AS_STRING(line), <size_t>n)
    cdef bytes out
    if not growth:
        return line
    out = line + bytes(<Py_ssize_t>growth)
    hr_sse_escape(PyBytes_AS_STRING(out), <size_t>n, growth)
    return out


def encode_comment(str text: str = "") -> bytes:
    """A comment line as keep-alive (B39, HN-41)."""
    if "\n" in text or "\r" in text:
        raise LocalProtocolError("a comment holds a line end")
    return f": {text}\n\n".encode() if text else b":\n\n"
