"""What the line framer must give, from the whole stream at once."""

TOO_LONG = object()


def lines(stream: bytes, limit: int) -> list:
    """The lines of `stream` up to its end; `TOO_LONG` in place of one over `limit` bytes."""
    if stream.startswith(b"\xef\xbb\xbf"):
        stream = stream[3:]
    found = []
    for line in stream.split(b"\n"):
        if line.endswith(b"\r"):
            line = line[:-1]
        if len(line) > limit:
            found.append(TOO_LONG)
        elif line.strip(b" \t\r"):
            found.append(line)
    return found


def complete_lines(stream: bytes, limit: int) -> list:
    """The same before the end of the stream: a line not ended yet is there only when it is too long."""
    if b"\xef\xbb\xbf".startswith(stream):
        return []  # a byte order mark may be on its way
    head, ended, rest = stream.rpartition(b"\n")
    found = lines(head + ended, limit)
    if not ended and rest.startswith(b"\xef\xbb\xbf"):
        rest = rest[3:]
    if len(rest) - rest.endswith(b"\r") > limit:
        found.append(TOO_LONG)
    return found
