/* JSON strings, and the skipping of a value by structure: what is worth vector instructions.
 *
 * Plain text is passed over 16 bytes at a time; a string rich in escapes or non-ASCII text goes on
 * in blocks of 64 bytes, where one bit per byte says "quote", "backslash", "escaped", so that an
 * escape costs no restart. A block that would reach behind the text is read from a padded copy. */
#include "hr_json_scan.h"

/* ---- strings ------------------------------------------------------------------------------- */

/* The length of the UTF-8 sequence at p (its first byte is not ASCII), 0 if it is none (RFC 3629:
 * no overlong form, no surrogate, nothing above U+10FFFF). */
static inline unsigned utf8_sequence(hr_up p, hr_up e)
{
    const size_t left = (size_t)(e - p);
    const unsigned c = p[0];
    if (c < 0xC2) return 0;
    if (c < 0xE0) return left >= 2 && (p[1] & 0xC0) == 0x80 ? 2 : 0;
    if (c < 0xF0) {
        if (left < 3 || (p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80) return 0;
        if ((c == 0xE0 && p[1] < 0xA0) || (c == 0xED && p[1] > 0x9F)) return 0;
        return 3;
    }
    if (c > 0xF4 || left < 4) return 0;
    if ((p[1] & 0xC0) != 0x80 || (p[2] & 0xC0) != 0x80 || (p[3] & 0xC0) != 0x80) return 0;
    if ((c == 0xF0 && p[1] < 0x90) || (c == 0xF4 && p[1] > 0x8F)) return 0;
    return 4;
}

/* p is at a backslash; returns behind the escape (behind both halves of a surrogate pair). */
static hr_up escape_sequence(hr_up p, hr_scan *s)
{
    const hr_up e = s->e;
    if (e - p < 2) return hr_fault(s, e, HR_BAD_JSON);
    switch (p[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return p + 2;
    case 'u': {
        if (e - p < 6) return hr_fault(s, p, HR_BAD_JSON);
        const int unit = hr_hex4(p + 2);
        if (unit < 0 || (unit & 0xFC00) == 0xDC00) return hr_fault(s, p, HR_BAD_JSON);
        if ((unit & 0xFC00) != 0xD800) return p + 6;
        if (e - p < 12 || p[6] != '\\' || p[7] != 'u') return hr_fault(s, p, HR_BAD_JSON);
        const int low = hr_hex4(p + 8);
        if (low < 0 || (low & 0xFC00) != 0xDC00) return hr_fault(s, p, HR_BAD_JSON);
        return p + 12;
    }
    default:
        return hr_fault(s, p, HR_BAD_JSON);
    }
}

static inline int is_special(unsigned char c)
{
    return c == '"' || c == '\\' || c < 0x20 || c >= 0x80;
}

/* The first byte of [p, e) that is a quote, a backslash, a control or not ASCII; else e. */
static inline hr_up plain_run(hr_up p, hr_up e)
{
#if HR_SSE2
    while ((size_t)(e - p) >= 16) {
        const unsigned k = hr_special16(p);
        if (k) return p + __builtin_ctz(k);
        p += 16;
    }
#else
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    while ((size_t)(e - p) >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        const uint64_t q = w ^ (ones * '"'), b = w ^ (ones * '\\');
        /* classic zero-byte tests; a false alarm above a true one is sorted out bytewise below */
        if (((q - ones) | (b - ones) | (w - ones * 0x20) | w) & high) break;
        p += 8;
    }
#endif
    while (p < e && !is_special(*p)) p++;
    return p;
}

#if HR_SSE2

#define BLOCK 64

typedef struct {
    uint64_t quote, backslash;
} quote_bits;

static inline uint64_t bits64(__m128i a, __m128i b, __m128i c, __m128i d)
{
    return (uint64_t)(unsigned)_mm_movemask_epi8(a) | (uint64_t)(unsigned)_mm_movemask_epi8(b) << 16 |
           (uint64_t)(unsigned)_mm_movemask_epi8(c) << 32 | (uint64_t)(unsigned)_mm_movemask_epi8(d) << 48;
}

static inline uint64_t equal64(const __m128i x[4], char c)
{
    const __m128i v = _mm_set1_epi8(c);
    return bits64(_mm_cmpeq_epi8(x[0], v), _mm_cmpeq_epi8(x[1], v), _mm_cmpeq_epi8(x[2], v),
                  _mm_cmpeq_epi8(x[3], v));
}

static inline uint64_t below_space64(const __m128i x[4]) /* controls and non-ASCII */
{
    const __m128i v = _mm_set1_epi8(0x20);
    return bits64(_mm_cmplt_epi8(x[0], v), _mm_cmplt_epi8(x[1], v), _mm_cmplt_epi8(x[2], v),
                  _mm_cmplt_epi8(x[3], v));
}

/* Loads 64 bytes; behind the end of the text there are zeros. */
static inline void load64(__m128i x[4], hr_up p, hr_up e)
{
    unsigned char tail[BLOCK];
    if (HR_UNLIKELY((size_t)(e - p) < BLOCK)) {
        memset(tail, 0, sizeof tail);
        memcpy(tail, p, (size_t)(e - p));
        p = tail;
    }
    for (int i = 0; i < 4; i++) x[i] = _mm_loadu_si128((const __m128i *)(const void *)(p + 16 * i));
}

/* Bits of the bytes that follow an unescaped backslash. *carry: the first byte of this block is
 * one, and then the same for the next block. Runs of backslashes are told odd from even by adding
 * them to themselves: the carry of the addition ends up behind each run. */
static inline uint64_t escaped_bits(uint64_t backslash, uint64_t *carry)
{
    const uint64_t odd = UINT64_C(0xAAAAAAAAAAAAAAAA), first = *carry;
    if (!backslash) {
        *carry = 0;
        return first;
    }
    const uint64_t start = backslash & ~first;
    const uint64_t codes = (((start << 1) | odd) - start) ^ odd;
    *carry = (codes & backslash) >> 63;
    return codes ^ (backslash | first);
}

/* The rest of a string in blocks. */
static hr_up string_blocks(hr_up p, hr_scan *s)
{
    const hr_up e = s->e;
    uint64_t carry = 0;
    hr_up utf8_done = p; /* everything before it is checked UTF-8 */
    hr_up low_at = NULL; /* where the u of a low surrogate is due */
    for (; p < e; p += BLOCK) {
        __m128i x[4];
        load64(x, p, e);
        const uint64_t quote = equal64(x, '"'), backslash = equal64(x, '\\'), odd = below_space64(x);
        const uint64_t escaped = escaped_bits(backslash, &carry);
        const uint64_t end = quote & ~escaped;
        const uint64_t in = end ? (end & -end) - 1 : ~UINT64_C(0); /* the string's own bytes */

        if (HR_UNLIKELY(odd & in)) {
            const uint64_t high = bits64(x[0], x[1], x[2], x[3]) & in;
            const uint64_t control = odd & in & ~high;
            if (control) {
                const hr_up at = p + __builtin_ctzll(control);
                return hr_fault(s, at < e ? at : e, HR_BAD_JSON); /* also the zeros behind the end */
            }
            for (uint64_t left = high; left;) {
                const hr_up c = p + __builtin_ctzll(left);
                if (c < utf8_done) {
                    left &= left - 1;
                    continue;
                }
                const unsigned n = utf8_sequence(c, e);
                if (!n) return hr_fault(s, c, HR_BAD_UTF8);
                utf8_done = c + n;
                const unsigned behind = (unsigned)(utf8_done - p);
                left = behind < 64 ? left & (~UINT64_C(0) << behind) : 0;
            }
        }
        if (escaped & in) {
            s->escaped = 1;
            const uint64_t unicode = equal64(x, 'u') & escaped & in;
            const uint64_t simple = quote | backslash | equal64(x, 'n') | equal64(x, 't') | equal64(x, 'r') |
                                    equal64(x, '/') | equal64(x, 'b') | equal64(x, 'f');
            const uint64_t bad = escaped & in & ~simple & ~unicode;
            if (bad) return hr_fault(s, p + __builtin_ctzll(bad), HR_BAD_JSON);
            for (uint64_t left = unicode; left; left &= left - 1) {
                const hr_up c = p + __builtin_ctzll(left);
                const int unit = e - c >= 5 ? hr_hex4(c + 1) : -1;
                if (unit < 0) return hr_fault(s, c, HR_BAD_JSON);
                if ((unit & 0xFC00) == 0xD800) {
                    if (e - c < 11 || c[5] != '\\' || c[6] != 'u') return hr_fault(s, c, HR_BAD_JSON);
                    const int low = hr_hex4(c + 7);
                    if (low < 0 || (low & 0xFC00) != 0xDC00) return hr_fault(s, c, HR_BAD_JSON);
                    low_at = c + 6;
                } else if ((unit & 0xFC00) == 0xDC00 && c != low_at) {
                    return hr_fault(s, c, HR_BAD_JSON);
                }
            }
        }
        if (end) return p + __builtin_ctzll(end) + 1;
    }
    return hr_fault(s, e, HR_BAD_JSON);
}

#endif /* HR_SSE2 */

hr_up hr_scan_string_any(hr_up p, hr_scan *s)
{
    const hr_up e = s->e;
    /* A few specials are cheaper one by one; what has more of them is worth the blocks. */
    for (unsigned specials = 0;; specials++) {
        p = plain_run(p, e);
        if (HR_UNLIKELY(p >= e)) return hr_fault(s, e, HR_BAD_JSON);
        if (*p == '"') return p + 1;
#if HR_SSE2
        if (specials >= 4) return string_blocks(p, s); /* p is not inside an escape or a sequence */
#endif
        if (*p == '\\') {
            s->escaped = 1;
            p = escape_sequence(p, s);
            if (HR_UNLIKELY(!p)) return NULL;
        } else if (*p < 0x20) {
            return hr_fault(s, p, HR_BAD_JSON);
        } else {
            do {
                const unsigned n = utf8_sequence(p, e);
                if (HR_UNLIKELY(!n)) return hr_fault(s, p, HR_BAD_UTF8);
                p += n;
            } while (p < e && *p >= 0x80);
        }
    }
}

/* ---- skipping by structure ----------------------------------------------------------------- */

#if HR_SSE2

/* Bit i of the result: an odd number of bits 0..i is set. */
static inline uint64_t prefix_xor(uint64_t x)
{
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    x ^= x << 32;
    return x;
}

hr_up hr_skip_string(hr_up p, hr_scan *s)
{
    uint64_t carry = 0;
    for (; p < s->e; p += BLOCK) {
        __m128i x[4];
        load64(x, p, s->e);
        const uint64_t backslash = equal64(x, '\\');
        const uint64_t end = equal64(x, '"') & ~escaped_bits(backslash, &carry);
        const uint64_t in = end ? (end & -end) - 1 : ~UINT64_C(0);
        if (backslash & in) s->escaped = 1;
        if (end) return p + __builtin_ctzll(end) + 1;
    }
    return hr_fault(s, s->e, HR_BAD_JSON);
}

hr_up hr_skip_container(hr_up p, hr_scan *s, uint32_t depth)
{
    const hr_up e = s->e;
    const uint32_t room = s->max_depth > depth ? s->max_depth - depth : 0;
    unsigned char open[HR_DEPTH_CAP];
    uint32_t d = 0;
    uint64_t carry = 0, in_string = 0; /* in_string: all ones when a string goes on into the block */
    for (; p < e; p += BLOCK) {
        __m128i x[4], y[4];
        load64(x, p, e);
        const uint64_t backslash = equal64(x, '\\');
        const uint64_t quote = equal64(x, '"') & ~escaped_bits(backslash, &carry);
        const uint64_t inside = prefix_xor(quote) ^ in_string;
        in_string = (uint64_t)0 - (inside >> 63);
        /* bit 5 set turns [ into { and ] into } and nothing else into either */
        for (int i = 0; i < 4; i++) y[i] = _mm_or_si128(x[i], _mm_set1_epi8(0x20));
        const uint64_t opening = equal64(y, '{') & ~inside;
        uint64_t left = opening | (equal64(y, '}') & ~inside);
        /* a backslash outside a string; what is before it was read rightly */
        const uint64_t stray = backslash & ~inside;
        if (HR_UNLIKELY(stray)) left &= (stray & -stray) - 1;
        for (; left; left &= left - 1) {
            const hr_up c = p + __builtin_ctzll(left);
            if (left & -left & opening) {
                if (HR_UNLIKELY(d >= room)) return hr_fault(s, c, HR_TOO_DEEP);
                open[d++] = (unsigned char)(*c + 2);
            } else {
                if (HR_UNLIKELY(*c != open[d - 1])) return hr_fault(s, c, HR_BAD_JSON);
                if (--d == 0) {
                    s->type = *c == '}' ? HR_T_OBJECT : HR_T_ARRAY;
                    return c + 1;
                }
            }
        }
        if (HR_UNLIKELY(stray)) return hr_fault(s, p + __builtin_ctzll(stray), HR_BAD_JSON);
    }
    return hr_fault(s, e, HR_BAD_JSON);
}

#else

hr_up hr_skip_string(hr_up p, hr_scan *s)
{
    for (; p < s->e; p++) {
        if (*p == '"') return p + 1;
        if (*p == '\\') {
            s->escaped = 1;
            p++;
        }
    }
    return hr_fault(s, s->e, HR_BAD_JSON);
}

hr_up hr_skip_container(hr_up p, hr_scan *s, uint32_t depth)
{
    const uint32_t room = s->max_depth > depth ? s->max_depth - depth : 0;
    unsigned char open[HR_DEPTH_CAP];
    uint32_t d = 0;
    while (p < s->e) {
        switch (*p) {
        case '"':
            p = hr_skip_string(p + 1, s);
            if (!p) return NULL;
            continue;
        case '{': case '[':
            if (d >= room) return hr_fault(s, p, HR_TOO_DEEP);
            open[d++] = (unsigned char)(*p + 2);
            break;
        case '}': case ']':
            if (*p != open[d - 1]) return hr_fault(s, p, HR_BAD_JSON);
            if (--d == 0) {
                s->type = *p == '}' ? HR_T_OBJECT : HR_T_ARRAY;
                return p + 1;
            }
            break;
        case '\\':
            return hr_fault(s, p, HR_BAD_JSON);
        default:
            break;
        }
        p++;
    }
    return hr_fault(s, s->e, HR_BAD_JSON);
}

#endif
