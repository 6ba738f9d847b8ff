/* Server-sent events. Strategy: a line machine that keeps nothing but its state between chunks.
 * Values of data lines go to the caller's buffer, except that a single data line which begins and
 * ends in the fed chunk stays there as a reference until its block ends. Names, ids and retry
 * digits are short and collect in the struct. */
#include "hr_sse.h"

#include <string.h>

#include "hr_http_chars.h"

enum { LINE_START = 0, NAME, VALUE_FIRST, VALUE };
enum { F_IGNORE = 0, F_DATA, F_EVENT, F_ID, F_RETRY };
enum { NAME_TOO_LONG = 7 };

/* The first CR or LF in [p, e), or e. */
static const char *line_end(const char *p, const char *e)
{
#if HR_SSE2
    const __m128i cr = _mm_set1_epi8('\r'), lf = _mm_set1_epi8('\n');
    for (; e - p >= 64; p += 64) {
        __m128i m[4];
        int i;
        for (i = 0; i < 4; i++) {
            const __m128i x = _mm_loadu_si128((const __m128i *)(p + 16 * i));
            m[i] = _mm_or_si128(_mm_cmpeq_epi8(x, cr), _mm_cmpeq_epi8(x, lf));
        }
        if (_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(m[0], m[1]), _mm_or_si128(m[2], m[3]))))
            break;
    }
    for (; e - p >= 16; p += 16) {
        const __m128i x = _mm_loadu_si128((const __m128i *)p);
        int m = _mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(x, cr), _mm_cmpeq_epi8(x, lf)));
        if (m)
            return p + __builtin_ctz((unsigned)m);
    }
#endif
    while (p < e && *p != '\n' && *p != '\r')
        p++;
    return p;
}

void hr_sse_restart(hr_sse *s, int keep_id)
{
    s->state = s->field = s->bom = s->skip_lf = s->drop = s->block_id = 0;
    s->retry_ms = 0;
    s->has_retry = 0;
    s->event_n = 0;
    s->used = s->ref_n = 0;
    s->lines = 0;
    s->ref = NULL;
    if (!keep_id)
        s->id_n = 0;
}

static int field_of(const char *p, size_t n)
{
    if (n == 4 && !memcmp(p, "data", 4))
        return F_DATA;
    if (n == 5 && !memcmp(p, "event", 5))
        return F_EVENT;
    if (n == 2 && !memcmp(p, "id", 2))
        return F_ID;
    if (n == 5 && !memcmp(p, "retry", 5))
        return F_RETRY;
    return F_IGNORE;
}

/* Room for n more bytes of data and the line feeds around them. */
static int room(hr_sse *s, size_t n)
{
    if (s->cap - s->used >= n + 2)
        return HR_OK;
    s->need = s->used + n + 2;
    if (s->need < s->cap * 2)
        s->need = s->cap * 2;
    return HR_SSE_GROW;
}

static void put(hr_sse *s, const char *p, size_t n)
{
    if (n)
        memcpy(s->buf + s->used, p, n);
    s->used += n;
}

/* Whether `more` bytes may join the data of this block (a reference counts as data). */
static int fits(const hr_sse *s, size_t more)
{
    size_t have = s->used + s->ref_n;
    return have <= s->max_event && more <= s->max_event - have;
}

/* Copies a waiting reference into buf. */
static int keep_ref(hr_sse *s)
{
    int rc;
    if (!s->ref)
        return HR_OK;
    rc = room(s, s->ref_n);
    if (rc != HR_OK)
        return rc;
    put(s, s->ref, s->ref_n);
    s->ref = NULL;
    s->ref_n = 0;
    return HR_OK;
}

/* A value of `field` begins. For data lines after the first this adds the line feed. */
static int begin_value(hr_sse *s, int field)
{
    int rc;
    if (field == F_DATA) {
        if (s->lines) {
            if (!fits(s, 1))
                return HR_SSE_TOO_LARGE;
            rc = keep_ref(s);
            if (rc == HR_OK)
                rc = room(s, 0);
            if (rc != HR_OK)
                return rc;
            s->buf[s->used++] = '\n';
        }
        if (s->lines < 2)
            s->lines++;
    } else if (field == F_EVENT) {
        s->event_n = 0;
    } else if (field == F_ID) {
        s->line_id_n = 0;
        s->drop = 0;
    } else if (field == F_RETRY) {
        s->retry_value = 0;
        s->retry_ok = 0;
        s->drop = 0;
    }
    s->field = (uint8_t)field;
    return HR_OK;
}

