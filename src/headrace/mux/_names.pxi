# Part of the module _mux: the two notifications that correlate, where they are not those of MCP.
#
# None of this is on the way of a message of MCP: a mux without names of its own tests one pointer.


cdef class Words:
    """What a mux needs of headrace.mux.names.Names, prepared."""

    def __init__(self, names):
        self.names = names
        if names.cancel is not None:
            self.cancel = names.cancel.encode()
            self.cancelling = b'{"jsonrpc":"2.0","method":%b,"params":{%b:' % (
                encode(names.cancel), encode(names.cancel_id))
        self.cancel_id = names.cancel_id
        self.cancel_code = names.cancel_code
        if names.progress is not None:
            self.progress = names.progress.encode()
        self.token = names.progress_token

    cdef int take(self, Mux mux, const char *p, Py_ssize_t n, const hr_envelope *env, Sink sink) except -1:
        """One notification of the peer."""
        if not self.handle(mux, env) or mux.tees:
            mux.gate.notify(envelope_from(p, n, env), sink)
        return sink.accepted()

    cdef bint handle(self, Mux mux, const hr_envelope *env) except -1:
        """Handles the notification if it is one of the two. False: it is any other, or names nothing here."""
        cdef object raw, found
        if self.cancel is not None and token_is(&env.method, self.cancel):
            raw = member_of(env, self.cancel_id)
            # Malformed or unknown ids are ignored silently, as with MCP.
            return raw is None or give_up(mux, mux.key_of(raw), self.cancel_code)
        if self.progress is not None and token_is(&env.method, self.progress):
            raw = member_of(env, self.token)
            if raw is None or not mux.pending:
                return False
            token = decode_any(raw)
            found = mux.pending.get(key_of_text(token) if type(token) is str else token)
            if found is None:
                return False             # such as a token that stands in params of its own
            (<PendingCall>found).progressed(decode_any(token_bytes(&env.params)))
            return True
        return False


cdef bytes member_of(const hr_envelope *env, str name):
    """The raw id that a member of params is, or None."""
    cdef object raw
    if env.params.type != HR_T_OBJECT:
        return None
    try:
        raw = decode_members(token_bytes(&env.params)).get(name)
    except Exception:
        return None                      # an integer of too many digits elsewhere, say
    if raw is None:
        return None
    raw = bytes(raw)
    return raw if raw[:1] == b'"' or raw.lstrip(b"-").isdigit() else None


cdef object cancelled(object code):
    return RpcError(code, "the request was cancelled")


cdef bint give_up(Mux mux, bytes key, object code) except -1:
    """The peer cancels the request of this id. With a `code` it is answered with that error, else not at
    all. False: there is no such request."""
    cdef Exchange ex = mux.running(key)
    cdef object found
    cdef Sink sink
    if ex is not None:
        if ex.handler.cancellable:
            ex.give_up(code)
        return True
    found = mux.parked.pop(key, None)
    if found is None:
        return False
    mux.parked_bytes -= PyBytes_GET_SIZE(<bytes>(<tuple>found)[0])
    sink = <Sink>(<tuple>found)[1]
    if code is None or sink.closed:
        sink.abandoned(None)
    else:
        sink.open_response(None, code_of(cancelled(code)), 0)
        sink.out.put_bytes(error_frame(key, cancelled(code), mux.runtime))
        sink.close_response(None)
    mux.release()
    return True
