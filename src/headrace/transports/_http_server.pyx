"""The protocol object of one HTTP connection of a server: from bytes to requests (L6).

A request that lies whole in the chunk just read is parsed and served where it lies, in the call stack
of data_received; its answer leaves with one write. Everything else (heads and bodies in pieces,
requests behind one that is still being answered) is copied once. Requests of one connection are
answered strictly in order. Timeouts are counted in ticks of the endpoint's one timer.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memset

from headrace.jsonrpc import INTERNAL_ERROR

from headrace.mux._mux cimport Mux, Sink
from headrace.transports._http_endpoint cimport Endpoint, put_rpc_error
from headrace.transports._http_exchange cimport HttpExchange
from headrace.transports._http_asgi cimport AppLink
from headrace.transports._http_gate cimport APP, BODY, BUSY, CLOSED, HEAD, IDLE, LINGER, SKIP
from headrace.wire._cjson cimport HR_NEED_MORE, HR_OK, hr_span
from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport ACCEPT_SSE, head_error, status_of

__all__ = ("HttpLink",)

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object o)

cdef enum:
    MODE_FRESH = 0           # of an exchange
    MODE_STREAMING = 1

    MUCH = 64 * 1024         # queued output at which a turn does not wait for its end
    MAX_UNREAD = 64 * 1024   # input behind a running request at which reading pauses
    MAX_SKIP = 256 * 1024    # a refused chunked body up to this size is read away, else the connection ends
    MAX_LINGER = 64 * 1024 * 1024


cdef class HttpLink(AppLink):
    """Protocol of one connection of `endpoint` (TCP, unix or TLS)."""

    def __cinit__(self, Endpoint endpoint not None):
        self.endpoint = endpoint
        self.phase = CLOSED
        self.reading = True
        self.persist = True
        self.fd = -1

    def connection_made(self, transport):
        cdef Endpoint ep = self.endpoint
        self.transport = transport
        self.write = transport.write
        if transport.get_extra_info("sslcontext") is None:
            sock = transport.get_extra_info("socket")
            if sock is not None:
                self.fd = sock.fileno()
        transport.set_write_buffer_limits(high=ep.max_output)
        self.phase = IDLE
        self.since = ep.tick
        ep.links.add(self)
        ep.runtime.links.add(self)
        if ep.served >= ep.max_connections or (ep.closing and not self.goes_on()):
            if len(ep.links) > 2 * ep.max_connections:
                self.abort()
                return
            ep.runtime.refused("draining" if ep.closing else "max_connections")
            put_rpc_error(ep, self.queue(), 503, INTERNAL_ERROR, "too many connections", None, b"", True, False)
            self.linger()
            return
        self.counted = True
        ep.served += 1

    def data_received(self, data):
        cdef bytes chunk = data if type(data) is bytes else bytes(data)
        try:
            self.take_in(PyBytes_AS_STRING(chunk), PyBytes_GET_SIZE(chunk))
        except Exception as exc:
            self.endpoint.runtime.report("an HTTP connection failed", exc)
            self.abort()

    def eof_received(self):
        """The peer sends no more. Era M takes that for giving up (HN-50); in era H, and for requests
        that are already here, the answer still goes out (HO-08)."""
        cdef HttpExchange current = self.current
        self.eof = True
        if self.phase == BUSY:
            if self.waiting is not None and self.patient:
                return self.transport.get_extra_info("sslcontext") is None
            if (
                current is not None and current.running is not None and not current.is_stream
                and not current.running.revision.modern and self.transport.get_extra_info("sslcontext") is None
            ):
                return True
            self.send_queued()
            self.lose()
            return False
        if self.phase == APP and self.transport.get_extra_info("sslcontext") is None:
            return self.app_eof()
        if self.phase == IDLE and self.size > self.off and (self.continue_due or self.output_full):
            return self.transport.get_extra_info("sslcontext") is None
        self.send_queued()
        self.phase = CLOSED
        return False

    def connection_lost(self, exc):
        cdef Endpoint ep = self.endpoint
        self.lose()
        self.out = None
        self.transport = None
        self.write = None
        self.fd = -1
        ep.left(self, self.counted)
        self.counted = False

    def pause_writing(self):
        self.output_full = True
        self.stall_size = self.transport.get_write_buffer_size()
        self.stall_since = self.endpoint.tick

    def resume_writing(self):
        self.output_full = False
        self.stall_size = 0
        self.release_waiters()
        if self.size > self.off and self.phase < BUSY:
            self.go_on()

    @property
    def streams(self):
        """Whether an event stream is open on it."""
        return self.current is not None and self.current.mode == MODE_STREAMING

    @property
    def held_bytes(self):
        """Memory of buffers that this connection holds now."""
        return self.cap + self.body_cap + (self.out.cap if self.out is not None else 0)

    def lose(self):
        """Lets go of everything that the connection held."""
        self.phase = CLOSED
        if self.current is not None:
            exchange = self.current
            self.current = None
            exchange.detach()
        self.spare = None
        self.drop_app()
        self.stop_waiting()
        self.forget()
        self.drop_stored()
        self.drop_body()
        self.release_waiters()

    def abort(self):
        """Closes at once; queued output is dropped."""
        self.lose()
        self.fd = -1
        if self.transport is not None:
            self.transport.abort()

    @property
    def unsent_bytes(self):
        """Memory of output that the peer has not taken."""
        cdef Py_ssize_t n = self.transport.get_write_buffer_size() if self.transport is not None else 0
        if n == 0:
            self.large = 0
        return max(n, self.large) + (self.out.n if self.out is not None else 0)

    def shed(self):
        """The connections of the server hold too much output, and this one the most: it ends."""
        if self.busy or self.phase == APP or (self.current is not None and self.current.writing):
            self.endpoint.runtime.call_soon(self.abort)
        else:
            self.abort()

    cdef int take_in(self, const char *p, Py_ssize_t n) except -1:
        cdef Py_ssize_t used
        if self.phase >= LINGER:
            if self.phase == LINGER:
                self.skip += <uint64_t>n
                if self.skip > MAX_LINGER:
                    self.abort()
            return 0
        if self.size == self.off and not self.continue_due and not self.output_full:
            used = self.work(p, n)
            if used < n and self.phase < LINGER:
                self.store(p + used, n - used)
        else:
            self.store(p, n)
            if self.phase != BUSY and not self.continue_due and not self.output_full:
                self.work_stored()
        return self.settle()

    cdef int work_stored(self) except -1:
        cdef Py_ssize_t used = self.work(self.buf + self.off, self.size - self.off)
        self.off += used
        if self.off == self.size or self.phase >= LINGER:
            self.drop_stored()
        return 0

    cdef Py_ssize_t work(self, const char *p, Py_ssize_t n) except -1:
        """Takes what can be taken of [p, p + n) and serves what is complete; returns how much that was."""
        cdef Py_ssize_t at = 0
        cdef Py_ssize_t count = 0
        cdef int rc
        self.busy = True
        try:
            while at < n:
                if self.phase == BODY:
                    at += self.on_body(p + at, n - at)
                elif self.phase == SKIP:
                    at += self.on_skip(p + at, n - at)
                elif self.phase == APP:
                    if self.app.whole or self.app.full():
                        break
                    at += self.on_app(p + at, n - at)
                elif self.phase > HEAD:
                    if self.phase >= LINGER:
                        at = n
                    break
                elif not self.persist:
                    at = n
                    break
                elif self.output_full or count >= self.endpoint.max_inline:
                    break
                else:
                    if self.out is not None and self.out.n >= MUCH:
                        # So that the transport can say when it has enough.
                        self.send_queued()
                        if self.output_full:
                            break
                    count += 1
                    rc = hr_http1_request(p + at, <size_t>(n - at), &self.endpoint.head_limits, &self.head)
                    if rc == HR_OK:
                        at += self.on_head(p + at, n - at)
                    elif rc == HR_NEED_MORE:
                        if self.phase == IDLE:
                            self.phase = HEAD
                            self.since = self.endpoint.tick
                        break
                    else:
                        self.persist = False
                        self.head.flags = 0
                        self.head.method = HR_M_OTHER
                        self.extra = self.told = None
                        self.refuse(status_of(rc), str(head_error(rc)))
        finally:
            self.busy = False
        return at

    cdef int settle(self) except -1:
        """The end of every turn that looked at input: what is queued leaves, what waits goes on."""
        self.send_queued()
        if self.phase == LINGER:
            return self.linger()
        if self.phase == IDLE:
            if not self.persist:
                return self.shut()
            if self.size > self.off:
                if not self.output_full:
                    self.go_on()
            elif self.eof or (self.endpoint.closing and not self.goes_on()):
                return self.shut()
        elif self.phase == APP:
            if self.eof and self.size == self.off and not self.app.whole:
                self.abort()
                return 0
            self.turn_over()
        return self.steer()

    def go_on(self):
        """Input that is already here is looked at in the next turn of the loop."""
        if not self.continue_due:
            self.continue_due = True
            self.endpoint.runtime.call_soon(self.continue_input)

    def continue_input(self):
        self.continue_due = False
        if self.phase >= BUSY or self.output_full:
            return
        try:
            self.work_stored()
            self.settle()
        except Exception as exc:
            self.endpoint.runtime.report("an HTTP connection failed", exc)
            self.abort()

    cdef int steer(self) except -1:
        """Reading pauses while too much waits behind a request."""
        cdef bint want = self.size - self.off < MAX_UNREAD
        if want == self.reading or self.phase >= LINGER or self.eof:
            return 0
        self.reading = want
        if want:
            self.transport.resume_reading()
        else:
            self.transport.pause_reading()
        return 0

    cdef Py_ssize_t on_head(self, const char *p, Py_ssize_t n) except -1:
        """A head is complete at p; returns how much of [p, p + n) was taken."""
        cdef hr_head *h = &self.head
        cdef Py_ssize_t head_len = <Py_ssize_t>h.head_len
        cdef Py_ssize_t have = n - head_len
        cdef Py_ssize_t need
        cdef int kind = hr_http1_request_body(h)
        self.persist = h.flags & HR_F_PERSIST and h.minor == 1
        self.extra = None
        self.plain = False
        self.expects = h.flags & HR_F_EXPECT_100 and kind != HR_BODY_NONE
        self.is_chunked = kind == HR_BODY_CHUNKED
        self.head_at = p
        if self.endpoint.trusted is not None:
            self.hear()
        if not self.usual():
            # Head spans are needed by whoever judges it, and by an exchange that it opens.
            self.head_here = True
            try:
                if not self.check():
                    return head_len if self.phase != APP else head_len + self.start_app(p + head_len, have)
            finally:
                self.head_here = False
        elif self.endpoint.admits and not self.admit():
            return head_len
        if kind == HR_BODY_NONE:
            if not h.flags & HR_F_HAS_LENGTH:
                # What follows may be a body all the same: it must never run as a request (B50).
                self.persist = False
                self.refuse(400, "a POST needs Content-Length or chunked coding")
                return head_len
            self.serve(p + head_len, 0)
            return head_len
        if kind == HR_BODY_LENGTH:
            need = <Py_ssize_t>h.content_length
            if have >= need:
                self.serve(p + head_len, need)
                return head_len + need
            self.body_need = head_len + need
        else:
            self.body_need = 0
            memset(&self.chunked, 0, sizeof(hr_chunked))
        self.phase = BODY
        self.since = self.body_since = self.endpoint.tick
        if not self.keep_body(p, head_len):
            return head_len
        if self.expects and have == 0 and self.size == self.off:
            self.queue().put(b"HTTP/1.1 100 Continue\r\n\r\n", 25)
        return head_len

    cdef Py_ssize_t on_body(self, const char *p, Py_ssize_t n) except -1:
        cdef const char *start = p
        cdef const char *e = p + n
        cdef hr_span data
        cdef int rc
        self.since = self.endpoint.tick
        if not self.is_chunked:
            n = min(n, self.body_need - self.body_size)
            if self.keep_body(p, n) and self.body_size == self.body_need:
                self.serve_body()
            return n
        while True:
            rc = hr_chunked_next(&self.chunked, &p, e, &self.endpoint.head_limits, &data)
            if rc == HR_CHUNK_DATA:
                if self.body_size - <Py_ssize_t>self.head.head_len + <Py_ssize_t>data.n > self.endpoint.max_body:
                    self.drop_body()
                    self.persist = False
                    self.refuse(413, f"the body is longer than {self.endpoint.max_body} bytes")
                elif self.keep_body(data.p, <Py_ssize_t>data.n):
                    continue
                return p - start
            if rc == HR_OK:
                self.serve_body()
            elif rc != HR_NEED_MORE:
                self.drop_body()
                self.persist = False
                self.refuse(status_of(rc), str(head_error(rc)))
            return p - start

    cdef int serve_body(self) except -1:
        """The body is complete behind the copy of its head."""
        cdef Py_ssize_t head_len = <Py_ssize_t>self.head.head_len
        try:
            # Its spans belonged to a chunk that is gone; the copy reads the same.
            if hr_http1_request(self.body, <size_t>head_len, &self.endpoint.head_limits, &self.head) != HR_OK:
                raise SystemError("a head that was read before cannot be read")
            self.serve(self.body + head_len, self.body_size - head_len)
        finally:
            self.drop_body()
        return 0

    cdef Py_ssize_t on_skip(self, const char *p, Py_ssize_t n) except -1:
        """Reads the body of a refused request away, so that the connection can be used again."""
        cdef const char *start = p
        cdef hr_span data
        cdef int rc
        self.since = self.endpoint.tick
        if not self.is_chunked:
            n = min(n, <Py_ssize_t>self.skip)
            self.skip -= <uint64_t>n
            if self.skip == 0:
                self.phase = IDLE
            return n
        while True:
            rc = hr_chunked_next(&self.chunked, &p, start + n, &self.endpoint.head_limits, &data)
            if rc == HR_CHUNK_DATA:
                self.skip += data.n
                if self.skip <= MAX_SKIP:
                    continue
            elif rc == HR_OK:
                self.phase = IDLE
                return p - start
            elif rc == HR_NEED_MORE:
                return n
            self.phase = LINGER
            return n

    cdef int serve(self, const char *p, Py_ssize_t n) except -1:
        """The request is complete: its body is [p, p + n), its head is self.head."""
        cdef HttpExchange exchange = self.fresh_exchange()
        cdef Mux mux
        self.phase = BUSY
        self.since = self.endpoint.tick
        self.head_here = True
        try:
            if n > 3 and p[0] == <char>0xEF and p[1] == <char>0xBB and p[2] == <char>0xBF:
                p += 3  # a byte order mark (JR-02)
                n -= 3
            mux = self.choose(exchange, p, n)
            if mux is None:
                return 0
            self.current = exchange
            if self.context is None:
                mux.receive(p, n, exchange)
            else:
                self.receive(mux, p, n, exchange)
        except Exception as exc:
            self.endpoint.runtime.report("a request could not be handled", exc)
            if self.current is exchange and exchange.writing:
                exchange.rollback()
        finally:
            self.head_here = False
        if self.current is exchange:
            if exchange.running is None and exchange.taken is None:
                # Nobody will answer it.
                if exchange.mode != MODE_FRESH:
                    self.abort()
                    return 0
                self.current = None
                exchange.closed = True
                self.persist = False
                self.refuse(500, "internal error")
        elif Py_REFCNT(exchange) == 1:
            self.spare = exchange
        return 0

    cdef int finished(self, Sink exchange) except -1:
        """Called by the exchange when its answer is complete."""
        if self.current is not exchange:
            return 0
        self.current = None
        self.phase = IDLE
        self.since = self.endpoint.tick
        if self.busy:
            return 0
        if self.size > self.off and self.persist:
            self.send_queued()
            self.go_on()
            return 0
        return self.settle()

    cdef int answered(self, bint last, bint body_due) except -1:
        """An answer outside an exchange was queued; `last`: it says that the connection ends."""
        if last:
            self.phase = LINGER
        elif body_due:
            self.phase = SKIP
            if self.size > self.off:
                self.go_on()
        else:
            self.phase = IDLE
        self.since = self.endpoint.tick
        if not self.busy:
            self.settle()
        return 0

    cdef int streaming(self, HttpExchange exchange) except -1:
        """A GET opened `exchange`: nothing else is served here until it ends."""
        self.current = exchange
        self.phase = BUSY
        return 0

    cdef int linger(self) except -1:
        """Sends what is queued, closes our side, and drops input for a while: closing with unread input
        would reset the connection and could take the answer away."""
        if self.phase != LINGER or not self.shut_sent:
            self.phase = LINGER
            self.shut_sent = True
            self.since = self.endpoint.tick
            self.skip = 0
            self.drop_stored()
            self.drop_body()
            self.send_queued()
            if self.phase != LINGER:
                return 0  # it had to be given up
            if not self.reading:
                self.reading = True
                self.transport.resume_reading()
            if self.eof:
                return self.shut()
            try:
                if self.transport.can_write_eof():
                    self.transport.write_eof()
            except (NotImplementedError, OSError):
                pass  # a peer that has reset the connection is not connected any more
        return 0

    cdef int shut(self) except -1:
        """Closes once everything queued is sent."""
        self.send_queued()
        self.phase = CLOSED
        self.fd = -1
        if self.transport is not None:
            self.transport.close()
        return 0

    def retire(self):
        """The endpoint is closing: an idle connection ends now, others after their answer."""
        if self.phase == IDLE and self.size == self.off:
            if not self.goes_on():
                self.shut()
        elif self.phase == BUSY and self.current is not None:
            self.current.retire()

    def give_up(self):
        """Waiting for the answer is over: cancels the request and closes."""
        cdef HttpExchange exchange = self.current
        if self.waiting is not None:
            self.stop_waiting()
            self.refuse(503, "the server is shutting down", b"", "draining")
            return
        if self.phase == APP:
            self.app_retired()
            return
        if self.phase == BUSY and exchange is not None and exchange.running is not None:
            exchange.cancel_running("shutdown")
        if self.phase != CLOSED:
            self.shut()

    def check_time(self):
        """One tick of the endpoint's timer."""
        cdef Endpoint ep = self.endpoint
        cdef uint32_t waited = ep.tick - self.since
        cdef HttpExchange current = self.current
        if self.transport is None:
            return
        if self.phase == HEAD:
            if waited >= ep.header_ticks:
                self.time_out("the request head did not come in time", "header_timeout")
        elif self.phase == BODY or self.phase == SKIP:
            if waited >= ep.body_ticks:
                self.time_out("the request body did not come in time", "body_timeout")
            elif self.phase == BODY and ep.tick - self.body_since >= ep.body_total_ticks:
                self.time_out("the request body did not come in time", "body_total_timeout")
        elif self.phase == APP:
            self.check_app()
        elif self.phase == LINGER:
            if waited >= ep.linger_ticks:
                self.shut()
        elif self.phase == IDLE:
            if waited >= ep.idle_ticks and not self.transport.get_write_buffer_size():
                self.shut()
        elif self.phase == BUSY and current is not None:
            waited = ep.tick - current.since
            if not self.output_full and (current.mode == MODE_STREAMING or current.accept & ACCEPT_SSE) and (
                waited >= ep.comment_ticks or (
                    # Only with an id in the client's hands the answer survives the connection.
                    current.mode == MODE_FRESH and current.session is not None and waited >= ep.resume_ticks
                    and current.session.primes
                )
            ):
                current.comment()
        if (
            self.output_full or self.phase >= LINGER or self.phase == APP or (self.phase == IDLE and waited)
            or (self.phase == BUSY and current is not None and current.mode == MODE_STREAMING)
        ):
            self.check_stall()

    def check_stall(self):
        """A peer that takes no byte of its answers is bounded in time as well as in memory (B112)."""
        cdef Py_ssize_t size = self.transport.get_write_buffer_size() if self.transport is not None else 0
        if size == 0 or size < self.stall_size or self.stall_size == 0:
            self.stall_size = size
            self.stall_since = self.endpoint.tick
        elif self.endpoint.tick - self.stall_since >= self.endpoint.write_ticks:
            self.endpoint.runtime.refused("write_timeout")
            self.abort()
