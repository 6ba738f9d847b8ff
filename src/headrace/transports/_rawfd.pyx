# cython: binding=False
"""Descriptors that are read and written without blocking and without changing them (B26, T21).

Strategy: how a descriptor is kept from blocking depends on its kind and on whether its open file
description is ours alone; `choose` decides once, ``csrc/hr_fd.h`` has the calls. No event loop here: who
owns the object watches the descriptor and calls `read` and `flush` when it is ready.

Input is read into an immutable ``bytes`` object that is handed on as it is when well filled and copied out
when not. Output that the kernel does not take is queued: whole objects, no copies, joined when written.
"""

import os
import sys

from cpython.bytes cimport PyBytes_GET_SIZE
from cpython.list cimport PyList_GET_ITEM, PyList_GET_SIZE
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.errno cimport EAGAIN, EIO

from headrace.transports.fdkind import kind_of, reopen

cdef extern from "Python.h":
    PyObject *PyBytes_FromStringAndSize(const char *p, Py_ssize_t n) except NULL
    int _PyBytes_Resize(PyObject **b, Py_ssize_t n) except -1
    char *storage "PyBytes_AS_STRING"(PyObject *b) nogil
    void release "Py_DECREF"(PyObject *b)

__all__ = ("RawReader", "RawWriter")

cdef enum:
    READ = 64 * 1024              # what a fresh pipe holds
    READ_MAX = 256 * 1024         # asked for when reads come back full
    VECTORS = 64                  # queued objects joined in one write call
    ROUNDS = 64                   # write calls in one turn of the loop: others want it too
    SOON = 25_000                 # nanoseconds: about what falling asleep and being woken cost
    DOUBT_MAX = 9                 # `soon` is asked at least once in 2 ** DOUBT_MAX times

cdef bint POSIX = sys.platform != "win32"

# A peer can run while this process does not sleep, also where this one is bound to a processor. Where the two are
# bound to the same one of several, `soon` finds out that it waits in vain.
cdef bint SEVERAL = (os.cpu_count() or 1) > 1

# Between two reads nobody holds a read buffer: one serves all idle connections. Guarded by the GIL.
cdef PyObject *spare = NULL


cdef class RawFd:
    """Common part: the descriptor, its kind and its mode. Owns the descriptor from the constructor on."""

    def __cinit__(self, int fd, bint exclusive):
        self.fd = fd
        self.exclusive = exclusive
        self.owns = True

    def __dealloc__(self):
        # A connection that nobody closed still gives its descriptors back.
        self.close()

    cdef int look(self) except -1:
        """Finds the kind. Raises OSError when the descriptor is not open."""
        cdef int fd = self.fd
        if fd >= 0:
            self.fd = -1  # nothing to close when it is not open
            self.kind = kind_of(fd) if POSIX else "file"
            self.fd = fd
        return 0

    cdef int choose(self, int gate, bint writing, str strategy) except -1:
        """Decides how to read or write. `strategy` skips the better ways: "nowait" or "poll"."""
        cdef int own
        cdef int event = HR_FD_WRITABLE if writing else HR_FD_READABLE
        if self.fd < 0:
            return 0
        if self.kind == "socket":
            self.mode = HR_FD_SOCKET
            self.pollable = True
            return 0
        self.mode = HR_FD_BLOCK
        if self.kind == "file":
            return 0
        if self.kind == "char":
            if hr_gate_set(gate, self.fd, 0, event) < 0:  # EPERM: the null device
                return 0
            hr_gate_set(gate, self.fd, event, 0)
        self.pollable = True
        if self.exclusive:
            os.set_blocking(self.fd, False)
            self.mode = HR_FD_OWN
            return 0
        if self.kind == "tty":  # has no RWF_NOWAIT
            self.mode = HR_FD_TTY
        else:
            self.mode = HR_FD_POLL if strategy == "poll" else HR_FD_NOWAIT
        if strategy is None:
            own = reopen(self.fd, self.kind, writing=writing)
            if own >= 0:
                self.close()
                self.fd = own
                self.owns = True
                self.mode = HR_FD_OWN
        return 0

    cdef void close(self) noexcept:
        if self.fd >= 0 and self.owns:
            hr_fd_close(self.fd)
        self.fd = -1


