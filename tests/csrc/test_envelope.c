/* The envelope scan on every vector, the text placed right before a page that may not be read; every
 * vector also cut at each byte, with other bytes behind it, and mutated; each text with and without a
 * memory of the _meta that was read before. */
#include <pthread.h>

#include "guard.h"
#include "hr_envelope.h"
#include "vectors.h"

static const struct {
    const char *name;
    size_t offset;
} TOKENS[] = {
#define TOKEN(name) {#name, offsetof(hr_envelope, name)}
    TOKEN(id), TOKEN(method), TOKEN(params), TOKEN(result), TOKEN(error), TOKEN(name), TOKEN(uri),
    TOKEN(arguments), TOKEN(cursor), TOKEN(meta), TOKEN(request_id), TOKEN(note_token), TOKEN(task_id),
    TOKEN(progress_token), TOKEN(protocol_version), TOKEN(client_capabilities), TOKEN(client_info),
    TOKEN(log_level), TOKEN(subscription_id),
};
enum { TOKEN_COUNT = sizeof TOKENS / sizeof *TOKENS };

static const char *const KINDS[] = {"invalid", "request", "notification", "result", "error", "batch"};

static const hr_token *token_at(const hr_envelope *e, size_t i)
{
    return (const hr_token *)(const void *)((const char *)e + TOKENS[i].offset);
}

static const hr_token *token_named(const hr_envelope *e, const char *name)
{
    for (size_t i = 0; i < TOKEN_COUNT; i++)
        if (strcmp(TOKENS[i].name, name) == 0) return token_at(e, i);
    return NULL;
}

/* Whatever the text: every token lies inside it and is a value of the type it claims. */
static void check_sound(const hr_envelope *e, int rc, const char *p, size_t n, int loose,
                        const char *title)
{
    for (size_t i = 0; i < TOKEN_COUNT; i++) {
        const hr_token *t = token_at(e, i);
        if (!t->n) {
            CHECK(!t->p && !t->type && !t->escaped, "%s %s", title, TOKENS[i].name);
            continue;
        }
        CHECK(t->p >= p && t->p + t->n <= p + n, "%s %s", title, TOKENS[i].name);
        hr_token again;
        const int within = hr_json_skip(t->p, t->p + t->n, 0, 1024, &again);
        CHECK(within == HR_OK && again.n == t->n && again.type == t->type && again.escaped == t->escaped,
              "%s %s", title, TOKENS[i].name);
        if (!loose)
            CHECK(hr_json_value(t->p, t->p + t->n, 0, 1024, &again) == HR_OK && again.n == t->n,
                  "%s %s", title, TOKENS[i].name);
    }
    CHECK(e->id_usable == (e->id.type == HR_T_STRING || e->id.type == HR_T_INT), "%s", title);
    CHECK(!e->id_small || e->id.type == HR_T_INT, "%s", title);
    if (rc != HR_OK) {
        CHECK(e->kind == HR_INVALID && !e->reason && e->fault <= n, "%s", title);
    } else {
        CHECK((e->kind == HR_INVALID) == (e->reason != NULL), "%s", title);
        if (!loose) CHECK(hr_json_check(p, n, 1024) == HR_OK, "%s", title);
    }
}

static hr_meta_memo memo; /* over all texts of this program, as if they came on one connection */

/* The scan, and the same with a memory of what came before and of the text itself: nothing may differ. */
static int scan(const char *p, size_t n, uint32_t depth, uint32_t flags, hr_envelope *e)
{
    const int rc = hr_envelope_scan(p, n, depth, flags, e);
    for (int round = 0; round < 2; round++) {
        hr_envelope again;
        const int second = hr_envelope_scan_again(p, n, depth, flags, &memo, &again);
        CHECK(second == rc && again.kind == e->kind && again.fault == e->fault && again.reason == e->reason, "again");
        CHECK(again.id_usable == e->id_usable && again.id_small == e->id_small && again.id_int == e->id_int, "again");
        CHECK(again.resumed == e->resumed && again.tasked == e->tasked, "again");
        for (size_t i = 0; i < TOKEN_COUNT; i++) {
            const hr_token *a = token_at(e, i), *b = token_at(&again, i);
            CHECK(a->p == b->p && a->n == b->n && a->type == b->type && a->escaped == b->escaped, "again: %s", TOKENS[i].name);
        }
    }
    return rc;
}

