"""HTTP/1.1 heads and chunked bodies in plain Python: the oracle of csrc/hr_http1 and hr_chunked.

Written from RFC 9112 and the header files' rules for whole inputs; slow and simple. Results are
``("more",)``, ``("error", CODE)`` or ``("ok", value)``.
"""

import re
from dataclasses import dataclass, field

TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
VALUE = re.compile(rb"[\t\x20-\x7e\x80-\xff]*")
LINE = re.compile(rb"[\x20-\x7e]*")
FIELD = re.compile(rb"(" + TOKEN + rb"):[ \t]*(.*?)[ \t]*", re.DOTALL)
TARGET = rb"[\x21\x22\x24-\x7e]+"
REQUEST = re.compile(rb"(" + TOKEN + rb") (" + TARGET + rb") (.{8})", re.DOTALL)
STATUS = re.compile(rb"(.{8}) ([1-9][0-9]{2})(?: (.*))?", re.DOTALL)
HOST = re.compile(rb"[A-Za-z0-9\-._~!$&'()*+;=%:\[\]]*")
ABSOLUTE = re.compile(rb"[A-Za-z][A-Za-z0-9+\-.]*://.+")
METHODS = {b"GET", b"POST", b"DELETE", b"OPTIONS", b"HEAD", b"PUT", b"PATCH"}
KNOWN = {
    b"host", b"origin", b"accept", b"content-type", b"content-encoding", b"authorization", b"last-event-id",
    b"mcp-session-id", b"mcp-protocol-version", b"mcp-method", b"mcp-name",
    b"access-control-request-method", b"access-control-request-headers",
    b"location", b"www-authenticate", b"retry-after",
}  # fmt: skip
# What RemoteProtocolError says for each code: http_status and text.
ANSWERS = {
    "HR_BAD_HEAD": (400, "malformed HTTP head"),
    "HR_BAD_FRAMING": (400, "ambiguous message length"),
    "HR_HEAD_TOO_LARGE": (431, "HTTP head over the limit"),
    "HR_BAD_VERSION": (505, "neither HTTP/1.0 nor HTTP/1.1"),
    "HR_BAD_CODING": (501, "unknown transfer coding"),
    "HR_BAD_CHUNK": (400, "malformed chunked coding"),
    "HR_TARGET_TOO_LONG": (414, "request target over the limit"),
}
EXTRA = 64
CHUNK_LINE = 1024
EXCESS = 16 * 1024


class Bad(Exception):
    """args[0] is the HR_ code."""


class More(Exception):
    pass


@dataclass
class Head:
    method: bytes | None = None
    target: bytes | None = None
    status: int = 0
    reason: bytes | None = None
    minor: int = 1
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    length: int | None = None
    known: dict[bytes, bytes] = field(default_factory=dict)
    repeated: set[bytes] = field(default_factory=set)
    size: int = 0

    @property
    def body(self) -> str:
        if self.method is None and (self.status < 200 or self.status in (204, 304)):
            return "none"
        if "CHUNKED" in self.flags:
            return "chunked"
        if self.length is not None:
            return "length" if self.length else "none"
        return "none" if self.method is not None else "until-close"


def read_line(data: bytes, start: int, allowed: re.Pattern[bytes], window: int | None = None) -> bytes:
    """The line at start without its CRLF; a line is judged no earlier than it is complete."""
    end = len(data) if window is None else min(len(data), start + window)
    stop = allowed.match(data, start, end).end()
    if stop == end or (data[stop : stop + 1] == b"\r" and stop + 1 == end):
        if window is not None and end - start >= window:
            raise Bad("HR_TARGET_TOO_LONG")
        raise More
    if data[stop : stop + 2] != b"\r\n":
        raise Bad("HR_BAD_HEAD")
    return data[start:stop]


def http_version(text: bytes) -> int:
    if not re.fullmatch(rb"HTTP/[0-9]\.[0-9]", text):
        raise Bad("HR_BAD_HEAD")
    if text not in (b"HTTP/1.0", b"HTTP/1.1"):
        raise Bad("HR_BAD_VERSION")
    return text[7] - 48


def request_line(head: Head, line: bytes, max_target: int) -> None:
    m = REQUEST.fullmatch(line)
    if not m:
        raise Bad("HR_BAD_HEAD")
    head.method, head.target = m[1], m[2]
    if ABSOLUTE.fullmatch(head.target):
        head.flags.add("ABSOLUTE")
    elif head.method == b"CONNECT" or not (
        head.target.startswith(b"/") or (head.target == b"*" and head.method == b"OPTIONS")
    ):
        raise Bad("HR_BAD_HEAD")
    if head.method == b"CONNECT":
        raise Bad("HR_BAD_HEAD")
    head.minor = http_version(m[3])
    if len(head.target) > max_target:
        raise Bad("HR_TARGET_TOO_LONG")


def status_line(head: Head, line: bytes) -> None:
    m = STATUS.fullmatch(line)
    if not m:
        raise Bad("HR_BAD_HEAD")
    head.minor = http_version(m[1])
    head.status, head.reason = int(m[2]), m[3] or b""


