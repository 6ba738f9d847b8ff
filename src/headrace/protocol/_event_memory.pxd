# Events of sessions in memory.


cdef class EventPool:
    # Memory for the events of many sessions.
    cdef readonly object limits
    cdef readonly object now
    cdef readonly Py_ssize_t size        # bytes kept now
    cdef Fifo order                      # of all stores, oldest first; some were dropped by theirs already
    cdef Py_ssize_t dead                 # so many of them
    cdef Py_ssize_t max_bytes            # of all sessions
    cdef Py_ssize_t session_bytes, session_events
    cdef double age
    cdef bint system_clock               # `now` is time.monotonic

    cdef double moment(self) except? -1
    cdef int added(self, Event event) except -1
    cdef int removed(self, Event event) except -1
    cdef int drop_oldest(self) except -1
    cdef int clean(self, double now) except -1


cdef class Fifo:
    cdef list items
    cdef Py_ssize_t head                 # those before it are gone

    cdef inline Py_ssize_t count(self)
    cdef inline Event first(self)
    cdef inline int push(self, Event event) except -1
    cdef inline int pop(self) except -1


cdef class Record:
    # One stream: the last number it got, and the events kept.
    cdef MemoryEventStore store
    cdef str name
    cdef bytes prefix                    # of its event ids
    cdef long long last
    cdef Py_ssize_t kept                 # events of it
    cdef bint ended


cdef class Event:
    cdef Record record                   # None once it was dropped
    cdef long long number
    cdef bytes data
    cdef Py_ssize_t size
    cdef double at


cdef class MemoryEventStore:
    cdef readonly str tag
    cdef readonly Py_ssize_t size        # bytes kept now
    cdef EventPool pool
    cdef long long last
    cdef dict records                    # stream -> Record
    cdef Fifo order

    cdef bytes put(self, str stream, bytes data)
    cdef int drop_oldest(self) except -1
    cpdef end(self, str stream)
