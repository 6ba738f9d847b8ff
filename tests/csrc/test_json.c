/* hr_json.h: strings and skipping against slow twins at every length and alignment before a page that
 * may not be read; numbers; escaping and back. */
#include "guard.h"
#include "hr_json.h"

static uint64_t random_state = 88172645463325252u;

static uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)(random_state >> 16) % n;
}

/* ---- slow twins ---------------------------------------------------------------------------- */

static int hex(int c)
{
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static int unit(const unsigned char *p, const unsigned char *e)
{
    int v = 0;
    for (int i = 0; i < 4; i++) {
        if (p + i >= e || hex(p[i]) < 0) return -1;
        v = v * 16 + hex(p[i]);
    }
    return v;
}

/* The length of the string that begins at the quote p, 0 if it is none. */
static size_t slow_string(const unsigned char *p, const unsigned char *e)
{
    const unsigned char *start = p++;
    while (p < e) {
        if (*p == '"') return (size_t)(p - start) + 1;
        if (*p < 0x20) return 0;
        if (*p == '\\') {
            if (++p >= e) return 0;
            if (*p == 'u') {
                const int v = unit(p + 1, e);
                if (v < 0 || (v >= 0xDC00 && v < 0xE000)) return 0;
                p += 5;
                if (v >= 0xD800 && v < 0xDC00) {
                    if (e - p < 2 || p[0] != '\\' || p[1] != 'u') return 0;
                    const int low = unit(p + 2, e);
                    if (low < 0xDC00 || low > 0xDFFF) return 0;
                    p += 6;
                }
            } else {
                if (!strchr("\"\\/bfnrt", *p) || !*p) return 0;
                p++;
            }
        } else if (*p < 0x80) {
            p++;
        } else {
            const int more = *p >= 0xF0 ? 3 : *p >= 0xE0 ? 2 : 1;
            uint32_t c = *p & (0x3Fu >> more);
            if (*p < 0xC0 || *p > 0xF7) return 0;
            for (int i = 1; i <= more; i++) {
                if (p + i >= e || (p[i] & 0xC0) != 0x80) return 0;
                c = c << 6 | (p[i] & 0x3Fu);
            }
            if (c < (more == 1 ? 0x80u : more == 2 ? 0x800u : 0x10000u) || c > 0x10FFFF) return 0;
            if (c >= 0xD800 && c < 0xE000) return 0;
            p += more + 1;
        }
    }
    return 0;
}

/* The length of the array or object at p by structure only, 0 if it is none. */
static size_t slow_skip(const char *p, const char *e)
{
    char stack[4096];
    size_t d = 0;
    int in_string = 0;
    for (const char *q = p; q < e; q++) {
        if (in_string) {
            if (*q == '\\') q++;
            else if (*q == '"') in_string = 0;
        } else if (*q == '"') {
            in_string = 1;
        } else if (*q == '\\') {
            return 0;
        } else if (*q == '{' || *q == '[') {
            stack[d++] = *q;
        } else if (*q == '}' || *q == ']') {
            if (stack[--d] != (*q == '}' ? '{' : '[')) return 0;
            if (!d) return (size_t)(q - p) + 1;
        }
    }
    return 0;
}

/* ---- tests --------------------------------------------------------------------------------- */

static const char *const PIECES[] = {
    "a", "plain text", "\\n", "\\\\", "\\\"", "\\/", "\\u0041", "\\uD83D\\uDE00", "\xc3\xa9", "\xe2\x82\xac",
    "\xf0\x9f\x98\x80", "0123456789abcdef0123456789abcdef0123456789abcdef", " ", "\x7f", "{", "]",
    /* from here on faults, or an early end */
    "\"", "\\", "\\x", "\\u12", "\\ud800", "\\udc00",
    "\x01", "\xc3", "\xe2\x82", "\xed\xa0\x80", "\xff", "\x80",
};
enum { PIECE_COUNT = sizeof PIECES / sizeof *PIECES, GOOD_PIECES = 16 };

static size_t random_inside(char *out, size_t room)
{
    size_t n = 0;
    const uint32_t pieces = random_below(40), wild = random_below(3) == 0;
    for (uint32_t i = 0; i < pieces; i++) {
        const char *piece = PIECES[random_below(wild && random_below(8) == 0 ? PIECE_COUNT : GOOD_PIECES)];
        const size_t k = strlen(piece);
        if (n + k > room) break;
        memcpy(out + n, piece, k);
        n += k;
    }
    return n;
}

static void strings(guard *g)
{
    char text[2048];
    for (int round = 0; round < 60000; round++) {
        text[0] = '"';
        size_t n = 1 + random_inside(text + 1, sizeof text - 64);
        if (random_below(8)) text[n++] = '"';
        for (uint32_t tail = random_below(20); tail; tail--) text[n++] = 'x';
        const char *p = guard_put(g, text, n);
        hr_token t;
        const size_t wanted = slow_string((const unsigned char *)p, (const unsigned char *)p + n);
        const int rc = hr_json_value(p, p + n, 0, 16, &t);
        CHECK((rc == HR_OK) == (wanted != 0) && t.n == wanted, "%.*s", (int)n, p);
        if (rc != HR_OK) continue;
        CHECK(t.type == HR_T_STRING && t.escaped == (memchr(p, '\\', t.n) != NULL), "%.*s", (int)n, p);
        CHECK(hr_json_skip(p, p + n, 0, 16, &t) == HR_OK && t.n == wanted, "%.*s", (int)n, p);
        CHECK(t.escaped == (memchr(p, '\\', t.n) != NULL), "%.*s", (int)n, p);
    }
}

/* Every fault and every multi-byte piece at every offset of strings that end at any distance from the
 * page. */
static void strings_at_every_offset(guard *g)
{
    char text[512];
    for (int filler = 0; filler < 3; filler++)
        for (size_t piece = 0; piece < PIECE_COUNT; piece++)
            for (size_t at = 0; at < 150; at++) {
                static const char *const FILL[] = {"aa", "\\n", "\xc3\xa9"};
                size_t n = 0;
                text[n++] = '"';
                for (size_t i = 0; i < at / 2; i++, n += 2) memcpy(text + n, FILL[filler], 2);
                if (at & 1) text[n++] = 'a';
                memcpy(text + n, PIECES[piece], strlen(PIECES[piece]));
                n += strlen(PIECES[piece]);
                for (size_t i = 0; i < at % 37; i++) text[n++] = 'b';
                text[n++] = '"';
                for (size_t cut = n; cut + 3 > n; cut--) {
                    const char *p = guard_put(g, text, cut);
                    hr_token t;
                    const unsigned char *u = (const unsigned char *)p;
                    const size_t n_found = hr_json_value(p, p + cut, 0, 16, &t) == HR_OK ? t.n : 0;
                    CHECK(n_found == slow_string(u, u + cut), "%.*s", (int)cut, p);
                }
            }
}

static void skips(guard *g)
{
    static const char *const PARTS[] = {
        "{", "}", "[", "]", "\"a\"", "\"\\\"}\"", "\"]\\\\\"", ":", ",", "1", " ",
        "\"{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{{\"", "null", "\"", "\\",
    };
    char text[1024];
    for (int round = 0; round < 60000; round++) {
        size_t n = 0;
        text[n++] = random_below(2) ? '{' : '[';
        for (uint32_t i = 0, parts = random_below(60); i < parts; i++) {
            const char *part = PARTS[random_below(random_below(6) ? 13 : 15)];
            memcpy(text + n, part, strlen(part));
            n += strlen(part);
            if (random_below(3) == 0) { /* closes what is open last, so that some come out whole */
                char stack[1024];
                size_t d = 0;
                int in_string = 0;
                for (size_t q = 0; q < n; q++) {
                    if (in_string && text[q] == '\\') q++;
                    else if (text[q] == '"') in_string = !in_string;
                    else if (in_string) continue;
                    else if (text[q] == '{' || text[q] == '[') stack[d++] = (char)(text[q] + 2);
                    else if ((text[q] == '}' || text[q] == ']') && d) d--;
                }
                if (!in_string && d) text[n++] = stack[d - 1];
            }
            if (n > sizeof text - 128) break;
        }
        const char *p = guard_put(g, text, n);
        hr_token t;
        const size_t wanted = slow_skip(p, p + n);
        CHECK((hr_json_skip(p, p + n, 0, 1024, &t) == HR_OK ? t.n : 0) == wanted, "%.*s", (int)n, p);
        if (hr_json_value(p, p + n, 0, 1024, &t) == HR_OK) CHECK(t.n == wanted, "%.*s", (int)n, p);
    }
}

static void values(guard *g)
{
    static const struct {
        const char *text;
        int rc;
        size_t n;
        uint8_t type;
    } CASES[] = {
        {"0", HR_OK, 1, HR_T_INT}, {"-0", HR_OK, 2, HR_T_INT}, {"123 ", HR_OK, 3, HR_T_INT},
        {"0.5,", HR_OK, 3, HR_T_NUMBER}, {"1e9", HR_OK, 3, HR_T_NUMBER}, {"1E+9]", HR_OK, 4, HR_T_NUMBER},
        {"true", HR_OK, 4, HR_T_TRUE}, {"false", HR_OK, 5, HR_T_FALSE}, {"null", HR_OK, 4, HR_T_NULL},
        {"[]", HR_OK, 2, HR_T_ARRAY}, {"{}", HR_OK, 2, HR_T_OBJECT},
        {"[ [ ] , { } ]x", HR_OK, 13, HR_T_ARRAY},
        {"", HR_BAD_JSON, 0, 0}, {"-", HR_BAD_JSON, 0, 0}, {"1.", HR_BAD_JSON, 0, 0},
        {"1e", HR_BAD_JSON, 0, 0}, {"1e+", HR_BAD_JSON, 0, 0}, {"tru", HR_BAD_JSON, 0, 0},
        {"[", HR_BAD_JSON, 0, 0}, {"[1", HR_BAD_JSON, 0, 0}, {"[1,", HR_BAD_JSON, 0, 0},
        {"{", HR_BAD_JSON, 0, 0}, {"{\"", HR_BAD_JSON, 0, 0}, {"{\"a\"", HR_BAD_JSON, 0, 0},
        {"{\"a\":", HR_BAD_JSON, 0, 0}, {"{\"a\":1", HR_BAD_JSON, 0, 0}, {"{\"a\":1,", HR_BAD_JSON, 0, 0},
        {" 1", HR_BAD_JSON, 0, 0}, {"\"\xff\"", HR_BAD_UTF8, 0, 0}, {"[[[[1]]]]", HR_OK, 9, HR_T_ARRAY},
        {"[[[[[1]]]]]", HR_TOO_DEEP, 0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const size_t n = strlen(CASES[i].text);
        const char *p = guard_put(g, CASES[i].text, n);
        hr_token t;
        const int rc = hr_json_value(p, p + n, 0, 4, &t);
        CHECK(rc == CASES[i].rc && t.n == CASES[i].n && t.type == CASES[i].type, "%s: %d", CASES[i].text, rc);
    }
    hr_token t;
    const char *p = guard_put(g, "[1]", 3);
    CHECK(hr_json_value(p, p + 3, 4, 4, &t) == HR_TOO_DEEP, "levels around count");
    CHECK(hr_json_value(p, p + 3, 3, 4, &t) == HR_OK, "levels around count");
    CHECK(hr_json_value(p + 1, p + 3, 9, 4, &t) == HR_OK && t.n == 1, "a scalar needs no level");
    CHECK(hr_json_check(" [1] ", 5, 4) == HR_OK && hr_json_check("[1]1", 4, 4) == HR_BAD_JSON, "check");
    CHECK(hr_json_check("", 0, 4) == HR_BAD_JSON && hr_json_check("  ", 2, 4) == HR_BAD_JSON, "check");
    p = guard_put(g, " \t\r\n ", 5);
    CHECK(hr_json_ws(p, p + 5) == p + 5 && hr_json_ws(p, p + 3) == p + 3, "ws");
}

/* Escaping: the room promised is enough, the result is a JSON string, and it comes back the same. */
static void escapes(guard *g, guard *out)
{
    char text[600], back[600], again[4096];
    for (int round = 0; round < 20000; round++) {
        size_t n = random_below(sizeof text);
        const uint32_t style = random_below(4);
        for (size_t i = 0; i < n; i++)
            text[i] = style == 0   ? (char)random_below(128)
                      : style == 1 ? "\"\\\n\x01"[random_below(4)]
                      : style == 2 ? (char)('a' + random_below(26))
                                   : "aaaaaaaaaaaaaaaaaaa\""[random_below(20)];
        const char *p = guard_put(g, text, n);
        char *dst = guard_put(out, "", 0) - (6 * n + 16);
        const size_t k = hr_json_escape(dst, p, n);
        CHECK(k <= 6 * n, "room");
        again[0] = '"';
        memcpy(again + 1, dst, k);
        again[k + 1] = '"';
        hr_token t;
        CHECK(hr_json_value(again, again + k + 2, 0, 1, &t) == HR_OK && t.n == k + 2, "is a string");
        const char *escaped = guard_put(g, dst, k);
        CHECK(hr_json_unescape(back, escaped, k) == n && memcmp(back, text, n) == 0, "comes back");
    }
    static const struct {
        const char *escaped, *plain;
    } CASES[] = {
        {"\\u0041\\u00e9\\u20AC\\ud83d\\uDE00", "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80"},
        {"\\b\\f\\n\\r\\t\\/\\\\\\\"", "\b\f\n\r\t/\\\""},
        {"\\ud800", "\xef\xbf\xbd"}, {"\\ud800x", "\xef\xbf\xbdx"}, {"\\ud800\\u0041", "\xef\xbf\xbd" "A"},
        {"a\\", "a"}, {"a\\u12", "a"}, {"a\\u12zz", "a"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const size_t n = strlen(CASES[i].escaped);
        const char *p = guard_put(g, CASES[i].escaped, n);
        const size_t k = hr_json_unescape(back, p, n);
        CHECK(k == strlen(CASES[i].plain) && memcmp(back, CASES[i].plain, k) == 0, "%s", CASES[i].escaped);
    }
    CHECK(hr_json_escape(back, "\x7f\xc3\xa9\x1f", 4) == 9, "escape");
    CHECK(memcmp(back, "\x7f\xc3\xa9\\u001f", 9) == 0, "escape");
}

int main(void)
{
    guard g = guard_new(1 << 16), out = guard_new(1 << 16);
    values(&g);
    strings(&g);
    strings_at_every_offset(&g);
    skips(&g);
    escapes(&g, &out);
    guard_free(&g);
    guard_free(&out);
    return failures != 0;
}
