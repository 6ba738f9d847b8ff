/* The JSON escape of a text and back (RFC 8259 section 7). */
#include "hr_json_scan.h"

size_t hr_json_escape(char *dst, const char *src, size_t n)
{
    static const char hex[] = "0123456789abcdef";
    hr_up p = (hr_up)src;
    const hr_up e = p + n;
    char *d = dst;
    for (;;) {
#if HR_SSE2
        /* Stores 16 bytes at a time and moves on by what was plain: dst has the room, see there. */
        while ((size_t)(e - p) >= 16) {
            const __m128i x = _mm_loadu_si128((const __m128i *)(const void *)p);
            const __m128i c = _mm_set1_epi8(0x1f);
            _mm_storeu_si128((__m128i *)(void *)d, x);
            const unsigned k = (unsigned)_mm_movemask_epi8(
                _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(x, c), x),
                             _mm_or_si128(_mm_cmpeq_epi8(x, _mm_set1_epi8('"')),
                                          _mm_cmpeq_epi8(x, _mm_set1_epi8('\\')))));
            if (k) {
                const int plain = __builtin_ctz(k);
                p += plain;
                d += plain;
                goto escape;
            }
            p += 16;
            d += 16;
        }
#endif
        while (p < e && *p != '"' && *p != '\\' && *p >= 0x20) *d++ = (char)*p++;
        if (p == e) return (size_t)(d - dst);
#if HR_SSE2
    escape:
#endif
        *d++ = '\\';
        switch (*p) {
        case '"': case '\\': *d++ = (char)*p; break;
        case '\b': *d++ = 'b'; break;
        case '\f': *d++ = 'f'; break;
        case '\n': *d++ = 'n'; break;
        case '\r': *d++ = 'r'; break;
        case '\t': *d++ = 't'; break;
        default:
            memcpy(d, "u00", 3);
            d[3] = hex[*p >> 4];
            d[4] = hex[*p & 15];
            d += 5;
        }
        p++;
    }
}

/* Writes the code point as UTF-8; a surrogate on its own becomes U+FFFD. */
static char *put_utf8(char *d, uint32_t c)
{
    if ((c & 0xFFFFF800) == 0xD800) c = 0xFFFD;
    if (c < 0x80) {
        *d++ = (char)c;
    } else if (c < 0x800) {
        *d++ = (char)(0xC0 | c >> 6);
        *d++ = (char)(0x80 | (c & 63));
    } else if (c < 0x10000) {
        *d++ = (char)(0xE0 | c >> 12);
        *d++ = (char)(0x80 | (c >> 6 & 63));
        *d++ = (char)(0x80 | (c & 63));
    } else {
        *d++ = (char)(0xF0 | c >> 18);
        *d++ = (char)(0x80 | (c >> 12 & 63));
        *d++ = (char)(0x80 | (c >> 6 & 63));
        *d++ = (char)(0x80 | (c & 63));
    }
    return d;
}

size_t hr_json_unescape(char *dst, const char *src, size_t n)
{
    hr_up p = (hr_up)src;
    const hr_up e = p + n;
    char *d = dst;
    while (p < e) {
        const hr_up q = memchr(p, '\\', (size_t)(e - p));
        const size_t plain = (size_t)((q ? q : e) - p);
        memcpy(d, p, plain);
        d += plain;
        if (!q || e - q < 2) break;
        p = q + 2;
        switch (q[1]) {
        case 'b': *d++ = '\b'; break;
        case 'f': *d++ = '\f'; break;
        case 'n': *d++ = '\n'; break;
        case 'r': *d++ = '\r'; break;
        case 't': *d++ = '\t'; break;
        case 'u': {
            const int unit = e - p >= 4 ? hr_hex4(p) : -1;
            if (unit < 0) return (size_t)(d - dst); /* not a checked string: never past its end */
            uint32_t c = (uint32_t)unit;
            p += 4;
            if ((c & 0xFC00) == 0xD800 && e - p >= 6 && p[0] == '\\' && p[1] == 'u') {
                const int low = hr_hex4(p + 2);
                if (low >= 0 && (low & 0xFC00) == 0xDC00) {
                    c = 0x10000 + ((c & 0x3FF) << 10) + ((uint32_t)low & 0x3FF);
                    p += 6;
                }
            }
            d = put_utf8(d, c);
            break;
        }
        default: *d++ = (char)q[1];
        }
    }
    return (size_t)(d - dst);
}