cdef class RawReader(RawFd):
    """The reading direction."""

    def __cinit__(self, int fd, bint exclusive):
        self.size = self.most = READ
        if not SEVERAL:
            self.skip = -1

    cdef bytes read(self, int *state):
        """Bytes when `state` becomes RAW_DATA, else None. Raises MemoryError."""
        global spare
        cdef PyObject *buf
        cdef bytes data = None
        cdef Py_ssize_t size = self.size
        cdef hr_ssize n
        state[0] = RAW_END
        if size == READ and spare != NULL:
            buf = spare
            spare = NULL
        else:
            buf = PyBytes_FromStringAndSize(NULL, size)
        n = hr_fd_read(&self.mode, self.fd, storage(buf), size)
        self.last = n
        if n >= size // 2:
            if n < size:
                _PyBytes_Resize(&buf, n)
            else:
                self._full()
            data = <bytes>buf
            Py_DECREF(data)
            state[0] = RAW_DATA
            return data
        if n > 0:
            data = storage(buf)[:n]
            if n < size // 4:
                self.size = READ
            state[0] = RAW_DATA
        elif n == -EAGAIN:
            state[0] = RAW_AGAIN
        elif n < 0 and not (n == -EIO and self.kind == "tty"):  # EIO: the terminal's other side is closed
            self.error = <int>-n
        if size == READ and spare == NULL:
            spare = buf
        else:
            release(buf)
        return data

    cdef bint soon(self) noexcept:
        """Waits a moment, awake, for input that is worth it: True when there is some.

        Whether it is worth it is learnt: being wrong twice as often as right makes it rare (one moment in
        512 questions at last), so that a peer that takes its time costs next to nothing.
        """
        cdef bint found
        if self.skip != 0:
            if self.skip > 0:
                self.skip -= 1
            return False
        with nogil:
            found = hr_fd_soon(self.fd, SOON)
        if found:
            if self.doubt > 0:
                self.doubt -= 1
        else:
            self.doubt = min(self.doubt + 2, DOUBT_MAX)
            self.skip = 1 << self.doubt
        return found

    def _full(self):
        # There is more than was asked for. A pipe gives no more than it holds, so it is made larger.
        if self.size < self.most:
            self.size *= 2
        elif not self.grown:
            self.grown = True
            if self.kind == "socket" or (
                self.kind == "pipe" and self.mode == HR_FD_OWN and hr_pipe_grow(self.fd, READ_MAX) >= READ_MAX
            ):
                self.most = READ_MAX


cdef class RawWriter(RawFd):
    """The writing direction with its queue."""

    def __cinit__(self, int fd, bint exclusive):
        self.queue = []

    cdef Py_ssize_t write(self, const char *p, Py_ssize_t n):
        """Bytes taken by the kernel, or a negative errno. Less than `n`: it is full. Queue is empty."""
        cdef hr_iovec v
        cdef hr_ssize r
        cdef Py_ssize_t done = 0
        cdef int rounds = 0
        while True:
            v.iov_base = <void *>(p + done)
            v.iov_len = n - done
            if self.mode == HR_FD_BLOCK:
                with nogil:
                    r = hr_fd_writev(&self.mode, self.fd, &v, 1)
            else:
                r = hr_fd_writev(&self.mode, self.fd, &v, 1)
            if r < 0:
                return done if r == -EAGAIN else r
            done += r
            rounds += 1
            if done == n or r == 0 or self.mode < HR_FD_POLL or (self.mode != HR_FD_BLOCK and rounds == ROUNDS):
                return done

    cdef int put(self, bytes data, Py_ssize_t offset) except -1:
        """Queues `data` from `offset` on (not 0 only when the queue is empty)."""
        if self.queued == 0:
            self.taken = offset
        self.queue.append(data)
        self.queued += PyBytes_GET_SIZE(data) - offset
        return 0

    cdef int flush(self) except -1:
        """Writes what the kernel takes now; 0, or the errno of a failure."""
        cdef hr_iovec v[VECTORS]
        cdef hr_ssize r
        cdef Py_ssize_t total, left
        cdef Py_ssize_t size = PyList_GET_SIZE(self.queue)
        cdef int count, i
        cdef int rounds = 0
        cdef PyObject *item
        while self.queued > 0 and rounds < ROUNDS:
            rounds += 1
            count = 0
            total = 0
            while count < VECTORS and self.head + count < size:
                item = <PyObject *>PyList_GET_ITEM(self.queue, self.head + count)
                v[count].iov_base = storage(item)
                v[count].iov_len = PyBytes_GET_SIZE(<object>item)
                count += 1
            v[0].iov_base = <char *>v[0].iov_base + self.taken
            v[0].iov_len -= self.taken
            for i in range(count):
                total += v[i].iov_len
            r = hr_fd_writev(&self.mode, self.fd, v, count)
            if r == -EAGAIN:
                break
            if r < 0:
                return <int>-r
            self.queued -= r
            total -= r
            while r > 0:
                left = PyBytes_GET_SIZE(self.queue[self.head]) - self.taken
                if r < left:
                    self.taken += r
                    break
                r -= left
                self.queue[self.head] = None
                self.head += 1
                self.taken = 0
            if total > 0 and self.mode < HR_FD_POLL:  # a short write: the kernel is full
                break
        if self.queued == 0:
            self.drop()
        elif self.head > VECTORS and self.head * 2 > size:
            del self.queue[:self.head]
            self.head = 0
        return 0

    cdef int drop(self) except -1:
        """Empties the queue."""
        self.queue.clear()
        self.head = self.taken = self.queued = 0
        return 0

    cdef int shutdown(self) except -1:
        """Tells a socket's peer that no more output comes. A shared socket is not ours to end."""
        if self.mode == HR_FD_SOCKET and self.exclusive and self.fd >= 0:
            hr_fd_shutdown(self.fd)
        return 0
