/* HTTP/1.1 heads and the chunked coding (RFC 9112), strict, as spans into the caller's buffer.
 * Field faults B50, B51, B54; requirement SE-08. No allocation, nothing read past [p, p + n).
 *
 * Feeding in pieces is linear and gives the same result at every split: the head struct remembers
 * which lines were done and how far the unfinished one was looked at. A line is judged when its
 * line feed has come, except that a byte which no head may hold (a control character; in a request
 * line also any byte over 0x7e) fails at once, so TLS or binary on the port is refused on sight. */
#ifndef HR_HTTP1_H
#define HR_HTTP1_H

#include "hr_base.h"

typedef enum {
    HR_M_OTHER = 0, /* any other token; CONNECT is refused (HR_BAD_HEAD): this is no proxy */
    HR_M_GET,
    HR_M_POST,
    HR_M_DELETE,
    HR_M_OPTIONS,
    HR_M_HEAD,
    HR_M_PUT,
    HR_M_PATCH
} hr_method;

/* hr_head.flags */
enum {
    HR_F_HAS_LENGTH = 1 << 0,   /* Content-Length: content_length is set */
    HR_F_CHUNKED = 1 << 1,      /* Transfer-Encoding: chunked */
    HR_F_CLOSE = 1 << 2,        /* Connection holds "close" */
    HR_F_KEEP_ALIVE = 1 << 3,   /* Connection holds "keep-alive" */
    HR_F_PERSIST = 1 << 4,      /* the conclusion for this version: the connection may be used again */
    HR_F_EXPECT_100 = 1 << 5,   /* Expect: 100-continue, from an HTTP/1.1 peer (B51) */
    HR_F_EXPECT_OTHER = 1 << 6, /* any other expectation: answer 417 */
    HR_F_UPGRADE = 1 << 7,      /* an Upgrade header: to be ignored, the body is framed as usual (B54) */
    HR_F_TE = 1 << 8,           /* a TE header */
    HR_F_ABSOLUTE = 1 << 9,     /* the target is in absolute form (scheme://...): the caller decides (B54) */
    HR_F_MCP_PARAM = 1 << 10    /* at least one header name starts with Mcp-Param- */
};

/* Headers that are kept as spans. known[i] is the first line of that name (white space around it
 * removed; p is set even when n is 0); seen has bit i, duplicate has bit i when there were more. */
enum {
    HR_H_HOST = 0,
    HR_H_ORIGIN,
    HR_H_ACCEPT,
    HR_H_CONTENT_TYPE,
    HR_H_CONTENT_ENCODING,
    HR_H_AUTHORIZATION,
    HR_H_LAST_EVENT_ID,
    HR_H_MCP_SESSION_ID,
    HR_H_MCP_PROTOCOL_VERSION,
    HR_H_MCP_METHOD,
    HR_H_MCP_NAME,
    HR_H_ACR_METHOD,  /* Access-Control-Request-Method */
    HR_H_ACR_HEADERS, /* Access-Control-Request-Headers */
    HR_H_LOCATION,
    HR_H_WWW_AUTHENTICATE,
    HR_H_RETRY_AFTER,
    HR_H_COUNT
};

typedef struct {
    uint32_t max_head;   /* bytes of one head, its final empty line included: HR_HEAD_TOO_LARGE */
    uint32_t max_count;  /* header lines: HR_HEAD_TOO_LARGE */
    uint32_t max_target; /* bytes of a request target: HR_TARGET_TOO_LONG */
} hr_http1_limits;

/* One request or response head. Zero it once (or hr_http1_reset) before the first call; after
 * HR_OK or an error it may be passed again for the next head without more ado. */
typedef struct {
    size_t head_len; /* bytes of the head, its final empty line included; the body starts here */
    uint64_t content_length; /* below 10^18 */
    uint32_t flags;
    uint32_t seen;
    uint32_t duplicate;
    uint32_t count;    /* header lines */
    uint16_t status;   /* responses: 100..999 */
    uint8_t method;    /* requests: hr_method */
    uint8_t minor;     /* HTTP/1.minor: 0 or 1 */
    hr_span verb;      /* requests: the method's text */
    hr_span target;    /* requests: "/...", "*" (OPTIONS only) or absolute form; no "#", bytes 0x21..0x7e */
    hr_span reason;    /* responses; may be empty */
    hr_span fields;    /* all header lines with their line ends, without the final empty line */
    hr_span known[HR_H_COUNT];

    /* where an unfinished head continues; not for callers */
    const char *base;
    size_t line, looked;
    uint8_t started;
} hr_head;

