/* HTTP/1.1 heads. Strategy: one forward pass that parses line after line and gives up at the first
 * thing it does not like; only then `unfinished` looks whether the line was cut short or is wrong,
 * so the good path carries no bookkeeping. Names are matched by length and masked word compares
 * (which also proves that they are tokens), values are scanned 16 bytes at a time. */
#include "hr_http1.h"

#include <string.h>

#include "hr_http_chars.h"
#include "hr_http_names.h"

/* Bytes of a request line beyond its target: method, two spaces, version, CRLF. */
enum { LINE_EXTRA = 64 };

#define IEQ(p, n, lit) hr_http1_ieq(p, n, lit, sizeof(lit) - 1)

/* The first ':' in [p, e), or e. */
static inline const char *find_colon(const char *p, const char *e)
{
#if HR_SSE2
    const __m128i colon = _mm_set1_epi8(':');
    for (; e - p >= 16; p += 16) {
        int m = _mm_movemask_epi8(_mm_cmpeq_epi8(_mm_loadu_si128((const __m128i *)p), colon));
        if (m)
            return p + __builtin_ctz((unsigned)m);
    }
#endif
    while (p < e && *p != ':')
        p++;
    return p;
}

/* The first byte in [p, e) that no field value may hold (a control character other than HTAB), or e. */
static inline const char *value_end(const char *p, const char *e)
{
    for (;;) {
#if HR_SSE2
        const __m128i ctl = _mm_set1_epi8(0x1f), del = _mm_set1_epi8(0x7f);
        for (; e - p >= 16; p += 16) {
            const __m128i x = _mm_loadu_si128((const __m128i *)p);
            int m = _mm_movemask_epi8(
                _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(x, ctl), x), _mm_cmpeq_epi8(x, del)));
            if (m) {
                p += __builtin_ctz((unsigned)m);
                goto found;
            }
        }
#endif
        while (p < e && (unsigned char)*p >= 0x20 && *p != 0x7f)
            p++;
        if (p == e)
            return p;
#if HR_SSE2
    found:
#endif
        if (*p != '\t')
            return p;
        p++;
    }
}

/* Looks at an unfinished or refused line from `from` to e for its end. HR_OK: the line is complete
 * (CRLF), so it was refused for its content. HR_NEED_MORE: cut short, *looked is where to go on.
 * HR_BAD_HEAD: it holds a byte outside cls, or a CR without LF. */
static int unfinished(const char *from, const char *e, int cls, const char **looked)
{
    const char *p = from;
    while (p < e && HR_IS(*p, cls))
        p++;
    *looked = p;
    if (p == e || (*p == '\r' && p + 1 == e))
        return HR_NEED_MORE;
    return *p == '\r' && p[1] == '\n' ? HR_OK : HR_BAD_HEAD;
}

/* "HTTP/x.y" at p, all 8 bytes present. */
static int version(const char *p, uint8_t *minor)
{
    if (HR_LIKELY(!memcmp(p, "HTTP/1.", 7) && (p[7] == '1' || p[7] == '0'))) {
        *minor = (uint8_t)(p[7] - '0');
        return HR_OK;
    }
    if (!memcmp(p, "HTTP/", 5) && p[5] >= '0' && p[5] <= '9' && p[6] == '.' && p[7] >= '0' && p[7] <= '9')
        return HR_BAD_VERSION;
    return HR_BAD_HEAD;
}

/* Absolute form: scheme "://" something. */
static int absolute(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && ((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'z'))
        i++;
    if (!i)
        return 0;
    while (i < n && (((p[i] | 0x20) >= 'a' && (p[i] | 0x20) <= 'z') || (p[i] >= '0' && p[i] <= '9') ||
                     p[i] == '+' || p[i] == '-' || p[i] == '.'))
        i++;
    return n - i > 3 && !memcmp(p + i, "://", 3);
}

/* Parses the request line at p. Returns the start of the next line, or NULL: the line is cut short,
 * or wrong as *why says. */
