"""The multiplexer: our pending calls and the peer's requests in flight, sans-I/O (L4).

Strategy: a frame comes in by pointer, is scanned once, and in the same call stack becomes a handler
call and reply bytes in the sink's Outbuf. A request costs a table entry only when its handler
suspends. Nothing here knows the event loop: see Runtime.
"""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcmp

import msgspec

from headrace.errors import (
    ConnectionClosed, HeadraceError, LocalProtocolError, OverloadedError, RemoteProtocolError, RequestTimeout,
    RpcError, internal_error,
)
from headrace.jsonrpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR

from headrace.wire._cjson cimport (
    HR_BAD_UTF8, HR_BATCH, HR_ERROR, HR_INVALID, HR_NOTIFICATION, HR_OK, HR_REQUEST, HR_RESULT, HR_SCAN_LOOSE,
    HR_T_INT, HR_T_NONE, HR_T_NULL, HR_T_OBJECT, HR_T_STRING, HR_TOO_DEEP, hr_envelope, hr_envelope_scan,
    hr_json_unescape, hr_token,
)
from headrace.wire._envelope cimport envelope_from, token_bytes, token_str
from headrace.wire._outbuf cimport Outbuf

cimport cython

cdef extern from *:
    """
    #ifndef HR_DEBUG
    #define HR_DEBUG 0
    #endif
    """
    const int HR_DEBUG

__all__ = (
    "Exchange", "FrameSink", "FunctionHandler", "Handler", "Mux", "PendingCall", "RawResult", "Revision", "Runtime",
    "Sink", "live_objects",
)

cdef enum:
    LOOSE_FROM = 4096        # frames from this size on are not scanned twice (ceiling.md 1a)
    RUNNING = 0
    ANSWERED = 1
    CANCELLED = 2

cdef Py_ssize_t live_exchanges = 0
cdef Py_ssize_t live_calls = 0


def live_objects():
    """Counts of live objects by kind; debug builds only, zeros otherwise."""
    return {"exchanges": live_exchanges, "calls": live_calls}


class _WireError(msgspec.Struct):
    code: int
    message: str = ""
    data: object = None


class _Progress(msgspec.Struct):
    progress: int | float
    total: int | float | None = None
    message: str | None = None


cdef object encode_into = msgspec.json.Encoder().encode_into
cdef object encode = msgspec.json.Encoder().encode
cdef object decode_any = msgspec.json.Decoder().decode
cdef object decode_error = msgspec.json.Decoder(_WireError).decode
cdef object decode_progress = msgspec.json.Decoder(_Progress).decode

cdef bytes CANCELLED_METHOD = b"notifications/cancelled"
cdef bytes PROGRESS_METHOD = b"notifications/progress"


cdef inline bint token_is(const hr_token *t, bytes text):
    # t is a plain string token equal to `text`.
    return (
        t.type == HR_T_STRING and not t.escaped and <Py_ssize_t>t.n == PyBytes_GET_SIZE(text) + 2
        and memcmp(t.p + 1, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)) == 0
    )


cdef class Runtime:
    """What the mux needs of an event loop, as plain callables.

    `create_future()`, `call_soon(callback)`, `call_at(when, callback)` -> handle with ``cancel()``,
    `time()` in seconds, `spawn(coroutine)` -> task whose first step has run, `run_thread(function,
    *args)` -> future, `post(function, *args)` from any thread (runs on the loop, before the results of
    later thread calls), `report(message, exception)` for faults that no caller gets to see.
    `max_in_flight` bounds the requests being handled over all muxes that share this runtime.
    """

    def __init__(self, *, create_future, call_soon, call_at, time, spawn, run_thread, post, report,
                 Py_ssize_t max_in_flight=65536):
        self.create_future = create_future
        self.call_soon = call_soon
        self.call_at = call_at
        self.time = time
        self.spawn = spawn
        self.run_thread = run_thread
        self.post = post
        self.report = report
        self.max_in_flight = max_in_flight
        self.in_flight = 0


