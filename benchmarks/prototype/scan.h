/* What the prototype reads of bytes: the envelope of a JSON-RPC request and the head of an HTTP request.
 *
 * A measure, not a server: no bounds, nothing of the protocol's rules, and input that is not what the
 * benchmarks send may be misread. All spans point into the input. */
#ifndef PROTOTYPE_SCAN_H
#define PROTOTYPE_SCAN_H

#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *p;
    size_t n;
} span;

typedef struct {
    span method, name, arguments; /* method and name with their quotes */
    int64_t id;
} envelope;

/* 0, or -1 for what is no JSON object. The value of `arguments` is only skipped, by strings and brackets:
 * the typed decoder that gets it validates it. */
int scan_envelope(const char *p, size_t n, envelope *found);

/* The length of a request head and, in `length`, of the body after it; 0: more is needed; -1: no such head. */
long scan_head(const char *p, size_t n, long *length);

#endif
