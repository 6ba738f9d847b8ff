/* JSON tokens inside a buffer: where a string or a value ends, and the JSON escape of a text.
 * Strict RFC 8259 with UTF-8 checked; nothing is decoded and nothing is allocated. */
#ifndef HR_JSON_H
#define HR_JSON_H

#include "hr_base.h"

typedef enum {
    HR_T_NONE = 0, /* absent */
    HR_T_NULL,
    HR_T_FALSE,
    HR_T_TRUE,
    HR_T_INT,    /* a number without fraction and exponent */
    HR_T_NUMBER, /* any other number */
    HR_T_STRING,
    HR_T_ARRAY,
    HR_T_OBJECT
} hr_type;

/* The raw text of one JSON value. A string's span includes its quotes. */
typedef struct {
    const char *p;
    size_t n;        /* 0: absent */
    uint8_t type;    /* hr_type */
    uint8_t escaped; /* a string that holds a backslash */
} hr_token;

/* Skips white space. */
const char *hr_json_ws(const char *p, const char *e);

/* Reads one complete value at p (no leading white space) and checks it entirely.
 * HR_OK: *out is the token. HR_BAD_JSON (also when cut short), HR_BAD_UTF8, HR_TOO_DEEP otherwise.
 * depth: how many levels are already open; max_depth: the limit, at most 1024. */
int hr_json_value(const char *p, const char *e, uint32_t depth, uint32_t max_depth, hr_token *out);

/* The same by structure only: strings and brackets are matched and depth is counted, but scalars,
 * commas, colons, escapes and UTF-8 inside are left to whoever decodes the span later. A backslash
 * outside a string is a fault all the same. */
int hr_json_skip(const char *p, const char *e, uint32_t depth, uint32_t max_depth, hr_token *out);

/* Whole-buffer check: one value with white space around it and nothing else. */
int hr_json_check(const char *p, size_t n, uint32_t max_depth);

/* Writes src (valid UTF-8) as the inside of a JSON string. dst has room for 6 * n + 16 bytes.
 * Returns the length written. */
size_t hr_json_escape(char *dst, const char *src, size_t n);

/* Unescapes the inside of a checked JSON string. dst has room for n bytes. Returns the length. */
size_t hr_json_unescape(char *dst, const char *src, size_t n);

#endif
