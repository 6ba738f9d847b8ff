/* The JSON-RPC envelope in one pass: three levels of objects (message, params, params._meta) are
 * read member by member, everything else is a value whose span is kept or forgotten.
 *
 * Keys are told apart by length, then by one comparison. A key that holds a backslash is unescaped
 * into a small buffer first; one too long for that buffer is no key we know. */
#include "hr_envelope.h"
#include "hr_json_scan.h"

#define META_PREFIX "io.modelcontextprotocol/"
enum {
    META_PREFIX_LEN = sizeof META_PREFIX - 1,
    LONGEST_KEY = META_PREFIX_LEN + sizeof "clientCapabilities" - 1,
    KEY_BUFFER = 6 * LONGEST_KEY /* every character of a key may be written as \uXXXX */
};

typedef struct {
    hr_scan s;
    hr_envelope *out;
    hr_meta_memo *memo;
    hr_token jsonrpc;
    uint32_t flags;
    uint8_t duplicate;    /* some member we read came twice */
    uint8_t duplicate_id; /* the id did: none of the two may be echoed */
    /* the key read last, unescaped */
    const char *key;
    size_t key_len;
    char buffer[KEY_BUFFER];
} scanner;

#define KEY_IS(k, literal) (memcmp((k)->key, literal, sizeof literal - 1) == 0)

static void unescape_key(scanner *k)
{
    k->key_len = k->key_len <= KEY_BUFFER ? hr_json_unescape(k->buffer, k->key, k->key_len) : 0;
    k->key = k->buffer;
}

/* p is where a key is due. Returns the position of its value. */
static inline hr_up read_key(hr_up p, scanner *k)
{
    const hr_up e = k->s.e;
    if (HR_UNLIKELY(p >= e || *p != '"')) return hr_fault(&k->s, p, HR_BAD_JSON);
    const hr_up start = p + 1;
    p = hr_scan_string(start, &k->s);
    if (HR_UNLIKELY(!p)) return NULL;
    k->key = (const char *)start;
    k->key_len = (size_t)(p - start) - 1;
    if (HR_UNLIKELY(k->s.escaped)) unescape_key(k);
    p = hr_scan_ws(p, e);
    if (HR_UNLIKELY(p >= e || *p != ':')) return hr_fault(&k->s, p, HR_BAD_JSON);
    p = hr_scan_ws(p + 1, e);
    if (HR_UNLIKELY(p >= e)) return hr_fault(&k->s, p, HR_BAD_JSON);
    return p;
}

/* p is behind a member's value. Returns the position of the next key, or behind the object's end
 * with *more cleared. */
static inline hr_up next_member(hr_up p, scanner *k, int *more)
{
    const hr_up e = k->s.e;
    p = hr_scan_ws(p, e);
    if (HR_UNLIKELY(p >= e)) return hr_fault(&k->s, p, HR_BAD_JSON);
    if (*p == ',') return hr_scan_ws(p + 1, e);
    if (HR_UNLIKELY(*p != '}')) return hr_fault(&k->s, p, HR_BAD_JSON);
    *more = 0;
    return p + 1;
}

/* p is at an opening brace. Returns the position of the first key, or behind the end of the empty
 * object with *more cleared. */
static inline hr_up first_member(hr_up p, scanner *k, uint32_t depth, int *more)
{
    if (HR_UNLIKELY(depth >= k->s.max_depth)) return hr_fault(&k->s, p, HR_TOO_DEEP);
    p = hr_scan_ws(p + 1, k->s.e);
    *more = 1;
    if (HR_UNLIKELY(p < k->s.e && *p == '}')) {
        *more = 0;
        p++;
    }
    return p;
}

/* Keeps the span of the value just read, or notes that the member came before. */
static inline void keep(scanner *k, hr_token *t, hr_up p, hr_up end)
{
    if (HR_UNLIKELY(t->n)) {
        k->duplicate = 1;
        return;
    }
    t->p = (const char *)p;
    t->n = (size_t)(end - p);
    t->type = k->s.type;
    t->escaped = k->s.type == HR_T_STRING && k->s.escaped;
}

/* A value that is mostly a short string. */
static inline hr_up read_value(hr_up p, scanner *k, uint32_t depth)
{
    if (HR_LIKELY(*p == '"')) {
        k->s.type = HR_T_STRING;
        return hr_scan_string(p + 1, &k->s);
    }
    return hr_scan_value(p, &k->s, depth);
}