static void check_vector(const vector *v, const char *p, size_t n, uint32_t depth, uint32_t flags)
{
    hr_envelope e;
    const int rc = scan(p, n, depth, flags, &e);
    check_sound(&e, rc, p, n, flags & HR_SCAN_LOOSE, v->name);
    int wanted = HR_OK;
    for (size_t i = 0; i < v->count; i++) {
        const vector_field *f = &v->fields[i];
        const hr_token *t = token_named(&e, f->key);
        if (strcmp(f->key, "bad") == 0) {
            wanted = f->value[0] == 'j' ? HR_BAD_JSON : f->value[0] == 'u' ? HR_BAD_UTF8 : HR_TOO_DEEP;
        } else if (strcmp(f->key, "at") == 0) {
            CHECK(e.fault == strtoul(f->value, NULL, 10), "%s: %zu", v->name, e.fault);
        } else if (strcmp(f->key, "kind") == 0) {
            CHECK(strcmp(KINDS[e.kind], f->value) == 0, "%s: %s", v->name, KINDS[e.kind]);
        } else if (strcmp(f->key, "reason") == 0) {
            CHECK(e.reason && strcmp(e.reason, f->value) == 0, "%s: %s", v->name, e.reason ? e.reason : "-");
        } else if (strcmp(f->key, "usable") == 0) {
            CHECK(e.id_usable == (f->value[0] == 'y'), "%s", v->name);
            if (strncmp(v->name, "id-", 3) == 0)
                CHECK(e.id_small == (vector_get(v, "int") != NULL), "%s", v->name);
        } else if (strcmp(f->key, "int") == 0) {
            CHECK(e.id_small && e.id_int == strtoll(f->value, NULL, 10), "%s", v->name);
        } else if (strcmp(f->key, "none") == 0) {
            char *names = strdup(f->value);
            for (char *name = strtok(names, " "); name; name = strtok(NULL, " "))
                CHECK(token_named(&e, name)->n == 0, "%s: %s", v->name, name);
            free(names);
        } else if (t) {
            CHECK(t->n == f->n && memcmp(t->p, f->value, f->n) == 0, "%s: %s", v->name, f->key);
        }
    }
    CHECK(rc == wanted, "%s: %d", v->name, rc);
}

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16) % n;
}

static void mutate(guard *g, const char *text, size_t n, uint32_t flags, const char *title)
{
    static const char BYTES[] = "\"\\{}[],:u0-e.tfn \n\x01\x80\xc3\xe2\xf0\xff";
    char *copy = malloc(n + 1);
    for (int round = 0; round < 60; round++) {
        memcpy(copy, text, n);
        for (uint32_t i = 0, times = 1 + random_below(3); i < times && n; i++)
            copy[random_below((uint32_t)n)] = BYTES[random_below(sizeof BYTES - 1)];
        const char *p = guard_put(g, copy, n);
        hr_envelope e;
        const int rc = scan(p, n, 256, flags, &e);
        check_sound(&e, rc, p, n, flags & HR_SCAN_LOOSE, title);
    }
    free(copy);
}

static void run_vectors(void)
{
    vectors all = vectors_load(VECTORS "/envelope.txt");
    guard g = guard_new(1 << 20);
    CHECK(all.count > 300, "%zu vectors", all.count);
    for (size_t i = 0; i < all.count; i++) {
        const vector *v = &all.items[i];
        const vector_field *in = vector_get(v, "in");
        const vector_field *limit = vector_get(v, "depth"), *loose = vector_get(v, "loose");
        const uint32_t depth = limit ? (uint32_t)strtoul(limit->value, NULL, 10) : 256;
        const uint32_t flags = loose ? HR_SCAN_LOOSE : 0;
        check_vector(v, guard_put(&g, in->value, in->n), in->n, depth, flags);

        /* byte by byte: what is cut is no JSON */
        const int structured = in->n && (in->value[0] == '{' || in->value[0] == '[');
        for (size_t n = 0; n < in->n && n < 700; n++) {
            hr_envelope e;
            const char *p = guard_put(&g, in->value, n);
            const int rc = scan(p, n, depth, flags, &e);
            check_sound(&e, rc, p, n, loose != NULL, v->name);
            if (structured && vector_get(v, "kind")) CHECK(rc != HR_OK, "%s cut at %zu", v->name, n);
        }
        /* trailing data */
        if (structured && vector_get(v, "kind")) {
            char *longer = malloc(in->n + 1);
            memcpy(longer, in->value, in->n);
            for (const char *tail = "\n \tx}]{,\"1"; *tail; tail++) {
                longer[in->n] = *tail;
                hr_envelope e;
                const char *p = guard_put(&g, longer, in->n + 1);
                const int rc = scan(p, in->n + 1, depth, flags, &e);
                CHECK((rc == HR_OK) == (*tail == '\n' || *tail == ' ' || *tail == '\t'), "%s", v->name);
            }
            free(longer);
        }
        if (in->n < 1000) {
            mutate(&g, in->value, in->n, 0, v->name);
            mutate(&g, in->value, in->n, HR_SCAN_LOOSE, v->name);
        }
    }
    guard_free(&g);
    vectors_free(&all);
}

static void rebase(void)
{
    const char text[] = "{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":\"m\","
                        "\"params\":{\"_meta\":{\"progressToken\":1}}}";
    char *source = strdup(text), *copy = strdup(text);
    hr_envelope e;
    CHECK(scan(source, strlen(source), 256, 0, &e) == HR_OK, "rebase");
    hr_envelope_rebase(&e, source, copy);
    free(source);
    CHECK(e.id.p == copy + 22 && *e.id.p == '7', "id");
    CHECK(e.progress_token.p[0] == '1' && e.result.p == NULL, "tokens");
    free(copy);
}

