"""HTTP/1.1 heads, chunked bodies, negotiation: every vector whole, byte by byte, with bytes behind it."""

import pytest
from model import http1 as model
from vectors import load

from headrace.errors import LocalProtocolError, RemoteProtocolError
from headrace.limits import Limits
from headrace.wire import _http1 as http1

HEADS = load("http1")
BODIES = load("http1_chunked")
by_head = pytest.mark.parametrize("vector", HEADS, ids=lambda v: v.name)
by_body = pytest.mark.parametrize("vector", BODIES, ids=lambda v: v.name)

def answer(error):
    return error.http_status, str(error)


def bounds(vector):
    """max_header_bytes, max_header_count, max_target_bytes of a vector."""
    text = vector.get("limits")
    return tuple(map(int, text.split())) if text else (32768, 100, 8192)


def limits_of(vector):
    head, count, target = (*bounds(vector), 8192)[:3]
    return Limits(max_header_bytes=head, max_header_count=count, max_target_bytes=target)


def head_input(vector):
    """The bytes, and whether they are a response."""
    request = vector.get("request")
    return (request, False) if request is not None else (vector.get("response"), True)


def plain(head):
    """A head as the vector files write it."""
    flags = {
        "HAS_LENGTH": head.content_length is not None,
        "CHUNKED": head.chunked,
        "PERSIST": head.keep_alive,
        "EXPECT_100": head.expect_continue,
        "EXPECT_OTHER": head.expect_other,
        "UPGRADE": head.upgrade,
        "ABSOLUTE": head.absolute,
        "MCP_PARAM": head.has_mcp_params,
    }
    return {
        "method": head.method,
        "target": head.target,
        "status": head.status,
        "reason": head.reason,
        "minor": head.minor,
        "length": head.content_length,
        "body": head.body,
        "size": head.size,
        "headers": head.headers,
        "repeated": set(head.repeated),
        "flags": {name for name, on in flags.items() if on},
    }


def expected(vector):
    def text(key):
        value = vector.get(key)
        return None if value is None else value.decode("latin-1")

    length = vector.get("length")
    headers = [tuple(line.split(b":", 1)) for line in vector.all("header")]
    return {
        "method": text("method"),
        "target": text("target"),
        "status": int(vector.get("status") or 0),
        "reason": text("reason"),
        "minor": int(vector.get("minor")),
        "length": None if length is None else int(length),
        "body": text("body"),
        "size": int(vector.get("size")),
        "headers": [(name, value.strip(b" \t")) for name, value in headers],
        "repeated": set((vector.get("repeated") or b"").split()),
        "flags": set((text("flags") or "").split()) - {"CLOSE", "KEEP_ALIVE", "TE"},
    }


def check_head(vector, feed):
    """Feeds pieces and compares what comes out with the vector."""
    _, response = head_input(vector)
    parser = http1.HeadParser(response=response, limits=limits_of(vector))
    error = vector.get("error")
    if error is not None:
        with pytest.raises(RemoteProtocolError) as caught:
            for piece in feed:
                assert parser.feed(piece) is None
        assert answer(caught.value) == model.ANSWERS[error.decode()]
        return None
    head = None
    for piece in feed:
        assert head is None
        head = parser.feed(piece)
    if vector.get("more") is not None:
        assert head is None
        return None
    assert head is not None
    assert plain(head) == expected(vector)
    first = {}
    for name, value in head.headers:
        if name in model.KNOWN:
            first.setdefault(name, value)
    assert head.known == first
    return parser


@by_head
def test_head_whole(vector):
    data, _ = head_input(vector)
    parser = check_head(vector, [data])
    if parser is not None:
        assert parser.trailing == data[int(vector.get("size")) :]


@by_head
def test_head_byte_by_byte(vector):
    data, _ = head_input(vector)
    if vector.get("size"):
        data = data[: int(vector.get("size"))]
    check_head(vector, [data[i : i + 1] for i in range(len(data))])


@pytest.mark.parametrize("vector", [v for v in HEADS if v.get("more") is None], ids=lambda v: v.name)
def test_head_with_trailing_bytes(vector):
    data, _ = head_input(vector)
    parser = check_head(vector, [data + b"GET /next HTTP/1.1\r\n\0\xff"])
    if parser is not None:
        assert parser.trailing.endswith(b"GET /next HTTP/1.1\r\n\0\xff")


@by_head
def test_head_agrees_with_model(vector):
    data, response = head_input(vector)
    head, count, target = bounds(vector)
    got = model.parse(data, response=response, max_head=head, max_count=count, max_target=target)
    if got[0] == "ok":
        want = expected(vector)
        assert got[1].headers == want["headers"]
        assert got[1].size == want["size"]
        assert got[1].body == want["body"]
    elif got[0] == "error":
        assert got[1].encode() == vector.get("error")
    else:
        assert vector.get("more") is not None


