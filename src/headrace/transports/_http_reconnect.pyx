"""When an event stream that ended is asked for again, and from which event on (HO-21..HO-24, B40).

Strategy: what the server asks for (``retry``, Retry-After) is a lower bound that is kept to the clock of
the machine, not to the loop's, which may lag. Without it the pause is Limits.reconnect_delay. Failures in a row and
streams that end at once without news make it longer, with a random part so that many clients do not come
back together. A stream that was open and ends well or badly is the same thing.
"""

from random import random
from time import monotonic

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE

from headrace.wire._sse cimport SseFramer

__all__ = ("Reconnect",)

cdef double LAST = 30.0        # times the first pause
cdef double FLOOR = 0.01       # of what a server asks for, doubled for each stream without news
cdef double FLOOR_MOST = 1.0
cdef double LASTING = 5.0      # a stream that was open for so long is no sign of a server that refuses


cdef class Reconnect:
    """The pauses of one event stream. Lives as long as the stream's consumer, over all of its connections."""

    def __init__(self, runtime, limits):
        self.runtime = runtime
        self.retry = -1
        self.first = limits.reconnect_delay
        self.most = limits.max_reconnect_wait
        self.limit = limits.max_reconnects

    cdef int opened(self) except -1:
        """The server answered with an event stream."""
        self.failures = 0
        self.since = monotonic()
        return 0

    cdef int ended(self, SseFramer framer, bint news) except -1:
        """It is over; framer is None when it was not opened. `news`: a message came."""
        cdef bytes id
        cdef bint lasting = self.since != 0 and monotonic() - self.since >= LASTING
        self.since = 0
        if framer is None:
            self.failures += 1
            return 0
        self.failures = 0
        id = framer.last_id()        # begins as the last one, and an empty id line clears it
        if news or lasting:
            self.quiet = self.idle = 0
        elif id != self.last_id:
            # An id without a message is how a server lets itself be asked again; but not at once for ever.
            self.quiet = 0
            if self.idle < 16:
                self.idle += 1
        elif self.quiet < 16:
            self.quiet += 1
        self.last_id = id
        if framer.s.has_retry:
            self.retry = framer.s.retry_ms / 1000.0
        return 0

    cdef bint exhausted(self):
        """Too many failures in a row."""
        return self.failures > self.limit

    cdef int schedule(self, object callback, double at_least) except -1:
        """Calls `callback` when the pause is over; at_least is what Retry-After asks for, in seconds."""
        cdef double delay
        cdef double floor = FLOOR
        cdef int i
        cdef int steps = self.failures - 1 if self.failures > 0 else self.quiet
        if self.failures == 0 and self.retry >= 0:
            for i in range(self.quiet + self.idle):
                floor *= 2
            if floor > FLOOR_MOST:
                floor = FLOOR_MOST
            delay = self.retry if self.retry > floor else floor
        else:
            delay = self.first
            for i in range(steps if steps < 8 else 8):
                delay *= 2
            if delay > self.first * LAST:
                delay = self.first * LAST
            if self.retry > delay:
                delay = self.retry
            delay *= 1 + random() / 4
        if at_least > delay:
            delay = at_least
        if delay > self.most:
            delay = self.most
        self.cancel()
        self.callback = callback
        self.due = monotonic() + delay
        self.timer = self.runtime.call_at(self.runtime.time() + delay + 0.001, self.fire)
        return 0

    def fire(self):
        """Timer."""
        cdef double left = self.due - monotonic()
        if left > 0:
            self.timer = self.runtime.call_at(self.runtime.time() + left + 0.001, self.fire)
            return
        callback = self.callback
        self.callback = self.timer = None
        if callback is not None:
            callback()

    cdef int cancel(self) except -1:
        self.callback = None
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None
        return 0


cdef bint carriable(bytes id):
    # Event ids may hold anything but line ends; a header value may not.
    cdef const unsigned char *p = <const unsigned char *>PyBytes_AS_STRING(id)
    cdef Py_ssize_t i
    for i in range(PyBytes_GET_SIZE(id)):
        if p[i] < 0x20 or p[i] == 0x7F:
            return False
    return True
