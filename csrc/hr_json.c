/* JSON values (RFC 8259): strict checking of one value, and the contract of hr_json.h.
 *
 * Nothing recurses: the open levels are kept in one byte each, so that depth costs no C stack. */
#include "hr_json_scan.h"

/* ---- values -------------------------------------------------------------------------------- */

static hr_up number(hr_up p, hr_scan *s)
{
    const hr_up e = s->e;
    s->type = HR_T_INT;
    if (*p == '-') p++;
    if (p >= e) return hr_fault(s, e, HR_BAD_JSON);
    if (*p == '0') {
        p++;
    } else {
        const hr_up q = hr_scan_digits(p, e);
        if (q == p) return hr_fault(s, p, HR_BAD_JSON);
        p = q;
    }
    if (p < e && *p == '.') {
        s->type = HR_T_NUMBER;
        const hr_up q = hr_scan_digits(p + 1, e);
        if (q == p + 1) return hr_fault(s, q, HR_BAD_JSON);
        p = q;
    }
    if (p < e && (*p | 0x20) == 'e') {
        s->type = HR_T_NUMBER;
        p++;
        if (p < e && (*p == '+' || *p == '-')) p++;
        const hr_up q = hr_scan_digits(p, e);
        if (q == p) return hr_fault(s, p, HR_BAD_JSON);
        p = q;
    }
    return p;
}

static inline hr_up literal(hr_up p, hr_scan *s, const char *text, size_t n, uint8_t type)
{
    if ((size_t)(s->e - p) < n || memcmp(p, text, n) != 0) return hr_fault(s, p, HR_BAD_JSON);
    s->type = type;
    return p + n;
}

/* A number or a literal: p is at a byte that begins neither a string nor an array or object. */
static inline hr_up scalar(hr_up p, hr_scan *s)
{
    switch (*p) {
    case 't': return literal(p, s, "true", 4, HR_T_TRUE);
    case 'f': return literal(p, s, "false", 5, HR_T_FALSE);
    case 'n': return literal(p, s, "null", 4, HR_T_NULL);
    default: return number(p, s);
    }
}

static hr_up container(hr_up p, hr_scan *s, uint32_t depth)
{
    const hr_up e = s->e;
    const uint32_t room = s->max_depth > depth ? s->max_depth - depth : 0;
    unsigned char open[HR_DEPTH_CAP]; /* the closing bracket of every open level */
    unsigned char close;
    uint32_t d = 0;

begin: /* p is at an opening bracket */
    if (HR_UNLIKELY(d >= room)) return hr_fault(s, p, HR_TOO_DEEP);
    close = (unsigned char)(*p + 2); /* '{' + 2 is '}', '[' + 2 is ']' */
    open[d++] = close;
    p = hr_scan_ws(p + 1, e);
    if (HR_UNLIKELY(p >= e)) goto cut;
    if (*p == close) goto end;
    if (close == ']') goto value;

key:
    if (HR_UNLIKELY(*p != '"')) goto bad;
    p = hr_scan_string(p + 1, s);
    if (HR_UNLIKELY(!p)) return NULL;
    p = hr_scan_ws(p, e);
    if (HR_UNLIKELY(p >= e)) goto cut;
    if (HR_UNLIKELY(*p != ':')) goto bad;
    p = hr_scan_ws(p + 1, e);
    if (HR_UNLIKELY(p >= e)) goto cut;

value:
    if (*p == '"')
        p = hr_scan_string(p + 1, s);
    else if (*p == '{' || *p == '[')
        goto begin;
    else
        p = scalar(p, s);
    if (HR_UNLIKELY(!p)) return NULL;

next: /* p is behind a value inside `close` */
    p = hr_scan_ws(p, e);
    if (HR_UNLIKELY(p >= e)) goto cut;
    if (*p == ',') {
        p = hr_scan_ws(p + 1, e);
        if (HR_UNLIKELY(p >= e)) goto cut;
        if (close == '}') goto key;
        goto value;
    }
    if (HR_UNLIKELY(*p != close)) goto bad;

end: /* p is at the closing bracket */
    p++;
    if (--d == 0) {
        s->type = close == '}' ? HR_T_OBJECT : HR_T_ARRAY;
        return p;
    }
    close = open[d - 1];
    goto next;

bad:
    return hr_fault(s, p, HR_BAD_JSON);
cut:
    return hr_fault(s, e, HR_BAD_JSON);
}

hr_up hr_scan_value(hr_up p, hr_scan *s, uint32_t depth)
{
    if (HR_UNLIKELY(p >= s->e)) return hr_fault(s, s->e, HR_BAD_JSON);
    if (*p == '"') {
        p = hr_scan_string(p + 1, s);
        s->type = HR_T_STRING;
        return p;
    }
    if (*p == '{' || *p == '[') return container(p, s, depth);
    return scalar(p, s);
}

hr_up hr_scan_skip(hr_up p, hr_scan *s, uint32_t depth)
{
    if (HR_UNLIKELY(p >= s->e)) return hr_fault(s, s->e, HR_BAD_JSON);
    if (*p == '"') {
        s->escaped = 0;
        p = hr_skip_string(p + 1, s);
        s->type = HR_T_STRING;
        return p;
    }
    if (*p == '{' || *p == '[') return hr_skip_container(p, s, depth);
    return scalar(p, s);
}

/* ---- the contract of hr_json.h ------------------------------------------------------------- */

const char *hr_json_ws(const char *p, const char *e)
{
    return (const char *)hr_scan_ws((hr_up)p, (hr_up)e);
}

static inline void scan_init(hr_scan *s, const char *e, uint32_t max_depth)
{
    memset(s, 0, sizeof *s);
    s->e = (hr_up)e;
    s->max_depth = max_depth < HR_DEPTH_CAP ? max_depth : HR_DEPTH_CAP;
}

static inline int token(const hr_scan *s, const char *p, hr_up q, hr_token *out)
{
    if (!q) {
        memset(out, 0, sizeof *out);
        return s->rc;
    }
    out->p = p;
    out->n = (size_t)((const char *)q - p);
    out->type = s->type;
    out->escaped = s->type == HR_T_STRING && s->escaped;
    return HR_OK;
}

int hr_json_value(const char *p, const char *e, uint32_t depth, uint32_t max_depth, hr_token *out)
{
    hr_scan s;
    scan_init(&s, e, max_depth);
    return token(&s, p, hr_scan_value((hr_up)p, &s, depth), out);
}

int hr_json_skip(const char *p, const char *e, uint32_t depth, uint32_t max_depth, hr_token *out)
{
    hr_scan s;
    scan_init(&s, e, max_depth);
    return token(&s, p, hr_scan_skip((hr_up)p, &s, depth), out);
}

int hr_json_check(const char *p, size_t n, uint32_t max_depth)
{
    hr_scan s;
    scan_init(&s, p + n, max_depth);
    const hr_up q = hr_scan_value(hr_scan_ws((hr_up)p, s.e), &s, 0);
    if (!q) return s.rc;
    return hr_scan_ws(q, s.e) == s.e ? HR_OK : HR_BAD_JSON;
}
