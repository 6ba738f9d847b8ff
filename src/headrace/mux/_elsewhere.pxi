# Part of the module _mux: answers to requests that another process of the same server has sent.
#
# A mux with a `prefix` has colleagues in other processes: the peer may send its answer to any of them. The ids of our
# requests are strings that begin with the name of who asked, so that whoever gets the answer knows where it belongs.


cdef bint answer_elsewhere(Mux mux, const hr_envelope *env, Sink sink) except -1:
    """An answer that matches no call here. False: it is for nobody else either."""
    cdef bytes frame
    if not env.id_usable or env.id.type != HR_T_STRING:
        return False
    if env.kind == HR_RESULT:
        frame = b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (token_bytes(&env.id), token_bytes(&env.result))
    else:
        frame = b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (token_bytes(&env.id), token_bytes(&env.error))
    if not mux.gate.answer_elsewhere(token_str(&env.id), frame, sink):
        return False
    sink.accepted()
    return True
