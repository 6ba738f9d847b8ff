# Part of the module _mux: messages that somebody watches (tracing, logs). Nothing of it runs without an observer.


@cython.final
cdef class Observed(Exchange):
    """One request of the peer whose beginning and end an :class:`headrace.mux.Observer` is told of.

    `what` is its method, `target` the name of a tool or prompt or the URI of a resource that it names, `said` its
    raw ``_meta``. Once it is over, `outcome` is ``"ok"``, ``"tool_error"`` (a result with ``isError``), ``"error"``
    (then `error` is the RpcError that was answered) or ``"cancelled"``; `cause` is the exception that the handler
    raised, during :meth:`Observer.end` alone.
    """

    cdef readonly str what
    cdef readonly str target
    cdef readonly bytes said
    cdef readonly str outcome            # None while it runs
    cdef readonly object error
    cdef readonly object cause
    cdef readonly Py_ssize_t asked_bytes
    cdef readonly Py_ssize_t answer_bytes
    cdef object observer
    cdef object seen                     # what its observer gave for the beginning

    cdef int over(self, str outcome) except -1:
        if self.outcome is not None:
            return 0
        self.outcome = outcome
        observer = self.observer
        seen = self.seen
        self.observer = self.seen = None
        if observer is not None:
            try:
                observer.end(self, seen)
            except Exception as exc:
                self.mux.runtime.fault("an observer failed at the end of a request", exc)
        self.cause = None
        return 0

    cdef int finish(self, object result) except -1:
        cdef Outbuf out
        cdef bytes body
        cdef object fault = None
        if self.state != RUNNING:
            return 0
        if self.sink.closed:
            self.state = ANSWERED
            self.unheard()
            return self.over("cancelled")
        self.state = ANSWERED                # code of the application runs in here, see Exchange.finish
        try:
            ready = self.handler.ready(self, result)
            out = Outbuf.__new__(Outbuf)
            self.handler.write_result(self, out, ready)
            body = out.take()
        except BaseException as exc:
            fault = exc
        if fault is not None:
            return self.unwritable(fault)
        self.answer_bytes = PyBytes_GET_SIZE(body)
        outcome = "tool_error" if self.what == "tools/call" and says_error(body) else "ok"
        self.state = RUNNING
        try:
            return Exchange.finish(self, RawResult(body))
        finally:
            self.over(outcome)

    cdef int fail(self, object exc) except -1:
        if self.state == RUNNING:
            self.cause = exc
        Exchange.fail(self, exc)
        if self.state == RUNNING:
            self.cause = None                # the request goes on: see `rerun`
        return 0

    cdef int fail_rpc(self, object error) except -1:
        if self.state != RUNNING:
            return 0
        self.error = error
        try:
            return Exchange.fail_rpc(self, error)
        finally:
            self.over("error")

    def cancel(self, reason=None):
        """See :meth:`Exchange.cancel`."""
        try:
            Exchange.cancel(self, reason)
        finally:
            if self.state == CANCELLED:
                self.over("cancelled")


cdef str word_of(const hr_token *token):
    return token_str(token) if token.type == HR_T_STRING else None


cdef int observe(Mux mux, Handler handler, Revision revision, const hr_envelope *env, Sink sink) except -1:
    """Does what Mux.begin does for a request that nobody watches."""
    cdef Observed ex = Observed.__new__(Observed)
    cdef object observer = mux.runtime.observer
    ex.mux = mux
    ex.sink = sink
    ex.principal = sink.principal
    ex.revision = revision
    ex.handler = handler
    ex.id = PyBytes_FromStringAndSize(env.id.p, env.id.n)
    if env.progress_token.type == HR_T_STRING or env.progress_token.type == HR_T_INT:
        ex.token = PyBytes_FromStringAndSize(env.progress_token.p, env.progress_token.n)
        ex.progress_done = -1e308
    ex.what = token_str(&env.method)
    ex.target = word_of(&env.name)
    if ex.target is None:
        ex.target = word_of(&env.uri)
    if env.meta.type == HR_T_OBJECT:
        ex.said = PyBytes_FromStringAndSize(env.meta.p, env.meta.n)
    ex.asked_bytes = env.params.n
    if mux.runtime.meter is not None:
        mux.runtime.meter.begin(ex, handler, env)
    ex.outer = mux.starting
    mux.starting = ex
    try:
        try:
            ex.seen = observer.begin(ex)
            ex.observer = observer
        except Exception as exc:
            mux.runtime.fault("an observer failed at the beginning of a request", exc)
        seen = ex.seen
        try:
            handler.start(ex, env)
        except Exception as exc:
            if ex.state != RUNNING or ex.counted:
                mux.runtime.fault("a request was handled, but not to its end", exc)
            else:
                ex.fail(exc)
        finally:
            try:
                observer.leave(ex, seen)
            except Exception as exc:
                mux.runtime.fault("an observer failed behind the first step of a request", exc)
    finally:
        mux.starting = ex.outer
        ex.outer = None
    return 0


cdef int observe_refusal(Mux mux, const hr_envelope *env, Sink sink, object error) except -1:
    """A request is answered with an error before anything has begun."""
    if env.kind != HR_REQUEST:
        return 0
    said = PyBytes_FromStringAndSize(env.meta.p, env.meta.n) if env.meta.type == HR_T_OBJECT else None
    id = PyBytes_FromStringAndSize(env.id.p, env.id.n) if env.id_usable else None
    try:
        mux.runtime.observer.refused(mux, sink, word_of(&env.method) or "", id, said, error)
    except Exception as exc:
        mux.runtime.fault("an observer failed on a request that was refused", exc)
    return 0


cdef int observe_note(Mux mux, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
    """Does what Mux.notification does for one that nobody watches."""
    cdef object observer = mux.runtime.observer
    seen = None
    said = PyBytes_FromStringAndSize(env.meta.p, env.meta.n) if env.meta.type == HR_T_OBJECT else None
    try:
        seen = observer.notified(mux, sink, word_of(&env.method) or "", said)
    except Exception as exc:
        mux.runtime.fault("an observer failed at the beginning of a notification", exc)
        return mux.take_note(p, n, env, sink)
    try:
        return mux.take_note(p, n, env, sink)
    finally:
        try:
            observer.noted(seen)
        except Exception as exc:
            mux.runtime.fault("an observer failed at the end of a notification", exc)


cdef bytes observe_call(Mux mux, PendingCall call, bytes params, str name):
    """The params that a request of ours leaves with."""
    try:
        return mux.runtime.observer.sending(mux, call, params, name)
    except Exception as exc:
        mux.runtime.fault("an observer failed on a request that is sent", exc)
        return params


cdef int observe_answer(Mux mux, PendingCall call, const hr_envelope *env) except -1:
    """The answer to a request of ours has come, and is not read yet."""
    cdef bint failed = False
    if env.kind == HR_RESULT and call.method == "tools/call" and env.result.type == HR_T_OBJECT:
        failed = says_error(PyBytes_FromStringAndSize(env.result.p, env.result.n))
    try:
        mux.runtime.observer.answered(call, failed)
    except Exception as exc:
        mux.runtime.fault("an observer failed on an answer", exc)
    return 0
