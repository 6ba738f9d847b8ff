/* For tests: memory that ends right before a page nobody may touch, and begins right behind one. */
#ifndef GUARD_H
#define GUARD_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    char *map;
    size_t size; /* of the middle, whole pages */
    size_t page;
} guard;

static inline guard guard_new(size_t room)
{
    guard g;
    g.page = (size_t)sysconf(_SC_PAGESIZE);
    g.size = (room + g.page) / g.page * g.page;
    g.map = mmap(NULL, g.size + 2 * g.page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (g.map == MAP_FAILED || mprotect(g.map + g.page, g.size, PROT_READ | PROT_WRITE) != 0) {
        perror("guard");
        exit(2);
    }
    return g;
}

/* A copy of [p, p + n) that ends at the last readable byte; n at most the room. */
static inline char *guard_put(guard *g, const void *p, size_t n)
{
    char *end = g->map + g->page + g->size;
    if (n > g->size) abort();
    if (n) memcpy(end - n, p, n);
    return end - n;
}

static inline void guard_free(guard *g)
{
    munmap(g->map, g->size + 2 * g->page);
}

static int failures;

#define CHECK(condition, ...)                                                  \
    do {                                                                       \
        if (!(condition)) {                                                    \
            failures++;                                                        \
            fprintf(stderr, "%s:%d: %s: ", __FILE__, __LINE__, #condition);    \
            fprintf(stderr, __VA_ARGS__);                                      \
            fputc('\n', stderr);                                               \
        }                                                                      \
    } while (0)

#endif
