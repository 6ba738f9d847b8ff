"""Requests of a Streamable HTTP client: what is sent, and what each kind of answer means.

Strategy: ChannelState holds what all requests of one channel share (prepared heads, the mux, the
pool); a ClientRequest decides about its own answer: redirects, errors by status, broken streams,
resuming. ClientCall is the hot one.

When a request is sent twice. A connection that the server has closed while it was idle is found out
before the write (its end waits on the socket), so such a request has not been sent yet. If the end
races with the write, nobody can know whether the server has run the request: it is sent again, once
and on a new connection, only when the connection had served an answer before, not one byte of this
answer came, and the method changes nothing by being run twice (SAFE). A tool call then fails with
ConnectionClosed.
"""

from base64 import b64encode
from http import HTTPStatus

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from headrace.errors import (
    ConnectionClosed, HeadraceError, HttpStatusError, LocalProtocolError, RemoteProtocolError, RpcError, UsageError,
    seconds_of,
)

from headrace.mux._mux cimport Exchange, Mux, PendingCall, Sink, read_error
from headrace.transports._http_conn cimport (
    BODY_DISCARD, BODY_DROP, BODY_EVENTS, BODY_EXCERPT, BODY_WHOLE, HttpPool, HttpRequest,
)
from headrace.transports._http_reconnect cimport Reconnect, carriable
from headrace.wire._chttp cimport *
from headrace.wire._cjson cimport HR_ERROR, HR_RESULT, HR_T_NULL, hr_envelope
from headrace.wire._http1 cimport json_type, known_bytes, known_joined, known_text, sse_type
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object s, Py_ssize_t *n) except NULL

__all__ = ("CallOptions", "ChannelState", "ClientCall", "ClientRequest", "encode_header_value")

cdef enum:
    MAX_HOPS = 5          # redirects of one request (B58)
    QUOTE = 1024          # bytes of a body that an exception keeps

cdef frozenset SAFE = frozenset((
    b"initialize", b"ping", b"server/discover", b"tools/list", b"resources/list", b"resources/templates/list",
    b"prompts/list",
))
cdef bytes POSTED = b"Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n"
cdef bytes STREAMED = b"Accept: text/event-stream\r\nCache-Control: no-store\r\n"
cdef dict KEPT_FIELDS = {
    HR_H_CONTENT_TYPE: (b"content-type", "content-type"), HR_H_LOCATION: (b"location", "location"),
    HR_H_RETRY_AFTER: (b"retry-after", "retry-after"),
    HR_H_WWW_AUTHENTICATE: (b"www-authenticate", "www-authenticate"),
    HR_H_MCP_SESSION_ID: (b"mcp-session-id", "mcp-session-id"),
}


# ---------------------------------------------------------------- header values

cdef bytes encode_header(str text):
    """HN-11: as it is when it is printable ASCII without outer spaces and does not look encoded."""
    cdef Py_ssize_t n, i
    cdef const char *p
    cdef bint plain = True
    try:
        p = PyUnicode_AsUTF8AndSize(text, &n)
    except UnicodeEncodeError:
        raise LocalProtocolError("a header value holds a lone surrogate") from None
    for i in range(n):
        if <unsigned char>p[i] < 0x20 or <unsigned char>p[i] > 0x7E:
            plain = False
            break
    if n and (p[0] == c' ' or p[n - 1] == c' '):
        plain = False
    if n >= 10 and memcmp(p, b"=?base64?", 9) == 0 and p[n - 2] == c'?' and p[n - 1] == c'=':
        plain = False
    if plain:
        return PyBytes_FromStringAndSize(p, n)
    return b"=?base64?" + b64encode(PyBytes_FromStringAndSize(p, n)) + b"?="


def encode_header_value(value: str | int | bool) -> bytes:
    """The value of an ``Mcp-Name`` or ``Mcp-Param-*`` header (HN-10, HN-11).

    Raises LocalProtocolError for a string with a lone surrogate, TypeError for other types.
    """
    if value is True:
        return b"true"
    if value is False:
        return b"false"
    if isinstance(value, int):
        return str(value).encode()
    return encode_header(value)