def chunked(vector, feed):
    decoder = http1.ChunkedDecoder(limits=limits_of(vector))
    body, sent = b"", 0
    error = vector.get("error")
    if error is not None:
        with pytest.raises(RemoteProtocolError) as caught:
            for piece in feed:
                decoder.feed(piece)
        assert answer(caught.value) == model.ANSWERS[error.decode()]
        return None
    for piece in feed:
        body += decoder.feed(piece)
        sent += len(piece)
    assert decoder.done == (vector.get("more") is None)
    if decoder.done:
        assert body == vector.get("body")
    return decoder


@by_body
def test_b50_chunked_whole(vector):
    decoder = chunked(vector, [vector.get("in")])
    assert decoder is None or decoder.trailing == b""


@by_body
def test_b50_chunked_byte_by_byte(vector):
    data = vector.get("in")
    decoder = chunked(vector, [data[i : i + 1] for i in range(len(data))])
    assert (decoder is None) == (vector.get("error") is not None)


@pytest.mark.parametrize("vector", [v for v in BODIES if v.get("more") is None], ids=lambda v: v.name)
def test_b50_chunked_with_trailing_bytes(vector):
    decoder = chunked(vector, [vector.get("in") + b"POST / HTTP/1.1\r\n", b"Host"])
    assert decoder is None or decoder.trailing == b"POST / HTTP/1.1\r\nHost"


def test_b50_empty_chunked_body_of_nothing_is_not_done():
    decoder = http1.ChunkedDecoder()
    assert decoder.feed(b"") == b""
    assert not decoder.done


def test_b54_heads_after_each_other():
    """Three pipelined requests come out in order, each from what the one before left."""
    one = b"GET /%d HTTP/1.1\r\nHost: a\r\n\r\n"
    parser = http1.HeadParser()
    data, targets = b"".join(one % i for i in range(3)), []
    while data:
        targets.append(parser.feed(data).target)
        data = parser.trailing
    assert targets == ["/0", "/1", "/2"]


def test_head_survives_buffer_moves():
    """Spans follow the bytes when an unfinished head is continued in a grown buffer."""
    filler = b"".join(b"X-%d: %s\r\n" % (i, b"v" * 200) for i in range(50))
    data = b"POST /mcp HTTP/1.1\r\nHost: h\r\nMcp-Session-Id: s\r\n" + filler + b"Mcp-Name: n\r\n\r\n"
    parser = http1.HeadParser()
    pieces = [data[i : i + 1000] for i in range(0, len(data), 1000)]
    heads = [parser.feed(piece) for piece in pieces]
    assert heads[:-1] == [None] * (len(pieces) - 1)
    assert heads[-1].known == {b"host": b"h", b"mcp-session-id": b"s", b"mcp-name": b"n"}
    assert heads[-1].target == "/mcp"


def test_b51_expectation_with_length_over_any_body_limit_is_visible_before_the_body():
    head = http1.parse_request(
        b"POST /mcp HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n"
    )
    assert head.expect_continue
    assert head.content_length == 99999999999


ACCEPT = [
    (None, (True, True)),
    (b"", (True, True)),
    (b" , ,", (True, True)),
    (b"*/*", (True, True)),
    (b"*", (True, True)),
    (b"application/*, text/*", (True, True)),
    (b"APPLICATION/JSON, Text/Event-Stream", (True, True)),
    (b"application/json;q=0.9, text/event-stream;q=0", (True, False)),
    (b"application/json;Q=0, text/event-stream", (False, True)),
    (b"application/json", (True, False)),
    (b"text/event-stream", (False, True)),
    (b"application/json, text/event-stream", (True, True)),
    (b"text/html", (False, False)),
    (b"text/html, */*;q=0.1", (True, True)),
    (b"*/*, text/event-stream;q=0", (True, False)),
    (b"text/event-stream;q=0.000, */*", (True, False)),
    (b"text/*;q=0, text/event-stream", (False, True)),
    (b"application/*;q=0, */*", (False, True)),
    (b"*/*;q=0", (False, False)),
    (b"*/*;q=0, application/json;q=0.001", (True, False)),
    (b"application/json ; q=0 , text/event-stream ; q=1.0", (False, True)),
    (b'application/json;a="x,y;q=0";q=1', (True, False)),
    (b'application/json;a="\\"";q=0', (False, False)),
    (b"application/json; charset=utf-8, text/event-stream; charset=utf-8", (True, True)),
    (b"application/json;version=2;q=0.5", (True, False)),
    (b"application/jsonx, xapplication/json, application/json-seq", (False, False)),
    (b"*/json", (False, False)),
    (b"application/json;q=,text/html", (True, False)),
    (b"application/json;;q=0", (False, False)),
    (b"(broken, text/event-stream", (False, True)),
    (b"text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2", (True, True)),
    (b'application/json;a="unclosed', (True, False)),
    (b"application/json;a=b c, text/html", (False, False)),
    (b"application/json;a=(b c, text/event-stream", (True, True)),
    (b"application/json\xff, text/event-stream", (False, True)),
]