/* A piece of the value of s->field. */
static int add_value(hr_sse *s, const char *p, size_t n)
{
    size_t i;
    int rc;
    switch (s->field) {
    case F_DATA:
        if (!fits(s, n))
            return HR_SSE_TOO_LARGE;
        rc = room(s, n);
        if (rc != HR_OK)
            return rc;
        put(s, p, n);
        break;
    case F_EVENT:
        if (n > (size_t)HR_SSE_NAME_MAX - s->event_n)
            return HR_SSE_TOO_LARGE;
        memcpy(s->event + s->event_n, p, n);
        s->event_n = (uint16_t)(s->event_n + n);
        break;
    case F_ID:
        if (n > (size_t)HR_SSE_ID_MAX - s->line_id_n)
            return HR_SSE_TOO_LARGE;
        if (memchr(p, 0, n))
            s->drop = 1;
        memcpy(s->line_id + s->line_id_n, p, n);
        s->line_id_n = (uint16_t)(s->line_id_n + n);
        break;
    case F_RETRY:
        for (i = 0; i < n; i++) {
            if (p[i] < '0' || p[i] > '9') {
                s->drop = 1;
                break;
            }
            s->retry_ok = 1;
            s->retry_value = s->retry_value * 10 + (uint64_t)(p[i] - '0');
            if (s->retry_value > (uint64_t)HR_SSE_RETRY_MAX)
                s->retry_value = (uint64_t)HR_SSE_RETRY_MAX;
        }
        break;
    default:
        break;
    }
    return HR_OK;
}

/* The value's line ended. */
static void end_value(hr_sse *s)
{
    if (s->field == F_ID && !s->drop) {
        memcpy(s->next_id, s->line_id, s->line_id_n);
        s->next_id_n = s->line_id_n;
        s->block_id = 1;
    } else if (s->field == F_RETRY && s->retry_ok && !s->drop) {
        s->retry_ms = (int64_t)s->retry_value;
        s->has_retry = 1;
    }
}

/* A block ended: takes its id over, and fills *out when it had a data line. */
static int dispatch(hr_sse *s, hr_sse_event *out)
{
    int has_data = s->lines != 0, has_id = s->block_id;
    if (has_id) {
        memcpy(s->id, s->next_id, s->next_id_n);
        s->id_n = s->next_id_n;
    }
    if (has_data) {
        out->flags = has_id ? HR_SSE_HAS_ID : 0;
        if (s->ref) {
            out->data.p = s->ref;
            out->data.n = s->ref_n;
            out->flags |= HR_SSE_IN_PLACE;
        } else {
            out->data.p = s->used ? s->buf : "";
            out->data.n = s->used;
        }
        out->event.p = s->event;
        out->event.n = s->event_n;
        out->id.p = s->id;
        out->id.n = s->id_n;
        if (!s->event_n || (s->event_n == 7 && !memcmp(s->event, "message", 7)))
            out->flags |= HR_SSE_MESSAGE;
    }
    s->used = 0; /* the bytes stay in buf until the next call */
    s->ref = NULL;
    s->ref_n = 0;
    s->lines = 0;
    s->event_n = 0;
    s->block_id = 0;
    return has_data;
}

/* Removes the byte order mark at the very start of the stream (EF BB BF), which may come in pieces.
 * A part of one that turns out not to be one begins a field name that nobody knows. */
static const char *byte_order_mark(hr_sse *s, const char *p, const char *e)
{
    static const char mark[3] = {'\xEF', '\xBB', '\xBF'};
    while (p < e && s->bom < 3) {
        if (*p != mark[s->bom]) {
            if (s->bom) {
                s->state = NAME;
                s->name_n = NAME_TOO_LONG;
            }
            s->bom = 3;
            break;
        }
        p++;
        s->bom++;
    }
    return p;
}

