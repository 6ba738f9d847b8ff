"""Events of HTTP sessions in memory: the store that a server has unless it is given another (HO-20, SE-08).

The stores of all sessions share one pool, which bounds them together; the oldest events go first. An id is
``TAG.STREAM.NUMBER``: TAG is random and belongs to the session, so ids of others are recognised. Every
message that a session streams passes through here, so an event costs one object and no formatting.
"""

import secrets
import time

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.string cimport memcpy

cimport cython

cdef extern from *:
    """
    #include <time.h>
    #ifndef _WIN32
    #define HR_CLOCK 1
    static double hr_clock(void)
    {
        struct timespec t;
        clock_gettime(CLOCK_MONOTONIC, &t);
        return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    }
    #else
    #define HR_CLOCK 0
    static double hr_clock(void) { return 0; }
    #endif
    """
    const int HR_CLOCK
    double hr_clock() noexcept

cdef extern from "Python.h":
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *n) except NULL

from headrace.protocol.event_store import EventStore, Replay

__all__ = ("EventPool", "MemoryEventStore")

cdef enum:
    OVERHEAD = 200           # bytes that an event costs beside its data


@cython.final
cdef class Fifo:
    """Events in order: a list whose front is cut off now and then."""

    def __cinit__(self):
        self.items = []

    cdef inline Py_ssize_t count(self):
        return len(self.items) - self.head

    cdef inline Event first(self):
        return <Event>self.items[self.head] if self.head < len(self.items) else None

    cdef inline int push(self, Event event) except -1:
        self.items.append(event)
        return 0

    cdef inline int pop(self) except -1:
        self.items[self.head] = None
        self.head += 1
        if self.head > 64 and self.head * 2 > len(self.items):
            del self.items[:self.head]
            self.head = 0
        return 0


@cython.freelist(64)
cdef class Event:
    """One event that is kept."""


cdef class Record:
    """One stream: the last number it got, and the events kept."""


cdef bytes prefix_of(str tag, str stream):
    """``TAG.STREAM.``"""
    cdef Py_ssize_t n = 0
    cdef Py_ssize_t m = 0
    cdef const char *p = PyUnicode_AsUTF8AndSize(tag, &n)
    cdef const char *q = PyUnicode_AsUTF8AndSize(stream, &m)
    cdef bytes made = PyBytes_FromStringAndSize(NULL, n + m + 2)
    cdef char *out = PyBytes_AS_STRING(made)
    memcpy(out, p, n)
    out[n] = c'.'
    memcpy(out + n + 1, q, m)
    out[n + m + 1] = c'.'
    return made


cdef bytes id_of(bytes prefix, long long number):
    """prefix and number in decimal."""
    cdef char digits[24]
    cdef int at = 24
    cdef Py_ssize_t n = PyBytes_GET_SIZE(prefix)
    cdef bytes made
    while True:
        at -= 1
        digits[at] = <char>(48 + number % 10)
        number //= 10
        if number == 0:
            break
    made = PyBytes_FromStringAndSize(NULL, n + 24 - at)
    memcpy(PyBytes_AS_STRING(made), PyBytes_AS_STRING(prefix), n)
    memcpy(PyBytes_AS_STRING(made) + n, digits + at, 24 - at)
    return made


cdef class EventPool:
    """Memory for the events of many sessions; :meth:`open` makes the store of one.

    :param limits: ``max_resume_events`` and ``max_resume_bytes`` bound one session,
        ``max_resume_total_bytes`` all of them, ``resume_age`` (seconds) every event.
    :param now: a clock in seconds.
    """

    def __init__(self, limits, now=time.monotonic):
        self.limits = limits
        self.now = now
        self.system_clock = HR_CLOCK and now is time.monotonic
        self.max_bytes = limits.max_resume_total_bytes
        self.session_bytes = limits.max_resume_bytes
        self.session_events = limits.max_resume_events
        self.age = limits.resume_age
        self.order = Fifo.__new__(Fifo)

    def __len__(self):
        """Places in the order, some of them given up already."""
        return self.order.count()

    def open(self, session_id=""):
        """A store for one more session."""
        return MemoryEventStore(self)

    def sweep(self):
        """Drops what is older than ``limits.resume_age``; to be called now and then."""
        self.clean(self.moment())

    cdef double moment(self) except? -1:
        """The clock of the system is read without Python: it is asked for every event."""
        return hr_clock() if self.system_clock else <double>self.now()

    cdef int clean(self, double now) except -1:
        cdef Event event
        while True:
            event = self.order.first()
            if event is None or (event.record is not None and event.at >= now - self.age):
                return 0
            self.drop_oldest()

    cdef int added(self, Event event) except -1:
        """An event of one of the stores; makes room for it."""
        self.order.push(event)
        self.size += event.size
        self.clean(event.at)
        while self.size > self.max_bytes:
            self.drop_oldest()
        return 0

    cdef int removed(self, Event event) except -1:
        """A store let go of it; its place in the order is given back later."""
        event.record = None
        event.data = b""
        self.size -= event.size
        self.dead += 1
        if self.dead > 64 and self.dead * 2 > self.order.count():
            self.order.items = [
                each for each in self.order.items if each is not None and (<Event>each).record is not None]
            self.order.head = 0
            self.dead = 0
        return 0

    cdef int drop_oldest(self) except -1:
        cdef Event event = self.order.first()
        if event.record is not None:
            event.record.store.drop_oldest()
        if self.order.first() is event:
            self.order.pop()
            self.dead -= 1
        return 0


