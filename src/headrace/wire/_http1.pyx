"""HTTP/1.1 heads and bodies without I/O: the Python face of csrc/hr_http1, and what the links share.

Strict on purpose (B54): whatever two readers could take for messages of different length is
refused. Everything raised for bytes of the peer is a RemoteProtocolError whose http_status is the
answer; the connection must be closed behind it.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeLatin1
from libc.stdint cimport uint32_t

from http import HTTPStatus

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.limits import DEFAULT

from headrace.wire._chttp cimport *
from headrace.wire._outbuf cimport Outbuf

__all__ = (
    "ChunkedDecoder", "Head", "HeadParser", "accepts", "encode_chunk", "header_line", "is_event_stream",
    "is_json_type", "parse_request", "parse_response", "request_head", "response_head",
)

# ---------------------------------------------------------------- results

cdef dict PROBLEMS = {
    HR_BAD_HEAD: (400, "malformed HTTP head"),
    HR_BAD_FRAMING: (400, "ambiguous message length"),
    HR_HEAD_TOO_LARGE: (431, "HTTP head over the limit"),
    HR_BAD_VERSION: (505, "neither HTTP/1.0 nor HTTP/1.1"),
    HR_BAD_CODING: (501, "unknown transfer coding"),
    HR_BAD_CHUNK: (400, "malformed chunked coding"),
    HR_TARGET_TOO_LONG: (414, "request target over the limit"),
}


cdef int status_of(int code) noexcept:
    if code == HR_HEAD_TOO_LARGE:
        return 431
    if code == HR_TARGET_TOO_LONG:
        return 414
    if code == HR_BAD_CODING:
        return 501
    if code == HR_BAD_VERSION:
        return 505
    return 400


cdef object head_error(int code):
    status, text = PROBLEMS.get(code, (400, "malformed HTTP message"))
    return RemoteProtocolError(text, http_status=status)


cdef inline uint32_t bound(object value) except *:
    return <uint32_t>min(value, 0x7FFFFFFF)


cdef hr_http1_limits head_limits(object limits) except *:
    cdef hr_http1_limits out
    out.max_head = bound(limits.max_header_bytes)
    out.max_count = bound(limits.max_header_count)
    out.max_target = bound(limits.max_target_bytes)
    return out


# ---------------------------------------------------------------- header access

cdef tuple KNOWN_NAMES = (
    b"host", b"origin", b"accept", b"content-type", b"content-encoding", b"authorization", b"last-event-id",
    b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name",
    b"access-control-request-method", b"access-control-request-headers",
    b"location", b"www-authenticate", b"retry-after",
)
assert len(KNOWN_NAMES) == HR_H_COUNT


cdef inline bytes span_bytes(hr_span s):
    return PyBytes_FromStringAndSize(s.p, <Py_ssize_t>s.n)


cdef inline str span_text(hr_span s):
    return PyUnicode_DecodeLatin1(s.p, <Py_ssize_t>s.n, NULL)


cdef bytes known_bytes(const hr_head *h, int which):
    if not h.seen >> which & 1:
        return None
    return span_bytes(h.known[which])


cdef str known_text(const hr_head *h, int which):
    if not h.seen >> which & 1:
        return None
    return span_text(h.known[which])


cdef bytes known_joined(const hr_head *h, int which, bytes lower_name):
    cdef const char *p = h.fields.p
    cdef const char *e = p + h.fields.n
    cdef hr_span name, value
    cdef list values
    if not h.duplicate >> which & 1:
        return known_bytes(h, which)
    values = []
    while hr_http1_next_header(&p, e, &name, &value):
        if hr_http1_ieq(name.p, name.n, PyBytes_AS_STRING(lower_name), <size_t>PyBytes_GET_SIZE(lower_name)):
            values.append(span_bytes(value))
    return b", ".join(values)


cdef list header_list(const hr_head *h):
    cdef const char *p = h.fields.p
    cdef const char *e = p + h.fields.n
    cdef hr_span name, value
    cdef list out = []
    while hr_http1_next_header(&p, e, &name, &value):
        out.append((span_bytes(name).lower(), span_bytes(value)))
    return out


# ---------------------------------------------------------------- negotiation

cdef inline const char *skip_space(const char *p, const char *e) noexcept:
    while p < e and (p[0] == c' ' or p[0] == c'\t'):
        p += 1
    return p


cdef inline bint is_token(char c) noexcept:
    return (
        c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c'0' <= c <= c'9' or c == c'-' or c == c'.' or c == c'+'
        or c == c'_' or c == c'*' or c == c'!' or c == c'#' or c == c'$' or c == c'%' or c == c'&'
        or c == c"'" or c == c'^' or c == c'`' or c == c'|' or c == c'~'
    )


cdef const char *take_token(const char *p, const char *e, hr_span *out) noexcept:
    out.p = p
    while p < e and is_token(p[0]):
        p += 1
    out.n = <size_t>(p - out.p)
    return p


# One parameter behind its ';': 1 read, 0 an empty one (";" alone), -1 malformed. *pp moves on. The
# value of a quoted string is its inside, backslashes included.
cdef int take_parameter(const char **pp, const char *e, hr_span *name, hr_span *value) noexcept:
    cdef const char *p = skip_space(pp[0], e)
    p = take_token(p, e, name)
    pp[0] = p
    if name.n == 0:
        return 0 if p == e or p[0] == c';' or p[0] == c',' else -1
    if p == e or p[0] != c'=':
        return -1
    p += 1
    if p < e and p[0] == c'"':
        p += 1
        value.p = p
        while p < e and p[0] != c'"':
            p += 2 if p[0] == c'\\' and e - p > 1 else 1
        if p >= e:
            pp[0] = e
            return -1
        value.n = <size_t>(p - value.p)
        p += 1
    else:
        p = take_token(p, e, value)
    pp[0] = p
    return 1 if value.n or (p - 1)[0] == c'"' else -1


# Whether a qvalue is above zero. What is not a qvalue does not count against the peer.
cdef bint positive(hr_span q) noexcept:
    cdef size_t i
    cdef bint zero = q.n > 0
    for i in range(q.n):
        if q.p[i] != c'0' and q.p[i] != c'.':
            zero = False
    return not zero


cdef int accept_bits(const char *p, Py_ssize_t n) noexcept:
    """Most specific range wins (RFC 9110 12.5.1); an absent or empty header accepts everything."""
    cdef const char *e = p + n
    cdef hr_span kind, sub, name, value
    cdef int rc, rank, allowed
    cdef int json_rank = -1, sse_rank = -1
    cdef bint json_ok = False, sse_ok = False, any_range = False
    if n <= 0:
        return ACCEPT_JSON | ACCEPT_SSE
    while p < e:
        p = skip_space(p, e)
        if p < e and p[0] == c',':
            p += 1
            continue
        if p == e:
            break
        any_range = True
        allowed = 1
        p = take_token(p, e, &kind)
        sub.n = 0
        sub.p = p
        if p < e and p[0] == c'/':
            p = take_token(p + 1, e, &sub)
        elif kind.n == 1 and kind.p[0] == c'*':     # old Java clients send a lone "*"
            sub = kind
        p = skip_space(p, e)
        while p < e and p[0] == c';':
            p += 1
            rc = take_parameter(&p, e, &name, &value)
            if rc < 0:                              # a malformed parameter: the range still counts
                while p < e and p[0] != c',':
                    p += 1
                break
            if rc > 0 and name.n == 1 and (name.p[0] == c'q' or name.p[0] == c'Q'):
                allowed = positive(value)
            p = skip_space(p, e)
        if p == e or p[0] == c',':
            if kind.n and sub.n:
                if kind.n == 1 and kind.p[0] == c'*':
                    rank = 0 if sub.n == 1 and sub.p[0] == c'*' else -2
                    if rank == 0 and json_rank <= 0:
                        json_ok = allowed or (json_ok and json_rank == 0)
                        json_rank = 0
                    if rank == 0 and sse_rank <= 0:
                        sse_ok = allowed or (sse_ok and sse_rank == 0)
                        sse_rank = 0
                elif hr_http1_ieq(kind.p, kind.n, "application", 11):
                    rank = 1 if sub.n == 1 and sub.p[0] == c'*' else 2
                    if rank == 2 and not hr_http1_ieq(sub.p, sub.n, "json", 4):
                        rank = -2
                    if rank >= json_rank:
                        json_ok = allowed or (json_ok and json_rank == rank)
                        json_rank = rank
                elif hr_http1_ieq(kind.p, kind.n, "text", 4):
                    rank = 1 if sub.n == 1 and sub.p[0] == c'*' else 2
                    if rank == 2 and not hr_http1_ieq(sub.p, sub.n, "event-stream", 12):
                        rank = -2
                    if rank >= sse_rank:
                        sse_ok = allowed or (sse_ok and sse_rank == rank)
                        sse_rank = rank
        else:                                       # malformed element: skipped
            while p < e and p[0] != c',':
                p += 1
    if not any_range:
        return ACCEPT_JSON | ACCEPT_SSE
    return (ACCEPT_JSON if json_ok else 0) | (ACCEPT_SSE if sse_ok else 0)


# Matches "type/subtype" at the start, then walks the parameters. charset_only: a charset must be UTF-8.
cdef bint media_type(const char *p, Py_ssize_t n, const char *want, size_t want_n, bint utf8) noexcept:
    cdef const char *e = p + n
    cdef hr_span name, value
    cdef int rc
    if n < <Py_ssize_t>want_n or not hr_http1_ieq(p, want_n, want, want_n):
        return False
    p += want_n
    while True:
        p = skip_space(p, e)
        if p == e:
            return True
        if p[0] != c';':
            return False
        p += 1
        rc = take_parameter(&p, e, &name, &value)
        if rc < 0:
            return False
        if utf8 and rc > 0 and hr_http1_ieq(name.p, name.n, "charset", 7):
            if not (hr_http1_ieq(value.p, value.n, "utf-8", 5) or hr_http1_ieq(value.p, value.n, "utf8", 4)):
                return False


cdef bint json_type(const char *p, Py_ssize_t n) noexcept:
    return media_type(p, n, "application/json", 16, True)


cdef bint sse_type(const char *p, Py_ssize_t n) noexcept:
    return media_type(p, n, "text/event-stream", 17, False)


def accepts(bytes value: bytes | None) -> tuple[bool, bool]:
    """Whether an ``Accept`` value allows ``application/json`` and ``text/event-stream`` (B55).

    ``value``: the field value, several lines joined with a comma; ``None`` or empty accepts all.
    """
    cdef int bits = ACCEPT_JSON | ACCEPT_SSE
    if value is not None:
        bits = accept_bits(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))
    return bool(bits & ACCEPT_JSON), bool(bits & ACCEPT_SSE)


def is_json_type(bytes value not None: bytes) -> bool:
    """Whether a ``Content-Type`` value is ``application/json``, in UTF-8 where it says so (B56)."""
    return json_type(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


def is_event_stream(bytes value not None: bytes) -> bool:
    """Whether a ``Content-Type`` value is ``text/event-stream``, with any parameters (B56)."""
    return sse_type(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value))


# ---------------------------------------------------------------- writing

cdef dict STATUS_LINES = {
    int(status): f"HTTP/1.1 {int(status)} {status.phrase}\r\n".encode() for status in HTTPStatus
}


cdef bytes status_line(int status):
    line = STATUS_LINES.get(status)
    if line is None:
        if not 100 <= status <= 999:
            raise LocalProtocolError(f"no HTTP status: {status}")
        line = STATUS_LINES[status] = f"HTTP/1.1 {status} \r\n".encode()
    return <bytes>line


cdef int put_response_head(Outbuf out, int status, bytes fields, long long length, bint chunked,
                           bint close) except -1:
    cdef bytes line = status_line(status)
    out.room(PyBytes_GET_SIZE(line) + PyBytes_GET_SIZE(fields) + 96)
    out.put_bytes(line)
    out.put_bytes(fields)
    if chunked:
        out.put("Transfer-Encoding: chunked\r\n", 28)
    elif length >= 0:
        out.put("Content-Length: ", 16)
        out.put_int(length)
        out.put("\r\n", 2)
    if close:
        out.put("Connection: close\r\n", 19)
    return out.put("\r\n", 2)


cdef int put_request_head(Outbuf out, bytes line, bytes fields, long long length) except -1:
    out.put_bytes(line)
    out.put_bytes(fields)
    if length >= 0:
        out.put("Content-Length: ", 16)
        out.put_int(length)
        out.put("\r\n", 2)
    return out.put("\r\n", 2)


cdef int put_chunk_size(Outbuf out, Py_ssize_t n) except -1:
    cdef char text[20]
    cdef int i = 18
    cdef size_t u = <size_t>n
    text[18] = c'\r'
    text[19] = c'\n'
    while True:
        i -= 1
        text[i] = "0123456789abcdef"[u & 15]
        u >>= 4
        if u == 0:
            break
    return out.put(text + i, 20 - i)


def header_line(str name not None: str, str value not None: str) -> bytes:
    """One header line with its CRLF.

    Raises :class:`LocalProtocolError` when the name is no token or the value holds what a header
    may not hold (line ends, other controls, characters beyond latin-1), so nothing can be injected.
    """
    cdef bytes raw_name, raw_value
    cdef unsigned char c
    try:
        raw_name = name.encode("ascii")
        raw_value = value.encode("latin-1")
    except UnicodeEncodeError:
        raise LocalProtocolError(f"header {name!r} holds characters that HTTP cannot carry") from None
    if not raw_name:
        raise LocalProtocolError("a header needs a name")
    for c in raw_name:
        if not is_token(<char>c):
            raise LocalProtocolError(f"not a header name: {name!r}")
    for c in raw_value:
        if (c < 0x20 and c != 9) or c == 0x7F:
            raise LocalProtocolError(f"header {name!r} holds a control character")
    return raw_name + b": " + raw_value.strip(b" \t") + b"\r\n"


cdef bytes field_lines(object headers):
    return b"".join([header_line(name, value) for name, value in headers])


def response_head(
    int status, headers=(), *, length: int | None = None, bint chunked: bool = False, bint close: bool = False
) -> bytes:
    """A response head. ``headers``: pairs of str; framing headers come from ``length`` or ``chunked``.

    Raises :class:`LocalProtocolError` for a status outside 100..999 or a header that HTTP cannot carry.
    """
    cdef Outbuf out = Outbuf()
    put_response_head(out, status, field_lines(headers), -1 if length is None else length, chunked, close)
    return out.take()


def request_head(str method not None: str, str target not None: str, headers, *, length: int | None = None) -> bytes:
    """A request head; ``headers`` (pairs of str) has to hold Host. Raises :class:`LocalProtocolError`."""
    cdef Outbuf out = Outbuf()
    cdef Py_UCS4 c
    if not method or not all([c < 128 and is_token(<char>c) for c in method]):
        raise LocalProtocolError(f"not an HTTP method: {method!r}")
    if not target or not all([0x21 <= c <= 0x7E and c != 35 for c in target]):
        raise LocalProtocolError(f"not a request target: {target!r}")
    put_request_head(
        out, f"{method} {target} HTTP/1.1\r\n".encode(), field_lines(headers), -1 if length is None else length
    )
    return out.take()


def encode_chunk(bytes data not None: bytes) -> bytes:
    """``data`` as one chunk; empty ``data`` is the end of the body."""
    cdef Outbuf out = Outbuf()
    put_chunk_size(out, PyBytes_GET_SIZE(data))
    out.put_bytes(data)
    out.put("\r\n", 2)
    return out.take()


# ---------------------------------------------------------------- Python objects

@cython.final
@cython.auto_pickle(False)
cdef class Head:
    """A request or response head. Field order and repeated lines are kept in ``headers``."""

    cdef readonly str method            # requests; None in a response
    cdef readonly str target            # requests; None in a response
    cdef readonly int status            # responses; 0 in a request
    cdef readonly str reason            # responses; None in a request
    cdef readonly int minor             # HTTP/1.minor
    cdef readonly list headers          # [(name in lower case, value)] as bytes
    cdef readonly object content_length     # int or None
    cdef readonly bint chunked
    cdef readonly bint keep_alive       # the connection may be used again after this message
    cdef readonly bint expect_continue  # Expect: 100-continue (B51)
    cdef readonly bint expect_other     # another expectation: 417
    cdef readonly bint upgrade          # an Upgrade header, to be ignored (B54)
    cdef readonly bint absolute         # the target is in absolute form (B54)
    cdef readonly bint has_mcp_params   # some header starts with Mcp-Param-
    cdef readonly dict known            # the headers MCP uses, first line each, bytes
    cdef readonly frozenset repeated    # names of `known` that had more lines
    cdef readonly Py_ssize_t size       # bytes of the head: the body starts behind them
    cdef int body_kind

    @property
    def body(self) -> str:
        """How the body ends: ``"none"``, ``"length"``, ``"chunked"`` or ``"until-close"``.

        Of a response that does not answer a HEAD request.
        """
        return ("none", "length", "chunked", "until-close")[self.body_kind]

    def get(self, bytes name not None: bytes) -> bytes | None:
        """The value of a header (lower-case name); several lines are joined with ``", "``."""
        cdef list values = [v for n, v in self.headers if n == name]
        return b", ".join(values) if values else None

    def __repr__(self) -> str:
        what = f"{self.method} {self.target}" if self.method is not None else f"{self.status} {self.reason}"
        return f"<Head {what} HTTP/1.{self.minor}, {len(self.headers)} headers>"


cdef Head make_head(const hr_head *h, bint response):
    cdef Head out = Head.__new__(Head)
    cdef int i
    if response:
        out.status = h.status
        out.reason = span_text(h.reason)
        out.body_kind = hr_http1_response_body(h, False)
    else:
        out.method = span_text(h.verb)
        out.target = span_text(h.target)
        out.body_kind = hr_http1_request_body(h)
    out.minor = h.minor
    out.headers = header_list(h)
    out.content_length = h.content_length if h.flags & HR_F_HAS_LENGTH else None
    out.chunked = (h.flags & HR_F_CHUNKED) != 0
    out.keep_alive = (h.flags & HR_F_PERSIST) != 0
    out.expect_continue = (h.flags & HR_F_EXPECT_100) != 0
    out.expect_other = (h.flags & HR_F_EXPECT_OTHER) != 0
    out.upgrade = (h.flags & HR_F_UPGRADE) != 0
    out.absolute = (h.flags & HR_F_ABSOLUTE) != 0
    out.has_mcp_params = (h.flags & HR_F_MCP_PARAM) != 0
    out.known = {KNOWN_NAMES[i]: span_bytes(h.known[i]) for i in range(HR_H_COUNT) if h.seen >> i & 1}
    out.repeated = frozenset([KNOWN_NAMES[i] for i in range(HR_H_COUNT) if h.duplicate >> i & 1])
    out.size = <Py_ssize_t>h.head_len
    return out


@cython.final
cdef class HeadParser:
    """Reads one head after another from pieces of any size.

    ``response``: read response heads; ``limits``: max_header_bytes, max_header_count and
    max_target_bytes are used.
    """

    cdef hr_head h
    cdef hr_http1_limits limits
    cdef bint response
    cdef bytearray pending
    cdef readonly bytes trailing
    """Bytes behind the last complete head; they are not read as a head unless fed again."""

    def __init__(self, *, bint response: bool = False, limits=DEFAULT) -> None:
        self.limits = head_limits(limits)
        self.response = response
        self.pending = bytearray()
        self.trailing = b""
        hr_http1_reset(&self.h)

    def feed(self, bytes data not None: bytes) -> Head | None:
        """Takes bytes in; the head when it is complete, else ``None``.

        Raises :class:`RemoteProtocolError` with ``http_status`` 400, 414, 431, 501 or 505.
        """
        cdef int rc
        cdef const char *p
        cdef Head head
        self.pending += data
        p = self.pending
        if self.response:
            rc = hr_http1_response(p, <size_t>len(self.pending), &self.limits, &self.h)
        else:
            rc = hr_http1_request(p, <size_t>len(self.pending), &self.limits, &self.h)
        if rc == HR_NEED_MORE:
            return None
        if rc != HR_OK:
            raise head_error(rc)
        head = make_head(&self.h, self.response)
        self.trailing = bytes(self.pending[head.size:])
        self.pending = bytearray()
        return head


def parse_request(bytes data not None: bytes, *, limits=DEFAULT) -> Head | None:
    """The request head at the start of ``data``, or ``None`` when it is not complete yet.

    Raises :class:`RemoteProtocolError` with ``http_status`` 400, 414, 431, 501 or 505 (RFC 9112, B54).
    """
    return HeadParser(limits=limits).feed(data)


def parse_response(bytes data not None: bytes, *, limits=DEFAULT) -> Head | None:
    """The response head at the start of ``data``, or ``None`` when it is not complete yet.

    Raises :class:`RemoteProtocolError`.
    """
    return HeadParser(response=True, limits=limits).feed(data)


@cython.final
cdef class ChunkedDecoder:
    """Undoes the chunked coding of one body (RFC 9112 7.1, B50); trailers are dropped."""

    cdef hr_chunked d
    cdef hr_http1_limits limits
    cdef readonly bint done
    """The last chunk and the trailers were read."""
    cdef readonly bytes trailing
    """Bytes behind the body: the next message."""

    def __init__(self, *, limits=DEFAULT) -> None:
        self.limits = head_limits(limits)
        self.trailing = b""

    def feed(self, bytes data not None: bytes) -> bytes:
        """Takes bytes in and gives the body bytes among them.

        Raises :class:`RemoteProtocolError` with ``http_status`` 400, or 431 for the trailers.
        """
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef const char *e = p + PyBytes_GET_SIZE(data)
        cdef hr_span piece
        cdef list out = []
        cdef int rc
        if self.done:
            self.trailing += data
            return b""
        while True:
            rc = hr_chunked_next(&self.d, &p, e, &self.limits, &piece)
            if rc != HR_CHUNK_DATA:
                break
            out.append(span_bytes(piece))
        if rc == HR_OK:
            self.done = True
            self.trailing = PyBytes_FromStringAndSize(p, e - p)
        elif rc != HR_NEED_MORE:
            raise head_error(rc)
        return b"".join(out)