cdef class Revision:
    """The prepared tables of one protocol revision.

    `requests` maps a method name (bytes) to its Handler. `tail` closes every result object: ``b"}"``,
    or for the modern era the members that every result carries (JR-10, VN-30).
    """

    def __init__(self, str name not None, *, bint modern, dict requests=None, bytes tail=b"}"):
        self.name = name
        self.token = b'"' + name.encode() + b'"'
        self.modern = modern
        self.requests = {} if requests is None else requests
        self.tail = tail
        self.last_method = b""
        self.last_handler = None

    def __repr__(self):
        return f"<Revision {self.name}>"

    def changed(self):
        """To be called after `requests` was changed."""
        self.last_method = b""
        self.last_handler = None

    @property
    def result_tail(self):
        """The bytes that close a result object."""
        return self.tail

    @result_tail.setter
    def result_tail(self, bytes tail not None):
        self.tail = tail

    cdef Handler find(self, const hr_token *method):
        cdef bytes name
        cdef object found
        if token_is(method, self.last_method):
            return self.last_handler
        if method.escaped:
            name = token_str(method).encode("utf-8", "surrogatepass")
        else:
            name = PyBytes_FromStringAndSize(method.p + 1, <Py_ssize_t>method.n - 2)
        found = self.requests.get(name)
        if found is not None:
            self.last_method = name
            self.last_handler = <Handler?>found
        return <Handler>found


cdef class Handler:
    """How one method is served. Subclasses override the C-level methods."""

    def __cinit__(self, *args, **kwargs):
        self.urgent = False
        self.cancellable = True

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        """Decodes what it needs of `env` (valid during this call only) and runs the handler. Ends in
        ex.finish / ex.fail, or leaves a task or future in the exchange."""
        raise LocalProtocolError("a handler without a body")

    cdef int write_result(self, Exchange ex, Outbuf out, object result) except -1:
        """Writes the result object including the revision's tail. On an exception what was written
        is taken back and the exchange fails."""
        cdef bytes body
        if type(result) is RawResult:
            return out.put_bytes((<RawResult>result).body)
        if type(result) is bytes:
            body = <bytes>result
            out.put_bytes(body)
        else:
            out.encode(encode_into, result)
        if out.n < 2 or out.base[out.n - 1] != c'}':
            raise TypeError(f"a result must be a JSON object, not {type(result).__name__}")
        out.n -= 1
        if out.base[out.n - 1] == c'{':
            # An empty object takes the tail without its leading comma.
            if ex.revision.tail[0] == c',':
                return out.put(PyBytes_AS_STRING(ex.revision.tail) + 1, PyBytes_GET_SIZE(ex.revision.tail) - 1)
        return out.put_bytes(ex.revision.tail)

    cdef object error_of(self, Exchange ex, object exc):
        """The answer to an exception of the handler: an RpcError, or a result object to send. This is
        the one place where exceptions become answers; unexpected text never leaks (JR-38)."""
        if isinstance(exc, RpcError):
            return exc
        if isinstance(exc, RemoteProtocolError):
            return RpcError(exc.rpc_code, str(exc), http_status=exc.http_status)
        ex.mux.runtime.report(f"unexpected error while serving request {ex.id.decode('utf-8', 'replace')[:80]}", exc)
        return internal_error()


cdef class FunctionHandler(Handler):
    """Serves a method by a Python function of one Exchange.

    `function(exchange)` returns the result (bytes of a JSON object, or anything msgspec encodes to
    one) or a coroutine of it, or raises RpcError. ``exchange.params`` and ``exchange.meta`` hold raw
    bytes. `urgent` requests are served over the in-flight limit as well.
    """

    def __init__(self, function, *, bint urgent=False, bint cancellable=True):
        self.function = function
        self.urgent = urgent
        self.cancellable = cancellable

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        ex.keep(env)
        try:
            result = self.function(ex)
        except BaseException as exc:
            ex.fail(exc)
            if isinstance(exc, KeyboardInterrupt):
                raise
            return 0
        if hasattr(result, "__await__"):
            return ex.run_coroutine(result)
        return ex.finish(result)


cdef class RawResult:
    """A result object that is sent exactly as it is (it already carries what its revision asks)."""

    def __init__(self, bytes body not None):
        self.body = body


