# The multiplexer's C-level surface: what transports (sinks), the server and the client build on.
from cpython.object cimport PyObject

from headrace.wire._cjson cimport hr_envelope, hr_meta_memo, hr_token
from headrace.wire._outbuf cimport Outbuf


cdef extern from "hr_meter.h":
    # Numbers of one method or tool under one revision, see _meter.pxi.
    ctypedef struct hr_cell:
        unsigned long long counts[4]
        unsigned long long buckets[17]
        unsigned long long total
        unsigned long long told


cdef class Series:
    # The numbers of one method, or of one tool, by revision and status.
    cdef unsigned long long owner        # number of the meter that they belong to
    cdef readonly str method
    cdef readonly str tool
    cdef bint chooses                    # each request says whose numbers it counts in
    cdef bint calls                      # results may say isError
    cdef bint provisional                # of a name that was not answered to yet
    cdef hr_cell cells[6]


cdef class Meter:
    # What counts and times the requests of a runtime.
    cdef unsigned long long number
    cdef readonly dict table             # (method, tool) -> Series
    cdef readonly dict errors            # code -> how many were answered
    cdef readonly object methods         # told apart wherever they come from
    cdef public object knows             # (tool name) -> bool, or None
    cdef Series last                     # chosen by the names of the request before
    cdef bytes last_method, last_name

    cdef Series entry(self, str method, str tool)
    cdef Series prepare(self, Handler handler, str method)
    cdef int begin(self, Exchange ex, Handler handler, const hr_envelope *env) except -1
    cdef int choose(self, Exchange ex, Handler handler, const hr_envelope *env) except -1
    cdef Series settled(self, Series series, int status)
    cdef Series series_of(self, Exchange ex)
    cdef int end(self, Exchange ex, int status) except -1
    cdef int count(self, Exchange ex, Series series, int status) except -1
    cdef int answered(self, Exchange ex, object ready) except -1
    cdef int failed(self, Exchange ex, int code) except -1
    cdef int erred(self, int code) except -1
    cdef int refused(self, const hr_envelope *env, object error) except -1


cdef class Starter:
    # How coroutines of handlers start on an event loop.
    cdef readonly object spawn           # (coroutine) -> task, first step already run

    # Starts coro. With `finished` set it has ended in its first step: gives its result, raises its exception.
    # Otherwise gives its task.
    cdef object start(self, object coro, bint *finished)


cdef class Runtime:
    # What the mux needs of an event loop, injected, so that it runs in tests with plain functions.
    cdef readonly object create_future   # () -> future
    cdef readonly object call_soon       # (callback) -> handle
    cdef readonly object call_at         # (when, callback) -> handle with cancel()
    cdef readonly object time            # () -> float, the clock of call_at
    cdef readonly object clock           # () -> float, any clock that only counts up: for stamps of events
    cdef readonly object spawn           # (coroutine) -> task, first step already run
    cdef Starter starter                 # the same for handlers
    cdef readonly object run_thread      # (function, *args) -> future
    cdef readonly object post            # (function, *args) from any thread -> called on the loop, in order
    cdef readonly object report          # (message, exception) -> None, for faults of our own
    cdef public object observer          # is told of every message (see mux/observer.py), or None
    cdef readonly Py_ssize_t in_flight   # over all muxes of this runtime
    cdef Py_ssize_t max_in_flight
    cdef readonly long long requests     # of peers, begun so far
    cdef long long goal                  # `requests` at which `on_goal` is called, once
    cdef object on_goal
    cdef dict waiting                    # muxes with parked requests that the bound above holds, oldest first
    cdef readonly set links              # server's connections: `unsent_bytes`, shed()
    cdef Py_ssize_t max_unsent
    cdef long long unweighed             # bytes that may still leave before the links are weighed again
    cdef readonly object rates           # requests per second of each caller: see transports/_rates.pyx; or None
    cdef readonly dict shares            # caller -> its requests in flight, where they are bounded
    cdef Py_ssize_t max_share            # that bound, 0: there is none
    cdef readonly dict refusals          # how often what was refused, by kind: see transports/refusals.py
    cdef readonly Meter meter            # counts requests; or None

    cpdef int refused(self, str kind) except -1
    cdef int fault(self, str message, object exc) except -1
    cdef int admit(self) except -1
    cdef int sending(self, Py_ssize_t n) except -1
    cdef int reached(self) except -1

    cdef inline int begun(self) except -1:
        # A request of a peer begins.
        self.requests += 1
        return self.reached() if self.requests == self.goal else 0


cdef class Revision:
    # Prepared tables of one protocol revision of one server (or client).
    cdef readonly str name
    cdef readonly bytes token            # the name as a JSON string
    cdef readonly bytes version          # the name as a header value
    cdef readonly bint modern
    cdef readonly bint structured        # results may hold structuredContent (2025-06-18 and later)
    cdef int index                       # of its numbers in a Series
    cdef readonly dict requests          # method (bytes) -> Handler
    cdef bytes tail                      # closes a result object: b'}' or b',"resultType":...}'
    cdef public Handler fallback         # serves every method that `requests` does not name, or None
    cdef bytes last_method               # one-entry cache in front of `requests`
    cdef Handler last_handler

    cdef Handler find(self, const hr_token *method)


