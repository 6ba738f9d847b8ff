# Part of the module _mux: one request of ours, from sending to its answer.


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
