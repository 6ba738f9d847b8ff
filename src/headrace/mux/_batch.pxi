# Part of the module _mux: JSON arrays of messages (JR-20..JR-22, revision 2025-03-26 only).
#
# Each entry is dispatched like a message of its own, with a sink that stands before the real one. Answers
# leave as events of one stream where the real sink carries several, else together as one array. An entry
# counts against the bounds of requests in flight, fails by itself, and is cancelled by itself.


cdef class Batch(Sink):
    """The sink of the entries of one array: gathers their answers for `outer`."""

    cdef Sink outer
    cdef Outbuf text                     # the answer being written, or all of them so far
    cdef Py_ssize_t left                 # entries that are owed an answer
    cdef Py_ssize_t answers
    cdef Py_ssize_t mark
    cdef bint streams                    # answers leave one by one
    cdef set running                     # exchanges in flight

    def __getattr__(self, name):
        # What transports tell the protocol layer (fields, session, ...) is known by the sink behind.
        return getattr(self.outer, name)

    @property
    def headers(self):
        return self.outer.headers

    def cancel(self, reason=None):
        """Cancels every entry that is in flight."""
        for ex in list(self.running):
            (<Exchange>ex).cancel(reason)

    cdef Revision route(self, Mux mux, const hr_envelope *env):
        if not mux.flags & HR_SCAN_ANY_RESULT:   # bare JSON-RPC knows neither
            if env.protocol_version.n:
                raise RpcError(INVALID_REQUEST, "this revision has no batches")
            if token_is(&env.method, b"initialize"):
                raise RpcError(INVALID_REQUEST, "initialize is never part of a batch")
        return self.outer.route(mux, env)

    cdef int open_response(self, Exchange ex, int code, int status) except -1:
        self.out = self.text
        self.mark = self.out.n
        if not self.streams:
            self.out.put(b"," if self.answers else b"[", 1)
        return 0

    cdef int rollback(self) except -1:
        self.text.n = self.mark
        return 0

    cdef int close_response(self, Exchange ex) except -1:
        cdef bytes frame
        self.answers += 1
        self.left -= 1
        if ex is not None:
            self.running.discard(ex)
        if not self.streams:
            return 0 if self.left else self.conclude()
        frame = self.text.take()
        if self.outer.closed:
            return 0
        self.outer.more = self.left > 0
        return self.send(frame)

    cdef int abandoned(self, Exchange ex) except -1:
        self.left -= 1
        if ex is not None:
            self.running.discard(ex)
        return 0 if self.left else self.conclude()

    cdef int conclude(self) except -1:
        """Every entry is answered or was given up."""
        if self.outer.closed:
            return 0
        self.outer.more = False
        if self.streams or not self.answers:
            return self.outer.abandoned(None)
        self.text.put(b"]", 1)
        return self.send(self.text.take())

    cdef int send(self, bytes frame) except -1:
        self.outer.open_response(None, 0, 0)
        self.outer.out.put_bytes(frame)
        return self.outer.close_response(None)

    cdef int open_message(self, Exchange ex) except -1:
        if self.outer.closed or not self.outer.open_message(ex):
            return 0
        self.out = self.outer.out
        return 1

    cdef int close_message(self, Exchange ex) except -1:
        self.out = self.text
        return self.outer.close_message(ex)

    cdef int send_call(self, PendingCall call, bytes method, bytes params, str name) except -1:
        call.sink = self.outer
        return self.outer.send_call(call, method, params, name)

    cdef int drop_call(self, PendingCall call, str reason) except -1:
        return self.outer.drop_call(call, reason)

    cdef bint admits(self, PendingCall call) except? False:
        return self.outer.admits(call)

    cdef bint unmatched(self, const hr_envelope *env) except? True:
        return self.outer.unmatched(env)

    cdef int started(self, Exchange ex) except -1:
        self.running.add(ex)
        return self.outer.started(ex)

    cdef int pause(self) except -1:
        return self.outer.pause()

    cdef int resume(self) except -1:
        return self.outer.resume()

    cdef object caller(self):
        return self.outer.caller()

    cdef bint congested(self):
        return self.outer.congested()

    cdef object drained(self):
        return self.outer.drained()