cdef class MemoryEventStore:
    """The store of one session in the memory of an :class:`EventPool`: an EventStore."""

    def __init__(self, EventPool pool not None):
        self.tag = secrets.token_urlsafe(6)
        self.pool = pool
        self.records = {}
        self.order = Fifo.__new__(Fifo)

    def __len__(self):
        return self.order.count()

    def __repr__(self):
        return f"<MemoryEventStore: {len(self)} events, {self.size} bytes>"

    def append(self, str stream not None, bytes data not None):
        """See EventStore.append."""
        return self.put(stream, data).decode("ascii")

    cdef bytes put(self, str stream, bytes data):
        cdef EventPool pool = self.pool
        cdef Record record = <Record>self.records.get(stream)
        cdef Event event
        cdef long long number
        if record is None:
            record = Record.__new__(Record)
            record.store = self
            record.name = stream
            record.prefix = prefix_of(self.tag, stream)
            self.records[stream] = record
        record.ended = False
        self.last += 1
        number = record.last = self.last
        event = Event.__new__(Event)
        event.record = record
        event.number = number
        event.data = data
        event.size = PyBytes_GET_SIZE(data) + OVERHEAD
        event.at = pool.moment()
        record.kept += 1
        self.order.push(event)
        self.size += event.size
        pool.added(event)
        while self.order.count() > pool.session_events or self.size > pool.session_bytes:
            self.drop_oldest()
        return id_of(record.prefix, number)

    cdef int drop_oldest(self) except -1:
        """Lets go of the oldest event; a stream that has ended goes with its last one."""
        cdef Event event = self.order.first()
        cdef Record record = event.record
        self.order.pop()
        record.kept -= 1
        self.size -= event.size
        self.pool.removed(event)
        if record.ended and not record.kept:
            del self.records[record.name]
        return 0

    def replay(self, str last_id not None):
        """See EventStore.replay."""
        cdef Event each
        cdef Record record
        cdef list events = []
        cdef bint known = False
        cdef bint older = False
        parts = last_id.split(".")
        if len(parts) != 3 or parts[0] != self.tag:
            return None
        stream, digits = parts[1], parts[2]
        if not (digits.isascii() and digits.isdecimal() and len(digits) < 18 and 0 < int(digits) <= self.last):
            return None
        record = <Record>self.records.get(stream)
        if record is None:
            return Replay(stream, [], lost=True)
        number = int(digits)
        if number > record.last:
            return None
        for found in self.order.items[self.order.head:]:
            each = <Event>found
            if each.record is not record:
                continue
            if each.number <= number:
                older = True
                known = known or each.number == number
            elif each.data:
                events.append((id_of(record.prefix, each.number).decode("ascii"), each.data))
        if older and not known:
            return None
        return Replay(stream, events)

    cpdef end(self, str stream):
        """See EventStore.end."""
        cdef Record record = <Record>self.records.get(stream)
        if record is not None:
            record.ended = True
            if not record.kept:
                del self.records[stream]

    def close(self):
        """See EventStore.close."""
        for event in self.order.items[self.order.head:]:
            self.pool.removed(<Event>event)
        self.order = Fifo.__new__(Fifo)
        self.records.clear()
        self.size = 0


EventStore.register(MemoryEventStore)
