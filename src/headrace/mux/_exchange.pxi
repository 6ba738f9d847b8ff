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
        if self.series is not NULL:
            Py_DECREF(<object>self.series)

    @property
    def request_id(self):
        """The peer's id with its JSON type: str or int."""
        try:
            return decode_any(self.id)
        except ValueError:
            return self.id.decode()  # more digits than Python makes an int of

    @property
    def method(self):
        """The method of the request, where its handler was told; else None."""
        if self.named is not None:
            return self.named
        return None if self.handler is None else self.handler.method

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

    cpdef int release(self) except -1:
        """Lets go of the raw params and _meta: for requests that stay open long after they were read."""
        self.params = None
        self.meta = None
        return 0

    cdef int keep(self, const hr_envelope *env) except -1:
        """Copies params and _meta for handlers that look at them."""
        if env.params.n:
            self.params = PyBytes_FromStringAndSize(env.params.p, env.params.n)
        self.resumed = env.resumed
        self.tasked = env.tasked
        if env.meta.type == HR_T_OBJECT:
            self.meta = PyBytes_FromStringAndSize(env.meta.p, env.meta.n)
        return 0

    cdef int run_coroutine(self, object coro) except -1:
        cdef bint finished = False
        try:
            outcome = self.mux.runtime.starter.start(coro, &finished)
        except BaseException as exc:
            self.fail(exc)
            if isinstance(exc, KeyboardInterrupt):
                raise
            return 0
        return self.finish(outcome) if finished else self.run_future(outcome)

    cdef int run_future(self, object future) except -1:
        if self.task is not None:
            raise LocalProtocolError("this request waits for a future already")
        self.task = future
        if self.counted:
            self.renewed = True
        else:
            self.suspend()
        future.add_done_callback(self)
        if self.state == CANCELLED and self.on_cancel is None:
            # Given up in the middle of the handler's first step.
            future.cancel()
        return 0

    cdef int suspend(self) except -1:
        cdef Mux mux = self.mux
        self.counted = True
        mux.in_flight += 1
        mux.runtime.in_flight += 1
        if mux.runtime.max_share:
            join(self, self.sink.caller())
        if self.state == RUNNING:
            if mux.scoped:
                mux.inflight[mux.key_of(self.id)] = self
                self.listed = True
            self.sink.started(self)
        return 0

    cdef int unlist(self) except -1:
        """The id is free again (JR-05: it only has to differ from those still unanswered)."""
        cdef Mux mux = self.mux
        if self.listed:
            self.listed = False
            key = mux.key_of(self.id)
            if mux.inflight.get(key) is self:
                del mux.inflight[key]
        return 0

    cdef int ended(self) except -1:
        cdef Mux mux = self.mux
        # A traceback may hold this in a cycle until the collector runs, which knows nothing of sizes; a task
        # holds it as long as it runs.
        self.release()
        if not self.counted:
            return 0
        self.counted = False
        self.unlist()
        mux.in_flight -= 1
        mux.runtime.in_flight -= 1
        if self.share is not None:
            leave(self)
        return mux.release()

    def __call__(self, task):
        """Done callback of the handler's task or future."""
        self.renewed = False
        try:
            self.complete(task)
        finally:
            if self.renewed:
                self.renewed = False
            else:
                self.ended()

    def rerun(self, coro):
        """Runs `coro` after the handler has ended without an answer, and then the handler once more; the
        request stays in flight. An exception of `coro` is answered."""
        task = self.mux.runtime.spawn(coro)
        self.task = task
        if self.counted:
            self.renewed = True
        else:
            self.suspend()
        task.add_done_callback(self.run_again)
        if self.state == CANCELLED:
            task.cancel()

    def run_again(self, task):
        """Done callback of what `rerun` started."""
        self.renewed = False
        try:
            if self.state != RUNNING:
                if not task.cancelled():
                    task.exception()
                return
            try:
                task.result()
            except BaseException as exc:
                self.fail(exc)
                return
            self.task = None
            try:
                self.handler.again(self)
            except Exception as exc:
                self.fail(exc)
        finally:
            if self.renewed:
                self.renewed = False
            else:
                self.ended()

    cdef int complete(self, object task) except -1:
        """Answers with the outcome of `task`, or swallows it after a cancel (MX-15)."""
        if self.state != RUNNING:
            if not task.cancelled():
                task.exception()
            return 0
        try:
            result = task.result()
        except BaseException as exc:
            return self.fail(exc)
        return self.finish(result)

    cdef int finish(self, object result) except -1:
        """Answers with `result`; a second answer, or one after a cancel, is dropped."""
        cdef Sink sink = self.sink
        cdef Outbuf out
        cdef object ready
        cdef object fault
        if self.state != RUNNING:
            return 0
        # The application's own code may run while the result is made ready: whatever it does to this
        # exchange comes too late already.
        self.state = ANSWERED
        if sink.closed:
            return self.unheard()
        try:
            ready = self.handler.ready(self, result)
        except BaseException as exc:
            return self.unwritable(exc)
        if sink.closed:
            return self.unheard()
        sink.open_response(self, 0, 0)
        out = sink.out
        fault = None
        try:
            out.put(b'{"jsonrpc":"2.0","id":', 22)
            out.put_bytes(self.id)
            out.put(b',"result":', 10)
            self.handler.write_result(self, out, ready)
            out.put(b'}', 1)
        except BaseException as exc:
            sink.rollback()
            fault = exc
        if fault is not None:
            return self.unwritable(fault)
        if self.began:
            self.mux.runtime.meter.answered(self, ready)
        self.unlist()
        return sink.close_response(self)

    cdef int unheard(self) except -1:
        """There is an answer, and nobody to take it."""
        if self.began:
            self.mux.runtime.meter.end(self, S_CANCELLED)
        return self.unlist()

    cdef int unwritable(self, object exc) except -1:
        """The result has no JSON form; nothing of it was sent: one error takes its place (B86, B105)."""
        self.state = RUNNING
        if self.failing:
            self.mux.runtime.fault("an error answer could not be written", exc)
            self.fail_rpc(internal_error())
        else:
            self.fail(exc)
        if isinstance(exc, KeyboardInterrupt):
            raise exc
        return 0

    cdef int fail(self, object exc) except -1:
        """Answers with the error that `exc` means."""
        cdef object answer
        if self.state != RUNNING:
            return 0
        self.failing = True
        try:
            answer = self.handler.error_of(self, exc)
        except BaseException as fault:
            self.mux.runtime.fault("an error could not be rendered", fault)
            answer = internal_error()
        if isinstance(answer, RpcError):
            return self.fail_rpc(answer)
        if answer is None:
            self.failing = False
            return 0  # the request goes on: see `rerun`
        # Handlers may answer errors with results of their own (a tool's isError).
        return self.finish(answer)

    cdef int fail_rpc(self, object error) except -1:
        cdef Sink sink = self.sink
        cdef bytes frame
        if self.state != RUNNING:
            return 0
        self.state = ANSWERED
        if self.began:
            self.mux.runtime.meter.failed(self, code_of(error))
        self.unlist()
        if error.refusal is not None:
            self.mux.runtime.refused(error.refusal)
        if sink.closed:
            return 0
        frame = error_frame(self.id, error, self.mux.runtime)
        if sink.closed:
            return 0
        sink.wait = wait_of(error)
        sink.open_response(self, code_of(error), status_of(error))
        sink.out.put_bytes(frame)
        return sink.close_response(self)

    def answer(self, result):
        """Answers with `result` (see FunctionHandler); for handlers that return before they know."""
        self.finish(result)

    def answer_error(self, exc):
        """Answers with the error that `exc` means."""
        self.fail(exc)

    def hold(self, future):
        """Keeps the exchange open until `future` is done; its result is the answer. Once a request."""
        self.run_future(future)

    def cancel(self, reason=None):
        """Gives the request up: the handler's task is cancelled, or ``on_cancel`` called where it is set; nothing
        more is sent (MX-12, MX-15)."""
        if self.state != RUNNING:
            return
        self.state = CANCELLED
        if self.began:
            self.mux.runtime.meter.end(self, S_CANCELLED)
        # The id is free again at once; the handler still counts until it has ended.
        self.unlist()
        self.stop_handler()
        self.sink.abandoned(self)

    cdef int give_up(self, object code) except -1:
        """The peer cancels it; with a `code`, or where `cancel_error` is set, an error says so (see
        Names.cancel_code)."""
        cdef object error = self.cancel_error
        if error is None and code is not None:
            error = cancelled(code)
        if error is None or self.state != RUNNING:
            self.cancel()
            return 0
        if self.began:
            self.mux.runtime.meter.end(self, S_CANCELLED)
        self.fail_rpc(error)
        self.state = CANCELLED
        self.stop_handler()
        return 0

    cdef int count_in(self, Series series) except -1:
        """Counts in `series` whatever the handler is; None: where the handler says."""
        if self.series is not NULL:
            Py_DECREF(<object>self.series)
            self.series = NULL
        if series is not None:
            Py_INCREF(series)
            self.series = <PyObject *>series
        return 0

    cdef int stop_handler(self) except -1:
        if self.on_cancel is not None:
            try:
                self.on_cancel()
            except Exception as exc:
                self.mux.runtime.fault("a request could not be given up", exc)
        elif self.task is not None:
            self.task.cancel()
        return 0

    cpdef bint tell(self, bytes method, bytes params) except? False:
        """Sends a notification that belongs to this request, before its answer (MX-05). False when it
        cannot be carried any more, or by this answer at all."""
        cdef Sink sink = self.sink
        if self.state != RUNNING or sink.closed:
            return False
        if params is not None:
            params = one_line(params)
        if not sink.open_message(self):
            return False
        put_notification(sink.out, method, params)
        sink.close_message(self)
        return True

    def notify(self, bytes method not None, bytes params=None):
        """The same as :meth:`tell`; returns None, or a future that is done when queued output has drained."""
        if self.tell(method, params) and self.sink.congested():
            return self.sink.drained()
        return None

    def progress(self, double done, total=None, message=None):
        """Sends progress if the peer asked for it: values must increase, others are dropped (MX-03).

        Returns as :meth:`notify`. Raises TypeError when `total` is no number. Only MCP's progress can be told
        so: where the peer has other names (Mux.names) nothing is sent.
        """
        cdef Sink sink = self.sink
        cdef Outbuf out
        cdef bytes text = None
        cdef bint bounded
        if (
            self.token is None or self.state != RUNNING or not done > self.progress_done or not isfinite(done)
            or self.mux.words is not None
        ):
            return None
        bounded = total is not None and isfinite(<double>total)
        if message is not None and self.revision.name != "2024-11-05":
            text = encode(text_of(message))
        self.progress_done = done
        if type(self) is not Exchange:
            out = Outbuf.__new__(Outbuf)
            put_progress(out, self.token, done, bounded, <double>total if bounded else 0, text)
            return self.notify(PROGRESS_METHOD, out.take())
        if self.state != RUNNING or sink.closed or not sink.open_message(self):
            return None
        out = sink.out
        out.put_bytes(PROGRESS_OPEN)
        put_progress(out, self.token, done, bounded, <double>total if bounded else 0, text)
        out.put(b'}', 1)
        sink.close_message(self)
        return sink.drained() if sink.congested() else None


cdef int put_progress(Outbuf out, bytes token, double done, bint bounded, double total, bytes text) except -1:
    """The params of a progress notification; `text`: its message as JSON, or None."""
    out.put(b'{"progressToken":', 17)
    out.put_bytes(token)
    out.put(b',"progress":', 12)
    put_number(out, done)
    if bounded:
        out.put(b',"total":', 9)
        put_number(out, total)
    if text is not None:
        out.put(b',"message":', 11)
        out.put_bytes(text)
    return out.put(b'}', 1)


cdef int put_number(Outbuf out, double value) except -1:
    """A finite number as JSON, whole ones without a fraction."""
    if -9007199254740992.0 < value < 9007199254740992.0 and value == <double><long long>value:
        return out.put_int(<long long>value)
    return out.put_bytes(encode(value))
