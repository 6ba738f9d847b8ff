# Part of the module _http_request: requests of ours, from the POST to the answer.

cdef Py_ssize_t digits(long long n) noexcept:
    """How many decimal digits `n`, which is not negative, has."""
    cdef Py_ssize_t count = 1
    while n >= 10:
        n //= 10
        count += 1
    return count


cdef class CallOptions:
    """What one call wants otherwise than its channel; given to ``Mux.call(extra=)``.

    ``fields`` are prepared header lines for this request alone, ``own`` such lines in place of the user's.
    ``resume`` asks for the rest of an answer that was broken off, behind the event of that id, instead of sending
    the request (HO-24); what answers it may carry the id of then. ``on_event_id(id)`` is called with the id of
    each event of the answer. Raises LocalProtocolError for a ``resume`` that no header can carry.
    """

    def __init__(self, *, bytes fields=None, bytes own=None, bytes resume=None, on_event_id=None):
        if resume is not None and not (resume and carriable(resume)):
            raise LocalProtocolError("an event id to resume from is a text without control characters")
        self.fields = fields
        self.own = own
        self.resume = resume
        self.on_event_id = on_event_id


cdef class ClientCall(ClientRequest):
    """A request of ours. ``PendingCall.attached`` holds it, so that ``session_id`` and ``status`` can
    be asked for when the call has failed (HO-32)."""

    cdef str what(self):
        if self.reconnect is not None:
            return f"the rest of the answer to {self.method.decode()}"  # it was sent, and may have run
        return self.method.decode()

    cdef bint safe(self):
        return self.method in SAFE

    cdef int take_options(self, CallOptions options) except -1:
        self.extra = options.fields
        self.own = options.own
        self.on_event_id = options.on_event_id
        if options.resume is not None:
            self.resumed = True
            self.reconnect = Reconnect(self.channel.mux.runtime, self.channel.limits)
            self.reconnect.last_id = options.resume
        return 0

    cdef bint waits(self):
        """Whether the answer is still outstanding."""
        return self.call is not None and self.channel.mux.pending.get(self.call.key) is self.call

    cdef int failed(self, object exc) except -1:
        cdef PendingCall call = self.call
        self.call = None
        if call is not None and not self.dropped:
            call.fail(exc)
        return 0

    cdef bytes render(self):
        cdef ChannelState channel = self.channel
        cdef Outbuf out = channel.scratch
        cdef bytes head
        cdef bint bare
        cdef Py_ssize_t n
        self.sent = True
        self.session_id = channel._session_id
        if self.reconnect is not None:
            out.put_bytes(channel.get_head if self.own is None else channel.head_for(
                b"GET", self.own, STREAMED + channel.state_fields))
            if self.extra is not None:
                out.put_bytes(self.extra)
            out.put(b"Last-Event-ID: ", 15)
            out.put_bytes(self.reconnect.last_id)
            out.put(b"\r\n\r\n", 4)
            return out.take()
        bare = self.method == b"initialize"
        if bare:
            self.session_id = None
        if self.own is not None:
            head = channel.head_for(b"POST", self.own, POSTED if bare else POSTED + channel.state_fields)
        else:
            head = channel.bare_head if bare else channel.post_head
        # {"jsonrpc":"2.0","id":N,"method":"M","params":P}
        n = 22 + 11 + PyBytes_GET_SIZE(self.method) + (
            2 if self.params is None else 12 + PyBytes_GET_SIZE(self.params))
        if self.call.token is not None:
            n += PyBytes_GET_SIZE(self.call.token)
        else:
            n += digits(self.call.id)
        out.room(PyBytes_GET_SIZE(head) + n + 256)
        out.put_bytes(head)
        if channel._modern and not bare:
            out.put(b"Mcp-Method: ", 12)
            out.put_bytes(self.method)
            out.put(b"\r\n", 2)
            if self.name is not None:
                out.put(b"Mcp-Name: ", 10)
                out.put_bytes(self.name)
                out.put(b"\r\n", 2)
        if self.extra is not None:
            out.put_bytes(self.extra)
        out.put(b"Content-Length: ", 16)
        out.put_int(n)
        out.put(b'\r\n\r\n{"jsonrpc":"2.0","id":', 26)
        if self.call.token is None:
            out.put_int(self.call.id)
        else:
            out.put_bytes(self.call.token)
        out.put(b',"method":"', 11)
        out.put_bytes(self.method)
        if self.params is None:
            out.put(b'"}', 2)
        else:
            out.put(b'","params":', 11)
            out.put_bytes(self.params)
            out.put(b'}', 1)
        return out.take()

    cdef int on_head(self, const hr_head *h) except -1:
        cdef int mode
        cdef hr_span kind
        if self.dropped:
            self.status = h.status
            return BODY_DISCARD
        mode = self.judge(h)
        if mode >= 0:
            return mode
        if h.status >= 300:
            return self.judge_error(h)
        if self.method == b"initialize":
            self.channel.adopt(h)
        if self.channel.asleep is not None:
            self.channel.wake()
        kind = h.known[HR_H_CONTENT_TYPE]
        if h.seen >> HR_H_CONTENT_TYPE & 1:
            if json_type(kind.p, <Py_ssize_t>kind.n) and self.reconnect is None:
                self.json = True
                return BODY_WHOLE
            if sse_type(kind.p, <Py_ssize_t>kind.n):
                self.news = False
                if self.reconnect is not None:
                    self.reconnect.opened()
                return BODY_EVENTS
        if hr_http1_response_body(h, False) == HR_BODY_NONE:
            self.problem = HttpStatusError(f"HTTP {h.status} without a body is no answer to {self.what()}", h.status)
            return BODY_DISCARD
        self.judge_error(h)
        self.json = False
        return BODY_EXCERPT

    cdef int on_body(self, const char *p, Py_ssize_t n) except -1:
        cdef Py_ssize_t i = 0
        cdef str body
        if self.dropped:
            return 0
        if self.reconnect is not None:
            return self.refused(p, n)
        if self.status < 300 and self.json:
            self.channel.deliver(self, p, n)
            if self.waits():
                body = PyBytes_FromStringAndSize(p, n if n < QUOTE else QUOTE).decode("utf-8", "replace")
                self.failed(RemoteProtocolError(
                    f"the body is no answer to {self.what()}: {' '.join(body.split())[:300]}" if n
                    else f"the answer to {self.what()} is empty"))
            self.call = None
            return 0
        if self.status >= 400 and self.status != 401 and "www-authenticate" not in self.fields:
            while i < n and (p[i] == c' ' or p[i] == c'\r' or p[i] == c'\n' or p[i] == c'\t'):
                i += 1
            if i < n and p[i] == c'{':
                self.channel.deliver(self, p, n)
        if self.waits():
            self.failed(self.status_error(p, n))
        self.call = None
        return 0

    cdef int on_event(self, const hr_sse_event *event) except -1:
        if self.dropped:
            return 0
        if event.data.n == 0 or not event.flags & HR_SSE_MESSAGE:
            return self.tell_id(event)
        self.news = True
        self.channel.deliver(self, event.data.p, <Py_ssize_t>event.data.n)
        if self.on_event_id is not None:
            self.tell_id(event)
        if self.conn is not None and not self.waits():
            # The stream should end now; one that does not is cut after a while.
            self.channel.pool.drain(self.conn)
        return 0

    cdef int tell_id(self, const hr_sse_event *event) except -1:
        cdef bytes id
        if self.on_event_id is None or not event.flags & HR_SSE_HAS_ID or event.id.n == 0:
            return 0
        id = PyBytes_FromStringAndSize(event.id.p, <Py_ssize_t>event.id.n)
        try:
            self.on_event_id(id.decode("utf-8", "replace"))
        except Exception as exc:
            self.channel.mux.runtime.report("a callback for event ids failed", exc)
        return 0

    cdef int on_end(self, SseFramer framer) except -1:
        if framer is None:
            return ClientRequest.on_end(self, None)
        return self.stream_ended(framer, None)

    cdef int on_lost(self, object exc, bint untouched, bint reused, SseFramer framer) except -1:
        if self.dropped or not self.waits():
            self.call = None
            return 0
        if framer is not None or self.reconnect is not None:
            return self.stream_ended(framer, exc)
        return self.lost(exc, untouched, reused)

    cdef bytes resume_id(self):
        return None if self.reconnect is None else self.reconnect.last_id

    cdef int stream_ended(self, SseFramer framer, object exc) except -1:
        """The stream ended, well or not, or could not be reopened. Without the answer it is resumed if it
        can be: era H, an event id was seen, the session is the same (HO-21, HO-24)."""
        cdef ChannelState channel = self.channel
        cdef Reconnect reconnect = self.reconnect
        if self.dropped or not self.waits():
            self.call = None
            return 0
        if isinstance(exc, RemoteProtocolError) and not isinstance(exc, HttpStatusError):
            return self.failed(exc)
        how = "ended" if exc is None else f"broke ({exc})"
        if self.modern or self.method == b"initialize" or channel.pool.closed:
            return self.failed(ConnectionClosed(
                f"the event stream {how} before the answer to {self.method.decode()} came"))
        if reconnect is None:
            reconnect = Reconnect(channel.mux.runtime, channel.limits)
        reconnect.ended(framer, self.news)
        if reconnect.last_id is None or not carriable(reconnect.last_id):
            return self.failed(ConnectionClosed(
                f"the event stream {how} before the answer to {self.method.decode()} came"))
        if reconnect.exhausted():
            if isinstance(exc, HttpStatusError):
                return self.failed(exc)
            return self.failed(ConnectionClosed(
                f"the event stream {how} before the answer to {self.method.decode()} came and could not be resumed"))
        self.reconnect = reconnect
        wait = exc.retry_after if isinstance(exc, HttpStatusError) else None
        return reconnect.schedule(self.resume, 0 if wait is None else wait)

    cdef int refused(self, const char *p, Py_ssize_t n) except -1:
        """The stream was asked for again and something else came."""
        if not self.waits():
            self.call = None
            return 0
        if self.status == 404 and self.session_id is not None:
            # The request has run, or runs: with the session its answer is gone (HO-32). It is not sent again.
            return self.failed(ConnectionClosed(
                f"the session ended before the answer to {self.method.decode()} came (HTTP 404)"))
        exc = self.status_error(p, n)
        if passing(self.status):
            return self.stream_ended(None, exc)
        return self.failed(exc)

    def resume(self):
        """Timer: asks for the rest of the stream."""
        if self.dropped or not self.waits() or self.channel.pool.closed:
            return
        if self.session_id != self.channel._session_id:
            self.failed(ConnectionClosed(f"the session ended before the answer to {self.method.decode()} came"))
            return
        self.again()
