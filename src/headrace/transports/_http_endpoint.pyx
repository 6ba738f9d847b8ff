"""What the connections of one HTTP endpoint share, and how they queue output.

Nothing here is per request except buffers: they are lent to a connection while it has something to
send, so thousands of idle connections cost little, and header values are judged once for all.
"""

from cpython.bytearray cimport PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from libc.string cimport memcmp

from email.utils import formatdate
from time import time

from headrace.jsonrpc import HANDSHAKE_REVISIONS, R5
from headrace.transports.forwarded import Whence, plain_host

from headrace.mux._mux cimport Mux, Sink
from headrace.wire._chttp cimport hr_http1_ieq, hr_http1_next_header
from headrace.wire._http1 cimport accept_bits, head_limits, json_type, put_response_head
from headrace.wire._outbuf cimport Outbuf

cdef extern from *:
    """
    #ifndef _WIN32
    #include <sys/socket.h>
    #endif
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    /* What the kernel takes at once, as send(2); -1 where the transport has to try (it meets the error too). */
    static Py_ssize_t hr_send_now(int fd, const char *p, Py_ssize_t n)
    {
    #ifndef _WIN32
        return (Py_ssize_t)send(fd, p, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
    #else
        (void)fd; (void)p; (void)n;
        return -1;
    #endif
    }
    /* Whether something has come that nobody has read. */
    static int hr_input_waits(int fd)
    {
    #ifndef _WIN32
        char c;
        return recv(fd, &c, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
    #else
        (void)fd;
        return 0;
    #endif
    }
    """
    Py_ssize_t hr_send_now(int fd, const char *p, Py_ssize_t n) noexcept
    bint hr_input_waits(int fd) noexcept

__all__ = ("Endpoint",)

cdef enum:
    LARGE = 64 * 1024        # queued output from here on is handed over instead of copied
    POOL_SIZE = 64
    CACHE_SIZE = 256         # header values remembered by an endpoint


# Spaces before a field value are optional white space (RFC 9110 5.5): the number goes over the last ones.
cdef bytes LENGTH_FIELD = b"Content-Length:" + b" " * 12 + b"\r\n\r\n"


cdef int put_rpc_error(Endpoint ep, Outbuf out, int status, int code, str text, bytes id, bytes fields, bint close,
                       bint without_body, bytes data=None) except -1:
    """A whole HTTP answer that carries a JSON-RPC error (HO-04, JR-13), with `data` as JSON. Where no MCP is spoken
    it is plain text."""
    cdef Outbuf body
    if ep.mux is None:
        return put_text(ep, out, status, text, fields, close, without_body)
    body = Outbuf.__new__(Outbuf)
    body.put(b'{"jsonrpc":"2.0",', 17)
    if id is not None:
        body.put(b'"id":', 5)
        body.put_bytes(id)
        body.put(b',', 1)
    body.put(b'"error":{"code":', 16)
    body.put_int(code)
    body.put(b',"message":"', 12)
    body.put_text(text)
    body.put(b'"', 1)
    if data is not None:
        body.put(b',"data":', 8)
        body.put_bytes(data)
    body.put(b'}}', 2)
    fields = ep.date + b"Content-Type: application/json\r\n" + fields
    if status == 503:
        fields = b"Retry-After: 1\r\n" + fields
    put_response_head(out, status, fields, body.n, False, close)
    if without_body:
        return 0
    return out.put(body.base, body.n)


cdef int put_text(Endpoint ep, Outbuf out, int status, str text, bytes fields, bint close, bint without_body) except -1:
    """A whole HTTP answer of one line of text."""
    cdef bytes body = text.encode()
    fields = ep.date + b"Content-Type: text/plain; charset=utf-8\r\n" + fields
    if status == 503:
        fields = b"Retry-After: 1\r\n" + fields
    put_response_head(out, status, fields, PyBytes_GET_SIZE(body), False, close)
    return 0 if without_body else out.put_bytes(body)


