# Part of the module _mux: JSON-RPC frames as bytes, and tokens of frames as values.


class _WireError(msgspec.Struct):
    code: int
    message: str = ""
    data: object = None


class _Progress(msgspec.Struct):
    progress: int | float
    total: int | float | None = None
    message: str | None = None


cdef object encode = msgspec.json.Encoder().encode
cdef object decode_any = msgspec.json.Decoder().decode
cdef object decode_error = msgspec.json.Decoder(_WireError).decode
cdef object decode_progress = msgspec.json.Decoder(_Progress).decode
cdef object decode_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

cdef bytes CANCELLED_METHOD = b"notifications/cancelled"
cdef bytes PROGRESS_METHOD = b"notifications/progress"
cdef bytes PROGRESS_OPEN = b'{"jsonrpc":"2.0","method":"notifications/progress","params":'


cdef bint token_is(const hr_token *t, bytes text) except -1:
    """Whether t is a string token that means `text` (ASCII). Some peers write "tools\\/call"."""
    if t.type != HR_T_STRING:
        return False
    if t.escaped:
        return token_str(t) == text.decode("ascii")
    return (
        <Py_ssize_t>t.n == PyBytes_GET_SIZE(text) + 2
        and memcmp(t.p + 1, PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)) == 0
    )


cdef long long token_int(const hr_token *t) noexcept:
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


cdef object read_progress(const hr_token *params):
    """The params of a progress notification, or None when they are none."""
    try:
        return decode_progress(token_bytes(params))
    except Exception:
        return None


cdef str text_of(object value):
    """str(value) whatever it is: encodable, and without an exception."""
    cdef str text
    try:
        text = str(value)
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    except Exception:
        return f"({type(value).__name__})"
    return text


cdef object fresh(object exc):
    """Another exception like `exc`: one that is raised many times would pile up tracebacks."""
    try:
        return copy.copy(exc)
    except Exception:
        return exc


cdef bytes one_line(bytes text):
    """JSON text without newlines: bytes that others wrote may be indented, a line stream allows none
    inside of a message (ST-01)."""
    if memchr(PyBytes_AS_STRING(text), c'\n', PyBytes_GET_SIZE(text)) is NULL:
        return text
    return msgspec.json.format(text, indent=-1)


cdef int code_of(object error) except? -1:
    """The error's code for a sink, which tells only a few of them from the others."""
    code = error.code
    return code if isinstance(code, int) and -40000 < code < 40000 else INTERNAL_ERROR


cdef int status_of(object error) except? -1:
    """The HTTP status that the error asks for, 0 for none."""
    status = error.http_status
    return status if isinstance(status, int) and 100 <= status <= 599 else 0


cdef bytes error_frame(bytes id, object error, Runtime runtime):
    """An error response; without `id` the member is left out (JR-13). Always gives a valid frame."""
    cdef object code = error.code
    cdef bytes data = b""
    if not isinstance(code, int) or not -0x8000000000000000 <= code < 0x8000000000000000:
        runtime.fault(f"an error code must be a 64-bit integer, not {type(code).__name__}", error)
        code = INTERNAL_ERROR
    if error.data is not None:
        try:
            data = b',"data":' + one_line(encode(error.data))
        except Exception as exc:
            runtime.fault("the data of an error has no JSON form and was left out", exc)
    return b'{"jsonrpc":"2.0",%b"error":{"code":%d,"message":%b%b}}' % (
        b"" if id is None else b'"id":' + id + b",", int(code), encode(text_of(error.message)), data)


cdef inline int put_id(Outbuf out, PendingCall call) except -1:
    return out.put_int(call.id) if call.token is None else out.put_bytes(call.token)


cdef int put_request(Outbuf out, PendingCall call, bytes method, bytes params) except -1:
    out.put(b'{"jsonrpc":"2.0","id":', 22)
    put_id(out, call)
    out.put(b',"method":"', 11)
    out.put_bytes(method)
    if params is None:
        return out.put(b'"}', 2)
    out.put(b'","params":', 11)
    out.put_bytes(params)
    return out.put(b'}', 1)


cdef int put_notification(Outbuf out, bytes method, bytes params) except -1:
    out.put(b'{"jsonrpc":"2.0","method":"', 27)
    out.put_bytes(method)
    if params is None:
        return out.put(b'"}', 2)
    out.put(b'","params":', 11)
    out.put_bytes(params)
    return out.put(b'}', 1)