/* A _meta is remembered when it can be, and what is remembered is compared to its last byte. */
static void remembered(void)
{
    static const char open[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":{\"_meta\":";
    static const struct { const char *meta; int kept; } cases[] = {
        { "{}", 1 },
        { "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"x\":{\"y\":[1,2]}}", 1 },
        { "{\"io.modelcontextprotocol/protocolVersion\":\"2026-07-28\",\"x\":{\"y\":[1,3]}}", 1 },
        { "{\"progressToken\":1}", 0 },
        { "{\"io.modelcontextprotocol/logLevel\":\"info\",\"io.modelcontextprotocol/logLevel\":\"info\"}", 0 },
        { "{\"io.modelcontextprotocol/logLevel\":\"info\",\"a\":\"\xff\"}", 0 },
        { "[{}]", 0 },
    };
    char text[4096];
    hr_envelope e;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const size_t n = strlen(cases[i].meta);
        memset(&memo, 0, sizeof memo);
        const int length = snprintf(text, sizeof text, "%s%s}}", open, cases[i].meta);
        scan(text, (size_t)length, 256, 0, &e);
        CHECK(memo.n == (cases[i].kept ? n : 0), "%s: %u", cases[i].meta, memo.n);
        CHECK(!memo.n || memcmp(memo.text, cases[i].meta, n) == 0, "%s", cases[i].meta);
        /* the same bytes under another limit are read anew */
        CHECK(scan(text, (size_t)length, 2, 0, &e) == HR_TOO_DEEP || i > 0, "%s", cases[i].meta);
    }
    for (size_t n = HR_META_MEMO - 2; n <= HR_META_MEMO + 2; n++) {
        memset(&memo, 0, sizeof memo);
        const int length = snprintf(text, sizeof text, "%s{\"a\":\"%0*d\"}}}", open, (int)(n - 8), 0);
        CHECK(scan(text, (size_t)length, 256, 0, &e) == HR_OK && e.meta.n == n, "%zu", e.meta.n);
        CHECK(memo.n == (n <= HR_META_MEMO ? n : 0), "%u", memo.n);
    }
}

/* Bare JSON-RPC: a result may be any value, and nothing else changes. */
static void any_result(void)
{
    static const char *const values[] = { "null", "true", "0", "-1.5e3", "\"x\"", "[1,[2]]", "{}" };
    char text[128];
    hr_envelope e;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        const int length = snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":%s}", values[i]);
        CHECK(scan(text, (size_t)length, 256, HR_SCAN_ANY_RESULT, &e) == HR_OK && e.kind == HR_RESULT, "%s", values[i]);
        CHECK(e.result.n == strlen(values[i]), "%s", values[i]);
        CHECK(scan(text, (size_t)length, 256, 0, &e) == HR_OK, "%s", values[i]);
        CHECK(e.kind == (values[i][0] == '{' ? HR_RESULT : HR_INVALID), "%s", values[i]);
    }
}

/* MX-32, TK-02: members of params that change how a request is served, wherever their names are only text. */
static void asking(void)
{
    static const struct { const char *params; int resumed, tasked; } cases[] = {
        { "{\"name\":\"a\"}", 0, 0 },
        { "{\"name\":\"task\",\"arguments\":{\"task\":{},\"requestState\":1,\"inputResponses\":2}}", 0, 0 },
        { "{\"_meta\":{\"task\":1},\"uri\":\"requestState\"}", 0, 0 },
        { "{\"name\":\"a\",\"task\":{}}", 0, 1 },
        { "{\"t\\u0061sk\":null}", 0, 1 },
        { "{\"requestState\":\"s\"}", 1, 0 },
        { "{\"inputResponses\":{},\"task\":{\"ttl\":1}}", 1, 1 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[256];
        hr_envelope e;
        const int n = snprintf(text, sizeof text, "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\",\"params\":%s}",
                               cases[i].params);
        CHECK(scan(text, (size_t)n, 256, 0, &e) == HR_OK, "%s", cases[i].params);
        CHECK(e.resumed == cases[i].resumed && e.tasked == cases[i].tasked, "%s", cases[i].params);
    }
}

/* B108: 5,000,000 levels on a stack of 256 KiB. */
static void *deep(void *unused)
{
    static const char head[] = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":{\"arguments\":";
    const size_t n = 5000000;
    char *text = malloc(sizeof head + n);
    (void)unused;
    memcpy(text, head, sizeof head - 1);
    memset(text + sizeof head - 1, '[', n);
    for (uint32_t flags = 0; flags <= HR_SCAN_LOOSE; flags++) {
        hr_envelope e;
        const int rc = scan(text, sizeof head - 1 + n, 5000, flags, &e);
        CHECK(rc == HR_TOO_DEEP && e.id_usable && e.id_int == 1, "rc %d", rc);
        CHECK(e.fault == sizeof head - 1 + 1022, "the cap is 1024 levels, whatever is asked for");
    }
    free(text);
    return NULL;
}

int main(void)
{
    pthread_attr_t attributes;
    pthread_t thread;
    run_vectors();
    rebase();
    remembered();
    any_result();
    asking();
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, 256 * 1024);
    if (pthread_create(&thread, &attributes, deep, NULL) != 0) return 2;
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attributes);
    return failures != 0;
}