cdef class Endpoint:
    """What the links of one endpoint share: its bounds, its sessions, its mux of the modern era.

    `server` offers ``runtime``, ``tables``, ``limits``, ``log``, ``header_parameters(name)`` and
    ``tools_with_headers``; `door` is the gate of requests outside sessions, `sessions` the store of
    the others, `guards` the Host and Origin checks, `path` the endpoint's path. `principal_of` gets the
    header fields of each request and says whose it is: sessions belong to one principal (HO-34). `authenticate`
    says so of the whole head, and may take its time (headrace.transports.http_auth). Without a `path` no MCP is
    spoken, and `door` and `sessions` are None: everything is for the application `beside`.
    """

    def __init__(self, server, *, door=None, sessions=None, guards, str path, bint json_only=False, principal_of=None,
                 authenticate=None):
        limits = server.limits
        self.server = server
        self.limits = limits
        self.guards = guards
        self.door = door
        self.sessions = sessions
        self.runtime = server.runtime
        self.path = b"" if path is None else path.rstrip("/").encode("ascii") or b"/"
        self.json_only = json_only
        self.principal_of = principal_of
        self.authenticate = authenticate
        self.tells_apart = principal_of is not None or authenticate is not None
        self.admits = authenticate is not None or self.runtime.rates is not None
        if door is not None:
            door.mux = self.mux = Mux(self.runtime, door, limits, scoped=False)
            self.mux.modern = server.tables.modern
            self.handshake = server.tables.handshake
            self.detached = {name.encode(): each for name, each in server.tables.detached.items()}
            self.sealed = sessions.sealed
            self.looks_up = sessions.looks_up and not door.stateless
            self.stateless = door.stateless
            self.by_id = sessions.by_id
            self.admits = self.admits or self.looks_up
        self.links = set()
        self.head_limits = head_limits(limits)
        self.modern = R5.encode()
        self.handshakes = frozenset(name.encode() for name in HANDSHAKE_REVISIONS)
        self.header_tools = getattr(server, "tools_with_headers", None)
        self.pool = []
        self.nil = Outbuf.__new__(Outbuf)
        self.hosts = {}
        self.accepts = {}
        self.types = {}
        self.refresh()
        self.max_body = limits.max_message_bytes
        self.max_output = limits.max_output_bytes
        self.max_inline = limits.max_inline_frames
        self.max_connections = limits.max_connections
        self.max_buffered = limits.max_buffered_bytes
        times = (limits.header_timeout, limits.body_timeout, limits.keep_alive_timeout, limits.write_timeout,
                 limits.sse_keep_alive, limits.linger_timeout, limits.body_total_timeout, limits.resume_after)
        # Timeouts are counted in ticks: nothing on the way of a request asks for the time.
        self.tick_seconds = min(max(min(times[:6]) / 8, 0.02), 0.5)
        (self.header_ticks, self.body_ticks, self.idle_ticks, self.write_ticks, self.comment_ticks,
         self.linger_ticks, self.body_total_ticks, self.resume_ticks) = [
            min(int(t / self.tick_seconds) + 1, 0x7FFFFFFF) for t in times]

    def __repr__(self):
        return f"<Endpoint {self.path.decode()}, {len(self.links)} connections>"

    @property
    def buffered_bytes(self):
        """Bytes held by request bodies that are still being received."""
        return self.buffered

    @property
    def pooled_bytes(self):
        """Memory of output buffers that no connection uses now."""
        return sum((<Outbuf>out).cap for out in self.pool) + (self.handy.cap if self.handy is not None else 0)

    def refresh(self):
        """Prepares what carries the time of day (RFC 9110 6.6.1); once a second is often enough."""
        cdef double now = time()
        if <long long>now != self.date_second:
            self.date_second = <long long>now
            self.date = b"Date: " + formatdate(now, usegmt=True).encode("ascii") + b"\r\n"
            self.json_head = (
                b"HTTP/1.1 200 OK\r\n" + self.date + b"Content-Type: application/json\r\n" + LENGTH_FIELD)

    def scan(self):
        """One tick: ends what took too long, comments silent streams. Returns how many links there are."""
        self.tick += 1
        self.refresh()
        for link in list(self.links):
            try:
                link.check_time()
            except Exception as exc:
                self.runtime.report("a connection could not be checked", exc)
        return len(self.links)

    cdef int left(self, link, bint counted) except -1:
        """A link has lost its connection."""
        self.links.discard(link)
        self.runtime.links.discard(link)
        if counted:
            self.served -= 1
        if self.on_lost is not None:
            self.on_lost()
        if self.closing and not self.links and self.on_empty is not None:
            self.on_empty()
        return 0

    cdef bint path_is(self, const char *p, size_t n) noexcept:
        """The target names this endpoint; a query and one slash behind it are ignored (B58)."""
        cdef size_t own = <size_t>PyBytes_GET_SIZE(self.path)
        if n < own or memcmp(p, PyBytes_AS_STRING(self.path), own) != 0:
            return False
        if n == own:
            return True
        if p[own] == c'/' and own > 1:
            own += 1
        return n == own or p[own] == c'?'

    cdef bytes host_ok(self, bytes value):
        """The value as the object to keep when this Host is served, else None (SE-01, B59)."""
        found = self.hosts.get(value)
        if found is None and self.guards.host_ok(value):
            if len(self.hosts) >= CACHE_SIZE:
                self.hosts.clear()
            found = self.hosts[value] = value
        return found

    cdef bytes type_ok(self, bytes value):
        """The same for Content-Type (B56)."""
        found = self.types.get(value)
        if found is None and json_type(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)):
            if len(self.types) >= CACHE_SIZE:
                self.types.clear()
            found = self.types[value] = value
        return found

    cdef tuple accept_of(self, bytes value):
        """(value as the object to keep, allowed types) of an Accept header, b"" when there is none (B55)."""
        found = self.accepts.get(value)
        if found is None:
            if len(self.accepts) >= CACHE_SIZE:
                self.accepts.clear()
            found = (value, accept_bits(PyBytes_AS_STRING(value), PyBytes_GET_SIZE(value)))
            self.accepts[value] = found
        return found