def apply(head: Head, name: bytes, value: bytes) -> None:
    if name == b"content-length":
        if "CHUNKED" in head.flags or head.length is not None or not re.fullmatch(rb"[0-9]{1,18}", value):
            raise Bad("HR_BAD_FRAMING")
        head.length = int(value)
        head.flags.add("HAS_LENGTH")
    elif name == b"transfer-encoding":
        if "CHUNKED" in head.flags or head.length is not None or not head.minor:
            raise Bad("HR_BAD_FRAMING")
        if value.lower() != b"chunked":
            raise Bad("HR_BAD_CODING")
        head.flags.add("CHUNKED")
    elif name == b"connection":
        options = {o.strip(b" \t").lower() for o in value.split(b",")}
        head.flags |= {f for o, f in ((b"close", "CLOSE"), (b"keep-alive", "KEEP_ALIVE")) if o in options}
    elif name == b"expect":
        if value.lower() != b"100-continue":
            head.flags.add("EXPECT_OTHER")
        elif head.minor:
            head.flags.add("EXPECT_100")
    elif name in (b"upgrade", b"te"):
        head.flags.add(name.decode().upper())
    elif name in KNOWN:
        if name == b"host" and (name in head.known or not HOST.fullmatch(value)):
            raise Bad("HR_BAD_HEAD")
        if name in head.known:
            head.repeated.add(name)
        else:
            head.known[name] = value
    elif name.startswith(b"mcp-param-") and len(name) > 10:
        head.flags.add("MCP_PARAM")


def read_head(data: bytes, request: bool, max_head: int, max_count: int, max_target: int) -> Head:
    whole, data = len(data), data[:max_head]
    head = Head()
    pos = 0
    try:
        if request and data[:1] == b"\r":
            if data == b"\r":
                raise More
            if data[1] != 10:
                raise Bad("HR_BAD_HEAD")
            pos = 2
        if request:
            line = read_line(data, pos, LINE, max_target + EXTRA)
            request_line(head, line, max_target)
        else:
            line = read_line(data, pos, VALUE)
            status_line(head, line)
        pos += len(line) + 2
        while True:
            if data[pos : pos + 1] not in (b"", b"\r") and len(head.headers) >= max_count:
                raise Bad("HR_HEAD_TOO_LARGE")
            line = read_line(data, pos, VALUE)
            pos += len(line) + 2
            if not line:
                break
            m = FIELD.fullmatch(line)
            if not m:
                raise Bad("HR_BAD_HEAD")
            head.headers.append((m[1].lower(), m[2]))
            apply(head, *head.headers[-1])
    except More:
        if whole >= max_head:
            raise Bad("HR_HEAD_TOO_LARGE") from None
        raise
    if request and head.minor and b"host" not in head.known:
        raise Bad("HR_BAD_HEAD")
    if "CLOSE" not in head.flags and (head.minor or "KEEP_ALIVE" in head.flags):
        head.flags.add("PERSIST")
    head.size = pos
    return head


def parse(data: bytes, *, response=False, max_head=32768, max_count=100, max_target=8192) -> tuple:
    try:
        return ("ok", read_head(data, not response, max_head, max_count, max_target))
    except More:
        return ("more",)
    except Bad as bad:
        return ("error", bad.args[0])


EXTENSIONS = re.compile(
    rb"(?:;" + TOKEN + rb"(?:=(?:" + TOKEN + rb'|"(?:[\t\x20\x21\x23-\x5b\x5d-\x7e\x80-\xff]'
    rb'|\\[\t\x20-\x7e\x80-\xff])*"))?)*'
)


def chunked(data: bytes, *, max_head=32768, max_count=100) -> tuple:
    """``("ok", (body, bytes used))``, ``("error", CODE)``, or ``("more", body so far)``.

    Bytes that cannot become valid are an error at once, like in the decoder, as far as a size line
    that is complete; an unfinished line is only ``more`` here.
    """
    body, pos, excess = b"", 0, 0
    while True:
        end = data.find(b"\n", pos)
        if end < 0:
            return ("more", body)
        line = data[pos : end + 1]
        m = re.fullmatch(rb"([0-9A-Fa-f]+)(" + EXTENSIONS.pattern + rb")\r\n", line)
        if len(line) > CHUNK_LINE or not m or int(m[1], 16) >= 2**63:
            return ("error", "HR_BAD_CHUNK")
        size, pos = int(m[1], 16), end + 1
        excess = max(0, excess + len(line) - min(16 + 2 * size, 2 * EXCESS))
        if excess > EXCESS:
            return ("error", "HR_BAD_CHUNK")
        if not size:
            break
        body += data[pos : pos + size]
        if len(data) < pos + size + 2:
            if data[pos + size : pos + size + 1] not in (b"", b"\r"):
                return ("error", "HR_BAD_CHUNK")
            return ("more", body)
        if data[pos + size : pos + size + 2] != b"\r\n":
            return ("error", "HR_BAD_CHUNK")
        pos += size + 2
    start, count = pos, 0
    while True:
        end = data.find(b"\n", pos)
        line = data[pos : end + 1] if end >= 0 else data[pos:]
        if line[:1] not in (b"", b"\r"):
            count += 1
        if count > max_count or pos + len(line) - start > max_head:
            return ("error", "HR_HEAD_TOO_LARGE")
        if end < 0:
            return ("more", body)
        pos = end + 1
        if line == b"\r\n":
            return ("ok", (body, pos))
        if not line.endswith(b"\r\n") or not re.fullmatch(TOKEN + rb":" + VALUE.pattern, line[:-2]):
            return ("error", "HR_BAD_CHUNK")
