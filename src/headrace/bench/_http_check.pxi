# Sending beside the transport; included by _http_load.pyx.

cdef extern from *:
    """
    #ifdef _WIN32
    static Py_ssize_t bench_send(int fd, const char *p, size_t n) { (void)fd; (void)p; (void)n; return 0; }
    #else
    #include <errno.h>
    #include <sys/socket.h>
    #ifndef MSG_NOSIGNAL
    #define MSG_NOSIGNAL 0
    #endif
    /* Bytes taken, 0 when none can be taken now, -1 when the socket is broken. */
    static Py_ssize_t bench_send(int fd, const char *p, size_t n)
    {
        ssize_t r;
        do r = send(fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
        while (r < 0 && errno == EINTR);
        if (r < 0) return errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS ? 0 : -1;
        return r;
    }
    #endif
    """
    Py_ssize_t bench_send(int fd, const char *p, size_t n) noexcept nogil