cdef class Connection:
    """The output half of an HTTP link. Buffers belong to the endpoint and are here only while something
    is queued, so an idle connection holds none."""

    # --- who is there ---------------------------------------------------------------------------------

    @property
    def peer(self):
        """The client's address, ``"unix"`` on a unix socket; behind proxies as the trusted of them say, for the
        request that was begun last. Use it while the request is judged or served."""
        return self.whence()[0]

    @property
    def client(self):
        """The same as (address, port), port 0 where it is not known; None on a unix socket."""
        cdef object found = self.whence()
        return None if found[0] == "unix" else found[:2]

    @property
    def scheme(self):
        """``"http"`` or ``"https"``: as the client spoke it, behind proxies as :attr:`peer`."""
        return self.whence()[2]

    def came_from(self, whence):
        """Tells who is there, before the connection is made: what a PROXY header said."""
        self.came = whence

    cdef object whence(self):
        cdef object name
        if self.told is not None:
            return self.told
        if self.came is None:
            transport = self.transport
            if transport is None:
                return Whence("unknown", 0, "http")
            name = transport.get_extra_info("peername")
            scheme = "http" if transport.get_extra_info("sslcontext") is None else "https"
            if isinstance(name, tuple) and len(name) >= 2:
                self.came = Whence(plain_host(name[0]), name[1], scheme)
            else:
                self.came = Whence("unix", 0, scheme)
        return self.came

    cdef int hear(self) except -1:
        """Reads what a trusted proxy says of the request whose head is here."""
        cdef object trusted = self.endpoint.trusted
        cdef const char *p = self.head.fields.p
        cdef const char *e = p + self.head.fields.n
        cdef bytes first, second
        cdef list addresses = None
        cdef list schemes = None
        cdef hr_span name, value
        self.told = None
        if self.hears == 0:
            self.hears = 1 if trusted.believes(self.whence()[0]) else -1
        if self.hears < 0:
            return 0
        first, second = trusted.names
        while hr_http1_next_header(&p, e, &name, &value):
            if hr_http1_ieq(name.p, name.n, PyBytes_AS_STRING(first), <size_t>PyBytes_GET_SIZE(first)):
                addresses = addresses if addresses is not None else []
                addresses.append(value.p[:value.n])
            elif hr_http1_ieq(name.p, name.n, PyBytes_AS_STRING(second), <size_t>PyBytes_GET_SIZE(second)):
                schemes = schemes if schemes is not None else []
                schemes.append(value.p[:value.n])
        if addresses is not None or schemes is not None:
            self.told = trusted.whence(self.whence(), b",".join(addresses or ()), b",".join(schemes or ()))
        return 0

    # --- output ---------------------------------------------------------------------------------------

    cdef Outbuf queue(self):
        cdef Endpoint ep
        if self.out is None:
            ep = self.endpoint
            if ep.handy is not None:
                self.out = ep.handy
                ep.handy = None
            else:
                self.out = <Outbuf>ep.pool.pop() if ep.pool else Outbuf.__new__(Outbuf)
        return self.out

    cdef int wake(self) except -1:
        if not self.busy and not self.flush_due:
            self.flush_due = True
            self.endpoint.runtime.call_soon(self.flush)
        return 0

    def flush(self):
        """Hands everything queued in this turn of the loop to the transport, in one write."""
        self.flush_due = False
        self.send_queued()

    cdef int send_queued(self) except -1:
        """Sends what is queued. A plain socket whose transport holds nothing is written to at once; what the
        kernel does not take, and all that follows until it has left, is the transport's to send."""
        cdef Outbuf out = self.out
        cdef object data
        cdef Py_ssize_t n = 0
        cdef Py_ssize_t sent = -1
        if out is None:
            return 0
        self.out = None
        if self.write is None:
            out.clear()
        elif out.n >= LARGE:
            # The transport keeps a view of the buffer itself; it is not used again.
            n = out.n
            PyByteArray_Resize(out.store, n)
            data = out.store
            self.large = max(self.large, n)
            self.handed = True
            self.write(data)
            return self.endpoint.runtime.sending(n)
        elif out.n:
            n = out.n
            if self.fd >= 0 and not (self.handed and self.holds()):
                sent = hr_send_now(self.fd, out.base, n)
            if sent == n:
                out.clear()
            elif sent > 0:
                self.handed = True
                data = out.slice(sent, n)
                out.clear()
                self.write(data)
            else:
                self.handed = True
                self.write(out.take())
        if self.endpoint.handy is None:
            self.endpoint.handy = out
        elif len(self.endpoint.pool) < POOL_SIZE:
            self.endpoint.pool.append(out)
        return self.endpoint.runtime.sending(n)

    cdef bint goes_on(self) except -1:
        """The endpoint is closing, this connection idle, and no answer has said that it ends. Where other processes
        go on serving, it is handed to one of them, or, where that cannot be done, kept for one request more, whose
        answer says so; elsewhere it is kept for a request that is here already. False: it has to end."""
        cdef object hand_over = self.endpoint.hand_over
        if hand_over is None:
            return self.fd >= 0 and hr_input_waits(self.fd)
        if self.fd >= 0 and not self.transport.get_write_buffer_size() and hand_over(self.fd, self):
            self.abort()
        return True

    cdef bint holds(self) except -1:
        """Whether the transport still has something to send."""
        self.handed = self.transport.get_write_buffer_size() != 0
        return self.handed

    cdef bint overfull(self) except -1:
        """More is queued than a peer that does not read may cost; see LineLink.open_message."""
        cdef Py_ssize_t queued
        if not self.output_full:
            return False
        queued = self.transport.get_write_buffer_size()
        if self.out is not None:
            queued += self.out.n
        return queued > 4 * self.endpoint.max_output

    cdef int release_waiters(self) except -1:
        cdef list waiters = self.drain_waiters
        if waiters is not None:
            self.drain_waiters = None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return 0

    cdef int finished(self, Sink exchange) except -1:
        """The answer of `exchange` is complete."""
        return 0
