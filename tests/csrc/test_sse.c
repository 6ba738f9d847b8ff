/* Event streams: every vector at many splits, each chunk right before a page that may not be read and
 * overwritten behind the call; mutations must read the same whole and in pieces. Escaping against a
 * slow twin. */
#include "guard.h"
#include "hr_sse.h"
#include "vectors.h"

typedef struct {
    int failed;
    size_t events, in_place, n;
    char text[1 << 14]; /* name NUL length data NUL id NUL, for each event; then the end state */
} outcome;

static void add(outcome *o, const char *p, size_t n)
{
    if (o->n + n + 32 > sizeof o->text) abort();
    if (n) memcpy(o->text + o->n, p, n);
    o->n += n;
    o->text[o->n++] = 0;
}

static void add_event(outcome *o, hr_span name, hr_span data, hr_span id)
{
    char length[32];
    add(o, name.n ? name.p : "message", name.n ? name.n : 7);
    snprintf(length, sizeof length, "%zu", data.n);
    add(o, length, strlen(length));
    add(o, data.p, data.n);
    add(o, id.p, id.n);
    o->events++;
}

static void add_end(outcome *o, const char *id, size_t id_n, int has_retry, long long retry)
{
    char text[32];
    add(o, id, id_n);
    snprintf(text, sizeof text, "%lld", has_retry ? retry : -1);
    add(o, text, strlen(text));
}

static void run(guard *g, const char *in, size_t n, size_t step, size_t limit, outcome *o)
{
    hr_sse s;
    hr_sse_event ev;
    memset(&s, 0, sizeof s);
    s.max_event = limit;
    memset(o, 0, sizeof *o);
    for (size_t done = 0; done < n && !o->failed; done += step) {
        const size_t k = n - done < step ? n - done : step;
        char *const start = guard_put(g, in + done, k);
        const char *p = start, *e = start + k;
        for (int rounds = 0;; rounds++) {
            const int rc = hr_sse_next(&s, &p, e, &ev);
            if (rounds > 1 << 14) abort();
            if (rc == HR_NEED_MORE) {
                CHECK(p == e, "chunk not used up");
                break;
            }
            if (rc == HR_SSE_GROW) {
                CHECK(s.need > s.cap && s.need <= 2 * limit + 2 * s.cap + 4, "asks for %zu", s.need);
                char *bigger = malloc(s.need); /* exact, so that a write behind it is seen */
                if (s.cap) memcpy(bigger, s.buf, s.cap);
                free(s.buf);
                s.buf = bigger;
                s.cap = s.need;
            } else if (rc == HR_OK) {
                const int here = ev.data.p >= start && ev.data.p + ev.data.n <= e;
                CHECK(!(ev.flags & HR_SSE_IN_PLACE) || here, "data is elsewhere");
                CHECK(!(ev.flags & HR_SSE_MESSAGE) ==
                          !(ev.event.n == 0 || (ev.event.n == 7 && !memcmp(ev.event.p, "message", 7))), "kind");
                CHECK(ev.data.n <= limit, "data over the limit");
                o->in_place += (ev.flags & HR_SSE_IN_PLACE) != 0;
                add_event(o, ev.event, ev.data, ev.id);
            } else {
                CHECK(rc == HR_SSE_TOO_LARGE, "%d", rc);
                o->failed = 1;
                break;
            }
        }
        memset(start, '!', k);
    }
    if (!o->failed) add_end(o, s.id, s.id_n, s.has_retry, s.retry_ms);
    free(s.buf);
}

static hr_span span_of(const vector_field *f)
{
    hr_span s = {f->value, f->n};
    return s;
}

static void expected(const vector *v, outcome *o)
{
    const vector_field *last = vector_get(v, "last"), *retry = vector_get(v, "retry");
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i + 2 < v->count; i++)
        if (strcmp(v->fields[i].key, "event") == 0)
            add_event(o, span_of(&v->fields[i]), span_of(&v->fields[i + 1]), span_of(&v->fields[i + 2]));
    o->failed = vector_get(v, "error") != NULL;
    if (!o->failed) add_end(o, last ? last->value : "", last ? last->n : 0, retry != NULL, retry ? atoll(retry->value) : 0);
}

static uint32_t random_state = 4711;
static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 1664525u + 1013904223u;
    return (random_state >> 8) % n;
}

