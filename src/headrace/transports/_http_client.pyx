"""Streamable HTTP from the client's side: the sink of a client's mux (HO-02..HO-43, HN-02..HN-11).

Strategy: a call becomes one write on an idle connection inside Mux.call; its answer goes from
data_received to the mux as a span. Calls and their retries are in _http_request.pyx, sockets and the
pool in _http_conn.pyx.
"""

from cpython.bytes cimport PyBytes_GET_SIZE

from headrace.errors import ConnectionClosed, HeadraceError, HttpStatusError, OverloadedError, RemoteProtocolError

from headrace.mux._mux cimport Exchange, PendingCall, Sink
from headrace.transports._http_conn cimport BODY_DISCARD, BODY_DROP, BODY_EVENTS, BODY_EXCERPT
from headrace.transports._http_reconnect cimport Reconnect, carriable
from headrace.transports._http_request cimport (
    POSTED, STREAMED, CallOptions, ChannelState, ClientCall, ClientRequest, passing,
)
from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport sse_type
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer

__all__ = ("ClientPost", "ClientStream", "HttpChannel")

cdef enum:
    NOTE_PREFIX = 27      # length of {"jsonrpc":"2.0","method":"


# ---------------------------------------------------------------- notifications, answers, the session's end

cdef class ClientPost(ClientRequest):
    """A message that has no answer of its own."""

    cdef str what(self):
        if self.delete:
            return "the end of the session"
        return self.method.decode() if self.method is not None else "an answer"

    cdef bint safe(self):
        return True

    cdef int failed(self, object exc) except -1:
        if self.future is not None:
            if not self.future.done():
                self.future.set_exception(exc)
        else:
            self.channel.post_failed(self.what(), exc)
        return 0

    cdef bytes render(self):
        cdef ChannelState channel = self.channel
        cdef Outbuf out = channel.scratch
        if self.method is None and not self.delete and self.session_id != channel._session_id:
            raise ConnectionClosed("the session that this answers has ended")
        self.session_id = channel._session_id
        self.sent = True
        if self.delete:
            return (channel.delete_head if self.own is None else channel.head_for(
                b"DELETE", self.own, channel.state_fields)) + b"\r\n"
        out.put_bytes(channel.post_head if self.own is None else channel.head_for(
            b"POST", self.own, POSTED + channel.state_fields))
        if channel._modern and self.method is not None:
            out.put(b"Mcp-Method: ", 12)
            out.put_bytes(self.method)
            out.put(b"\r\n", 2)
        out.put(b"Content-Length: ", 16)
        out.put_int(PyBytes_GET_SIZE(self.body))
        out.put(b"\r\n\r\n", 4)
        out.put_bytes(self.body)
        return out.take()

    cdef int on_head(self, const hr_head *h) except -1:
        cdef int mode = self.judge(h)
        if mode >= 0:
            return mode
        if h.status >= 300:
            return self.judge_error(h)
        # Accepted, whatever its body says (B56, B57).
        if self.future is not None and not self.future.done():
            self.future.set_result(None)
        if h.seen >> HR_H_CONTENT_TYPE & 1 and sse_type(
            h.known[HR_H_CONTENT_TYPE].p, <Py_ssize_t>h.known[HR_H_CONTENT_TYPE].n
        ):
            return BODY_DROP
        self.channel.pool.drain(self.conn)
        return BODY_DISCARD

    cdef int on_lost(self, object exc, bint untouched, bint reused, SseFramer framer) except -1:
        if 200 <= self.status < 300:
            return 0
        return self.lost(exc, untouched, reused)


# ---------------------------------------------------------------- the server's own stream

