# Part of the module _mux: one request of the peer, from its arrival to its answer.


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
        self.sink.abandoned(self)

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