static void streams(void)
{
    static outcome want, got, again;
    static char text[1 << 14];
    vectors all = vectors_load(VECTORS "/sse.txt");
    guard g = guard_new(1 << 16);
    for (size_t i = 0; i < all.count; i++) {
        const vector *v = &all.items[i];
        const vector_field *in = vector_get(v, "in"), *l = vector_get(v, "limit");
        const size_t limit = l ? strtoul(l->value, NULL, 10) : 1 << 20;
        expected(v, &want);
        for (size_t step = 1; step <= in->n + 1; step += step < 40 ? 1 : in->n) {
            run(&g, in->value, in->n, step, limit, &got);
            CHECK(got.failed == want.failed, "%s (step %zu)", v->name, step);
            CHECK(got.n == want.n && memcmp(got.text, want.text, got.n) == 0, "%s (step %zu)", v->name, step);
        }
        for (int round = 0; round < 200 && in->n; round++) {
            static const char JUNK[] = "\0\n\r :\xef\xbb\xbf" "di1";
            memcpy(text, in->value, in->n);
            for (uint32_t k = random_below(3) + 1; k; k--)
                text[random_below((uint32_t)in->n)] = JUNK[random_below(sizeof JUNK - 1)];
            run(&g, text, in->n, in->n, limit, &got);
            run(&g, text, in->n, 1 + random_below(9), limit, &again);
            CHECK(got.failed == again.failed && got.n == again.n && !memcmp(got.text, again.text, got.n), "%s", v->name);
        }
    }
    run(&g, "data: one\n\ndata: two\r\n\r\n", 24, 24, 100, &got);
    CHECK(got.events == 2 && got.in_place == 2, "whole events are not copied");
    guard_free(&g);
    vectors_free(&all);
}

static void restart(void)
{
    hr_sse s;
    hr_sse_event ev;
    const char one[] = "id: 1\ndata: a\n\nid: 2\nda", two[] = "\xEF\xBB\xBF" "data: b\n\n", *p = one;
    memset(&s, 0, sizeof s);
    s.max_event = 100;
    CHECK(hr_sse_next(&s, &p, one + sizeof one - 1, &ev) == HR_OK, "first");
    CHECK(hr_sse_next(&s, &p, one + sizeof one - 1, &ev) == HR_NEED_MORE, "rest");
    hr_sse_restart(&s, 1);
    p = two;
    CHECK(hr_sse_next(&s, &p, two + sizeof two - 1, &ev) == HR_OK, "second");
    CHECK(ev.data.n == 1 && *ev.data.p == 'b' && ev.id.n == 1 && *ev.id.p == '1', "id kept");
    hr_sse_restart(&s, 0);
    CHECK(s.id_n == 0, "id dropped");
    free(s.buf);
}

/* Texts over the bytes that matter, escaped in place right before the guard page. */
static void escape(void)
{
    static const char BYTES[] = "\xE2\x80\xA8\xA9\xC2\x85" "a\n\r";
    guard g = guard_new(1 << 12);
    for (int round = 0; round < 20000; round++) {
        char in[48], want[48 * 6], out[48 * 6];
        size_t n = random_below(sizeof in), w = 0, lines = 0;
        for (size_t i = 0; i < n; i++) in[i] = BYTES[random_below(sizeof BYTES - 1)];
        for (size_t i = 0; i < n; i++) {
            if (n - i >= 3 && !memcmp(in + i, "\xE2\x80\xA8", 3)) {
                memcpy(want + w, "\\u2028", 6), w += 6, i += 2;
            } else if (n - i >= 3 && !memcmp(in + i, "\xE2\x80\xA9", 3)) {
                memcpy(want + w, "\\u2029", 6), w += 6, i += 2;
            } else if (n - i >= 2 && !memcmp(in + i, "\xC2\x85", 2)) {
                memcpy(want + w, "\\u0085", 6), w += 6, i += 1;
            } else {
                want[w++] = in[i];
            }
        }
        const char *placed = guard_put(&g, in, n);
        const size_t growth = hr_sse_escape_growth(placed, n);
        CHECK(n + growth == w, "growth %zu", growth);
        if (n + growth != w) continue;
        memcpy(out, in, n);
        char *p = guard_put(&g, out, w);
        hr_sse_escape(p, n, growth);
        CHECK(memcmp(p, want, w) == 0, "escape");
        for (size_t i = 0; i < w; i++) lines += p[i] == '\n' || p[i] == '\r';
        CHECK(hr_sse_flatten(p, w) == lines, "flatten");
        CHECK(!memchr(p, '\n', w) && !memchr(p, '\r', w), "flatten");
    }
    guard_free(&g);
}

int main(void)
{
    streams();
    restart();
    escape();
    return failures != 0;
}
