# JSON-RPC envelopes for compiled code: an owned copy of a scanned message, and its tokens as objects.
from headrace.wire._cjson cimport hr_envelope, hr_token

cdef class Envelope:
    cdef readonly bytes data     # the whole message
    cdef hr_envelope env         # its tokens point into `data`

# Copies the frame [p, p + n) once; `env` is the result of scanning it.
cdef Envelope envelope_from(const char *p, Py_ssize_t n, const hr_envelope *env)
# The text of a string token, escapes resolved; None when it is absent or not a string.
# UnicodeDecodeError only for a string inside text that was scanned loosely.
cdef str token_str(const hr_token *t)
# The raw text of a token, quotes included; None when it is absent.
cdef bytes token_bytes(const hr_token *t)
# The raw elements of a JSON array (HR_BATCH) that was scanned without a fault.
# `most` bounds how many are made.
cdef list batch_items(const char *p, Py_ssize_t n, Py_ssize_t most=*)
# One of them, scanned.
cdef Envelope envelope_of(bytes item, unsigned int max_depth, unsigned int flags=*)