# ---------------------------------------------------------------- what the requests of a channel share

cdef class ChannelState(Sink):
    """The shared part of a channel: see HttpChannel, the class to use."""

    def __init__(self, Mux mux not None, limits, opener, *, bytes host, bytes target, bytes user_fields=b""):
        self.mux = mux
        self.limits = limits
        self.pool = HttpPool(mux.runtime, limits, opener)
        self.host = host
        self.target = target
        self.user_fields = user_fields
        self.scratch = Outbuf()
        self.last_name = None
        self.prepare()

    # --- state --------------------------------------------------------------------------------------

    @property
    def protocol_version(self):
        """Value of MCP-Protocol-Version, or None to send none (HN-03, HO-40, VN-49)."""
        return self._protocol_version

    @protocol_version.setter
    def protocol_version(self, str value):
        self._protocol_version = value
        self.prepare()

    @property
    def session_id(self):
        """The handshake era's session, or None (HO-31)."""
        return self._session_id

    @session_id.setter
    def session_id(self, str value):
        if value is not None and not visible(value.encode("utf-8", "surrogatepass")):
            raise LocalProtocolError("a session id is made of visible ASCII characters (HO-30)")
        self._session_id = value
        self.prepare()

    @property
    def receiving_call(self):
        """The PendingCall on whose answer the message came that is being handled, or None."""
        return None if self.receiving is None else self.receiving.call

    @property
    def modern(self):
        """Whether the per-request-metadata era is spoken (R5)."""
        return self._modern

    @modern.setter
    def modern(self, bint value):
        self._modern = value

    def set_fields(self, bytes fields not None):
        """Replaces the user's prepared header lines (a token was renewed); sent from the next request on."""
        self.user_fields = fields
        self.prepare()

    def retarget(self, bytes target not None):
        """Requests go to `target` of the same origin from now on (B58)."""
        self.target = target
        self.prepare()

    def locate(self, str location):
        """The request target of a redirect; UsageError when it leaves the origin."""
        raise UsageError(f"redirect to {location!r} is not followed")

    def post_failed(self, str what, exc):
        """A notification or an answer was not accepted."""

    cdef int prepare(self) except -1:
        """The constant bytes of request heads: only method, name and length vary from call to call."""
        cdef bytes tail = b" " + self.target + b" HTTP/1.1\r\nHost: " + self.host + b"\r\n" + self.user_fields
        cdef bytes state = b""
        if self._protocol_version is not None:
            state += b"MCP-Protocol-Version: " + self._protocol_version.encode("ascii") + b"\r\n"
        if self._session_id is not None:
            state += b"Mcp-Session-Id: " + self._session_id.encode("ascii") + b"\r\n"
        self.state_fields = state
        self.bare_head = b"POST" + tail + POSTED
        self.post_head = self.bare_head + state
        self.get_head = b"GET" + tail + STREAMED + state
        self.delete_head = b"DELETE" + tail + state
        return 0

    cdef bytes head_for(self, bytes method, bytes own, bytes more):
        """The head of a request that has header lines of its own in place of the user's."""
        return method + b" " + self.target + b" HTTP/1.1\r\nHost: " + self.host + b"\r\n" + own + more

    cdef int adopt(self, const hr_head *h) except -1:
        """The session that the answer to initialize opens, if any (HO-30)."""
        cdef bytes id = known_bytes(h, HR_H_MCP_SESSION_ID)
        if id is None:
            self.session_id = None
        elif visible(id):
            self.session_id = id.decode("ascii")
        else:
            raise RemoteProtocolError("the server's session id holds characters other than visible ASCII (HO-30)")
        return 0

    cdef int watch(self, ClientRequest request, const hr_head *h) except -1:
        """Tells the watcher of an answer's head: where the request has header lines of its own, or a cookie came."""
        if request.own is None and not has_field(h, b"set-cookie", 10):
            return 0
        try:
            self.watcher(request, h.status, PyBytes_FromStringAndSize(h.fields.p, <Py_ssize_t>h.fields.n))
        except Exception as exc:
            self.mux.runtime.report("the watcher of HTTP answers failed", exc)
        return 0

    cdef int wake(self) except -1:
        """A call got through: streams that had given up are asked for again."""
        streams = self.asleep
        self.asleep = None
        for stream in streams:
            stream.reopen()
        return 0

    cdef bytes encoded(self, str name):
        if name is not self.last_name:
            self.last_encoded = encode_header(name)
            self.last_name = name
        return self.last_encoded

    # --- in -----------------------------------------------------------------------------------------

    cdef int deliver(self, ClientRequest request, const char *p, Py_ssize_t n) except -1:
        """One message of the answer to `request`."""
        cdef ClientRequest before = self.receiving
        self.receiving = request
        self.status = request.status
        try:
            self.mux.receive(p, n, self)
        except Exception as exc:
            self.mux.runtime.report("a message could not be handled", exc)
        finally:
            self.receiving = before
            self.status = 0 if before is None else before.status
        return 0

    cdef bint admits(self, PendingCall call) except? False:
        """An answer comes on the stream of its own request, or on one that belongs to none (B82)."""
        return self.receiving is None or self.receiving.call is None or self.receiving.call is call

    cdef str retry_after(self):
        cdef ClientRequest request = self.receiving
        return None if request is None or request.fields is None else request.fields.get("retry-after")

    cdef bint unmatched(self, const hr_envelope *env) except? True:
        """An error without a usable id is about the request whose answer it is (JR-13); with an error
        status any is (servers make up ids there)."""
        cdef ClientRequest request = self.receiving
        cdef PendingCall call
        if request is None or request.call is None:
            return False
        if isinstance(request, ClientCall) and (<ClientCall>request).resumed and (<ClientCall>request).waits():
            # It was asked under another id, in an earlier life of this client.
            call = request.call
            del self.mux.pending[call.key]
            if env.kind == HR_RESULT:
                call.resolve(&env.result)
            else:
                call.reject(read_error(&env.error))
            return True
        if env.kind != HR_ERROR:
            return False
        if env.id.n and env.id.type != HR_T_NULL and request.status < 300:
            return False
        if not (<ClientCall>request).waits():
            return False
        exc = read_error(&env.error)
        if request.status >= 300 and isinstance(exc, RpcError):
            exc.came_with(request.status, self.retry_after())
        request.failed(exc)
        return True


