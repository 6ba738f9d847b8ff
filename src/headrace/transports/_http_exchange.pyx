"""One HTTP exchange as a sink of the multiplexer: JSON answers, event streams, statuses (section 5).

An exchange starts uncommitted. The answer of most requests is one JSON object whose length is filled
in after the body was written behind a prepared head; a notification that comes first turns the
response into an event stream (HN-32, HN-43), and then the answer is its last event.

In a session whose streams can be resumed, events carry ids, and a stream goes on without a connection
(`link` is None): what is sent is only kept, until the client resumes it on another one (HO-08, HO-21).
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

from headrace.errors import LocalProtocolError
from headrace.jsonrpc import (
    HEADER_MISMATCH, INTERNAL_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, MISSING_CLIENT_CAPABILITY, PARSE_ERROR,
    UNSUPPORTED_VERSION,
)
from headrace.transports.refusals import kind_of

from headrace.mux._mux cimport Exchange, Mux, PendingCall, Revision, Sink
from headrace.protocol._streams cimport StreamKeeper
from headrace.transports._http_endpoint cimport LENGTH_FIELD, Connection, patch_length, put_rpc_error
from headrace.transports._rates cimport caller_of
from headrace.wire._cjson cimport HR_T_OBJECT, HR_T_STRING, hr_envelope, hr_span, hr_token
from headrace.wire._chttp cimport HR_F_MCP_PARAM, HR_H_MCP_METHOD, HR_H_MCP_NAME, hr_head
from headrace.wire._envelope cimport token_str
from headrace.wire._http1 cimport ACCEPT_JSON, ACCEPT_SSE, header_list, put_response_head, status_line
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport begin_event, finish_event, put_event

__all__ = ("HttpExchange",)

cdef enum:
    FRESH = 0                # nothing sent yet
    STREAMING = 1            # 200 text/event-stream is committed
    DONE = 2
    CHUNK_OPEN = 10          # eight hex digits and CRLF
    DEFAULT_RETRY = 1000     # milliseconds until a client comes back to a stream that was closed

    C_PARSE = -32700
    C_INVALID = -32600
    C_METHOD = -32601
    C_MISMATCH = -32020
    C_CAPABILITY = -32021
    C_VERSION = -32022

assert (C_PARSE, C_INVALID, C_METHOD) == (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND)
assert (C_MISMATCH, C_CAPABILITY, C_VERSION) == (HEADER_MISMATCH, MISSING_CLIENT_CAPABILITY, UNSUPPORTED_VERSION)

cdef bytes JSON_TYPE = b"Content-Type: application/json\r\n"
cdef bytes STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache, no-transform\r\n"
    b"X-Accel-Buffering: no\r\n"
)
cdef bytes CLOSE_FIELD = b"Connection: close\r\n"
cdef const char *HEX = "0123456789abcdef"


include "_http_mirror.pxi"
include "_http_taken.pxi"


cdef class HttpExchange(Sink):
    """The sink of one POST, or the stream of one GET."""

    cdef int reset(self, Connection link, int accept) except -1:
        """Makes it the exchange of the next request of `link`."""
        self.link = link
        self.closed = False
        self.session = None
        self.stream = None
        self.keeper = None
        self.spool = None
        self.running = None
        self.batch = None
        self.more = False
        self.begun = None
        self.head_bytes = None
        self.target = None
        self.extra = None
        self.mode = FRESH
        self.accept = accept
        self.old = link.head.minor == 0
        self.version_ok = False
        self.bare = False
        self.taken = None
        self.fixed = None
        self.is_stream = False
        self.writing = False
        self.principal = None
        self.since = link.endpoint.tick
        self.out = link.endpoint.nil
        return 0

    # --- the request ------------------------------------------------------------------------------

    @property
    def headers(self):
        """Header fields of the request: lower-case name to value, repeated lines joined with a comma."""
        cdef dict found = {}
        for name, value in self.fields():
            key = name.decode("latin-1")
            text = value.decode("latin-1")
            found[key] = f"{found[key]}, {text}" if key in found else text
        return found

    def fields(self):
        """Header lines of the request in order, as (lower-case name, value) in bytes."""
        cdef hr_head head
        if self.head_bytes is not None:
            head.fields.p = PyBytes_AS_STRING(self.head_bytes)
            head.fields.n = <size_t>PyBytes_GET_SIZE(self.head_bytes)
            return header_list(&head)
        if self.link is not None and self.link.head_here:
            return header_list(&self.link.head)
        return []

    cpdef int keep_head(self) except -1:
        """Copies what `headers`, `fields`, `target` and `mirrors_params` are read from, to last as long as this."""
        cdef const hr_head *h
        if self.head_bytes is None and self.link is not None and self.link.head_here:
            h = &self.link.head
            self.head_bytes = PyBytes_FromStringAndSize(h.fields.p, <Py_ssize_t>h.fields.n)
            self.target = PyBytes_FromStringAndSize(h.target.p, <Py_ssize_t>h.target.n)
            self.mirrors_params = h.flags & HR_F_MCP_PARAM
        return 0

    def opened(self, session not None):
        """This ``initialize`` began `session`: the answer names it (HO-30)."""
        self.begun = session

    cdef Revision route(self, Mux mux, const hr_envelope *env):
        """HN-30 steps 7 to 9 and 11 for the usual request, without a Python object (HN-03)."""
        cdef const hr_head *h
        cdef const hr_token *named = NULL
        cdef bint call
        if self.session is not None:
            if mux.current is not None and not text_is(&env.method, b"initialize", 10):
                return mux.current
            return None
        if (
            not self.version_ok or env.client_capabilities.type != HR_T_OBJECT
            or env.protocol_version.n != <size_t>PyBytes_GET_SIZE(mux.modern.token)
            or memcmp(env.protocol_version.p, PyBytes_AS_STRING(mux.modern.token), env.protocol_version.n) != 0
        ):
            if self.bare and env.protocol_version.n == 0 and text_is(&env.method, b"initialize", 10):
                return self.link.endpoint.handshake
            if self.fixed is not None and env.protocol_version.n == 0 and not text_is(&env.method, b"initialize", 10):
                return self.fixed
            return None
        h = &self.link.head
        call = text_is(&env.method, b"tools/call", 10)
        if not mirrors(h, HR_H_MCP_METHOD, &env.method, call):
            return None
        if call:
            if h.flags & HR_F_MCP_PARAM:
                return None
            if self.link.endpoint.header_tools and token_str(&env.name) in self.link.endpoint.header_tools:
                return None
            named = &env.name
        elif text_is(&env.method, b"prompts/get", 11):
            named = &env.name
        elif text_is(&env.method, b"resources/read", 14):
            named = &env.uri
        elif env.method.n > 7 and memcmp(env.method.p, b'"tasks/', 7) == 0:
            return None
        if named is not NULL and not mirrors(h, HR_H_MCP_NAME, named, False):
            return None
        return mux.modern

    cdef int started(self, Exchange ex) except -1:
        self.running = ex
        return self.keep_head()

    cdef int accepted(self) except -1:
        """202 without a body and without a type (B57), where the message is one that is taken."""
        if self.bare:
            return self.answer_error(
                400, INVALID_REQUEST, "Mcp-Session-Id is missing: send the one that initialize gave")
        if self.taken is not None:
            return wait_taken(self)
        put_accepted(self)
        return self.end()

    # --- the answer -------------------------------------------------------------------------------

    cdef int keep_alive(self) except -1:
        """Whether the connection goes on behind this answer: what the head says and what is done."""
        cdef Connection link = self.link
        if link.persist and link.endpoint.closing:
            link.persist = False
        return link.persist

    cdef int put_head(self, Outbuf out, int status) except -1:
        cdef bint keep = self.keep_alive()
        if status == 200 and keep and self.extra is None and self.begun is None:
            return out.put_bytes(self.link.endpoint.json_head)
        out.put_bytes(status_line(status))
        out.put_bytes(self.link.endpoint.date)
        if self.extra is not None:
            out.put_bytes(self.extra)
        if self.begun is not None:
            self.put_session(out)
        if status == 503 or status == 429:
            out.put_bytes(b"Retry-After: %d\r\n" % (self.wait or 1))
        if not keep:
            out.put_bytes(CLOSE_FIELD)
        out.put_bytes(JSON_TYPE)
        return out.put_bytes(LENGTH_FIELD)

    cdef int put_session(self, Outbuf out) except -1:
        out.put(b"Mcp-Session-Id: ", 16)
        out.put_bytes(<bytes?>self.begun.key)
        return out.put(b"\r\n", 2)

    cdef int status_for(self, Exchange ex, int code, int status) except -1:
        """The HTTP status of an error (table 1.3, JR-37)."""
        if status:
            return status
        if code == C_PARSE or code == C_INVALID:
            return 400
        if self.session is None and (ex is None or ex.revision.modern):
            if code == C_METHOD:
                return 404
            if code == C_MISMATCH or code == C_CAPABILITY or code == C_VERSION:
                return 400
        return 200

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        cdef Outbuf out = self.link.queue() if self.link is not None else self.spool
        self.out = out
        if code != 0:
            status = self.status_for(ex, code, status)
            if self.begun is not None:
                # The handshake failed: the session never was (HO-30).
                self.link.endpoint.sessions.end(self.begun)
                self.begun = None
        else:
            status = 200
        if self.mode == FRESH and status == 200 and not self.accept & ACCEPT_JSON:
            self.commit()
        self.mark = out.n
        self.writing = True
        if self.mode == STREAMING:
            return self.open_event(out)
        self.put_head(out, status)
        self.text_at = out.n
        return 0

    cdef int rollback(self) except -1:
        self.out.n = self.mark
        self.writing = False
        return 0

    cdef int close_response(self, Exchange ex) except -1:
        cdef Outbuf out = self.out
        self.writing = False
        if self.mode == STREAMING:
            self.close_event(out)
            if not self.more:
                return self.end_stream()
            if self.link is None:
                return 0
            self.since = self.link.endpoint.tick
            return self.link.wake()
        patch_length(out, self.text_at)
        return self.end()

    cdef int open_message(self, Exchange ex) except -1:
        cdef Outbuf out
        # `writing`: a notification from inside the encoding of the answer comes too late.
        if self.closed or self.mode == DONE or self.writing:
            return 0
        if self.link is None:
            out = self.spool
        else:
            if self.mode == FRESH:
                if not self.accept & ACCEPT_SSE:
                    return 0
                self.commit()
            elif self.link.overfull():
                return 0
            out = self.link.queue()
        self.out = out
        self.mark = out.n
        self.open_event(out)
        return 1

    cdef int close_message(self, Exchange ex) except -1:
        self.close_event(self.out)
        if self.link is None:
            return 0
        self.since = self.link.endpoint.tick
        return self.link.wake()

    cdef int send_call(self, PendingCall call, bytes method, bytes params, str name) except -1:
        """A request of ours inside of a request of the client: on its own stream (HO-43)."""
        if self.session is None:
            raise LocalProtocolError("in this revision, and outside of sessions, a server sends no requests")
        if self.session.no_channel:
            raise LocalProtocolError(self.session.no_channel)
        if not self.accept & ACCEPT_SSE:
            raise LocalProtocolError(
                "the client cannot be asked: this request is answered with one JSON object, not with an event stream")
        return Sink.send_call(self, call, method, params, name)

    cdef int commit(self) except -1:
        """From here on the answer is an event stream. 1: it has a first event."""
        if self.session is not None and self.stream is None:
            self.keeper = self.session.keeper or self.session.make_keeper()
            self.stream = self.keeper.open_named(self, self.is_stream)
        self.put_stream_head()
        if self.stream is None or not self.keeper.priming():
            return 0
        return self.prime(self.keeper.retry_ms)

    cdef int put_stream_head(self) except -1:
        cdef Outbuf out = self.link.queue()
        out.put_bytes(STREAM_HEAD)
        out.put_bytes(self.link.endpoint.date)
        if self.extra is not None:
            out.put_bytes(self.extra)
        if self.begun is not None:
            self.put_session(out)
            self.begun = None
        if not self.old:
            out.put(b"Transfer-Encoding: chunked\r\n", 28)
        if not self.keep_alive():
            out.put_bytes(CLOSE_FIELD)
        out.put(b"\r\n", 2)
        self.mode = STREAMING
        self.since = self.link.endpoint.tick
        return 0

    cdef int open_event(self, Outbuf out) except -1:
        if not self.old:
            out.put(b"00000000\r\n", CHUNK_OPEN)
        begin_event(out)
        self.text_at = out.n
        return 0

    cdef int close_event(self, Outbuf out) except -1:
        cdef bytes data, id
        finish_event(out, self.text_at)
        if self.stream is None:
            return self.close_chunk(out)
        data = out.slice(self.text_at, out.n - 2)
        out.n = self.mark
        # The store may be anybody's code: whatever it does to this stream is over when it returns.
        id = self.keeper.keep_event(self.stream, data)
        if self.link is None:
            return self.spool.clear() if self.spool is not None else 0
        out = self.link.queue()
        self.out = out
        return self.put_whole(out, id, data, -1)

    cdef int put_whole(self, Outbuf out, bytes id, bytes data, int retry_ms) except -1:
        """One event from its parts."""
        self.mark = out.n
        if not self.old:
            out.put(b"00000000\r\n", CHUNK_OPEN)
        put_event(out, id, data, retry_ms)
        return self.close_chunk(out)

    cdef int close_chunk(self, Outbuf out) except -1:
        cdef size_t n
        cdef char *p
        if self.old:
            return 0
        n = <size_t>(out.n - self.mark - CHUNK_OPEN)
        if n > 0xFFFFFFFF:
            raise OverflowError("an event of 4 GiB")
        p = out.base + self.mark + 8
        while n:
            p -= 1
            p[0] = HEX[n & 15]
            n >>= 4
        return out.put(b"\r\n", 2)

    cdef int comment(self) except -1:
        """A line that peers ignore: keeps silent streams alive (B39, HN-41)."""
        cdef Outbuf out = self.link.queue()
        if self.mode == FRESH and self.commit():
            return self.link.wake()
        if self.old:
            out.put(b":\n\n", 3)
        else:
            out.put(b"3\r\n:\n\n\r\n", 8)
        self.since = self.link.endpoint.tick
        return self.link.wake()

    cdef int end(self) except -1:
        cdef Connection link = self.link
        self.mode = DONE
        self.closed = True
        self.running = None
        self.batch = None
        self.begun = None
        if link is not None:
            self.out = link.endpoint.nil
        if self.is_stream:
            self.session.stream_ended(self)
        elif self.stream is not None:
            self.keeper.post_over(self.stream)
        return link.finished(self) if link is not None else 0

    cdef int answer_error(self, int status, int code, str text, bytes id=None) except -1:
        """Answers outside the mux, while nothing is committed."""
        cdef bint keep = self.keep_alive()
        self.link.endpoint.runtime.refused("draining" if status == 503 else kind_of(status))
        put_rpc_error(self.link.endpoint, self.link.queue(), status, code, text, id, self.extra or b"", not keep, False)
        return self.end()

    cdef int abandoned(self, Exchange ex) except -1:
        """No answer will come: the request was cancelled. The HTTP exchange ends all the same (MX-12)."""
        cdef bytes id = None if ex is None else ex.id
        if self.closed or self.mode == DONE:
            return 0
        if self.mode == STREAMING:
            return self.end_stream()
        if self.session is not None and self.session.ended and not self.session.left:
            return self.answer_error(404, INVALID_REQUEST, "the session has ended", id)
        if self.link.endpoint.closing:
            return self.answer_error(503, INTERNAL_ERROR, "the server is shutting down", id)
        self.bare = False
        return self.accepted()

    cdef bint several(self, Sink batch) except -1:
        """The answers of an array are events of one stream, or one JSON array (JR-22)."""
        self.batch = batch
        if not self.accept & ACCEPT_SSE:
            return False
        self.commit()
        return True

    cdef int cancel_running(self, str reason) except -1:
        """Cancels what is being served here."""
        if self.batch is not None:
            (<object>self.batch).cancel(reason)
        elif self.running is not None:
            self.running.cancel(reason)
        return 0

    # --- streams of sessions ------------------------------------------------------------------------

    cdef int start_stream(self, object name, list events) except -1:
        """Opens a GET stream, fresh or as the continuation of stream `name`; its first bytes leave at once,
        so that proxies see it alive (B39)."""
        self.is_stream = True
        self.accept |= ACCEPT_SSE
        if name is None:
            if self.commit():
                return self.link.wake()
        else:
            # No first event of its own: the client would take its id for one behind those that follow.
            self.keeper = self.session.make_keeper()
            self.stream = name
            self.put_stream_head()
            self.put_events(events)
        return self.comment()

    cdef int replay_only(self, list events) except -1:
        """What is left of a stream that has ended."""
        self.session = None
        self.accept |= ACCEPT_SSE
        self.put_stream_head()
        self.put_events(events)
        return self.end_stream()

    cdef int put_events(self, list events) except -1:
        for id, data in events:
            self.put_whole(self.link.queue(), id.encode("ascii"), data, -1)
        return 0

    cdef int prime(self, int retry_ms) except -1:
        """An event without data, so that the client has an id to resume from (HO-22, HO-23)."""
        cdef bytes id = self.keeper.keep_event(self.stream, b"")
        if id is None or self.link is None:
            return 0
        self.put_whole(self.link.queue(), id, b"", retry_ms)
        return 1

    cdef int attach(self, Connection link, bytes extra, list events) except -1:
        """The client resumes this stream on `link`; a connection that still had it loses it."""
        self.part()
        self.link = link
        self.spool = None
        self.out = link.endpoint.nil
        self.old = link.head.minor == 0
        self.extra = extra
        self.put_stream_head()
        self.put_events(events)
        return self.comment()

    cpdef int part(self) except -1:
        """Takes the stream off its connection, which ends its answer whole; the request goes on."""
        cdef Connection link = self.link
        if link is None:
            return 0
        if not self.old:
            link.queue().put(b"0\r\n\r\n", 5)
        self.unlink()
        return link.finished(self)

    cdef int unlink(self) except -1:
        self.link = None
        # Buffers of a link may serve another one already.
        self.spool = Outbuf.__new__(Outbuf)
        self.out = self.spool
        return 0

    def close_stream(self, retry=None):
        """Ends the connection of this request's stream, not the request: the client comes back for the rest
        (HO-23). False where it could not."""
        cdef int retry_ms
        if (
            self.closed or self.mode == DONE or self.writing or self.is_stream or self.session is None
            or not self.accept & ACCEPT_SSE or not self.session.primes
        ):
            return False
        if self.link is None:
            return True
        if self.mode == FRESH:
            self.commit()
        if self.stream is None:
            return False
        retry_ms = self.session.retry_ms if retry is None else int(retry * 1000)
        self.prime(retry_ms if retry_ms >= 0 else DEFAULT_RETRY)
        self.part()
        return True

    cpdef bint carry(self, bytes frame) except? False:
        """Sends a message that was made elsewhere, in one line. False when it cannot be carried."""
        if not self.open_message(None):
            return False
        self.out.put_bytes(frame)
        self.close_message(None)
        return True

    cpdef int end_stream(self) except -1:
        """Ends an event stream whole, without another event."""
        if self.closed or self.mode != STREAMING:
            return 0
        if self.link is not None and not self.old:
            self.link.queue().put(b"0\r\n\r\n", 5)
        return self.end()

    cdef int retire(self) except -1:
        """The server shuts down: streams of sessions end, answers are still awaited."""
        return self.end_stream() if self.is_stream else 0

    cdef int detach(self) except -1:
        """The peer is gone. Era M: that cancels the request (HN-50). Era H: a stream that can be resumed
        goes on without a connection, of others nothing more can be sent (HO-08)."""
        cdef Exchange running = self.running
        if self.closed:
            return 0
        if self.stream is not None and not self.is_stream and self.mode == STREAMING:
            return self.unlink()
        self.closed = True
        self.out = self.link.endpoint.nil
        self.link = None
        self.running = None
        self.batch = None
        if self.is_stream:
            self.session.stream_ended(self)
        if running is not None:
            if running.revision.modern:
                running.cancel("the client disconnected")
            elif self.session is not None:
                self.session.sink_lost(self)
        return 0

    cdef object caller(self):
        return caller_of(self.principal, None if self.link is None else self.link.whence()[0])

    cdef bint congested(self):
        cdef Connection link = self.link
        if link is None:
            return False
        return link.output_full or (link.out is not None and link.out.n > link.endpoint.max_output)

    cdef object drained(self):
        cdef Connection link = self.link
        if link is None or link.write is None:
            return None
        if not link.output_full:
            link.send_queued()
            if not link.output_full:
                return None
        waiter = link.endpoint.runtime.create_future()
        if link.drain_waiters is None:
            link.drain_waiters = []
        link.drain_waiters.append(waiter)
        return waiter
