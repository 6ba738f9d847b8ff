/* One pass over a JSON-RPC message: what kind it is, and where the parts are that routing needs.
 * Requirement ids JR-01..JR-16, SE-09, field faults B72, B107, B108. */
#ifndef HR_ENVELOPE_H
#define HR_ENVELOPE_H

#include "hr_json.h"

typedef enum {
    HR_INVALID = 0,  /* JSON, but not a JSON-RPC message (-32600); reason says why */
    HR_REQUEST,
    HR_NOTIFICATION,
    HR_RESULT,       /* response with result */
    HR_ERROR,        /* response with error */
    HR_BATCH         /* a JSON array: the caller decides by revision (JR-20) */
} hr_kind;

enum {
    HR_SCAN_LOOSE = 1,     /* params.arguments and result are skipped by structure only */
    HR_SCAN_ANY_RESULT = 2 /* a result may be any JSON value, as in bare JSON-RPC 2.0 */
};

typedef struct {
    uint8_t kind;      /* hr_kind */
    uint8_t id_usable; /* id is a string or an integer: it may be echoed, also after an error */
    uint8_t id_small;  /* id is an integer within 18 digits (and not -0): id_int holds it */
    uint8_t resumed;   /* params has inputResponses or requestState (MX-32): it is worth a look */
    uint8_t tasked;    /* params has task (TK-02) */
    int64_t id_int;
    const char *reason; /* a literal, when kind is HR_INVALID */
    size_t fault;       /* the offset at which reading stopped, when the text is not JSON */

    hr_token id, method, params, result, error;

    /* members of params (when it is an object) */
    hr_token name, uri, arguments, cursor, meta;
    hr_token request_id;     /* requestId, of notifications/cancelled */
    hr_token note_token;     /* progressToken directly in params, of notifications/progress */
    hr_token task_id;        /* taskId */

    /* members of params._meta (when it is an object) */
    hr_token progress_token;   /* progressToken */
    hr_token protocol_version; /* io.modelcontextprotocol/protocolVersion */
    hr_token client_capabilities;
    hr_token client_info;
    hr_token log_level;
    hr_token subscription_id;
} hr_envelope;

/* Scans [p, p + n), one whole message without its line end.
 * HR_OK: out->kind is set. HR_BAD_JSON, HR_BAD_UTF8, HR_TOO_DEEP: answer -32700; out->id is set
 * (and id_usable) when a usable id came before the fault, out->fault says where reading stopped.
 *
 * Duplicate members among those listed above, and among jsonrpc/id/method/params/result/error,
 * make the message HR_INVALID: two readers could disagree about them. A message with two ids has
 * none: out->id is absent. A key written with escapes counts as the plain key. Other members are
 * ignored (JR-16). */
int hr_envelope_scan(const char *p, size_t n, uint32_t max_depth, uint32_t flags, hr_envelope *out);

/* The params._meta that was read last. From revision 2026-07-28 on every request of a client carries the same one: a
 * value that begins with the same bytes is the same value, as an object says itself where it ends. Zeroed at first;
 * one without `progressToken`, within HR_META_MEMO bytes, is remembered once it was read without a fault. */
enum { HR_META_MEMO = 1024 };
typedef struct {
    uint32_t n;         /* bytes of text, 0: nothing is remembered */
    uint32_t max_depth; /* under which it was read */
    hr_token members[5]; /* protocol_version and the four behind it in hr_envelope, pointing into text */
    char text[HR_META_MEMO];
} hr_meta_memo;

/* The same as hr_envelope_scan, word for word; `memo` (may be NULL) belongs to a connection. */
int hr_envelope_scan_again(const char *p, size_t n, uint32_t max_depth, uint32_t flags, hr_meta_memo *memo,
                           hr_envelope *out);

/* Moves all tokens of a scan of the text at `from` to a copy of that text at `to`. */
void hr_envelope_rebase(hr_envelope *env, const char *from, const char *to);

#endif