@cython.freelist(64)
cdef class Exchange:
    """One request of the peer, from its arrival to its answer."""

    def __cinit__(self):
        global live_exchanges
        if HR_DEBUG:
            live_exchanges += 1

    def __dealloc__(self):
        global live_exchanges
        if HR_DEBUG:
            live_exchanges -= 1

    @property
    def request_id(self):
        """The peer's id with its JSON type: str or int."""
        return decode_any(self.id)

    @property
    def progress_token(self):
        """The raw progress token, or None."""
        return self.token

    @property
    def cancelled(self):
        """True once the peer gave the request up."""
        return self.state == CANCELLED

    @property
    def open(self):
        """True while an answer or a notification can still be sent."""
        return self.state == RUNNING and not self.sink.closed

    cdef int keep(self, const hr_envelope *env) except -1:
        """Copies params and _meta for handlers that look at them."""
        if env.params.n:
            self.params = PyBytes_FromStringAndSize(env.params.p, env.params.n)
        if env.meta.type == HR_T_OBJECT:
            self.meta = PyBytes_FromStringAndSize(env.meta.p, env.meta.n)
        return 0

    cdef int run_coroutine(self, object coro) except -1:
        try:
            task = self.mux.runtime.spawn(coro)
        except BaseException as exc:
            # Only what asyncio lets out of a step: KeyboardInterrupt and SystemExit.
            self.fail(exc)
            if isinstance(exc, KeyboardInterrupt):
                raise
            return 0
        if task.done():
            self.task = task
            return self.complete(task)
        return self.run_future(task)

    cdef int run_future(self, object future) except -1:
        self.task = future
        self.suspend()
        future.add_done_callback(self.on_done)
        return 0

    cdef int suspend(self) except -1:
        cdef Mux mux = self.mux
        self.counted = True
        mux.in_flight += 1
        mux.runtime.in_flight += 1
        if mux.scoped:
            mux.inflight[mux.key_of(self.id)] = self
        self.sink.started(self)
        return 0

    cdef int ended(self) except -1:
        cdef Mux mux = self.mux
        if not self.counted:
            return 0
        self.counted = False
        mux.in_flight -= 1
        mux.runtime.in_flight -= 1
        if mux.scoped:
            key = mux.key_of(self.id)
            if mux.inflight.get(key) is self:
                del mux.inflight[key]
        if mux.parked:
            mux.unpark()
        if mux.in_flight == 0 and mux.idle_waiter is not None:
            waiter = mux.idle_waiter
            mux.idle_waiter = None
            if not waiter.done():
                waiter.set_result(None)
        return 0

    def on_done(self, task):
        """Done callback of the handler's task or future."""
        try:
            self.complete(task)
        finally:
            self.ended()

    def complete(self, task):
        """Answers with the outcome of `task`, or swallows it after a cancel."""
        if self.state != RUNNING:
            if not task.cancelled():
                task.exception()
            return 0
        try:
            result = task.result()
        except BaseException as exc:
            self.fail(exc)
            return 0
        self.finish(result)
        return 0

    cdef int finish(self, object result) except -1:
        """Answers with `result`; a second answer, or one after a cancel, is dropped."""
        cdef Sink sink = self.sink
        cdef Outbuf out
        if self.state != RUNNING:
            return 0
        if sink.closed:
            self.state = ANSWERED
            return 0
        sink.open_response(self, 0, 0)
        out = sink.out
        try:
            out.put(b'{"jsonrpc":"2.0","id":', 22)
            out.put_bytes(self.id)
            out.put(b',"result":', 10)
            self.handler.write_result(self, out, result)
            out.put(b'}', 1)
        except Exception as exc:
            sink.rollback()
            if self.failing:
                self.mux.runtime.report("an error answer could not be written", exc)
                return self.fail_rpc(internal_error())
            return self.fail(exc)
        self.state = ANSWERED
        sink.close_response(self)
        return 0

    cdef int fail(self, object exc) except -1:
        """Answers with the error that `exc` means."""
        cdef object answer
        if self.state != RUNNING:
            return 0
        self.failing = True
        try:
            answer = self.handler.error_of(self, exc)
        except Exception as fault:
            self.mux.runtime.report("an error could not be rendered", fault)
            answer = internal_error()
        if isinstance(answer, RpcError):
            return self.fail_rpc(answer)
        # Handlers may answer errors with results of their own (a tool's isError).
        return self.finish(answer)

    cdef int fail_rpc(self, object error) except -1:
        cdef Sink sink = self.sink
        if self.state != RUNNING:
            return 0
        self.state = ANSWERED
        if sink.closed:
            return 0
        sink.open_response(self, error.code, error.http_status or 0)
        put_error(sink.out, self.id, error)
        sink.close_response(self)
        return 0

    def answer(self, result):
        """Answers with `result` (see FunctionHandler); for handlers that return before they know."""
        self.finish(result)

    def answer_error(self, exc):
        """Answers with the error that `exc` means."""
        self.fail(exc)

    def hold(self, future):
        """Keeps the exchange open until `future` is done; its result is the answer."""
        self.run_future(future)

    def cancel(self, reason=None):
        """Gives the request up: the handler's task is cancelled, nothing more is sent (MX-12, MX-15)."""
        cdef Mux mux = self.mux
        if self.state != RUNNING:
            return
        self.state = CANCELLED
        if mux.scoped and self.counted:
            # The id is free again at once; the handler still counts until it has ended.
            key = mux.key_of(self.id)
            if mux.inflight.get(key) is self:
                del mux.inflight[key]
        if self.task is not None:
            self.task.cancel()

    def notify(self, bytes method not None, bytes params=None):
        """Sends a notification that belongs to this request, before its answer (MX-05).

        Returns None, or a future that is done when queued output has drained.
        """
        cdef Sink sink = self.sink
        cdef Outbuf out
        if self.state != RUNNING or sink.closed:
            return None
        if not sink.open_message(self):
            return None
        out = sink.out
        out.put(b'{"jsonrpc":"2.0","method":"', 27)
        out.put_bytes(method)
        if params is None:
            out.put(b'"}', 2)
        else:
            out.put(b'","params":', 11)
            out.put_bytes(params)
            out.put(b'}', 1)
        sink.close_message(self)
        return sink.drained() if sink.congested() else None

    def progress(self, double done, total=None, str message=None):
        """Sends progress if the peer asked for it: values must increase, others are dropped (MX-03)."""
        cdef bytes body
        if self.token is None or self.state != RUNNING or not done > self.progress_done:
            return None
        self.progress_done = done
        body = b'{"progressToken":' + self.token + b',"progress":' + encode(int(done) if done.is_integer() else done)
        if total is not None:
            body += b',"total":' + encode(total)
        if message is not None and self.revision.name != "2024-11-05":
            body += b',"message":' + encode(message)
        return self.notify(PROGRESS_METHOD, body + b'}')


