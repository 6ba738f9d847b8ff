/* Reading and writing descriptors that must not block and must not be changed.
 *
 * O_NONBLOCK belongs to the open file description, which standard input and output share with the
 * parent, with other children and often with stderr. So it is set only on descriptions that are ours
 * alone; every other kind has its own way of not blocking, chosen once per descriptor:
 *
 *   HR_FD_OWN     our own description, O_NONBLOCK is set: plain read and write
 *   HR_FD_SOCKET  recv and send with MSG_DONTWAIT
 *   HR_FD_NOWAIT  preadv2 and pwritev2 with RWF_NOWAIT; where the kernel does not know it for this file,
 *                 the mode becomes HR_FD_POLL by itself
 *   HR_FD_POLL    read after poll says readable; after poll says writable, write at most what the kernel
 *                 then takes without blocking (POSIX: PIPE_BUF bytes on a pipe)
 *   HR_FD_TTY     the same for terminals, which promise no more than one byte
 *   HR_FD_BLOCK   regular files and the null device: never pollable, never block for long
 *
 * All return a count, or a negative errno (-EAGAIN: would block). EINTR never comes out.
 * The gate is one pollable descriptor that stands for both directions of a connection: an event loop
 * that sets O_NONBLOCK on what it watches (libuv does) changes the gate, not the shared description. */
#ifndef HR_FD_H
#define HR_FD_H

#include "hr_base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>

enum { HR_FD_OWN, HR_FD_SOCKET, HR_FD_NOWAIT, HR_FD_POLL, HR_FD_TTY, HR_FD_BLOCK };
enum { HR_FD_READABLE = 1, HR_FD_WRITABLE = 2 };

#ifdef _WIN32
/* Only blocking calls from a thread make sense here; nothing of it was tested. */
#include <io.h>
#ifndef _SSIZE_T_DEFINED
typedef intptr_t hr_ssize;
#else
typedef ssize_t hr_ssize;
#endif
typedef struct {
    void *iov_base;
    size_t iov_len;
} hr_iovec;

static inline hr_ssize hr_fd_read(int *mode, int fd, char *buf, size_t n) {
    (void)mode;
    int r = _read(fd, buf, n > INT_MAX ? INT_MAX : (unsigned)n);
    return r < 0 ? -errno : r;
}

static inline hr_ssize hr_fd_writev(int *mode, int fd, hr_iovec *iov, int count) {
    (void)mode;
    (void)count;
    int r = _write(fd, iov->iov_base, iov->iov_len > INT_MAX ? INT_MAX : (unsigned)iov->iov_len);
    return r < 0 ? -errno : r;
}

static inline int hr_gate_open(void) { return -ENOSYS; }
static inline int hr_gate_set(int gate, int fd, int old, int now) {
    (void)gate;
    (void)fd;
    return old == now ? 0 : -ENOSYS;
}
static inline int hr_fd_close(int fd) { return _close(fd); }
static inline int hr_fd_shutdown(int fd) {
    (void)fd;
    return -ENOSYS;
}
static inline hr_ssize hr_pipe_grow(int fd, hr_ssize want) {
    (void)fd;
    (void)want;
    return -ENOSYS;
}
static inline int hr_fd_soon(int fd, long ns) {
    (void)fd;
    (void)ns;
    return 0;
}

#else /* POSIX */

#include <poll.h>
#include <time.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/epoll.h>
#else
#include <sys/event.h>
#include <sys/types.h>
#endif

typedef ssize_t hr_ssize;
typedef struct iovec hr_iovec;

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0
#endif

static inline hr_ssize hr_fd_error(void) {
#if EWOULDBLOCK != EAGAIN
    if (errno == EWOULDBLOCK) return -EAGAIN;
#endif
    return -errno;
}

/* 1 when fd is ready for `events` (or broken, which the call that follows reports), else 0. */
static inline int hr_fd_ready(int fd, short events) {
    struct pollfd p = {.fd = fd, .events = events, .revents = 0};
    int r;
    do r = poll(&p, 1, 0);
    while (r < 0 && errno == EINTR);
    return r != 0;
}

/* Whether fd becomes readable within `ns` nanoseconds: asked again and again, the processor is not given up.
 * Cheaper than sleeping and being woken when the wait is shorter than that; nothing else. */
static inline int hr_fd_soon(int fd, long ns) {
    struct timespec t;
    long long until = 0, now;
    for (;;) {
        if (hr_fd_ready(fd, POLLIN)) return 1;
        if (clock_gettime(CLOCK_MONOTONIC, &t) < 0) return 0;
        now = t.tv_sec * 1000000000LL + t.tv_nsec;
        if (until == 0)
            until = now + ns;
        else if (now >= until)
            return 0;
    }
}

#ifdef RWF_NOWAIT
/* The kernel, or a filter in front of it, does not offer RWF_NOWAIT for this file. */
static inline int hr_fd_no_nowait(int error) {
    return error == EOPNOTSUPP || error == ENOSYS || error == EINVAL || error == EPERM || error == ESPIPE;
}
#endif