static const char *request_line(const char *p, const char *e, const hr_http1_limits *limits, hr_head *h,
                                int *why)
{
    const char *start = p;
    *why = HR_BAD_HEAD;
    if (e - p >= 8 && !memcmp(p, "POST ", 5)) {
        h->method = HR_M_POST;
        p += 4;
    } else if (e - p >= 8 && !memcmp(p, "GET ", 4)) {
        h->method = HR_M_GET;
        p += 3;
    } else {
        while (p < e && HR_IS(*p, HR_C_TOKEN))
            p++;
        if (p == e || *p != ' ' || p == start)
            return NULL;
        switch (p - start) {
        case 3:
            if (!memcmp(start, "PUT", 3)) h->method = HR_M_PUT;
            break;
        case 4:
            if (!memcmp(start, "HEAD", 4)) h->method = HR_M_HEAD;
            break;
        case 5:
            if (!memcmp(start, "PATCH", 5)) h->method = HR_M_PATCH;
            break;
        case 6:
            if (!memcmp(start, "DELETE", 6)) h->method = HR_M_DELETE;
            break;
        case 7:
            if (!memcmp(start, "OPTIONS", 7)) h->method = HR_M_OPTIONS;
            else if (!memcmp(start, "CONNECT", 7)) return NULL;
            break;
        default:
            break;
        }
    }
    h->verb.p = start;
    h->verb.n = (size_t)(p - start);
    start = ++p;
    while (p < e && HR_IS(*p, HR_C_TARGET))
        p++;
    h->target.p = start;
    h->target.n = (size_t)(p - start);
    if (e - p < 11 || *p != ' ' || p[9] != '\r' || p[10] != '\n' || p == start)
        return NULL;
    if (HR_UNLIKELY(*start != '/')) {
        if (absolute(start, h->target.n))
            h->flags |= HR_F_ABSOLUTE;
        else if (!(h->target.n == 1 && *start == '*' && h->method == HR_M_OPTIONS))
            return NULL;
    }
    *why = version(p + 1, &h->minor);
    if (*why != HR_OK)
        return NULL;
    if (h->target.n > limits->max_target) {
        *why = HR_TARGET_TOO_LONG;
        return NULL;
    }
    return p + 11;
}

/* Parses the status line at p, in the same way. The space before an empty reason may be missing. */
static const char *status_line(const char *p, const char *e, hr_head *h, int *why)
{
    *why = HR_BAD_HEAD;
    if (e - p < 14 || p[8] != ' ')
        return NULL;
    if (p[9] < '1' || p[9] > '9' || p[10] < '0' || p[10] > '9' || p[11] < '0' || p[11] > '9')
        return NULL;
    if (p[12] != ' ' && p[12] != '\r')
        return NULL;
    *why = version(p, &h->minor);
    if (*why != HR_OK)
        return NULL;
    *why = HR_BAD_HEAD;
    h->status = (uint16_t)((p[9] - '0') * 100 + (p[10] - '0') * 10 + (p[11] - '0'));
    p += 12;
    if (*p == ' ')
        p++;
    h->reason.p = p;
    p = value_end(p, e);
    h->reason.n = (size_t)(p - h->reason.p);
    return e - p >= 2 && p[0] == '\r' && p[1] == '\n' ? p + 2 : NULL;
}

static void connection_options(hr_head *h, const char *p, const char *e)
{
    while (p < e) {
        const char *start, *end;
        while (p < e && (*p == ' ' || *p == '\t' || *p == ','))
            p++;
        start = p;
        while (p < e && *p != ',')
            p++;
        end = p;
        while (end > start && (end[-1] == ' ' || end[-1] == '\t'))
            end--;
        if (IEQ(start, (size_t)(end - start), "close"))
            h->flags |= HR_F_CLOSE;
        else if (IEQ(start, (size_t)(end - start), "keep-alive"))
            h->flags |= HR_F_KEEP_ALIVE;
    }
}

