# The declarations of csrc/hr_json.h and csrc/hr_envelope.h for all modules that read JSON spans.
from libc.stdint cimport int64_t, uint8_t, uint32_t

cdef extern from "hr_base.h" nogil:
    ctypedef struct hr_span:
        const char *p
        size_t n
    enum:
        HR_OK
        HR_NEED_MORE
        HR_BAD_JSON
        HR_BAD_UTF8
        HR_TOO_DEEP

cdef extern from "hr_json.h" nogil:
    enum:
        HR_T_NONE
        HR_T_NULL
        HR_T_FALSE
        HR_T_TRUE
        HR_T_INT
        HR_T_NUMBER
        HR_T_STRING
        HR_T_ARRAY
        HR_T_OBJECT
    ctypedef struct hr_token:
        const char *p
        size_t n
        uint8_t type
        uint8_t escaped
    const char *hr_json_ws(const char *p, const char *e)
    int hr_json_value(const char *p, const char *e, uint32_t depth, uint32_t max_depth, hr_token *out)
    int hr_json_skip(const char *p, const char *e, uint32_t depth, uint32_t max_depth, hr_token *out)
    int hr_json_check(const char *p, size_t n, uint32_t max_depth)
    size_t hr_json_escape(char *dst, const char *src, size_t n)
    size_t hr_json_unescape(char *dst, const char *src, size_t n)

cdef extern from "hr_envelope.h" nogil:
    enum:
        HR_INVALID
        HR_REQUEST
        HR_NOTIFICATION
        HR_RESULT
        HR_ERROR
        HR_BATCH
        HR_SCAN_LOOSE
        HR_SCAN_ANY_RESULT
    ctypedef struct hr_envelope:
        uint8_t kind
        uint8_t id_usable
        uint8_t id_small
        uint8_t resumed
        uint8_t tasked
        int64_t id_int
        const char *reason
        size_t fault
        hr_token id
        hr_token method
        hr_token params
        hr_token result
        hr_token error
        hr_token name
        hr_token uri
        hr_token arguments
        hr_token cursor
        hr_token meta
        hr_token request_id
        hr_token note_token
        hr_token task_id
        hr_token progress_token
        hr_token protocol_version
        hr_token client_capabilities
        hr_token client_info
        hr_token log_level
        hr_token subscription_id
    ctypedef struct hr_meta_memo:
        uint32_t n
    int hr_envelope_scan_again(const char *p, size_t n, uint32_t max_depth, uint32_t flags, hr_meta_memo *memo,
                               hr_envelope *out)
    int hr_envelope_scan(const char *p, size_t n, uint32_t max_depth, uint32_t flags, hr_envelope *out)
    void hr_envelope_rebase(hr_envelope *env, const char *from_, const char *to)
