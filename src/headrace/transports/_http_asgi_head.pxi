# Part of the module _http_asgi: the scope of a request, the header lines of an answer.

cdef Outbuf scratch = Outbuf.__new__(Outbuf)


async def awaited(awaitable):
    """A coroutine of what an application gives instead of one."""
    return await awaitable


cdef bint named(const hr_span *name, const char *lower, size_t n) noexcept:
    return name.n == n and hr_http1_ieq(name.p, name.n, lower, n)


cdef bint wants_websocket(const hr_head *h) except -1:
    cdef const char *p = h.fields.p
    cdef const char *e = p + h.fields.n
    cdef hr_span name, value
    while hr_http1_next_header(&p, e, &name, &value):
        if named(&name, b"upgrade", 7) and b"websocket" in value.p[:value.n].lower():
            return True
    return False


cdef int know_server(AppLink link) except -1:
    """Our own address is the same for all requests of a connection."""
    server = link.transport.get_extra_info("sockname")
    link.knows_server = True
    if isinstance(server, tuple):
        link.server = server[:2]
    else:
        link.server = (server, None) if server and isinstance(server, str) else None
    return 0


cdef dict make_scope(AppLink link, AsgiHost host, bytes target, bytes authority):
    """The scope of the request whose head is `link.head`. `authority`: of an absolute target, or None."""
    cdef hr_head *h = &link.head
    cdef dict scope = host.template.copy()
    cdef const char *mark = <const char *>memchr(PyBytes_AS_STRING(target), c'?', PyBytes_GET_SIZE(target))
    cdef Py_ssize_t at
    cdef bytes raw = target
    cdef list headers
    cdef object whence = link.whence()
    if not link.knows_server:
        know_server(link)
    scope["asgi"] = {"version": "3.0", "spec_version": "2.5"}
    if h.minor == 0:
        scope["http_version"] = "1.0"
    method = METHODS.get(h.method)
    scope["method"] = h.verb.p[:h.verb.n].decode("ascii").upper() if method is None else method
    scope["scheme"] = whence[2]
    if mark is NULL:
        scope["query_string"] = b""
    else:
        at = mark - PyBytes_AS_STRING(target)
        raw = target[:at]
        scope["query_string"] = target[at + 1:]
    if memchr(PyBytes_AS_STRING(raw), c'%', PyBytes_GET_SIZE(raw)) is NULL:
        path = raw.decode("ascii")
    else:
        path = unquote_to_bytes(raw).decode("utf-8", "replace")
    if host.root_path:
        path = host.root_path + path
        raw = host.root_path.encode() + raw
    scope["path"] = path
    scope["raw_path"] = raw
    headers = header_list(h)
    if authority is not None:
        headers = [(b"host", authority), *[pair for pair in headers if pair[0] != b"host"]]
    scope["headers"] = headers
    scope["client"] = None if whence[0] == "unix" else whence[:2]
    scope["server"] = link.server
    scope["state"] = host.state.copy()
    scope["extensions"] = {}
    return scope


cdef bytes bytes_of(object given):
    if isinstance(given, (bytes, bytearray, memoryview)):
        return bytes(given)
    raise LocalProtocolError(f"bytes were expected, not {type(given).__name__}")


cdef long long length_of(bytes value) except -1:
    if not value.isdigit() or len(value) > 18:
        raise LocalProtocolError(f"Content-Length {value!r} is no number of bytes")
    return int(value)


cdef bytes read_fields(AsgiRequest request, object headers):
    """The header lines of an answer, checked. What frames it or belongs to the connection is left out:
    Content-Length stays, where there can be one."""
    cdef Outbuf out = scratch
    cdef bytes name, value
    cdef const unsigned char *p
    cdef Py_ssize_t i, n, m
    cdef hr_span s
    cdef long long length
    if type(headers) is not list:
        headers = list(headers)
    out.n = 0
    for pair in <list>headers:
        first, second = pair
        name = first if type(first) is bytes else bytes_of(first)
        value = second if type(second) is bytes else bytes_of(second)
        n = PyBytes_GET_SIZE(name)
        p = <const unsigned char *>PyBytes_AS_STRING(name)
        for i in range(n):
            if not hr_http_class[p[i]] & HR_C_TOKEN:
                raise LocalProtocolError(f"not a header name: {name!r}")
        if n == 0:
            raise LocalProtocolError("a header needs a name")
        m = PyBytes_GET_SIZE(value)
        p = <const unsigned char *>PyBytes_AS_STRING(value)
        for i in range(m):
            if not hr_http_class[p[i]] & HR_C_VALUE:
                raise LocalProtocolError(f"header {name!r} holds a control character")
        s.p = PyBytes_AS_STRING(name)
        s.n = <size_t>n
        if n == 14 and named(&s, b"content-length", 14):
            length = length_of(value.strip(b" \t"))
            if request.length >= 0 and request.length != length:
                raise LocalProtocolError("two different values of Content-Length")
            if request.length >= 0 or request.status == 204:
                continue
            request.length = length
        elif n == 10 and named(&s, b"connection", 10):
            if b"close" in [token.strip() for token in value.lower().split(b",")]:
                request.close = True
            continue
        elif (
            named(&s, b"transfer-encoding", 17) or named(&s, b"keep-alive", 10) or named(&s, b"proxy-connection", 16)
        ):
            continue
        elif n == 4 and named(&s, b"date", 4):
            request.dated = True
        out.put(PyBytes_AS_STRING(name), n)
        out.put(b": ", 2)
        out.put(PyBytes_AS_STRING(value), m)
        out.put(b"\r\n", 2)
    return out.take()


cdef bint of_disconnect(object exc, int depth=0) except -1:
    """Whether an exception is, or came of, the one that send() raises once the peer is gone."""
    while exc is not None and depth < 16:
        depth += 1
        if isinstance(exc, ConnectionClosed):
            return True
        if isinstance(exc, BaseExceptionGroup) and all(of_disconnect(each, depth) for each in exc.exceptions):
            return True
        exc = exc.__cause__ or exc.__context__
    return False