cdef bint owed(Mux mux, const hr_envelope *env) except -1:
    """Whether the entry gets an answer: requests do, and what is no message at all (JR-01, JR-07, JR-08)."""
    if env.kind == HR_REQUEST:
        return True
    if not mux.gate.answers_bad_input:
        return False
    return env.kind == HR_BATCH or (
        env.kind == HR_INVALID and (env.method.n != 0 or (env.result.n == 0 and env.error.n == 0)))


def serve_batch(Mux mux not None, Envelope array not None, Sink sink not None, *, Py_ssize_t most, bint mixed=True):
    """Handles a JSON array of messages that the revision allows (JR-21, JR-22); see Gate.batch.

    `most` bounds the entries (limits.max_batch). Without `mixed` an array with requests and responses
    is refused, as HTTP asks; so are responses at a mux without a scope. A refused array is answered
    once and no part of it runs.
    """
    cdef const char *p = PyBytes_AS_STRING(array.data)
    cdef list items = batch_items(p, PyBytes_GET_SIZE(array.data), most + 1)
    cdef Envelope entry
    cdef Batch batch
    cdef list entries = []
    cdef set ids = set()
    cdef Py_ssize_t due = 0
    cdef bint requests = False
    cdef bint responses = False
    cdef bytes key
    if not items:
        return mux.refuse(&array.env, sink, INVALID_REQUEST, "an empty batch", 400)
    if len(items) > most:
        return mux.refuse(&array.env, sink, INVALID_REQUEST, f"a batch has at most {most} entries", 400, "max_batch")
    for item in items:
        entry = envelope_of(<bytes>item, mux.max_depth, mux.flags)
        entries.append(entry)
        due += owed(mux, &entry.env)
        if entry.env.kind == HR_REQUEST or entry.env.kind == HR_NOTIFICATION:
            requests = True
        elif entry.env.result.n or entry.env.error.n:
            responses = True
    if responses and ((requests and not mixed) or not mux.scoped):
        return mux.refuse(
            &array.env, sink, INVALID_REQUEST,
            "a batch holds either requests and notifications or responses" if mux.scoped
            else "responses cannot be posted here", 400)
    batch = Batch.__new__(Batch)
    batch.outer = sink
    batch.text = batch.out
    batch.left = due
    batch.running = set()
    batch.persistent = sink.persistent
    batch.metered = sink.metered
    if mux.runtime.rates is not None and not sink.metered and due > 1:
        mux.runtime.rates.owe(sink.caller(), due - 1)
    batch.principal = sink.principal
    batch.status = sink.status
    if due:
        batch.streams = sink.several(batch)
    for entry in entries:
        if mux.closed:
            break
        if entry.env.kind == HR_REQUEST:
            key = mux.id_key(&entry.env.id)
            if key in ids:
                # Its twin may be answered already, but nobody was told (JR-06).
                mux.refuse(&entry.env, batch, INVALID_REQUEST, "this id is in the batch twice", 0)
                continue
            ids.add(key)
            mux.request(PyBytes_AS_STRING(entry.data), PyBytes_GET_SIZE(entry.data), &entry.env, batch, False)
            continue
        try:
            if entry.env.kind == HR_BATCH:
                mux.refuse(&entry.env, batch, INVALID_REQUEST, "a batch inside of a batch", 0)
            else:
                mux.dispatch(PyBytes_AS_STRING(entry.data), PyBytes_GET_SIZE(entry.data), &entry.env, batch)
        except Exception as exc:
            mux.runtime.fault("an entry of a batch could not be handled", exc)
    if not due:
        sink.accepted()
