# Part of the module _mux: JSON-RPC frames as bytes, and tokens of frames as values.


class _WireError(msgspec.Struct):
    code: int
    message: str = ""
    data: object = None


class _Progress(msgspec.Struct):
    progress: int | float
    total: int | float | None = None
    message: str | None = None


cdef object encode_into = msgspec.json.Encoder().encode_into
cdef object encode = msgspec.json.Encoder().encode
cdef object decode_any = msgspec.json.Decoder().decode
cdef object decode_error = msgspec.json.Decoder(_WireError).decode
cdef object decode_progress = msgspec.json.Decoder(_Progress).decode

cdef bytes CANCELLED_METHOD = b"notifications/cancelled"
cdef bytes PROGRESS_METHOD = b"notifications/progress"


cdef inline bint token_is(const hr_token *t, bytes text):
    # t is a plain string token equal to `text`.
    return (
        t.type == HR_T_STRING and not t.escaped and <Py_ssize_t>t.n == PyBytes_GET_SIZE(text) + 2
        and memcmp(t.p + 1, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)) == 0
    )


cdef int put_error(Outbuf out, bytes id, object error) except -1:
    """An error response; without `id` the member is left out (JR-13)."""
    cdef object data = b""
    if error.data is not None:
        try:
            data = encode(error.data)
        except Exception:
            data = b""
    out.put(b'{"jsonrpc":"2.0",', 17)
    if id is not None:
        out.put(b'"id":', 5)
        out.put_bytes(id)
        out.put(b',', 1)
    out.put(b'"error":{"code":', 16)
    out.put_int(error.code)
    out.put(b',"message":"', 12)
    try:
        out.put_text(error.message)
    except UnicodeEncodeError:
        out.put_text(error.message.encode("utf-8", "replace").decode())
    out.put(b'"', 1)
    if data:
        out.put(b',"data":', 8)
        out.put_bytes(data)
    return out.put(b'}}', 2)


cdef int put_request(Outbuf out, long long id, bytes method, bytes params) except -1:
    out.put(b'{"jsonrpc":"2.0","id":', 22)
    out.put_int(id)
    out.put(b',"method":"', 11)
    out.put_bytes(method)
    if params is None:
        return out.put(b'"}', 2)
    out.put(b'","params":', 11)
    out.put_bytes(params)
    return out.put(b'}', 1)


cdef long long token_int(const hr_token *t):
    # A progress token of ours is one of our ids: a short decimal. Anything else matches nothing.
    cdef size_t i
    cdef long long v = 0
    if t.n > 18:
        return -1
    for i in range(t.n):
        if t.p[i] < c'0' or t.p[i] > c'9':
            return -1
        v = v * 10 + (t.p[i] - c'0')
    return v


cdef object read_error(const hr_token *error):
    try:
        wire = decode_error(token_bytes(error))
    except Exception:
        return RemoteProtocolError("an error answer without a valid code and message")
    return RpcError(wire.code, wire.message, wire.data)