static inline hr_ssize hr_fd_read(int *mode, int fd, char *buf, size_t n) {
    hr_ssize r;
    for (;;) {
        switch (*mode) {
        case HR_FD_SOCKET:
            r = recv(fd, buf, n, MSG_DONTWAIT);
            break;
        case HR_FD_NOWAIT: {
#ifdef RWF_NOWAIT
            struct iovec iov = {.iov_base = buf, .iov_len = n};
            r = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
            if (r >= 0 || !hr_fd_no_nowait(errno)) break;
#endif
            *mode = HR_FD_POLL;
            continue;
        }
        case HR_FD_POLL:
        case HR_FD_TTY:
            if (!hr_fd_ready(fd, POLLIN)) return -EAGAIN;
            r = read(fd, buf, n);
            break;
        default:
            r = read(fd, buf, n);
        }
        if (r >= 0) return r;
        if (errno != EINTR) return hr_fd_error();
    }
}

static inline hr_ssize hr_fd_writev(int *mode, int fd, hr_iovec *iov, int count) {
    hr_ssize r;
    for (;;) {
        switch (*mode) {
        case HR_FD_SOCKET: {
            struct msghdr m = {.msg_iov = iov, .msg_iovlen = count};
            r = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
            break;
        }
        case HR_FD_NOWAIT:
#ifdef RWF_NOWAIT
            r = pwritev2(fd, iov, count, -1, RWF_NOWAIT);
            if (r >= 0 || !hr_fd_no_nowait(errno)) break;
#endif
            *mode = HR_FD_POLL;
            continue;
        case HR_FD_POLL:
        case HR_FD_TTY: {
            const size_t most = *mode == HR_FD_TTY ? 1 : PIPE_BUF;
            if (!hr_fd_ready(fd, POLLOUT)) return -EAGAIN;
            r = write(fd, iov->iov_base, iov->iov_len < most ? iov->iov_len : most);
            break;
        }
        default:
            r = count == 1 ? write(fd, iov->iov_base, iov->iov_len) : writev(fd, iov, count);
        }
        if (r >= 0) return r;
        if (errno != EINTR) return hr_fd_error();
    }
}

static inline int hr_fd_close(int fd) { return close(fd); }
static inline int hr_fd_shutdown(int fd) { return shutdown(fd, SHUT_WR) < 0 ? -errno : 0; }

/* Grows a pipe to at least `want` bytes where that is possible; its capacity, or a negative errno. */
static inline hr_ssize hr_pipe_grow(int fd, hr_ssize want) {
#ifdef F_SETPIPE_SZ
    int have = fcntl(fd, F_GETPIPE_SZ);
    if (have < 0 || have >= want) return have < 0 ? -errno : have;
    have = fcntl(fd, F_SETPIPE_SZ, (int)want);
    return have < 0 ? -errno : have;
#else
    (void)fd;
    (void)want;
    return -ENOSYS;
#endif
}

#ifdef __linux__
static inline int hr_gate_open(void) {
    int fd = epoll_create1(EPOLL_CLOEXEC);
    return fd < 0 ? -errno : fd;
}

/* Changes what is watched of fd from `old` to `now`, both HR_FD_READABLE | HR_FD_WRITABLE. Nothing
 * to watch takes the descriptor out: epoll reports a hang-up whatever was asked for. -EPERM: fd is of
 * a kind that cannot be polled. */
static inline int hr_gate_set(int gate, int fd, int old, int now) {
    struct epoll_event e = {.events = 0, .data = {.fd = fd}};
    if (old == now) return 0;
    if (now & HR_FD_READABLE) e.events |= EPOLLIN;
    if (now & HR_FD_WRITABLE) e.events |= EPOLLOUT;
    int op = now == 0 ? EPOLL_CTL_DEL : old == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    return epoll_ctl(gate, op, fd, &e) < 0 ? -errno : 0;
}
#else
static inline int hr_gate_open(void) {
    int fd = kqueue();
    if (fd < 0) return -errno;
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

static inline int hr_gate_set(int gate, int fd, int old, int now) {
    struct kevent e[2];
    int n = 0, changed = old ^ now;
    if (changed & HR_FD_READABLE) {
        EV_SET(&e[n], fd, EVFILT_READ, now & HR_FD_READABLE ? EV_ADD : EV_DELETE, 0, 0, NULL);
        n++;
    }
    if (changed & HR_FD_WRITABLE) {
        EV_SET(&e[n], fd, EVFILT_WRITE, now & HR_FD_WRITABLE ? EV_ADD : EV_DELETE, 0, 0, NULL);
        n++;
    }
    return n != 0 && kevent(gate, e, n, NULL, 0, NULL) < 0 ? -errno : 0;
}
#endif

#endif /* POSIX */
#endif
