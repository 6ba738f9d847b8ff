# Part of the module _mux: the event loop as plain callables, and the bound that all muxes share.


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
        self.waiting = {}

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