/* Takes in a header line that is understood: [v, v + n) is its value. */
static int apply(hr_head *h, int what, const char *v, size_t n)
{
    size_t i;
    switch (what) {
    case HR_H_HOST:
        if (h->seen & (1u << HR_H_HOST))
            return HR_BAD_HEAD;
        for (i = 0; i < n; i++)
            if (!HR_IS(v[i], HR_C_HOST))
                return HR_BAD_HEAD;
        break;
    case S_LENGTH: {
        uint64_t x = 0;
        if (!n || n > 18 || (h->flags & (HR_F_HAS_LENGTH | HR_F_CHUNKED)))
            return HR_BAD_FRAMING;
        for (i = 0; i < n; i++) {
            if (v[i] < '0' || v[i] > '9')
                return HR_BAD_FRAMING;
            x = x * 10 + (uint64_t)(v[i] - '0');
        }
        h->content_length = x;
        h->flags |= HR_F_HAS_LENGTH;
        return HR_OK;
    }
    case S_CODING:
        if (!h->minor || (h->flags & (HR_F_HAS_LENGTH | HR_F_CHUNKED)))
            return HR_BAD_FRAMING;
        if (!IEQ(v, n, "chunked"))
            return HR_BAD_CODING;
        h->flags |= HR_F_CHUNKED;
        return HR_OK;
    case S_CONNECTION:
        connection_options(h, v, v + n);
        return HR_OK;
    case S_EXPECT:
        if (!IEQ(v, n, "100-continue"))
            h->flags |= HR_F_EXPECT_OTHER;
        else if (h->minor)
            h->flags |= HR_F_EXPECT_100;
        return HR_OK;
    case S_UPGRADE:
        h->flags |= HR_F_UPGRADE;
        return HR_OK;
    case S_TE:
        h->flags |= HR_F_TE;
        return HR_OK;
    default:
        break;
    }
    if (h->seen & (1u << what)) {
        h->duplicate |= 1u << what;
        return HR_OK;
    }
    h->seen |= 1u << what;
    h->known[what].p = v;
    h->known[what].n = n;
    return HR_OK;
}

/* Moves the spans of an unfinished head to where its bytes are now. */
static void rebase(hr_head *h, const char *p)
{
    uintptr_t old = (uintptr_t)h->base;
    hr_span *spans[4];
    int i;
    spans[0] = &h->verb;
    spans[1] = &h->target;
    spans[2] = &h->reason;
    spans[3] = &h->fields;
    for (i = 0; i < 4; i++)
        if (spans[i]->p)
            spans[i]->p = p + ((uintptr_t)spans[i]->p - old);
    for (i = 0; i < HR_H_COUNT; i++)
        if (h->known[i].p)
            h->known[i].p = p + ((uintptr_t)h->known[i].p - old);
    h->base = p;
}

/* Header lines from p to the empty line. HR_NEED_MORE leaves h->line and h->looked set. */
static int header_lines(hr_head *h, const char *p, const char *e, const char *looked,
                        const hr_http1_limits *limits)
{
    const char *k, *v, *ve;
    uint32_t count = h->count;
    size_t kn;
    int what, rc;

    for (;;) {
        if (HR_UNLIKELY(e - p < 2)) {
            if (e - p == 1 && *p != '\r' && count >= limits->max_count)
                return HR_HEAD_TOO_LARGE;
            goto cut;
        }
        if (*p == '\r') {
            if (p[1] != '\n')
                return HR_BAD_HEAD;
            h->count = count;
            h->fields.n = (size_t)(p - h->fields.p);
            h->head_len = (size_t)(p + 2 - h->base);
            return HR_OK;
        }
        if (HR_UNLIKELY(count >= limits->max_count))
            return HR_HEAD_TOO_LARGE;
        k = p;
        v = find_colon(p, e);
        kn = (size_t)(v - k);
        if (HR_UNLIKELY(v == e || !kn))
            goto cut;
        what = which_header(k, kn);
        if (what == S_NONE) {
            const char *t = k;
            do {
                if (HR_UNLIKELY(!HR_IS(*t, HR_C_TOKEN)))
                    goto cut;
            } while (++t < v);
            if (is_mcp_param(k, kn))
                h->flags |= HR_F_MCP_PARAM;
        }
        v++;
        while (v < e && (*v == ' ' || *v == '\t'))
            v++;
        ve = value_end(v, e);
        if (HR_UNLIKELY(e - ve < 2 || ve[0] != '\r' || ve[1] != '\n'))
            goto cut;
        p = ve + 2;
        count++;
        if (what != S_NONE) {
            while (ve > v && (ve[-1] == ' ' || ve[-1] == '\t'))
                ve--;
            rc = apply(h, what, v, (size_t)(ve - v));
            if (HR_UNLIKELY(rc != HR_OK))
                return rc;
        }
        looked = p;
    }

cut:
    h->count = count;
    h->line = (size_t)(p - h->base);
    rc = unfinished(looked > p ? looked : p, e, HR_C_VALUE, &looked);
    h->looked = (size_t)(looked - h->base);
    return rc == HR_NEED_MORE ? HR_NEED_MORE : HR_BAD_HEAD;
}

