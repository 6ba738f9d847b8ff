# Part of the module _http_exchange: tokens of a message against texts and header values.


cdef inline bint text_is(const hr_token *t, const char *text, size_t n) noexcept:
    return t.type == HR_T_STRING and not t.escaped and t.n == n + 2 and memcmp(t.p + 1, text, n) == 0


cdef bint mirrors(const hr_head *h, int which, const hr_token *t, bint plain) noexcept:
    """The header is there once and is plainly the string `t`: no escapes, no encoding, printable ASCII
    (which the caller knows already when `plain`)."""
    cdef const hr_span *s = &h.known[which]
    cdef size_t i
    if (
        not h.seen >> which & 1 or h.duplicate >> which & 1 or t.type != HR_T_STRING or t.escaped
        or s.n + 2 != t.n or memcmp(s.p, t.p + 1, s.n) != 0
    ):
        return False
    if plain:
        return True
    if s.n >= 9 and memcmp(s.p, b"=?base64?", 9) == 0:
        return False
    for i in range(s.n):
        if s.p[i] < 0x20 or s.p[i] > 0x7E:
            return False
    return True
