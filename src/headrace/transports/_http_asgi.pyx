"""The host side of ASGI 3 over HTTP/1: an application behind the connections of an endpoint (L6).

Every path but those of MCP is the application's. Its coroutine starts in the call stack of data_received, with
all of the body that came with the head at hand, so an application that does not wait is answered with one write.
The rest of the body is fed to it as it comes, and reading pauses while it does not take it. Framing is ours:
Content-Length or the chunked coding, no body where there is none, and nothing that the application says can
become another header line or another answer.
"""

from asyncio import CancelledError, iscoroutine
from socket import SO_LINGER, SOL_SOCKET
from struct import pack
from types import CoroutineType
from urllib.parse import unquote_to_bytes

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport uint32_t, uint64_t
from libc.string cimport memchr, memset

from headrace.errors import ConnectionClosed, LocalProtocolError
from headrace.transports.refusals import kind_of

from headrace.mux._mux cimport Runtime
from headrace.transports._http_endpoint cimport Endpoint, put_text
from headrace.transports._http_gate cimport APP, BUSY, IDLE, LINGER, GateLink
from headrace.wire._cjson cimport HR_NEED_MORE, HR_OK, hr_span
from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport head_error, header_list, put_chunk_size, put_response_head, status_of
from headrace.wire._outbuf cimport Outbuf

__all__ = ("AppLink", "AsgiHost", "AsgiRequest")

cdef extern from "hr_http_chars.h":
    enum:
        HR_C_TOKEN
        HR_C_VALUE
    const unsigned char *hr_http_class

cdef enum:
    MUCH = 64 * 1024         # body bytes that wait for the application before no more are fed to it
    MAX_SKIP = 256 * 1024    # the rest of a body that nobody wants is read away up to this size

cdef double HEAD_WAIT = 0.01  # seconds that a head waits for the beginning of its body

cdef dict METHODS = {
    HR_M_GET: "GET", HR_M_POST: "POST", HR_M_DELETE: "DELETE", HR_M_OPTIONS: "OPTIONS", HR_M_HEAD: "HEAD",
    HR_M_PUT: "PUT", HR_M_PATCH: "PATCH",
}
cdef object coroutine_type = CoroutineType
cdef bytes NO_LINGER = pack("ii", 1, 0)

include "_http_asgi_head.pxi"


cdef class AsgiHost:
    """One ASGI application, its state, and the requests that it works on."""

    def __init__(self, app not None, Runtime runtime not None, str root_path not None=""):
        self.app = app
        self.runtime = runtime
        self.state = {}
        self.running = set()
        self.root_path = root_path
        self.template = {"type": "http", "asgi": None, "http_version": "1.1", "root_path": root_path}

    def cancel(self):
        """Cancels what still runs."""
        cdef AsgiRequest request
        for request in list(self.running):
            request.cancel()

    cdef int forget(self, AsgiRequest request) except -1:
        self.running.discard(request)
        if not self.running and self.on_idle is not None:
            self.on_idle()
        return 0


