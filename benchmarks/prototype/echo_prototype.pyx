# cython: language_level=3, boundscheck=False, wraparound=False
"""The least around the scanners of scan.c that answers an echo: on pipes, and over HTTP in three ways.

No bounds, no timeouts, no flow control, no rules of any protocol: what a call costs when nothing but the call is
paid for. `Lines` reads and writes standard input and output, `Plain` is an asyncio.Protocol, `Buffered` an
asyncio.BufferedProtocol, `Engine` an epoll of its own that serves every socket from one reader callback.
"""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.errno cimport EAGAIN, EINTR, errno
from libc.stdlib cimport free, malloc, realloc
from libc.string cimport memchr, memcmp, memcpy, memmove
from libc.stdint cimport int64_t

cdef extern from "Python.h":
    object PyMemoryView_FromMemory(char *p, Py_ssize_t n, int flags)
    object PyUnicode_DecodeASCII(const char *p, Py_ssize_t n, const char *errors)
    int PyBUF_READ, PyBUF_WRITE

cdef extern from "unistd.h" nogil:
    ssize_t read(int fd, void *p, size_t n)
    ssize_t write(int fd, const void *p, size_t n)
    int close(int fd)

cdef extern from "sys/socket.h" nogil:
    ssize_t recv(int fd, void *p, size_t n, int flags)
    ssize_t send(int fd, const void *p, size_t n, int flags)
    int setsockopt(int fd, int level, int name, void *value, unsigned int n)
    int MSG_DONTWAIT, MSG_NOSIGNAL

cdef extern from *:
    """
    #include <sys/epoll.h>
    /* accept4 needs _GNU_SOURCE, which pyconfig.h sets. */
    #include <sys/socket.h>
    static int accept_one(int fd) { return accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC); }
    static int watch(int epoll, int op, int fd, unsigned events, void *ptr)
    {
        struct epoll_event e = {.events = events, .data = {.ptr = ptr}};
        return epoll_ctl(epoll, op, fd, &e);
    }
    """
    int accept_one(int fd) nogil
    int watch(int epoll, int op, int fd, unsigned int events, void *ptr) nogil

cdef extern from "sys/epoll.h" nogil:
    ctypedef union epoll_data_t:
        void *ptr
    cdef struct epoll_event:
        unsigned int events
        epoll_data_t data
    int epoll_create1(int flags)
    int epoll_wait(int epoll, epoll_event *events, int n, int timeout)
    int EPOLLIN, EPOLLOUT, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CLOEXEC

cdef extern from "scan.h" nogil:
    ctypedef struct span:
        const char *p
        size_t n
    ctypedef struct envelope:
        span method, name, arguments
        int64_t id
    int scan_envelope(const char *p, size_t n, envelope *found)
    long scan_head(const char *p, size_t n, long *length)

cdef enum:
    READ = 65536
    SPAN = 4096      # arguments up to here are copied to a bytes object, which is the cheaper thing to decode
    NODELAY = 1      # TCP_NODELAY of IPPROTO_TCP
    TCP = 6
    WAITING = 128    # sockets that one look at the epoll reports

cdef bytes HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0000000000\r\n\r\n"
cdef Py_ssize_t HEAD_LENGTH = len(HEAD)


cdef class Answers:
    """Answers(tools, encode_into): `tools` holds (decode, handler) under a tool's name. Answers are written one after
    the other into one buffer that is kept."""

    cdef dict tools
    cdef object encode_into
    cdef bytearray out
    cdef Py_ssize_t n

    def __init__(self, dict tools, encode_into):
        self.tools = tools
        self.encode_into = encode_into
        self.out = bytearray(READ)

    cdef char *room(self, Py_ssize_t n) except NULL:
        if self.n + n > PyByteArray_GET_SIZE(self.out):
            PyByteArray_Resize(self.out, self.n + n + (self.n >> 1) + 1024)
        return PyByteArray_AS_STRING(self.out) + self.n

    cdef int add(self, const char *p, size_t n) except -1:
        """Appends the answer to one request."""
        cdef envelope found
        cdef char digits[24]
        cdef char *to
        cdef int64_t id
        cdef int count = 0
        if scan_envelope(p, n, &found):
            raise ValueError("not a request")
        if found.method.n == 6 and memcmp(found.method.p, b'"ping"', 6) == 0:
            result = None
        elif found.method.n == 12 and memcmp(found.method.p, b'"tools/call"', 12) == 0 and found.name.n > 2:
            decode, handler = self.tools[PyUnicode_DecodeASCII(found.name.p + 1, found.name.n - 2, NULL)]
            if found.arguments.n < SPAN:
                result = handler(decode(PyBytes_FromStringAndSize(found.arguments.p, found.arguments.n)))
            else:
                result = handler(decode(PyMemoryView_FromMemory(<char *>found.arguments.p, found.arguments.n, PyBUF_READ)))
        else:
            raise ValueError("neither ping nor tools/call")
        to = self.room(128)
        memcpy(to, b'{"jsonrpc":"2.0","id":', 22)
        to += 22
        id = found.id
        while True:
            digits[count] = <char>(48 + id % 10)
            count += 1
            id //= 10
            if id == 0:
                break
        self.n += 22 + count
        while count:
            count -= 1
            to[0] = digits[count]
            to += 1
        memcpy(to, b',"result":', 10)
        self.n += 10
        if result is None:
            memcpy(to + 10, b"{}", 2)
            self.n += 2
        else:
            self.encode_into(result, self.out, self.n)  # cuts the buffer after what it wrote
            self.n = PyByteArray_GET_SIZE(self.out)
        self.room(2)[0] = c"}"
        self.n += 1
        return 0

    cdef int add_http(self, const char *p, size_t n) except -1:
        """Makes the buffer one HTTP response."""
        cdef Py_ssize_t length
        cdef char *digit
        self.n = 0
        memcpy(self.room(512), PyBytes_AS_STRING(HEAD), HEAD_LENGTH)
        self.n = HEAD_LENGTH
        self.add(p, n)
        length = self.n - HEAD_LENGTH
        digit = PyByteArray_AS_STRING(self.out) + HEAD_LENGTH - 5
        while length:
            digit[0] = <char>(48 + length % 10)
            length //= 10
            digit -= 1
        return 0