cdef int put_error(Outbuf out, bytes id, object error) except -1:
    """An error response; without `id` the member is left out (JR-13)."""
    cdef object data = b""
    if error.data is not None:
        try:
            data = encode(error.data)
        except Exception:
            data = b""
    out.put(b'{"jsonrpc":"2.0",', 17)
    if id is not None:
        out.put(b'"id":', 5)
        out.put_bytes(id)
        out.put(b',', 1)
    out.put(b'"error":{"code":', 16)
    out.put_int(error.code)
    out.put(b',"message":"', 12)
    try:
        out.put_text(error.message)
    except UnicodeEncodeError:
        out.put_text(error.message.encode("utf-8", "replace").decode())
    out.put(b'"', 1)
    if data:
        out.put(b',"data":', 8)
        out.put_bytes(data)
    return out.put(b'}}', 2)


cdef class PendingCall:
    """One request of ours, from sending to its answer: await its `future`."""

    def __cinit__(self):
        global live_calls
        if HR_DEBUG:
            live_calls += 1

    def __dealloc__(self):
        global live_calls
        if HR_DEBUG:
            live_calls -= 1

    cdef int resolve(self, const hr_token *result) except -1:
        cdef object value
        if self.future.done():
            return 0
        value = PyBytes_FromStringAndSize(result.p, result.n)
        if self.decode is not None:
            try:
                value = self.decode(value)
            except Exception as exc:
                return self.reject(RemoteProtocolError(f"the result of {self.method} is not valid: {exc}"))
        self.future.set_result(value)
        return 0

    cdef int reject(self, object exc) except -1:
        if not self.future.done():
            self.future.set_exception(exc)
        return 0

    def fail(self, exc):
        """Ends the call with `exc`: for transports that know it cannot be answered any more (B82)."""
        self.mux.pending.pop(self.id, None)
        self.reject(exc)

    def attach(self, record):
        """Lets the transport keep its own record of this call."""
        self.attached = record

    def cancel(self, str reason=None):
        """Gives the call up and tells the peer in the transport's way (MX-11, B75)."""
        if self.mux.pending.pop(self.id, None) is not None and not self.sink.closed:
            self.sink.drop_call(self, reason)
        if not self.future.done():
            self.future.cancel()

    cdef bint overdue(self, double now):
        return self.deadline != 0 and self.deadline <= now

    def progressed(self, note):
        """A progress notification for this call arrived."""
        cdef double now
        if self.extend and self.deadline != 0:
            now = self.mux.runtime.time()
            self.deadline = now + self.timeout
            if self.latest != 0 and self.deadline > self.latest:
                self.deadline = self.latest
        if self.on_progress is not None:
            try:
                self.on_progress(note.progress, note.total, note.message)
            except Exception as exc:
                self.mux.gate.progress_failed(exc)


