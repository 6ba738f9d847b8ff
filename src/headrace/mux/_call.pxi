# Part of the module _mux: one request of ours, from sending to its answer.


cdef class PendingCall:
    """One request of ours, from sending to its answer.

    ``await call`` gives the value, and gives the call up when the waiting task is cancelled (B75);
    ``call.future`` is the bare future: who cancels that calls :meth:`cancel` as well.
    """

    def __cinit__(self):
        global live_calls
        if HR_DEBUG:
            live_calls += 1

    def __dealloc__(self):
        global live_calls
        if HR_DEBUG:
            live_calls -= 1

    def __await__(self):
        try:
            return (yield from self.future.__await__())
        except BaseException:
            # The answer's own exceptions come after the call has left the table.
            if self.mux.pending.get(self.key) is self:
                self.cancel()
            raise

    cdef int take_id(self, Mux mux, object id) except -1:
        """The caller chose the id. It is sent as it is; "7" and 7 correlate with the same answers."""
        if type(id) is int:
            self.token = b"%d" % id
            self.key = id
        elif type(id) is str:
            self.token = encode(id)
            self.key = key_of_text(id)
        else:
            raise TypeError(f"a request id is a string or an integer, not {type(id).__name__}")
        if type(self.key) is int and -(1 << 62) < self.key < 1 << 62:
            self.id = self.key
        if self.key in mux.pending:
            raise ValueError(f"request id {id!r} is already in flight")
        mux.chosen = True
        return 0

    cdef int resolve(self, const hr_token *result) except -1:
        cdef object value
        if self.future.done():
            return 0
        value = PyBytes_FromStringAndSize(result.p, result.n)
        if self.decode is not None:
            try:
                value = self.decode(value)
            except Exception as exc:
                return self.reject(
                    RemoteProtocolError(f"the result of {self.method} is not valid: {text_of(exc)}"))
        if not self.future.done():
            self.future.set_result(value)
        return 0

    cdef int reject(self, object exc) except -1:
        if not self.future.done():
            self.future.set_exception(exc)
        return 0

    def fail(self, exc):
        """Ends the call with `exc`: for transports that know it cannot be answered any more (B82)."""
        if self.mux.pending.get(self.key) is self:
            del self.mux.pending[self.key]
        self.reject(exc)

    def attach(self, record):
        """Lets the transport keep its own record of this call."""
        self.attached = record

    def follow(self):
        """The answer was a task: progress under this call's token goes on until :meth:`unfollow` (MX-04)."""
        if not self.mux.closed:
            self.followed = True
            self.deadline = 0
            self.extend = False
            self.mux.pending[self.key] = self

    def unfollow(self):
        """The task has ended, or nobody waits for it."""
        if self.followed:
            self.followed = False
            self.mux.pending.pop(self.key, None)

    def cancel(self, reason=None):
        """Gives the call up and tells the peer in the transport's way (MX-11, B75). Does nothing after
        its end."""
        try:
            if self.mux.pending.get(self.key) is self:
                del self.mux.pending[self.key]
                if not self.sink.closed:
                    self.sink.drop_call(self, None if reason is None else text_of(reason))
        finally:
            if not self.future.done():
                self.future.cancel()

    cdef bint overdue(self, double now):
        return self.deadline != 0 and self.deadline <= now

    cdef bint spared(self, double now) except? True:
        """While somebody here thinks about a question of the peer, the peer cannot go on: the clock of its
        answers starts anew, up to the absolute limit."""
        if self.mux.asked == 0 or self.timeout <= 0 or (self.latest != 0 and now >= self.latest):
            return False
        if self.latest == 0:
            self.latest = now + self.mux.patience
        self.deadline = now + self.timeout
        if self.deadline > self.latest:
            self.deadline = self.latest
        self.mux.arm(self.deadline)
        return True

    cdef str lateness(self, double now):
        if self.latest != 0 and now >= self.latest:
            return "no answer within the absolute limit of this call"
        return f"no answer within {self.timeout:g} s"

    def progressed(self, note):
        """A progress notification for this call arrived."""
        cdef double now
        if self.extend and self.timeout > 0:
            now = self.mux.runtime.time()
            self.deadline = now + self.timeout
            if self.latest != 0 and self.deadline > self.latest:
                self.deadline = self.latest
        if self.on_progress is not None and (self.followed or not self.future.done()):
            try:
                if type(note) is _Progress:
                    self.on_progress(note.progress, note.total, note.message)
                else:
                    self.on_progress(note)
            except (KeyboardInterrupt, SystemExit):
                raise
            except BaseException as exc:
                self.mux.gate.progress_failed(exc)