@pytest.mark.parametrize(("value", "want"), ACCEPT, ids=[str(v) for v, _ in ACCEPT])
def test_b55_accept(value, want):
    assert http1.accepts(value) == want


JSON_TYPES = [
    (b"application/json", True),
    (b"Application/JSON", True),
    (b"application/json; charset=utf-8", True),
    (b'application/json;charset="UTF-8"', True),
    (b"application/json ;\tCharset=utf8 ; x=y", True),
    (b"application/json;", True),
    (b"application/json; charset=latin-1", False),
    (b"application/json; charset=utf-8; charset=utf-16", False),
    (b"application/json; charset", False),
    (b"application/json; charset=", False),
    (b'application/json; charset=""', False),
    (b"application/json, application/json", False),
    (b"application/json x", False),
    (b"application/jsonx", False),
    (b"application/jsonp", False),
    (b"application/jso", False),
    (b"text/plain", False),
    (b"", False),
]


@pytest.mark.parametrize(("value", "want"), JSON_TYPES, ids=[str(v) for v, _ in JSON_TYPES])
def test_b56_json_type(value, want):
    assert http1.is_json_type(value) is want


def test_b56_event_stream_type():
    assert http1.is_event_stream(b"text/event-stream;charset=utf-8")
    assert http1.is_event_stream(b"Text/Event-Stream")
    assert not http1.is_event_stream(b"text/event-streams")
    assert not http1.is_event_stream(b"application/json")


def test_header_line():
    assert http1.header_line("Mcp-Session-Id", "abc") == b"Mcp-Session-Id: abc\r\n"
    assert http1.header_line("X", " a\tb ") == b"X: a\tb\r\n"


@pytest.mark.parametrize(
    ("name", "value"),
    [("", "x"), ("A b", "x"), ("A:", "x"), ("A\r\n", "x"), ("Ä", "x"), ("A", "x\r\nB: c"), ("A", "x\n"),
     ("A", "\0"), ("A", "\x7f"), ("A", "\u2028")],
)  # fmt: skip
def test_header_line_refuses_injection(name, value):
    with pytest.raises(LocalProtocolError):
        http1.header_line(name, value)


def test_get_joins_lines():
    head = http1.parse_request(b"GET / HTTP/1.1\r\nHost: a\r\nAccept: x\r\nACCEPT: y\r\n\r\n")
    assert head.get(b"accept") == b"x, y"
    assert head.get(b"origin") is None
    assert repr(head) == "<Head GET / HTTP/1.1, 3 headers>"


def test_only_bytes_are_taken():
    with pytest.raises(TypeError):
        http1.parse_request(bytearray(b"GET"))
    with pytest.raises(TypeError):
        http1.parse_request(None)


def test_response_head():
    fields = [("Content-Type", "application/json"), ("Mcp-Session-Id", "s")]
    sent = http1.response_head(200, fields, length=12)
    assert sent == (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        b"Mcp-Session-Id: s\r\nContent-Length: 12\r\n\r\n"
    )
    head = http1.parse_response(http1.response_head(404, fields, chunked=True, close=True))
    assert (head.status, head.body, head.keep_alive) == (404, "chunked", False)
    assert http1.parse_response(http1.response_head(299)).reason == ""
    assert b"Content-Length: 0\r\n" in http1.response_head(202, length=0)


def test_request_head():
    sent = http1.request_head("POST", "/mcp", [("Host", "a:80")], length=3)
    assert sent == b"POST /mcp HTTP/1.1\r\nHost: a:80\r\nContent-Length: 3\r\n\r\n"
    head = http1.parse_request(http1.request_head("GET", "/mcp?a=b", [("Host", "a")]))
    assert (head.method, head.target, head.body) == ("GET", "/mcp?a=b", "none")


@pytest.mark.parametrize("target", ["", "/a b", "/a\r\nX: y", "/é", "/a#b"])
def test_request_head_refuses_injection(target):
    with pytest.raises(LocalProtocolError):
        http1.request_head("GET", target, [("Host", "a")])
    with pytest.raises(LocalProtocolError):
        http1.request_head("GET /x", "/", [("Host", "a")])


def test_response_head_refuses_nonsense():
    with pytest.raises(LocalProtocolError):
        http1.response_head(99)
    with pytest.raises(LocalProtocolError):
        http1.response_head(200, [("X", "a\r\n\r\nb")])


def test_chunk_coding_of_any_size_comes_back():
    for size in (1, 9, 10, 15, 16, 255, 256, 4095, 4096, 65537):
        data = bytes(i & 0xFF for i in range(size))
        decoder = http1.ChunkedDecoder()
        assert decoder.feed(http1.encode_chunk(data) + http1.encode_chunk(b"")) == data
        assert decoder.done
