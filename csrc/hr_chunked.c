/* The chunked coding: a byte machine for the framing, spans for the data. The grammar of RFC 9112
 * 7.1 without its "bad white space"; extensions and trailers are checked, bounded and dropped. */
#include "hr_http1.h"

#include "hr_http_chars.h"

enum {
    SIZE_FIRST = 0, /* a hex digit must come */
    SIZE,
    EXT_FIRST, /* behind ';' */
    EXT_NAME,
    EXT_VALUE_FIRST, /* behind '=' */
    EXT_VALUE,
    EXT_QUOTED,
    EXT_ESCAPED,
    EXT_END, /* behind a closing quote */
    SIZE_LF,
    DATA,
    DATA_CR,
    DATA_LF,
    TRAILER_FIRST,
    TRAILER_NAME,
    TRAILER_VALUE,
    TRAILER_LF,
    LAST_LF,
    DONE
};

static int hex(unsigned char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* The size line is complete. */
static int chunk_starts(hr_chunked *d)
{
    uint64_t fair = d->left > HR_CHUNK_EXCESS_MAX ? HR_CHUNK_EXCESS_MAX * 2 : 16 + 2 * d->left;
    uint64_t excess = (uint64_t)d->excess + d->line;
    excess = excess > fair ? excess - fair : 0;
    if (excess > HR_CHUNK_EXCESS_MAX)
        return HR_BAD_CHUNK;
    d->excess = (uint32_t)excess;
    d->line = 0;
    d->state = d->left ? DATA : TRAILER_FIRST;
    return HR_OK;
}

int hr_chunked_next(hr_chunked *d, const char **pp, const char *e, const hr_http1_limits *limits,
                    hr_span *data)
{
    const char *p = *pp;
    int rc = HR_NEED_MORE, digit;

    while (d->state != DONE) {
        unsigned char c;
        if (p == e)
            goto out;
        c = (unsigned char)*p;
        if (d->state == DATA) {
            size_t n = (size_t)(e - p);
            if (n >= d->left) {
                n = (size_t)d->left;
                d->state = DATA_CR;
            }
            d->left -= n;
            data->p = p;
            data->n = n;
            *pp = p + n;
            return HR_CHUNK_DATA;
        }
        p++;
        if (d->state <= SIZE_LF) {
            if (++d->line > HR_CHUNK_LINE_MAX)
                goto bad;
        } else if (d->state >= TRAILER_FIRST && ++d->line > limits->max_head) {
            rc = HR_HEAD_TOO_LARGE;
            goto out;
        }
        switch (d->state) {
        case SIZE_FIRST:
        case SIZE:
            digit = hex(c);
            if (digit >= 0) {
                if (d->left >> 59)
                    goto bad;
                d->left = d->left << 4 | (uint64_t)digit;
                d->state = SIZE;
                break;
            }
            if (d->state == SIZE_FIRST)
                goto bad;
            goto line_goes_on;
        case EXT_NAME:
            if (HR_IS(c, HR_C_TOKEN))
                break;
            if (c == '=') {
                d->state = EXT_VALUE_FIRST;
                break;
            }
            goto line_goes_on;
        case EXT_VALUE:
            if (HR_IS(c, HR_C_TOKEN))
                break;
            goto line_goes_on;
        case EXT_END:
        line_goes_on:
            if (c == ';')
                d->state = EXT_FIRST;
            else if (c == '\r')
                d->state = SIZE_LF;
            else
                goto bad;
            break;
        case EXT_FIRST:
            if (!HR_IS(c, HR_C_TOKEN))
                goto bad;
            d->state = EXT_NAME;
            break;
        case EXT_VALUE_FIRST:
            if (c == '"')
                d->state = EXT_QUOTED;
            else if (HR_IS(c, HR_C_TOKEN))
                d->state = EXT_VALUE;
            else
                goto bad;
            break;
        case EXT_QUOTED:
            if (c == '"')
                d->state = EXT_END;
            else if (c == '\\')
                d->state = EXT_ESCAPED;
            else if (!HR_IS(c, HR_C_VALUE))
                goto bad;
            break;
        case EXT_ESCAPED:
            if (!HR_IS(c, HR_C_VALUE))
                goto bad;
            d->state = EXT_QUOTED;
            break;
        case SIZE_LF:
            if (c != '\n' || chunk_starts(d) != HR_OK)
                goto bad;
            break;
        case DATA_CR:
            if (c != '\r')
                goto bad;
            d->state = DATA_LF;
            break;
        case DATA_LF:
            if (c != '\n')
                goto bad;
            d->state = SIZE_FIRST;
            break;
        case TRAILER_FIRST:
            if (c == '\r') {
                d->state = LAST_LF;
                break;
            }
            if (++d->trailers > limits->max_count) {
                rc = HR_HEAD_TOO_LARGE;
                goto out;
            }
            if (!HR_IS(c, HR_C_TOKEN))
                goto bad;
            d->state = TRAILER_NAME;
            break;
        case TRAILER_NAME:
            if (c == ':')
                d->state = TRAILER_VALUE;
            else if (!HR_IS(c, HR_C_TOKEN))
                goto bad;
            break;
        case TRAILER_VALUE:
            if (c == '\r')
                d->state = TRAILER_LF;
            else if (!HR_IS(c, HR_C_VALUE))
                goto bad;
            break;
        case TRAILER_LF:
            if (c != '\n')
                goto bad;
            d->state = TRAILER_FIRST;
            break;
        default: /* LAST_LF */
            if (c != '\n')
                goto bad;
            d->state = DONE;
            break;
        }
    }
    rc = HR_OK;
    goto out;
bad:
    rc = HR_BAD_CHUNK;
out:
    *pp = p;
    return rc;
}
