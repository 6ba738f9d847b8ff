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

#if HR_SSE2

#define BLOCK 64
/* GCC leaves even loops over two registers rolled at -O2, and then keeps the registers in memory. */
#if defined(__GNUC__) && !defined(__clang__)
#define UNROLL _Pragma("GCC unroll 4")
#else
#define UNROLL
#endif

/* Bits of the bytes that follow an unescaped backslash. *carry: the first byte of this block is
 * one, and then the same for the next block. Runs of backslashes are told odd from even by an
 * addition, whose carry ends up behind each run. */
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

/* c is at the u of an escape. *low_at: the u of the low surrogate that is due. False after a fault. */
static inline int unicode_escape(hr_up c, hr_up *low_at, hr_scan *s)
{
    const int unit = s->e - c >= 5 ? hr_hex4(c + 1) : -1;
    if (HR_LIKELY(unit >= 0)) {
        const int half = unit & 0xFC00;
        if (c == *low_at) {
            if (half == 0xDC00) return 1;
        } else if (half == 0xD800) {
            *low_at = c + 6;
            if (s->e - c >= 11 && c[5] == '\\' && c[6] == 'u') return 1;
        } else if (half != 0xDC00) {
            return 1;
        }
    }
    hr_fault(s, c, HR_BAD_JSON);
    return 0;
}

#define WIDE 0
#define TARGET
#define B(name) name##_sse2
#include "hr_json_blocks.h"
#undef WIDE
#undef TARGET
#undef B

#if HR_AVX2

/* The first bad sequence at or behind p, which there is. */
static hr_up utf8_fault(hr_up p, hr_scan *s)
{
    unsigned n;
    for (; p < s->e; p += n) {
        n = *p < 0x80 ? 1 : utf8_sequence(p, s->e);
        if (!n) break;
    }
    return hr_fault(s, p, HR_BAD_UTF8);
}

#define WIDE 1
#define TARGET __attribute__((target("avx2")))
#define B(name) name##_avx2
#include "hr_json_blocks.h"
#undef WIDE
#undef TARGET
#undef B

#define BEST(name, ...) (__builtin_cpu_supports("avx2") ? name##_avx2(__VA_ARGS__) : name##_sse2(__VA_ARGS__))
#else
#define BEST(name, ...) name##_sse2(__VA_ARGS__)
#endif

hr_up hr_skip_string(hr_up p, hr_scan *s)
{
    return BEST(skip_string, p, s);
}

hr_up hr_skip_container(hr_up p, hr_scan *s, uint32_t depth)
{
    return BEST(skip_container, p, s, depth);
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

/* The first byte of [p, e) that is a quote, a backslash, a control or not ASCII; or a position at or
 * behind `soon` when there is none before it; else e. */
static inline hr_up plain_run(hr_up p, hr_up e, hr_up soon)
{
#if HR_SSE2
    while ((size_t)(e - p) >= 16) {
        if (p >= soon) return p;
        const unsigned k = hr_special16(p);
        if (k) return p + __builtin_ctz(k);
        p += 16;
    }
#else
    const uint64_t ones = UINT64_C(0x0101010101010101), high = ones << 7;
    (void)soon;
    while ((size_t)(e - p) >= 8) {
        uint64_t w;
        memcpy(&w, p, 8);
        const uint64_t q = w ^ (ones * '"'), b = w ^ (ones * '\\');
        /* bytes equal to zero or below 0x20 borrow; a false alarm only ever comes with a true one */
        if (((q - ones) | (b - ones) | (w - ones * 0x20) | w) & high) break;
        p += 8;
    }
#endif
    while (p < e && !is_special(*p)) p++;
    return p;
}

hr_up hr_scan_string_any(hr_up p, hr_scan *s)
{
    const hr_up e = s->e;
#if HR_SSE2
    /* Short strings, and a few specials, are cheaper piece by piece; the others are worth blocks. */
    const hr_up soon = e - p > BLOCK ? p + BLOCK : e;
    unsigned specials = 0;
#else
    const hr_up soon = e;
#endif
    for (;;) {
        p = plain_run(p, e, soon);
        if (HR_UNLIKELY(p >= e)) return hr_fault(s, e, HR_BAD_JSON);
#if HR_SSE2
        if (p >= soon || ++specials > 4) return BEST(string_blocks, p, s);
#endif
        if (*p == '"') return p + 1;
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
            } while (p < soon && *p >= 0x80);
        }
    }
}
