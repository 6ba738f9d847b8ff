/* Heads and chunked bodies: every vector, the bytes placed right before a page that may not be read;
 * whole, byte by byte (the buffer moving each time), with bytes behind, and mutated. */
#include "guard.h"
#include "hr_http1.h"
#include "vectors.h"

static const struct {
    const char *name;
    int code;
} CODES[] = {
    {"HR_BAD_HEAD", HR_BAD_HEAD},       {"HR_BAD_FRAMING", HR_BAD_FRAMING},
    {"HR_BAD_CODING", HR_BAD_CODING},   {"HR_HEAD_TOO_LARGE", HR_HEAD_TOO_LARGE},
    {"HR_BAD_CHUNK", HR_BAD_CHUNK},     {"HR_TARGET_TOO_LONG", HR_TARGET_TOO_LONG},
    {"HR_BAD_VERSION", HR_BAD_VERSION},
};
static const struct {
    const char *name;
    uint32_t bit;
} FLAGS[] = {
#define FLAG(name) {#name, HR_F_##name}
    FLAG(HAS_LENGTH), FLAG(CHUNKED), FLAG(CLOSE), FLAG(KEEP_ALIVE), FLAG(PERSIST), FLAG(EXPECT_100),
    FLAG(EXPECT_OTHER), FLAG(UPGRADE), FLAG(TE), FLAG(ABSOLUTE), FLAG(MCP_PARAM),
};
static const char *const BODIES[] = {"none", "length", "chunked", "until-close"};
static const char *const KNOWN[HR_H_COUNT] = {
    "host", "origin", "accept", "content-type", "content-encoding", "authorization", "last-event-id",
    "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name", "access-control-request-method",
    "access-control-request-headers", "location", "www-authenticate", "retry-after",
};

static int code_named(const vector_field *f)
{
    for (size_t i = 0; i < sizeof CODES / sizeof *CODES; i++)
        if (strcmp(CODES[i].name, f->value) == 0) return CODES[i].code;
    abort();
}

static int read_head(int response, const char *p, size_t n, const hr_http1_limits *l, hr_head *h)
{
    return response ? hr_http1_response(p, n, l, h) : hr_http1_request(p, n, l, h);
}

static int span_is(hr_span s, const vector_field *f)
{
    return s.n == f->n && (!s.n || memcmp(s.p, f->value, s.n) == 0);
}

static int inside(hr_span s, const char *p, size_t n)
{
    return !s.p || (s.p >= p && s.n <= n && s.p + s.n <= p + n);
}

/* Whatever was accepted: all spans lie inside the head, the lines and the counts agree. */
static void check_sound(const hr_head *h, const char *p, size_t n, const char *title)
{
    hr_span name, value;
    const char *at = h->fields.p, *e = h->fields.p + h->fields.n;
    uint32_t count = 0, seen = 0, duplicate = 0;
    CHECK(h->head_len <= n, "%s", title);
    CHECK(h->head_len >= 4 && memcmp(p + h->head_len - 2, "\r\n", 2) == 0, "%s", title);
    CHECK(inside(h->fields, p, h->head_len) && e + 2 == p + h->head_len, "%s", title);
    CHECK(inside(h->verb, p, n) && inside(h->target, p, n) && inside(h->reason, p, n), "%s", title);
    while (hr_http1_next_header(&at, e, &name, &value)) {
        count++;
        CHECK(name.n && inside(name, p, h->head_len) && inside(value, p, h->head_len), "%s", title);
        for (uint32_t i = 0; i < HR_H_COUNT; i++) {
            if (!hr_http1_ieq(name.p, name.n, KNOWN[i], strlen(KNOWN[i]))) continue;
            if (seen >> i & 1) {
                duplicate |= 1u << i;
            } else {
                seen |= 1u << i;
                CHECK(h->known[i].p == value.p && h->known[i].n == value.n, "%s: %s", title, KNOWN[i]);
            }
        }
    }
    CHECK(at == e && count == h->count, "%s", title);
    CHECK(seen == h->seen && duplicate == h->duplicate, "%s", title);
}

