"""The multiplexer: our pending calls and the peer's requests in flight, sans-I/O (L4).

Strategy: a frame comes in by pointer, is scanned once, and in the same call stack becomes a handler
call and reply bytes in the sink's Outbuf. A request costs a table entry only when its handler
suspends. Nothing here knows the event loop: see Runtime.

Handlers run inside of receive(), so every method must bear being entered again from any call of
application code: tables are brought up to date before such a call, and looked at anew after it.
What happens in each race is listed in src/headrace/README.md.

The classes know one another, so they are one module; each has a file (.pxi) of its own.
"""

import copy
from math import ceil
from types import CoroutineType

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Calloc, PyMem_Free
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from libc.math cimport isfinite
from libc.string cimport memchr, memcmp

import msgspec

from headrace.errors import (
    ConnectionClosed, HeadraceError, LocalProtocolError, OverloadedError, RemoteProtocolError, RequestTimeout,
    RpcError, ToolError, internal_error,
)
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR
from headrace.limits import Limits
from headrace.mux.names import MCP
from headrace.wire._outbuf import live_bytes

from headrace.wire._cjson cimport (
    HR_BAD_UTF8, HR_BATCH, HR_ERROR, HR_INVALID, HR_NOTIFICATION, HR_OK, HR_REQUEST, HR_RESULT,
    HR_SCAN_ANY_RESULT, HR_T_INT, HR_T_NULL, HR_T_OBJECT, HR_T_STRING, HR_TOO_DEEP, hr_envelope, hr_envelope_scan,
    hr_envelope_scan_again, hr_meta_memo, hr_token,
)
from headrace.wire._envelope cimport Envelope, batch_items, envelope_from, envelope_of, token_bytes, token_str
from headrace.wire._outbuf cimport Outbuf
cimport cython

__all__ = (
    "BUCKETS", "STATUSES", "AnyMethod", "Captured", "Diverted", "Exchange", "FrameSink", "FunctionHandler", "Handler",
    "Meter", "Mux", "Observed", "PendingCall", "RawResult", "Revision", "Runtime", "Sink", "Starter", "capture",
    "live_objects", "serve_batch",
)

cdef enum:
    PARKED_BYTES = 4 * 1024 * 1024  # reading pauses at this size of parked frames, however few they are
    RUNNING = 0
    ANSWERED = 1
    CANCELLED = 2

cdef object coroutine_type = CoroutineType


include "_counters.pxi"
include "_bounds.pxi"
include "_frames.pxi"
include "_names.pxi"
include "_handler.pxi"
include "_exchange.pxi"
include "_call.pxi"
include "_sink.pxi"
include "_capture.pxi"
include "_runtime.pxi"
include "_meter.pxi"
include "_batch.pxi"
include "_elsewhere.pxi"
include "_observed.pxi"


