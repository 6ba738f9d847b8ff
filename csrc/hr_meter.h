/* Numbers of requests: how many of each status, and how long they took.
 *
 * One hr_cell is what is known of one method (or tool) under one revision. Everything is done by the thread of the
 * event loop; a reader of another thread holds the GIL.
 */
#ifndef HR_METER_H
#define HR_METER_H

#include <stddef.h>
#include <string.h>
#include <time.h>

#define HR_BOUNDS 16
#define HR_STATUSES 4
#define HR_REVISIONS 6

/* Upper bounds of the buckets in nanoseconds, inclusive as Prometheus has them. */
static const long long hr_bounds[HR_BOUNDS] = {
    100000,    250000,    500000,    1000000,   2500000,    5000000,    10000000,    25000000,
    50000000,  100000000, 250000000, 500000000, 1000000000, 2500000000, 10000000000, 60000000000
};

typedef struct {
    unsigned long long counts[HR_STATUSES];
    unsigned long long buckets[HR_BOUNDS + 1];
    unsigned long long total; /* nanoseconds */
    unsigned long long told;  /* sum of `counts` when the numbers were last asked for */
} hr_cell;

/* Nanoseconds of a clock that only counts up. */
static inline long long hr_now(void)
{
    struct timespec t;
#ifdef _WIN32
    timespec_get(&t, TIME_UTC);
#else
    clock_gettime(CLOCK_MONOTONIC, &t);
#endif
    return (long long)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline void hr_cell_add(hr_cell *cell, int status, long long took)
{
    int i = 0;
    if (took < 0)
        took = 0;
    cell->counts[status]++;
    while (i < HR_BOUNDS && took > hr_bounds[i])
        i++;
    cell->buckets[i]++;
    cell->total += (unsigned long long)took;
}

/* Whether the JSON text of a result may say isError:true. No string can hold these letters between bare quotes, but a
 * member of an inner object can: so a yes has to be looked at again. */
static inline int hr_says_error(const char *p, size_t n)
{
    static const char name[] = "\"isError\"";
    const char *e = p + n;
    const size_t k = sizeof name - 1;
    while ((size_t)(e - p) > k && (p = memchr(p, '"', (size_t)(e - p) - k)) != NULL) {
        if (memcmp(p, name, k) != 0) {
            p++;
            continue;
        }
        for (p += k; p < e && (*p == ' ' || *p == ':' || *p == '\t' || *p == '\n' || *p == '\r'); p++)
            ;
        if (p < e && *p == 't')
            return 1;
    }
    return 0;
}

#endif
