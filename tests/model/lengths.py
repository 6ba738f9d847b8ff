"""What the framer by Content-Length must give, from the whole stream at once."""

import re

TOO_LONG = object()

FIELD = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*(.*?)[ \t]*", re.S)
CHARSET = re.compile(rb";\s*charset\s*=\s*\"?([^;\"]*)\"?", re.I)


class Broken(Exception):
    pass


def messages(stream: bytes, limit: int, header: int, count: int) -> list:
    """The bodies of `stream`; `TOO_LONG` in place of one over `limit`, and at last a text where it cannot go on."""
    found: list = []
    at = 0
    try:
        while at < len(stream):
            length, at = head(stream, at, header, count)
            if length > limit:
                found.append(TOO_LONG)
            if at + length > len(stream):
                raise Broken("the stream ended inside of a message")
            if length <= limit:
                found.append(stream[at : at + length])
            at += length
    except Broken as exc:
        found.append(str(exc))
    return found


def head(stream: bytes, at: int, header: int, count: int) -> tuple[int, int]:
    start, length, fields = at, None, 0
    while True:
        if at == len(stream):
            raise Broken("the stream ended inside of a message")
        end = stream.find(b"\n", at) + 1
        if (end or len(stream) + 1) - start > header:
            raise Broken(f"a header longer than {header} bytes")
        if not end:
            raise Broken("the stream ended inside of a message")
        line, at = stream[at:end], end
        if not line.endswith(b"\r\n"):
            raise Broken("a header line does not end in CR LF")
        if line == b"\r\n":
            if length is None:
                raise Broken("a header without Content-Length")
            return length, at
        fields += 1
        if fields > count:
            raise Broken(f"a header of more than {count} fields")
        match = FIELD.fullmatch(line[:-2])
        if match is None:
            raise Broken("a header line is no field")
        name, value = match[1].lower(), match[2]
        if name == b"content-length":
            if length is not None:
                raise Broken("Content-Length occurs twice")
            if not re.fullmatch(rb"[0-9]{1,18}", value):
                raise Broken("Content-Length is no length")
            length = int(value)
        elif re.search(rb"[\x00-\x08\x0a-\x1f\x7f]", value):
            raise Broken("a control character in a header")
        elif name == b"content-type":
            charset = CHARSET.search(value)
            if charset is not None and charset[1].strip().lower() not in (b"utf-8", b"utf8"):
                raise Broken("the messages are not in UTF-8")