cdef class ClientStream(ClientRequest):
    """The event stream for messages that belong to no call (HO-10). An end or a failure of it never
    touches calls (B45)."""

    cdef str what(self):
        return "the event stream"

    cdef bytes render(self):
        cdef bytes head = self.channel.get_head if self.own is None else self.channel.head_for(
            b"GET", self.own, STREAMED + self.channel.state_fields)
        self.session_id = self.channel._session_id
        id = self.reconnect.last_id
        if id is not None and carriable(id):
            head += b"Last-Event-ID: " + id + b"\r\n"
        return head + b"\r\n"

    def answered(self):
        """A future that is done once the server has answered the first attempt, whatever the answer, or it failed."""
        if self.first is None:
            self.first = self.channel.mux.runtime.create_future()
            if self.opened or self.ended:
                self.settle()
        return self.first

    cdef int settle(self) except -1:
        if self.first is not None and not self.first.done():
            self.first.set_result(None)
        return 0

    cdef int on_head(self, const hr_head *h) except -1:
        cdef int mode = self.judge(h)
        if mode >= 0:
            return mode
        self.settle()
        if h.status == 200 and h.seen >> HR_H_CONTENT_TYPE & 1 and sse_type(
            h.known[HR_H_CONTENT_TYPE].p, <Py_ssize_t>h.known[HR_H_CONTENT_TYPE].n
        ):
            self.opened = True
            self.news = False
            self.reconnect.opened()
            return BODY_EVENTS
        self.judge_error(h)
        return BODY_EXCERPT

    cdef int on_body(self, const char *p, Py_ssize_t n) except -1:
        if self.ended:
            return 0
        if self.status == 405:
            return self.finish(None)             # the server has no such stream
        exc = self.status_error(p, n)
        if passing(self.status):
            return self.wait(None, exc)
        return self.finish(exc)

    cdef bytes resume_id(self):
        return self.reconnect.last_id

    cdef int on_event(self, const hr_sse_event *event) except -1:
        if event.data.n == 0 or not event.flags & HR_SSE_MESSAGE:
            return 0
        self.news = True
        return self.channel.deliver(self, event.data.p, <Py_ssize_t>event.data.n)

    cdef int failed(self, object exc) except -1:
        return self.finish(exc)

    cdef int on_end(self, SseFramer framer) except -1:
        if self.ended:
            return 0
        if framer is None:
            return ClientRequest.on_end(self, None)
        return self.wait(framer, None)

    cdef int on_lost(self, object exc, bint untouched, bint reused, SseFramer framer) except -1:
        if self.ended:
            return 0
        if isinstance(exc, RemoteProtocolError):
            return self.finish(exc)
        return self.wait(framer, exc)

    cdef int again(self) except -1:
        self.status = 0
        self.problem = None
        self.redirect = None
        return self.channel.pool.submit_alone(self)

    cdef int wait(self, SseFramer framer, object exc) except -1:
        """Reopens it after a while (HO-23): see Reconnect. After too many failures in a row it sleeps until
        a call gets through, so that a server that is down hears nothing of an idle client."""
        cdef Reconnect reconnect = self.reconnect
        cdef ChannelState channel = self.channel
        self.settle()
        reconnect.ended(framer, self.news)
        if channel.pool.closed:
            return 0
        if reconnect.exhausted():
            reconnect.failures = reconnect.limit
            if channel.asleep is None:
                channel.asleep = []
            channel.asleep.append(self)
            return 0
        wait = exc.retry_after if isinstance(exc, HttpStatusError) else None
        return reconnect.schedule(self.reopen, 0 if wait is None else wait)

    def reopen(self):
        """Timer: opens the stream again."""
        if not self.ended and not self.channel.pool.closed:
            self.again()

    cdef int finish(self, object exc) except -1:
        if self.ended:
            return 0
        self.ended = True
        self.settle()
        (<HttpChannel>self.channel).streams.discard(self)
        callback = self.notify_end
        self.notify_end = None
        if callback is not None:
            callback(exc)
        return 0

    def close(self):
        """Ends it; ``on_end`` is not called. Safe to repeat."""
        self.ended = True
        self.settle()
        self.notify_end = None
        (<HttpChannel>self.channel).streams.discard(self)
        self.channel.pool.withdraw(self)
        self.reconnect.cancel()
        if self.conn is not None:
            self.conn.abandon()


# ---------------------------------------------------------------- the channel