static inline hr_up read_or_skip(hr_up p, scanner *k, uint32_t depth)
{
    return k->flags & HR_SCAN_LOOSE ? hr_scan_skip(p, &k->s, depth) : hr_scan_value(p, &k->s, depth);
}

static inline int has_meta_prefix(const char *key)
{
    uint64_t a[3], b[3];
    memcpy(a, key, sizeof a);
    memcpy(b, META_PREFIX, sizeof b);
    return ((a[0] ^ b[0]) | (a[1] ^ b[1]) | (a[2] ^ b[2])) == 0;
}

static inline hr_token *meta_member(scanner *k)
{
    hr_envelope *out = k->out;
    if (k->key_len == 13) return KEY_IS(k, "progressToken") ? &out->progress_token : NULL;
    if (k->key_len <= META_PREFIX_LEN || k->key_len > LONGEST_KEY || !has_meta_prefix(k->key)) return NULL;
    const char *name = k->key + META_PREFIX_LEN;
    switch (k->key_len - META_PREFIX_LEN) {
    case 8: return memcmp(name, "logLevel", 8) == 0 ? &out->log_level : NULL;
    case 10: return memcmp(name, "clientInfo", 10) == 0 ? &out->client_info : NULL;
    case 14: return memcmp(name, "subscriptionId", 14) == 0 ? &out->subscription_id : NULL;
    case 15: return memcmp(name, "protocolVersion", 15) == 0 ? &out->protocol_version : NULL;
    case 18: return memcmp(name, "clientCapabilities", 18) == 0 ? &out->client_capabilities : NULL;
    default: return NULL;
    }
}

static hr_up read_meta(hr_up p, scanner *k, uint32_t depth)
{
    int more;
    p = first_member(p, k, depth, &more);
    while (p && more) {
        p = read_key(p, k);
        if (HR_UNLIKELY(!p)) return NULL;
        hr_token *t = meta_member(k);
        const hr_up end = read_value(p, k, depth + 1);
        if (HR_UNLIKELY(!end)) return NULL;
        if (t) keep(k, t, p, end);
        p = next_member(end, k, &more);
    }
    k->s.type = HR_T_OBJECT;
    return p;
}

enum { MEMBERS = sizeof ((hr_meta_memo *)0)->members / sizeof(hr_token) };

/* What a _meta that was read at p says is remembered. */
static void remember_meta(hr_up p, hr_up end, const scanner *k)
{
    hr_meta_memo *memo = k->memo;
    const size_t n = (size_t)(end - p);
    if (n > HR_META_MEMO || k->out->progress_token.n || k->duplicate) return;
    memcpy(memo->text, p, n);
    memcpy(memo->members, &k->out->protocol_version, sizeof memo->members);
    for (int i = 0; i < MEMBERS; i++)
        if (memo->members[i].n) memo->members[i].p = memo->text + (memo->members[i].p - (const char *)p);
    memo->max_depth = k->s.max_depth;
    memo->n = (uint32_t)n;
}

/* p is at the brace of a _meta, inside of params. */
static hr_up read_meta_again(hr_up p, scanner *k, uint32_t depth)
{
    const hr_meta_memo *memo = k->memo;
    if (memo && memo->n && (size_t)(k->s.e - p) >= memo->n && memo->max_depth == k->s.max_depth &&
        memcmp(p, memo->text, memo->n) == 0) {
        hr_token *t = &k->out->protocol_version;
        memcpy(t, memo->members, sizeof memo->members);
        for (int i = 0; i < MEMBERS; i++)
            if (t[i].n) t[i].p = (const char *)p + (t[i].p - memo->text);
        k->s.type = HR_T_OBJECT;
        return p + memo->n;
    }
    const hr_up end = read_meta(p, k, depth);
    if (end && memo) remember_meta(p, end, k);
    return end;
}