cdef class Mux:
    """Both tables of one connection or session (ours pending, theirs in flight), and the dispatch.

    `gate` is the protocol layer (see headrace.mux.gate.Gate); `limits` a headrace.limits.Limits.
    `scoped` is false where ids of different requests share no scope: era M over HTTP (JR-06). There
    the transport, which has one sink a request, cancels what its connection leaves behind.
    Belongs to the thread of its runtime.
    """

    def __init__(self, Runtime runtime not None, gate, limits, *, bint scoped=True):
        self.runtime = runtime
        self.gate = gate
        self.scoped = scoped
        self.inflight = {}
        self.pending = {}
        self.parked = {}
        if limits is not last_limits:
            read_bounds(limits)
        self.max_in_flight = bounds.in_flight if scoped else bounds.total
        self.unjudged = self.max_in_flight if runtime.rates is None and runtime.max_share == 0 else 0
        self.max_parked = bounds.parked
        self.max_pending = bounds.pending
        self.max_depth = bounds.depth
        self.patience = bounds.patience
        self.next_id = 1
        self.closed = False

    def __dealloc__(self):
        PyMem_Free(self.memo)

    @property
    def names(self):
        """What the peer calls cancelling and progress: see headrace.mux.names.Names. MCP's at first."""
        return MCP if self.words is None else self.words.names

    @names.setter
    def names(self, names):
        self.words = None if names == MCP else Words(names)

    @property
    def loose(self):
        """Whether results of calls may be any JSON value, as in bare JSON-RPC 2.0."""
        return (self.flags & HR_SCAN_ANY_RESULT) != 0

    @loose.setter
    def loose(self, bint value):
        self.flags = HR_SCAN_ANY_RESULT if value else 0

    # --- in ---------------------------------------------------------------------------------------

    def receive_frame(self, bytes frame not None, Sink sink not None):
        """One whole message. Never raises for what the peer sent: bad input is answered (JR-xx)."""
        self.receive(PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame), sink)

    cdef int receive(self, const char *p, Py_ssize_t n, Sink sink) except -1:
        """The same for [p, p + n), which stays valid during this call."""
        cdef hr_envelope env
        cdef int rc
        if self.closed:
            return 0
        rc = hr_envelope_scan_again(p, n, self.max_depth, self.flags, self.memo, &env)
        if rc == HR_OK and env.kind == HR_REQUEST:
            if self.memo is NULL and env.protocol_version.n:
                self.memo = <hr_meta_memo *>PyMem_Calloc(1, sizeof(hr_meta_memo))  # NULL: works as well
            return self.request(p, n, &env, sink, False)
        try:
            if rc != HR_OK:
                unreadable(self, rc, &env, sink)
            else:
                self.dispatch(p, n, &env, sink)
        except Exception as exc:
            self.runtime.fault("a message could not be handled", exc)
        return 0

    cdef int dispatch(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
        if env.kind == HR_RESULT or env.kind == HR_ERROR:
            return self.response(env, sink)
        if env.kind == HR_NOTIFICATION:
            return self.notification(p, n, env, sink)
        if env.kind == HR_BATCH:
            if self.gate.batch(envelope_from(p, n, env), sink):
                return 0
            return self.refuse(env, sink, INVALID_REQUEST, "batches are not part of this revision", 400)
        if not env.method.n and (env.result.n or env.error.n):
            return malformed_answer(self, p, n, env, sink)
        return self.refuse(env, sink, INVALID_REQUEST, env.reason.decode(), 400)

    cdef int request(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink, bint unparked) except -1:
        cdef Revision revision
        cdef Handler handler
        cdef bytes key
        try:
            if self.scoped and (self.inflight or self.parked or self.starting is not None):
                key = self.id_key(&env.id)
                if key in self.parked or self.running(key) is not None:
                    return self.refuse(
                        env, sink, INVALID_REQUEST, "this id is still in use by a request in flight", 400)
            revision = sink.route(self, env)
            if revision is None:
                revision = <Revision?>self.gate.classify(envelope_from(p, n, env), sink)
            handler = revision.find(&env.method)
            if handler is None:
                error = self.gate.unknown_method(revision, envelope_from(p, n, env), sink)
                return sink.abandoned(None) if error is None else self.refuse_error(env, sink, error)
            if env.params.type != HR_T_OBJECT and env.params.type > HR_T_NULL and not handler.loose:
                return self.refuse(env, sink, INVALID_PARAMS, "params must be an object", 0)
            if not handler.urgent:
                if self.draining:
                    return self.refuse(env, sink, INTERNAL_ERROR, "the server is shutting down", 503, "draining")
                if (
                    self.in_flight >= self.unjudged or self.runtime.in_flight >= self.runtime.max_in_flight
                    or (self.parked and not unparked)
                ) and held(self, p, n, env, sink, unparked):
                    return 0
        except RpcError as exc:
            exc.__traceback__ = None  # its frames may hold it: no work for the garbage collector
            return self.refuse_error(env, sink, exc)
        except Exception as exc:
            self.runtime.fault("a request could not be dispatched", exc)
            return self.refuse_error(env, sink, internal_error())
        return self.begin(handler, revision, env, sink)

    cdef int begin(self, Handler handler, Revision revision, const hr_envelope *env, Sink sink) except -1:
        """Runs the handler's first step. Whatever it does, the request is answered once."""
        cdef Exchange ex
        self.runtime.begun()
        if self.runtime.observer is not None:
            return observe(self, handler, revision, env, sink)
        ex = Exchange.__new__(Exchange)
        ex.mux = self
        ex.sink = sink
        ex.principal = sink.principal
        ex.revision = revision
        ex.handler = handler
        ex.id = PyBytes_FromStringAndSize(env.id.p, env.id.n)
        if env.progress_token.type == HR_T_STRING or env.progress_token.type == HR_T_INT:
            ex.token = PyBytes_FromStringAndSize(env.progress_token.p, env.progress_token.n)
            ex.progress_done = -1e308
        if self.runtime.meter is not None:
            self.runtime.meter.begin(ex, handler, env)
        ex.outer = self.starting
        self.starting = ex
        try:
            handler.start(ex, env)
        except Exception as exc:
            if ex.state != RUNNING or ex.counted:
                self.runtime.fault("a request was handled, but not to its end", exc)
            else:
                ex.fail(exc)
        finally:
            self.starting = ex.outer
            ex.outer = None
        return 0

    cdef Exchange running(self, bytes key):
        """The request of this id that is not answered yet, or None."""
        cdef object found = self.inflight.get(key)
        cdef Exchange ex
        if found is None and self.starting is not None:
            ex = self.starting
            while ex is not None:
                if ex.state == RUNNING and self.key_of(ex.id) == key:
                    return ex
                ex = ex.outer
        return <Exchange>found

    cdef int response(self, const hr_envelope *env, Sink sink) except -1:
        cdef object found = self.pending.pop(env.id_int, None) if env.id_small else pop_chosen(self, env)
        cdef PendingCall call
        cdef object exc
        if found is not None and not sink.admits(<PendingCall>found):
            self.pending[(<PendingCall>found).key] = found
            found = None
        if found is None:
            if sink.unmatched(env) or (self.prefix is not None and answer_elsewhere(self, env, sink)):
                return 0
            self.stray += 1
            if not self.scoped:
                return self.refuse(env, sink, INVALID_REQUEST, "a response cannot be posted here", 400)
            self.gate.stray(None if env.kind == HR_RESULT else token_bytes(&env.error), sink)
            return sink.accepted()
        call = <PendingCall>found
        if self.runtime.observer is not None:
            observe_answer(self, call, env)
        if env.kind == HR_RESULT:
            call.resolve(&env.result)
        else:
            exc = read_error(&env.error)
            if sink.status >= 300 and isinstance(exc, RpcError):
                exc.came_with(sink.status, sink.retry_after())
            call.reject(exc)
        return sink.accepted()

    cdef int notification(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
        if self.runtime.observer is not None:
            return observe_note(self, p, n, env, sink)
        return self.take_note(p, n, env, sink)

    cdef int take_note(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
        cdef object found = None
        cdef bint told = self.tees
        if self.words is not None:
            return self.words.take(self, p, n, env, sink)
        if token_is(&env.method, CANCELLED_METHOD):
            # Malformed or unknown ids are ignored silently (MX-12). Without a scope the id names
            # nothing: acting on it would let one client cancel another's request (HN-51).
            if self.scoped and env.request_id.n and not give_up(self, self.id_key(&env.request_id), None):
                told = True
        elif token_is(&env.method, PROGRESS_METHOD):
            if self.pending and (env.note_token.type == HR_T_INT or self.chosen):
                found = self.pending.get(key_of_token(&env.note_token))
                note = read_progress(&env.params) if found is not None else None
                if note is not None:
                    found.progressed(note)
            told |= self.prefix is not None and found is None
        else:
            told = True
        if told:
            self.gate.notify(envelope_from(p, n, env), sink)
        return sink.accepted()

    cdef int refuse(self, const hr_envelope *env, Sink sink, int code, str message, int status,
                    str kind=None) except -1:
        return self.refuse_error(env, sink, RpcError(code, message, http_status=status or None, refusal=kind))

    cdef int refuse_error(self, const hr_envelope *env, Sink sink, object error) except -1:
        """Answers without an exchange: bad input, or a request that was not started."""
        cdef bytes id = None
        self.runtime.refused(refusal_of(error))
        if self.runtime.meter is not None:
            self.runtime.meter.refused(env, error)
        try:
            self.gate.bad_input(error.code, error.message, sink)
        except Exception as exc:
            self.runtime.fault("the gate failed on bad input", exc)
        if self.runtime.observer is not None:
            observe_refusal(self, env, sink, error)
        if sink.closed or (env.kind != HR_REQUEST and not self.gate.answers_bad_input):
            return 0
        if env.id_usable:
            id = PyBytes_FromStringAndSize(env.id.p, env.id.n)
        elif self.null_ids:
            id = b"null"
        id = error_frame(id, error, self.runtime)
        sink.wait = wait_of(error)
        sink.open_response(None, code_of(error), status_of(error))
        sink.out.put_bytes(id)
        return sink.close_response(None)

    def refuse_frame(self, int code, str message not None, Sink sink not None, *, int status=400, str refusal=None):
        """Answers input that never became a message (an overlong line): an error without an id."""
        cdef hr_envelope env
        env.id_usable = 0
        env.kind = HR_INVALID
        self.refuse(&env, sink, code, message, status, refusal)

    # --- bounds -----------------------------------------------------------------------------------

    cdef int release(self) except -1:
        """A place became free, or a parked request left: others go on."""
        if self.runtime.waiting:
            self.runtime.admit()
        if self.parked:
            if self not in self.runtime.waiting:
                self.unpark(len(self.parked))
        elif self.held is not None:
            self.unpark(0)
        return self.check_idle()

    cdef int unpark(self, Py_ssize_t most) except -1:
        """Starts at most `most` parked requests, oldest first, and lets reading go on when few are left."""
        cdef Sink sink
        if self.unparking:
            return 0
        self.unparking = True
        try:
            while most > 0 and self.unpark_one():
                most -= 1
        finally:
            self.unparking = False
        if self.parked and self.in_flight < self.max_in_flight and not self.closed:
            self.runtime.waiting[self] = None
        if self.held is not None and len(self.parked) * 2 <= self.max_parked and self.parked_bytes * 2 <= PARKED_BYTES:
            sink = self.held
            self.held = None
            sink.resume()
        return 0

    cdef bint unpark_one(self) except -1:
        cdef hr_envelope env
        cdef bytes frame
        cdef Sink sink
        cdef Py_ssize_t n
        if not self.parked or self.in_flight >= self.max_in_flight or (
            self.runtime.in_flight >= self.runtime.max_in_flight
        ):
            return False
        frame, sink = self.parked.pop(next(iter(self.parked)))
        n = PyBytes_GET_SIZE(frame)
        self.parked_bytes -= n
        if not sink.closed and hr_envelope_scan(PyBytes_AS_STRING(frame), n, self.max_depth, self.flags, &env) == HR_OK:
            self.request(PyBytes_AS_STRING(frame), n, &env, sink, True)
        return True

    cdef int check_idle(self) except -1:
        if self.idle_waiter is not None and self.in_flight == 0 and not self.parked:
            waiter = self.idle_waiter
            self.idle_waiter = None
            if not waiter.done():
                waiter.set_result(None)
        return 0

    cdef bytes id_key(self, const hr_token *id):
        """Equal for ids of equal type and value: the raw token, strings without needless escapes."""
        if id.escaped:
            return encode(token_str(id))
        return PyBytes_FromStringAndSize(id.p, id.n)

    cdef bytes key_of(self, bytes id):
        if id[0] == c'"' and memchr(PyBytes_AS_STRING(id), c'\\', PyBytes_GET_SIZE(id)) is not NULL:
            return encode(decode_any(id))
        return id

    # --- out --------------------------------------------------------------------------------------

    def call(self, str method not None, bytes params, Sink sink not None, *, decode=None, double timeout=0,
             on_progress=None, bint extend=False, double latest=0, str name=None, extra=None, id=None):
        """Sends a request and returns its PendingCall: await it.

        `params` is the raw JSON object or None. `decode(raw: bytes)` makes the value of the future
        (raw bytes without it). `timeout` seconds without an answer end it with RequestTimeout (0: no
        limit); with `extend` each progress restarts that clock, never beyond `latest` seconds in all
        (0: no maximum) (MX-13, B80). `name` is mirrored as Mcp-Name over HTTP; `extra` are prepared
        header lines (bytes) for this request alone, or a CallOptions; other transports ignore it. `id` is the
        request's id when the caller chooses it, a string or an integer.

        Raises ConnectionClosed when the connection is gone, OverloadedError over
        ``Limits.max_pending``, ValueError for an `id` that waits for its answer already.
        """
        cdef PendingCall call = PendingCall.__new__(PendingCall)
        call.sink = sink
        call.method = method
        call.decode = decode
        call.on_progress = on_progress
        call.extend = extend
        call.attached = extra
        if id is not None:
            call.take_id(self, id)
        self.send(call, method.encode(), params, name, timeout, latest)
        return call

    cdef int send(self, PendingCall call, bytes method, bytes params, str name, double timeout,
                  double latest) except -1:
        """Sends a call whose `sink` and `method` are set."""
        cdef Sink paused, sink = call.sink
        cdef double now
        if self.closed or sink.closed:
            raise ConnectionClosed(self.close_reason or "the connection is closed")
        if len(self.pending) >= self.max_pending:
            raise OverloadedError(f"{self.max_pending} requests are unanswered (limit max_pending)")
        if params is not None:
            params = one_line(params)
        call.mux = self
        if call.key is None and self.prefix is not None:
            call.take_id(self, self.next_call_id)
            self.next_id += 1
        if call.key is None:
            while self.chosen and self.next_id in self.pending:
                self.next_id += 1
            call.id = self.next_id
            call.key = call.id
            self.next_id += 1
        call.future = self.runtime.create_future()
        if self.runtime.observer is not None:
            params = observe_call(self, call, params, name)
        if timeout > 0 or latest > 0:
            now = self.runtime.time()
            call.timeout = timeout
            if latest > 0:
                call.latest = now + latest
            call.deadline = now + timeout if timeout > 0 else call.latest
            if latest > 0 and call.latest < call.deadline:
                call.deadline = call.latest
        self.pending[call.key] = call
        try:
            sink.send_call(call, method, params, name)
        except BaseException:
            self.pending.pop(call.key, None)
            call.future.cancel()
            raise
        if call.deadline != 0 and (self.timer is None or call.deadline < self.timer_at) and not call.future.done():
            self.arm(call.deadline)
        if self.held is not None:
            paused, self.held = self.held, None  # the answer has to be read, see park()
            paused.resume()
        return 0

    @property
    def next_call_id(self):
        """The id that the next call will have (a progress token can be chosen to equal it)."""
        if self.prefix is not None:
            return f"{self.prefix}.{self.next_id}"
        while self.chosen and self.next_id in self.pending:
            self.next_id += 1
        return self.next_id

    def notify(self, bytes method not None, bytes params, Sink sink not None):
        """Sends a notification that belongs to no request. False when the sink cannot carry it."""
        if self.closed or sink.closed:
            return False
        if params is not None:
            params = one_line(params)
        if not sink.open_message(None):
            return False
        put_notification(sink.out, method, params)
        sink.close_message(None)
        return True

    # --- time -------------------------------------------------------------------------------------

    cdef int arm(self, double deadline) except -1:
        if self.timer is None:
            self.timer_at = deadline
            self.timer = self.runtime.call_at(deadline, self.tick)
        elif deadline < self.timer_at - 0.001:
            self.timer.cancel()
            self.timer_at = deadline
            self.timer = self.runtime.call_at(deadline, self.tick)
        return 0

    def tick(self):
        """The one coarse timer: ends overdue calls and sleeps until the next deadline."""
        self.timer = None
        end_overdue(self)

    def expire(self, PendingCall call not None, double now):
        """Ends one overdue call (MX-13), unless it is spared."""
        if self.pending.get(call.key) is not call or call.spared(now):
            return
        del self.pending[call.key]
        try:
            if not call.sink.closed:
                call.sink.drop_call(call, "timeout")
        finally:
            call.reject(RequestTimeout(f"{call.method}: {call.lateness(now)}"))

    # --- end --------------------------------------------------------------------------------------

    def wait_idle(self):
        """A future that is done when no request is in flight or parked, or None when none is."""
        if self.in_flight == 0 and not self.parked:
            return None
        if self.idle_waiter is None:
            self.idle_waiter = self.runtime.create_future()
        return self.idle_waiter

    def cancel_all(self, reason=None):
        """Cancels every request in flight and forgets the parked ones."""
        cdef Exchange ex = self.starting
        self.parked.clear()
        self.parked_bytes = 0
        self.held = None
        if self.runtime.waiting:
            self.runtime.waiting.pop(self, None)
        while ex is not None:
            ex.cancel(reason)
            ex = ex.outer
        if self.inflight:
            for ex in list(self.inflight.values()):
                ex.cancel(reason)
        self.check_idle()

    def close(self, reason=None):
        """The connection ended: calls fail with ConnectionClosed, requests in flight are cancelled.

        `reason` is a text or a ConnectionClosed. Calling it again does nothing.
        """
        cdef PendingCall call
        if self.closed:
            return
        self.closed = True
        if not isinstance(reason, HeadraceError):
            reason = reason or "the connection was closed"
        self.close_reason = str(reason)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        if self.pending:
            exc = reason if isinstance(reason, HeadraceError) else ConnectionClosed(self.close_reason)
            calls = list(self.pending.values())
            self.pending.clear()
            for call in calls:
                call.reject(fresh(exc))
        self.cancel_all()
        try:
            self.gate.lost(reason)
        except Exception as fault:
            self.runtime.fault("the gate failed at the end of its connection", fault)

    def debug_counts(self):
        """Sizes of all tables: zero when everything is answered."""
        return {
            "inflight": len(self.inflight), "pending": len(self.pending), "parked": len(self.parked),
            "counted": self.in_flight, "parked_bytes": self.parked_bytes, "held": int(self.held is not None),
            "starting": int(self.starting is not None), "waiting": int(self in self.runtime.waiting)}