cdef class Lines:
    """Lines(answers, loop): answers standard input on standard output, all lines of a read in one write."""

    cdef Answers answers
    cdef object loop
    cdef readonly object closed
    cdef char *buf
    cdef size_t size, n, searched
    cdef Py_ssize_t sent
    cdef bint blocked

    def __init__(self, Answers answers, loop):
        self.answers = answers
        self.loop = loop
        self.closed = loop.create_future()
        self.size = READ
        self.buf = <char *>malloc(self.size)

    def __dealloc__(self):
        free(self.buf)

    def readable(self):
        cdef ssize_t r
        cdef char *line
        cdef char *end
        cdef char *newline
        if self.n == self.size:
            self.size *= 2
            self.buf = <char *>realloc(self.buf, self.size)
        r = read(0, self.buf + self.n, self.size - self.n)
        if r < 0 and (errno == EAGAIN or errno == EINTR):
            return
        if r <= 0:
            self.loop.remove_reader(0)
            self.closed.set_result(None)
            return
        self.n += r
        line = self.buf
        end = self.buf + self.n
        newline = <char *>memchr(self.buf + self.searched, c"\n", self.n - self.searched)
        while newline != NULL:
            self.answers.add(line, newline - line)
            self.answers.room(1)[0] = c"\n"
            self.answers.n += 1
            line = newline + 1
            newline = <char *>memchr(line, c"\n", end - line)
        self.n = end - line
        if line > self.buf and self.n:
            memmove(self.buf, line, self.n)
        self.searched = self.n
        if not self.blocked:
            self.flush()

    cdef int flush(self) except -1:
        cdef ssize_t r
        while self.sent < self.answers.n:
            r = write(1, PyByteArray_AS_STRING(self.answers.out) + self.sent, self.answers.n - self.sent)
            if r < 0:
                if errno == EINTR:
                    continue
                if errno != EAGAIN:
                    raise OSError(errno, "write")
                if not self.blocked:
                    self.blocked = True
                    self.loop.add_writer(1, self.writable)
                return 0
            self.sent += r
        self.sent = self.answers.n = 0
        if self.blocked:
            self.blocked = False
            self.loop.remove_writer(1)
        return 0

    def writable(self):
        self.flush()


cdef class Plain:
    """Plain(answers): an asyncio.Protocol."""

    cdef Answers answers
    cdef object transport, write
    cdef char *buf
    cdef size_t size, n, need

    def __init__(self, Answers answers):
        self.answers = answers

    def __dealloc__(self):
        free(self.buf)

    def connection_made(self, transport):
        self.transport = transport
        self.write = transport.write

    def connection_lost(self, exc):
        self.transport = self.write = None

    def eof_received(self):
        return None

    def pause_writing(self):
        pass

    def resume_writing(self):
        pass

    cdef long serve(self, const char *p, size_t n) except -1:
        """Answers the whole requests; the bytes used. `need` says how many bytes an unfinished one has."""
        cdef long head, length
        cdef size_t done = 0
        self.need = 0
        while done < n:
            head = scan_head(p + done, n - done, &length)
            if head < 0:
                self.transport.abort()
                return n
            if head == 0:
                break
            if n - done < <size_t>(head + length):
                self.need = head + length
                break
            self.answers.add_http(p + done + head, length)
            self.write(PyBytes_FromStringAndSize(PyByteArray_AS_STRING(self.answers.out), self.answers.n))
            done += head + length
        return done

    cdef int make_room(self, size_t n) except -1:
        if self.n + n > self.size:
            self.size = max(self.n + n, 2 * self.size)
            self.buf = <char *>realloc(self.buf, self.size)
        return 0

    cdef int serve_buffer(self) except -1:
        cdef size_t done
        if self.n < self.need:
            return 0
        done = self.serve(self.buf, self.n)
        if done:
            self.n -= done
            if self.n:
                memmove(self.buf, self.buf + done, self.n)
        return 0

    def data_received(self, bytes data):
        cdef const char *p = PyBytes_AS_STRING(data)
        cdef size_t n = PyBytes_GET_SIZE(data), done
        if self.n == 0:
            done = self.serve(p, n)
            p += done
            n -= done
            if n == 0:
                return
        self.make_room(max(n, self.need - self.n if self.need > self.n else 0))
        memcpy(self.buf + self.n, p, n)
        self.n += n
        if self.need:
            self.serve_buffer()
        elif self.n != n:
            self.serve_buffer()


