"""Judging a request head: statuses in the order of HN-30, GET and DELETE of sessions, CORS.

A POST that looks like the last accepted one of its connection is recognised by comparing bytes; for
all others the rules are applied one after the other. Every refusal has a JSON-RPC error as its body.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint64_t
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memcpy, memset

from math import ceil

from headrace.errors import LocalProtocolError
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_REQUEST, R2
from headrace.transports.refusals import kind_of
from headrace.wire._http1 import header_line

from headrace.mux._mux cimport Mux
from headrace.transports._http_endpoint cimport Connection, Endpoint, put_rpc_error, put_text, span_is
from headrace.transports._http_exchange cimport HttpExchange
from headrace.transports._http_legacy cimport LegacyStream
from headrace.transports._http_relay cimport RelayExchange
from headrace.wire._cjson cimport HR_SCAN_LOOSE, hr_envelope, hr_envelope_scan
from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport (
    ACCEPT_JSON, ACCEPT_SSE, accept_bits, header_list, known_bytes, known_joined, put_response_head,
)

cdef extern from "Python.h":
    int PyContext_Enter(object) except -1
    int PyContext_Exit(object) except -1

__all__ = ("RequestLink",)

cdef enum:
    MAX_SKIP = 256 * 1024    # a refused body up to this size is read away, else the connection ends
    KEPT_VALUE = 512         # longer header values are not remembered by a link

    B_HOST = 1 << HR_H_HOST
    B_ORIGIN = 1 << HR_H_ORIGIN
    B_ACCEPT = 1 << HR_H_ACCEPT
    B_TYPE = 1 << HR_H_CONTENT_TYPE
    B_CODING = 1 << HR_H_CONTENT_ENCODING
    B_SESSION = 1 << HR_H_MCP_SESSION_ID
    B_VERSION = 1 << HR_H_MCP_PROTOCOL_VERSION

cdef bytes ALLOW_MODERN = b"Allow: POST\r\n"
cdef bytes R2_NAME = R2.encode()
cdef bytes ALLOW_SEALED = b"Allow: POST, DELETE\r\n"
cdef bytes ALLOW_ALL = b"Allow: GET, POST, DELETE\r\n"


include "_http_refusals.pxi"


cdef class RequestLink(Connection):
    """The part of an HTTP link that judges heads. The link itself owns input and phases."""

    def __dealloc__(self):
        PyMem_Free(self.body)

    cdef bint usual(self) noexcept:
        """A POST like the last one that was accepted on this connection: nothing to look at closely."""
        cdef hr_head *h = &self.head
        return (
            self.remembered and h.method == HR_M_POST
            and not h.flags & (HR_F_EXPECT_OTHER | HR_F_ABSOLUTE)
            and not h.seen & (B_ORIGIN | B_CODING) and not h.duplicate & (B_ACCEPT | B_TYPE | B_SESSION)
            and span_is(&h.known[HR_H_HOST], self.host)
            and span_is(&h.known[HR_H_CONTENT_TYPE], self.type)
            and span_is(&h.known[HR_H_ACCEPT], self.accept)
            and h.content_length <= <uint64_t>self.endpoint.max_body
            and self.endpoint.path_is(h.target.p, h.target.n)
        )

    cdef int check(self) except -1:
        """HN-30 steps 1 to 4 for any head. 1: its body is wanted; 0: it is answered, or a stream opened."""
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef bytes host = known_bytes(h, HR_H_HOST) or b""
        cdef bytes target = PyBytes_FromStringAndSize(h.target.p, <Py_ssize_t>h.target.n)
        cdef bytes kept
        cdef str origin = None
        cdef int found
        cdef bint same = self.remembered and not h.flags & HR_F_ABSOLUTE
        cdef bint here
        self.remembered = False
        self.guest = None
        if h.flags & HR_F_ABSOLUTE:
            # The authority of an absolute target replaces Host (RFC 9112 3.2.2).
            host, slash, target = target.partition(b"://")[2].partition(b"/")
            target = slash + target if slash else b"/"
        if ep.health is not None and (h.method == HR_M_GET or h.method == HR_M_HEAD):
            found = self.show_health(target)
            if found >= 0:
                self.remembered = same       # of posts to MCP
                return found
        kept = self.host if same and host == self.host else ep.host_ok(host)
        if kept is not self.host:
            same = False
        if kept is None:
            return self.refuse(421, "this Host is not served here; the setting allowed_hosts says which are")
        self.host = kept
        here = ep.path_is(PyBytes_AS_STRING(target), <size_t>PyBytes_GET_SIZE(target))
        if not here and ep.beside is not None and not self.for_legacy(target):
            self.remembered = same       # of posts to MCP
            return self.open_app(target, host if h.flags & HR_F_ABSOLUTE else None)
        if h.seen & B_ORIGIN:
            origin = known_bytes(h, HR_H_ORIGIN).decode("latin-1")
            if h.duplicate & B_ORIGIN or not ep.guards.origin_ok(origin):
                return self.refuse(
                    403, "this Origin is not allowed here; the setting allowed_origins says which are")
            self.extra = ep.guards.cors_fields(origin)
        if not here:
            found = -1
            if ep.legacy is not None:
                path, mark, query = target.partition(b"?")
                found = self.check_legacy(path, query)
            return found if found >= 0 else self.refuse(404, "there is no such path")
        if h.flags & HR_F_EXPECT_OTHER:
            return self.refuse(417, "the only expectation that is understood is 100-continue")
        if h.method == HR_M_POST:
            return self.check_content() if not ep.admits or self.admit() else 0
        if h.method == HR_M_GET:
            return self.open_stream() if not ep.admits or self.admit() else 0
        if h.method == HR_M_DELETE:
            self.remembered = same       # of posts
            return self.end_session() if not ep.admits or self.admit() else 0
        if h.method == HR_M_OPTIONS and self.extra is not None:
            return self.preflight(origin)
        return self.refuse(405, "this method is not allowed here", ALLOW_ALL)

    cdef int show_health(self, bytes target) except -2:
        """Answers the paths of headrace.transports.health, whatever the Host: orchestrators name an address, or
        nothing that could be foreseen. As check(); -1: it is neither."""
        cdef object page = self.endpoint.health.answer(target.partition(b"?")[0].decode("latin-1"))
        if page is None:
            return -1
        self.before_refusal()
        put_text(
            self.endpoint, self.queue(), page[0], page[1], b"Cache-Control: no-store\r\n", not self.persist,
            self.head.method == HR_M_HEAD)
        self.answered_head()
        return 0

    cdef bint for_legacy(self, bytes target) except -1:
        """The target names an endpoint of HTTP+SSE."""
        cdef object legacy = self.endpoint.legacy
        return legacy is not None and target.partition(b"?")[0] in (legacy.stream_path, legacy.post_path)

    cdef int check_content(self) except -1:
        """HN-30 step 4: size, type, coding, and what may be answered."""
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef bytes kept
        cdef bytes accept
        if h.content_length > <uint64_t>ep.max_body:
            self.persist = False
            return self.refuse(413, f"the body is longer than {ep.max_body} bytes")
        if h.seen & B_CODING and known_joined(h, HR_H_CONTENT_ENCODING, b"content-encoding").lower() not in (
            b"", b"identity"
        ):
            return self.refuse(415, "encoded bodies are not accepted; send no Content-Encoding")
        kept = None
        if h.seen & B_TYPE and not h.duplicate & B_TYPE:
            kept = ep.type_ok(known_bytes(h, HR_H_CONTENT_TYPE))
        if kept is None:
            return self.refuse(415, "Content-Type must be application/json in UTF-8")
        self.type = kept
        if self.guest is not None:
            return 1
        accept = known_joined(h, HR_H_ACCEPT, b"accept") if h.seen & B_ACCEPT else b""
        self.accept, self.accept_bits = ep.accept_of(accept)
        if ep.json_only:
            self.accept_bits &= ACCEPT_JSON
        if self.accept_bits == 0:
            return self.refuse(406, "Accept must allow application/json" + (
                "" if ep.json_only else " or text/event-stream"))
        self.remembered = (
            not h.flags & HR_F_ABSOLUTE and PyBytes_GET_SIZE(self.host) <= KEPT_VALUE
            and PyBytes_GET_SIZE(self.type) <= KEPT_VALUE and PyBytes_GET_SIZE(self.accept) <= KEPT_VALUE
        )
        return 1

    cdef int preflight(self, str origin) except -1:
        """A browser asks before it sends (B60, SE-12)."""
        cdef bytes asked = known_joined(&self.head, HR_H_ACR_HEADERS, b"access-control-request-headers")
        cdef bytes fields = self.endpoint.date + self.extra + self.endpoint.guards.preflight_fields(asked)
        put_response_head(self.queue(), 204, fields, -1, False, not self.persist)
        return self.answered(not self.persist, False)

    # --- sessions -----------------------------------------------------------------------------------

    cdef object principal(self):
        """Whose request it is."""
        cdef Endpoint ep = self.endpoint
        if ep.authenticate is not None:
            return self.caller
        return None if ep.principal_of is None else ep.principal_of(header_list(&self.head))

    cdef int admit(self) except -1:
        """Asks `authenticate`, and for the caller's rate. 1: the request may go on; 0: it is refused, or waits."""
        return 1

    cdef object look_up(self):
        """The session that the request names and that belongs to its principal, or None (HO-34)."""
        cdef Endpoint ep = self.endpoint
        cdef bytes id
        if self.head.duplicate & B_SESSION:
            return None
        if self.fetched is not None:
            return None if self.fetched.ended else self.fetched
        id = known_bytes(&self.head, HR_H_MCP_SESSION_ID)
        if ep.sealed or ep.looks_up or ep.tells_apart:
            return ep.sessions.find(id, self.principal())
        return ep.by_id.get(id)

    cdef object find_session(self):
        """The session that a GET or DELETE names, or None: then it is answered (HN-01, HO-31, HO-32)."""
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef bytes version = known_bytes(h, HR_H_MCP_PROTOCOL_VERSION) or None
        if version == ep.modern:
            self.refuse(405, "this revision knows only POST", ALLOW_MODERN)
            return None
        if ep.stateless:
            self.refuse(405, "this server keeps no sessions: only POST is allowed", ALLOW_MODERN)
            return None
        if not h.seen & B_SESSION:
            if version is None:
                self.refuse(405, "without a session only POST is allowed", ALLOW_MODERN)
            else:
                self.refuse(400, "Mcp-Session-Id is missing: send the one that initialize gave")
            return None
        session = self.look_up()
        if session is None:
            self.refuse(404, "unknown session: it has ended or never was")
        elif h.duplicate & B_VERSION or (version is not None and version != session.version):
            self.refuse(400, "MCP-Protocol-Version is not the version of this session")
            session = None
        return session

    cdef int open_stream(self) except -1:
        """GET: the stream of a session for messages that belong to no request (HO-10)."""
        cdef hr_head *h = &self.head
        cdef HttpExchange exchange
        cdef bytes accept
        cdef object session = self.find_session()
        if session is None:
            return 0
        if self.endpoint.sealed:
            return self.refuse(405, self.endpoint.sessions.no_streams, ALLOW_SEALED)
        accept = known_joined(h, HR_H_ACCEPT, b"accept") if h.seen & B_ACCEPT else b""
        if not accept_bits(PyBytes_AS_STRING(accept), PyBytes_GET_SIZE(accept)) & ACCEPT_SSE:
            return self.refuse(406, "Accept must allow text/event-stream")
        if hr_http1_request_body(h) != HR_BODY_NONE:
            self.persist = False
            return self.refuse(400, "a GET request has no body here")
        if session.shared is not None:
            return self.open_shared(session)
        if known_bytes(h, HR_H_LAST_EVENT_ID):
            return self.resume_stream(session)
        exchange = self.fresh_exchange()
        exchange.session = session
        self.streaming(exchange)
        exchange.start_stream(None, [])
        session.stream_opened(exchange)
        return 0

    cdef int resume_stream(self, object session) except -1:
        """GET with Last-Event-ID: goes on behind that event on its own stream, whatever began it (HO-21)."""
        cdef HttpExchange exchange
        cdef bytes last = known_bytes(&self.head, HR_H_LAST_EVENT_ID)
        found = None
        if not self.head.duplicate >> HR_H_LAST_EVENT_ID & 1:
            found = session.resume(last.decode("latin-1"))
        if found is None:
            return self.refuse(400, "Last-Event-ID names no event of this session that can be resumed from")
        exchange = found.sink
        if exchange is not None:
            session.active = True
            self.streaming(exchange)
            return exchange.attach(self, self.extra, found.events)
        exchange = self.fresh_exchange()
        exchange.session = session
        self.streaming(exchange)
        if found.finished:
            return exchange.replay_only(found.events)
        exchange.start_stream(found.stream, found.events)
        session.stream_opened(exchange)
        return 0

    cdef int open_shared(self, object session) except -1:
        """The same of a session that other processes serve as well: what there is to open takes its time."""
        cdef RelayExchange exchange = RelayExchange.__new__(RelayExchange)
        cdef object last = None
        if self.head.seen >> HR_H_LAST_EVENT_ID & 1:
            last = known_joined(&self.head, HR_H_LAST_EVENT_ID, b"last-event-id").decode("latin-1") or None
        self.streaming(exchange)
        return exchange.begin(self, session, last, self.extra)

    cdef int end_session(self) except -1:
        """DELETE (HO-33, B64)."""
        cdef object session = self.find_session()
        if session is None:
            return 0
        session.left = True
        self.endpoint.sessions.end(session, "the client ended the session")
        if self.extra is None and self.persist:
            self.queue().put(b"HTTP/1.1 204 No Content\r\n", 25)
            self.queue().put_bytes(self.endpoint.date)
            self.queue().put(b"\r\n", 2)
        else:
            put_response_head(
                self.queue(), 204, self.endpoint.date + (self.extra or b""), -1, False, not self.persist)
        return self.answered_head()

    # --- HTTP+SSE of 2024-11-05 ---------------------------------------------------------------------

    cdef int check_legacy(self, bytes path, bytes query) except -2:
        """The two endpoints of the old transport (LS-01). As check(); -1: it is neither."""
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        if path != ep.legacy.stream_path and path != ep.legacy.post_path:
            return -1
        if h.method == HR_M_OPTIONS and self.extra is not None:
            return self.preflight(known_bytes(h, HR_H_ORIGIN).decode("latin-1"))
        if h.flags & HR_F_EXPECT_OTHER:
            return self.refuse(417, "the only expectation that is understood is 100-continue")
        if h.seen & B_VERSION and known_bytes(h, HR_H_MCP_PROTOCOL_VERSION) == ep.modern:
            return self.refuse(400, "this revision is not spoken over HTTP+SSE; use the MCP endpoint")
        if path == ep.legacy.stream_path:
            if h.method == HR_M_GET:
                return self.open_legacy() if not ep.admits or self.admit() else 0
            return self.refuse(
                405, "this is the event stream of HTTP+SSE: only GET is allowed", b"Allow: GET\r\n")
        if h.method != HR_M_POST:
            return self.refuse(405, "messages are posted here", ALLOW_MODERN)
        if ep.admits and not self.admit():
            return 0
        self.guest = ep.legacy.find(query, self.principal())
        if self.guest is None:
            return self.refuse(404, "unknown session: its event stream has ended or never was")
        return self.check_content()

    cdef int open_legacy(self) except -1:
        """GET: a new session with its stream (LS-02)."""
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef LegacyStream stream
        cdef bytes accept = known_joined(h, HR_H_ACCEPT, b"accept") if h.seen & B_ACCEPT else b""
        if not accept_bits(PyBytes_AS_STRING(accept), PyBytes_GET_SIZE(accept)) & ACCEPT_SSE:
            return self.refuse(406, "Accept must allow text/event-stream")
        if hr_http1_request_body(h) != HR_BODY_NONE:
            self.persist = False
            return self.refuse(400, "a GET request has no body here")
        session = ep.legacy.begin(self.principal()) if not ep.closing else None
        if session is None:
            return self.refuse(503, "too many sessions are open", b"", "max_sessions")
        stream = LegacyStream.__new__(LegacyStream)
        self.streaming(stream)
        stream.begin(self, session, self.extra, ep.legacy.endpoint_of(session))
        session.sink = stream
        return 0

    cdef int legacy_message(self, const char *p, Py_ssize_t n) except -1:
        """A message for the session of an event stream: 202, its answer is an event (LS-03)."""
        cdef object session = self.guest
        cdef HttpExchange stream
        self.guest = None
        if session.ended:
            return self.refuse_message(p, n, 404, "the event stream of this session has ended")
        stream = <HttpExchange>session.sink
        if stream.congested():
            return self.refuse_message(p, n, 503, "the event stream is not being read", "max_output_bytes")
        if self.endpoint.closing:
            self.persist = False
        put_response_head(
            self.queue(), 202, self.endpoint.date + (self.extra or b"") + b"Content-Type: text/plain\r\n", 8, False,
            not self.persist)
        self.queue().put(b"Accepted", 8)
        self.answered(not self.persist, False)
        return self.receive(<Mux>session.mux, p, n, stream)

    # --- a whole POST ---------------------------------------------------------------------------------

    cdef HttpExchange fresh_exchange(self):
        cdef HttpExchange exchange = self.spare
        if exchange is None:
            exchange = HttpExchange.__new__(HttpExchange)
        self.spare = None
        exchange.reset(self, self.accept_bits)
        exchange.extra = self.extra
        return exchange

    cdef Mux choose(self, HttpExchange exchange, const char *p, Py_ssize_t n):
        """Where a POST belongs (VN-62): the mux of its session, or that of all others. None: answered."""
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef bytes version
        cdef object session
        if self.guest is not None:
            self.legacy_message(p, n)
            return None
        if ep.tells_apart:
            exchange.principal = self.principal()
        cdef bint named = h.seen & B_VERSION and h.known[HR_H_MCP_PROTOCOL_VERSION].n
        if (
            named and self.known_mux is not None and not self.known_mux.closed
            and not h.duplicate & (B_VERSION | B_SESSION)
            and span_is(&h.known[HR_H_MCP_SESSION_ID], self.known_id)
            and span_is(&h.known[HR_H_MCP_PROTOCOL_VERSION], self.known_version)
        ):
            if self.known_tick != ep.tick:
                self.known_tick = ep.tick
                self.known_session.active = True
            exchange.session = self.known_session
            return self.known_mux
        if named and not h.duplicate & B_VERSION and span_is(&h.known[HR_H_MCP_PROTOCOL_VERSION], ep.modern):
            exchange.version_ok = True
            return ep.mux
        version = known_bytes(h, HR_H_MCP_PROTOCOL_VERSION) if named else None
        if version is not None and version not in ep.handshakes:
            return ep.mux
        if ep.stateless:
            if not h.duplicate & B_VERSION:
                exchange.fixed = ep.detached.get(version if version is not None else R2_NAME)
            return ep.mux
        if not h.seen & B_SESSION:
            exchange.bare = True
            return ep.mux
        session = self.look_up()
        if session is None:
            self.refuse_message(p, n, 404, "unknown session: it has ended or never was")
            return None
        if h.duplicate & B_VERSION or (version is not None and version != session.version):
            self.refuse_message(p, n, 400, "MCP-Protocol-Version is not the version of this session")
            return None
        session.active = True
        exchange.session = session
        if version is not None and not ep.sealed and not ep.tells_apart:
            self.know(session, version)
        return <Mux>session.mux

    cdef int receive(self, Mux mux, const char *p, Py_ssize_t n, HttpExchange exchange) except -1:
        """Hands a message to `mux`; what `authenticate` set in its context is there for the handler."""
        cdef object context = self.context
        if context is None:
            return mux.receive(p, n, exchange)
        self.context = None
        PyContext_Enter(context)
        try:
            return mux.receive(p, n, exchange)
        finally:
            PyContext_Exit(context)

    cdef int know(self, object session, bytes version) except -1:
        """The next request will most likely be of the same session. Unused sessions are looked for at the
        beginning of ticks alone: one mark in each tick tells that this one is used."""
        self.known_id = known_bytes(&self.head, HR_H_MCP_SESSION_ID)
        self.known_version = version
        self.known_session = session
        self.known_mux = session.mux
        self.known_tick = self.endpoint.tick
        return 0

    cdef int forget(self) except -1:
        self.known_id = self.known_version = None
        self.known_session = None
        self.known_mux = None
        return 0

    # --- a body in pieces ---------------------------------------------------------------------------

    cdef int keep_body(self, const char *p, Py_ssize_t n) except -1:
        """Appends to the body being received. False when a bound refused it: that is answered."""
        cdef Endpoint ep = self.endpoint
        cdef Py_ssize_t want = self.body_size + n
        cdef Py_ssize_t cap = self.body_cap
        cdef char *grown
        if want > cap:
            # Content-Length is a wish: memory follows what has come, at most doubled.
            cap = max(want, min(max(2 * cap, 4096), self.body_need) if self.body_need else max(2 * cap, 4096))
            if ep.buffered + cap - self.body_cap > ep.max_buffered:
                self.drop_body()
                self.persist = False
                self.refuse(503, "too many request bodies are being received", b"", "max_buffered_bytes")
                return 0
            grown = <char *>PyMem_Realloc(self.body, cap)
            if grown is NULL:
                raise MemoryError
            ep.buffered += cap - self.body_cap
            self.body = grown
            self.body_cap = cap
        memcpy(self.body + self.body_size, p, n)
        self.body_size = want
        return 1

    cdef int drop_body(self) except -1:
        if self.body is not NULL:
            PyMem_Free(self.body)
            self.body = NULL
            self.endpoint.buffered -= self.body_cap
        self.body_size = self.body_cap = 0
        return 0

    # --- answers without an exchange ------------------------------------------------------------------

    cdef int refuse(self, int status, str text, bytes fields=b"", str kind=None) except -1:
        """Answers a request by its head alone; its body, if any, is still to come. Gives 0. It is counted as `kind`,
        or by its status."""
        self.endpoint.runtime.refused(kind_of(status) if kind is None else kind)
        self.endpoint.runtime.turned_away(self, status)
        self.before_refusal()
        if self.extra is not None:
            fields = self.extra + fields
        if self.plain:
            put_text(
                self.endpoint, self.queue(), status, text, fields, not self.persist, self.head.method == HR_M_HEAD)
        else:
            put_rpc_error(
                self.endpoint, self.queue(), status, refusal_code(status), text, None, fields,
                not self.persist, self.head.method == HR_M_HEAD)
        return self.answered_head()

    cdef int refuse_error(self, object error) except -1:
        """The same with an RpcError that has a status, a kind and seconds to wait."""
        cdef bytes fields = (self.extra or b"") + b"Retry-After: %d\r\n" % max(1, ceil(error.retry_after))
        self.endpoint.runtime.refused(error.refusal)
        self.before_refusal()
        put_rpc_error(
            self.endpoint, self.queue(), error.http_status, error.code, error.message, None, fields, not self.persist,
            self.head.method == HR_M_HEAD, b'{"retryAfter":%b}' % repr(error.data["retryAfter"]).encode("ascii"))
        return self.answered_head()

    cdef int refuse_as(self, object refusal) except -1:
        """The same with an answer that `authenticate` gave (a HttpRefusal)."""
        cdef bytes fields = self.endpoint.date + (self.extra or b"") + refusal_fields(refusal)
        cdef bytes body = refusal.body
        self.endpoint.runtime.refused(kind_of(refusal.status))
        self.endpoint.runtime.turned_away(self, refusal.status)
        self.before_refusal()
        put_response_head(self.queue(), refusal.status, fields, PyBytes_GET_SIZE(body), False, not self.persist)
        self.queue().put_bytes(body)
        return self.answered_head()

    cdef int before_refusal(self) except -1:
        cdef hr_head *h = &self.head
        if (
            self.expects or self.endpoint.closing
            or (h.flags & HR_F_HAS_LENGTH and h.content_length > MAX_SKIP)
        ):
            # Reading the body away would cost more than a new connection, or cannot be agreed on (B51).
            self.persist = False
        return 0

    cdef int answered_head(self) except -1:
        cdef hr_head *h = &self.head
        self.is_chunked = h.flags & HR_F_CHUNKED
        self.skip = 0
        if self.is_chunked:
            memset(&self.chunked, 0, sizeof(hr_chunked))
        elif h.flags & HR_F_HAS_LENGTH:
            self.skip = h.content_length
        self.answered(not self.persist, self.is_chunked or self.skip)
        return 0

    cdef int refuse_message(self, const char *p, Py_ssize_t n, int status, str text, str kind=None) except -1:
        """Answers a request whose body [p, p + n) is here; the error names its id when it has one."""
        cdef hr_envelope env
        cdef bytes id = None
        self.endpoint.runtime.refused(kind_of(status) if kind is None else kind)
        hr_envelope_scan(p, <size_t>n, self.endpoint.limits.max_depth, HR_SCAN_LOOSE, &env)
        if env.id_usable:
            id = PyBytes_FromStringAndSize(env.id.p, <Py_ssize_t>env.id.n)
        if self.endpoint.closing:
            self.persist = False
        put_rpc_error(
            self.endpoint, self.queue(), status, INVALID_REQUEST, text, id, self.extra or b"", not self.persist, False)
        return self.answered(not self.persist, False)

    # --- the link ------------------------------------------------------------------------------------

    cdef int answered(self, bint last, bint body_due) except -1:
        return 0

    cdef int streaming(self, HttpExchange exchange) except -1:
        return 0

    cdef int open_app(self, bytes target, bytes host) except -1:
        """A request for the application beside the endpoint. Gives 0."""
        return 0
