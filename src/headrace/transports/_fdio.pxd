"""Byte transports on raw descriptors, for Cython callers (LineLink, spawn).

`write_from` and `write_bytes` are the fast entries of `write`: they copy only what the kernel does not
take at once (`write_bytes` not even that). Both swallow output after the end of the connection.
"""

from headrace.transports._rawfd cimport RawReader, RawWriter


cdef class FdTransport:
    cdef object __weakref__
    cdef readonly object loop
    cdef readonly object protocol
    cdef object on_data           # bound protocol.data_received
    cdef object on_end            # callable(exc) that decides about a remote end, or None
    cdef object on_lost           # callable() after connection_lost, or None
    cdef object thread            # ReadThread where the input cannot be polled
    cdef object held              # a chunk of it that came while reading was paused
    cdef object final             # what connection_lost gets
    cdef dict extra
    cdef readonly RawReader r
    cdef RawWriter w
    cdef Py_ssize_t high, low     # write buffer marks, bytes
    cdef Py_ssize_t drained       # bytes read after the output broke
    cdef int gate
    cdef int rarmed, warmed       # what the gate watches of both directions
    cdef bint same                # both directions are one descriptor
    cdef bint direct              # the loop watches the input itself
    cdef bint counted, started
    cdef bint eof, weof, paused, wpaused
    cdef bint wrote               # the kernel took output since this was cleared
    # closing: output refused. draining: output broken, reads what is left. asked: on_end decides.
    # ended: connection_lost is scheduled. lost: it was called, the descriptors are closed.
    cdef bint closing, draining, asked, ended, lost

    cdef int write_from(self, const char *p, Py_ssize_t n) except -1
    cdef int write_bytes(self, bytes data) except -1

    cdef int _arm(self) except -1
    cdef int _read(self) except -2
    cdef int _read_in_turn(self) except -1
    cdef int _deliver(self, bytes data) except -1
    cdef int _at_eof(self) except -1
    cdef int _stop_thread(self) except -1
    cdef int _queue(self, bytes data, Py_ssize_t offset) except -1
    cdef int _flushed(self) except -1
    cdef int _broken(self, int error, bint writing) except -1
    cdef int _begin_drain(self, object exc) except -1
    cdef int _end(self, object exc) except -1
    cdef int _schedule_lost(self, object exc) except -1
    cdef int _failed(self, object exc, str message) except -1
    cdef void _release(self) noexcept
