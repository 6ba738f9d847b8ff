# Sending beside the transport, and what a result object says of itself; included by _http_load.pyx.

cdef extern from *:
    """
    #include <string.h>
    #include "hr_json.h"
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

    static int bench_has(const char *p, size_t n, const char *q, size_t m)
    {
        if (m == 0) return 1;
        while (n >= m) {
            const char *at = memchr(p, q[0], n - m + 1);
            if (at == NULL) return 0;
            if (memcmp(at, q, m) == 0) return 1;
            n -= (size_t)(at + 1 - p);
            p = at + 1;
        }
        return 0;
    }

    static int bench_text_is(const hr_token *t, const char *text, size_t n)
    {
        char plain[64];
        if (t->type != HR_T_STRING || t->n < 2) return 0;
        if (!t->escaped) return t->n == n + 2 && memcmp(t->p + 1, text, n) == 0;
        return t->n <= 64 && hr_json_unescape(plain, t->p + 1, t->n - 2) == n && memcmp(plain, text, n) == 0;
    }

    enum { BENCH_COMPLETE, BENCH_IS_ERROR, BENCH_UNFINISHED };
    /* What the members of a result object (checked JSON) say of it. */
    static int bench_result(const hr_token *result, uint32_t max_depth)
    {
        const char *p = hr_json_ws(result->p + 1, result->p + result->n), *e = result->p + result->n;
        while (p < e && *p == '"') {
            hr_token key, value;
            if (hr_json_skip(p, e, 2, max_depth, &key)) break;
            p = hr_json_ws(key.p + key.n, e);
            if (p == e || *p != ':') break;
            p = hr_json_ws(p + 1, e);
            if (hr_json_skip(p, e, 2, max_depth, &value)) break;
            p = hr_json_ws(value.p + value.n, e);
            if (value.type == HR_T_TRUE && bench_text_is(&key, "isError", 7)) return BENCH_IS_ERROR;
            if (value.type == HR_T_STRING && bench_text_is(&key, "resultType", 10)
                && !bench_text_is(&value, "complete", 8))
                return BENCH_UNFINISHED;
            if (p == e || *p != ',') break;
            p = hr_json_ws(p + 1, e);
        }
        return BENCH_COMPLETE;
    }
    """
    Py_ssize_t bench_send(int fd, const char *p, size_t n) noexcept nogil
    bint bench_has(const char *p, size_t n, const char *q, size_t m) noexcept nogil
    enum:
        BENCH_IS_ERROR
        BENCH_UNFINISHED
    int bench_result(const hr_token *result, unsigned int max_depth) noexcept nogil
