"""The event stream of an HTTP+SSE session: the sink of all its messages (LS-02, LS-03).

Everything that the server sends on the session is an event of this one GET, answers included; what the
client sends comes in posts that are answered with 202 alone. The stream ending ends the session.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from headrace.mux._mux cimport Exchange, Mux, PendingCall, Revision, Sink
from headrace.transports._http_endpoint cimport Connection
from headrace.transports._http_exchange cimport HttpExchange
from headrace.wire._cjson cimport HR_T_STRING, hr_envelope
from headrace.wire._outbuf cimport Outbuf

__all__ = ("LegacyStream",)

cdef enum:
    STREAMING = 1            # HttpExchange.mode


cdef class LegacyStream(HttpExchange):
    """One GET of the stream endpoint."""

    cdef int begin(self, Connection link, object session, bytes extra, bytes endpoint) except -1:
        """Opens the stream on `link`; its first event names the URI for posts."""
        cdef Outbuf out
        self.reset(link, 3)
        self.persistent = True
        self.is_stream = True
        self.session = session
        self.principal = session.principal
        self.extra = extra
        self.head_bytes = PyBytes_FromStringAndSize(link.head.fields.p, <Py_ssize_t>link.head.fields.n)
        self.put_stream_head()
        out = link.queue()
        self.mark = out.n
        if not self.old:
            out.put(b"00000000\r\n", 10)
        out.put(b"event: endpoint\ndata: ", 22)
        out.put_bytes(endpoint)
        out.put(b"\n\n", 2)
        self.close_chunk(out)
        return link.wake()

    cdef Revision route(self, Mux mux, const hr_envelope *env):
        """The negotiated revision; 2026-07-28 is never spoken here (LS-06)."""
        if env.method.type == HR_T_STRING and env.method.n == 12 and memcmp(env.method.p, b'"initialize"', 12) == 0:
            return None
        return mux.current

    cdef int started(self, Exchange ex) except -1:
        return 0

    cdef int accepted(self) except -1:
        return 0

    cdef int abandoned(self, Exchange ex) except -1:
        return 0

    cdef bint several(self, Sink batch) except -1:
        return False

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        cdef Outbuf out = self.link.queue()
        self.out = out
        self.mark = out.n
        self.writing = True
        return self.open_event(out)

    cdef int close_response(self, Exchange ex) except -1:
        self.writing = False
        self.close_event(self.out)
        self.since = self.link.endpoint.tick
        return self.link.wake()

    cdef int send_call(self, PendingCall call, bytes method, bytes params, str name) except -1:
        return Sink.send_call(self, call, method, params, name)

    def close_stream(self, retry=None):
        return False

    cdef int retire(self) except -1:
        """The server shuts down: what is in flight is still answered."""
        cdef Mux mux = self.session.mux
        waiter = None
        if mux is not None:
            mux.draining = True
            waiter = mux.wait_idle()
        if waiter is None:
            return self.end_stream()
        waiter.add_done_callback(self.drained_out)
        return 0

    def drained_out(self, waiter):
        self.end_stream()
