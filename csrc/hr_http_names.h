/* Which header a name is, by length and masked word compares; used by hr_http1.c only. */
#ifndef HR_HTTP_NAMES_H
#define HR_HTTP_NAMES_H

#include <string.h>

#include "hr_http1.h"

/* Header lines that are understood and not kept. */
enum { S_NONE = -1, S_LENGTH = 100, S_CODING, S_CONNECTION, S_EXPECT, S_UPGRADE, S_TE };

static inline uint64_t load64(const char *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

static inline uint32_t load32(const char *p)
{
    uint32_t v;
    memcpy(&v, p, 4);
    return v;
}

/* Whether the n bytes at k are the lower-case name. mask holds 0x20 (a space) where the name has a
 * letter and 0 elsewhere, so that no control character can pass for a hyphen. n is a constant. */
#if defined(__GNUC__) || defined(__clang__)
__attribute__((always_inline))
#endif
static inline int
name_is(const char *k, const char *name, const char *mask, size_t n)
{
#define HR_W64(i) ((load64(k + (i)) | load64(mask + (i))) == load64(name + (i)))
#define HR_W32(i) ((load32(k + (i)) | load32(mask + (i))) == load32(name + (i)))
    if (n < 8)
        return HR_W32(0) && HR_W32(n - 4);
    return HR_W64(0) && (n <= 16 || HR_W64(8)) && (n <= 24 || HR_W64(16)) && HR_W64(n - 8);
#undef HR_W64
#undef HR_W32
}

/* The product is 0, and does not compile unless both literals are equally long. */
#define IS(name, mask) \
    name_is(k, name, mask, sizeof(name) - 1 + 0 * sizeof(char[sizeof(name) == sizeof(mask) ? 1 : -1]))

/* Which header [k, k + n) names: HR_H_*, S_*, or S_NONE. A match proves a valid token. */
static inline int which_header(const char *k, size_t n)
{
    switch (n) {
    case 2:
        return (k[0] | 0x20) == 't' && (k[1] | 0x20) == 'e' ? S_TE : S_NONE;
    case 4:
        return IS("host", "    ") ? HR_H_HOST : S_NONE;
    case 6:
        if (IS("accept", "      ")) return HR_H_ACCEPT;
        if (IS("origin", "      ")) return HR_H_ORIGIN;
        return IS("expect", "      ") ? S_EXPECT : S_NONE;
    case 7:
        return IS("upgrade", "       ") ? S_UPGRADE : S_NONE;
    case 8:
        if (IS("mcp-name", "   \0    ")) return HR_H_MCP_NAME;
        return IS("location", "        ") ? HR_H_LOCATION : S_NONE;
    case 10:
        if (IS("connection", "          ")) return S_CONNECTION;
        return IS("mcp-method", "   \0      ") ? HR_H_MCP_METHOD : S_NONE;
    case 11:
        return IS("retry-after", "     \0     ") ? HR_H_RETRY_AFTER : S_NONE;
    case 12:
        return IS("content-type", "       \0    ") ? HR_H_CONTENT_TYPE : S_NONE;
    case 13:
        if (IS("authorization", "             ")) return HR_H_AUTHORIZATION;
        return IS("last-event-id", "    \0     \0  ") ? HR_H_LAST_EVENT_ID : S_NONE;
    case 14:
        if (IS("content-length", "       \0      ")) return S_LENGTH;
        return IS("mcp-session-id", "   \0       \0  ") ? HR_H_MCP_SESSION_ID : S_NONE;
    case 16:
        if (IS("content-encoding", "       \0        ")) return HR_H_CONTENT_ENCODING;
        return IS("www-authenticate", "   \0            ") ? HR_H_WWW_AUTHENTICATE : S_NONE;
    case 17:
        return IS("transfer-encoding", "        \0        ") ? S_CODING : S_NONE;
    case 20:
        return IS("mcp-protocol-version", "   \0        \0       ") ? HR_H_MCP_PROTOCOL_VERSION : S_NONE;
    case 29:
        return IS("access-control-request-method", "      \0       \0       \0      ")
                   ? HR_H_ACR_METHOD : S_NONE;
    case 30:
        return IS("access-control-request-headers", "      \0       \0       \0       ")
                   ? HR_H_ACR_HEADERS : S_NONE;
    default:
        return S_NONE;
    }
}

/* Whether a name of n bytes starts with "Mcp-Param-" and has something behind it. */
static inline int is_mcp_param(const char *k, size_t n)
{
    return n > 10 && IS("mcp-param-", "   \0     \0");
}

#undef IS

#endif