static int read_head(const char *p, size_t n, const hr_http1_limits *limits, hr_head *h, int request)
{
    const char *e = p + (n < limits->max_head ? n : limits->max_head);
    const char *line = p, *looked = p, *next, *window;
    int rc, why, cls = request ? HR_C_LINE : HR_C_VALUE;

    if (!h->started) {
        memset(h, 0, sizeof *h);
        h->base = p;
    } else {
        h->started = 0;
        rebase(h, p);
        line = p + h->line;
        looked = p + h->looked;
        if (looked > line) {
            window = e;
            if (request && !h->fields.p && (size_t)(e - line) > (size_t)limits->max_target + LINE_EXTRA)
                window = line + limits->max_target + LINE_EXTRA;
            rc = unfinished(looked, window, h->fields.p ? HR_C_VALUE : cls, &looked);
            if (rc == HR_NEED_MORE) {
                if (window != e || (request && !h->fields.p &&
                                    (size_t)(e - line) >= (size_t)limits->max_target + LINE_EXTRA))
                    return HR_TARGET_TOO_LONG;
                goto more;
            }
            if (rc != HR_OK)
                return rc;
        }
    }

    if (!h->fields.p) {
        if (request && line == p && e != p && *p == '\r') { /* one empty line before the request */
            if (e - p < 2) {
                looked = p;
                goto more;
            }
            if (p[1] != '\n')
                return HR_BAD_HEAD;
            line = p + 2;
            if (looked < line)
                looked = line;
            h->line = 2;
        }
        next = request ? request_line(line, e, limits, h, &why) : status_line(line, e, h, &why);
        window = e;
        if (request && (size_t)(e - line) >= (size_t)limits->max_target + LINE_EXTRA)
            window = line + limits->max_target + LINE_EXTRA;
        if (HR_UNLIKELY(!next)) {
            rc = unfinished(looked, window, cls, &looked);
            if (rc == HR_OK)
                return why;
            if (rc != HR_NEED_MORE)
                return rc;
            if (request && (size_t)(window - line) >= (size_t)limits->max_target + LINE_EXTRA)
                return HR_TARGET_TOO_LONG;
            goto more;
        }
        if (HR_UNLIKELY(next > window))
            return HR_TARGET_TOO_LONG;
        h->fields.p = next;
        line = looked = next;
    }
    rc = header_lines(h, line, e, looked, limits);
    if (rc == HR_OK) {
        if (request && h->minor && !(h->seen & (1u << HR_H_HOST)))
            return HR_BAD_HEAD;
        if (!(h->flags & HR_F_CLOSE) && (h->minor || (h->flags & HR_F_KEEP_ALIVE)))
            h->flags |= HR_F_PERSIST;
        return HR_OK;
    }
    if (rc != HR_NEED_MORE)
        return rc;
    line = p + h->line;
    looked = p + h->looked;

more:
    if (n >= limits->max_head)
        return HR_HEAD_TOO_LARGE;
    h->line = (size_t)(line - p);
    h->looked = (size_t)(looked - p);
    h->started = 1;
    return HR_NEED_MORE;
}

int hr_http1_request(const char *p, size_t n, const hr_http1_limits *limits, hr_head *h)
{
    return read_head(p, n, limits, h, 1);
}

int hr_http1_response(const char *p, size_t n, const hr_http1_limits *limits, hr_head *h)
{
    return read_head(p, n, limits, h, 0);
}

int hr_http1_next_header(const char **p, const char *e, hr_span *name, hr_span *value)
{
    const char *k = *p, *v, *ve;
    if (k >= e)
        return 0;
    v = find_colon(k, e);
    name->p = k;
    name->n = (size_t)(v - k);
    v++;
    while (v < e && (*v == ' ' || *v == '\t'))
        v++;
    ve = value_end(v, e);
    *p = ve + 2;
    while (ve > v && (ve[-1] == ' ' || ve[-1] == '\t'))
        ve--;
    value->p = v;
    value->n = (size_t)(ve - v);
    return 1;
}