static void check_head(const vector *v, int response, const hr_head *h)
{
    const vector_field *f;
    uint32_t flags = 0;
    CHECK(h->head_len == strtoul(vector_get(v, "size")->value, NULL, 10), "%s", v->name);
    if (response) {
        CHECK(h->status == atoi(vector_get(v, "status")->value), "%s", v->name);
        CHECK(span_is(h->reason, vector_get(v, "reason")), "%s", v->name);
    } else {
        CHECK(span_is(h->verb, vector_get(v, "method")), "%s", v->name);
        CHECK(span_is(h->target, vector_get(v, "target")), "%s", v->name);
    }
    CHECK(h->minor == atoi(vector_get(v, "minor")->value), "%s", v->name);
    f = vector_get(v, "length");
    CHECK(!(h->flags & HR_F_HAS_LENGTH) == !f, "%s", v->name);
    if (f) CHECK(h->content_length == strtoull(f->value, NULL, 10), "%s", v->name);
    const int body = response ? hr_http1_response_body(h, 0) : hr_http1_request_body(h);
    CHECK(strcmp(BODIES[body], vector_get(v, "body")->value) == 0, "%s: %s", v->name, BODIES[body]);
    CHECK(!response || hr_http1_response_body(h, 1) == HR_BODY_NONE, "%s", v->name);
    f = vector_get(v, "flags");
    if (f) {
        char text[256], *word, *rest = text;
        snprintf(text, sizeof text, "%s", f->value);
        while ((word = strtok_r(rest, " ", &rest)))
            for (size_t i = 0; i < sizeof FLAGS / sizeof *FLAGS; i++)
                if (strcmp(FLAGS[i].name, word) == 0) flags |= FLAGS[i].bit;
    }
    CHECK(h->flags == flags, "%s: %x, not %x", v->name, h->flags, flags);
}

/* Feeds [p, p + n) in steps; the bytes lie at another place each time. Returns the last result. */
static int feed(guard *g, int response, const char *p, size_t n, size_t step, const hr_http1_limits *l,
                hr_head *h, char **where)
{
    static char elsewhere[1 << 16];
    int rc = HR_NEED_MORE, odd = 0;
    size_t have = 0;
    do {
        have = have + step < n ? have + step : n;
        odd = !odd || have == n;
        if (odd) {
            *where = guard_put(g, p, have);
        } else {
            memcpy(elsewhere, p, have);
            *where = elsewhere;
        }
        rc = read_head(response, *where, have, l, h);
        if (rc != HR_NEED_MORE && *where == elsewhere) {
            *where = guard_put(g, p, have);
            h->started = 0;
            rc = read_head(response, *where, have, l, h);
        }
    } while (rc == HR_NEED_MORE && have < n);
    return rc;
}

static hr_http1_limits limits_of(const vector *v)
{
    hr_http1_limits l = {32768, 100, 8192};
    const vector_field *f = vector_get(v, "limits");
    if (f) sscanf(f->value, "%u %u %u", &l.max_head, &l.max_count, &l.max_target);
    return l;
}

static uint32_t random_state = 12345;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

/* A few changed bytes: any result will do, but the same one at any split, and sound. */
static void mutate(guard *g, int response, const char *p, size_t n, const hr_http1_limits *l, const char *title)
{
    static const char JUNK[] = "\0\t\n\r :,;\x7f\x80\xff" "aA0-/";
    static char text[1 << 14];
    if (n > 600) n = 600;
    for (int round = 0; round < 60 && n; round++) {
        hr_head whole, split;
        char *at, *at2;
        size_t cut = n - random_below((uint32_t)(n < 8 ? n : 8));
        memcpy(text, p, n);
        for (uint32_t i = random_below(3) + 1; i; i--)
            text[random_below((uint32_t)n)] = JUNK[random_below(sizeof JUNK - 1)];
        memset(&whole, 0xA5, sizeof whole);
        memset(&split, 0x5A, sizeof split);
        whole.started = split.started = 0;
        const int rc = feed(g, response, text, cut, cut, l, &whole, &at);
        if (rc == HR_OK) check_sound(&whole, at, cut, title);
        const int rc2 = feed(g, response, text, cut, 1 + random_below(5), l, &split, &at2);
        CHECK(rc == rc2, "%s: %d whole, %d in pieces", title, rc, rc2);
        if (rc == HR_OK && rc2 == HR_OK) {
            CHECK(whole.head_len == split.head_len && whole.flags == split.flags, "%s", title);
            CHECK(whole.seen == split.seen && whole.count == split.count, "%s", title);
        }
    }
}

static void heads(void)
{
    static char longer[1 << 16];
    vectors all = vectors_load(VECTORS "/http1.txt");
    guard g = guard_new(1 << 16);
    for (size_t i = 0; i < all.count; i++) {
        const vector *v = &all.items[i];
        const int response = vector_get(v, "request") == NULL;
        const vector_field *in = vector_get(v, response ? "response" : "request");
        const vector_field *error = vector_get(v, "error");
        const hr_http1_limits l = limits_of(v);
        const int want = error ? code_named(error) : vector_get(v, "more") ? HR_NEED_MORE : HR_OK;
        const size_t size = want == HR_OK ? strtoul(vector_get(v, "size")->value, NULL, 10) : in->n;
        hr_head h;
        char *at;
        for (int mode = 0; mode < 4; mode++) {
            const char *p = in->value;
            size_t n = mode == 0 ? in->n : size, step = mode == 1 ? 1 : mode == 2 ? 7 : n;
            if (mode == 3) { /* with bytes behind */
                if (want == HR_NEED_MORE) continue;
                memcpy(longer, p, n);
                memcpy(longer + n, "\0GET / HTTP/1.1\r\n\r\n", 20);
                p = longer;
                n = step = n + 20;
            }
            memset(&h, 0xA5, sizeof h);
            hr_http1_reset(&h);
            const int rc = feed(&g, response, p, n, step ? step : 1, &l, &h, &at);
            CHECK(rc == want, "%s: %d, not %d (mode %d)", v->name, rc, want, mode);
            if (rc == HR_OK && want == HR_OK) {
                check_sound(&h, at, n, v->name);
                check_head(v, response, &h);
                CHECK(!h.started, "%s", v->name);
            }
        }
        mutate(&g, response, in->value, in->n, &l, v->name);
    }
    guard_free(&g);
    vectors_free(&all);
}