cdef class Words:
    # Names of the notifications that correlate: see mux/names.py.
    cdef object names
    cdef bytes cancel                    # method, or None
    cdef bytes cancelling                # the notification up to the id
    cdef str cancel_id
    cdef object cancel_code
    cdef bytes progress                  # method, or None
    cdef str token

    cdef int take(self, Mux mux, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1
    cdef bint handle(self, Mux mux, const hr_envelope *env) except -1


cdef class Handler:
    # How one method (or one name of a method) is served.
    cdef public bint urgent              # also served over the in-flight limit
    cdef public bint cancellable
    cdef public str method               # the method it serves, where its requests may ask for input
    cdef public bint loose               # params and results may be any JSON, as in bare JSON-RPC
    cdef public str tool                 # the tool that it is, or None
    cdef public bint names               # it leaves requests to handlers that it finds by name
    cdef Series series                   # where its requests are counted, once one was
    cdef int start(self, Exchange ex, const hr_envelope *env) except -1
    cdef int again(self, Exchange ex) except -1
    cdef object ready(self, Exchange ex, object result)
    cdef int write_result(self, Exchange ex, Outbuf out, object result) except -1
    cdef object error_of(self, Exchange ex, object exc)
    cdef bint tells_failure(self, object ready) except -1


cdef class FunctionHandler(Handler):
    cdef object function                 # (exchange) -> result or coroutine

    cdef int run(self, Exchange ex) except -1


cdef class AnyMethod(FunctionHandler):
    pass


cdef class Diverted(Handler):
    cdef readonly Handler handler
    cdef object choose                   # (exchange) -> coroutine or None


cdef class RawResult:
    cdef readonly bytes body             # a whole result object, sent as it is


cdef class Exchange:
    # One request of the peer, from its arrival to its answer.
    cdef readonly Mux mux
    cdef readonly Sink sink
    cdef readonly Revision revision
    cdef Handler handler
    cdef str named                       # the method, when the handler serves any
    cdef readonly bytes id               # raw token
    cdef bytes token                     # raw progress token, or None
    cdef readonly bytes params           # raw, when the handler asked to keep them
    cdef readonly bytes meta             # raw _meta, when the handler asked to keep it
    cdef readonly object task            # task or future once it did not finish at once
    cdef readonly object principal
    cdef public object asker             # where questions to the client go: see protocol/asking.py
    cdef public object on_cancel         # () called when the request is given up, instead of cancelling its task
    cdef public object cancel_error      # answers a request that its peer cancels, where its wire needs an end; or None
    cdef object share                    # its caller, while it counts in runtime.shares
    cdef Exchange outer                  # the exchange whose handler was starting when this one came
    cdef double progress_done            # last progress value sent
    cdef readonly unsigned char state    # 0 running, 1 answered, 2 cancelled
    cdef bint counted                    # in mux.in_flight
    cdef bint listed                     # in mux.inflight
    cdef bint failing                    # an error is being answered
    cdef bint renewed                    # another future has taken the place of the one that is done
    cdef readonly bint resumed           # params brings answers or state of an earlier round (MX-32)
    cdef readonly bint tasked            # params asks for a task (TK-02)
    cdef long long began                 # nanoseconds of a clock, or 0: it is not measured (any more)
    cdef PyObject *series                # where it counts, if its handler does not say so (a reference), or NULL
    cdef object __weakref__

    cpdef int release(self) except -1
    cpdef bint tell(self, bytes method, bytes params) except? False
    cdef int keep(self, const hr_envelope *env) except -1
    cdef int run_coroutine(self, object coro) except -1
    cdef int run_future(self, object future) except -1
    cdef int complete(self, object task) except -1
    cdef int finish(self, object result) except -1
    cdef int fail(self, object exc) except -1
    cdef int fail_rpc(self, object error) except -1
    cdef int unwritable(self, object exc) except -1
    cdef int unheard(self) except -1
    cdef int ended(self) except -1
    cdef int suspend(self) except -1
    cdef int unlist(self) except -1
    cdef int give_up(self, object code) except -1
    cdef int stop_handler(self) except -1
    cdef int count_in(self, Series series) except -1


cdef class PendingCall:
    # One request of ours, from sending to its answer.
    cdef readonly Mux mux
    cdef readonly Sink sink
    cdef readonly long long id           # 0 when the caller chose one that is no number
    cdef object key                      # of the table `pending`
    cdef bytes token                     # the raw id when the caller chose it, else None
    cdef readonly str method
    cdef readonly object future
    cdef object decode                   # (bytes-like) -> value
    cdef object on_progress              # (progress, total, message) or None
    cdef double timeout                  # seconds, 0: none
    cdef double deadline                 # absolute, 0: none
    cdef double latest                   # absolute maximum, 0: none
    cdef bint extend                     # progress restarts the clock
    cdef bint followed                   # answered by a task: its progress goes on (MX-04)
    cdef readonly object attached        # the transport's own record of this call; before: Mux.call(extra=)

    cdef int take_id(self, Mux mux, object id) except -1
    cdef int resolve(self, const hr_token *result) except -1
    cdef int reject(self, object exc) except -1
    cdef bint overdue(self, double now)
    cdef bint spared(self, double now) except? True
    cdef str lateness(self, double now)


cdef class Sink:
    # Where the messages of one connection or of one HTTP exchange go.
    cdef readonly Outbuf out
    cdef public bint closed
    cdef public object principal         # the authenticated peer, or None
    cdef readonly bint persistent        # requests over the limit may be parked
    cdef bint metered                    # requests are taken out of runtime.rates here: the transport does not
    cdef int status                      # HTTP status of the message being received, or 0
    cdef int wait                        # seconds of Retry-After for the error being answered, 0: none were said
    cdef public object taken             # a future: the message counts as taken when that is done; or None
    cdef bint more                       # the answer being written is not the last one (see several)

    cdef Revision route(self, Mux mux, const hr_envelope *env)
    cdef int open_response(self, Exchange ex, int code, int status) except -1
    cdef int close_response(self, Exchange ex) except -1
    cdef int open_message(self, Exchange ex) except -1
    cdef int close_message(self, Exchange ex) except -1
    cdef int rollback(self) except -1
    cdef int send_call(self, PendingCall call, bytes method, bytes params, str name) except -1
    cdef int drop_call(self, PendingCall call, str reason) except -1
    cdef bint admits(self, PendingCall call) except? False
    cdef bint unmatched(self, const hr_envelope *env) except? True
    cdef int pause(self) except -1
    cdef int resume(self) except -1
    cdef int accepted(self) except -1
    cdef int started(self, Exchange ex) except -1
    cdef int abandoned(self, Exchange ex) except -1
    cdef bint several(self, Sink batch) except -1
    cdef object caller(self)
    cdef str retry_after(self)
    cdef bint congested(self)
    cdef object drained(self)


cdef class Mux:
    cdef readonly Runtime runtime
    cdef readonly object gate            # the protocol layer: see mux/gate.py
    cdef public Revision modern          # table of the per-request-metadata era, or None
    cdef public Revision current         # negotiated handshake revision, or None
    cdef readonly dict inflight          # id key -> Exchange
    cdef readonly dict pending           # our id -> PendingCall; strings that are no numbers as they are
    cdef dict parked                     # id key -> (frame, sink)
    cdef Py_ssize_t parked_bytes
    cdef Sink held                       # the sink that was paused because of `parked`, or None
    cdef Exchange starting               # innermost exchange whose handler runs its first step
    cdef readonly Py_ssize_t in_flight
    cdef readonly Py_ssize_t stray       # answers nobody waited for
    cdef Py_ssize_t max_in_flight, max_parked, max_pending
    cdef Py_ssize_t unjudged             # with fewer in flight nothing can hold a request: 0 or max_in_flight
    cdef unsigned int max_depth
    cdef unsigned int flags              # of the envelope scan
    cdef Words words                     # names of cancel and progress where they are not MCP's, or None
    cdef hr_meta_memo *memo              # of the last _meta of the modern era, once there was one
    cdef readonly bint scoped            # ids of one connection or session share one scope
    cdef public bint null_ids            # unreadable ids are answered as null (R1-R3, JR-13)
    cdef bint unparking
    cdef public str prefix               # begins the ids of our requests, where other processes get their answers; or None
    cdef public bint tees                # the gate is told of `cancelled` and `progress` too, once they took effect
    cdef public bint draining            # new requests are refused: the server shuts down
    cdef public Py_ssize_t asked         # questions of the peer that a person or a model thinks about
    cdef double patience                 # seconds that such calls are spared at most
    cdef public bint closed
    cdef readonly object close_reason
    cdef long long next_id
    cdef public bint chosen              # some ids of ours were chosen by callers, or 7 may come back as "7"
    cdef object timer
    cdef double timer_at
    cdef readonly object idle_waiter     # future set when nothing is in flight any more

    cdef int receive(self, const char *p, Py_ssize_t n, Sink sink) except -1
    cdef int dispatch(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1
    cdef int begin(self, Handler handler, Revision revision, const hr_envelope *env, Sink sink) except -1
    cdef int request(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink, bint unparked) except -1
    cdef int response(self, const hr_envelope *env, Sink sink) except -1
    cdef int notification(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1
    cdef int take_note(self, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1
    cdef int refuse(self, const hr_envelope *env, Sink sink, int code, str message, int status, str kind=*) except -1
    cdef int refuse_error(self, const hr_envelope *env, Sink sink, object error) except -1
    cdef int unpark(self, Py_ssize_t most) except -1
    cdef bint unpark_one(self) except -1
    cdef int release(self) except -1
    cdef int check_idle(self) except -1
    cdef Exchange running(self, bytes key)
    cdef int send(self, PendingCall call, bytes method, bytes params, str name, double timeout, double latest) except -1
    cdef int arm(self, double deadline) except -1
    cdef bytes id_key(self, const hr_token *id)
    cdef bytes key_of(self, bytes id)


cdef object read_error(const hr_token *error)    # the exception of an error answer, not raised
