/* Private to hr_json*.c and hr_envelope.c: the pieces of the JSON scanner that pay for being inlined.
 *
 * A scanning function takes a position and returns the position after what it read, or NULL after
 * it wrote the fault into the hr_scan. Nothing reads a byte outside [p, s->e). */
#ifndef HR_JSON_SCAN_H
#define HR_JSON_SCAN_H

#include <string.h>

#include "hr_json.h"

#if !defined(HR_NO_SIMD) && (defined(__SSE2__) || defined(_M_X64))
#define HR_SSE2 1
#include <emmintrin.h>
#else
#define HR_SSE2 0
#endif
/* AVX2 is used where the machine has it, asked at run time (once per long string). */
#if HR_SSE2 && !defined(HR_NO_AVX2) && defined(__GNUC__)
#define HR_AVX2 1
#include <immintrin.h>
#else
#define HR_AVX2 0
#endif

#define HR_DEPTH_CAP 1024 /* the deepest limit a caller may ask for: one byte of stack a level */

typedef const unsigned char *hr_up;

typedef struct {
    hr_up e;            /* end of the readable text */
    hr_up at;           /* where the fault is */
    uint32_t max_depth; /* at most HR_DEPTH_CAP */
    int rc;             /* the fault, a negative HR_ code */
    uint8_t escaped;    /* the string read last holds a backslash */
    uint8_t type;       /* hr_type of the value read last */
} hr_scan;

static inline hr_up hr_fault(hr_scan *s, hr_up at, int rc)
{
    s->at = at;
    s->rc = rc;
    return NULL;
}

/* p is behind the opening quote; returns behind the closing one. Any length, any content. */
hr_up hr_scan_string_any(hr_up p, hr_scan *s);
/* The same by structure only: escapes and UTF-8 are not looked at. Sets s->escaped. */
hr_up hr_skip_string(hr_up p, hr_scan *s);
/* p is at { or [; brackets are matched, `depth` levels are open around it. Sets s->type. */
hr_up hr_skip_container(hr_up p, hr_scan *s, uint32_t depth);
/* p is at the first byte of a value (or at the end of the text, which is a fault). `depth` levels
 * are open around it. Sets s->type, and s->escaped for a string. */
hr_up hr_scan_value(hr_up p, hr_scan *s, uint32_t depth);
/* The same by structure only. */
hr_up hr_scan_skip(hr_up p, hr_scan *s, uint32_t depth);

static inline int hr_is_ws(unsigned char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

static inline hr_up hr_scan_ws(hr_up p, hr_up e)
{
    while (p < e && HR_UNLIKELY(*p <= ' ') && hr_is_ws(*p)) p++;
    return p;
}

#if HR_SSE2
/* Bits of the bytes that end a run of plain string text: quote, backslash, controls, non-ASCII.
 * The signed compare catches the last two at once. */
static inline unsigned hr_special16(hr_up p)
{
    const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
    const __m128i m = _mm_or_si128(_mm_cmplt_epi8(x, _mm_set1_epi8(0x20)),
                                   _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')),
                                                _mm_cmpeq_epi8(x, _mm_set1_epi8('\\'))));
    return (unsigned)_mm_movemask_epi8(m);
}
#endif

/* p is behind the opening quote; returns behind the closing one. Plain text of less than 16 bytes,
 * which nearly every key and name is, ends here. */
static inline hr_up hr_scan_string(hr_up p, hr_scan *s)
{
    s->escaped = 0;
#if HR_SSE2
    if (HR_LIKELY((size_t)(s->e - p) >= 16)) {
        const unsigned k = hr_special16(p);
        if (HR_LIKELY(k)) {
            const hr_up q = p + __builtin_ctz(k);
            if (HR_LIKELY(*q == '"')) return q + 1;
        }
    }
#endif
    return hr_scan_string_any(p, s);
}

static inline hr_up hr_scan_digits(hr_up p, hr_up e)
{
    while (p < e && (unsigned)(*p - '0') <= 9) p++;
    return p;
}

/* The value 0..15 of a hexadecimal digit, or a negative number. */
static inline int hr_hex(unsigned char c)
{
    if ((unsigned)(c - '0') <= 9) return c - '0';
    c |= 0x20;
    return (unsigned)(c - 'a') <= 5 ? c - 'a' + 10 : -1;
}

/* The code unit of the four hexadecimal digits at p, or a negative number. */
static inline int hr_hex4(hr_up p)
{
    const int a = hr_hex(p[0]), b = hr_hex(p[1]), c = hr_hex(p[2]), d = hr_hex(p[3]);
    return (a | b | c | d) < 0 ? -1 : a << 12 | b << 8 | c << 4 | d;
}

#endif