cdef class AppLink(GateLink):
    """The part of an HTTP link that hands requests to the application beside the MCP endpoint."""

    cdef int open_app(self, bytes target, bytes host) except -1:
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef AsgiRequest app
        self.plain = True
        if h.flags & HR_F_EXPECT_OTHER:
            return self.refuse(417, "the only expectation that is understood is 100-continue")
        if h.flags & HR_F_UPGRADE and wants_websocket(h):
            return self.refuse(501, "WebSocket is not spoken here")
        if h.flags & HR_F_HAS_LENGTH and h.content_length > <uint64_t>ep.max_body:
            self.persist = False
            return self.refuse(413, f"the body is longer than {ep.max_body} bytes")
        app = AsgiRequest.__new__(AsgiRequest)
        app.open(self, target, host)
        self.app = app
        self.phase = APP
        self.since = self.body_since = ep.tick
        return 0

    cdef Py_ssize_t start_app(self, const char *p, Py_ssize_t n) except -1:
        """Behind a head; returns how much of [p, p + n) belonged to its body and was taken."""
        cdef AsgiRequest app = self.app
        cdef Py_ssize_t used = 0
        self.endpoint.runtime.begun()
        if self.is_chunked:
            memset(&self.chunked, 0, sizeof(hr_chunked))
        if not app.whole and n:
            used = self.on_app(p, n)
        if self.app is app:
            app.start()
        return used

    cdef Py_ssize_t on_app(self, const char *p, Py_ssize_t n) except -1:
        """A piece of the body of the request that the application works on."""
        cdef AsgiRequest app = self.app
        cdef const char *start = p
        cdef const char *e = p + n
        cdef hr_span data
        cdef int rc
        self.since = self.endpoint.tick
        if not self.is_chunked:
            if <uint64_t>n > app.left:
                n = <Py_ssize_t>app.left
            app.left -= <uint64_t>n
            app.whole = app.left == 0
            app.feed(p, n)
            return n
        while not app.full():
            rc = hr_chunked_next(&self.chunked, &p, e, &self.endpoint.head_limits, &data)
            if rc == HR_CHUNK_DATA:
                app.seen += data.n
                if app.seen > <uint64_t>self.endpoint.max_body:
                    self.app_refused(413, f"the body is longer than {self.endpoint.max_body} bytes")
                    break
                app.feed(data.p, <Py_ssize_t>data.n)
                continue
            if rc == HR_OK:
                app.whole = True
                app.wake()
            elif rc != HR_NEED_MORE:
                self.app_refused(status_of(rc), str(head_error(rc)))
            break
        return p - start

    cdef int app_answered(self) except -1:
        """The answer is complete; what is left of the request's body is read away."""
        cdef AsgiRequest app = self.app
        self.app = None
        self.skip = 0 if self.is_chunked else app.left
        if self.skip > MAX_SKIP:
            self.persist = False
        return self.answered(not self.persist, not app.whole)

    cdef int app_failed(self) except -1:
        """The application will not answer any more."""
        cdef AsgiRequest app = self.app
        if not app.head_sent:
            if not app.whole:
                self.persist = False
            if self.endpoint.closing:
                self.persist = False
            put_text(self.endpoint, self.queue(), 500, "Internal Server Error", b"", not self.persist, app.head_only)
            app.gone()
            return self.app_answered()
        if not app.chunked and app.length < 0:
            # Only a reset tells the peer that this was not the end.
            sock = self.transport.get_extra_info("socket")
            if sock is not None and self.transport.get_extra_info("sslcontext") is None:
                sock.setsockopt(SOL_SOCKET, SO_LINGER, NO_LINGER)
            (<object>self).abort()
            return 0
        self.drop_app()
        return self.shut()

    cdef int app_refused(self, int status, str text, str kind=None) except -1:
        """The request cannot go on; the application hears of a disconnect."""
        cdef AsgiRequest app = self.app
        self.persist = False
        if app.head_sent:
            self.endpoint.runtime.refused(kind_of(status) if kind is None else kind)
            (<object>self).abort()
            return 0
        self.app = None
        app.gone()
        return self.refuse(status, text, b"", kind)

    cdef int app_eof(self) except -1:
        """The peer sends no more. What it sent is answered all the same; receive() tells of the end. 1: the
        connection stays open for that."""
        if not self.app.whole and self.size == self.off:
            self.send_queued()
            (<object>self).lose()
            return 0
        self.app.half = True
        self.app.wake()
        return 1

    cdef int app_retired(self) except -1:
        """Waiting for the answer is over."""
        cdef AsgiRequest app = self.app
        app.cancel()
        if not app.head_sent:
            return self.app_refused(503, "the server is shutting down", "draining")
        self.drop_app()
        return self.shut()

    cdef int check_app(self) except -1:
        """One tick. The peer is only waited for while the application takes what comes."""
        cdef Endpoint ep = self.endpoint
        cdef AsgiRequest app = self.app
        if app is None or app.whole:
            return 0
        if self.size > self.off or app.full():
            self.since = ep.tick
            self.body_since += 1
        elif ep.tick - self.since >= ep.body_ticks:
            self.app_refused(408, "the request body did not come in time", "body_timeout")
        elif ep.tick - self.body_since >= ep.body_total_ticks:
            self.app_refused(408, "the request body did not come in time", "body_total_timeout")
        return 0

    cdef int turn_over(self) except -1:
        """The application waits: a head whose body did not come with it leaves soon."""
        cdef AsgiRequest app = self.app
        if app is not None and app.started and not app.head_sent and app.timer is None:
            runtime = self.endpoint.runtime
            app.timer = runtime.call_at(runtime.time() + HEAD_WAIT, app.release_head)
        return 0

    def flush(self):
        self.flush_due = False
        self.turn_over()
        self.send_queued()

    cdef int drop_app(self) except -1:
        cdef AsgiRequest app = self.app
        if app is not None:
            self.app = None
            app.gone()
        return 0

    cdef int shut(self) except -1:
        return 0