cdef class HttpChannel(ChannelState):
    """The sink of a client's mux over Streamable HTTP.

    The client layer sets ``protocol_version`` (sent as MCP-Protocol-Version; None before the
    handshake has chosen one), ``modern`` (era M: Mcp-Method and Mcp-Name are sent, a cancel closes
    the connection of its call) and reads ``session_id``, which is taken from the answer to
    ``initialize``. ``initialize`` itself is always sent without version, session and Mcp headers
    (VN-49, HO-32). Belongs to the loop of its mux.
    """

    def __cinit__(self, *args, **kwargs):
        self.streams = set()

    # --- out ----------------------------------------------------------------------------------------

    cdef int send_call(self, PendingCall call, bytes method, bytes params, str name) except -1:
        cdef ClientCall request = ClientCall.__new__(ClientCall)
        request.channel = self
        request.call = call
        request.method = method
        request.params = params
        if name is not None and self._modern:
            request.name = self.encoded(name)
        request.modern = self._modern
        if call.attached is not None:
            if type(call.attached) is CallOptions:
                request.take_options(<CallOptions>call.attached)
            else:
                request.extra = <bytes?>call.attached
        call.attached = request
        return self.pool.submit(request)

    cdef int drop_call(self, PendingCall call, str reason) except -1:
        """MX-11, HN-51, B75: era M closes the connection; era H sends a notification and reads on."""
        cdef ClientCall request = <ClientCall?>call.attached
        self.pool.withdraw(request)
        request.call = None
        if not request.sent:
            return 0
        if request.modern or call.method == "initialize":
            if request.conn is not None:
                request.conn.abandon()
            return 0
        if request.conn is not None:
            self.pool.drain(request.conn)
        return Sink.drop_call(self, call, reason)

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        self.mark = self.out.n
        return 0

    cdef int close_response(self, Exchange ex) except -1:
        return self.post_out()

    cdef int open_message(self, Exchange ex) except -1:
        if self.closed:
            return 0
        self.mark = self.out.n
        return 1

    cdef int close_message(self, Exchange ex) except -1:
        return self.post_out()

    cdef int rollback(self) except -1:
        self.out.n = self.mark
        return 0

    cdef int post_out(self) except -1:
        """POSTs what was written since the mark."""
        cdef bytes body = self.out.slice(self.mark, self.out.n)
        self.out.n = self.mark
        if self.mark == 0:
            self.out.clear()
        if len(self.pool.waiting) < self.pool.limits.max_waiting_answers:
            self.submit_post(body, None)
        else:
            self.post_failed("an answer", OverloadedError(
                "too many answers wait for a connection (limit max_waiting_answers)"))
        return 0

    def submit_post(self, bytes body, future, bytes own=None):
        """POSTs one message that is no request of ours; ``own`` are header lines in place of the user's."""
        cdef ClientPost request = ClientPost.__new__(ClientPost)
        cdef Py_ssize_t end
        request.channel = self
        request.urgent = True
        request.body = body
        request.own = own
        request.future = future
        request.session_id = self._session_id
        if body.startswith(b'{"jsonrpc":"2.0","method":"'):
            end = body.find(b'"', NOTE_PREFIX)
            request.method = body[NOTE_PREFIX:end]
        try:
            self.pool.submit(request)
        except HeadraceError as exc:
            request.failed(exc)

    def post(self, str method not None, bytes params=None):
        """Sends a notification and returns a future: None once the server accepted it (2xx), else
        HttpStatusError or ConnectionClosed."""
        cdef object future = self.mux.runtime.create_future()
        cdef bytes body = b'{"jsonrpc":"2.0","method":"' + method.encode()
        if self.closed:
            raise ConnectionClosed("the connection is closed")
        body += b'"}' if params is None else b'","params":' + params + b"}"
        self.submit_post(body, future)
        return future

    def open_stream(self, on_end=None, bytes own=None):
        """Opens the server's own event stream (GET, HO-10) and keeps it open: after an end it is
        reopened. Only after the handshake (B118).

        ``on_end(exc)`` is called once when it is over for good: exc is None when the server has no
        such stream (405), else why. ``own`` are header lines in place of the user's. Returns the stream, with
        ``close()``.
        """
        cdef ClientStream stream = ClientStream.__new__(ClientStream)
        if self.closed:
            raise ConnectionClosed("the connection is closed")
        stream.channel = self
        stream.notify_end = on_end
        stream.own = own
        stream.reconnect = Reconnect(self.mux.runtime, self.limits)
        self.streams.add(stream)
        # On the connection at hand, so that it comes before the calls that follow; they find a new one.
        if not self.pool.submit_away(stream):
            stream.again()
        return stream

    # --- end ----------------------------------------------------------------------------------------

    def stop(self, reason=None):
        """No more calls: waiting ones fail with ConnectionClosed at once, streams end. The pool stays."""
        if self.closed:
            return
        self.closed = True
        for stream in list(self.streams):
            stream.close()
        calls = list(self.mux.pending.values())
        self.mux.close(reason or ConnectionClosed("the connection was closed"))
        for call in calls:
            request = (<PendingCall>call).attached
            if isinstance(request, ClientCall):
                self.pool.withdraw(<ClientCall>request)
                (<ClientCall>request).call = None
                if (<ClientCall>request).conn is not None:
                    (<ClientCall>request).conn.abandon()

    def delete_session(self, bytes own=None):
        """Sends the DELETE of the session (HO-33) and returns a future, or None without a session."""
        cdef ClientPost request
        if self._session_id is None or self.pool.closed:
            return None
        request = ClientPost.__new__(ClientPost)
        request.channel = self
        request.urgent = True
        request.own = own
        request.delete = True
        request.future = self.mux.runtime.create_future()
        try:
            self.pool.submit(request)
        except HeadraceError as exc:
            request.failed(exc)
        return request.future
