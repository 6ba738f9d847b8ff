"""The HTTP+SSE transport of 2024-11-05 from the client's side (LS-01..LS-06): the sink of a client's mux.

Strategy: one GET carries every message of the server and is never resumed: its end is the end of the
connection. Its first event names where our messages are POSTed. Connections, heads and errors by status
are those of Streamable HTTP (_http_client.pyx); only where an answer is looked for differs.
"""

from headrace.errors import ConnectionClosed, HeadraceError, RemoteProtocolError

from headrace.mux._mux cimport PendingCall, Sink
from headrace.transports._http_client cimport ClientPost, HttpChannel
from headrace.transports._http_conn cimport BODY_EVENTS, BODY_EXCERPT
from headrace.transports._http_request cimport ClientRequest
from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport sse_type
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer

__all__ = ("SseCall", "SseChannel", "SseStream")

cdef enum:
    ENDPOINT_MOST = 8192      # bytes of an endpoint event


cdef class SseStream(ClientRequest):
    """The GET: ``future`` is done with the data of the ``endpoint`` event (str)."""

    cdef str what(self):
        return "the event stream"

    cdef bytes render(self):
        return self.channel.get_head + b"\r\n"

    cdef int on_head(self, const hr_head *h) except -1:
        cdef int mode = self.judge(h)
        if mode >= 0:
            return mode
        if h.status == 200 and h.seen >> HR_H_CONTENT_TYPE & 1 and sse_type(
            h.known[HR_H_CONTENT_TYPE].p, <Py_ssize_t>h.known[HR_H_CONTENT_TYPE].n
        ):
            return BODY_EVENTS
        self.judge_error(h)
        return BODY_EXCERPT

    cdef int on_event(self, const hr_sse_event *event) except -1:
        if self.ended:
            return 0
        if self.future.done():
            if event.data.n == 0 or not event.flags & HR_SSE_MESSAGE:
                return 0
            return self.channel.deliver(self, event.data.p, <Py_ssize_t>event.data.n)
        # The endpoint comes first (LS-02); what is no JSON-RPC may come before it.
        if event.event.n == 8 and event.event.p[:8] == b"endpoint":
            if event.data.n > ENDPOINT_MOST:
                return self.failed(RemoteProtocolError(f"the endpoint event is longer than {ENDPOINT_MOST} bytes"))
            self.future.set_result(event.data.p[:event.data.n].decode("utf-8", "replace"))
        elif event.flags & HR_SSE_MESSAGE and event.data.n:
            return self.failed(RemoteProtocolError("the event stream does not begin with an endpoint event"))
        return 0

    cdef int on_end(self, SseFramer framer) except -1:
        if self.ended:
            return 0
        if self.redirect is not None:
            (<SseChannel>self.channel).target = self.redirect
            self.channel.prepare()
            self.status = 0
            self.redirect = None
            return self.channel.pool.submit_alone(self)
        if framer is None:
            return ClientRequest.on_end(self, None)
        return self.failed(ConnectionClosed("the server ended the event stream"))

    cdef int on_lost(self, object exc, bint untouched, bint reused, SseFramer framer) except -1:
        if self.ended:
            return 0
        if exc is not None and not isinstance(exc, HeadraceError):
            exc = ConnectionClosed(f"the event stream broke ({exc})")
        return self.failed(ConnectionClosed("the server closed the event stream") if exc is None else exc)

    cdef int failed(self, object exc) except -1:
        """The stream is over, and with it the connection (LS-04)."""
        self.ended = True
        if not self.future.done():
            self.future.set_exception(exc)
        elif not self.channel.closed:
            self.channel.stop(exc if isinstance(exc, ConnectionClosed) else ConnectionClosed(str(exc)))
        return 0


cdef class SseCall(ClientPost):
    """The POST of a request: any 2xx says that the answer comes on the stream (LS-03)."""

    cdef bint waits(self):
        return self.call is not None and self.channel.mux.pending.get(self.call.key) is self.call

    cdef bint safe(self):
        # Twice the same request on one stream is never right.
        return False

    cdef int failed(self, object exc) except -1:
        cdef PendingCall call = self.call
        self.call = None
        if call is not None and not self.dropped:
            call.fail(exc)
        return 0

    cdef int on_lost(self, object exc, bint untouched, bint reused, SseFramer framer) except -1:
        if self.dropped or not self.waits():
            return 0
        return ClientPost.on_lost(self, exc, untouched, reused, framer)


cdef class SseChannel(HttpChannel):
    """The sink of a client's mux over HTTP+SSE.

    :meth:`connect` opens the stream; ``post_target`` is set from what it says. ``protocol_version``
    is sent with POSTs once it is set (LS-06). There is no session to delete and nothing to resume.
    """

    @property
    def post_target(self):
        """Request target of our messages, or None before it is known."""
        return self._post_target

    @post_target.setter
    def post_target(self, bytes value not None):
        self._post_target = value
        self.prepare()

    cdef int prepare(self) except -1:
        cdef bytes target = self.target
        HttpChannel.prepare(self)
        if self._post_target is not None:
            get_head = self.get_head
            self.target = self._post_target
            try:
                HttpChannel.prepare(self)
            finally:
                self.target = target
                self.get_head = get_head
        return 0

    def retarget(self, bytes target not None):
        """A POST was redirected within the origin (B58)."""
        self.post_target = target

    def connect(self):
        """Opens the event stream; returns a future of the endpoint's reference (str)."""
        cdef SseStream stream = SseStream.__new__(SseStream)
        stream.channel = self
        stream.future = self.mux.runtime.create_future()
        self.stream = stream
        self.pool.submit_alone(stream)
        return stream.future

    cdef int send_call(self, PendingCall call, bytes method, bytes params, str name) except -1:
        cdef SseCall request = SseCall.__new__(SseCall)
        cdef Outbuf out = self.scratch
        out.put(b'{"jsonrpc":"2.0","id":', 22)
        if call.token is None:
            out.put_int(call.id)
        else:
            out.put_bytes(call.token)
        out.put(b',"method":"', 11)
        out.put_bytes(method)
        if params is None:
            out.put(b'"}', 2)
        else:
            out.put(b'","params":', 11)
            out.put_bytes(params)
            out.put(b'}', 1)
        request.channel = self
        request.call = call
        request.method = method
        request.body = out.take()
        call.attached = request
        return self.pool.submit(request)

    cdef int drop_call(self, PendingCall call, str reason) except -1:
        cdef SseCall request = <SseCall?>call.attached
        self.pool.withdraw(request)
        request.call = None
        if not request.sent:
            return 0
        if request.conn is not None:
            self.pool.drain(request.conn)
        return Sink.drop_call(self, call, reason)

    def stop(self, reason=None):
        """No more calls: waiting ones fail with ConnectionClosed at once, the stream is closed."""
        if self.closed:
            return
        calls = list(self.mux.pending.values())
        HttpChannel.stop(self, reason)
        for call in calls:
            request = (<PendingCall>call).attached
            if isinstance(request, SseCall):
                self.pool.withdraw(<SseCall>request)
                (<SseCall>request).call = None
        if self.stream is not None and not self.stream.ended:
            self.stream.ended = True
            if not self.stream.future.done():
                self.stream.future.cancel()
            if self.stream.conn is not None:
                self.stream.conn.abandon()

    def delete_session(self, bytes own=None):
        """There is no session to delete."""
        return None
