/* Both scanners of the prototype, see scan.h. Runs of plain bytes are skipped 16 at a time (SSE2), long ones
 * 32 at a time (AVX2, where the processor has it). */
#include "scan.h"

#include <immintrin.h>
#include <string.h>

typedef const unsigned char *bytes;

#define DEPTH_MAX 1024

static int avx2 = -1;

/* The first quote, backslash, control character or byte above ASCII; may stop early, less than 32 before the end. */
__attribute__((target("avx2"))) static bytes skip_plain_wide(bytes p, bytes end) {
    const __m256i quote = _mm256_set1_epi8('"'), slash = _mm256_set1_epi8('\\'), control = _mm256_set1_epi8(0x1f);
    for (; p + 32 <= end; p += 32) {
        __m256i x = _mm256_loadu_si256((const __m256i *)p);
        __m256i hit = _mm256_or_si256(_mm256_cmpeq_epi8(x, quote), _mm256_cmpeq_epi8(x, slash));
        hit = _mm256_or_si256(hit, _mm256_or_si256(_mm256_cmpeq_epi8(_mm256_min_epu8(x, control), x), x));
        unsigned found = (unsigned)_mm256_movemask_epi8(hit);
        if (found)
            return p + __builtin_ctz(found);
    }
    return p;
}

static bytes skip_plain(bytes p, bytes end) {
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
    bytes wide = p + 64;
    while (p + 16 <= end) {
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(x, quote), _mm_cmpeq_epi8(x, slash));
        hit = _mm_or_si128(hit, _mm_or_si128(_mm_cmpeq_epi8(_mm_min_epu8(x, control), x), x));
        unsigned found = (unsigned)_mm_movemask_epi8(hit);
        if (found)
            return p + __builtin_ctz(found);
        p += 16;
        if (p >= wide && avx2 > 0) {
            p = skip_plain_wide(p, end);
            wide = end;
        }
    }
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20 && *p < 0x80)
        p++;
    return p;
}

static bytes skip_space(bytes p, bytes end) {
    while (p < end && (*p == ' ' || *p == '\n' || *p == '\r' || *p == '\t'))
        p++;
    return p;
}

/* From after the opening quote to after the closing one. */
static bytes skip_string(bytes p, bytes end) {
    for (;;) {
        p = skip_plain(p, end);
        if (p >= end || *p < 0x20)
            return NULL;
        if (*p == '"')
            return p + 1;
        if (*p == '\\') {
            if (end - p < 2)
                return NULL;
            p += 2;
        } else {
            while (p < end && *p >= 0x80)
                p++;
        }
    }
}

/* Any value by its strings and brackets alone. */
static bytes skip_value(bytes p, bytes end) {
    int depth = 0;
    while (p < end) {
        unsigned char c = *p;
        if (c == '"') {
            p = skip_string(p + 1, end);
            if (!p)
                return NULL;
            if (!depth)
                return p;
            continue;
        }
        if (c == '{' || c == '[') {
            if (++depth > DEPTH_MAX)
                return NULL;
        } else if (c == '}' || c == ']') {
            if (!depth)
                return p; /* the end of what a number or a word stands in */
            if (!--depth)
                return p + 1;
        } else if (!depth && (c == ',' || c == ' ' || c == '\n' || c == '\r' || c == '\t')) {
            return p;
        }
        p++;
    }
    return NULL;
}

/* The next member of an object: `p` is after the opening brace or at the comma. Returns where its value begins,
 * with `*end_of_object` set and the place after the brace when there is none. */
static bytes next_member(bytes p, bytes end, span *key, int *end_of_object) {
    p = skip_space(p, end);
    if (p < end && *p == ',')
        p = skip_space(p + 1, end);
    *end_of_object = p < end && *p == '}';
    if (*end_of_object)
        return p + 1;
    if (p >= end || *p != '"')
        return NULL;
    key->p = (const char *)p + 1;
    p = skip_string(p + 1, end);
    if (!p)
        return NULL;
    key->n = (size_t)((const char *)p - 1 - key->p);
    p = skip_space(p, end);
    if (p >= end || *p != ':')
        return NULL;
    p = skip_space(p + 1, end);
    return p < end ? p : NULL;
}

static int is(span key, const char *name, size_t n) { return key.n == n && !memcmp(key.p, name, n); }

static bytes scan_params(bytes p, bytes end, envelope *found) {
    span key;
    int over;
    for (p = p + 1;;) {
        bytes value = next_member(p, end, &key, &over);
        if (!value || over)
            return value;
        p = skip_value(value, end);
        if (!p)
            return NULL;
        span *to = is(key, "name", 4) ? &found->name : is(key, "arguments", 9) ? &found->arguments : NULL;
        if (to) {
            to->p = (const char *)value;
            to->n = (size_t)(p - value);
        }
    }
}

int scan_envelope(const char *text, size_t n, envelope *found) {
    bytes end = (bytes)text + n, p = skip_space((bytes)text, end);
    span key;
    int over;
    if (avx2 < 0)
        avx2 = __builtin_cpu_supports("avx2") ? 1 : 0;
    memset(found, 0, sizeof *found);
    if (p >= end || *p != '{')
        return -1;
    for (p = p + 1;;) {
        bytes value = next_member(p, end, &key, &over);
        if (!value)
            return -1;
        if (over)
            return skip_space(value, end) == end ? 0 : -1;
        p = is(key, "params", 6) && *value == '{' ? scan_params(value, end, found) : skip_value(value, end);
        if (!p)
            return -1;
        if (is(key, "method", 6)) {
            found->method.p = (const char *)value;
            found->method.n = (size_t)(p - value);
        } else if (is(key, "id", 2)) {
            for (bytes digit = value; digit < p && *digit >= '0' && *digit <= '9'; digit++)
                found->id = found->id * 10 + (*digit - '0');
        }
    }
}

/* The first control character. */
static bytes skip_text(bytes p, bytes end) {
    const __m128i control = _mm_set1_epi8(0x1f);
    for (; p + 16 <= end; p += 16) {
        __m128i x = _mm_loadu_si128((const __m128i *)p);
        unsigned found = (unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(x, control), x));
        if (found)
            return p + __builtin_ctz(found);
    }
    while (p < end && *p >= 0x20)
        p++;
    return p;
}

long scan_head(const char *text, size_t n, long *length) {
    bytes start = (bytes)text, end = start + n, p = start;
    *length = -1;
    if (n < 16)
        return 0;
    if (memcmp(p, "POST ", 5))
        return -1;
    for (;;) { /* the request line, then one header a line, then an empty line */
        bytes line = p, colon;
        p = skip_text(p, end);
        if (p + 1 >= end)
            return 0;
        if (p[0] != '\r' || p[1] != '\n')
            return -1;
        if (p == line)
            return *length < 0 ? -1 : p + 2 - start;
        if (line != start) {
            static const char name[] = "content-length";
            colon = line + sizeof name - 1;
            if (p > colon && *colon == ':') {
                size_t i = 0;
                while (i < sizeof name - 1 && (line[i] | 0x20) == (unsigned char)name[i])
                    i++;
                if (i == sizeof name - 1) {
                    bytes digit = skip_space(colon + 1, p);
                    for (*length = 0; digit < p && *digit >= '0' && *digit <= '9'; digit++)
                        *length = *length * 10 + (*digit - '0');
                }
            }
        }
        p += 2;
    }
}
