"""One direction of a descriptor, read or written without ever blocking: see the head of the .pyx."""

cdef extern from "hr_fd.h" nogil:
    ctypedef Py_ssize_t hr_ssize
    ctypedef struct hr_iovec:
        void *iov_base
        size_t iov_len
    enum:
        HR_FD_OWN, HR_FD_SOCKET, HR_FD_NOWAIT, HR_FD_POLL, HR_FD_TTY, HR_FD_BLOCK
        HR_FD_READABLE, HR_FD_WRITABLE
    hr_ssize hr_fd_read(int *mode, int fd, char *buf, size_t n)
    hr_ssize hr_fd_writev(int *mode, int fd, hr_iovec *iov, int count)
    int hr_fd_close(int fd)
    int hr_fd_shutdown(int fd)
    hr_ssize hr_pipe_grow(int fd, hr_ssize want)
    int hr_fd_soon(int fd, long ns)
    int hr_gate_open()
    int hr_gate_set(int gate, int fd, int old, int now)


cdef class RawFd:
    cdef readonly int fd          # -1 after close
    cdef readonly str kind        # see fdkind.kind_of; None without a descriptor
    cdef readonly int mode        # HR_FD_*
    cdef readonly bint pollable
    cdef bint exclusive           # the open file description is ours alone
    cdef bint owns                # closes fd; false when the other direction does

    cdef int look(self) except -1
    cdef int choose(self, int gate, bint writing, str strategy) except -1
    cdef void close(self) noexcept


cdef class RawReader(RawFd):
    cdef Py_ssize_t size, most    # bytes asked for in one read, and their bound
    cdef bint grown
    cdef readonly int error       # errno of what `read` called the end, 0 at a plain end
    cdef Py_ssize_t last          # bytes of the last read
    cdef readonly int doubt       # how often `soon` was wrong of late
    cdef int skip                 # times it is not asked, out of doubt

    cdef bytes read(self, int *state)
    cdef bint soon(self) noexcept


cdef enum:
    RAW_DATA = 1                  # states of RawReader.read
    RAW_AGAIN = 0                 # nothing there now
    RAW_END = -1                  # end of the input, or `error`


cdef class RawWriter(RawFd):
    cdef list queue               # bytes objects; the first one from `taken` on
    cdef Py_ssize_t head, taken   # index of the first object in `queue`, bytes of it already written
    cdef readonly Py_ssize_t queued   # bytes

    cdef Py_ssize_t write(self, const char *p, Py_ssize_t n)
    cdef int put(self, bytes data, Py_ssize_t offset) except -1
    cdef int flush(self) except -1
    cdef int drop(self) except -1
    cdef int shutdown(self) except -1