static inline hr_token *params_member(scanner *k)
{
    hr_envelope *out = k->out;
    switch (k->key_len) {
    case 3: return KEY_IS(k, "uri") ? &out->uri : NULL;
    case 4:
        if (KEY_IS(k, "name")) return &out->name;
        if (KEY_IS(k, "task")) out->tasked = 1;
        return NULL;
    case 5: return KEY_IS(k, "_meta") ? &out->meta : NULL;
    case 6:
        if (KEY_IS(k, "cursor")) return &out->cursor;
        return KEY_IS(k, "taskId") ? &out->task_id : NULL;
    case 9:
        if (KEY_IS(k, "arguments")) return &out->arguments;
        return KEY_IS(k, "requestId") ? &out->request_id : NULL;
    case 12:
        if (KEY_IS(k, "requestState")) out->resumed = 1;
        return NULL;
    case 13: return KEY_IS(k, "progressToken") ? &out->note_token : NULL;
    case 14:
        if (KEY_IS(k, "inputResponses")) out->resumed = 1;
        return NULL;
    default: return NULL;
    }
}

static hr_up read_params(hr_up p, scanner *k, uint32_t depth)
{
    hr_envelope *out = k->out;
    int more;
    p = first_member(p, k, depth, &more);
    while (p && more) {
        p = read_key(p, k);
        if (HR_UNLIKELY(!p)) return NULL;
        hr_token *t = params_member(k);
        hr_up end;
        if (t == &out->arguments)
            end = read_or_skip(p, k, depth + 1);
        else if (t == &out->meta && *p == '{' && !t->n)
            end = read_meta_again(p, k, depth + 1);
        else
            end = read_value(p, k, depth + 1);
        if (HR_UNLIKELY(!end)) return NULL;
        if (t) keep(k, t, p, end);
        p = next_member(end, k, &more);
    }
    k->s.type = HR_T_OBJECT;
    return p;
}

static inline hr_token *message_member(scanner *k)
{
    hr_envelope *out = k->out;
    switch (k->key_len) {
    case 2: return KEY_IS(k, "id") ? &out->id : NULL;
    case 5: return KEY_IS(k, "error") ? &out->error : NULL;
    case 6:
        if (KEY_IS(k, "method")) return &out->method;
        if (KEY_IS(k, "params")) return &out->params;
        return KEY_IS(k, "result") ? &out->result : NULL;
    case 7: return KEY_IS(k, "jsonrpc") ? &k->jsonrpc : NULL;
    default: return NULL;
    }
}

/* The id has just been kept: may it be echoed, and what is its number? */
static void judge_id(scanner *k)
{
    hr_envelope *out = k->out;
    const hr_token *id = &out->id;
    out->id_usable = id->type == HR_T_STRING || id->type == HR_T_INT;
    if (id->type != HR_T_INT) return;
    const int negative = id->p[0] == '-';
    if (id->n - (size_t)negative > 18) return;
    int64_t v = 0;
    for (size_t i = (size_t)negative; i < id->n; i++) v = v * 10 + (id->p[i] - '0');
    /* -0 has no integer of its own: a table keyed by id_int would take it for 0 */
    if (negative && v == 0) return;
    out->id_int = negative ? -v : v;
    out->id_small = 1;
}

static void no_id(hr_envelope *out)
{
    memset(&out->id, 0, sizeof out->id);
    out->id_usable = out->id_small = 0;
    out->id_int = 0;
}

static hr_up read_message(hr_up p, scanner *k)
{
    hr_envelope *out = k->out;
    int more;
    p = first_member(p, k, 0, &more);
    while (p && more) {
        p = read_key(p, k);
        if (HR_UNLIKELY(!p)) return NULL;
        hr_token *t = message_member(k);
        hr_up end;
        if (t == &out->params && *p == '{' && !t->n)
            end = read_params(p, k, 1);
        else if (t == &out->result)
            end = read_or_skip(p, k, 1);
        else
            end = read_value(p, k, 1);
        if (HR_UNLIKELY(!end)) return NULL;
        if (t) {
            if (t == &out->id) {
                if (t->n) k->duplicate_id = 1;
                keep(k, t, p, end);
                if (!k->duplicate_id) judge_id(k);
            } else {
                keep(k, t, p, end);
            }
        }
        p = next_member(end, k, &more);
        /* digits that no comma or brace follows may be a part of the id only */
        if (HR_UNLIKELY(!p && t && t == &out->id)) no_id(out);
    }
    return p;
}

static int is_version_2(const hr_token *t)
{
    if (HR_LIKELY(t->n == 5 && memcmp(t->p, "\"2.0\"", 5) == 0)) return 1;
    char text[18]; /* three characters, each at most \uXXXX */
    if (t->type != HR_T_STRING || !t->escaped || t->n - 2 > sizeof text) return 0;
    return hr_json_unescape(text, t->p + 1, t->n - 2) == 3 && memcmp(text, "2.0", 3) == 0;
}

