/* Server-sent events (WHATWG HTML, 9.2): an incremental decoder, and what an encoder needs for
 * one-line JSON data. Requirement HO-25; field faults B34, B35, B37..B40.
 *
 * The decoder keeps the data of an unfinished event in memory that the caller owns and grows;
 * an event whose single data line lies wholly inside the fed chunk is handed out without a copy. */
#ifndef HR_SSE_H
#define HR_SSE_H

#include "hr_base.h"

enum {
    HR_SSE_GROW = 2,        /* hr_sse_next: make buf hold at least `need` bytes (content kept), call again */
    HR_SSE_TOO_LARGE = -30, /* data over max_event, event name or id over the sizes below */
    HR_SSE_NAME_MAX = 256,
    HR_SSE_ID_MAX = 1024
};

/* hr_sse_event.flags */
enum {
    HR_SSE_MESSAGE = 1, /* no event name, or "message": the only kind that carries JSON-RPC */
    HR_SSE_HAS_ID = 2,  /* an id line was in this block */
    HR_SSE_IN_PLACE = 4 /* data lies in the fed chunk, not in buf */
};

/* Valid until the next call. */
typedef struct {
    hr_span data;   /* data lines joined with LF; may be empty (B38) */
    hr_span event;  /* the event field, empty when absent */
    hr_span id;     /* the last event id after this block, empty when none */
    uint32_t flags;
} hr_sse_event;

/* One stream. Zero it, then set max_event; buf/cap may stay NULL/0. */
typedef struct {
    char *buf;        /* the caller's: realloc on HR_SSE_GROW, free at the end */
    size_t cap;
    size_t need;      /* set with HR_SSE_GROW */
    size_t max_event; /* bytes of the joined data of one event */

    int64_t retry_ms; /* last valid retry value, saturated at HR_SSE_RETRY_MAX; see has_retry */
    uint8_t has_retry;

    /* the last event id of the stream: changes when a block ends */
    uint16_t id_n;
    char id[HR_SSE_ID_MAX];

    /* inner state */
    uint8_t state, field, bom, skip_lf, drop, block_id, retry_ok, name_n;
    uint16_t event_n, next_id_n, line_id_n;
    size_t used;      /* bytes of data in buf */
    uint32_t lines;   /* data lines of this block: 0, 1, 2 = more */
    const char *ref;  /* a whole data line inside the current chunk, not yet copied */
    size_t ref_n;
    uint64_t retry_value;
    char name[8];
    char event[HR_SSE_NAME_MAX];
    char next_id[HR_SSE_ID_MAX];
    char line_id[HR_SSE_ID_MAX];
} hr_sse;

#define HR_SSE_RETRY_MAX INT64_C(4294967295)

/* Advances *p towards e. HR_OK: *out is one event, call again. HR_NEED_MORE: everything was consumed
 * (*p == e) and the chunk may go away. HR_SSE_GROW: see above; call again with the same *p and e.
 * HR_SSE_TOO_LARGE: give the stream up. Blocks without a data line only change id and retry_ms.
 * At the end of the stream an unfinished block is discarded by calling no more. */
int hr_sse_next(hr_sse *s, const char **p, const char *e, hr_sse_event *out);

/* Forgets everything but buf, cap and max_event: a new connection of the same stream keeps the id
 * when keep_id is set. */
void hr_sse_restart(hr_sse *s, int keep_id);

/* Raw U+2028, U+2029 and U+0085 inside a JSON text: many clients cut lines there (B34).
 * How many bytes escaping them (\u2028, ...) adds; 0: there are none. */
size_t hr_sse_escape_growth(const char *p, size_t n);

/* Escapes them in place; p has room for n + growth bytes, growth from hr_sse_escape_growth. */
void hr_sse_escape(char *p, size_t n, size_t growth);

/* Makes a JSON text one line: CR and LF (white space between tokens) become spaces. Returns how
 * many there were. */
size_t hr_sse_flatten(char *p, size_t n);

#endif
