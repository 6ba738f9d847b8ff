/* Reads the vector files of tests/vectors (their format: tests/vectors/__init__.py). */
#ifndef VECTORS_H
#define VECTORS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *key;
    char *value;
    size_t n;
} vector_field;

typedef struct {
    char *name;
    vector_field *fields;
    size_t count;
} vector;

typedef struct {
    vector *items;
    size_t count;
    char *text;
} vectors;

static inline int vector_hex(char c)
{
    return c <= '9' ? c - '0' : c - 'A' + 10;
}

/* Resolves %XX and %(N*TEXT) of [p, e); with out NULL only the length is told. */
static size_t vector_value(const char *p, const char *e, char *out)
{
    size_t n = 0;
    while (p < e) {
        if (*p != '%') {
            if (out) out[n] = *p;
            n++;
            p++;
        } else if (p[1] == '(') {
            char *text;
            const unsigned long times = strtoul(p + 2, &text, 10);
            const char *end = memchr(text, ')', (size_t)(e - text));
            for (unsigned long i = 0; i < times; i++) n += vector_value(text + 1, end, out ? out + n : NULL);
            p = end + 1;
        } else {
            if (out) out[n] = (char)(vector_hex(p[1]) << 4 | vector_hex(p[2]));
            n++;
            p += 3;
        }
    }
    return n;
}

static vectors vectors_load(const char *path)
{
    vectors all = {NULL, 0, NULL};
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    fseek(f, 0, SEEK_END);
    const size_t size = (size_t)ftell(f);
    rewind(f);
    all.text = malloc(size + 1);
    if (fread(all.text, 1, size, f) != size) exit(2);
    fclose(f);
    all.text[size] = 0;
    for (char *line = all.text, *next; *line; line = next) {
        next = strchr(line, '\n');
        *next++ = 0;
        if (strncmp(line, "== ", 3) == 0) {
            all.items = realloc(all.items, (all.count + 1) * sizeof *all.items);
            char *space = strchr(line + 3, ' ');
            if (space) *space = 0;
            all.items[all.count++] = (vector){line + 3, NULL, 0};
        } else if (*line && *line != '#') {
            vector *v = &all.items[all.count - 1];
            v->fields = realloc(v->fields, (v->count + 1) * sizeof *v->fields);
            vector_field *x = &v->fields[v->count++];
            char *value = strchr(line, ' ');
            char *end = next - 1;
            if (value) *value++ = 0;
            else value = end;
            x->key = line;
            x->n = vector_value(value, end, NULL);
            x->value = malloc(x->n + 1);
            vector_value(value, end, x->value);
            x->value[x->n] = 0;
        }
    }
    return all;
}

static const vector_field *vector_get(const vector *v, const char *key)
{
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->fields[i].key, key) == 0) return &v->fields[i];
    return NULL;
}

static void vectors_free(vectors *all)
{
    for (size_t i = 0; i < all->count; i++) {
        for (size_t j = 0; j < all->items[i].count; j++) free(all->items[i].fields[j].value);
        free(all->items[i].fields);
    }
    free(all->items);
    free(all->text);
}

#endif
