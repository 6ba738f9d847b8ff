# The part of a session's streams that every event passes.
from headrace.protocol._event_memory cimport MemoryEventStore


cdef class StreamKeeper:
    # Names of streams, and what is kept of them.
    cdef object session                  # None once it has ended
    cdef object make_store               # session id -> EventStore, or None: streams have no names
    cdef readonly int retry_ms
    cdef readonly object store           # made when the first stream needs it
    cdef MemoryEventStore memory         # the same, where it is ours
    cdef Py_ssize_t made
    cdef readonly dict posts             # name -> sink of a POST stream that is not answered
    cdef int primed                      # whether streams begin with an event without data; -1: not known yet

    cdef object event_store(self)
    cdef int report(self, str text, object exc) except -1
    cdef str open_named(self, object sink, bint get)
    cdef bytes keep_event(self, str stream, bytes data)
    cdef int post_over(self, str stream) except -1
    cdef int end_named(self, str stream) except -1
    cdef bint priming(self) except -1
