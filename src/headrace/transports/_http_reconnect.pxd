# When an event stream that ended is asked for again.
from headrace.wire._sse cimport SseFramer


cdef class Reconnect:
    cdef object runtime
    cdef object callback                 # callable() at the time, or None
    cdef object timer
    cdef double due                      # time.monotonic() before which nothing is sent
    cdef double retry                    # seconds, as the server asked, or -1
    cdef double first                    # Limits.reconnect_delay
    cdef double most                     # Limits.max_reconnect_wait
    cdef double since                    # when the stream was opened, 0: it is not
    cdef int limit                       # Limits.max_reconnects
    cdef int failures                    # in a row to open it
    cdef int quiet                       # streams in a row that brought nothing
    cdef int idle                        # streams in a row that brought an event id and no message
    cdef bytes last_id

    cdef int opened(self) except -1
    cdef int ended(self, SseFramer framer, bint news) except -1
    cdef bint exhausted(self)
    cdef int schedule(self, object callback, double at_least) except -1
    cdef int cancel(self) except -1


cdef bint carriable(bytes id)            # an event id can be sent as Last-Event-ID
