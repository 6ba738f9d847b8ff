"""Client connections of HTTP/1.1 and their pool: sockets and framing, no JSON-RPC (RFC 9112).

Strategy: a request is one write, made in the caller's stack on an idle connection; an answer is
parsed where data_received puts it and handed to its request as spans. No Task, no stream object and
no buffer copy for an answer that arrives whole. A connection serves one request at a time; bytes
that belong to no request close it.
"""

from collections import OrderedDict

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memset

from headrace.errors import ConnectionClosed, HeadraceError, LocalProtocolError, RemoteProtocolError

from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport head_error, head_limits
from headrace.wire._outbuf cimport Outbuf
from headrace.wire._sse cimport SseFramer

cdef extern from *:
    """
    #ifndef _WIN32
    #include <errno.h>
    #include <sys/socket.h>
    #endif
    /* What waits on a socket that should be silent: 0 nothing, 1 its end or an error, 2 bytes. */
    static int hr_peek(int fd)
    {
    #ifndef _WIN32
        char c;
        ssize_t n;
        if (fd < 0) return 0;
        n = recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT);
        if (n > 0) return 2;
        if (n == 0) return 1;
        return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : 1;
    #else
        (void)fd;
        return 0;
    #endif
    }
    """
    int hr_peek(int fd) nogil

__all__ = ("HttpConn", "HttpPool", "HttpRequest")

cdef enum:
    EXCERPT = 64 * 1024      # bytes kept of a body that is only quoted
    IGNORE = 64 * 1024       # bytes read of a body nobody wants, to keep its connection
    URGENT_EXTRA = 16        # connections beyond the limit for messages that calls wait for
    # states of reading
    AT_HEAD = 0
    AT_LENGTH = 1
    AT_CHUNKS = 2
    AT_CLOSE = 3


cdef class HttpRequest:
    """One request and where its answer goes."""

    cdef bytes render(self):
        """The head and body as they go out. Every kind of request has its own."""
        raise LocalProtocolError("a request of no kind")

    cdef int on_head(self, const hr_head *h) except -1:
        return BODY_DISCARD

    cdef int on_body(self, const char *p, Py_ssize_t n) except -1:
        return 0

    cdef int on_event(self, const hr_sse_event *event) except -1:
        return 0

    cdef bytes resume_id(self):
        return None

    cdef int on_end(self, SseFramer framer) except -1:
        return 0

    cdef int on_lost(self, object exc, bint untouched, bint reused, SseFramer framer) except -1:
        return 0