cdef class Sink:
    """Where messages go. The base class refuses to send; transports override the C-level methods."""

    def __cinit__(self, *args, **kwargs):
        self.out = Outbuf.__new__(Outbuf)
        self.closed = False
        self.persistent = False

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
            raise LocalProtocolError("this connection carries no requests")
        put_request(self.out, call.id, method, params)
        return self.close_message(None)

    cdef int drop_call(self, PendingCall call, str reason) except -1:
        """Tells the peer that we gave `call` up."""
        cdef Outbuf out = self.out
        if call.method == "initialize" or not self.open_message(None):  # VN-06
            return 0
        out.put(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":', 74)
        out.put_int(call.id)
        if reason is not None:
            out.put(b',"reason":"', 11)
            out.put_text(reason)
            out.put(b'"', 1)
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

    cdef bint congested(self):
        return False

    cdef object drained(self):
        return None

    @property
    def headers(self):
        """Header fields of the HTTP request behind this sink, names in lower case; empty elsewhere."""
        return {}

    def wait_drained(self):
        """None, or a future that is done when queued output is below its bound."""
        return self.drained() if self.congested() else None


cdef int put_request(Outbuf out, long long id, bytes method, bytes params) except -1:
    out.put(b'{"jsonrpc":"2.0","id":', 22)
    out.put_int(id)
    out.put(b',"method":"', 11)
    out.put_bytes(method)
    if params is None:
        return out.put(b'"}', 2)
    out.put(b'","params":', 11)
    out.put_bytes(params)
    return out.put(b'}', 1)


cdef class FrameSink(Sink):
    """A sink that hands every whole frame to a Python function: memory pairs, tests, embedding.

    `put(frame: bytes)` is called once a frame; ``finish()`` and ``closed`` end it.
    """

    cdef object put
    cdef Py_ssize_t mark

    def __init__(self, put):
        self.put = put
        self.persistent = True

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


cdef class Mux:
    """Both tables of one connection or session (ours pending, theirs in flight), and the dispatch.

    `gate` is the protocol layer (see headrace.mux.gate.Gate); `limits` a headrace.limits.Limits.
    `scoped` is false where ids of different requests share no scope: era M over HTTP (JR-06).
    Belongs to the thread of its runtime.
    """

    def __init__(self, Runtime runtime not None, gate, limits, *, bint scoped=True):
        self.runtime = runtime
        self.gate = gate
        self.scoped = scoped
        self.inflight = {}
        self.pending = {}
        self.parked = {}
        self.max_in_flight = limits.max_in_flight if scoped else limits.max_in_flight_total
        self.max_parked = limits.max_parked
        self.max_pending = limits.max_pending
        self.max_depth = limits.max_depth
        self.next_id = 1
        self.timer = None
        self.closed = False

    # --- in ---------------------------------------------------------------------------------------

    def receive_frame(self, bytes frame not None, Sink sink not None):
        """One whole message. Never raises for what the peer sent: bad input is answered (JR-xx)."""
        self.receive(PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame), sink)

    cdef int receive(self, const char *p, Py_ssize_t n, Sink sink) except -1:
        """The same for [p, p + n), which stays valid during this call."""
        cdef hr_envelope env
        cdef int rc = hr_envelope_scan(p, n, self.max_depth, HR_SCAN_LOOSE if n >= LOOSE_FROM else 0, &env)
        if rc != HR_OK:
            if rc == HR_TOO_DEEP:
                return self.refuse(&env, sink, PARSE_ERROR, f"nested deeper than {self.max_depth} levels", 400)
            return self.refuse(
                &env, sink, PARSE_ERROR, "not UTF-8" if rc == HR_BAD_UTF8 else "not a JSON text", 400)
        if env.kind == HR_REQUEST:
            return self.request(p, n, &env, sink, False)
        if env.kind == HR_RESULT or env.kind == HR_ERROR:
            return self.response(&env, sink)
        if env.kind == HR_NOTIFICATION:
            return self.notification(p, n, &env, sink)
        if env.kind == HR_BATCH:
            if self.gate.batch(envelope_from(p, n, &env), sink):
                return 0
            return self.refuse(&env, sink, INVALID_REQUEST, "batches are not part of this revision", 400)
        if not env.method.n and (env.result.n or env.error.n):
            # A malformed answer: it fails the call it names and is never answered itself (JR-08, B07).
            call = self.pending.get(env.id_int) if env.id_small else None
            if call is not None and sink.admits(<PendingCall>call):
                del self.pending[env.id_int]
                (<PendingCall>call).reject(RemoteProtocolError(env.reason.decode()))
            else:
                self.stray += 1
                self.gate.stray(envelope_from(p, n, &env), sink)
            if not self.scoped:
                return self.refuse(&env, sink, INVALID_REQUEST, env.reason.decode(), 400)
            return sink.accepted()
        return self.refuse(&env, sink, INVALID_REQUEST, env.reason.decode(), 400)

    cdef int request(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink, bint unparked) except -1:
        cdef Revision revision
        cdef Handler handler
        cdef Exchange ex
        if self.scoped and self.inflight and self.id_key(&env.id) in self.inflight:
            return self.refuse(env, sink, INVALID_REQUEST, "this id is still in use by a request in flight", 400)
        revision = sink.route(self, env)
        if revision is None:
            try:
                revision = <Revision?>self.gate.classify(envelope_from(p, n, env), sink)
            except RpcError as error:
                return self.refuse_error(env, sink, error)
        handler = revision.find(&env.method)
        if handler is None:
            error = self.gate.unknown_method(revision, envelope_from(p, n, env), sink)
            return 0 if error is None else self.refuse_error(env, sink, error)
        if env.params.type != HR_T_OBJECT and env.params.type > HR_T_NULL:
            return self.refuse(env, sink, INVALID_PARAMS, "params must be an object", 0)
        if not handler.urgent and (
            self.in_flight >= self.max_in_flight or self.runtime.in_flight >= self.runtime.max_in_flight
            or (self.parked and not unparked)
        ):
            return self.park(p, n, env, sink)
        ex = Exchange.__new__(Exchange)
        ex.mux = self
        ex.sink = sink
        ex.revision = revision
        ex.handler = handler
        ex.id = PyBytes_FromStringAndSize(env.id.p, env.id.n)
        if env.progress_token.type == HR_T_STRING or env.progress_token.type == HR_T_INT:
            ex.token = PyBytes_FromStringAndSize(env.progress_token.p, env.progress_token.n)
            ex.progress_done = -1e308
        handler.start(ex, env)
        return 0

    cdef int response(self, const hr_envelope *env, Sink sink) except -1:
        cdef object found = self.pending.pop(env.id_int, None) if env.id_small else None
        cdef PendingCall call
        cdef object exc
        if found is not None and not sink.admits(<PendingCall>found):
            self.pending[env.id_int] = found
            found = None
        if found is None:
            if sink.unmatched(env):
                return 0
            self.stray += 1
            if not self.scoped:
                return self.refuse(env, sink, INVALID_REQUEST, "a response cannot be posted here", 400)
            self.gate.stray(None if env.kind == HR_RESULT else token_bytes(&env.error), sink)
            return sink.accepted()
        call = <PendingCall>found
        if env.kind == HR_RESULT:
            call.resolve(&env.result)
        else:
            exc = read_error(&env.error)
            if sink.status >= 300 and isinstance(exc, RpcError):
                exc.http_status = sink.status
            call.reject(exc)
        return sink.accepted()

    cdef int notification(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
        cdef object found
        if token_is(&env.method, CANCELLED_METHOD):
            # Malformed or unknown ids are ignored silently (MX-12). Without a scope the id names
            # nothing: acting on it would let one client cancel another's request (HN-51).
            if self.scoped and env.request_id.n:
                key = self.id_key(&env.request_id)
                found = self.inflight.get(key)
                if found is not None:
                    if (<Exchange>found).handler.cancellable:
                        found.cancel()
                elif self.parked.pop(key, None) is None:
                    self.gate.notify(envelope_from(p, n, env), sink)
            return sink.accepted()
        if token_is(&env.method, PROGRESS_METHOD):
            if env.note_token.type == HR_T_INT and self.pending:
                found = self.pending.get(token_int(&env.note_token))
                if found is not None and env.params.n:
                    try:
                        note = decode_progress(token_bytes(&env.params))
                    except Exception:
                        return sink.accepted()
                    found.progressed(note)
            return sink.accepted()
        self.gate.notify(envelope_from(p, n, env), sink)
        return sink.accepted()

    cdef int refuse(self, const hr_envelope *env, Sink sink, int code, str message, int status) except -1:
        return self.refuse_error(env, sink, RpcError(code, message, http_status=status or None))

    cdef int refuse_error(self, const hr_envelope *env, Sink sink, object error) except -1:
        """Answers without an exchange: bad input, or a request that was not started."""
        cdef bytes id = None
        self.gate.bad_input(error.code, error.message, sink)
        if sink.closed or (env.kind != HR_REQUEST and not self.gate.answers_bad_input):
            return 0
        if env.id_usable:
            id = PyBytes_FromStringAndSize(env.id.p, env.id.n)
        elif self.null_ids:
            id = b"null"
        sink.open_response(None, error.code, error.http_status or 0)
        put_error(sink.out, id, error)
        return sink.close_response(None)

    def refuse_frame(self, int code, str message not None, Sink sink not None, *, int status=400):
        """Answers input that never became a message (an overlong line): an error without an id."""
        cdef hr_envelope env
        env.id_usable = 0
        env.kind = HR_INVALID
        self.refuse(&env, sink, code, message, status)

    # --- bounds -----------------------------------------------------------------------------------

    cdef int park(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
        if not sink.persistent:
            return self.refuse_error(
                env, sink, RpcError(INTERNAL_ERROR, "too many requests in flight", http_status=503))
        key = self.id_key(&env.id)
        if key in self.parked:
            return self.refuse(env, sink, INVALID_REQUEST, "this id is still in use by a request in flight", 400)
        self.parked[key] = (PyBytes_FromStringAndSize(p, n), sink)
        if len(self.parked) >= self.max_parked and not self.paused:
            self.paused = True
            sink.pause()
        if self.in_flight == 0:
            # The bound of the whole runtime is reached by others: nobody here will wake us.
            self.runtime.call_at(self.runtime.time() + 0.01, self.retry_parked)
        return 0

    def retry_parked(self):
        """Timer callback while only other connections hold the runtime's bound."""
        if self.parked:
            self.unpark()
            if self.parked and self.in_flight == 0:
                self.runtime.call_at(self.runtime.time() + 0.01, self.retry_parked)

    cdef int unpark(self) except -1:
        cdef hr_envelope env
        cdef bytes frame
        cdef Sink sink = None
        while self.parked and self.in_flight < self.max_in_flight and (
            self.runtime.in_flight < self.runtime.max_in_flight
        ):
            key = next(iter(self.parked))
            frame, sink = self.parked.pop(key)
            if sink.closed:
                continue
            if hr_envelope_scan(PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame), self.max_depth, 0, &env) == HR_OK:
                self.request(PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame), &env, sink, True)
        if self.paused and len(self.parked) * 2 <= self.max_parked:
            self.paused = False
            if sink is not None:
                sink.resume()
        return 0

    cdef bytes id_key(self, const hr_token *id):
        """Equal for ids of equal type and value: the raw token, strings without needless escapes."""
        if id.escaped:
            return encode(token_str(id))
        return PyBytes_FromStringAndSize(id.p, id.n)

    cdef bytes key_of(self, bytes id):
        if id[0] == c'"' and b"\\" in id:
            return encode(decode_any(id))
        return id

    # --- out --------------------------------------------------------------------------------------

    def call(self, str method not None, bytes params, Sink sink not None, *, decode=None, double timeout=0,
             on_progress=None, bint extend=False, double latest=0, str name=None, extra=None):
        """Sends a request and returns its PendingCall; await ``.future``.

        `params` is the raw JSON object or None. `decode(raw: bytes)` makes the value of the future
        (raw bytes without it). `timeout` seconds without an answer end it with RequestTimeout (0: no
        limit); with `extend` each progress restarts that clock, never beyond `latest` seconds in all
        (0: no maximum) (MX-13, B80). `name` is mirrored as Mcp-Name over HTTP; `extra` (bytes) are
        prepared header lines for this request alone, which other transports ignore.

        Raises ConnectionClosed when the connection is gone, OverloadedError over
        ``Limits.max_pending``.
        """
        cdef PendingCall call
        cdef double now
        if self.closed or sink.closed:
            raise ConnectionClosed(self.close_reason or "the connection is closed")
        if len(self.pending) >= self.max_pending:
            raise OverloadedError(f"{self.max_pending} requests are unanswered (limit max_pending)")
        call = PendingCall.__new__(PendingCall)
        call.mux = self
        call.sink = sink
        call.id = self.next_id
        self.next_id += 1
        call.method = method
        call.decode = decode
        call.on_progress = on_progress
        call.extend = extend
        call.future = self.runtime.create_future()
        call.attached = extra
        if timeout > 0 or latest > 0:
            now = self.runtime.time()
            call.timeout = timeout
            if latest > 0:
                call.latest = now + latest
            call.deadline = now + timeout if timeout > 0 else call.latest
            if latest > 0 and call.latest < call.deadline:
                call.deadline = call.latest
        self.pending[call.id] = call
        try:
            sink.send_call(call, method.encode(), params, name)
        except BaseException:
            self.pending.pop(call.id, None)
            raise
        if call.deadline != 0:
            self.arm(call.deadline)
        return call

    @property
    def next_call_id(self):
        """The id that the next call will have (a progress token can be chosen to equal it)."""
        return self.next_id

    def notify(self, bytes method not None, bytes params, Sink sink not None):
        """Sends a notification that belongs to no request. False when the sink cannot carry it."""
        if self.closed or sink.closed or not sink.open_message(None):
            return False
        sink.out.put(b'{"jsonrpc":"2.0","method":"', 27)
        sink.out.put_bytes(method)
        if params is None:
            sink.out.put(b'"}', 2)
        else:
            sink.out.put(b'","params":', 11)
            sink.out.put_bytes(params)
            sink.out.put(b'}', 1)
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
        cdef double now = self.runtime.time()
        cdef double earliest = 0
        cdef PendingCall call
        cdef list overdue = []
        self.timer = None
        for call in self.pending.values():
            if call.deadline == 0:
                continue
            if call.deadline <= now:
                overdue.append(call)
            elif earliest == 0 or call.deadline < earliest:
                earliest = call.deadline
        for call in overdue:
            self.expire(call, now)
        if earliest != 0:
            # Not more often than every 5 ms, however the deadlines are spread.
            self.arm(earliest if earliest > now + 0.005 else now + 0.005)

    def expire(self, PendingCall call not None, double now):
        """Ends one overdue call (MX-13)."""
        if self.pending.pop(call.id, None) is None:
            return
        limit = call.timeout
        if call.latest != 0 and now >= call.latest:
            text = "no answer within the absolute limit of this call"
        else:
            text = f"no answer within {limit:g} s"
        try:
            if not call.sink.closed:
                call.sink.drop_call(call, "timeout")
        finally:
            call.reject(RequestTimeout(f"{call.method}: {text}"))

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
        self.parked.clear()
        for ex in list(self.inflight.values()):
            ex.cancel(reason)

    def close(self, reason=None):
        """The connection ended: calls fail with ConnectionClosed, requests in flight are cancelled.

        `reason` is a text or a ConnectionClosed. Calling it again does nothing.
        """
        cdef PendingCall call
        if self.closed:
            return
        self.closed = True
        exc = reason if isinstance(reason, HeadraceError) else ConnectionClosed(reason or "the connection was closed")
        self.close_reason = str(exc)
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        calls = list(self.pending.values())
        self.pending.clear()
        for call in calls:
            call.reject(exc)
        self.cancel_all()
        self.gate.lost(exc)

    def debug_counts(self):
        """Sizes of all tables: zero when everything is answered."""
        return {
            "inflight": len(self.inflight), "pending": len(self.pending), "parked": len(self.parked),
            "counted": self.in_flight,
        }


cdef long long token_int(const hr_token *t):
    # A progress token of ours is one of our ids: a short decimal. Anything else matches nothing.
    cdef size_t i
    cdef long long v = 0
    if t.n > 18:
        return -1
    for i in range(t.n):
        if t.p[i] < c'0' or t.p[i] > c'9':
            return -1
        v = v * 10 + (t.p[i] - c'0')
    return v


cdef object read_error(const hr_token *error):
    try:
        wire = decode_error(token_bytes(error))
    except Exception:
        return RemoteProtocolError("an error answer without a valid code and message")
    return RpcError(wire.code, wire.message, wire.data)