cdef object key_of_text(str text):
    """The key of an id that came as a string: a number when it spells one."""
    if text.isascii() and (text.isdigit() or (text[:1] == "-" and text[1:].isdigit())) and len(text) < 19:
        return int(text)
    return text


cdef object key_of_token(const hr_token *token):
    """The key that a progress token stands for; None for what is none."""
    if token.type == HR_T_INT:
        return token_int(token)
    return key_of_text(token_str(token)) if token.type == HR_T_STRING else None


cdef object pop_chosen(Mux mux, const hr_envelope *env):
    """The call whose id its answer names in another way than as a small number, or None."""
    cdef object id
    if not mux.chosen or not env.id_usable:
        return None
    id = decode_any(token_bytes(&env.id))
    return mux.pending.pop(key_of_text(id) if type(id) is str else id, None)


cdef int unreadable(Mux mux, int rc, const hr_envelope *env, Sink sink) except -1:
    """Input that is no message (JR-13)."""
    cdef object call
    cdef str reason
    if rc == HR_TOO_DEEP:
        reason = f"nested deeper than {mux.max_depth} levels"
    else:
        reason = "not UTF-8" if rc == HR_BAD_UTF8 else "not a JSON text"
    if env.id_small and not env.method.n and not mux.gate.answers_bad_input:
        # A client reads little else than answers: the call need not wait for its time limit.
        call = mux.pending.get(env.id_int)
        if call is not None and sink.admits(<PendingCall>call):
            del mux.pending[env.id_int]
            (<PendingCall>call).reject(RemoteProtocolError(f"the answer is {reason}"))
            return sink.accepted()
    return mux.refuse(env, sink, PARSE_ERROR, reason, 400, "max_depth" if rc == HR_TOO_DEEP else None)


cdef int malformed_answer(Mux mux, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
    """It fails the call it names and is never answered itself (JR-08, B07)."""
    cdef object call = mux.pending.get(env.id_int) if env.id_small else None
    if call is not None and sink.admits(<PendingCall>call):
        del mux.pending[env.id_int]
        (<PendingCall>call).reject(RemoteProtocolError(env.reason.decode()))
    else:
        mux.stray += 1
        mux.gate.stray(envelope_from(p, n, env), sink)
    if not mux.scoped:
        return mux.refuse(env, sink, INVALID_REQUEST, env.reason.decode(), 400)
    return sink.accepted()


cdef int end_overdue(Mux mux) except -1:
    """Ends the calls whose time is over, and arms the timer for the next ones."""
    cdef double now = mux.runtime.time()
    cdef double earliest = 0
    cdef double soonest
    cdef PendingCall call
    cdef list overdue = []
    for call in mux.pending.values():
        if call.deadline == 0:
            continue
        if call.deadline <= now:
            overdue.append(call)
        elif earliest == 0 or call.deadline < earliest:
            earliest = call.deadline
    for call in overdue:
        try:
            mux.expire(call, now)
        except Exception as exc:
            mux.runtime.fault("an overdue call could not be given up", exc)
    if earliest != 0 and not mux.closed:
        # However the deadlines are spread, looking through the table stays a small part of the time.
        soonest = now + 0.005 + 1e-6 * len(mux.pending)
        mux.arm(earliest if earliest > soonest else soonest)
    return 0