cdef class HttpConn:
    """The protocol of one connection. The pool makes it; the opener connects it."""

    def __cinit__(self):
        self.held = Outbuf.__new__(Outbuf)
        self.body = Outbuf.__new__(Outbuf)
        self.fd = -1
        memset(&self.head, 0, sizeof(self.head))

    # --- protocol callbacks -------------------------------------------------------------------------

    def connection_made(self, transport):
        cdef HttpRequest request = self.reserved
        cdef HttpPool pool = self.pool
        self.transport = transport
        self.write = transport.write
        self.tls = transport.get_extra_info("sslcontext") is not None
        sock = transport.get_extra_info("socket")
        if sock is not None:
            self.fd = sock.fileno()
        if self.closed or pool.closed:
            self.closed = True
            transport.abort()
            return
        self.joined()
        pool.opened += 1
        self.keep = pool.limits.keep_alive_timeout
        self.persist = True
        self.reserved = None
        if request is not None and not request.dropped:
            self.start(request)
        else:
            pool.release(self)

    def connect_failed(self, exc):
        """Called by the opener when the connection did not come up; `exc` is a HeadraceError."""
        cdef HttpPool pool = self.pool
        cdef HttpRequest request = self.reserved
        cdef HttpRequest first
        if self.transport is not None or self.closed:
            return
        self.joined()
        self.reserved = None
        self.closed = True
        if request is None and pool.waiting:
            # One failure is one waiting request's; when nothing is left to serve the others, theirs too.
            request = <HttpRequest>pool.waiting.popitem(last=False)[0]
        pool.conns.discard(self)
        if self.counted:
            self.counted = False
            pool.open -= 1
        if request is not None:
            request.on_lost(exc, False, False, None)
        if pool.open == 0 and pool.connecting == 0:
            while pool.waiting and pool.open == 0 and pool.connecting == 0:
                first = <HttpRequest>pool.waiting.popitem(last=False)[0]
                first.on_lost(exc, False, False, None)

    cdef int joined(self) except -1:
        """Connecting is over, one way or the other."""
        if self.shared:
            self.shared = False
            self.pool.connecting -= 1
        return 0

    def data_received(self, data):
        cdef bytes chunk = data if type(data) is bytes else bytes(data)
        cdef const char *p = PyBytes_AS_STRING(chunk)
        if self.closed:
            return
        if self.request is None:
            self.shut()      # an answer that nobody asked for
            return
        self.touched = True
        try:
            self.consume(p, p + PyBytes_GET_SIZE(chunk))
        except HeadraceError as exc:
            self.lose(exc)
        except Exception as exc:
            self.pool.runtime.report("an HTTP answer could not be handled", exc)
            self.lose(RemoteProtocolError(f"an HTTP answer could not be handled: {type(exc).__name__}"))

    def eof_received(self):
        self.lose(None)
        return False

    def connection_lost(self, exc):
        self.lose(exc)
        self.transport = None
        self.write = None
        self.fd = -1

    def pause_writing(self):
        """The peer takes nothing: bounded in time (Limits.write_timeout)."""
        runtime = self.pool.runtime
        self.stall_size = self.transport.get_write_buffer_size()
        if self.stall_timer is None:
            self.stall_timer = runtime.call_at(runtime.time() + self.pool.limits.write_timeout, self.check_stall)

    def resume_writing(self):
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None

    def check_stall(self):
        """Timer: aborts when not one byte went out since the last look."""
        self.stall_timer = None
        if self.closed:
            return
        size = self.transport.get_write_buffer_size()
        if size >= self.stall_size:
            self.lose(ConnectionClosed(f"the server took no byte within {self.pool.limits.write_timeout:g} s"))
            return
        self.pause_writing()

    # --- one request --------------------------------------------------------------------------------

    cdef bint alive(self):
        """Whether an idle connection can be used: no end and no stray byte waits on it. Asked before
        the write, so a connection that the server has closed never gets a request."""
        cdef int found
        if self.closed:
            return False
        found = hr_peek(self.fd)
        # Under TLS bytes may be a session ticket.
        return found == 0 or (found == 2 and self.tls)

    cdef int start(self, HttpRequest request) except -1:
        """Sends `request`; the connection is idle and its own."""
        cdef bytes data
        self.request = request
        request.conn = self
        self.state = AT_HEAD
        self.touched = False
        self.uses += 1
        try:
            data = request.render()
            self.write(data)
        except Exception as exc:
            if not isinstance(exc, HeadraceError):
                exc = ConnectionClosed(f"the request could not be sent: {exc}")
            self.lose(exc)
        return 0

    cdef int consume(self, const char *p, const char *e) except -1:
        cdef HttpRequest request
        cdef const char *start
        cdef size_t n, before
        cdef hr_span piece
        cdef int rc
        while True:
            request = self.request
            if self.state == AT_HEAD:
                if p == e:
                    return 0
                before = <size_t>self.held.n
                if before:
                    self.held.put(p, e - p)
                    start = self.held.base
                    n = <size_t>self.held.n
                else:
                    start = p
                    n = <size_t>(e - p)
                rc = hr_http1_response(start, n, &self.pool.head_limits, &self.head)
                if rc == HR_NEED_MORE:
                    if not before:
                        self.held.put(p, e - p)
                    return 0
                if rc != HR_OK:
                    raise answer_error(rc)
                p += self.head.head_len - before
                if self.head.status < 200:
                    self.held.clear()
                    if self.head.status == 101:
                        raise RemoteProtocolError("HTTP 101: no other protocol was asked for")
                    continue
                self.persist = (self.head.flags & HR_F_PERSIST) != 0
                if self.uses == 1:
                    self.keep = keep_alive(&self.head, self.keep)
                self.mode = request.on_head(&self.head)
                self.held.clear()
                if self.request is not request:
                    return 0
                rc = self.begin_body(&p, e)
            elif self.state == AT_LENGTH:
                n = <size_t>(e - p)
                if n == 0:
                    return 0
                if n > self.left:
                    n = <size_t>self.left
                self.left -= n
                if self.left == 0 and self.seen == 0 and (self.mode == BODY_WHOLE or self.mode == BODY_EXCERPT):
                    return self.finish(p, <Py_ssize_t>n, p + n != e)     # the usual case: no copy
                rc = self.take(p, <Py_ssize_t>n)
                p += n
                if rc == 0 and self.left == 0:
                    return self.finish(self.body.base, self.body.n, p != e)
            elif self.state == AT_CHUNKS:
                rc = hr_chunked_next(&self.chunks, &p, e, &self.pool.head_limits, &piece)
                if rc == HR_NEED_MORE:
                    return 0
                if rc == HR_OK:
                    return self.finish(self.body.base, self.body.n, p != e)
                if rc != HR_CHUNK_DATA:
                    raise answer_error(rc)
                rc = self.take(piece.p, <Py_ssize_t>piece.n)
            else:
                if p == e:
                    return 0
                rc = self.take(p, e - p)
                p = e
            if rc:
                return 0

    cdef int begin_body(self, const char **p, const char *e) except -1:
        """After the head. 1 when the answer is over or given up already."""
        cdef int kind = hr_http1_response_body(&self.head, False)
        self.seen = 0
        self.left = 0
        if self.mode == BODY_DROP:
            self.persist = False
            kind = HR_BODY_NONE
        if kind == HR_BODY_NONE:
            self.finish(NULL, 0, p[0] != e)
            return 1
        if kind == HR_BODY_LENGTH:
            self.state = AT_LENGTH
            self.left = self.head.content_length
            if self.mode == BODY_WHOLE and self.left > <uint64_t>self.pool.limits.max_message_bytes:
                raise too_long(self.pool.limits)
            if self.mode == BODY_DISCARD and self.left > IGNORE:
                self.persist = False
                self.finish(NULL, 0, False)
                return 1
        elif kind == HR_BODY_CHUNKED:
            self.state = AT_CHUNKS
            memset(&self.chunks, 0, sizeof(self.chunks))
        else:
            self.state = AT_CLOSE
            self.persist = False
            if self.mode == BODY_DISCARD:
                self.finish(NULL, 0, False)
                return 1
        if self.mode == BODY_EVENTS:
            if self.framer is None:
                self.framer = SseFramer(self.pool.limits.max_message_bytes)
            self.framer.begin(self.request.resume_id())
        return 0

    cdef int take(self, const char *p, Py_ssize_t n) except -1:
        """A piece of the body. 1 when the answer is over or given up."""
        cdef HttpRequest request = self.request
        cdef const char *e = p + n
        cdef hr_sse_event event
        self.seen += <uint64_t>n
        if self.mode == BODY_EVENTS:
            while self.framer.next(&p, e, &event):
                request.on_event(&event)
                if self.request is not request:
                    return 1         # the call was given up, or all was closed, from inside
        elif self.mode == BODY_DISCARD:
            if self.seen > IGNORE:
                self.persist = False
                self.finish(NULL, 0, False)
                return 1
        elif self.mode == BODY_EXCERPT:
            self.body.put(p, n if self.body.n + n <= EXCERPT else EXCERPT - self.body.n)
            if self.seen >= EXCERPT:
                self.persist = False
                self.finish(self.body.base, self.body.n, False)
                return 1
        else:
            if self.seen > <uint64_t>self.pool.limits.max_message_bytes:
                raise too_long(self.pool.limits)
            self.body.put(p, n)
        return 0

    cdef int finish(self, const char *p, Py_ssize_t n, bint more) except -1:
        """The answer is complete. The connection is free before the answer is handled, so that a
        request waiting for one is on its way first. `more`: bytes follow that belong to nothing."""
        cdef HttpRequest request = self.request
        cdef int mode = self.mode
        cdef SseFramer framer = self.framer if mode == BODY_EVENTS else None
        cdef Outbuf kept
        self.request = None
        request.conn = None
        self.state = AT_HEAD
        self.drain_until = 0
        if more:
            self.persist = False
        if framer is not None:
            # Its last id is still needed: another answer must not start over it.
            request.on_end(framer)
            self.pool.release(self)
            return 0
        if mode == BODY_WHOLE or mode == BODY_EXCERPT:
            if n and p == self.body.base:
                # The buffer goes with the answer: what is sent in between may be answered into a new one.
                kept = self.body
                self.body = Outbuf.__new__(Outbuf)
                self.pool.release(self)
                request.on_body(p, n)
                kept.clear()
                return 0
            self.pool.release(self)
            return request.on_body(p, n)
        self.pool.release(self)
        return request.on_end(None)

    # --- end ----------------------------------------------------------------------------------------

    cdef int lose(self, object exc) except -1:
        """The connection is over; exc is None for a plain end of the stream."""
        cdef HttpRequest request = self.request
        cdef bint untouched = not self.touched
        if self.closed:
            return 0
        if exc is None and request is not None and self.state == AT_CLOSE and self.mode != BODY_EVENTS:
            self.finish(self.body.base, self.body.n, False)       # the end of the stream ends the body
            return 0
        self.shut()
        if request is not None:
            request.conn = None
            request.on_lost(exc, untouched, self.uses > 1,
                            self.framer if self.state != AT_HEAD and self.mode == BODY_EVENTS else None)
        return 0

    cdef int abandon(self) except -1:
        """Gives the answer up by closing the connection; the request hears nothing more."""
        if self.request is not None:
            self.request.conn = None
        return self.shut()

    cdef int shut(self) except -1:
        """Closes the socket at once."""
        if self.closed:
            return 0
        self.closed = True
        self.joined()
        self.request = self.reserved = None
        self.held.clear()
        self.body.clear()
        if self.stall_timer is not None:
            self.stall_timer.cancel()
            self.stall_timer = None
        if self.transport is not None:
            self.transport.abort()
        return self.pool.gone(self)


