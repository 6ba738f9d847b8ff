# Part of the module _mux: the event loop as plain callables, and the bound that all muxes share.


cdef class Starter:
    """How coroutines of handlers start. This one makes a task of each; an event loop may know better."""

    cdef object start(self, object coro, bint *finished):
        task = self.spawn(coro)
        if task.done():
            finished[0] = True
            return task.result()
        return task


cdef class Runtime:
    """What the mux needs of an event loop, as plain callables.

    `create_future()`, `call_soon(callback)`, `call_at(when, callback)` -> handle with ``cancel()``,
    `time()` in seconds, `spawn(coroutine)` -> task whose first step has run (where it is the method of a
    Starter, handlers start by that one's `start`), `run_thread(function, *args)` -> future, `post(function,
    *args)` from any thread (runs on the loop, before the results of later thread calls), `report(message,
    exception)` for faults that no caller gets to see.
    `max_in_flight` bounds the requests being handled over all muxes that share this runtime; `max_unsent`
    the output, in bytes, that the peers of all `links` have not taken. `observer`, where one is set, is told of every
    message (:class:`headrace.mux.Observer`). `clock()` gives seconds for stamps of
    events, any clock that only counts up; the default is `time`. `rates` bounds the requests per second of each
    caller (see headrace.transports._rates), `max_share` those of one caller in flight; None and 0 do not.
    """

    def __init__(self, *, create_future, call_soon, call_at, time, spawn, run_thread, post, report,
                 Py_ssize_t max_in_flight=65536, Py_ssize_t max_unsent=1 << 29, clock=None, rates=None,
                 Py_ssize_t max_share=0):
        self.create_future = create_future
        self.call_soon = call_soon
        self.call_at = call_at
        self.time = time
        self.clock = time if clock is None else clock
        self.spawn = spawn
        owner = getattr(spawn, "__self__", None)
        if isinstance(owner, Starter):
            self.starter = owner
        else:
            self.starter = Starter.__new__(Starter)
            self.starter.spawn = spawn
        self.run_thread = run_thread
        self.post = post
        self.report = report
        self.max_in_flight = max_in_flight
        self.in_flight = 0
        self.waiting = {}
        self.links = set()
        self.max_unsent = max_unsent
        self.unweighed = max_unsent
        self.refusals = {}
        self.rates = rates
        self.max_share = max_share
        self.shares = {}

    cpdef int refused(self, str kind) except -1:
        """Counts one refusal."""
        self.refusals[kind] = self.refusals.get(kind, 0) + 1
        return 0

    def turned_away(self, link not None, int status):
        """Tells an observer, where there is one, of an HTTP request on `link` that gets nothing but an error status."""
        if self.observer is None:
            return
        try:
            self.observer.turned_away(self, link.peer, status)
        except Exception as exc:
            self.fault("an observer failed on an HTTP request that was turned away", exc)

    cdef int fault(self, str message, object exc) except -1:
        """Reports a fault; reporting never makes another."""
        try:
            self.report(message, exc)
        except Exception:
            pass
        return 0

    cdef int admit(self) except -1:
        """Gives free places to the muxes that wait for one: one request each in turn, so that no busy
        connection keeps the others waiting."""
        cdef Mux mux
        while self.waiting and self.in_flight < self.max_in_flight:
            mux = next(iter(self.waiting))
            del self.waiting[mux]
            mux.unpark(1)
            mux.check_idle()
        return 0

    cdef int sending(self, Py_ssize_t n) except -1:
        """A link of a server hands n bytes to its transport. What peers have not taken is weighed only when
        enough has left since the last time for it to be too much."""
        self.unweighed -= n
        if self.unweighed < 0:
            self.weigh()
        return 0

    def measure(self, Meter meter not None):
        """Counts requests in `meter` from now on. LocalProtocolError where another one does so already."""
        if self.meter is not None and self.meter is not meter:
            raise LocalProtocolError("this runtime is measured already")
        self.meter = meter
        meter.attached(self)

    def call_at_request(self, long long number, on_goal):
        """Has `on_goal()` called soon after that many requests have begun; at once where they have already."""
        self.goal = number
        self.on_goal = on_goal
        if number <= self.requests:
            self.reached()

    cdef int reached(self) except -1:
        cdef object on_goal = self.on_goal
        self.goal = 0
        self.on_goal = None
        self.call_soon(on_goal)
        return 0

    def weigh(self):
        """Ends the connections that hold the most output until all of them hold no more than the bound."""
        cdef Py_ssize_t total = 0
        cdef list loads = []
        for link in self.links:
            load = link.unsent_bytes
            if load:
                total += load
                loads.append((load, id(link), link))
        if total > self.max_unsent:
            loads.sort(reverse=True)
            for load, _, link in loads:
                self.refused("max_unsent_bytes")
                link.shed()
                total -= load
                if total <= self.max_unsent:
                    break
        self.unweighed = max(self.max_unsent - total, self.max_unsent >> 4)