/* Forgets a half-read head. */
static inline void hr_http1_reset(hr_head *h) { h->started = 0; }

/* Reads a request head that starts at p. HR_OK: h is filled. HR_NEED_MORE: call again with the
 * same bytes and more behind them (the buffer may have moved). Errors, all to be answered and
 * followed by close: HR_BAD_HEAD 400, HR_BAD_FRAMING 400, HR_BAD_CODING 501, HR_BAD_VERSION 505,
 * HR_HEAD_TOO_LARGE 431, HR_TARGET_TOO_LONG 414. At most one empty line is skipped before the
 * request line (RFC 9112 2.2). An HTTP/1.1 request without Host, and any with two, is HR_BAD_HEAD;
 * the value must be made of the characters of a host and port, and may be empty. */
int hr_http1_request(const char *p, size_t n, const hr_http1_limits *limits, hr_head *h);

/* The same for a response head; HR_TARGET_TOO_LONG does not occur. A status of 100..199 except 101
 * is an interim answer: go on with the next head. */
int hr_http1_response(const char *p, size_t n, const hr_http1_limits *limits, hr_head *h);

/* Steps over the lines of hr_head.fields: *p starts at fields.p, e is its end. 1: name and value
 * are set and *p is behind the line; 0: no more. Only for heads that were read with HR_OK. */
int hr_http1_next_header(const char **p, const char *e, hr_span *name, hr_span *value);

/* Case-insensitive comparison with a lower-case literal. */
int hr_http1_ieq(const char *p, size_t n, const char *lower, size_t lower_n);

/* How the message's body ends (RFC 9112 6.3). */
typedef enum {
    HR_BODY_NONE = 0, /* nothing follows the head (or a length of zero) */
    HR_BODY_LENGTH,
    HR_BODY_CHUNKED,
    HR_BODY_UNTIL_CLOSE /* responses only */
} hr_body;

static inline int hr_http1_request_body(const hr_head *h)
{
    if (h->flags & HR_F_CHUNKED)
        return HR_BODY_CHUNKED;
    return (h->flags & HR_F_HAS_LENGTH) && h->content_length ? HR_BODY_LENGTH : HR_BODY_NONE;
}

/* answers_head: the request was a HEAD. */
static inline int hr_http1_response_body(const hr_head *h, int answers_head)
{
    if (answers_head || h->status < 200 || h->status == 204 || h->status == 304)
        return HR_BODY_NONE;
    if (h->flags & HR_F_CHUNKED)
        return HR_BODY_CHUNKED;
    if (h->flags & HR_F_HAS_LENGTH)
        return h->content_length ? HR_BODY_LENGTH : HR_BODY_NONE;
    return HR_BODY_UNTIL_CLOSE;
}

/* Chunked coding (RFC 9112 7.1), one decoder a body, zeroed before use. */
typedef struct {
    uint64_t left;     /* data bytes of the current chunk still to come */
    uint32_t excess;   /* bytes of framing beyond a fair share of the data */
    uint32_t line;     /* bytes of the current size line, or of all trailer lines */
    uint32_t trailers; /* trailer lines */
    uint8_t state;
} hr_chunked;

enum {
    HR_CHUNK_DATA = 2,      /* result of hr_chunked_next: *data holds body bytes */
    HR_CHUNK_LINE_MAX = 1024, /* bytes of a size line with its extensions */
    HR_CHUNK_EXCESS_MAX = 16 * 1024 /* a body of tiny chunks with long extensions ends here */
};

/* Advances *p towards e. HR_CHUNK_DATA: *data is the next piece of the body (never empty), call
 * again. HR_NEED_MORE: everything was consumed (*p == e). HR_OK: the body is complete, *p is behind
 * it (calling again gives HR_OK). HR_BAD_CHUNK: malformed (bare LF, bad or too large size, anything
 * but CRLF after the data, malformed extension or trailer, too much framing). HR_HEAD_TOO_LARGE:
 * trailers over limits->max_head bytes or max_count lines. Extensions and trailers are checked and
 * dropped. No white space is allowed around a chunk size. */
int hr_chunked_next(hr_chunked *d, const char **p, const char *e, const hr_http1_limits *limits,
                    hr_span *data);

#endif
