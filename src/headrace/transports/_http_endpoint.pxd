# What the links of one HTTP endpoint share.
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t
from libc.string cimport memcmp

from headrace.mux._mux cimport Mux, Revision, Runtime, Sink
from headrace.wire._cjson cimport hr_span
from headrace.wire._chttp cimport hr_head, hr_http1_limits
from headrace.wire._outbuf cimport Outbuf


cdef inline bint span_is(const hr_span *s, bytes text) noexcept:
    # The bytes of a span are exactly `text`.
    return s.n == <size_t>PyBytes_GET_SIZE(text) and (s.n == 0 or memcmp(s.p, PyBytes_AS_STRING(text), s.n) == 0)


cdef inline int patch_length(Outbuf out, Py_ssize_t text_at) except -1:
    # Writes the length of what stands behind `text_at` into the LENGTH_FIELD before it.
    cdef Py_ssize_t n = out.n - text_at
    cdef char *p = out.base + text_at - 5
    while True:
        p[0] = <char>(48 + n % 10)
        n //= 10
        if n == 0:
            return 0
        p -= 1


cdef class Endpoint:
    # One endpoint: its mux of the modern era, its sessions, and what its links share.
    cdef readonly object server
    cdef readonly object limits
    cdef readonly object guards
    cdef readonly object door
    cdef readonly object sessions        # protocol.http_sessions.SessionStore
    cdef readonly Runtime runtime
    cdef readonly Mux mux                # requests outside sessions
    cdef dict detached                   # version header -> table where nothing is kept (HO-35)
    cdef Revision handshake              # table of `initialize`
    cdef readonly bytes path
    cdef readonly bint json_only
    cdef public object legacy            # protocol.legacy_sessions.LegacySessions, or None: HTTP+SSE is off
    cdef public object beside            # AsgiHost of all other paths, or None: they are 404
    cdef public object trusted           # transports.forwarded.Trusted: proxies whose headers are read, or None
    cdef readonly bint sealed            # session ids carry their sessions: no GET, `by_id` is a cache
    cdef readonly bint looks_up          # sessions may have to be waited for, see SharedSessions.prepare
    cdef readonly bint stateless         # there are no sessions (HO-35)
    cdef readonly object principal_of    # (header fields) -> whose request it is; None: it is not asked
    cdef readonly object authenticate    # (HttpRequest) -> coroutine of the same; None: it is not asked
    cdef bint tells_apart                # one of the two is there
    cdef bint admits                     # requests are admitted one by one: `authenticate` is there, rates, or looks_up
    cdef public object health            # transports.health.Health, or None: its paths are like others
    cdef public bint closing             # answers carry Connection: close
    cdef public object on_empty          # called when the last link is gone while closing
    cdef public object on_lost           # called when a link is gone, or None
    cdef public object hand_over         # (descriptor, link) -> whether another process goes on with it, or None
    cdef readonly set links
    cdef readonly Py_ssize_t served      # links that are not refusals
    cdef hr_http1_limits head_limits
    cdef bytes modern                    # the modern revision as a header value
    cdef dict by_id                      # session id (bytes) -> session; the store's own table
    cdef frozenset handshakes            # revisions that may stand in the header of a session
    cdef object header_tools             # names of tools that mirror parameters (HN-20)
    cdef Outbuf handy                    # the output buffer that is lent first
    cdef list pool                       # more of them, between two uses
    cdef Outbuf nil
    cdef bytes date                      # the Date field of now
    cdef bytes json_head                 # head of the usual answer up to its length
    cdef long long date_second
    cdef dict hosts                      # accepted Host values
    cdef dict accepts                    # Accept value -> (value, bits)
    cdef dict types                      # accepted Content-Type values
    cdef uint32_t tick                   # the coarse clock of all timeouts
    cdef readonly double tick_seconds
    cdef uint32_t header_ticks, body_ticks, idle_ticks, write_ticks, comment_ticks, linger_ticks
    cdef uint32_t body_total_ticks, resume_ticks
    cdef Py_ssize_t max_body, max_output, max_inline, max_connections
    cdef Py_ssize_t buffered             # bytes held by request bodies that are being received
    cdef Py_ssize_t max_buffered

    cdef int left(self, link, bint counted) except -1
    cdef bint path_is(self, const char *p, size_t n) noexcept
    cdef bytes host_ok(self, bytes value)
    cdef bytes type_ok(self, bytes value)
    cdef tuple accept_of(self, bytes value)


cdef class Connection:
    # The output half of an HTTP link, as its exchanges see it.
    cdef readonly Endpoint endpoint
    cdef readonly object transport
    cdef object write
    cdef int fd                          # of a plain socket that may be written to beside its transport, or -1
    cdef bint handed                     # the transport got something to send, and may still hold it
    cdef Outbuf out                      # None while nothing is queued
    cdef hr_head head                    # of the request being served; its spans hold during Mux.receive
    cdef bint head_here                  # the spans of `head` are valid now
    cdef bint persist                    # another request may follow on this connection
    cdef bint busy                       # the read callback runs: it flushes at its end
    cdef bint flush_due
    cdef bint output_full
    cdef Py_ssize_t large                # size of a buffer that the transport may hold whole
    cdef list drain_waiters
    cdef readonly object came             # the Whence of the connection; None: nobody has asked yet
    cdef object told                     # the same of this request, as a trusted proxy says; None: as `came`
    cdef int hears                       # the peer is a trusted proxy: 1; it is none: -1; 0: not looked at yet

    cdef object whence(self)
    cdef int hear(self) except -1
    cdef Outbuf queue(self)
    cdef int wake(self) except -1
    cdef int send_queued(self) except -1
    cdef bint goes_on(self) except -1
    cdef bint holds(self) except -1
    cdef bint overfull(self) except -1
    cdef int release_waiters(self) except -1
    cdef int finished(self, Sink exchange) except -1


cdef bytes LENGTH_FIELD                  # Content-Length, to be filled in, and the end of a head
cdef int put_text(Endpoint ep, Outbuf out, int status, str text, bytes fields, bint close, bint without_body) except -1
cdef int put_rpc_error(Endpoint ep, Outbuf out, int status, int code, str text, bytes id, bytes fields, bint close,
                       bint without_body, bytes data=*) except -1