# ---------------------------------------------------------------- requests

cdef class ClientRequest(HttpRequest):
    """One HTTP request of a channel."""

    cdef str what(self):
        return "the request"

    cdef bint safe(self):
        return False

    cdef int failed(self, object exc) except -1:
        """The request ends with `exc`."""
        return 0

    cdef int again(self) except -1:
        """Sends it again, from the start."""
        self.status = 0
        self.problem = None
        self.redirect = None
        try:
            self.channel.pool.submit(self)
        except HeadraceError as exc:
            self.failed(exc)
        return 0

    cdef int judge(self, const hr_head *h) except -2:
        """What holds for every answer: how to read the body, or -1 when the status decides."""
        cdef hr_span coding
        self.status = h.status
        if self.channel.watcher is not None:
            self.channel.watch(self, h)
        if h.seen >> HR_H_CONTENT_ENCODING & 1:
            coding = h.known[HR_H_CONTENT_ENCODING]
            if coding.n and not hr_http1_ieq(coding.p, coding.n, "identity", 8):
                self.problem = RemoteProtocolError(
                    f"{self.what()} was answered in content coding {known_text(h, HR_H_CONTENT_ENCODING)!r}, "
                    "which was not asked for (B41)")
                return BODY_DROP
        if h.status < 300 or h.status >= 400:
            return -1
        location = known_text(h, HR_H_LOCATION)
        self.judge_error(h)
        if location and (h.status == 307 or h.status == 308):
            self.hops += 1
            try:
                if self.hops > MAX_HOPS:
                    raise UsageError(f"more than {MAX_HOPS} redirects, the last to {location[:200]!r}")
                self.redirect = self.channel.locate(location)
            except UsageError as exc:
                self.problem = HttpStatusError(f"HTTP {h.status} for {self.what()}: {exc}", h.status,
                                               headers=self.fields)
        elif location:
            self.problem = HttpStatusError(
                f"HTTP {h.status} for {self.what()}: the server has moved to {location[:500]!r}; use that URL",
                h.status, headers=self.fields)
        else:
            self.problem = HttpStatusError(f"HTTP {h.status} for {self.what()}", h.status, headers=self.fields)
        return BODY_DISCARD

    cdef int judge_error(self, const hr_head *h) except -1:
        """Keeps what an error needs of the head; how to read its body."""
        self.fields = {}
        for which in KEPT_FIELDS:
            if h.seen >> <int>which & 1:
                lower, name = KEPT_FIELDS[which]
                self.fields[name] = known_joined(h, which, lower).decode("latin-1")
        if h.seen >> HR_H_CONTENT_TYPE & 1 and json_type(
            h.known[HR_H_CONTENT_TYPE].p, <Py_ssize_t>h.known[HR_H_CONTENT_TYPE].n
        ):
            self.json = True
            return BODY_WHOLE
        return BODY_EXCERPT

    cdef object status_error(self, const char *p, Py_ssize_t n):
        """The answer as an HttpStatusError, its body quoted (B66)."""
        cdef str body = ""
        if n > 0:
            body = PyBytes_FromStringAndSize(p, n if n < QUOTE else QUOTE).decode("utf-8", "replace")
        try:
            phrase = " " + HTTPStatus(self.status).phrase
        except ValueError:
            phrase = ""
        text = f"HTTP {self.status}{phrase} for {self.what()}"
        if self.status < 300:
            kind = (self.fields or {}).get("content-type")
            text += f": content type {kind!r} instead of JSON or an event stream" if kind else ": no content type"
        if body:
            text += f": {' '.join(body.split())[:300]}"
        wait = seconds_of((self.fields or {}).get("retry-after", ""))
        if wait:
            text += f"; it asks to be tried again in {wait:.0f} s"
        return HttpStatusError(text, self.status, headers=self.fields, body=body)

    cdef int lost(self, object exc, bint untouched, bint reused) except -1:
        """The connection ended without an answer: sent again (see the head of this file) or failed."""
        if isinstance(exc, HeadraceError):
            return self.failed(exc)
        if untouched and reused and not self.retried and self.safe() and not self.channel.pool.closed:
            self.retried = True
            self.status = 0
            return self.channel.pool.submit_alone(self)
        how = "the server closed the connection" if exc is None else f"the connection broke ({exc})"
        if untouched:
            return self.failed(ConnectionClosed(f"{how} before it answered {self.what()}"))
        return self.failed(ConnectionClosed(f"{how} inside the answer to {self.what()}"))

    cdef int on_end(self, SseFramer framer) except -1:
        if self.dropped:
            return 0
        if self.redirect is not None:
            self.channel.retarget(self.redirect)
            return self.again()
        if self.problem is not None:
            return self.failed(self.problem)
        return 0

    cdef int on_body(self, const char *p, Py_ssize_t n) except -1:
        if self.dropped:
            return 0
        return self.failed(self.status_error(p, n))


cdef bint passing(int status):
    return status >= 500 or status == 408 or status == 409 or status == 425 or status == 429


cdef bint has_field(const hr_head *h, const char *wanted, size_t length) noexcept:
    cdef const char *p = h.fields.p
    cdef const char *e = p + h.fields.n
    cdef hr_span name, value
    while hr_http1_next_header(&p, e, &name, &value):
        if name.n == length and hr_http1_ieq(name.p, name.n, wanted, length):
            return True
    return False


cdef bint visible(bytes text):
    cdef unsigned char c
    for c in text:
        if not 0x21 <= c <= 0x7E:
            return False
    return len(text) > 0


include "_http_call.pxi"