cdef class AsgiRequest:
    """One request of the application: its receive() and its send()."""

    cdef int open(self, AppLink link, bytes target, bytes host) except -1:
        cdef Endpoint ep = link.endpoint
        cdef hr_head *h = &link.head
        self.host = ep.beside
        self.link = link
        self.length = -1
        self.old = h.minor == 0
        self.head_only = self.bodyless = h.method == HR_M_HEAD
        self.whole = hr_http1_request_body(h) == HR_BODY_NONE
        self.may_continue = link.expects
        if h.flags & HR_F_HAS_LENGTH:
            self.left = h.content_length
        self.scope = make_scope(link, self.host, target, host)
        return 0

    cdef int start(self) except -1:
        cdef bint finished = False
        cdef dict scope = self.scope
        self.scope = None
        try:
            coro = self.host.app(scope, self.receive, self.send)
            if type(coro) is not coroutine_type and not iscoroutine(coro):
                coro = awaited(coro)
            task = self.host.runtime.starter.start(coro, &finished)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            return self.over(exc)
        if finished:
            return self.over(None)
        self.task = task
        self.host.running.add(self)
        task.add_done_callback(self.ended)
        return 0

    def ended(self, task):
        """Callback: the application's coroutine has ended."""
        self.task = None
        exc = CancelledError() if task.cancelled() else task.exception()
        try:
            self.over(exc)
        finally:
            self.host.forget(self)

    def cancel(self):
        """Cancels the application's coroutine."""
        if self.task is not None:
            self.stopped = True
            self.task.cancel()

    cdef int over(self, object exc) except -1:
        cdef AppLink link = self.link
        if exc is None:
            if self.complete or self.lost:
                return 0
            exc = LocalProtocolError("it ended in the middle of its answer" if self.started else "it gave no answer")
        elif (self.stopped and isinstance(exc, CancelledError)) or ((self.lost or self.half) and of_disconnect(exc)):
            exc = None
        if exc is not None:
            self.host.runtime.report("an ASGI application failed", exc)
        if link is not None:
            link.app_failed()
        return 0

    # --- the request ----------------------------------------------------------------------------------

    cdef int feed(self, const char *p, Py_ssize_t n) except -1:
        cdef bytes piece = PyBytes_FromStringAndSize(p, n)
        if self.pending is None:
            self.pending = piece
        elif type(self.pending) is list:
            (<list>self.pending).append(piece)
        else:
            self.pending = [self.pending, piece]
        self.held += n
        self.may_continue = False
        return self.wake() if self.waiters is not None else 0

    cdef bint full(self) noexcept:
        return self.held >= MUCH

    cdef int wake(self) except -1:
        cdef list waiters = self.waiters
        if waiters is not None:
            self.waiters = None
            for waiter in waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return 0

    cdef dict take(self):
        """The next message for receive(), or None while there is none."""
        cdef AppLink link = self.link
        cdef object body
        if self.lost or self.complete:
            return {"type": "http.disconnect"}
        if self.told:
            return {"type": "http.disconnect"} if self.half else None
        if self.pending is None and not self.whole:
            return None
        body = self.pending
        self.pending = None
        self.held = 0
        self.told = self.whole
        if link is not None and link.size > link.off and not self.told and not link.busy:
            link.go_on()
        return {
            "type": "http.request",
            "body": b"" if body is None else b"".join(body) if type(body) is list else body,
            "more_body": not self.whole,
        }

    async def receive(self):
        """The next event of the request (ASGI)."""
        cdef dict message = self.take()
        while message is None:
            if self.may_continue:
                self.may_continue = False
                if not self.head_sent:
                    self.link.queue().put(b"HTTP/1.1 100 Continue\r\n\r\n", 25)
                    self.link.wake()
            waiter = self.host.runtime.create_future()
            # Some only look whether there is something, again and again: what was cancelled is forgotten.
            self.waiters = [waiter] if self.waiters is None else [w for w in self.waiters if not w.done()] + [waiter]
            await waiter
            message = self.take()
        return message

    # --- the answer -----------------------------------------------------------------------------------

    async def send(self, message):
        """Takes the next event of the answer (ASGI); waits while the peer does not take what is queued.

        Raises ConnectionClosed (an OSError) once the peer is gone, LocalProtocolError for what HTTP cannot carry
        or what is out of order: then nothing of it was sent.
        """
        if self.put(message):
            waiter = self.drained()
            if waiter is not None:
                await waiter

    cdef bint put(self, object message) except -1:
        cdef dict event = message if type(message) is dict else dict(message)
        cdef object kind = event.get("type")
        if self.complete:
            return False                 # "any further messages on the channel will be ignored"
        if self.lost:
            raise ConnectionClosed("the client disconnected")
        if kind == "http.response.body":
            return self.put_body(event)
        if kind != "http.response.start":
            raise LocalProtocolError(f"an HTTP answer has no message of type {kind!r}")
        self.put_start(event)
        return False

    cdef int put_start(self, dict message) except -1:
        cdef object status = message.get("status")
        cdef int code
        if self.started:
            raise LocalProtocolError("http.response.start was sent already")
        if not isinstance(status, int) or not 200 <= status <= 999:
            raise LocalProtocolError(f"status of an answer: an int from 200 to 999, not {status!r}")
        if message.get("trailers"):
            raise LocalProtocolError("trailers are not supported; scope['extensions'] does not offer them")
        code = status
        self.status = code
        self.bodyless = self.head_only or code == 204 or code == 304
        self.fields = read_fields(self, message.get("headers") or ())
        self.started = True
        if not self.link.busy:
            self.link.wake()
        return 0

    cdef bint put_body(self, dict message) except -1:
        cdef AppLink link = self.link
        cdef object given = message.get("body", b"")
        cdef bint more = message.get("more_body", False)
        cdef bytes body
        cdef Outbuf out
        cdef Py_ssize_t n
        if not self.started:
            raise LocalProtocolError("http.response.body before http.response.start")
        body = given if type(given) is bytes else bytes_of(given)
        n = PyBytes_GET_SIZE(body)
        if self.length >= 0 and not self.bodyless and (
            self.sent + n > self.length or (not more and self.sent + n < self.length)
        ):
            raise LocalProtocolError(
                f"a body of {self.sent + n} bytes{' and more' if more else ''} where Content-Length says {self.length}")
        if not self.head_sent:
            self.put_head(n, more)
        out = link.queue()
        self.sent += n
        if not self.bodyless:
            if not self.chunked:
                out.put_bytes(body)
            else:
                if n:
                    put_chunk_size(out, n)
                    out.put_bytes(body)
                    out.put(b"\r\n", 2)
                if not more:
                    out.put(b"0\r\n\r\n", 5)
        if not more:
            self.complete = True
            self.link = None
            self.pending = None
            self.wake()
            link.app_answered()
            return False
        if link.output_full or out.n > link.endpoint.max_output:
            return True
        link.wake()
        return False

    cdef int put_head(self, Py_ssize_t n, bint more) except -1:
        """Queues the head, once it is known whether all of the body is here."""
        cdef AppLink link = self.link
        cdef Endpoint ep = link.endpoint
        cdef long long length = -1
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.length < 0:
            if self.bodyless:
                # What GET would be answered with is known from the body alone.
                if self.head_only and not more and n and self.status != 204 and self.status != 304:
                    length = n
            elif not more:
                length = n
            elif self.old:
                link.persist = False
            else:
                self.chunked = True
        if (
            self.close or ep.closing or (self.may_continue and not self.whole)
            or (not self.whole and self.left > MAX_SKIP)
        ):
            link.persist = False
        put_response_head(
            link.queue(), self.status, self.fields if self.dated else ep.date + self.fields, length, self.chunked,
            not link.persist)
        self.head_sent = True
        self.fields = None
        return 0

    def release_head(self):
        """Timer: the head has waited long enough."""
        self.timer = None
        if self.link is not None and not self.head_sent:
            self.put_head(0, True)
            self.link.wake()

    cdef object drained(self):
        cdef AppLink link = self.link
        if link is None:
            return None
        link.send_queued()
        if self.link is None or not (link.output_full or link.transport.is_closing()):
            return None
        waiter = link.endpoint.runtime.create_future()
        if link.drain_waiters is None:
            link.drain_waiters = []
        link.drain_waiters.append(waiter)
        return waiter

    cdef int gone(self) except -1:
        """Nothing of the answer can be sent any more."""
        self.link = None
        self.lost = True
        self.pending = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return self.wake()
