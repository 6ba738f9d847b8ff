# What a result object (checked JSON) says of itself; included by _http_load.pyx and _line_load.pyx.
#
# Strategy: one pass over the members of the object. The expected text counts where an answer holds something: in
# strings and numbers. Names of members and words of the protocol ("type":"text", "resultType":"complete") do not
# count, as an expected "x" would be found in every answer.

cdef extern from *:
    """
    #include <string.h>
    #include "hr_json.h"

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

    static int bench_word(const char *p, size_t n, const char *const *words)
    {
        for (; *words != NULL; words++)
            if (strlen(*words) == n && memcmp(*words, p, n) == 0) return 1;
        return 0;
    }

    /* Whether a string or number of a value holds the text. */
    static int bench_holds(const char *p, const char *e, const char *q, size_t m)
    {
        static const char *const framing[] = {"type", "mimeType", "role", "_meta", NULL};
        int skip = 0;
        while (p < e) {
            const char *s = p, *after;
            if (*p == '"') {
                for (s = ++p; ; p++) {
                    const char *b;
                    p = memchr(p, '"', (size_t)(e - p));
                    if (p == NULL) return 0;
                    for (b = p; b > s && b[-1] == '\\\\'; b--) { }
                    if ((p - b) % 2 == 0) break;
                }
                after = hr_json_ws(p + 1, e);
                if (after < e && *after == ':') {
                    skip = bench_word(s, (size_t)(p - s), framing);
                    p = after + 1;
                    continue;
                }
                if (!skip && bench_has(s - 1, (size_t)(p + 2 - s), q, m)) return 1;    /* with its quotes */
                p++;
            } else if ((*p >= '0' && *p <= '9') || *p == '-' || (*p >= 'a' && *p <= 'z')) {
                while (p < e && memchr(",]} \\t\\r\\n", *p, 7) == NULL) p++;
                if (!skip && bench_has(s, (size_t)(p - s), q, m)) return 1;
            } else {
                p++;
            }
        }
        return 0;
    }

    enum { BENCH_COMPLETE, BENCH_IS_ERROR, BENCH_UNFINISHED, BENCH_WRONG };
    /* `q`: the text that it must hold, `member`: the list that it must have; NULL: none. */
    static int bench_result(const hr_token *result, uint32_t max_depth, const char *q, size_t m, const char *member,
                            size_t member_n)
    {
        static const char *const envelope[] = {
            "resultType", "isError", "_meta", "ttlMs", "cacheScope", "nextCursor", NULL};
        const char *p = hr_json_ws(result->p + 1, result->p + result->n), *e = result->p + result->n;
        int held = q == NULL, listed = member == NULL, unfinished = 0;
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
                unfinished = 1;
            if (!listed) listed = value.type == HR_T_ARRAY && bench_text_is(&key, member, member_n);
            if (!held && !bench_word(key.p + 1, key.n - 2, envelope))
                held = bench_holds(value.p, value.p + value.n, q, m);
            if (p == e || *p != ',') break;
            p = hr_json_ws(p + 1, e);
        }
        if (unfinished) return BENCH_UNFINISHED;
        return held && listed ? BENCH_COMPLETE : BENCH_WRONG;
    }
    """
    bint bench_has(const char *p, size_t n, const char *q, size_t m) noexcept nogil
    enum:
        BENCH_COMPLETE
        BENCH_IS_ERROR
        BENCH_UNFINISHED
        BENCH_WRONG
    int bench_result(const hr_token *result, unsigned int max_depth, const char *q, size_t m, const char *member,
                     size_t member_n) noexcept nogil


cdef str result_fault(const hr_token *result, unsigned int max_depth, bytes expects, bytes member):
    """The kind of error of a result object; None: it is right."""
    cdef const char *q = NULL
    cdef const char *name = NULL
    cdef size_t m = 0, n = 0
    cdef int said
    if expects is not None:
        q = PyBytes_AS_STRING(expects)
        m = <size_t>PyBytes_GET_SIZE(expects)
    if member is not None:
        name = PyBytes_AS_STRING(member)
        n = <size_t>PyBytes_GET_SIZE(member)
    said = bench_result(result, max_depth, q, m, name, n)
    if said == BENCH_COMPLETE:
        return None
    return "is_error" if said == BENCH_IS_ERROR else "unfinished" if said == BENCH_UNFINISHED else "wrong_content"
