# Part of the module _mux: where messages go.


cdef class Sink:
    """Where messages go. The base class refuses to send; transports override the C-level methods."""

    def __cinit__(self, *args, **kwargs):
        global live_sinks
        self.out = Outbuf.__new__(Outbuf)
        self.closed = False
        self.persistent = False
        if HR_DEBUG:
            live_sinks += 1

    def __dealloc__(self):
        global live_sinks
        if HR_DEBUG:
            live_sinks -= 1

    cdef Revision route(self, Mux mux, const hr_envelope *env):
        """The revision of a request, decided fast; None when anything about it is unusual."""
        if env.protocol_version.n:
            if (
                mux.modern is not None and env.client_capabilities.type == HR_T_OBJECT
                and env.protocol_version.n == <size_t>PyBytes_GET_SIZE(mux.modern.token)
                and memcmp(env.protocol_version.p, PyBytes_AS_STRING(mux.modern.token), env.protocol_version.n) == 0
            ):
                return mux.modern
            return None
        if mux.current is not None and not token_is(&env.method, b"initialize"):
            return mux.current
        return None

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        """Before an answer is written to `out`. ex is None for an answer without a request; code is
        the JSON-RPC error code or 0; status an HTTP status that is asked for, or 0."""
        raise LocalProtocolError("this sink cannot send")

    cdef int close_response(self, Exchange ex) except -1:
        """After an answer was written to `out`."""
        raise LocalProtocolError("this sink cannot send")

    cdef int open_message(self, Exchange ex) except -1:
        """Before a notification or a request of ours; ex is the request it belongs to, or None.
        Returns 0 when it cannot be carried: then nothing is written."""
        raise LocalProtocolError("this sink cannot send")

    cdef int close_message(self, Exchange ex) except -1:
        raise LocalProtocolError("this sink cannot send")

    cdef int rollback(self) except -1:
        """Takes back what was written since open_response."""
        raise LocalProtocolError("this sink cannot send")

    cdef int send_call(self, PendingCall call, bytes method, bytes params, str name) except -1:
        """Sends a request of ours. name is what HTTP mirrors as Mcp-Name, or None."""
        if not self.open_message(None):
            if self.congested():
                raise OverloadedError("the peer does not read: too much output is queued (limit max_output_bytes)")
            raise LocalProtocolError("this connection carries no requests")
        put_request(self.out, call, method, params)
        return self.close_message(None)

    cdef int drop_call(self, PendingCall call, str reason) except -1:
        """Tells the peer that we gave `call` up."""
        cdef Outbuf out = self.out
        cdef bytes text = None if reason is None else encode(text_of(reason))
        cdef Words words = call.mux.words
        if words is not None:
            if words.cancelling is not None and self.open_message(None):
                out.put_bytes(words.cancelling)
                put_id(out, call)
                out.put(b'}}', 2)
                self.close_message(None)
            return 0
        if call.method == "initialize" or not self.open_message(None):  # VN-06
            return 0
        out.put(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":', 74)
        put_id(out, call)
        if reason is not None:
            out.put(b',"reason":', 10)
            out.put_bytes(text)
        out.put(b'}}', 2)
        return self.close_message(None)

    cdef bint admits(self, PendingCall call) except? False:
        """Whether the answer being received may answer `call` (over HTTP each answer has its own place)."""
        return True

    cdef bint unmatched(self, const hr_envelope *env) except? True:
        """An answer that matches no call. True when this sink knew whom it was for."""
        return False

    cdef int pause(self) except -1:
        """Stop reading from the peer."""
        return 0

    cdef int resume(self) except -1:
        return 0

    cdef int accepted(self) except -1:
        """A notification or a response was taken (HTTP answers 202)."""
        return 0

    cdef int started(self, Exchange ex) except -1:
        """ex did not end at once: it is in flight now."""
        return 0

    cdef int abandoned(self, Exchange ex) except -1:
        """ex was cancelled: no answer will come. ex is None when it was not started yet."""
        return 0

    cdef bint several(self, Sink batch) except -1:
        """Several answers are coming for the message that was received (JR-22). True: they may come one
        by one, `more` is set for all but the last, or `abandoned(None)` follows. False: one at the end."""
        return False

    cdef object caller(self):
        """Whose requests come here, for the bounds of one caller: hashable."""
        return ("peer", "unix") if self.principal is None else repr(self.principal)

    cdef str retry_after(self):
        """The field Retry-After of the answer being received, or None."""
        return None

    cdef bint congested(self):
        return False

    cdef object drained(self):
        return None

    @property
    def headers(self):
        """Header fields of the HTTP request behind this sink, names in lower case; empty elsewhere."""
        return {}

    def close_stream(self, retry=None):
        """Ends the connection that carries the stream of a request while the request goes on; `retry`
        seconds later the client comes back for the rest. False where there is no such thing (HO-23)."""
        return False

    def wait_drained(self):
        """None, or a future that is done when queued output is below its bound."""
        return self.drained() if self.congested() else None


cdef class FrameSink(Sink):
    """A sink that hands every whole frame to a Python function: memory pairs, tests, embedding.

    `put(frame: bytes)` is called once a frame; ``finish()`` and ``closed`` end it. `put` may hand the
    frame straight to the mux of the other side.
    """

    cdef object put
    cdef Py_ssize_t mark

    def __init__(self, put):
        self.put = put
        self.persistent = True
        self.metered = True

    def finish(self):
        """Nothing more is sent."""
        self.closed = True

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        self.mark = self.out.n
        return 0

    cdef int close_response(self, Exchange ex) except -1:
        self.put(self.out.take())
        return 0

    cdef int open_message(self, Exchange ex) except -1:
        self.mark = self.out.n
        return 1

    cdef int close_message(self, Exchange ex) except -1:
        self.put(self.out.take())
        return 0

    cdef int rollback(self) except -1:
        self.out.n = self.mark
        return 0