typedef struct {
    int rc;
    size_t n, used;
    char body[4096];
} outcome;

static outcome decode(guard *g, const char *in, size_t n, size_t step, const hr_http1_limits *l)
{
    outcome o = {HR_NEED_MORE, 0, 0, {0}};
    hr_chunked d;
    memset(&d, 0, sizeof d);
    for (size_t done = 0; done < n && o.rc == HR_NEED_MORE;) {
        const size_t k = n - done < step ? n - done : step;
        const char *const start = guard_put(g, in + done, k), *p = start, *e = start + k;
        hr_span data;
        while ((o.rc = hr_chunked_next(&d, &p, e, l, &data)) == HR_CHUNK_DATA) {
            if (!data.n || data.p < start || data.p + data.n > e || o.n + data.n > sizeof o.body) abort();
            memcpy(o.body + o.n, data.p, data.n);
            o.n += data.n;
        }
        if (o.rc == HR_NEED_MORE && p != e) abort();
        o.used = done + (size_t)(p - start);
        done += k;
        if (o.rc == HR_OK && hr_chunked_next(&d, &p, e, l, &data) != HR_OK) abort();
    }
    return o;
}

static void bodies(void)
{
    static char text[1 << 16];
    vectors all = vectors_load(VECTORS "/http1_chunked.txt");
    guard g = guard_new(1 << 16);
    for (size_t i = 0; i < all.count; i++) {
        const vector *v = &all.items[i];
        const vector_field *in = vector_get(v, "in"), *error = vector_get(v, "error");
        const vector_field *body = vector_get(v, "body");
        const hr_http1_limits l = limits_of(v);
        const int want = error ? code_named(error) : body ? HR_OK : HR_NEED_MORE;
        for (size_t step = 1; step <= in->n + 1; step += step < 8 ? 1 : in->n) {
            const outcome o = decode(&g, in->value, in->n, step, &l);
            CHECK(o.rc == want, "%s: %d, not %d (step %zu)", v->name, o.rc, want, step);
            if (o.rc == HR_OK && body) {
                CHECK(o.n == body->n && memcmp(o.body, body->value, o.n) == 0, "%s", v->name);
                CHECK(o.used == in->n, "%s", v->name);
            }
        }
        memcpy(text, in->value, in->n);
        memcpy(text + in->n, "POST", 4);
        if (want == HR_OK) CHECK(decode(&g, text, in->n + 4, in->n + 4, &l).used == in->n, "%s", v->name);
        for (int round = 0; round < 100 && in->n < 2000; round++) {
            static const char JUNK[] = "\0\t\n\r :;=\"\\" "fF0";
            memcpy(text, in->value, in->n);
            text[random_below((uint32_t)in->n)] = JUNK[random_below(sizeof JUNK - 1)];
            const outcome whole = decode(&g, text, in->n, in->n, &l);
            const outcome pieces = decode(&g, text, in->n, 1 + random_below(4), &l);
            CHECK(whole.rc == pieces.rc && whole.n == pieces.n && whole.used == pieces.used &&
                      memcmp(whole.body, pieces.body, whole.n) == 0, "%s", v->name);
        }
    }
    guard_free(&g);
    vectors_free(&all);
}

/* Byte-at-a-time feeding of a large head touches each byte a bounded number of times. A quadratic
 * reading of this one would take some 10^11 steps and run into the test's time limit. */
static void linear(void)
{
    const hr_http1_limits l = {1 << 20, 100, 1 << 20};
    const size_t n = 1 << 19;
    char *text = malloc(n);
    hr_head h;
    memset(&h, 0, sizeof h);
    memset(text, 'a', n);
    memcpy(text, "GET / HTTP/1.1\r\nX: ", 19);
    for (size_t have = 1; have <= n; have++)
        CHECK(hr_http1_request(text, have, &l, &h) == HR_NEED_MORE, "at %zu", have);
    hr_http1_reset(&h);
    memcpy(text, "GET /aaaaaaaaaaaaaa", 19);
    for (size_t have = 1; have <= n; have++)
        CHECK(hr_http1_request(text, have, &l, &h) == HR_NEED_MORE, "at %zu", have);
    free(text);
}

int main(void)
{
    heads();
    bodies();
    linear();
    return failures != 0;
}
