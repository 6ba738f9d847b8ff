/* Byte classes of RFC 9110 and RFC 3986, and the choice of vector code, for the files that read HTTP. */
#ifndef HR_HTTP_CHARS_H
#define HR_HTTP_CHARS_H

#if !defined(HR_NO_SIMD) && defined(__SSE2__)
#include <emmintrin.h>
#define HR_SSE2 1
#else
#define HR_SSE2 0
#endif

enum {
    HR_C_TOKEN = 1,  /* tchar */
    HR_C_TARGET = 2, /* 0x21..0x7e without '#': no fragment is ever sent */
    HR_C_HOST = 4,   /* unreserved, sub-delims without ',', "%:[]" */
    HR_C_VALUE = 8,  /* field content: HTAB, SP, VCHAR, obs-text */
    HR_C_LINE = 16   /* what a request line may hold: 0x20..0x7e */
};

extern const unsigned char hr_http_class[256];

#define HR_IS(c, cls) (hr_http_class[(unsigned char)(c)] & (cls))

#endif
