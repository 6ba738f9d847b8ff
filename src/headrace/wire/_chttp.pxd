# The declarations of csrc/hr_http1.h and csrc/hr_sse.h. The rules of use stand in those headers.
from libc.stdint cimport int64_t, uint8_t, uint16_t, uint32_t, uint64_t

from headrace.wire._cjson cimport hr_span, HR_OK, HR_NEED_MORE

cdef extern from "hr_base.h" nogil:
    enum:
        HR_BAD_HEAD
        HR_BAD_FRAMING
        HR_HEAD_TOO_LARGE
        HR_BAD_VERSION
        HR_BAD_CODING
        HR_BAD_CHUNK
        HR_TARGET_TOO_LONG

cdef extern from "hr_http1.h" nogil:
    enum:
        HR_M_OTHER
        HR_M_GET
        HR_M_POST
        HR_M_DELETE
        HR_M_OPTIONS
        HR_M_HEAD
        HR_M_PUT
        HR_M_PATCH
    enum:
        HR_F_HAS_LENGTH
        HR_F_CHUNKED
        HR_F_CLOSE
        HR_F_KEEP_ALIVE
        HR_F_PERSIST
        HR_F_EXPECT_100
        HR_F_EXPECT_OTHER
        HR_F_UPGRADE
        HR_F_TE
        HR_F_ABSOLUTE
        HR_F_MCP_PARAM
    enum:
        HR_H_HOST
        HR_H_ORIGIN
        HR_H_ACCEPT
        HR_H_CONTENT_TYPE
        HR_H_CONTENT_ENCODING
        HR_H_AUTHORIZATION
        HR_H_LAST_EVENT_ID
        HR_H_MCP_SESSION_ID
        HR_H_MCP_PROTOCOL_VERSION
        HR_H_MCP_METHOD
        HR_H_MCP_NAME
        HR_H_ACR_METHOD
        HR_H_ACR_HEADERS
        HR_H_LOCATION
        HR_H_WWW_AUTHENTICATE
        HR_H_RETRY_AFTER
        HR_H_COUNT
    enum:
        HR_BODY_NONE
        HR_BODY_LENGTH
        HR_BODY_CHUNKED
        HR_BODY_UNTIL_CLOSE
    enum:
        HR_CHUNK_DATA
        HR_CHUNK_LINE_MAX
        HR_CHUNK_EXCESS_MAX
    ctypedef struct hr_http1_limits:
        uint32_t max_head
        uint32_t max_count
        uint32_t max_target
    ctypedef struct hr_head:
        size_t head_len
        uint64_t content_length
        uint32_t flags
        uint32_t seen
        uint32_t duplicate
        uint32_t count
        uint16_t status
        uint8_t method
        uint8_t minor
        hr_span verb
        hr_span target
        hr_span reason
        hr_span fields
        hr_span *known      # [HR_H_COUNT]
    ctypedef struct hr_chunked:
        uint64_t left
    void hr_http1_reset(hr_head *h)
    int hr_http1_request(const char *p, size_t n, const hr_http1_limits *limits, hr_head *h)
    int hr_http1_response(const char *p, size_t n, const hr_http1_limits *limits, hr_head *h)
    int hr_http1_next_header(const char **p, const char *e, hr_span *name, hr_span *value)
    bint hr_http1_ieq(const char *p, size_t n, const char *lower, size_t lower_n)
    int hr_http1_request_body(const hr_head *h)
    int hr_http1_response_body(const hr_head *h, bint answers_head)
    int hr_chunked_next(hr_chunked *d, const char **p, const char *e, const hr_http1_limits *limits,
                        hr_span *data)

cdef extern from "hr_sse.h" nogil:
    enum:
        HR_SSE_GROW
        HR_SSE_TOO_LARGE
        HR_SSE_NAME_MAX
        HR_SSE_ID_MAX
    enum:
        HR_SSE_MESSAGE
        HR_SSE_HAS_ID
        HR_SSE_IN_PLACE
    ctypedef struct hr_sse_event:
        hr_span data
        hr_span event
        hr_span id
        uint32_t flags
    ctypedef struct hr_sse:
        char *buf
        size_t cap
        size_t need
        size_t max_event
        int64_t retry_ms
        uint8_t has_retry
        uint16_t id_n
        char *id            # [HR_SSE_ID_MAX], id_n bytes used
        size_t used         # inner state, read only
        uint32_t lines
        const char *ref
    int hr_sse_next(hr_sse *s, const char **p, const char *e, hr_sse_event *out)
    void hr_sse_restart(hr_sse *s, bint keep_id)
    size_t hr_sse_escape_growth(const char *p, size_t n)
    void hr_sse_escape(char *p, size_t n, size_t growth)
    size_t hr_sse_flatten(char *p, size_t n)
