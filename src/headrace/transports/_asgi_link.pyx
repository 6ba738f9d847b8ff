"""One request of an ASGI host as a connection of an HTTP endpoint: the transport below an HttpLink (L6).

The request is written as HTTP/1.1 into the link, which checks and serves it in that call stack as it serves
what comes from a socket; what the link writes is read back into messages for the host. So all rules of the
server hold behind a host too. Nothing that the host hands over can become another header line or another
request: names are tokens, values have no line ends, and no body is longer than its head says.

Like a connection that is kept alive, a link serves one request after another: what it remembers of the last
head makes the next one cheap.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memchr, memset

from headrace.limits import DEFAULT

from headrace.transports._http_endpoint cimport Endpoint
from headrace.transports._http_server cimport HttpLink
from headrace.wire._cjson cimport HR_NEED_MORE, HR_OK, hr_span
from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport head_limits, put_chunk_size
from headrace.wire._outbuf cimport Outbuf

__all__ = ("AsgiLink",)

cdef enum:
    IDLE = 0                 # HttpLink.phase

    RUNNING = 0              # of the task: not in the hands of the host
    RECEIVING = 1            # waits for input: output and the end interrupt it
    SENDING = 2              # waits for the host to take output: the end interrupts it

    KEPT = 64 * 1024         # a larger head buffer is not kept


cdef bint token(const char *p, Py_ssize_t n) noexcept:
    """Whether it may be a method or the name of a header (RFC 9110 5.6.2)."""
    cdef Py_ssize_t i
    cdef char c
    for i in range(n):
        c = p[i]
        if not (c'a' <= c <= c'z' or c'A' <= c <= c'Z' or c'0' <= c <= c'9'):
            if c < 0x21 or c > 0x7E or memchr(b'"(),/:;<=>?@[\\]{}', c, 17) is not NULL:
                return False
    return n > 0


cdef inline bint named(bytes name, const char *lower, Py_ssize_t n) noexcept:
    return hr_http1_ieq(PyBytes_AS_STRING(name), <size_t>PyBytes_GET_SIZE(name), lower, <size_t>n)


# Fields of one connection, not of the request: the host's own business (RFC 9110 7.6.1).
cdef bint of_connection(bytes name) noexcept:
    return (
        named(name, b"connection", 10) or named(name, b"keep-alive", 10) or named(name, b"proxy-connection", 16)
        or named(name, b"te", 2) or named(name, b"trailer", 7) or named(name, b"upgrade", 7)
        or named(name, b"http2-settings", 14)
    )


cdef class AsgiLink:
    """The connection of one request after another. ``link`` is a new HttpLink; ``on_idle_close(self)`` is called
    when the endpoint closes it between two requests."""

    def __init__(self, HttpLink link not None, loop, on_idle_close):
        self.link = link
        self.loop = loop
        self.on_idle_close = on_idle_close
        self.head_limits = head_limits(DEFAULT)      # of the answers, which are our own
        self.buffer = Outbuf.__new__(Outbuf)
        self.pieces = []
        self.idle = True
        self.high = 64 * 1024

    # --- the request: called by the task that serves it ---------------------------------------------

    def begin(self, scope, bytes target not None, task):
        """Takes a request in and feeds its head.

        ``scope`` is the host's, ``target`` the path by which the endpoint knows itself, ``task`` the one that
        serves it, or None. Raises ValueError for a scope that no HTTP request can stand for.
        """
        cdef bytes query
        self.scope = scope
        self.link.came = self.link.told = None
        self.link.hears = 0
        self.turn += 1
        self.task = task
        self.start = None
        self.reading = True
        self.started = self.handed = self.complete = self.interrupted = self.deserted = False
        self.queued = self.sending = 0
        self.taken = 0
        self.host = None
        self.build(scope["method"], target, scope.get("query_string", b""), scope.get("headers", ()))

    cdef int build(self, str method, bytes target, bytes query, object headers) except -1:
        """The head as HTTP/1.1."""
        cdef Outbuf out = self.buffer
        cdef bytes name, value
        cdef const char *p
        cdef Py_ssize_t n, i
        cdef bint coded = False
        cdef bint post
        self.declared = -1
        out.clear()
        verb = method.encode("ascii")
        if not token(PyBytes_AS_STRING(verb), PyBytes_GET_SIZE(verb)):
            raise ValueError("the method is no token")
        post = verb == b"POST"
        self.head_only = verb == b"HEAD"
        out.put_bytes(verb)
        out.put(b" ", 1)
        out.put_bytes(target)
        n = PyBytes_GET_SIZE(query)
        if n:
            p = PyBytes_AS_STRING(query)
            for i in range(n):
                if <unsigned char>p[i] <= 0x20 or p[i] == 0x7F:
                    raise ValueError("the query holds white space or controls")
            out.put(b"?", 1)
            out.put_bytes(query)
        out.put(b" HTTP/1.1\r\n", 11)
        for name, value in headers:
            if not token(PyBytes_AS_STRING(name), PyBytes_GET_SIZE(name)):
                raise ValueError("a header name is no token")
            p = PyBytes_AS_STRING(value)
            n = PyBytes_GET_SIZE(value)
            if memchr(p, c'\n', n) is not NULL or memchr(p, c'\r', n) is not NULL or memchr(p, 0, n) is not NULL:
                raise ValueError("a header value holds a line end")
            # By length first: most names are none of these.
            i = PyBytes_GET_SIZE(name)
            if i == 4 and named(name, b"host", 4):
                self.host = value
            elif i == 14 and named(name, b"content-length", 14):
                self.declared = length_of(value)
            elif i == 17 and named(name, b"transfer-encoding", 17):
                coded = True
                continue
            elif i == 6 and named(name, b"expect", 6):
                if hr_http1_ieq(p, <size_t>n, b"100-continue", 12):
                    continue         # the host sends it when the body is asked for
            elif of_connection(name):
                continue
            out.put_bytes(name)
            out.put(b": ", 2)
            out.put_bytes(value)
            out.put(b"\r\n", 2)
        if self.host is None:
            self.host = b""
            out.put(b"host: \r\n", 8)
        if coded or (post and self.declared < 0):
            self.declared = -1
            out.put(b"transfer-encoding: chunked\r\n", 28)
            self.body_due = True
        else:
            self.body_due = self.declared > 0
        return out.put(b"\r\n", 2)

    def enter(self):
        """Serves the head, and with it a request without a body."""
        self.idle = False
        self.high = (<Endpoint>self.link.endpoint).max_output
        if self.link.transport is None:
            self.link.connection_made(self)
        self.link.data_received(self.buffer.take())

    def feed(self, body, bint more):
        """A piece of the body; ``more``: others follow. Raises ValueError where its length is not the declared one;
        no byte beyond that ever reaches the link."""
        cdef bytes data = body if type(body) is bytes else bytes(body)
        cdef Py_ssize_t n = PyBytes_GET_SIZE(data)
        cdef Outbuf out
        if not self.body_due or self.closed:
            return
        self.taken += n
        if self.declared >= 0:
            if self.taken > self.declared or (not more and self.taken < self.declared):
                raise ValueError("the body is not as long as Content-Length says")
            if self.taken == self.declared:
                self.body_due = False
            if n:
                self.link.data_received(data)
            return
        out = self.buffer
        out.clear()
        if n:
            put_chunk_size(out, n)
            out.put_bytes(data)
            out.put(b"\r\n", 2)
        if not more:
            self.body_due = False
            out.put(b"0\r\n\r\n", 5)
        if out.n:
            self.link.data_received(out.take())
        if out.cap > KEPT:
            self.buffer = Outbuf.__new__(Outbuf)

    # --- the answer ---------------------------------------------------------------------------------

    @property
    def ready(self):
        """Something is to be sent, or all is over."""
        return self.start is not None or self.queued > 0 or self.complete or self.closed

    def take_start(self):
        """The ``http.response.start`` that is due, or None."""
        start, self.start = self.start, None
        self.handed = True
        return start

    def take_body(self):
        """The next ``http.response.body``. Its bytes count as not sent until :meth:`sent`."""
        cdef list pieces = self.pieces
        if len(pieces) == 1:
            body = pieces[0]
            pieces.clear()
        elif pieces:
            body = b"".join(pieces)
            pieces.clear()
        else:
            body = b""
        self.sending = self.queued
        self.queued = 0
        return {"type": "http.response.body", "body": body, "more_body": not self.complete}

    def sent(self):
        """The host has taken what it was given."""
        self.sending = 0
        self.link.stall_size = 0     # however much waits by now: it is no peer that takes nothing
        if self.paused and self.queued <= self.high >> 2:
            self.paused = False
            if not self.gone:
                self.link.resume_writing()

    def wait(self):
        """A future that is done when :attr:`ready` is true."""
        self.waiter = self.loop.create_future()
        return self.waiter

    cdef int wake(self) except -1:
        cdef object waiter = self.waiter
        if waiter is not None:
            self.waiter = None
            if not waiter.done():
                waiter.set_result(None)
        return 0

    # --- the host's turn: what it does with `receive` and `send` ends when the connection ends ------

    def blocks(self, bint receiving):
        """The task now waits for the host."""
        self.blocked = RECEIVING if receiving else SENDING

    def back(self):
        """It no longer does. True: it was interrupted, and a CancelledError means only that."""
        cdef object task = self.task
        self.blocked = RUNNING
        if not self.interrupted:
            return False
        self.interrupted = False
        return task.uncancel() <= self.cancels

    def interrupt(self):
        """Takes the task out of the hands of the host, as asyncio.timeout() does."""
        task = self.task
        if task is None or self.interrupted:
            return
        self.cancels = task.cancelling()
        self.interrupted = True
        if not task.cancel():
            self.interrupted = False         # no task that could be interrupted: the host has to return

    def disconnected(self):
        """The peer is gone."""
        if not self.idle:
            self.closed = self.deserted = True
            self.lose()
            if self.blocked != RUNNING:
                self.interrupt()
            self.wake()

    def leave(self):
        """The task is done with the request. True: the link can serve another one."""
        self.back()
        self.idle = True
        self.scope = self.task = self.waiter = None
        self.start = None
        self.sending = 0
        if (
            self.complete and not self.closed and not self.body_due and self.link.phase == IDLE and self.link.persist
            and self.link.size == self.link.off and not self.link.continue_due and not self.paused
        ):
            return True
        self.closed = True
        self.lose()
        return False

    cdef int lose(self) except -1:
        self.pieces.clear()
        self.queued = self.sending = 0
        if not self.gone:
            self.gone = True
            if self.link.transport is not None:
                self.link.connection_lost(None)
        return 0

    def lose_idle(self):
        self.lose()

    # --- the transport of the link ------------------------------------------------------------------

    def get_extra_info(self, name, default=None):
        scope = self.scope
        if scope is not None:
            if name == "peername":
                client = scope.get("client")
                return default if client is None else tuple(client)
            if name == "sockname":
                server = scope.get("server")
                return default if server is None else tuple(server)
            if name == "sslcontext" and scope.get("scheme") == "https":
                return True
        return default

    def set_write_buffer_limits(self, high=None, low=None):
        if high is not None:
            self.high = high

    def get_write_buffer_size(self):
        return self.queued + self.sending

    def is_closing(self):
        return self.closed

    def pause_reading(self):
        """Too much input waits for `authenticate`."""
        self.reading = False

    def resume_reading(self):
        self.reading = True
        self.wake()

    def can_write_eof(self):
        return False

    def write(self, data):
        """What the link says of its answer, whole lines of the head and whole chunks."""
        if self.closed or self.idle:
            return
        if type(data) is bytes:
            self.take_answer(PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
        else:
            self.take_answer(PyByteArray_AS_STRING(data), PyByteArray_GET_SIZE(data))
        if self.queued + self.sending > self.high and not self.paused and not self.complete:
            self.paused = True
            self.link.pause_writing()
        if self.blocked == RECEIVING:
            self.interrupt()
        self.wake()

    def close(self):
        """The endpoint is done with the connection; what was written still goes out."""
        if self.closed:
            return
        if self.idle:
            self.closed = True
            self.on_idle_close(self)
            self.loop.call_soon(self.lose_idle)
            return
        if not self.complete:
            self.closed = True
            if self.blocked != RUNNING:
                self.interrupt()
        self.wake()

    def abort(self):
        """Ends at once; what was not sent is dropped."""
        if self.closed:
            return
        if self.idle:
            self.close()
            return
        self.closed = True
        self.pieces.clear()
        self.queued = 0
        self.start = None
        if self.blocked != RUNNING:
            self.interrupt()
        self.wake()

    cdef int take_answer(self, const char *p, Py_ssize_t n) except -1:
        """Bytes of the answer: the head, then the body as its framing says."""
        cdef const char *e = p + n
        cdef hr_head head
        cdef hr_span name, value, piece
        cdef const char *line
        cdef const char *end
        cdef list fields
        cdef int rc, kind
        if not self.started:
            hr_http1_reset(&head)
            if hr_http1_response(p, <size_t>n, &self.head_limits, &head) != HR_OK:
                raise SystemError("an answer of our own cannot be read")
            line = head.fields.p
            end = head.fields.p + head.fields.n
            fields = []
            while hr_http1_next_header(&line, end, &name, &value):
                if (
                    hr_http1_ieq(name.p, name.n, b"date", 4) or hr_http1_ieq(name.p, name.n, b"connection", 10)
                    or hr_http1_ieq(name.p, name.n, b"transfer-encoding", 17)
                ):
                    continue         # the host's own
                fields.append((lower(name), PyBytes_FromStringAndSize(value.p, <Py_ssize_t>value.n)))
            self.start = {"type": "http.response.start", "status": head.status, "headers": fields}
            self.started = True
            kind = hr_http1_response_body(&head, self.head_only)
            self.chunked = kind == HR_BODY_CHUNKED
            self.left = head.content_length if kind == HR_BODY_LENGTH else 0
            if self.chunked:
                memset(&self.chunks, 0, sizeof(self.chunks))
            elif self.left == 0:
                self.complete = True
            p += head.head_len
        if not self.chunked:
            n = e - p
            if n and not self.complete:
                if <uint64_t>n > self.left:
                    n = <Py_ssize_t>self.left
                self.left -= <uint64_t>n
                self.pieces.append(PyBytes_FromStringAndSize(p, n))
                self.queued += n
                if self.left == 0:
                    self.complete = True
            return 0
        while True:
            rc = hr_chunked_next(&self.chunks, &p, e, &self.head_limits, &piece)
            if rc == HR_CHUNK_DATA:
                self.pieces.append(PyBytes_FromStringAndSize(piece.p, <Py_ssize_t>piece.n))
                self.queued += <Py_ssize_t>piece.n
                continue
            if rc == HR_OK:
                self.complete = True
            elif rc != HR_NEED_MORE:
                raise SystemError("an answer of our own cannot be read")
            return 0


cdef long long length_of(bytes value) except? -2:
    """A Content-Length as a number; what is none is for the link to refuse."""
    cdef const char *p = PyBytes_AS_STRING(value)
    cdef Py_ssize_t n = PyBytes_GET_SIZE(value)
    cdef Py_ssize_t i
    cdef long long found = 0
    if n == 0 or n > 18:
        return 0
    for i in range(n):
        if not c'0' <= p[i] <= c'9':
            return 0
        found = found * 10 + (p[i] - c'0')
    return found


cdef bytes lower(hr_span name):
    """The name of a header in lower case, as ASGI wants it."""
    cdef bytes out = PyBytes_FromStringAndSize(name.p, <Py_ssize_t>name.n)
    cdef char *p = PyBytes_AS_STRING(out)
    cdef size_t i
    for i in range(name.n):
        if c'A' <= p[i] <= c'Z':
            p[i] += 32
    return out
