# Steps of a plan as the bytes that go out; included by _http_load.pyx.

cdef Shot make_shot(object step, object target, bytes host, bint fixed_id):
    cdef Shot shot = Shot.__new__(Shot)
    shot.answer = ANSWERS[step.answer]
    shot.expects = step.expects
    shot.member = step.member
    shot.opens = step.opens_session
    shot.hold = <int64_t>(step.hold_s * 1e9) if step.hold_s is not None else 0
    shot.method = step.method
    shot.is_get = shot.answer == A_LISTEN and not step.before
    shot.id_at = shot.token_at = -1
    bodiless = shot.is_get or shot.answer == A_ENDED
    verb = b"GET " if shot.is_get else b"DELETE " if shot.answer == A_ENDED else b"POST "
    fields = {"host": b"Host: " + host + b"\r\n",
              "user-agent": header_line("User-Agent", f"headrace-bench/{__version__}"),
              "accept": b"Accept: text/event-stream\r\n" if shot.is_get
                        else b"Accept: application/json, text/event-stream\r\n"}
    if not bodiless:
        fields["content-type"] = b"Content-Type: application/json\r\n"
    extra = []
    for name, value in (*step.headers, *target.headers):
        if name.lower() in ("content-length", "transfer-encoding", "connection", "mcp-session-id"):
            raise ValueError(f"header {name} is set by the load generator")
        if name.lower() in fields:
            fields[name.lower()] = header_line(name, value)
        else:
            extra.append(header_line(name, value))
    path = target.path.encode("ascii")
    if not path or any(c <= 32 or c >= 127 for c in path):
        raise ValueError(f"not a request target: {target.path!r}")
    shot.head = verb + path + b" HTTP/1.1\r\n" + b"".join(fields.values()) + b"".join(extra)
    if bodiless:
        shot.tail = b"\r\n"
        return shot
    digits = b"" if shot.answer == A_ACCEPTED else b"7" if fixed_id else b"0" * ID_WIDTH
    body = step.before + digits
    shot.tail = b""
    if step.token and digits:
        shot.token_at = len(body) + len(step.token)
        body += step.token + digits
    body += step.after
    tail = b"Content-Length: %d\r\n\r\n" % len(body)
    if digits and not fixed_id:
        shot.id_at = len(tail) + len(step.before)
        shot.token_at = shot.token_at + len(tail) if shot.token_at >= 0 else -1
    else:
        shot.token_at = -1
    shot.tail = tail + body
    return shot


@cython.final
cdef class Shot:
    """A step as it goes over the wire."""
