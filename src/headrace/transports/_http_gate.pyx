"""Input of an HTTP connection that cannot be looked at yet, and requests that wait to be admitted.

`authenticate` is asked when a head was judged and before its body is taken, and a session that another process has
begun is looked up then. Mostly the answer comes in the call stack of data_received, and nothing waits. When it does
not, the head is copied and the connection is busy: what comes is stored, reading pauses once that is much, and no time
limit of the peer's runs. With the answer the head is judged again where it left off.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.string cimport memcpy, memmove

from headrace.errors import HttpRefusal
from headrace.protocol.backplane import BackplaneLost
from headrace.transports.http_auth import HttpRequest, ask, ask_and_look_up, look_up

from headrace.transports._http_admission cimport RequestLink
from headrace.transports._http_endpoint cimport Endpoint
from headrace.transports._rates cimport Rates, caller_of
from headrace.wire._chttp cimport *
from headrace.wire._http1 cimport header_list, known_bytes

__all__ = ("GateLink",)

cdef enum:
    LONGEST_ID = 128         # of sessions that are looked up

cdef str NOT_REACHED = "what the processes of this server share cannot be reached now: try again"


cdef class GateLink(RequestLink):
    """The part of an HTTP link that makes input and requests wait."""

    def __dealloc__(self):
        PyMem_Free(self.buf)

    # --- input ----------------------------------------------------------------------------------------

    cdef int store(self, const char *p, Py_ssize_t n) except -1:
        cdef char *grown
        cdef Py_ssize_t cap
        if self.off and (self.off == self.size or self.off >= self.size >> 1):
            memmove(self.buf, self.buf + self.off, self.size - self.off)
            self.size -= self.off
            self.off = 0
        if self.size + n > self.cap:
            cap = max(self.size + n, self.cap * 2, 512)
            grown = <char *>PyMem_Realloc(self.buf, cap)
            if grown is NULL:
                raise MemoryError
            self.buf = grown
            self.cap = cap
        memcpy(self.buf + self.size, p, n)
        self.size += n
        return 0

    cdef int drop_stored(self) except -1:
        PyMem_Free(self.buf)
        self.buf = NULL
        self.off = self.size = self.cap = 0
        return 0

    # --- requests -------------------------------------------------------------------------------------

    cdef int admit(self) except -1:
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef bint finished = False
        if self.passed:
            self.passed = False
            return 1 if ep.authenticate is None else self.afford()
        self.caller = self.context = self.fetched = None
        wanted = self.wanted() if ep.looks_up else None
        if ep.authenticate is not None:
            request = HttpRequest(
                PyBytes_FromStringAndSize(h.verb.p, <Py_ssize_t>h.verb.n).decode("ascii"),
                PyBytes_FromStringAndSize(h.target.p, <Py_ssize_t>h.target.n).decode("ascii"),
                header_list(h), self.client, self.scheme)
            coro = ask(ep.authenticate, request)
            if wanted is not None:
                coro = ask_and_look_up(coro, ep.sessions, wanted)
        elif not self.afford():
            return 0
        elif wanted is None:
            return 1
        try:
            if ep.authenticate is None:
                coro = look_up(ep.sessions, wanted, self.principal())
            found = ep.runtime.starter.start(coro, &finished)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as exc:
            return self.turned_away(exc)
        if finished:
            self.caller, self.context, self.fetched = found
            return 1 if ep.authenticate is None else self.afford()
        self.kept_head = PyBytes_FromStringAndSize(self.head_at, <Py_ssize_t>h.head_len)
        self.patient = h.method == HR_M_POST and known_bytes(h, HR_H_MCP_PROTOCOL_VERSION) != ep.modern
        self.waiting = found
        self.phase = BUSY
        self.since = ep.tick
        found.add_done_callback(self.admitted)
        return 0

    cdef object wanted(self):
        """(id, method, version) of the session that has to be looked up for this request, or None."""
        cdef Endpoint ep = self.endpoint
        cdef hr_head *h = &self.head
        cdef bytes id, version
        if (
            not h.seen >> HR_H_MCP_SESSION_ID & 1 or h.duplicate >> HR_H_MCP_SESSION_ID & 1
            or h.known[HR_H_MCP_SESSION_ID].n > LONGEST_ID
        ):
            return None
        version = known_bytes(h, HR_H_MCP_PROTOCOL_VERSION) or None
        if version is not None and version not in ep.handshakes:
            return None
        id = known_bytes(h, HR_H_MCP_SESSION_ID)
        if h.method != HR_M_DELETE and ep.sessions.at_hand(id):
            return None
        return id, PyBytes_FromStringAndSize(h.verb.p, <Py_ssize_t>h.verb.n), version

    cdef int afford(self) except -1:
        """Takes the request out of the rate of its caller, where there is one. 1: it may go on; 0: it is refused."""
        cdef Endpoint ep = self.endpoint
        cdef double wait
        if ep.runtime.rates is None or self.head.method == HR_M_DELETE:
            return 1
        try:
            wait = (<Rates>ep.runtime.rates).take(caller_of(self.principal(), self.whence()[0]))
        except Exception as exc:
            ep.runtime.report("it could not be told whose a request is", exc)
            return self.refuse(500, "internal error")
        return 1 if wait <= 0 else self.refuse_error((<Rates>ep.runtime.rates).refusal(wait))

    def admitted(self, task):
        """Callback: `authenticate` has made up its mind."""
        cdef bytes head = self.kept_head
        cdef object error = None
        if self.waiting is not task:
            if not task.cancelled():
                task.exception()         # it came too late to matter
            return
        self.waiting = self.kept_head = None
        try:
            try:
                self.caller, self.context, self.fetched = task.result()
            except BaseException as exc:
                error = exc              # SystemExit and the like have reached the loop by themselves
            if hr_http1_request(PyBytes_AS_STRING(head), <size_t>PyBytes_GET_SIZE(head), &self.endpoint.head_limits,
                                &self.head) != HR_OK:
                raise SystemError("a head that was read before cannot be read")
            self.phase = IDLE
            self.since = self.endpoint.tick
            self.busy = True
            try:
                if error is not None:
                    self.turned_away(error)
                else:
                    self.passed = True
                    self.on_head(PyBytes_AS_STRING(head), PyBytes_GET_SIZE(head))
            finally:
                self.busy = self.passed = False
            if self.size > self.off and self.phase < BUSY and not self.output_full:
                self.work_stored()
            if self.eof and 0 < self.phase < BUSY:
                (<object>self).abort()   # what is missing will not come
                return
            self.settle()
        except Exception as exc:
            self.endpoint.runtime.report("an HTTP connection failed", exc)
            (<object>self).abort()

    cdef int turned_away(self, object exc) except -1:
        if isinstance(exc, BackplaneLost):
            return self.refuse(503, NOT_REACHED, b"", "backplane")
        if isinstance(exc, HttpRefusal):
            try:
                return self.refuse_as(exc)
            except Exception as wrong:
                exc = wrong
        self.endpoint.runtime.report("authenticate failed", exc)
        return self.refuse(500, "internal error")

    cdef int time_out(self, str text, str kind) except -1:
        """What was due did not come in time."""
        self.drop_body()
        if self.phase == SKIP:
            self.phase = LINGER
            return self.settle()
        if self.phase == HEAD:
            self.extra = self.told = None    # those of the request before
        self.persist = False
        self.head.flags = 0
        self.head.method = HR_M_OTHER
        return self.refuse(408, text, b"", kind)

    cdef int stop_waiting(self) except -1:
        """The peer is gone, or the server goes: nobody needs to know any more whose request it is."""
        cdef object task = self.waiting
        self.caller = self.context = self.fetched = None
        if task is not None:
            self.waiting = self.kept_head = None
            task.cancel()
        return 0

    # --- the link itself ------------------------------------------------------------------------------

    cdef Py_ssize_t on_head(self, const char *p, Py_ssize_t n) except -1:
        return n

    cdef int work_stored(self) except -1:
        return 0

    cdef int settle(self) except -1:
        return 0
