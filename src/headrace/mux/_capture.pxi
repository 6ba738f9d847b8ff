# Part of the module _mux: a handler run on behalf of a request, with its answer captured.
#
# Strategy: a Captured is an Exchange like any other for the handler that it runs, but ends in a future
# instead of a sink. What it sends meanwhile goes out as the request it stands for, or, once that was
# answered (a task outlives it), through `outlet`.


@cython.final
cdef class Captured(Exchange):
    """One run of a handler whose answer is kept: made by :func:`capture`.

    `future` gets the bytes of the result object, complete as they would have been sent, or the
    RpcError that would have been sent (as a result: nobody has to look at it). It is cancelled by
    :meth:`cancel`. `origin` is the request that this run stands for.
    """

    cdef readonly Exchange origin
    cdef readonly object future
    cdef readonly bint detached          # the origin may be answered: nothing goes through it any more
    cdef public object starter           # makes a task of the run when its handler says so, or None
    cdef object outlet                   # (method, params) -> future or None, or None; when detached
    cdef bint stubborn                   # cancelled, and its handler still runs: it counts itself
    cdef bint own_token                  # progress goes through the outlet
    cdef object watch                    # (done, total, message) of each progress once detached, or None

    @property
    def open(self):
        """True while an answer or a notification can still be taken."""
        return self.state == RUNNING and (self.detached or self.origin.open)

    def detach(self, outlet=None, *, Sink sink=None, watch=None, bint progress=False):
        """Lets the run outlive its request: from now on what it sends goes to ``outlet(method, params)``,
        or nowhere. `sink` takes the place of the request's own. ``watch(done, total, message)`` is told of
        progress; with `progress` it also goes on under the request's token, through the outlet (MX-04)."""
        self.detached = True
        self.outlet = outlet
        self.watch = watch
        self.own_token = progress
        if sink is not None:
            self.sink = sink
        if not progress:
            self.token = None

    cdef int suspend(self) except -1:
        # The request that this stands for is in flight and counts; a detached run is a task's, which
        # has bounds of its own.
        self.counted = True
        return 0

    cdef int ended(self) except -1:
        cdef Mux mux = self.mux
        self.release()
        if not self.counted:
            return 0
        self.counted = False
        if self.stubborn:
            self.stubborn = False
            mux.in_flight -= 1
            mux.runtime.in_flight -= 1
            if self.share is not None:
                leave(self)
            return mux.release()
        return 0

    cdef int settle(self, object answer) except -1:
        if not self.future.done():
            self.future.set_result(answer)
        return 0

    cdef int finish(self, object result) except -1:
        cdef Outbuf out
        cdef object fault = None
        if self.state != RUNNING:
            return 0
        self.state = ANSWERED
        try:
            ready = self.handler.ready(self, result)
            out = Outbuf.__new__(Outbuf)
            self.handler.write_result(self, out, ready)
            taken = out.take()
        except BaseException as exc:
            fault = exc
        if fault is not None:
            return self.unwritable(fault)
        return self.settle(taken)

    cdef int fail_rpc(self, object error) except -1:
        if self.state != RUNNING:
            return 0
        self.state = ANSWERED
        return self.settle(error)

    def cancel(self, reason=None):
        """Gives the run up: the handler's task is cancelled, and the future."""
        cdef Mux mux = self.mux
        if self.state == RUNNING:
            self.state = CANCELLED
            if self.task is not None:
                if self.counted and not self.detached and not self.task.done():
                    # The request ends before its handler: until that has ended it counts.
                    self.stubborn = True
                    mux.in_flight += 1
                    mux.runtime.in_flight += 1
                    if self.origin.share is not None:
                        join(self, self.origin.share)
                self.task.cancel()
        if not self.future.done():
            self.future.cancel()

    def __await__(self):
        try:
            return (yield from self.future.__await__())
        except BaseException:
            self.cancel()
            raise

    def notify(self, bytes method not None, bytes params=None):
        """Sends a notification as the request that this run stands for; see :meth:`Exchange.notify`."""
        if self.state != RUNNING:
            return None
        if not self.detached:
            return self.origin.notify(method, params)
        return None if self.outlet is None else self.outlet(method, params)

    cpdef bint tell(self, bytes method, bytes params) except? False:
        """See :meth:`Exchange.tell`; True when the notification left, or went to the outlet."""
        if self.state != RUNNING:
            return False
        if not self.detached:
            return self.origin.tell(method, params)
        if self.outlet is None:
            return False
        self.outlet(method, params)
        return True

    def progress(self, double done, total=None, message=None):
        """Sends progress as the request that this run stands for; see :meth:`Exchange.progress`."""
        if self.state != RUNNING:
            return None
        if not self.detached:
            return self.origin.progress(done, total, message)
        if self.watch is not None:
            self.watch(done, total, message)
        return Exchange.progress(self, done, total, message) if self.own_token else None


cdef class Diverted(Handler):
    """A handler in front of another: ``choose(exchange)`` gives a coroutine whose result is the answer, or
    None to let `handler` serve the request as if this one were not there; it may raise RpcError."""

    def __init__(self, Handler handler not None, choose):
        self.handler = handler
        self.choose = choose
        self.urgent = handler.urgent
        self.cancellable = handler.cancellable
        self.tool = handler.tool

    cdef int start(self, Exchange ex, const hr_envelope *env) except -1:
        ex.keep(env)
        try:
            coro = self.choose(ex)
        except Exception as exc:
            return ex.fail(exc)
        if coro is not None:
            return ex.run_coroutine(coro)
        ex.handler = self.handler
        return self.handler.start(ex, env)


def capture(Exchange origin not None, Handler handler not None, bytes params, *, asker=None, detach=None,
            starter=None):
    """Runs `handler` for `params` (a raw JSON object or None) on behalf of `origin`; its answer is captured.

    What the handler sends goes out as a notification of `origin`, unless it is detached; ``detach(run)`` is
    called before the handler starts, for runs that are detached from the start. `asker` takes the handler's
    questions to the client instead of the origin's own. `starter` is what the handler finds as the run's. The
    handler's first step has run when this returns.
    Raises RpcError when `params` is no JSON object within the bounds of the connection. Whoever awaits the
    future cancels the returned run when it is cancelled itself: ``await run`` does that.
    """
    cdef Captured run
    cdef hr_envelope env
    cdef bytes frame
    if params is None:
        params = b"{}"
    frame = b'{"jsonrpc":"2.0","id":0,"method":"","params":' + params + b'}'
    if hr_envelope_scan(
        PyBytes_AS_STRING(frame), PyBytes_GET_SIZE(frame), origin.mux.max_depth, 0, &env
    ) != HR_OK or env.kind != HR_REQUEST or env.params.type != HR_T_OBJECT:
        raise RpcError(INVALID_PARAMS, "params must be an object")
    run = Captured.__new__(Captured)
    run.mux = origin.mux
    run.sink = origin.sink
    run.revision = origin.revision
    run.handler = handler
    run.id = origin.id
    run.token = origin.token
    run.progress_done = origin.progress_done
    run.principal = origin.principal
    run.origin = origin
    run.future = origin.mux.runtime.create_future()
    run.asker = origin.asker if asker is None else asker
    run.starter = starter
    if detach is not None:
        detach(run)
    try:
        handler.start(run, &env)
    except Exception as exc:
        if run.state != RUNNING or run.counted:
            run.mux.runtime.fault("a request was handled, but not to its end", exc)
        else:
            run.fail(exc)
    return run
