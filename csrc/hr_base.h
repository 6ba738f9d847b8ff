/* Shared by all of csrc: spans, result codes, compiler shims.
 *
 * Rules of this folder: C11, no Python.h, no malloc, no static state. The caller owns all memory;
 * functions read only [p, p + n) and return one of the codes below. */
#ifndef HR_BASE_H
#define HR_BASE_H

#include <stddef.h>
#include <stdint.h>

/* A piece of the caller's buffer. n == 0 with p == NULL means "absent". */
typedef struct {
    const char *p;
    size_t n;
} hr_span;

/* Three-valued results: HR_OK, HR_NEED_MORE (incomplete, not wrong), or a negative error. */
enum {
    HR_OK = 0,
    HR_NEED_MORE = 1,
    HR_BAD_JSON = -1,     /* not JSON (RFC 8259), including a lone surrogate escape */
    HR_BAD_UTF8 = -2,     /* not UTF-8 (RFC 3629) */
    HR_TOO_DEEP = -3,     /* nested deeper than the caller's limit */
    HR_BAD_HEAD = -10,    /* malformed HTTP head: 400 */
    HR_BAD_FRAMING = -11, /* ambiguous message length (RFC 9112 6.3): 400 */
    HR_HEAD_TOO_LARGE = -12, /* header bytes or count over the limit: 431 */
    HR_BAD_VERSION = -13, /* not HTTP/1.0 or HTTP/1.1: 505 */
    HR_BAD_CODING = -14,  /* unknown transfer coding: 501 */
    HR_BAD_CHUNK = -15,   /* malformed chunked coding: 400 */
    HR_TARGET_TOO_LONG = -16 /* request target over the limit: 414 */
};

#if defined(__GNUC__) || defined(__clang__)
#define HR_LIKELY(x) __builtin_expect(!!(x), 1)
#define HR_UNLIKELY(x) __builtin_expect(!!(x), 0)
#else
#define HR_LIKELY(x) (x)
#define HR_UNLIKELY(x) (x)
#endif

#endif