int hr_sse_next(hr_sse *s, const char **pp, const char *e, hr_sse_event *out)
{
    const char *p = *pp, *end;
    int rc = HR_OK;

    if (s->bom < 3)
        p = byte_order_mark(s, p, e);
    while (p < e) {
        switch (s->state) {
        case LINE_START:
            if (s->skip_lf) {
                s->skip_lf = 0;
                if (*p == '\n') {
                    p++;
                    break;
                }
            }
            if (*p == '\n' || *p == '\r') {
                s->skip_lf = *p == '\r';
                p++;
                if (dispatch(s, out)) {
                    *pp = p;
                    return HR_OK;
                }
                break;
            }
            if (!s->lines && e - p > 6 && !memcmp(p, "data:", 5)) {
                /* the common case: the first data line of a block, wholly inside this chunk */
                const char *v = p + 5;
                v += *v == ' ';
                end = line_end(v, e);
                if (end < e) {
                    if (!fits(s, (size_t)(end - v))) {
                        rc = HR_SSE_TOO_LARGE;
                        goto out;
                    }
                    s->ref = v;
                    s->ref_n = (size_t)(end - v);
                    s->lines = 1;
                    s->skip_lf = *end == '\r';
                    p = end + 1;
                    break;
                }
            }
            s->name_n = 0;
            s->state = NAME;
            break;

        case NAME: /* one byte at a time: names that matter have at most five */
            if (*p == ':' || *p == '\n' || *p == '\r') {
                int field = s->name_n < NAME_TOO_LONG ? field_of(s->name, s->name_n) : F_IGNORE;
                rc = begin_value(s, field);
                if (rc != HR_OK)
                    goto out;
                if (*p == ':') {
                    s->state = VALUE_FIRST;
                } else {
                    end_value(s);
                    s->skip_lf = *p == '\r';
                    s->state = LINE_START;
                }
                p++;
            } else if (s->name_n < NAME_TOO_LONG) {
                s->name[s->name_n++] = *p++;
            } else {
                p++;
                while (p < e && *p != ':' && *p != '\n' && *p != '\r')
                    p++;
            }
            break;

        case VALUE_FIRST:
            p += *p == ' ';
            s->state = VALUE;
            break;

        default: /* VALUE */
            end = line_end(p, e);
            if (end > p) {
                rc = add_value(s, p, (size_t)(end - p));
                if (rc != HR_OK)
                    goto out;
            }
            p = end;
            if (p < e) {
                end_value(s);
                s->skip_lf = *p == '\r';
                s->state = LINE_START;
                p++;
            }
            break;
        }
    }
    rc = keep_ref(s);
    if (rc == HR_OK)
        rc = HR_NEED_MORE;
out:
    *pp = p;
    return rc;
}

/* Calls for each raw separator in [p, e): the length of the one at p, or 0. */
static inline size_t separator(const char *p, const char *e)
{
    if (*p == '\xE2')
        return e - p >= 3 && p[1] == '\x80' && (p[2] == '\xA8' || p[2] == '\xA9') ? 3 : 0;
    return *p == '\xC2' && e - p >= 2 && p[1] == '\x85' ? 2 : 0;
}

static size_t growth_of(const char *p, const char *e, int lead, size_t each)
{
    size_t growth = 0;
    while (p < e && (p = memchr(p, lead, (size_t)(e - p)))) {
        if (separator(p, e))
            growth += each;
        p++;
    }
    return growth;
}

size_t hr_sse_escape_growth(const char *p, size_t n)
{
    return growth_of(p, p + n, 0xE2, 3) + growth_of(p, p + n, 0xC2, 4);
}

void hr_sse_escape(char *p, size_t n, size_t growth)
{
    /* From the back, so that no byte is overwritten before it was read. A continuation byte is never
     * a lead byte, hence the separators found backwards are those found forwards. */
    const char *src = p + n, *e = src;
    char *dst = p + n + growth;
    while (dst != src) {
        size_t k;
        const char *text;
        src--;
        k = separator(src, e);
        if (!k) {
            *--dst = *src;
            continue;
        }
        text = k == 2 ? "\\u0085" : src[2] == '\xA8' ? "\\u2028" : "\\u2029";
        dst += k - 1; /* its last k - 1 bytes were already moved: drop them */
        dst -= 6;
        memcpy(dst, text, 6);
        e = src;
    }
}

size_t hr_sse_flatten(char *p, size_t n)
{
    char *e = p + n;
    size_t count = 0;
    while ((p = (char *)line_end(p, e)) < e) {
        *p++ = ' ';
        count++;
    }
    return count;
}