cdef class Buffered(Plain):
    """Buffered(answers): the same as an asyncio.BufferedProtocol, which reads into the buffer itself."""

    def get_buffer(self, hint):
        self.make_room(max(self.need - self.n if self.need > self.n else 0, <size_t>READ))
        return PyMemoryView_FromMemory(self.buf + self.n, self.size - self.n, PyBUF_WRITE)

    def buffer_updated(self, Py_ssize_t n):
        self.n += n
        self.serve_buffer()


cdef struct Peer:
    int fd
    char *buf
    size_t size, n, need
    char *out         # what the kernel did not take
    size_t out_size, out_n, sent


cdef class Engine:
    """Engine(answers, listening_fd): `epoll` is to be watched; each time it is readable, call `ready`."""

    cdef Answers answers
    cdef readonly int epoll
    cdef int listening

    def __init__(self, Answers answers, int listening):
        self.answers = answers
        self.listening = listening
        self.epoll = epoll_create1(EPOLL_CLOEXEC)
        watch(self.epoll, EPOLL_CTL_ADD, listening, EPOLLIN, NULL)

    def ready(self):
        cdef epoll_event events[WAITING]
        cdef int i
        cdef Peer *peer
        for i in range(epoll_wait(self.epoll, events, WAITING, 0)):
            peer = <Peer *>events[i].data.ptr
            if peer == NULL:
                self.accept()
                continue
            if events[i].events & EPOLLOUT:
                self.flush(peer)
            if events[i].events & ~<unsigned int>EPOLLOUT and not self.receive(peer):
                close(peer.fd)
                free(peer.buf)
                free(peer.out)
                free(peer)

    cdef int accept(self) except -1:
        cdef int fd, one = 1
        cdef Peer *peer
        while True:
            fd = accept_one(self.listening)
            if fd < 0:
                return 0
            setsockopt(fd, TCP, NODELAY, &one, sizeof(one))
            peer = <Peer *>malloc(sizeof(Peer))
            peer[0] = Peer(fd, NULL, 0, 0, 0, NULL, 0, 0, 0)
            watch(self.epoll, EPOLL_CTL_ADD, fd, EPOLLIN, peer)

    cdef int flush(self, Peer *peer) except -1:
        cdef ssize_t r = send(peer.fd, peer.out + peer.sent, peer.out_n - peer.sent, MSG_DONTWAIT | MSG_NOSIGNAL)
        if r > 0:
            peer.sent += r
        if peer.sent == peer.out_n:
            peer.sent = peer.out_n = 0
            watch(self.epoll, EPOLL_CTL_MOD, peer.fd, EPOLLIN, peer)
        return 0

    cdef bint answer(self, Peer *peer) except -1:
        """Sends the answer in the buffer; false when the peer is gone."""
        cdef const char *p = PyByteArray_AS_STRING(self.answers.out)
        cdef size_t n = self.answers.n
        cdef ssize_t r = 0
        if peer.out_n == 0:
            r = send(peer.fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL)
            if r < 0:
                if errno != EAGAIN:
                    return False
                r = 0
            if <size_t>r == n:
                return True
            watch(self.epoll, EPOLL_CTL_MOD, peer.fd, EPOLLIN | EPOLLOUT, peer)
        n -= r
        if peer.out_n + n > peer.out_size:
            peer.out_size = peer.out_n + n
            peer.out = <char *>realloc(peer.out, peer.out_size)
        memcpy(peer.out + peer.out_n, p + r, n)
        peer.out_n += n
        return True

    cdef bint receive(self, Peer *peer) except -1:
        """Reads once and answers the whole requests; false when the peer is gone."""
        cdef size_t want = max(peer.need, peer.n + READ), done = 0
        cdef long head, length
        cdef ssize_t r
        if peer.size < peer.need or peer.size - peer.n < SPAN:
            peer.size = want
            peer.buf = <char *>realloc(peer.buf, want)
        r = recv(peer.fd, peer.buf + peer.n, peer.size - peer.n, MSG_DONTWAIT)
        if r <= 0:
            return r < 0 and (errno == EAGAIN or errno == EINTR)
        peer.n += r
        if peer.n < peer.need:
            return True
        peer.need = 0
        while done < peer.n:
            head = scan_head(peer.buf + done, peer.n - done, &length)
            if head < 0:
                return False
            if head == 0:
                break
            if peer.n - done < <size_t>(head + length):
                peer.need = head + length
                break
            self.answers.add_http(peer.buf + done + head, length)
            if not self.answer(peer):
                return False
            done += head + length
        if done:
            peer.n -= done
            if peer.n:
                memmove(peer.buf, peer.buf + done, peer.n)
        return True