/* What is wrong with the message as a whole, or NULL after out->kind was set. */
static const char *classify(const scanner *k)
{
    hr_envelope *out = k->out;
    const int has_id = out->id.n != 0;
    if (HR_UNLIKELY(k->duplicate)) return "a member occurs twice";
    if (HR_UNLIKELY(!is_version_2(&k->jsonrpc))) return "jsonrpc must be \"2.0\"";
    const int null_id = out->id.type == HR_T_NULL && out->error.n && !out->method.n; /* JR-13 */
    if (HR_UNLIKELY(has_id && !out->id_usable && !null_id))
        return "id must be a string or an integer";
    if (HR_LIKELY(out->method.n)) {
        if (HR_UNLIKELY(out->method.type != HR_T_STRING)) return "method must be a string";
        if (HR_UNLIKELY(out->result.n || out->error.n)) return "a message has a method, a result or an error";
        out->kind = has_id ? HR_REQUEST : HR_NOTIFICATION;
        return NULL;
    }
    if (HR_UNLIKELY(out->result.n && out->error.n)) return "a response has either a result or an error";
    if (out->result.n) {
        if (HR_UNLIKELY(!has_id)) return "a result must have an id";
        if (HR_UNLIKELY(out->result.type != HR_T_OBJECT) && !(k->flags & HR_SCAN_ANY_RESULT))
            return "result must be an object";
        out->kind = HR_RESULT;
        return NULL;
    }
    if (HR_UNLIKELY(!out->error.n)) return "a message must have a method, a result or an error";
    if (HR_UNLIKELY(out->error.type != HR_T_OBJECT)) return "error must be an object";
    out->kind = HR_ERROR;
    return NULL;
}

int hr_envelope_scan(const char *text, size_t n, uint32_t max_depth, uint32_t flags, hr_envelope *out)
{
    return hr_envelope_scan_again(text, n, max_depth, flags, NULL, out);
}

int hr_envelope_scan_again(const char *text, size_t n, uint32_t max_depth, uint32_t flags, hr_meta_memo *memo,
                           hr_envelope *out)
{
    scanner k;
    memset(out, 0, sizeof *out);
    k.s.e = (hr_up)text + n;
    k.s.at = NULL;
    k.s.max_depth = max_depth < HR_DEPTH_CAP ? max_depth : HR_DEPTH_CAP;
    k.s.rc = HR_OK;
    k.s.escaped = 0;
    k.s.type = HR_T_NONE;
    k.out = out;
    k.memo = memo;
    memset(&k.jsonrpc, 0, sizeof k.jsonrpc);
    k.flags = flags;
    k.duplicate = k.duplicate_id = 0;

    hr_up p = hr_scan_ws((hr_up)text, k.s.e);
    const int object = p < k.s.e && *p == '{', array = p < k.s.e && *p == '[';
    p = HR_LIKELY(object) ? read_message(p, &k) : hr_scan_value(p, &k.s, 0);
    if (HR_LIKELY(p)) {
        p = hr_scan_ws(p, k.s.e);
        if (HR_UNLIKELY(p != k.s.e)) p = hr_fault(&k.s, p, HR_BAD_JSON);
    }
    if (HR_UNLIKELY(k.duplicate_id)) no_id(out);
    if (HR_UNLIKELY(!p)) {
        out->fault = (size_t)((const char *)k.s.at - text);
        return k.s.rc;
    }
    if (HR_LIKELY(object))
        out->reason = classify(&k);
    else if (array)
        out->kind = HR_BATCH;
    else
        out->reason = "a message must be an object";
    return HR_OK;
}

void hr_envelope_rebase(hr_envelope *env, const char *from, const char *to)
{
    hr_token *const tokens[] = {
        &env->id, &env->method, &env->params, &env->result, &env->error,
        &env->name, &env->uri, &env->arguments, &env->cursor, &env->meta,
        &env->request_id, &env->note_token, &env->task_id,
        &env->progress_token, &env->protocol_version, &env->client_capabilities, &env->client_info,
        &env->log_level, &env->subscription_id,
    };
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
        if (tokens[i]->n) tokens[i]->p = to + (tokens[i]->p - from);
}