cdef object answer_error(int code):
    exc = head_error(code)
    return RemoteProtocolError(f"unreadable HTTP answer: {exc}")


cdef object too_long(object limits):
    return RemoteProtocolError(f"HTTP answer longer than {limits.max_message_bytes} bytes (limit max_message_bytes)")


cdef double keep_alive(const hr_head *h, double most) except -1:
    """Seconds an idle connection may be kept: a second less than ``Keep-Alive: timeout=N`` says."""
    cdef const char *p = h.fields.p
    cdef const char *e = p + h.fields.n
    cdef hr_span name, value
    cdef double seconds = -1
    cdef size_t i
    while hr_http1_next_header(&p, e, &name, &value):
        if not hr_http1_ieq(name.p, name.n, b"keep-alive", 10):
            continue
        for i in range(value.n):
            if value.n - i > 8 and hr_http1_ieq(value.p + i, 8, b"timeout=", 8):
                seconds = 0
                i += 8
                while i < value.n and c'0' <= value.p[i] <= c'9' and seconds < 1e6:
                    seconds = seconds * 10 + (value.p[i] - c'0')
                    i += 1
                break
    if seconds < 0 or seconds - 1 > most:
        return most
    # With less than two seconds half of it has to do.
    return seconds - 1 if seconds >= 2 else seconds / 2


include "_http_pool.pxi"
