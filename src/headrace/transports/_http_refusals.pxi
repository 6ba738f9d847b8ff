# Part of the module _http_admission: what an answer that refuses a request is made of.

cdef int refusal_code(int status):
    """The JSON-RPC code beside a status: 501 and 505 are the client's doing."""
    return INTERNAL_ERROR if status == 500 or status == 503 else INVALID_REQUEST


cdef bytes refusal_fields(object refusal):
    """The header lines of a HttpRefusal. Raises what is wrong with them (LocalProtocolError and others)."""
    cdef list lines = []
    for name, value in refusal.headers:
        name = name.decode("latin-1") if isinstance(name, bytes) else name
        value = value.decode("latin-1") if isinstance(value, bytes) else value
        if name.lower() in ("content-length", "transfer-encoding", "connection", "content-type"):
            raise LocalProtocolError(f"a refusal has no {name} of its own")
        lines.append(header_line(name, value))
    if refusal.body:
        lines.append(header_line("Content-Type", refusal.content_type))
    return b"".join(lines)
